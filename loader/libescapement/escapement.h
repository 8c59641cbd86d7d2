/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fabric time for applications: what time it is in the whole fleet, as an
 * interval that holds it. See libescapement(3).
 *
 *	struct escapement_clock *clock;
 *	struct escapement_time now;
 *
 *	if (escapement_clock_open(&clock, NULL))
 *		...
 *	escapement_now(clock, &now);
 *	if (now.status != ESCAPEMENT_FREE_RUNNING)
 *		use(now.earliest_ns, now.latest_ns);
 */
#ifndef ESCAPEMENT_H
#define ESCAPEMENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct escapement_clock;

enum escapement_status {
	ESCAPEMENT_FREE_RUNNING = 0, /* no fabric time, or none worth a bound; the times are 0 */
	ESCAPEMENT_CONVERGING = 1,   /* has fabric time, its neighbours not yet agreed */
	ESCAPEMENT_SYNCED = 2,
	ESCAPEMENT_HOLDOVER =
		3, /* was in step; alone, or the daemon is gone: the interval widens */
};

struct escapement_time {
	int64_t earliest_ns; /* fabric time was not before it when it was read, */
	int64_t latest_ns;   /* and not after it */
	enum escapement_status status;
};

/*
 * Maps the page at @path (NULL: /run/escapement/clock). 0, or -errno: -ENOENT
 * when no daemon has run here, -EPROTO when the page is of another version.
 */
int escapement_clock_open(struct escapement_clock **clock, const char *path);
void escapement_clock_close(struct escapement_clock *clock);

/*
 * The time now. No system call, no lock, from any number of threads. 0, or -EAGAIN when the page
 * was being written each time it was read: the daemon died in the middle of it.
 */
int escapement_now(const struct escapement_clock *clock, struct escapement_time *out);

/* "synced", "converging", "holdover", "free_running". */
const char *escapement_status_name(enum escapement_status status);

#ifdef __cplusplus
}
#endif

#endif
