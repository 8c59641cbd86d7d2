// SPDX-License-Identifier: BSD-2-Clause
/* What is shown of links: replies and metrics, with the neighbours of link/ returned from memory.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/dataplane.h"
#include "link/internal.h"
#include "nic/nic.h"
#include "qp/qp.h"

#define S 1000000000ull
#define NOW (50 * LINK_HOUR_NS)

static struct qp_entry queue_pairs[3];
static struct owner owner = {.job = {.name = "job_7"}};

struct qp_entry *qptable_entries(const struct qptable *table, size_t *count)
{
	(void)table;
	*count = 3;
	return queue_pairs;
}

const struct owner *qptable_owner(const struct qptable *table, const struct esc_qp_key *key,
				  const char *device)
{
	(void)table;
	(void)device;
	return key->dest_qpn == 17 ? &owner : NULL;
}

const char *dataplane_port_name(const struct dataplane *dataplane, unsigned int index)
{
	(void)dataplane;
	return index == 0 ? "eth1" : index == 1 ? "bond0" : NULL;
}

json_t *nic_evidence(const struct nic *nic, const char *name)
{
	(void)nic;
	return strcmp(name, "eth1") ? NULL : json_pack("{s:s}", "state", "down");
}

bool link_is_expected(const struct link_entry *entry)
{
	return entry->member;
}

uint64_t link_now_ns(void)
{
	return NOW;
}

static struct links links;

/* A NIC whose driver reports all, one that reports nothing, and one below a bond. */
static void make_links(void)
{
	static const struct esc_link link = {
		.seen_ns = NOW - S,
		.changed_ns = NOW - 5 * S,
		.ifindex = 3,
		.state = ESC_LINK_ADMIN_UP | ESC_LINK_CARRIER,
		.flaps = 12,
		.planned = 2,
		.resets = 1,
		.down_count = 15,
		.up_count = 15,
		.entries = 2,
		.flap_ns = {NOW - LINK_HOUR_NS, NOW - 5 * S},
		.flap_counts = {3, 9},
		.alarm_ns = NOW - 5 * S,
		.alarm_within_ns = LINK_HOUR_NS,
		.alarm_more_than = 8,
		.alarm_flaps = 9,
	};
	struct link_details *details = &links.list[0].details;

	for (unsigned int i = 0; i < 3; i++)
		queue_pairs[i] = (struct qp_entry){.key.dest_qpn = 16 + i, .qp.port = i == 2};
	links.count = 3;
	for (size_t i = 0; i < links.count; i++) {
		links.list[i] = (struct link_entry){.link = link};
		link_details_clear(&links.list[i].details);
	}
	strcpy(links.list[0].name, "eth1");
	links.list[0].details_ns = 1;
	details->ext_downs = 4;
	details->fec_corrected = 100;
	details->fec_uncorrectable = 0;
	details->symbol_errors = 5;
	details->pause_rx = 6;
	details->priority_rx[3] = 17;
	details->priority_tx[0] = 1;
	details->temperature_mc = 43500;
	details->rdma_downed = 255;
	details->rdma_port = 1;
	strcpy(details->rdma, "mlx5_0");
	strcpy(details->rdma_state, "ACTIVE");
	strcpy(links.list[1].name, "eth2");
	links.list[1].role = LINK_SIBLING;
	links.list[1].member = true;
	links.list[1].link.state = ESC_LINK_ADMIN_UP | ESC_LINK_DOWN_ALARM;
	links.list[1].link.alarm_ns = 0;
	strcpy(links.list[2].name, "eth3");
	strcpy(links.list[2].upper, "bond0");
	links.list[2].role = LINK_LOWER;
	links.list[2].link.state = ESC_LINK_ADMIN_UP;
	links.list[2].link.alarm_ns = 0;
}

static void expect_json(size_t index, const char *expected)
{
	json_t *found = link_json(&links, &links.list[index]), *wanted;
	json_error_t error;

	wanted = json_loads(expected, 0, &error);
	cr_assert_not_null(wanted, "%s", error.text);
	json_object_del(found, "details_ms");
	cr_expect(json_equal(found, wanted), "%s", json_dumps(found, JSON_SORT_KEYS));
	json_decref(found);
	json_decref(wanted);
}

#define COUNTS                                                                                     \
	"\"flaps_1h\":9,\"flaps\":12,\"planned_losses\":2,\"counter_resets\":1,"                   \
	"\"carrier_down_count\":15,\"carrier_up_count\":15,\"last_change_ms\":5000"

