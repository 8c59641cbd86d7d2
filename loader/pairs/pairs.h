/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All pairs of NICs of a rail, each once, on request: replies, loss, packets of full size, delays.
 * The rounds begin at times that all hosts make of the member list and the run's id.
 */
#ifndef ESC_PAIRS_PAIRS_H
#define ESC_PAIRS_PAIRS_H

struct pairs; /* needs: dataplane, clock, paths, rotation */

#endif
