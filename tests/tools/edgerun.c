// SPDX-License-Identifier: BSD-2-Clause
/*
 * The TCP programs without a daemon: beats, and clocks that are wrong by as much
 * as is requested. One of everything for each cgroup, as hosts have.
 *
 *   edgerun THRESHOLD_US CGROUP[=CLOCK_ERROR_NS]...
 *
 * Commands on stdin: `mode off|observe|pace`, `counts` (a line of JSON with the
 * delays of each cgroup's incoming data since the last one), `flows` (a line with
 * each connection), `class WEIGHT:FIRST_PORT:LAST_PORT` (one more), `class none`,
 * `beat on|off`, `clock on|off`, `member ADDRESS` and `remove ADDRESS` (IPv4),
 * `forget` (refusals). Ends with its stdin. Where the kernel lists the connections of one network
 * namespace alone, those of the ones named in $EDGERUN_NETNS (paths, colons between them) are read.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "maps/maps.h"
#include "tcp/internal.h"

#define RUN_EDGES 32
#define RUN_FLOWS 1024

struct run_edge {
	struct tcpedge *edge;
	const char *cgroup;
	long long error_ns;
	uint64_t before[ESC_OWD_BUCKETS];
};

static struct run_edge edges[RUN_EDGES];
static int edge_count;
static struct tcplist *flows;
static bool flows_own; /* of one network namespace alone */
static struct esc_tcp_control word;
static bool beating = true, clock_good = true;

static long long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static void beat(struct run_edge *run)
{
	struct esc_control control = {.heartbeat_local_ns = now_ns()};
	uint32_t zero = 0;

	if (beating)
		bpf_map_update_elem(tcpedge_map_fd(run->edge, "control"), &zero, &control, BPF_ANY);
}

static void set_clock(struct run_edge *run)
{
	struct esc_clock clock = {.generation = 2};
	struct clock_model *model = &clock.slot[0];
	uint32_t zero = 0;

	model->ref_local_ns = model->slew_end_local_ns = model->bound_local_ns = now_ns();
	model->ref_fabric_ns = model->slew_end_fabric_ns = model->ref_local_ns + run->error_ns;
	model->bound_ns = 100;
	model->generation = 1;
	model->state = clock_good ? CLOCK_SYNCED : CLOCK_FREE_RUNNING;
	bpf_map_update_elem(tcpedge_map_fd(run->edge, "clock"), &zero, &clock, BPF_ANY);
}

static void print_delays(struct run_edge *run)
{
	static const int parts[] = {10, 50, 90, 99, 100};
	uint64_t now[ESC_OWD_BUCKETS], total = 0, sum = 0;
	unsigned int next = 0;

	tcpedge_sum(run->edge, "tcp_delays", ESC_OWD_BUCKETS, now, sizeof(now[0]));
	for (int i = 0; i < ESC_OWD_BUCKETS; i++)
		total += now[i] - run->before[i];
	printf("\"samples\":%llu", (unsigned long long)total);
	for (int i = 0; total && i < ESC_OWD_BUCKETS; i++) {
		sum += now[i] - run->before[i];
		while (next < sizeof(parts) / sizeof(parts[0]) && sum * 100 >= total * parts[next])
			printf(",\"p%d_ns\":%llu", parts[next++],
			       (unsigned long long)esc_owd_bucket_floor(i));
	}
	memcpy(run->before, now, sizeof(now));
}

static void print_counts(struct run_edge *run)
{
	struct esc_tcp_counts counts;

	tcpedge_sum(run->edge, "tcp_counts", 1, &counts, sizeof(counts));
	printf("{\"cgroup\":\"%s\",", run->cgroup);
	print_delays(run);
#define PRINT(name) printf(",\"" #name "\":%llu", (unsigned long long)counts.name)
	PRINT(offered);
	PRINT(agreed);
	PRINT(plain);
	PRINT(outside);
	PRINT(withheld);
	PRINT(syn_timeouts);
	PRINT(unwrapped);
	PRINT(rewrapped);
	PRINT(in_samples);
	PRINT(out_samples);
	PRINT(out_above);
	PRINT(estimated);
	PRINT(cuts);
	PRINT(short_form);
	PRINT(malformed);
	PRINT(no_time);
	PRINT(unsure);
	PRINT(lifted);
#undef PRINT
	printf("}");
}

