/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A verb as data: its arguments, and how its reply is shown. A capability writes its verbs into
 * <capability>/verbs.c; the command line, the daemon's check of arguments, `help`, the completion
 * of shells and the manual page read them.
 */
#ifndef ESC_BASE_VERB_H
#define ESC_BASE_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

/* Where the daemon and the command line meet when nothing else is configured. */
#define PLACES_RUN "/run/escapement"
#define PLACES_SOCKET PLACES_RUN "/escapement.sock"
/* While it exists, nothing is attached; its text is the reason. */
#define PLACES_KILL_FILE "/var/lib/escapement/off"
/* Its members may connect to the socket, for verbs that read. */
#define PLACES_GROUP "escapement"

/* --- arguments --- */

enum verb_type {
	VERB_TEXT,	/* a string */
	VERB_CHOICE,	/* one of .choices: a string */
	VERB_COUNT,	/* decimal, or hexadecimal with 0x: an integer */
	VERB_DURATION,	/* 500us: an integer, ns */
	VERB_SINCE,	/* 10m (ago), 12:00, a date, @SECONDS: an integer, ns of CLOCK_REALTIME */
	VERB_ADDRESS,	/* IPv4 or IPv6: a string */
	VERB_INTERFACE, /* a string */
	VERB_QP,	/* src>dst/qpn: the strings `src` and `dst`, the integer `qpn` */
	VERB_FLAG,	/* no value: true */
};

struct verb_arg {
	const char *name;    /* "KEY": by its position; "--dst": an option */
	const char *value;   /* of an option, in the synopsis: "ADDRESS" */
	const char *key;     /* in the JSON of the request; of VERB_QP none */
	const char *choices; /* "on|off"; VERB_TEXT may suggest some */
	enum verb_type type;
	uint64_t least, most; /* of a number or a duration; .most 0: no limit */
	bool required;
	bool repeated; /* an array of all that were given */
	bool local;    /* for the command line alone: not sent to the daemon */
	bool streams;  /* the reply goes on: not over HTTP */
	char letter;   /* -n; 0: none */
	const char *help;
};

/* "--dst", and not one that is given by its position. */
static inline bool verb_arg_is_option(const struct verb_arg *arg)
{
	return arg->name[0] == '-';
}

/* The arguments of @verb, which may be NULL. */
#define verb_for_each_arg(arg, verb)                                                               \
	for (const struct verb_arg *arg = (verb) ? (verb)->args : NULL; arg && arg->name; arg++)

/* --- replies --- */

/*
 * How a value is shown; {key:time} names the format in a text. Scales follow from the unit at
 * the end of the key: _s, _ms, _us, else ns; bytes_per_second, else bit/s.
 */
#define COLUMN_FORMATS(X)                                                                          \
	X(TEXT, "text")	  /* true is yes; a list, or an object, has commas */                      \
	X(COUNT, "count") /* three digits: 12.3k */                                                \
	X(BYTES, "bytes") /* three digits: 1.50KiB */                                              \
	X(RATE, "rate")	  /* three digits: 9.41Gbit/s */                                           \
	X(GBPS, "gbps")	  /* the number of Gbit/s alone */                                         \
	X(TIME, "time")	  /* a delay: 7.62us; ms from 1000 us up */                                \
	X(AGE, "age")	  /* how long: 250ms, 1.5s, 1min 5s */                                     \
	X(SHARE, "share") /* percent of 1, or of the key behind `/`: lost/replied+lost */          \
	X(PPM, "ppm")	  /* of parts in 10^9, with a sign: +12.345 */                             \
	X(REAL, "real")	  /* three digits */                                                       \
	X(HEX, "hex")

enum column_format {
#define X(id, name) FORMAT_##id,
	COLUMN_FORMATS(X)
#undef X
		FORMATS
};

/*
 * A key is a path into an object, "owd_ns.p50"; a member of those in an array for which another is
 * true, "ways[usable].way"; the sum of some, "up+down"; or the first of some
 * that is there, "steered_sport|sport". One that begins with '@' is of the arguments.
 *
 * A template is text with {key} or {key:format} for values, {key:?up|down} for what is true or
 * not, and <|...|> around what is left out when a value in it is missing. Without a value outside
 * of these the whole is empty.
 *
 * A condition is tests separated by spaces that all have to hold: "key" is there and neither
 * false, 0 nor empty; "key=text"; "key^=text", it begins with that; "key>=key", as numbers;
 * '!' before any of them is its opposite.
 */
struct column {
	const char *header;
	const char *key; /* or a template, when it has a '{' */
	enum column_format format;
	unsigned int flags;
	int width; /* at least; for a table that is drawn again and again */
	const char *help;
};

#define COLUMN_LEFT 1u	   /* flushed left */
#define COLUMN_OPTIONAL 2u /* there when any row has it */
#define COLUMN_SHRINK 4u   /* loses its middle when lines would not fit */
#define COLUMN_LIVE 8u	   /* in a live table as well */
#define COLUMN_LIVE_ONLY 16u

/* A part of the text of a reply. A list of them ends with one of zeros. */
struct verb_section {
	const char *when;	      /* condition on the object; NULL: always */
	const char *rows;	      /* path of an array; NULL: the object itself */
	const char *only;	      /* condition on a row */
	unsigned int most;	      /* rows; 0: all */
	const char *header;	      /* the line `header : text`, for each row */
	const char *text;	      /* template; alone, a line for each row, above columns once */
	const struct column *columns; /* a table of the rows; ends with one of zeros */
	bool live;		      /* of the columns those for a live table */
	const struct verb_section *sections; /* of each row */
	const char *empty;		     /* template instead, without a row */
	/* Of `health`: what each line that is written is a reason of. */
	const char *remedy; /* what to do; NULL: the text says it all */
	const char *began;  /* the kind of event that begins it, as `findings` has it; NULL: none */
	bool critical;	    /* traffic suffers; else only what is known of it, or done for it */
};

/* --- verbs --- */

enum verb_place {
	VERB_DAEMON, /* the daemon replies */
	VERB_EITHER, /* the command line itself when there is no daemon */
	VERB_HERE,   /* the command line itself, always */
};

struct verb {
	const char *name;	     /* "steer set": as on the command line */
	const char *request;	     /* the verb that is sent; NULL: .name */
	const char *summary;	     /* one line, without a full stop */
	const char *help;	     /* sentences for `help VERB` and the manual; may be NULL */
	const struct verb_arg *args; /* ends with one of zeros; NULL: none */
	const struct verb_section *output; /* NULL: lines `key : value` */
	enum verb_place place;
	bool reads; /* it changes nothing: members of PLACES_GROUP may use it, not root alone */
	const char *fails; /* condition on the reply: the exit status is 1; NULL: never */
	/* Verbs without arguments whose replies @run gets as `replies`, if a daemon replies; NULL.
	 */
	const char *const *given;
	/*
	 * What the command line itself does: the result (new reference), or NULL with *@exit set
	 * and *@error, a malloc'd sentence.
	 */
	json_t *(*run)(const json_t *args, int *exit, char **error);
};

/* The verbs of a capability, and how its part of the reply to `status` is shown. NULL: none. */
struct verb_set {
	const char *name;
	const struct verb *verbs; /* ends with one of zeros */
	const struct verb_section *status;
	const struct verb_section *health; /* each line that is written is a reason */
	/* Probes the kernel features that it uses, see base/json.h; works without a daemon. */
	void (*features)(json_t *list);
};

#endif
