/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Update of the ICRC of a RoCEv2 packet for a changed UDP source port, without its payload.
 * Shared by the kernel programs and user space.
 *
 * The ICRC is the Ethernet CRC-32 over the packet without the ICRC itself, including the source
 * port (InfiniBand Architecture Specification vol. 1, 7.8 and annex A17). A CRC is linear: CRC(a
 * ^ b) = CRC(a) ^ CRC(b) up to a constant. So if the port is XORed with `change`, the ICRC is
 * XORed with
 *
 * change(x) * x^(8 n + 32) mod P(x)
 *
 * where n is the number of bytes between the port and the ICRC: the UDP length less 6.
 * Polynomials are reflected: x^0 is the top bit.
 *
 * A RoCEv2 datagram is padded to 32-bit words, so a table by the number of words holds all values
 * of x^(8 n + 32).
 */
#ifndef ESC_PACING_ICRC_H
#define ESC_PACING_ICRC_H

#define ICRC_POLYNOMIAL 0xedb88320u

/* Entries of the table, by UDP length in words: datagrams below 9,600 bytes. */
#define ICRC_WORDS_MAX 2400u
/* UDP header, BTH and ICRC. */
#define ICRC_WORDS_MIN 6u

/*
 * The kernel's verifier would follow both values of a bit that is used as a mask (2^16 paths
 * through the loop below), but treats a factor of unknown value as one.
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
 * Value to XOR into the ICRC. Ports and ICRC are little-endian words, as loaded from the packet
 * by a little-endian machine. @change: old port ^ new port. @power: the table's entry for the
 * packet.
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
/* Fills a table; entries below ICRC_WORDS_MIN are unused. */
void icrc_make_table(unsigned int table[ICRC_WORDS_MAX]);
#endif

#endif
