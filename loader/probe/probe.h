/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probes: the two threads that send them, the packets as they leave, and what became of them.
 * Neither thread reads a reply: those go from XDP to the ring buffer.
 */
#ifndef ESC_PROBE_PROBE_H
#define ESC_PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/delayhist.h"
#include "clocksync/line.h"
#include "maps/maps.h"

/* --- the datagram of an edge, and the socket that it leaves by --- */

/* Source ports of probes: the dynamic range, as of RoCEv2 (rdma_flow_label_to_udp_sport). */
#define PROBESOCK_PORT_BASE 0xc000u

struct probe_route {
	const char *interface;
	struct esc_address from; /* ours; all zero: the kernel chooses */
	struct esc_address to;
	uint16_t from_port, to_port;
};

/*
 * Where numbers of probes begin: at random, so that a run cannot be foreseen. They are compared by
 * their difference (RFC 1982); one may be 0.
 */
uint32_t probe_first_sequence(void);
/* One port for both directions of an edge and all its pairs: ECMP keeps them on one path. */
uint16_t probe_source_port(uint64_t one_id, uint64_t other_id);

/*
 * The map `probe_sockets`, borrowed until the end: tc egress makes probes of packets of the sockets
 * in it alone. Sockets of an earlier daemon leave it. Before any socket is opened.
 */
void probesock_use_map(int map_fd);
/*
 * A connected UDP socket that only sends: bound to the interface and the source port, known to tc
 * egress, no UDP checksum, never fragmented. A descriptor for probesock_close(), or -errno.
 */
int probesock_open(const struct probe_route *route);
void probesock_close(int fd);

/* Padded in front, so that the probe's fields are aligned. */
struct probe_datagram {
	uint32_t pad;
	struct esc_bth bth;
	struct esc_probe probe;
	uint8_t icrc[ESC_ICRC_BYTES];
};
_Static_assert(offsetof(struct probe_datagram, icrc) + ESC_ICRC_BYTES -
			       offsetof(struct probe_datagram, bth) ==
		       ESC_PROBE_DATAGRAM_BYTES,
	       "a datagram is BTH, probe and ICRC");

/* What is the same of an edge's probes. @flags: ESC_PROBE_PLANE or 0. */
void probe_datagram_init(struct probe_datagram *datagram, uint64_t self, uint64_t target,
			 uint64_t epoch, uint8_t flags);
/* What differs. @more: ESC_PROBE_SECOND, ESC_PROBE_QUERY. */
void probe_datagram_number(struct probe_datagram *datagram, uint8_t opcode, uint32_t sequence,
			   uint32_t pair, uint8_t more);
/* 0 or -errno. */
int probe_datagram_send(int fd, const struct probe_datagram *datagram);

/*
 * --- the thread that sends coded pairs: for each edge, in its own phase, a warm-up packet, then a
 * first and a second one a fixed spacing apart ---
 */

struct sender;
struct sender_edge;

/* -errno: there is no thread. */
int sender_new(struct sender **out, uint64_t spacing_ns);
/* Ends the thread, closes all sockets. */
void sender_free(struct sender *sender);
void sender_set_spacing(struct sender *sender, uint64_t spacing_ns);
/* Paused, nothing leaves; the kill switch does it. */
void sender_pause(struct sender *sender, bool paused);

struct sender_edge_config {
	struct probe_route route; /* route.interface is not kept */
	uint64_t self, target, epoch;
	uint8_t flags;		 /* ESC_PROBE_PLANE or 0 */
	uint32_t first_sequence; /* above all that the target has seen of us */
	uint64_t interval_ns;
};

/* -errno of the socket. */
int sender_add(struct sender *sender, const struct sender_edge_config *config,
	       struct sender_edge **out);
/* From now on by another route to the same target; its numbers go on. -errno: as before. */
int sender_move(struct sender *sender, struct sender_edge *edge, const struct probe_route *route);
void sender_remove(struct sender *sender, struct sender_edge *edge);
void sender_set_interval(struct sender_edge *edge, uint64_t interval_ns);
/*
 * A request between the pairs, which queries how long ago the target received a probe of @about, or
 * of that NIC of it (esc_nic_number(), 0: any). Its number is one of the edge's.
 */
int sender_query(struct sender *sender, struct sender_edge *edge, uint64_t about, uint32_t nic);

struct sender_counts {
	uint64_t requests, failed; /* handed to the kernel, and refused by it */
	int last_error;		   /* -errno */
	uint32_t next_sequence;
};
void sender_counts(const struct sender_edge *edge, struct sender_counts *out);

/* --- a path request as it leaves by a raw socket, with its IP header. Pure --- */

#define PATHPACKET_BYTES_MAX (40 + 8 + ESC_PATH_DATAGRAM_BYTES)
#define PATHPACKET_HOP_LIMIT 64 /* a whole path; the peer's program replies with the same */

struct pathpacket {
	struct esc_address from, to;
	uint16_t from_port, to_port;
	uint64_t target; /* id */
	uint32_t sequence;
	uint16_t ident; /* of the IPv4 header, which every ICMP error quotes */
	uint8_t hop_limit;
	uint8_t flags; /* ESC_PROBE_PLANE or 0 */
	uint8_t path;  /* or ESC_PATH_NONE */
};

