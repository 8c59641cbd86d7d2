// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repair after a NIC failure (bpf/nic/repair.bpf.h): rings for the queue pairs of protected
 * addresses, which the programs take from the spare ones, and a start of the repair where a queue
 * pair itself has nothing to send.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <string.h>

#include "base/address.h"
#include "base/log.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "nic.skel.h"

#define SPARES 16		   /* new queue pairs of a second; more have none for that second */
#define IDLE_NS 10000000000ull	   /* then another queue pair may have the ring */
#define MARGIN_NS 100000000ull	   /* of a busy host, in noticing a failure */
#define AGAIN_FIRST_NS 20000000ull /* then 4, 16 times as long */
#define AGAIN_MAX 3

/* --- rings: from the loop alone --- */

static bool is_mapped(const struct nic_ring *ring)
{
	return ring->state != NIC_RING_NONE;
}

static void make_spare(struct nic *nic, uint32_t index)
{
	struct nic_ring *ring = &nic->repair.rings[index];
	uint32_t id = index + 1;
	int err = qpring_make(nic->kernel.rings_fd, index, NULL,
			      nic_keys(nic->core->config)->repair == NIC_REPAIR_PROVOKE,
			      &ring->shared);

	if (err) {
		log_warning("NIC failover: no copies of packets are kept for more queue pairs: %s",
			    strerror(-err));
		return;
	}
	ring->state = NIC_RING_SPARE;
	if (bpf_map_update_elem(nic->kernel.spares_fd, NULL, &id, BPF_ANY))
		log_debug("NIC failover: the queue of spare rings is full");
}

static void drop(struct nic *nic, uint32_t index)
{
	struct nic_ring *ring = &nic->repair.rings[index];

	qpring_add(&nic->repair.ended, ring->shared);
	qpring_drop(nic->kernel.rings_fd, index, ring->shared);
	*ring = (struct nic_ring){};
}

/* A program may still write into the ring: it is replaced a tick later. */
static void retire(struct nic_ring *ring)
{
	ring->state = NIC_RING_ENDS;
	__atomic_store_n(&ring->shared->key.dest_qpn, UINT32_MAX, __ATOMIC_RELEASE);
}

static void find_back(struct nic *nic, const struct nic_ring *ring)
{
	struct esc_repair_ring *shared = ring->shared;
	struct esc_qp_key key = shared->key, back;

	if (shared->has_back && qptable_find(nic->qps, &shared->back))
		return;
	shared->has_back = 0;
	for (key.port = 0; key.port < ESC_PORTS_MAX; key.port++) {
		const struct qp_entry *entry = qptable_find(nic->qps, &key);

		if (!entry || !qptable_find_back(nic->qps, &key, entry->qp.sport, &back))
			continue;
		if (!qptable_find(nic->qps, &back))
			continue;
		shared->back = back;
		__atomic_store_n(&shared->has_back, 1, __ATOMIC_RELEASE);
	}
}

struct ring_look {
	struct nic *nic;
	uint64_t now_ns;
};

/* False: the queue pair of the entry is idle. */
static bool look_at(const void *key, void *context)
{
	const struct ring_look *look = context;
	struct nic *nic = look->nic;
	struct nic_ring *ring;
	uint32_t id;

	if (bpf_map_lookup_elem(nic->kernel.queues_fd, key, &id) || !id || id > ESC_NIC_RINGS)
		return true;
	ring = &nic->repair.rings[id - 1];
	if (!is_mapped(ring))
		return false;
	if (ring->state == NIC_RING_SPARE || ring->kept != ring->shared->kept) {
		ring->state = NIC_RING_USED;
		ring->kept = ring->shared->kept;
		ring->moved_ns = look->now_ns;
	}
	if (look->now_ns - ring->moved_ns > IDLE_NS) {
		retire(ring);
		return false;
	}
	find_back(nic, ring);
	return true;
}

void nic_repair_tick(struct nic *nic, uint64_t now_ns)
{
	struct nic_ring *rings = nic->repair.rings;
	size_t spares = 0;

	if (!nic->repair.on)
		return;
	for (uint32_t i = 0; i < ESC_NIC_RINGS; i++)
		if (rings[i].state == NIC_RING_ENDS)
			drop(nic, i);
	mapsweep(nic->kernel.queues_fd, sizeof(struct esc_nic_queue), look_at,
		 &(struct ring_look){nic, now_ns});
	for (uint32_t i = 0; i < ESC_NIC_RINGS; i++)
		spares += rings[i].state == NIC_RING_SPARE;
	for (uint32_t i = 0; i < ESC_NIC_RINGS && spares < SPARES; i++) {
		if (rings[i].state != NIC_RING_NONE)
			continue;
		make_spare(nic, i);
		if (!is_mapped(&rings[i]))
			return;
		spares++;
	}
}

