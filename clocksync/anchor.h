/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TAI beside fabric time. A host with TAI (a PHC under ptp4l, a GNSS card)
 * measures the offset of TAI to fabric time and reports it in its probes; others
 * forward the newest report. Fabric time itself is never steered: an anchor that
 * fails, steps or is wrong changes the displayed TAI, and no one-way delay.
 */
#ifndef ESC_CLOCKSYNC_ANCHOR_H
#define ESC_CLOCKSYNC_ANCHOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANCHOR_SAMPLES 16
#define ANCHOR_HOPS_MAX 32
/* Reports older than this are not used. */
#define ANCHOR_STALE_NS 600000000000LL

/* TAI = fabric + ahead_ns + (fabric - ref_fabric_ns) * rate; integers only, for the wire. */
struct anchor_report {
	int64_t ref_fabric_ns;
	int64_t ahead_ns;
	int64_t rate_q40;
	uint32_t sequence; /* of the anchor's measurement; 0: no measurement */
	uint32_t bound_ns; /* at ref_fabric_ns, against TAI */
	uint32_t anchor;   /* which host measured, by the low half of its id */
	uint8_t hops;
	uint8_t reserved[3];
};
_Static_assert(sizeof(struct anchor_report) == 40, "struct anchor_report has a fixed size");

/* At the anchor: measurements of TAI against fabric time. */
struct anchor_meter {
	struct {
		int64_t fabric_ns, ahead_ns;
	} samples[ANCHOR_SAMPLES];
	uint32_t count;
};

/* Adds a measurement and sets *@report. */
void anchor_measure(struct anchor_meter *meter, int64_t fabric_ns, int64_t tai_ns,
		    uint32_t bound_ns, uint32_t anchor, struct anchor_report *report);

/*
 * A synced neighbour reported @theirs. True when it is newer than *@mine (or as new over
 * fewer hops) and was accepted. @anchor: the only host accepted, if configured.
 */
bool anchor_receive(struct anchor_report *mine, const struct anchor_report *theirs,
		    uint32_t anchor);

/*
 * TAI at @fabric_ns and its bound, which includes that of the own clock (@fabric_bound_ns).
 * False: no report, or older than ANCHOR_STALE_NS.
 */
bool anchor_read(const struct anchor_report *report, int64_t fabric_ns, int64_t fabric_bound_ns,
		 int64_t *tai_ns, int64_t *bound_ns);

#endif
