// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <stdio.h>

#include "base/address.h"
#include "internal.h"
#include "core/core.h"
#include "base/log.h"
#include "base/json.h"

_Static_assert(VERDICT_BEGIN == 0 && VERDICT_CHANGE == 1 && VERDICT_CLEAR == 2, "index below");
#define PHASES(id, name, severity, help)                                                           \
	[3 * (id)] = {name, EVENT_##severity, help},                                               \
	     [3 * (id) + 1] = {name "_changed", EVENT_NOTICE, "Its cause is another now."},        \
	     [3 * (id) + 2] = {name "_cleared", EVENT_NOTICE, "It is over."},
const struct event_kind verdict_events[] = {VERDICT_LIST(PHASES){}};

const char *judge_subject(const struct verdict_subject *subject, const char *interface,
			  char out[JUDGE_SUBJECT_BYTES])
{
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES];

	if (subject->about == VERDICT_ABOUT_PORT) {
		snprintf(out, JUDGE_SUBJECT_BYTES, "%s", interface);
		return out;
	}
	address_format(&subject->key.src, src);
	address_format(&subject->key.dst, dst);
	if (subject->about == VERDICT_ABOUT_QP)
		snprintf(out, JUDGE_SUBJECT_BYTES, "%s>%s/%u", src, dst, subject->key.dest_qpn);
	else
		snprintf(out, JUDGE_SUBJECT_BYTES, "%s>%s", src, dst);
	return out;
}

json_t *judge_figures(const struct verdict_figure *figures, size_t count)
{
	json_t *object = json_object();

	for (size_t i = 0; i < count; i++) {
		double value = figures[i].value;
		bool whole = fabs(value) < 9e15 && value == rint(value);

		json_object_set_new(object, figures[i].name,
				    whole ? json_integer((json_int_t)value)
					  : json_real(round(value * 1e4) / 1e4));
	}
	return object;
}

void judge_put_words(json_t *seen, const struct verdict_evidence *evidence,
		     const struct verdict_subject *subject, const char *interface)
{
	char text[ADDRESS_TEXT_BYTES];

	json_put_text(seen, "cause", evidence->cause);
	json_put_text(seen, "note", evidence->note);
	if (subject->about == VERDICT_ABOUT_PORT) {
		json_put_text(seen, "interface", interface);
		return;
	}
	json_put_text(seen, "src", address_format(&subject->key.src, text));
	json_put_text(seen, "dst", address_format(&subject->key.dst, text));
	if (subject->about == VERDICT_ABOUT_QP) {
		json_put_count(seen, "dest_qpn", subject->key.dest_qpn);
		json_put_text(seen, "interface", interface);
	}
}

static void report_more(struct events *events, const struct verdict_event *event)
{
	events_add(events,
		   &(struct event){
			   .kind = &verdict_events[3 * event->kind],
			   .subject = "more",
			   .seen = json_pack("{s:I}", "suppressed", (json_int_t)event->left_out),
		   });
}

static json_t *result_of(const struct verdict_event *event)
{
	double seconds = (event->now_ns - event->first_ns) / 1e9;

	if (event->phase != VERDICT_CLEAR)
		return NULL;
	return json_pack("{s:f, s:s}", "duration_s", round(seconds * 1e3) / 1e3, "reason",
			 event->because);
}

void judge_tell(struct events *events, const struct verdict_event *event,
		judge_interface_fn *interface_of, const void *context)
{
	const struct verdict_evidence *evidence = &event->evidence;
	const char *interface;
	char subject[JUDGE_SUBJECT_BYTES];
	const struct event_kind *kind;
	json_t *seen;

	if (event->phase == VERDICT_MORE) {
		report_more(events, event);
		return;
	}
	interface = interface_of(context, event->subject.key.port);
	judge_subject(&event->subject, interface, subject);
	kind = &verdict_events[3 * event->kind + event->phase];
	seen = judge_figures(evidence->seen, evidence->seen_count);
	json_put_count(seen, "since_ms", (event->now_ns - event->first_ns) / 1000000);
	judge_put_words(seen, evidence, &event->subject, interface);
	if (event->phase == VERDICT_BEGIN)
		log_warning("%s: %s%s%s", kind->name, subject, evidence->cause ? ": " : "",
			    evidence->cause ? evidence->cause : "");
	events_add(events,
		   &(struct event){
			   .kind = kind,
			   .subject = subject,
			   .seen = seen,
			   .expected = judge_figures(evidence->expected, evidence->expected_count),
			   .result = result_of(event),
		   });
}
