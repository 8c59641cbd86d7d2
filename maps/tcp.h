/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP at the edge: the option that carries time and delay, and the maps
 * `tcp_flows`, `tcp_control`, `tcp_cgroups`, `tcp_counts`, `tcp_classes` and `tcp_delays`.
 */
#ifndef ESC_MAPS_TCP_H
#define ESC_MAPS_TCP_H

#include "maps/types.h"
#include "maps/owd.h"

/*
 * The option, in network order. Kind 254 is shared by all experiments; the two
 * bytes behind the length say whose it is (RFC 6994). The short form is what
 * fits beside two SACK blocks and timestamps; beside three nothing does.
 */
#define ESC_TCP_KIND 254
#define ESC_TCP_EXID 0xe5ca
#define ESC_TCP_FULL 12
#define ESC_TCP_SHORT 8

/* Times and delays in the option: units of 256 ns, the time modulo 2^32 of them (18 minutes). */
#define ESC_TCP_UNIT_SHIFT 8
#define ESC_TCP_ECHO_MAX 0xffffu
/* Two times that are further apart are no delay: one of them is of a clock that was set. */
#define ESC_TCP_DELAY_MAX_NS 10000000000ll

struct esc_tcp_option {
	__u8 kind;
	__u8 length; /* ESC_TCP_FULL or ESC_TCP_SHORT */
	__u16 exid;
	__u16 echo; /* delay of the newest data from the other end; no less than ESC_TCP_ECHO_MAX */
	__u8 bound; /* of the sender's fabric time, esc_tcp_bound_code() */
	__u8 flags; /* ESC_TCP_HAS_* */
	__u32 time; /* fabric time at which this segment may leave; not in the short form */
};
ESC_ASSERT_SIZE(struct esc_tcp_option, ESC_TCP_FULL);
#define ESC_TCP_HAS_TIME                                                                           \
	0x1u /* the sender has fabric time; in the short form: and bound says how good */
#define ESC_TCP_HAS_ECHO 0x2u /* echo is a delay that was not told before */
#define ESC_TCP_ECHO_LESS                                                                          \
	0x4u /* it is less than nothing by so much, as clocks within their bounds can make it */

/* Fabric time known worse than that is no use for a delay here. */
#define ESC_TCP_BOUND_MAX_NS 1000000

/* A delay that may be wrong by more than this part of the threshold limits nothing. */
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
	ESC_TCP_OBSERVE = 1, /* the option is sent and delays are kept, nothing is held */
	ESC_TCP_PACE = 2,
};

#define ESC_TCP_CLASSES 16 /* as ESC_PACE_CLASSES; 0: of what fits no other */
#define ESC_TCP_CGROUPS 8192

/* What a connection has to be, all of it, to be of a class; and what that makes of it. */
struct esc_tcp_class {
	__u64 dscps;	    /* its own, a bit each; 0: any */
	__u32 threshold_ns; /* a delay above it is too much */
	__u32 weight;	    /* its share beside others' */
	__u16 port_first;   /* of either end; 0: any */
	__u16 port_last;
	__u32 by_cgroup; /* only sockets of cgroups that have the class's bit in `tcp_cgroups` */
};
ESC_ASSERT_SIZE(struct esc_tcp_class, 24);

/* Value of `tcp_control`, an array of one. Writer: the daemon. */
struct esc_tcp_control {
	__u32 mode;				       /* enum esc_tcp_mode */
	__u32 class_count;			       /* 1 at least */
	struct esc_tcp_class classes[ESC_TCP_CLASSES]; /* the first that fits, from 1 on; else 0 */
	char names[ESC_TCP_INNER_MAX]
		  [16]; /* of the wrappers that are loaded, by enum esc_tcp_inner */
};

/* A connection's class is looked up that often: its DSCP, or what is configured, may change. */
#define ESC_TCP_CLASS_NS 100000000ull

/* `tcp_cgroups`, a hash by a cgroup's id: bits of the classes that name it, __u32. Writer: the
 * daemon. */

/* Value of `tcp_classes`, a per-CPU array by class. Writer: the programs. */
struct esc_tcp_class_counts {
	__u64 samples; /* delays that the other ends told */
	__u64 above;   /* of these, above the threshold */
};
ESC_ASSERT_SIZE(struct esc_tcp_class_counts, 16);

