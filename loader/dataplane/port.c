// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/log.h"
#include "base/readfile.h"
#include "base/verb.h"
#include "net/rtnl.h"

#define PORT_RETRY_NS 10000000000ULL

const struct event_kind dataplane_events[] = {DATAPLANE_EVENTS(EVENT_KIND){}};

/* --- one daemon on an interface: a locked file, which the kernel unlocks with the process --- */

static int explain_busy(int fd, const char *name, const struct config *config, char **error)
{
	char text[16] = "", command[128] = "";
	int pid, got;

	if (pread(fd, text, sizeof(text) - 1, 0) < 0)
		text[0] = '\0';
	pid = atoi(text);
	got = pid > 0 ? readtext(command, sizeof(command), "/proc/%d/cmdline", pid) : 0;
	for (int i = 0; i + 1 < got; i++) /* arguments end with NUL */
		if (!command[i])
			command[i] = ' ';
	return explain(
		error, -EADDRINUSE,
		"interface %s is already served by escapementd pid %d (%s); stop it, or remove "
		"the interface from %s",
		name, pid, command, config->path ? config->path : "the configuration");
}

/*
 * Only root can open the file, so that no other user can keep the daemon from starting. Names of
 * interfaces are per network namespace. The file stays: removing it could race with another lock.
 */
int port_lock(const char *name, const struct config *config, char **error)
{
	char path[sizeof(PLACES_RUN) + 64];
	struct stat net = {0};
	int fd, err = 0;

	stat("/proc/self/ns/net", &net);
	snprintf(path, sizeof(path), PLACES_RUN "/%.15s.%lu.lock", name, (unsigned long)net.st_ino);
	if (mkdir(PLACES_RUN, 0755) && errno != EEXIST)
		return explain(error, -errno, "%s: %s; see that root may write there", PLACES_RUN,
			       strerror(errno));
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return explain(error, -errno, "%s: %s; see that root may write there", path,
			       strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB))
		err = errno == EWOULDBLOCK
			      ? explain_busy(fd, name, config, error)
			      : explain(error, -errno, "%s: flock: %s", path, strerror(errno));
	else if (ftruncate(fd, 0) || dprintf(fd, "%d\n", getpid()) < 0)
		log_warning("%s: %s", path,
			    strerror(errno)); /* only the pid in a message is missing */
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

/* --- attaching --- */

static void report(const struct port *port, unsigned int kind, json_t *seen, json_t *done)
{
	events_add(port->core->events, &(struct event){.kind = &dataplane_events[kind],
						       .subject = port->name,
						       .seen = seen,
						       .done = done});
}

bool port_is_attached(const struct port *port)
{
	return port->record.xdp_via != ESC_XDP_VIA_NONE || port->record.tc_via != ESC_TC_NONE;
}

static int port_write(struct port *port, char **error)
{
	int err;

	snprintf(port->record.name, sizeof(port->record.name), "%s", port->name);
	port->record.ifindex = port->ifindex;
	err = pins_write_port(port->pins, port->slot, &port->record);
	return err ? explain(error, err, "the map ports cannot be written: %s", strerror(-err)) : 0;
}

