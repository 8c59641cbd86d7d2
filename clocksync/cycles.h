/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CPU's counter (TSC, CNTVCT) against fabric time: one point each 2 s, the mean over an
 * interval that is the same on all hosts, so that what fabric time does within it is too. NTP slews
 * CLOCK_MONOTONIC, and guests calibrate CLOCK_MONOTONIC_RAW by themselves, in whole kHz; two guests
 * of one machine read one counter. So its rate, and how the rate wanders, is what guests of one
 * machine have in common (colocate.h).
 */
#ifndef ESC_CLOCKSYNC_CYCLES_H
#define ESC_CLOCKSYNC_CYCLES_H

#include <stdbool.h>
#include <stdint.h>

#define CYCLES_STEP_NS 2000000000LL
#define CYCLES_POINTS 3600 /* two hours; 58 kB */
/* A change of the rate by less is not told from temperature. */
#define CYCLES_RATE_STEP_PPB 300.0

/* One of fabric time and the counter at an instant. */
struct cycles_reading {
	int64_t fabric_ns;
	double ahead_ns, bound_ns; /* as below */
};

struct cycles_point {
	double ahead_ns; /* of the counter, at reference_hz, against fabric time; NAN: no point */
	double bound_ns; /* of fabric time's error then */
};

struct cycles {
	uint64_t reference_hz; /* 0: not known yet */
	uint64_t base_counter;
	int64_t base_fabric_ns;
	/* Of the interval that has not ended. */
	struct cycles_reading newest;
	double area, bound_ns; /* of ahead_ns, in ns * ns; the largest */
	bool reads, whole;     /* there is a newest; the area begins with the interval */
	int64_t last;	      /* index of the newest point's interval: its begin / CYCLES_STEP_NS */
	unsigned int count;   /* points up to it, those that are missing included */
	unsigned int suspect; /* points since the rate differed */
	struct cycles_point points[CYCLES_POINTS]; /* at index % CYCLES_POINTS */
};

struct cycles_step {
	double before_ppb, after_ppb; /* of the counter, against reference_hz */
	double jump_ns;		      /* of the counter */
};

/* Without points: fabric time is another one, or the counter is. */
void cycles_restart(struct cycles *cycles);

/*
 * The counter at @fabric_ns; linear interpolation between readings that are at most CYCLES_STEP_NS
 * apart; an interval with a wider gap has no point. True: the counter runs at another rate
 * than before, or was set, as after a live migration; then *@step is filled in and the points
 * before it are forgotten.
 */
bool cycles_add(struct cycles *cycles, int64_t fabric_ns, uint64_t counter, double bound_ns,
		struct cycles_step *step);

/* The point of @index; one that is missing has NAN. */
struct cycles_point cycles_at(const struct cycles *cycles, int64_t index);

struct cycles_rate {
	double hz;	  /* cycles per second of fabric time, by all points */
	double bound_ppb; /* by how much it is off where fabric time is off by its bounds at most */
	double noise_ns;  /* of a point; NAN: too few in a row */
};

/* False: too few points. */
bool cycles_rate(const struct cycles *cycles, struct cycles_rate *rate);

/* Of points in a row: by their second differences, which no rate and little wander changes. */
double cycles_noise_ns(const double *ahead_ns, unsigned int count);

#endif
