// SPDX-License-Identifier: BSD-2-Clause
/*
 * Nanoseconds per packet of each program, as BPF_PROG_TEST_RUN measures them,
 * above an empty program in the same run. Rounds alternate between the empty
 * program, one that only finds UDP, the reference flow counter and ours; the
 * least of each is shown, because what else the machine does can only add to
 * it. Nanoseconds do not travel between machines: the targets of RoCE data are
 * multiples of the counter.
 * cost PEERS.o VECTORS
 */
#include "bench.h"

#include "../bpf/frame.h"
#include "../bpf/model.h"

/* Few packets and many rounds: what else the machine does invalidates some, not the least. */
#define REPEAT 100000
#define ROUNDS 15

enum hook { XDP, TC };

enum program { EMPTY, UDP, COUNTER, OURS, PROGRAMS };

struct row {
	enum hook hook;
	const char *packet;
	uint32_t qps;
	bool fed; /* PSN and queue pair move on, so that packets are in order */
	bool sampled;
	double aim_ns;	  /* above an empty program; 0: none */
	double aim_ratio; /* of what is above an empty program, ours to the counter's; 0: none */
};

static uint32_t test_run(int fd, const struct frame *f)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .repeat = REPEAT);

	return bpf_prog_test_run_opts(fd, &o) ? UINT32_MAX : o.duration;
}

