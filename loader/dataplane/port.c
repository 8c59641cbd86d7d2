// SPDX-License-Identifier: BSD-2-Clause
#include "port.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/ethtool.h"
#include "base/explain.h"
#include "core/core.h"
#include "internal.h"
#include "base/log.h"
#include "offload.h"
#include "pins.h"
#include "net/qdisc.h"
#include "net/rdma.h"
#include "net/rtnl.h"
#include "visibility.h"

#define PORT_RETRY_NS 10000000000ULL

const struct event_kind dataplane_events[] = {DATAPLANE_EVENTS(EVENT_KIND){}};

static void report(const struct port *port, unsigned int kind, json_t *seen, json_t *done)
{
	events_add(port->events, &(struct event){.kind = &dataplane_events[kind],
					   .subject = port->name,
					   .seen = seen,
					   .done = done});
}

bool port_is_attached(const struct port *port)
{
	return port->record.xdp_via != ESC_XDP_VIA_NONE || port->record.tc_via != ESC_TC_NONE;
}

static struct attach_target port_target(const struct port *port)
{
	struct attach_target target = {
		.pins = port->pins,
		.name = port->name,
		.ifindex = port->ifindex,
		.slot = port->slot,
		.attach = port->attach,
		.tc = port->tc,
		.constants =
			{
				.port_index = port->slot,
				.probe_port =
					port->probe_port == ESC_ROCEV2_PORT ? 0 : port->probe_port,
				.frontend = port->plane == FLEET_PLANE_FRONTEND,
				.lab_offset_ns = port->lab_offset_ns,
				.lab_drift_ppb = port->lab_drift_ppb,
			},
	};

	return target;
}

static int port_write(struct port *port, char **error)
{
	int err;

	snprintf(port->record.name, sizeof(port->record.name), "%s", port->name);
	port->record.ifindex = port->ifindex;
	err = pins_write_port(port->pins, port->slot, &port->record);
	return err ? explain(error, err, "the map ports cannot be written: %s", strerror(-err)) : 0;
}

/* What is on no interface any more. */
static void forget_attachment(struct port *port)
{
	port->record.xdp_mode = ESC_XDP_NONE;
	port->record.xdp_via = ESC_XDP_VIA_NONE;
	port->record.tc_via = ESC_TC_NONE;
	port->record.flags = 0;
	port->record.offloads_taken = 0;
}

int port_attach(struct port *port, char **error)
{
	const char *xdp, *xdp_via, *tc_via;
	struct attach_target target;
	struct link_facts link;
	bool was_attached;
	int err;

	err = rtnl_link(port->name, &link);
	if (err)
		return explain(error, err, "interface %s: %s", port->name, strerror(-err));
	/* Another index: what we had was on an interface that is no more. */
	if (port->record.ifindex != link.ifindex)
		forget_attachment(port);
	was_attached = port_is_attached(port);
	port->ifindex = link.ifindex;
	port->up = link.up;
	port->lost_note[0] = '\0';
	target = port_target(port);
	err = port_write(port, error);
	if (!err)
		err = attach_xdp(&target, &port->record, port->xdp_note, error);
	if (!err)
		err = attach_tc(&target, &port->record, port->tc_note, error);
	if (err && !was_attached) {
		detach_tc(&target, &port->record);
		detach_xdp(&target, &port->record);
	}
	if (err) {
		port_write(port, NULL);
		return err;
	}
	port->turn = pins_control(port->pins)->xdp_handover[port->slot];
	err = port_write(port, error);
	if (err)
		return err;

	xdp = xdp_mode_name(port->record.xdp_mode);
	xdp_via = xdp_via_name(port->record.xdp_via);
	tc_via = tc_via_name(port->record.tc_via);
	log_info("%s: %s, xdp %s by %s, tc by %s%s%s", port->name,
		 was_attached ? "taken over" : "attached", xdp, xdp_via, tc_via,
		 port->xdp_note[0] ? "; " : "", port->xdp_note);
	report(port, PORT_ATTACHED, json_pack("{s:i}", "ifindex", port->ifindex),
	       json_pack("{s:s, s:s, s:s, s:b}", "xdp", xdp, "xdp_via", xdp_via, "tc_via", tc_via,
			 "taken_over", was_attached));
	return 0;
}

