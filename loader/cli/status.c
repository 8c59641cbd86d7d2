// SPDX-License-Identifier: BSD-2-Clause
#include <stdbool.h>
#include <string.h>

#include "cli.h"
#include "client.h"
#include "base/units.h"

static void write_link(FILE *out, const json_t *interface)
{
	fprintf(out, "\n%s", cli_text(interface, "name"));
	if (!json_object_get(interface, "ifindex")) {
		fprintf(out, "  is not there now; it is served again when it comes back\n");
		return;
	}
	fprintf(out, "  %s, link %s, MTU %llu", cli_text(interface, "plane"),
		json_is_true(json_object_get(interface, "link_up")) ? "up" : "down",
		(unsigned long long)cli_count(interface, "mtu"));
	if (*cli_text(interface, "driver"))
		fprintf(out, ", driver %s", cli_text(interface, "driver"));
	if (*cli_text(interface, "rdma_device"))
		fprintf(out, ", RDMA device %s/%llu", cli_text(interface, "rdma_device"),
			(unsigned long long)cli_count(interface, "rdma_port"));
	fputc('\n', out);
}

static void write_attachment(FILE *out, const json_t *interface)
{
	const char *attach = cli_text(interface, "attach"),
		   *via = cli_text(interface, "attach_via");
	const char *tc = cli_text(interface, "tc");

	if (!strcmp(attach, "none") && !strcmp(tc, "none")) {
		fprintf(out, "  attached  nowhere\n");
	} else {
		if (!strcmp(attach, "none"))
			fprintf(out, "  attached  in: %s (no XDP)", tc);
		else
			fprintf(out, "  attached  in: XDP %s%s", attach,
				!strcmp(via, "dispatcher") ? ", beside other programs"
							   : ", on its own");
		fprintf(out, "; out: %s\n", tc);
	}
	if (*cli_text(interface, "attach_note"))
		fprintf(out, "            %s\n", cli_text(interface, "attach_note"));
	if (*cli_text(interface, "offload_note"))
		fprintf(out, "            %s\n", cli_text(interface, "offload_note"));
}

