// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repair after a NIC failure, on two links in a network namespace: what left by the first NIC and
 * may be lost leaves once more by the second one, in UDP, unchanged, in order and before anything
 * new; nothing else does.
 */
#define TAP_PLAN 34

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include "nic_world.h"

#define TCX_EGRESS 47 /* newer than the headers of the distribution */
#define QPN 7
#define BACK_QPN 9
#define OUTER_BYTES (20 + 8 + 16)

enum {
	SEND = 0x04,
	WRITE = 0x08,
	READ = 0x0c,
	MIDDLE = 0x0e,
	ACK = 0x11,
	ATOMIC = 0x13,
	INVALIDATE = 0x17
};
enum { FIRST, SECOND, LINKS };

static int wires[LINKS], out_wire;
static struct esc_address ours, peers;
static struct esc_repair_ring *ring;

/* --- links --- */

static bool shell(const char *command)
{
	int status = system(command);

	if (status)
		printf("# failed (%d): %s\n", status, command);
	return !status;
}

static int open_wire(const char *interface)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = if_nametoindex(interface)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL)), room = 8 << 20;

	return fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
			       bind(fd, (struct sockaddr *)&to, sizeof(to))
		       ? -1
		       : fd;
}

static bool links_make(void)
{
	if (unshare(CLONE_NEWNET) ||
	    !shell("for i in 0 1; do ip link add n$i type veth peer name p$i && ip link set n$i up "
		   "&& "
		   "ip link set p$i up && ip -6 addr flush dev p$i || exit 1; done; "
		   "ip addr add 10.9.0.2/24 dev n1 && ip route add 10.8.0.0/16 dev n1 && "
		   "ip neigh replace 10.8.0.2 lladdr 02:00:00:00:00:02 dev n1 && "
		   "ip neigh replace 10.8.0.1 lladdr 02:00:00:00:00:01 dev n1"))
		return false;
	wires[FIRST] = open_wire("p0");
	wires[SECOND] = open_wire("p1");
	out_wire = open_wire("n0");
	return bpf_link_create(out_fd, if_nametoindex("n0"), TCX_EGRESS, NULL) >= 0;
}

/* --- packets --- */

static void build(struct frame *f, uint8_t opcode, uint32_t psn)
{
	struct frame_plan plan = {
		.opcode = opcode, .payload = 256, .qpn = QPN, .psn = psn, .source_host = 3};

	if (opcode == ACK) {
		plan.payload = 0;
		plan.extension = 4;
		plan.syndrome = 0x1f;
	}
	frame_build(f, &plan);
	memset(f->data, 2, 6);
}

static void transmit(uint8_t opcode, uint32_t psn)
{
	struct frame f;

	build(&f, opcode, psn);
	/* A drop is reported as a lack of room. */
	if (write(out_wire, f.data, f.bytes) != (ssize_t)f.bytes && errno != ENOBUFS)
		printf("# not sent: %s\n", strerror(errno));
}

/* What has come by either link since, in order. */
static struct {
	uint32_t psns[1200], count;
	bool spoiled;
} got[LINKS];

static void note(int link, const uint8_t *data, ssize_t bytes)
{
	uint32_t outer = link == SECOND ? OUTER_BYTES : 0;
	const uint8_t *bth = data + 14 + outer + 28;
	struct frame must;

	if (bytes < 14 + (ssize_t)outer + 40 || data[12] != 8 || data[13] ||
	    data[23] != IPPROTO_UDP || got[link].count == 1200)
		return;
	got[link].psns[got[link].count] = bth[9] << 16 | bth[10] << 8 | bth[11];
	build(&must, bth[0], got[link].psns[got[link].count++]);
	got[link].spoiled |= bytes != (ssize_t)(must.bytes + outer) ||
			     memcmp(data + 14 + outer, must.data + 14, must.bytes - 14);
}

