// SPDX-License-Identifier: BSD-2-Clause
/*
 * Nanoseconds that a packet costs in tc egress when its queue pair is paced, held back or not, as
 * BPF_PROG_TEST_RUN measures them: above an empty program behind the same feeder, and above our
 * own program with pacing off. Rounds alternate and the least of each is shown. pacecost PEERS.o
 */
#include <time.h>

#include "bench.h"
#include "pacing/pause.h"

#include "../bpf/frame.h"
#include "../bpf/steer_model.h"

#define REPEAT 300000
#define ROUNDS 7

enum state { EMPTY, OFF, ELSEWHERE, FREE, HELD, STATES };

static const char *const names[STATES] = {
	[EMPTY] = "an empty program",	       [OFF] = "pacing off",
	[ELSEWHERE] = "another port is paced", [FREE] = "paced, nothing held",
	[HELD] = "paced, each packet held",
};

static void set_state(const struct bench *b, enum state state)
{
	struct esc_control word = {
		.flags = state == OFF ? 0 : ESC_CONTROL_PACE,
		.sample_mask = BENCH_NOT_SAMPLED,
		.heartbeat_local_ns = steer_now_ns() + 3600000000000ull,
		.pace_ports = state == ELSEWHERE ? 2 : 1,
	};
	struct pause_rule rule;
	struct esc_pace pace = {.generation = 1};
	struct esc_qp_key key;
	uint32_t zero = 0;

	pause_rule_default(&rule, 50000, state == HELD ? 1000000 : PAUSE_RATE_MAX_BPS);
	rule.start_Bps = 0;
	rule.hold_max_ns = 40000000;
	bpf_map_update_elem(bpf_map__fd(b->ours->maps.pace_rules), &zero, &rule, BPF_ANY);
	bpf_map_update_elem(bpf_map__fd(b->ours->maps.pace), &zero, &pace, BPF_ANY);
	while (!bpf_map_get_next_key(bpf_map__fd(b->ours->maps.qp_pace), NULL, &key))
		bpf_map_delete_elem(bpf_map__fd(b->ours->maps.qp_pace), &key);
	while (!bpf_map_get_next_key(bpf_map__fd(b->ours->maps.qps), NULL, &key))
		bpf_map_delete_elem(bpf_map__fd(b->ours->maps.qps), &key);
	bpf_map_update_elem(bpf_map__fd(b->ours->maps.control), &zero, &word, BPF_ANY);
}

/* Packets that were held; what the state's name says has to be so. */
static uint64_t held(const struct bench *b)
{
	struct esc_qp_key key;
	struct esc_qp_pace state = {};

	if (!bpf_map_get_next_key(bpf_map__fd(b->ours->maps.qp_pace), NULL, &key))
		bpf_map_lookup_elem(bpf_map__fd(b->ours->maps.qp_pace), &key, &state);
	return state.held;
}

int main(int argc, char **argv)
{
	struct bench_constants constants = {.bth_offset = 42};
	struct frame_plan plan = {.ip = 4, .opcode = 0x07, .payload = 1024, .qpn = 0x100};
	double ns[STATES] = {1e9, 1e9, 1e9, 1e9, 1e9};
	struct frame f;
	struct bench b;
	int zero = 0, next;

	if (argc != 2 || bench_open(&b, argv[1], &constants)) {
		fprintf(stderr, "usage: pacecost PEERS.o, as root\n");
		return 2;
	}
	frame_build(&f, &plan);
	next = bpf_object__find_map_fd_by_name(b.peers, "tc_next");
	for (int round = 0; round < ROUNDS; round++)
		for (enum state state = EMPTY; state < STATES; state++) {
			LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f.data,
				    .data_size_in = f.bytes, .repeat = REPEAT);
			int fd = state == EMPTY ? bench_fd(&b, "empty_tc")
						: bpf_program__fd(b.ours->progs.esc_tc_out);

			bpf_map_update_elem(next, &zero, &fd, BPF_ANY);
			set_state(&b, state);
			if (bpf_prog_test_run_opts(bench_fd(&b, "feed_tc_port"), &o))
				continue;
			ns[state] = o.duration < ns[state] ? o.duration : ns[state];
			if ((state == HELD) != (held(&b) > REPEAT / 2))
				printf("# %s: %llu of %d packets were held\n", names[state],
				       (unsigned long long)held(&b), REPEAT);
		}
	printf("Pacing: nanoseconds per packet in tc egress, the least of %d rounds of %d "
	       "packets\n",
	       ROUNDS, REPEAT);
	for (enum state state = EMPTY; state < STATES; state++)
		printf("%-26s %6.0f   above an empty program %6.0f   above pacing off %6.0f\n",
		       names[state], ns[state], ns[state] - ns[EMPTY], ns[state] - ns[OFF]);
	printf("\n");
	bench_close(&b);
	return 0;
}
