// SPDX-License-Identifier: BSD-2-Clause
/* The command lines of perftest, its output, and the order of a ring. Pure. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/units.h"
#include "internal.h"

const unsigned int ring_loads[RING_LOADS] = {1, 2, 4, 8};
const char *const ring_orders[RING_ORDERS] = {"host", "topology"};

#define FIRST_PORT 18515 /* perftest's own */
#define STEPS_MOST (RING_LOADS * RING_ORDERS)
/* 4.3 s, as NCCL has: what is lost is repaired, and not an error of the tool. */
#define QP_TIMEOUT "20"

uint64_t ring_step_ns(const struct ring_plan *plan)
{
	return plan->traffic_ns + RING_SLACK_NS;
}

unsigned int ring_steps(const struct ring_plan *plan)
{
	return plan->orders * RING_LOADS;
}

/* One for each step, too: a server that is late to end has the port of its own. */
unsigned int ring_port(unsigned int place, unsigned int step)
{
	return FIRST_PORT + place * STEPS_MOST + step;
}

/* --- the command line --- */

/*
 * Messages of 64 KiB that are under way, of all queue pairs: 4 MiB are more than any fabric holds,
 * and are delivered in time where a slow device ends.
 */
#define DEPTH 64

static void add(struct ring_argv *out, const char *word)
{
	if (out->count + 1 < RING_ARGV_MOST)
		out->words[out->count++] = word;
}

static void add_number(struct ring_argv *out, const char *option, unsigned int number)
{
	char *text = out->numbers[out->number_count++];

	snprintf(text, sizeof(out->numbers[0]), "%u", number);
	add(out, option);
	add(out, text);
}

void ring_argv(const struct ring_end *end, struct ring_argv *out)
{
	memset(out, 0, sizeof(*out));
	add(out, RING_TOOL);
	add(out, "-d");
	add(out, end->device);
	add_number(out, "-i", end->port);
	add_number(out, "-p", end->tcp_port);
	add_number(out, "-q", end->qps);
	add_number(out, "-t", DEPTH / end->qps);
	add_number(out, "-D", end->seconds);
	if (end->gid_index >= 0)
		add_number(out, "-x", (unsigned int)end->gid_index);
	if (end->traffic_class >= 0)
		add_number(out, "--tclass", (unsigned int)end->traffic_class);
	add(out, "-u");
	add(out, QP_TIMEOUT);
	add(out, "-F");
	add(out, "--report_gbits");
	if (end->to)
		add(out, end->to);
}

/* --- its output --- */

/*
 * " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]", and below it a row of
 * numbers.
 */
static bool parse_row(const char *line, double *gbps)
{
	double peak, rate;
	unsigned long long bytes, iterations;
	char rest;

	return sscanf(line, " %llu %llu %lf %lf %lf %c", &bytes, &iterations, &peak, gbps, &rate,
		      &rest) == 5 &&
	       *gbps > 0 && *gbps < 1e6;
}

/* " remote address: LID 0000 QPN 0x0011 PSN 0x53c3d4 RKey 0x0003 VAddr ..." */
static bool parse_qpn(const char *line, uint32_t *qpn)
{
	const char *at = strstr(line, "QPN 0x");
	char *end;
	unsigned long value;

	if (!strstr(line, "remote address:") || !at)
		return false;
	value = strtoul(at + strlen("QPN 0x"), &end, 16);
	*qpn = (uint32_t)value;
	return end != at + strlen("QPN 0x") && value < 1u << 24;
}

void ring_parse(const char *text, struct ring_result *out)
{
	bool header = false;
	char line[256];
	double gbps;

	*out = (struct ring_result){};
	while (text && text_next_line(&text, line, sizeof(line))) {
		if (strstr(line, "#bytes"))
			header = strstr(line, "average[Gb/sec]") != NULL;
		else if (header && parse_row(line, &gbps))
			out->gbps = gbps;
		else if (out->qpn_count < RING_QPS_MOST &&
			 parse_qpn(line, &out->remote_qpns[out->qpn_count]))
			out->qpn_count++;
	}
}

/* --- the order --- */

struct ranked {
	unsigned long rank;
	size_t at;
};

static int by_rank(const void *a, const void *b)
{
	const struct ranked *left = a, *right = b;

	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return (left->at > right->at) - (left->at < right->at);
}

static size_t member_named(const json_t *members, const char *host, size_t bytes)
{
	const json_t *member;
	size_t i;

	json_array_foreach (members, i, member) {
		const char *name = json_text(member, "host");

		if (strlen(name) == bytes && !strncmp(name, host, bytes))
			return i;
	}
	return SIZE_MAX;
}

/* "rank 3=HOST slot=0", or "HOST". False: neither. @host "": an empty line, or a comment. */
static bool parse_line(const char *line, size_t bytes, unsigned long *rank, const char **host,
		       size_t *host_bytes)
{
	const char *end = line + bytes;
	char *behind;

	while (line < end && (*line == ' ' || *line == '\t'))
		line++;
	*host = line;
	*host_bytes = 0;
	if (line == end || *line == '#' || *line == '\r')
		return true;
	if ((size_t)(end - line) > 5 && !strncmp(line, "rank ", 5)) {
		*rank = strtoul(line + 5, &behind, 10);
		if (behind == line + 5 || behind >= end || *behind != '=')
			return false;
		*host = behind + 1;
	}
	while (*host + *host_bytes < end && !strchr(" \t\r", (*host)[*host_bytes]))
		++*host_bytes;
	return *host_bytes > 0;
}

int ring_members_order(const json_t *members, const char *text, size_t *out, char **error)
{
	size_t count = json_array_size(members);
	struct ranked *ranks = calloc(count + 1, sizeof(*ranks));
	unsigned long line = 0;

	if (!ranks)
		return explain(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++)
		ranks[i] = (struct ranked){ULONG_MAX, i};
	for (; text && *text; line++) {
		size_t bytes = strcspn(text, "\n"), host_bytes, at;
		unsigned long rank = line;
		const char *host;

		if (!parse_line(text, bytes, &rank, &host, &host_bytes)) {
			free(ranks);
			return explain(error, -EINVAL,
				       "line %lu: should be `rank N=HOST slot=0`, as `escapement "
				       "topo --ranks` has it, or the name of a host",
				       line + 1);
		}
		at = member_named(members, host, host_bytes);
		if (at != SIZE_MAX && ranks[at].rank == ULONG_MAX)
			ranks[at].rank = rank;
		text += bytes + (text[bytes] == '\n');
	}
	qsort(ranks, count, sizeof(*ranks), by_rank);
	for (size_t i = 0; i < count; i++)
		out[i] = ranks[i].at;
	free(ranks);
	return 0;
}
