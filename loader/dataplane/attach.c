// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/log.h"
#include "net/rtnl.h"

#define TCX_BEFORE (1u << 3) /* BPF_F_BEFORE of Linux 6.6: ahead of all that is there */

/* Ahead of the priorities that the kernel gives out (49152 and down). */
#define FILTER_PRIORITY 229
#define FILTER_HANDLE 0xe5ca

/* --- what is attached, and which of it is ours --- */

int program_info(uint32_t id, struct bpf_prog_info *info, uint32_t *map_ids)
{
	__u32 bytes = sizeof(*info);
	int fd = bpf_prog_get_fd_by_id(id);
	int err;

	if (fd < 0)
		return fd;
	memset(info, 0, sizeof(*info));
	info->nr_map_ids = PROGRAM_MAPS_MAX;
	info->map_ids = (__u64)(unsigned long)map_ids;
	err = bpf_obj_get_info_by_fd(fd, info, &bytes);
	close(fd);
	return err;
}

int xdp_query(const struct port *port, struct xdp_attached *out, char **error)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	uint32_t map_ids[PROGRAM_MAPS_MAX];
	struct bpf_prog_info info;
	int err = bpf_xdp_query(port->ifindex, 0, &query);

	memset(out, 0, sizeof(*out));
	if (err)
		return explain(error, err, "interface %s: %s", port->name, strerror(-err));
	if (query.drv_prog_id || query.hw_prog_id) {
		out->mode = ESC_XDP_NATIVE;
		out->program_id = query.drv_prog_id ? query.drv_prog_id : query.hw_prog_id;
	} else if (query.skb_prog_id) {
		out->mode = ESC_XDP_SKB;
		out->program_id = query.skb_prog_id;
	}
	if (out->program_id && !program_info(out->program_id, &info, map_ids))
		snprintf(out->name, sizeof(out->name), "%s", info.name);
	return 0;
}

bool program_is_ours(const struct pins *pins, uint32_t id, const char *name)
{
	const struct pinned_map *qps = pins_find(pins, "qps");
	uint32_t map_ids[PROGRAM_MAPS_MAX];
	struct bpf_prog_info info;
	bool ours = false;

	if (!id || program_info(id, &info, map_ids) || strcmp(info.name, name))
		return false;
	for (__u32 i = 0; i < info.nr_map_ids && i < PROGRAM_MAPS_MAX; i++) {
		ours = ours || (qps && map_ids[i] == qps->info.id);
		/* Of the release before, while it is replaced. */
		for (size_t j = 0; j < pins->old_count; j++)
			ours = ours || (!strcmp(pins->old[j].name, "qps") &&
					map_ids[i] == pins->old[j].info.id);
	}
	return ours;
}

/* --- XDP --- */

static bool mode_is_wanted(const struct port *port, enum esc_xdp_mode mode)
{
	return port->attach == CONFIG_ATTACH_AUTO ||
	       (port->attach == CONFIG_ATTACH_NATIVE) == (mode == ESC_XDP_NATIVE);
}

static void forget_xdp(struct esc_port *record)
{
	record->xdp_mode = ESC_XDP_NONE;
	record->xdp_via = ESC_XDP_VIA_NONE;
	record->xdp_program_id = 0;
	record->xdp_next_program_id = 0;
	record->offloads_taken = 0;
}

/*
 * An instance of the program into the pinned link, in one step, unless @running, which is in it, is
 * the same; or into one that is made.
 */
static int attach_link(struct port *port, enum esc_xdp_mode mode, uint32_t running, char **error)
{
	uint16_t turn = port->pins->control->xdp_handover[port->slot] & ~ESC_HANDOVER_PHASE;
	struct pins_link link = {
		.interface = port->name,
		.ifindex = port->ifindex,
		.pin = PINS_XDP,
		.what = "XDP",
		.type = BPF_XDP,
		.flags = mode == ESC_XDP_NATIVE ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE,
	};
	struct xdp_attached attached;
	struct object *object;
	int err = object_open(&object, OBJECT_XDP, port, turn, error);

	if (err)
		return err;
	if (!object_is_current(object, object->xdp, running)) {
		err = object_load(object, error);
		if (!err)
			err = pins_attach_link(port->pins, &link, bpf_program__fd(object->xdp),
					       error);
	}
	object_close(object);
	if (!err)
		err = xdp_query(port, &attached, error);
	if (err)
		return err;
	port->record.xdp_mode = attached.mode;
	port->record.xdp_via = ESC_XDP_VIA_LINK;
	port->record.xdp_program_id = attached.program_id;
	port->record.xdp_next_program_id = 0;
	return 0;
}

