/* SPDX-License-Identifier: BSD-2-Clause */
/* Links: their state and flaps, and the alarms that follow from these. */
#ifndef ESC_LINK_H
#define ESC_LINK_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capability;
struct config_section;
struct links;

/*
 * needs: dataplane (the map `link_flaps`), qp and nic (evidence of an alarm). It observes, in all
 * modes and with the kill switch on, the interfaces of the configuration, their siblings, and the
 * devices below those that are bonds or VLANs.
 */
extern const struct capability link_capability;
extern const struct config_section link_section;

struct links_facts {
	char name[IF_NAMESIZE];
	char upper[IF_NAMESIZE]; /* the bond or VLAN above it; "": none */
	uint64_t flaps_1h;	 /* within the last hour, exactly */
};
/* Those that are there. Valid until the loop goes on; false: no more. *@at begins with 0. */
bool links_next(const struct links *links, size_t *at, struct links_facts *out);

#endif
