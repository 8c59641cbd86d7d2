// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Timestamps every RoCEv2 packet of chosen interfaces at both of its ends, with one
 * clock, beside the programs under test: ahead of them and behind them in tc
 * egress, and just behind them in XDP. It has a parser of its own.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "witness.h"

#define TCX_NEXT (-1)
#define ETHERNET_BYTES 14
#define ROCE_PORT 4791
#define RECEIPT 0xe7
#define PROBE_FIRST 0xe5
#define PROBE_LAST 0xe8
#define ACKNOWLEDGE 0x11

/* netns 0: for the tc program, which knows interface numbers only: each is of one host in a lab. */
struct witness_where {
	__u32 netns;
	__u32 ifindex;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * WITNESS_HOSTS);
	__type(key, struct witness_where);
	__type(value, __u32);
} hosts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 25);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/* An skb of a tc program, or bytes in the kernel. */
struct witness_packet {
	struct __sk_buff *skb;
	const unsigned char *bytes;
};

struct witness_ip4 {
	__u8 version_words, tos;
	__be16 length;
	__u8 more[5], protocol;
	__be16 sum;
	__u8 source[4], destination[4];
};

struct witness_ip6 {
	__be32 word;
	__be16 length;
	__u8 protocol, hops;
	__u8 source[16], destination[16];
};

struct witness_roce {
	__be16 sport, dport, udp_bytes, sum;
	__u8 opcode, flags;
	__be16 pkey;
	__be32 qpn, psn;
};

struct witness_receipt {
	__be32 magic;
	__u8 version, flags;
	__be16 sport;
	__be64 sender, target, epoch, rx_fabric_ns;
	__be32 rx_bound_ns, qpn, psn, stack_ns;
};

static __always_inline bool take(const struct witness_packet *packet, __u32 offset, void *out,
				 __u32 bytes)
{
	if (packet->skb)
		return !bpf_skb_load_bytes(packet->skb, offset, out, bytes);
	return !bpf_probe_read_kernel(out, bytes, packet->bytes + offset);
}

/* Behind the IP header, or 0. */
static __always_inline __u32 take_ip(const struct witness_packet *packet,
				     struct witness_record *record)
{
	struct witness_ip4 four;
	struct witness_ip6 six;

	if (!take(packet, ETHERNET_BYTES, &four, sizeof(four)))
		return 0;
	if (four.version_words == 0x45) {
		if (four.protocol != IPPROTO_UDP)
			return 0;
		record->source[10] = record->source[11] = 0xff;
		record->destination[10] = record->destination[11] = 0xff;
		__builtin_memcpy(record->source + 12, four.source, 4);
		__builtin_memcpy(record->destination + 12, four.destination, 4);
		record->tos = four.tos;
		record->ip_bytes = bpf_ntohs(four.length);
		return ETHERNET_BYTES + sizeof(four);
	}
	if (four.version_words >> 4 != 6 || !take(packet, ETHERNET_BYTES, &six, sizeof(six)) ||
	    six.protocol != IPPROTO_UDP)
		return 0;
	__builtin_memcpy(record->source, six.source, 16);
	__builtin_memcpy(record->destination, six.destination, 16);
	record->tos = bpf_ntohl(six.word) >> 20;
	record->ip_bytes = bpf_ntohs(six.length) + sizeof(six);
	return ETHERNET_BYTES + sizeof(six);
}

static __always_inline void take_receipt(const struct witness_packet *packet, __u32 offset,
					 struct witness_record *record)
{
	struct witness_receipt receipt;

	if (!take(packet, offset, &receipt, sizeof(receipt)))
		return;
	record->about_qpn = bpf_ntohl(receipt.qpn);
	record->about_psn = bpf_ntohl(receipt.psn);
	record->rx_fabric_ns = bpf_be64_to_cpu(receipt.rx_fabric_ns);
	record->rx_bound_ns = bpf_ntohl(receipt.rx_bound_ns);
	record->stack_ns = bpf_ntohl(receipt.stack_ns);
	record->flags = receipt.flags;
}

/* Everything but probes and acknowledges. */
static __always_inline void witness(const struct witness_packet *packet, __u32 host,
				    enum witness_place place, __u64 now_ns)
{
	struct witness_record record = {.ktime_ns = now_ns, .host = host, .place = place};
	struct witness_roce roce;
	__u32 zero = 0, at = take_ip(packet, &record);
	__u64 *missed;

	if (!at || !take(packet, at, &roce, sizeof(roce)) || roce.dport != bpf_htons(ROCE_PORT))
		return;
	if (roce.opcode == ACKNOWLEDGE || (place == WITNESS_CONSUMED && roce.opcode != RECEIPT) ||
	    (roce.opcode != RECEIPT && roce.opcode >= PROBE_FIRST && roce.opcode <= PROBE_LAST))
		return;
	record.sport = bpf_ntohs(roce.sport);
	record.opcode = roce.opcode;
	record.qpn = bpf_ntohl(roce.qpn) & 0xffffff;
	record.psn = bpf_ntohl(roce.psn) & 0xffffff;
	if (roce.opcode == RECEIPT)
		take_receipt(packet, at + sizeof(roce), &record);
	if (place == WITNESS_LEAVING) /* all that this costs is spent before */
		record.ktime_ns = bpf_ktime_get_ns();
	if (!bpf_ringbuf_output(&records, &record, sizeof(record), BPF_RB_NO_WAKEUP))
		return;
	missed = bpf_map_lookup_elem(&lost, &zero);
	if (missed)
		__sync_fetch_and_add(missed, 1);
}

SEC("tc")
int witness_leaving(struct __sk_buff *skb)
{
	struct witness_where where = {.ifindex = skb->ifindex};
	struct witness_packet packet = {.skb = skb};
	__u32 *host = bpf_map_lookup_elem(&hosts, &where);

	if (host)
		witness(&packet, *host, WITNESS_LEAVING, 0);
	return TCX_NEXT;
}

static __always_inline int witness_skb(const struct sk_buff *skb, enum witness_place place)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct witness_where where = {.netns = skb->dev->nd_net.net->ns.inum,
				      .ifindex = skb->dev->ifindex};
	struct witness_packet packet = {.bytes = skb->head + skb->mac_header};
	__u32 *host = bpf_map_lookup_elem(&hosts, &where);

	if (host)
		witness(&packet, *host, place, now_ns);
	return 0;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(witness_queued, struct sk_buff *skb)
{
	return witness_skb(skb, WITNESS_QUEUED);
}

SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(witness_arrived, struct sk_buff *skb)
{
	return witness_skb(skb, WITNESS_ARRIVED);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(witness_received, struct sk_buff *skb)
{
	return witness_skb(skb, WITNESS_RECEIVED);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(witness_consumed, struct sk_buff *skb)
{
	return witness_skb(skb, WITNESS_CONSUMED);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
