// SPDX-License-Identifier: BSD-2-Clause
/* The tracing programs on the kernel's modify-QP path, from load to detach. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "internal.h"
#include "qp_trace.skel.h"

#define QPTRACE_MODULE "ib_core"

struct qptrace {
	struct qp_trace *skeleton;
	enum qptrace_how how;
};

const char *qptrace_how_name(enum qptrace_how how)
{
	static const char *const names[] = {
		[QPTRACE_NONE] = "none",
		[QPTRACE_FENTRY] = "fentry",
		[QPTRACE_KPROBE] = "kprobe",
	};

	return names[how];
}

static int qptrace_attach(struct qptrace *trace, enum qptrace_how how, int control_fd,
			  int owners_fd)
{
	const struct bpfmap_use uses[] = {
		{"control", control_fd},
		{"qp_owners", owners_fd},
		{how == QPTRACE_KPROBE ? "qp_calls" : NULL, -1},
		{},
	};
	struct qp_trace *skeleton = qp_trace__open();
	bool fentry = how == QPTRACE_FENTRY;
	int err;

	if (!skeleton)
		return -errno;
	bpf_program__set_autoload(skeleton->progs.esc_qp_modify, fentry);
	bpf_program__set_autoload(skeleton->progs.esc_qp_destroy, fentry);
	bpf_program__set_autoload(skeleton->progs.esc_qp_mod_in, !fentry);
	bpf_program__set_autoload(skeleton->progs.esc_qp_mod_out, !fentry);
	bpf_program__set_autoload(skeleton->progs.esc_qp_gone, !fentry);
	bpflog_clear();
	err = bpfmap_share(skeleton->obj, uses);
	if (!err)
		err = qp_trace__load(skeleton);
	if (!err)
		err = qp_trace__attach(skeleton);
	if (err) {
		qp_trace__destroy(skeleton);
		return err;
	}
	trace->skeleton = skeleton;
	trace->how = how;
	return 0;
}

static const char *qptrace_reason(int err)
{
	if (err == -EPERM)
		return "forbidden (lockdown, a security module or a missing capability)";
	if (err == -ENOENT || err == -ESRCH)
		return "the kernel has it not, or not under this name";
	if (err == -EINVAL)
		return "the program is refused, as under lockdown's confidentiality";
	return strerror(-err);
}

int qptrace_open(struct qptrace **out, enum qptrace_how how, int control_fd, int owners_fd,
		 char *why, size_t why_bytes)
{
	struct qptrace *trace;
	int fentry = 0, kprobe = 0;

	*out = NULL;
	why[0] = '\0';
	bpflog_install();
	/* As a module it has a folder; built in, it may not, but then it has its class. */
	if (access("/sys/module/" QPTRACE_MODULE, F_OK) && access("/sys/class/infiniband", F_OK)) {
		snprintf(why, why_bytes,
			 "the kernel's RDMA core (" QPTRACE_MODULE ") is not loaded: this host has "
			 "no RDMA device of its own");
		return -ENODEV;
	}
	trace = calloc(1, sizeof(*trace));
	if (!trace)
		return -ENOMEM;
	if (how != QPTRACE_KPROBE)
		fentry = qptrace_attach(trace, QPTRACE_FENTRY, control_fd, owners_fd);
	if (how == QPTRACE_KPROBE || (fentry && how == QPTRACE_NONE))
		kprobe = qptrace_attach(trace, QPTRACE_KPROBE, control_fd, owners_fd);
	if (trace->skeleton) {
		*out = trace;
		return 0;
	}
	free(trace);
	snprintf(why, why_bytes,
		 "the kernel does not let its modify-QP path be traced (fentry: %s; kprobe: %s)",
		 fentry ? qptrace_reason(fentry) : "not tried",
		 kprobe ? qptrace_reason(kprobe) : "not tried");
	return fentry ? fentry : kprobe;
}

void qptrace_close(struct qptrace *trace)
{
	if (!trace)
		return;
	qp_trace__destroy(trace->skeleton);
	free(trace);
}

enum qptrace_how qptrace_how(const struct qptrace *trace)
{
	return trace ? trace->how : QPTRACE_NONE;
}

uint64_t qptrace_refused(const struct qptrace *trace)
{
	return trace ? __atomic_load_n(&trace->skeleton->bss->esc_owners_refused, __ATOMIC_RELAXED)
		     : 0;
}

void qptrace_features(json_t *list)
{
	/* With maps of its own, and detached at once. */
	enum qptrace_how how = QPTRACE_NONE;
	struct qptrace *trace;
	char why[224];

	if (!qptrace_open(&trace, QPTRACE_NONE, -1, -1, why, sizeof(why))) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): opened */
		how = trace->how;
		qptrace_close(trace);
	}
	feature_add(
		list, "fentry", libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_TRACING, NULL) == 1, "",
		"without fentry programs queue pairs are not tied to processes by the cheap way");
	feature_add(list, "kprobe", !access("/sys/bus/event_source/devices/kprobe/type", R_OK), "",
		    "without kprobes there is no second way to tie queue pairs to processes");
	feature_add(list, "qp_tracing", how != QPTRACE_NONE,
		    how != QPTRACE_NONE ? qptrace_how_name(how) : why,
		    "without tracing only RDMA netlink shows the owner of a queue pair, by numbers "
		    "alone and late");
}
