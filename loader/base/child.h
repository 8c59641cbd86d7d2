/* SPDX-License-Identifier: BSD-2-Clause */
/* Other programs, run without a shell; they end with this one. */
#ifndef ESC_BASE_CHILD_H
#define ESC_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_COMPLAINT_BYTES 200
#define CHILD_NOT_FOUND 127 /* exit status: there is no such program */

/*
 * Starts @argv, ended by NULL, with an empty standard input; @out and @err are the read ends of its
 * standard output and error. Its pid, which leads a group, or -errno.
 */
pid_t child_start(const char *const argv[], int *out, int *err);

/* A program and what it prints. Zeros: none was begun. */
struct child {
	pid_t pid;    /* 0: it has ended, or none was begun */
	int out, err; /* of a running one */
	char *text;   /* malloc'd: its standard output, ended by a 0 */
	size_t bytes, room;
	char complaint[CHILD_COMPLAINT_BYTES]; /* the beginning of its standard error, one line */
	int status;			       /* exit status; 128 + the signal */
};

/* 0 or -errno. @child: of zeros, or one that was cleared. */
int child_begin(struct child *child, const char *const argv[]);
/* Reads what they print, for @wait_ms at most or until one prints or ends; reaps those that end. */
void child_poll(struct child *children[], size_t count, int wait_ms);
/* Ends its group if it runs, and frees what it printed. */
void child_clear(struct child *child);
/*
 * Runs @argv to its end. 0: see .status and .text; -ETIME: it was ended after @timeout_ns; -errno.
 * The caller clears @child in any case.
 */
int child_run(struct child *child, const char *const argv[], uint64_t timeout_ns);

#endif
