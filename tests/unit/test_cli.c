// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "config/config.h"

static char *written;
static size_t written_bytes;

/* The text that a verb makes of the reply in @text. */
static const char *render_with(const char *verb, const char *text, const char *args)
{
	json_t *object = json_loads(text, 0, NULL), *given = json_loads(args, 0, NULL);
	FILE *out;

	cr_assert_not_null(object, "%s", text);
	free(written);
	written = NULL;
	out = open_memstream(&written, &written_bytes);
	cli_write(out, verbs_named(verb), object, given);
	fclose(out);
	json_decref(object);
	json_decref(given);
	return written;
}

static const char *shown(const char *verb, const char *text)
{
	return render_with(verb, text, "{}");
}

static void expect(const char *text, const char *part)
{
	cr_expect(strstr(text, part), "lacks \"%s\":\n%s", part, text);
}

Test(cli, since)
{
	const uint64_t now_ns = 1769860800ull * 1000000000; /* 2026-01-31T12:00:00Z */
	static const struct {
		const char *text;
		uint64_t seconds;
	} good[] = {
		{"10m", 1769860800 - 600},
		{"0", 1769860800},
		{"@1700000000", 1700000000},
		{"2026-01-31T11:59:00Z", 1769860740},
		{"2026-01-31 11:59", 1769860740},
		{"2026-01-31", 1769817600},
		{"11:00", 1769857200},
		{"5000000h", 0},
	};
	static const char *const bad[] = {"",		"yesterday", "10 min",
					  "@",		"@-5",	     "@x",
					  "2026-13-01", "12:61",     "@99999999999999"};
	uint64_t ns;

	setenv("TZ", "UTC", 1);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cr_assert(cli_parse_since(good[i].text, now_ns, &ns), "%s", good[i].text);
		cr_expect_eq(ns / 1000000000, good[i].seconds, "%s gave %lu", good[i].text,
			     ns / 1000000000);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect(!cli_parse_since(bad[i], now_ns, &ns), "%s is taken", bad[i]);
}

Test(cli, table_columns_are_as_wide_as_they_have_to_be)
{
	static const struct column columns[] = {
		{"NAME", "name", FORMAT_TEXT, COLUMN_LEFT, .help = ""},
		{"N", "n", FORMAT_TEXT, .help = ""},
		{"MORE", "more", FORMAT_TEXT, COLUMN_OPTIONAL, .help = ""},
		{},
	};
	json_t *rows = json_loads("[{\"name\":\"a-long-name\",\"n\":5},{\"name\":\"b\",\"n\":"
				  "1234},{\"n\":0}]",
				  0, NULL);
	static const struct verb_section section = {.columns = columns};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	cr_expect_eq(table_write(out, &section, (struct scope){}, rows, 0), 3);
	fclose(out);
	cr_expect_str_eq(
		text, "NAME           N\na-long-name    5\nb           1234\n-              0\n");
	free(text);
	json_decref(rows);
}

#define QP(more)                                                                                   \
	"{\"direction\":\"tx\",\"src\":\"10.0.0.1\",\"dst\":\"10.0.0.2\",\"dest_qpn\":17,"         \
	"\"sport\":50000,\"packets\":12345,\"bytes\":1610612736,\"bytes_per_second\":1.25e8,"      \
	"\"messages\":3" more "}"

Test(cli, qp_table)
{
	const char *text = shown(
		"qp",
		"{\"tracked\":2,\"max\":16,\"refused\":7,\"qps\":[" QP(
			",\"transport\":\"RC\",\"message_bytes\":{\"p50\":65536},\"retransmits\":9,"
			"\"psn_gaps\":0,\"naks\":1,\"ce\":0,\"cnps\":0") "," QP(",\"transport\":"
										"\"UD\",\"ce\":2,"
										"\"cnps\":0") "]}");

	expect(text,
	       "tx  10.0.0.1>10.0.0.2/17 50000 RC   12.3k 1.50GiB 1.00Gbit/s    3 64.0KiB  0   0  "
	       "      0    9    1\n");
	expect(text, " UD   12.3k 1.50GiB 1.00Gbit/s    3       -  2   0        -    -    -\n");
	cr_expect_null(strstr(text, "DUP"), "none has it: no column");
	expect(text, "1 queue pair retransmitted; most: 10.0.0.1>10.0.0.2/17, 9.");
	expect(text, "1 queue pair carried CE marks");
	expect(text, "7 packets are in no line above");
	cr_expect_null(strstr(text, "receiver-not-ready"), "nothing to say, nothing said");
}

