// SPDX-License-Identifier: BSD-2-Clause
/*
 * Receipts: what they cost, how soon they are there, and how many bytes they are.
 * Two hosts are two network namespaces with a veth pair between them; there is
 * one kernel clock, and fabric time is it.
 * receipts PEERS.o
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "../bpf/receipt_world.h"
#include "delay/internal.h"
#include "bench.h"

#define RUNS 3000
#define BATCH 64
#define LATENCIES 2000
#define SEND_MIDDLE 0x01
#define RECEIPT_IP_BYTES (20 + 8 + R_END)

static int missed;

static const char *met(bool good)
{
	missed += !good;
	return good ? "yes" : "no";
}

/* --- nanoseconds of each step --- */

static double run_ns(int fd, const struct frame *f, int repeat)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .repeat = repeat);

	return bpf_prog_test_run_opts(fd, &o) ? 1e9 : o.duration;
}

static double median_of_empty(int fd, const struct frame *f, int repeat)
{
	static double ns[RUNS];

	for (int i = 0; i < RUNS; i++)
		ns[i] = run_ns(fd, f, repeat);
	return bench_median(ns, RUNS);
}

static void clear_stamps(struct receipt_world *w)
{
	static const struct esc_rx_timestamps none;
	uint32_t zero = 0;

	bpf_map_update_elem(receipt_fd(w, "rx_timestamps"), &zero, &none, BPF_ANY);
}

/* What a sampled packet costs: @from_mask 0 samples all. A packet a run, as in real traffic: cold.
 */
static double median_of_data(struct receipt_world *w, enum world_hook hook, bool sampled)
{
	static double ns[RUNS];
	struct frame f;
	uint32_t psn = 1;

	receipt_reset(w);
	w->word.sample_mask = sampled ? 0 : 0xffff;
	receipt_refresh(w, 0, 0);
	for (int i = 0; i < RUNS; i++) {
		data_build(&f, 4, SEND_MIDDLE, psn++);
		if (!(i & 63)) {
			clear_stamps(w);
			receipt_refresh(w, 0, 0);
		}
		ns[i] = run_ns(w->w.world.programs[hook], &f, 1);
	}
	return bench_median(ns, RUNS);
}

enum taken { MATCHED, UNMATCHED, FORGED };

static double median_of_receipts(struct receipt_world *w, enum taken how)
{
	static double ns[RUNS];
	struct receipt_plan plan = {.flags = ESC_RECEIPT_TIMED,
				    .sender = PEER,
				    .target = SELF,
				    .epoch = PEER_EPOCH,
				    .qpn = QPN,
				    .source_host = PEER_HOST};
	struct frame f;

	receipt_reset(w);
	w->word.sample_mask = 0;
	receipt_refresh(w, 0, 0);
	for (int i = 0; i < RUNS; i++) {
		if (how == MATCHED)
			data_send(w, WORLD_TC_OUT, 4, SEND_MIDDLE, i + 1);
		plan.psn = i + 1;
		plan.rx_fabric_ns = now_ns() + FABRIC_AHEAD_NS;
		plan.key = NULL;
		receipt_build(&f, &plan);
		model_swap(f.data + 26, f.data + 30, 4);
		receipt_put_tag(&f, 42, &keys[how == FORGED ? 2 : 0]);
		ns[i] = run_ns(w->w.world.programs[WORLD_XDP], &f, 1);
	}
	return bench_median(ns, RUNS);
}

static void row(const char *program, const char *what, double ns, double empty)
{
	printf("%-12s %-34s %6.0f %6.0f %8.0f\n", program, what, empty, ns, ns - empty);
}

