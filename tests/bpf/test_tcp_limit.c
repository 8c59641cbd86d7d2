// SPDX-License-Identifier: BSD-2-Clause
/*
 * A limited connection on this kernel, both ends in one cgroup: its wrapper, the maximum of its
 * pacing and an application's own, what is left when the limit ends, its class.
 */
#define TAP_PLAN 21

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
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
#include "tcp/edge.h"
#include "tcp/wrap.h"

#define PORT 7000
/* Less than what the queue in front of the loopback holds: the window is small, the rate ours. */
#define THRESHOLD_NS 100000
#define SLOW_LOOPBACK                                                                              \
	"ip link set lo up mtu 1500 && tc qdisc add dev lo root tbf rate 400mbit burst 10k limit " \
	"400k"
#define FAST_LOOPBACK "tc qdisc del dev lo root"
#define FAST_WRITES 16 /* each time, so that a wide window is what limits */
#define FAST_THRESHOLD_NS 50000000
#define WAIT_MS 4000
/* include/net/sock.h, enum sk_pacing */
#define PACING_NONE 0
#define PACING_NEEDED 1
#define NO_RATE UINT64_MAX

static struct tcpedge *edge;
static struct tcpwrap *wrap;
static struct esc_tcp_control word = {.mode = ESC_TCP_PACE, .class_count = 1};
static int sender = -1, receiver = -1;
static bool beating = true;
static int writes = 1;

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

	if (!beating)
		return;
	model->ref_local_ns = model->turn_local_ns = model->bound_local_ns = (long long)now_ns();
	model->ref_fabric_ns = model->turn_fabric_ns = model->ref_local_ns;
	model->bound_ns = 50;
	model->state = CLOCK_SYNCED;
	bpf_map_update_elem(tcpedge_clock_fd(edge), &zero, &clock, BPF_ANY);
	bpf_map_update_elem(tcpedge_control_fd(edge), &zero, &control, BPF_ANY);
}

static struct esc_tcp_flow flow(void)
{
	struct esc_tcp_flow found = {};

	bpf_map_lookup_elem(tcpedge_flows_fd(edge), &sender, &found);
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

/* Data flows until @condition holds. */
static bool until(bool (*condition)(void))
{
	static char data[65536];
	uint64_t end = now_ns() + WAIT_MS * 1000000ull;

	while (now_ns() < end) {
		struct pollfd wait = {.fd = receiver, .events = POLLIN};

		beat();
		for (int i = 0; i < writes; i++)
			if (write(sender, data, sizeof(data)) < 0 && errno != EAGAIN)
				return false;
		poll(&wait, 1, 5);
		while (read(receiver, data, sizeof(data)) > 0)
			;
		if (condition())
			return true;
	}
	return false;
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
	tap_ok(has_congestion(tcpwrap_name(wrap, ESC_TCP_INNER_CUBIC)),
	       "and its congestion control is the wrapper");
	set_rate(1000000);
	tap_ok(until(is_heeded), "the application's own, which is less, is in force");
	tap_ok(silence() && own_rate() == 1000000, "and is there when the limit has ended");
	tap_ok(speak() && until(is_heeded), "and in the next limit");
	set_rate(NO_RATE);
	tap_ok(until(is_ours), "taken back in the limit: ours is left");
	tap_ok(silence() && own_rate() == NO_RATE, "and none after it");
	speak();
	set_rate(5000000000ull);
	tap_ok(until(is_huge) && until(goes_on) && own_rate() == 5000000000ull,
	       "one that four bytes cannot say is not touched");
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

static void test_forsaken(void)
{
	tap_ok(until(is_ours), "limited again");
	setsockopt(sender, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	tap_ok(until(is_none) && is_free() && has_congestion("reno"),
	       "another congestion control of the application's choice: no limit, no rate of ours");
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
	if (setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) ||
	    bind(listener, address, bytes) || listen(listener, 1) ||
	    connect(receiver, address, bytes))
		return false;
	sender = accept(listener, NULL, NULL);
	close(listener);
	fcntl(sender, F_SETFL, O_NONBLOCK);
	fcntl(receiver, F_SETFL, O_NONBLOCK);
	return sender >= 0;
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

/* sk_pacing_status of the sender as the iterator says it; -1: it does not. */
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
	union bpf_iter_link_info info = {.map.map_fd = tcpedge_flows_fd(edge)};
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info,
		    .link_info_len = sizeof(info));
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
			bpf_object__find_program_by_name(object, "sockpace"), &options);
		if (link)
			status = read_pacing(bpf_link__fd(link));
		bpf_link__destroy(link);
	}
	bpf_object__close(object);
	return status;
}

