/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What sending and answering path probes have in common: the tag, words about lanes, slots. */
#ifndef ESC_BPF_PROBE_PATH_H
#define ESC_BPF_PROBE_PATH_H

#include "lib/clock.bpf.h"
#include "pacing/pathlive.h"
#include "probe/probe.bpf.h"

#define PATH_UDP_BYTES (sizeof(struct udphdr) + ESC_PATH_DATAGRAM_BYTES)

/* What the tag covers: both addresses, and from the BTH on to the tag. */
#define PATH_SIGNED_BYTES (sizeof(struct esc_bth) + __builtin_offsetof(struct esc_path_probe, tag))
#define PATH_SIGNED_WORDS (PATH_SIGNED_BYTES / 8)
#define PATH_WAY_WORDS (sizeof(struct esc_path_key) / 8)
_Static_assert(PATH_SIGNED_BYTES % 8 == 4, "four bytes are left for the last word");
_Static_assert(sizeof(struct esc_path_key) + PATH_SIGNED_BYTES < 256, "SipHash counts so far");
/* First word that a stamp is in: all before it can be hashed before the time is taken. */
#define PATH_WORD_OF(field) ((sizeof(struct esc_bth) + __builtin_offsetof(struct esc_path_probe, field)) / 8)

static __always_inline struct esc_path_cpu *path_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&path_cpu, &zero);
}

/* Begins a tag: the addresses, and the words before @until. */
static __always_inline void path_tag_start(struct esc_siphash *h, const __u64 *key,
					   const struct esc_path_key *way, const void *bth,
					   __u32 until)
{
	siphash_start(h, key);
	siphash_words(h, (const __u32 *)way, PATH_WAY_WORDS);
	siphash_words(h, bth, until);
}

/* Goes on from word @from, of which all before is in @h, to the tag. */
static __always_inline __u64 path_tag_from(struct esc_siphash *h, const void *bth, __u32 from)
{
	return probe_tag_end(h, (const __u32 *)bth + from * 2, PATH_SIGNED_WORDS - from,
			     sizeof(struct esc_path_key) + PATH_SIGNED_BYTES);
}

static __always_inline void path_turn_key(struct esc_path_key *to, const struct esc_path_key *from)
{
	to->src = from->dst;
	to->dst = from->src;
}

/* The slot of (ours, the peer's), if it is for that member. *@number: as in `path_slots`. */
static __always_inline struct esc_paths *path_slot(const struct esc_path_key *way, __u64 peer,
						   __u32 *number)
{
	__u32 *slot = bpf_map_lookup_elem(&path_slots, way);
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

/* --- words --- */

/* As they lie in a probe. */
struct path_words {
	__be32 age_us[ESC_PATH_LANES_MAX];
	__be16 sport[ESC_PATH_LANES_MAX];
};
_Static_assert(__builtin_offsetof(struct esc_path_probe, word_sport) ==
		       __builtin_offsetof(struct esc_path_probe, age_us) +
			       __builtin_offsetof(struct path_words, sport),
	       "the words lie together");

/* When the peer was heard on each of its lanes; @heard may be NULL: there is no word. */
static __always_inline void path_put_words(struct path_words *words,
					   const struct esc_path_heard *heard, __u64 now_ns)
{
	__u32 i;

	__builtin_memset(words, 0, sizeof(*words));
	if (!heard)
		return;
#pragma clang loop unroll(disable)
	for (i = 0; i < ESC_PATH_LANES_MAX; i++) {
		words->sport[i] = bpf_htons(heard->sport[i]);
		words->age_us[i] =
			probe_age_us(now_ns, heard->sport[i] ? heard->heard_ktime_ns[i] : 0);
	}
}

#endif
