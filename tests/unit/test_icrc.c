// SPDX-License-Identifier: BSD-2-Clause
/* The ICRC's patch against zlib's crc32 over the whole packet, at every length. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "pacing/icrc.h"

static unsigned int table[ICRC_WORDS_MAX];

static void make_table(void)
{
	icrc_make_table(table);
}

TestSuite(icrc, .init = make_table);

static unsigned int crc_of(const unsigned char *covered, size_t bytes)
{
	return (unsigned int)crc32(0, covered, bytes);
}

/* Masked LRH and IP header before the port do not matter to the change; any 28 bytes do. */
#define BEFORE 28

/* CRC before and after the port's change differ by the patch. */
static bool agrees(unsigned char *packet, unsigned int words, unsigned int change)
{
	size_t covered = BEFORE + 4 * words - 4; /* all of UDP but the ICRC */
	unsigned int before = crc_of(packet, covered), after;

	packet[BEFORE] ^= change & 0xff;
	packet[BEFORE + 1] ^= change >> 8;
	after = crc_of(packet, covered);
	return (before ^ after) == icrc_patch(change, table[words]);
}

Test(icrc, every_length_with_random_ports)
{
	unsigned char packet[BEFORE + 4 * ICRC_WORDS_MAX];
	unsigned int seed = (unsigned int)time(NULL);

	cr_log_info("seed %u", seed);
	srandom(seed);
	for (size_t i = 0; i < sizeof(packet); i++)
		packet[i] = random();
	for (unsigned int words = ICRC_WORDS_MIN; words < ICRC_WORDS_MAX; words++)
		for (int i = 0; i < 4; i++)
			cr_assert(agrees(packet, words, random() & 0xffff), "seed %u, %u words",
				  seed, words);
}

Test(icrc, every_change_of_a_port)
{
	unsigned char packet[BEFORE + 4 * 16] = {1, 2, 3};

	for (unsigned int change = 0; change <= 0xffff; change++)
		cr_assert(agrees(packet, 16, change), "change %#x", change);
}

Test(icrc, no_change_patches_nothing)
{
	for (unsigned int words = 0; words < ICRC_WORDS_MAX; words++)
		cr_assert_eq(icrc_patch(0, table[words]), 0);
}

Test(icrc, two_changes_add_up)
{
	for (unsigned int words = ICRC_WORDS_MIN; words < ICRC_WORDS_MAX; words += 7)
		cr_assert_eq(icrc_patch(0x1234, table[words]) ^ icrc_patch(0x4321, table[words]),
			     icrc_patch(0x1234 ^ 0x4321, table[words]));
}
