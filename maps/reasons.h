/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Why a packet was not processed. One list for the kernel programs, the
 * command line and the metrics. Packets of users are passed unchanged:
 * only probes and receipts, which are ours, are ever dropped.
 *
 * X(ENUM, name, what it means)
 */
#ifndef ESC_MAPS_REASONS_H
#define ESC_MAPS_REASONS_H

#include "maps/types.h"

/*
 * Rejected probes are dropped (XDP_DROP), since they have no other receiver. A packet without our
 * magic is no probe and is passed: unknown_opcode, or probe_version on the probe port.
 */
#define ESC_PROBE_REASONS(X)                                                                       \
	X(PROBE_SHORT, probe_short, "a probe that ends too early")                                 \
	X(PROBE_OPTIONS, probe_options,                                                            \
	  "a probe with IP options or extension headers: a reply would send them back")            \
	X(PROBE_VERSION, probe_version, "a probe of another version, or no probe on its port")     \
	X(PROBE_OFF, probe_off, "a probe while probing is off here")                               \
	X(PROBE_UNKNOWN_PEER, probe_unknown_peer,                                                  \
	  "a probe whose sender is not in the members file")                                       \
	X(PROBE_NOT_OURS, probe_not_ours, "a probe for another member")                            \
	X(PROBE_BAD_TAG, probe_bad_tag, "a probe whose tag matches no key of its sender")          \
	X(PROBE_STALE_EPOCH, probe_stale_epoch, "a probe of an earlier run of its sender")         \
	X(PROBE_REPLAY, probe_replay, "a probe whose sequence was seen already")                   \
	X(PROBE_RATE, probe_rate, "requests of one peer above the rate limit")                     \
	X(PROBE_RING_FULL, probe_ring_full, "a valid probe: the ring to the daemon was full")      \
	X(PROBE_NO_DAEMON, probe_no_daemon, "a probe without a recent heartbeat of the daemon")

/* Of path probes alone (path.h); these are dropped as well. */
#define ESC_PATH_REASONS(X)                                                                        \
	X(PROBE_PORT, probe_port, "a path probe with another source port than it names")           \
	X(PROBE_TABLE_FULL, probe_table_full, "no free entry for the paths of a peer")

/* Receipts that were not sent, or not accepted. The packets they are about were passed. */
#define ESC_RECEIPT_REASONS(X)                                                                     \
	X(RECEIPT_UNMATCHED, receipt_unmatched,                                                    \
	  "a receipt for a packet without a tx record, or retransmitted since")                    \
	X(RECEIPT_RATE, receipt_rate, "a receipt not made: the host's limit was reached")          \
	X(RECEIPT_CLONE, receipt_clone, "a receipt not made: the packet was not cloned")           \
	X(RECEIPT_TIMESTAMP, receipt_timestamp,                                                    \
	  "no rx timestamp: its slot is in use by another packet")                                 \
	X(RECEIPT_HEADERS, receipt_headers,                                                        \
	  "a receipt not made: headers it cannot be sent behind (two tags, IP options)")           \
	X(OWD_TABLE_FULL, owd_table_full, "no free entry for a queue pair's delays")

/*
 * NIC failover: encapsulated packets and NIC probes. From an unknown sender, not addressed to
 * us, or no probe, they are passed to the socket of the port; the others are dropped.
 */
#define ESC_NIC_REASONS(X)                                                                         \
	X(NIC_UNKNOWN_PEER, nic_unknown_peer,                                                      \
	  "a packet to a NIC failover port whose sender is not in the members file")               \
	X(NIC_NOT_OURS, nic_not_ours,                                                              \
	  "an encapsulated packet to an address that is no NIC of a pair")                         \
	X(NIC_INNER, nic_inner,                                                                    \
	  "an encapsulated packet that is no RoCEv2 packet of its sender for us")                  \
	X(NIC_PROBE, nic_probe,                                                                    \
	  "a NIC probe or encapsulated packet that is truncated, or of another version")           \
	X(NIC_BAD_TAG, nic_bad_tag,                                                                \
	  "a NIC probe or encapsulated packet whose tag matches no key of its sender")             \
	X(NIC_STALE, nic_stale,                                                                    \
	  "a NIC probe or encapsulated packet that is older than the newest of its sender")        \
	X(NIC_OTHER_PAIR, nic_other_pair,                                                          \
	  "an encapsulated packet between NICs that are not those of its inner addresses")         \
	X(NIC_MTU, nic_mtu, "too long for the backup NIC, with the outer headers")                 \
	X(NIC_GSO, nic_gso, "several packets in one buffer: not encapsulated")                     \
	X(NIC_KERNEL, nic_kernel, "the kernel did not change a packet's headers")

#define ESC_REASONS(X)                                                                             \
	X(SHORT_ETHERNET, short_ethernet, "the frame ends inside the Ethernet header")             \
	X(SHORT_VLAN, short_vlan, "the frame ends inside a VLAN tag")                              \
	X(VLAN_DEPTH, vlan_depth, "more than two VLAN tags")                                       \
	X(SHORT_IP, short_ip, "the frame ends inside the IP header")                               \
	X(BAD_IP_HEADER, bad_ip_header, "IP version or header length is not valid")                \
	X(IP_LENGTH, ip_length, "the IP length is more than the frame holds")                      \
	X(FRAGMENT, fragment, "a fragment of a UDP datagram")                                      \
	X(IPV6_EXTENSIONS, ipv6_extensions, "more IPv6 extension headers than are parsed")         \
	X(SHORT_UDP, short_udp, "the packet ends inside the UDP header")                           \
	X(UDP_LENGTH, udp_length, "the UDP length does not fit the IP length")                     \
	X(SHORT_BTH, short_bth, "the datagram ends inside the BTH or before the ICRC")             \
	X(BTH_VERSION, bth_version, "the BTH's transport version is not 0")                        \
	X(UNKNOWN_OPCODE, unknown_opcode, "the BTH's opcode is not known")                         \
	X(SHORT_EXTENSION, short_extension, "the datagram ends inside an extension header")        \
	X(ROCEV1, rocev1, "a RoCEv1 frame (ethertype 0x8915)")                                     \
	X(QP_TABLE_FULL, qp_table_full, "no free entry for a new queue pair")                      \
	X(QP_UNKNOWN_HOST, qp_unknown_host,                                                        \
	  "no free entry for another queue pair of hosts that are not members")                    \
	X(QP_FOREIGN, qp_foreign,                                                                  \
	  "no free entry for another queue pair of packets that this host forwards, or of "        \
	  "sockets")                                                                               \
	X(UNREADABLE, unreadable, "the kernel did not make the headers readable")                  \
	ESC_PROBE_REASONS(X)                                                                       \
	ESC_RECEIPT_REASONS(X)                                                                     \
	ESC_PATH_REASONS(X)                                                                        \
	ESC_NIC_REASONS(X)

enum esc_reason {
	ESC_REASON_NONE = 0, /* a stage's result: go on; never counted */
#define X(id, name, text) ESC_REASON_##id,
	ESC_REASONS(X)
#undef X
		ESC_REASON_MAX,
};

/* Value of `reasons`, a per-CPU array by enum esc_reason. Writer: the kernel programs. */
struct esc_reason_count {
	__u64 xdp_ingress;
	__u64 tc_ingress;
	__u64 tc_egress;
};
ESC_ASSERT_SIZE(struct esc_reason_count, 24);

#endif