void port_detach(struct port *port, const char *why)
{
	struct attach_target target;
	struct link_facts link;
	bool was_attached = port_is_attached(port);

	if (!port->ifindex && !rtnl_link(port->name, &link) && link.ifindex == port->record.ifindex)
		port->ifindex = link.ifindex; /* recorded by a daemon before us */
	target = port_target(port);
	detach_xdp(&target, &port->record);
	detach_tc(&target, &port->record);
	if (port->ifindex && (port->record.flags & ESC_PORT_FQ_MADE))
		qdisc_drop_fq(port->ifindex);
	port->record.flags &= ~ESC_PORT_FQ_MADE;
	port->xdp_note[0] = port->tc_note[0] = port->lost_note[0] = '\0';
	port_write(port, NULL);
	if (!was_attached)
		return;
	log_info("%s: detached (%s)", port->name, why);
	report(port, PORT_DETACHED, NULL, json_pack("{s:s}", "reason", why));
}

/* --- a qdisc that keeps departure times --- */

int port_make_fq(struct port *port, char **error)
{
	struct qdisc_facts before;
	char text[40];
	int err;

	if (!port->ifindex)
		return explain(error, -ENODEV, "interface %s is gone", port->name);
	err = qdisc_read(port->ifindex, &before);
	if (!err && qdisc_is_fq(&before))
		return 0;
	/* Written down first: a daemon that dies here still takes its qdisc away later. */
	port->record.flags |= ESC_PORT_FQ_MADE;
	err = port_write(port, error);
	if (!err)
		err = qdisc_make_fq(port->name, port->ifindex, error);
	if (err) {
		port->record.flags &= ~ESC_PORT_FQ_MADE;
		port_write(port, NULL);
		return err;
	}
	log_info("%s: fq in the place of %s", port->name, qdisc_text(&before, text));
	report(port, PORT_FQ_INSTALLED, json_pack("{s:s}", "before", text), NULL);
	return 0;
}

int port_drop_fq(struct port *port, char **error)
{
	struct qdisc_facts facts;
	char text[40];
	int err = port->ifindex ? qdisc_read(port->ifindex, &facts) : -ENODEV;

	if (err)
		return explain(error, err, "the qdiscs of %s cannot be read: %s", port->name,
			       strerror(-err));
	if (!(port->record.flags & ESC_PORT_FQ_MADE) || !qdisc_is_ours(&facts))
		return explain(error, -ENOENT,
			       "%s has no fq of ours (it has %s), and is left as it is", port->name,
			       qdisc_text(&facts, text));
	err = qdisc_drop_fq(port->ifindex);
	if (err)
		return explain(error, err, "fq on %s cannot be taken off: %s", port->name,
			       strerror(-err));
	port->record.flags &= ~ESC_PORT_FQ_MADE;
	port_write(port, NULL);
	log_info("%s: fq is taken off, the kernel's default is back", port->name);
	report(port, PORT_FQ_REMOVED, NULL, NULL);
	return 0;
}

/* --- what happens to it --- */

static void interface_gone(struct port *port)
{
	log_warning("interface %s is gone; waiting for it to come back", port->name);
	report(port, PORT_GONE, json_pack("{s:i}", "ifindex", port->ifindex), NULL);
	port->ifindex = 0;
	port->up = false;
	pins_drop_link(port->pins, port->name, PINS_XDP);
	pins_drop_link(port->pins, port->name, PINS_TC_INGRESS);
	pins_drop_link(port->pins, port->name, PINS_TC_EGRESS);
	forget_attachment(port);
	port_write(port, NULL);
}

