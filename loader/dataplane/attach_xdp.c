// SPDX-License-Identifier: BSD-2-Clause
#include "attach.h"

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
#include "internal.h"
#include "net/ethtool.h"
#include "net/rtnl.h"
#include "offload.h"
#include "support.h"

static bool mode_is_wanted(enum config_attach attach, enum esc_xdp_mode mode)
{
	return attach == CONFIG_ATTACH_AUTO ||
	       (attach == CONFIG_ATTACH_NATIVE) == (mode == ESC_XDP_NATIVE);
}

static void forget_xdp(struct esc_port *port)
{
	port->xdp_mode = ESC_XDP_NONE;
	port->xdp_via = ESC_XDP_VIA_NONE;
	port->xdp_program_id = 0;
	port->xdp_next_program_id = 0;
	port->offloads_taken = 0;
}

static int query(const struct attach_target *target, struct xdp_attached *out, char **error)
{
	int err = xdp_query(target->ifindex, out);

	return err ? explain(error, err, "interface %s: %s", target->name, strerror(-err)) : 0;
}

/* --- a link of our own --- */

/* An instance of the program into the pinned link, in one step, or into one that is made. */
static int attach_link(const struct attach_target *target, enum esc_xdp_mode mode,
		       struct esc_port *port, char **error)
{
	const struct esc_control *control = pins_control(target->pins);
	struct object_constants constants = target->constants;
	struct pins_link link = {
		.interface = target->name,
		.ifindex = target->ifindex,
		.pin = PINS_XDP,
		.what = "XDP",
		.type = BPF_XDP,
		.flags = mode == ESC_XDP_NATIVE ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE,
	};
	struct xdp_attached attached;
	struct object *object;
	int err;

	constants.turn = control->xdp_handover[target->slot] & ~ESC_HANDOVER_PHASE;
	err = object_new(&object, OBJECT_XDP, target->pins, &constants, error);
	if (err)
		return err;
	err = pins_attach_link(target->pins, &link, bpf_program__fd(object->xdp), error);
	object_close(object);
	if (!err)
		err = query(target, &attached, error);
	if (err)
		return err;
	port->xdp_mode = attached.mode;
	port->xdp_via = ESC_XDP_VIA_LINK;
	port->xdp_program_id = attached.program_id;
	port->xdp_next_program_id = 0;
	return 0;
}

/* 1: done; 0: no such link, or not in a mode that is wanted, or of another namespace. */
static int take_over_link(const struct attach_target *target, struct esc_port *port, char **error)
{
	struct xdp_attached attached;
	int fd, err;

	fd = pins_open_link(target->pins, target->name, PINS_XDP, target->ifindex, error);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	close(fd);
	if (!xdp_query(target->ifindex, &attached) &&
	    (!program_is_ours(target->pins, attached.program_id, ESC_PROGRAM_XDP) ||
	     !mode_is_wanted(target->attach, attached.mode))) {
		pins_drop_link(target->pins, target->name, PINS_XDP);
		return 0;
	}
	err = attach_link(target, attached.mode, port, error);
	return err ? err : 1;
}

/* --- from nothing --- */

static void explain_mode(const struct attach_target *target, enum esc_xdp_mode mode, int err,
			 const char *detail, char note[ATTACH_NOTE_BYTES])
{
	struct link_facts link = {0};
	char driver[32];

	ethtool_driver(target->name, driver, sizeof(driver));
	rtnl_link(target->name, &link);
	if (err == -EOPNOTSUPP && mode == ESC_XDP_NATIVE)
		snprintf(note, ATTACH_NOTE_BYTES, "driver %s has no native XDP", driver);
	else if ((err == -ERANGE || err == -EINVAL) && link.mtu > 3498)
		snprintf(note, ATTACH_NOTE_BYTES, "driver %s takes no %s XDP at MTU %u", driver,
			 xdp_mode_name(mode), link.mtu);
	else
		snprintf(note, ATTACH_NOTE_BYTES, "%s XDP is refused: %s", xdp_mode_name(mode),
			 detail ? detail : strerror(-err));
}

