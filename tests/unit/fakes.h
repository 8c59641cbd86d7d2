/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A daemon without a kernel: what the socket, the reports and the textfile ask
 * of the dataplane and of the table, answered from memory. Linked ahead of the
 * real ones (mk/face.mk).
 */
#ifndef ESC_TESTS_UNIT_FAKES_H
#define ESC_TESTS_UNIT_FAKES_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/address.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "core/events.h"
#include "mesh/mesh.h"
#include "qp/table.h"
#include "steer/steer.h"

static struct {
	struct port_info ports[ESC_PORTS_MAX];
	struct esc_port_counts counts[ESC_PORTS_MAX];
	unsigned int port_count;
	struct esc_reason_count reasons[ESC_REASON_MAX];
	struct qp_entry qps[64];
	size_t qp_count;
	struct qp_totals totals[2];
	bool off;
	int reload_error; /* 0 or -errno */
	int refresh_error;
	struct mesh_facts mesh;
	struct mesh_clock_facts clock;
	struct mesh_peer_facts peers[4];
	size_t peer_count;
	uint16_t steer_ports;
	struct steer_order order; /* the newest of `steer set` or `steer clear` */
	int steer_error;	  /* 0 or -errno */
	char order_dst[64]; /* copied: the order borrows it */
	bool cleared_all;
	struct steer_facts steer;
} fake;

void mesh_get(const struct mesh *mesh, struct mesh_facts *out)
{
	(void)mesh;
	*out = fake.mesh;
}

void mesh_get_clock(const struct mesh *mesh, struct mesh_clock_facts *out)
{
	(void)mesh;
	*out = fake.clock;
}

size_t mesh_get_peers(const struct mesh *mesh, struct mesh_peer_facts *out, size_t max)
{
	(void)mesh;
	(void)max;
	memcpy(out, fake.peers, fake.peer_count * sizeof(*out));
	return fake.peer_count;
}

unsigned int dataplane_port_count(const struct dataplane *dataplane)
{
	(void)dataplane;
	return fake.port_count;
}

int dataplane_port(const struct dataplane *dataplane, unsigned int i, struct port_info *out)
{
	(void)dataplane;
	*out = fake.ports[i];
	return 0;
}

int dataplane_port_counts(const struct dataplane *dataplane, unsigned int index,
			  struct esc_port_counts *out)
{
	(void)dataplane;
	*out = fake.counts[index];
	return 0;
}

int dataplane_reasons(const struct dataplane *dataplane,
		      struct esc_reason_count out[ESC_REASON_MAX])
{
	(void)dataplane;
	memcpy(out, fake.reasons, sizeof(fake.reasons));
	return 0;
}

uint32_t dataplane_qps_max(const struct dataplane *dataplane)
{
	(void)dataplane;
	return 16384;
}

bool dataplane_is_off(const struct dataplane *dataplane)
{
	(void)dataplane;
	return fake.off;
}

const struct qp_entry *qptable_entries(const struct qptable *table, size_t *count)
{
	(void)table;
	*count = fake.qp_count;
	return fake.qps;
}

void qptable_totals(const struct qptable *table, enum esc_direction direction,
		    struct qp_totals *out)
{
	(void)table;
	*out = fake.totals[direction];
}

int daemon_refresh(struct daemon *daemon)
{
	(void)daemon;
	return fake.refresh_error;
}

int core_reload(struct core *core, char **error)
{
	(void)core;
	return fake.reload_error ? explain(error, fake.reload_error, "reload refused") : 0;
}

int core_set_off(struct core *core, bool off, const char *by, char **error)
{
	(void)core;
	(void)by;
	(void)error;
	fake.off = off;
	return 0;
}

int core_refresh(struct core *core)
{
	(void)core;
	return fake.refresh_error;
}

bool core_is_off(const struct core *core)
{
	(void)core;
	return fake.off;
}

uint16_t steer_ports(const struct steer *steer)
{
	(void)steer;
	return fake.steer_ports;
}

int steer_set_mode(struct steer *steer, bool on, const json_t *interfaces, const char *by,
		   char **error)
{
	(void)steer;
	(void)by;
	if (fake.steer_error)
		return explain(error, fake.steer_error, "steering refused");
	fake.steer_ports = on ? json_array_size(interfaces) ? 1 : 0xffff : 0;
	return 0;
}

int steer_set(struct steer *steer, const struct steer_order *order, json_t **result, char **error)
{
	(void)steer;
	fake.order = *order;
	snprintf(fake.order_dst, sizeof(fake.order_dst), "%s", order->dst);
	*result = fake.steer_error ? NULL : json_object();
	return fake.steer_error ? explain(error, fake.steer_error, "steering refused") : 0;
}

