/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data center bridging of a device, as its driver has it (RTM_GETDCB, IEEE 802.1Qaz): PFC, ETS,
 * which DSCP belongs to which priority, and the buffers of priorities.
 */
#ifndef ESC_NET_DCB_H
#define ESC_NET_DCB_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>

#define DCB_PRIORITIES 8
#define DCB_DSCPS 64
#define DCB_NO_PRIORITY 0xff

struct dcb_facts {
	bool has_pfc, has_ets, has_apps, has_buffers; /* the driver reports it */
	uint8_t pfc;				      /* a bit for each priority */
	uint8_t class_of[DCB_PRIORITIES];	      /* the traffic class of a priority */
	uint8_t share[DCB_PRIORITIES];		      /* of a traffic class by ETS, in percent */
	uint8_t rule[DCB_PRIORITIES];		      /* of a traffic class, IEEE_8021QAZ_TSA_* */
	/* Of a DSCP; DCB_NO_PRIORITY: no entry. Without any the priority is that of the VLAN tag.
	 */
	uint8_t priority_of[DCB_DSCPS];
	unsigned int dscps; /* with an entry */
	uint8_t buffer_of[DCB_PRIORITIES];
	uint32_t buffer_bytes[DCB_PRIORITIES];
};

/* Nothing is known. */
void dcb_clear(struct dcb_facts *out);
/* 0, or -errno: -EOPNOTSUPP, the driver has none. */
int dcb_read(const char *name, struct dcb_facts *out);
/* A reply; @facts: a struct dcb_facts. */
int dcb_parse(const struct nlmsghdr *message, void *facts);

#endif
