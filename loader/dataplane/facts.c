// SPDX-License-Identifier: BSD-2-Clause
/* What other modules read of the dataplane: its ports, counts and maps. */
#include <errno.h>
#include <string.h>

#include "base/explain.h"
#include "internal.h"

/* --- ports --- */

const struct port *dataplane_find(const struct dataplane *dataplane, const char *name)
{
	for (unsigned int i = 0; i < dataplane->count; i++)
		if (!strcmp(dataplane->ports[i].name, name))
			return &dataplane->ports[i];
	return NULL;
}

void dataplane_set_visibility(struct dataplane *dataplane, dataplane_visibility_fn *visibility,
			      void *context)
{
	dataplane->visibility = visibility;
	dataplane->visibility_context = context;
}

unsigned int dataplane_read_ports(const struct dataplane *dataplane,
				  struct port_facts out[ESC_PORTS_MAX])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < dataplane->count && i < ESC_PORTS_MAX; i++) {
		struct port_facts *port = &out[count];

		if (dataplane_port(dataplane, i, &port->info))
			continue;
		if (dataplane->visibility)
			dataplane->visibility(dataplane->visibility_context, time_local_ns(),
					      &port->info);
		port->counted =
			!dataplane_port_counts(dataplane, port->info.index, &port->counts);
		count++;
	}
	return count;
}

unsigned int dataplane_port_count(const struct dataplane *dataplane)
{
	return dataplane->count;
}

uint16_t dataplane_ports_all(const struct dataplane *dataplane)
{
	uint16_t ports = 0;

	for (unsigned int i = 0; i < dataplane->count; i++)
		ports |= 1u << dataplane->ports[i].slot;
	return ports;
}

int dataplane_ports_named(const struct dataplane *dataplane, const json_t *names, uint16_t *ports,
			  char **error)
{
	size_t i;
	json_t *name;

	*ports = json_array_size(names) ? 0 : dataplane_ports_all(dataplane);
	json_array_foreach (names, i, name) {
		const char *text = json_string_value(name);
		const struct port *port = text ? dataplane_find(dataplane, text) : NULL;

		if (!port || *ports >> port->slot & 1)
			return explain(error, -ENODEV,
				       "`%.15s` is not served here, or named twice; `escapement "
				       "status` lists the interfaces",
				       text ? text : "?");
		*ports |= 1u << port->slot;
	}
	return 0;
}

const char *dataplane_port_name(const struct dataplane *dataplane, unsigned int index)
{
	for (unsigned int i = 0; i < dataplane->count; i++)
		if (dataplane->ports[i].slot == index)
			return dataplane->ports[i].name;
	return NULL;
}

int dataplane_port(const struct dataplane *dataplane, unsigned int i, struct port_info *out)
{
	struct esc_port_counts counts;
	int err;

	if (i >= dataplane->count)
		return -EINVAL;
	err = dataplane_port_counts(dataplane, dataplane->ports[i].slot, &counts);
	if (!err)
		port_describe(&dataplane->ports[i], counts.rx_roce_packets + counts.tx_roce_packets,
			      out);
	return err;
}

const char *dataplane_stamps_missing(const struct dataplane *dataplane, const char *interface)
{
	const struct port *port = dataplane_find(dataplane, interface);

	if (!port || !port->ifindex || port->record.xdp_mode == ESC_XDP_NONE)
		return "XDP program";
	return port->record.tc_via == ESC_TC_NONE ? "tc program" : NULL;
}

int dataplane_make_fq(struct dataplane *dataplane, const char *interface, char **error)
{
	struct port *port = (struct port *)dataplane_find(dataplane, interface);

	return port ? port_make_fq(port, error) : -ENODEV;
}

int dataplane_drop_fq(struct dataplane *dataplane, const char *interface, char **error)
{
	struct port *port = (struct port *)dataplane_find(dataplane, interface);

	return port ? port_drop_fq(port, error) : -ENODEV;
}

/* --- counts, summed over CPUs --- */

int dataplane_port_counts(const struct dataplane *dataplane, unsigned int index,
			  struct esc_port_counts *out)
{
	int err = bpfmap_sum(pins_map_fd(dataplane->pins, "port_counts"), index, out, sizeof(*out));

	out->xdp_counted = 0; /* not a count */
	return err;
}

int dataplane_reasons(const struct dataplane *dataplane,
		      struct esc_reason_count out[ESC_REASON_MAX])
{
	int fd = pins_map_fd(dataplane->pins, "reasons"), err = 0;

	for (uint32_t i = 0; !err && i < ESC_REASON_MAX; i++)
		err = bpfmap_sum(fd, i, &out[i], sizeof(out[i]));
	return err;
}

/* --- maps --- */

struct esc_control *dataplane_control(const struct dataplane *dataplane)
{
	return pins_control(dataplane->pins);
}

const struct pins *dataplane_pins(const struct dataplane *dataplane)
{
	return dataplane->pins;
}

int dataplane_map_fd(const struct dataplane *dataplane, const char *name)
{
	return pins_map_fd(dataplane->pins, name);
}

uint32_t dataplane_map_max(const struct dataplane *dataplane, const char *name)
{
	return pins_map_max(dataplane->pins, name);
}

int dataplane_qps_fd(const struct dataplane *dataplane)
{
	return pins_map_fd(dataplane->pins, "qps");
}

uint32_t dataplane_qps_max(const struct dataplane *dataplane)
{
	return pins_map_max(dataplane->pins, "qps");
}