/* The state of the law of pacing/tcpwindow.h. */
struct tcp_window {
	__u32 window;   /* 1/1024 of a segment */
	__u32 wait_seq; /* after the first delay above the threshold: what is sent from here
				  on knows of it */
	__u32 waiting;  /* wait_seq is in force */
	__u32 starting; /* no delay above the aim since the start */
	__u32 memory;   /* the window before a rest; 0: none */
	__u32 weight;   /* times the window of a connection of weight 1; set after a start */
	/* The least delay, of the span under way and of the one before. */
	__s64 floor_ns, floor_before_ns;
	__u64 floor_since_ns; /* 0: none yet */
	__u32 floor_count;	   /* delays in this span */
	__u32
		round; /* added to the window before it is cut to whole segments; 0: none yet */
	__u32 round_seq; /* that changes when this is acknowledged */
	__u32 base_us;	/* a round trip without the queue, mean of some; 0: none yet */
	__u32
		pace_us; /* over which a window below TCP_WINDOW_PACED is spread; 0: none yet */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct tcp_window, 72);

/* A silent daemon's limits end with that: after its last beat, or its clock's or its peer's word.
 */
#define ESC_TCP_LIMIT_NS 2000000000ull

/* Value of `tcp_flows`, storage of a socket: both directions of a connection. */
struct esc_tcp_flow {
	/* What came in: written when a segment is parsed. */
	__u64 in_samples;
	__s64 in_last_ns;  /* delay of data from the other end, as measured here */
	__u32 in_bound_ns; /* of it: our bound and theirs */
	__u32 in_echo;	   /* ESC_TCP_HAS_ECHO when in_last_ns is still to be told */
	/* What went out, as the other end tells it. */
	__u64 out_samples;
	__u64 out_last_ktime_ns;
	__s64 out_last_ns;
	__s64 out_max_ns;
	__u32 out_bound_ns;
	__u32 out_pending;     /* out_last_ns has not been judged yet */
	__u64 out_above;     /* samples above the threshold */
	__u64 out_estimated; /* acknowledgements without room for a delay: judged by the round trip
			      */
	/* The limit: written by the wrapper. */
	__u64 until_ktime_ns; /* no limit from here on; 0: none at all */
	__u32 threshold_ns;   /* of its class */
	__u32 inner;	      /* enum esc_tcp_inner, 0: not wrapped */
	struct tcp_window law;
	__u32 inner_cwnd;  /* the wrapped algorithm's own window, in segments */
	__u32 shown_cwnd;  /* what was put into its place */
	__u32 rtt_us;	   /* smoothed, of the newest segment of each acknowledgement */
	__u32 rtt_base_us; /* with the delay of base_ns; 0: none yet */
	__u32 rate_Bps;	   /* maximum that we set; ESC_TCP_NO_RATE: none */
	__s64 base_ns;
	__u64 app_rate_Bps; /* maximum that the application has set */
	__u64 rest_ns;	    /* when all was acknowledged and nothing waited; 0: not so */
	__u64 rest_end_ns;  /* when data left again; 0: not yet. Writer: the sockops program */
	__u32 limited;	    /* a limit is on now */
	__u32 status_was;   /* the socket was not paced before us */
	/* Its class: written by the sockops program. */
	__u64 class_ktime_ns; /* when it was looked up; 0: never */
	__u32 class;
	__u32 weight;
	/* Set by a wrapper that the application took away, cleared by the sockops program. */
	__u32 detached;
	__u32 reserved;
};

#define ESC_TCP_NO_RATE 0xffffffffu

/* What the program that lists the flows writes for each. Addresses in network order, IPv4 mapped.
 */
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
	__u64 offered;	 /* handshakes that we put the option into */
	__u64 agreed;	 /* connections whose both ends speak it */
	__u64 plain;	 /* connections whose other end does not */
	__u64 unwrapped; /* agreed, with a congestion control that there is no wrapper for */
	__u64 in_samples;
	__u64 out_samples;
	__u64 out_above;
	__u64 estimated;
	__u64 cuts;	  /* windows made smaller */
	__u64 short_form; /* segments beside whose SACK blocks only the short form fits */
	__u64 malformed;  /* our option, but not in a length or with a value that we send */
	__u64 no_time;	  /* segments of a peer whose fabric time, or ours, is not known */
	__u64 unsure;	  /* delays that may be wrong by too much for a limit */
	__u64 lifted;	  /* limits that ended because a word was missing for ESC_TCP_LIMIT_NS */
};

/* A bound in one byte, never less than it is: 16 ns to 8 ms in steps of 1/16. */
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
