// SPDX-License-Identifier: BSD-2-Clause
/*
 * The audit over trees of hosts: each check passes on one, fails after one change of a file, and
 * nothing else fails then; what is missing or broken is never a pass of a new kind, nor a crash.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_tree.h"

/* --- trees --- */

/* "@105=10 106=02": the bytes of the tree's own, which are hexadecimal, with these at these places.
 */
static const char *patched(const char *name, const char *content)
{
	static char text[16384];
	unsigned int at, byte;
	int read;

	for (size_t i = 0; i < line_count; i++)
		if (!strcmp(lines[i], name))
			snprintf(text, sizeof(text), "%s", lines[i] + strlen(name) + 1);
	for (content++; sscanf(content, "%u=%2x%n", &at, &byte, &read) == 2; content += read) {
		char hex[3];

		cr_assert(2 + 2 * at + 2 <= strlen(text), "%s has no byte %u", name, at);
		snprintf(hex, sizeof(hex), "%02x", byte);
		memcpy(text + 2 + 2 * at, hex, 2);
	}
	return text;
}

/* --- reports --- */

/* Every result but that of @check is the same in both, or skipped. */
static void expect_others_same(const json_t *before, const json_t *after, const char *check)
{
	const json_t *entry;
	size_t i;

	json_array_foreach (json_object_get(after, "results"), i, entry) {
		const char *id = json_text(entry, "check"), *subject = json_text(entry, "subject");
		const char *was = result_of(before, id, subject), *is = json_text(entry, "result");

		if (strcmp(id, check))
			cr_expect(!strcmp(was, is) || !strcmp(is, "skipped"),
				  "%s: %s/%s: %s, was %s", check, id, subject, is, was);
	}
}

/* --- each check --- */

#define P "sys/class/infiniband/"
#define D "sys/devices/pci/0000:15:01.0/"
#define N "netlink/eth2/"
/* A capability list from 0x48 on, with PCI Express at 0x60, of which device control has 2 for
 * reads. */
#define Z16 "00000000000000000000000000000000"
#define CONFIG_READS_512                                                                           \
	"x:" Z16 Z16 Z16 "00000000480000000000000000000000"                                        \
	"00000000000000000360000000000000" Z16                                                     \
	"10000000000000004f20000000000000" Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16

#define LLDP(interface, chassis, port)                                                             \
	"{\"lldp\": [{\"interface\": [{\"name\": \"" interface "\", \"chassis\": [{\"name\": "     \
	"[{\"value\": \"" chassis "\"}]}], \"port\": [{\"id\": [{\"type\": \"ifname\", "           \
	"\"value\": \"" port "\"}]}]}]}]}"

