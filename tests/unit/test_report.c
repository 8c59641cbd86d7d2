// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>

#include "fakes.h"
#include "api/internal.h"

static const json_t *get(const json_t *object, const char *key)
{
	return json_object_get(object, key);
}

static int64_t number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) ? json_integer_value(value) : -1;
}

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "(absent)";
}

Test(report_qp, rc_receiver)
{
	struct qp_entry *entry = fake_qp(ESC_DIRECTION_RX, "10.0.0.1", "10.0.0.2", 17);
	json_t *qp;

	entry->qp.sport = 50000;
	entry->qp.pmtu = 1024;
	entry->qp.psn_gaps = 2;
	entry->qp.psn_missing = 5;
	entry->qp.duplicates = 3;
	entry->qp.retransmits = 99; /* never shown of a receiver */
	entry->qp.nak_sequence = 4;
	entry->qp.nak_other = 1;
	entry->qp.rnr_naks = 6;
	entry->qp.messages = 2;
	entry->qp.message_sizes[17] = (struct esc_message_bucket){2, 2 * 65536};
	entry->qp.message_min = entry->qp.message_max = 65536;
	entry->bytes_per_second = 1.5;
	qp = report_qp(entry, "eth1");
	cr_expect_str_eq(text(qp, "direction"), "rx");
	cr_expect_str_eq(text(qp, "src"), "10.0.0.1");
	cr_expect_str_eq(text(qp, "dst"), "10.0.0.2");
	cr_expect_str_eq(text(qp, "interface"), "eth1");
	cr_expect_str_eq(text(qp, "transport"), "RC");
	cr_expect_str_eq(text(qp, "source"), "packet");
	cr_expect_eq(number(qp, "dest_qpn"), 17);
	cr_expect_eq(number(qp, "sport"), 50000);
	cr_expect_eq(number(qp, "pmtu"), 1024);
	cr_expect_eq(number(qp, "packets"), 10);
	cr_expect_eq(number(qp, "psn_gaps"), 2);
	cr_expect_eq(number(qp, "psn_missing"), 5);
	cr_expect_eq(number(qp, "duplicates"), 3);
	cr_expect_null(get(qp, "retransmits"));
	cr_expect_eq(number(qp, "naks"), 5);
	cr_expect_eq(number(get(qp, "naks_by_kind"), "sequence"), 4);
	cr_expect_eq(number(get(qp, "naks_by_kind"), "other"), 1);
	cr_expect_eq(number(qp, "rnr_naks"), 6);
	cr_expect_eq(number(get(qp, "message_bytes"), "p50"), 65536);
	cr_expect_eq(number(get(qp, "message_bytes"), "max"), 65536);
	cr_expect_eq(json_real_value(get(qp, "bytes_per_second")), 1.5);
	for (const char *const *key = (const char *const[]){"owd_ns", "local_qpn", "pid", "comm",
							    "job", "steered_sport", NULL};
	     *key; key++)
		cr_expect_null(get(qp, *key), "%s is not measured in this version", *key);
	json_decref(qp);
}

Test(report_qp, what_does_not_apply_is_absent)
{
	struct qp_entry *entry = fake_qp(ESC_DIRECTION_TX, "fd00::1", "fd00::2", 1);
	json_t *qp;

	entry->qp.retransmits = 8;
	qp = report_qp(entry, NULL);
	cr_expect_eq(number(qp, "retransmits"), 8);
	cr_expect_null(get(qp, "duplicates"));
	cr_expect_null(get(qp, "message_bytes"), "no message was seen whole");
	cr_expect_null(get(qp, "pmtu"));
	cr_expect_null(get(qp, "interface"));
	cr_expect_str_eq(text(qp, "src"), "fd00::1");
	json_decref(qp);

	entry->qp.transport = ESC_TRANSPORT_UD;
	qp = report_qp(entry, NULL);
	cr_expect_str_eq(text(qp, "transport"), "UD");
	for (const char *const *key = (const char *const[]){"psn_gaps", "psn_missing", "duplicates",
							    "retransmits", "naks", "acks", NULL};
	     *key; key++)
		cr_expect_null(get(qp, *key), "a datagram has no %s", *key);
	cr_expect_eq(number(qp, "ce"), 0);
	json_decref(qp);

	entry->qp.cnps = entry->qp.packets;
	qp = report_qp(entry, NULL);
	cr_expect_null(get(qp, "transport"), "CNPs do not show it");
	json_decref(qp);
}

