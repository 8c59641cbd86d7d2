/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by path requests and replies: the tag, reports about paths, slots. */
#ifndef ESC_BPF_PROBE_PATH_H
#define ESC_BPF_PROBE_PATH_H

#include "lib/clock.bpf.h"
#include "pacing/pathlive.h"
#include "probe/probe.bpf.h"

#define PATH_UDP_BYTES (sizeof(struct udphdr) + ESC_PATH_DATAGRAM_BYTES)

/* What the tag covers: both addresses, and all from the BTH to the tag. */
#define PATH_SIGNED_BYTES (sizeof(struct esc_bth) + __builtin_offsetof(struct esc_path_probe, tag))
#define PATH_SIGNED_WORDS (PATH_SIGNED_BYTES / 8)
#define PATH_KEY_WORDS (sizeof(struct esc_path_key) / 8)
_Static_assert(PATH_SIGNED_BYTES % 8 == 4, "four bytes are left for the last word");
_Static_assert(sizeof(struct esc_path_key) + PATH_SIGNED_BYTES < 256, "the length byte of SipHash");
/* First word of a timestamp: all before it can be hashed before the clock is read. */
#define PATH_WORD_OF(field)                                                                        \
	((sizeof(struct esc_bth) + __builtin_offsetof(struct esc_path_probe, field)) / 8)

static __always_inline struct esc_path_cpu *path_cpu_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&path_cpu, &zero);
}

/* Starts a tag: the addresses, and the words before @until. */
static __always_inline void path_tag_start(struct esc_siphash *h, const __u64 *key,
					   const struct esc_path_key *addresses, const void *bth,
					   __u32 until)
{
	siphash_start(h, key);
	siphash_words(h, (const __u32 *)addresses, PATH_KEY_WORDS);
	siphash_words(h, bth, until);
}

/* Continues at word @from, with all before it in @h, to the tag. */
static __always_inline __u64 path_tag_from(struct esc_siphash *h, const void *bth, __u32 from)
{
	return probe_tag_end(h, (const __u32 *)bth + from * 2, PATH_SIGNED_WORDS - from,
			     sizeof(struct esc_path_key) + PATH_SIGNED_BYTES);
}

static __always_inline void path_reverse_key(struct esc_path_key *to,
					     const struct esc_path_key *from)
{
	to->src = from->dst;
	to->dst = from->src;
}

/* The paths from our address to the peer's, if the slot is that member's; its number. */
static __always_inline struct esc_paths *path_slot(const struct esc_path_key *key, __u64 peer,
						   __u32 *number)
{
	__u32 *slot = bpf_map_lookup_elem(&path_slots, key);
	struct esc_paths *found;

	*number = ESC_PATH_SLOT_NONE;
	if (!slot)
		return NULL;
	found = bpf_map_lookup_elem(&paths, slot);
	if (!found || !peer || found->peer != peer)
		return NULL;
	*number = *slot;
	return found;
}

/* --- reports: when the peer last received each of our paths --- */

/* As in a probe. */
struct path_reports {
	__be32 age_us[ESC_PATHS_MAX];
	__be16 sport[ESC_PATHS_MAX];
};
_Static_assert(__builtin_offsetof(struct esc_path_probe, report_sport) ==
		       __builtin_offsetof(struct esc_path_probe, age_us) +
			       __builtin_offsetof(struct path_reports, sport),
	       "the reports are contiguous");

/* Reports about the peer's paths; with @rx NULL there are none. */
static __always_inline void path_put_reports(struct path_reports *reports,
					     const struct esc_path_received *rx, __u64 now_ns)
{
	__u32 i;

	__builtin_memset(reports, 0, sizeof(*reports));
	if (!rx)
		return;
#pragma clang loop unroll(disable)
	for (i = 0; i < ESC_PATHS_MAX; i++) {
		reports->sport[i] = bpf_htons(rx->sport[i]);
		reports->age_us[i] =
			probe_age_us(now_ns, rx->sport[i] ? rx->received_ktime_ns[i] : 0);
	}
}

#endif