/* After one change of a good tree. With @value that is what an operator expects. */
static const struct change {
	const char *flavor, *path, *content, *check, *subject, *result, *value;
} changes[] = {
	{"mlx5-roce", "proc/sys/kernel/osrelease", "6.1.0", "software.kernel", "", "fail",
	 "6.8.0-1015"},
	{"mlx5-roce", "sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet",
	 "software.clocksource", "", "fail", NULL},
	{"mlx5-roce", "proc/711/comm", "systemd-timesyn", "software.time_daemon", "", "fail", NULL},
	{"mlx5-roce", "proc/710/comm", NULL, "software.time_daemon", "", "fail", NULL},
	{"mlx5-roce", "proc/900/limits", "Max locked memory         8388608    8388608    bytes",
	 "software.memlock", "", "fail", NULL},
	{"mlx5-roce", "proc/900/comm", NULL, "software.memlock", "", "unknown", NULL},
	{"mlx5-roce", "proc/self/mounts", "tmpfs /dev/shm tmpfs rw,size=65536k 0 0", "software.shm",
	 "", "fail", NULL},
	{"mlx5-roce", "proc/self/mounts", "tmpfs /dev/shm tmpfs rw 0 0", "software.shm", "", "pass",
	 NULL},
	{"mlx5-roce", "proc/self/mounts", "proc /proc proc rw 0 0", "software.shm", "", "unknown",
	 NULL},
	{"mlx5-roce", "proc/modules", "nvidia 56823808 96 - Live 0x0", "software.peermem", "",
	 "fail", NULL},
	{"mlx5-roce", "proc/modules", "ib_core 1 0 - Live 0x0", "software.peermem", "", "unknown",
	 NULL},
	{"mlx5-roce", "etc/nccl.conf", "NCCL_IB_HCA=mlx5_0,mlx5_7\\nNCCL_IB_TC=106",
	 "software.nccl", "", "fail", NULL},
	{"mlx5-roce", "etc/nccl.conf", "NCCL_IB_HCA==mlx5_\\nNCCL_IB_TC=106", "software.nccl", "",
	 "fail", NULL},
	{"mlx5-roce", "etc/nccl.conf", "NCCL_IB_HCA=mlx5\\nNCCL_IB_TC=106", "software.nccl", "",
	 "pass", NULL},
	{"mlx5-roce", "proc/meminfo", "MemTotal: 1055000000 kB", "memory.size", "", "fail",
	 "2016 GiB"},
	{"mlx5-roce", "sys/devices/system/edac/mc/mc1/ue_count", "2", "memory.uncorrectable", "mc1",
	 "fail", NULL},
	{"mlx5-roce", "sys/devices/system/edac/mc/mc1/ue_count", "two", "memory.uncorrectable",
	 "mc1", "unknown", NULL},
	{"mlx5-roce", "sys/devices/system/cpu/online", "0-95", "memory.processors", "", "fail",
	 "CPUs 0-191, nodes 0-1"},
	{"mlx5-roce", "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave",
	 "memory.governor", "", "fail", NULL},
	{"mlx5-roce", D "0000:3c:00.0/current_link_width", "8", "pcie.width", "mlx5_1", "fail",
	 NULL},
	{"mlx5-roce", D "0000:3c:00.0/current_link_speed", "16.0 GT/s PCIe", "pcie.width", "mlx5_1",
	 "fail", NULL},
	{"mlx5-roce", D "0000:3c:00.0/current_link_speed", "Unknown", "pcie.width", "mlx5_1",
	 "unknown", NULL},
	{"mlx5-roce", D "0000:1a:00.0/aer_dev_nonfatal", "TLP 1\\nTOTAL_ERR_NONFATAL 1",
	 "pcie.errors", "mlx5_0", "fail", NULL},
	{"mlx5-roce", D "0000:1a:00.0/config", "x:0000", "pcie.request", "mlx5_0", "unknown", NULL},
	{"mlx5-roce", D "0000:1a:00.0/numa_node", "1", "pcie.node", "mlx5_0", "fail", "0"},
	{"mlx5-roce", D "0000:1a:00.0/numa_node", "-1", "pcie.node", "mlx5_0", "unknown", NULL},
	{"mlx5-roce", "sys/bus/pci/devices/0000:1b:00.0", NULL, "pcie.devices", "", "fail",
	 "1 GPUs, 2 network, 0 NVMe"},
	/* Device control of the NIC; control of ACS of the bridge above. */
	{"mlx5-roce", D "0000:1a:00.0/config", "@104=5f", "pcie.ordering", "mlx5_0", "fail",
	 "strict"},
	{"mlx5-roce", D "0000:1a:00.0/config", "x:0000", "pcie.ordering", "mlx5_0", "unknown",
	 NULL},
	{"mlx5-roce", D "config", "x:0000", "pcie.acs", "mlx5_1", "unknown", NULL},
	{"mlx5-roce", "sys/kernel/iommu_groups/1/type", "DMA-FQ", "pcie.iommu", "", "fail", NULL},
	{"mlx5-roce", P "mlx5_1/ports/1/state", "1: DOWN", "nic.active", "mlx5_1:1", "fail", NULL},
	{"mlx5-roce", P "mlx5_1/ports/1/phys_state", "2: Polling", "nic.active", "mlx5_1:1", "fail",
	 NULL},
	{"mlx5-roce", P "mlx5_1/ports/1/rate", "200 Gb/sec (4X HDR)", "nic.rate", "mlx5_1:1",
	 "fail", "400 Gb/sec (4X NDR)"},
	{"mlx5-roce", P "mlx5_0/ports/1/link_layer", "Unspecified", "nic.link_layer", "mlx5_0:1",
	 "fail", "Ethernet"},
	{"mlx5-roce", N "fec", "@72=07", "nic.fec", "mlx5_0:1", "fail", NULL},
	{"mlx5-roce", N "fec", "@48=33", "nic.fec_mode", "mlx5_0:1", "fail", "RS"},
	{"mlx5-roce", N "fec", NULL, "nic.fec_mode", "mlx5_0:1", "unknown", NULL},
	/* PFC of priority 4 too, and instead; shares, DSCPs and buffers. */
	{"mlx5-roce", N "dcb", "@105=18", "roce.pfc", "mlx5_0:1", "fail", "3"},
	{"mlx5-roce", N "dcb", NULL, "roce.pfc", "mlx5_0:1", "unknown", NULL},
	{"mlx5-roce", N "dcb", "@105=10", "roce.job_class", "mlx5_0:1", "fail", NULL},
	{"mlx5-roce", N "dcb", "@105=00", "roce.job_class", "mlx5_0:1", "skipped", NULL},
	{"mlx5-roce", N "dcb", "@298=1b", "roce.job_class", "mlx5_0:1", "fail", NULL},
	{"mlx5-roce", N "dcb", "@46=5a", "roce.ets", "mlx5_0:1", "fail",
	 "classes 0 1 2 3 4 5 6 7, 0 ets 10%, 3 ets 80%, 6 ets 10%"},
	{"mlx5-roce", N "dcb", "@306=31", "roce.trust", "mlx5_0:1", "fail", "DSCP, 3: 26, 6: 48"},
	{"mlx5-roce", N "dcb", "@248=01", "roce.buffers", "mlx5_0:1", "fail",
	 "buffers 0 0 0 1 0 0 0 0, 0: 156096 bytes, 1: 156096 bytes"},
	{"mlx5-roce", "dev/kmsg", NULL, "log.faults", "", "unknown", NULL},
	{"mlx5-roce", "dev/kmsg", "no record", "log.faults", "", "unknown", NULL},
	{"mlx5-roce", "dev/kmsg", "2,9,9,-;EDAC MC0: 1 UE memory read error on CPU_SrcID#0",
	 "log.faults", "", "fail", NULL},
	{"mlx5-roce", P "mlx5_0/fw_ver", "28.37.1014", "nic.firmware", "mlx5_0:1", "fail",
	 "28.39.1002"},
	{"mlx5-roce", "sys/module/mlx5_core/version", NULL, "nic.driver", "mlx5_0:1", "fail",
	 "mlx5_core 23.10-3.2.2"},
	{"mlx5-roce", P "mlx5_0/ports/1/gid_attrs/types/3", "IB/RoCE v1", "roce.gid", "mlx5_0:1",
	 "fail", NULL},
	{"mlx5-roce", P "mlx5_0/ports/1/gids/3", "0000:0000:0000:0000:0000:0000:0000:0000",
	 "roce.gid", "mlx5_0:1", "fail", NULL},
	{"mlx5-roce", P "mlx5_0/ports/1/gid_attrs/types/2", "RoCE v2", "roce.gid_same", "mlx5_0:1",
	 "fail", "3"},
	{"mlx5-roce", "sys/class/net/eth3/mtu", "1500", "roce.mtu", "mlx5_1:1", "fail", "9000"},
	{"mlx5-roce", "sys/class/net/eth3/ecn/roce_rp/enable/3", "0", "roce.ecn", "mlx5_1:1",
	 "fail", NULL},
	{"mlx5-roce", "proc/sys/net/ipv4/conf/eth3/arp_ignore", "0", "roce.arp", "mlx5_1:1", "fail",
	 NULL},
	{"mlx5-roce", "proc/sys/net/ipv4/conf/eth3/rp_filter", "1", "roce.arp", "mlx5_1:1", "fail",
	 NULL},
	{"irdma", "sys/devices/pci/0000:5d:00.0/config", "@262=1d", "pcie.acs", "irdma0", "fail",
	 NULL},
	{"irdma", "proc/net/arp",
	 "IP address HW type\\n10.1.0.1  0x1  0x0  00:00:00:00:00:00  *  ens1f0", "roce.next_hop",
	 "irdma0:1", "fail", NULL},
	{"irdma", "proc/net/route", "Iface", "roce.next_hop", "irdma0:1", "unknown", NULL},
	{"bnxt", P "bnxt_re0/ports/1/state", "2: INIT", "nic.active", "bnxt_re0:1", "fail", NULL},
	{"mlx5-infiniband", P "mlx5_0/ports/1/sm_lid", "0x0", "infiniband.manager", "mlx5_0:1",
	 "fail", NULL},
	{"mlx5-infiniband", P "mlx5_0/ports/1/lid", "0x30", "infiniband.lid", "mlx5_0:1", "fail",
	 "0x2f"},
	{"mlx5-infiniband", P "mlx5_0/ports/1/pkeys/0", "0x7fff", "infiniband.pkey", "mlx5_0:1",
	 "fail", NULL},
	{"mlx5-infiniband", P "mlx5_0/node_desc", "MT4129 ConnectX7", "infiniband.description",
	 "mlx5_0:1", "fail", NULL},
	{"irdma", "command/lldpcli", LLDP("ens1f0", "leaf1", "Ethernet16"), "nic.neighbor",
	 "irdma0:1", "fail", "leaf1 Ethernet12"},
	{"irdma", "command/lldpcli", LLDP("ens1f0", "leaf2", "Ethernet12"), "nic.neighbor",
	 "irdma0:1", "fail", "leaf1 Ethernet12"},
	{"irdma", "command/lldpcli", LLDP("ens1f1", "leaf1", "Ethernet12"), "nic.neighbor",
	 "irdma0:1", "unknown", "leaf1 Ethernet12"},
	{"irdma", "command/lldpcli", "{\"lldp\": [{}]}", "nic.neighbor", "irdma0:1", "unknown",
	 "leaf1 Ethernet12"},
	{"efa", P "rdmap16s25/ports/1/state", "1: DOWN", "nic.active", "rdmap16s25:1", "fail",
	 NULL},
	{"rxe", P "rxe0/ports/1/phys_state", "3: Disabled", "nic.active", "rxe0:1", "fail", NULL},
};

