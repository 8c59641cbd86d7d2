// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Adds to an entry of a map that programs are counting in: user space can only overwrite it. The
 * counts are those of a map of another layout, whose programs are gone. Per CPU: to this CPU's
 * value, which its programs, never interrupted by this one, may add to without atomics.
 */
#include "maps/layout.h"
#include <bpf/bpf_helpers.h>

/* The daemon puts the map to add to in its place. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} carry_to SEC(".maps");

const volatile __u32 esc_carry_bytes = 8; /* of its value */
struct esc_carry esc_carry_in;

static __always_inline void carry_step(char *value, const struct esc_carry_step *step)
{
	__u64 offset = step->offset & ~3u;

	if (step->act == ESC_CARRY_ADD4 || step->act == ESC_CARRY_SET4) {
		__u32 *field;

		if (offset > esc_carry_bytes - sizeof(*field))
			return;
		field = (void *)(value + offset);
		if (step->act == ESC_CARRY_SET4)
			*field = step->value;
		else
			__sync_fetch_and_add(field, (__u32)step->value);
	} else {
		__u64 *field;

		offset &= ~7ull;
		if (offset > esc_carry_bytes - sizeof(*field))
			return;
		field = (void *)(value + offset);
		if (step->act == ESC_CARRY_SET8)
			*field = step->value;
		else
			__sync_fetch_and_add(field, step->value);
	}
}

SEC("syscall")
int esc_carry(void *context)
{
	char *value = bpf_map_lookup_elem(&carry_to, esc_carry_in.key);

	(void)context;
	esc_carry_in.done = value != NULL;
	if (!value)
		return 0;
	for (__u32 i = 0; i < ESC_CARRY_STEPS; i++)
		if (i < esc_carry_in.count)
			carry_step(value, &esc_carry_in.steps[i]);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
