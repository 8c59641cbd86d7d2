// SPDX-License-Identifier: BSD-2-Clause
/* The verbs; the command line runs them on exports, or on the replies of this host's daemon. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/readfile.h"
#include "internal.h"
#include "report/report.h"

#define FILE_BYTES_MOST (1u << 30)
#define EXIT_FAILED 1
#define EXIT_USAGE 2
#define APART_S 900 /* between exports of one run */
#define VIOLATIONS_MOST 1000

/* --- from files or the daemon --- */

static int add_file(struct report *report, const char *path, char **error)
{
	char *bytes = NULL;
	size_t size;
	int err = readfile(path, FILE_BYTES_MOST, &bytes, &size, NULL, error);

	if (!err)
		err = report_add_text(report, path, bytes, size, error);
	free(bytes);
	return err;
}

/* The replies of the daemon as an export of its own. */
static int add_live(struct report *report, const json_t *replies, char **error)
{
	json_t *export = report_export_new(0), *reply;
	const char *verb;
	int err;

	json_object_foreach ((json_t *)replies, verb, reply)
		report_export_put(export, verb, json_incref(reply));
	if (!json_object_get(replies, "status"))
		err = explain(error, -EINVAL,
			      "no daemon replies: start escapementd, or give exports of hosts: "
			      "`--from FILE` of `escapement -j report`");
	else
		err = report_add(report, export, error);
	json_decref(export);
	return err;
}

/* Exports of different runs are of different fabrics: cables move. */
static int check_times(const json_t **exports, size_t count, char **error)
{
	const json_t *first = NULL, *last = NULL;

	for (size_t i = 0; i < count; i++) {
		uint64_t at_ns = json_count(exports[i], "time_ns");

		if (!first || at_ns < json_count(first, "time_ns"))
			first = exports[i];
		if (!last || at_ns > json_count(last, "time_ns"))
			last = exports[i];
	}
	if (count &&
	    (json_count(last, "time_ns") - json_count(first, "time_ns")) / 1000000000 > APART_S)
		return explain(error, -EINVAL,
			       "exports of different runs: that of %s is %llu s older than that of "
			       "%s, at most %d are accepted; make them again at one time",
			       json_text(first, "host"),
			       (unsigned long long)(json_count(last, "time_ns") -
						    json_count(first, "time_ns")) /
				       1000000000,
			       json_text(last, "host"), APART_S);
	return 0;
}

int topo_exports_of_args(const json_t *args, struct report **report, const json_t ***list,
			 size_t *count, char **error)
{
	const json_t *files = json_object_get(args, "from"), *path;
	size_t i;
	int err;

	*list = NULL;
	*report = report_new();
	err = *report ? 0 : -ENOMEM;
	json_array_foreach (files, i, path)
		err = err ? err : add_file(*report, json_string_value(path), error);
	if (!err && !files)
		err = add_live(*report, json_object_get(args, "replies"), error);
	if (err)
		return err;
	*count = report_hosts(*report, list);
	return *list ? check_times(*list, *count, error) : -ENOMEM;
}

struct topo *topo_of_exports(const json_t **exports, size_t count, char **error)
{
	struct topo *topo = topo_new();
	int err = topo ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < count; i++)
		err = topo_read(topo, exports[i], error);
	if (!err)
		err = topo_solve(topo);
	if (!err && !topo->nic_count)
		err = explain(error, -ENODATA,
			      "no NIC is in these exports: is `members` configured on the hosts?");
	if (!err)
		return topo;
	topo_free(topo);
	return NULL;
}

struct topo *topo_of_args(const json_t *args, int *exit, char **error)
{
	const json_t **exports = NULL;
	struct report *report = NULL;
	struct topo *topo = NULL;
	size_t count = 0;

	*exit = EXIT_FAILED;
	if (!topo_exports_of_args(args, &report, &exports, &count, error))
		topo = topo_of_exports(exports, count, error);
	free(exports);
	report_free(report);
	return topo;
}

/* --- topo --- */

