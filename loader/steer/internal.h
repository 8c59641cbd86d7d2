/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of steering share. */
#ifndef ESC_STEER_INTERNAL_H
#define ESC_STEER_INTERNAL_H

#include "core/core.h"
#include "dataplane/dataplane.h"
#include "delay/delay.h"
#include "pacing/contend.h"
#include "pacing/verify.h"
#include "paths/paths.h"
#include "qp/qp.h"
#include "steer.h"

#define STEER_VERIFY_NS 250000000ull /* between two verifications of all rules */

enum steer_reason {
	STEER_BY_OPERATOR,
	STEER_BY_ROLLBACK,
	STEER_BY_CONTENTION,
	STEER_BY_TAKEN_BACK,
	STEER_REASONS,
	STEER_BY_TRACKING = STEER_REASONS, /* no change of path: it is tracked from now on */
};

enum rule_state {
	RULE_WAITING, /* it has not taken effect */
	RULE_MOVED,   /* it has; not verified yet */
	RULE_VERIFIED,
	RULE_CLEARING, /* operator: the queue pair returns to its own path, then the rule ends */
	RULE_TRACKING, /* automatic: on its own path, nothing to verify */
};

/* A rule of the map `steers`, and what the queue pair does. An operator's rule is no more. */
struct rule {
	struct esc_qp_key key;
	bool automatic;	       /* it is in a struct auto_rule */
	struct esc_steer want; /* as published */
	enum rule_state state;
	uint64_t published_local_ns;
	bool in_effect;		  /* and that was reported */
	bool wait_reported;	  /* that its packets are to leave their path, and none is sent */
	uint64_t silent_since_ns; /* no packet since, by the verifications; 0: not known */
	enum esc_steer_trigger trigger;
	uint64_t first_local_ns;    /* of the entry of `qps`: another one is another queue pair */
	uint16_t own_sport;	    /* that the packets come with */
	struct esc_qp_steer before; /* this rule */
	struct esc_qp_steer now;    /* as last read */
	struct verify_counts counts;
	struct verify verify;
	struct esc_qp_key back; /* entry of what comes back, with has_back */
	bool has_back;
};

/* An automatic rule: it names a candidate path, which packets leave when it is down. */
struct auto_rule {
	struct rule rule; /* first: one is cast to the other */
	enum steer_reason reason;
	uint8_t home;	 /* candidate of its own port's route */
	uint8_t last_id; /* of the newest rule that took effect */
	uint16_t last_sport;
	bool on_backup;	  /* tracking, and `verify` is of the backup */
	uint32_t reading; /* of the table of queue pairs that last had it */
	/* Of the last death of its path. */
	uint8_t repair_path; /* that died, by its id */
	unsigned int repair_again;
	uint32_t repair_next; /* PSN that was the first without an acknowledgement */
	uint64_t repair_due_ns, repair_report_ns;
};

/* A queue pair that was rolled back is not steered for a while. */
struct penalty {
	struct esc_qp_key key;
	uint64_t until_local_ns;
	uint64_t length_ns;
	enum verify_result why;
};

/* A queue pair of a pair, as of the last tick; beside it a struct contend_qp of the same index. */
struct pair_qp {
	struct esc_qp_key key;
	uint64_t first_local_ns; /* another one is another queue pair */
	uint16_t own_sport;
	int home;   /* candidate of its own port's route; -1: not known */
	bool there; /* in the newest reading of the table */
	uint64_t packets, bytes, messages;
	int64_t read_ns;    /* of these; 0: never */
	int64_t idle_ns;    /* since when `packets` is the same */
	int64_t message_ns; /* when `messages` last rose */
	int id;		    /* candidate that its packets used last; -1: not known */
	size_t at;	    /* index of its automatic rule, when it was last found */
	/* Of a paced one: counters as last read, and when its newest packet left, or will. */
	uint64_t paced, waited_ns;
	int64_t paced_ns; /* when it was read; 0: it is not paced */
	int64_t departed_ns;
};

