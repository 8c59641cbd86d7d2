// SPDX-License-Identifier: BSD-2-Clause
#include "dummy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/explain.h"
#include "net/rtnl.h"

#define DUMMY_ALIAS "escapement-nic-pair:"
#define DUMMY_OUTER_BYTES 48 /* IPv6 and UDP */
/* No host has them: the device's packets get their headers from our program. */
#define DUMMY_HOP4 "169.254.77.1"
#define DUMMY_HOP6 "fe80::77:1"
#define DUMMY_HOP_MAC "02:e5:ca:00:00:01"
#define WORDS_MOST 24

/* Commands, until one fails. */
struct script {
	json_t *commands;
	char **error;
	bool failed;
};

/* Words separated by spaces, run without a shell. The exit status, or -errno. */
static int run_words(const char *line)
{
	char *copy = strdup(line), *words[WORDS_MOST], *save = NULL;
	size_t count = 0;
	int status;
	pid_t pid;

	if (!copy)
		return -ENOMEM;
	for (char *word = strtok_r(copy, " ", &save); word && count < WORDS_MOST - 1;
	     word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	words[count] = NULL;
	pid = fork();
	if (!pid) {
		dup2(STDERR_FILENO, STDOUT_FILENO); /* ours is for the result */
		execvp(words[0], words);
		_exit(127);
	}
	status = pid < 0 || waitpid(pid, &status, 0) < 0 ? -errno
		 : WIFEXITED(status)			  ? WEXITSTATUS(status)
							  : 1;
	free(copy);
	return status;
}

/* Runs a command when those before succeeded. */
__attribute__((format(printf, 2, 3))) static void run(struct script *script, const char *format,
						      ...)
{
	va_list arguments;
	char *line = NULL;
	int status;

	if (script->failed)
		return;
	va_start(arguments, format);
	if (vasprintf(&line, format, arguments) < 0)
		line = NULL;
	va_end(arguments);
	status = line ? run_words(line) : -ENOMEM;
	if (status == 127)
		explain(script->error, 0, "`%s`: the command was not found", line);
	else if (status)
		explain(script->error, 0, "`%s` failed", line ? line : "");
	script->failed = status != 0;
	if (line)
		json_array_append_new(script->commands, json_pack("{s:s}", "command", line));
	free(line);
}

/* "10.1.200.1/32" and networks. */
static bool is_prefix(const char *text, bool *four)
{
	unsigned char bytes[16];
	char copy[INET6_ADDRSTRLEN + 8];
	char *slash;

	snprintf(copy, sizeof(copy), "%s", text);
	slash = strchr(copy, '/');
	if (slash)
		*slash = '\0';
	*four = inet_pton(AF_INET, copy, bytes) == 1;
	if (!*four && inet_pton(AF_INET6, copy, bytes) != 1)
		return false;
	return !slash || (slash[1] && strspn(slash + 1, "0123456789") == strlen(slash + 1));
}

static const char *text_of(const json_t *args, const char *key)
{
	return json_string_value(json_object_get(args, key));
}

static bool are_prefixes(const json_t *list, char **error)
{
	size_t i;
	json_t *one;
	bool four;

	json_array_foreach (list, i, one)
		if (!is_prefix(json_string_value(one), &four)) {
			explain(error, 0, "`%.64s` is no address", json_string_value(one));
			return false;
		}
	return true;
}

static bool has_version(const json_t *list, bool wanted)
{
	size_t i;
	json_t *one;
	bool four;

	json_array_foreach (list, i, one)
		if (is_prefix(json_string_value(one), &four) && four == wanted)
			return true;
	return false;
}

/* Both names exist as they should; the MTU that is left for the device. */
static bool check(const char *name, const char *nic, unsigned int *mtu, char **error)
{
	struct link_facts link;

	if (strlen(name) >= IF_NAMESIZE) {
		explain(error, 0, "the name `%.32s` is longer than %d bytes", name, IF_NAMESIZE - 1);
		return false;
	}
	if (rtnl_link(nic, &link)) {
		explain(error, 0, "there is no interface %s; `ip -br link` lists them", nic);
		return false;
	}
	*mtu = link.mtu - DUMMY_OUTER_BYTES;
	if (rtnl_link(name, &link))
		return true;
	explain(error, 0,
		"%s exists already; `escapement failover dummy remove %s` first, or choose another "
		"name",
		name, name);
	return false;
}

static void add_addresses(struct script *script, const char *name, const json_t *args)
{
	const json_t *routes = json_object_get(args, "routes");
	json_t *one;
	size_t i;
	bool four;

	json_array_foreach (json_object_get(args, "addresses"), i, one) {
		is_prefix(json_string_value(one), &four);
		run(script, "ip address add %s dev %s%s", json_string_value(one), name,
		    four ? "" : " nodad");
	}
	if (has_version(routes, true))
		run(script,
		    "ip neighbour replace " DUMMY_HOP4 " lladdr " DUMMY_HOP_MAC
		    " dev %s nud permanent",
		    name);
	if (has_version(routes, false))
		run(script,
		    "ip neighbour replace " DUMMY_HOP6 " lladdr " DUMMY_HOP_MAC
		    " dev %s nud permanent",
		    name);
	json_array_foreach (routes, i, one) {
		is_prefix(json_string_value(one), &four);
		run(script, "ip route replace %s via %s dev %s onlink", json_string_value(one),
		    four ? DUMMY_HOP4 : DUMMY_HOP6, name);
	}
}

json_t *nic_dummy_add(const json_t *args, int *exit, char **error)
{
	const char *name = text_of(args, "name"), *nic = text_of(args, "nic");
	struct script script = {.error = error};
	unsigned int mtu;

	*exit = 2;
	if (!are_prefixes(json_object_get(args, "addresses"), error) ||
	    !are_prefixes(json_object_get(args, "routes"), error))
		return NULL;
	*exit = 1;
	if (!check(name, nic, &mtu, error))
		return NULL;
	script.commands = json_array();
	run(&script, "ip link add name %s type dummy", name);
	if (script.failed) {
		json_decref(script.commands);
		return NULL;
	}
	/* The alias marks it as ours, for `remove`. */
	run(&script, "ip link set dev %s mtu %u arp on alias " DUMMY_ALIAS "%s", name, mtu, nic);
	run(&script, "ip link set dev %s up", name);
	add_addresses(&script, name, args);
	if (json_is_true(json_object_get(args, "rxe")))
		run(&script, "rdma link add rxe_%s type rxe netdev %s", name, name);
	if (!script.failed)
		return json_pack("{s:s, s:s, s:o}", "name", name, "nic", nic, "commands",
				 script.commands);
	script = (struct script){.commands = script.commands};
	run(&script, "ip link delete dev %s", name);
	json_decref(script.commands);
	return NULL;
}

/* --- remove --- */

static bool is_ours(const char *name)
{
	char path[64 + IF_NAMESIZE], alias[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/net/%.15s/ifalias", name);
	file = fopen(path, "r");
	if (file && !fgets(alias, sizeof(alias), file))
		alias[0] = '\0';
	if (file)
		fclose(file);
	return !strncmp(alias, DUMMY_ALIAS, strlen(DUMMY_ALIAS));
}

json_t *nic_dummy_remove(const json_t *args, int *exit, char **error)
{
	const char *name = text_of(args, "name");
	struct script script = {.error = error};
	char path[96];

	*exit = 1;
	if (strlen(name) >= IF_NAMESIZE || !is_ours(name)) {
		explain(error, 0, "%.32s is not a device that `failover dummy add` created", name);
		return NULL;
	}
	script.commands = json_array();
	snprintf(path, sizeof(path), "/sys/class/infiniband/rxe_%s", name);
	if (!access(path, F_OK))
		run(&script, "rdma link delete rxe_%s", name);
	run(&script, "ip link delete dev %s", name);
	if (!script.failed)
		return json_pack("{s:s, s:o}", "name", name, "commands", script.commands);
	json_decref(script.commands);
	return NULL;
}
