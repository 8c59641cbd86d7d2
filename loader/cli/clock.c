// SPDX-License-Identifier: BSD-2-Clause
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "client.h"
#include "table.h"
#include "base/units.h"

#define WAIT_STEP_NS 100000000

static double real_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static bool has(const json_t *object, const char *key)
{
	return json_object_get(object, key) != NULL;
}

/* Nanoseconds as people read them: "812 ns", "1.24 us". */
static const char *delay_text(char out[UNITS_TEXT_BYTES], double ns)
{
	double size = fabs(ns);

	if (size < 9999.5)
		snprintf(out, UNITS_TEXT_BYTES, "%.0f ns", ns);
	else if (size < 9999500)
		snprintf(out, UNITS_TEXT_BYTES, "%.1f us", ns / 1e3);
	else
		snprintf(out, UNITS_TEXT_BYTES, "%.1f ms", ns / 1e6);
	return out;
}

static const char *state_meaning(const char *state)
{
	static const struct {
		const char *state, *meaning;
	} meanings[] = {
		{"synced", "in step with its neighbours"},
		{"converging", "has fabric time, its neighbours are not yet agreed"},
		{"holdover", "was in step; goes on alone, and the bound widens"},
		{"free_running", "no fabric time"},
	};

	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (!strcmp(meanings[i].state, state))
			return meanings[i].meaning;
	return "";
}

static void write_time(FILE *out, const json_t *clock)
{
	const json_t *model = json_object_get(clock, "model");
	char bound[UNITS_TEXT_BYTES];

	fprintf(out, "Clock: %s (%s)\n", cli_text(clock, "state"),
		state_meaning(cli_text(clock, "state")));
	if (!has(clock, "fabric_ns"))
		return;
	fprintf(out, "Fabric time %" JSON_INTEGER_FORMAT " ns, true within %s\n",
		json_integer_value(json_object_get(clock, "fabric_ns")),
		delay_text(bound, real_of(clock, "bound_ns")));
	fprintf(out, "Local clock runs %+.3f ppm against it; the model is number %llu\n",
		-real_of(model, "rate_ppb") / 1000,
		(unsigned long long)cli_count(clock, "generation"));
}

static void write_tai(FILE *out, const json_t *clock)
{
	const json_t *tai = json_object_get(clock, "tai");
	char bound[UNITS_TEXT_BYTES];

	if (has(clock, "tai_note"))
		fprintf(out, "TAI is not measured here: %s\n", cli_text(clock, "tai_note"));
	if (!tai)
		return;
	fprintf(out,
		"TAI %" JSON_INTEGER_FORMAT " ns, true within %s; by %s, %llu hops, %.0f s ago\n",
		json_integer_value(json_object_get(tai, "ns")),
		delay_text(bound, real_of(tai, "bound_ns")),
		*cli_text(tai, "anchor") ? cli_text(tai, "anchor") : "an anchor",
		(unsigned long long)cli_count(tai, "hops"), real_of(tai, "anchor_age_s"));
}

static const char *peer_verdict(const json_t *peer)
{
	const char *verdict = cli_text(peer, "verdict");

	if (!strcmp(verdict, "used"))
		return json_is_true(json_object_get(peer, "flagged")) ? "used, few clean pairs"
								      : "used";
	if (!strcmp(verdict, "refused_offset"))
		return "refused: its time is another";
	if (!strcmp(verdict, "refused_drift"))
		return "refused: its rate is another";
	if (!strcmp(verdict, "unsure"))
		return "not used, its path is full";
	return has(peer, "offset_ns") ? "not used" : "no fit yet";
}

static void write_clock_peers(FILE *out, const json_t *peers)
{
	struct cli_table *table =
		cli_table_new("<peer <plane error floor drift_ppm pairs_kept <clock");
	json_t *peer;
	size_t i;

	if (!table)
		return;
	json_array_foreach (peers, i, peer) {
		char text[UNITS_TEXT_BYTES];

		cli_table_cell(table, "%s", cli_text(peer, "peer"));
		cli_table_cell(table, "%s", cli_text(peer, "plane"));
		cli_table_cell(table, "%s",
			       has(peer, "error_ns") ? delay_text(text, real_of(peer, "error_ns"))
						     : "-");
		cli_table_cell(table, "%s",
			       has(peer, "floor_ns") ? delay_text(text, real_of(peer, "floor_ns"))
						     : "-");
		if (has(peer, "drift_ppb"))
			cli_table_cell(table, "%+.3f", real_of(peer, "drift_ppb") / 1000);
		else
			cli_table_cell(table, "-");
		if (cli_count(peer, "pairs_seen"))
			cli_table_cell(table, "%.0f%%",
				       100.0 * (double)cli_count(peer, "pairs_kept") /
					       (double)cli_count(peer, "pairs_seen"));
		else
			cli_table_cell(table, "-");
		cli_table_cell(table, "%s", peer_verdict(peer));
	}
	fputc('\n', out);
	cli_table_write(table, out);
	cli_table_free(table);
}

void cli_write_clock(FILE *out, const json_t *clock)
{
	const json_t *peers = json_object_get(clock, "peers");

	write_time(out, clock);
	write_tai(out, clock);
	fprintf(out, "Neighbours: %llu used of %llu heard, %llu by the graph; stamps by %s\n",
		(unsigned long long)cli_count(clock, "peers_used"),
		(unsigned long long)cli_count(clock, "peers_heard"),
		(unsigned long long)cli_count(clock, "peers_wanted"),
		cli_text(clock, "timestamp_source"));
	if (json_array_size(peers))
		write_clock_peers(out, peers);
}