Test(link_report, replies, .init = make_links)
{
	expect_json(0, "{\"netdev\":\"eth1\",\"role\":\"configured\",\"state\":\"up\"," COUNTS
		       ",\"alarm\":{\"kind\":\"flapping\",\"since_ms\":5000,\"flaps\":9,"
		       "\"more_than\":8,\"within_ns\":3600000000000},\"phy_downs\":4,"
		       "\"fec_corrected_blocks\":100,\"fec_uncorrectable_blocks\":0,"
		       "\"symbol_errors\":5,\"pause_rx_frames\":6,"
		       "\"priority_pause_rx_frames\":{\"3\":17},"
		       "\"priority_pause_tx_frames\":{\"0\":1},\"module_celsius\":43.5,"
		       "\"rdma\":{\"device\":\"mlx5_0\",\"port\":1,\"state\":\"ACTIVE\","
		       "\"link_downed\":255},\"qps\":2,\"qp\":[\"::>::/16\",\"::>::/17\"],"
		       "\"jobs\":[\"job_7\"],\"failover\":{\"state\":\"down\"}}");
	expect_json(1, "{\"netdev\":\"eth2\",\"role\":\"sibling\",\"state\":\"down\"," COUNTS
		       ",\"alarm\":{\"kind\":\"down\",\"since_ms\":5000},\"qps\":0}");
	/* Without a carrier, and not expected to have one; who uses its bond uses it. */
	expect_json(2, "{\"netdev\":\"eth3\",\"role\":\"lower\",\"upper\":\"bond0\","
		       "\"state\":\"unused\"," COUNTS ",\"qps\":1,\"qp\":[\"::>::/18\"]}");
}

static char *metrics(void)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	link_write_metrics(&links, out);
	fclose(out);
	return text;
}

static size_t samples(const char *text, const char *netdev)
{
	char label[64];
	size_t count = 0;

	snprintf(label, sizeof(label), "netdev=\"%s\"", netdev);
	while ((text = strstr(text, label))) {
		text++;
		count++;
	}
	return count;
}

Test(link_report, metrics_of_what_is_known_alone, .init = make_links)
{
	static const char rdma[] = "{netdev=\"eth1\",device=\"mlx5_0\",port=\"1\"}";
	static const struct {
		const char *name, *value;
	} known[] = {{"link_flaps_total", "12"},
		     {"link_flaps_1h", "9"},
		     {"link_planned_losses_total", "2"},
		     {"link_resets_total", "1"},
		     {"link_alarm", "1"},
		     {"link_phy_down_total", "4"},
		     {"link_fec_corrected_blocks_total", "100"},
		     {"link_fec_uncorrectable_blocks_total", "0"},
		     {"link_symbol_errors_total", "5"},
		     {"link_module_temperature_celsius", "43.5"},
		     {"link_rdma_downed_total", "255"}};
	char *text = metrics(), line[256];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		snprintf(line, sizeof(line), "\nescapement_%s%s %s\n", known[i].name, rdma,
			 known[i].value);
		cr_expect(strstr(text, line), "%s in:\n%s", line, text);
	}
	cr_expect(strstr(text, "\nescapement_global_pause_frames_total{netdev=\"eth1\","
			       "direction=\"rx\"} 6\n"));
	cr_expect(strstr(text, "\nescapement_pause_frames_total{netdev=\"eth1\",priority=\"3\","
			       "direction=\"rx\"} 17\n"));
	cr_expect_null(strstr(text, "priority=\"4\""));
	cr_expect(strstr(text, "\nescapement_link_alarm{netdev=\"eth2\"} 1\n"));
	cr_expect(strstr(text, "\nescapement_link_alarm{netdev=\"eth3\"} 0\n"), "down by design");
	/* flaps, flaps_1h, planned, resets, last change, alarm */
	cr_expect_eq(samples(text, "eth2"), 6, "%s", text);
	if (getenv("ESCAPEMENT_SHOW"))
		fputs(text, stdout);
	free(text);
}

Test(link_report, status, .init = make_links)
{
	json_t *status = json_object(), *wanted;

	link_status(&links, status);
	wanted = json_loads(
		"{\"links\":{\"watched\":3,\"flapping\":[\"eth1\"],\"down\":[\"eth2\"]}}", 0, NULL);
	cr_expect(json_equal(status, wanted), "%s", json_dumps(status, 0));
	json_decref(status);
	json_decref(wanted);
}
