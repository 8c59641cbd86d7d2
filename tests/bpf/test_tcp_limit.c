// SPDX-License-Identifier: BSD-2-Clause
/*
 * A limited connection on this kernel, both ends in one cgroup: its wrapper, the maximum of its
 * pacing and an application's own, what is left when the limit ends or when another daemon takes
 * over, its class.
 */
#define TAP_PLAN 49

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "maps/maps.h"
#include "pacing/tcpwindow.h"
#include "tests/lib/tap.h"
#include "tcp_cgroup.h"
#include "tcp/internal.h"

#define PORT 7000
/* Less than what the queue in front of the loopback holds: the window is small, the rate ours. */
#define THRESHOLD_NS 100000
#define SLOW_LOOPBACK                                                                              \
	"ip link set lo up mtu 1500 && tc qdisc add dev lo root tbf rate 400mbit burst 10k limit " \
	"400k"
#define FAST_LOOPBACK "tc qdisc del dev lo root"
#define FAST_WRITES 16 /* each time, so that a wide window is what limits */
#define FAST_THRESHOLD_NS 50000000
#define WAIT_MS 6000
/* include/net/sock.h, enum sk_pacing */
#define PACING_NONE 0
#define PACING_NEEDED 1
#define NO_RATE UINT64_MAX
#define APP_RATE 20000000ull

static struct tcpedge *edge;
static struct tcpwrap *wrap;
static struct esc_tcp_control word = {.mode = ESC_TCP_PACE, .class_count = 1};
static int sender = -1, receiver = -1;
static bool beating = true;
static int writes = 1;
static const char *cgroup_path;
static const char *congestion = "cubic"; /* of the sender */

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void beat(void)
{
	struct esc_control control = {.heartbeat_local_ns = now_ns()};
	struct esc_clock clock = {.generation = 2};
	struct clock_model *model = &clock.slot[0];
	uint32_t zero = 0;

	if (!beating || !edge)
		return;
	model->ref_local_ns = model->slew_end_local_ns = model->bound_local_ns =
		(long long)now_ns();
	model->ref_fabric_ns = model->slew_end_fabric_ns = model->ref_local_ns;
	model->bound_ns = 50;
	model->state = CLOCK_SYNCED;
	bpf_map_update_elem(tcpedge_map_fd(edge, "clock"), &zero, &clock, BPF_ANY);
	bpf_map_update_elem(tcpedge_map_fd(edge, "control"), &zero, &control, BPF_ANY);
}

static struct esc_tcp_flow flow(void)
{
	struct esc_tcp_flow found = {};

	if (edge)
		bpf_map_lookup_elem(tcpedge_map_fd(edge, "tcp_flows"), &sender, &found);
	return found;
}

static uint64_t own_rate(void)
{
	uint64_t rate = 0;
	socklen_t bytes = sizeof(rate);

	getsockopt(sender, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &bytes);
	return rate;
}

