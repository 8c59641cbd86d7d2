// SPDX-License-Identifier: BSD-2-Clause
/* An all-reduce of this host's GPUs by nccl-tests (or rccl-tests), where they are installed. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/json.h"
#include "internal.h"

#define TOOL "all_reduce_perf"
#define WRONG "# Out of bounds values"
#define BANDWIDTH "# Avg bus bandwidth"

/* What is behind the colon of the line that begins with @key; NULL: there is none. */
static const char *value_of(const char *text, const char *key)
{
	const char *at = text ? strstr(text, key) : NULL;
	size_t line = at ? strcspn(at, "\n") : 0;
	const char *colon = at ? memchr(at, ':', line) : NULL;

	return colon ? colon + 1 : NULL;
}

static void judge(struct audit_run *run, const struct child *child, size_t gpus)
{
	const char *wrong = value_of(child->text, WRONG);
	const char *bandwidth = value_of(child->text, BANDWIDTH);
	/* It prints GB/s. */
	double gbps = bandwidth ? strtod(bandwidth, NULL) * 8 : 0;

	if (child->status)
		audit_fail(run, "", "%s",
			   child->complaint[0] ? child->complaint : "it failed without a message");
	else if (wrong && strtoull(wrong, NULL, 10))
		audit_fail(run, "", "%llu values of the result are wrong",
			   strtoull(wrong, NULL, 10));
	else if (!wrong || !isfinite(gbps) || gbps <= 0)
		audit_unknown(run, "", "its output is not understood");
	else {
		audit_record(run, "", "%.1f Gbit/s of %zu GPUs", gbps, gpus);
		json_put_real(json_array_get(run->results, json_array_size(run->results) - 1),
			      "gbps", gbps);
	}
}

static void all_reduce(struct audit_run *run)
{
	size_t gpus = audit_gpus(run);
	char count[24];
	const char *argv[] = {TOOL, "-b", "128M", "-e", "128M", "-w",  "5",
			      "-n", "20", "-c",	  "1",	"-g",	count, NULL};
	struct child child = {};

	snprintf(count, sizeof(count), "%zu", gpus);
	if (gpus < 2)
		audit_unknown(run, "", "there are fewer than two GPUs");
	else if (audit_command(run, argv, &child) == -ENOENT)
		audit_unknown(run, "", "%s",
			      run->options->root[0] ? "the tree has no command/" TOOL
						    : "nccl-tests are not installed");
	else if (child.status < 0)
		audit_unknown(run, "", TOOL ": %s", child.complaint);
	else
		judge(run, &child, gpus);
	child_clear(&child);
}

/* clang-format off: a table */

const struct audit_check audit_nccl_checks[] = {
	{"nccl.all_reduce", .group = AUDIT_NCCL, .name = "all-reduce of the host's GPUs",
	 .compare = AUDIT_MEDIAN, .source = TOOL " of nccl-tests",
	 .criterion = "right values, and at least 95% of the median of all hosts",
	 .remedy = "see `nvidia-smi topo -m` and the kernel's log: a link of a GPU, its PCIe "
		   "width, or ACS",
	 .unknown = "not asked for, nccl-tests are not installed, or there are fewer than two GPUs",
	 .severity = "critical", .run = all_reduce},
	{},
};
