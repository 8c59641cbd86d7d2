// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/table.h"
#include "config/config.h"

static char *written;
static size_t written_bytes;

/* What @write makes of the JSON in @text. */
static const char *render(void (*write)(FILE *, const json_t *), const char *text)
{
	json_t *object = json_loads(text, 0, NULL);
	FILE *out;

	cr_assert_not_null(object, "%s", text);
	free(written);
	written = NULL;
	out = open_memstream(&written, &written_bytes);
	write(out, object);
	fclose(out);
	json_decref(object);
	return written;
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
	struct cli_table *table = cli_table_new("<NAME N");
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	cli_table_cell(table, "a-long-name");
	cli_table_cell(table, "%d", 5);
	cli_table_cell(table, "b");
	cli_table_cell(table, "%d", 1234);
	cli_table_write(table, out);
	fclose(out);
	cr_expect_str_eq(text, "NAME           N\na-long-name    5\nb           1234\n");
	cli_table_free(table);
	free(text);
}

#define QP(more)                                                                                   \
	"{\"direction\":\"tx\",\"src\":\"10.0.0.1\",\"dst\":\"10.0.0.2\",\"dest_qpn\":17,"         \
	"\"sport\":50000,\"packets\":12345,\"bytes\":1610612736,\"bytes_per_second\":1.25e8,"      \
	"\"messages\":3" more "}"

Test(cli, qp_table)
{
	const char *text = render(
		cli_write_qps,
		"{\"tracked\":2,\"max\":16,\"refused\":7,\"qps\":[" QP(
			",\"transport\":\"RC\",\"message_bytes\":{\"p50\":65536},\"retransmits\":9,"
			"\"psn_gaps\":0,\"naks\":1,\"ce\":0,\"cnps\":0") "," QP(",\"transport\":"
										"\"UD\",\"ce\":2,"
										"\"cnps\":0") "]}");

	expect(text,
	       "tx  10.0.0.1 10.0.0.2  17 50000 RC     12.3k 1.50GiB 1.00Gbit/s    3 64.0KiB  "
	       "0   0    0     9    1\n");
	expect(text, " UD     12.3k 1.50GiB 1.00Gbit/s    3       -  2   0    -     -    -\n");
	expect(text, "1 flow sent packets again; most: 10.0.0.1>10.0.0.2/17, 9.");
	expect(text, "1 flow carried congestion marks");
	expect(text, "7 packets are in no line above");
	cr_expect_null(strstr(text, "receiver-not-ready"), "nothing to say, nothing said");
}

Test(cli, qp_table_names_owners_when_there_are_any)
{
	const char *text = render(
		cli_write_qps,
		"{\"tracked\":3,\"max\":16,\"refused\":0,\"qps\":[" QP(
			",\"local_qpn\":18,\"pid\":407,\"comm\":\"ib_write_bw\",\"job\":"
			"\"job_1234/step_0\"") "," QP(",\"local_qpn\":19,\"comm\":\"nvme_rdma"
						      "\"") "," QP("") "]}");

	expect(text, " NAKS OWNER\n");
	expect(text, " ib_write_bw[407] job_1234/step_0\n");
	expect(text, " nvme_rdma\n");
	expect(text, "    - -\n");
	text = render(cli_write_qps, "{\"tracked\":1,\"max\":16,\"qps\":[" QP("") "]}");
	cr_expect_null(strstr(text, "OWNER"), "nobody is known: no column");
}

