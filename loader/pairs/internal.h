/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the module share. */
#ifndef ESC_PAIRS_INTERNAL_H
#define ESC_PAIRS_INTERNAL_H

#include "base/fields.h"
#include "core/core.h"
#include "fleet/fleet.h"
#include "pairs.h"
#include "probe/probe.h"
#include "rotation/rotation.h"

/* --- law.c: pure; when what is sent, what it costs, and what is wrong with it --- */

#define PAIRS_PROBES 100      /* path requests of a pair from each end, on as many source ports */
#define PAIRS_PROBES_LEAST 50 /* with fewer a pair was not measured: the loop was held up */
#define PAIRS_ECHOES 6	      /* ICMP echo requests: small and of full size in turn */
#define PAIRS_BURST 4	      /* path requests of a NIC in a tick */
#define PAIRS_TICK_NS 10000000ull
#define PAIRS_ROUND_LEAST_NS 400000000ull
#define PAIRS_ROUND_MOST_NS 60000000000ull
#define PAIRS_ROUND_DEFAULT_NS 500000000ull
/* Between the id that is made for a run and its first round: hosts that join until then miss none.
 */
#define PAIRS_LEAD_NS 3000000000ull
/* Ids are multiples of it: hosts that begin at about the same time make the same one. */
#define PAIRS_GRID_NS 10000000000ull
#define PAIRS_ECHO_SMALL_BYTES 64 /* of the IP packet */

struct pairs_plan {
	uint64_t run_ns; /* the id: fabric time of the first round */
	uint64_t round_ns;
	uint64_t rounds;      /* of the longest rail */
	uint64_t most_rounds; /* of a rail with a NIC of each host: the same on all hosts */
};

/* The id of a run that is begun at @fabric_ns. */
uint64_t pairs_run_id(uint64_t fabric_ns);

enum pairs_phase { PAIRS_WAITING, PAIRS_RUNNING, PAIRS_OVER };
/*
 * Where a run is at @fabric_ns: *@round, and how many path and echo requests of that round are due.
 * They are spread over the round but for its end, which is for replies: 200 ms, 40% at most. No two
 * of both ends are due at once: @second is the end with the higher number.
 */
enum pairs_phase pairs_at(const struct pairs_plan *plan, uint64_t fabric_ns, bool second,
			  uint64_t *round, unsigned int *probes, unsigned int *echoes);

struct pairs_load {
	double packets_per_second, bytes_per_second; /* that a NIC sends, on the wire */
	uint64_t bytes;				     /* in the whole run */
};
/* Requests, and replies to the other end. @mtu: of the interface. */
struct pairs_load pairs_load(const struct pairs_plan *plan, unsigned int mtu);

#define PAIRS_SHARE 0.01 /* of the NIC's speed, while a round sends */
/* The shortest round in which a NIC of @bps sends no more than that; 0: its speed is not known. */
uint64_t pairs_round_least(unsigned int mtu, double bps);

/* How near the ends of a pair are, by the labels of the members. */
enum pairs_class { PAIRS_RACK, PAIRS_POD, PAIRS_FABRIC, PAIRS_CLASSES };

/* A pair, by what this end measured. */
struct pairs_pair {
	int64_t out_ns, in_ns; /* the least one-way delays; 0: none */
	uint32_t bound_ns;     /* of each */
	uint16_t sent, replied;
	uint8_t class;
	uint8_t small_sent, small_replied, full_sent, full_replied;
	bool used; /* by queue pairs: their packets are in the delays, which are not judged */
};

enum pairs_fault {
	PAIRS_SILENT,	 /* no reply to any path request */
	PAIRS_LOSS,	 /* to some */
	PAIRS_MTU,	 /* only packets of full size are lost */
	PAIRS_LATENCY,	 /* the least delay is above the limit of its class */
	PAIRS_ASYMMETRY, /* the directions differ by more than the class does, and the clock may */
	PAIRS_FAULTS,
};

