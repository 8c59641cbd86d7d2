/* SPDX-License-Identifier: BSD-2-Clause */
/* The highest rate of each interface in 10 ms, so that a scrape shows bursts. */
#ifndef ESC_PEAK_PEAK_H
#define ESC_PEAK_PEAK_H

struct capability;

/* needs: dataplane. It reads the counters of each interface a hundred times a second. */
extern const struct capability peak_capability;

#endif
