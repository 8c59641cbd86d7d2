// SPDX-License-Identifier: BSD-2-Clause
/* The kernel's log and the queue pairs of processes, as the audit judges them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "audit_tree.h"

static void put_log(const char *text)
{
	char record[1024];

	snprintf(record, sizeof(record), "6,0,0,-;Linux version\\n3,7,5000000,-;%s", text);
	put("dev/kmsg", record);
}

/* Messages as the kernel's sources have them, and those that look like them. */
Test(audit_log, messages_of_the_kernel, .fini = clean)
{
	static const struct {
		const char *text, *subject; /* NULL: no fault */
	} rows[] = {
		{"mlx5_core 0000:3c:00.0: poll_health:955:(pid 0): device's health compromised - "
		 "reached miss count",
		 "mlx5_1"},
		{"mlx5_core 0000:3c:00.0: print_health_info:425:(pid 912): Health issue observed, "
		 "firmware internal error, severity(3) ERROR:",
		 "mlx5_1"},
		{"mlx5_core 0000:1a:00.0: wait_func:1155:(pid 7): ENABLE_HCA(0x104) timeout. Will "
		 "cause a leak of a command resource",
		 "mlx5_0"},
		{"NETDEV WATCHDOG: eth3 (mlx5_core): transmit queue 3 timed out", "mlx5_1"},
		{"NETDEV WATCHDOG: eth33 (e1000e): transmit queue 0 timed out 5000 ms", ""},
		{"mlx5_core 0000:1a:00.0: Port module event[error]: module 0, Cable error, High "
		 "Temperature",
		 "mlx5_0"},
		{"mlx5_core 0000:1a:00.0: mlx5_pcie_event:299:(pid 2): Detected insufficient power "
		 "on the PCIe slot (27W).",
		 "mlx5_0"},
		{"mlx5_core 0000:1a:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), "
		 "type=Transaction Layer, (Receiver ID)",
		 "mlx5_0"},
		{"pcieport 0000:16:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), "
		 "type=Inaccessible",
		 ""},
		{"mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: be00000000800400", ""},
		{"{1}[Hardware Error]: event severity: fatal", ""},
		{"NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', GPU has fallen off the bus.",
		 ""},
		{"NVRM: Xid (PCI:0000:1b:00): 13, Graphics Exception", NULL},
		{"pcieport 0000:16:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
		 NULL},
		{"{1}[Hardware Error]: event severity: corrected", NULL},
		{"EDAC MC0: 12 CE memory read error on CPU_SrcID#0", NULL},
		{"EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0",
		 NULL},
	};

	unpack("mlx5-roce");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *report;

		put_log(rows[i].text);
		report = run(NULL, NULL);
		cr_expect_eq(json_count(report, "errors"), rows[i].subject != NULL, "%s",
			     rows[i].text);
		cr_expect_str_eq(
			result_of(report, "log.faults", rows[i].subject ? rows[i].subject : ""),
			rows[i].subject ? "fail" : "pass", "%s", rows[i].text);
		json_decref(report);
	}
}

/* 9 losses of a link within an hour are too many, 8 or as many in more than an hour are not. */
Test(audit_log, flaps_in_the_log, .fini = clean)
{
	static const struct {
		int losses;
		unsigned long long every_us;
		const char *result;
	} rows[] = {{8, 1000000, "absent"},
		    {9, 1000000, "fail"},
		    {9, 460000000, "absent"},
		    {30, 460000000, "absent"},
		    {9, 440000000, "fail"}};

	unpack("mlx5-roce");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char log[8192];
		size_t used = 0;
		json_t *report;

		for (int k = 0; k < rows[i].losses; k++)
			used += (size_t)snprintf(
				log + used, sizeof(log) - used,
				"6,%d,%llu,-;mlx5_core 0000:3c:00.0 eth3: Link down"
				"\\n",
				k, (k + 1) * rows[i].every_us);
		put("dev/kmsg", log);
		report = run(NULL, NULL);
		cr_expect_str_eq(result_of(report, "log.faults", "mlx5_1"), rows[i].result,
				 "row %zu", i);
		json_decref(report);
	}
}

/* Those of a job, of a service, of a login, and of a process that is gone. */
Test(audit_log, queue_pairs_of_no_job, .fini = clean)
{
	static const struct {
		const char *cgroup, *result;
	} rows[] = {
		{"0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "pass"},
		{"0::/system.slice/nfsd.service", "pass"},
		{"5:memory:/slurm/uid_1/job_7/step_0\n0::/", "pass"},
		{"0::/user.slice/user-1000.slice/session-3.scope", "fail"},
		{"0::/", "fail"},
		{NULL, "fail"},
	};
	struct rdmares_qp qps[] = {{.name = "mlx5_0", .qpn = 1, .kernel = "ib_core"},
				   {.name = "mlx5_0", .qpn = 101, .tid = 777}};
	struct rdmares list = {.qps = qps, .count = 2};

	unpack("mlx5-roce");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct audit_options options = {.root = root};
		struct audit_run of = {.options = &options,
				       .results = json_array(),
				       .check = audit_named("software.queue_pairs")};

		put("proc/777/cgroup", rows[i].cgroup);
		audit_judge_queue_pairs(&of, &list);
		cr_expect_str_eq(json_text(json_array_get(of.results, 0), "result"), rows[i].result,
				 "%s", rows[i].cgroup);
		json_decref(of.results);
	}
}
