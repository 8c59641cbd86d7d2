// SPDX-License-Identifier: BSD-2-Clause
/*
 * Packets per second through a veth pair in a network namespace of its own:
 * our programs at both ends against empty ones and against the reference flow
 * counter, alternating in one run. One
 * CPU sends and receives, so that every nanosecond shows, and the seconds are
 * that CPU's own, spent by the sender and by ksoftirqd, so that what else runs
 * on the machine shows less.
 * rate PEERS.o
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#include "../bpf/frame.h"

/* Short rounds and many of them: what else the machine does invalidates some, not the median. */
#define ROUNDS 31
#define AF_PACKET_PACKETS 15000
#define LIVE_PACKETS 60000
#define BATCH 64
#define PAYLOAD 1024
#define BTH_OFFSET 42

/* Newer than the headers of the distribution. */
#define TCX_EGRESS 47

enum sender { AF_PACKET_BYPASS, AF_PACKET_QDISC, LIVE_FRAMES };

static const char *const sender_names[] = {"AF_PACKET -> XDP", "AF_PACKET, tc -> XDP",
					   "XDP live frames -> XDP"};

enum program { EMPTY, COUNTER, OURS, PROGRAMS };

struct path {
	struct bench bench;
	enum sender sender;
	int xdp_link, tc_link;
	int socket;
	uint32_t qp_mask;
	uint32_t turn; /* of the AF_PACKET sender */
};

static bool run(const char *command)
{
	if (!system(command))
		return true;
	printf("# failed: %s\n", command);
	return false;
}

/* The receiver takes no address, so that what passes ends right behind the driver. */
static bool make_veth(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &one);
	return !sched_setaffinity(0, sizeof(one), &one) && !unshare(CLONE_NEWNET) &&
	       run("ip link add v0 numtxqueues 1 numrxqueues 1 type veth "
		   "peer name v1 numtxqueues 1 numrxqueues 1 && "
		   "ip link set v0 up && ip link set v1 up");
}

/* Run time of this CPU's ksoftirqd, -1 when it is not to be seen. */
static int open_softirqd(void)
{
	char want[32], name[32], path[64] = "";
	glob_t found;
	FILE *file;
	size_t i;

	snprintf(want, sizeof(want), "ksoftirqd/%d\n", sched_getcpu());
	if (glob("/proc/[0-9]*/comm", 0, NULL, &found))
		return -1;
	for (i = 0; i < found.gl_pathc && !*path; i++) {
		file = fopen(found.gl_pathv[i], "r");
		if (file && fgets(name, sizeof(name), file) && !strcmp(name, want))
			snprintf(path, sizeof(path), "/proc/%d/schedstat",
				 atoi(found.gl_pathv[i] + strlen("/proc/")));
		if (file)
			fclose(file);
	}
	globfree(&found);
	return *path ? open(path, O_RDONLY) : -1;
}

/* A kernel that keeps the time of softirqs apart does not put it into a thread's. */
static bool softirqs_are_apart(void)
{
	return !system("{ zcat /proc/config.gz || cat /boot/config-$(uname -r); } 2>/dev/null |"
		       " grep -q '^CONFIG_IRQ_TIME_ACCOUNTING=y'");
}

static bool use_wall_clock;
static int softirqd = -1;

static double now_seconds(void)
{
	unsigned long long softirqd_ns = 0;
	struct timespec now;
	char text[128] = "";

	clock_gettime(use_wall_clock ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
	if (softirqd >= 0 && pread(softirqd, text, sizeof(text) - 1, 0) > 0)
		softirqd_ns = strtoull(text, NULL, 10);
	return now.tv_sec + now.tv_nsec / 1e9 + softirqd_ns / 1e9;
}

/* Packets that v1 has received. */
static uint64_t delivered(void)
{
	FILE *file = fopen("/proc/thread-self/net/dev", "r");
	unsigned long long bytes, packets = 0;
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " v1: %llu %llu", &bytes, &packets) == 2)
			break;
	if (file)
		fclose(file);
	return packets;
}

/* With @bypass, tc egress does not see the packets: a receiver's cost alone. */
static int open_socket(bool bypass)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_ifindex = if_nametoindex("v0"),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), bytes = 64 << 20, on = bypass;

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
	return fd;
}

static void feed(struct frame *f, uint32_t n, uint32_t qp_mask)
{
	frame_put32(f, BTH_OFFSET + 4, 0x100 + (n & qp_mask));
	frame_put32(f, BTH_OFFSET + 8, n / (qp_mask + 1) & 0xffffff);
}

static bool send_packets(struct path *path, const struct frame *pattern)
{
	static struct frame frames[BATCH];
	struct mmsghdr messages[BATCH] = {0};
	struct iovec parts[BATCH];
	uint32_t sent, i;

	for (i = 0; i < BATCH; i++) {
		memcpy(&frames[i], pattern, sizeof(*pattern));
		parts[i].iov_base = frames[i].data;
		parts[i].iov_len = frames[i].bytes;
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	for (sent = 0; sent < AF_PACKET_PACKETS; sent += BATCH) {
		for (i = 0; i < BATCH; i++)
			feed(&frames[i], path->turn++, path->qp_mask);
		if (sendmmsg(path->socket, messages, BATCH, 0) != BATCH)
			return false;
	}
	return true;
}

static bool send_live(struct path *path, const struct frame *f)
{
	struct xdp_md context = {.data_end = f->bytes, .ingress_ifindex = if_nametoindex("v0")};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = LIVE_PACKETS,
		    .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = BATCH);

	return !bpf_prog_test_run_opts(bench_fd(&path->bench, "feed_redirect"), &o);
}

