// SPDX-License-Identifier: BSD-2-Clause
/*
 * Nanoseconds that a packet costs in tc egress when its queue pair is steered,
 * as BPF_PROG_TEST_RUN measures them: above an empty program behind the same
 * feeder, above our own program with steering off, and in multiples of the
 * reference flow counter. Rounds alternate and the least of each is shown.
 * steercost PEERS.o
 */
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "pacing/pathlive.h"

#include "../bpf/frame.h"
#include "../bpf/steer_model.h"

/* Few packets and many rounds: what else the machine does invalidates some, not the least. */
#define REPEAT 100000
#define ROUNDS 15

#define SLOT 9
#define PATH 2
#define STANDBY 11

enum state { EMPTY, COUNTER, OFF, UNSTEERED, STEERED, STATES };
/* What the order says of a path_id. */
enum path { NONE, OWN_PORT, KEPT, LIVES, DEAD };

struct row {
	const char *packet;
	uint8_t ip;
	uint16_t payload;
	bool check, label;
	bool moves; /* the source port is another one each time: no patch is remembered */
	/* What a steered packet costs above an empty program, to what the counter does; 0: none. */
	double aim_ratio;
	enum path path;
};

static const struct row rows[] = {
	{"IPv4 1,024 bytes, length known", 4, 1024, false, false, false, 2.2, NONE},
	{"IPv4 2,048 bytes, length known", 4, 2048, false, false, false, 2.2, NONE},
	{"IPv4 1,024 bytes, patch made anew", 4, 1024, false, false, true, 0, NONE},
	{"IPv4 1,024 bytes, UDP checksum", 4, 1024, true, false, false, 0, NONE},
	{"IPv6 1,024 bytes, length known", 6, 1024, false, false, false, 0, NONE},
	{"IPv6 1,024 bytes, flow label", 6, 1024, false, true, false, 0, NONE},
	{"IPv4, a path_id that lives, own port", 4, 1024, false, false, false, 0, OWN_PORT},
	{"IPv4, the same, a copy is kept", 4, 1024, false, false, false, 0, KEPT},
	{"IPv4, 2,048 bytes, a copy is kept", 4, 2048, false, false, false, 0, KEPT},
	{"IPv4, a path_id that lives, its port", 4, 1024, false, false, false, 0, LIVES},
	{"IPv4, a path_id that is dead", 4, 1024, false, false, false, 0, DEAD},
};

/* The slot that the order names: lanes that are judged and received, or that of the order is not.
 */
static void set_paths(const struct bench *b, const struct row *row, const struct esc_qp_key *key)
{
	struct esc_paths slot = {.peer = 1, .key = {.src = key->src, .dst = key->dst}};
	uint32_t number = SLOT;

	for (int i = 0; i < ESC_PATHS_MAX; i++)
		slot.paths[i] = (struct esc_path){
			.sport = 0xc123 + i, .deadline_ns = 3000000, .backup = STANDBY};
	if (row->path == DEAD)
		slot.paths[PATH].live = (struct pathlive_path){.report_peer_ns = 9000000,
							       .report_ns = 9000000,
							       .unconfirmed = PATHLIVE_UNCONFIRMED};
	bpf_map_update_elem(bpf_map__fd(b->ours->maps.paths), &number, &slot, BPF_ANY);
}

/* A ring for copies of its packets, as esc_steer.ring. */
static uint16_t make_ring(const struct bench *b)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ring", 4, sizeof(struct esc_repair_ring), 1,
				&o);
	uint32_t zero = 0;

	bpf_map_update_elem(bpf_map__fd(b->ours->maps.repair_rings), &zero, &fd, BPF_ANY);
	close(fd);
	return 1;
}

static void set_state(const struct bench *b, const struct row *row, const struct frame *f,
		      enum state state)
{
	static uint32_t generation;
	struct esc_control word = {
		.flags = state == OFF ? 0 : ESC_CONTROL_STEER,
		.sample_mask = BENCH_NOT_SAMPLED,
		.heartbeat_local_ns = steer_now_ns() + 3600000000000ull,
		.steer_generation = ++generation,
		.steer_ports = 1,
	};
	struct esc_steer steer = {.number = generation, .sport = row->label ? 0 : 0xc123};
	struct esc_qp_key key = frame_key(f, 0);
	int steers = bpf_map__fd(b->ours->maps.steers);
	uint32_t zero = 0;

