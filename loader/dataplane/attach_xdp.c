// SPDX-License-Identifier: BSD-2-Clause
#include "attach.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatcher.h"
#include "net/ethtool.h"
#include "base/explain.h"
#include "base/log.h"
#include "object.h"
#include "offload.h"
#include "pins.h"
#include "net/rtnl.h"
#include "support.h"
#include "xdp_query.h"

static const char *mode_name(enum esc_xdp_mode mode)
{
	return mode == ESC_XDP_NATIVE ? "native" : mode == ESC_XDP_SKB ? "skb" : "none";
}

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

/* An instance of the program with the turn that stands. */
static int xdp_load(const struct attach_target *target, struct object **out, char **error)
{
	const struct esc_control *control = pins_control(target->pins);
	struct object_constants constants = target->constants;

	constants.turn = control->xdp_handover[target->slot] & ~ESC_HANDOVER_PHASE;
	return object_new(out, OBJECT_XDP, target->pins, &constants, error);
}

/* --- a link of our own --- */

static int xdp_record_link(const struct attach_target *target, struct esc_port *port, char **error)
{
	struct xdp_seen seen;
	int err = xdp_query(target->ifindex, &seen);

	if (err)
		return explain(error, err, "interface %s: %s", target->name, strerror(-err));
	port->xdp_mode = seen.mode;
	port->xdp_via = ESC_XDP_VIA_LINK;
	port->xdp_program_id = seen.program_id;
	port->xdp_next_program_id = 0;
	return 0;
}

/* Puts a fresh program into the pinned link, in one step. 1: done; 0: no such link. */
static int xdp_take_over_link(const struct attach_target *target, struct esc_port *port,
			      char **error)
{
	struct object *object = NULL;
	struct xdp_seen seen;
	int link_fd, err;

	link_fd = pins_open_link(target->pins, target->name, PINS_XDP, target->ifindex, error);
	if (link_fd < 0)
		return link_fd == -ENOENT ? 0 : link_fd;
	err = xdp_query(target->ifindex, &seen);
	if (!err && (!xdp_is_ours(target->pins, seen.program_id) ||
		     !mode_is_wanted(target->attach, seen.mode))) {
		/* Of another namespace's interface, or in a mode that is not wanted any more. */
		close(link_fd);
		pins_drop_link(target->pins, target->name, PINS_XDP);
		return 0;
	}
	err = xdp_load(target, &object, error);
	if (!err) {
		err = bpf_link_update(link_fd, object_xdp_fd(object), NULL);
		if (err)
			explain(error, err, "the XDP program on %s cannot be replaced: %s",
				target->name, strerror(-err));
	}
	object_close(object);
	close(link_fd);
	if (!err)
		err = xdp_record_link(target, port, error);
	return err ? err : 1;
}

static int xdp_create_link(const struct attach_target *target, enum esc_xdp_mode mode,
			   struct esc_port *port, char **error)
{
	LIBBPF_OPTS(bpf_link_create_opts, options,
		    .flags = mode == ESC_XDP_NATIVE ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
	struct object *object;
	int link_fd, err;

	err = xdp_load(target, &object, error);
	if (err)
		return err;
	link_fd = bpf_link_create(object_xdp_fd(object), target->ifindex, BPF_XDP, &options);
	object_close(object);
	if (link_fd < 0)
		return explain(error, link_fd, "%s", strerror(-link_fd));
	err = pins_keep_link(target->pins, target->name, PINS_XDP, link_fd, error);
	close(link_fd);
	return err ? err : xdp_record_link(target, port, error);
}

/* --- from nothing --- */

static void xdp_explain_mode(const struct attach_target *target, enum esc_xdp_mode mode, int err,
			     const char *detail, char *out, size_t bytes)
{
	struct link_facts link = {0};
	char driver[32];

	ethtool_driver(target->name, driver, sizeof(driver));
	rtnl_link(target->name, &link);
	if (err == -EOPNOTSUPP && mode == ESC_XDP_NATIVE)
		snprintf(out, bytes, "driver %s has no native XDP", driver);
	else if ((err == -ERANGE || err == -EINVAL) && link.mtu > 3498)
		snprintf(out, bytes, "driver %s takes no %s XDP at MTU %u", driver, mode_name(mode),
			 link.mtu);
	else
		snprintf(out, bytes, "%s XDP is refused: %s", mode_name(mode),
			 detail ? detail : strerror(-err));
}

/* One mode, in the dispatcher where it can be had, else with a link. */
static int xdp_attach_mode(const struct attach_target *target, enum esc_xdp_mode mode,
			   bool dispatcher, struct esc_port *port, char **error)
{
	int err;

	if (dispatcher) {
		err = dispatcher_join(target, mode, port, error);
		if (!err || dispatcher_is_there(target->ifindex))
			return err;
		log_debug("%s: %s; attaching without a dispatcher", target->name, *error);
	}
	return xdp_create_link(target, mode, port, error);
}

static int xdp_attach_fresh(const struct attach_target *target, bool dispatcher,
			    struct esc_port *port, char note[ATTACH_NOTE_BYTES], char **error)
{
	static const enum esc_xdp_mode modes[] = {ESC_XDP_NATIVE, ESC_XDP_SKB};
	struct offload_state before, after;
	char *detail = NULL;
	int err = -EINVAL;