/* 1: done; 0: no such link, or not in a mode that is wanted, or of another namespace. */
static int take_over_link(struct port *port, char **error)
{
	int fd = pins_open_link(port->pins, port->name, PINS_XDP, port->ifindex, error), err;
	struct xdp_attached attached;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	close(fd);
	if (!xdp_query(port, &attached, NULL) &&
	    (!program_is_ours(port->pins, attached.program_id, ESC_PROGRAM_XDP) ||
	     !mode_is_wanted(port, attached.mode))) {
		pins_drop_link(port->pins, port->name, PINS_XDP);
		return 0;
	}
	err = attach_link(port, attached.mode, attached.program_id, error);
	return err ? err : 1;
}

static void explain_mode(struct port *port, enum esc_xdp_mode mode, int err, const char *detail)
{
	struct link_facts link = {0};
	char driver[32];

	ethtool_driver(port->name, driver, sizeof(driver));
	rtnl_link(port->name, &link);
	if (err == -EOPNOTSUPP && mode == ESC_XDP_NATIVE)
		snprintf(port->xdp_note, ATTACH_NOTE_BYTES, "driver %s has no native XDP", driver);
	else if ((err == -ERANGE || err == -EINVAL) && link.mtu > OFFLOAD_ONE_BUFFER_MTU)
		snprintf(port->xdp_note, ATTACH_NOTE_BYTES, "driver %s takes no %s XDP at MTU %u",
			 driver, xdp_mode_name(mode), link.mtu);
	else
		snprintf(port->xdp_note, ATTACH_NOTE_BYTES, "%s XDP is refused: %s",
			 xdp_mode_name(mode), detail ? detail : strerror(-err));
}

#define DRIVER_BYTES 32

static struct native_cost cost_of(const struct port *port, char driver[DRIVER_BYTES])
{
	ethtool_driver(port->name, driver, DRIVER_BYTES);
	return native_cost(driver, port->ifindex);
}

/* Why XDP is in skb mode, where that is so because of the driver; or should be. */
static void note_cost(struct port *port)
{
	char driver[DRIVER_BYTES];
	struct native_cost cost = cost_of(port, driver);

	if (port->record.xdp_mode == ESC_XDP_NATIVE && cost.loses_replies)
		snprintf(port->xdp_note, ATTACH_NOTE_BYTES,
			 "replies to probes are lost: this veth's peer has no native XDP program, "
			 "and drops what one sends; set attach: skb");
	if (port->record.xdp_mode != ESC_XDP_SKB || port->attach != CONFIG_ATTACH_AUTO)
		return;
	if (cost.link_down)
		snprintf(port->xdp_note, ATTACH_NOTE_BYTES,
			 "skb mode, since driver %s %s to attach native XDP; for native mode set "
			 "attach: native",
			 driver, cost.does);
	else if (cost.loses_larger)
		snprintf(port->xdp_note, ATTACH_NOTE_BYTES,
			 "skb mode, since with native XDP driver %s of this kernel drops larger "
			 "frames when the MTU is raised above %u; for native mode set attach: "
			 "native",
			 driver, OFFLOAD_ONE_BUFFER_MTU);
	else if (cost.loses_replies)
		snprintf(port->xdp_note, ATTACH_NOTE_BYTES,
			 "skb mode, since this veth's peer has no native XDP program, and would "
			 "drop what one sends, replies to probes; for native mode set attach: "
			 "native");
}

/*
 * Onto a free interface: native first, unless that takes the link down or may lose frames; in the
 * dispatcher where it can be had, else with a link.
 */
