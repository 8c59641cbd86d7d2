// SPDX-License-Identifier: BSD-2-Clause
/*
 * Nanoseconds that a packet costs in NIC failover's tc egress program while nothing is dead, as
 * BPF_PROG_TEST_RUN measures them: above the same program without a pair of NICs (one lookup), with
 * `nic.repair: off`, and with a copy kept. Rounds alternate and the least of each is shown.
 */
#include "nic_world.h"

#define REPEAT 300000
#define ROUNDS 15
#define AIM_NS 100 /* of a kept packet of 1 KiB */

enum state { NO_PAIR, NOT_KEPT, KEPT, STATES };

static const struct row {
	const char *packet;
	uint8_t ip, opcode;
	uint16_t payload;
	bool aimed;
} rows[] = {
	{"IPv4, an acknowledgement", 4, 0x11, 0, false},
	{"IPv4, 1,024 bytes of a WRITE", 4, 0x07, 1024, true},
	{"IPv4, 3,000 bytes of a WRITE", 4, 0x07, 3000, false},
	{"IPv6, 1,024 bytes of a WRITE", 6, 0x07, 1024, true},
	{"IPv4, 1,024 bytes, not RC", 4, 0x24, 1024, false},
};

static double test_run(const struct frame *f)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .repeat = REPEAT);

	return bpf_prog_test_run_opts(out_fd, &o) ? 1e9 : o.duration;
}

static int measure(const struct row *row)
{
	static const uint32_t flags[] = {
		[NOT_KEPT] = ESC_NIC_ON, [KEPT] = ESC_NIC_ON | ESC_NIC_REPAIR};
	struct frame_plan plan = {.ip = row->ip,
				  .opcode = row->opcode,
				  .payload = row->payload,
				  .extension = row->opcode == 0x11 ? 4 : 0,
				  .qpn = 0x100,
				  .source_host = 3};
	double ns[STATES] = {1e9, 1e9, 1e9}, kept;
	struct esc_address src, dst;
	struct esc_repair_ring *ring;
	struct frame f;

	frame_build(&f, &plan);
	addresses_of(&f, &src, &dst);
	set_ends(&src, &dst, row->ip == 4, 0, 9000);
	forget_rings();
	ring = make_ring(1);
	for (int round = 0; ring && round < ROUNDS; round++)
		for (enum state state = NO_PAIR; state < STATES; state++) {
			double took;

			set_word(flags[state], 0, FRESH);
			took = test_run(&f);
			ns[state] = took < ns[state] ? took : ns[state];
		}
	kept = ns[KEPT] - ns[NOT_KEPT];
	printf("%-30s %8.0f %8.0f %8.0f %8.0f", row->packet, ns[NO_PAIR],
	       ns[NOT_KEPT] - ns[NO_PAIR], kept, ns[KEPT] - ns[NO_PAIR]);
	if (row->aimed)
		printf(" %5d  %s\n", AIM_NS, kept <= AIM_NS ? "yes" : "no");
	else
		printf("     -\n");
	if (!ring || ring->kept != (row->opcode < 0x20 ? (uint64_t)ROUNDS * REPEAT : 0))
		printf("# %llu copies were kept\n", ring ? (unsigned long long)ring->kept : 0);
	return row->aimed && kept > AIM_NS;
}

int main(void)
{
	int missed = 0;

	if (!nic_world_open()) {
		fprintf(stderr, "niccost: the programs of NIC failover do not load\n");
		return 1;
	}
	printf("NIC failover: nanoseconds per packet in its tc egress program, the least of %d "
	       "rounds of %d packets\n",
	       ROUNDS, REPEAT);
	printf("%-30s %8s %8s %8s %8s %5s  %s\n", "packet", "no pair", "a pair", "the copy", "both",
	       "aim", "met");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		missed += measure(&rows[i]);
	nic_programs__destroy(kernel);
	return missed > 0;
}