/* Returns its size. tc egress fills in sender, epoch, timestamps, reports and tag. */
size_t pathpacket_build(const struct pathpacket *packet, uint8_t out[PATHPACKET_BYTES_MAX]);
/*
 * The reverse: a request of ours as an ICMP error quotes it. @ip: from its IP header on, cut
 * anywhere. 0 or -EINVAL: it is none. A sequence that was cut off is 0.
 */
int pathpacket_parse(const uint8_t *ip, size_t bytes, struct pathpacket *out);
/* The same of a whole "time exceeded" as a raw socket gives it: with the IP header when @ipv4. */
int pathpacket_quoted(const uint8_t *packet, size_t bytes, bool ipv4, struct pathpacket *out);

/*
 * --- the thread that sends path requests: each candidate path at its own interval, those that are
 * due together in one system call ---
 *
 * A raw socket with an IP header of our own sends from every source port: a UDP socket for each
 * would take ports from the host's applications, and could not set the hop limit of one packet.
 */

struct pathsend;
struct pathsend_pair;

/* -errno: there is no thread. */
int pathsend_new(struct pathsend **out);
/* Ends the thread, closes all sockets. NULL is fine. */
void pathsend_free(struct pathsend *send);
/* Paused, nothing leaves; the kill switch does it. */
void pathsend_pause(struct pathsend *send, bool paused);

/*
 * Requests from packet.from to packet.to, of which @packet has what is the same of all. Pairs of
 * different phases are not sent in one burst. -errno of the socket; one serves all pairs of an
 * interface and an address.
 */
int pathsend_add(struct pathsend *send, const char *interface, const struct pathpacket *packet,
		 unsigned int phase, struct pathsend_pair **out);
void pathsend_remove(struct pathsend *send, struct pathsend_pair *pair);
/* From now on @path is probed from @sport each @interval_ns; 0: no more. */
void pathsend_set(struct pathsend *send, struct pathsend_pair *pair, unsigned int path,
		  uint16_t sport, uint64_t interval_ns);
/*
 * One request of no candidate, at once, that ends @hop_limit switches away; its number and its IPv4
 * identification identify its errors. 0 or -errno.
 */
int pathsend_try(struct pathsend *send, struct pathsend_pair *pair, uint16_t sport,
		 uint8_t hop_limit, uint32_t *sequence);
/* What pathsend_try() puts into the IPv4 header. */
uint16_t pathsend_ident(uint32_t sequence);

struct pathsend_counts {
	uint64_t sent, failed; /* handed to the kernel, and refused by it */
	int last_error;	       /* -errno */
};
void pathsend_get(struct pathsend *send, struct pathsend_counts *out);

/* --- which requests of an edge were replied to: one is lost when its time is up. Pure --- */

/* Requests under way: at 4000 a second, four times the second in which a reply is awaited. */
#define LOSSES_ROOM 16384

struct losses {
	uint32_t expired; /* the time of all before it is up */
	uint32_t newest;  /* of those replied to */
	uint64_t replied, lost;
	uint64_t late;	    /* replied to after they were counted as lost; not taken back */
	uint64_t reordered; /* replied to after a later one was */
	uint64_t seen[LOSSES_ROOM / 64];
};

/* @sequence: of the first request. */
void losses_begin(struct losses *losses, uint32_t sequence);
void losses_reply(struct losses *losses, uint32_t sequence);
/* All before @sequence were sent to a host that is not there yet: not lost. */
void losses_skip(struct losses *losses, uint32_t sequence);
/* The time of all before @sequence is up. */
void losses_expire(struct losses *losses, uint32_t sequence);

/* --- the newest passages of the probes of an edge, and its delay by them. Pure --- */

#define PASSAGES_KEPT 2048 /* a window of 2 s at 1000 probes a second */

struct passages {
	uint64_t count; /* that there have been */
	/* One probe from one end to the other, in the local clocks of both. */
	struct passage {
		int64_t tx_ns, rx_ns;
	} at[PASSAGES_KEPT];
};

void passages_clear(struct passages *passages);
void passages_add(struct passages *passages, int64_t tx_ns, int64_t rx_ns);
/*
 * One-way delays of what left or arrived since @since_ns of the local clock, in fabric time by the
 * lines of the two ends. @out_going: this host is the sender.
 */
void passages_delays(const struct passages *passages, bool out_going, int64_t since_ns,
		     const struct clock_line *ours, const struct clock_line *theirs,
		     struct quantiles *out);
/*
 * The same of each that came after the first *@counted, into @hist; *@counted is then all there
 * have been. Coming later than PASSAGES_KEPT leaves the oldest out. 0 or -ENOMEM.
 */
int passages_count(const struct passages *passages, uint64_t *counted,
		   const struct clock_line *sender, const struct clock_line *receiver,
		   struct delayhist *hist);
/*
 * Round-trip times of requests that left since @since_ns, without the time that the peer took to
 * reply. @back: the replies, one for each of @there.
 */
void passages_round_trips(const struct passages *there, const struct passages *back,
			  int64_t since_ns, struct quantiles *out);
/*
 * The least of those that came after the first *@counted, which is then all there have been;
 * INT64_MAX: none came.
 */
int64_t passages_least_round_trip(const struct passages *there, const struct passages *back,
				  uint64_t *counted);

#endif
