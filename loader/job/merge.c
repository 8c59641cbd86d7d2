// SPDX-License-Identifier: BSD-2-Clause
/* From the JSON of one host or of several: what a job consists of, and which queue pair stopped
 * first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "internal.h"

#define NEAREST_MOST 16 /* queue pairs that are named as not ordered */

/* --- groups --- */

static const char *const sums_of[] = {"packets",  "bytes", "payload_bytes", "messages",
				      "psn_gaps", "ce",	   "retransmits",   "duplicates"};

static void add_counts(json_t *group, const json_t *qp)
{
	const char *direction = json_text(qp, "direction");
	json_t *sums = json_object_get(group, direction);

	json_put_count(group, "qp_count", json_count(group, "qp_count") + 1);
	if (!*direction)
		return;
	if (!sums) {
		json_put(group, direction, json_object());
		sums = json_object_get(group, direction);
	}
	for (size_t i = 0; i < sizeof(sums_of) / sizeof(sums_of[0]); i++)
		if (json_object_get(qp, sums_of[i]))
			json_put_count(sums, sums_of[i],
				       json_count(sums, sums_of[i]) + json_count(qp, sums_of[i]));
}

/* The largest delay, with its bound. */
static void add_delays(json_t *group, const json_t *qp)
{
	const json_t *owd = json_object_get(qp, "owd_ns");
	const json_t *known = json_object_get(group, "owd_ns");

	if (owd && (!known || json_count(owd, "p99") > json_count(known, "p99")))
		json_object_set(group, "owd_ns", (json_t *)owd);
}

/* @names (ended by NULL): the members that distinguish groups; without the first none is made. */
static json_t *groups_json(const json_t *qps, const char *const *names)
{
	json_t *groups = json_object(), *list = json_array(), *group, *qp;
	const char *key;
	size_t i;

	json_array_foreach (qps, i, qp) {
		char *id;
		json_t *parts = json_array();

		for (size_t n = 0; names[n]; n++)
			json_array_append(parts, json_object_get(qp, names[n]));
		id = json_object_get(qp, names[0]) ? json_dumps(parts, JSON_COMPACT) : NULL;
		json_decref(parts);
		if (!id)
			continue;
		group = json_object_get(groups, id);
		if (!group) {
			group = json_object();
			for (size_t n = 0; names[n]; n++)
				if (json_object_get(qp, names[n]))
					json_object_set(group, names[n],
							json_object_get(qp, names[n]));
			json_put(groups, id, group);
		}
		add_counts(group, qp);
		add_delays(group, qp);
		free(id);
	}
	json_object_foreach (groups, key, group)
		json_array_append(list, group);
	json_decref(groups);
	return list;
}

void job_put_groups(json_t *out, const json_t *qps)
{
	static const char *const processes[] = {"pid", "host", "comm", NULL};
	static const char *const interfaces[] = {"interface", "host", "rdma_device", NULL};
	static const char *const peers[] = {"peer", "host", NULL};
	static const char *const paths[] = {"sport", "host", "src", "dst", "steered_sport", NULL};

	json_put(out, "processes", groups_json(qps, processes));
	json_put(out, "interfaces", groups_json(qps, interfaces));
	json_put(out, "peers", groups_json(qps, peers));
	json_put(out, "paths", groups_json(qps, paths));
}

/* --- which stopped first --- */

/* The requests of a queue pair to its peer, at one end or both. */
struct stream {
	const char *key;
	const json_t *tx, *rx; /* NULL: not known */
};

/* As its process counts it: the kernel programs do not see it. */
static bool is_of_process(const json_t *qp)
{
	return !strcmp(json_text(qp, "source"), "verbs");
}

static int compare_streams(const void *a, const void *b)
{
	return strcmp(((const struct stream *)a)->key, ((const struct stream *)b)->key);
}

