// SPDX-License-Identifier: BSD-2-Clause
/*
 * Queue pairs whose operations fail, or do not end, as findings: one for each process and pair of
 * addresses, since all queue pairs to a peer fail together.
 */
#include <string.h>

#include "base/json.h"
#include "internal.h"

#define STATUS_FLUSHED 5 /* IBV_WC_WR_FLUSH_ERR */

uint64_t watch_failures(const struct segment_qp *qp)
{
	uint64_t sum = 0;

	for (unsigned int i = 1; i < SEGMENT_STATUSES; i++)
		sum += i == STATUS_FLUSHED ? 0 : qp->statuses[i];
	return sum;
}

unsigned int watch_status(const struct segment_qp *qp)
{
	for (unsigned int i = 1; i < SEGMENT_STATUSES; i++)
		if (i != STATUS_FLUSHED && qp->statuses[i])
			return i;
	return 0;
}

uint64_t watch_pending(const struct segment_qp *qp)
{
	bool is_known = qp->state == SEGMENT_LIVE && !qp->untimed && qp->signaled > qp->completed;

	return is_known ? qp->signaled - qp->completed : 0;
}

static bool holds(unsigned int kind, const struct process *process, const struct verbs_qp *qp,
		  const struct ibverbs *verbs, uint64_t now_local_ns)
{
	if (kind == VERBS_QP_FAILED)
		return watch_failures(&qp->is) > qp->failures_before &&
		       (qp->is.state == SEGMENT_LIVE ||
			now_local_ns - qp->moved_local_ns < verbs->processes.idle_ns);
	/* Without polls nothing can complete: the process does something else. */
	return process->fd >= 0 && qp->pending_local_ns &&
	       now_local_ns - qp->pending_local_ns >= STUCK_NS &&
	       now_local_ns - process->polled_local_ns < STUCK_NS / 2;
}

static struct verbs_condition *find(struct ibverbs *verbs, unsigned int kind,
				    const struct process *process, const struct segment_qp *qp)
{
	for (size_t i = 0; i < verbs->condition_count; i++) {
		struct verbs_condition *condition = &verbs->conditions[i];

		if (condition->kind == kind && !strcmp(condition->process, process->name) &&
		    !memcmp(&condition->local, qp->local, sizeof(condition->local)) &&
		    !memcmp(&condition->remote, qp->remote, sizeof(condition->remote)))
			return condition;
	}
	return NULL;
}

/* --- events --- */

static struct esc_qp_key key_of(const struct verbs_condition *condition,
				const struct segment_qp *qp)
{
	return (struct esc_qp_key){.src = condition->local,
				   .dst = condition->remote,
				   .dest_qpn = qp->dest_qpn,
				   .direction = ESC_DIRECTION_TX};
}

static json_t *seen_json(const struct ibverbs *verbs, const struct verbs_condition *condition,
			 const struct process *process, const struct verbs_qp *qp,
			 uint64_t now_local_ns)
{
	json_t *seen = json_object();
	char text[ADDRESS_TEXT_BYTES];

	if (condition->kind == VERBS_QP_FAILED) {
		json_put_text(seen, "status", report_status(watch_status(&qp->is)));
	} else {
		json_put_count(seen, "pending", watch_pending(&qp->is));
		json_put_count(seen, "pending_ms", (now_local_ns - qp->pending_local_ns) / 1000000);
	}
	if (qp->is.flags & SEGMENT_HAS_PATH) {
		json_put_text(seen, "remote", address_format(&condition->remote, text));
		json_put_count(seen, "dest_qpn", qp->is.dest_qpn);
		json_put_text(seen, "peer", report_peer(verbs, &condition->remote));
	}
	json_put_count(seen, "local_qpn", qp->is.qpn);
	json_put_name(seen, "rdma_device", qp->is.device);
	ibverbs_put_process(seen, process);
	return seen;
}

static void begin(struct ibverbs *verbs, unsigned int kind, const struct process *process,
		  const struct verbs_qp *qp, uint64_t now_local_ns)
{
	struct verbs_condition *condition = &verbs->conditions[verbs->condition_count];
	struct esc_qp_key key;

	if (verbs->condition_count == CONDITIONS_MAX)
		return;
	verbs->condition_count++;
	*condition = (struct verbs_condition){.kind = kind, .qps = 1};
	memcpy(condition->process, process->name, sizeof(condition->process));
	memcpy(&condition->local, qp->is.local, sizeof(condition->local));
	memcpy(&condition->remote, qp->is.remote, sizeof(condition->remote));
	key = key_of(condition, &qp->is);
	if (qp->is.flags & SEGMENT_HAS_PATH)
		address_format_qp(&key.src, &key.dst, key.dest_qpn, condition->subject);
	else
		snprintf(condition->subject, sizeof(condition->subject), "%s/%u", qp->is.device,
			 qp->is.qpn);
	events_add(verbs->core ? verbs->core->events : NULL,
		   &(struct event){
			   .kind = &ibverbs_events[kind],
			   .subject = condition->subject,
			   .part = condition->process,
			   .qp = &key,
			   .seen = seen_json(verbs, condition, process, qp, now_local_ns),
		   });
}

static void end(const struct ibverbs *verbs, const struct verbs_condition *condition)
{
	events_add(verbs->core ? verbs->core->events : NULL,
		   &(struct event){.kind = &ibverbs_events[condition->kind + 1],
				   .subject = condition->subject,
				   .part = condition->process});
}

static void watch_qp(struct ibverbs *verbs, const struct process *process,
		     const struct verbs_qp *qp, uint64_t now_local_ns)
{
	static const unsigned int kinds[] = {VERBS_QP_FAILED, VERBS_QP_STUCK};

	for (unsigned int k = 0; qp->is.state != SEGMENT_FREE && k < 2; k++) {
		struct verbs_condition *known;

		if (!holds(kinds[k], process, qp, verbs, now_local_ns))
			continue;
		known = find(verbs, kinds[k], process, &qp->is);
		if (known)
			known->qps++;
		else
			begin(verbs, kinds[k], process, qp, now_local_ns);
	}
}

void watch_poll(struct ibverbs *verbs, uint64_t now_local_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < verbs->condition_count; i++)
		verbs->conditions[i].qps = 0;
	for (size_t i = 0; i < verbs->processes.count; i++) {
		const struct process *process = verbs->processes.list[i];

		for (size_t q = 0; q < process->count; q++)
			watch_qp(verbs, process, &process->qps[q], now_local_ns);
	}
	for (size_t i = 0; i < verbs->condition_count; i++) {
		if (verbs->conditions[i].qps)
			verbs->conditions[kept++] = verbs->conditions[i];
		else
			end(verbs, &verbs->conditions[i]);
	}
	verbs->condition_count = kept;
}
