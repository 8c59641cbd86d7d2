// SPDX-License-Identifier: BSD-2-Clause
/*
 * A path that swallows packets between two network namespaces: paths are probed by marked sockets,
 * replied to in the other's XDP, and a queue pair's packets leave for the backup by what
 * the replies report; a whole link that is silent diverts no packet. With a ring, what the path
 * swallowed leaves once more. `paths` is mapped, as the daemon has it.
 */
#define TAP_PLAN 20

#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <sys/mman.h>

#include "pair.h"
#include "path_world.h"
#include "steer_model.h"

#define MARK 0x45734350
#define OWN_PORT 50000
#define BACKUP_PORT 50001
#define PATIENCE_NS 20000000000ull /* for a machine that has much else to do */

struct host {
	struct path_world p;
	int netns, links[2];
};

static struct host a, b;
static struct esc_paths *slots;	  /* of a */
static int sockets[2], wire = -1; /* of a: one for each path; frames that reach b */
static uint32_t generation;

static struct esc_address address_of(int host)
{
	return (struct esc_address){
		.bytes = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 77, [15] = host}};
}

static bool host_open(struct host *h, uint64_t self, uint64_t epoch, uint64_t peer, int peer_host)
{
	struct esc_fleet fleet = probe_fleet_usual();
	struct esc_peer keyed = probe_peer_keyed();

	if (path_world_open(&h->p, &(struct world_options){.rx_in_xdp_only = true}))
		return false;
	fleet.self = self;
	fleet.epoch = epoch;
	fleet.path_max_pps = 1000000;
	probe_set_fleet(&h->p.r.w, &fleet);
	probe_set_peer(&h->p.r.w, peer, &keyed);
	receipt_set_address(&h->p.r, address_of(peer_host), peer, 0);
	return !steer_control(path_kernel(&h->p), ++generation);
}

static bool host_attach(struct host *h, const char *interface)
{
	LIBBPF_OPTS(bpf_link_create_opts, o, .flags = XDP_FLAGS_DRV_MODE);
	struct world *w = path_kernel(&h->p);
	int index;

	if (setns(h->netns, CLONE_NEWNET))
		return false;
	index = if_nametoindex(interface);
	h->links[0] = bpf_link_create(w->programs[WORLD_XDP], index, BPF_XDP, &o);
	h->links[1] = bpf_link_create(w->programs[WORLD_TC_OUT], index, TCX_EGRESS, NULL);
	return h->links[0] >= 0 && h->links[1] >= 0;
}

/* A socket that receives or sends frames, in the namespace that we are in. */
static int open_wire(const char *interface)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = if_nametoindex(interface)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));

	return fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)) ? -1 : fd;
}

/* A program behind ours that drops what leaves with that UDP source port, 0 for all of IPv4. */
static int path_break(uint16_t port)
{
	struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 6, .src_reg = 1},
		{.code = BPF_LD | BPF_ABS | BPF_H, .imm = port ? 34 : 12},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .off = 2, .imm = port ? port : ETH_P_IP},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = -1},
		{.code = BPF_JMP | BPF_EXIT},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 2},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int program = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "breaks", "GPL", code,
				    sizeof(code) / sizeof(*code), NULL);
	int link = bpf_link_create(program, if_nametoindex("pv0"), TCX_EGRESS, NULL);

	close(program);
	return link;
}

/* --- what leaves --- */

static void send_request(int path)
{
	static uint32_t sequence;
	struct path_plan plan = {.target = PEER, .path = path, .sequence = ++sequence};
	struct frame f;

	path_build(&f, &plan);
	if (send(sockets[path], f.data + probe_bth(&f), Q_END, 0) != Q_END)
		printf("# a request was not sent: %s\n", strerror(errno));
}

static uint32_t next_psn;

#define SEND_MIDDLE 0x01
#define READ_MIDDLE 0x0e
#define ACKNOWLEDGE 0x11

static void build_packet(struct frame *f, uint8_t opcode, uint32_t psn)
{
	struct frame_plan plan = {
		.opcode = opcode, .payload = 256, .qpn = 7, .sport = OWN_PORT, .psn = psn};

	if (opcode == ACKNOWLEDGE) {
		plan.payload = 0;
		plan.extension = 4;
		plan.syndrome = 0x1f;
	}
	frame_build(f, &plan);
	memset(f->data, 255, 6);
	memcpy(f->data + 26, "\x0a\x4d\0\x01\x0a\x4d\0\x02", 8);
	frame_seal(f, CHECK_NONE);
}