static bool nothing_stays(const void *key, void *context)
{
	(void)key;
	(void)context;
	return false;
}

void nic_repair_end(struct nic *nic)
{
	uint32_t id;

	if (!nic->repair.on)
		return;
	nic->repair.on = false;
	while (!bpf_map_lookup_and_delete_elem(nic->kernel.spares_fd, NULL, &id))
		;
	mapsweep(nic->kernel.queues_fd, sizeof(struct esc_nic_queue), nothing_stays, NULL);
	for (uint32_t i = 0; i < ESC_NIC_RINGS; i++)
		if (is_mapped(&nic->repair.rings[i]))
			drop(nic, i);
}

void nic_repair_begin(struct nic *nic)
{
	const struct nic_keys *keys = nic_keys(nic->core->config);

	if (keys->repair == NIC_REPAIR_OFF) {
		nic_repair_end(nic);
		return;
	}
	nic->repair.on = true;
	nic->kernel.skeleton->bss->nic_repair_age_ns = keys->dead_after_ns + MARGIN_NS;
	for (uint32_t i = 0; i < ESC_NIC_RINGS; i++)
		if (is_mapped(&nic->repair.rings[i]))
			nic->repair.rings[i].shared->last_only = keys->repair == NIC_REPAIR_PROVOKE;
	nic_repair_tick(nic, time_local_ns());
}

void nic_repair_counts(const struct nic *nic, struct qpring_counts *out)
{
	*out = nic->repair.ended;
	for (uint32_t i = 0; i < ESC_NIC_RINGS; i++) {
		const struct nic_ring *ring = &nic->repair.rings[i];

		if (!is_mapped(ring))
			continue;
		out->rings += ring->state == NIC_RING_USED;
		qpring_add(out, ring->shared);
	}
	out->refused = nic->kernel.skeleton ? nic->kernel.skeleton->bss->nic_not_kept : 0;
}

/* --- the start of a repair: in the thread --- */

static void run(const struct nic_kernel *kernel, unsigned int ifindex, bool four, uint32_t id,
		uint32_t flags)
{
	struct {
		struct ethhdr ethernet;
		struct esc_nic_order order;
	} __attribute__((packed)) frame = {
		.ethernet.h_proto = htons(four ? ETH_P_IP : ETH_P_IPV6),
		.order = {.ring = id, .flags = flags},
	};
	struct __sk_buff context = {.ifindex = ifindex};
	LIBBPF_OPTS(bpf_test_run_opts, test, .data_in = &frame, .data_size_in = sizeof(frame),
		    .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);

	/* A NIC that has gone meanwhile: its queue pairs' own packets do it. */
	bpf_prog_test_run_opts(bpf_program__fd(kernel->skeleton->progs.esc_nic_repair), &test);
}

static void run_all(struct nic_watch *watch, const struct nic_used *used, uint32_t flags)
{
	const struct esc_nic_local *local = &watch->plan.locals[used->local].entry;
	unsigned int ifindex = local->first_ifindex ? local->first_ifindex : local->deliver_ifindex;
	const struct nic_kernel *kernel = watch->kernel;
	struct esc_nic_queue at, *previous = NULL;
	uint32_t id;

	for (; !bpf_map_get_next_key(kernel->queues_fd, previous, &at); previous = &at)
		if (!memcmp(&at.src, &used->key.src, sizeof(at.src)) &&
		    !memcmp(&at.dst, &used->key.dst, sizeof(at.dst)) &&
		    !bpf_map_lookup_elem(kernel->queues_fd, &at, &id))
			run(kernel, ifindex, address_is_ipv4(&at.src), id, flags);
}

void nic_repair_start(struct nic_watch *watch, struct nic_used *used, uint64_t now_ns)
{
	if (!watch->repairs)
		return;
	run_all(watch, used, 0);
	used->repair_again = 0;
	used->repair_due_ns = now_ns + AGAIN_FIRST_NS;
}

void nic_repair_go_on(struct nic_watch *watch, struct nic_used *used, uint64_t now_ns)
{
	if (!used->repair_due_ns || now_ns < used->repair_due_ns)
		return;
	run_all(watch, used, ESC_NIC_ORDER_AGAIN);
	used->repair_again++;
	used->repair_due_ns = used->repair_again < AGAIN_MAX
				      ? now_ns + (AGAIN_FIRST_NS << 2 * used->repair_again)
				      : 0;
}
