// SPDX-License-Identifier: BSD-2-Clause
#include "icrc.h"

void icrc_make_table(unsigned int table[ICRC_WORDS_MAX])
{
	unsigned int power = 1u << 31; /* x^0 */
	unsigned int words, i;

	for (words = 0; words < ICRC_WORDS_MIN; words++)
		table[words] = 0;
	/* n = 4 * words - 6 bytes lie between: 8 n + 32 = 32 * words - 16. */
	for (i = 0; i < 32 * ICRC_WORDS_MIN - 16; i++)
		power = icrc_times_x(power);
	for (; words < ICRC_WORDS_MAX; words++) {
		table[words] = power;
		for (i = 0; i < 32; i++)
			power = icrc_times_x(power);
	}
}