/* PSNs of the packets of @opcodes that came with @port, in order; spoiled: one was damaged. */
static struct {
	uint16_t port;
	uint8_t opcodes[2];
	uint32_t psns[1000], count;
	bool spoiled;
} diverted = {.port = BACKUP_PORT, .opcodes = {SEND_MIDDLE, SEND_MIDDLE}};

static void note_arrival(const struct frame *got, ssize_t bytes)
{
	struct frame must;

	if (bytes < 54 || frame_get16(got, 34) != diverted.port || diverted.count == 1000 ||
	    (got->data[42] != diverted.opcodes[0] && got->data[42] != diverted.opcodes[1]))
		return;
	diverted.psns[diverted.count] = frame_get16(got, 52) | (uint32_t)got->data[51] << 16;
	build_packet(&must, got->data[42], diverted.psns[diverted.count++]);
	frame_resteer(&must, diverted.port, CHECK_NONE);
	diverted.spoiled |= bytes != must.bytes || memcmp(got->data, must.data, must.bytes);
}

/* The port that our data packet of the newest PSN reached b with; 0: not, or not as it must be. */
static uint16_t take_data(const struct frame *sent)
{
	struct pollfd ready = {.fd = wire, .events = POLLIN};
	static struct frame got;
	struct frame must = *sent;
	ssize_t bytes;

	while (poll(&ready, 1, 5) == 1) {
		bytes = read(wire, got.data, sizeof(got.data));
		note_arrival(&got, bytes);
		if (bytes != sent->bytes || memcmp(got.data + 42, sent->data + 42, 12))
			continue;
		frame_resteer(&must, frame_get16(&got, 34), CHECK_NONE);
		return memcmp(got.data, must.data, must.bytes) ? 0 : frame_get16(&got, 34);
	}
	return 0;
}

static void send_packet(struct frame *f, uint8_t opcode, uint32_t psn)
{
	static int out = -1;

	if (out < 0)
		out = open_wire("pv0");
	build_packet(f, opcode, psn);
	/* A drop behind our program is reported as a lack of room. */
	if (write(out, f->data, f->bytes) != (ssize_t)f->bytes && errno != ENOBUFS)
		printf("# data was not sent: %s\n", strerror(errno));
}

/* Both paths are probed, one packet of data leaves. */
static uint16_t round_once(void)
{
	struct frame f;

	send_request(0);
	send_request(1);
	usleep(1000);
	send_packet(&f, SEND_MIDDLE, next_psn++);
	return take_data(&f);
}

/* Rounds until data arrives with @port; how many there were, 0 for never. */
static uint32_t rounds_until(uint16_t port)
{
	uint64_t until = now_ns() + PATIENCE_NS;
	uint32_t rounds = 0;

	while (now_ns() < until) {
		rounds++;
		if (round_once() == port)
			return rounds;
	}
	return 0;
}

/* --- the story --- */

static bool paths_make(void)
{
	struct esc_path_key way = {.src = address_of(1), .dst = address_of(2)};
	struct esc_paths slot = {.peer = PEER, .key = way};
	struct esc_steer steer = {.number = 1, .flags = ESC_STEER_PATH, .slot = SLOT, .path = 0};
	struct esc_qp_key key = {.src = way.src, .dst = way.dst, .dest_qpn = 7};
	size_t bytes = sizeof(*slots) * ESC_PATH_SLOTS_MAX;

	for (int i = 0; i < 2; i++)
		slot.paths[i] = (struct esc_path){.sport = OWN_PORT + i,
						  .deadline_ns = 20000000,
						  .backup = i ? ESC_PATH_NONE : 1};
	slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, receipt_fd(&a.p.r, "paths"),
		     0);
	if (slots == MAP_FAILED)
		return false;
	slots[SLOT] = slot;
	path_find_slot(&a.p, &way);
	return !steer_rule(path_kernel(&a.p), &key, &steer) &&
	       !steer_control(path_kernel(&a.p), ++generation);
}