static const struct {
	const char *flag;
	char *(*text)(const json_t *topology, const char *rail);
	bool (*accepts)(const char *name); /* of a host; NULL: any */
} formats[] = {
	{"slurm", text_slurm, topo_is_node_name},
	{"hypernode", text_hypernode, names_are_dns},
	{"labels", text_labels, names_are_dns},
	{"ranks", text_ranks, topo_is_node_name},
	{"dot", text_dot, NULL},
};

/* A name that the format cannot have is an error, not a line that means something else. */
static int check_names(const json_t *topology, size_t format, char **error)
{
	const json_t *nic;
	size_t i;

	json_array_foreach (json_object_get(topology, "nics"), i, nic) {
		const char *host = json_text(nic, "host");

		if (*host && formats[format].accepts && !formats[format].accepts(host))
			return explain(error, -EINVAL,
				       "`%.64s` is no name of a host that --%s can have", host,
				       formats[format].flag);
	}
	return 0;
}

static int put_format(json_t *topology, const json_t *args, char **error)
{
	const char *rail = json_text(args, "rail");
	char *text = NULL;

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (text || !json_object_get(args, formats[i].flag))
			continue;
		if (check_names(topology, i, error))
			return -EINVAL;
		text = formats[i].text(topology, rail);
	}
	if (!text)
		return 0;
	if (!json_array_size(json_object_get(topology, "leaves"))) {
		free(text);
		return explain(
			error, -ENODATA,
			"no leaf is known, so there is no tree to write; `escapement topo` has "
			"the reasons");
	}
	text[strlen(text) - 1] = '\0'; /* the command line ends the line */
	json_put_text(topology, "text", text);
	free(text);
	return 0;
}

static json_t *run_topo(const json_t *args, int *exit, char **error)
{
	struct topo *topo = topo_of_args(args, exit, error);
	json_t *topology = topo ? topo_json(topo) : NULL;

	topo_free(topo);
	if (topology && put_format(topology, args, error)) {
		json_decref(topology);
		return NULL;
	}
	return topology;
}

static json_t *run_diff(const json_t *args, int *exit, char **error)
{
	const char *path = json_text(args, "expected");
	json_error_t where;
	json_t *expected, *topology, *changes = NULL;
	struct topo *topo;

	*exit = EXIT_USAGE;
	expected = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
	if (!expected) {
		explain(error, 0, "%s:%d: %s", path, where.line, where.text);
		return NULL;
	}
	topo = topo_of_args(args, exit, error);
	topology = topo ? topo_json(topo) : NULL;
	if (topology)
		changes = check_diff(expected, topology, error);
	json_decref(expected);
	json_decref(topology);
	topo_free(topo);
	return changes;
}

/* --- topo sla --- */

static bool is_chosen(const json_t *hosts, const char *host)
{
	const json_t *one;
	size_t i;

	json_array_foreach (hosts, i, one)
		if (!strcmp(json_string_value(one), host))
			return true;
	return !json_array_size(hosts);
}

static void put_violation(json_t *list, const struct topo *topo, size_t a, size_t b, double owd_ns,
			  const char *why)
{
	const struct topo_nic *x = &topo->nics[a], *y = &topo->nics[b];
	json_t *row = json_object();

	if (json_array_size(list) >= VIOLATIONS_MOST) {
		json_decref(row);
		return;
	}
	json_put(row, "a", json_sprintf("%s %s", x->host, x->address));
	json_put(row, "b", json_sprintf("%s %s", y->host, y->address));
	if (isfinite(owd_ns))
		json_put_integer(row, "owd_ns", (int64_t)llrint(owd_ns));
	json_put_text(row, "why", why);
	json_array_append_new(list, row);
}

/* Chosen NICs: {PLANE/RAIL: {host: how many}} (new reference). */
static json_t *count_nics(const struct topo *topo, const json_t *hosts)
{
	json_t *rails = json_object();

	for (size_t i = 0; i < topo->nic_count; i++) {
		const struct topo_nic *nic = &topo->nics[i];
		json_t *key, *members;

		if (!*nic->host || !is_chosen(hosts, nic->host))
			continue;
		key = json_sprintf("%s/%s", nic->plane, nic->rail);
		members = json_object_get(rails, json_string_value(key));
		if (!members) {
			members = json_object();
			json_object_set_new(rails, json_string_value(key), members);
		}
		json_put_count(members, nic->host, json_count(members, nic->host) + 1);
		json_decref(key);
	}
	return rails;
}

