// SPDX-License-Identifier: BSD-2-Clause
/*
 * Nanoseconds per probe: replied, refused for each reason, recorded, stamped;
 * above the feeder with an empty program behind it, in the same run. Rounds
 * alternate and the least of each is shown. SipHash alone is the anchor.
 * probecost PEERS.o PROBE_FEED.o
 */
#include "bench.h"

#include "probe_model.h"
#include "world.h"

/* Fewer than the ring has room for: it is emptied between rounds. */
#define REPEAT 4000
#define ROUNDS 20

#define SELF 0x1111222233334444ull
#define PEER 0xaaaabbbbccccddddull
#define DROP 1
#define PASS 2
#define TX 3
#define EPOCH 1700000000000000001ull

static const struct probe_key key = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

/* As in bpf/probe_feed.bpf.c. */
struct feed {
	uint8_t frame[240];
	uint64_t key[2];
	uint32_t sequence;
	uint32_t moves;
};

struct probe_bench {
	struct bench base;
	struct bpf_object *feeders;
	struct ring_buffer *ring;
};

struct row {
	const char *name;
	uint32_t moves;
	uint32_t fleet_clear, rate;
	uint32_t verdict; /* XDP's for the last packet: else it is another path that was measured */
	struct probe_plan plan;
};

static int take_event(void *context, void *data, size_t bytes)
{
	(void)context;
	(void)data;
	return bytes == sizeof(struct esc_probe_event) ? 0 : -EINVAL;
}

static int probe_bench_open(struct probe_bench *b, const char *peers, const char *feeders)
{
	int error = bench_open(&b->base, peers, &(struct bench_constants){0, 42, 0});

	if (error)
		return error;
	b->feeders = bpf_object__open_file(feeders, NULL);
	if (!b->feeders || bpf_object__load(b->feeders))
		return -errno;
	b->ring = ring_buffer__new(bpf_map__fd(b->base.ours->maps.probes), take_event, NULL, NULL);
	return b->ring ? 0 : -errno;
}

static void set_maps(const struct probe_bench *b, const struct row *row)
{
	struct esc_fleet fleet = {
		.self = SELF,
		.epoch = EPOCH,
		.flags = (ESC_FLEET_HAS_KEY0 | ESC_FLEET_REPLY) & ~row->fleet_clear,
		.reply_max_pps = row->rate,
		.view_generation = 2,
	};
	struct esc_peer_key id = {.id = PEER};
	struct esc_peer peer = {.epoch = 5, .key_flags = ESC_FLEET_HAS_KEY0};
	uint32_t zero = 0;

	memcpy(peer.key[0], key.bytes, 16);
	memset(&fleet.view[0], 1, sizeof(fleet.view[0]));
	bpf_map_update_elem(bpf_map__fd(b->base.ours->maps.fleet), &zero, &fleet, BPF_ANY);
	bpf_map_update_elem(bpf_map__fd(b->base.ours->maps.peers), &id, &peer, BPF_ANY);
}

static void set_feed(const struct probe_bench *b, const struct frame *f, uint32_t moves,
		     uint32_t sequence)
{
	int fd = bpf_object__find_map_fd_by_name(b->feeders, ".bss");
	struct feed feed = {.sequence = sequence, .moves = moves};
	uint32_t zero = 0;

	memcpy(feed.frame, f->data, f->bytes);
	memcpy(feed.key, key.bytes, 16);
	bpf_map_update_elem(fd, &zero, &feed, BPF_ANY);
}

static uint32_t test_run(const struct probe_bench *b, int fd, const struct frame *f,
			 uint32_t *verdict)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .repeat = REPEAT);

	world_allow_socket(&(struct world){.kernel = b->base.ours});
	if (bpf_prog_test_run_opts(fd, &o))
		return UINT32_MAX;
	*verdict = o.retval;
	return o.duration;
}

