/* SPDX-License-Identifier: BSD-2-Clause */
/* escapement-alert(8): from events to alerts, and alerts to Alertmanagers and a hook. */
#ifndef ESC_ALERT_H
#define ESC_ALERT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* All times are CLOCK_REALTIME in ns, as those of events are, unless the name has `local`. */
#define ALERT_S 1000000000ull

/* --- table.c: which alerts there are. Pure: the time is an argument --- */

#define ALERTS_MAX 1024
/* Duration of the alert of an event that begins no condition. */
#define ALERT_SINGLE_NS (300 * ALERT_S)
/* What an earlier daemon reported has to be reported again in this time after a new one's start. */
#define ALERT_CONFIRM_NS (120 * ALERT_S)
/*
 * One that explains no others is sent, and hooked, after this time: what explains it may follow.
 * The loss of a carrier is an event at once, that of its ToR after mesh.down_after and two
 * evaluations.
 */
#define ALERT_HOLD_NS (3 * ALERT_S / 2)
/* How long a resolved alert is still sent: an Alertmanager may be down. */
#define ALERT_ENDED_NS (300 * ALERT_S)

struct alert {
	json_t *labels; /* its identity: the same as long as it fires */
	json_t *event;	/* the newest that begins or continues it */
	char condition[64];
	char *fault;
	uint64_t started_ns;
	uint64_t ended_ns;  /* 0: it fires */
	uint64_t lapse_ns;  /* it expires then, unless it is reported again; 0: never */
	uint64_t hold_ns;   /* it is not sent before, nor while it is explained; 0: it is. Not
			       cleared when it ends first */
	const char *reason; /* why it ended, a literal; NULL: by an event */
	bool begin_hooked, end_hooked;
};

struct alerts {
	struct alert list[ALERTS_MAX];
	size_t count;
	int severity;		/* of events: the least */
	char host[256];		/* of the newest event */
	uint64_t start, number; /* id of the newest event that was taken */
	bool any;		/* one was */
	json_t *ends;		/* {kind: the condition that it ends}, as seen */
	uint64_t refused;	/* alerts without room */
	uint64_t changes;	/* rises with each one that has to be sent */
};

/* *@alerts is all zero at first. */
void alerts_free(struct alerts *alerts);
/*
 * An event. False: it is none. They come in their order, and after each connection those of the
 * daemon's memory come again. @live: not one of these; it is of the daemon that runs, even when its
 * system clock was set back before it started.
 */
bool alerts_take(struct alerts *alerts, const json_t *event, bool live, uint64_t now_ns);
/*
 * A fault of our own, as a condition of this host, that begins with @remedy, or ends (NULL).
 * @part: of several such things, an Alertmanager's address; "": there is one.
 */
void alerts_own(struct alerts *alerts, const char *condition, const char *part, const char *remedy,
		uint64_t now_ns);
/*
 * What was held for ALERT_HOLD_NS, and is not explained, is sent from now on. Returns in how many
 * ns the next one is due; UINT64_MAX: none.
 */
uint64_t alerts_release(struct alerts *alerts, uint64_t now_ns);
/* Ends alerts that have expired, and removes those resolved ALERT_ENDED_NS ago. */
void alerts_tick(struct alerts *alerts, uint64_t now_ns);
/* As Alertmanager's API v2 and the hook get it (new reference). @until_ns: endsAt while it fires.
 */
json_t *alert_json(const struct alert *alert, uint64_t until_ns);
/* All but the held; one whose fault another one explains as resolved while that one fires. */
json_t *alerts_json(const struct alerts *alerts, uint64_t until_ns);
/*
 * What alerts that fire explain, the `members` in `seen` of their events: {fault: index} (new
 * reference), and which of them explains @alert; NULL: none.
 */
json_t *alerts_explained(const struct alerts *alerts);
const struct alert *alert_explained_by(const struct alerts *alerts, const json_t *explained,
				       const struct alert *alert);
/* To be kept over a restart (new reference). */
json_t *alerts_save(const struct alerts *alerts);
/* False: nothing of @saved is used, as it is no such object. */
bool alerts_load(struct alerts *alerts, const json_t *saved);

/* --- push.c: to Alertmanagers --- */

/* Sent again after this time, and while it fires with an end of four times that. */
#define PUSH_AGAIN_NS (30 * ALERT_S)
#define PUSH_LAPSE_NS (4 * PUSH_AGAIN_NS)
/* Delay of a push after a change, so that changes are sent together. */
#define PUSH_COLLECT_NS (ALERT_S / 5)
#define PUSH_BACKOFF_NS ALERT_S
#define PUSH_BACKOFF_MOST_NS (60 * ALERT_S)
#define PUSH_TIMEOUT_MS 10000
/* An Alertmanager that has failed for this time is reported as an alert. */
#define PUSH_REPORT_NS (60 * ALERT_S)
#define PUSH_REPLY_BYTES 4096

struct push;
/* 0 or -errno. */
int push_new(struct push **out);
void push_free(struct push *push);
/* @list: `alertmanagers` of the configuration. Nothing is done when it is the same as before. */
void push_configure(struct push *push, struct alerts *alerts, const json_t *list);
/* Sends what is due. Returns when it has to be called again, CLOCK_MONOTONIC. */
uint64_t push_run(struct push *push, struct alerts *alerts, uint64_t now_local_ns);
/* Waits for replies, one of @fds, or @timeout_ms. */
struct curl_waitfd;
void push_wait(struct push *push, struct curl_waitfd *fds, unsigned int count, int timeout_ms);
/* "2 of 3 reached". */
void push_describe(const struct push *push, char *out, size_t bytes);

/* --- hook.c: a program for each alert that begins or ends --- */

struct hook {
	char *path; /* NULL: none */
	uint64_t timeout_ns;
	unsigned int per_minute;
	/* The running one. */
	pid_t pid; /* 0: none */
	int fd;	   /* of the process; readable when it has ended */
	uint64_t started_local_ns;
	bool killed;
	/* Token bucket: the time that the tokens spent take to return. */
	uint64_t spent_ns, at_local_ns;
	bool failed; /* the last one; reported */
};

/* @config: the section `alerts` of the configuration. */
void hook_configure(struct hook *hook, struct alerts *alerts, const json_t *config);
/* Ends what is to end, runs what is next. Returns when it has to be called again at the latest. */
uint64_t hook_run(struct hook *hook, struct alerts *alerts, uint64_t now_local_ns);
void hook_free(struct hook *hook);

/* --- follow.c: events of the daemon, by the command line --- */

struct follow;
int follow_new(struct follow **out, const char *program, const char *socket);
void follow_free(struct follow *follow);
/* To be polled for reading; -1: none now. */
int follow_fd(const struct follow *follow);
/*
 * Starts the command line when it does not run, and takes what it printed: @take for each event.
 * False: no daemon has replied for ALERT_ABSENT_NS. *@due_ns: when it has to be called again.
 */
#define ALERT_ABSENT_NS (60 * ALERT_S)
typedef void follow_take_fn(void *context, const json_t *event, bool live);
bool follow_run(struct follow *follow, uint64_t now_local_ns, uint64_t *due_local_ns,
		follow_take_fn *take, void *context);
/* The configuration of the daemon (new reference); NULL: it does not reply. Waits 10 s at most. */
json_t *follow_config(const struct follow *follow);

#endif
