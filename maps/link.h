/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `link_flaps`: when links lost their carrier, kept over restarts of the daemon. */
#ifndef ESC_MAPS_LINK_H
#define ESC_MAPS_LINK_H

#include "maps/types.h"

#define ESC_LINKS_MAX 32
/*
 * Entries of a window. The oldest two become one when it is full, so that a count above a limit of
 * fewer than these stays above it.
 */
#define ESC_LINK_FLAPS 256

struct esc_link_key {
	char name[16]; /* of the interface */
};

#define ESC_LINK_ADMIN_UP 0x1u /* at the newest reading, as the next one */
#define ESC_LINK_CARRIER 0x2u
#define ESC_LINK_HAD_CARRIER 0x4u /* at any time since the machine was booted */
#define ESC_LINK_DOWN_ALARM 0x8u  /* it has had no carrier for `down_after` */
#define ESC_LINK_LOST 0x10u	  /* it is reported as without a carrier */

/*
 * Value of `link_flaps`. Writer: the daemon. Times are of CLOCK_BOOTTIME: the map, as all of bpffs,
 * ends with the boot.
 */
struct esc_link {
	__u64 identity;	  /* digest of the driver and the permanent MAC address; 0: neither known */
	__u64 seen_ns;	  /* the newest reading; 0: none */
	__u64 changed_ns; /* that of the newest change of the carrier; 0: none */
	__u64 settled_ns; /* carrier losses before it are not flaps */
	__u64 counted_ns; /* flaps up to it raise no alarm: acknowledged, or stable since */
	__u64 alarm_ns;	  /* when the alarm was raised; 0: there is none */
	__u64 alarm_within_ns;
	__u32 alarm_more_than; /* the threshold that was exceeded, more flaps than this */
	__u32 alarm_flaps;     /* within it when it was raised */
	__u64 flaps;	       /* all that were counted */
	__u64 planned;	       /* carrier losses that are not flaps */
	__u32 resets;	       /* new counters: another ifindex, or smaller than before */
	__u32 ifindex;	       /* 0: the interface is not there */
	__u32 up_count;	       /* the kernel's, at the newest reading */
	__u32 down_count;
	__u32 state; /* ESC_LINK_ADMIN_UP, ... */
	__u16 first; /* the window: a ring of @entries from here on, oldest first */
	__u16 entries;
	__u32 flap_counts[ESC_LINK_FLAPS];
	__u64 flap_ns[ESC_LINK_FLAPS]; /* of the reading that showed them */
};
ESC_ASSERT_OFFSET(struct esc_link, flap_counts, 104);
ESC_ASSERT_OFFSET(struct esc_link, flap_ns, 1128);
ESC_ASSERT_SIZE(struct esc_link, 3176);

#endif