Test(audit, one_change_one_error, .fini = clean)
{
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		const struct change *row = &changes[i];
		json_t *expect = NULL, *before, *after;
		const char *was;
		char *error = NULL;

		if (row->value) {
			char key[128];

			snprintf(key, sizeof(key), "%s%s%s", row->check, *row->subject ? "/" : "",
				 row->subject);
			expect = json_pack("{s:{s:s}}", "values", key, row->value);
			cr_assert_eq(audit_expect_check(expect, &error), 0, "%s", error);
		}
		if (!i || strcmp(row->flavor, changes[i - 1].flavor))
			unpack(row->flavor);
		before = run(expect, NULL);
		was = result_of(before, row->check, row->subject);
		cr_expect(!strcmp(was, "pass") || !strcmp(was, "recorded") ||
				  !strcmp(row->subject, "mc1") || !strcmp(was, "absent"),
			  "row %zu: %s/%s was %s", i, row->check, row->subject, was);
		cr_expect_eq(json_count(before, "errors"), 0, "row %zu: %s", i, row->flavor);
		put(row->path, row->content && row->content[0] == '@'
				       ? patched(row->path, row->content)
				       : row->content);
		after = run(expect, NULL);
		cr_expect_str_eq(result_of(after, row->check, row->subject), row->result,
				 "row %zu: %s of %s", i, row->check, row->path);
		cr_expect_eq(json_count(after, "errors"), !strcmp(row->result, "fail"),
			     "row %zu: %s", i, row->check);
		/* Of a source that is missing several checks may become unknown. */
		if (strncmp(row->path, "proc/900", 8) && strcmp(row->result, "unknown"))
			expect_others_same(before, after, row->check);
		restore(row->path);
		json_decref(before);
		json_decref(after);
		json_decref(expect);
	}
}

