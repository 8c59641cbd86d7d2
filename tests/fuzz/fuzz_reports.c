// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as a report of another host of the messages that it received; what is read is joined.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ibverbs/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const struct fleet_keys none;
	struct verbs_delays delays = {.ends[SEGMENT_POSTED].count = DELAY_SAMPLES};
	uint8_t again[REPORT_BYTES];
	struct verbs_report report;
	uint64_t peer;

	/* Without a key the tag is zero, so that inputs get behind it. */
	if (!report_decode(bytes, size, &none, 1, &peer, &report))
		return 0;
	if (report.count > REPORT_SAMPLES || report_encode(&report, &none, peer, 1, again) != size)
		abort();
	for (size_t i = 0; i < report.count; i++) {
		delays.ends[SEGMENT_POSTED].list[i % DELAY_SAMPLES] = report.samples[i];
		delays.ends[SEGMENT_POSTED].list[i % DELAY_SAMPLES].fabric_ns = 0;
		delays_join(&delays, &report.samples[i]);
	}
	return 0;
}
