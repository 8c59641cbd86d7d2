// SPDX-License-Identifier: BSD-2-Clause
#include "trace.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/feature.h"
#include "dataplane/dataplane.h"
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

/* As a module it has a folder; built in, it may not, but then it has its class. */
static bool qptrace_has_rdma(void)
{
	return !access("/sys/module/" QPTRACE_MODULE, F_OK) ||
	       !access("/sys/class/infiniband", F_OK);
}

static void qptrace_choose(struct qp_trace *skeleton, enum qptrace_how how)
{
	bool fentry = how == QPTRACE_FENTRY;

	bpf_program__set_autoload(skeleton->progs.esc_qp_modify, fentry);
	bpf_program__set_autoload(skeleton->progs.esc_qp_destroy, fentry);
	bpf_program__set_autoload(skeleton->progs.esc_qp_mod_in, !fentry);
	bpf_program__set_autoload(skeleton->progs.esc_qp_mod_out, !fentry);
	bpf_program__set_autoload(skeleton->progs.esc_qp_gone, !fentry);
}

/* The two maps that the programs use; the others of bpf/lib/maps.bpf.h are not made. */
static int qptrace_give_maps(struct qp_trace *skeleton, enum qptrace_how how, int control_fd,
			     int owners_fd)
{
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map (map, skeleton->obj) {
		bool used = bpf_map__is_internal(map) || map == skeleton->maps.control ||
			    map == skeleton->maps.qp_owners ||
			    (map == skeleton->maps.qp_calls && how == QPTRACE_KPROBE);

		if (!used)
			bpf_map__set_autocreate(map, false);
	}
	if (control_fd >= 0)
		err = bpf_map__reuse_fd(skeleton->maps.control, control_fd);
	if (!err && owners_fd >= 0)
		err = bpf_map__reuse_fd(skeleton->maps.qp_owners, owners_fd);
	return err;
}

static int qptrace_attach(struct qptrace *trace, enum qptrace_how how, int control_fd,
			  int owners_fd)
{
	int err;

	trace->skeleton = qp_trace__open();
	if (!trace->skeleton)
		return -errno;
	trace->how = how;
	qptrace_choose(trace->skeleton, how);
	bpflog_clear();
	err = qptrace_give_maps(trace->skeleton, how, control_fd, owners_fd);
	if (!err)
		err = qp_trace__load(trace->skeleton);
	if (!err)
		err = qp_trace__attach(trace->skeleton);
	if (err) {
		qp_trace__destroy(trace->skeleton);
		trace->skeleton = NULL;
	}
	return err;
}

static const char *qptrace_words(int err)
{
	if (err == -EPERM)
		return "forbidden (lockdown, a security module or a missing capability)";
	if (err == -ENOENT || err == -ESRCH)
		return "the kernel has it not, or not under this name";
	if (err == -EINVAL)
		return "the program is not taken, as under lockdown's confidentiality";
	return strerror(-err);
}

/* Tries @count ways; @errors gets what each said. */
static int qptrace_open_any(struct qptrace **out, const enum qptrace_how *ways, size_t count,
			    int control_fd, int owners_fd, int *errors)
{
	struct qptrace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		errors[i] = qptrace_attach(trace, ways[i], control_fd, owners_fd);
		if (!errors[i]) {
			*out = trace;
			return 0;
		}
	}
	free(trace);
	return errors[0];
}

int qptrace_open_by(struct qptrace **out, enum qptrace_how how, int control_fd, int owners_fd,
		    char *why, size_t why_bytes)
{
	int err, error = 0;

	*out = NULL;
	why[0] = '\0';
	bpflog_install();
	err = qptrace_open_any(out, &how, 1, control_fd, owners_fd, &error);
	if (err)
		snprintf(why, why_bytes, "%s: %s", qptrace_how_name(how), qptrace_words(err));
	return err;
}

int qptrace_open(struct qptrace **out, int control_fd, int owners_fd, char *why, size_t why_bytes)
{
	static const enum qptrace_how ways[] = {QPTRACE_FENTRY, QPTRACE_KPROBE};
	int err, errors[2] = {};

	*out = NULL;
	why[0] = '\0';
	bpflog_install();
	if (!qptrace_has_rdma()) {
		snprintf(why, why_bytes,
			 "the kernel's RDMA core (" QPTRACE_MODULE ") is not loaded: this host has "
			 "no RDMA device of its own");
		return -ENODEV;
	}
	err = qptrace_open_any(out, ways, 2, control_fd, owners_fd, errors);
	if (err)
		snprintf(why, why_bytes,
			 "the kernel does not let its modify-QP path be traced (fentry: %s; "
			 "kprobe: %s)",
			 qptrace_words(errors[0]), qptrace_words(errors[1]));
	return err;
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

enum qptrace_how qptrace_try(char *why, size_t why_bytes)
{
	struct qptrace *trace;
	enum qptrace_how how;

	if (qptrace_open(&trace, -1, -1, why, why_bytes))
		return QPTRACE_NONE;
	how = trace->how;
	qptrace_close(trace);
	return how;
}

void qptrace_features(json_t *list)
{
	char why[224];
	enum qptrace_how how = qptrace_try(why, sizeof(why));

	feature_add(
		list, "fentry", libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_TRACING, NULL) == 1, "",
		"without fentry programs queue pairs are not tied to processes by the cheap way");
	feature_add(list, "kprobe", !access("/sys/bus/event_source/devices/kprobe/type", R_OK), "",
		    "without kprobes there is no second way to tie queue pairs to processes");
	feature_add(list, "qp_tracing", how != QPTRACE_NONE,
		    how != QPTRACE_NONE ? qptrace_how_name(how) : why,
		    "without tracing only RDMA netlink tells whose a queue pair is, by numbers "
		    "alone and late");
}