/* Of the delays of a class of pairs of a NIC. */
struct pairs_limit {
	size_t pairs; /* with delays; below PAIRS_JUDGED_LEAST nothing is judged */
	double median_ns, limit_ns;
	double asymmetry_ns; /* the most that is usual */
};
#define PAIRS_JUDGED_LEAST 3

/*
 * Limits of the pairs of a NIC by class: the median and 3 times its scaled deviation (1.4826 MAD),
 * but not closer than a quarter of the median, which is below what one switch more adds. -ENOMEM.
 */
int pairs_limits(const struct pairs_pair *results, size_t count,
		 struct pairs_limit out[PAIRS_CLASSES]);
/* Enough was sent. */
bool pairs_is_measured(const struct pairs_pair *result);
/* A bit for each enum pairs_fault; 0 also of one that was not measured. */
unsigned int pairs_judge(const struct pairs_pair *result,
			 const struct pairs_limit limits[PAIRS_CLASSES]);

/* --- echo.c: ICMP echo requests of an address of ours, never fragmented --- */

/* What distinguishes them: a number of this run, and the number of the request. */
struct pairs_echo {
	uint16_t ident, sequence;
	bool full;
};
/* A descriptor, or -errno. */
int echo_open(const char *interface, const struct esc_address *from);
/* Of the interface; 0: not known. */
unsigned int echo_mtu(int fd, const char *interface);
/* @bytes: of the IP packet. 0 or -errno. */
int echo_send(int fd, const struct esc_address *to, const struct pairs_echo *echo, size_t bytes);
/* The next reply to @ident. False: there is none now. */
bool echo_read(int fd, bool ipv4, uint16_t ident, struct esc_address *from,
	       struct pairs_echo *echo);
/* An ICMP message, without its IP header. False: no reply to @ident. */
bool echo_parse(const uint8_t *message, size_t bytes, bool ipv4, uint16_t ident,
		struct pairs_echo *echo);

/* --- pairs.c --- */

#define PAIRS_LANES_MAX MEMBER_PORTS_MAX

/* A NIC of ours, and those of its rail. */
struct pairs_lane {
	struct rotation_own own;
	const struct member *self;
	const struct member **others; /* all of the rail in the order of hosts, our own included */
	uint8_t *places;	      /* of each of them among the NICs of its host on the plane */
	uint32_t count, index;
	struct pairs_pair *results; /* of each of them */
	int echo_fd;		    /* or -errno */
	unsigned int mtu;

	/* In this round. */
	uint32_t partner; /* ROTATION_NONE: none */
	struct esc_path_key key;
	struct pathsend_pair *sending; /* NULL: queue pairs use the two, paths_sending() */
	unsigned int sent, echoes;
	uint32_t sequence[PAIRS_PROBES];
};

struct pairs {
	struct core *core;
	struct dataplane *dataplane;
	struct clock *clock;
	struct paths *paths;
	struct rotation *rotation;
	struct fleet_subscriber members;
	struct core_timer *timer;

	const char *state; /* "none", "waiting", "running", "completed", "stopped" */
	char note[128];	   /* why it was stopped */
	struct pairs_plan plan;
	uint64_t round; /* the one that runs */
	uint16_t ident;
	struct pairs_lane *lanes;
	size_t lane_count;
	uint64_t sent, replied, failed; /* path requests */
	uint64_t left_out;		/* NICs of ours that could not be measured from */
};

/* --- report.c --- */

extern const struct verb_handler pairs_verb_handlers[];
/*
 * For the verbs. 0, or -errno with *@error. @run_ns 0: one is made. @round_ns 0: the default, or
 * what the slowest NIC needs.
 */
int pairs_start(struct pairs *pairs, uint64_t run_ns, uint64_t round_ns, char **error);
void pairs_stop(struct pairs *pairs, const char *why);

#endif