int port_attach(struct port *port, char **error)
{
	const char *xdp, *xdp_via, *tc_via;
	struct link_facts link;
	bool was_attached;
	int err;

	err = rtnl_link(port->name, &link);
	if (err)
		return explain(error, err, "interface %s: %s", port->name, strerror(-err));
	/* Another index: what we had was on an interface that is no more. */
	if (port->record.ifindex != link.ifindex)
		port->record = (struct esc_port){};
	was_attached = port_is_attached(port);
	port->ifindex = link.ifindex;
	port->mtu = link.mtu;
	port->lost_note[0] = '\0';
	err = port_write(port, error);
	if (!err)
		err = attach_xdp(port, error);
	if (!err)
		err = attach_tc(port, error);
	if (err && !was_attached) {
		detach_tc(port);
		detach_xdp(port);
	}
	if (err) {
		port_write(port, NULL);
		return err;
	}
	port->turn = port->pins->control->xdp_handover[port->slot];
	attach_judge_mtu(port);
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
	bool was_attached = port_is_attached(port);
	struct link_facts link;

	if (!port->ifindex && !rtnl_link(port->name, &link) && link.ifindex == port->record.ifindex)
		port->ifindex = link.ifindex; /* recorded by a daemon before us */
	detach_xdp(port);
	detach_tc(port);
	if (port->ifindex && (port->record.flags & ESC_PORT_FQ_MADE))
		qdisc_drop_fq(port->ifindex);
	port->record.flags &= ~ESC_PORT_FQ_MADE;
	port->xdp_note[0] = port->tc_note[0] = port->lost_note[0] = '\0';
	port->before = (struct port_order){};
	port_write(port, NULL);
	if (!was_attached)
		return;
	log_info("%s: detached (%s)", port->name, why);
	report(port, PORT_DETACHED, NULL, json_pack("{s:s}", "reason", why));
}

/*
 * Without a daemon, and whatever its version: programs are known by their names and by the maps
 * that they use.
 */
int dataplane_remove(const char *pin_root, char **kept, char **error)
{
	struct if_nameindex *interfaces;
	struct esc_port record;
	struct pins *pins;
	int err;

	bpflog_install();
	*kept = NULL;
	err = pins_open_any(&pins, pin_root, error);
	if (err == -ENOENT) {
		/* What was kept before may have lost its device since. */
		err = pins_remove_links(pin_root, error);
		*kept = pins_forwarded(pin_root);
		return err;
	}
	if (err)
		return err;
	if (pins->control)
		__atomic_or_fetch(&pins->control->flags, ESC_CONTROL_OFF, __ATOMIC_SEQ_CST);
	interfaces = if_nameindex();
	if (!interfaces) {
		err = explain(error, -errno, "the interfaces cannot be listed");
		goto out;
	}
	for (const struct if_nameindex *at = interfaces; at->if_index; at++) {
		struct port port = {.pins = pins, .ifindex = at->if_index};

		snprintf(port.name, sizeof(port.name), "%s", at->if_name);
		/* Its record in `ports`: whether the clsact qdisc is ours, above all. */
		for (unsigned int slot = 0; pins->control && slot < ESC_PORTS_MAX; slot++)
			if (!pins_read_port(pins, slot, &record) &&
			    record.ifindex == port.ifindex &&
			    !strncmp(record.name, port.name, sizeof(record.name)))
				port.record = record;
		detach_xdp(&port);
		detach_tc(&port);
		if (port.record.flags & ESC_PORT_FQ_MADE)
			qdisc_drop_fq(port.ifindex);
	}
	if_freenameindex(interfaces);
	err = pins_remove(pins, error); /* links of interfaces elsewhere go with their pins */
out:
	pins_close(pins);
	*kept = pins_forwarded(pin_root);
	return err;
}

/* --- a qdisc that keeps departure times --- */

/* Room for all queue pairs of the table. */
static uint32_t fq_limit(const struct port *port)
{
	uint64_t packets = (uint64_t)FQ_QP_PACKETS * pins_find(port->pins, "qps")->info.max_entries;

	return packets > INT32_MAX ? INT32_MAX : (uint32_t)packets;
}

