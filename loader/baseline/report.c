// SPDX-License-Identifier: BSD-2-Clause
/* Events, the verbs `baseline`, `status` and the metrics. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"

#define ROWS 20 /* without --all */

#define BASELINE_METRICS(X)                                                                        \
	X(SLOWDOWNS, "slowdowns", GAUGE,                                                           \
	  "Destinations and NICs that have been slower than usual for baseline.after.")            \
	X(SERIES, "baseline_series", GAUGE,                                                        \
	  "Delays and throughputs whose usual values are kept, by what is known of them.")
enum { BASELINE_METRICS(METRIC_ENUM) };
const struct metric baseline_metrics[] = {BASELINE_METRICS(METRIC){}};
const struct event_kind baseline_events[] = {BASELINE_EVENTS(EVENT_KIND){}};

static const char *host_of(const struct baselines *baselines, const struct esc_address *address)
{
	return members_host(fleet_members(baselines->core->fleet), address);
}

/* --- a series --- */

/* Delays in ns, rates in bytes/s. */
static void put_value(json_t *object, const char *key, const struct baseline_series *series,
		      double value)
{
	bool rate = series->key.kind == BASELINE_THROUGHPUT;
	char name[48];

	snprintf(name, sizeof(name), "%s_%s", key, rate ? "bytes_per_second" : "ns");
	if (isfinite(value))
		json_put_integer(object, name, (int64_t)rint(value));
}

static void put_series(json_t *object, const struct baseline_series *series)
{
	const struct baseline_key *key = &series->key;
	double change = baseline_change(series), bound, now = baseline_now(series, &bound);

	json_put_text(object, "what", baseline_kind_name(key->kind));
	json_put_text(object, "interface", key->interface);
	if (key->kind == BASELINE_NIC_PAIR || key->kind == BASELINE_PATH) {
		json_put_count(object, "source_port", key->sport);
	} else {
		json_put_count(object, "message_bytes", 1ull << key->size_class);
		json_put_count(object, "sending_qps", 1ull << key->flow_class);
		if (key->response)
			json_put_bool(object, "read_responses", true);
	}
	put_value(object, "now", series, now);
	if (series->need > 0)
		put_value(object, "usual", series, series->base);
	if (key->kind != BASELINE_THROUGHPUT && isfinite(now))
		put_value(object, "bound", series, bound + series->bound);
	json_put_real(object, "slower_share", rint(change * 1e4) / 1e4);
}

/* --- events --- */

static void add_event(const struct baselines *baselines, const struct baseline_subject *subject,
		      struct event *event)
{
	const char *host = subject->own ? NULL : host_of(baselines, &subject->dst);
	char address[ADDRESS_TEXT_BYTES], part[ADDRESS_TEXT_BYTES + 16];

	address_format(&subject->dst, address);
	snprintf(part, sizeof(part), "%s%sslower", host ? address : "", host ? "/" : "");
	event->subject = subject->own ? subject->interface : host ? host : address;
	event->part = part;
	event->about = subject->own ? EVENT_NIC : EVENT_PEER;
	events_add(baselines->core->events, event);
}

static json_t *subject_json(const struct baseline_subject *subject)
{
	json_t *seen = json_object();

	if (subject->worst)
		put_series(seen, subject->worst);
	json_put_count(seen, subject->own ? "slower_destinations" : "slower", subject->slow);
	json_put_count(seen, "compared", subject->compared);
	json_put_count(seen, "since_ns", subject->since_ns);
	return seen;
}

void baseline_report_begin(void *self, const struct baseline_subject *subject, const char *reason)
{
	const struct baselines *baselines = self;
	struct baseline_law law = baseline_law_of(baselines->core->config);
	char share[16];

	(void)reason;
	snprintf(share, sizeof(share), "%.4g%%", law.slower * 100);
	add_event(baselines, subject,
		  &(struct event){.kind = &baseline_events[BASELINE_SLOWDOWN],
				  .seen = subject_json(subject),
				  .expected = json_pack(
					  "{s:s, s:I}", "slower_by_less_than", share, "after_s",
					  (json_int_t)(law.bin_ns * BASELINE_BINS / 1000000000))});
}

void baseline_report_end(void *self, const struct baseline_subject *subject, const char *reason)
{
	const struct baselines *baselines = self;
	uint64_t now_ns = time_realtime_ns();

	add_event(baselines, subject,
		  &(struct event){
			  .kind = &baseline_events[BASELINE_SLOWDOWN_ENDED],
			  .result = json_pack(
				  "{s:s, s:I}", "reason", reason, "duration_s",
				  (json_int_t)(now_ns > subject->since_ns
						       ? (now_ns - subject->since_ns) / 1000000000
						       : 0))});
}

void baseline_report_discarded(struct baselines *baselines, const char *reason)
{
	log_warning("%s: %s; what delays and throughput usually are is learned again",
		    baselines->file, reason);
	events_add(baselines->core->events,
		   &(struct event){.kind = &baseline_events[BASELINE_FILE_DISCARDED],
				   .subject = baselines->file,
				   .seen = json_pack("{s:s}", "reason", reason)});
}

/* --- the verbs --- */

struct row {
	const struct baseline_series *series;
	double change;
};

