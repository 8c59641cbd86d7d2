/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Placement: which N of M hosts a job should have, by the topology and the delays that exports of
 * hosts have. Pure and deterministic: the same exports give the same choice.
 */
#ifndef ESC_PLACE_H
#define ESC_PLACE_H

#include "base/verb.h"

extern const struct verb_set place_verbs;

#endif