static bool matches(const char *key, const struct qp_entry *entry)
{
	struct report_qp_filter filter;

	cr_assert(report_qp_filter(key, &filter), "%s is refused", key);
	return report_qp_matches(&filter, entry);
}

Test(report_qp, keys)
{
	const struct qp_entry *entry = fake_qp(ESC_DIRECTION_TX, "10.0.0.1", "10.0.1.2", 17);
	static const char *const match[] = {"",
					    "17",
					    "0x11",
					    "10.0.1",
					    "10.0.0.1",
					    "10.0.0>10.0.1",
					    ">10.0.1.2",
					    "10.0.0.1>",
					    "/17",
					    ">/0x11",
					    "10.0.0.1>10.0.1.2/17",
					    "10.0.1.2/17"};
	static const char *const miss[] = {
		"18",	     "10.0.2",	   "10.0.1>10.0.0", "10.0.0.1>10.0.1.2/18",
		">10.0.0.1", "10.0.1.2/16"};
	static const char *const bad[] = {"/x", "a>b/17x", "10.0.0.1/99999999", "a>b/-1"};
	struct report_qp_filter filter;

	for (size_t i = 0; i < sizeof(match) / sizeof(match[0]); i++)
		cr_expect(matches(match[i], entry), "%s should match", match[i]);
	for (size_t i = 0; i < sizeof(miss) / sizeof(miss[0]); i++)
		cr_expect(!matches(miss[i], entry), "%s should not match", miss[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect(!report_qp_filter(bad[i], &filter), "%s should be refused", bad[i]);
	cr_expect(report_qp_filter(NULL, &filter));
}

static void expect_order(const char *name, const uint32_t want[3])
{
	const struct report_qp_filter all = {};
	struct qp_ranked *list;
	size_t count;

	fake.table.entries = fake.qps;
	list = report_qp_choose(&fake.table, &all, name, &count);
	cr_assert_eq(count, 3);
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(list[i].entry->key.dest_qpn, want[i], "%s: place %zu is %u", name, i,
			     list[i].entry->key.dest_qpn);
	free(list);
}

Test(report_qp, rules)
{
	struct qp_entry *one = fake_qp(ESC_DIRECTION_TX, "10.0.0.1", "10.0.0.2", 1);
	struct qp_entry *two = fake_qp(ESC_DIRECTION_TX, "10.0.0.1", "10.0.0.2", 2);
	struct qp_entry *three = fake_qp(ESC_DIRECTION_TX, "10.0.0.1", "10.0.0.2", 3);

	one->qp.bytes = 30, two->qp.bytes = 20, three->qp.bytes = 10;
	one->qp.packets = 1, two->qp.packets = 3, three->qp.packets = 2;
	three->bytes_per_second = 5;
	two->qp.ce = 7;
	three->qp.retransmits = 4, two->qp.psn_missing = 9;
	expect_order("bytes", (uint32_t[]){1, 2, 3});
	expect_order("packets", (uint32_t[]){2, 3, 1});
	expect_order("rate", (uint32_t[]){3, 1, 2}); /* the idle ones by bytes */
	expect_order("ce", (uint32_t[]){2, 1, 3});
	expect_order("gaps", (uint32_t[]){2, 3, 1});
	expect_order("", (uint32_t[]){1, 2, 3}); /* bytes */
}

Test(report, port_counts_only_where_something_counts)
{
	struct port_info *port = fake_port("eth1");
	struct esc_port_counts counts = {.rx_roce_packets = 5, .rx_roce_bytes = 500};
	json_t *object = port_json(port, &counts);

	cr_expect_str_eq(text(object, "attach"), "native");
	cr_expect_str_eq(text(object, "attach_via"), "link");
	cr_expect_str_eq(text(object, "tc"), "tcx");
	cr_expect_str_eq(text(object, "timestamp_source"), "xdp");
	cr_expect_eq(number(get(object, "roce_rx"), "packets"), 5);
	cr_expect_eq(number(get(object, "roce_tx"), "packets"), 0,
		     "nothing was sent, and we saw it");
	cr_expect_null(get(object, "rdma_device"));
	cr_expect_null(get(object, "attach_note"));
	json_decref(object);

	port->xdp_mode = ESC_XDP_NONE;
	port->xdp_via = ESC_XDP_VIA_NONE;
	port->tc_via = ESC_TC_NONE;
	object = port_json(port, &counts);
	cr_expect_str_eq(text(object, "attach"), "none");
	cr_expect_null(get(object, "timestamp_source"));
	cr_expect_eq(number(get(object, "roce_rx"), "packets"), 5, "was true when it was counted");
	cr_expect_null(get(object, "roce_tx"), "a zero that is not measured");
	json_decref(object);

	fake_port("eth2");
	strcpy(fake.ports[1].visibility, "counters");
	object = port_json(&fake.ports[1], &(struct esc_port_counts){});
	cr_expect_null(get(object, "roce_rx"), "packets of this NIC pass us by");
	json_decref(object);

	fake.ports[1].ifindex = 0;
	object = port_json(&fake.ports[1], &(struct esc_port_counts){});
	cr_expect_null(get(object, "link_up"), "an interface that is not there has no link");
	json_decref(object);
}

Test(report, reasons_that_have_a_count)
{
	json_t *list;

	fake.reasons[ESC_REASON_FRAGMENT] = (struct esc_reason_count){1, 2, 4};
	cr_expect_eq(reason_sum(&fake.reasons[ESC_REASON_FRAGMENT]), 7);
	list = reasons_json(fake.reasons);
	cr_assert_eq(json_array_size(list), 1);
	cr_expect_str_eq(text(json_array_get(list, 0), "reason"), "fragment");
	cr_expect_eq(number(json_array_get(list, 0), "tc_egress"), 4);
	json_decref(list);
	for (unsigned int i = ESC_REASON_NONE + 1; i < ESC_REASON_MAX; i++)
		cr_expect(reason_name(i) && *reason_name(i));
}

static json_t *status_of(struct fake_world *daemon)
{
	static const char line[] = "{\"verb\": \"status\"}";
	struct request reply;
	json_t *object, *result;

	request_reply(&daemon->core, line, sizeof(line) - 1, ACCESS_CONTROL, &reply);
	object = json_loadb(reply.text, reply.bytes, 0, NULL);
	result = json_incref(json_object_get(object, "result"));
	json_decref(object);
	free(reply.text);
	return result;
}

Test(report, status)
{
	struct fake_world daemon;
	json_t *status;

	cr_assert_eq(fake_daemon(&daemon, "host: h1\ninterfaces: [{name: eth1}]\n"), 0);
	fake_port("eth1");
	fake_qp(ESC_DIRECTION_TX, "10.0.0.1", "10.0.0.2", 1);
	fake.reasons[ESC_REASON_QP_TABLE_FULL].tc_egress = 3;
	status = status_of(&daemon);
	cr_expect_str_eq(text(status, "host"), "h1");
	cr_expect_str_eq(text(status, "mode"), "observe");
	cr_expect_str_eq(text(status, "config"), "/nowhere/test.yaml");
	cr_expect(json_is_false(get(status, "kill_switch")));
	cr_expect_null(get(status, "kill_switch_reason"));
	json_decref(status);
	fake.off = true;
	status = status_of(&daemon);
	cr_expect(json_is_true(get(status, "kill_switch")));
	cr_expect(strstr(text(status, "kill_switch_reason"), "control"));
	json_decref(status);
	events_free(daemon.ledger);
	config_free(daemon.config);
}
