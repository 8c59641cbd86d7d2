// SPDX-License-Identifier: BSD-2-Clause
/* `qp` and `top`: what is shown of queue pairs beside their columns. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli.h"
#include "render.h"

#define NOTES_MOST 5

/* --- one queue pair --- */

static bool is_sender(const json_t *qp)
{
	return !strcmp(json_text(qp, "direction"), "tx");
}

static const char *state_of(const json_t *qp)
{
	const json_t *owd = json_object_get(qp, "owd_ns"), *kind;
	const char *shared = NULL;
	size_t i;

	/* A diagnosis of the queue pair itself before those that it shares with others. */
	json_array_foreach (json_object_get(qp, "diagnoses"), i, kind) {
		const char *name = json_string_value(kind);

		if (name && !strncmp(name, "qp_", 3))
			return name + 3;
		if (!shared)
			shared = name;
	}
	if (shared)
		return shared;
	if (json_number_value(json_object_get(qp, "loss_per_second")) > 0)
		return "loss";
	if (owd)
		return json_count(owd, "above_threshold") ? "spiky" : "ok";
	if (!(json_number_value(json_object_get(qp, "bytes_per_second")) > 0))
		return "idle";
	return is_sender(qp) ? "no_feedback" : "rx";
}

void cli_complete_qp(json_t *qp)
{
	const char *job = json_text(qp, "job");

	json_put_text(qp, "state", state_of(qp));
	if (!*json_text(qp, "peer"))
		json_object_set(qp, "peer", json_object_get(qp, is_sender(qp) ? "dst" : "src"));
	if (*job)
		json_put_text(qp, "owner", job);
	else if (json_object_get(qp, "pid"))
		json_put(qp, "owner",
			 json_sprintf("%.60s[%llu]", json_text(qp, "comm"),
				      (unsigned long long)json_count(qp, "pid")));
}

/* --- lines below the table --- */

/* How many have this count above 0, and the one that has most. */
static void write_most(FILE *out, const json_t *qps, const char *key, const char *does,
		       const char *means)
{
	const json_t *worst = NULL;
	uint64_t most = 0;
	size_t i, flows = 0;
	json_t *qp;

	json_array_foreach (qps, i, qp) {
		uint64_t count = json_count(qp, key);

		flows += count > 0;
		if (count > most) {
			most = count;
			worst = qp;
		}
	}
	if (worst)
		fprintf(out, "%zu %s %s; most: %s>%s/%llu, %llu. %s\n", flows,
			flows == 1 ? "queue pair" : "queue pairs", does, json_text(worst, "src"),
			json_text(worst, "dst"), (unsigned long long)json_count(worst, "dest_qpn"),
			(unsigned long long)most, means);
}

/* Why senders have no delays, each reason once with the number of queue pairs. */
static void write_notes(FILE *out, const json_t *qps)
{
	json_t *counts = json_object(), *qp, *count;
	const char *note;
	size_t i, written = 0;

	json_array_foreach (qps, i, qp) {
		note = json_text(qp, "owd_note");
		if (is_sender(qp) && *note)
			json_put_count(counts, note, json_count(counts, note) + 1);
	}
	json_object_foreach (counts, note, count) {
		json_int_t flows = json_integer_value(count);

		if (written++ == NOTES_MOST) {
			fprintf(out, "And more without delays; `qp KEY` shows why.\n");
			break;
		}
		fprintf(out, "No delay of %" JSON_INTEGER_FORMAT " queue %s: %s.\n", flows,
			flows == 1 ? "pair" : "pairs", note);
	}
	json_decref(counts);
}

void cli_write_qps(FILE *out, const struct verb *verb, const json_t *result, const json_t *args)
{
	const json_t *qps = json_object_get(result, "qps");
	char *text = NULL;
	size_t bytes;
	FILE *lines = open_memstream(&text, &bytes);

	render(out, verb->output, result, args);
	if (!lines)
		return;
	write_most(lines, qps, "retransmits", "retransmitted", "Packets or ACKs were lost.");
	write_most(lines, qps, "psn_gaps", "had PSN gaps",
		   "Packets were lost or reordered before this host.");
	write_most(lines, qps, "duplicates", "received duplicates",
		   "The sender missed an ACK, or did not wait for it.");
	write_most(lines, qps, "rnr_naks", "saw receiver-not-ready",
		   "The receiving program posts too few buffers.");
	write_most(lines, qps, "ce", "carried CE marks", "A queue in the fabric was long.");
	write_notes(lines, qps);
	if (!fclose(lines) && bytes)
		fprintf(out, "\n%s", text);
	free(text);
}
