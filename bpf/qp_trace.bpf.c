// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Owners of queue pairs: traces the generic modify and destroy calls of ib_core. Both pairs of
 * programs do the same; the loader attaches one pair. The source GID is filled in by the call and
 * removed from its arguments before it returns, so it is read from the queue pair afterwards.
 */
#include "lib/maps.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* enum ib_qp_attr_mask, include/rdma/ib_verbs.h; part of the verbs ABI. */
#define TRACE_STATE (1 << 0)
#define TRACE_PORT (1 << 5)
#define TRACE_AV (1 << 7)
#define TRACE_PATH_MTU (1 << 8)
#define TRACE_TIMEOUT (1 << 9)
#define TRACE_RETRY_COUNT (1 << 10)
#define TRACE_DEST_QPN (1 << 20)
#define TRACE_AH_GRH 1 /* IB_AH_GRH */

/* Queue pairs without an entry: the table was full. Writer: the programs. */
__u64 esc_owners_refused = 0;

static __always_inline void trace_key(struct ib_qp *qp, struct esc_owner_key *key)
{
	key->device = BPF_CORE_READ(qp, device, index);
	key->qpn = BPF_CORE_READ(qp, qp_num);
}

static __always_inline __u8 trace_gid_type(const struct ib_gid_attr *gid)
{
	enum ib_gid_type type = BPF_CORE_READ(gid, gid_type);

	if (type == bpf_core_enum_value(enum ib_gid_type, IB_GID_TYPE_ROCE_UDP_ENCAP))
		return ESC_GID_ROCE_V2;
	return type == bpf_core_enum_value(enum ib_gid_type, IB_GID_TYPE_ROCE) ? ESC_GID_ROCE_V1
									       : ESC_GID_IB;
}

static __always_inline void trace_path(struct esc_owner *owner, struct ib_qp *qp,
				       struct ib_qp_attr *attr)
{
	const struct ib_gid_attr *gid = BPF_CORE_READ(qp, av_sgid_attr);

	if (!gid || !(BPF_CORE_READ(attr, ah_attr.ah_flags) & TRACE_AH_GRH))
		return;
	bpf_core_read(&owner->remote, sizeof(owner->remote), &attr->ah_attr.grh.dgid);
	bpf_core_read(&owner->local, sizeof(owner->local), &gid->gid);
	owner->gid_type = trace_gid_type(gid);
	owner->sgid_index = BPF_CORE_READ(attr, ah_attr.grh.sgid_index);
	owner->flow_label = BPF_CORE_READ(attr, ah_attr.grh.flow_label);
	owner->traffic_class = BPF_CORE_READ(attr, ah_attr.grh.traffic_class);
	owner->flags |= ESC_OWNER_PATH;
}

static __always_inline void trace_owner_new(struct esc_owner *owner, struct ib_qp *qp)
{
	struct task_struct *leader =
		BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), group_leader);
	struct ib_device *device = BPF_CORE_READ(qp, device);

	owner->pid = bpf_get_current_pid_tgid() >> 32;
	owner->cgroup_id = bpf_get_current_cgroup_id();
	owner->first_local_ns = bpf_ktime_get_ns();
	owner->type = BPF_CORE_READ(qp, qp_type);
	BPF_CORE_READ_STR_INTO(&owner->comm, leader, comm);
	BPF_CORE_READ_STR_INTO(&owner->device, device, name);
}

static __always_inline void trace_state(struct esc_owner *owner, struct ib_qp *qp,
					struct ib_qp_attr *attr)
{
	owner->state = BPF_CORE_READ(attr, qp_state);
	owner->changed_local_ns = bpf_ktime_get_ns();
	/* It may be connected to another queue pair now. */
	if (owner->state == ESC_OWNER_RESET || owner->state == ESC_OWNER_INIT)
		owner->flags &= ~(ESC_OWNER_REMOTE_QPN | ESC_OWNER_PATH);
	/* The entry is from an outdated list: the number was reused since. */
	if (owner->state == ESC_OWNER_INIT && (owner->flags & ESC_OWNER_LISTED)) {
		trace_owner_new(owner, qp);
		owner->flags = 0;
	}
}