/*
 * All queue pairs between two addresses. A route is known by the first candidate of its group,
 * whose id is the index into routes[].
 */
struct pair {
	struct path_pair_facts facts;
	bool there;
	bool configured;			     /* with what its link has */
	struct path_facts candidates[ESC_PATHS_MAX]; /* by id; sport 0: none */
	uint8_t route_of[ESC_PATHS_MAX];
	struct contend contend;
	struct contend_path routes[ESC_PATHS_MAX];
	struct contend_qp *qps;
	struct pair_qp *members;
	size_t count, room;
	unsigned int skipped; /* ticks since there was something to see */
	uint16_t dead;	      /* candidates that were down in the last tick, by id */
};

struct pair_list {
	struct pair **list; /* each stays where it is */
	size_t count, room;
};

struct steer {
	struct core *core;
	struct dataplane *dataplane;
	struct qptable *qps;
	struct delays *delays;
	struct paths *paths;
	struct esc_control *control;
	int steers_fd, qps_fd, qp_pace_fd;

	struct rule *rules; /* of the operator */
	size_t rule_count, rule_room;
	struct auto_rule *autos;
	size_t auto_count, auto_room;
	struct repair *repair; /* NULL: the kernel has not taken its program: */
	char *no_repair;
	struct penalty *penalties;
	size_t penalty_count, penalty_room;

	bool automatic; /* switched on */
	struct pair_list pairs;
	struct contend_budget budget;
	uint64_t random;
	uint64_t table_local_ns; /* of the reading of `qps` that the members are of */
	uint32_t reading;
	uint64_t full_reported_ns;

	uint64_t verify_due_ns;
	uint64_t switches[STEER_REASONS], acts[CONTEND_UNDONE + 1];
};

/* --- tick.c --- */

/* After each tick of the candidate paths. */
void steer_tick(void *steer, uint64_t now_local_ns);
/* The candidate that its packets use now, as far as rules show; -1: not known. */
int steer_id_of(struct steer *steer, const struct pair *pair, struct pair_qp *member);

/* --- rules.c: the map `steers`, and the lists of what is in it --- */

/*
 * @want, but for its number, takes effect from now on; the programs are notified. 0 or -errno, then
 * nothing has changed.
 */
int steer_publish(struct steer *steer, struct rule *rule, struct esc_steer want,
		  enum rule_state state, uint64_t now_ns);
/* The same of an automatic rule: @want has the candidate, its port (0: its own) and the times. */
int steer_auto_publish(struct steer *steer, struct auto_rule *one, struct esc_steer want,
		       enum steer_reason reason, uint64_t now_ns);
void steer_withdraw_all(struct steer *steer);
/* Rules of both lists, the operator's first: ESC_STEERS_MAX at most. */
size_t steer_rule_total(const struct steer *steer);
struct rule *steer_rule_at(const struct steer *steer, size_t i);
/* A new one, all zero; NULL: no memory. Earlier pointers are invalid. */
struct rule *steer_rule_add(struct steer *steer, const struct esc_qp_key *key);
struct auto_rule *steer_auto_add(struct steer *steer, const struct esc_qp_key *key);
struct rule *steer_rule_find(const struct steer *steer, const struct esc_qp_key *key);
struct auto_rule *steer_auto_find(const struct steer *steer, const struct esc_qp_key *key);
/* Deleted from the map too: the queue pair's next packet leaves unchanged. */
void steer_rule_drop(struct steer *steer, struct rule *rule);
/* An automatic rule is the operator's from now on; NULL: no memory, then it is as it was. */
struct rule *steer_auto_take(struct steer *steer, struct auto_rule *one);
/* Tracks a queue pair on its own path, candidate @home of @slot; NULL: no room. */
struct auto_rule *steer_track(struct steer *steer, const struct esc_qp_key *key,
			      const struct esc_qp *qp, unsigned int slot, unsigned int home,
			      uint64_t now_ns);
