// SPDX-License-Identifier: BSD-2-Clause
/* The place of our programs on a hook: packets for which an earlier one ends the chain are hidden.
 */
#include "internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ORDER_PROGRAMS_MAX 64

const char *const order_hooks[] = {
	[ORDER_XDP] = "xdp",
	[ORDER_EGRESS] = "tcx egress",
	[ORDER_INGRESS] = "tcx ingress",
};

void order_add(struct port_order *order, uint32_t id, enum order_hook hook)
{
	struct port_before *at = &order->programs[order->count];
	struct bpf_prog_info info = {0};
	__u32 bytes = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(id), err;

	if (fd < 0)
		return; /* gone since */
	err = bpf_obj_get_info_by_fd(fd, &info, &bytes);
	close(fd);
	if (err || order->count == PORT_BEFORE_MAX)
		return;
	*at = (struct port_before){.id = id, .hook = hook};
	memcpy(at->name, info.name, sizeof(at->name));
	order->count++;
}

/* BPF_F_BEFORE, BPF_F_AFTER, BPF_F_LINK of Linux 6.6; libbpf 1.1 has no options for tcx. */
#define TCX_BEFORE (1u << 3)
#define TCX_AFTER (1u << 4)
#define TCX_LINK (1u << 13)

int order_create(const struct pins *pins, const struct pins_link *link, int program_fd)
{
	struct {
		__u32 program_fd, ifindex, type, flags, behind_fd, padding;
		__u64 revision;
	} attr = {
		.program_fd = (__u32)program_fd,
		.ifindex = link->ifindex,
		.type = link->type,
		.flags = TCX_BEFORE,
	};
	int behind = pins_open_link(pins, link->interface, link->behind, link->ifindex, NULL), fd;

	if (behind >= 0) {
		attr.flags = TCX_AFTER | TCX_LINK;
		attr.behind_fd = (__u32)behind;
	}
	fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	fd = fd < 0 ? -errno : fd;
	if (behind >= 0)
		close(behind);
	return fd;
}

/* Id of the program of our link; 0: there is none. */
static uint32_t link_program(const struct port *port, const char *pin)
{
	struct bpf_link_info info = {0};
	__u32 bytes = sizeof(info);
	int fd = pins_open_link(port->pins, port->name, pin, port->ifindex, NULL), err;

	if (fd < 0)
		return 0;
	err = bpf_obj_get_info_by_fd(fd, &info, &bytes);
	close(fd);
	return err ? 0 : info.prog_id;
}

/* Appends those of a tcx hook that run before the last of our links with these pins. */
static void add_tcx(const struct port *port, struct port_order *order, enum order_hook hook,
		    enum bpf_attach_type type, const char *const pins[2])
{
	bool clsact = port->record.tc_via == ESC_TC_CLSACT; /* which runs after all of tcx */
	uint32_t ids[ORDER_PROGRAMS_MAX], own[2];
	__u32 count = ORDER_PROGRAMS_MAX, end = 0;

	if (bpf_prog_query((int)port->ifindex, type, 0, NULL, ids, &count))
		return;
	for (int i = 0; i < 2; i++)
		own[i] = link_program(port, pins[i]);
	for (__u32 i = 0; i < count; i++)
		if (clsact || ids[i] == own[0] || ids[i] == own[1])
			end = i + 1;
	for (__u32 i = 0; i < end; i++)
		if (ids[i] != own[0] && ids[i] != own[1])
			order_add(order, ids[i], hook);
}

/*
 * Appends those of XDP. Without a program of ours there, all of XDP runs before our tc programs.
 * libxdp reads a dispatcher's BTF, which takes milliseconds: only after a change.
 */
static void add_xdp(const struct port *port, struct port_order *order)
{
	const struct port_order *before = &port->before;
	bool without = port->record.xdp_via == ESC_XDP_VIA_NONE;
	struct xdp_attached attached;

	if (!without && port->record.xdp_via != ESC_XDP_VIA_DISPATCHER)
		return; /* a link of ours: alone */
	if (xdp_query(port, &attached, NULL) || !attached.program_id)
		return;
	order->xdp = attached.program_id;
	for (unsigned int i = 0; order->xdp == before->xdp && i < before->count; i++)
		if (before->programs[i].hook == ORDER_XDP)
			order->programs[order->count++] = before->programs[i];
	if (order->xdp == before->xdp)
		return;
	dispatcher_order(port, order);
	if (without && !order->count)
		order_add(order, order->xdp, ORDER_XDP);
}

void order_read(const struct port *port, struct port_order *out)
{
	static const char *const egress[] = {PINS_TC_EGRESS, PINS_NIC_EGRESS};
	static const char *const ingress[] = {PINS_TC_INGRESS, PINS_NIC_INGRESS};

	memset(out, 0, sizeof(*out));
	add_xdp(port, out);
	add_tcx(port, out, ORDER_EGRESS, TCX_EGRESS, egress);
	add_tcx(port, out, ORDER_INGRESS, TCX_INGRESS, ingress);
}

json_t *order_json(const struct port_order *order)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < order->count; i++)
		json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "hook",
						      order_hooks[order->programs[i].hook], "id",
						      (json_int_t)order->programs[i].id, "name",
						      order->programs[i].name));
	return list;
}