static int attach_fresh(struct port *port, char **error)
{
	enum esc_xdp_mode modes[] = {ESC_XDP_NATIVE, ESC_XDP_SKB};
	bool dispatcher = !support_dispatcher(), own_link = !dispatcher;
	struct offload_state before, after;
	char driver[DRIVER_BYTES];
	struct native_cost cost = cost_of(port, driver);
	char *detail = NULL;
	int err = -EINVAL;

	if (cost.link_down || cost.loses_larger || cost.loses_replies) {
		modes[0] = ESC_XDP_SKB;
		modes[1] = ESC_XDP_NATIVE;
	}
	offload_read(port->name, &before);
	for (size_t i = 0; err && i < 2; i++) {
		if (!mode_is_wanted(port, modes[i]))
			continue;
		if (modes[i] == ESC_XDP_NATIVE && cost.does) /* before the link goes down */
			log_warning("%s: driver %s %s when native XDP is attached or detached: "
				    "packets may be lost meanwhile",
				    port->name, driver, cost.does);
		if (dispatcher) {
			err = dispatcher_join(port, modes[i], &detail);
			own_link = err && !dispatcher_is_there(port->ifindex);
			if (own_link)
				log_debug("%s: %s; attaching without a dispatcher", port->name,
					  detail);
		}
		if (own_link)
			err = attach_link(port, modes[i], 0, &detail);
		if (err)
			explain_mode(port, modes[i], err, detail);
	}
	free(detail);
	if (err)
		return explain(error, err, "XDP on %s: %s", port->name, port->xdp_note);
	offload_read(port->name, &after);
	port->record.offloads_taken = offload_taken(&before, &after);
	return 0;
}

/* Beside a program of another owner; one that cannot be chained with is left as it is. */
static int attach_beside(struct port *port, const struct xdp_attached *attached, char **error)
{
	const char *why = support_dispatcher();
	char *detail = NULL;
	int err;

	if (!why && dispatcher_is_there(port->ifindex)) {
		if (!mode_is_wanted(port, attached->mode))
			return explain(error, -EBUSY,
				       "interface %s: libxdp's dispatcher is attached in %s mode, "
				       "the configuration asks for another; set attach: auto",
				       port->name, xdp_mode_name(attached->mode));
		err = dispatcher_join(port, attached->mode, &detail);
		if (!err)
			return 0;
		why = detail ? detail : strerror(-err);
	} else if (!why) {
		why = "it was not loaded through libxdp's dispatcher";
	}
	err = 0;
	if (port->attach != CONFIG_ATTACH_AUTO)
		err = explain(error, -EBUSY,
			      "interface %s: another XDP program, %u (%s), is attached and "
			      "cannot be chained with (%s); detach it, or set attach: auto",
			      port->name, attached->program_id, attached->name, why);
	else
		snprintf(port->xdp_note, ATTACH_NOTE_BYTES,
			 "another XDP program, %u (%s), is attached and left alone (%s); "
			 "rx is counted in tc ingress: detach it and restart to have XDP",
			 attached->program_id, attached->name, why);
	free(detail);
	return err;
}

static void note_add(struct port *port, const char *text)
{
	size_t bytes = strnlen(port->xdp_note, 200);

	snprintf(port->xdp_note + bytes, ATTACH_NOTE_BYTES - bytes, "; %s", text);
}

void attach_judge_mtu(struct port *port)
{
	char driver[DRIVER_BYTES];
	bool loses = port->record.xdp_mode == ESC_XDP_NATIVE &&
		     port->mtu > OFFLOAD_ONE_BUFFER_MTU && cost_of(port, driver).loses_larger;

	if (loses) {
		snprintf(port->xdp_note, ATTACH_NOTE_BYTES,
			 "at MTU %u driver %s drops every frame that needs more than one buffer "
			 "while native XDP is attached, and cannot detach it: set an MTU of %u or "
			 "less, and attach: skb",
			 port->mtu, driver, OFFLOAD_ONE_BUFFER_MTU);
		log_error("%s: %s", port->name, port->xdp_note);
	} else if (port->mtu_loses) {
		port->xdp_note[0] = '\0';
	}
	port->mtu_loses = loses;
}

