// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/json.h"
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

int cli_client_next(struct cli_client *client, json_t **result)
{
	const json_t *exit_code;
	char *line = NULL;
	size_t room = 0;
	json_t *reply;
	int code = CLI_GOOD;

	errno = 0;
	if (getline(&line, &room, client->in) <= 0) {
		const char *why = errno == EAGAIN ? "does not reply" : "closed the connection";

		free(line);
		return lost(client, why);
	}
	reply = json_loads(line, 0, NULL);
	free(line);
	exit_code = json_object_get(reply, "exit");
	if (!reply)
		code = lost(client, "replied what is not JSON");
	else if (json_is_true(json_object_get(reply, "ok")))
		*result = json_incref(json_object_get(reply, "result"));
	else
		code = cli_fail(exit_code ? (int)json_integer_value(exit_code) : CLI_FAILED, "%s",
				json_text(reply, "error"));
	json_decref(reply);
	return code;
}

int cli_client_query(struct cli_client *client, const char *verb, json_t *args, json_t **result)
{
	json_t *request = json_pack("{s:s, s:o*}", "verb", verb, "args", args);
	char *text = json_dumps(request, JSON_COMPACT);
	size_t bytes;
	ssize_t sent;

	json_decref(request);
	if (!text)
		return cli_fail(CLI_USAGE, "an argument is not UTF-8 text");
	bytes = strlen(text);
	text[bytes] = '\n'; /* in place of the NUL */
	errno = 0;
	sent = send(client->fd, text, bytes + 1, MSG_NOSIGNAL);
	free(text);
	/* A connection that was refused: the daemon's reason is still there to be read. */
	if (sent != (ssize_t)bytes + 1 && errno != EPIPE && errno != ECONNRESET)
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