static void take(void)
{
	uint8_t data[4096];
	ssize_t bytes;

	memset(got, 0, sizeof(got));
	usleep(50000);
	for (int link = 0; link < LINKS; link++)
		while ((bytes = read(wires[link], data, sizeof(data))) > 0)
			note(link, data, bytes);
}

/* Exactly the PSNs of @list, which ends with 0. */
static bool came(int link, const uint32_t *list)
{
	uint32_t i = 0;

	while (list[i] && i < got[link].count && got[link].psns[i] == list[i])
		i++;
	if (!list[i] && i == got[link].count && !got[link].spoiled)
		return true;
	printf("# link %d:", link);
	for (uint32_t k = 0; k < got[link].count && k < 20; k++)
		printf(" %u", got[link].psns[k]);
	printf("%s; wanted:", got[link].spoiled ? " (spoiled)" : "");
	for (uint32_t k = 0; list[k] && k < 20; k++)
		printf(" %u", list[k]);
	printf("\n");
	return false;
}

#define LIST(...) ((const uint32_t[]){__VA_ARGS__ __VA_OPT__(, ) 0})

/* --- the state of the NICs --- */

static void set_nics(uint16_t flags)
{
	struct esc_nic_local local = {
		.first_ifindex = if_nametoindex("n0"),
		.second_ifindex = if_nametoindex("n1"),
		.deliver_ifindex = if_nametoindex("n0"),
		.first_mtu = 1500,
		.second_mtu = 1500,
		.flags = ESC_NIC_PAIRED | flags,
		.first = address_of("10.9.0.1"),
		.second = address_of("10.9.0.2"),
	};

	bpf_map_update_elem(map_fd(nic_local), &ours, &local, BPF_ANY);
	set_word(ESC_NIC_ON | ESC_NIC_REPAIR, flags != 0, FRESH);
}

/* As after acknowledgements of all before @psn. */
static void acknowledge(uint32_t psn)
{
	static struct esc_qp qp;
	struct esc_qp_key key = {
		.src = peers, .dst = ours, .dest_qpn = BACK_QPN, .direction = ESC_DIRECTION_RX};

	qp.responses.flags = ESC_PSN_VALID;
	qp.responses.next = psn;
	bpf_map_update_elem(map_fd(qps), &key, &qp, BPF_ANY);
	ring->back = key;
	ring->has_back = 1;
}

/* Both NICs are up, no packet has been sent. */
static void begin(void)
{
	forget_rings();
	ring = make_ring(1);
	kernel->bss->nic_repair_age_ns = 60000000000ull;
	set_peer(&peers, "10.8.0.1", "10.8.0.2", HOME_ID, 0);
	set_nics(0);
	take();
}

static void send_run(uint32_t first, uint32_t end)
{
	for (uint32_t psn = first; psn < end; psn++)
		transmit(SEND, psn);
}

/* Five requests by the first NIC, of which two were acknowledged. */
static void begin_usual(void)
{
	begin();
	send_run(100, 105);
	acknowledge(102);
	take();
}

/* --- which packets --- */