/* Replies of the daemon instead of files. */
Test(audit, daemon, .fini = clean)
{
	static const struct {
		const char *verb, *list, *key, *check, *subject;
		size_t index;
		const char *value;
	} rows[] = {
		{"clock", NULL, "state", "clock.synced", "", 0, "\"converging\""},
		{"clock", NULL, "bound_ns", "clock.bound", "", 0, "1001"},
		{"status", "interfaces", "link_up", "frontend.link", "front0", 0, "false"},
		{"peers", "peers", "state", "frontend.connectivity", "front0", 0, "\"down\""},
		{"peers", "peers", "state", "backend.connectivity", "irdma0:1", 1, "\"down\""},
		{"status", "interfaces", "tc", "backend.initialized", "irdma0:1", 1, "\"\""},
		{"links", "links", "alarm", "backend.flaps", "ens1f0", 0,
		 "{\"kind\": \"flapping\"}"},
		{"links", "links", "state", "backend.link", "back1", 2, "\"down\""},
	};

	unpack("irdma");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *replies = good_replies("ens1f0"), *before = run(NULL, replies), *after, *at;

		cr_expect_str_eq(result_of(before, rows[i].check, rows[i].subject), "pass", "%s",
				 rows[i].check);
		at = json_object_get(replies, rows[i].verb);
		if (rows[i].list)
			at = json_array_get(json_object_get(at, rows[i].list), rows[i].index);
		json_object_set_new(at, rows[i].key,
				    json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
		after = run(NULL, replies);
		cr_expect_str_eq(result_of(after, rows[i].check, rows[i].subject), "fail", "%s",
				 rows[i].check);
		cr_expect_eq(json_count(after, "errors"), 1, "%s", rows[i].check);
		expect_others_same(before, after, rows[i].check);
		json_decref(before);
		json_decref(after);
		json_decref(replies);
	}
}

