// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tracing of queue pairs on this kernel: it attaches, or reports in one
 * sentence why it cannot be had. What it traces is for tests/vm.
 */
#define TAP_PLAN 3

#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <errno.h>

#include "maps/maps.h"
#include "qp/internal.h"
#include "tests/lib/tap.h"

static bool is_sentence(const char *why)
{
	return strlen(why) > 20 && !strchr(why, '\n') && strchr(why, ' ');
}

static void test_open(int control, int owners)
{
	struct qptrace *trace;
	char why[256];
	int err = qptrace_open(&trace, QPTRACE_NONE, control, owners, why, sizeof(why));

	printf("# %s%s\n", err ? "absent: " : qptrace_how_name(qptrace_how(trace)), why);
	if (err) {
		tap_ok(!trace && is_sentence(why), "absent, with one sentence (%s)",
		       strerror(-err));
		tap_ok(qptrace_how(trace) == QPTRACE_NONE && !qptrace_refused(trace),
		       "what is absent reports it");
	} else {
		tap_ok(qptrace_how(trace) != QPTRACE_NONE && !why[0], "attached, without an error");
		tap_ok(!qptrace_refused(trace), "nothing is refused yet");
	}
	qptrace_close(trace);
}

int main(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, mapped, .map_flags = BPF_F_MMAPABLE);
	int control = bpf_map_create(BPF_MAP_TYPE_ARRAY, "control", 4, sizeof(struct esc_control),
				     1, &mapped);
	int owners = bpf_map_create(BPF_MAP_TYPE_HASH, "qp_owners", sizeof(struct esc_owner_key),
				    sizeof(struct esc_owner), ESC_OWNERS_MAX, NULL);
	struct qptrace *trace;
	char why[224];
	bool tried;

	if (control < 0 || owners < 0)
		return tap_bail("maps cannot be made");
	test_open(control, owners);
	tried = !qptrace_open(&trace, QPTRACE_NONE, -1, -1, why, sizeof(why));
	tap_ok(tried ? !why[0] : is_sentence(why), "with maps of its own the same");
	if (tried)
		qptrace_close(trace);
	close(control);
	close(owners);
	return tap_end();
}