	if (row->label)
		steer.flags = ESC_STEER_LABEL;
	if (row->path != NONE) {
		steer.flags = ESC_STEER_PATH;
		steer.slot = SLOT;
		steer.path = PATH;
		steer.sport = row->path == OWN_PORT || row->path == KEPT ? 0 : steer.sport;
		steer.ring = row->path == KEPT ? make_ring(b) : 0;
		set_paths(b, row, &key);
	}
	key.dest_qpn = 0x100; /* the feeder's */
	if (state == STEERED)
		bpf_map_update_elem(steers, &key, &steer, BPF_ANY);
	else
		bpf_map_delete_elem(steers, &key);
	bpf_map_update_elem(bpf_map__fd(b->ours->maps.control), &zero, &word, BPF_ANY);
}

static double test_run(const struct bench *b, const char *feeder, const struct frame *f)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .repeat = REPEAT);

	return bpf_prog_test_run_opts(bench_fd(b, feeder), &o) ? 1e9 : o.duration;
}

static uint64_t steered_packets(const struct bench *b, const struct frame *f)
{
	struct esc_qp_key key = frame_key(f, 0);
	struct esc_qp qp = {0};

	key.dest_qpn = 0x100;
	bpf_map_lookup_elem(bpf_map__fd(b->ours->maps.qps), &key, &qp);
	return qp.steer.packets;
}

static int measure(const char *peers, const struct row *row)
{
	struct bench_constants constants = {
		.bth_offset = row->ip == 6 ? 62 : 42,
	};
	struct frame_plan plan = {
		.ip = row->ip, .opcode = 0x07, .payload = row->payload, .qpn = 0x100};
	double ns[STATES] = {1e9, 1e9, 1e9, 1e9, 1e9}, above, ratio;
	struct frame f;
	struct bench b;
	int zero = 0, next, fd;
	uint32_t turn = 0;

	if (bench_open(&b, peers, &constants)) {
		printf("%-34s not measured: the programs do not load\n", row->packet);
		return 1;
	}
	frame_build(&f, &plan);
	frame_seal(&f, row->check ? CHECK_FULL : CHECK_NONE);
	next = bpf_object__find_map_fd_by_name(b.peers, "tc_next");
	for (int round = 0; round < ROUNDS; round++)
		for (enum state state = EMPTY; state < STATES; state++) {
			double took;

			fd = state == EMPTY	? bench_fd(&b, "empty_tc")
			     : state == COUNTER ? bench_fd(&b, "counter_tc")
						: bpf_program__fd(b.ours->progs.esc_tc_out);
			bpf_map_update_elem(next, &zero, &fd, BPF_ANY);
			set_state(&b, row, &f, state);
			if (state > COUNTER)
				bench_set_turn(&b, turn);
			took = test_run(&b, row->moves ? "feed_tc_ports" : "feed_tc_port", &f);
			ns[state] = took < ns[state] ? took : ns[state];
			if (state > COUNTER)
				turn = bench_turn(&b);
		}
	above = ns[STEERED] - ns[EMPTY];
	ratio = above / (ns[COUNTER] - ns[EMPTY]);
	printf("%-34s %6.0f %7.0f %6.0f %9.0f %8.0f %8.0f %9.0f", row->packet, ns[EMPTY],
	       ns[COUNTER], ns[OFF], ns[UNSTEERED], ns[STEERED], above, ns[STEERED] - ns[OFF]);
	if (row->aim_ratio)
		printf(" %5.2f %5.2f  %s\n", ratio, row->aim_ratio,
		       ratio <= row->aim_ratio ? "yes" : "no");
	else
		printf("     -     -\n");
	/* One packet in a stretch may leave before its order is known. */
	if (row->path != OWN_PORT && row->path != KEPT &&
	    steered_packets(&b, &f) != (uint64_t)ROUNDS * REPEAT)
		printf("# %llu of %llu packets were steered\n",
		       (unsigned long long)steered_packets(&b, &f),
		       (unsigned long long)ROUNDS * REPEAT);
	bench_close(&b);
	return row->aim_ratio && !(ratio <= row->aim_ratio);
}

int main(int argc, char **argv)
{
	int missed = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: steercost PEERS.o\n");
		return 2;
	}
	printf("Steering: nanoseconds per packet in tc egress, the least of %d rounds of %d "
	       "packets\n",
	       ROUNDS, REPEAT);
	printf("%-34s %6s %7s %6s %9s %8s %8s %9s %5s %5s  %s\n", "packet", "empty", "counter",
	       "off", "unsteered", "steered", "above", "above off", "ratio", "aim", "met");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		missed += measure(argv[1], &rows[i]);
	printf("%d of the aims not met\n\n", missed);
	return 0;
}