static void interface_back(struct port *port, const struct link_facts *link, bool off,
			   uint64_t now_local_ns)
{
	char *error = NULL;

	if (now_local_ns < port->retry_local_ns)
		return;
	log_info("interface %s is back", port->name);
	report(port, PORT_BACK, json_pack("{s:i}", "ifindex", link->ifindex), NULL);
	port->up = link->up;
	port->ifindex = link->ifindex;
	if (!off && port_attach(port, &error)) {
		log_error("%s: %s; trying again in 10 s", port->name, error ? error : "?");
		port->retry_local_ns = now_local_ns + PORT_RETRY_NS;
		port->ifindex = 0;
	}
	free(error);
}

static void watch_programs(struct port *port)
{
	uint16_t *turn = &pins_control(port->pins)->xdp_handover[port->slot];
	struct attach_target target = port_target(port);
	char note[ATTACH_NOTE_BYTES];

	/* bpftool that writes `control` as a whole, for its flags, overwrites our turn too. */
	if (__atomic_load_n(turn, __ATOMIC_RELAXED) != port->turn) {
		__atomic_store_n(turn, port->turn, __ATOMIC_RELEASE);
		log_warning("%s: the map control was written over; the turn of our XDP program is "
			    "put back",
			    port->name);
	}
	attach_check(&target, &port->record, note);
	if (!strcmp(note, port->lost_note))
		return;
	memcpy(port->lost_note, note, sizeof(note));
	if (!note[0])
		return;
	log_warning("%s: %s", port->name, note);
	report(port, PORT_DETACHED, json_pack("{s:s}", "note", note),
	       json_pack("{s:s}", "reason", "others"));
}

void port_tick(struct port *port, bool off, uint64_t now_local_ns)
{
	struct link_facts link;
	int err = rtnl_link(port->name, &link);

	if (err && err != -ENODEV)
		return; /* not known now: nothing is concluded */
	if (port->ifindex && (err || link.ifindex != port->ifindex))
		interface_gone(port);
	if (err)
		return;
	if (!port->ifindex) {
		interface_back(port, &link, off, now_local_ns);
		return;
	}
	if (link.up != port->up) {
		port->up = link.up;
		log_info("%s: link %s", port->name, link.up ? "up" : "down");
		report(port, link.up ? PORT_LINK_UP_EVENT : PORT_LINK_DOWN, NULL, NULL);
	}
	if (!off && port_is_attached(port))
		watch_programs(port);
}

/* --- facts --- */

void port_describe(const struct port *port, uint64_t roce_packets, struct port_info *out)
{
	const char *const notes[] = {port->lost_note, port->xdp_note, port->tc_note};
	struct visibility visibility;
	struct rdma_facts rdma;
	struct link_facts link;
	size_t used = 0;

	memset(out, 0, sizeof(*out));
	out->index = port->slot;
	out->plane = port->plane;
	memcpy(out->name, port->name, sizeof(out->name));
	if (!rtnl_link(port->name, &link)) {
		out->ifindex = link.ifindex;
		out->mtu = link.mtu;
		out->link_up = link.up;
	}
	ethtool_driver(port->name, out->driver, sizeof(out->driver));
	out->xdp_mode = port->record.xdp_mode;
	out->xdp_via = port->record.xdp_via;
	out->tc_via = port->record.tc_via;
	out->xdp_program_id = port->record.xdp_program_id;
	for (size_t i = 0; i < 3; i++)
		if (notes[i][0] && used + 1 < sizeof(out->attach_note))
			used += snprintf(out->attach_note + used, sizeof(out->attach_note) - used,
					 "%s%s", used ? "; " : "", notes[i]);
	rdma_read("/sys", port->name, &rdma);
	memcpy(out->rdma_device, rdma.device, sizeof(out->rdma_device));
	out->rdma_port = rdma.port;
	visibility_decide(port->name, &rdma, roce_packets, &visibility);
	snprintf(out->visibility, sizeof(out->visibility), "%s", visibility.mode);
	memcpy(out->visibility_note, visibility.note, sizeof(out->visibility_note));
	if (out->ifindex && out->xdp_mode != ESC_XDP_NONE)
		offload_note(port->name, port->record.offloads_taken,
			     out->xdp_mode == ESC_XDP_NATIVE, out->offload_note,
			     sizeof(out->offload_note));
}
