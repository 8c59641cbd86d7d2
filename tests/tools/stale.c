// SPDX-License-Identifier: BSD-2-Clause
/*
 * escapementd as the tests need it to fail: the source port is changed, the ICRC is
 * not. The object is the daemon's own, with one constant set when it is opened, so that
 * programs without it are not kept; no option or file of the product can do it.
 */
#include "dataplane.skel.h"

static inline struct dataplane *stale_open(void)
{
	struct dataplane *skeleton = dataplane__open();

	if (skeleton)
		skeleton->rodata->esc_icrc_stale = 1;
	return skeleton;
}

#define dataplane__open stale_open
#include "dataplane/object.c"
