// SPDX-License-Identifier: BSD-2-Clause
#include "attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "net/qdisc.h"
#include "net/rtnl.h"
#include "pins.h"

#define TCX_BEFORE (1u << 3) /* BPF_F_BEFORE of Linux 6.6: ahead of all that is there */

/* Ahead of the priorities that the kernel gives out (49152 and down). */
#define FILTER_PRIORITY 229
#define FILTER_HANDLE 0xe5ca

struct tc_hook {
	const char *name, *pin, *program;
	bool egress;
	enum bpf_attach_type tcx;
	enum bpf_tc_attach_point clsact;
};

/* In the order of attaching: ingress clones packets for egress to make receipts of. */
static const struct tc_hook tc_hooks[] = {
	{"egress", PINS_TC_EGRESS, ESC_PROGRAM_TC_EGRESS, true, TCX_EGRESS, BPF_TC_EGRESS},
	{"ingress", PINS_TC_INGRESS, ESC_PROGRAM_TC_INGRESS, false, TCX_INGRESS, BPF_TC_INGRESS},
};
#define TC_HOOKS 2

static int tc_fd(const struct object *object, const struct tc_hook *hook)
{
	return bpf_program__fd(hook->egress ? object->tc_egress : object->tc_ingress);
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

static bool tcx_is_pinned(const struct attach_target *target)
{
	return pins_has_link(target->pins, target->name, PINS_TC_EGRESS) ||
	       pins_has_link(target->pins, target->name, PINS_TC_INGRESS);
}

static void tcx_detach(const struct attach_target *target)
{
	pins_drop_link(target->pins, target->name, PINS_TC_INGRESS);
	pins_drop_link(target->pins, target->name, PINS_TC_EGRESS);
}

static int tcx_attach(const struct attach_target *target, const struct object *object,
		      struct esc_port *port, char **error)
{
	bool fresh = !tcx_is_pinned(target);
	int err = 0;

	for (size_t i = 0; !err && i < TC_HOOKS; i++) {
		const struct tc_hook *hook = &tc_hooks[i];
		struct pins_link link = {
			.interface = target->name,
			.ifindex = target->ifindex,
			.pin = hook->pin,
			.what = hook->egress ? "tcx egress" : "tcx ingress",
			.type = hook->tcx,
			.flags = TCX_BEFORE,
		};

		if (!tcx_is_here(target, hook))
			pins_drop_link(target->pins, target->name, hook->pin);
		err = pins_attach_link(target->pins, &link, tc_fd(object, hook), error);
	}
	if (err && fresh)
		tcx_detach(target);
	if (!err)
		port->tc_via = ESC_TC_TCX;
	return err;
}

/* --- clsact --- */

/* libbpf wants the padding to be zero too, which an initialiser does not promise. */
void clsact_hook(unsigned int ifindex, int point, struct bpf_tc_hook *out)
{
	memset(out, 0, sizeof(*out));
	out->sz = sizeof(*out);
	out->ifindex = (int)ifindex;
	out->attach_point = point;
}

/* Program id of the filter at our priority and handle, 0 when there is none. */
static uint32_t clsact_query(const struct attach_target *target, const struct tc_hook *hook)
{
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
	struct bpf_tc_hook where;

	clsact_hook(target->ifindex, hook->clsact, &where);
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
	clsact_hook(target->ifindex, BPF_TC_INGRESS | BPF_TC_EGRESS, &where);
	err = bpf_tc_hook_create(&where);
	if (!err)
		return 0;
	port->flags &= ~ESC_PORT_CLSACT_MADE;
	pins_write_port(target->pins, target->slot, port);
	if (err == -EEXIST)
		return 0;
	return explain(error, err, "clsact on %s: %s", target->name, strerror(-err));
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

		clsact_hook(target->ifindex, hook->clsact, &where);
		if (clsact_has_ours(target, hook))
			bpf_tc_detach(&where, &filter);
		if (rtnl_filters(target->ifindex, hook->egress, 0, &facts))
			others++; /* not known: the qdisc stays */
		others += facts.filters;
	}
	clsact_hook(target->ifindex, BPF_TC_INGRESS | BPF_TC_EGRESS, &where);
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
		uint32_t attached = clsact_query(target, hook);
		LIBBPF_OPTS(bpf_tc_opts, filter, .prog_fd = tc_fd(object, hook),
			    .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY,
			    .flags = attached ? BPF_TC_F_REPLACE : 0);
		struct bpf_tc_hook where;

		if (attached && !program_is_ours(target->pins, attached, hook->program)) {
			err = explain(error, -EBUSY,
				      "interface %s: the tc %s filter with priority %d and handle "
				      "0x%x belongs to another program; remove it, or set tc: tcx",
				      target->name, hook->name, FILTER_PRIORITY, FILTER_HANDLE);
			break;
		}
		clsact_hook(target->ifindex, hook->clsact, &where);
		err = bpf_tc_attach(&where, &filter);
		if (err)
			explain(error, err, "tc %s filter on %s: %s", hook->name, target->name,
				strerror(-err));
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
			 tc_hooks[i].name, facts.first, FILTER_PRIORITY);
		return;
	}
}

/* --- both --- */

int attach_tc(const struct attach_target *target, struct esc_port *port,
	      char note[ATTACH_NOTE_BYTES], char **error)
{
	struct object_constants constants = target->constants;
	bool clsact = clsact_is_ours(target);
	struct object *object;
	int err;

	note[0] = '\0';
	constants.rx_in_tc = port->xdp_mode == ESC_XDP_NONE;
	constants.tc_takes = port->xdp_mode != ESC_XDP_NATIVE;
	err = object_new(&object, OBJECT_TC, target->pins, &constants, error);
	if (err)
		return err;
	/* The other one, of an earlier configuration, goes first: packets pass without tc. */
	if (target->tc == CONFIG_TC_CLSACT && tcx_is_pinned(target))
		tcx_detach(target);
	if (target->tc == CONFIG_TC_TCX && clsact)
		clsact_detach(target, port);

	/* tcx unless the configuration, or what is attached already, is clsact. */
	err = -EINVAL;
	if (target->tc == CONFIG_TC_TCX || (target->tc == CONFIG_TC_AUTO && !clsact))
		err = tcx_attach(target, object, port, error);
	if (err == -EINVAL && target->tc == CONFIG_TC_TCX)
		explain(error, err,
			"interface %s: this kernel has no tcx (it came with 6.6); set tc: auto",
			target->name);
	else if (err == -EINVAL)
		err = clsact_attach(target, object, port, error);
	if (!err && port->tc_via == ESC_TC_CLSACT)
		clsact_note_order(target, note);
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
	struct xdp_attached xdp;

	note[0] = '\0';
	if (port->xdp_via == ESC_XDP_VIA_LINK && !xdp_query(target->ifindex, &xdp) &&
	    xdp.program_id != port->xdp_program_id) {
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
			tc_hooks[i].name);
		return;
	}
}