/* The slowest first, then by key. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *one = a, *two = b;
	double left = isnan(one->change) ? -INFINITY : one->change;
	double right = isnan(two->change) ? -INFINITY : two->change;

	if (left > right || left < right)
		return left > right ? -1 : 1;
	return memcmp(&one->series->key, &two->series->key, sizeof(one->series->key));
}

static json_t *row_json(const struct baselines *baselines, const struct baseline_series *series,
			uint64_t now_ns)
{
	struct baseline_law law = baseline_law_of(baselines->core->config);
	char address[ADDRESS_TEXT_BYTES];
	json_t *object = json_object();

	json_put_text(object, "peer", host_of(baselines, &series->key.dst));
	json_put_text(object, "to", address_format(&series->key.dst, address));
	put_series(object, series);
	json_put_text(object, "state", baseline_state_name(baseline_state(series, &law, now_ns)));
	if (series->slower_ns)
		json_put_count(object, "slower_since_ns", series->slower_ns);
	json_put_count(object, "learned_s",
		       now_ns > series->first_ns ? (now_ns - series->first_ns) / 1000000000 : 0);
	return object;
}

static bool is_of(const struct baselines *baselines, const struct baseline_series *series,
		  const char *host)
{
	const char *peer = host_of(baselines, &series->key.dst);
	char address[ADDRESS_TEXT_BYTES];

	return !host || (peer && !strcmp(peer, host)) ||
	       !strcmp(address_format(&series->key.dst, address), host);
}

static void count_states(const struct baselines *baselines, size_t counts[BASELINE_STATES])
{
	struct baseline_law law = baseline_law_of(baselines->core->config);
	uint64_t now_ns = time_realtime_ns();

	for (size_t i = 0; i < baselines->book.count; i++)
		counts[baseline_state(baselines->book.list[i], &law, now_ns)]++;
}

static json_t *summary_json(const struct baselines *baselines)
{
	const struct baseline_keys *keys =
		config_section(baselines->core->config, &baseline_section);
	const struct baseline_book *book = &baselines->book;
	size_t counts[BASELINE_STATES] = {};
	json_t *object = json_object(), *states = json_object();

	count_states(baselines, counts);
	json_put_bool(object, "on", keys->on);
	json_put_real(object, "slower_share", keys->slower);
	json_put_count(object, "after_ns", keys->after_ns);
	json_put_count(object, "learn_ns", keys->learn_ns);
	json_put_count(object, "series", book->count);
	for (unsigned int i = 0; i < BASELINE_STATES; i++)
		if (counts[i])
			json_put_count(states, baseline_state_name(i), counts[i]);
	json_put(object, "states", states);
	json_put_count(object, "slowdowns", book->subject_count);
	if (book->subjects_left_out)
		json_put_count(object, "slowdowns_left_out", book->subjects_left_out);
	if (book->left_out)
		json_put_count(object, "left_out", book->left_out);
	if (baselines->file_error)
		json_put(object, "note",
			 json_sprintf("%s cannot be written: %s", baselines->file,
				      strerror(-baselines->file_error)));
	return object;
}

static json_t *refuse_host(struct request *request, const char *host)
{
	return request_misuse(request,
			      "nothing is kept of `%.64s`; `escapement baseline --all` lists what "
			      "is",
			      host);
}

static json_t *reply_baseline(void *self, struct request *request)
{
	const char *host = request_text(request, "host", NULL);
	const struct baselines *baselines = self;
	const struct baseline_book *book = &baselines->book;
	struct row *rows = calloc(book->count + 1, sizeof(*rows));
	uint64_t now_ns = time_realtime_ns();
	json_t *object, *list = json_array();
	size_t count = 0, most;

	for (size_t i = 0; rows && i < book->count; i++)
		if (is_of(baselines, book->list[i], host))
			rows[count++] = (struct row){book->list[i], baseline_change(book->list[i])};
	if (host && !count) {
		free(rows);
		json_decref(list);
		return refuse_host(request, host);
	}
	if (count)
		qsort(rows, count, sizeof(*rows), compare_rows);
	most = host || request_flag(request, "all") || count < ROWS ? count : ROWS;
	for (size_t i = 0; i < most; i++)
		json_array_append_new(list, row_json(baselines, rows[i].series, now_ns));
	object = summary_json(baselines);
	json_put(object, "list", list);
	if (count > most)
		json_put_count(object, "more", count - most);
	free(rows);
	return object;
}

struct selection {
	const struct baselines *baselines;
	const char *host; /* NULL: all */
};

static bool is_selected(const void *context, const struct baseline_series *series)
{
	const struct selection *selection = context;

	return is_of(selection->baselines, series, selection->host);
}

static json_t *reply_forget(void *self, struct request *request)
{
	struct baselines *baselines = self;
	const struct selection selection = {baselines, request_text(request, "host", NULL)};
	size_t forgotten;

	if (!selection.host == !request_flag(request, "all"))
		return request_misuse(request, "give either a host, or `--all`");
	forgotten = baseline_book_forget(&baselines->book, is_selected, &selection);
	if (selection.host && !forgotten)
		return refuse_host(request, selection.host);
	return json_pack("{s:I}", "forgotten", (json_int_t)forgotten);
}

const struct verb_handler baseline_verb_handlers[] = {
	{"baseline", reply_baseline},
	{"baseline forget", reply_forget},
	{},
};

/* --- status and metrics --- */

void baseline_put_status(void *self, json_t *status)
{
	json_put(status, "baseline", summary_json(self));
}

void baseline_write_metrics(void *self, FILE *out)
{
	struct prom_family *series = FAMILY_OF(&baseline_metrics[SERIES]);
	const struct baselines *baselines = self;
	size_t counts[BASELINE_STATES] = {};

	count_states(baselines, counts);
	prom_count(FAMILY_OF(&baseline_metrics[SLOWDOWNS]), baselines->book.subject_count, NULL);
	for (unsigned int i = 0; i < BASELINE_STATES; i++)
		prom_count(series, counts[i], "state", baseline_state_name(i), NULL);
}