/* Native first; in the dispatcher where it can be had, else with a link. */
static int attach_fresh(const struct attach_target *target, struct esc_port *port,
			char note[ATTACH_NOTE_BYTES], char **error)
{
	static const enum esc_xdp_mode modes[] = {ESC_XDP_NATIVE, ESC_XDP_SKB};
	struct offload_state before, after;
	char *detail = NULL, why[128];
	bool dispatcher = support_dispatcher(why, sizeof(why)), own_link = !dispatcher;
	int err = -EINVAL;

	offload_read(target->name, &before);
	for (size_t i = 0; err && i < 2; i++) {
		if (!mode_is_wanted(target->attach, modes[i]))
			continue;
		if (dispatcher) {
			err = dispatcher_join(target, modes[i], port, &detail);
			own_link = err && !dispatcher_is_there(target->ifindex);
			if (own_link)
				log_debug("%s: %s; attaching without a dispatcher", target->name,
					  detail);
		}
		if (own_link)
			err = attach_link(target, modes[i], port, &detail);
		if (err)
			explain_mode(target, modes[i], err, detail, note);
	}
	free(detail);
	if (err)
		return explain(error, err, "XDP on %s: %s", target->name, note);
	offload_read(target->name, &after);
	port->offloads_taken = offload_taken(&before, &after);
	return 0;
}

/* A program of another owner that cannot be chained with: left as it is. */
static int refuse_foreign(const struct attach_target *target, const struct xdp_attached *attached,
			  const char *why, char note[ATTACH_NOTE_BYTES], char **error)
{
	if (target->attach != CONFIG_ATTACH_AUTO)
		return explain(
			error, -EBUSY,
			"interface %s: XDP program %u (%s) of somebody else's is attached and "
			"cannot be chained with (%s); detach it, or set attach: auto",
			target->name, attached->program_id, attached->name, why);
	snprintf(note, ATTACH_NOTE_BYTES,
		 "XDP program %u (%s) of somebody else's is attached and left alone (%s); rx is "
		 "counted in tc ingress: detach it and restart to have XDP",
		 attached->program_id, attached->name, why);
	return 0;
}

static int attach_beside(const struct attach_target *target, const struct xdp_attached *attached,
			 struct esc_port *port, char note[ATTACH_NOTE_BYTES], char **error)
{
	char why[128] = "it was not loaded through libxdp's dispatcher";
	char *detail = NULL;
	int err;

	if (!support_dispatcher(why, sizeof(why)) || !dispatcher_is_there(target->ifindex))
		return refuse_foreign(target, attached, why, note, error);
	if (!mode_is_wanted(target->attach, attached->mode))
		return explain(error, -EBUSY,
			       "interface %s: libxdp's dispatcher is attached in %s mode, the "
			       "configuration asks for another; set attach: auto",
			       target->name, xdp_mode_name(attached->mode));
	err = dispatcher_join(target, attached->mode, port, &detail);
	if (err)
		err = refuse_foreign(target, attached, detail ? detail : strerror(-err), note,
				     error);
	free(detail);
	return err;
}

static void note_add(char note[ATTACH_NOTE_BYTES], const char *text)
{
	size_t bytes = strnlen(note, 200);

	snprintf(note + bytes, ATTACH_NOTE_BYTES - bytes, "; %s", text);
}

static int attach_new(const struct attach_target *target, struct esc_port *port,
		      char note[ATTACH_NOTE_BYTES], char **error)
{
	struct xdp_attached attached;
	int err;

	forget_xdp(port);
	err = query(target, &attached, error);
	if (err)
		return err;
	if (attached.program_id)
		return attach_beside(target, &attached, port, note, error);
	err = attach_fresh(target, port, note, error);
	if (!err && note[0]) /* native was tried first */
		note_add(note, "skb mode is used");
	if (err && target->attach == CONFIG_ATTACH_AUTO) {
		note_add(note, "rx is counted in tc ingress");
		return 0;
	}
	return err;
}

int attach_xdp(const struct attach_target *target, struct esc_port *port,
	       char note[ATTACH_NOTE_BYTES], char **error)
{
	int done;

	note[0] = '\0';
	done = take_over_link(target, port, error);
	if (!done)
		done = dispatcher_take_over(target, port, error);
	if (done > 0 && !mode_is_wanted(target->attach, port->xdp_mode)) {
		detach_xdp(target, port);
		done = 0;
	}
	if (done <= 0)
		return done ? done : attach_new(target, port, note, error);
	if (port->xdp_mode == ESC_XDP_SKB && target->attach == CONFIG_ATTACH_AUTO)
		snprintf(note, ATTACH_NOTE_BYTES,
			 "skb mode was all that could be had when XDP was attached");
	return 0;
}

void detach_xdp(const struct attach_target *target, struct esc_port *port)
{
	uint32_t taken = port->offloads_taken;
	struct offload_state before, after;

	offload_read(target->name, &before);
	pins_drop_link(target->pins, target->name, PINS_XDP);
	dispatcher_leave(target);
	offload_read(target->name, &after);
	if (taken && before.known && before.active == after.active &&
	    before.max_mtu == after.max_mtu)
		log_warning("%s: the driver did not give back what XDP had switched off; see "
			    "`ethtool -k %s`",
			    target->name, target->name);
	forget_xdp(port);
}