static const struct which {
	const char *name;
	struct {
		uint8_t opcode;
		uint32_t psn;
	} sent[8];
	uint32_t acknowledged; /* before; 0: not known */
	uint32_t next;	       /* new, behind the failure */
	uint32_t wanted[8];
	bool last_only;
} whiches[] = {
	{"requests that are not acknowledged",
	 {{SEND, 100}, {WRITE, 101}, {SEND, 102}, {WRITE, 103}},
	 102,
	 104,
	 {102, 103, 104},
	 false},
	{"READ, atomics and SEND with invalidate as well",
	 {{READ, 100}, {READ, 101}, {ATOMIC, 102}, {INVALIDATE, 103}},
	 101,
	 104,
	 {101, 102, 103, 104},
	 false},
	{"none, when all is acknowledged", {{SEND, 100}, {READ, 101}}, 102, 102, {102}, false},
	{"READ responses, and the newest acknowledgement behind them",
	 {{ACK, 100}, {MIDDLE, 101}, {MIDDLE, 102}, {ACK, 103}, {ACK, 104}},
	 0,
	 1000,
	 {101, 102, 104, 1000},
	 false},
	{"no acknowledgement that a READ response followed",
	 {{ACK, 200}, {MIDDLE, 201}, {ACK, 202}, {ACK, 203}, {MIDDLE, 204}},
	 0,
	 1000,
	 {201, 204, 1000},
	 false},
	{"where it is not known what was acknowledged: the newest SEND or WRITE",
	 {{SEND, 100}, {WRITE, 101}, {READ, 102}, {INVALIDATE, 103}},
	 0,
	 104,
	 {101, 104},
	 false},
	{"`provoke`: the newest request and the newest response",
	 {{SEND, 100}, {ACK, 50}, {SEND, 101}, {ACK, 51}, {READ, 102}},
	 101,
	 103,
	 {102, 51, 103},
	 true},
	{"requests of before the first response",
	 {{SEND, 100}, {SEND, 101}, {ACK, 8000000}},
	 100,
	 102,
	 {100, 101, 8000000, 102},
	 false},
	{"of another connection, also before its first response",
	 {{SEND, 100}, {ACK, 50}, {SEND, 9000000}, {SEND, 9000001}, {ACK, 8000000}},
	 9000000,
	 9000002,
	 {9000000, 9000001, 8000000, 9000002},
	 false},
	{"of another connection with the same number nothing",
	 {{SEND, 100}, {SEND, 101}, {SEND, 9000000}, {SEND, 9000001}},
	 9000000,
	 9000002,
	 {9000000, 9000001, 9000002},
	 false},
};

static void test_which(const struct which *w)
{
	begin();
	ring->last_only = w->last_only;
	for (int i = 0; w->sent[i].opcode; i++)
		transmit(w->sent[i].opcode, w->sent[i].psn);
	if (w->acknowledged)
		acknowledge(w->acknowledged);
	take();
	set_nics(ESC_NIC_FIRST_DOWN);
	transmit(SEND, w->next);
	take();
	tap_ok(came(SECOND, w->wanted) && came(FIRST, LIST()), "sent once more: %s", w->name);
}

/* --- when --- */

/* The carrier itself: no daemon has to see it. */
static void test_carrier(void)
{
	begin_usual();
	tap_ok(came(FIRST, LIST(100, 101, 102, 103, 104)) && came(SECOND, LIST()) &&
		       ring->kept == 5,
	       "packets leave by the first NIC, a copy of each is kept");
	shell("ip link set p0 down");
	usleep(50000);
	transmit(SEND, 105);
	take();
	tap_ok(came(SECOND, LIST(102, 103, 104, 105)),
	       "it loses its carrier: what is not acknowledged leaves by the other one, in order, "
	       "then the packet that found it");
	transmit(SEND, 106);
	take();
	tap_ok(came(SECOND, LIST(106)) && ring->repairs == 1 && ring->replayed == 3 &&
		       !ring->overruns,
	       "once: what follows leaves once");
	shell("ip link set p0 up");
	usleep(50000);
}

static void test_return(void)
{
	begin_usual();
	set_nics(ESC_NIC_FIRST_DOWN);
	transmit(SEND, 105);
	take();
	set_word(ESC_NIC_ON | ESC_NIC_REPAIR, 1, FRESH);
	set_nics(0);
	set_word(ESC_NIC_ON | ESC_NIC_REPAIR, 1, FRESH);
	transmit(SEND, 106);
	take();
	tap_ok(came(FIRST, LIST(106)) && came(SECOND, LIST()) && ring->repairs == 1,
	       "the NIC returns: nothing is sent once more");
	set_nics(ESC_NIC_FIRST_DOWN);
	transmit(SEND, 107);
	take();
	tap_ok(came(SECOND, LIST(106, 107)),
	       "it fails again: what took it since, not what took the other one");
}

