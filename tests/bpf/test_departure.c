// SPDX-License-Identifier: BSD-2-Clause
/*
 * Departures that sockets set (SO_TXTIME), beside those of pacing: frames of packet sockets on the
 * loopback interface of a network namespace, and what a program behind ours finds in them.
 */
#define TAP_PLAN 9

#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <net/ethernet.h>
#include <stddef.h>
#include <time.h>

#include "pair.h"
#include "receipt_world.h"
#include "pacing/pause.h"

#define SEND_MIDDLE 0x01
#define PORT 3
#define MS 1000000ull
#define NONE (-1) /* no clock: the socket sets nothing */
#ifndef SO_TXTIME
#define SO_TXTIME 61
#define SCM_TXTIME SO_TXTIME
#endif

static const struct pause_rule usual = {
	.threshold_ns = 5 * MS,
	.line_Bps = 1000000,
	.floor_Bps = 10000,
	.start_Bps = 100000, /* a packet of some 300 bytes in 3 ms */
	.hold_max_ns = 400 * MS,
	.quantum_ns = 10 * MS,
	.credit_ns = 1000,
	.no_feedback_ns = 10000 * MS,
	.weight = PAUSE_WEIGHT_ONE,
	.gain = PAUSE_GAIN_ONE,
	.flags = PAUSE_RATE,
};

/* What the program behind ours found in the newest packet. */
struct found {
	uint64_t tstamp, type, packets;
};
static int found_fd;

static struct found found_last(void)
{
	struct found found = {};
	uint32_t zero = 0;

	bpf_map_lookup_elem(found_fd, &zero, &found);
	return found;
}

#define LOAD(size, to, from, at)                                                                   \
	{                                                                                          \
		.code = BPF_LDX | BPF_MEM | (size), .dst_reg = (to), .src_reg = (from),            \
		.off = (at)                                                                        \
	}
#define STORE(to, from, at)                                                                        \
	{                                                                                          \
		.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = (to), .src_reg = (from),            \
		.off = (at)                                                                        \
	}

/* Attached to the loopback interface; it drops what it has seen. Negative: refused. */
static int look_behind(void)
{
	struct bpf_insn code[] = {
		LOAD(BPF_DW, 7, 1, offsetof(struct __sk_buff, tstamp)),
		LOAD(BPF_B, 8, 1, offsetof(struct __sk_buff, tstamp_type)),
		{.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = 10, .off = -4},
		{.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD},
		{},
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 2, .src_reg = 10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = -4},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = 0, .off = 5},
		STORE(0, 7, offsetof(struct found, tstamp)),
		STORE(0, 8, offsetof(struct found, type)),
		LOAD(BPF_DW, 1, 0, offsetof(struct found, packets)),
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 1, .imm = 1},
		STORE(0, 1, offsetof(struct found, packets)),
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 2},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int program, link;

	found_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "found", 4, sizeof(struct found), 1, NULL);
	code[3].imm = found_fd;
	program = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "looks", "GPL", code,
				sizeof(code) / sizeof(*code), NULL);
	link = bpf_link_create(program, if_nametoindex("lo"), TCX_EGRESS, NULL);
	close(program);
	return link;
}

static void reset(struct receipt_world *w)
{
	uint32_t index = ESC_PACE_RULE(PORT, 0), zero = 0;
	struct esc_pace word = {.generation = 1};

	receipt_reset(w);
	receipt_forget(w, "qp_pace");
	bpf_map_update_elem(receipt_fd(w, "pace_rules"), &index, &usual, BPF_ANY);
	bpf_map_update_elem(receipt_fd(w, "pace"), &zero, &word, BPF_ANY);
	w->word.flags |= ESC_CONTROL_PACE;
	w->word.pace_ports = 1 << PORT;
	receipt_refresh(w, 0, 0);
}

static struct esc_qp_pace state_of(struct receipt_world *w)
{
	struct esc_qp_key key = data_key(w, 4, ESC_DIRECTION_TX);
	struct esc_qp_pace state = {};

	bpf_map_lookup_elem(receipt_fd(w, "qp_pace"), &key, &state);
	return state;
}

/* A packet socket whose packets leave at a time of @clock. */
static int open_socket(int clock)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_IP),
				 .sll_ifindex = if_nametoindex("lo")};
	struct sock_txtime txtime = {.clockid = clock};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    (clock != NONE && setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime))))
		printf("# no socket with clock %d: %s\n", clock, strerror(errno));
	return fd;
}

