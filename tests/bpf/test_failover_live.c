// SPDX-License-Identifier: BSD-2-Clause
/*
 * A path that swallows packets between two network namespaces: lanes are probed by marked sockets,
 * answered in the other's XDP, and a queue pair's packets leave for the standby by what
 * the answers say; a whole link that is silent diverts nobody. `paths` is mapped, as the daemon has
 * it.
 */
#define TAP_PLAN 7

#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <sys/mman.h>

#include "pair.h"
#include "path_world.h"
#include "steer_model.h"

#define MARK 0x45734350
#define OWN_PORT 50000
#define STANDBY_PORT 50001
#define PATIENCE_NS 20000000000ull /* for a machine that has much else to do */

struct host {
	struct path_world p;
	int netns, links[2];
};

static struct host a, b;
static struct esc_paths *slots;	  /* of a */
static int sockets[2], wire = -1; /* of a: one for each lane; frames that reach b */
static uint32_t generation;

static struct esc_address address_of(int host)
{
	return (struct esc_address){
		.bytes = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 77, [15] = host}};
}

static bool host_open(struct host *h, uint64_t self, uint64_t epoch, uint64_t peer, int peer_host)
{
	struct esc_fleet fleet = probe_fleet_usual();

	if (path_world_open(&h->p, &(struct world_options){.rx_in_xdp_only = true}))
		return false;
	fleet.self = self;
	fleet.epoch = epoch;
	fleet.path_max_pps = 1000000;
	probe_set_fleet(&h->p.r.w, &fleet);
	probe_set_peer(&h->p.r.w, peer, &(struct esc_peer){.name = "the other"});
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

/* A socket that hears or sends frames, in the namespace that we are in. */
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

static void build_data(struct frame *f)
{
	static uint32_t psn;
	struct frame_plan plan = {
		.opcode = 0x01, .payload = 256, .qpn = 7, .sport = OWN_PORT, .psn = psn++};

	frame_build(f, &plan);
	memset(f->data, 255, 6);
	memcpy(f->data + 26, "\x0a\x4d\0\x01\x0a\x4d\0\x02", 8);
	frame_seal(f, CHECK_NONE);
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
		if (bytes != sent->bytes || memcmp(got.data + 42, sent->data + 42, 12))
			continue;
		frame_resteer(&must, frame_get16(&got, 34), CHECK_NONE);
		return memcmp(got.data, must.data, must.bytes) ? 0 : frame_get16(&got, 34);
	}
	return 0;
}

/* Both lanes are probed, one packet of data leaves. */
static uint16_t round_once(void)
{
	struct frame f;
	static int out = -1;

	if (out < 0)
		out = open_wire("pv0");
	send_request(0);
	send_request(1);
	usleep(1000);
	build_data(&f);
	/* A drop behind our program is told as a lack of room. */
	if (write(out, f.data, f.bytes) != (ssize_t)f.bytes && errno != ENOBUFS)
		printf("# data was not sent: %s\n", strerror(errno));
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
	return !steer_order(path_kernel(&a.p), &key, &steer) &&
	       !steer_control(path_kernel(&a.p), ++generation);
}

static void test_silence(void)
{
	const struct esc_path *path = slots[SLOT].paths;
	uint64_t until;
	int broken;

	tap_ok(rounds_until(OWN_PORT) && path[0].replies && path[1].replies,
	       "lanes are probed and answered, data leaves as it came");
	broken = path_break(0);
	until = now_ns() + 100000000;
	while (now_ns() < until)
		round_once();
	tap_ok(path[0].live.unconfirmed > 3 && path[1].live.unconfirmed > 3 && !path[0].diverted_ns,
	       "100 ms of silence on all lanes, five deadlines: nobody is diverted");
	close(broken);
	tap_ok(rounds_until(OWN_PORT) && !path[0].diverted_ns,
	       "and the first packet behind it takes its own port");
}

static void test_death(void)
{
	struct esc_path *path = slots[SLOT].paths;
	uint64_t broken_ns = now_ns();
	int broken = path_break(OWN_PORT);
	uint32_t rounds = rounds_until(STANDBY_PORT);

	tap_ok(rounds > 1 && path[0].diverted && path[0].diverted_ns >= broken_ns + 20000000,
	       "one path dies: data leaves by the standby, its ICRC right, once the deadline is "
	       "over");
	printf("# after %u rounds, %.1f ms\n", rounds, (now_ns() - broken_ns) / 1e6);
	close(broken);
	for (int i = 0; i < 20; i++)
		round_once();
	tap_ok(round_once() == STANDBY_PORT && !path[0].live.unconfirmed,
	       "it lives again: data stays until the daemon says so");
	__atomic_store_n(&path[0].diverted_ns, 0, __ATOMIC_SEQ_CST);
	tap_ok(rounds_until(OWN_PORT), "then it goes back");
	tap_ok(probe_reason_is(&b.p.r.w, WORLD_XDP, -1, 0), "nothing was refused");
}

static bool begin(pid_t other)
{
	a.netns = pair_open_namespace(getpid());
	b.netns = pair_open_namespace(other);
	if (!host_open(&a, SELF, OWN_EPOCH, PEER, 2) || !host_open(&b, PEER, PEER_EPOCH, SELF, 1))
		return tap_ok(false, "the programs load");
	if (!host_attach(&b, "pv1")) {
		tap_skip("live lanes over veth", "the kernel does not attach TCX or native XDP");
		return false;
	}
	wire = open_wire("pv1");
	if (wire < 0 || !host_attach(&a, "pv0") || !paths_make())
		return tap_ok(false, "programs, sockets and lanes are there");
	for (int i = 0; i < 2; i++)
		sockets[i] = pair_open_socket(4, MARK, OWN_PORT + i);
	return sockets[0] >= 0 && sockets[1] >= 0 ? true : tap_ok(false, "sockets are there");
}

int main(void)
{
	pid_t other = pair_make_namespace();

	if (other < 0 || !pair_make_link(other)) {
		tap_skip("live lanes over veth", "no network namespaces with a veth pair");
	} else if (begin(other)) {
		test_silence();
		test_death();
	}
	if (other > 0) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	return tap_end();
}
