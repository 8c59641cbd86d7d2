// SPDX-License-Identifier: BSD-2-Clause
/* `off` and `mode`: the kill switch from the command line, also when no daemon lives. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "cli.h"
#include "client.h"
#include "dataplane/dataplane.h"
#include "api/verbs.h"

static int make_kill_file(const char *path)
{
	char *copy = strdup(path);
	int fd, err = 0;

	if (!copy)
		return -ENOMEM;
	mkdir(dirname(copy), 0755); /* when it fails, open() says why */
	free(copy);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		err = -errno;
	else
		close(fd);
	return err;
}

/* A daemon that starts later has to find the file, so it comes first. */
static int off_without_daemon(const struct cli *cli)
{
	const char *kill_file = cli->places.kill_file, *pin_root = cli->places.pin_root;
	char *why = NULL;
	int err_file = make_kill_file(kill_file), err;

	if (err_file)
		fprintf(stderr,
			"escapement: %s: %s: a daemon that starts later would attach "
			"again\n",
			kill_file, strerror(-err_file));
	err = dataplane_remove(pin_root, &why);
	if (err)
		fprintf(stderr, "escapement: %s\n", why ? why : strerror(-err));
	free(why);
	if (err || err_file)
		return CLI_FAILED;
	if (cli->format == CLI_TEXT) {
		printf("No daemon answers at %s, so the command line did it:\n"
		       "what was attached and recorded under %s is detached and removed, and\n"
		       "%s is there: a daemon that starts now attaches nothing until\n"
		       "`escapement mode observe`.\n",
		       cli->places.socket, pin_root, kill_file);
	} else {
		json_t *result = json_pack("{s:b, s:s, s:s, s:b}", "kill_switch", 1, "kill_file",
					   kill_file, "removed", pin_root, "daemon", 0);

		cli_write_json(cli, result);
		json_decref(result);
	}
	return CLI_GOOD;
}

int cli_off(const struct cli *cli)
{
	struct cli_client client;
	json_t *result;
	int err = cli_client_open(&client, cli->places.socket), code;

	if (err == -ENOENT || err == -ECONNREFUSED || err == -ENOTDIR)
		return off_without_daemon(cli);
	if (err) {
		cli_client_explain(cli->places.socket, err);
		return CLI_NO_DAEMON;
	}
	code = cli_client_ask(&client, "off", NULL, &result);
	cli_client_close(&client);
	if (code)
		return code;
	if (cli->format == CLI_TEXT)
		printf("Off: every program is detached, and stays so over restarts while %s is "
		       "there.\n`escapement mode observe` attaches again.\n",
		       cli_text(result, "kill_file"));
	else
		cli_write_json(cli, result);
	json_decref(result);
	return CLI_GOOD;
}

int cli_mode(const struct cli *cli)
{
	json_t *result, *interfaces = json_array();
	int code;

	if (!cli->word_count) {
		fprintf(stderr,
			"escapement: `mode` wants to know which: `escapement mode observe`, `mode "
			"steer` or `mode pace`\n");
		json_decref(interfaces);
		return CLI_USAGE;
	}
	for (int i = 1; i < cli->word_count; i++)
		json_array_append_new(interfaces, json_string(cli->words[i]));
	code = cli_ask(cli->places.socket, "mode",
		       json_pack("{s:s, s:o}", "mode", cli->words[0], "interfaces", interfaces),
		       &result);
	if (code)
		return code;
	if (cli->format == CLI_TEXT)
		printf("Mode: %s; the kill switch is %s.\n", cli_text(result, "mode"),
		       json_is_true(json_object_get(result, "kill_switch")) ? "on" : "off");
	else
		cli_write_json(cli, result);
	json_decref(result);
	return CLI_GOOD;
}