/* PSN moves on within a run of many: what all other packets pay, to a nanosecond. */
static double least_unsampled(const char *peers, bool receipts, bool xdp, double *empty)
{
	struct bench_constants constants = {0, 42, 0};
	struct esc_control word = {.sample_mask = BENCH_NOT_SAMPLED,
				   .flags = ESC_CONTROL_SAMPLE_FIXED |
					    (receipts ? ESC_CONTROL_RECEIPTS : 0)};
	uint32_t zero = 0;
	double least = 1e9;
	struct frame f;
	struct bench b;

	if (bench_open(&b, peers, &constants))
		return -1;
	bpf_map_update_elem(bpf_map__fd(b.ours->maps.control), &zero, &word, BPF_ANY);
	data_build(&f, 4, SEND_MIDDLE, 1);
	*empty = 1e9;
	for (int i = 0; i < 10; i++) {
		int ours =
			bpf_program__fd(xdp ? b.ours->progs.esc_xdp_in : b.ours->progs.esc_tc_out);
		int none = bench_fd(&b, xdp ? "empty_xdp" : "empty_tc"), ns;
		int next = bpf_object__find_map_fd_by_name(b.peers, xdp ? "xdp_next" : "tc_next");

		bpf_map_update_elem(next, &zero, &none, BPF_ANY);
		ns = run_ns(bench_fd(&b, xdp ? "feed_xdp" : "feed_tc"), &f, 300000);
		*empty = ns < *empty ? ns : *empty;
		bench_set_turn(&b, i * 300000);
		bpf_map_update_elem(next, &zero, &ours, BPF_ANY);
		ns = run_ns(bench_fd(&b, xdp ? "feed_xdp" : "feed_tc"), &f, 300000);
		least = ns < least ? ns : least;
	}
	bench_close(&b);
	return least;
}

/* tc ingress is empty but for a look at what waits. */
static double least_ingress(struct receipt_world *w, const char *peers, double *empty)
{
	struct bench_constants constants = {0, 42, 0};
	double least = 1e9, ns;
	struct frame f;
	struct bench b;

	if (bench_open(&b, peers, &constants))
		return -1;
	receipt_reset(w);
	data_build(&f, 4, SEND_MIDDLE, 1);
	*empty = 1e9;
	for (int i = 0; i < 10; i++) {
		ns = run_ns(bench_fd(&b, "empty_tc"), &f, 300000);
		*empty = ns < *empty ? ns : *empty;
		ns = run_ns(w->w.world.programs[WORLD_TC_IN], &f, 300000);
		least = ns < least ? ns : least;
	}
	bench_close(&b);
	return least;
}

static void measure_costs(const char *peers)
{
	static const char *const names[] = {"tc_egress", "xdp_ingress"};
	struct bench_constants constants = {0, 42, 0};
	struct receipt_world w;
	double empty[2], off, on;
	struct frame f;
	struct bench b;

	if (bench_open(&b, peers, &constants) ||
	    receipt_world_open(&w, &(struct world_options){.rx_in_xdp_only = true})) {
		printf("not measured: the programs do not load\n");
		missed++;
		return;
	}
	printf("Nanoseconds per packet\n%-12s %-34s %6s %6s %8s %6s  %s\n", "program", "packet",
	       "empty", "ours", "above", "aim", "met");
	for (int xdp = 0; xdp < 2; xdp++) {
		off = least_unsampled(peers, false, xdp, &empty[0]);
		on = least_unsampled(peers, true, xdp, &empty[1]);
		printf("%-12s %-34s %6.0f %6.0f %8.0f\n", names[xdp], "not sampled, receipts off",
		       empty[0], off, off - empty[0]);
		printf("%-12s %-34s %6.0f %6.0f %8.0f %5.0f+5  %s\n", names[xdp],
		       "not sampled, receipts on", empty[1], on, on - empty[1], off - empty[0],
		       met(on - empty[1] <= off - empty[0] + 5));
	}
	on = least_ingress(&w, peers, &empty[0]);
	printf("%-12s %-34s %6.0f %6.0f %8.0f %6d  %s\n", "tc_ingress", "not sampled", empty[0], on,
	       on - empty[0], 5, met(on - empty[0] <= 5));
	printf("The same of packets one by one, each cold: medians of %d\n", RUNS);
	data_build(&f, 4, SEND_MIDDLE, 1);
	empty[0] = median_of_empty(bench_fd(&b, "empty_tc"), &f, 1);
	empty[1] = median_of_empty(bench_fd(&b, "empty_xdp"), &f, 1);
	row("tc_egress", "not sampled", median_of_data(&w, WORLD_TC_OUT, false), empty[0]);
	row("tc_egress", "recorded", median_of_data(&w, WORLD_TC_OUT, true), empty[0]);
	row("xdp_ingress", "not sampled", median_of_data(&w, WORLD_XDP, false), empty[1]);
	row("xdp_ingress", "stamped", median_of_data(&w, WORLD_XDP, true), empty[1]);
	row("xdp_ingress", "a receipt, matched", median_of_receipts(&w, MATCHED), empty[1]);
	row("xdp_ingress", "a receipt, unmatched", median_of_receipts(&w, UNMATCHED), empty[1]);
	row("xdp_ingress", "a receipt, bad tag", median_of_receipts(&w, FORGED), empty[1]);
	probe_world_close(&w.w);
	bench_close(&b);
}