int attach_xdp(struct port *port, char **error)
{
	struct xdp_attached attached;
	char note[32];
	int done, err;

	port->xdp_note[0] = '\0';
	port->mtu_loses = false;
	done = take_over_link(port, error);
	if (!done)
		done = dispatcher_take_over(port, error);
	if (done > 0 && !mode_is_wanted(port, port->record.xdp_mode)) {
		detach_xdp(port);
		done = 0;
	}
	if (done < 0)
		return done;
	if (done) {
		note_cost(port);
		if (port->record.xdp_mode == ESC_XDP_SKB && port->attach == CONFIG_ATTACH_AUTO &&
		    !port->xdp_note[0])
			snprintf(port->xdp_note, ATTACH_NOTE_BYTES,
				 "skb mode was all that could be had when XDP was attached");
		return 0;
	}
	forget_xdp(&port->record);
	err = xdp_query(port, &attached, error);
	if (err)
		return err;
	if (attached.program_id)
		return attach_beside(port, &attached, error);
	err = attach_fresh(port, error);
	if (!err && port->xdp_note[0]) { /* another mode was tried first */
		snprintf(note, sizeof(note), "%s mode is used",
			 xdp_mode_name(port->record.xdp_mode));
		note_add(port, note);
	} else if (!err) {
		note_cost(port);
	}
	if (err && port->attach == CONFIG_ATTACH_AUTO) {
		note_add(port, "rx is counted in tc ingress");
		return 0;
	}
	return err;
}

void detach_xdp(struct port *port)
{
	struct xdp_attached left;
	char refused[256];

	pins_drop_link(port->pins, port->name, PINS_XDP);
	if (!dispatcher_leave(port))
		log_error("%s: the driver refused to detach our XDP program, which goes on "
			  "counting; `ip -d link show %s` has it",
			  port->name, port->name);
	/* Another's program needs off what ours did. */
	if (port->record.offloads_taken && !xdp_query(port, &left, NULL) && !left.program_id &&
	    !offload_give_back(port->name, port->record.offloads_taken, refused, sizeof(refused)))
		log_warning("%s: the driver did not turn on again what was off for XDP: %s; see "
			    "`ethtool -k %s`",
			    port->name, refused, port->name);
	forget_xdp(&port->record);
}

/* --- tc --- */

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

static const struct bpf_program *tc_program(const struct object *object, const struct tc_hook *hook)
{
	return hook->egress ? object->tc_egress : object->tc_ingress;
}

/* Ours by tcx on this very interface, 0 when there is none: ifindexes repeat between namespaces. */
static uint32_t tcx_query(const struct port *port, const struct tc_hook *hook)
{
	__u32 ids[64], count = 64;

	if (bpf_prog_query(port->ifindex, hook->tcx, 0, NULL, ids, &count))
		return 0;
	for (__u32 i = 0; i < count; i++)
		if (program_is_ours(port->pins, ids[i], hook->program))
			return ids[i];
	return 0;
}

static bool tcx_is_pinned(const struct port *port)
{
	return pins_has_link(port->pins, port->name, PINS_TC_EGRESS) ||
	       pins_has_link(port->pins, port->name, PINS_TC_INGRESS);
}

static void tcx_detach(const struct port *port)
{
	pins_drop_link(port->pins, port->name, PINS_TC_INGRESS);
	pins_drop_link(port->pins, port->name, PINS_TC_EGRESS);
}

static int tcx_attach(struct port *port, const struct object *object, char **error)
{
	bool fresh = !tcx_is_pinned(port);
	int err = 0;

	for (size_t i = 0; !err && i < TC_HOOKS; i++) {
		const struct tc_hook *hook = &tc_hooks[i];
		struct pins_link link = {
			.interface = port->name,
			.ifindex = port->ifindex,
			.pin = hook->pin,
			.what = hook->egress ? "tcx egress" : "tcx ingress",
			.type = hook->tcx,
			.flags = TCX_BEFORE,
		};

		if (!tcx_query(port, hook))
			pins_drop_link(port->pins, port->name, hook->pin);
		err = pins_attach_link(port->pins, &link, bpf_program__fd(tc_program(object, hook)),
				       error);
	}
	if (err && fresh)
		tcx_detach(port);
	if (!err)
		port->record.tc_via = ESC_TC_TCX;
	return err;
}