Test(cli, qp_table_names_owners_when_there_are_any)
{
	const char *text = shown(
		"qp", "{\"tracked\":3,\"max\":16,\"refused\":0,\"qps\":[" QP(
			      ",\"local_qpn\":18,\"pid\":407,\"comm\":\"ib_write_bw\",\"job\":"
			      "\"job_1234/step_0\"") "," QP(",\"local_qpn\":19,\"comm\":\"nvme_rdma"
							    "\"") "," QP("") "]}");

	expect(text, " NAKS OWNER\n");
	expect(text, " ib_write_bw[407] job_1234/step_0\n");
	expect(text, " nvme_rdma\n");
	expect(text, "/17   18 50000 ");
	expect(text, "    - -\n");
	text = shown("qp", "{\"tracked\":1,\"max\":16,\"qps\":[" QP("") "]}");
	cr_expect_null(strstr(text, "OWNER"), "no owner is known: no column");
}

Test(cli, qp_table_is_readable_in_120_columns)
{
	const char *text = shown(
		"qp",
		"{\"qps\":[{\"direction\":\"tx\",\"src\":\"192.168.100.100\",\"dst\":"
		"\"192.168.100.101\",\"dest_qpn\":16777215,\"sport\":65535,\"transport\":\"XRC\","
		"\"packets\":999400,\"bytes\":1e3,\"bytes_per_second\":1.25e10,\"messages\":999400,"
		"\"message_bytes\":{\"p50\":1048576},\"ce\":999400,\"cnps\":999400,"
		"\"psn_gaps\":999400,\"retransmits\":999400,\"naks\":999400}]}");
	size_t columns = strcspn(text, "\n");

	cr_expect_leq(columns, 120, "%zu columns", columns);
}

Test(cli, no_queue_pairs)
{
	expect(shown("qp", "{\"qps\":[],\"tracked\":0}"),
	       "No queue pair sends or receives here now");
	expect(shown("qp", "{\"qps\":[],\"tracked\":5}"), "No queue pair matches; 5 are tracked");
}

#define STATUS(more)                                                                               \
	"{\"version\":\"1\",\"host\":\"h\",\"mode\":\"observe\",\"pid\":1,\"uptime_s\":65,"        \
	"\"qps\":{\"tracked\":1,\"max\":16,\"refused\":0}," more "}"

Test(cli, status_page)
{
	const char *text = shown(
		"status",
		STATUS("\"kill_switch\":false,\"interfaces\":[{\"name\":\"eth1\",\"ifindex\":2,"
		       "\"plane\":\"backend\",\"link_up\":true,\"mtu\":9000,\"driver\":\"veth\","
		       "\"attach\":\"native\",\"attach_via\":\"link\",\"attach_note\":\"note one\","
		       "\"tc\":\"tcx\",\"visibility\":\"packets\",\"roce_rx\":{\"packets\":5,"
		       "\"bytes\":2048,\"ce\":1,\"cnps\":2,\"rocev1\":0}},"
		       "{\"name\":\"eth2\",\"plane\":\"backend\",\"attach\":\"none\",\"tc\":"
		       "\"none\"}],"
		       "\"reasons\":[{\"reason\":\"fragment\",\"xdp_ingress\":1,\"tc_ingress\":2,"
		       "\"tc_egress\":4,\"meaning\":\"a fragment\"}]"));

	expect(text, "Host            : h\n");
	expect(text, "Daemon          : escapementd 1, pid 1, up 1min 5s\n");
	expect(text, "Mode            : observe: packets are counted");
	expect(text, "Interface       : eth1: backend, link up, MTU 9000, driver veth\n");
	expect(text, "  Attached      : XDP native (link), tc tcx\n                  note one\n");
	expect(text, "  Visibility    : packets: every RoCEv2 packet passes the kernel\n");
	expect(text, "  RoCE in       : 5 packets, 2.00KiB, 1 CE marks, 2 CNPs\n");
	cr_expect_null(strstr(text, "RoCE out"), "absent is not shown as 0");
	cr_expect_null(strstr(text, "RoCEv1"));
	expect(text, "Interface       : eth2: not present");
	expect(text, "Not counted     : fragment: 3 in, 4 out (forwarded unchanged): a fragment\n");
	cr_expect_null(strstr(text, "Owners"), "not in the reply, not shown");
	expect(shown("status",
		     STATUS("\"qp_tracing\":{\"method\":\"fentry\",\"known\":64,\"refused\":2}")),
	       "Owners          : 64 queue pairs, by fentry\n                  the table was full: "
	       "the owners of 2 are not known\n");
	expect(shown("status", STATUS("\"qp_tracing\":{\"method\":\"none\",\"note\":\"no RDMA\"}")),
	       "Owners          : not known: no RDMA\n");
	text = shown("status", STATUS("\"kill_switch\":true,\"kill_switch_reason\":\"because\""));
	expect(text, "Kill switch     : on: because");
	cr_expect_null(strstr(text, "Mode"));
	cr_expect_null(strstr(text, "Receipts"));
	text = shown("status", STATUS("\"receipts\":{\"mode\":\"on\",\"qps_sampled\":3000,"
				      "\"poll_note\":\"once a second\"}"));
	expect(text, "Receipts        : on, 3000 queue pairs sampled\n                  once a "
		     "second\n");
	text = shown("status", STATUS("\"receipts\":{\"mode\":\"off\"}"));
	expect(text, "Receipts        : off");
}

