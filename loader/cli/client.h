/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line's end of the socket. */
#ifndef ESC_LOADER_CLI_CLIENT_H
#define ESC_LOADER_CLI_CLIENT_H

#include <stdbool.h>
#include <stdio.h>
#include <jansson.h>

struct cli_client {
	const char *path;
	FILE *in;
	int fd;
};

/* 0, or -errno when nobody answers on @path; says nothing. */
int cli_client_open(struct cli_client *client, const char *path);
void cli_client_close(struct cli_client *client);
/* The sentence for a failed open. */
void cli_client_explain(const char *path, int err);

/*
 * Sends a request; steals @args, which may be NULL. Returns an exit code; when
 * it is CLI_GOOD, *@result is a new reference, else the reason was printed.
 */
int cli_client_ask(struct cli_client *client, const char *verb, json_t *args, json_t **result);
/* The next answer of a stream, waiting as long as it takes. */
int cli_client_next(struct cli_client *client, json_t **result);

/* Open, ask, close. */
int cli_ask(const char *path, const char *verb, json_t *args, json_t **result);

#endif
