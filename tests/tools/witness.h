/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One RoCEv2 packet as captured by the witness at one interface; tests/lab/owdtruth.py reads these.
 */
#ifndef WITNESS_RECORD_H
#define WITNESS_RECORD_H

#define WITNESS_HOSTS 8

enum witness_place {
	WITNESS_LEAVING = 0,  /* tc egress, ahead of every other program there */
	WITNESS_QUEUED = 1,   /* behind tc egress, before the qdisc */
	WITNESS_ARRIVED = 2,  /* just behind native XDP, which passed it */
	WITNESS_RECEIVED = 3, /* the stack takes it; just before generic XDP */
	WITNESS_CONSUMED = 4  /* of receipts: just behind native XDP, which took and dropped it */
};

/* Addresses as on the wire, IPv4 as ::ffff:a.b.c.d; all numbers in host order. */
struct witness_record {
	unsigned long long ktime_ns;
	unsigned char source[16], destination[16];
	unsigned int qpn, psn; /* of the BTH */
	unsigned short sport, ip_bytes;
	unsigned char opcode, host, place, tos;
	/* Of a receipt (opcode 0xe7): subject and content. */
	unsigned int about_qpn, about_psn;
	unsigned long long rx_fabric_ns;
	unsigned int rx_bound_ns, stack_ns;
	unsigned int flags, reserved;
};

_Static_assert(sizeof(struct witness_record) == 88, "owdtruth.py reads 88 bytes");

#endif
