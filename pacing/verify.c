// SPDX-License-Identifier: BSD-2-Clause
#include "verify.h"

static const struct {
	const char *name, *meaning;
} verdicts[VERIFY_RESULTS] = {
	[VERIFY_OPEN] = {"open", "too early to say"},
	[VERIFY_PROVED] = {"proved", "it is answered as before"},
	[VERIFY_SILENT] = {"silent", "packets were sent and nothing came back"},
	[VERIFY_NAKS] = {"naks", "the receiver missed more packets than before"},
	[VERIFY_RESENT] = {"resent", "most packets had to be sent again"},
	[VERIFY_ASKED] = {"asked", "the peer asked again for what it had been sent"},
};

const char *verify_name(enum verify_result result)
{
	return verdicts[result].name;
}

const char *verify_meaning(enum verify_result result)
{
	return verdicts[result].meaning;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static void begin_stretch(struct verify *verify, const struct verify_counts *counts,
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
		/* One may be the loss of any day; a move inside a message may cost one more. */
		.naks_free = forced ? 2 : 1,
		.answers = counts->paired && counts->back,
		.received = *counts,
		.received_ns = now_ns,
	};
	begin_stretch(verify, counts, now_ns);
	verify->resumed = false;
}

/*
 * Who was moved while it waited for answers that were lost sends that again first, as a window of
 * go-back-N: it says nothing of the path on which it is sent.
 */
static void observe_resumed(struct verify *verify, uint64_t sent, uint64_t resent, uint64_t now_ns)
{
	uint64_t fresh = sent - resent;

	if (verify->resumed || !sent)
		return;
	/* The first that are seen may still have taken the path before. */
	if (now_ns == verify->sent_ns)
		verify->fresh = fresh;
	verify->resumed = fresh > verify->fresh || now_ns - verify->sent_ns >= VERIFY_RESUME_NS;
	verify->resent_free = resent;
}

/* Half of @whole, and half more than was usual. */
static bool is_most(uint64_t part, uint64_t whole, double usual)
{
	return whole >= VERIFY_SHARE_PACKETS && share(part, whole) > 0.5 + usual / 2;
}

/* Sent, sent again, and unanswered since the last that came back. */
static bool has_died(struct verify *verify, const struct verify_counts *counts, uint64_t now_ns)
{
	if (!counts->paired || !verify->answers)
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
	if (paired && verify->answers && !back && sent >= VERIFY_SILENT_PACKETS &&
	    now_ns - verify->sent_ns >= VERIFY_SILENT_NS)
		return VERIFY_SILENT;
	if (has_died(verify, counts, now_ns))
		return VERIFY_SILENT;
	/* Twice the usual share: a fabric that always loses some is no reason. */
	if (paired && naks > verify->naks_free &&
	    (double)(naks - verify->naks_free) > 2 * verify->naks_share * (double)sent)
		return VERIFY_NAKS;
	if (is_most(resent - verify->resent_free, sent - verify->resent_free, verify->resent_share))
		return VERIFY_RESENT;
	if (paired &&
	    is_most(counts->repeated - verify->from.repeated, back, verify->repeated_share))
		return VERIFY_ASKED;
	if (sent < VERIFY_PROVED_PACKETS || now_ns - verify->from_ns < VERIFY_PROVED_NS ||
	    (paired && verify->answers && !back))
		return VERIFY_OPEN;
	begin_stretch(verify, counts, now_ns);
	return VERIFY_PROVED;
}