#define BOUND_NS 100000

/* The reasons of `health`, one a line: "WHAT (since SINCE): REMEDY". */
static const char *health_of(const char *text, const char *open_findings, bool critical)
{
	json_t *status = json_loads(text, 0, NULL), *findings = json_loads(open_findings, 0, NULL);
	json_t *reasons = cli_health_reasons(status, findings, BOUND_NS, critical), *one;
	FILE *out;
	size_t i;

	free(written);
	written = NULL;
	out = open_memstream(&written, &written_bytes);
	json_array_foreach (reasons, i, one) {
		fputs(json_text(one, "what"), out);
		if (json_object_get(one, "since_fabric_ns"))
			fprintf(out, " (since %d, +-%d%s)", (int)json_count(one, "since_fabric_ns"),
				(int)json_count(one, "bound_ns"),
				json_count(one, "for_ns") ? "" : ", for ever");
		fprintf(out, ": %s\n", json_text(one, "remedy"));
	}
	fclose(out);
	json_decref(status);
	json_decref(findings);
	json_decref(reasons);
	return written;
}

static const char *health(const char *text)
{
	return health_of(text, "[]", false);
}

Test(cli, health_lists_what_is_wrong)
{
	static const char attached[] = "{\"name\":\"eth1\",\"ifindex\":2,\"link_up\":true,"
				       "\"attach\":\"native\",\"tc\":\"tcx\"},"
				       /* down by design */
				       "{\"name\":\"eth4\",\"ifindex\":4,\"link_up\":false,"
				       "\"attach\":\"native\",\"tc\":\"tcx\"}";
	static const char torn[] = "{\"name\":\"eth2\",\"ifindex\":3,\"link_up\":false,"
				   "\"attach\":\"none\",\"tc\":\"none\",\"attach_note\":\"why\"},"
				   "{\"name\":\"eth3\",\"attach\":\"none\",\"tc\":\"none\"}";
	char status[2048];

	snprintf(status, sizeof(status),
		 "{\"interfaces\":[%s],\"clock\":{\"state\":\"synced\",\"peers_configured\":3},"
		 "\"probing\":{\"peers\":{\"down\":0}},\"paths\":{\"on\":true,\"down\":0},"
		 "\"links\":{\"watched\":2,\"flapping\":[],\"down\":[]},"
		 "\"qps\":{\"tracked\":15,\"max\":16,\"refused\":9}}",
		 attached);
	cr_expect_str_eq(health(status), "");
	snprintf(
		status, sizeof(status),
		"{\"interfaces\":[%s,%s],\"clock\":{\"state\":\"holdover\",\"bound_ns\":2500,"
		"\"peers_configured\":3},\"probing\":{\"peers\":{\"down\":2}},\"paths\":{\"on\":"
		"true,"
		"\"down\":1},\"links\":{\"watched\":2,\"flapping\":[\"eth1\"],\"down\":[\"eth2\"]},"
		"\"qps\":{\"tracked\":16,\"max\":16}}",
		attached, torn);
	expect(health(status), "eth3: the interface is not present: see its driver");
	expect(written, "eth2: no program is attached: why: ");
	expect(written, "links without a carrier: eth2: see their cables");
	expect(written, "links that flap: eth1: ");
	expect(written, "the clock is holdover, error bound 2.50us");
	expect(written, "2 peers are down");
	expect(written, "1 paths are down");
	expect(written, "the table of queue pairs is full (16 entries)");
	expect(health("{\"kill_switch\":true,\"kill_switch_reason\":\"why\",\"interfaces\":[{"
		      "\"name\":\"eth1\",\"ifindex\":2,"
		      "\"link_up\":true,\"attach\":\"none\",\"tc\":\"none\"}],\"clock\":{"
		      "\"state\":\"free_running\",\"peers_configured\":0}}"),
	       "the kill switch is on, nothing is attached (why)");
	cr_expect_null(strstr(written, "eth1"), "one reason is enough");
	cr_expect_null(strstr(written, "clock"), "a host alone has none");
	expect(health_of(status, "[]", true), "links without a carrier: eth2");
	cr_expect_null(strstr(written, "peers are down"), "a warning");
}