/* Puts @program behind the feeder and runs it once. */
static double run_behind(const struct probe_bench *b, const char *table, const char *feeder,
			 int program, const struct frame *f, uint32_t *verdict)
{
	int zero = 0, next = bpf_object__find_map_fd_by_name(b->feeders, table);

	if (bpf_map_update_elem(next, &zero, &program, BPF_ANY))
		return 1e9;
	return test_run(b, bpf_program__fd(bpf_object__find_program_by_name(b->feeders, feeder)), f,
			verdict);
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

static void print_row(const char *hook, const char *name, double empty, double ours)
{
	printf("%-12s %-40s %6.0f %6.0f %8.0f\n", hook, name, empty, ours, ours - empty);
}

static void measure_xdp(const struct probe_bench *b, const struct row *row)
{
	int ours = bpf_program__fd(b->base.ours->progs.esc_xdp_in);
	int empty = bench_fd(&b->base, "empty_xdp"), round;
	double ns[2] = {1e9, 1e9};
	uint32_t sequence = 1, verdict = 0;
	struct frame f;

	set_maps(b, row);
	probe_build(&f, &row->plan);
	for (round = 0; round < ROUNDS; round++) {
		set_feed(b, &f, row->moves, sequence);
		ns[0] = least(ns[0],
			      run_behind(b, "next_xdp", "feed_probe_xdp", empty, &f, &verdict));
		set_feed(b, &f, row->moves, sequence);
		ns[1] = least(ns[1],
			      run_behind(b, "next_xdp", "feed_probe_xdp", ours, &f, &verdict));
		sequence += REPEAT;
		ring_buffer__consume(b->ring);
	}
	print_row("xdp_ingress", row->name, ns[0], ns[1]);
	if (verdict != row->verdict)
		printf("# the verdict was %u, not %u: this is not what was measured\n", verdict,
		       row->verdict);
}

static void measure_tc(const struct probe_bench *b, const char *name, uint32_t fleet_clear)
{
	struct probe_plan plan = {.target = PEER};
	struct row row = {.fleet_clear = fleet_clear};
	int ours = bpf_program__fd(b->base.ours->progs.esc_tc_out);
	int empty = bench_fd(&b->base, "empty_tc"), round;
	double ns[2] = {1e9, 1e9};
	uint32_t verdict;
	struct frame f;

	set_maps(b, &row);
	probe_build(&f, &plan);
	for (round = 0; round < ROUNDS; round++) {
		ns[0] = least(ns[0],
			      run_behind(b, "next_tc", "feed_probe_tc", empty, &f, &verdict));
		ns[1] = least(ns[1], run_behind(b, "next_tc", "feed_probe_tc", ours, &f, &verdict));
	}
	print_row("tc_egress", name, ns[0], ns[1]);
}

static struct row row_usual(const char *name)
{
	return (struct row){
		.name = name,
		.rate = UINT32_MAX,
		.verdict = DROP,
		.plan = {.version_more = 1,
			 .newest = MODEL_NEWEST,
			 .sender = PEER,
			 .target = SELF,
			 .epoch = 10,
			 .echo_epoch = EPOCH,
			 .t1 = 5,
			 .sequence = 1,
			 .key = &key},
	};
}

static void measure_good(const struct probe_bench *b)
{
	struct row row = row_usual("request replied");

	row.moves = 1;
	row.verdict = TX;
	measure_xdp(b, &row);
	row.verdict = DROP;
	row.plan.opcode = ESC_PROBE_OPCODE_REPLY;
	row.name = "reply recorded";
	measure_xdp(b, &row);
	row = row_usual("warmer");
	row.plan.opcode = ESC_PROBE_OPCODE_WARMUP;
	measure_xdp(b, &row);
}

static void measure_refused(const struct probe_bench *b)
{
	static const struct probe_key rogue = {{9}};
	struct row row = row_usual("request refused: another version");

	row.plan.version_more = 2;
	measure_xdp(b, &row);
	row = row_usual("request refused: probing is off");
	row.fleet_clear = ESC_FLEET_REPLY;
	measure_xdp(b, &row);
	row = row_usual("request refused: unknown peer");
	row.plan.sender = PEER + 1;
	measure_xdp(b, &row);
	row = row_usual("request refused: not ours");
	row.plan.target = SELF + 1;
	measure_xdp(b, &row);
	row = row_usual("request refused: bad tag");
	row.plan.key = &rogue;
	measure_xdp(b, &row);
	row = row_usual("request refused: stale epoch");
	row.plan.epoch = 4;
	measure_xdp(b, &row);
	row = row_usual("request refused: replay");
	measure_xdp(b, &row);
	row = row_usual("request refused: rate");
	row.rate = 0;
	row.moves = 1;
	measure_xdp(b, &row);
	row = row_usual("no magic: unknown opcode, passes");
	row.plan.bad_magic = true;
	row.verdict = PASS;
	measure_xdp(b, &row);
}

int main(int argc, char **argv)
{
	struct probe_bench b = {0};

	if (argc != 3) {
		fprintf(stderr, "usage: probecost PEERS.o PROBE_FEED.o\n");
		return 2;
	}
	if (probe_bench_open(&b, argv[1], argv[2])) {
		printf("probes: not measured: the programs do not load\n");
		return 1;
	}
	printf("Nanoseconds per probe of %u bytes, the least of %d rounds of %d\n",
	       42 + ESC_PROBE_DATAGRAM_BYTES, ROUNDS, REPEAT);
	printf("%-12s %-40s %6s %6s %8s\n", "program", "probe", "empty", "ours", "above");
	measure_good(&b);
	measure_refused(&b);
	measure_tc(&b, "request stamped and tagged", 0);
	measure_tc(&b, "request stamped, no keys", ESC_FLEET_HAS_KEY0);
	printf("\n");
	ring_buffer__free(b.ring);
	bpf_object__close(b.feeders);
	bench_close(&b.base);
	return 0;
}
