// SPDX-License-Identifier: BSD-2-Clause
/*
 * escapementd of a release in which every map has another layout number, except those that never
 * change: the tests upgrade to it, and back.
 */
#include <string.h>

static unsigned int layout_added(const char *map)
{
	return strcmp(map, "abi") && strcmp(map, "layouts") && strcmp(map, "xdp_counted");
}

#define ESC_LAYOUT_ADDED(map) layout_added(map)
#include "dataplane/pins.c"
