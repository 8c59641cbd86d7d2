/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP at the edge: the option that carries time and delay, and the maps
 * `tcp_flows`, `tcp_control`, `tcp_cgroups`, `tcp_counts`, `tcp_classes`, `tcp_delays` and
 * `tcp_refusals`.
 */
#ifndef ESC_MAPS_TCP_H
#define ESC_MAPS_TCP_H

#include "maps/types.h"
#include "maps/owd.h"
#include "maps/qp.h"

/*
 * The option, in network order. Kind 254 is shared by all experiments; the two
 * bytes after the length identify the experiment (RFC 6994). The short form fits
 * beside two SACK blocks and timestamps; beside three none does.
 */
#define ESC_TCP_KIND 254
#define ESC_TCP_EXID 0xe5ca
#define ESC_TCP_FULL 12
#define ESC_TCP_SHORT 8

/* Times and delays in the option: units of 256 ns, the time modulo 2^32 of them (18 minutes). */
#define ESC_TCP_UNIT_SHIFT 8
#define ESC_TCP_ECHO_MAX 0xffffu
/* A larger difference is no delay: one of the clocks was set. */
#define ESC_TCP_DELAY_MAX_NS 10000000000ll

struct esc_tcp_option {
	__u8 kind;
	__u8 length; /* ESC_TCP_FULL or ESC_TCP_SHORT */
	__u16 exid;
	__u16 echo; /* delay of the newest data from the other end; saturates at ESC_TCP_ECHO_MAX */
	__u8 bound; /* of the sender's fabric time, esc_tcp_bound_code() */
	__u8 flags; /* ESC_TCP_HAS_*, versions */
	__u32 time; /* fabric time of departure of this segment; not in the short form */
};
ESC_ASSERT_SIZE(struct esc_tcp_option, ESC_TCP_FULL);
#define ESC_TCP_HAS_TIME 0x1u /* the sender has fabric time (short form: with `bound`) */
#define ESC_TCP_HAS_ECHO 0x2u /* echo is a delay not reported before */
#define ESC_TCP_ECHO_LESS                                                                          \
	0x4u /* echo is the magnitude of a negative delay, possible within the clocks' bounds */

/*
 * Versions, two bits each, since there is no room for more: in the upper two the format (0 now;
 * another one is malformed), below it how many later formats the sender reads (probe.h: min_version
 * and version). The SYN and its reply have the oldest format that their sender reads, the rest of a
 * connection the newest that both read.
 */
#define ESC_TCP_READS_LATER 0x30u
#define ESC_TCP_FORMAT 0xc0u

/* With a larger bound of fabric time no delay is computed. */
#define ESC_TCP_BOUND_MAX_NS 1000000

/* A delay whose bound is above this part of the threshold is not used for limits. */
#define ESC_TCP_BOUND_SHIFT 2

enum esc_tcp_inner {
	ESC_TCP_INNER_NONE = 0,
	ESC_TCP_INNER_CUBIC = 1,
	ESC_TCP_INNER_BBR = 2,
	ESC_TCP_INNER_RENO = 3,
	ESC_TCP_INNER_MAX,
};

#ifndef __bpf__
static const char *const esc_tcp_inner_names[ESC_TCP_INNER_MAX] __attribute__((unused)) = {
	[ESC_TCP_INNER_NONE] = "none",
	[ESC_TCP_INNER_CUBIC] = "cubic",
	[ESC_TCP_INNER_BBR] = "bbr",
	[ESC_TCP_INNER_RENO] = "reno",
};
#endif

enum esc_tcp_mode {
	ESC_TCP_OFF = 0,
	ESC_TCP_OBSERVE = 1, /* the option is sent and delays are recorded, nothing is limited */
	ESC_TCP_PACE = 2,
};

#define ESC_TCP_CLASSES 16 /* as ESC_PACE_CLASSES; 0: default */
#define ESC_TCP_CGROUPS 8192

/* A class: conditions that a connection must all meet, and its parameters. */
struct esc_tcp_class {
	__u64 dscps;	    /* bitmap; 0: any */
	__u32 threshold_ns; /* of the delay */
	__u32 weight;	    /* relative share */
	__u16 port_first;   /* of either end; 0: any */
	__u16 port_last;
	__u32 by_cgroup; /* only sockets of cgroups that have the class's bit in `tcp_cgroups` */
};
ESC_ASSERT_SIZE(struct esc_tcp_class, 24);

