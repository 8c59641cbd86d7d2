/* SPDX-License-Identifier: BSD-2-Clause */
/* The problems that there are now: conditions that began and have not ended, one finding a fault.
 */
#ifndef ESC_FINDING_H
#define ESC_FINDING_H

#include <jansson.h>

struct findings; /* needs: nothing; it is opened first, so that it misses no event */

/*
 * The open findings, the worst first, each as `escapement -j findings` has it. New reference.
 * @job: those of this job alone; NULL: all.
 */
json_t *findings_list(const struct findings *findings, const char *job);

#endif