/* @streams has room for each of @qps. */
static size_t read_streams(const json_t *qps, struct stream *streams)
{
	size_t count = 0, kept = 0, i;
	json_t *qp;

	json_array_foreach (qps, i, qp) {
		bool tx = !strcmp(json_text(qp, "direction"), "tx");

		if ((json_object_get(qp, "request_psn") || is_of_process(qp)) &&
		    *json_text(qp, "key"))
			streams[count++] = (struct stream){json_text(qp, "key"), tx ? qp : NULL,
							   tx ? NULL : qp};
	}
	if (count)
		qsort(streams, count, sizeof(*streams), compare_streams);
	for (i = 0; i < count; i++) {
		struct stream *last = kept ? &streams[kept - 1] : NULL;

		if (!last || strcmp(last->key, streams[i].key)) {
			streams[kept++] = streams[i];
			continue;
		}
		last->tx = last->tx ? last->tx : streams[i].tx;
		last->rx = last->rx ? last->rx : streams[i].rx;
	}
	return kept;
}

/* The same by the completions of its process: an error has causes of its own, see `findings`. */
static const char *cause_of_process(const json_t *tx)
{
	const json_t *counts = json_object_get(tx, "verbs");
	const json_t *pending = json_object_get(counts, "pending");

	if (!counts || json_object_size(json_object_get(counts, "errors")))
		return NULL;
	if (json_count(counts, "signaled") == json_count(counts, "completed"))
		return "local";
	/* Without polls it may have its completions. */
	return json_is_true(json_object_get(pending, "polls")) ? "remote or fabric" : NULL;
}

/*
 * Where the cause is, seen from the host that sends the requests: "local", all was acknowledged
 * and no more was sent; "remote", the peer received all and does not acknowledge it; "fabric", what
 * was sent was not received. NULL: the figures do not say.
 */
static const char *cause_of(const struct stream *stream)
{
	const json_t *acked = json_object_get(stream->tx, "acked_psn");
	uint32_t sent = (uint32_t)json_count(stream->tx, "request_psn");

	if (is_of_process(stream->tx))
		return cause_of_process(stream->tx);
	if (!stream->tx || !acked)
		return NULL;
	if (!((sent - (uint32_t)json_integer_value(acked)) & ESC_PSN_MASK))
		return "local";
	if (!json_object_get(stream->rx, "request_psn"))
		return "remote or fabric";
	return json_count(stream->rx, "request_psn") == sent ? "remote" : "fabric";
}

static void copy(json_t *to, const json_t *from, const char *key)
{
	if (json_object_get(from, key))
		json_object_set(to, key, json_object_get(from, key));
}

/* NULL: it still moves, or it is not known when it did. */
static json_t *stopped_json(const struct stream *stream, uint64_t quiet_ns)
{
	static const char *const same[] = {
		"key", "host",	 "peer", "interface",	"sport",     "pid",    "comm",
		"job", "job_id", "rank", "retransmits", "local_qpn", "source", "rdma_device"};
	static const char *const times[] = {"after_fabric_ns", "before_fabric_ns", "bound_ns",
					    "ago_ms"};
	const json_t *end = stream->tx ? stream->tx : stream->rx;
	const json_t *progress = json_object_get(end, "progress"), *acked, *pending;
	uint32_t sent = (uint32_t)json_count(end, "request_psn");
	json_t *object;

	if (!json_object_get(progress, "before_fabric_ns") ||
	    json_count(progress, "ago_ms") < quiet_ns / 1000000)
		return NULL;
	object = json_object();
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		copy(object, end, same[i]);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		copy(object, progress, times[i]);
	json_put_text(object, "end", stream->tx ? "sender" : "receiver");
	acked = json_object_get(stream->tx, "acked_psn");
	if (acked)
		json_put_count(object, "unacknowledged_packets",
			       (sent - (uint32_t)json_integer_value(acked)) & ESC_PSN_MASK);
	pending = json_object_get(json_object_get(stream->tx, "verbs"), "pending");
	if (pending)
		copy(object, pending, "operations");
	json_put_text(object, "cause", cause_of(stream));
	return object;
}

/* It surely stopped after the one before which @other did. */
static int64_t earliest(const json_t *stopped)
{
	return (int64_t)json_count(stopped, "after_fabric_ns") -
	       (int64_t)json_count(stopped, "bound_ns");
}

