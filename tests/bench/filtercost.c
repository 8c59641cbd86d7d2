// SPDX-License-Identifier: BSD-2-Clause
/*
 * Nanoseconds per packet in XDP beside another project's program: xdp-filter of
 * Debian's xdp-tools, which lets UDP pass but what is listed by port (allow), or
 * only what is listed (deny), and our own reference flow counter. The packet is
 * RoCEv2 data and passes all of them. Each is above an empty program that is run
 * in the same way: ours behind the feeder, since it expects a sequence of PSNs.
 * Alternating rounds, the least of each. In a network and a mount namespace of
 * its own, since xdp-filter pins its maps at a fixed place. filtercost PEERS.o
 */
#include <net/if.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "bench.h"

#include "../bpf/frame.h"

/* Few packets and many rounds: what else the machine does invalidates some, not the least. */
#define REPEAT 100000
#define ROUNDS 15

enum program { EMPTY, ALLOW, DENY, COUNTER, FED_EMPTY, OURS, PROGRAMS };

struct filter {
	const char *interface, *load;
};

static const struct filter filters[PROGRAMS] = {
	[ALLOW] = {"f1", "xdp-filter load -p allow -f udp f1 && xdp-filter port -p udp -m dst 53"},
	[DENY] = {"f3", "xdp-filter load -p deny -f udp f3 && xdp-filter port -p udp -m dst 4791"},
};

static bool run(const char *command)
{
	char line[256];

	snprintf(line, sizeof(line), "{ %s; } >/dev/null", command);
	if (!system(line))
		return true;
	printf("# failed: %s\n", command);
	return false;
}

static bool make_place(void)
{
	return !unshare(CLONE_NEWNET | CLONE_NEWNS) &&
	       !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("bpf", "/sys/fs/bpf", "bpf", 0, NULL) &&
	       run("ip link add f0 type veth peer name f1 && ip link add f2 type veth peer name "
		   "f3");
}

/*
 * The program that xdp-filter put on the interface. A list of ports belongs to all of its programs
 * on a host, so that each has a bpffs of its own.
 */
static int load_filter(const struct filter *filter)
{
	__u32 id;

	if (mount("bpf", "/sys/fs/bpf", "bpf", 0, NULL) || !run(filter->load) ||
	    bpf_xdp_query_id(if_nametoindex(filter->interface), 0, &id))
		return -1;
	return bpf_prog_get_fd_by_id(id);
}

static double test_run(int fd, const struct frame *f)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .repeat = REPEAT);

	if (bpf_prog_test_run_opts(fd, &o))
		return 1e9;
	if (o.retval != 2) { /* XDP_PASS */
		printf("# a packet did not pass: verdict %u\n", o.retval);
		return 1e9;
	}
	return o.duration;
}

static bool is_fed(enum program p)
{
	return p >= FED_EMPTY;
}

static void measure(const struct bench *b, const int fds[PROGRAMS], double ns[PROGRAMS])
{
	int next = bpf_object__find_map_fd_by_name(b->peers, "xdp_next"), zero = 0, round, p;
	struct frame_plan plan = {.opcode = 0x07, .payload = 1024, .qpn = 0x100};
	uint32_t turn = 0;
	struct frame f;
	double took;

	frame_build(&f, &plan);
	for (p = 0; p < PROGRAMS; p++)
		ns[p] = 1e9;
	for (round = 0; round < ROUNDS; round++)
		for (p = 0; p < PROGRAMS; p++) {
			if (fds[p] < 0)
				continue;
			if (is_fed(p))
				bpf_map_update_elem(next, &zero, &fds[p], BPF_ANY);
			if (p == OURS)
				bench_set_turn(b, turn);
			took = test_run(is_fed(p) ? bench_fd(b, "feed_xdp") : fds[p], &f);
			ns[p] = took < ns[p] ? took : ns[p];
			if (p == OURS)
				turn = bench_turn(b);
		}
}

static void show(const char *name, const double ns[PROGRAMS], enum program p)
{
	double above = ns[p] - ns[is_fed(p) ? FED_EMPTY : EMPTY], counter = ns[COUNTER] - ns[EMPTY];

	if (ns[p] < 1e9)
		printf("%-40s %8.0f %12.2f\n", name, above, above / counter);
	else
		printf("%-40s not measured\n", name);
}

int main(int argc, char **argv)
{
	struct bench_constants constants = {.bth_offset = 42};
	double ns[PROGRAMS];
	int fds[PROGRAMS];
	struct bench b;

	if (argc != 2) {
		fprintf(stderr, "usage: filtercost PEERS.o\n");
		return 2;
	}
	setenv("LIBXDP_SKIP_DISPATCHER", "1", 1);
	if (!make_place() || bench_open(&b, argv[1], &constants)) {
		printf("xdp-filter not measured: no namespaces, no bpffs, or the programs do not "
		       "load\n\n");
		return 0;
	}
	bench_set_mask(&b, BENCH_NOT_SAMPLED);
	fds[EMPTY] = fds[FED_EMPTY] = bench_fd(&b, "empty_xdp");
	fds[ALLOW] = load_filter(&filters[ALLOW]);
	fds[DENY] = load_filter(&filters[DENY]);
	fds[COUNTER] = bench_fd(&b, "counter_xdp");
	fds[OURS] = bpf_program__fd(b.ours->progs.esc_xdp_in);
	measure(&b, fds, ns);
	printf("XDP, RoCEv2 data of one queue pair: nanoseconds per packet above an empty program, "
	       "the least of %d rounds of %d packets\n",
	       ROUNDS, REPEAT);
	printf("%-40s %8s %12s\n", "program", "above", "to counter");
	show("xdp-filter, allow, another port denied", ns, ALLOW);
	show("xdp-filter, deny, this port allowed", ns, DENY);
	show("reference flow counter", ns, COUNTER);
	show("ours", ns, OURS);
	printf("\n");
	bench_close(&b);
	return 0;
}