static void set_rate(uint64_t rate)
{
	setsockopt(sender, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
}

/* Bytes that were received, -1: the connection has ended. */
static long transfer(void)
{
	static char data[65536];
	struct pollfd wait = {.fd = receiver, .events = POLLIN};
	long all = 0;
	ssize_t got;

	beat();
	for (int i = 0; i < writes; i++)
		if (write(sender, data, sizeof(data)) < 0 && errno != EAGAIN)
			return -1;
	poll(&wait, 1, 5);
	while ((got = read(receiver, data, sizeof(data))) > 0)
		all += got;
	return all;
}

/* Data flows until @condition holds. */
static bool until(bool (*condition)(void))
{
	uint64_t end = now_ns() + WAIT_MS * 1000000ull;

	while (now_ns() < end) {
		if (transfer() < 0)
			return false;
		if (condition())
			return true;
	}
	return false;
}

/* Bytes per second that are received in @ms. */
static double throughput(unsigned int ms)
{
	uint64_t start = now_ns(), end = start + ms * 1000000ull;
	double all = 0;
	long got = 0;

	while (got >= 0 && now_ns() < end) {
		got = transfer();
		all += got > 0 ? (double)got : 0;
	}
	return all * 1e9 / (double)(now_ns() - start);
}

static bool is_limited(void)
{
	return flow().limited && flow().rate_Bps != ESC_TCP_NO_RATE;
}

static bool is_wide(void)
{
	return flow().limited && flow().rate_Bps == ESC_TCP_NO_RATE &&
	       flow().law.window >= TCP_WINDOW_FREE;
}

static bool is_free(void)
{
	return !flow().limited;
}

static bool is_ours(void)
{
	return own_rate() != NO_RATE && own_rate() == flow().rate_Bps;
}

static bool is_none(void)
{
	return own_rate() == NO_RATE;
}

static bool is_app_rate(void)
{
	return flow().app_rate_Bps == APP_RATE && own_rate() < APP_RATE;
}

static bool is_heeded(void)
{
	return flow().app_rate_Bps == 1000000 && own_rate() == 1000000;
}

static bool is_huge(void)
{
	return flow().limited && flow().app_rate_Bps == 5000000000ull;
}

static bool is_of_class(void)
{
	return flow().class == 1 && flow().law.weight == 3;
}

static bool is_of_none(void)
{
	return flow().limited && !flow().class;
}

static bool goes_on(void)
{
	static uint64_t begun;

	begun = begun ? begun : now_ns();
	return now_ns() - begun > 300000000;
}

static bool has_congestion(const char *name)
{
	char found[16] = "";
	socklen_t bytes = sizeof(found);

	getsockopt(sender, IPPROTO_TCP, TCP_CONGESTION, found, &bytes);
	return !strcmp(found, name);
}

static const struct tcpedge_maps own_maps = {
	.control_fd = -1, .clock_fd = -1, .members_fd = -1, .flows_fd = -1};

static bool open_edge(char *why, size_t bytes)
{
	static const struct esc_address members[] = {
		{.bytes = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}},
		{.bytes = {[15] = 1}},
	};
	struct esc_peer_address value = {.id = 1};

	if (tcpedge_open(&edge, &own_maps, why, bytes))
		return false;
	for (int i = 0; i < 2; i++)
		bpf_map_update_elem(tcpedge_map_fd(edge, "peer_addresses"), &members[i], &value,
				    BPF_ANY);
	return true;
}

static bool start_wrap(char *why, size_t bytes)
{
	if (tcpwrap_open(&wrap, tcpedge_map_fd(edge, "tcp_flows"),
			 tcpedge_map_fd(edge, "tcp_counts"), 0, why, bytes) ||
	    !tcpwrap_name(wrap, ESC_TCP_INNER_CUBIC)[0])
		return false;
	for (int i = 1; i < ESC_TCP_INNER_MAX; i++)
		snprintf(word.names[i], sizeof(word.names[i]), "%s", tcpwrap_name(wrap, i));
	tcpedge_write(edge, &word);
	beat();
	return true;
}

/* As a daemon that exits does. */
static void stop(void)
{
	tcpedge_close(edge);
	tcpwrap_close(wrap);
	edge = NULL;
	wrap = NULL;
}

/* The daemon exits and the next one starts @gap_ms later, or at once; data flows meanwhile. */
static bool restart(unsigned int gap_ms)
{
	char why[512] = "";

	stop();
	if (gap_ms)
		throughput(gap_ms);
	return open_edge(why, sizeof(why)) && start_wrap(why, sizeof(why)) &&
	       !tcpedge_attach(edge, cgroup_path, why, sizeof(why));
}

static bool silence(void)
{
	beating = false;
	return until(is_free);
}

static bool speak(void)
{
	beating = true;
	return until(is_limited);
}

static void test_rates(void)
{
	tap_ok(until(is_limited) && until(is_ours), "limited: the maximum of its pacing is ours");
	tap_ok(flow().inner == ESC_TCP_INNER_CUBIC && has_congestion("cubic"),
	       "its congestion control is the wrapper, and the application reads cubic");
	set_rate(1000000);
	tap_ok(until(is_heeded), "the application's own, which is less, is in force");
	tap_ok(silence() && own_rate() == 1000000, "and is there when the limit has ended");
	tap_ok(speak() && until(is_heeded), "and in the next limit");
	set_rate(NO_RATE);
	tap_ok(until(is_ours), "reverted in the limit: ours is left");
	tap_ok(silence() && own_rate() == NO_RATE, "and none after it");
	speak();
	set_rate(5000000000ull);
	tap_ok(until(is_huge) && until(goes_on) && own_rate() == 5000000000ull,
	       "one of more than 32 bits is not touched");
	tap_ok(silence() && own_rate() == 5000000000ull, "nor when the limit ends");
	set_rate(NO_RATE);
	speak();
}

static void test_class(void)
{
	word.class_count = 2;
	word.classes[1] = (struct esc_tcp_class){
		.weight = 3, .threshold_ns = THRESHOLD_NS, .port_first = PORT, .port_last = PORT};
	tcpedge_write(edge, &word);
	tap_ok(until(is_of_class), "a class that it fits from now on gives it its weight");
}

