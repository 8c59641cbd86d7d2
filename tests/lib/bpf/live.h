/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames through the stack: a veth pair v0-v1 in a network namespace of the test's own. */
#ifndef ESC_TESTS_BPF_LIVE_H
#define ESC_TESTS_BPF_LIVE_H

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frame.h"

/* Newer than the headers of the distribution. */
#define TCX_EGRESS 47
#define ETHERTYPE_ALL 0x0003

static inline bool live_run(const char *command)
{
	int status = system(command);

	if (status)
		printf("# failed (%d): %s\n", status, command);
	return !status;
}

static inline bool live_make_veth(void)
{
	return !unshare(CLONE_NEWNET) &&
	       live_run("ip link add v0 numtxqueues 1 numrxqueues 1 mtu 9000 type veth peer name "
			"v1 mtu 9000 && ip link set v0 up && ip link set v1 up");
}

/* A socket bound to the interface; with @header what it sends begins with a virtio header. */
static inline int live_open(const char *interface, bool header)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETHERTYPE_ALL),
		.sll_ifindex = if_nametoindex(interface),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETHERTYPE_ALL)), on = header;

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return -1;
	return fd;
}

/* @partial_udp: offset of a UDP header whose checksum is left to the NIC, 0 for none. */
static inline bool live_send(int fd, const struct frame *f, uint32_t partial_udp)
{
	uint8_t buffer[sizeof(struct virtio_net_hdr) + FRAME_MAX] = {0};
	struct virtio_net_hdr header = {0};

	if (partial_udp) {
		header.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		header.csum_start = partial_udp;
		header.csum_offset = 6;
	}
	memcpy(buffer, &header, sizeof(header));
	memcpy(buffer + sizeof(header), f->data, f->bytes);
	return write(fd, buffer, sizeof(header) + f->bytes) > 0;
}

#endif