/* --- two hosts --- */

struct host {
	struct receipt_world w;
	int netns;
};

struct pair {
	struct host a, b;
	int socket, other; /* packet sockets at a and at b */
};

static bool run(const char *format, ...)
{
	char command[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	return !system(command);
}

static int fresh_namespace(void)
{
	return unshare(CLONE_NEWNET) ? -1 : open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

static int packet_socket(const char *name)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(3),
				 .sll_ifindex = if_nametoindex(name)};
	int fd = socket(AF_PACKET, SOCK_RAW, htons(3)), on = 1, bytes = 8 << 20;

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	return fd;
}

/* A host whose peer is the other: frames of @source are its own, or come to it. */
static bool host_open(struct host *h, const char *interface, uint64_t self, uint64_t peer,
		      bool source)
{
	LIBBPF_OPTS(bpf_link_create_opts, xdp, .flags = XDP_FLAGS_DRV_MODE);
	struct esc_fleet fleet = probe_fleet_usual();
	struct esc_clock clock = {.generation = 1};
	uint32_t zero = 0, index;
	const int *programs;

	if (setns(h->netns, CLONE_NEWNET) ||
	    receipt_world_open(&h->w, &(struct world_options){.rx_in_xdp_only = true}))
		return false;
	fleet.self = self;
	probe_set_fleet(&h->w.w, &fleet);
	clock.slot[1].state = CLOCK_SYNCED;
	bpf_map_update_elem(receipt_fd(&h->w, "clock"), &zero, &clock, BPF_ANY);
	receipt_set_addresses(&h->w, 0, 0);
	receipt_set_address(&h->w, receipt_address(4, !source, source ? 0 : PEER_HOST), peer, 0);
	h->w.peer = probe_peer_keyed();
	probe_set_peer(&h->w.w, peer, &h->w.peer);
	index = if_nametoindex(interface);
	programs = h->w.w.world.programs;
	return bpf_link_create(programs[WORLD_XDP], index, BPF_XDP, &xdp) >= 0 &&
	       bpf_link_create(programs[WORLD_TC_OUT], index, TCX_EGRESS, NULL) >= 0 &&
	       bpf_link_create(programs[WORLD_TC_IN], index, TCX_INGRESS, NULL) >= 0;
}

static bool pair_open(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	p->b.netns = fresh_namespace();
	p->a.netns = fresh_namespace();
	/* Frames of frame.h go from ..:01 to ..:02. */
	if (!run("ip link add ra mtu 5000 address 02:00:00:00:00:01 type veth peer name rb "
		 "mtu 5000 address 02:00:00:00:00:02 netns /proc/%d/fd/%d && ip link set ra up",
		 getpid(), p->b.netns))
		return false;
	if (!host_open(&p->a, "ra", SELF, PEER, true))
		return false;
	p->socket = packet_socket("ra");
	if (setns(p->b.netns, CLONE_NEWNET) || !run("ip link set rb up") ||
	    !host_open(&p->b, "rb", PEER, SELF, false))
		return false;
	p->other = packet_socket("rb");
	return p->socket >= 0 && p->other >= 0;
}

