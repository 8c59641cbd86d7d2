// SPDX-License-Identifier: BSD-2-Clause
#include "attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "object.h"
#include "pins.h"
#include "net/qdisc.h"
#include "net/rtnl.h"
#include "xdp_query.h"

/* linux/bpf.h of Debian 12 ends before these; include/uapi/linux/bpf.h of 6.6. */
#define TCX_INGRESS ((enum bpf_attach_type)46)
#define TCX_EGRESS ((enum bpf_attach_type)47)
#define TCX_BEFORE (1u << 3) /* BPF_F_BEFORE: ahead of all that is there */

/* Ahead of the priorities that the kernel gives out (49152 and down). */
#define FILTER_PRIORITY 229
#define FILTER_HANDLE 0xe5ca

struct tc_hook {
	bool egress;
	const char *pin;
	const char *program;
	enum bpf_attach_type tcx;
	enum bpf_tc_attach_point clsact;
	const char *word;
};

/* In the order of attaching: ingress clones packets for egress to make receipts of. */
static const struct tc_hook tc_hooks[] = {
	{true, PINS_TC_EGRESS, ESC_PROGRAM_TC_EGRESS, TCX_EGRESS, BPF_TC_EGRESS, "egress"},
	{false, PINS_TC_INGRESS, ESC_PROGRAM_TC_INGRESS, TCX_INGRESS, BPF_TC_INGRESS, "ingress"},
};
#define TC_HOOKS 2

static int tc_load(const struct attach_target *target, const struct esc_port *port,
		   struct object **out, char **error)
{
	struct object_constants constants = target->constants;

	constants.rx_in_tc = port->xdp_mode == ESC_XDP_NONE;
	constants.tc_takes = port->xdp_mode != ESC_XDP_NATIVE;
	return object_new(out, OBJECT_TC, target->pins, &constants, error);
}

/* --- tcx --- */

/* A link of our own is on this very interface: ifindexes repeat between namespaces. */
static bool tcx_is_here(const struct attach_target *target, const struct tc_hook *hook)
{
	__u32 ids[64], count = 64;

	if (bpf_prog_query(target->ifindex, hook->tcx, 0, NULL, ids, &count))
		return false;
	for (__u32 i = 0; i < count; i++)
		if (program_is_ours(target->pins, ids[i], hook->program))
			return true;
	return false;
}

static int tcx_create(const struct attach_target *target, const struct tc_hook *hook,
		      int program_fd, char **error)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = TCX_BEFORE);
	int link_fd = bpf_link_create(program_fd, target->ifindex, hook->tcx, &options);
	int err;

	if (link_fd < 0)
		return explain(error, link_fd, "tcx %s on %s: %s", hook->word, target->name,
			       strerror(-link_fd));
	err = pins_keep_link(target->pins, target->name, hook->pin, link_fd, error);
	close(link_fd);
	return err;
}

/* Replaces the program in the pinned link in one step, or makes the link. */
static int tcx_attach_hook(const struct attach_target *target, const struct tc_hook *hook,
			   int program_fd, char **error)
{
	int err, link_fd;

	link_fd = pins_open_link(target->pins, target->name, hook->pin, target->ifindex, error);
	if (link_fd >= 0 && !tcx_is_here(target, hook)) {
		close(link_fd);
		pins_drop_link(target->pins, target->name, hook->pin);
		link_fd = -ENOENT;
	}
	if (link_fd == -ENOENT)
		return tcx_create(target, hook, program_fd, error);
	if (link_fd < 0)
		return link_fd;
	err = bpf_link_update(link_fd, program_fd, NULL);
	if (err)
		explain(error, err, "the tcx %s program on %s cannot be replaced: %s", hook->word,
			target->name, strerror(-err));
	close(link_fd);
	return err;
}

static void tcx_detach(const struct attach_target *target)
{
	for (size_t i = TC_HOOKS; i-- > 0;)
		pins_drop_link(target->pins, target->name, tc_hooks[i].pin);
}

static bool tcx_is_pinned(const struct attach_target *target)
{
	char path[512];

	for (size_t i = 0; i < TC_HOOKS; i++) {
		pins_link_path(target->pins, target->name, tc_hooks[i].pin, path, sizeof(path));
		if (!access(path, F_OK))
			return true;
	}
	return false;
}

static int tcx_attach(const struct attach_target *target, const struct object *object,
		      struct esc_port *port, char **error)
{
	bool fresh = !tcx_is_pinned(target);