/* A packet of data with that departure; 0: none. What was found behind our program. */
static struct found send_at(int fd, uint64_t at_ns)
{
	static uint32_t psn;
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(uint64_t))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(uint64_t)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_TXTIME}};
	uint64_t before = found_last().packets;
	struct found found;
	struct frame f;
	struct iovec part;
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	data_build(&f, 4, SEND_MIDDLE, ++psn);
	part = (struct iovec){f.data, f.bytes};
	memcpy(CMSG_DATA(&control.header), &at_ns, sizeof(at_ns));
	if (at_ns) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	/* The drop behind our program is reported as a lack of room. */
	if (sendmsg(fd, &message, 0) < 0 && errno != ENOBUFS)
		printf("# not sent: %s\n", strerror(errno));
	found = found_last();
	if (found.packets != before + 1)
		found = (struct found){.type = 99};
	return found;
}

/* A socket's time of @clock, @ahead_ns from now: it stays, and pacing takes no notice of it. */
static void check_stays(struct receipt_world *w, const char *name, int clock, int clock_now,
			uint64_t ahead_ns, uint64_t type)
{
	int fd = open_socket(clock);
	struct timespec now;
	struct esc_qp_pace before, after;
	struct found found;
	uint64_t at_ns;

	reset(w);
	for (int i = 0; i < 5; i++) {
		int plain = open_socket(NONE);

		send_at(plain, 0);
		close(plain);
	}
	before = state_of(w);
	clock_gettime(clock_now, &now);
	at_ns = now.tv_sec * 1000000000ull + now.tv_nsec + ahead_ns;
	found = send_at(fd, at_ns);
	after = state_of(w);
	close(fd);
	tap_ok(IS(found.tstamp, at_ns) && IS(found.type, type) && before.packets &&
		       IS(after.packets, before.packets) && IS(after.held, before.held) &&
		       IS(after.last_departure_ns[0], before.last_departure_ns[0]),
	       "%s", name);
}

static void test_ours(struct receipt_world *w)
{
	int fd = open_socket(NONE), timed = open_socket(CLOCK_MONOTONIC);
	struct found found = {};
	uint64_t at_ns, law_ns;

	reset(w);
	found = send_at(fd, 0);
	tap_ok(IS(found.tstamp, 0) && IS(found.type, 0), "a packet that need not wait has no time");
	for (int i = 0; i < 20; i++)
		found = send_at(fd, 0);
	law_ns = state_of(w).last_departure_ns[0];
	tap_ok(IS(found.tstamp, law_ns) && law_ns > now_ns() && IS(found.type, 1),
	       "a departure of pacing has the type of one, and is no rx timestamp");
	found = send_at(timed, now_ns() + 1000);
	tap_ok(found.tstamp > law_ns && IS(found.type, 1),
	       "a socket's earlier departure gives way to that of pacing");
	at_ns = now_ns() + 600 * MS;
	found = send_at(timed, at_ns);
	tap_ok(IS(found.tstamp, at_ns) && IS(found.type, 1) &&
		       IS(state_of(w).last_departure_ns[0], at_ns),
	       "its later one stays, and what follows does not overtake it");
	close(fd);
	close(timed);
}

int main(void)
{
	struct receipt_world w;
	bool good;

	if (receipt_world_open(&w, &(struct world_options){.port = PORT}) ||
	    unshare(CLONE_NEWNET) || !pair_run("ip link set lo up"))
		return tap_bail("no programs, or no network namespace");
	good = bpf_link_create(w.w.world.programs[WORLD_TC_OUT], if_nametoindex("lo"), TCX_EGRESS,
			       NULL) >= 0 &&
	       look_behind() >= 0;
	tap_ok(good, "the programs are attached");
	test_ours(&w);
	check_stays(&w, "one of CLOCK_TAI stays, though its number is a time of ours", CLOCK_TAI,
		    CLOCK_MONOTONIC, MS, 2);
	check_stays(&w, "one of CLOCK_TAI stays", CLOCK_TAI, CLOCK_TAI, MS, 2);
	check_stays(&w, "one of CLOCK_REALTIME stays", CLOCK_REALTIME, CLOCK_REALTIME, MS, 0);
	check_stays(&w, "one that is 11 s ahead stays", CLOCK_MONOTONIC, CLOCK_MONOTONIC,
		    11000 * MS, 1);
	return tap_end();
}
