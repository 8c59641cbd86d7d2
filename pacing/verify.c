// SPDX-License-Identifier: BSD-2-Clause
#include "verify.h"

static const struct {
	const char *name, *meaning;
} results[VERIFY_RESULTS] = {
	[VERIFY_OPEN] = {"open", "not enough packets yet"},
	[VERIFY_PROVED] = {"proved", "replies are received as before"},
	[VERIFY_SILENT] = {"silent", "packets were sent and nothing was received"},
	[VERIFY_NAKS] = {"naks", "the receiver missed more packets than before"},
	[VERIFY_RESENT] = {"resent", "most packets had to be retransmitted"},
	[VERIFY_ASKED] = {"asked", "the peer retransmitted requests that were replied to"},
};

const char *verify_name(enum verify_result result)
{
	return results[result].name;
}

const char *verify_meaning(enum verify_result result)
{
	return results[result].meaning;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static void begin_interval(struct verify *verify, const struct verify_counts *counts,
			   uint64_t now_ns)
{
	verify->from = *counts;
	verify->from_ns = now_ns;
	verify->sent_ns = 0;
	verify->resent_free = 0;
	verify->resumed = true;
}

void verify_start(struct verify *verify, const struct verify_counts *counts, uint64_t now_ns,
		  bool forced)
{
	*verify = (struct verify){
		.naks_share = share(counts->naks, counts->sent),
		.resent_share = share(counts->resent, counts->sent),
		.repeated_share = share(counts->repeated, counts->back),
		/* One is usual loss; a move inside a message may cost one more. */
		.naks_free = forced ? 2 : 1,
		.replies = counts->paired && counts->back,
		.received = *counts,
		.received_ns = now_ns,
	};
	begin_interval(verify, counts, now_ns);
	verify->resumed = false;
}

/*
 * A queue pair that was moved while it waited for a timeout first retransmits a window
 * (go-back-N), which shows nothing of the path it is sent on.
 */
static void observe_resumed(struct verify *verify, uint64_t sent, uint64_t resent, uint64_t now_ns)
{
	uint64_t fresh = sent - resent;

	if (verify->resumed || !sent)
		return;
	/* The first ones may still have taken the old path. */
	if (now_ns == verify->sent_ns)
		verify->fresh = fresh;
	verify->resumed = fresh > verify->fresh || now_ns - verify->sent_ns >= VERIFY_RESUME_NS;
	verify->resent_free = resent;
}

/* More than half of @whole, and more than usual. */
static bool is_most(uint64_t part, uint64_t whole, double usual)
{
	return whole >= VERIFY_SHARE_PACKETS && share(part, whole) > 0.5 + usual / 2;
}

/* Packets were sent and retransmitted, and nothing was received since. */
static bool has_failed(struct verify *verify, const struct verify_counts *counts, uint64_t now_ns)
{
	if (!counts->paired || !verify->replies)
		return false;
	if (counts->back != verify->received.back || counts->sent == verify->received.sent) {
		verify->received = *counts;
		verify->received_ns = now_ns;
		return false;
	}
	return counts->sent - verify->received.sent >= VERIFY_SILENT_PACKETS &&
	       counts->resent != verify->received.resent &&
	       now_ns - verify->received_ns >= VERIFY_DIED_NS;
}

enum verify_result verify_poll(struct verify *verify, const struct verify_counts *counts,
			       uint64_t now_ns)
{
	uint64_t sent = counts->sent - verify->from.sent;
	uint64_t back = counts->back - verify->from.back;
	uint64_t naks = counts->naks - verify->from.naks;
	uint64_t resent = counts->resent - verify->from.resent;
	bool paired = counts->paired && verify->from.paired;

	if (sent && !verify->sent_ns)
		verify->sent_ns = now_ns;
	observe_resumed(verify, sent, resent, now_ns);
	if (paired && verify->replies && !back && sent >= VERIFY_SILENT_PACKETS &&
	    now_ns - verify->sent_ns >= VERIFY_SILENT_NS)
		return VERIFY_SILENT;
	if (has_failed(verify, counts, now_ns))
		return VERIFY_SILENT;
	/* More than twice the usual share. */
	if (paired && naks > verify->naks_free &&
	    (double)(naks - verify->naks_free) > 2 * verify->naks_share * (double)sent)
		return VERIFY_NAKS;
	if (is_most(resent - verify->resent_free, sent - verify->resent_free, verify->resent_share))
		return VERIFY_RESENT;
	if (paired &&
	    is_most(counts->repeated - verify->from.repeated, back, verify->repeated_share))
		return VERIFY_ASKED;
	if (sent < VERIFY_PROVED_PACKETS || now_ns - verify->from_ns < VERIFY_PROVED_NS ||
	    (paired && verify->replies && !back))
		return VERIFY_OPEN;
	begin_interval(verify, counts, now_ns);
	return VERIFY_PROVED;
}