	offload_read(target->name, &before);
	for (size_t i = 0; err && i < 2; i++) {
		if (!mode_is_wanted(target->attach, modes[i]))
			continue;
		err = xdp_attach_mode(target, modes[i], dispatcher, port, &detail);
		if (err)
			xdp_explain_mode(target, modes[i], err, detail, note, ATTACH_NOTE_BYTES);
	}
	if (err)
		explain(error, err, "XDP on %s: %s", target->name, note);
	else
		offload_read(target->name, &after);
	if (!err)
		port->offloads_taken = offload_taken(&before, &after);
	free(detail);
	return err;
}

/* Somebody else's program that cannot be chained with: left alone. */
static int xdp_refuse_foreign(const struct attach_target *target, const struct xdp_seen *seen,
			      const char *why, char note[ATTACH_NOTE_BYTES], char **error)
{
	if (target->attach != CONFIG_ATTACH_AUTO)
		return explain(
			error, -EBUSY,
			"interface %s: XDP program %u (%s) of somebody else's is attached and "
			"cannot be chained with (%s); detach it, or set attach: auto",
			target->name, seen->program_id, seen->name, why);
	snprintf(note, ATTACH_NOTE_BYTES,
		 "XDP program %u (%s) of somebody else's is attached and left alone (%s); rx is "
		 "counted in tc ingress: detach it and restart to have XDP",
		 seen->program_id, seen->name, why);
	return 0;
}

static int xdp_attach_beside(const struct attach_target *target, const struct xdp_seen *seen,
			     struct esc_port *port, char note[ATTACH_NOTE_BYTES], char **error)
{
	char why[128] = "it was not loaded through libxdp's dispatcher";
	char *detail = NULL;
	int err;

	if (!support_dispatcher(why, sizeof(why)) || !dispatcher_is_there(target->ifindex))
		return xdp_refuse_foreign(target, seen, why, note, error);
	if (!mode_is_wanted(target->attach, seen->mode))
		return explain(error, -EBUSY,
			       "interface %s: libxdp's dispatcher is attached in %s mode, the "
			       "configuration asks for another; set attach: auto",
			       target->name, mode_name(seen->mode));
	err = dispatcher_join(target, seen->mode, port, &detail);
	if (err) {
		snprintf(why, sizeof(why), "%s", detail ? detail : strerror(-err));
		err = xdp_refuse_foreign(target, seen, why, note, error);
	}
	free(detail);
	return err;
}

/* In auto mode an interface without XDP is still of use: tc ingress counts. */
static int xdp_do_without(const struct attach_target *target, char note[ATTACH_NOTE_BYTES], int err)
{
	char text[ATTACH_NOTE_BYTES];

	if (target->attach != CONFIG_ATTACH_AUTO)
		return err;
	snprintf(text, sizeof(text), "%.200s; rx is counted in tc ingress", note);
	memcpy(note, text, sizeof(text));
	return 0;
}

static int xdp_attach_new(const struct attach_target *target, struct esc_port *port,
			  char note[ATTACH_NOTE_BYTES], char **error)
{
	struct xdp_seen seen;
	char why[128];
	bool dispatcher;
	int err;

	forget_xdp(port);
	err = xdp_query(target->ifindex, &seen);
	if (err)
		return explain(error, err, "interface %s: %s", target->name, strerror(-err));
	if (seen.program_id)
		return xdp_attach_beside(target, &seen, port, note, error);
	dispatcher = support_dispatcher(why, sizeof(why));
	err = xdp_attach_fresh(target, dispatcher, port, note, error);
	if (err)
		return xdp_do_without(target, note, err);
	if (note[0]) { /* native was tried first */
		char text[ATTACH_NOTE_BYTES];

		snprintf(text, sizeof(text), "%.200s; skb mode is used", note);
		memcpy(note, text, sizeof(text));
	}
	return 0;
}

int attach_xdp(const struct attach_target *target, struct esc_port *port,
	       char note[ATTACH_NOTE_BYTES], char **error)
{
	int done;

	note[0] = '\0';
	done = xdp_take_over_link(target, port, error);
	if (!done)
		done = dispatcher_take_over(target, port, error);
	if (done > 0 && !mode_is_wanted(target->attach, port->xdp_mode)) {
		detach_xdp(target, port);
		done = 0;
	}
	if (done < 0)
		return done;
	if (done) {
		if (port->xdp_mode == ESC_XDP_SKB && target->attach == CONFIG_ATTACH_AUTO)
			snprintf(note, ATTACH_NOTE_BYTES,
				 "skb mode was all that could be had when XDP was attached");
		return 0;
	}
	return xdp_attach_new(target, port, note, error);
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
