/* SPDX-License-Identifier: BSD-2-Clause */
/* NIC failover: pairs of NICs that replace each other, as configured. */
#ifndef ESC_LOADER_NIC_H
#define ESC_LOADER_NIC_H

#include <stdbool.h>
#include <stdint.h>

struct capability;
struct config;
struct config_section;
struct json_t;
struct nic;

/*
 * needs: dataplane, qp; self is the struct nic. Without a `sibling` in the configuration nothing is
 * attached. What cannot be done is reported in the log, as an event and by the verb, and leaves
 * failover off. Programs stay attached when it is closed; they end 2 s after the daemon's last
 * heartbeat. With the kill switch on, dummy devices are still forwarded: else they would be cut
 * off.
 */
extern const struct capability nic_capability;

enum nic_mode { NIC_WRAP, NIC_PLAIN };
enum nic_repairs { NIC_REPAIR_OFF, NIC_REPAIR_PROVOKE, NIC_REPAIR_REPLAY };

/* The section `nic` of the configuration. */
struct nic_keys {
	enum nic_mode mode;
	enum nic_repairs repair;
	uint16_t port; /* the first of ESC_NIC_PORTS */
	uint64_t probe_interval_ns;
	uint64_t dead_after_ns;	  /* without a reply for so long while another route has replies */
	uint64_t return_after_ns; /* up again for so long before it is used */
};
extern const struct config_section nic_section;
extern const char *const nic_modes[], *const nic_repair_modes[];
const struct nic_keys *nic_keys(const struct config *config);

/*
 * What failover did about the NIC @name: {"state", "reason", "failed_over": how many of the
 * "pairs" of addresses that use it take another NIC}, a new reference; NULL: it is in no pair.
 */
struct json_t *nic_evidence(const struct nic *nic, const char *name);

#endif