static struct esc_tcp_counts read_counts(void)
{
	struct esc_tcp_counts counts = {};

	tcpedge_sum(edge, "tcp_counts", 1, &counts, sizeof(counts));
	return counts;
}

static bool is_reno(void)
{
	return is_limited() && flow().inner == ESC_TCP_INNER_RENO;
}

static bool is_unwrapped(void)
{
	return is_none() && is_free() && !flow().inner && flow().unlimited;
}

/* The application sets its congestion control on a connection: `iperf3 -C reno`. */
static void test_replaced(void)
{
	struct esc_tcp_counts before = read_counts();
	char few[6] = "";
	socklen_t bytes = sizeof(few);
	char pair[2] = "";

	tap_ok(until(is_ours), "limited again");
	setsockopt(sender, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	tap_ok(until(is_reno) && flow().app_rate_Bps == NO_RATE && has_congestion("reno"),
	       "another congestion control that the application sets is limited, and reads as it");
	tap_ok(!getsockopt(sender, IPPROTO_TCP, TCP_CONGESTION, few, &bytes) && bytes == 6 &&
		       !strcmp(few, "reno"),
	       "also into a short buffer");
	bytes = sizeof(pair);
	tap_ok(!getsockopt(sender, IPPROTO_TCP, TCP_CONGESTION, pair, &bytes) && bytes == 2,
	       "one that has no room for it is no error");
	setsockopt(sender, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	throughput(100);
	tap_ok(until(is_reno) && read_counts().rewrapped == before.rewrapped + 2 &&
		       read_counts().unwrapped == before.unwrapped,
	       "and once more; it is counted");
	word.names[ESC_TCP_INNER_CUBIC][0] = '\0';
	tcpedge_write(edge, &word);
	setsockopt(sender, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
	tap_ok(until(is_unwrapped) && has_congestion("cubic"),
	       "without a wrapper for it: no limit, no rate of ours");
	throughput(1500);
	tap_ok(read_counts().unwrapped == before.unwrapped + 1, "counted as measured only, once");
	snprintf(word.names[ESC_TCP_INNER_CUBIC], sizeof(word.names[0]), "%s",
		 tcpwrap_name(wrap, ESC_TCP_INNER_CUBIC));
	tcpedge_write(edge, &word);
	tap_ok(until(is_limited), "with one it is limited a moment later");
}

/* Errors leave the buffer as it was, and some the length that is needed. */
static void test_option_errors(void)
{
	gid_t groups[40] = {}, filled = 0x5a5a5a5a, got = filled;
	socklen_t bytes = sizeof(got);
	int pair[2];

	for (int i = 0; i < 40; i++)
		groups[i] = i;
	tap_ok(getsockopt(sender, 0xdead, 1, &got, &bytes) < 0 && errno == EOPNOTSUPP &&
		       got == filled && bytes == sizeof(got),
	       "an option that is not there: the error, and the buffer as it was");
	if (setgroups(40, groups) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {
		tap_ok(false, "a pair of sockets with groups");
		return;
	}
	tap_ok(getsockopt(pair[0], SOL_SOCKET, SO_PEERGROUPS, &got, &bytes) < 0 &&
		       errno == ERANGE && bytes == sizeof(groups) && got == filled,
	       "an error that reports the length that is needed");
	close(pair[0]);
	close(pair[1]);
}

/* Other options are the kernel's, of any length. */
static void test_other_options(void)
{
	int own = socket(AF_NETLINK, SOCK_RAW, 0), group = 40;
	static char many[20000], small[4];
	socklen_t bytes = sizeof(many);
	struct tcp_info info;
	bool good;

	good = !getsockopt(sender, IPPROTO_TCP, TCP_INFO, many, &bytes);
	tap_ok(good && bytes >= 100 && bytes < sizeof(many),
	       "TCP_INFO into a buffer of more than a page: %u bytes", bytes);
	bytes = sizeof(info);
	tap_ok(!getsockopt(sender, IPPROTO_TCP, TCP_INFO, &info, &bytes) && bytes == sizeof(info) &&
		       info.tcpi_state == TCP_ESTABLISHED,
	       "and into one of its own size");
	/* SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NETLINK_LIST_MEMBERSHIPS */
	setsockopt(own, 270, 1, &group, sizeof(group));
	bytes = sizeof(small);
	good = !getsockopt(own, 270, 9, small, &bytes);
	tap_ok(good && bytes > sizeof(small), "a result that is longer than the buffer: %u bytes",
	       bytes);
	close(own);
	test_option_errors();
}

/* The option that tests/tools/getopt.bpf.c adds, of a new socket of @cgroup. */
static bool has_other_option(const char *cgroup)
{
	socklen_t bytes = 1;
	uint8_t got = 0;
	bool good;
	int fd;

	tcp_cgroup_join(cgroup, getpid());
	fd = socket(AF_INET, SOCK_STREAM, 0);
	good = !getsockopt(fd, 0xdead, 1, &got, &bytes) && bytes == 1 && got == 0x55;
	close(fd);
	return good;
}

/* Another owner's program: in our cgroup, where it runs after ours, and in one below, before it. */
static void test_other_program(void)
{
	char path[PATH_MAX + 32] = "", below[256];
	const char *cgroups[] = {cgroup_path, below};
	struct bpf_object *object;
	bool good[2] = {};
	int program = -1;

	snprintf(below, sizeof(below), "%s/below", cgroup_path);
	if (readlink("/proc/self/exe", path, PATH_MAX - 1) < 0 || mkdir(below, 0755))
		return;
	strcat(dirname(path), "/../tools/getopt.bpf.o");
	object = bpf_object__open(path);
	if (object && !bpf_object__load(object))
		program = bpf_program__fd(bpf_object__find_program_by_name(object, "getopt_other"));
	for (int i = 0; i < 2; i++) {
		int folder = open(cgroups[i], O_RDONLY | O_DIRECTORY);
		int link = bpf_link_create(program, folder, BPF_CGROUP_GETSOCKOPT, NULL);

		good[i] = link >= 0 && has_other_option(cgroups[i]);
		close(link);
		close(folder);
	}
	tap_ok(good[0] && good[1], "another owner's option, of a program after ours and before it");
	tcp_cgroup_join(cgroup_path, getpid());
	rmdir(below);
	bpf_object__close(object);
}

static bool connect_both(int family)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct sockaddr *address =
		family == AF_INET6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	socklen_t bytes = family == AF_INET6 ? sizeof(v6) : sizeof(v4);
	int listener = socket(family, SOCK_STREAM, 0), one = 1;

	v6.sin6_addr = in6addr_loopback;
	v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	close(sender);
	close(receiver);
	sender = -1;
	receiver = socket(family, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, congestion, strlen(congestion)) ||
	    bind(listener, address, bytes) || listen(listener, 1) ||
	    connect(receiver, address, bytes))
		return false;
	sender = accept(listener, NULL, NULL);
	close(listener);
	fcntl(sender, F_SETFL, O_NONBLOCK);
	fcntl(receiver, F_SETFL, O_NONBLOCK);
	return sender >= 0;
}

static void test_closed(void)
{
	uint64_t before = read_counts().unwrapped;
	bool good = connect_both(AF_INET) && until(is_limited) && connect_both(AF_INET);

	throughput(100);
	tap_ok(good && read_counts().unwrapped == before,
	       "a limited connection that is closed is not");
}

/* IPv6 has its own mark; IP_TOS of such a socket is of no packet. */
static void test_class_v6(void)
{
	int marked = 46 << 2;

	word.classes[1] = (struct esc_tcp_class){
		.weight = 3, .threshold_ns = THRESHOLD_NS, .dscps = 1ull << 46};
	tcpedge_write(edge, &word);
	tap_ok(connect_both(AF_INET6) && until(is_of_none), "IPv6: limited, and of no class");
	setsockopt(sender, IPPROTO_IPV6, IPV6_TCLASS, &marked, sizeof(marked));
	tap_ok(until(is_of_class), "IPv6: of a class by the DSCP of its traffic class");
	marked = 12 << 2;
	setsockopt(sender, IPPROTO_IPV6, IPV6_TCLASS, &marked, sizeof(marked));
	tap_ok(until(is_of_none), "IPv6: by another DSCP of none");
}

/* sk_pacing_status of the sender as the iterator reports it; -1: it does not. */
static int read_pacing(int link_fd)
{
	struct {
		uint32_t port, status;
	} row;
	int fd = bpf_iter_create(link_fd), status = -1;

	if (fd < 0)
		return -1;
	while (read(fd, &row, sizeof(row)) == sizeof(row))
		if (row.port == PORT)
			status = row.status;
	close(fd);
	return status;
}

static int pacing(void)
{
	char path[PATH_MAX + 32] = "";
	struct bpf_object *object;
	struct bpf_link *link;
	int status = -1;

	if (readlink("/proc/self/exe", path, PATH_MAX - 1) < 0)
		return -1;
	strcat(dirname(path), "/../tools/sockpace.bpf.o");
	object = bpf_object__open(path);
	if (!object)
		return -1;
	if (!bpf_object__load(object)) {
		link = bpf_program__attach_iter(
			bpf_object__find_program_by_name(object, "sockpace"), NULL);
		if (link)
			status = read_pacing(bpf_link__fd(link));
		bpf_link__destroy(link);
	}
	bpf_object__close(object);
	return status;
}

/* @wanted: maximum rate of the application. The connection is limited before and after. */
static void expect_restart(unsigned int gap_ms, uint64_t wanted)
{
	bool limited = until(is_ours) && restart(gap_ms) && until(is_limited);
	uint64_t found = flow().app_rate_Bps;

	tap_ok(limited && found == wanted,
	       "%s, the next daemon after %u ms: limited again, maximum of the application %lld",
	       congestion, gap_ms, (long long)found);
}

static void swap_connections(int *other_sender, int *other_receiver)
{
	int now_sender = sender, now_receiver = receiver;

	sender = *other_sender;
	receiver = *other_receiver;
	*other_sender = now_sender;
	*other_receiver = now_receiver;
}

/*
 * Of this connection and of a new one without the option, the best of up to five turns: what else
 * the machine does makes them slower, never faster.
 */
static bool is_as_fast(char *text, size_t bytes)
{
	int plain_sender = -1, plain_receiver = -1;
	double here = 0, there = 0;

	swap_connections(&plain_sender, &plain_receiver);
	connect_both(AF_INET);
	swap_connections(&plain_sender, &plain_receiver);
	writes = FAST_WRITES;
	for (int i = 0; i < 5 && !(here > 0.9 * there && here < 1.1 * there); i++) {
		throughput(500);
		here = fmax(here, throughput(500));
		swap_connections(&plain_sender, &plain_receiver);
		throughput(500);
		there = fmax(there, throughput(500));
		swap_connections(&plain_sender, &plain_receiver);
	}
	writes = 1;
	close(plain_sender);
	close(plain_receiver);
	snprintf(text, bytes, "%.0f and %.0f Mbit/s", here * 8e-6, there * 8e-6);
	return here > 0.9 * there && here < 1.1 * there;
}

/*
 * The daemon was killed, and there is no next one: within 2 s each connection has the congestion
 * control of its application, by the wrapper itself. No program changes what is read here.
 */
static void test_ended(void)
{
	for (int i = ESC_TCP_INNER_CUBIC; i < ESC_TCP_INNER_MAX; i++) {
		bool wrapped, ended;

		congestion = esc_tcp_inner_names[i];
		if (!tcpwrap_name(wrap, i)[0]) {
			tap_skip(congestion, "the kernel takes no wrapper around it");
			continue;
		}
		beat();
		wrapped = connect_both(AF_INET) && until(is_ours);
		stop();
		wrapped = wrapped && !has_congestion(congestion);
		throughput(2300);
		ended = has_congestion(congestion) && own_rate() == NO_RATE;
		tap_ok(wrapped && ended && restart(0) && until(is_limited),
		       "%s: the wrapper at the daemon's end, not 2.3 s later, and again with the "
		       "next",
		       congestion);
	}
	congestion = "cubic";
}

/* The maximum rate that one daemon has set is not the application's for the next one. */
static void test_restart(void)
{
	static const unsigned int gaps_ms[] = {0, 300, 500, 1000, 1900, 2100};
	char rates[64];

	word.class_count = 1;
	tcpedge_write(edge, &word);
	connect_both(AF_INET);
	for (size_t i = 0; i < sizeof(gaps_ms) / sizeof(gaps_ms[0]); i++)
		expect_restart(gaps_ms[i], NO_RATE);
	tap_ok(silence() && own_rate() == NO_RATE && pacing() == PACING_NONE,
	       "no maximum and no pacing is left when the limit ends");
	tap_ok(is_as_fast(rates, sizeof(rates)),
	       "throughput within 10%% of a connection that never had a limit: %s", rates);
	beating = true;
	beat();
	connect_both(AF_INET);
	until(is_ours);
	set_rate(APP_RATE);
	until(is_app_rate);
	expect_restart(300, APP_RATE);
	for (int i = ESC_TCP_INNER_BBR; i <= ESC_TCP_INNER_RENO; i++) {
		congestion = esc_tcp_inner_names[i];
		if (!tcpwrap_name(wrap, i)[0]) {
			tap_skip(congestion, "the kernel takes no wrapper around it");
			continue;
		}
		beat();
		connect_both(AF_INET);
		expect_restart(300, NO_RATE);
	}
	congestion = "cubic";
}

/* The sender connects; then it disconnects, and connects with the same socket again. */
static void test_reconnected(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT + 1)};
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	bool good = false;

	beat();
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	close(sender);
	close(receiver);
	receiver = -1;
	sender = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(sender, IPPROTO_TCP, TCP_CONGESTION, congestion, strlen(congestion));
	good = !bind(listener, (struct sockaddr *)&to, sizeof(to)) && !listen(listener, 1);
	for (int i = 0; i < 2 && good; i++) {
		beat();
		fcntl(sender, F_SETFL, 0);
		good = !connect(sender, (i ? &none : (struct sockaddr *)&to), sizeof(to));
		/* A SYN that the full queue drops withholds the option for a minute. */
		usleep(i ? 700000 : 0);
		beat();
		good = good && (!i || !connect(sender, (struct sockaddr *)&to, sizeof(to)));
		close(receiver);
		receiver = good ? accept(listener, NULL, NULL) : -1;
		fcntl(sender, F_SETFL, O_NONBLOCK);
		fcntl(receiver, F_SETFL, O_NONBLOCK);
		good = good && until(is_limited);
	}
	tap_ok(good && flow().inner == ESC_TCP_INNER_CUBIC && flow().app_rate_Bps == NO_RATE,
	       "a socket that connects again: limited, maximum of the application %lld",
	       (long long)flow().app_rate_Bps);
	close(listener);
}