/* Back-to-back packets; where this process was not kept from running between them. */
static void test_return_waits(void)
{
	uint64_t began_ns;
	int tries = 0;

	do {
		begin_usual();
		set_nics(ESC_NIC_FIRST_DOWN);
		transmit(SEND, 105);
		usleep(20000);
		began_ns = now_ns();
		transmit(SEND, 106);
		set_nics(0);
		set_word(ESC_NIC_ON | ESC_NIC_REPAIR, 1, FRESH);
		transmit(SEND, 107);
	} while (now_ns() - began_ns > 3000000 && ++tries < 100);
	take();
	tap_ok(came(SECOND, LIST(102, 103, 104, 105, 106, 107)) && came(FIRST, LIST()),
	       "the NIC returns between two packets: the second does not overtake the first");
	transmit(SEND, 108);
	take();
	tap_ok(came(FIRST, LIST(108)) && came(SECOND, LIST()), "it is used again at a gap");
}

static void test_backup_fails(void)
{
	begin_usual();
	set_nics(ESC_NIC_FIRST_DOWN);
	transmit(SEND, 105);
	take();
	set_nics(ESC_NIC_SECOND_DOWN);
	transmit(SEND, 106);
	take();
	tap_ok(came(FIRST, LIST(102, 103, 104, 105, 106)) && came(SECOND, LIST()),
	       "the other NIC fails as well, the first is up: copies and what followed leave by "
	       "it");
}

static void test_no_route(void)
{
	begin_usual();
	set_nics(ESC_NIC_FIRST_DOWN | ESC_NIC_SECOND_DOWN);
	send_run(105, 107);
	take();
	tap_ok(came(FIRST, LIST()) && came(SECOND, LIST()), "both NICs are dead: nothing leaves");
	set_nics(ESC_NIC_FIRST_DOWN);
	transmit(SEND, 107);
	take();
	tap_ok(came(SECOND, LIST(102, 103, 104, 105, 106, 107)),
	       "the other one is up: all that was lost and held leaves, in order");
	begin_usual();
	set_nics(ESC_NIC_FIRST_DOWN | ESC_NIC_SECOND_DOWN);
	transmit(SEND, 105);
	set_nics(0);
	set_word(ESC_NIC_ON | ESC_NIC_REPAIR, 1, FRESH);
	take();
	transmit(SEND, 106);
	take();
	tap_ok(came(FIRST, LIST(102, 103, 104, 105, 106)), "the first is up again: the same by it");
}

static void test_peer(void)
{
	begin_usual();
	set_word(ESC_NIC_ON | ESC_NIC_REPAIR, 1, FRESH);
	set_peer(&peers, "10.8.0.1", "10.8.0.2", HOME_ID, now_ns() + FRESH);
	transmit(SEND, 105);
	take();
	tap_ok(came(SECOND, LIST(102, 103, 104, 105)), "the peer's NIC is dead: the same");
}

static void test_age(void)
{
	begin_usual();
	kernel->bss->nic_repair_age_ns = 1000000000;
	usleep(1200000);
	transmit(SEND, 105);
	set_nics(ESC_NIC_FIRST_DOWN);
	take();
	transmit(SEND, 106);
	take();
	tap_ok(came(SECOND, LIST(105, 106)), "what was sent long before is not sent once more");
}

/* More than the ring has room for is not acknowledged. */
static void test_overrun(void)
{
	const uint32_t most = ESC_REPAIR_PACKETS + 100;
	uint64_t began_ns;
	bool good = true;

	begin();
	for (uint32_t i = 0; i < most; i += 50) {
		send_run(100 + i, 100 + (i + 50 < most ? i + 50 : most));
		take();
	}
	acknowledge(101);
	set_nics(ESC_NIC_FIRST_DOWN);
	began_ns = now_ns();
	transmit(SEND, 100 + most);
	printf("# %llu copies in %.0f us\n", ring->replayed, (now_ns() - began_ns) / 1e3);
	take();
	for (uint32_t i = 0; i < got[SECOND].count; i++)
		good = good && got[SECOND].psns[i] == 101 + most - got[SECOND].count + i;
	tap_ok(good && got[SECOND].count > ESC_REPAIR_PACKETS / 2 &&
		       got[SECOND].count <= ESC_REPAIR_PACKETS + 1 && ring->overruns == 1,
	       "a ring that is too small: the newest are sent in order (%u), and it is counted",
	       got[SECOND].count);
}