static void test_silence(void)
{
	const struct esc_path *path = slots[SLOT].paths;
	uint64_t until;
	int broken;

	tap_ok(rounds_until(OWN_PORT) && path[0].replies && path[1].replies,
	       "paths are probed and replied to, data leaves unchanged");
	broken = path_break(0);
	until = now_ns() + 100000000;
	while (now_ns() < until)
		round_once();
	tap_ok(path[0].live.unconfirmed > 3 && path[1].live.unconfirmed > 3 && !path[0].diverted_ns,
	       "100 ms of silence on all paths, five deadlines: no packet is diverted");
	close(broken);
	tap_ok(rounds_until(OWN_PORT) && !path[0].diverted_ns,
	       "and the first packet behind it takes its own port");
}

static void test_death(void)
{
	struct esc_path *path = slots[SLOT].paths;
	uint64_t broken_ns = now_ns();
	int broken = path_break(OWN_PORT);
	uint32_t rounds = rounds_until(BACKUP_PORT);

	tap_ok(rounds > 1 && path[0].diverted && path[0].diverted_ns >= broken_ns + 20000000,
	       "one path fails: data leaves by the backup, its ICRC right, once the deadline is "
	       "over");
	printf("# after %u rounds, %.1f ms\n", rounds, (now_ns() - broken_ns) / 1e6);
	close(broken);
	for (int i = 0; i < 20; i++)
		round_once();
	tap_ok(round_once() == BACKUP_PORT && !path[0].live.unconfirmed,
	       "it is up again: data stays until the daemon reports it");
	__atomic_store_n(&path[0].diverted_ns, 0, __ATOMIC_SEQ_CST);
	tap_ok(rounds_until(OWN_PORT), "then it goes back");
	tap_ok(probe_reason_is(&b.p.r.w, WORLD_XDP, -1, 0), "nothing was refused");
}

/* --- a ring --- */

#define REPAIR_WAIT_NS 10000000ull /* bpf/lib/ring.bpf.h */

static struct esc_repair_ring *ring;

static bool ring_make(const struct esc_qp_key *key)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ring", 4, sizeof(*ring), 1, &o);
	uint32_t zero = 0;

	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		return false;
	ring->key = *key;
	return !bpf_map_update_elem(receipt_fd(&a.p.r, "repair_rings"), &zero, &fd, BPF_ANY);
}

/* As after an acknowledgement of all before @psn. */
static bool acknowledge(uint32_t psn)
{
	struct esc_qp_key key = {.src = address_of(2),
				 .dst = address_of(1),
				 .dest_qpn = 9,
				 .direction = ESC_DIRECTION_RX};
	static struct esc_qp qp;

	qp.responses.flags = ESC_PSN_VALID;
	qp.responses.next = psn;
	return !bpf_map_update_elem(receipt_fd(&a.p.r, "qps"), &key, &qp, BPF_ANY);
}

static bool rule_with_ring(uint32_t number)
{
	struct esc_qp_key key = {.src = address_of(1), .dst = address_of(2), .dest_qpn = 7};
	struct esc_steer steer = {.number = number,
				  .flags = ESC_STEER_PATH | ESC_STEER_REVERSE,
				  .slot = SLOT,
				  .reverse_qpn = 9,
				  .ring = 1};

	return !steer_rule(path_kernel(&a.p), &key, &steer) &&
	       !steer_control(path_kernel(&a.p), ++generation);
}

static bool is_run(uint32_t first, uint32_t end)
{
	for (uint32_t i = 0; i < end - first; i++)
		if (i >= diverted.count || diverted.psns[i] != first + i)
			return false;
	return true;
}

/* How long a packet takes while the CPU @cpu is said to send copies. */
static uint64_t send_beside(uint32_t cpu)
{
	uint64_t begun_ns = now_ns();
	struct frame f;

	ring->busy = 1 + cpu;
	send_packet(&f, SEND_MIDDLE, next_psn++);
	ring->busy = 0;
	return now_ns() - begun_ns;
}

