// SPDX-License-Identifier: BSD-2-Clause
#include "dummy.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "net/rtnl.h"

#define DUMMY_ALIAS "escapement-nic-pair:"
#define DUMMY_OUTER_BYTES 48 /* IPv6 and UDP */
/* No host has them: the device's packets get their headers from our program. */
#define DUMMY_HOP4 "169.254.77.1"
#define DUMMY_HOP6 "fe80::77:1"
#define DUMMY_HOP_MAC "02:e5:ca:00:00:01"

/* Runs @program, whose words are ours, with @input at its standard input. */
static bool run(const char *program, const char *input, char **error)
{
	FILE *pipe;
	int status = -1;

	signal(SIGPIPE, SIG_IGN); /* one that ends early has its own exit status */
	pipe = popen(program, "w");

	if (pipe) {
		fputs(input, pipe);
		status = pclose(pipe);
	}
	if (status)
		explain(error, 0, "`%s` failed", program);
	return !status;
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

/* It becomes a word of a command. */
static bool is_device_name(const char *name)
{
	size_t bytes = strlen(name);

	return bytes && bytes < IF_NAMESIZE && name[0] != '-' && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
		       bytes;
}

/* Both names exist as they should; the MTU that is left for the device. */
static bool check(const char *name, const char *nic, unsigned int *mtu, char **error)
{
	struct link_facts link;

	if (!is_device_name(name)) {
		explain(error, 0,
			"`%.32s` is no name of a device: 1 to %d letters, digits, _, . or -", name,
			IF_NAMESIZE - 1);
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

/* The commands of `ip` that make the device. */
static void write_script(FILE *out, const json_t *args, unsigned int mtu)
{
	const json_t *routes = json_object_get(args, "routes");
	const char *name = text_of(args, "name");
	json_t *one;
	size_t i;
	bool four;

	fprintf(out, "link add name %s type dummy\n", name);
	/* The alias marks it as ours, for `remove`. */
	fprintf(out, "link set dev %s mtu %u arp on alias " DUMMY_ALIAS "%s\n", name, mtu,
		text_of(args, "nic"));
	fprintf(out, "link set dev %s up\n", name);
	json_array_foreach (json_object_get(args, "addresses"), i, one) {
		is_prefix(json_string_value(one), &four);
		fprintf(out, "address add %s dev %s%s\n", json_string_value(one), name,
			four ? "" : " nodad");
	}
	if (has_version(routes, true))
		fprintf(out,
			"neighbour replace " DUMMY_HOP4 " lladdr " DUMMY_HOP_MAC
			" dev %s nud permanent\n",
			name);
	if (has_version(routes, false))
		fprintf(out,
			"neighbour replace " DUMMY_HOP6 " lladdr " DUMMY_HOP_MAC
			" dev %s nud permanent\n",
			name);
	json_array_foreach (routes, i, one) {
		is_prefix(json_string_value(one), &four);
		fprintf(out, "route replace %s via %s dev %s onlink\n", json_string_value(one),
			four ? DUMMY_HOP4 : DUMMY_HOP6, name);
	}
}

/* "rdma link add rxe_NAME type rxe netdev NAME", or the end of it. */
static bool run_rdma(const char *name, bool add, char **error)
{
	char line[128];

	snprintf(line, sizeof(line),
		 add ? "rdma link add rxe_%s type rxe netdev %s" : "rdma link delete rxe_%s", name,
		 name);
	return run(line, "", error);
}

json_t *nic_dummy_add(const json_t *args, int *exit, char **error)
{
	const char *name = text_of(args, "name"), *nic = text_of(args, "nic");
	bool rxe = json_is_true(json_object_get(args, "rxe")), done;
	char *script = NULL, remove[64];
	json_t *result;
	unsigned int mtu;
	size_t bytes;
	FILE *out;

	*exit = 2;
	if (!are_prefixes(json_object_get(args, "addresses"), error) ||
	    !are_prefixes(json_object_get(args, "routes"), error))
		return NULL;
	*exit = 1;
	if (!check(name, nic, &mtu, error))
		return NULL;
	out = open_memstream(&script, &bytes);
	if (!out)
		return NULL;
	write_script(out, args, mtu);
	fclose(out);
	done = run("ip -batch -", script, error) && (!rxe || run_rdma(name, true, error));
	result = done ? json_pack("{s:s, s:s, s:s}", "name", name, "nic", nic, "ip", script) : NULL;
	free(script);
	snprintf(remove, sizeof(remove), "link delete dev %s\n", name);
	if (!done && if_nametoindex(name))
		run("ip -batch -", remove, NULL);
	return result;
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
	char path[96], script[64];

	*exit = 1;
	if (!is_device_name(name) || !is_ours(name)) {
		explain(error, 0, "%.32s is not a device that `failover dummy add` created", name);
		return NULL;
	}
	snprintf(path, sizeof(path), "/sys/class/infiniband/rxe_%s", name);
	snprintf(script, sizeof(script), "link delete dev %s\n", name);
	if ((!access(path, F_OK) && !run_rdma(name, false, error)) ||
	    !run("ip -batch -", script, error))
		return NULL;
	return json_pack("{s:s}", "removed", name);
}