static void pair_control(struct pair *p, uint32_t flags, uint32_t mask)
{
	struct receipt_world *worlds[] = {&p->a.w, &p->b.w};

	for (int i = 0; i < 2; i++) {
		worlds[i]->word.flags = flags;
		worlds[i]->word.sample_mask = mask;
		worlds[i]->word.heartbeat_local_ns = now_ns() + 3600000000000ull;
		world_set_control(&worlds[i]->w.world, &worlds[i]->word);
	}
}

static void pair_reset(struct pair *p)
{
	struct receipt_world *worlds[] = {&p->a.w, &p->b.w};

	for (int i = 0; i < 2; i++) {
		world_reset(&worlds[i]->w.world);
		receipt_forget(worlds[i], "qp_sent");
		receipt_forget(worlds[i], "qp_owd");
	}
}

/* --- feedback --- */

/* At b, in user space: answers each packet of the queue pair, as one without the programs would. */
static void *responder(void *context)
{
	struct pair *p = context;
	struct sockaddr_ll from;
	socklen_t size;
	struct frame f;
	ssize_t bytes;

	for (;;) {
		size = sizeof(from);
		bytes = recvfrom(p->other, f.data, sizeof(f.data), 0, (struct sockaddr *)&from,
				 &size);
		if (bytes < 60 || from.sll_pkttype == PACKET_OUTGOING ||
		    frame_get16(&f, 36) != 4791)
			continue;
		model_swap(f.data, f.data + 6, 6);
		frame_put16(&f, 36, 4999); /* to nobody: it is seen at a's packet socket */
		if (send(p->other, f.data, 90, 0) < 0)
			return NULL;
	}
}

static int64_t realtime_ahead_ns(void)
{
	struct timespec now;
	uint64_t before = now_ns();

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec - (int64_t)before;
}

/* CLOCK_MONOTONIC of the user-space reply's arrival, 0 when none came. */
static uint64_t reply_arrival(struct pair *p)
{
	char control[256];
	struct sockaddr_ll from;
	struct frame f;
	struct iovec io = {f.data, sizeof(f.data)};
	struct pollfd wait = {.fd = p->socket, .events = POLLIN};

	while (poll(&wait, 1, 100) == 1) {
		struct msghdr m = {.msg_name = &from,
				   .msg_namelen = sizeof(from),
				   .msg_iov = &io,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};
		struct timespec at;

		if (recvmsg(p->socket, &m, 0) < 0 || from.sll_pkttype == PACKET_OUTGOING ||
		    frame_get16(&f, 36) != 4999)
			continue;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
			if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
				memcpy(&at, CMSG_DATA(c), sizeof(at));
				return at.tv_sec * 1000000000ull + at.tv_nsec - realtime_ahead_ns();
			}
	}
	return 0;
}

static volatile bool busy;

/* Half of its CPU: 2 ms of every 4. */
static void *half_busy(void *context)
{
	cpu_set_t one;
	uint64_t from;

	CPU_ZERO(&one);
	CPU_SET((long)context, &one);
	sched_setaffinity(0, sizeof(one), &one);
	while (busy) {
		for (from = now_ns(); now_ns() - from < 2000000;)
			;
		usleep(2000);
	}
	return NULL;
}