static __always_inline struct esc_owner *trace_owner(struct ib_qp *qp)
{
	struct esc_owner_key key;
	struct esc_owner *owner;

	trace_key(qp, &key);
	owner = bpf_map_lookup_elem(&qp_owners, &key);
	if (!owner) {
		struct esc_owner fresh = {};

		trace_owner_new(&fresh, qp);
		if (bpf_map_update_elem(&qp_owners, &key, &fresh, BPF_NOEXIST))
			__sync_fetch_and_add(&esc_owners_refused, 1);
		owner = bpf_map_lookup_elem(&qp_owners, &key);
	}
	return owner;
}

static __always_inline int trace_modified(struct ib_qp *opened, struct ib_qp_attr *attr, int mask)
{
	struct ib_qp *qp = BPF_CORE_READ(opened, real_qp);
	struct esc_owner *owner;

	if (!control_get())
		return 0;
	if (!qp)
		qp = opened;
	owner = trace_owner(qp);
	if (!owner)
		return 0;
	if (mask & TRACE_STATE)
		trace_state(owner, qp, attr);
	if (mask & TRACE_PORT) {
		owner->port = BPF_CORE_READ(attr, port_num);
		owner->flags |= ESC_OWNER_PORT;
	}
	if (mask & TRACE_AV)
		trace_path(owner, qp, attr);
	if (mask & TRACE_PATH_MTU) {
		owner->path_mtu = 128 << (BPF_CORE_READ(attr, path_mtu) & 0x7);
		owner->flags |= ESC_OWNER_MTU;
	}
	if (mask & TRACE_TIMEOUT) {
		owner->ack_timeout = BPF_CORE_READ(attr, timeout) & 0x1f;
		owner->flags |= ESC_OWNER_TIMER;
	}
	if (mask & TRACE_RETRY_COUNT)
		owner->retry_count = BPF_CORE_READ(attr, retry_cnt);
	if (mask & TRACE_DEST_QPN) {
		owner->remote_qpn = BPF_CORE_READ(attr, dest_qp_num);
		owner->flags |= ESC_OWNER_REMOTE_QPN;
	}
	return 0;
}

/*
 * Before the call, since the queue pair's memory is gone after it. A queue
 * pair that is in use stays; one opened by a second process has its own end.
 */
static __always_inline int trace_destroyed(struct ib_qp *qp)
{
	struct esc_owner_key key;

	if (BPF_CORE_READ(qp, real_qp) != qp || BPF_CORE_READ(qp, usecnt.counter))
		return 0;
	trace_key(qp, &key);
	bpf_map_delete_elem(&qp_owners, &key);
	return 0;
}

SEC("fexit/ib_modify_qp_with_udata")
int BPF_PROG(esc_qp_modify, struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
	     struct ib_udata *udata, int err)
{
	return err ? 0 : trace_modified(qp, attr, mask);
}

SEC("fentry/ib_destroy_qp_user")
int BPF_PROG(esc_qp_destroy, struct ib_qp *qp)
{
	return trace_destroyed(qp);
}

/* --- the same by kprobes: the arguments are kept until the call returns --- */

struct esc_trace_call {
	__u64 qp;
	__u64 attr;
	__u64 mask;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); /* thread */
	__type(value, struct esc_trace_call);
} qp_calls SEC(".maps");

SEC("kprobe/ib_modify_qp_with_udata")
int BPF_KPROBE(esc_qp_mod_in, struct ib_qp *qp, struct ib_qp_attr *attr, int mask)
{
	struct esc_trace_call call = {.qp = (__u64)qp, .attr = (__u64)attr, .mask = (__u32)mask};
	__u64 thread = bpf_get_current_pid_tgid();

	bpf_map_update_elem(&qp_calls, &thread, &call, BPF_ANY);
	return 0;
}

SEC("kretprobe/ib_modify_qp_with_udata")
int BPF_KRETPROBE(esc_qp_mod_out, int err)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct esc_trace_call *kept = bpf_map_lookup_elem(&qp_calls, &thread), call;

	if (!kept)
		return 0;
	call = *kept;
	bpf_map_delete_elem(&qp_calls, &thread);
	return err ? 0
		   : trace_modified((struct ib_qp *)call.qp, (struct ib_qp_attr *)call.attr,
				    (int)call.mask);
}

SEC("kprobe/ib_destroy_qp_user")
int BPF_KPROBE(esc_qp_gone, struct ib_qp *qp)
{
	return trace_destroyed(qp);
}

char _license[] SEC("license") = "Dual BSD/GPL";