/* What netlink reported of a link. */
Test(audit, link_details)
{
	static const struct audit_options options = {.root = ""};
	static const char *const ids[] = {"nic.fec", "nic.temperature", "roce.pause"};

	for (int state = 0; state < 3; state++) { /* unknown, good, bad */
		static const char *const wanted[] = {"unknown", "pass", "fail"};
		struct audit_run run = {
			.options = &options, .results = json_array(), .nic_count = 1};
		struct audit_nic *nic = &run.nics[0];

		strcpy(nic->subject, "mlx5_0:1");
		nic->roce = true;
		link_details_clear(&nic->link);
		if (state) {
			nic->link.fec_uncorrectable = state == 2 ? 7 : 0;
			nic->link.temperature_mc = state == 2 ? 86000 : 61000;
			nic->link.pause_rx = state == 2 ? 10 : 0;
			nic->link.priority_rx[3] = 5;
		}
		for (size_t i = 0; i < 3; i++) {
			run.check = audit_named(ids[i]);
			cr_assert(run.check, "%s", ids[i]);
			run.check->run(&run);
			cr_expect_str_eq(json_text(json_array_get(run.results, i), "result"),
					 wanted[state], "%s", ids[i]);
		}
		json_decref(run.results);
	}
}

/* Every check has a row above that passes and one that fails, or is compared between hosts. */
Test(audit, every_check_is_tested)
{
	static const char *const others[] = {
		"clock.synced",
		"clock.bound",
		"clock.key",
		"frontend.link",
		"frontend.connectivity",
		"backend.connectivity",
		"backend.initialized",
		"backend.link",
		"backend.flaps",
		"nic.fec",
		"nic.temperature",
		"roce.pause", /* the tests above */
		"pcie.request",
		"software.queue_pairs",
		"nic.count",
		"nic.names",
		"nic.guid",
		"nic.address", /* merged, below */
		"fabric.pairs",
		"fabric.loss",
		"fabric.mtu",
		"fabric.latency",
		"fabric.asymmetry", /* test_audit_fabric */
		"topology.uplinks", /* test_audit_uplinks */
	};
	const struct audit_check *check = NULL;

	while ((check = audit_next(check))) {
		/* test_audit_ring, test_audit_nccl, test_audit_subnet */
		bool found = !strcmp(check->group, AUDIT_RING) ||
			     !strcmp(check->group, AUDIT_NCCL) ||
			     !strcmp(check->group, AUDIT_SUBNET);

		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
			found |= !strcmp(check->id, others[i]);
		for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
			found |= !strcmp(check->id, changes[i].check) &&
				 !strcmp(changes[i].result, "fail");
		cr_expect(found, "%s", check->id);
		cr_expect(check->name && check->source && check->criterion && check->remedy &&
				  check->unknown && check->severity && check->group,
			  "%s", check->id);
	}
}

/* --- broken trees --- */

static void expect_sane(const json_t *report, const char *why)
{
	char *text = json_dumps(report, 0);
	const json_t *entry;
	size_t i;

	cr_expect(text, "%s: not JSON", why);
	free(text);
	json_array_foreach (json_object_get(report, "results"), i, entry)
		cr_expect(audit_named(json_text(entry, "check")), "%s", why);
}

/* What is missing makes nothing a pass. */
static void expect_no_new_pass(const json_t *before, const json_t *after, const char *missing)
{
	const json_t *entry;
	size_t i;

	json_array_foreach (json_object_get(after, "results"), i, entry)
		cr_expect(strcmp(json_text(entry, "result"), "pass") ||
				  !strcmp(result_of(before, json_text(entry, "check"),
						    json_text(entry, "subject")),
					  "pass"),
			  "without %s %s passes", missing, json_text(entry, "check"));
}

/* Each file in turn is missing, empty, a directory, 0xff bytes, very long. */
Test(audit, broken_files, .fini = clean, .timeout = 60)
{
	static const char *const flavors[] = {"irdma", "mlx5-infiniband"};
	static char longest[70000];

	memset(longest, '9', sizeof(longest) - 1);
	for (size_t f = 0; f < sizeof(flavors) / sizeof(flavors[0]); f++) {
		json_t *good, *replies = good_replies("eth0");

		unpack(flavors[f]);
		good = run(NULL, replies);
		for (size_t i = 0; i < line_count; i++) {
			const char *const broken[] = {NULL, "", "\xff\xfe\x80", "-", longest};

			for (size_t b = 0; b < sizeof(broken) / sizeof(broken[0]); b++) {
				json_t *report;

				put(lines[i], broken[b]);
				report = run(NULL, replies);
				expect_sane(report, lines[i]);
				if (!broken[b])
					expect_no_new_pass(good, report, lines[i]);
				/*
				 * A file of sysfs that is missing is unknown, and no fault; but an
				 * empty slot of a GID table looks like that.
				 */
				if (!broken[b] && !strncmp(lines[i], "sys/", 4) &&
				    !strstr(lines[i], "/gid"))
					cr_expect_eq(json_count(report, "errors"), 0, "%s missing",
						     lines[i]);
				json_decref(report);
			}
			restore(lines[i]);
		}
		json_decref(good);
		json_decref(replies);
	}
}