static void print_all(void)
{
	printf("[");
	for (int i = 0; i < edge_count; i++) {
		if (i)
			printf(",");
		print_counts(&edges[i]);
	}
	printf("]\n");
	fflush(stdout);
}

static long read_flows(struct esc_tcp_row *rows)
{
	const char *named = getenv("EDGERUN_NETNS");
	char *paths = flows_own && named ? strdup(named) : NULL, *rest = NULL, *path;
	long count = 0, got;

	if (!flows || !paths)
		return flows ? tcplist_read(flows, rows, RUN_FLOWS) : 0;
	for (path = strtok_r(paths, ":", &rest); path && count < RUN_FLOWS;
	     path = strtok_r(NULL, ":", &rest)) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && !setns(fd, CLONE_NEWNET)) {
			got = tcplist_read(flows, rows + count, (size_t)(RUN_FLOWS - count));
			count += got > 0 ? got : 0;
		}
		close(fd);
	}
	free(paths);
	return count;
}

static void print_flows(void)
{
	static struct esc_tcp_row rows[RUN_FLOWS];
	long count = read_flows(rows);

	printf("[");
	for (long i = 0; i < count && i < RUN_FLOWS; i++) {
		const struct esc_tcp_flow *flow = &rows[i].flow;

		printf("%s{\"local_port\":%u,\"remote_port\":%u,\"window\":%.3f,\"limited\":%u,"
		       "\"shown\":%u,\"inner\":%u,\"out_ns\":%lld,\"in_ns\":%lld,\"rtt_us\":%u,"
		       "\"rate_Bps\":%u,\"app_rate_Bps\":%llu,\"class\":%u,\"starting\":%u,\"out_"
		       "samples\":%llu,\"until_ns\":%llu}",
		       i ? "," : "", rows[i].local_port, rows[i].remote_port,
		       flow->law.window / 1024.0, flow->limited, flow->shown_cwnd, flow->inner_cwnd,
		       (long long)flow->out_last_ns, (long long)flow->in_last_ns, flow->rtt_us,
		       flow->rate_Bps, (unsigned long long)flow->app_rate_Bps, flow->class,
		       flow->law.starting, (unsigned long long)flow->out_samples,
		       (unsigned long long)flow->until_ktime_ns);
	}
	printf("]\n");
	fflush(stdout);
}

static void set_mode(const char *mode)
{
	word.mode = !strcmp(mode, "pace")      ? ESC_TCP_PACE
		    : !strcmp(mode, "observe") ? ESC_TCP_OBSERVE
					       : ESC_TCP_OFF;
	for (int i = 0; i < edge_count; i++)
		tcpedge_write(edges[i].edge, &word);
}

/* "WEIGHT:FIRST:LAST", one class more, by ports; else none but that of all. */
static void set_class(const char *how)
{
	struct esc_tcp_class class = {.threshold_ns = word.classes[0].threshold_ns};

	if (sscanf(how, "%u:%hu:%hu", &class.weight, &class.port_first, &class.port_last) == 3 &&
	    word.class_count < ESC_TCP_CLASSES)
		word.classes[word.class_count++] = class;
	else
		word.class_count = 1;
	for (int i = 0; i < edge_count; i++)
		tcpedge_write(edges[i].edge, &word);
}

static void set_member(const char *text, bool is_member)
{
	struct esc_address address = {.bytes = {[10] = 0xff, [11] = 0xff}};
	struct esc_peer_address value = {.id = 1};

	int fd = tcpedge_map_fd(edges[0].edge, "peer_addresses");

	if (inet_pton(AF_INET, text, &address.bytes[12]) != 1)
		return;
	if (is_member)
		bpf_map_update_elem(fd, &address, &value, BPF_ANY);
	else
		bpf_map_delete_elem(fd, &address);
}

