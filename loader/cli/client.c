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

#define ANSWER_SECONDS 60 /* the longest answer, of a full table, takes a few */

int cli_client_open(struct cli_client *client, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = ANSWER_SECONDS};
	int err;

	*client = (struct cli_client){.path = path, .fd = -1};
	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
	    (int)sizeof(address.sun_path))
		return -ENAMETOOLONG;
	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (client->fd < 0)
		return -errno;
	setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
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

void cli_client_explain(const char *path, int err)
{
	if (err == -EACCES || err == -EPERM)
		fprintf(stderr, "escapement: %s: permission denied: run it as root\n", path);
	else if (err == -ENOENT || err == -ECONNREFUSED || err == -ENOTDIR)
		fprintf(stderr,
			"escapement: no daemon answers at %s: start escapementd "
			"(systemctl start escapementd) or give --socket\n",
			path);
	else
		fprintf(stderr, "escapement: no daemon answers at %s: %s; give another --socket\n",
			path, strerror(-err));
}

static int lost(const struct cli_client *client, const char *why)
{
	fprintf(stderr,
		"escapement: the daemon at %s %s: see its log (journalctl -u "
		"escapementd)\n",
		client->path, why);
	return CLI_NO_DAEMON;
}

static int refused(const json_t *answer)
{
	const json_t *exit_code = json_object_get(answer, "exit");

	fprintf(stderr, "escapement: %s\n", cli_text(answer, "error"));
	return json_is_integer(exit_code) ? (int)json_integer_value(exit_code) : CLI_FAILED;
}

int cli_client_next(struct cli_client *client, json_t **result)
{
	size_t room = 0;
	char *line = NULL;
	ssize_t bytes;
	json_t *answer;
	int code = CLI_GOOD;

	errno = 0;
	bytes = getline(&line, &room, client->in);
	if (bytes <= 0) {
		int err = errno;

		free(line);
		return lost(client, err == EAGAIN ? "does not answer" : "closed the connection");
	}
	answer = json_loadb(line, bytes, 0, NULL);
	free(line);
	if (!answer)
		code = lost(client, "answered what is no JSON");
	else if (!json_is_true(json_object_get(answer, "ok")))
		code = refused(answer);
	else
		*result = json_incref(json_object_get(answer, "result"));
	json_decref(answer);
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

int cli_client_ask(struct cli_client *client, const char *verb, json_t *args, json_t **result)
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
	if (err == -EINVAL) {
		fprintf(stderr, "escapement: an argument is not UTF-8 text\n");
		return CLI_USAGE;
	}
	/* Turned away at the door: the daemon's reason is still there to be read. */
	if (err && err != -EPIPE && err != -ECONNRESET)
		return lost(client, "takes no request");
	return cli_client_next(client, result);
}

int cli_ask(const char *path, const char *verb, json_t *args, json_t **result)
{
	struct cli_client client;
	int err = cli_client_open(&client, path), code;

	if (err) {
		json_decref(args);
		cli_client_explain(path, err);
		return CLI_NO_DAEMON;
	}
	code = cli_client_ask(&client, verb, args, result);
	cli_client_close(&client);
	return code;
}
