// SPDX-License-Identifier: BSD-2-Clause
/* Keys, and tags of probes, as bpf/nic/tag.bpf.h has them. */
#include <endian.h>
#include <string.h>

#include "base/siphash.h"
#include "internal.h"

/* --- keys --- */

uint32_t nic_key_flags(const struct fleet_keys *keys)
{
	uint32_t flags =
		(keys->have[0] ? ESC_NIC_HAS_KEY0 : 0) | (keys->have[1] ? ESC_NIC_HAS_KEY1 : 0);

	return flags && keys->use ? flags | ESC_NIC_USE_KEY1 : flags;
}

/* Either half is SipHash, with the key of the pair of hosts, of this name and its number. */
void nic_key_derive(const struct fleet_keys *keys, uint64_t self, uint64_t peer, __u64 out[2][2])
{
	uint64_t input[2] = {htole64(0x6e69632d70616972ull), 0};
	__u64 key[2];

	memset(out, 0, 2 * sizeof(out[0]));
	for (unsigned int slot = 0; slot < 2; slot++) {
		if (!fleet_pair_key(keys, slot, self, peer, key))
			continue;
		for (unsigned int half = 0; half < 2; half++) {
			input[1] = htole64(half);
			out[slot][half] = siphash(key, input, 2);
		}
	}
	explicit_bzero(key, sizeof(key));
}

/* --- tags --- */

/* ESC_NIC_KEY, or 0: the slot of our tags. */
static uint8_t own_slot(uint32_t key_flags)
{
	return key_flags & ESC_NIC_USE_KEY1 ? ESC_NIC_KEY : 0;
}

static uint64_t tag_probe(const __u64 secret[2][2], uint32_t key_flags,
			  const struct esc_nic_signed_probe *input)
{
	const uint32_t slots[] = {ESC_NIC_HAS_KEY0, ESC_NIC_HAS_KEY1};
	bool slot = input->probe.flags & ESC_NIC_KEY;

	return key_flags & slots[slot] ? siphash(secret[slot], input, ESC_NIC_PROBE_WORDS) : 0;
}

void nic_sign_probe(const __u64 secret[2][2], uint32_t key_flags,
		    struct esc_nic_signed_probe *input)
{
	input->probe.flags |= own_slot(key_flags);
	input->probe.tag = tag_probe(secret, key_flags, input);
}

bool nic_probe_is_valid(const __u64 secret[2][2], uint32_t key_flags,
			const struct esc_nic_signed_probe *input)
{
	uint32_t slot = input->probe.flags & ESC_NIC_KEY ? ESC_NIC_HAS_KEY1 : ESC_NIC_HAS_KEY0;
	uint32_t keys = key_flags & (ESC_NIC_HAS_KEY0 | ESC_NIC_HAS_KEY1);

	return (!keys || keys & slot) && input->probe.tag == tag_probe(secret, key_flags, input);
}