/* Pairs of chosen NICs of one plane and rail on different hosts, without those that are known. */
static uint64_t count_not_measured(const struct topo *topo, const json_t *hosts)
{
	json_t *rails = count_nics(topo, hosts), *members, *one;
	uint64_t all = 0, measured = 0;
	const char *rail, *host;

	json_object_foreach (rails, rail, members) {
		uint64_t nics = 0, same = 0;

		json_object_foreach (members, host, one) {
			nics += json_count(members, host);
			same += json_count(members, host) * json_count(members, host);
		}
		all += (nics * nics - same) / 2;
	}
	json_decref(rails);
	for (size_t i = 0; i < topo->pair_count; i++) {
		const struct topo_pair *pair = &topo->pairs[i];
		const char *a = topo->nics[pair->a].host, *b = topo->nics[pair->b].host;

		measured += !pair->cross && isfinite(pair->floor_ns) && strcmp(a, b) &&
			    is_chosen(hosts, a) && is_chosen(hosts, b);
	}
	return all > measured ? all - measured : 0;
}

static void check_delays(const struct topo *topo, const json_t *hosts, double most_ns,
			 json_t *result, json_t *list)
{
	size_t checked = 0;
	double worst = NAN;

	for (size_t i = 0; i < topo->pair_count; i++) {
		const struct topo_pair *pair = &topo->pairs[i];
		double owd_ns = pair->floor_ns / 2;
		double off_ns = isfinite(pair->bound_ns) ? pair->bound_ns / 2 : 0;

		if (!isfinite(owd_ns) || !is_chosen(hosts, topo->nics[pair->a].host) ||
		    !is_chosen(hosts, topo->nics[pair->b].host))
			continue;
		checked++;
		worst = worst >= owd_ns ? worst : owd_ns;
		if (owd_ns - off_ns > most_ns)
			put_violation(list, topo, pair->a, pair->b, owd_ns,
				      "delay above the limit");
		else if (owd_ns + off_ns > most_ns)
			put_violation(list, topo, pair->a, pair->b, owd_ns,
				      "delay not decided: its bound crosses the limit");
	}
	json_put_count(result, "pairs_checked", checked);
	json_put_count(result, "pairs_not_measured", count_not_measured(topo, hosts));
	if (isfinite(worst))
		json_put_integer(result, "worst_owd_ns", (int64_t)llrint(worst));
}

/* Of each plane and rail: all chosen NICs with the first. */
static void check_same_leaf(const struct topo *topo, const json_t *hosts, json_t *list)
{
	json_t *firsts = json_object();
	char key[128];

	for (size_t i = 0; i < topo->nic_count; i++) {
		const struct topo_nic *nic = &topo->nics[i];
		json_t *first;

		if (!is_chosen(hosts, nic->host))
			continue;
		snprintf(key, sizeof(key), "%s/%s", nic->plane, nic->rail);
		first = json_object_get(firsts, key);
		if (nic->leaf == TOPO_NONE)
			put_violation(list, topo, i, i, NAN, "its leaf is not known");
		else if (!first)
			json_object_set_new(firsts, key, json_integer((json_int_t)i));
		else if (topo->nics[json_integer_value(first)].leaf != nic->leaf)
			put_violation(list, topo, (size_t)json_integer_value(first), i, NAN,
				      "not on one leaf");
	}
	json_decref(firsts);
}

