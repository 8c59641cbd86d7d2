// SPDX-License-Identifier: BSD-2-Clause
#include "qp.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "render.h"

#define NOTES_MOST 5

/* --- one queue pair --- */

static bool is_sender(const json_t *qp)
{
	return !strcmp(cli_text(qp, "direction"), "tx");
}

/* A diagnosis of the queue pair itself ("qp_outlier") before those that it shares with others. */
static const char *diagnosis_of(const json_t *qp)
{
	const char *shared = NULL;
	size_t i;
	json_t *kind;

	json_array_foreach (json_object_get(qp, "diagnoses"), i, kind) {
		const char *name = json_string_value(kind);

		if (name && !strncmp(name, "qp_", 3))
			return name + 3;
		if (!shared)
			shared = name;
	}
	return shared;
}

const char *qp_state(const json_t *qp)
{
	const char *diagnosis = diagnosis_of(qp);
	const json_t *owd = json_object_get(qp, "owd_ns");

	if (diagnosis)
		return diagnosis;
	if (json_number_value(json_object_get(qp, "loss_per_second")) > 0)
		return "loss";
	if (owd && cli_count(owd, "above_threshold"))
		return "spiky";
	if (!(json_number_value(json_object_get(qp, "bytes_per_second")) > 0) && !owd)
		return "idle";
	if (owd)
		return "ok";
	return is_sender(qp) ? "no_feedback" : "rx";
}

void qp_complete(json_t *qp)
{
	const char *job = cli_text(qp, "job");

	json_object_set_new(qp, "state", json_string(qp_state(qp)));
	if (!*cli_text(qp, "peer"))
		json_object_set(qp, "peer", json_object_get(qp, is_sender(qp) ? "dst" : "src"));
	if (*job)
		json_object_set_new(qp, "owner", json_string(job));
	else if (json_object_get(qp, "pid"))
		json_object_set_new(qp, "owner",
				    json_sprintf("%.60s[%llu]", cli_text(qp, "comm"),
						 (unsigned long long)cli_count(qp, "pid")));
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
		uint64_t count = cli_count(qp, key);

		flows += count > 0;
		if (count > most) {
			most = count;
			worst = qp;
		}
	}
	if (worst)
		fprintf(out, "%zu %s %s; most: %s>%s/%llu, %llu. %s\n", flows,
			flows == 1 ? "queue pair" : "queue pairs", does, cli_text(worst, "src"),
			cli_text(worst, "dst"), (unsigned long long)cli_count(worst, "dest_qpn"),
			(unsigned long long)most, means);
}

static size_t count_note(const json_t *qps, const char *note, size_t *first)
{
	size_t i, count = 0;
	json_t *qp;

	json_array_foreach (qps, i, qp)
		if (is_sender(qp) && !strcmp(cli_text(qp, "owd_note"), note) && !count++)
			*first = i;
	return count;
}

/* Why senders have no delays, each reason once. */
static void write_notes(FILE *out, const json_t *qps)
{
	unsigned int written = 0;
	size_t i, first = 0, count;
	json_t *qp;

	json_array_foreach (qps, i, qp) {
		const char *note = cli_text(qp, "owd_note");

		if (!is_sender(qp) || !*note)
			continue;
		count = count_note(qps, note, &first);
		if (first != i)
			continue;
		if (written++ == NOTES_MOST) {
			fprintf(out, "And more without delays; `qp KEY` shows why.\n");
			return;
		}
		fprintf(out, "No delay of %zu queue %s: %s.\n", count,
			count == 1 ? "pair" : "pairs", note);
	}
}

static void write_attention(FILE *out, const json_t *qps)
{
	write_most(out, qps, "retransmits", "retransmitted", "Packets or ACKs were lost.");
	write_most(out, qps, "psn_gaps", "had PSN gaps",
		   "Packets were lost or reordered before this host.");
	write_most(out, qps, "duplicates", "received duplicates",
		   "The sender missed an ACK, or did not wait for it.");
	write_most(out, qps, "rnr_naks", "saw receiver-not-ready",
		   "The receiving program posts too few buffers.");
	write_most(out, qps, "ce", "carried CE marks", "A queue in the fabric was long.");
	write_notes(out, qps);
}

void cli_write_qps(FILE *out, const struct verb *verb, const json_t *result, const json_t *args)
{
	char *text = NULL;
	size_t bytes;
	FILE *lines = open_memstream(&text, &bytes);

	render(out, verb->output, result, args);
	if (!lines)
		return;
	write_attention(lines, json_object_get(result, "qps"));
	if (!fclose(lines) && bytes)
		fprintf(out, "\n%s", text);
	free(text);
}