/* Also raises the limits of one that is ours. */
int port_make_fq(struct port *port, char **error)
{
	struct qdisc_facts before;
	char text[40];
	int err;

	if (!port->ifindex)
		return explain(error, -ENODEV, "interface %s is gone", port->name);
	err = qdisc_read(port->ifindex, &before);
	if (!err && qdisc_is_fq(&before) && !qdisc_is_ours(&before))
		return 0;
	/* Written down first: a daemon that dies here still takes its qdisc away later. */
	port->record.flags |= ESC_PORT_FQ_MADE;
	err = port_write(port, error);
	if (!err)
		err = qdisc_make_fq(port->name, port->ifindex, fq_limit(port), error);
	if (err && !qdisc_is_ours(&before)) {
		port->record.flags &= ~ESC_PORT_FQ_MADE;
		port_write(port, NULL);
	}
	if (err || qdisc_is_ours(&before))
		return err;
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

static void watch_order(struct port *port)
{
	struct port_order before;

	order_read(port, &before);
	if (!memcmp(&before, &port->before, sizeof(before)))
		return;
	port->before = before;
	for (unsigned int i = 0; i < before.count; i++)
		log_info("%s: program %u (%s) runs before ours in %s", port->name,
			 before.programs[i].id, before.programs[i].name,
			 order_hooks[before.programs[i].hook]);
	report(port, PORT_PROGRAMS_BEFORE, json_pack("{s:o}", "programs", order_json(&before)),
	       NULL);
}

static void watch_programs(struct port *port)
{
	uint16_t *turn = &port->pins->control->xdp_handover[port->slot];
	char note[ATTACH_NOTE_BYTES];

	/* bpftool that writes `control` as a whole, for its flags, overwrites our turn too. */
	if (__atomic_load_n(turn, __ATOMIC_RELAXED) != port->turn) {
		__atomic_store_n(turn, port->turn, __ATOMIC_RELEASE);
		log_warning("%s: the map control was written over; the turn of our XDP program is "
			    "put back",
			    port->name);
	}
	watch_order(port);
	attach_check(port, note);
	if (!strcmp(note, port->lost_note))
		return;
	memcpy(port->lost_note, note, sizeof(note));
	if (!note[0])
		return;
	log_warning("%s: %s", port->name, note);
	report(port, PORT_DETACHED, json_pack("{s:s}", "note", note),
	       json_pack("{s:s}", "reason", "others"));
}

void port_report_stacked(const struct port *port)
{
	if (port->below[0])
		log_warning("%s: served as well as %s below it: a packet of both counts on both; "
			    "take one of them out of `interfaces`",
			    port->name, port->below);
	report(port, port->below[0] ? PORT_STACKED : PORT_UNSTACKED,
	       port->below[0] ? json_pack("{s:s}", "below", port->below) : NULL, NULL);
}

bool port_is_missing(const struct port *port)
{
	struct link_facts link;

	return rtnl_link(port->name, &link) == -ENODEV;
}

void port_lose(struct port *port)
{
	log_warning("interface %s is not there; it is attached when it appears", port->name);
	report(port, PORT_GONE, port->ifindex ? json_pack("{s:i}", "ifindex", port->ifindex) : NULL,
	       NULL);
	port->ifindex = 0;
	pins_drop_link(port->pins, port->name, PINS_XDP);
	pins_drop_link(port->pins, port->name, PINS_TC_INGRESS);
	pins_drop_link(port->pins, port->name, PINS_TC_EGRESS);
	port->record = (struct esc_port){};
	port_write(port, NULL);
}

void port_tick(struct port *port, bool off, uint64_t now_local_ns)
{
	struct link_facts link;
	char *error = NULL;
	int err = rtnl_link(port->name, &link);

	if (err && err != -ENODEV)
		return; /* not known now: nothing is concluded */
	if (port->ifindex && (err || link.ifindex != port->ifindex))
		port_lose(port);
	if (err)
		return;
	if (!port->ifindex) {
		if (now_local_ns < port->retry_local_ns)
			return;
		log_info("interface %s is there", port->name);
		report(port, PORT_BACK, json_pack("{s:i}", "ifindex", link.ifindex), NULL);
		port->ifindex = link.ifindex;
		if (!off && port_attach(port, &error)) {
			log_error("%s: %s; trying again in 10 s", port->name, error ? error : "?");
			port->retry_local_ns = now_local_ns + PORT_RETRY_NS;
			port->ifindex = 0;
		}
		free(error);
		return;
	}
	if (off || !port_is_attached(port))
		return;
	if (link.mtu != port->mtu) {
		port->mtu = link.mtu;
		attach_judge_mtu(port);
	}
	watch_programs(port);
}