Test(cli, health_states_since_when)
{
	static const char status[] = "{\"clock\":{\"state\":\"synced\","
				     "\"bound_ns\":100001,\"peers_configured\":3},"
				     "\"links\":{\"down\":[\"eth2\"]}}";
	static const char findings[] =
		"[{\"kind\":\"link_flapping\",\"id\":\"nic:h1/"
		"eth2\",\"about\":\"nic\",\"severity\":"
		"\"critical\",\"since_ns\":9,\"conditions\":[{\"kind\":\"link_no_carrier\","
		"\"since_ns\":10,\"since_fabric_ns\":7000,\"bound_ns\":50}]},"
		"{\"kind\":\"link_no_carrier\",\"id\":\"nic:h1/eth3\",\"about\":\"nic\","
		"\"severity\":\"critical\",\"since_ns\":11,\"since_fabric_ns\":8000},"
		"{\"kind\":\"host_isolated\",\"id\":\"host:h1\",\"about\":\"host\",\"severity\":"
		"\"critical\",\"since_ns\":12,\"since_fabric_ns\":8500,\"remedy\":\"see its "
		"switch\"},"
		"{\"kind\":\"peer_down\",\"id\":\"host:h2\",\"about\":\"peer\",\"severity\":"
		"\"critical\",\"since_ns\":12},"
		"{\"kind\":\"qp_slow\",\"id\":\"q\",\"about\":\"qp\",\"severity\":\"warning\"}]";

	cr_expect_str_eq(health_of(status, findings, false),
			 "links without a carrier: eth2 (since 7000, +-50): see their cables and "
			 "their ports of the switch\n"
			 "host_isolated: host:h1 (since 8500, +-0): see its switch\n"
			 "the clock's error bound is 100us, above 100us: `escapement clock` shows "
			 "its peers; delays are no better than this\n");
	cr_expect_null(strstr(health_of(status, findings, true), "clock's"));
	cr_expect_null(strstr(health_of("{\"clock\":{\"state\":\"synced\",\"bound_ns\":99999,"
					"\"peers_configured\":3}}",
					"[]", false),
			      "clock"));
}

/* What a process may be named, as a terminal gets it. */
Test(cli, control_characters_are_escaped)
{
	static const char name[] = "a\\u001b[2J\\u009b1m\\u007f\\nb\\t\\u00e4";
	json_t *reply = json_pack("{s:[{s:s, s:s}], s:s, s:i}", "qps", "comm", "", "ip", "x\ny\r",
				  "n", "plain \\", "count", 3);
	json_t *qp = json_array_get(json_object_get(reply, "qps"), 0), *text;
	char line[128];

	snprintf(line, sizeof(line), "[\"%s\"]", name);
	text = json_loads(line, 0, NULL);
	cr_assert_not_null(text);
	json_object_set(qp, "comm", json_array_get(text, 0));
	render_escape(reply, false);
	cr_expect_str_eq(json_string_value(json_object_get(qp, "comm")),
			 "a\\x1b[2J\\x9b1m\\x7f\\x0ab\\x09\xc3\xa4");
	cr_expect_str_eq(json_string_value(json_object_get(qp, "ip")), "x\ny\\x0d");
	cr_expect_str_eq(json_string_value(json_object_get(reply, "n")), "plain \\");
	cr_expect_eq(json_integer_value(json_object_get(reply, "count")), 3);
	render_escape(NULL, false);
	json_decref(text);
	json_decref(reply);
}

