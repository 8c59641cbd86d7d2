// SPDX-License-Identifier: BSD-2-Clause
#include "probe.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <string.h>

#include "fleet/fleet.h"

#define UDP_BYTES (sizeof(struct udphdr) + ESC_PATH_DATAGRAM_BYTES)

static size_t put_ip4(const struct pathpacket *packet, uint8_t *out)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = sizeof(ip) / 4,
		.tot_len = htobe16(sizeof(ip) + UDP_BYTES),
		.id = htobe16(packet->ident),
		.frag_off = htobe16(IP_DF),
		.ttl = packet->hop_limit,
		.protocol = IPPROTO_UDP, /* the checksum is the kernel's to fill in */
	};

	memcpy(&ip.saddr, packet->from.bytes + 12, sizeof(ip.saddr));
	memcpy(&ip.daddr, packet->to.bytes + 12, sizeof(ip.daddr));
	memcpy(out, &ip, sizeof(ip));
	return sizeof(ip);
}

static size_t put_ip6(const struct pathpacket *packet, uint8_t *out)
{
	struct ip6_hdr ip = {
		.ip6_flow = htobe32(6u << 28),
		.ip6_plen = htobe16(UDP_BYTES),
		.ip6_nxt = IPPROTO_UDP,
		.ip6_hlim = packet->hop_limit,
	};

	memcpy(&ip.ip6_src, packet->from.bytes, sizeof(ip.ip6_src));
	memcpy(&ip.ip6_dst, packet->to.bytes, sizeof(ip.ip6_dst));
	memcpy(out, &ip, sizeof(ip));
	return sizeof(ip);
}

size_t pathpacket_build(const struct pathpacket *packet, uint8_t out[PATHPACKET_BYTES_MAX])
{
	size_t at = roster_is_ipv4(&packet->to) ? put_ip4(packet, out) : put_ip6(packet, out);
	/* As RoCEv2 has it: no UDP checksum. */
	struct udphdr udp = {
		.source = htobe16(packet->from_port),
		.dest = htobe16(packet->to_port),
		.len = htobe16(UDP_BYTES),
	};
	struct esc_bth bth = {
		.opcode = ESC_PROBE_OPCODE_PATH_REQUEST,
		.pkey = htobe16(0xffff),
		.psn = htobe32(packet->sequence & ESC_PSN_MASK),
	};
	struct esc_path_probe probe = {
		.magic = htobe32(ESC_PROBE_MAGIC),
		.version = ESC_PROBE_VERSION,
		.flags = packet->flags,
		.path = packet->path,
		.target = htobe64(packet->target),
		.sequence = htobe32(packet->sequence),
		.sport = htobe16(packet->from_port),
	};

	memcpy(out + at, &udp, sizeof(udp));
	at += sizeof(udp);
	memcpy(out + at, &bth, sizeof(bth));
	at += sizeof(bth);
	memcpy(out + at, &probe, sizeof(probe));
	at += sizeof(probe);
	memset(out + at, 0, ESC_ICRC_BYTES);
	return at + ESC_ICRC_BYTES;
}

/* --- what comes back --- */

/* Bytes of the header, 0: no IP of ours. */
static size_t take_ip(const uint8_t *ip, size_t bytes, struct pathpacket *out)
{
	struct iphdr four;
	struct ip6_hdr six;

	if (bytes >= sizeof(four) && ip[0] >> 4 == 4) {
		memcpy(&four, ip, sizeof(four));
		out->from = out->to = (struct esc_address){.bytes = {[10] = 0xff, [11] = 0xff}};
		memcpy(out->from.bytes + 12, &four.saddr, 4);
		memcpy(out->to.bytes + 12, &four.daddr, 4);
		out->ident = be16toh(four.id);
		return four.protocol == IPPROTO_UDP && four.ihl >= 5 ? four.ihl * 4u : 0;
	}
	if (bytes < sizeof(six) || ip[0] >> 4 != 6)
		return 0;
	memcpy(&six, ip, sizeof(six));
	memcpy(out->from.bytes, &six.ip6_src, 16);
	memcpy(out->to.bytes, &six.ip6_dst, 16);
	return six.ip6_nxt == IPPROTO_UDP ? sizeof(six) : 0;
}

int pathpacket_parse(const uint8_t *ip, size_t bytes, struct pathpacket *out)
{
	struct esc_path_probe probe;
	struct udphdr udp;
	size_t at;

	memset(out, 0, sizeof(*out));
	at = take_ip(ip, bytes, out);
	if (!at || at + sizeof(udp) > bytes)
		return -EINVAL;
	memcpy(&udp, ip + at, sizeof(udp));
	out->from_port = be16toh(udp.source);
	out->to_port = be16toh(udp.dest);
	at += sizeof(udp) + sizeof(struct esc_bth);
	if (at + sizeof(probe) > bytes)
		return be16toh(udp.len) == UDP_BYTES ? 0 : -EINVAL;
	memcpy(&probe, ip + at, sizeof(probe));
	if (probe.magic != htobe32(ESC_PROBE_MAGIC))
		return -EINVAL;
	out->sequence = be32toh(probe.sequence);
	out->target = be64toh(probe.target);
	out->path = probe.path;
	out->flags = probe.flags;
	return 0;
}