Test(cli, qp_table_is_readable_in_120_columns)
{
	const char *text = render(
		cli_write_qps,
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
	expect(render(cli_write_qps, "{\"qps\":[],\"tracked\":0}"), "No queue pair sends or receives here now");
	expect(render(cli_write_qps, "{\"qps\":[],\"tracked\":5}"), "No queue pair matches, of 5");
}

#define STATUS(more)                                                                               \
	"{\"version\":\"1\",\"host\":\"h\",\"mode\":\"observe\",\"pid\":1,\"uptime_s\":65,"        \
	"\"qps\":{\"tracked\":1,\"max\":16,\"refused\":0}," more "}"

Test(cli, status_page)
{
	const char *text = render(
		cli_write_status,
		STATUS("\"kill_switch\":false,\"interfaces\":[{\"name\":\"eth1\",\"ifindex\":2,"
		       "\"plane\":\"backend\",\"link_up\":true,\"mtu\":9000,\"driver\":\"veth\","
		       "\"attach\":\"native\",\"attach_via\":\"link\",\"attach_note\":\"note one\","
		       "\"tc\":\"tcx\",\"visibility\":\"packets\",\"roce_rx\":{\"packets\":5,"
		       "\"bytes\":2048,\"ce\":1,\"cnps\":2,\"rocev1\":0}},"
		       "{\"name\":\"eth2\",\"plane\":\"backend\",\"attach\":\"none\",\"tc\":"
		       "\"none\"}],"
		       "\"reasons\":[{\"reason\":\"fragment\",\"xdp_ingress\":1,\"tc_ingress\":2,"
		       "\"tc_egress\":4,\"meaning\":\"a fragment\"}]"));

	expect(text, "escapement 1 on h, up 1m 5s");
	expect(text, "Mode: observe");
	expect(text, "eth1  backend, link up, MTU 9000, driver veth");
	expect(text, "in: XDP native, on its own; out: tcx");
	expect(text, "note one");
	expect(text, "sees      packets: every RoCEv2 packet passes the kernel");
	expect(text, "RoCE in   5 packets, 2.00 KiB, 1 CE marks, 2 CNPs");
	cr_expect_null(strstr(text, "RoCE out"), "absent is not shown as 0");
	expect(text, "eth2  is not there now");
	expect(text, "fragment         3 in, 4 out: a fragment");
	cr_expect_null(strstr(text, "Owners"), "not asked for, not shown");
	expect(render(cli_write_status,
		      STATUS("\"qp_tracing\":{\"how\":\"fentry\",\"known\":64,\"refused\":2}")),
	       "Owners of queue pairs: by fentry, 64 known\n  The table was full: the owners of 2 "
	       "are not known\n");
	expect(render(cli_write_status,
		      STATUS("\"qp_tracing\":{\"how\":\"none\",\"note\":\"no RDMA\"}")),
	       "Owners of queue pairs: not known; no RDMA\n");
	text = render(cli_write_status,
		      STATUS("\"kill_switch\":true,\"kill_switch_reason\":\"because\""));
	expect(text, "Off: the kill switch is on (because)");
	cr_expect_null(strstr(text, "Receipts"));
	text = render(cli_write_status, STATUS("\"receipts\":{\"mode\":\"on\",\"qps_sampled\":"
					       "3000,\"look_note\":\"once a second\"}"));
	expect(text, "Receipts: on, 3000 queue pairs sampled\n  once a second\n");
	text = render(cli_write_status, STATUS("\"receipts\":{\"mode\":\"off\"}"));
	expect(text, "Receipts: off");
}

Test(cli, event_line)
{
	setenv("TZ", "UTC", 1);
	cr_expect_str_eq(render(cli_write_event,
				"{\"time_ns\":1769860800123000000,\"kind\":\"qp_seen\",\"subject\":"
				"\"a>b/1\",\"seen\":{\"packets\":3,\"why\":\"x\"},\"result\":[1]}"),
			 "2026-01-31 12:00:00.123  qp_seen  a>b/1  seen: packets 3, why x  "
			 "result: [1]\n");
}

Test(cli, support_says_what_is_missing)
{
	const char *text = render(cli_write_support,
				  "{\"features\":[{\"name\":\"btf\",\"here\":true,\"cost\":\"c1\"},"
				  "{\"name\":\"tcx\",\"here\":false,\"detail\":\"EINVAL\","
				  "\"cost\":\"c2\"}]}");

	expect(text, "yes btf");
	expect(text, "no  tcx                c2\n");
	expect(text, "(EINVAL)");
	cr_expect_null(strstr(text, "c1"), "what is here costs nothing");
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
	cr_assert_eq(config_parse(&input, yaml + 13, strlen(yaml) - 13, &config, &error), 0,
		     "%s", error);
	first = config_to_json(config);
	config_free(config);
	text = json_dumps(first, 0);
	render(cli_write_config, text);
	free(text);
	cr_assert_eq(config_parse(&input, written, written_bytes, &config, &error), 0,
		     "%s\n%s", error, written);
	second = config_to_json(config);
	config_free(config);
	cr_expect(json_equal(first, second), "%s", written);
	json_decref(first);
	json_decref(second);
}