Test(cli, event_line)
{
	json_t *event = json_loads("{\"time_ns\":1769860800123000000,\"kind\":\"qp_seen\","
				   "\"subject\":\"a>b/1\",\"seen\":{\"packets\":3,\"why\":\"x\"},"
				   "\"result\":[1]}",
				   0, NULL);
	FILE *out;

	setenv("TZ", "UTC", 1);
	free(written);
	out = open_memstream(&written, &written_bytes);
	cli_write_event(out, event);
	fclose(out);
	json_decref(event);
	cr_expect_str_eq(written,
			 "2026-01-31 12:00:00.123  qp_seen  a>b/1  seen: packets 3, why x  "
			 "result: [1]\n");
}

Test(cli, features_report_what_is_missing)
{
	const char *text = shown(
		"features", "{\"features\":[{\"name\":\"btf\",\"supported\":true,\"cost\":\"c1\"},"
			    "{\"name\":\"tcx\",\"supported\":false,\"detail\":\"EINVAL\","
			    "\"cost\":\"c2\"}]}");

	expect(text, "btf     yes       -\n");
	expect(text, "tcx     no        EINVAL\n");
	expect(text, "Without tcx: c2\n");
	cr_expect_null(strstr(text, "c1"), "what is available costs nothing");
}

Test(cli, clock_states_what_an_offset_is_from)
{
	const char *text = shown(
		"clock", "{\"state\":\"synced\",\"peers\":[{\"peer\":\"h2\",\"consensus\":\"used\","
			 "\"flagged\":false,\"averaged\":8},{\"peer\":\"h3\","
			 "\"consensus\":\"unsure\",\"flagged\":true}]}");

	expect(text, "used (no clean packet: the 8 lowest averaged)\n");
	expect(text, "unsure (few clean pairs)\n");
}

/* `config show` is a configuration: what is shown, taken again, shows the same. */
Test(cli, config_show_can_be_taken_again)
{
	static const char yaml[] = "host: 'h: 1'\ninterfaces: [{name: eth1, attach: skb},"
				   "{name: '1e3'}]\nqps: {idle: 90s}\n";
	const struct config_input input = {.path = "/x/e.yaml"};
	struct config *config;
	json_t *first, *second;
	char *text, *error;

	cr_assert_neq(config_parse(&input, yaml, strlen(yaml), &config, &error), 0,
		      "a host is one word");
	free(error);
	cr_assert_eq(config_parse(&input, yaml + 13, strlen(yaml) - 13, &config, &error), 0, "%s",
		     error);
	first = config_to_json(config);
	config_free(config);
	text = json_dumps(first, 0);
	shown("config show", text);
	free(text);
	cr_assert_eq(config_parse(&input, written, written_bytes, &config, &error), 0, "%s\n%s",
		     error, written);
	second = config_to_json(config);
	config_free(config);
	cr_expect(json_equal(first, second), "%s", written);
	json_decref(first);
	json_decref(second);
}

/* --- keys, conditions, templates --- */

/* False for a template with a format that is unknown, or parts that do not end. */
static bool template_is_good(const char *template)
{
	static const char *const formats[] = {
#define X(id, name) name,
		COLUMN_FORMATS(X)
#undef X
	};
	int depth = 0;

	for (; *template; template ++) {
		size_t bytes = strcspn(template, "}");
		const char *colon = memchr(template, ':', bytes);
		bool known = !colon || colon[1] == '?';

		depth += !strncmp(template, "<|", 2);
		depth -= !strncmp(template, "|>", 2);
		if (depth < 0)
			return false;
		if (*template != '{')
			continue;
		for (size_t i = 0; !known && i < FORMATS; i++)
			known = strlen(formats[i]) == (size_t)(template + bytes - colon - 1) &&
				!strncmp(formats[i], colon + 1, strlen(formats[i]));
		if (!template[bytes] || bytes == 1 || !known)
			return false;
		template += bytes;
	}
	return !depth;
}

static const char *expand(const char *object, const char *template)
{
	json_t *json = json_loads(object, 0, NULL), *args = json_loads("{\"k\":\"v\"}", 0, NULL);

	cr_assert_not_null(json, "%s", object);
	cr_expect(template_is_good(template), "%s", template);
	free(written);
	written = value_expand((struct scope){json, args}, template);
	json_decref(json);
	json_decref(args);
	return written;
}

