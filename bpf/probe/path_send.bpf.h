/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Path requests of the daemon's socket: they get a timestamp and a tag, and count on their path. */
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
	       "a request fits");
_Static_assert(__builtin_offsetof(struct path_message, probe) ==
		       __builtin_offsetof(struct path_message, bth) + sizeof(struct esc_bth),
	       "the probe follows its BTH");

/*
 * t1 is read as late as possible: only what follows it is hashed afterwards. Fabric time was
 * read with ktime_ns; our own rate since then is wrong by less than a nanosecond.
 */
static __noinline int path_sign(struct path_message *m, const struct esc_path_key *addresses)
{
	const struct esc_peer *peer = probe_peer(bpf_be64_to_cpu(m->probe.target));
	const struct esc_fleet *own = probe_fleet();
	__u64 key[2] = {};
	bool has_key = own && probe_key(own, peer, m->probe.min_version, probe_own_slot(own), key);
	__u64 begin_ns = bpf_be64_to_cpu(m->probe.ktime_ns), t1_ns;
	__u64 fabric_ns = bpf_be64_to_cpu(m->probe.t1_fabric_ns);
	struct esc_siphash h;

	m->probe.tag = 0;
	if (has_key)
		path_tag_start(&h, key, addresses, &m->bth, PATH_WORD_OF(t1_fabric_ns));
	t1_ns = bpf_ktime_get_ns();
	m->probe.t1_ktime_ns = bpf_cpu_to_be64(t1_ns);
	if (m->probe.flags & ESC_PATH_TIMED)
		m->probe.t1_fabric_ns = bpf_cpu_to_be64(fabric_ns + (t1_ns - begin_ns));
	if (has_key)
		m->probe.tag = path_tag_from(&h, &m->bth, PATH_WORD_OF(t1_fabric_ns));
	return 0;
}

/* All but the timestamp and the tag; fields of a reply are zero. False: our id is not known. */
static __noinline bool path_put_request(struct path_message *m, struct esc_path_cpu *cpu)
{
	const struct esc_fleet *own = probe_fleet();
	struct esc_path_probe *probe = &m->probe;
	const struct esc_peer *peer = probe_peer(bpf_be64_to_cpu(probe->target));
	__u64 now_ns = bpf_ktime_get_ns();
	struct esc_fabric_time time;

	if (!own)
		return false;
	probe->min_version = probe_version_to(own, peer, now_ns);
	probe->version = ESC_PROBE_VERSION;
	path_reverse_key(&cpu->reverse, &cpu->key);
	path_put_reports((struct path_reports *)probe->age_us,
			 bpf_map_lookup_elem(&path_received, &cpu->reverse), now_ns);
	probe->flags = probe_own_flags(own);
	probe->sender = bpf_cpu_to_be64(own->self);
	probe->epoch = bpf_cpu_to_be64(own->epoch);
	probe->echo_epoch = 0;
	probe->sport = m->udp.source;
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

/* Behind the store: what did not leave is not counted. An explored port is not a path. */
static __always_inline void path_count_sent(const struct path_message *m,
					    const struct esc_path_key *key)
{
	__u64 peer = bpf_be64_to_cpu(m->probe.target);
	__u32 index = m->probe.path, number;
	struct esc_paths *slot;
	struct esc_path *path;

	if (index >= ESC_PATHS_MAX)
		return;
	slot = path_slot(key, peer, &number);
	if (!slot)
		return;
	path = &slot->paths[index];
	if (!path->sport || m->udp.source != bpf_htons(path->sport))
		return;
	count(path->probes, 1);
	pathlive_sent(&path->live, bpf_be64_to_cpu(m->probe.t1_ktime_ns));
}

/* False: not a request of ours; it is unchanged. @at: of the UDP header. */
static __noinline bool path_send(struct __sk_buff *skb, struct esc_path_cpu *cpu, __u32 at)
{
	struct path_message *m = (struct path_message *)cpu->message;

	if (bpf_skb_load_bytes(skb, at, &m->udp, PATH_MESSAGE_BYTES))
		return false;
	if (m->udp.len != bpf_htons(PATH_UDP_BYTES) ||
	    m->bth.opcode != ESC_PROBE_OPCODE_PATH_REQUEST || !path_put_request(m, cpu))
		return false;
	path_sign(m, &cpu->key);
	if (bpf_skb_store_bytes(skb, at, &m->udp, PATH_MESSAGE_BYTES, 0))
		return false;
	skb->mark = 0;
	path_count_sent(m, &cpu->key);
	return true;
}

/* A function of its own, so that the key is not on the stack of what follows. */
static __noinline bool probe_is_ours(struct __sk_buff *skb)
{
	__u64 cookie = bpf_get_socket_cookie(skb);

	return bpf_map_lookup_elem(&probe_sockets, &cookie);
}

/*
 * With ESC_PROBE_MARK, which any process with CAP_NET_RAW can set. False: not of a socket of the
 * daemon, or not a probe; it is unchanged.
 */
static __noinline bool probe_send(struct __sk_buff *skb)
{
	struct esc_path_cpu *cpu = path_cpu_get();
	__u8 opcode;
	__u32 at;

	if (!cpu || !probe_is_ours(skb) || !probe_locate(skb, &cpu->key, &at, &opcode))
		return false;
	at -= sizeof(struct udphdr);
	return opcode_is_path_probe(opcode) ? path_send(skb, cpu, at)
					    : probe_send_clock(skb, cpu, at);
}

#endif