/* Program id of the filter at our priority and handle, 0 when there is none. */
static uint32_t clsact_query(const struct port *port, const struct tc_hook *hook)
{
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
	struct bpf_tc_hook where;

	clsact_hook(port->ifindex, hook->clsact, &where);
	return bpf_tc_query(&where, &filter) ? 0 : filter.prog_id;
}

/* Ours by place and by maps: a filter of another daemon's is not. */
static bool clsact_has_ours(const struct port *port, const struct tc_hook *hook)
{
	return program_is_ours(port->pins, clsact_query(port, hook), hook->program);
}

static bool clsact_is_ours(const struct port *port)
{
	return clsact_has_ours(port, &tc_hooks[0]) || clsact_has_ours(port, &tc_hooks[1]);
}

static int clsact_make_qdisc(struct port *port, char **error)
{
	struct bpf_tc_hook where;
	struct qdisc_facts facts;
	int err = qdisc_read(port->ifindex, &facts);

	if (err)
		return explain(error, err, "the qdiscs of %s cannot be read: %s", port->name,
			       strerror(-err));
	if (!strcmp(facts.ingress, "clsact"))
		return 0;
	if (facts.ingress[0])
		return explain(
			error, -EBUSY,
			"interface %s has another ingress qdisc, which has no "
			"egress side and leaves no room for clsact; replace it by clsact (`tc "
			"qdisc replace dev %s clsact`)",
			port->name, port->name);
	/* Written down first: a daemon that dies here still takes its qdisc away later. */
	port->record.flags |= ESC_PORT_CLSACT_MADE;
	pins_write_port(port->pins, port->slot, &port->record);
	clsact_hook(port->ifindex, BPF_TC_INGRESS | BPF_TC_EGRESS, &where);
	err = bpf_tc_hook_create(&where);
	if (!err)
		return 0;
	port->record.flags &= ~ESC_PORT_CLSACT_MADE;
	pins_write_port(port->pins, port->slot, &port->record);
	if (err == -EEXIST)
		return 0;
	return explain(error, err, "clsact on %s: %s", port->name, strerror(-err));
}

static void clsact_detach(struct port *port)
{
	struct bpf_tc_hook where;
	unsigned int others = 0;

	for (size_t i = TC_HOOKS; i-- > 0;) {
		const struct tc_hook *hook = &tc_hooks[i];
		LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE,
			    .priority = FILTER_PRIORITY);
		struct filter_facts facts;

		clsact_hook(port->ifindex, hook->clsact, &where);
		if (clsact_has_ours(port, hook))
			bpf_tc_detach(&where, &filter);
		if (rtnl_filters(port->ifindex, hook->egress, 0, &facts))
			others++; /* not known: the qdisc stays */
		others += facts.filters;
	}
	clsact_hook(port->ifindex, BPF_TC_INGRESS | BPF_TC_EGRESS, &where);
	if ((port->record.flags & ESC_PORT_CLSACT_MADE) && !others)
		bpf_tc_hook_destroy(&where);
	port->record.flags &= ~ESC_PORT_CLSACT_MADE;
}

static int clsact_attach(struct port *port, const struct object *object, char **error)
{
	bool fresh = !clsact_is_ours(port);
	int err = clsact_make_qdisc(port, error);

	for (size_t i = 0; !err && i < TC_HOOKS; i++) {
		const struct tc_hook *hook = &tc_hooks[i];
		uint32_t attached = clsact_query(port, hook);
		LIBBPF_OPTS(bpf_tc_opts, filter,
			    .prog_fd = bpf_program__fd(tc_program(object, hook)),
			    .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY,
			    .flags = attached ? BPF_TC_F_REPLACE : 0);
		struct bpf_tc_hook where;

		if (attached && !program_is_ours(port->pins, attached, hook->program)) {
			err = explain(error, -EBUSY,
				      "interface %s: the tc %s filter with priority %d and handle "
				      "0x%x belongs to another program; remove it, or set tc: tcx",
				      port->name, hook->name, FILTER_PRIORITY, FILTER_HANDLE);
			break;
		}
		clsact_hook(port->ifindex, hook->clsact, &where);
		err = bpf_tc_attach(&where, &filter);
		if (err)
			explain(error, err, "tc %s filter on %s: %s", hook->name, port->name,
				strerror(-err));
	}
	if (err && fresh)
		clsact_detach(port);
	if (!err)
		port->record.tc_via = ESC_TC_CLSACT;
	return err;
}

