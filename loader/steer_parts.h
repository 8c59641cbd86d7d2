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
	STEERED_CLEARS, /* the order is to go back */
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
};

/* A queue pair that was taken back and is left alone for a while. */
struct steer_held {
	struct esc_qp_key key;
	uint64_t until_local_ns;
	uint64_t length_ns;
	enum verify_verdict why;
};

struct steer {
	struct daemon *daemon;
	struct esc_control *control;
	int steers_fd, qps_fd;
	struct sd_event_source *timer;
	struct steered *list;
	size_t count, room;
	struct steer_held *held;
	size_t held_count, held_room;
	uint64_t switches[STEER_REASONS];
};

/* --- steer_kernel.c: the maps --- */

void steer_beat(struct steer *steer, uint64_t now_local_ns);
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