/* --- the operator's file --- */

Test(audit, waivers_and_off, .fini = clean)
{
	json_t *expect = json_pack("{s:{s:s}, s:[s]}", "waive", "pcie.width/mlx5_1", "x8 slot",
				   "off", "software.nccl");
	json_t *report;

	unpack("mlx5-roce");
	put(D "0000:3c:00.0/current_link_width", "8");
	put("etc/nccl.conf", "NCCL_IB_HCA=mlx5_9");
	report = run(expect, NULL);
	cr_expect_str_eq(result_of(report, "pcie.width", "mlx5_1"), "waived");
	cr_expect_str_eq(result_of(report, "pcie.width", "mlx5_0"), "pass");
	cr_expect_str_eq(result_of(report, "software.nccl", ""), "absent");
	cr_expect_eq(json_count(report, "errors"), 0);
	cr_expect_eq(json_count(report, "waived"), 1);
	json_decref(report);
	json_decref(expect);
}

/* One file for all hosts: a host's own values go before those of all. */
Test(audit, values_of_hosts, .fini = clean)
{
	static const char *const hosts[] = {"node1", "node2"}, *const results[] = {"pass", "fail"};
	char *error = NULL;

	unpack("irdma");
	put("proc/sys/kernel/hostname", "node1");
	for (size_t i = 0; i < 2; i++) {
		json_t *expect = json_pack("{s:{s:{s:s}}, s:{s:s}}", "of_hosts", hosts[i],
					   "nic.neighbor/irdma0:1", "leaf1 Ethernet12", "values",
					   "nic.neighbor/irdma0:1", "leaf9 Ethernet12");
		json_t *report;

		cr_assert_eq(audit_expect_check(expect, &error), 0, "%s", error);
		report = run(expect, NULL);
		cr_expect_str_eq(result_of(report, "nic.neighbor", "irdma0:1"), results[i]);
		json_decref(report);
		json_decref(expect);
	}
}

