// SPDX-License-Identifier: BSD-2-Clause
/* The all-reduce of a host's GPUs by nccl-tests: what its output means. */
#include "audit_tree.h"

static json_t *nccl_report(void)
{
	struct audit_options options = {.root = root, .nccl = true, .only = "nccl"};

	return audit_local(&options);
}

/* What all_reduce_perf prints. */
#define NCCL(wrong, bandwidth)                                                                     \
	"# nThread 1 nGpus 8 minBytes 134217728 maxBytes 134217728 step: 1048576(bytes)\n"         \
	"#       size         count      type   redop    root     time   algbw   busbw #wrong\n"   \
	"   134217728      33554432     float     sum      -1   1011.8  132.65  232.14      0\n"   \
	"# Out of bounds values : " wrong "\n# Avg bus bandwidth    : " bandwidth "\n#"

Test(audit_nccl, output_of_all_reduce_perf, .fini = clean)
{
	static const struct {
		const char *output, *result;
	} rows[] = {
		{NCCL("0 OK", "231.787"), "recorded"},
		{NCCL("3 FAILED", "231.787"), "fail"},
		{NCCL("0 OK", "0"), "unknown"}, /* of one GPU */
		{NCCL("0 OK", "nan"), "unknown"},
		{NCCL("0 OK", "inf"), "unknown"},
		{NCCL("0 OK", ""), "unknown"},
		{"# Avg bus bandwidth    : 231.787", "unknown"},
		{"# Out of bounds values", "unknown"},
		{"# Out of bounds values :", "unknown"},
		{"", "unknown"},
	};
	json_t *report;

	unpack("mlx5-roce");
	put("command/all_reduce_perf", rows[0].output);
	report = nccl_report();
	cr_expect_str_eq(result_of(report, "nccl.all_reduce", ""), "unknown", "one GPU");
	json_decref(report);
	put("sys/bus/pci/devices/0000:9b:00.0/class", "0x030200");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put("command/all_reduce_perf", rows[i].output);
		report = nccl_report();
		cr_expect_str_eq(result_of(report, "nccl.all_reduce", ""), rows[i].result, "%s",
				 rows[i].output);
		json_decref(report);
	}
	report = run(NULL, NULL);
	cr_expect_str_eq(result_of(report, "nccl.all_reduce", ""), "absent", "not asked for");
	json_decref(report);
}
