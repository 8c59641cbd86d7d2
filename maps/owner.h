/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `qp_owners`: a hash of struct esc_owner_key to struct esc_owner, one entry
 * per queue pair of this host's RDMA devices, whether its packets pass the
 * kernel or not. Writer of every field: the tracing programs, on the kernel's
 * modify-QP path; the entry is deleted when the queue pair is destroyed. The daemon
 * adds queue pairs that only RDMA netlink reports (ESC_OWNER_LISTED), and deletes those
 * that RDMA netlink no longer reports.
 */
#ifndef ESC_MAPS_OWNER_H
#define ESC_MAPS_OWNER_H

#include "maps/qp.h"

#define ESC_OWNERS_MAX 16384

struct esc_owner_key {
	__u32 device; /* the kernel's index of the RDMA device, never reused */
	__u32 qpn;    /* local, 24 bits */
};
ESC_ASSERT_SIZE(struct esc_owner_key, 8);

/* As in the kernel's enum ib_qp_state. */
enum esc_owner_state {
	ESC_OWNER_RESET = 0,
	ESC_OWNER_INIT = 1,
	ESC_OWNER_RTR = 2,
	ESC_OWNER_RTS = 3,
	ESC_OWNER_SQD = 4,
	ESC_OWNER_SQE = 5,
	ESC_OWNER_ERR = 6,
};

enum esc_gid_type {
	ESC_GID_UNKNOWN = 0,
	ESC_GID_IB = 1,
	ESC_GID_ROCE_V1 = 2,
	ESC_GID_ROCE_V2 = 3,
};

/* Which fields are valid beside the device, pid, comm, type and state. */
#define ESC_OWNER_REMOTE_QPN 0x01u /* remote_qpn */
#define ESC_OWNER_PATH 0x02u	   /* remote, local, gid_type, sgid_index, flow_label, class */
#define ESC_OWNER_MTU 0x04u	   /* path_mtu */
#define ESC_OWNER_PORT 0x08u	   /* port */
#define ESC_OWNER_LISTED 0x10u	   /* from RDMA netlink, not traced */
#define ESC_OWNER_TIMER 0x20u	   /* ack_timeout, retry_count */

struct esc_owner {
	struct esc_address remote; /* destination GID; an IPv4 one is ::ffff:a.b.c.d */
	struct esc_address local;  /* source GID */
	__u64 cgroup_id;	   /* cgroup v2 of the owner, 0 unknown */
	__u64 first_local_ns;	   /* CLOCK_MONOTONIC of the entry's creation */
	__u64 changed_local_ns;	   /* CLOCK_MONOTONIC of the last change of state */
	__u32 remote_qpn;
	__u32 pid;	  /* of the process, in the host's pid namespace; 0: the kernel */
	__u32 flow_label; /* as set at connect; 0: chosen by the driver */
	__u16 path_mtu;	  /* bytes */
	__u8 port;	  /* of the device, from 1 */
	__u8 state;	  /* enum esc_owner_state */
	__u8 type;	  /* the kernel's enum ib_qp_type: 2 RC, 3 UC, 4 UD, 9 and 10 XRC */
	__u8 gid_type;	  /* enum esc_gid_type */
	__u8 sgid_index;
	__u8 traffic_class;
	__u16 flags;	  /* ESC_OWNER_* */
	__u8 ack_timeout; /* the transport's timer: 4.096 us * 2^it; 0: it never expires */
	__u8 retry_count; /* of its retries */
	char comm[16];	  /* of the process, not of its thread */
	char device[32];  /* "mlx5_0" */
};
ESC_ASSERT_OFFSET(struct esc_owner, remote_qpn, 56);
ESC_ASSERT_OFFSET(struct esc_owner, comm, 80);
ESC_ASSERT_SIZE(struct esc_owner, 128);

#endif
