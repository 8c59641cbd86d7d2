// SPDX-License-Identifier: BSD-2-Clause
/* Which programs an interface runs, and which of them are ours. */
#include "attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pins.h"

#define PROGRAM_MAPS_MAX 64

/* Name and maps of program @id; @map_ids: room for PROGRAM_MAPS_MAX. */
static int program_info(uint32_t id, struct bpf_prog_info *info, uint32_t *map_ids)
{
	__u32 bytes = sizeof(*info);
	int fd = bpf_prog_get_fd_by_id(id);
	int err;

	if (fd < 0)
		return fd;
	memset(info, 0, sizeof(*info));
	info->nr_map_ids = PROGRAM_MAPS_MAX;
	info->map_ids = (__u64)(unsigned long)map_ids;
	err = bpf_obj_get_info_by_fd(fd, info, &bytes);
	close(fd);
	return err;
}

int xdp_query(unsigned int ifindex, struct xdp_attached *out)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	uint32_t map_ids[PROGRAM_MAPS_MAX];
	struct bpf_prog_info info;
	int err = bpf_xdp_query(ifindex, 0, &query);

	memset(out, 0, sizeof(*out));
	if (err)
		return err;
	if (query.drv_prog_id || query.hw_prog_id) {
		out->mode = ESC_XDP_NATIVE;
		out->program_id = query.drv_prog_id ? query.drv_prog_id : query.hw_prog_id;
	} else if (query.skb_prog_id) {
		out->mode = ESC_XDP_SKB;
		out->program_id = query.skb_prog_id;
	}
	if (out->program_id && !program_info(out->program_id, &info, map_ids))
		snprintf(out->name, sizeof(out->name), "%s", info.name);
	return 0;
}

bool program_is_ours(const struct pins *pins, uint32_t id, const char *name)
{
	uint32_t map_ids[PROGRAM_MAPS_MAX], qps = pins_map_id(pins, "qps");
	struct bpf_prog_info info;

	if (!id || program_info(id, &info, map_ids) || strcmp(info.name, name))
		return false;
	for (__u32 i = 0; i < info.nr_map_ids && i < PROGRAM_MAPS_MAX; i++)
		if (map_ids[i] == qps)
			return true;
	return false;
}

const char *xdp_mode_name(enum esc_xdp_mode mode)
{
	return mode == ESC_XDP_NATIVE ? "native" : mode == ESC_XDP_SKB ? "skb" : "none";
}

const char *xdp_via_name(enum esc_xdp_via via)
{
	return via == ESC_XDP_VIA_DISPATCHER ? "dispatcher"
	       : via == ESC_XDP_VIA_LINK     ? "link"
					     : "none";
}

const char *tc_via_name(enum esc_tc_via via)
{
	return via == ESC_TC_TCX ? "tcx" : via == ESC_TC_CLSACT ? "clsact" : "none";
}