static json_t *run_sla(const json_t *args, int *exit, char **error)
{
	const json_t *hosts = json_object_get(args, "hosts"), *limit, *one;
	struct topo *topo = topo_of_args(args, exit, error);
	json_t *result = json_object(), *list = json_array();
	size_t i, k;

	if (!topo)
		goto fail;
	json_array_foreach (hosts, i, one) {
		for (k = 0; k < topo->nic_count; k++)
			if (!strcmp(topo->nics[k].host, json_string_value(one)))
				break;
		if (k == topo->nic_count) {
			explain(error, 0, "no NIC of a host `%.64s` is in these exports",
				json_string_value(one));
			goto fail;
		}
	}
	limit = json_object_get(args, "max_owd_ns");
	check_delays(topo, hosts, limit ? json_number_value(limit) : INFINITY, result, list);
	if (limit && !json_count(result, "pairs_checked")) {
		explain(error, 0,
			"none of these hosts' pairs was measured, so no delay can be checked");
		goto fail;
	}
	if (json_object_get(args, "same_tor"))
		check_same_leaf(topo, hosts, list);
	json_put_count(result, "violation_count", json_array_size(list));
	json_put(result, "violations", list);
	topo_free(topo);
	return result;
fail:
	topo_free(topo);
	json_decref(result);
	json_decref(list);
	return NULL;
}

/* clang-format off: tables */

