// SPDX-License-Identifier: BSD-2-Clause
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "cli.h"

#define REPLY_SECONDS 60 /* the longest reply, of a full table, takes a few */

int cli_client_open(struct cli_client *client, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval timeout = {.tv_sec = REPLY_SECONDS};
	int err;

	*client = (struct cli_client){.path = path, .fd = -1};
	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
	    (int)sizeof(address.sun_path))
		return -ENAMETOOLONG;
	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (client->fd < 0)
		return -errno;
	setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (!connect(client->fd, (struct sockaddr *)&address, sizeof(address)))
		client->in = fdopen(client->fd, "r");
	if (client->in)
		return 0;
	err = -errno;
	close(client->fd);
	return err;
}

void cli_client_close(struct cli_client *client)
{
	if (client->in)
		fclose(client->in);
	client->in = NULL;
}

bool cli_client_absent(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED || err == -ENOTDIR;
}

int cli_client_explain(const char *path, int err)
{
	if (err == -EACCES || err == -EPERM)
		return cli_fail(CLI_DENIED, "%s: permission denied: run it as root", path);
	if (cli_client_absent(err))
		return cli_fail(CLI_NO_DAEMON,
				"no daemon replies at %s: start escapementd (systemctl start "
				"escapementd), or give --socket",
				path);
	return cli_fail(CLI_NO_DAEMON, "no daemon replies at %s: %s; give another --socket", path,
			strerror(-err));
}

static int lost(const struct cli_client *client, const char *why)
{
	return cli_fail(CLI_NO_DAEMON,
			"the daemon at %s %s: see its log (journalctl -u escapementd)",
			client->path, why);
}

static int refused(const json_t *reply)
{
	const json_t *exit_code = json_object_get(reply, "exit");

	return cli_fail(json_is_integer(exit_code) ? (int)json_integer_value(exit_code)
						   : CLI_FAILED,
			"%s", cli_text(reply, "error"));
}

int cli_client_next(struct cli_client *client, json_t **result)
{
	size_t room = 0;
	char *line = NULL;
	ssize_t bytes;
	json_t *reply;
	int code = CLI_GOOD;

	errno = 0;
	bytes = getline(&line, &room, client->in);
	if (bytes <= 0) {
		int err = errno;

		free(line);
		return lost(client, err == EAGAIN ? "does not reply" : "closed the connection");
	}
	reply = json_loadb(line, bytes, 0, NULL);
	free(line);
	if (!reply)
		code = lost(client, "replied what is not JSON");
	else if (!json_is_true(json_object_get(reply, "ok")))
		code = refused(reply);
	else
		*result = json_incref(json_object_get(reply, "result"));
	json_decref(reply);
	return code;
}

static int send_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t sent = send(fd, text, bytes, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR)
			return -errno;
		if (sent > 0) {
			text += sent;
			bytes -= sent;
		}
	}
	return 0;
}

int cli_client_query(struct cli_client *client, const char *verb, json_t *args, json_t **result)
{
	json_t *request = json_pack("{s:s, s:o*}", "verb", verb, "args", args);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	int err = -EINVAL;

	json_decref(request);
	if (text) {
		/* The newline takes the place of the NUL. */
		size_t bytes = strlen(text);

		text[bytes] = '\n';
		err = send_all(client->fd, text, bytes + 1);
		free(text);
	}
	if (err == -EINVAL)
		return cli_fail(CLI_USAGE, "an argument is not UTF-8 text");
	/* A connection that was refused: the daemon's reason is still there to be read. */
	if (err && err != -EPIPE && err != -ECONNRESET)
		return lost(client, "accepts no request");
	return cli_client_next(client, result);
}

int cli_query(const struct cli *cli, json_t **result)
{
	struct cli_client client;
	char verb[64];
	int err = cli_client_open(&client, cli->socket), code;

	if (err)
		return cli_client_explain(cli->socket, err);
	code = cli_client_query(&client, cli_request_verb(cli->verb, verb), cli_request_args(cli),
				result);
	cli_client_close(&client);
	return code;
}
