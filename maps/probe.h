/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The probe's place on the wire, kept free for it. A probe is a UDP datagram
 * to ESC_ROCEV2_PORT (or to a configured port) whose BTH has a
 * manufacturer-specific opcode: soft-RoCE and NICs drop it as unknown, our
 * programs of this version count it as `unknown_opcode`.
 */
#ifndef ESC_MAPS_PROBE_H
#define ESC_MAPS_PROBE_H

#include "rocev2.h"

#define ESC_PROBE_OPCODE_REQUEST 0xe5
#define ESC_PROBE_OPCODE_REPLY 0xe6
#define ESC_PROBE_OPCODE_RECEIPT 0xe7
#define ESC_PROBE_OPCODE_WARMER 0xe8 /* sent just ahead of a pair, never answered */

#endif