int steer_clear(struct steer *steer, const struct steer_order *order, json_t **result, char **error)
{
	int err = steer_set(steer, order, result, error);

	json_decref(*result);
	*result = err ? NULL : json_array();
	return err;
}

int steer_clear_all(struct steer *steer, bool now, json_t **result)
{
	(void)steer;
	(void)now;
	fake.cleared_all = true;
	*result = json_array();
	return 0;
}

json_t *steer_list(const struct steer *steer)
{
	(void)steer;
	return json_pack("{s:s, s:[]}", "mode", "observe", "steers");
}

int steer_set_auto(struct steer *steer, bool on, const char *by, char **error)
{
	(void)steer;
	(void)by;
	if (fake.steer_error)
		return explain(error, fake.steer_error, "steering refused");
	fake.steer.by_itself = on;
	return 0;
}

json_t *steer_plan(struct steer *steer)
{
	(void)steer;
	return json_pack("{s:b, s:[]}", "auto", fake.steer.by_itself, "pairs");
}

void steer_put(const struct steer *steer, const struct qp_entry *entry, json_t *qp)
{
	(void)steer;
	if (entry->qp.steer.sport)
		json_object_set_new(qp, "steered_sport", json_integer(entry->qp.steer.sport));
}

void steer_get(const struct steer *steer, struct steer_facts *out)
{
	(void)steer;
	*out = fake.steer;
}

const char *steer_reason_name(enum steer_reason reason)
{
	return reason == STEER_BY_OPERATOR ? "operator" : "rollback";
}

void steer_stop(struct steer *steer, const char *by)
{
	(void)steer;
	(void)by;
}

extern const struct capability dataplane_capability, mesh_capability, qp_capability,
	delay_capability, paths_capability, steer_capability, diagnose_capability;

static struct core_module fake_modules[] = {
	{.capability = &dataplane_capability}, {.capability = &mesh_capability},
	{.capability = &qp_capability},	       {.capability = &delay_capability},
	{.capability = &paths_capability},
	{.capability = &steer_capability},     
	{.capability = &diagnose_capability},
};

/* A port that sees packets, natively attached. */
static inline struct port_info *fake_port(const char *name)
{
	struct port_info *port = &fake.ports[fake.port_count];

	port->index = fake.port_count++;
	snprintf(port->name, sizeof(port->name), "%s", name);
	port->ifindex = 7;
	snprintf(port->driver, sizeof(port->driver), "veth");
	port->mtu = 1500;
	port->link_up = true;
	port->xdp_mode = ESC_XDP_NATIVE;
	port->xdp_via = ESC_XDP_VIA_LINK;
	port->tc_via = ESC_TC_TCX;
	snprintf(port->visibility, sizeof(port->visibility), "packets");
	return port;
}

/* An RC queue pair on port 0. */
static inline struct qp_entry *fake_qp(enum esc_direction direction, const char *src,
				       const char *dst, uint32_t qpn)
{
	struct qp_entry *entry = &fake.qps[fake.qp_count++];

	address_parse(src, &entry->key.src);
	address_parse(dst, &entry->key.dst);
	entry->key.dest_qpn = qpn;
	entry->key.direction = direction;
	entry->qp.packets = 10;
	entry->qp.bytes = 10000;
	entry->qp.transport = ESC_TRANSPORT_RC;
	return entry;
}

/* A daemon with a ledger and a configuration, as much as the fakes need. */
static inline int fake_daemon(struct daemon *daemon, const char *yaml)
{
	char *error;
	int err;

	memset(daemon, 0, sizeof(*daemon));
	err = config_parse(&(struct config_input){.path = "/nowhere/test.yaml"}, yaml, strlen(yaml),
			   &daemon->config, &error);
	if (err)
		return err;
	daemon->start_local_ns = daemon->core.start_local_ns = time_local_ns();
	daemon->start_realtime_ns = daemon->core.start_realtime_ns = time_realtime_ns();
	daemon->core.config = daemon->core.own_config = daemon->config;
	legacy_daemon = daemon;
	daemon->core.modules = fake_modules;
	daemon->core.module_count = sizeof(fake_modules) / sizeof(fake_modules[0]);
	err = events_new(&daemon->core.events, daemon->config->events.keep,
			  daemon->config->events.file);
	daemon->ledger = daemon->core.events;
	return err;
}

#endif
