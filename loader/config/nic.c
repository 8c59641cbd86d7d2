// SPDX-License-Identifier: BSD-2-Clause
#include "nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reading.h"
#include "schema.h"
#include "maps/maps.h"

#define MS_NS 1000000ull
#define SECOND_NS 1000000000ull

/* Another interface's name in @key of an interface. */
static int take_other(struct reading *reading, size_t i, const char *key, const char *given,
		      char **out)
{
	const char *name = reading->raw->interfaces[i].name;

	if (!given)
		return 0;
	if (!interface_name_valid(given) || strlen(given) >= IF_NAMESIZE)
		return fail_at(reading, interface_line(reading, i, key),
			       "`%s: %.64s` cannot be an interface; `ip -br link` lists those that "
			       "are here",
			       key, given);
	if (!strcmp(given, name))
		return fail_at(reading, interface_line(reading, i, key),
			       "`%s: %s` is the interface itself; name another one", key, given);
	*out = strdup(given);
	return *out ? 0 : -ENOMEM;
}

int config_nic_take_interface(struct reading *reading, size_t i)
{
	const struct config_raw_interface *raw = &reading->raw->interfaces[i];
	struct config_interface *interface = &reading->config->interfaces[i];
	int err = take_other(reading, i, "sibling", raw->sibling, &interface->sibling);

	if (!err)
		err = take_other(reading, i, "dummy", raw->dummy, &interface->dummy);
	if (!err && interface->dummy && !interface->sibling)
		err = fail_at(reading, interface_line(reading, i, "dummy"),
			      "`dummy: %s` has a meaning beside `sibling` only; name the NIC that "
			      "stands in for %s",
			      interface->dummy, interface->name);
	return err;
}

/* Plain packets are nothing that a socket could send. */
bool config_nic_resends(const struct config *config)
{
	return config->nic.mode == CONFIG_NIC_WRAP && config->nic.resend == CONFIG_NIC_RESEND_ON;
}

int config_nic_take(struct reading *reading)
{
	const struct config_raw_nic *raw = &reading->raw->nic;
	struct config *config = reading->config;
	uint32_t port = ESC_NIC_PORT_DEFAULT;
	int err;

	config->nic.mode = raw->mode;
	config->nic.resend = raw->resend;
	config->nic.probe_interval_ns = 20 * MS_NS;
	config->nic.dead_after_ns = 100 * MS_NS;
	config->nic.return_after_ns = 5 * SECOND_NS;
	err = take_number(reading, "nic", "port", raw->port, 1024, 65535 - ESC_NIC_PORTS, &port);
	config->nic.port = port;
	if (!err)
		err = take_duration(reading, "nic", "probe_interval", raw->probe_interval, MS_NS,
				    SECOND_NS, &config->nic.probe_interval_ns);
	if (!err)
		err = take_duration(reading, "nic", "dead_after", raw->dead_after, 5 * MS_NS,
				    10 * SECOND_NS, &config->nic.dead_after_ns);
	if (!err && config->nic.dead_after_ns < 3 * config->nic.probe_interval_ns)
		err = fail_at(
			reading, line_of(reading, "nic", "dead_after"),
			"`dead_after` is less than three times `probe_interval`: one probe that "
			"is lost would be a dead NIC");
	if (!err)
		err = take_duration(reading, "nic", "return_after", raw->return_after, 500 * MS_NS,
				    3600 * SECOND_NS, &config->nic.return_after_ns);
	return err;
}
