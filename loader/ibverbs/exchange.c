// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reports between daemons: each sends what its processes received to the host that posted it, which
 * joins it. A socket of user space, since a report is no probe: nothing waits for it, and one that
 * is lost is a sample less.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "clocksync/graph.h"
#include "fleet/fleet.h"
#include "internal.h"

#define REPORTS_MOST 256 /* in a poll, a second: 80 kB */
#define READ_MOST 1024
#define FRESH_NS 200000000ull

/* --- what was received is sent --- */

static size_t take_unsent(struct verbs_samples *ring, struct verbs_report *report)
{
	if (ring->count - ring->sent > REPORT_SAMPLES)
		ring->sent = ring->count - REPORT_SAMPLES; /* the newest */
	for (report->count = 0; ring->sent < ring->count; ring->sent++)
		report->samples[report->count++] = ring->list[ring->sent % DELAY_SAMPLES];
	return report->count;
}

static void send_report(struct ibverbs *verbs, struct verbs_qp *qp)
{
	const struct config *config = verbs->core->config;
	struct verbs_report report = {.posted_qpn = qp->is.dest_qpn, .received_qpn = qp->is.qpn};
	struct sockaddr_storage to;
	uint8_t bytes[REPORT_BYTES];
	const char *peer;
	socklen_t length;
	size_t size;

	memcpy(&report.posted_at, qp->is.remote, sizeof(report.posted_at));
	memcpy(&report.received_at, qp->is.local, sizeof(report.received_at));
	peer = report_peer(verbs, &report.posted_at);
	if (!take_unsent(&qp->delays->ends[SEGMENT_RECEIVED], &report) || !peer ||
	    (verbs->ipv4 && !address_is_ipv4(&report.posted_at)))
		return;
	size = report_encode(&report, &config->keys, graph_member_id(config->host),
			     graph_member_id(peer), bytes);
	length = address_to_socket(&report.posted_at, config->qps.message_port, verbs->ipv4, &to);
	if (sendto(verbs->socket, bytes, size, MSG_DONTWAIT, (struct sockaddr *)&to, length) ==
	    (ssize_t)size)
		verbs->reports_sent++;
}

static void send_all(struct ibverbs *verbs)
{
	struct processes *processes = &verbs->processes;
	unsigned int count = 0;

	/* Beginning with another one each time, as the number of reports is limited. */
	for (size_t i = 0; i < processes->count && count < REPORTS_MOST; i++) {
		struct process *process =
			processes->list[(i + verbs->first_sender) % processes->count];

		for (size_t q = 0; q < process->count && count < REPORTS_MOST; q++) {
			struct verbs_qp *qp = &process->qps[q];

			if (!qp->delays || !(qp->is.flags & SEGMENT_HAS_PATH) ||
			    qp->delays->ends[SEGMENT_RECEIVED].sent ==
				    qp->delays->ends[SEGMENT_RECEIVED].count)
				continue;
			send_report(verbs, qp);
			count++;
		}
	}
	verbs->first_sender++;
}

/* --- what was posted here is joined --- */

static bool is_of(const struct verbs_qp *qp, const struct verbs_report *report)
{
	return qp->delays && qp->is.qpn == report->posted_qpn &&
	       qp->is.dest_qpn == report->received_qpn &&
	       !memcmp(qp->is.local, &report->posted_at, sizeof(report->posted_at)) &&
	       !memcmp(qp->is.remote, &report->received_at, sizeof(report->received_at));
}

static void join(struct ibverbs *verbs, const struct verbs_report *report)
{
	struct processes *processes = &verbs->processes;

	for (size_t i = 0; i < processes->count; i++)
		for (size_t q = 0; q < processes->list[i]->count; q++) {
			struct verbs_qp *qp = &processes->list[i]->qps[q];

			if (!is_of(qp, report))
				continue;
			for (size_t s = 0; s < report->count; s++)
				verbs->joined += delays_join(qp->delays, &report->samples[s]);
		}
}

void exchange_take(struct ibverbs *verbs, const uint8_t *bytes, size_t size)
{
	const struct config *config = verbs->core->config;
	struct verbs_report report;
	const char *host;
	uint64_t peer;

	if (!report_decode(bytes, size, &config->keys, graph_member_id(config->host), &peer,
			   &report)) {
		verbs->reports_refused++;
		return;
	}
	/* A member reports of its own addresses alone. */
	host = report_peer(verbs, &report.received_at);
	if (!host || graph_member_id(host) != peer) {
		verbs->reports_refused++;
		return;
	}
	verbs->reports_received++;
	/* What it received was posted before, so that it is in the file by now. */
	if (time_local_ns() - verbs->polled_local_ns > FRESH_NS)
		ibverbs_poll(verbs, time_local_ns());
	join(verbs, &report);
}

static int on_reports(sd_event_source *source, int fd, uint32_t events, void *context)
{
	uint8_t bytes[REPORT_BYTES + 1];
	ssize_t size = 0;

	(void)source;
	(void)events;
	for (unsigned int i = 0; i < READ_MOST && size >= 0; i++) {
		size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (size >= 0)
			exchange_take(context, bytes, (size_t)size);
	}
	return 0;
}

/* --- the socket --- */

static int open_socket(struct ibverbs *verbs)
{
	struct esc_address any = {};
	struct sockaddr_storage at;
	socklen_t length;
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), off = 0;

	verbs->ipv4 = fd < 0; /* IPv6 is disabled */
	if (verbs->ipv4)
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	else
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (fd < 0)
		return -errno;
	length = address_to_socket(&any, verbs->core->config->qps.message_port, verbs->ipv4, &at);
	if (bind(fd, (struct sockaddr *)&at, length)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

void exchange_close(struct ibverbs *verbs)
{
	verbs->source = sd_event_source_unref(verbs->source);
	if (verbs->socket >= 0)
		close(verbs->socket);
	verbs->socket = -1;
}

/* With the first sample: a host without such processes has no port open. */
static void begin(struct ibverbs *verbs)
{
	if (verbs->socket_error || !verbs->core->config->qps.message_port)
		return;
	verbs->socket = open_socket(verbs);
	if (verbs->socket < 0) {
		verbs->socket_error = verbs->socket;
		log_warning("message delays are not exchanged: UDP port %u: %s; set "
			    "`qps.message_port` to another one on all hosts",
			    verbs->core->config->qps.message_port, strerror(-verbs->socket));
		return;
	}
	if (sd_event_add_io(verbs->core->loop, &verbs->source, verbs->socket, EPOLLIN, on_reports,
			    verbs) < 0)
		exchange_close(verbs);
}

void exchange_poll(struct ibverbs *verbs)
{
	bool is_used = false;

	for (size_t i = 0; i < verbs->processes.count; i++)
		is_used = is_used || verbs->processes.list[i]->samples_taken;
	if (is_used && verbs->socket < 0)
		begin(verbs);
	if (!is_used)
		exchange_close(verbs);
	if (verbs->socket >= 0)
		send_all(verbs);
}