static int64_t latest(const json_t *stopped)
{
	return (int64_t)json_count(stopped, "before_fabric_ns") +
	       (int64_t)json_count(stopped, "bound_ns");
}

static int compare_stopped(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int64_t at = latest(x), other = latest(y);

	if (at != other)
		return at < other ? -1 : 1;
	return strcmp(json_text(x, "key"), json_text(y, "key"));
}

/* The first of @list, unless others may have stopped before it. */
static void put_first(json_t *result, json_t *const *list, size_t count)
{
	json_t *others = json_array();
	size_t not_ordered = 0;

	for (size_t i = 1; i < count; i++) {
		if (earliest(list[i]) > latest(list[0]))
			continue;
		if (not_ordered++ < NEAREST_MOST)
			json_array_append(others, json_object_get(list[i], "key"));
	}
	if (count && !not_ordered)
		json_object_set(result, "first", list[0]);
	if (not_ordered) {
		json_put_count(result, "not_ordered", not_ordered + 1);
		json_array_insert(others, 0, json_object_get(list[0], "key"));
		json_object_set(result, "not_ordered_with", others);
	}
	json_decref(others);
}

json_t *job_timeline(const json_t *qps, uint64_t quiet_ns)
{
	size_t room = json_array_size(qps) + 1, count, stopped = 0, untimed = 0;
	struct stream *streams = calloc(room, sizeof(*streams));
	json_t **list = calloc(room, sizeof(*list)), *result = json_object();
	json_t *array = json_array();

	count = streams && list ? read_streams(qps, streams) : 0;
	for (size_t i = 0; i < count; i++) {
		const json_t *end = streams[i].tx ? streams[i].tx : streams[i].rx;

		list[stopped] = stopped_json(&streams[i], quiet_ns);
		stopped += list[stopped] != NULL;
		untimed += !json_object_get(json_object_get(end, "progress"), "before_fabric_ns");
	}
	if (stopped)
		qsort(list, stopped, sizeof(*list), compare_stopped);
	put_first(result, list, stopped);
	for (size_t i = 0; i < stopped; i++)
		json_array_append_new(array, list[i]);
	json_put_count(result, "qp_count", count);
	json_put_count(result, "moving", count - stopped - untimed);
	json_put_count(result, "untimed", untimed);
	json_put(result, "stopped", array);
	free(streams);
	free(list);
	return result;
}

/* --- without a daemon: files of several hosts --- */

/* The queue pairs of a reply to `qp` or `job ID`, each with its host. */
static bool take_reply(json_t *qps, json_t *sums, const json_t *reply)
{
	const char *host = json_text(reply, "host");
	const json_t *list = json_object_get(reply, "qps");
	json_t *qp;
	size_t i;

	if (!json_is_array(list))
		return false;
	json_array_foreach (list, i, qp) {
		if (!json_object_get(qp, "host"))
			json_put_name(qp, "host", host);
		json_array_append(qps, qp);
	}
	if (json_object_get(reply, "job_id"))
		json_array_append(sums, (json_t *)reply);
	return true;
}

/* A file has a reply a line, or one that is indented. False with *@error. */
static bool take_file(json_t *qps, json_t *sums, const char *path, char **error)
{
	FILE *file = fopen(path, "r");
	json_error_t problem = {};
	size_t found = 0;
	json_t *reply;

	if (!file) {
		explain(error, 0, "%s: %s", path, strerror(errno));
		return false;
	}
	while ((reply = json_loadf(file, JSON_DISABLE_EOF_CHECK, &problem))) {
		found += take_reply(qps, sums, reply);
		json_decref(reply);
	}
	fclose(file);
	if (found)
		return true;
	explain(error, 0,
		"%s: no reply to `qp` or `job ID` (line %d: %s); make it with `escapement -j job "
		"ID`",
		path, problem.line, problem.text);
	return false;
}

