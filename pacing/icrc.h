/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a changed UDP source port does to the ICRC of a RoCEv2 packet, without
 * a look at the payload. One text for the kernel programs and user space.
 *
 * The ICRC is the Ethernet CRC-32, taken over the source port but not over its
 * own place (InfiniBand Architecture Specification vol. 1, 7.8 and annex A17),
 * and a CRC is linear: CRC(a ^ b) = CRC(a) ^ CRC(b) but for a constant. So a
 * packet whose port was XORed with `change` has its old ICRC XORed with
 *
 *	change(x) * x^(8 n + 32) mod P(x)
 *
 * where n is the number of bytes between the port and the ICRC: 6 less than
 * the UDP length. Polynomials are reflected: x^0 is the top bit.
 *
 * A RoCEv2 datagram is padded to whole words, so a table with one entry for
 * each number of 32-bit words holds every x^(8 n + 32) there is.
 */
#ifndef ESC_PACING_ICRC_H
#define ESC_PACING_ICRC_H

#define ICRC_POLYNOMIAL 0xedb88320u

/* Entries of the table, by UDP length in words: datagrams below 9,600 bytes. */
#define ICRC_WORDS_MAX 2400u
/* UDP header, BTH and ICRC. */
#define ICRC_WORDS_MIN 6u

/*
 * The verifier of the kernel follows both values of a bit that was made a mask
 * (2^16 ways through the loop below); a factor of which it knows nothing it
 * takes as one.
 */
#ifdef __bpf__
#define icrc_hide(value) asm volatile("" : "+r"(value))
#else
#define icrc_hide(value) ((void)0)
#endif

/* @value if bit number @bit of @bits is set, else 0. */
static inline __attribute__((always_inline)) unsigned int
icrc_if(unsigned int bits, unsigned int bit, unsigned int value)
{
	unsigned int one = bits >> bit & 1;

	icrc_hide(one);
	return value * one;
}

/* @power * x mod P. */
static inline __attribute__((always_inline)) unsigned int icrc_times_x(unsigned int power)
{
	return power >> 1 ^ icrc_if(power, 0, ICRC_POLYNOMIAL);
}

/*
 * What to XOR into the ICRC. Ports and ICRC are little-endian words, as a
 * little-endian machine loads them from the packet.
 * @change: old port ^ new port. @power: the table's entry for the packet.
 */
static inline __attribute__((always_inline)) unsigned int icrc_patch(unsigned int change,
								     unsigned int power)
{
	unsigned int patch = 0;
	int bit;

#ifdef __bpf__
#pragma unroll
#endif
	for (bit = 15; bit >= 0; bit--) {
		patch ^= icrc_if(change, bit, power);
		power = icrc_times_x(power);
	}
	return patch;
}

#ifndef __bpf__
/* Fills a table; entries below ICRC_WORDS_MIN are of no packet. */
void icrc_make_table(unsigned int table[ICRC_WORDS_MAX]);
#endif

#endif
