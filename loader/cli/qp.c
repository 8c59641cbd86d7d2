// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/ioctl.h>

#include "cli.h"
#include "client.h"
#include "delays.h"
#include "table.h"
#include "base/units.h"

#define HEADINGS "<DIR <FROM <TO QPN SPORT <TYPE PACKETS BYTES RATE MSGS P50 CE CNP GAPS AGAIN NAKS"
/* One more column when any of them has delays, and when it is known whose any of them is. */
#define HEADING_TIMED " " CLI_DELAYS_HEADING
#define DETAILS_MOST 8
#define HEADING_OWNED " <OWNER"
/* Lines of text around the table. */
#define LINES_AROUND 9

/* "1.50 GiB" is "1.50GiB" in a column. */
static const char *narrow(char *text)
{
	char *space = strchr(text, ' ');

	if (space)
		memmove(space, space + 1, strlen(space));
	return text;
}

/* A count, or "-" for a thing that this queue pair does not have. */
static void cell_count(struct cli_table *table, const json_t *value)
{
	char text[UNITS_TEXT_BYTES];

	if (json_is_integer(value))
		cli_table_cell(table, "%s", units_count(text, json_integer_value(value)));
	else
		cli_table_cell(table, "-");
}

static bool any_owned(const json_t *qps)
{
	size_t i;
	json_t *qp;

	json_array_foreach (qps, i, qp)
		if (json_object_get(qp, "local_qpn"))
			return true;
	return false;
}

/* "ib_write_bw[407] job_1234/step_0", as far as it is known; a long job is cut. */
static void cell_owner(struct cli_table *table, const json_t *qp)
{
	const char *job = cli_text(qp, "job"), *comm = cli_text(qp, "comm");
	bool pid = json_object_get(qp, "pid") != NULL;
	char number[16] = "";

	if (pid)
		snprintf(number, sizeof(number), "[%llu]",
			 (unsigned long long)cli_count(qp, "pid"));
	if (*job || *comm || pid)
		cli_table_cell(table, "%s%s%s%s", comm, number, *job ? " " : "", job);
	else
		cli_table_cell(table, "-");
}

static void add_row(struct cli_table *table, const json_t *qp, bool timed, bool owned)
{
	const json_t *p50 = json_object_get(json_object_get(qp, "message_bytes"), "p50");
	const json_t *again = json_object_get(qp, "retransmits");
	const char *transport = cli_text(qp, "transport");
	char text[UNITS_TEXT_BYTES];

	cli_table_cell(table, "%s", cli_text(qp, "direction"));
	cli_table_cell(table, "%s", cli_text(qp, "src"));
	cli_table_cell(table, "%s", cli_text(qp, "dst"));
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(qp, "dest_qpn"));
	cli_table_cell(table, "%llu", (unsigned long long)cli_count(qp, "sport"));
	cli_table_cell(table, "%s", *transport ? transport : "-");
	cell_count(table, json_object_get(qp, "packets"));
	units_bytes(text, cli_count(qp, "bytes"));
	cli_table_cell(table, "%s", narrow(text));
	units_bit_rate(text, json_number_value(json_object_get(qp, "bytes_per_second")));
	cli_table_cell(table, "%s", narrow(text));
	cell_count(table, json_object_get(qp, "messages"));
	if (p50)
		units_bytes(text, json_integer_value(p50));
	cli_table_cell(table, "%s", p50 ? narrow(text) : "-");
	cell_count(table, json_object_get(qp, "ce"));
	cell_count(table, json_object_get(qp, "cnps"));
	cell_count(table, json_object_get(qp, "psn_gaps"));
	cell_count(table, again ? again : json_object_get(qp, "duplicates"));
	cell_count(table, json_object_get(qp, "naks"));
	if (timed)
		cli_cell_delays(table, qp);
	if (owned)
		cell_owner(table, qp);
}

/* How many have this count above 0, and the one that has most. */
struct worst {
	size_t count;
	uint64_t most;
	const json_t *qp;
};

static struct worst find_worst(const json_t *qps, const char *key)
{
	struct worst worst = {};
	size_t i;
	json_t *qp;

	json_array_foreach (qps, i, qp) {
		uint64_t count = cli_count(qp, key);

		worst.count += count > 0;
		if (count > worst.most) {
			worst.most = count;
			worst.qp = qp;
		}
	}
	return worst;
}

static void write_worst(FILE *out, const json_t *qps, const char *key, const char *does,
			const char *look)
{
	struct worst worst = find_worst(qps, key);

	if (!worst.qp)
		return;
	fprintf(out, "%zu %s %s; most: %s>%s/%llu, %llu. %s\n", worst.count,
		worst.count == 1 ? "flow" : "flows", does, cli_text(worst.qp, "src"),
		cli_text(worst.qp, "dst"), (unsigned long long)cli_count(worst.qp, "dest_qpn"),
		(unsigned long long)worst.most, look);
}

