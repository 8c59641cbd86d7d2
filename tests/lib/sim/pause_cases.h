/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests and the bench begin with, and change. */
#ifndef ESC_TESTS_SIM_PAUSE_CASES_H
#define ESC_TESTS_SIM_PAUSE_CASES_H

#include "tests/lib/sim/pause_burst.h"
#include "tests/lib/sim/pause_jobs.h"
#include "tests/lib/sim/pause_trial.h"

#define US 1e3
#define MS 1e6

/* 8 to one port of 10 Gbit/s, go-back-N with a window of 128. */
extern const struct pause_trial pause_incast;
/* 8 of soft-RoCE to one of 1 Gbit/s: 128 under way, 64 timestamped ahead, no more until 16 are
 * left. */
extern const struct pause_trial pause_soft_roce;
/* As tests/vm has it: few packets in a second, timestamps as late as an emulated machine's. */
extern const struct pause_trial pause_emulated;
/* 16 hosts, 4 leaves, 4 spines, messages of 1 MiB, a timeout of 4 ms. */
extern const struct pause_jobs pause_collective;
/* 8 at 97% of 10 Gbit/s, four times it for 100 us every 20 ms. */
extern const struct pause_burst pause_bursts;

#endif
