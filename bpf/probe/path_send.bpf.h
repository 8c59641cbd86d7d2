/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Path requests that leave: stamped, tagged and counted on their lane, if the daemon's socket
 * marked them. */
#ifndef ESC_BPF_PROBE_PATH_SEND_H
#define ESC_BPF_PROBE_PATH_SEND_H

#include "probe/path.bpf.h"
#include "probe/send.bpf.h"

/* From the UDP header to the tag, with the probe where its fields are aligned. */
struct path_message {
	__u32 pad;
	struct udphdr udp;
	struct esc_bth bth;
	struct esc_path_probe probe;
};
#define PATH_MESSAGE_BYTES                                                                         \
	(sizeof(struct path_message) - __builtin_offsetof(struct path_message, udp))
_Static_assert(sizeof(struct path_message) == sizeof(((struct esc_path_cpu *)0)->message),
	       "a request has room");
_Static_assert(__builtin_offsetof(struct path_message, probe) ==
		       __builtin_offsetof(struct path_message, bth) + sizeof(struct esc_bth),
	       "the probe lies just behind its BTH");

/*
 * t1 is taken as late as can be: only what is behind it is hashed after. Fabric time was read
 * with ktime_ns; that runs at our own rate since then is less than a nanosecond.
 */
static __noinline int path_sign(struct path_message *m, const struct esc_path_key *way)
{
	const struct esc_fleet *own = probe_fleet();
	const __u64 *key = own ? probe_own_key(own) : NULL;
	__u64 began_ns = bpf_be64_to_cpu(m->probe.ktime_ns), t1_ns;
	__u64 fabric_ns = bpf_be64_to_cpu(m->probe.t1_fabric_ns);
	struct esc_siphash h;

	m->probe.tag = 0;
	if (key)
		path_tag_start(&h, key, way, &m->bth, PATH_WORD_OF(t1_fabric_ns));
	t1_ns = bpf_ktime_get_ns();
	m->probe.t1_ktime_ns = bpf_cpu_to_be64(t1_ns);
	if (m->probe.flags & ESC_PATH_TIMED)
		m->probe.t1_fabric_ns = bpf_cpu_to_be64(fabric_ns + (t1_ns - began_ns));
	if (key)
		m->probe.tag = path_tag_from(&h, &m->bth, PATH_WORD_OF(t1_fabric_ns));
	return 0;
}

/* All but the stamp and the tag. What only a reply bears is zero. False: we do not know who we are.
 */
static __noinline bool path_put_request(struct path_message *m, struct esc_path_cpu *cpu)
{
	const struct esc_fleet *own = probe_fleet();
	struct esc_path_probe *probe = &m->probe;
	__u64 now_ns = bpf_ktime_get_ns();
	struct esc_fabric_time time;

	if (!own)
		return false;
	path_turn_key(&cpu->back, &cpu->way);
	path_put_words((struct path_words *)probe->age_us,
		       bpf_map_lookup_elem(&path_heard, &cpu->back), now_ns);
	probe->flags = probe_own_flags(own);
	probe->sender = bpf_cpu_to_be64(own->self);
	probe->epoch = bpf_cpu_to_be64(own->epoch);
	probe->echo_epoch = 0;
	probe->sport = m->udp.src;
	probe->t2_fabric_ns = 0;
	probe->t1_fabric_ns = 0;
	probe->ktime_ns = bpf_cpu_to_be64(now_ns);
	probe->t1_bound_ns = 0;
	probe->t2_bound_ns = 0;
	probe->t3_fabric_ns = 0;
	m->udp.check = 0;
	if (esc_fabric_at(esc_local_at(now_ns), &time)) {
		probe->flags |= ESC_PATH_TIMED;
		probe->t1_fabric_ns = bpf_cpu_to_be64(time.fabric_ns);
		probe->t1_bound_ns = bpf_htonl(saturate_ns(time.bound_ns));
	}
	return true;
}

/* Behind the store: what did not leave is not counted. A port that is tried is no lane. */
static __always_inline void path_count_sent(const struct path_message *m,
					    const struct esc_path_key *way)
{
	__u64 peer = bpf_be64_to_cpu(m->probe.target);
	__u32 lane = m->probe.lane, number;
	struct esc_paths *slot;
	struct esc_lane *at;

	if (lane >= ESC_PATH_LANES_MAX)
		return;
	slot = path_slot(way, peer, &number);
	if (!slot)
		return;
	at = &slot->lanes[lane];
	if (!at->sport || m->udp.src != bpf_htons(at->sport))
		return;
	count(at->probes, 1);
	pathlive_sent(&at->live, bpf_be64_to_cpu(m->probe.t1_ktime_ns));
}

/* False: no request of ours; it was left as it is. @at: of the UDP header. */
static __noinline bool path_send(struct __sk_buff *skb, struct esc_path_cpu *own, __u32 at)
{
	struct path_message *m = (struct path_message *)own->message;

	if (bpf_skb_load_bytes(skb, at, &m->udp, PATH_MESSAGE_BYTES))
		return false;
	if (m->udp.bytes != bpf_htons(PATH_UDP_BYTES) ||
	    m->bth.opcode != ESC_PROBE_OPCODE_PATH_REQUEST || !path_put_request(m, own))
		return false;
	path_sign(m, &own->way);
	if (bpf_skb_store_bytes(skb, at, &m->udp, PATH_MESSAGE_BYTES, 0))
		return false;
	skb->mark = 0;
	path_count_sent(m, &own->way);
	return true;
}

/* With ESC_PROBE_MARK. False: nothing of ours; it was left as it is. */
static __noinline bool probe_send(struct __sk_buff *skb)
{
	struct esc_path_cpu *own = path_here();
	__u8 opcode;
	__u32 at;

	if (!own || !probe_find(skb, &own->way, &at, &opcode))
		return false;
	at -= sizeof(struct udphdr);
	return opcode_is_path_probe(opcode) ? path_send(skb, own, at) : probe_send_clock(skb, at);
}

#endif