/* Puts it at both ends. */
static bool choose(struct path *path, enum program program)
{
	static const char *const names[][2] = {{"empty_xdp", "empty_tc"},
					       {"counter_xdp", "counter_tc"}};
	const struct bench *b = &path->bench;
	int xdp, tc;

	if (program == OURS) {
		xdp = bpf_program__fd(b->ours->progs.esc_xdp_in);
		tc = bpf_program__fd(b->ours->progs.esc_tc_out);
	} else {
		xdp = bench_fd(b, names[program][0]);
		tc = bench_fd(b, names[program][1]);
	}
	return !bpf_link_update(path->xdp_link, xdp, NULL) &&
	       !bpf_link_update(path->tc_link, tc, NULL);
}

/* Delivered packets per second, 0 when nothing could be sent. */
static double measure(struct path *path, const struct frame *f)
{
	uint64_t before = delivered();
	double start = now_seconds();
	bool sent = path->sender == LIVE_FRAMES ? send_live(path, f) : send_packets(path, f);
	double seconds = now_seconds() - start;

	return sent ? (delivered() - before) / seconds : 0;
}

static bool open_path(struct path *path, const char *peers, enum sender sender, uint32_t qps)
{
	struct bench_constants constants = {qps - 1, BTH_OFFSET, if_nametoindex("v0")};

	memset(path, 0, sizeof(*path));
	path->sender = sender;
	path->qp_mask = qps - 1;
	if (bench_open(&path->bench, peers, &constants))
		return false;
	bench_set_mask(&path->bench, 63);
	path->xdp_link = bpf_link_create(bench_fd(&path->bench, "empty_xdp"), if_nametoindex("v1"),
					 BPF_XDP, NULL);
	path->tc_link = bpf_link_create(bench_fd(&path->bench, "empty_tc"), if_nametoindex("v0"),
					TCX_EGRESS, NULL);
	path->socket = open_socket(sender == AF_PACKET_BYPASS);
	return path->xdp_link >= 0 && path->tc_link >= 0 && path->socket >= 0;
}

static void close_path(struct path *path)
{
	close(path->xdp_link);
	close(path->tc_link);
	close(path->socket);
	bench_close(&path->bench);
}

/* 1: the aim was missed. */
static int measure_sender(const char *peers, enum sender sender, uint32_t qps, double aim)
{
	struct frame_plan plan = {.opcode = 0x07, .payload = PAYLOAD};
	double rates[PROGRAMS][ROUNDS], counter[ROUNDS], ours[ROUNDS], median;
	const char *name = sender_names[sender];
	struct path path;
	struct frame f;
	int round, i, program;

	frame_build(&f, &plan);
	if (!open_path(&path, peers, sender, qps)) {
		printf("%-22s %5u not measured: no TCX or no native XDP on veth here\n", name, qps);
		return 0;
	}
	measure(&path, &f); /* warms up pages and maps */
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < PROGRAMS; i++) {
			program = (round + i) % PROGRAMS;
			choose(&path, program);
			rates[program][round] = measure(&path, &f);
		}
		counter[round] = rates[COUNTER][round] / rates[EMPTY][round];
		ours[round] = rates[OURS][round] / rates[EMPTY][round];
	}
	median = bench_median(ours, ROUNDS);
	printf("%-22s %5u %12.0f %12.0f %12.0f %8.3f %7.3f %6.2f  %s\n", name, qps,
	       bench_median(rates[EMPTY], ROUNDS), bench_median(rates[COUNTER], ROUNDS),
	       bench_median(rates[OURS], ROUNDS), bench_median(counter, ROUNDS), median, aim,
	       median >= aim ? "yes" : "no");
	close_path(&path);
	return median < aim;
}

int main(int argc, char **argv)
{
	int missed = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: rate PEERS.o\n");
		return 2;
	}
	if (!make_veth()) {
		printf("rates not measured: no network namespace with a veth pair\n");
		return 0;
	}
	use_wall_clock = softirqs_are_apart();
	if (!use_wall_clock)
		softirqd = open_softirqd();
	printf("Packets of %d bytes delivered through veth per second of %s, medians of %d "
	       "rounds\n",
	       PAYLOAD + 58, use_wall_clock ? "the clock" : "one CPU", ROUNDS);
	printf("%-22s %5s %12s %12s %12s %8s %7s %6s  %s\n", "sender", "QPs", "empty", "counter",
	       "ours", "counter", "ours", "aim", "met");
	missed += measure_sender(argv[1], AF_PACKET_BYPASS, 1, 0.95);
	missed += measure_sender(argv[1], AF_PACKET_BYPASS, 1024, 0.95);
	missed += measure_sender(argv[1], AF_PACKET_QDISC, 1, 0.95);
	missed += measure_sender(argv[1], LIVE_FRAMES, 1, 0.80);
	missed += measure_sender(argv[1], LIVE_FRAMES, 1024, 0.80);
	printf("%d of the aims not met\n", missed);
	return 0;
}
