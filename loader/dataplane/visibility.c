// SPDX-License-Identifier: BSD-2-Clause
#include "visibility.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void visibility_decide(const char *netdev, const struct rdma_facts *rdma, uint64_t roce_packets,
		       struct visibility *out)
{
	const char *driver = rdma->driver[0] ? rdma->driver : "its driver";

	out->mode = "packets";
	if (!rdma->device[0]) {
		snprintf(out->note, sizeof(out->note),
			 "no RDMA device on %s: every packet passes the kernel", netdev);
	} else if (rdma->software) {
		snprintf(out->note, sizeof(out->note),
			 "%s is a software RDMA device: every packet of %s passes the kernel",
			 rdma->device, netdev);
	} else if (roce_packets) {
		snprintf(out->note, sizeof(out->note),
			 "%s is a hardware RDMA device, but RoCE packets pass the kernel on %s "
			 "(%" PRIu64 " counted); what the device carries by itself is not seen",
			 rdma->device, netdev, roce_packets);
	} else if (rdma->counters) {
		out->mode = "counters";
		snprintf(out->note, sizeof(out->note),
			 "%s (%s) carries RoCE past the kernel: no packet of it is seen on %s, "
			 "only the device's own counters",
			 rdma->device, driver, netdev);
	} else {
		out->mode = "none";
		snprintf(out->note, sizeof(out->note),
			 "%s (%s) carries RoCE past the kernel and shows no counters: nothing is "
			 "seen of it on %s",
			 rdma->device, driver, netdev);
	}
}

void visibility_add_ready(const char *netdev, const char *device, size_t ready,
			  struct visibility *out)
{
	if (!ready || (strcmp(out->mode, "counters") && strcmp(out->mode, "none")))
		return;
	out->mode = "control";
	snprintf(out->note, sizeof(out->note),
		 "%zu queue pair%s of %.40s could send for 10 s or more, and no RoCE packet passed "
		 "%s: the NIC carries them past the kernel; whose they are is known, what they "
		 "send is not",
		 ready, ready == 1 ? "" : "s", device, netdev);
}