static int measure_feedback(struct pair *p, double *kernel, double *user)
{
	struct esc_qp_owd owd, before = {0};
	int count = 0;
	struct frame f;

	pair_reset(p);
	pair_control(p, ESC_CONTROL_RECEIPTS | ESC_CONTROL_SAMPLE_FIXED, 0);
	for (uint32_t psn = 1; psn < LATENCIES; psn++) {
		uint64_t reply, arrival;

		data_build(&f, 4, SEND_MIDDLE, psn);
		if (send(p->socket, f.data, f.bytes, 0) < 0)
			break;
		reply = reply_arrival(p);
		usleep(500);
		if (!owd_read(&p->a.w, 4, &owd) || owd.receipts != before.receipts + 1 || !reply) {
			before = owd;
			continue;
		}
		/* It left at last - feedback, and arrived last_ns later. */
		arrival = owd.last_ktime_ns - (owd.feedback_sum_ns - before.feedback_sum_ns) +
			  owd.last_ns;
		if ((int64_t)(reply - arrival) < 0) { /* to the packet before: it came too late */
			before = owd;
			continue;
		}
		kernel[count] = (double)(owd.last_ktime_ns - arrival) / 1000;
		user[count++] = (double)(reply - arrival) / 1000;
		before = owd;
	}
	return count;
}

static void feedback_row(const char *name, const char *how, double *us, int count, bool aims)
{
	double median = bench_median(us, count), high = us[count * 99 / 100], top = us[count - 1];

	printf("%-24s %-24s %8.1f %8.1f %8.1f", name, how, median, high, top);
	if (aims)
		printf("   10/50  %s", met(median < 10 && high < 50));
	printf("\n");
}

static void measure_feedbacks(struct pair *p)
{
	static double kernel[LATENCIES], user[LATENCIES];
	pthread_t reply, loads[64];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	pthread_create(&reply, NULL, responder, p);
	printf("\nFeedback: microseconds from a packet's arrival at XDP to its delay in the "
	       "sender's "
	       "map\n%-24s %-24s %8s %8s %8s   %s\n",
	       "machine", "way", "median", "99th", "max", "aim    met");
	for (int load = 0; load < 2; load++) {
		int count;

		busy = load;
		for (long i = 0; load && i < cpus && i < 64; i++)
			pthread_create(&loads[i], NULL, half_busy, (void *)i);
		count = measure_feedback(p, kernel, user);
		busy = false;
		for (long i = 0; load && i < cpus && i < 64; i++)
			pthread_join(loads[i], NULL);
		if (count < LATENCIES / 2) {
			printf("# only %d of %d were measured\n", count, LATENCIES);
			missed++;
			if (!count)
				continue;
		}
		feedback_row(load ? "every CPU half busy" : "idle", "receipt", kernel, count, true);
		feedback_row("", "reply from user space", user, count, false);
	}
	pthread_cancel(reply);
	pthread_join(reply, NULL);
}

/* --- rate and bytes --- */

static double cpu_seconds(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return use.ru_utime.tv_sec + use.ru_utime.tv_usec / 1e6 + use.ru_stime.tv_sec +
	       use.ru_stime.tv_usec / 1e6;
}

