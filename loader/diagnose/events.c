// SPDX-License-Identifier: BSD-2-Clause
/* Diagnoses as events, and as JSON. */
#include <math.h>
#include <stdio.h>

#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"

_Static_assert(DIAG_BEGIN == 0 && DIAG_CHANGE == 1 && DIAG_CLEAR == 2, "index below");
#define PHASES(id, name, severity, help)                                                           \
	[3 * (id)] = {name, EVENT_##severity, help},                                               \
	     [3 * (id) + 1] = {name "_changed", EVENT_NOTICE, "Its cause is another now."},        \
	     [3 * (id) + 2] = {name "_cleared", EVENT_NOTICE, "It is over."},
const struct event_kind diag_events[] = {DIAG_LIST(PHASES){}};

const char *diagnose_subject(const struct diag_subject *subject, const char *interface,
			     char out[DIAGNOSE_SUBJECT_BYTES])
{
	const struct esc_qp_key *key = &subject->key;
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES];

	if (subject->about == DIAG_ABOUT_QP)
		return address_format_qp(&key->src, &key->dst, key->dest_qpn, out);
	if (subject->about == DIAG_ABOUT_PORT)
		snprintf(out, DIAGNOSE_SUBJECT_BYTES, "%s", interface);
	else
		snprintf(out, DIAGNOSE_SUBJECT_BYTES, "%s>%s", address_format(&key->src, src),
			 address_format(&key->dst, dst));
	return out;
}

static json_t *figures_json(const struct diag_figure *figures, size_t count)
{
	json_t *object = json_object();

	for (size_t i = 0; i < count; i++) {
		double value = figures[i].value;
		bool whole = fabs(value) < 9e15 && value == rint(value);

		json_put(object, figures[i].name,
			 whole ? json_integer((json_int_t)value)
			       : json_real(round(value * 1e4) / 1e4));
	}
	return object;
}

json_t *diagnose_seen(const struct diag_active *active, const char *interface)
{
	const struct diag_subject *subject = &active->subject;
	const struct diag_evidence *evidence = &active->evidence;
	json_t *seen = figures_json(evidence->seen, evidence->seen_count);
	char text[ADDRESS_TEXT_BYTES];

	json_put_text(seen, "cause", evidence->cause);
	json_put_text(seen, "note", evidence->note);
	if (subject->about != DIAG_ABOUT_PORT) {
		json_put_text(seen, "src", address_format(&subject->key.src, text));
		json_put_text(seen, "dst", address_format(&subject->key.dst, text));
	}
	if (subject->about == DIAG_ABOUT_QP)
		json_put_count(seen, "dest_qpn", subject->key.dest_qpn);
	if (subject->about != DIAG_ABOUT_PAIR)
		json_put_text(seen, "interface", interface);
	return seen;
}

void diagnose_emit(struct events *events, const struct diag_event *event, const char *interface)
{
	const struct diag_evidence *evidence = &event->of.evidence;
	const struct event_kind *kind = &diag_events[3 * event->of.kind];
	double seconds = (event->now_ns - event->of.first_ns) / 1e9;
	char subject[DIAGNOSE_SUBJECT_BYTES];
	json_t *seen, *result = NULL;

	if (event->phase == DIAG_MORE) {
		seen = json_pack("{s:I}", "suppressed", (json_int_t)event->left_out);
		events_add(events, &(struct event){.kind = kind, .subject = "more", .seen = seen});
		return;
	}
	kind += event->phase;
	diagnose_subject(&event->of.subject, interface, subject);
	seen = diagnose_seen(&event->of, interface);
	json_put_count(seen, "since_ms", (event->now_ns - event->of.first_ns) / 1000000);
	if (event->phase == DIAG_BEGIN)
		log_warning("%s: %s%s%s", kind->name, subject, evidence->cause ? ": " : "",
			    evidence->cause ? evidence->cause : "");
	if (event->phase == DIAG_CLEAR)
		result = json_pack("{s:f, s:s}", "duration_s", round(seconds * 1e3) / 1e3, "reason",
				   event->because);
	events_add(events,
		   &(struct event){
			   .kind = kind,
			   .subject = subject,
			   .seen = seen,
			   .expected = figures_json(evidence->expected, evidence->expected_count),
			   .result = result,
		   });
}