/* Before Linux 6.3 packets may interrupt what sends copies, which would wait for itself. */
static void test_repair_wait(void)
{
	uint64_t other_ns = UINT64_MAX, own_ns = UINT64_MAX, took_ns;
	uint32_t cpu = sched_getcpu();
	cpu_set_t before, only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	sched_getaffinity(0, sizeof(before), &before);
	sched_setaffinity(0, sizeof(only), &only);
	for (int i = 0; i < 5; i++) {
		took_ns = send_beside(cpu + 1);
		other_ns = took_ns < other_ns ? took_ns : other_ns;
		took_ns = send_beside(cpu);
		own_ns = took_ns < own_ns ? took_ns : own_ns;
	}
	sched_setaffinity(0, sizeof(before), &before);
	printf("# %.1f ms beside another CPU's, %.1f ms beside its own\n", other_ns / 1e6,
	       own_ns / 1e6);
	tap_ok(other_ns >= REPAIR_WAIT_NS && own_ns < REPAIR_WAIT_NS,
	       "a packet waits for another CPU that sends copies, and not for its own");
}

static void test_repair(void)
{
	struct esc_path *path = slots[SLOT].paths;
	struct esc_qp_key key = {.src = address_of(1), .dst = address_of(2), .dest_qpn = 7};
	uint32_t first, rounds;
	uint64_t repairs;
	int broken;

	if (!tap_ok(ring_make(&key) && rule_with_ring(2) && rounds_until(OWN_PORT),
		    "a rule with a ring"))
		return;
	/* More than the ring has room for. */
	for (int i = 0; i < 2 * (int)ESC_REPAIR_PACKETS; i++)
		round_once();
	tap_ok(ring->kept > ESC_REPAIR_PACKETS && !ring->missed && !ring->replayed,
	       "each packet is kept, none leaves twice");
	diverted.count = 0;
	first = next_psn;
	broken = path_break(OWN_PORT);
	acknowledge(first + 2);
	rounds = rounds_until(BACKUP_PORT);
	if (!tap_ok(rounds > 3 && is_run(first + 2, next_psn) && !diverted.spoiled,
		    "the path fails: what is not acknowledged leaves by the backup, in order and "
		    "before anything new"))
		printf("# %u rounds from PSN %u, acknowledged before %u; %u arrived from PSN %u "
		       "on\n",
		       rounds, first, first + 2, diverted.count, diverted.psns[0]);
	printf("# %llu of %u packets were sent once more\n", ring->replayed, rounds);
	for (int i = 0; i < 20; i++)
		round_once();
	tap_ok(ring->repairs == 1 && ring->replayed == rounds - 3 && !ring->overruns,
	       "once: what follows leaves once");
	repairs = ring->repairs;
	tap_ok(rule_with_ring(3) && round_once() == BACKUP_PORT && round_once() == BACKUP_PORT &&
		       ring->repairs == repairs && ring->replayed == rounds - 3,
	       "the rule is published again: what left by the backup does not leave again");
	test_repair_wait();
	close(broken);
	__atomic_store_n(&path[0].diverted_ns, 0, __ATOMIC_SEQ_CST);
}

/* The packets that are lost first are repaired, however late the report on those before comes. */
static void test_repair_late_report(void)
{
	struct esc_path *path = slots[SLOT].paths;
	uint32_t first, rounds;
	struct frame f;
	int broken;

	if (!tap_ok(rounds_until(OWN_PORT), "the path is in use again"))
		return;
	diverted.count = 0;
	first = next_psn;
	broken = path_break(OWN_PORT);
	acknowledge(first);
	for (int i = 0; i < 3; i++)
		send_packet(&f, SEND_MIDDLE, next_psn++);
	usleep(15000); /* more than half of the deadline */
	/* As by a report on a packet of before the failure. */
	__atomic_store_n(&path[0].live.unconfirmed, 0, __ATOMIC_SEQ_CST);
	rounds = rounds_until(BACKUP_PORT);
	if (!tap_ok(rounds && is_run(first, next_psn),
		    "a late report: what was lost before it is sent once more as well"))
		printf("# %u rounds from PSN %u; %u arrived from PSN %u on\n", rounds, first,
		       diverted.count, diverted.psns[0]);
	close(broken);
	for (int i = 0; i < 20; i++)
		round_once();
	tap_ok(round_once() == BACKUP_PORT && !path[0].live.unconfirmed,
	       "the path is up again, in hold-down");
	diverted.port = OWN_PORT;
	diverted.count = 0;
	first = next_psn;
	broken = path_break(BACKUP_PORT);
	acknowledge(first);
	rounds = rounds_until(OWN_PORT);
	if (!tap_ok(rounds > 1 && is_run(first, next_psn) && !diverted.spoiled,
		    "the backup fails: what it lost leaves by the path, in order"))
		printf("# %u rounds from PSN %u; %u arrived from PSN %u on\n", rounds, first,
		       diverted.count, diverted.psns[0]);
	close(broken);
	__atomic_store_n(&path[0].diverted_ns, 0, __ATOMIC_SEQ_CST);
	tap_ok(rounds_until(OWN_PORT), "it stays there");
}

