// SPDX-License-Identifier: BSD-2-Clause
/*
 * escapementd as the tests need it to fail: the source port is changed, the ICRC is
 * not. The object's loading is the daemon's own, with one constant set; no option or
 * file of the product can do it.
 */
#include "dataplane.skel.h"

static inline int stale_load(struct dataplane *skeleton)
{
	skeleton->rodata->esc_icrc_stale = 1;
	return dataplane__load(skeleton);
}

#define dataplane__load stale_load
#include "dataplane/object.c"