/* No longer automatic: one that was moved returns to its own path at a long gap. */
void steer_untrack(struct steer *steer, struct auto_rule *one);
int steer_read_qp(const struct steer *steer, const struct esc_qp_key *key, struct esc_qp *qp);
/* Finds the entry of what comes back, if it is not known, and reads what can be counted. */
void steer_count(struct steer *steer, struct rule *rule, const struct esc_qp *qp);
/* PSNs of requests that are not acknowledged, from *@next on; 0 also: not known, *@next unset. */
uint32_t steer_unacked(const struct steer *steer, const struct rule *rule, uint32_t *next);
/* The rules that the daemon before left in the map. */
int steer_read_rules(struct steer *steer);

/* --- repair.c: copies of packets that a dead path may have lost --- */

int steer_repair_open(struct steer *steer, char **error);
void steer_repair_close(struct steer *steer);
/* After the rules of the daemon before were read. */
void steer_repair_adopt(struct steer *steer);
/* `steer.repair` may have changed. */
void steer_repair_reconfigure(struct steer *steer);
/* A ring for the packets of a rule, as esc_steer.ring; 0: none. */
uint16_t steer_ring_take(struct steer *steer, const struct esc_qp_key *key);
void steer_ring_drop(struct steer *steer, uint16_t number);
/* Once per tick, with the pair's candidates of this tick. */
void steer_repair_pair(struct steer *steer, struct pair *pair, uint64_t now_ns);
void steer_repair_counts(const struct steer *steer, struct qpring_counts *out);
/* For `steer`; the caller's. */
json_t *steer_repair_json(const struct steer *steer);

/* --- verify.c: what became of a rule --- */

/* May drop @rule. */
void steer_verify_rule(struct steer *steer, struct rule *rule, uint64_t now_ns);
/* @why: "cleared", "lapsed", "gone", "mode". */
void steer_end_rule(struct steer *steer, struct rule *rule, const char *why);
/* The penalty in force, or NULL. */
const struct penalty *steer_penalty(const struct steer *steer, const struct esc_qp_key *key,
				    uint64_t now_ns);
void steer_expire_penalties(struct steer *steer, uint64_t now_ns);
/* "SRC>DST/QPN" */
const char *steer_subject(const struct esc_qp_key *key, char out[128]);
const char *steer_trigger_name(enum esc_steer_trigger trigger);
const char *steer_reason_name(enum steer_reason reason);
json_t *steer_path_wanted(const struct rule *rule);

/* --- operator.c: the verbs --- */

extern const struct verb_handler steer_verb_handlers[];
void steer_put_qp(void *self, const struct qp_entry *entry, json_t *qp);
/* The packets have a source port or flow label that was set. */
bool steer_leaves_elsewhere(const struct esc_qp_steer *now);

/* --- pair.c: one pair of addresses as the policy sees it --- */

struct pair *pair_new(const struct path_pair_facts *facts, const struct contend_config *config);
void pair_free(struct pair *pair);
/* The pairs as the paths have them now. One without memory for it is left out of this tick. */
void pairs_update(struct steer *steer, struct pair_list *pairs);
void pairs_free(struct pair_list *pairs);
/* False: RTNL is held, and @config lacks what the link has. */
bool pair_configure(const struct steer *steer, unsigned int port, struct contend_config *config);
/* Its candidates and their delays now. */
void pair_update_candidates(struct pair *pair, const struct paths *paths);
/* Its queue pairs, as the table has them. 0 or -ENOMEM. */
int pair_update_members(struct pair *pair, const struct paths *paths,
			const struct qp_entry *entries, size_t count, uint64_t now_ns);
/* Counters of a queue pair as just read: rate, gaps, messages. */
void pair_update_qp(struct pair_qp *member, struct contend_qp *qp, const struct esc_qp *read,
		    int64_t now_ns);
/* What pacing holds of it, as just read, before pair_update_qp(); NULL: it is not paced. */
void pair_update_pace(struct pair_qp *member, struct contend_qp *qp, const struct esc_qp_pace *pace,
		      int64_t now_ns);