static void show(const struct cli *cli, const json_t *clock)
{
	if (cli->format == CLI_TEXT)
		cli_write_clock(stdout, clock);
	else
		cli_write_json(cli, clock);
}

/* --- clock wait --- */

static bool bound_is_met(const struct cli *cli, const json_t *clock)
{
	const char *state = cli_text(clock, "state");

	return has(clock, "bound_ns") && cli_count(clock, "bound_ns") <= cli->bound_ns &&
	       (!strcmp(state, "synced") || !strcmp(state, "holdover"));
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static int wait_failed(const struct cli *cli, const json_t *clock)
{
	char bound[UNITS_TEXT_BYTES], wanted[UNITS_TEXT_BYTES], time[UNITS_TEXT_BYTES];

	fprintf(stderr, "escapement: the bound of %s was not met within %s: the clock is %s",
		delay_text(wanted, (double)cli->bound_ns), units_duration(time, cli->timeout_ns),
		cli_text(clock, "state"));
	if (has(clock, "bound_ns"))
		fprintf(stderr, " with a bound of %s",
			delay_text(bound, real_of(clock, "bound_ns")));
	fprintf(stderr, "; `escapement clock` and `escapement peers` say why\n");
	return CLI_FAILED;
}

static int clock_wait(const struct cli *cli)
{
	uint64_t until_ns = now_ns() + cli->timeout_ns;
	const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
	json_t *clock;
	int code;

	for (;;) {
		code = cli_ask(cli->places.socket, "clock", NULL, &clock);
		if (code)
			return code;
		if (bound_is_met(cli, clock))
			break;
		if (now_ns() >= until_ns) {
			code = wait_failed(cli, clock);
			json_decref(clock);
			return code;
		}
		json_decref(clock);
		nanosleep(&step, NULL);
	}
	if (cli->format != CLI_TEXT)
		show(cli, clock);
	json_decref(clock);
	return CLI_GOOD;
}

int cli_clock(const struct cli *cli)
{
	bool wait = cli->word_count == 1 && !strcmp(cli->words[0], "wait");
	json_t *clock;
	int code;

	if (cli->word_count && !wait) {
		fprintf(stderr,
			"escapement: `clock` shows the clock, `clock wait --bound 1us` waits "
			"for it\n");
		return CLI_USAGE;
	}
	if (wait != cli->bound_given) {
		fprintf(stderr, "escapement: give both: `clock wait --bound 1us`\n");
		return CLI_USAGE;
	}
	if (wait)
		return clock_wait(cli);
	code = cli_ask(cli->places.socket, "clock", NULL, &clock);
	if (code)
		return code;
	show(cli, clock);
	json_decref(clock);
	return CLI_GOOD;
}

/* --- peers --- */

/* "0.9/1.2/3.4": least, median, 99th, in microseconds. */
static void delay_cell(struct cli_table *table, const json_t *peer, const char *key)
{
	const json_t *delay = json_object_get(peer, key);

	if (!delay)
		cli_table_cell(table, "-");
	else
		cli_table_cell(table, "%.2f/%.2f/%.2f", real_of(delay, "min") / 1e3,
			       real_of(delay, "p50") / 1e3, real_of(delay, "p99") / 1e3);
}

static void peer_row(struct cli_table *table, const json_t *peer)
{
	uint64_t judged = cli_count(peer, "answered") + cli_count(peer, "lost");

	cli_table_cell(table, "%s", cli_text(peer, "peer"));
	cli_table_cell(table, "%s", cli_text(peer, "address"));
	cli_table_cell(table, "%s", cli_text(peer, "plane"));
	cli_table_cell(table, "%s%s%s", cli_text(peer, "state"),
		       *cli_text(peer, "blame") ? ":" : "", cli_text(peer, "blame"));
	delay_cell(table, peer, "owd_out_ns");
	delay_cell(table, peer, "owd_in_ns");
	if (has(peer, "bound_ns"))
		cli_table_cell(table, "%.2f", real_of(peer, "bound_ns") / 1e3);
	else
		cli_table_cell(table, "-");
	delay_cell(table, peer, "rtt_ns");
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(peer, "sent"));
	if (judged)
		cli_table_cell(table, "%.3g%%",
			       100.0 * (double)cli_count(peer, "lost") / (double)judged);
	else
		cli_table_cell(table, "-");
	if (has(peer, "last_heard_ms"))
		cli_table_cell(table, "%.0f", real_of(peer, "last_heard_ms"));
	else
		cli_table_cell(table, "never");
}

void cli_write_peers(FILE *out, const json_t *result)
{
	const json_t *peers = json_object_get(result, "peers");
	struct cli_table *table = cli_table_new(
		"<peer <address <plane <state out_us in_us bound_us rtt_us sent lost heard_ms");
	json_t *peer;
	size_t i;

	if (!json_array_size(peers)) {
		fprintf(out, "No peer is probed; `escapement status` says why.\n");
		cli_table_free(table);
		return;
	}
	json_array_foreach (peers, i, peer)
		if (table)
			peer_row(table, peer);
	if (table)
		cli_table_write(table, out);
	cli_table_free(table);
	fprintf(out, "\nDelays: least/median/99th of the last window, true within the bound.\n");
	json_array_foreach (peers, i, peer)
		if (*cli_text(peer, "note"))
			fprintf(out, "%s: %s\n", cli_text(peer, "peer"), cli_text(peer, "note"));
}

int cli_peers(const struct cli *cli)
{
	json_t *result;
	int code = cli_ask(cli->places.socket, "peers", NULL, &result);

	if (code)
		return code;
	if (cli->format == CLI_TEXT)
		cli_write_peers(stdout, result);
	else
		cli_write_json(cli, result);
	json_decref(result);
	return CLI_GOOD;
}