Test(audit, bad_expectations)
{
	static const char *const rows[][2] = {
		{"[]", "should be an object"},
		{"{\"value\": {}}", "unknown key `value`"},
		{"{\"values\": {\"nic.firmwares\": \"1\"}}", "did you mean `nic.firmware`"},
		{"{\"values\": {\"nic.firmware\": 1}}", "in quotes"},
		{"{\"of_hosts\": {\"n1\": {\"nic.neighbors\": \"x\"}}}",
		 "did you mean `nic.neighbor`"},
		{"{\"of_hosts\": {\"n1\": \"x\"}}", "should be an object"},
		{"{\"of_hosts\": []}", "should be an object"},
		{"{\"waive\": []}", "should be an object"},
		{"{\"off\": [1]}", "a list of checks"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *expect = json_loads(rows[i][0], 0, NULL);
		char *error = NULL;

		cr_expect_eq(audit_expect_check(expect, &error), -EINVAL, "%s", rows[i][0]);
		cr_expect(error && strstr(error, rows[i][1]), "%s: %s", rows[i][0], error);
		free(error);
		json_decref(expect);
	}
}

/* --- many hosts --- */

static json_t *host_report(const char *name, const char *change, const char *content)
{
	char address[64];

	unpack("mlx5-roce");
	put("proc/sys/kernel/hostname", name);
	for (int i = 0; i < 2; i++) {
		char path[128];

		snprintf(path, sizeof(path), P "mlx5_%d/ports/1/gids/3", i);
		snprintf(address, sizeof(address), "0000:0000:0000:0000:0000:ffff:0a0%d:00%02x",
			 i + 1, (unsigned int)name[strlen(name) - 1]);
		put(path, address);
		snprintf(path, sizeof(path), P "mlx5_%d/node_guid", i);
		snprintf(address, sizeof(address), "946d:ae03:00%02x:%04x",
			 (unsigned int)name[strlen(name) - 1], (unsigned int)i);
		put(path, address);
	}
	if (change)
		put(change, content);
	return run(NULL, NULL);
}

static const json_t *only_error(const json_t *merged)
{
	const json_t *entry, *found = NULL;
	size_t i;

	cr_expect_eq(json_count(merged, "errors"), 1, "%d errors",
		     (int)json_count(merged, "errors"));
	json_array_foreach (json_object_get(merged, "results"), i, entry)
		if (!strcmp(json_text(entry, "result"), "fail"))
			found = entry;
	return found;
}

/* One of four hosts deviates: it is named with its NIC, and no other is. */
Test(audit, merge_finds_the_host, .fini = clean)
{
	static const struct {
		const char *path, *content, *check, *subject, *expected;
	} rows[] = {
		{P "mlx5_1/fw_ver", "28.37.1014", "nic.firmware", "mlx5_1:1", "28.39.1002"},
		{"sys/class/net/eth2/mtu", "1500", "roce.mtu", "mlx5_0:1", "9000"},
		{P "mlx5_0/ports/1/gid_attrs/types/2", "RoCE v2", "roce.gid_same", "mlx5_0:1", "3"},
		{D "0000:1a:00.0/config", CONFIG_READS_512, "pcie.request", "mlx5_0",
		 "reads 4096, payload 512 bytes"},
		{P "mlx5_1/ports/1/gid_attrs/ndevs/0", "ens9", "nic.names", "mlx5_1:1",
		 "0000:3c:00.0 mlx5_1 eth3"},
		{"proc/sys/kernel/osrelease", "6.1.0", "software.kernel", "", "6.8.0-1015"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *reports = json_array(), *merged;
		const json_t *error;

		json_array_append_new(reports, host_report("node4", rows[i].path, rows[i].content));
		json_array_append_new(reports, host_report("node1", NULL, NULL));
		json_array_append_new(reports, host_report("node2", NULL, NULL));
		json_array_append_new(reports, host_report("node3", NULL, NULL));
		merged = audit_merge(reports, NULL, NULL);
		cr_assert(merged);
		error = only_error(merged);
		cr_expect_str_eq(json_text(error, "host"), "node4", "%s", rows[i].check);
		cr_expect_str_eq(json_text(error, "check"), rows[i].check);
		cr_expect_str_eq(json_text(error, "subject"), rows[i].subject);
		cr_expect_str_eq(json_text(error, "expected"), rows[i].expected);
		cr_expect(*json_text(error, "remedy"));
		json_decref(merged);
		json_decref(reports);
	}
}

/* A port that one host lacks, and the overview of NICs after a comparison. */
Test(audit, merge_counts_ports, .fini = clean)
{
	json_t *reports = json_array(), *merged, *less;
	const json_t *row;
	size_t i;

	for (char name[] = "node1"; name[4] <= '3'; name[4]++)
		json_array_append_new(reports,
				      host_report(name, P "mlx5_0/fw_ver",
						  name[4] == '2' ? "28.37" : "28.39.1002"));
	merged = audit_merge(reports, NULL, NULL);
	json_array_foreach (json_object_get(merged, "nics"), i, row)
		cr_expect_str_eq(json_text(row, "status"),
				 i == 2 ? "fail"
					: "unknown", /* node2's mlx5_0; netlink is not read */
				 "%s %s", json_text(row, "host"), json_text(row, "nic"));
	json_decref(merged);
	less = json_deep_copy(json_array_get(reports, 0));
	json_object_set_new(less, "host", json_string("node4"));
	json_array_foreach (json_object_get(less, "results"), i, row)
		if (!strcmp(json_text(row, "check"), "nic.count"))
			json_object_set_new((json_t *)row, "value", json_string("1"));
	json_array_append_new(reports, less);
	merged = audit_merge(reports, NULL, NULL);
	cr_expect_str_eq(result_of(merged, "nic.count", ""), "pass");
	json_array_foreach (json_object_get(merged, "results"), i, row)
		if (!strcmp(json_text(row, "check"), "nic.count"))
			cr_expect_str_eq(json_text(row, "result"),
					 strcmp(json_text(row, "host"), "node4") ? "pass" : "fail");
	json_decref(merged);
	json_decref(reports);
}

static const char *status_of(const json_t *report, const char *host, const char *nic)
{
	const json_t *row;
	size_t i;

	json_array_foreach (json_object_get(report, "nics"), i, row)
		if (!strcmp(json_text(row, "nic"), nic) &&
		    (!host || !strcmp(json_text(row, "host"), host)))
			return json_text(row, "status");
	return "absent";
}

/* Checks of the device (pcie.*) and of the network device (backend.flaps) are of the NIC too. */
Test(audit, overview_has_all_of_a_nic, .fini = clean)
{
	json_t *replies = good_replies("eth3"), *reports = json_array(), *report;
	json_t *link =
		json_array_get(json_object_get(json_object_get(replies, "links"), "links"), 0);

	unpack("mlx5-roce");
	report = run(NULL, NULL);
	cr_expect_str_eq(status_of(report, NULL, "mlx5_1:1"), "unknown"); /* FEC of a tree */
	json_decref(report);
	put(D "0000:3c:00.0/current_link_width", "8");
	report = run(NULL, NULL);
	cr_expect_str_eq(status_of(report, NULL, "mlx5_1:1"), "fail");
	cr_expect_str_eq(status_of(report, NULL, "mlx5_0:1"), "unknown");
	json_decref(report);
	restore(D "0000:3c:00.0/current_link_width");
	json_object_set_new(link, "alarm", json_pack("{s:s}", "kind", "flapping"));
	report = run(NULL, replies);
	cr_expect_str_eq(status_of(report, NULL, "mlx5_1:1"), "fail");
	json_decref(report);
	json_decref(replies);
	json_array_append_new(reports, host_report("node1", D "0000:1a:00.0/numa_node", "1"));
	json_array_append_new(reports, host_report("node2", NULL, NULL));
	json_array_append_new(reports, host_report("node3", NULL, NULL));
	report = audit_merge(reports, NULL, NULL);
	cr_expect_str_eq(status_of(report, "node1", "mlx5_0:1"), "fail");
	cr_expect_str_eq(status_of(report, "node1", "mlx5_1:1"), "unknown");
	cr_expect_str_eq(status_of(report, "node2", "mlx5_0:1"), "unknown");
	json_decref(report);
	json_decref(reports);
}

Test(audit, merge_needs_a_majority, .fini = clean)
{
	json_t *reports = json_array(), *hosts = json_pack("[s, s, s]", "node1", "node2", "node3");
	json_t *merged;

	json_array_append_new(reports, host_report("node1", "proc/sys/kernel/osrelease", "6.1.0"));
	json_array_append_new(reports, host_report("node2", NULL, NULL));
	merged = audit_merge(reports, hosts, NULL);
	cr_expect_str_eq(json_text(only_error(merged), "host"), "node3"); /* it is silent */
	cr_expect_str_eq(result_of(merged, "software.kernel", ""), "unknown");
	json_decref(merged);
	json_array_append_new(reports, host_report("node3", "proc/sys/kernel/osrelease", "6.6.0"));
	merged = audit_merge(reports, hosts, NULL);
	cr_expect_str_eq(result_of(merged, "software.kernel", ""), "unknown");
	cr_expect_eq(json_count(merged, "errors"), 0);
	json_decref(merged);
	json_decref(hosts);
	json_decref(reports);
}

/* The same address or GUID on two hosts is an error of both. */
Test(audit, merge_finds_duplicates, .fini = clean)
{
	static const struct {
		const char *path, *text, *check;
	} rows[] = {
		{P "mlx5_0/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:0a01:0031",
		 "nic.address"},
		{P "mlx5_0/node_guid", "946d:ae03:0031:0000", "nic.guid"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *reports = json_array(), *merged;

		json_array_append_new(reports, host_report("node1", NULL, NULL));
		json_array_append_new(reports, host_report("node2", rows[i].path, rows[i].text));
		json_array_append_new(reports, host_report("node3", NULL, NULL));
		merged = audit_merge(reports, NULL, NULL);
		cr_expect_eq(json_count(merged, "errors"), 2, "%d",
			     (int)json_count(merged, "errors"));
		cr_expect_str_eq(result_of(merged, rows[i].check, "mlx5_0:1"), "fail");
		json_decref(merged);
		json_decref(reports);
	}
}

Test(audit, merge_refuses, .fini = clean)
{
	static const char *const rows[][2] = {
		{"[{}]", "no audit report"},
		{"[{\"results\": [], \"version\": 9}]", "the same release"},
		{"[{\"results\": [], \"version\": 1}]", "without `host`"},
		{"[{\"results\": [{}], \"version\": 1, \"host\": \"a\"}]", "result 1 of a"},
		{"[3]", "no audit report"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *reports = json_loads(rows[i][0], 0, NULL);
		char *error = NULL;

		cr_expect_null(audit_merge(reports, NULL, &error), "%s", rows[i][0]);
		cr_expect(error && strstr(error, rows[i][1]), "%s: %s", rows[i][0], error);
		free(error);
		json_decref(reports);
	}
}

Test(audit, diff, .fini = clean)
{
	json_t *before = host_report("node1", NULL, NULL), *after, *changed;
	const json_t *list;

	after = host_report("node1", P "mlx5_1/ports/1/state", "1: DOWN");
	changed = audit_diff(before, after, NULL);
	cr_assert(changed);
	list = json_object_get(changed, "changes");
	cr_expect_eq(json_count(changed, "errors"), 1);
	cr_expect_str_eq(json_text(json_array_get(list, 0), "check"), "nic.active");
	cr_expect_str_eq(json_text(json_array_get(list, 0), "after"), "fail");
	json_decref(changed);
	changed = audit_diff(before, before, NULL);
	cr_expect_eq(json_array_size(json_object_get(changed, "changes")), 0);
	json_decref(changed);
	json_decref(before);
	json_decref(after);
}