static void write_visibility(FILE *out, const json_t *interface)
{
	static const struct {
		const char *word, *meaning;
	} meanings[] = {
		{"packets", "every RoCEv2 packet passes the kernel"},
		{"control", "the NIC carries RDMA by itself; the kernel sees connections only"},
		{"counters", "the NIC carries RDMA by itself; only its counters can be read"},
		{"none", "RDMA traffic cannot be seen here"},
	};
	const char *word = cli_text(interface, "visibility");
	const char *note = cli_text(interface, "visibility_note");

	for (size_t i = 0; !*note && i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (!strcmp(meanings[i].word, word))
			note = meanings[i].meaning;
	if (*word)
		fprintf(out, "  sees      %s%s%s\n", word, *note ? ": " : "", note);
}

static void write_direction(FILE *out, const json_t *interface, const char *key, const char *word)
{
	const json_t *counts = json_object_get(interface, key);
	char packets[UNITS_TEXT_BYTES], bytes[UNITS_TEXT_BYTES];

	if (!counts)
		return;
	fprintf(out, "  %s  %s packets, %s, %llu CE marks, %llu CNPs", word,
		units_count(packets, cli_count(counts, "packets")),
		units_bytes(bytes, cli_count(counts, "bytes")),
		(unsigned long long)cli_count(counts, "ce"),
		(unsigned long long)cli_count(counts, "cnps"));
	if (cli_count(counts, "rocev1"))
		fprintf(out, "; %llu RoCEv1 frames",
			(unsigned long long)cli_count(counts, "rocev1"));
	fputc('\n', out);
}

static bool reason_is_of_probes(const json_t *reason)
{
	return !strncmp(cli_text(reason, "reason"), "probe_", 6);
}

static void write_reasons_of(FILE *out, const json_t *reasons, bool probes, const char *heading)
{
	bool begun = false;
	size_t i;
	json_t *reason;

	json_array_foreach (reasons, i, reason) {
		uint64_t in = cli_count(reason, "xdp_ingress") + cli_count(reason, "tc_ingress");

		if (reason_is_of_probes(reason) != probes)
			continue;
		if (!begun)
			fprintf(out, "\n%s:\n", heading);
		begun = true;
		fprintf(out, "  %-16s %llu in, %llu out: %s\n", cli_text(reason, "reason"),
			(unsigned long long)in, (unsigned long long)cli_count(reason, "tc_egress"),
			cli_text(reason, "meaning"));
	}
}

static void write_reasons(FILE *out, const json_t *reasons)
{
	write_reasons_of(out, reasons, false,
			 "Left out of the counts per queue pair (these packets went on untouched)");
	write_reasons_of(out, reasons, true, "Probes that were refused (they ended here)");
}

static void write_table(FILE *out, const json_t *qps)
{
	fprintf(out, "Queue pairs: %llu followed, room for %llu (one entry a direction)\n",
		(unsigned long long)cli_count(qps, "tracked"),
		(unsigned long long)cli_count(qps, "max"));
	if (cli_count(qps, "refused"))
		fprintf(out,
			"  The table was full: %llu packets were not counted per queue pair; "
			"raise `qps.max`\n",
			(unsigned long long)cli_count(qps, "refused"));
}

static void write_receipts(FILE *out, const json_t *receipts)
{
	if (!receipts)
		return;
	if (strcmp(cli_text(receipts, "mode"), "on"))
		fprintf(out, "Receipts: off (`receipts.mode`); queue pairs have no delays\n");
	else
		fprintf(out, "Receipts: on, %llu queue pairs sampled\n",
			(unsigned long long)cli_count(receipts, "qps_sampled"));
	if (json_is_true(json_object_get(receipts, "host_queue")))
		fprintf(out, "  The sending host's own queue is told apart\n");
	if (*cli_text(receipts, "host_queue_note"))
		fprintf(out, "  %s\n", cli_text(receipts, "host_queue_note"));
	if (*cli_text(receipts, "look_note"))
		fprintf(out, "  %s\n", cli_text(receipts, "look_note"));
}

static void write_tracing(FILE *out, const json_t *tracing)
{
	const char *how = cli_text(tracing, "how"), *note = cli_text(tracing, "note");

	if (!tracing)
		return;
	if (!strcmp(how, "none"))
		fprintf(out, "Owners of queue pairs: not known");
	else
		fprintf(out, "Owners of queue pairs: by %s, %llu known", how,
			(unsigned long long)cli_count(tracing, "known"));
	fprintf(out, "%s%s\n", *note ? "; " : "", note);
	if (cli_count(tracing, "refused"))
		fprintf(out, "  The table was full: the owners of %llu are not known\n",
			(unsigned long long)cli_count(tracing, "refused"));
}

static void write_clock(FILE *out, const json_t *clock)
{
	if (!clock)
		return;
	fprintf(out, "Clock: %s", cli_text(clock, "state"));
	if (json_object_get(clock, "bound_ns"))
		fprintf(out, ", true within %llu ns",
			(unsigned long long)cli_count(clock, "bound_ns"));
	fprintf(out, ", %llu of %llu neighbours used\n",
		(unsigned long long)cli_count(clock, "peers_used"),
		(unsigned long long)cli_count(clock, "peers_wanted"));
}

static void write_probing(FILE *out, const json_t *probing)
{
	const json_t *peers = json_object_get(probing, "peers");
	json_t *plane;
	size_t i;

	json_array_foreach (json_object_get(probing, "planes"), i, plane) {
		if (json_is_true(json_object_get(plane, "on")))
			fprintf(out, "Probing: %s mesh from %s, %llu members\n",
				cli_text(plane, "plane"), cli_text(plane, "interface"),
				(unsigned long long)cli_count(plane, "members"));
		else
			fprintf(out, "No probing on the %s plane: %s\n", cli_text(plane, "plane"),
				cli_text(plane, "note"));
	}
	if (peers &&
	    cli_count(peers, "up") + cli_count(peers, "suspect") + cli_count(peers, "down"))
		fprintf(out, "  Peers: %llu up, %llu suspect, %llu down\n",
			(unsigned long long)cli_count(peers, "up"),
			(unsigned long long)cli_count(peers, "suspect"),
			(unsigned long long)cli_count(peers, "down"));
	if (*cli_text(probing, "authority_note"))
		fprintf(out, "  Keys: %s\n", cli_text(probing, "authority_note"));
}

/* What stands, the oldest first. */
static void write_verdicts(FILE *out, const json_t *verdicts)
{
	char text[UNITS_TEXT_BYTES];
	json_t *verdict;
	size_t i;

	json_array_foreach (verdicts, i, verdict) {
		const json_t *seen = json_object_get(verdict, "seen");

		fprintf(out, "Verdict: %s %s, for %s", cli_text(verdict, "kind"),
			cli_text(verdict, "subject"),
			units_duration(text, cli_count(verdict, "since_ms") * 1000000));
		if (json_object_get(seen, "p50_ns"))
			fprintf(out, ", median %s",
				units_duration(text, cli_count(seen, "p50_ns")));
		if (*cli_text(seen, "cause"))
			fprintf(out, " (%s)", cli_text(seen, "cause"));
		fputc('\n', out);
	}
}

static void write_paths(FILE *out, const json_t *paths)
{
	const json_t *budget = json_object_get(paths, "budget");

	if (!paths)
		return;
	if (!json_is_true(json_object_get(paths, "on"))) {
		fprintf(out, "Paths: not probed%s%s\n", *cli_text(paths, "note") ? ": " : "",
			cli_text(paths, "note"));
		return;
	}
	fprintf(out, "Paths: %llu up, %llu suspect, %llu down, %llu held, to %llu addresses\n",
		(unsigned long long)cli_count(paths, "up"),
		(unsigned long long)cli_count(paths, "suspect"),
		(unsigned long long)cli_count(paths, "down"),
		(unsigned long long)cli_count(paths, "held"),
		(unsigned long long)cli_count(paths, "peers"));
	if (json_is_true(json_object_get(budget, "short")))
		fprintf(out,
			"  paths.probe_budget_pps (%llu) is short of %llu: paths are probed less "
			"often, and deaths are seen later\n",
			(unsigned long long)cli_count(budget, "budget_pps"),
			(unsigned long long)cli_count(budget, "wanted_pps"));
	if (cli_count(paths, "refused"))
		fprintf(out, "  The map of paths was full: some peers have none\n");
}

static const char *mode_means(const char *mode)
{
	if (!strcmp(mode, "steer"))
		return "packets of queue pairs in `escapement steer` take the path named there";
	if (!strcmp(mode, "pace"))
		return "packets wait at the sender while the fabric's queues are long";
	return !strcmp(mode, "observe") ? "packets are counted, none is changed"
					: "queue pairs are steered, and their packets paced";
}

void cli_write_status(FILE *out, const json_t *status)
{
	char uptime[UNITS_TEXT_BYTES];
	size_t i;
	json_t *interface;

	fprintf(out, "escapement %s on %s, up %s (pid %llu)\n", cli_text(status, "version"),
		cli_text(status, "host"),
		units_duration(uptime, cli_count(status, "uptime_s") * 1000000000),
		(unsigned long long)cli_count(status, "pid"));
	if (json_is_true(json_object_get(status, "kill_switch")))
		fprintf(out, "Off: the kill switch is on (%s); `escapement mode observe` ends it\n",
			cli_text(status, "kill_switch_reason"));
	else
		fprintf(out, "Mode: %s (%s)\n", cli_text(status, "mode"),
			mode_means(cli_text(status, "mode")));
	write_clock(out, json_object_get(status, "clock"));
	write_probing(out, json_object_get(status, "probing"));
	write_paths(out, json_object_get(status, "paths"));
	write_table(out, json_object_get(status, "qps"));
	write_receipts(out, json_object_get(status, "receipts"));
	write_tracing(out, json_object_get(status, "qp_tracing"));
	if (json_object_get(status, "members"))
		fprintf(out, "Members: %llu addresses\n",
			(unsigned long long)cli_count(status, "members"));
	write_verdicts(out, json_object_get(status, "verdicts"));
	cli_write_nics_short(out, json_object_get(status, "nic_failover"));
	json_array_foreach (json_object_get(status, "interfaces"), i, interface) {
		write_link(out, interface);
		write_attachment(out, interface);
		write_visibility(out, interface);
		if (strcmp(cli_text(interface, "mode"), "observe"))
			fprintf(out, "  mode      %s\n", cli_text(interface, "mode"));
		write_direction(out, interface, "roce_rx", "RoCE in ");
		write_direction(out, interface, "roce_tx", "RoCE out");
	}
	write_reasons(out, json_object_get(status, "reasons"));
}

int cli_status(const struct cli *cli)
{
	json_t *status;
	int code = cli_ask(cli->places.socket, "status", NULL, &status);

	if (code)
		return code;
	if (cli->format == CLI_TEXT)
		cli_write_status(stdout, status);
	else
		cli_write_json(cli, status);
	json_decref(status);
	return CLI_GOOD;
}
