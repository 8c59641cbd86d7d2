/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line's end of the socket. */
#ifndef ESC_CLI_CLIENT_H
#define ESC_CLI_CLIENT_H

#include <stdbool.h>
#include <stdio.h>
#include <jansson.h>

struct cli;

struct cli_client {
	const char *path;
	FILE *in;
	int fd;
};

/* 0, or -errno when no daemon replies at @path; prints nothing. */
int cli_client_open(struct cli_client *client, const char *path);
void cli_client_close(struct cli_client *client);
/* True when the reason for a failed open is that there is no daemon. */
bool cli_client_absent(int err);
/* Prints the reason for a failed open and returns the exit status. */
int cli_client_explain(const char *path, int err);

/*
 * Sends a request; steals @args, which may be NULL. Returns an exit status; when it is CLI_GOOD,
 * *@result is a new reference, else the reason was printed.
 */
int cli_client_query(struct cli_client *client, const char *verb, json_t *args, json_t **result);
/* The next reply of a stream, however long it takes. */
int cli_client_next(struct cli_client *client, json_t **result);

/* Open, query by the verb and its arguments, close. */
int cli_query(const struct cli *cli, json_t **result);

#endif