/* A filter ahead of ours may end the chain before we see a packet. */
static void clsact_note_order(struct port *port)
{
	struct filter_facts facts;

	for (size_t i = 0; i < TC_HOOKS; i++) {
		if (rtnl_filters(port->ifindex, tc_hooks[i].egress, FILTER_PRIORITY, &facts) ||
		    !facts.filters || facts.first > FILTER_PRIORITY)
			continue;
		snprintf(port->tc_note, ATTACH_NOTE_BYTES,
			 "another tc %s filter, with priority %u, runs before ours "
			 "(%d); packets that it ends the chain for are not counted",
			 tc_hooks[i].name, facts.first, FILTER_PRIORITY);
		return;
	}
}

/* Both hooks have, in the way that is wanted, what would be loaded. */
static bool tc_is_current(const struct port *port, const struct object *object, bool clsact)
{
	bool tcx = tcx_is_pinned(port);

	if (tcx == clsact || port->tc == (tcx ? CONFIG_TC_CLSACT : CONFIG_TC_TCX))
		return false;
	for (size_t i = 0; i < TC_HOOKS; i++) {
		const struct tc_hook *hook = &tc_hooks[i];

		if ((tcx && !pins_has_link(port->pins, port->name, hook->pin)) ||
		    !object_is_current(object, tc_program(object, hook),
				       tcx ? tcx_query(port, hook) : clsact_query(port, hook)))
			return false;
	}
	return true;
}

int attach_tc(struct port *port, char **error)
{
	bool clsact = clsact_is_ours(port);
	struct object *object;
	int err;

	port->tc_note[0] = '\0';
	err = object_open(&object, OBJECT_TC, port, 0, error);
	if (err)
		return err;
	if (tc_is_current(port, object, clsact)) {
		port->record.tc_via = clsact ? ESC_TC_CLSACT : ESC_TC_TCX;
		goto out;
	}
	err = object_load(object, error);
	if (err)
		goto out;
	/* The other one, of an earlier configuration, goes first: packets pass without tc. */
	if (port->tc == CONFIG_TC_CLSACT && tcx_is_pinned(port))
		tcx_detach(port);
	if (port->tc == CONFIG_TC_TCX && clsact)
		clsact_detach(port);

	/* tcx unless the configuration, or what is attached already, is clsact. */
	err = -EINVAL;
	if (port->tc == CONFIG_TC_TCX || (port->tc == CONFIG_TC_AUTO && !clsact))
		err = tcx_attach(port, object, error);
	if (err == -EINVAL && port->tc == CONFIG_TC_TCX)
		explain(error, err,
			"interface %s: this kernel has no tcx (it came with 6.6); set tc: auto",
			port->name);
	else if (err == -EINVAL)
		err = clsact_attach(port, object, error);
out:
	if (!err && port->record.tc_via == ESC_TC_CLSACT)
		clsact_note_order(port);
	object_close(object);
	return err;
}

void detach_tc(struct port *port)
{
	tcx_detach(port);
	if ((port->record.flags & ESC_PORT_CLSACT_MADE) || clsact_is_ours(port))
		clsact_detach(port);
	port->record.tc_via = ESC_TC_NONE;
}

void attach_check(const struct port *port, char note[ATTACH_NOTE_BYTES])
{
	struct xdp_attached xdp;

	note[0] = '\0';
	if (port->record.xdp_via == ESC_XDP_VIA_LINK && !xdp_query(port, &xdp, NULL) &&
	    xdp.program_id != port->record.xdp_program_id) {
		snprintf(
			note, ATTACH_NOTE_BYTES,
			"our XDP program was detached by another program; restart to attach again");
		return;
	}
	for (size_t i = 0; i < TC_HOOKS; i++) {
		if (port->record.tc_via == ESC_TC_TCX ? tcx_query(port, &tc_hooks[i])
						      : clsact_has_ours(port, &tc_hooks[i]))
			continue;
		snprintf(note, ATTACH_NOTE_BYTES,
			 "our tc %s program was detached by another program; restart to attach "
			 "again",
			 tc_hooks[i].name);
		return;
	}
}