/* Without fq the stack paces by a timer for every burst, and a fast connection is slow by it. */
static void test_wide(void)
{
	word.class_count = 1;
	tcpedge_write(edge, &word);
	tap_ok(connect_both(AF_INET) && until(is_limited) && pacing() == PACING_NEEDED,
	       "a small window is paced");
	word.classes[0].threshold_ns = FAST_THRESHOLD_NS;
	tcpedge_write(edge, &word);
	writes = FAST_WRITES;
	tap_ok(!system(FAST_LOOPBACK) && until(is_wide), "on a fast path the window is wide");
	tap_ok(pacing() == PACING_NONE, "and not paced, since nobody else wants it");
}

static void test_refused(void)
{
	struct tcpwrap *none;
	char why[512] = "";

	tap_ok(tcpwrap_open(&none, tcpedge_flows_fd(edge), tcpedge_counts_fd(edge), ~0u, why,
			    sizeof(why)) &&
		       !none && strstr(why, "no wrapper around bbr"),
	       "a kernel that takes none: %s", why);
}

static void run_all(const char *cgroup)
{
	char why[512] = "";

	if (tcpwrap_open(&wrap, tcpedge_flows_fd(edge), tcpedge_counts_fd(edge), 0, why,
			 sizeof(why)) ||
	    !tcpwrap_name(wrap, ESC_TCP_INNER_CUBIC)[0]) {
		tap_skip("limits", why);
		return;
	}
	for (int i = 1; i < ESC_TCP_INNER_MAX; i++)
		snprintf(word.names[i], sizeof(word.names[i]), "%s", tcpwrap_name(wrap, i));
	tcpedge_write(edge, &word);
	beat();
	if (!tap_ok(!tcpedge_attach(edge, cgroup, why, sizeof(why)) &&
			    tcp_cgroup_join(cgroup, getpid()) && connect_both(AF_INET),
		    "a connection in the cgroup %s", why))
		return;
	test_rates();
	test_class();
	test_forsaken();
	test_class_v6();
	test_wide();
	test_refused();
}

int main(void)
{
	struct tcpedge_maps maps = {.control_fd = -1, .clock_fd = -1, .flows_fd = -1};
	char cgroup[200], parent[200], why[256] = "";

	if (!tcp_cgroup_find(cgroup, sizeof(cgroup)))
		return tap_skip_all("no unified cgroup hierarchy is mounted");
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(cgroup, '/') - cgroup), cgroup);
	if (unshare(CLONE_NEWNET) || system(SLOW_LOOPBACK) || mkdir(cgroup, 0755))
		return tap_bail("no network namespace, or no cgroup");
	word.classes[0] = (struct esc_tcp_class){.weight = 1, .threshold_ns = THRESHOLD_NS};
	if (tap_ok(!tcpedge_open(&edge, &maps, why, sizeof(why)), "the program loads %s", why))
		run_all(cgroup);
	close(sender);
	close(receiver);
	tcpedge_close(edge);
	tcpwrap_close(wrap);
	tcp_cgroup_join(parent, getpid());
	rmdir(cgroup);
	return tap_end();
}
