// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <string.h>

#include "core/core.h"
#include "dataplane/dataplane.h"
#include "internal.h"

/* Older than that, a sender has sent again by itself, or has nothing to wait for. */
#define RESEND_AGE_NS 1000000000ull
#define SWEEP_AGE_NS 10000000000ull
#define OUTER_V4_BYTES 28
#define OUTER_V6_BYTES 48

/* One that is just being written is left out: its queue pair lives. */
static bool resend_one(const struct esc_nic_retained *kept, const uint8_t *packet, size_t most,
		       const struct nic_resend *by, uint64_t now)
{
	unsigned int outer = nic_address_is_v4(by->to) ? OUTER_V4_BYTES : OUTER_V6_BYTES;

	if (kept->begun != kept->ended || !kept->bytes || kept->bytes > most ||
	    kept->bytes + outer > by->mtu || kept->sent_ktime_ns > by->not_after_ns ||
	    now - kept->sent_ktime_ns > RESEND_AGE_NS)
		return false;
	return !nic_socket_send(by->fd, by->to, by->port, packet, kept->bytes);
}

static unsigned int resend_map(int map_fd, size_t most, void *value,
			       const struct esc_nic_route_key *ends, const struct nic_resend *by)
{
	const struct esc_nic_retained *kept = value;
	struct esc_nic_retained_key at;
	unsigned int count = 0;
	uint64_t now = time_local_ns();
	bool first = true;

	while (!bpf_map_get_next_key(map_fd, first ? NULL : &at, &at)) {
		first = false;
		if (memcmp(&at.src, &ends->src, sizeof(at.src)) ||
		    memcmp(&at.dst, &ends->dst, sizeof(at.dst)) ||
		    bpf_map_lookup_elem(map_fd, &at, value))
			continue;
		count += resend_one(kept, (const uint8_t *)(kept + 1), most, by, now);
	}
	return count;
}

/* Acknowledgements first: they are short, and may be all that is missing. */
unsigned int nic_resend(const struct nic_kernel *kernel, const struct esc_nic_route_key *ends,
			const struct nic_resend *by)
{
	static _Thread_local struct esc_nic_request value; /* the longer of the two */
	unsigned int count = 0;

	if (kernel->acks_fd >= 0)
		count += resend_map(kernel->acks_fd, ESC_NIC_ACK_BYTES, &value, ends, by);
	if (kernel->requests_fd >= 0)
		count += resend_map(kernel->requests_fd, ESC_NIC_REQUEST_BYTES, &value, ends, by);
	return count;
}

struct sweep {
	int fd;
	uint64_t now_ns;
};

static bool is_young(const void *key, void *context)
{
	static _Thread_local struct esc_nic_request value;
	const struct sweep *sweep = context;

	return bpf_map_lookup_elem(sweep->fd, key, &value) ||
	       (int64_t)(sweep->now_ns - value.retained.sent_ktime_ns) < (int64_t)SWEEP_AGE_NS;
}

void nic_resend_sweep(const struct nic_kernel *kernel)
{
	struct sweep sweep = {.fd = kernel->acks_fd, .now_ns = time_local_ns()};

	mapsweep(sweep.fd, sizeof(struct esc_nic_retained_key), is_young, &sweep);
	sweep.fd = kernel->requests_fd;
	mapsweep(sweep.fd, sizeof(struct esc_nic_retained_key), is_young, &sweep);
}