/* The descriptor to run for @program: itself, or the feeder with it behind. */
static int prepare(const struct bench *b, const struct row *row, enum program program)
{
	static const char *const names[2][3] = {{"empty_xdp", "udp_xdp", "counter_xdp"},
						{"empty_tc", "udp_tc", "counter_tc"}};
	int fd, next, zero = 0;

	if (program == OURS)
		fd = bpf_program__fd(row->hook == XDP ? b->ours->progs.esc_xdp_in
						      : b->ours->progs.esc_tc_out);
	else
		fd = bench_fd(b, names[row->hook][program]);
	if (!row->fed)
		return fd;
	next = bpf_object__find_map_fd_by_name(b->peers, row->hook == XDP ? "xdp_next" : "tc_next");
	if (bpf_map_update_elem(next, &zero, &fd, BPF_ANY))
		return -1;
	return bench_fd(b, row->hook == XDP ? "feed_xdp" : "feed_tc");
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

static void measure_rounds(const struct bench *b, const struct row *row, const struct frame *f,
			   double ns[PROGRAMS])
{
	uint32_t ours = 0;
	int round, p, fd;

	for (p = 0; p < PROGRAMS; p++)
		ns[p] = 1e9;
	for (round = 0; round < ROUNDS; round++)
		for (p = 0; p < PROGRAMS; p++) {
			fd = prepare(b, row, p);
			/* What ours sees goes on where it stopped: no gap between rounds. */
			if (p == OURS)
				bench_set_turn(b, ours);
			ns[p] = least(ns[p], test_run(fd, f));
			if (p == OURS)
				ours = bench_turn(b);
		}
}

/* True when the aim was met, or there is none. */
static bool measure_row(const char *peers, const struct row *row, const struct frame *f)
{
	struct bench_constants constants = {row->qps - 1, frame_is_ipv6(f) ? 62 : 42, 0};
	const char *name = row->hook == XDP ? "xdp_ingress" : "tc_egress";
	double ns[PROGRAMS], above, ratio;
	uint64_t off, packets;
	struct bench b;
	bool met;

	if (bench_open(&b, peers, &constants)) {
		printf("%-12s %-34s not measured: the programs do not load\n", name, row->packet);
		return false;
	}
	bench_set_mask(&b, row->sampled ? 0 : BENCH_NOT_SAMPLED);
	measure_rounds(&b, row, f, ns);
	above = ns[OURS] - ns[EMPTY];
	ratio = above / (ns[COUNTER] - ns[EMPTY]);
	met = (!row->aim_ns || above <= row->aim_ns) &&
	      (!row->aim_ratio || (ratio > 0 && ratio <= row->aim_ratio));
	printf("%-12s %-34s %5u %6.0f %6.0f %7.0f %6.0f %8.0f", name, row->packet, row->qps,
	       ns[EMPTY], ns[UDP], ns[COUNTER], ns[OURS], above);
	if (row->aim_ratio)
		printf(" %5.2f  %.2f  %s\n", ratio, row->aim_ratio, met ? "yes" : "no");
	else if (row->aim_ns)
		printf("     - %2.0f ns  %s\n", row->aim_ns, met ? "yes" : "no");
	else
		printf("     -\n");
	/* A feeder that does not feed would measure another path. */
	packets = bench_packets(&b, &off);
	if (row->fed && (!packets || off))
		printf("# %llu of %llu packets were not in order\n", (unsigned long long)off,
		       (unsigned long long)packets);
	bench_close(&b);
	return met;
}

/* The first packet of @opcode in a capture. */
static bool find_packet(const char *vectors, const char *name, uint8_t opcode, struct frame *f)
{
	struct model_packet p;
	char path[512];
	bool found = false;
	FILE *capture;

	snprintf(path, sizeof(path), "%s/%s", vectors, name);
	capture = fopen(path, "r");
	while (capture && !found && frame_read(capture, f))
		found = model_decode(f->data, f->bytes, f->bytes, &p) == MODEL_ROCE &&
			p.opcode == opcode;
	if (capture)
		fclose(capture);
	if (!found)
		printf("# %s has no packet with opcode 0x%02x\n", path, opcode);
	return found;
}

static int measure_roce(const char *peers, const char *vectors)
{
	static const struct {
		const char *capture, *name;
		uint8_t opcode;
		bool data;
	} packets[] = {
		{"rxe-rc-write-v4.pcap", "RC WRITE_MIDDLE 1024, IPv4", 0x07, true},
		{"rxe-rc-send-v6.pcap", "RC SEND_MIDDLE 1024, IPv6", 0x01, true},
		{"rxe-ud-send-v4.pcap", "UD SEND_ONLY 1000, IPv4", 0x64, true},
		{"rxe-rc-read-v4.pcap", "RC READ_RESPONSE_MIDDLE, IPv4", 0x0e, true},
		{"rxe-rc-write-v4.pcap", "RC ACKNOWLEDGE, IPv4", 0x11, false},
	};
	int missed = 0, hook;
	struct frame f;
	size_t i;

	for (hook = XDP; hook <= TC; hook++)
		for (i = 0; i < sizeof(packets) / sizeof(*packets); i++) {
			struct row row = {hook, packets[i].name, 1, true, false, 0, 0};

			if (!find_packet(vectors, packets[i].capture, packets[i].opcode, &f))
				return -1;
			if (packets[i].data)
				row.aim_ratio = frame_is_ipv6(&f) ? 0 : 1.5; /* it counts IPv4 */
			missed += !measure_row(peers, &row, &f);
			if (i > 0)
				continue;
			row.qps = 1024;
			missed += !measure_row(peers, &row, &f);
			row.qps = 1;
			row.sampled = true;
			row.packet = "the same, every packet sampled";
			row.aim_ratio = 0;
			row.aim_ns = hook == XDP ? 150 : 0;
			missed += !measure_row(peers, &row, &f);
			row.sampled = row.fed = false;
			row.packet = "the same PSN again and again";
			row.aim_ns = 0;
			missed += !measure_row(peers, &row, &f);
		}
	return missed;
}

static int measure_others(const char *peers)
{
	struct row row = {.qps = 0, .aim_ns = 10};
	struct frame f;
	int missed = 0, hook, i;

	for (hook = XDP; hook <= TC; hook++)
		for (i = 0; i < 4; i++) {
			static const char *const names[] = {"TCP over IPv4", "TCP over IPv6",
							    "UDP to another port", "ARP"};

			frame_build(&f, &(struct frame_plan){.ip = i == 1 ? 6 : 4,
							     .opcode = 4,
							     .payload = 1000,
							     .dport = i == 2 ? 53 : 4791});
			if (i == 0)
				f.data[14 + 9] = 6;
			if (i == 1)
				f.data[14 + 6] = 6;
			if (i == 3)
				frame_put16(&f, 12, 0x0806);
			row.hook = hook;
			row.packet = names[i];
			row.qps = 1;
			missed += !measure_row(peers, &row, &f);
		}
	return missed;
}

int main(int argc, char **argv)
{
	int roce, others;

	if (argc != 3) {
		fprintf(stderr, "usage: cost PEERS.o VECTORS\n");
		return 2;
	}
	printf("Nanoseconds per packet, the least of %d rounds of %d packets\n", ROUNDS, REPEAT);
	printf("%-12s %-34s %5s %6s %6s %7s %6s %8s %5s %5s  %s\n", "program", "packet", "QPs",
	       "empty", "UDP", "counter", "ours", "above", "ratio", "aim", "met");
	roce = measure_roce(argv[1], argv[2]);
	if (roce < 0)
		return 1;
	others = measure_others(argv[1]);
	printf("%d of the aims not met\n\n", roce + others);
	return 0;
}