/* Without fq the stack paces by a timer for every burst, and a fast connection is slow by it. */
static void test_wide(void)
{
	word.class_count = 1;
	tcpedge_write(edge, &word);
	close(sender);
	sender = -1;
	usleep(700000); /* the queue drains */
	beat();
	tap_ok(connect_both(AF_INET) && until(is_limited) && pacing() == PACING_NEEDED,
	       "a small window is paced");
	word.classes[0].threshold_ns = FAST_THRESHOLD_NS;
	tcpedge_write(edge, &word);
	writes = FAST_WRITES;
	tap_ok(!system(FAST_LOOPBACK) && until(is_wide), "on a fast path the window is wide");
	tap_ok(pacing() == PACING_NONE, "and not paced, since it was not before");
}

static void test_refused(void)
{
	struct tcpwrap *none;
	char why[512] = "";

	tap_ok(tcpwrap_open(&none, tcpedge_map_fd(edge, "tcp_flows"),
			    tcpedge_map_fd(edge, "tcp_counts"), ~0u, why, sizeof(why)) &&
		       !none && strstr(why, "no wrapper around bbr"),
	       "a kernel that takes none: %s", why);
}

static void run_all(void)
{
	char why[512] = "";

	if (!start_wrap(why, sizeof(why))) {
		tap_skip("limits", why);
		return;
	}
	if (!tap_ok(!tcpedge_attach(edge, cgroup_path, why, sizeof(why)) &&
			    tcp_cgroup_join(cgroup_path, getpid()) && connect_both(AF_INET),
		    "a connection in the cgroup %s", why))
		return;
	test_rates();
	test_class();
	test_replaced();
	test_other_options();
	test_other_program();
	test_closed();
	test_class_v6();
	test_restart();
	test_ended();
	test_reconnected();
	test_wide();
	test_refused();
}

int main(void)
{
	char cgroup[200], parent[200], why[256] = "";

	if (!tcp_cgroup_find(cgroup, sizeof(cgroup)))
		return tap_skip_all("no unified cgroup hierarchy is mounted");
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(cgroup, '/') - cgroup), cgroup);
	if (unshare(CLONE_NEWNET) || system(SLOW_LOOPBACK) || mkdir(cgroup, 0755))
		return tap_bail("no network namespace, or no cgroup");
	cgroup_path = cgroup;
	word.classes[0] = (struct esc_tcp_class){.weight = 1, .threshold_ns = THRESHOLD_NS};
	if (tap_ok(open_edge(why, sizeof(why)), "the program loads %s", why))
		run_all();
	close(sender);
	close(receiver);
	stop();
	tcp_cgroup_join(parent, getpid());
	rmdir(cgroup);
	return tap_end();
}