Test(cli, templates)
{
	static const struct {
		const char *object, *template, *text;
	} cases[] = {
		{"{\"a\":{\"b\":5}}", "x {a.b} y", "x 5 y"},
		{"{}", "x {a}", ""},
		{"{}", "x<| {a}|>.", "x."},
		{"{\"a\":\"\"}", "x<| {a}|>", "x"},
		{"{\"a\":null}", "x<| {a}|>", "x"},
		{"{\"a\":1}", "x<| {a}<|/{b}|>|>", "x 1"},
		{"{\"a_ns\":7616}", "{a_ns:time}", "7.62us"},
		{"{\"a_ms\":2.5}", "{a_ms:time}", "2.50ms"},
		{"{\"owd_ns\":{\"p50\":812}}", "{owd_ns.p50:time}", "0.812us"},
		{"{\"a_s\":65}", "{a_s:age}", "1min 5s"},
		{"{\"a_ms\":19603}", "{a_ms:age}", "19.6s"},
		{"{\"a_ms\":1.069}", "{a_ms:age}", "1.07ms"},
		{"{\"a\":1536}", "{a:bytes}", "1.50KiB"},
		{"{\"a_bps\":1e9}", "{a_bps:rate}", "1.00Gbit/s"},
		{"{\"bytes_per_second\":1.25e8}", "{bytes_per_second:rate}", "1.00Gbit/s"},
		{"{\"bytes_per_second\":1.25e9}", "{bytes_per_second:gbps}", "10.00"},
		{"{\"lost\":1,\"answered\":3}", "{lost/answered+lost:share}", "25%"},
		{"{\"lost\":0,\"sent\":0}", "<|{lost/sent:share}|>", ""},
		{"{\"a\":0.5}", "{a:share}", "50%"},
		{"{\"a\":12345}", "{a:ppm}", "+12.345"},
		{"{\"a\":18}", "{a:hex}", "0x12"},
		{"{\"a\":true,\"b\":false}", "{a:?up|down} {b:?up|down} {a}", "up down yes"},
		{"{\"b\":2}", "{a|b}", "2"},
		{"{\"a\":1,\"b\":2}", "{a|b} {a+b}", "1 3"},
		{"{\"a\":[\"x\",null,3]}", "{a}", "x,*,3"},
		{"{\"w\":[{\"n\":\"x\",\"u\":true},{\"n\":\"y\",\"u\":false},{\"n\":\"z\",\"u\":"
		 "true}]}",
		 "{w[u].n}", "x,z"},
		{"{\"fabric_ns\":1769860800123456789}", "{fabric_ns}", "1769860800123456789"},
		{"{}", "{@k}", "v"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_str_eq(expand(cases[i].object, cases[i].template), cases[i].text,
				 "%s of %s: %s", cases[i].template, cases[i].object, written);
	cr_expect(!template_is_good("{a:tiem}"));
	cr_expect(!template_is_good("{a"));
	cr_expect(!template_is_good("x<| {a}"));
	cr_expect(!template_is_good("x |>"));
}

Test(cli, conditions)
{
	static const char object[] =
		"{\"on\":true,\"off\":false,\"n\":3,\"zero\":0,\"text\":\"abc\","
		"\"none\":\"\",\"list\":[1],\"empty\":[],\"max\":3,\"more\":4}";
	static const struct {
		const char *condition;
		bool holds;
	} cases[] = {
		{"on", true},	      {"off", false},	  {"!off", true},      {"n", true},
		{"zero", false},      {"text", true},	  {"none", false},     {"list", true},
		{"empty", false},     {"absent", false},  {"!absent", true},   {"on n !zero", true},
		{"on zero", false},   {"text=abc", true}, {"text=ab", false},  {"!text=ab", true},
		{"text^=ab", true},   {"text^=b", false}, {"n>=max", true},    {"n>=more", false},
		{"zero+off", false},  {"zero+n", true},	  {"absent=x", false}, {"@k=v", true},
		{"n>=absent", false}, {"", true},
	};
	json_t *json = json_loads(object, 0, NULL), *args = json_loads("{\"k\":\"v\"}", 0, NULL);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(value_holds((struct scope){json, args}, cases[i].condition),
			     cases[i].holds, "%s", cases[i].condition);
	json_decref(json);
	json_decref(args);
}

static void check_text(const char *verb, const char *text)
{
	if (text)
		cr_expect(template_is_good(text), "%s: %s", verb, text);
}

static void check_sections(const char *verb, const struct verb_section *sections)
{
	for (; sections && (sections->rows || sections->text || sections->sections); sections++) {
		check_text(verb, sections->text);
		check_text(verb, sections->empty);
		for (const struct column *column = sections->columns; column && column->header;
		     column++) {
			cr_expect(column->help && *column->help, "%s: %s", verb, column->header);
			check_text(verb, column->key);
			for (const char *at = column->header; *at; at++)
				cr_expect(*at < 'a' || *at > 'z', "%s: %s", verb, column->header);
		}
		check_sections(verb, sections->sections);
	}
}

/* A mistake in a table is one here, not on an operator's screen. */
Test(cli, tables_of_all_verbs_are_good)
{
	const struct verb *verb = NULL;

	while ((verb = verbs_next(verb))) {
		cr_expect_eq(verbs_named(verb->name), verb, "%s is there twice", verb->name);
		cr_expect(verb->summary && *verb->summary, "%s", verb->name);
		cr_expect(verb->place == VERB_DAEMON || verb->run || verb->place == VERB_HERE, "%s",
			  verb->name);
		check_sections(verb->name, verb->output);
		for (const struct verb_arg *arg = verb->args; arg && arg->name; arg++) {
			cr_expect(arg->help && *arg->help, "%s %s", verb->name, arg->name);
			cr_expect(arg->key || arg->type == VERB_QP, "%s %s", verb->name, arg->name);
			cr_expect_eq(arg->type == VERB_CHOICE, arg->choices != NULL, "%s %s",
				     verb->name, arg->name);
		}
	}
	for (size_t i = 0; verbs_sets[i]; i++) {
		check_sections(verbs_sets[i]->name, verbs_sets[i]->status);
		check_sections(verbs_sets[i]->name, verbs_sets[i]->health);
	}
}

/* --- arguments --- */

/* The exit status of cli_parse(), -1 for none; *@out is what the daemon would get. */
static int parse(const char *line, struct cli *out, json_t **request)
{
	char *copy = strdup(line), *words[32], *save = NULL;
	int count = 0, code;

	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	*out = (struct cli){};
	code = cli_parse(out, count, words);
	*request = code < 0 ? cli_request_args(out) : NULL;
	return code;
}

Test(cli, arguments_become_a_request)
{
	static const struct {
		const char *line, *verb, *args;
	} cases[] = {
		{"escapement status", "status", "{}"},
		{"escapement stat", "status", "{}"},
		{"escapement -j qp", "qp", "{}"},
		{"escapement qp 10.0.0.2 --sort rate --top 3", "qp",
		 "{\"key\":\"10.0.0.2\",\"sort\":\"rate\",\"top\":3}"},
		{"escapement qp --sor=rate", "qp", "{\"sort\":\"rate\"}"},
		{"escapement top -n 2 --interval 200ms", "top", "{}"},
		{"escapement health", "status", "{}"},
		{"escapement config show", "config", "{}"},
		{"escapement clock wait --bound 1us", "clock", "{}"},
		{"escapement events --follow", "events", "{\"follow\":true}"},
		{"escapement mode observe eth1 eth2", "mode",
		 "{\"mode\":\"observe\",\"interfaces\":[\"eth1\",\"eth2\"]}"},
		{"escapement steer set 10.0.0.1>10.0.0.2/17 --sport 50000", "steer",
		 "{\"src\":\"10.0.0.1\",\"dst\":\"10.0.0.2\",\"qpn\":17,\"sport\":50000,"
		 "\"what\":\"set\"}"},
		{"escapement steer set fd00::1>fd00::2/0x11 --flow-label 0x12", "steer",
		 "{\"src\":\"fd00::1\",\"dst\":\"fd00::2\",\"qpn\":17,\"flow_label\":18,"
		 "\"what\":\"set\"}"},
		{"escapement steer set 10.0.0.2/17 --sport 1 --force --flowlet-gap 2ms --deadline "
		 "1s",
		 "steer",
		 "{\"dst\":\"10.0.0.2\",\"qpn\":17,\"sport\":1,\"force\":true,"
		 "\"flowlet_gap_ns\":2000000,\"deadline_ns\":1000000000,\"what\":\"set\"}"},
		{"escapement steer clear --dst 10.0.0.2 --qpn 17", "steer",
		 "{\"dst\":\"10.0.0.2\",\"qpn\":17,\"what\":\"clear\"}"},
		{"escapement steer auto on", "steer", "{\"state\":\"on\",\"what\":\"auto\"}"},
		{"escapement pace tcp measure", "pace", "{\"mode\":\"measure\",\"what\":\"tcp\"}"},
		{"escapement pace set --class a --weight 3 --threshold 50us", "pace",
		 "{\"class\":\"a\",\"weight\":3,\"threshold_ns\":50000,\"what\":\"set\"}"},
		{"escapement pace setup-fq eth1", "pace",
		 "{\"interface\":\"eth1\",\"what\":\"setup-fq\"}"},
		{"escapement off --pin-root /a --kill-file /b", "off", "{}"},
		{"escapement paths -- -x", "paths", "{\"peer\":\"-x\"}"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *want = json_loads(cases[i].args, 0, NULL), *request;
		struct cli cli;
		char verb[64], *error = NULL;

		cr_assert_eq(parse(cases[i].line, &cli, &request), -1, "%s", cases[i].line);
		cr_assert_not_null(want, "%s", cases[i].args);
		cr_expect_str_eq(cli_request_verb(cli.verb, verb), cases[i].verb, "%s",
				 cases[i].line);
		cr_expect(json_equal(request, want), "%s: %s", cases[i].line,
			  json_dumps(request, JSON_COMPACT));
		/* And the daemon takes it. */
		cr_expect(verbs_check(verbs_of_request(verb, request, &error), request, &error),
			  "%s: %s", cases[i].line, error);
		json_decref(want);
		json_decref(request);
		json_decref(cli.args);
	}
}

Test(cli, wrong_arguments_are_usage_errors)
{
	static const char *const lines[] = {
		"escapement",
		"escapement statsu",
		"escapement s",
		"escapement fabric",
		"escapement config",
		"escapement failover dummy",
		"escapement qp a b",
		"escapement qp --so rate",
		"escapement qp --watch",
		"escapement qp --paths",
		"escapement qp --sort colour",
		"escapement qp --top -1",
		"escapement qp --top",
		"escapement --sort rate qp",
		"escapement -z",
		"escapement status --follow",
		"escapement events --since yesterday",
		"escapement events --follow=1",
		"escapement clock wait",
		"escapement clock wait --bound 1",
		"escapement top --interval 1ns",
		"escapement top -n 0",
		"escapement mode",
		"escapement mode sleep",
		"escapement steer auto",
		"escapement steer auto maybe",
		"escapement steer set 10.0.0.1>10.0.0.2",
		"escapement steer set x>10.0.0.2/17",
		"escapement steer set --sport 65536",
		"escapement steer set --dst h2",
		"escapement steer set --hold 1ms",
		"escapement pace fast",
		"escapement pace set --weight 16",
		"escapement pace set --threshold 2s",
		"escapement pace setup-fq",
		"escapement completion fish",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		json_t *request;
		struct cli cli;

		cr_expect_eq(parse(lines[i], &cli, &request), CLI_USAGE, "%s", lines[i]);
		json_decref(request);
		json_decref(cli.args);
	}
}

Test(cli, the_socket_and_the_format)
{
	json_t *request;
	struct cli cli;

	unsetenv("ESCAPEMENT_SOCKET");
	cr_assert_eq(parse("escapement status", &cli, &request), -1);
	cr_expect_str_eq(cli.socket, "/run/escapement/escapement.sock");
	cr_expect_eq(cli.format, CLI_TEXT);
	setenv("ESCAPEMENT_SOCKET", "/tmp/a", 1);
	cr_assert_eq(parse("escapement status -p", &cli, &request), -1);
	cr_expect_str_eq(cli.socket, "/tmp/a");
	cr_expect_eq(cli.format, CLI_PRETTY);
	cr_assert_eq(parse("escapement --socket /tmp/b status -j", &cli, &request), -1);
	cr_expect_str_eq(cli.socket, "/tmp/b");
	cr_expect_eq(cli.format, CLI_JSON);
	cr_assert_eq(parse("escapement --version", &cli, &request), -1);
	cr_expect_str_eq(cli.verb->name, "version");
	cr_assert_eq(parse("escapement steer set --help", &cli, &request), -1);
	cr_expect_str_eq(cli.verb->name, "help");
	cr_expect_str_eq(json_string_value(json_array_get(json_object_get(cli.args, "verb"), 0)),
			 "steer set");
}