/* Since when it has sent nothing: a packet that pacing holds is sent when it leaves. */
int64_t pair_idle_since(const struct pair_qp *member);
/* The route that packets on candidate @id take now; UINT32_MAX: not known. */
uint32_t pair_route_of(const struct pair *pair, int id);
/* The candidate to use for a route; -1: none of it is usable. */
int pair_candidate_for(const struct pair *pair, uint32_t route);
/* No route stands out, and no move is under way. */
bool pair_is_calm(const struct pair *pair);
/* As an integer; left out when NAN. */
void pair_put_rounded(json_t *object, const char *key, double value);
/* A route by the source port that probes use. */
json_t *pair_route_json(const struct pair *pair, uint32_t route, double delay_ns);
/* `steer plan`: what would move where, and why not; nothing is done. */
json_t *steer_plan(void *steer, struct request *request);

/* --- steer.c: modes --- */

/* Bit of each slot in `ports` that is in mode steer; @steer: a struct steer. */
uint16_t steer_ports(const void *steer);
/*
 * Automatic: on the interfaces in mode steer each queue pair to a peer with paths is tracked, so
 * that it leaves a path that is down at once (the programs do that), and moved where it is
 * contended (pacing/contend.h). On switches mode steer on on all interfaces when none has it.
 */
int steer_set_automatic(struct steer *steer, bool on, const char *by, char **error);
/* Ends steering when another program has cleared its flag in the map `control`. */
void steer_follow_control(struct steer *steer);
/* Names of the interfaces in these slots. */
json_t *steer_interfaces(const struct steer *steer, uint16_t ports);

#define STEER_EVENTS(X)                                                                            \
	X(PATH_SWITCHED, "path_switched", INFO, "A queue pair's packets use another path.",        \
	  .about = EVENT_QP)                                                                       \
	X(PATH_VERIFIED, "path_verified", INFO,                                                    \
	  "A queue pair has replies on its new path as before.", .about = EVENT_QP)                \
	X(PATH_ROLLED_BACK, "path_rolled_back", WARNING,                                           \
	  "A queue pair had fewer replies on its new path and returned to its own.",               \
	  .about = EVENT_QP, .remedy = "`escapement paths` shows the path that was left.")         \
	X(SWITCH_WAITS, "switch_waits", WARNING,                                                   \
	  "A queue pair was to leave its path and has been silent for half a second, with "        \
	  "packets unacknowledged: its transport waits for its timer.",                            \
	  .about = EVENT_QP)                                                                       \
	X(PATH_REPAIRED, "path_repaired", INFO,                                                    \
	  "Packets that a path may have lost when it died were sent once more on its backup.",     \
	  .about = EVENT_QP)                                                                       \
	X(STEERING_ENDED, "steering_ended", NOTICE,                                                \
	  "A rule ended: cleared, lapsed, its queue pair gone, or mode observe.",                  \
	  .about = EVENT_QP)                                                                       \
	X(STEER_MODE_CHANGED, "mode_changed", NOTICE, "Mode steer began or ended on interfaces.")  \
	X(STEER_AUTO_ON, "steer_auto_on", NOTICE, "Automatic steering was switched on.")           \
	X(STEER_AUTO_OFF, "steer_auto_off", NOTICE, "Automatic steering was switched off.")        \
	X(MOVE_SCHEDULED, "move_scheduled", INFO, "A queue pair on a contended path is to move.",  \
	  .about = EVENT_QP)                                                                       \
	X(MOVE_EVALUATED, "move_evaluated", INFO,                                                  \
	  "The measured gain of a move, and the predicted one.", .about = EVENT_QP)                \
	X(STEER_TABLE_FULL, "steer_table_full", WARNING,                                           \
	  "The map `steers` takes no rule: a queue pair is not tracked.", .about = EVENT_QP)
enum { STEER_EVENTS(EVENT_ENUM) };
extern const struct event_kind steer_events[];

#endif