/* The queue pairs of the job, and at other hosts the other ends of these. */
static json_t *choose(const json_t *qps, const char *id)
{
	json_t *keys = json_object(), *chosen = json_array(), *qp;
	size_t i;

	/* One that is not connected has no key. */
	json_array_foreach (qps, i, qp)
		if (*json_text(qp, "key") && job_id_matches(json_text(qp, "job_id"), id))
			json_object_set_new(keys, json_text(qp, "key"), json_true());
	json_array_foreach (qps, i, qp)
		if (json_object_get(keys, json_text(qp, "key")) ||
		    job_id_matches(json_text(qp, "job_id"), id))
			json_array_append(chosen, qp);
	json_decref(keys);
	return chosen;
}

/* Adds each count of @from to that of @to. */
static void add_sums(json_t *to, json_t *from)
{
	const char *key;
	json_t *value;

	json_object_foreach (from, key, value) {
		if (!json_is_object(value)) {
			json_put_count(to, key, json_count(to, key) + json_count(from, key));
			continue;
		}
		if (!json_is_object(json_object_get(to, key)))
			json_put(to, key, json_object());
		add_sums(json_object_get(to, key), value);
	}
}

/* The sums of each host that stated them, and of all. */
static void put_sums(json_t *result, const json_t *sums, const char *id)
{
	static const char *const names[] = {"tx", "rx", "verbs"};
	json_t *hosts = json_array(), *one, *of;
	size_t i;

	json_array_foreach (sums, i, one) {
		json_t *host = json_object();

		if (!job_id_matches(json_text(one, "job_id"), id)) {
			json_decref(host);
			continue;
		}
		copy(host, one, "host");
		for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
			of = json_object_get(one, names[n]);
			if (!json_is_object(of))
				continue;
			copy(host, one, names[n]);
			if (!json_object_get(result, names[n]))
				json_put(result, names[n], json_object());
			add_sums(json_object_get(result, names[n]), of);
		}
		json_array_append_new(hosts, host);
	}
	json_put(result, "hosts", hosts);
}

/* Those of the job, with their ranks in all files: pods of one job have an id each. */
static json_t *join_communicators(const json_t *sums, const char *id)
{
	json_t *keys = json_object(), *chosen = json_array(), *joined, *one, *communicator;
	size_t i, k;

	json_array_foreach (sums, i, one)
		json_array_foreach (json_object_get(one, "communicators"), k, communicator)
			if (job_id_matches(json_text(one, "job_id"), id))
				json_object_set_new(keys, json_text(communicator, "communicator"),
						    json_true());
	json_array_foreach (sums, i, one)
		json_array_foreach (json_object_get(one, "communicators"), k, communicator)
			if (json_object_get(keys, json_text(communicator, "communicator")))
				json_array_append(chosen, communicator);
	joined = nccl_merge(chosen);
	json_decref(keys);
	json_decref(chosen);
	return joined;
}

json_t *job_run_files(const json_t *args, int *exit, char **error)
{
	const char *id = json_text(args, "id");
	json_t *qps = json_array(), *sums = json_array(), *chosen, *result = NULL, *path;
	json_t *communicators;
	uint64_t quiet_ns = json_count(args, "quiet_ns");
	bool good = true;
	size_t i;

	*exit = REQUEST_MISUSE;
	if (!*id) {
		explain(error, 0, "--from needs a job: `escapement job ID --from FILE`");
		good = false;
	}
	json_array_foreach (json_object_get(args, "from"), i, path)
		good = good && take_file(qps, sums, json_string_value(path), error);
	chosen = choose(qps, id);
	communicators = join_communicators(sums, id);
	if (good && !json_array_size(chosen) && !json_array_size(communicators)) {
		*exit = REQUEST_FAILED;
		explain(error, 0, "no queue pair or communicator of job `%.96s` is in these files",
			id);
	} else if (good && *json_text(args, "view")) {
		result = job_timeline(chosen, quiet_ns ? quiet_ns : JOB_QUIET_NS);
	} else if (good) {
		result = json_object();
		put_sums(result, sums, id);
		job_put_groups(result, chosen);
		json_object_set(result, "qps", chosen);
		if (json_array_size(communicators))
			json_object_set(result, "communicators", communicators);
	}
	if (result)
		json_put_name(result, "job_id", id);
	json_decref(communicators);
	json_decref(chosen);
	json_decref(qps);
	json_decref(sums);
	return result;
}