/* --- the daemon starts it --- */

/* How many copies were sent. */
static int order(uint32_t flags)
{
	struct {
		struct ethhdr ethernet;
		struct esc_nic_order order;
	} __attribute__((packed))
	f = {.ethernet.h_proto = htons(ETH_P_IP), .order = {.ring = 1, .flags = flags}};
	struct __sk_buff context = {.ifindex = if_nametoindex("n0")};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = &f, .data_size_in = sizeof(f),
		    .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);

	return bpf_prog_test_run_opts(bpf_program__fd(kernel->progs.esc_nic_repair), &o)
		       ? -1
		       : (int)o.retval;
}

static void test_order(void)
{
	int sent;

	begin_usual();
	tap_ok(order(0) == 0, "nothing is dead: an order sends nothing");
	set_nics(ESC_NIC_FIRST_DOWN);
	sent = order(0);
	take();
	tap_ok(sent == 3 && came(SECOND, LIST(102, 103, 104)),
	       "a queue pair with nothing to send: the daemon's order does it");
	tap_ok(order(0) == 0, "once");
	sent = order(ESC_NIC_ORDER_AGAIN);
	take();
	tap_ok(sent == 1 && came(SECOND, LIST(104)),
	       "nothing was acknowledged since: the newest request is sent again");
	acknowledge(103);
	tap_ok(order(ESC_NIC_ORDER_AGAIN) == 0, "something was: it is not");
	acknowledge(105);
	tap_ok(order(ESC_NIC_ORDER_AGAIN) == 0, "nor when all was");
	transmit(SEND, 105);
	take();
	tap_ok(came(SECOND, LIST(105)), "what follows leaves once");
	ring->path = ESC_NIC_ROUTE_DIRECT;
	set_word(ESC_NIC_ON | ESC_NIC_REPAIR, 1, -FRESH);
	tap_ok(order(0) == 0, "without a daemon nothing is sent");
}

/* A failure that costs no packet of others: one of an application has the mark of copies. */
static void test_mark(void)
{
	int mark = ESC_REPAIR_MARK;

	begin_usual();
	setsockopt(out_wire, SOL_SOCKET, SO_MARK, &mark, sizeof(mark));
	transmit(SEND, 105);
	take();
	tap_ok(came(FIRST, LIST(105)) && ring->kept == 6,
	       "an application's packet with the mark of copies leaves like any other");
	set_nics(ESC_NIC_FIRST_DOWN);
	transmit(SEND, 106);
	take();
	tap_ok(came(SECOND, LIST(102, 103, 104, 105, 106)), "also when the NIC is dead");
	mark = 0;
	setsockopt(out_wire, SOL_SOCKET, SO_MARK, &mark, sizeof(mark));
}

int main(void)
{
	struct frame f;

	if (!nic_world_open() || !links_make())
		return tap_bail("the programs of NIC failover load, on two links");
	build(&f, SEND, 1);
	addresses_of(&f, &ours, &peers);
	test_carrier();
	for (size_t i = 0; i < sizeof(whiches) / sizeof(whiches[0]); i++)
		test_which(&whiches[i]);
	test_return();
	test_return_waits();
	test_backup_fails();
	test_no_route();
	test_peer();
	test_age();
	test_overrun();
	test_order();
	test_mark();
	nic_programs__destroy(kernel);
	return tap_end();
}