/* Packets for each second of this thread's CPU, which all programs of both hosts run on. */
static double blast(struct pair *p, uint32_t payload, double seconds, uint32_t *psn)
{
	static struct frame frames[BATCH];
	struct mmsghdr messages[BATCH] = {0};
	struct iovec io[BATCH];
	double from = cpu_seconds(), now = from;
	uint64_t sent = 0;

	for (int i = 0; i < BATCH; i++) {
		frame_build(&frames[i], &(struct frame_plan){.opcode = SEND_MIDDLE,
							     .qpn = QPN,
							     .payload = payload,
							     .source_host = PEER_HOST});
		io[i] = (struct iovec){frames[i].data, frames[i].bytes};
		messages[i].msg_hdr.msg_iov = &io[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	do {
		for (int i = 0; i < BATCH; i++)
			frame_put32(&frames[i], 42 + 8, (*psn)++ & 0xffffff);
		if (sendmmsg(p->socket, messages, BATCH, 0) == BATCH)
			sent += BATCH;
		now = cpu_seconds();
	} while (now - from < seconds);
	return sent / (now - from);
}

static void measure_rate(struct pair *p)
{
	enum { ROUNDS = 15 };
	double ratios[ROUNDS], ratio;
	uint32_t psn = 1;

	pair_reset(p);
	for (int i = 0; i < ROUNDS; i++) {
		double none, some;

		pair_control(p, ESC_CONTROL_SAMPLE_FIXED, 63);
		none = blast(p, 1024, 0.2, &psn);
		pair_control(p, ESC_CONTROL_RECEIPTS | ESC_CONTROL_SAMPLE_FIXED, 63);
		some = blast(p, 1024, 0.2, &psn);
		ratios[i] = some / none;
	}
	ratio = bench_median(ratios, ROUNDS);
	printf("\nRate with every 64th packet sampled, of that with none, all on one CPU: "
	       "%.3f (aim 0.98: %s)\n",
	       ratio, met(ratio >= 0.98));
}

/* What every packet pays for the program behind the qdisc, those that are sampled among them. */
static void measure_queue(struct pair *p)
{
	enum { ROUNDS = 15 };
	double ns[ROUNDS];
	uint32_t psn = 1;
	char why[256];

	pair_reset(p);
	pair_control(p, ESC_CONTROL_RECEIPTS | ESC_CONTROL_SAMPLE_FIXED, 63);
	for (int i = 0; i < ROUNDS; i++) {
		struct host_queue_out *queue;
		double without = blast(p, 1024, 0.2, &psn);

		if (hostqueue_open(&queue, receipt_fd(&p->a.w, "host_queue"),
				   receipt_fd(&p->a.w, "qp_sent"), why, sizeof(why))) {
			printf("Behind the qdisc: not measured: %s\n", why);
			return;
		}
		ns[i] = 1e9 / blast(p, 1024, 0.2, &psn) - 1e9 / without;
		hostqueue_close(queue);
	}
	printf("The program behind the qdisc, off by default: %.0f ns a packet\n",
	       bench_median(ns, ROUNDS));
}

static void measure_bytes(struct pair *p, const char *name, uint32_t flags, uint32_t mask)
{
	uint64_t reasons[ESC_REASON_MAX];
	struct esc_qp_owd owd;
	struct esc_qp qp;
	uint32_t psn = 1;
	double part;

	pair_reset(p);
	pair_control(p, ESC_CONTROL_RECEIPTS | flags, mask);
	blast(p, 4096, 1.0, &psn);
	usleep(100000);
	owd_read(&p->a.w, 4, &owd);
	world_reasons(&p->a.w.w.world, reasons, WORLD_XDP);
	qp = qp_read(&p->a.w, 4, ESC_DIRECTION_TX);
	part = 100.0 * (owd.receipts + reasons[ESC_REASON_RECEIPT_UNMATCHED]) * RECEIPT_IP_BYTES /
	       qp.bytes;
	printf("Bytes of receipts for bytes of data, 4096 a packet, %s: %.3f%% (aim 0.5%%: %s), "
	       "%llu recorded, %llu matched\n",
	       name, part, met(owd.receipts && part < 0.5), (unsigned long long)owd.samples_sent,
	       (unsigned long long)owd.receipts);
}

int main(int argc, char **argv)
{
	struct pair p;
	cpu_set_t one, all;

	if (argc != 2) {
		fprintf(stderr, "usage: receipts PEERS.o\n");
		return 2;
	}
	measure_costs(argv[1]);
	if (!pair_open(&p)) {
		printf("two hosts cannot be made\n");
		return 1;
	}
	measure_feedbacks(&p);
	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	measure_rate(&p);
	measure_queue(&p);
	measure_bytes(&p, "every 64th", ESC_CONTROL_SAMPLE_FIXED, 63);
	measure_bytes(&p, "adaptive", 0, ESC_SAMPLE_MASK_DEFAULT);
	printf("%d of the aims not met\n\n", missed);
	return 0;
}