static const struct column leaves[] = {
	{"LEAF", "leaf", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "a leaf switch, numbered by rail and host"},
	{"POD", "pod", FORMAT_TEXT, COLUMN_LEFT, .help = "its pod"},
	{"PLANE", "plane", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "of its NICs"},
	{"RAIL", "rail", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "of its NICs"},
	{"CERTAIN", "certainty", FORMAT_SHARE, COLUMN_OPTIONAL,
	 .help = "of NICs by delays: probability that the least certain one is there"},
	{"BY", "by", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`switches`: their replies; `delays`: floors of two-way delays; `both`"},
	{"UPLINKS", "uplinks", FORMAT_COUNT, COLUMN_OPTIONAL,
	 .help = "links above it that surveyed paths used"},
	{"NICS", "nic_count", FORMAT_COUNT, .help = "NICs on it"},
	{"HOSTS", "hosts", FORMAT_TEXT, COLUMN_LEFT, .help = "their hosts"},
	{},
};

static const struct column doubtful[] = {
	{"NIC", "{host}<| {interface}|>", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "a NIC that is not certain"},
	{"ADDRESS", "address", FORMAT_TEXT, COLUMN_LEFT, .help = "its address"},
	{"LEAF", "<|{leaf}?|>", FORMAT_TEXT, COLUMN_LEFT, .help = "the most likely leaf"},
	{"CERTAIN", "certainty", FORMAT_SHARE, COLUMN_OPTIONAL,
	 .help = "its probability by delays; none: switches show another leaf"},
	{"BY", "by", FORMAT_TEXT, COLUMN_LEFT, .help = "what shows it"},
	{},
};

static const struct column misplaced[] = {
	{"RAIL_CHECK",
	 "{interface} of {host} is on {leaf}, that of {siblings} hosts with the same "
	 "other leaves on {siblings_leaf}",
	 FORMAT_TEXT, COLUMN_LEFT, .help = "a cable that may be swapped"},
	{},
};

static const struct verb_section output[] = {
	{.when = "text", .text = "{text}"},
	{.when = "!text",
	 .header = "Fabric",
	 .text = "{host_count} hosts, {nic_count} NICs, {pairs} measured pairs; {pods} pods"},
	{.when = "!text", .rows = "leaves", .columns = leaves},
	{.when = "!text", .rows = "nics", .only = "!certain", .columns = doubtful},
	{.when = "!text", .rows = "misplaced", .columns = misplaced},
	{.when = "!text",
	 .rows = "tiers",
	 .header = "Tier",
	 .text = "<|{plane} |><|rail {rail}, |>{tier}: {pairs} pairs, {nearer_ns:time} less than "
		 "the farthest, spread {spread_ns:time}"},
	{.when = "!text", .rows = "notes", .header = "Note", .text = "{note}"},
	{},
};

static const struct column changes[] = {
	{"NIC", "nic", FORMAT_TEXT, COLUMN_LEFT, .help = "host and interface"},
	{"CHANGE", "change", FORMAT_TEXT, COLUMN_LEFT, .help = "what differs"},
	{},
};

static const struct verb_section diff[] = {
	{.rows = "changes", .columns = changes, .empty = "The fabric is as expected."},
	{},
};

static const struct column violations[] = {
	{"NIC", "a", FORMAT_TEXT, COLUMN_LEFT, .help = "one end"},
	{"AND", "b", FORMAT_TEXT, COLUMN_LEFT, .help = "the other end"},
	{"OWD", "owd_ns", FORMAT_TIME, COLUMN_OPTIONAL, .help = "half of the two-way floor"},
	{"WHY", "why", FORMAT_TEXT, COLUMN_LEFT, .help = "what is violated"},
	{},
};

static const struct verb_section sla[] = {
	{.header = "Pairs",
	 .text = "{pairs_checked} measured and checked<|, {pairs_not_measured} of one rail not|>"
		 "<|, the longest one-way floor is {worst_owd_ns:time}|>"},
	{.rows = "violations", .columns = violations, .empty = "No violation."},
	{},
};

static const struct verb_arg topo_args[] = {
	TOPO_FROM,
	{"--dot", .type = VERB_FLAG, .key = "dot", .local = true, .help = "for Graphviz"},
	{"--slurm", .type = VERB_FLAG, .key = "slurm", .local = true,
	 .help = "topology.conf of Slurm, for topology/tree"},
	{"--hypernode", .type = VERB_FLAG, .key = "hypernode", .local = true,
	 .help = "HyperNodes of Volcano"},
	{"--labels", .type = VERB_FLAG, .key = "labels", .local = true,
	 .help = "commands that label Kubernetes nodes with their leaf and pod"},
	{"--ranks", .type = VERB_FLAG, .key = "ranks", .local = true,
	 .help = "a rank file of Open MPI in which neighbors share leaves and pods"},
	{"--rail", "RAIL", .key = "rail", .local = true,
	 .help = "the rail by which these formats group hosts; default: the first"},
	{},
};

static const struct verb_arg diff_args[] = {
	{"EXPECTED", .key = "expected", .local = true, .required = true,
	 .help = "a file of `escapement -j topo`"},
	TOPO_FROM,
	{},
};

static const struct verb_arg sla_args[] = {
	{"HOST", .key = "hosts", .local = true, .repeated = true, .help = "these hosts alone"},
	{"--max-owd", "TIME", .type = VERB_DURATION, .key = "max_owd_ns", .local = true,
	 .help = "the longest one-way floor that is allowed"},
	{"--same-tor", .type = VERB_FLAG, .key = "same_tor", .local = true,
	 .help = "all NICs of a rail have to be on one leaf"},
	TOPO_FROM,
	{},
};

const char *const topo_given[] = {"status", "peers", "mesh", "paths", "cycles", NULL};

static const struct verb verbs[] = {
	{.name = "topo",
	 .place = VERB_HERE,
	 .reads = true,
	 .run = run_topo,
	 .given = topo_given,
	 .args = topo_args,
	 .output = output,
	 .summary = "which NICs share a leaf switch and a pod",
	 .help = "From the replies of switches to the surveys of paths, and from floors of two-way "
		 "delays where they do not reply. A leaf by delays has the probability that its "
		 "NICs belong there; what is not certain is marked with ? or has no leaf. The "
		 "daemon of one host knows its own pairs only: for a fabric collect the exports of "
		 "all hosts within 15 minutes, and give them with --from."},
	{.name = "topo diff",
	 .place = VERB_HERE,
	 .reads = true,
	 .run = run_diff,
	 .given = topo_given,
	 .args = diff_args,
	 .output = diff,
	 .fails = "changes",
	 .summary = "compare the topology with an expected one",
	 .help = "Names of leaves are not compared, but which NICs share one; those that are shown "
		 "are the earlier ones. The exit status is 1 when anything differs, as after a "
		 "cable was moved."},
	{.name = "topo sla",
	 .place = VERB_HERE,
	 .reads = true,
	 .run = run_sla,
	 .given = topo_given,
	 .args = sla_args,
	 .output = sla,
	 .fails = "violations",
	 .summary = "check hosts against a delay and a place",
	 .help = "A one-way delay is half of the floor of the two-way delay, which has no error of "
		 "the clock. The exit status is 1 when there is a violation, or a bound crosses "
		 "the limit. Pairs that were not measured are counted, and not checked: "
		 "`escapement audit --fleet` on all hosts measures them."},
	{},
};

const struct verb_set topo_verbs = {.name = "topo", .verbs = verbs};
