/* SPDX-License-Identifier: BSD-2-Clause */
/* escapement.prom for node_exporter's textfile collector: written aside, renamed. */
#ifndef ESC_LOADER_TEXTFILE_H
#define ESC_LOADER_TEXTFILE_H

struct daemon;
struct textfile;

/*
 * Registers a timer with daemon->event. Without textfile.directory it writes
 * nothing. The configuration is read from @daemon at each turn, so a reload
 * needs no call.
 */
int textfile_new(struct textfile **out, struct daemon *daemon, char **error);
/* Leaves a file that says escapement_up 0 and nothing else. */
void textfile_free(struct textfile *textfile);

/* Writes the file now. 0 or -errno; a failure is logged and recorded once. */
int textfile_write(struct textfile *textfile);

#endif
