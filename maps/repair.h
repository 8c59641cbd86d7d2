/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Repair after a switch to another path or NIC: copies of a queue pair's newest packets, which are
 * sent once more when what they took has died (bpf/lib/ring.bpf.h).
 *
 * `repair_rings`, an array of maps: the ring of a rule (esc_steer.ring), a map with one struct
 * esc_repair_ring. Writer: the daemon, which makes a ring with the rule and deletes it with it.
 * Writer of what is in a ring: tc egress. NIC failover has rings of its own (maps/nic.h).
 */
#ifndef ESC_MAPS_REPAIR_H
#define ESC_MAPS_REPAIR_H

#include "maps/qp.h"

#define ESC_REPAIR_RINGS 128u
/* Both powers of two. Soft-RoCE has at most 128 packets unacknowledged. */
#define ESC_REPAIR_PACKETS 512u
#define ESC_REPAIR_BYTES (1u << 19)
/* Ethernet, IPv6, UDP, the longest BTH and its extensions, 4,096 bytes, ICRC. */
#define ESC_REPAIR_PACKET_MAX 4224u
#define ESC_REPAIR_UNIT 64u /* a packet begins at a multiple of it */

/* A packet in the ring, valid while its number is that of its place, and not overwritten. */
struct esc_repair_packet {
	__u64 sent_ktime_ns; /* CLOCK_MONOTONIC_COARSE; of the newest copy, if there was one */
	__u32 number;	     /* of the packet, from 1 on; written last */
	__u32 unit;	     /* where it begins */
	__u32 psn;
	__u16 bytes; /* from the Ethernet header to the ICRC */
	__u8 flags;  /* ESC_REPAIR_* */
	__u8 path;   /* with ESC_REPAIR_SENT: that it took last, of the rule's slot */
};
ESC_ASSERT_SIZE(struct esc_repair_packet, 24);

#define ESC_REPAIR_REQUEST 0x01 /* else a response */
#define ESC_REPAIR_SENT 0x02	/* it was sent; else it is being sent */
#define ESC_REPAIR_ACK 0x04	/* an acknowledgement without data, or a NAK */
#define ESC_REPAIR_READ                                                                            \
	0x08 /* a request that is no mere SEND or WRITE: READ, atomic, invalidate                  \
	      */

#define ESC_REPAIR_PSN_KNOWN 0x80000000u

struct esc_repair_ring {
	struct esc_qp_key key; /* writer: the daemon, before the ring is in the array */
	__u64 head;	       /* unit << 32 | number of the next packet - 1 */
	__u64 repaired_ns;     /* esc_qp_steer.applied_local_ns of the last switch repaired */
	__u32 busy;	       /* 1 + the CPU that is sending its packets; 0: none */
	__u32 last_only;       /* writer: the daemon; repair resends the last packets alone */
	/* Counts, each of one CPU at a time. */
	__u64 kept;	/* packets copied */
	__u64 missed;	/* packets not copied: too long, or two CPUs at once */
	__u64 repairs;	/* switches repaired */
	__u64 replayed; /* packets sent once more */
	__u64 overruns; /* repairs without the first packets needed: overwritten by later ones */
	__u32 psn[2];	/* of the newest request, and the newest response; ESC_REPAIR_PSN_KNOWN */
	__u32 first;	/* number of the first packet of this connection; 0: not known */
	/* NIC failover only. Writer of `back`: the daemon. */
	__u32 has_back;
	struct esc_qp_key back; /* entry of `qps` that the peer's responses have */
	__u32 path;		/* that packets take: enum esc_nic_route, ESC_NIC_ROUTES: none */
	__u32 lost;		/* bits of those that died before, while there was no other */
	__u32 stuck;		/* PSN not acknowledged at the last repair, + 1; 0: not known */
	__u32 reserved;
	__u64 since_ns;	 /* with `lost`: CLOCK_MONOTONIC, what was sent before has arrived */
	__u64 return_ns; /* CLOCK_MONOTONIC: a route that is back is taken now; 0: none is */
	struct esc_repair_packet packets[ESC_REPAIR_PACKETS];
	__u8 data[ESC_REPAIR_BYTES + ESC_REPAIR_PACKET_MAX];
};
ESC_ASSERT_OFFSET(struct esc_repair_ring, packets, 192);

/* What the daemon runs esc_repair with: an Ethernet header and this. */
struct esc_repair_order {
	struct esc_qp_key key;
	__u32 path;  /* that died, of the rule's slot */
	__u32 flags; /* ESC_REPAIR_AGAIN */
};
ESC_ASSERT_SIZE(struct esc_repair_order, 48);

#define ESC_REPAIR_AGAIN                                                                           \
	0x01 /* resend the last request and the last response, whichever path they took */

/* Value of `repair_cpu`, a per-CPU array of one: the clone that is to become a copy. */
struct esc_repair_cpu {
	__u32 stage;
	__u32 ring;   /* as esc_steer.ring, or with ESC_REPAIR_OF_NIC as in `nic_queues` */
	__u32 number; /* of the packet in it */
	__u32 mark;   /* of the packet that was cloned */
	/* Of the repair so far. */
	__u32 sent;
	__u32 last_request, last_response; /* numbers; 0: none */
	__u32 overrun;
	__u32 to; /* what copies take, as esc_repair_packet.path */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct esc_repair_cpu, 40);
#define ESC_REPAIR_OF_NIC 0x10000u

/* With the stage above: else it is an application's. */
#define ESC_REPAIR_MARK 0x45735250u

#endif