/* Value of `tcp_control`, an array of one. Writer: the daemon. */
struct esc_tcp_control {
	__u32 mode;				       /* enum esc_tcp_mode */
	__u32 class_count;			       /* 1 at least */
	struct esc_tcp_class classes[ESC_TCP_CLASSES]; /* the first match, from 1 on; else 0 */
	char names[ESC_TCP_INNER_MAX][16]; /* of the loaded wrappers, by enum esc_tcp_inner */
};

/* Interval of the lookup of a connection's class: its DSCP, or the configuration, may change. */
#define ESC_TCP_CLASS_NS 100000000ull
/* Interval of the look at the congestion control of a connection that has no wrapper. */
#define ESC_TCP_WRAP_NS 1000000000ull

/* `tcp_cgroups`, a hash by a cgroup's id: bits of the classes that name it, __u32. Writer: the
 * daemon. */

/*
 * `tcp_refusals`, an LRU hash: peers that the option is not offered to until then. A server is
 * known by address and port, since others of its host may be in the cgroup there; SYNs that got no
 * reply, and agreement, by the address. Writer: the sockops program.
 */
#define ESC_TCP_REFUSALS 16384
#define ESC_TCP_REFUSED_NS 60000000000ull
/* After a SYN timeout; doubled by each further one until the peer agrees. */
#define ESC_TCP_TIMEOUT_NS 60000000000ull
#define ESC_TCP_TIMEOUT_MAX_NS (64 * ESC_TCP_TIMEOUT_NS)
/*
 * A path that carried the option in the last hour may lose a SYN like any other: only these in a
 * row, with no agreement between, are taken for a path that drops the option.
 */
#define ESC_TCP_AGREED_NS (3600ull * 1000000000)
#define ESC_TCP_LOST_MAX 3
/* Connections at the same time lose their SYNs to one event. */
#define ESC_TCP_LOST_NS 1000000000ull

struct esc_tcp_refusal_key {
	struct esc_address address;
	__u32 port; /* of the peer; 0: all */
};
ESC_ASSERT_SIZE(struct esc_tcp_refusal_key, 20);

struct esc_tcp_refusal {
	__u64 until_ktime_ns;
	__u64 hold_ns;	       /* of SYN timeouts */
	__u64 agreed_ktime_ns; /* 0: not since the option was withheld */
	__u64 lost_ktime_ns;   /* of the newest timeout that did not withhold the option */
	__u32 lost;	       /* such timeouts since the agreement */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct esc_tcp_refusal, 40);

/* Value of `tcp_classes`, a per-CPU array by class. Writer: the programs. */
struct esc_tcp_class_counts {
	__u64 samples; /* delays reported by the other ends */
	__u64 above;   /* of these, above the threshold */
};
ESC_ASSERT_SIZE(struct esc_tcp_class_counts, 16);

/* The state of the law of pacing/tcpwindow.h. */
struct tcp_window {
	__u32 window;	/* 1/1024 of a segment */
	__u32 wait_seq; /* after the first delay above the threshold: data from here on was sent
				  with the new window */
	__u32 waiting;	/* wait_seq is in force */
	__u32 starting; /* no delay above the target since the start */
	__u32 memory;	/* the window before an idle period; 0: none */
	__u32 weight;	/* times the window of a connection of weight 1; set after a start */
	/* Minimum delay, of the current interval and of the previous one. */
	__s64 floor_ns, floor_before_ns;
	__u64 floor_since_ns; /* 0: none yet */
	__u32 floor_count;    /* delays in this interval */
	__u32 round;	 /* added to the window before rounding down to segments; 0: none yet */
	__u32 round_seq; /* `round` changes when this is acknowledged */
	__u32 base_us;	 /* round trip without the queue, mean; 0: none yet */
	__u32 pace_us;	 /* over which a window below TCP_WINDOW_PACED is spread; 0: none yet */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct tcp_window, 72);

/* Expiry of a limit: after the last heartbeat, clock model or report of the peer. */
#define ESC_TCP_LIMIT_NS 2000000000ull