static void write_attention(FILE *out, const json_t *result)
{
	const json_t *qps = json_object_get(result, "qps");

	write_worst(out, qps, "retransmits", "sent packets again",
		    "Packets or answers were lost on the way.");
	write_worst(out, qps, "psn_gaps", "had gaps",
		    "Packets were lost, or overtaken, before they came by here.");
	write_worst(out, qps, "duplicates", "received packets again",
		    "The sender missed an answer, or did not wait for it.");
	write_worst(out, qps, "rnr_naks", "saw receiver-not-ready",
		    "The receiving program posts too few buffers.");
	write_worst(out, qps, "ce", "carried congestion marks", "A queue on the way was long.");
	if (cli_count(result, "refused"))
		fprintf(out,
			"The table was full: %llu packets are in no line above; raise "
			"`qps.max`.\n",
			(unsigned long long)cli_count(result, "refused"));
	if (cli_count(result, "left_out"))
		fprintf(out, "%llu more match and are not shown.\n",
			(unsigned long long)cli_count(result, "left_out"));
}

static void write_nothing(FILE *out, uint64_t tracked)
{
	if (tracked)
		fprintf(out, "No queue pair matches, of %llu that are followed.\n",
			(unsigned long long)tracked);
	else
		fprintf(out, "No queue pair sends or receives here now. `escapement status` tells "
			     "whether its packets\ncould be seen, `escapement events` which were "
			     "here.\n");
}

void cli_write_qps(FILE *out, const json_t *result)
{
	const json_t *qps = json_object_get(result, "qps");
	bool timed = cli_any_delays(qps), owned = any_owned(qps);
	char headings[160];
	struct cli_table *table;
	size_t i;
	json_t *qp;

	if (!json_array_size(qps)) {
		write_nothing(out, cli_count(result, "tracked"));
		return;
	}
	snprintf(headings, sizeof(headings), "%s%s%s", HEADINGS, timed ? HEADING_TIMED : "",
		 owned ? HEADING_OWNED : "");
	table = cli_table_new(headings);
	if (!table)
		return;
	json_array_foreach (qps, i, qp)
		add_row(table, qp, timed, owned);
	cli_table_write(table, out);
	cli_table_free(table);
	fprintf(out, "QPN: the destination's. P50: median message. GAPS: sequence skipped. AGAIN: "
		     "sent (tx) or received (rx) again.\n");
	if (timed)
		fprintf(out, "OWD: one-way delay in the last second, median/99th/most, true within "
			     "+-, in microseconds.\n");
	write_attention(out, result);
	cli_write_delay_notes(out, qps);
}

/* On a terminal the table fits; the daemon sorts, so the first are those that matter. */
static int64_t rows_to_ask(const struct cli *cli)
{
	struct winsize size;

	if (cli->top >= 0 || !cli->watch || cli->format != CLI_TEXT ||
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row <= LINES_AROUND)
		return cli->top;
	return size.ws_row - LINES_AROUND;
}

static int show_once(const struct cli *cli, struct cli_client *client)
{
	int64_t top = rows_to_ask(cli);
	json_t *args = json_object(), *result;
	int code;

	if (cli->paths)
		json_object_set_new(args, "paths", json_true());
	if (cli->word_count)
		json_object_set_new(args, "key", json_string(cli->words[0]));
	if (cli->sort)
		json_object_set_new(args, "sort", json_string(cli->sort));
	if (top >= 0)
		json_object_set_new(args, "top", json_integer(top));
	code = cli_client_ask(client, "qp", args, &result);
	if (code)
		return code;
	if (cli->watch && cli->format == CLI_TEXT && isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout);
	if (cli->format != CLI_TEXT)
		cli_write_json(cli, result);
	else if (cli->paths)
		cli_write_paths(stdout, result);
	else
		cli_write_qps(stdout, result);
	/* Who asks for some wants to know more of them. */
	if (cli->format == CLI_TEXT && cli->word_count)
		cli_write_delay_details(stdout, json_object_get(result, "qps"), DETAILS_MOST);
	json_decref(result);
	return fflush(stdout) ? CLI_FAILED : CLI_GOOD;
}

static void sleep_for(double seconds)
{
	struct timespec left = {.tv_sec = (time_t)seconds,
				.tv_nsec = (long)((seconds - (time_t)seconds) * 1e9)};

	nanosleep(&left, NULL);
}

int cli_qp(const struct cli *cli)
{
	struct cli_client client;
	int err = cli_client_open(&client, cli->places.socket), code;

	if (err) {
		cli_client_explain(cli->places.socket, err);
		return CLI_NO_DAEMON;
	}
	code = show_once(cli, &client);
	while (!code && cli->watch) {
		sleep_for(cli->watch_seconds);
		code = show_once(cli, &client);
	}
	cli_client_close(&client);
	return code;
}
