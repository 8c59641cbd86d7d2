/* SPDX-License-Identifier: BSD-2-Clause */
/* Links: their state and flaps, and the alarms that follow from these. */
#ifndef ESC_LINK_H
#define ESC_LINK_H

struct capability;
struct config_section;

/*
 * needs: dataplane (the map `link_flaps`), qp and nic (evidence of an alarm). It observes, in all
 * modes and with the kill switch on, the interfaces of the configuration, their siblings, and the
 * devices below those that are bonds or VLANs.
 */
extern const struct capability link_capability;
extern const struct config_section link_section;

#endif
