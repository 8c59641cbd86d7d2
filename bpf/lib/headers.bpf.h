/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Macros of kernel headers that BTF does not carry, under their kernel names; the
 * structs are those of vmlinux.h.
 */
#ifndef ESC_BPF_LIB_HEADERS_H
#define ESC_BPF_LIB_HEADERS_H

#include "maps/types.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* include/uapi/linux/if_ether.h, include/linux/if_vlan.h */
#define ETH_ALEN 6
#define ETH_HLEN 14
#define ETH_P_IP 0x0800
#define ETH_P_8021Q 0x8100
#define ETH_P_IPV6 0x86dd
#define ETH_P_8021AD 0x88a8
#define VLAN_HLEN 4

/* include/net/ip.h */
#define IP_DF 0x4000
#define IP_MF 0x2000
#define IP_OFFSET 0x1fff

/* include/net/ipv6.h */
#define IP6_MF 0x0001
#define IP6_OFFSET 0xfff8
#define NEXTHDR_HOP 0
#define NEXTHDR_ROUTING 43
#define NEXTHDR_FRAGMENT 44
#define NEXTHDR_DEST 60

/* include/uapi/linux/pkt_cls.h */
#define TC_ACT_SHOT 2

/* Version 4 and a header of five words, without options, in the first byte. */
#define IPV4_NO_OPTIONS 0x45

static __always_inline __u8 ip_first_byte(const void *ip)
{
	return *(const __u8 *)ip;
}

/* Version 4, traffic class 8, flow label 20. */
static __always_inline __be32 ip6_flow_word(const struct ipv6hdr *ip)
{
	return *(const __be32 *)ip;
}

#endif