	for (size_t i = 0; i < TC_HOOKS; i++) {
		const struct tc_hook *hook = &tc_hooks[i];
		int err = tcx_attach_hook(target, hook, object_tc_fd(object, hook->egress), error);

		if (err) {
			if (fresh)
				tcx_detach(target);
			return err;
		}
	}
	port->tc_via = ESC_TC_TCX;
	return 0;
}

/* --- clsact --- */

/* libbpf wants the padding to be zero too, which an initialiser does not promise. */
static void clsact_hook(const struct attach_target *target, int point, struct bpf_tc_hook *out)
{
	memset(out, 0, sizeof(*out));
	out->sz = sizeof(*out);
	out->ifindex = target->ifindex;
	out->attach_point = point;
}

/* Program id of the filter at our priority and handle, 0 when there is none. */
static uint32_t clsact_query(const struct attach_target *target, const struct tc_hook *hook)
{
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
	struct bpf_tc_hook where;

	clsact_hook(target, hook->clsact, &where);
	return bpf_tc_query(&where, &filter) ? 0 : filter.prog_id;
}

/* Ours by place and by maps: a filter of another daemon's is not. */
static bool clsact_has_ours(const struct attach_target *target, const struct tc_hook *hook)
{
	return program_is_ours(target->pins, clsact_query(target, hook), hook->program);
}

static bool clsact_is_ours(const struct attach_target *target)
{
	return clsact_has_ours(target, &tc_hooks[0]) || clsact_has_ours(target, &tc_hooks[1]);
}

static int clsact_make_qdisc(const struct attach_target *target, struct esc_port *port,
			     char **error)
{
	struct bpf_tc_hook where;
	struct qdisc_facts facts;
	int err = qdisc_read(target->ifindex, &facts);

	if (err)
		return explain(error, err, "the qdiscs of %s cannot be read: %s", target->name,
			       strerror(-err));
	if (!strcmp(facts.ingress, "clsact"))
		return 0;
	if (facts.ingress[0])
		return explain(
			error, -EBUSY,
			"interface %s has an ingress qdisc of somebody else's, which has no "
			"egress side and leaves no room for clsact; replace it by clsact (`tc "
			"qdisc replace dev %s clsact`)",
			target->name, target->name);
	/* Written down first: a daemon that dies here still takes its qdisc away later. */
	port->flags |= ESC_PORT_CLSACT_MADE;
	pins_write_port(target->pins, target->slot, port);
	clsact_hook(target, BPF_TC_INGRESS | BPF_TC_EGRESS, &where);
	err = bpf_tc_hook_create(&where);
	if (!err)
		return 0;
	port->flags &= ~ESC_PORT_CLSACT_MADE;
	pins_write_port(target->pins, target->slot, port);
	if (err == -EEXIST)
		return 0;
	return explain(error, err, "clsact on %s: %s", target->name, strerror(-err));
}

static int clsact_attach_hook(const struct attach_target *target, const struct tc_hook *hook,
			      int program_fd, char **error)
{
	LIBBPF_OPTS(bpf_tc_opts, filter, .prog_fd = program_fd, .handle = FILTER_HANDLE,
		    .priority = FILTER_PRIORITY);
	uint32_t there = clsact_query(target, hook);
	struct bpf_tc_hook where;
	int err;

	if (there && !program_is_ours(target->pins, there, hook->program))
		return explain(error, -EBUSY,
			       "interface %s: the tc %s filter with priority %d and handle 0x%x is "
			       "somebody else's; remove it, or set tc: tcx",
			       target->name, hook->word, FILTER_PRIORITY, FILTER_HANDLE);
	if (there)
		filter.flags = BPF_TC_F_REPLACE;
	clsact_hook(target, hook->clsact, &where);
	err = bpf_tc_attach(&where, &filter);
	return err ? explain(error, err, "tc %s filter on %s: %s", hook->word, target->name,
			     strerror(-err))
		   : 0;
}

static void clsact_detach(const struct attach_target *target, struct esc_port *port)
{
	struct bpf_tc_hook where;
	unsigned int others = 0;

	for (size_t i = TC_HOOKS; i-- > 0;) {
		const struct tc_hook *hook = &tc_hooks[i];
		LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE,
			    .priority = FILTER_PRIORITY);
		struct filter_facts facts;

		clsact_hook(target, hook->clsact, &where);
		if (clsact_has_ours(target, hook))
			bpf_tc_detach(&where, &filter);
		if (rtnl_filters(target->ifindex, hook->egress, 0, &facts))
			others++; /* cannot be told: leave the qdisc */
		others += facts.filters;
	}
	clsact_hook(target, BPF_TC_INGRESS | BPF_TC_EGRESS, &where);
	if ((port->flags & ESC_PORT_CLSACT_MADE) && !others)
		bpf_tc_hook_destroy(&where);
	port->flags &= ~ESC_PORT_CLSACT_MADE;
}