static void forget(const struct tcpedge *edge)
{
	struct esc_tcp_refusal_key key;
	int fd = tcpedge_map_fd(edge, "tcp_refusals");

	while (!bpf_map_get_next_key(fd, NULL, &key))
		bpf_map_delete_elem(fd, &key);
}

static void command(const char *what, const char *how)
{
	if (!strcmp(what, "counts")) {
		print_all();
		return;
	}
	if (!strcmp(what, "flows")) {
		print_flows();
		return;
	}
	if (!strcmp(what, "class"))
		set_class(how);
	else if (!strcmp(what, "mode"))
		set_mode(how);
	else if (!strcmp(what, "beat"))
		beating = !strcmp(how, "on");
	else if (!strcmp(what, "clock"))
		clock_good = !strcmp(how, "on");
	else if (!strcmp(what, "member") || !strcmp(what, "remove"))
		set_member(how, !strcmp(what, "member"));
	for (int i = 0; !strcmp(what, "forget") && i < edge_count; i++)
		forget(edges[i].edge);
	for (int i = 0; i < edge_count; i++)
		set_clock(&edges[i]);
	printf("{}\n");
	fflush(stdout);
}

static int edge_open(struct run_edge *run, char *text)
{
	struct tcpedge_maps maps = {
		.control_fd = -1, .clock_fd = -1, .members_fd = -1, .flows_fd = -1};
	char *error = strchr(text, '='), why[256];
	int err;

	if (error) {
		*error = '\0';
		run->error_ns = atoll(error + 1);
	}
	run->cgroup = text;
	if (run != edges) {
		maps.flows_fd = tcpedge_map_fd(edges[0].edge, "tcp_flows");
		maps.members_fd = tcpedge_map_fd(edges[0].edge, "peer_addresses");
	}
	err = tcpedge_open(&run->edge, &maps, why, sizeof(why));
	if (!err) {
		set_clock(run);
		beat(run);
		err = tcpedge_attach(run->edge, run->cgroup, why, sizeof(why));
	}
	if (err)
		fprintf(stderr, "edgerun: %s\n", why);
	return err;
}

static void wrap_open(struct tcpwrap **wrap)
{
	char why[512];

	tcplist_open(&flows, tcpedge_map_fd(edges[0].edge, "tcp_flows"), why, sizeof(why));
	flows_own = why[0];
	if (why[0])
		fprintf(stderr, "edgerun: %s\n", why);
	if (tcpwrap_open(wrap, tcpedge_map_fd(edges[0].edge, "tcp_flows"),
			 tcpedge_map_fd(edges[0].edge, "tcp_counts"), 0, why, sizeof(why)) ||
	    why[0])
		fprintf(stderr, "edgerun: %s\n", why);
	for (int i = 1; i < ESC_TCP_INNER_MAX; i++)
		snprintf(word.names[i], sizeof(word.names[i]), "%s", tcpwrap_name(*wrap, i));
}

int main(int count, char **words)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	struct tcpwrap *wrap;
	char line[128], what[32], how[32];

	if (count < 3 || count > RUN_EDGES + 2) {
		fprintf(stderr, "edgerun THRESHOLD_US CGROUP[=CLOCK_ERROR_NS]...\n");
		return 2;
	}
	for (; edge_count < count - 2; edge_count++)
		if (edge_open(&edges[edge_count], words[edge_count + 2]))
			return 1;
	wrap_open(&wrap);
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 5});
	word.classes[0] = (struct esc_tcp_class){
		.weight = 1,
		.threshold_ns = (unsigned int)atoi(words[1]) * 1000,
	};
	word.class_count = 1;
	setvbuf(stdin, NULL, _IONBF, 0);
	printf("{\"names\":\"%s %s %s\"}\n", word.names[1], word.names[2], word.names[3]);
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < edge_count; i++)
			beat(&edges[i]);
		if (poll(&in, 1, 50) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			break;
		how[0] = '\0';
		if (sscanf(line, "%31s %31s", what, how) >= 1)
			command(what, how);
	}
	for (int i = edge_count - 1; i >= 0; i--)
		tcpedge_close(edges[i].edge);
	tcplist_close(flows);
	tcpwrap_close(wrap);
	return 0;
}