/* Value of `tcp_flows`, storage of a socket: both directions of a connection. */
struct esc_tcp_flow {
	/* Received: written when a segment is parsed. */
	__u64 in_samples;
	__s64 in_last_ns;  /* delay of data from the other end, as measured here */
	__u32 in_bound_ns; /* sum of both ends' bounds */
	__u32 in_echo;	   /* ESC_TCP_HAS_ECHO while in_last_ns is not reported yet */
	/* Sent, by reports of the other end. */
	__u64 out_samples;
	__u64 out_last_ktime_ns;
	__s64 out_last_ns;
	__s64 out_max_ns;
	__u32 out_bound_ns;
	__u32 out_pending;   /* out_last_ns has not been evaluated yet */
	__u64 out_above;     /* samples above the threshold */
	__u64 out_estimated; /* acknowledgements without room for a delay: estimated from the RTT
			      */
	/* The limit: written by the wrapper. */
	__u64 until_ktime_ns; /* expiry of the limit; 0: no limit */
	__u32 threshold_ns;   /* of its class */
	__u32 inner;	      /* enum esc_tcp_inner, 0: not wrapped */
	struct tcp_window law;
	__u32 inner_cwnd;  /* the wrapped algorithm's own window, in segments */
	__u32 shown_cwnd;  /* the window set instead */
	__u32 rtt_us;	   /* smoothed, of the newest segment of each acknowledgement */
	__u32 rtt_base_us; /* at a delay of base_ns; 0: none yet */
	__u32 rate_Bps;	   /* pacing rate that we set; ESC_TCP_NO_RATE: none */
	__s64 base_ns;
	__u64 app_rate_Bps; /* pacing rate that the application has set */
	__u64 rest_ns;	    /* start of idle: all acknowledged, nothing queued; 0: not idle */
	__u64 rest_end_ns;  /* end of idle; 0: not yet. Writer: the sockops program */
	__u32 limited;	    /* a limit is in force */
	__u32 status_was;   /* pacing status of the socket before us */
	/* Its class: written by the sockops program. */
	__u64 class_ktime_ns; /* of the last lookup; 0: never */
	__u32 class;
	__u32 weight;
	/* Set by a wrapper that the application replaced, cleared by the sockops program. */
	__u32 detached;
	__u32 replaced;	     /* the same, to be wrapped again */
	__u32 unlimited;     /* counted as such. Writer: the sockops program */
	__u64 wrap_ktime_ns; /* of its last look at the congestion control */
	/* A wrapper of an earlier daemon, not in `inner`. Writer: the sockops program. */
	__u32 earlier_over;	/* a segment was received after earlier_until_ns */
	__u64 earlier_until_ns; /* the latest expiry of its limit; 0: there is none */
	__u32 earlier_una;	/* acknowledged before that segment */
	__u32 wrapped; /* the socket's wrapper, if it has one, has no limit of an earlier daemon */
};

#define ESC_TCP_NO_RATE 0xffffffffu

/* Output of the iterator over flows. Addresses in network order, IPv4 mapped. */
struct esc_tcp_row {
	__u16 family; /* AF_INET or AF_INET6 */
	__u16 local_port;
	__u16 remote_port;
	__u16 reserved;
	__u32 local[4];
	__u32 remote[4];
	struct esc_tcp_flow flow;
};

/* Value of `tcp_counts`, a per-CPU array of one. Writer: the programs. */
struct esc_tcp_counts {
	__u64 offered;	    /* handshakes sent with the option */
	__u64 agreed;	    /* connections whose both ends support it */
	__u64 plain;	    /* connections whose other end does not */
	__u64 outside;	    /* connections with addresses that are no member's: not offered */
	__u64 withheld;	    /* connections to members that had refused it: not offered */
	__u64 syn_timeouts; /* handshakes with the option that got no reply */
	__u64 unwrapped;    /* agreed, only measured: no wrapper for their congestion control */
	__u64 rewrapped;    /* the application set another one later, and that was wrapped */
	__u64 in_samples;
	__u64 out_samples;
	__u64 out_above;
	__u64 estimated;
	__u64 cuts;	  /* reductions of a window */
	__u64 short_form; /* segments with the short form, because of SACK blocks */
	__u64 malformed;  /* our option, with an invalid length or value */
	__u64 no_time;	  /* segments without fabric time at one end */
	__u64 unsure;	  /* delays with a bound too large for a limit */
	__u64 lifted;	  /* limits that expired after ESC_TCP_LIMIT_NS without a report */
};

/* A bound in one byte, rounded up: 16 ns to 8 ms in steps of 1/16. */
static inline __u8 esc_tcp_bound_code(__u64 ns)
{
	__u64 mantissa = (ns + 15) >> 4;
	__u32 exponent = 0;

	while (mantissa > 31 && exponent < 14) {
		mantissa = (mantissa + 1) >> 1;
		exponent++;
	}
	if (mantissa > 31)
		return 255;
	return mantissa < 16 ? (__u8)mantissa : (__u8)((exponent + 1) << 4 | (mantissa & 15));
}

static inline __u32 esc_tcp_bound_ns(__u8 code)
{
	__u32 exponent = code >> 4, mantissa = code & 15;

	return exponent ? (mantissa + 16) << (exponent - 1 + 4) : mantissa << 4;
}

#endif