/* Of acknowledgements the newest alone leaves again, and only when no READ response followed. */
static void test_repair_responses(void)
{
	static const struct {
		uint8_t opcode;
		uint32_t psn;
	} lost[2][6] = {{{ACKNOWLEDGE, 100},
			 {READ_MIDDLE, 101},
			 {READ_MIDDLE, 102},
			 {ACKNOWLEDGE, 103},
			 {ACKNOWLEDGE, 104}},
			{{ACKNOWLEDGE, 200},
			 {READ_MIDDLE, 201},
			 {ACKNOWLEDGE, 202},
			 {ACKNOWLEDGE, 203},
			 {READ_MIDDLE, 204}}};
	static const uint32_t again[2][3] = {{101, 102, 104}, {201, 204}};
	struct esc_path *path = slots[SLOT].paths;

	diverted.port = BACKUP_PORT;
	diverted.opcodes[0] = READ_MIDDLE;
	diverted.opcodes[1] = ACKNOWLEDGE;
	for (int i = 0; i < 2; i++) {
		uint32_t wanted = again[i][2] ? 3 : 2;
		struct frame f;
		int broken;

		rounds_until(OWN_PORT);
		diverted.count = 0;
		broken = path_break(OWN_PORT);
		for (int k = 0; lost[i][k].opcode; k++)
			send_packet(&f, lost[i][k].opcode, lost[i][k].psn);
		rounds_until(BACKUP_PORT);
		if (!tap_ok(diverted.count == wanted && !diverted.spoiled &&
				    !memcmp(diverted.psns, again[i], wanted * sizeof(**again)),
			    i ? "acknowledgements that a READ response follows are not sent again"
			      : "READ responses and the newest acknowledgement are sent again"))
			printf("# %u: %u, %u, %u\n", diverted.count, diverted.psns[0],
			       diverted.psns[1], diverted.psns[2]);
		close(broken);
		__atomic_store_n(&path[0].diverted_ns, 0, __ATOMIC_SEQ_CST);
	}
}

static bool begin(pid_t other)
{
	a.netns = pair_open_namespace(getpid());
	b.netns = pair_open_namespace(other);
	if (!host_open(&a, SELF, OWN_EPOCH, PEER, 2) || !host_open(&b, PEER, PEER_EPOCH, SELF, 1))
		return tap_ok(false, "the programs load");
	if (!host_attach(&b, "pv1")) {
		tap_skip("live paths over veth", "the kernel does not attach TCX or native XDP");
		return false;
	}
	wire = open_wire("pv1");
	if (wire < 0 || !host_attach(&a, "pv0") || !paths_make())
		return tap_ok(false, "programs, sockets and paths are there");
	for (int i = 0; i < 2; i++)
		sockets[i] = pair_open_socket(4, MARK, OWN_PORT + i);
	for (int i = 0; i < 2; i++)
		world_allow(path_kernel(&a.p), sockets[i]);
	return sockets[0] >= 0 && sockets[1] >= 0 ? true : tap_ok(false, "sockets are there");
}

int main(void)
{
	pid_t other = pair_make_namespace();

	if (other < 0 || !pair_make_link(other)) {
		tap_skip("live paths over veth", "no network namespaces with a veth pair");
	} else if (begin(other)) {
		test_silence();
		test_death();
		test_repair();
		test_repair_late_report();
		test_repair_responses();
	}
	if (other > 0) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	return tap_end();
}
