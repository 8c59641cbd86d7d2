/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A daemon without a kernel: what the socket, the reports and the textfile ask
 * of the dataplane and of the table, returned from memory. Linked ahead of the
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
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "core/events.h"
#include "clock/clock.h"
#include "mesh/mesh.h"
#include "dataplane/internal.h"
#include "qp/internal.h"
#include "nic/nic.h"
#include "pace/pace.h"
#include "steer/steer.h"
#include "tcp/tcp.h"

struct delays;
struct server;

/* What a test of api/ stands on. */
struct fake_world {
	struct core core;
	struct config *config;
	struct events *ledger;
	struct delays *delays;
	struct server *server;
	struct sd_event *event;
};

static struct {
	struct port_info ports[ESC_PORTS_MAX];
	struct esc_port_counts counts[ESC_PORTS_MAX];
	unsigned int port_count;
	struct esc_reason_count reasons[ESC_REASON_MAX];
	struct qp_entry qps[64];
	struct qptable table; /* of them */
	bool off;
	int reload_error; /* 0 or -errno */
	bool reload_forced;
	bool reload_waits; /* its members file is read by a worker */
	int refresh_error;
	struct clock_facts clock;
	struct mesh_peer_facts peers[4];
	size_t peer_count;
	uint16_t steer_ports; /* by the newest `mode steer` */
	int steer_error;      /* 0 or -errno */
} fake;

void clock_get(const struct clock *clock, struct clock_facts *out)
{
	(void)clock;
	*out = fake.clock;
}

struct mesh_peer_facts *mesh_get_peers(const struct mesh *mesh, size_t *count)
{
	struct mesh_peer_facts *list = calloc(1, sizeof(fake.peers));

	(void)mesh;
	if (list)
		memcpy(list, fake.peers, sizeof(fake.peers));
	*count = fake.peer_count;
	return list;
}

int dataplane_port(const struct dataplane *dataplane, unsigned int slot, struct port_facts *out)
{
	(void)dataplane;
	if (slot >= fake.port_count)
		return -ENODEV;
	*out = (struct port_facts){.info = fake.ports[slot], .counts = fake.counts[slot]};
	return 0;
}

int dataplane_reason(const struct dataplane *dataplane, enum esc_reason reason,
		     struct esc_reason_count *out)
{
	(void)dataplane;
	*out = fake.reasons[reason];
	return 0;
}

int dataplane_reasons(const struct dataplane *dataplane,
		      struct esc_reason_count out[ESC_REASON_MAX])
{
	(void)dataplane;
	memcpy(out, fake.reasons, sizeof(fake.reasons));
	return 0;
}

uint32_t dataplane_map_max(const struct dataplane *dataplane, const char *name)
{
	(void)dataplane;
	(void)name;
	return 16384;
}

bool dataplane_is_off(const struct dataplane *dataplane)
{
	(void)dataplane;
	return fake.off;
}

int core_reload(struct core *core, bool force, char **error)
{
	(void)core;
	fake.reload_forced = force;
	return fake.reload_error ? explain(error, fake.reload_error, "reload refused") : 0;
}

bool core_reload_waits(struct core *core, bool force)
{
	(void)core;
	(void)force;
	return fake.reload_waits;
}

bool core_reload_reads(const struct core *core)
{
	(void)core;
	return false;
}

void core_listen_read(struct core *core, struct core_reader *reader)
{
	core->readers = reader;
}

void core_unlisten_read(struct core *core, const struct core_reader *reader)
{
	(void)reader;
	core->readers = NULL;
}

int core_set_off(struct core *core, bool off, const char *by, char **error)
{
	(void)core;
	(void)by;
	(void)error;
	fake.off = off;
	return 0;
}

bool core_kill_file_exists(const struct core *core)
{
	(void)core;
	return false;
}

void core_record_kill_switch(struct core *core, bool off, const char *by, json_t *seen)
{
	(void)core;
	(void)off;
	(void)by;
	json_decref(seen);
}

bool core_is_off(const struct core *core)
{
	(void)core;
	return fake.off;
}

unsigned int dataplane_read_ports(const struct dataplane *dataplane,
				  struct port_facts out[ESC_PORTS_MAX])
{
	(void)dataplane;
	for (unsigned int i = 0; i < fake.port_count; i++)
		out[i] = (struct port_facts){.info = fake.ports[i], .counts = fake.counts[i]};
	return fake.port_count;
}

static int fake_refresh(void *self)
{
	(void)self;
	fake.table.refresh_failed = fake.refresh_error != 0;
	return fake.refresh_error;
}

static uint16_t fake_steered(const void *self)
{
	(void)self;
	return fake.steer_ports;
}

static int fake_steer(void *self, bool on, const json_t *interfaces, const char *by, char **error)
{
	(void)self;
	(void)by;
	if (fake.steer_error)
		return explain(error, fake.steer_error, "steering refused");
	fake.steer_ports = on ? json_array_size(interfaces) ? 1 : 0xffff : 0;
	return 0;
}

static const struct capability_mode fake_mode = {"steer", fake_steered, fake_steer};

/* Capabilities by their own functions, on the parts above. */
static const struct capability fake_dataplane = {.name = "dataplane",
						 .write_metrics = dataplane_write_metrics};
static const struct capability fake_qps = {.name = "qp",
					   .verbs = qp_verb_handlers,
					   .refresh = fake_refresh,
					   .write_metrics = qp_write_metrics};
static const struct capability fake_steering = {.name = "steer", .mode = &fake_mode};

static struct core_module fake_modules[8] = {
	{.capability = &fake_dataplane},
	{.capability = &fake_qps, .self = &fake.table},
	{.capability = &fake_steering},
};
/* Tests add their own behind these. */
#define FAKE_MODULES 3

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
	struct qp_entry *entry = &fake.qps[fake.table.count++];

	address_parse(src, &entry->key.src);
	address_parse(dst, &entry->key.dst);
	entry->key.dest_qpn = qpn;
	entry->key.direction = direction;
	entry->qp.packets = 10;
	entry->qp.bytes = 10000;
	entry->qp.transport = ESC_TRANSPORT_RC;
	return entry;
}

static const struct config_section *const fake_sections[]
	__attribute__((unused)) = {&pace_section, &tcp_section, &steer_section, &nic_section, NULL};

/* A daemon with a ledger and a configuration, as much as the fakes need. */
static inline int fake_daemon(struct fake_world *daemon, const char *yaml)
{
	char *error;
	int err;

	memset(daemon, 0, sizeof(*daemon));
	err = config_parse(
		&(struct config_input){.path = "/nowhere/test.yaml", .sections = fake_sections},
		yaml, strlen(yaml), &daemon->config, &error);
	if (err)
		return err;
	daemon->core.start_local_ns = time_local_ns();
	daemon->core.start_realtime_ns = time_realtime_ns();
	daemon->core.config = daemon->core.own_config = daemon->config;
	daemon->core.modules = fake_modules;
	daemon->core.module_count = FAKE_MODULES;
	fake.table.entries = fake.qps;
	fake.table.core = &daemon->core;
	err = events_new(&daemon->core.events, daemon->config->events.keep, NULL);
	daemon->ledger = daemon->core.events;
	return err;
}

#endif
