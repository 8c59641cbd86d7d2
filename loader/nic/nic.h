/* SPDX-License-Identifier: BSD-2-Clause */
/* NIC failover: pairs of NICs that stand in for each other, as the configuration names them. */
#ifndef ESC_LOADER_NIC_H
#define ESC_LOADER_NIC_H

struct capability;

/*
 * needs: dataplane, qp. Without a `sibling` in the configuration nothing is attached. What cannot
 * be done is reported in the log, as an event and by the verb, and leaves failover off. Programs
 * stay attached when it is closed; they end 2 s after the daemon's last heartbeat. With the kill
 * switch on, dummy devices go on being forwarded: without that they are cut off.
 */
extern const struct capability nic_capability;

#endif