static int clsact_attach(const struct attach_target *target, const struct object *object,
			 struct esc_port *port, char **error)
{
	bool fresh = !clsact_is_ours(target);
	int err = clsact_make_qdisc(target, port, error);

	for (size_t i = 0; !err && i < TC_HOOKS; i++) {
		const struct tc_hook *hook = &tc_hooks[i];

		err = clsact_attach_hook(target, hook, object_tc_fd(object, hook->egress), error);
	}
	if (err && fresh)
		clsact_detach(target, port);
	if (!err)
		port->tc_via = ESC_TC_CLSACT;
	return err;
}

/* A filter ahead of ours may end the chain before we see a packet. */
static void clsact_note_order(const struct attach_target *target, char *note)
{
	struct filter_facts facts;

	for (size_t i = 0; i < TC_HOOKS; i++) {
		if (rtnl_filters(target->ifindex, tc_hooks[i].egress, FILTER_PRIORITY, &facts) ||
		    !facts.filters || facts.first > FILTER_PRIORITY)
			continue;
		snprintf(note, ATTACH_NOTE_BYTES,
			 "a tc %s filter of somebody else's with priority %u runs ahead of ours "
			 "(%d); packets that it ends the chain for are not counted",
			 tc_hooks[i].word, facts.first, FILTER_PRIORITY);
		return;
	}
}

/* --- both --- */

/* Leaves the way that is not wanted any more; a moment without tc is the price. */
static void tc_leave_unwanted(const struct attach_target *target, struct esc_port *port)
{
	if (target->tc == CONFIG_TC_CLSACT && tcx_is_pinned(target))
		tcx_detach(target);
	if (target->tc == CONFIG_TC_TCX && clsact_is_ours(target))
		clsact_detach(target, port);
}

/* tcx unless the configuration, or what is there of ours, says clsact. */
static bool tc_tries_tcx(const struct attach_target *target)
{
	if (target->tc != CONFIG_TC_AUTO)
		return target->tc == CONFIG_TC_TCX;
	return !clsact_is_ours(target);
}

int attach_tc(const struct attach_target *target, struct esc_port *port,
	      char note[ATTACH_NOTE_BYTES], char **error)
{
	struct object *object;
	int err = tc_load(target, port, &object, error);

	note[0] = '\0';
	if (err)
		return err;
	tc_leave_unwanted(target, port);
	err = -EINVAL;
	if (tc_tries_tcx(target)) {
		err = tcx_attach(target, object, port, error);
		if (err == -EINVAL && target->tc == CONFIG_TC_TCX)
			explain(error, err,
				"interface %s: this kernel has no tcx (it came with 6.6); set tc: "
				"auto",
				target->name);
	}
	if (err == -EINVAL && target->tc != CONFIG_TC_TCX) {
		err = clsact_attach(target, object, port, error);
		if (!err)
			clsact_note_order(target, note);
	}
	object_close(object);
	return err;
}

void detach_tc(const struct attach_target *target, struct esc_port *port)
{
	tcx_detach(target);
	if ((port->flags & ESC_PORT_CLSACT_MADE) || clsact_is_ours(target))
		clsact_detach(target, port);
	port->tc_via = ESC_TC_NONE;
}

void attach_check(const struct attach_target *target, const struct esc_port *port,
		  char note[ATTACH_NOTE_BYTES])
{
	struct xdp_seen seen;

	note[0] = '\0';
	if (port->xdp_via == ESC_XDP_VIA_LINK && !xdp_query(target->ifindex, &seen) &&
	    seen.program_id != port->xdp_program_id) {
		snprintf(note, ATTACH_NOTE_BYTES,
			 "our XDP program was taken off by somebody else; restart to attach again");
		return;
	}
	for (size_t i = 0; i < TC_HOOKS; i++) {
		if (port->tc_via == ESC_TC_TCX ? tcx_is_here(target, &tc_hooks[i])
					       : clsact_has_ours(target, &tc_hooks[i]))
			continue;
		snprintf(
			note, ATTACH_NOTE_BYTES,
			"our tc %s program was taken off by somebody else; restart to attach again",
			tc_hooks[i].word);
		return;
	}
}
