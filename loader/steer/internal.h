/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of steering share; nobody else includes it. */
#ifndef ESC_LOADER_STEER_PARTS_H
#define ESC_LOADER_STEER_PARTS_H

#include "pacing/verify.h"
#include "steer.h"

struct sd_event_source;

enum steered_state {
	STEERED_WAITS, /* the order has not taken effect */
	STEERED_MOVED, /* it has; not proved yet */
	STEERED_PROVED,
	STEERED_CLEARS,	 /* the order is to go back */
	STEERED_COVERED, /* on its own path: nothing to prove */
};

/* An order in force. */
struct steered {
	struct esc_qp_key key;
	struct esc_steer want; /* as it is in `steers` */
	enum steered_state state;
	bool done; /* it has taken effect, and that was told */
	enum esc_steer_moment moment;
	uint64_t ordered_local_ns, done_local_ns;
	uint64_t first_local_ns; /* of the queue pair's entry: another one is another queue pair */
	uint16_t own_sport;	 /* that the packets come with */
	struct esc_qp_steer before; /* what was done before this order */
	struct esc_qp_steer now;    /* as last read */
	struct verify_counts counts;
	struct verify verify;
	struct esc_qp_key back; /* entry of what comes back, with has_back */
	bool has_back;
	enum steer_reason reason; /* of the order */
	bool on_standby;	  /* covered, and verify is of its standby */
	bool by_itself;		  /* want has ESC_STEER_LANE; else it is an order by hand */
	uint8_t home;		  /* lane of its own port's path, with by_itself */
	uint8_t stood_lane;	  /* of the newest order that took effect, with by_itself */
	uint16_t stood_sport;
	uint32_t turn; /* of steering by itself, that last saw it */
};

/* A queue pair that was taken back and is left alone for a while. */
struct steer_held {
	struct esc_qp_key key;
	uint64_t until_local_ns;
	uint64_t length_ns;
	enum verify_verdict why;
};

struct steer_auto;

struct steer {
	struct daemon *daemon;
	struct steer_auto *by_itself; /* always there; does nothing until it is switched on */
	struct esc_control *control;
	int steers_fd, qps_fd;
	struct sd_event_source *timer;
	struct paths *paths; /* NULL: there are none */
	struct steered *list;
	size_t count, room;
	struct steer_held *held;
	size_t held_count, held_room;
	uint64_t switches[STEER_REASONS];
};

/* --- steer_kernel.c: the maps --- */

/* Writes @entry's order under a new number and tells the programs. */
int steer_publish(struct steer *steer, struct steered *entry);
/* Takes the order of @key away: from the next packet on it leaves as it comes. */
void steer_withdraw(struct steer *steer, const struct esc_qp_key *key);
void steer_withdraw_all(struct steer *steer);
/* Bits of `ports`; 0 is mode observe. */
void steer_write_ports(struct steer *steer, uint16_t ports);
int steer_read_qp(const struct steer *steer, const struct esc_qp_key *key, struct esc_qp *qp);
/* Finds what comes back, if it has not been, and fills in what can be counted. */
void steer_count(struct steer *steer, struct steered *entry, const struct esc_qp *qp);
/* Orders that are in the map already. */
int steer_read_orders(struct steer *steer);
struct steered *steer_add(struct steer *steer, const struct esc_qp_key *key);

/* --- steer.c --- */

struct steered *steer_find(struct steer *steer, const struct esc_qp_key *key);
/* True while it was taken back and is left alone. */
bool steer_is_held(const struct steer *steer, const struct esc_qp_key *key, uint64_t now_ns);
/* How an order gets on; may drop @entry. */
void steer_look_at(struct steer *steer, struct steered *entry, uint64_t now_ns);

/* --- steer_lane.c: orders by lane --- */

struct steer_lane_order {
	unsigned int slot, lane;
	uint16_t sport; /* 0: its own */
	enum steer_reason reason;
	uint64_t hold_ns, start_local_ns, force_local_ns;
};

/* A new order for @entry. 0 or -errno, then nothing has changed. */
int steer_order_lane(struct steer *steer, struct steered *entry,
		     const struct steer_lane_order *order, uint64_t now_ns);
/* Begins to watch a queue pair on its own path, lane @home of @slot; NULL: no room. */
struct steered *steer_cover(struct steer *steer, const struct esc_qp_key *key,
			    const struct esc_qp *qp, unsigned int slot, unsigned int home,
			    uint64_t now_ns);
/* Back to its own path at once, still watched. */
int steer_go_home(struct steer *steer, struct steered *entry, uint64_t now_ns);
/* Ends all orders of steering by itself; those that moved go back at a good moment. */
void steer_uncover_all(struct steer *steer);
void steer_uncover(struct steer *steer, struct steered *entry);

/* --- steer_auto.c --- */

int steer_auto_new(struct steer *steer);
void steer_auto_free(struct steer_auto *by_itself);
bool steer_auto_is_on(const struct steer_auto *by_itself);
/* The mode ended, or began: @by as in steer_set_auto(). */
void steer_auto_switch(struct steer *steer, bool on, const char *by);
void steer_auto_reconfigure(struct steer *steer);
void steer_auto_get(const struct steer_auto *by_itself, struct steer_facts *out);

/* --- steer_tell.c: events --- */

const char *steer_subject(const struct esc_qp_key *key, char out[128]);
void steer_tell_moved(struct steer *steer, const struct steered *entry, enum steer_reason reason);
void steer_tell_proved(struct steer *steer, const struct steered *entry,
		       const struct verify_counts *from);
void steer_tell_rolled_back(struct steer *steer, const struct steered *entry,
			    enum verify_verdict verdict, const struct steer_held *held);
/* An order ended otherwise: "cleared", "lapsed", "gone", "mode". */
void steer_tell_ended(struct steer *steer, const struct steered *entry, const char *why);
void steer_tell_mode(struct steer *steer, uint16_t ports, const char *by);
json_t *steer_show(const struct steer *steer, const struct steered *entry);
/* Name of the interface in slot @index, or NULL. */
const char *steer_interface(const struct steer *steer, unsigned int index, char out[16]);

#endif
