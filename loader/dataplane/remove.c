// SPDX-License-Identifier: BSD-2-Clause
/* Removes all that is pinned and attached, without a daemon and whatever its version. */
#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "attach.h"
#include "bpflog.h"
#include "dataplane.h"
#include "base/explain.h"
#include "pins.h"
#include "net/qdisc.h"

/* The programs are known by their names and by the maps that they use. */
static void remove_from(const struct pins *pins, bool same_abi,
			const struct if_nameindex *interface)
{
	struct attach_target target = {
		.pins = pins,
		.name = interface->if_name,
		.ifindex = interface->if_index,
	};
	struct esc_port record = {0}, at;

	/* Its record in `ports`: whether the clsact qdisc is ours, above all. */
	for (unsigned int slot = 0; same_abi && slot < ESC_PORTS_MAX; slot++)
		if (!pins_read_port(pins, slot, &at) && at.ifindex == interface->if_index &&
		    !strncmp(at.name, interface->if_name, sizeof(at.name)))
			record = at;
	detach_xdp(&target, &record);
	detach_tc(&target, &record);
	if (record.flags & ESC_PORT_FQ_MADE)
		qdisc_drop_fq(interface->if_index);
}

int dataplane_remove(const char *pin_root, char **error)
{
	struct if_nameindex *interfaces;
	struct pins *pins;
	bool same_abi;
	int err;

	bpflog_install();
	err = pins_open_any(&pins, pin_root, &same_abi, error);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (same_abi)
		__atomic_or_fetch(&pins_control(pins)->flags, ESC_CONTROL_OFF, __ATOMIC_SEQ_CST);
	interfaces = if_nameindex();
	if (!interfaces) {
		err = explain(error, -errno, "the interfaces cannot be listed");
		goto out;
	}
	for (size_t i = 0; interfaces[i].if_index; i++)
		remove_from(pins, same_abi, &interfaces[i]);
	if_freenameindex(interfaces);
	err = pins_remove(pins, error); /* links of interfaces elsewhere go with their pins */
out:
	pins_close(pins);
	return err;
}
