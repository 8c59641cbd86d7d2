// SPDX-License-Identifier: BSD-2-Clause
/*
 * `escapement nic-pair`: a dummy device that stands on a NIC, for queue pairs that are to survive
 * it. Done by iproute2, line by line as it is shown; undone by what `ip` itself tells of the
 * device.
 */
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/address.h"
#include "cli.h"
#include "nic/internal.h"
#include "net/rtnl.h"

#define PAIR_ALIAS "escapement-nic-pair:"
#define PAIR_OUTER_BYTES 48 /* IPv6 and UDP */
/* Nobody has them: the device's packets get their headers from our program. */
#define PAIR_HOP4 "169.254.77.1"
#define PAIR_HOP6 "fe80::77:1"
#define PAIR_HOP_MAC "02:e5:ca:00:00:01"

__attribute__((format(printf, 1, 2))) static int complain(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "escapement: nic-pair: ");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return CLI_FAILED;
}

/* Words separated by spaces, run as they are: no shell sees them. */
static int run_words(char *line)
{
	char *words[24], *save = NULL;
	size_t count = 0;
	int status;
	pid_t pid;

	for (char *word = strtok_r(line, " ", &save); word && count < 23;
	     word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	words[count] = NULL;
	pid = fork();
	if (!pid) {
		execvp(words[0], words);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Shows a command and runs it. */
__attribute__((format(printf, 1, 2))) static int run(const char *format, ...)
{
	va_list arguments;
	char *line;
	int status;

	va_start(arguments, format);
	if (vasprintf(&line, format, arguments) < 0)
		line = NULL;
	va_end(arguments);
	if (!line)
		return CLI_FAILED;
	printf("%s\n", line);
	fflush(stdout);
	status = run_words(line);
	free(line);
	return status ? CLI_FAILED : CLI_GOOD;
}

/* --- add --- */

struct pair_order {
	const char *name, *nic;
	char **addresses, **networks;
	int address_count, network_count;
	bool rxe;
	uint32_t mtu;
};

/* "10.1.200.1/32" and networks. */
static bool is_prefix(const char *text, bool *four)
{
	struct esc_address address;
	char copy[ADDRESS_TEXT_BYTES + 8];
	char *slash;

	snprintf(copy, sizeof(copy), "%s", text);
	slash = strchr(copy, '/');
	if (slash)
		*slash = '\0';
	if (!address_parse(copy, &address))
		return false;
	*four = nic_address_is_v4(&address);
	return !slash || (slash[1] && strspn(slash + 1, "0123456789") == strlen(slash + 1));
}

static bool has_version(char **list, int count, bool wanted)
{
	bool four;

	for (int i = 0; i < count; i++)
		if (is_prefix(list[i], &four) && four == wanted)
			return true;
	return false;
}

static int read_order(const struct cli *cli, struct pair_order *order)
{
	int at = 3, count = cli->word_count;
	bool four;

	if (count < 6)
		return CLI_USAGE;
	order->name = cli->words[1];
	order->nic = cli->words[2];
	order->rxe = !strcmp(cli->words[count - 1], "rxe");
	count -= order->rxe;
	order->addresses = cli->words + at;
	for (; at < count && strcmp(cli->words[at], "to"); at++)
		order->address_count++;
	order->networks = cli->words + at + 1;
	order->network_count = count - at - 1;
	if (!order->address_count || order->network_count < 1)
		return CLI_USAGE;
	for (at = 3; at < count; at++)
		if (strcmp(cli->words[at], "to") && !is_prefix(cli->words[at], &four)) {
			complain("`%.64s` is no address", cli->words[at]);
			return CLI_USAGE;
		}
	return CLI_GOOD;
}

static int check_order(struct pair_order *order)
{
	struct link_facts link;

	if (strlen(order->name) >= IF_NAMESIZE)
		return complain("the name `%.32s` is longer than %d bytes", order->name,
				IF_NAMESIZE - 1);
	if (rtnl_link(order->nic, &link))
		return complain("there is no interface %s; `ip -br link` lists those that are here",
				order->nic);
	order->mtu = link.mtu - PAIR_OUTER_BYTES;
	if (!rtnl_link(order->name, &link))
		return complain(
			"%s is there already; `escapement nic-pair remove %s` first, or take "
			"another name",
			order->name, order->name);
	return CLI_GOOD;
}

static int add_addresses(const struct pair_order *order)
{
	int code = CLI_GOOD;
	bool four;

	for (int i = 0; !code && i < order->address_count; i++) {
		is_prefix(order->addresses[i], &four);
		code = run("ip address add %s dev %s%s", order->addresses[i], order->name,
			   four ? "" : " nodad");
	}
	if (!code && has_version(order->networks, order->network_count, true))
		code = run("ip neighbour replace " PAIR_HOP4 " lladdr " PAIR_HOP_MAC
			   " dev %s nud permanent",
			   order->name);
	if (!code && has_version(order->networks, order->network_count, false))
		code = run("ip neighbour replace " PAIR_HOP6 " lladdr " PAIR_HOP_MAC
			   " dev %s nud permanent",
			   order->name);
	return code;
}

static int add_routes(const struct pair_order *order)
{
	int code = CLI_GOOD;
	bool four;

	for (int i = 0; !code && i < order->network_count; i++) {
		is_prefix(order->networks[i], &four);
		code = run("ip route replace %s via %s dev %s onlink", order->networks[i],
			   four ? PAIR_HOP4 : PAIR_HOP6, order->name);
	}
	return code;
}

static int add_pair(const struct cli *cli)
{
	struct pair_order order = {};
	int code = read_order(cli, &order);

	if (code == CLI_USAGE)
		fprintf(stderr, "escapement: usage: nic-pair add NAME NIC ADDRESS... to NETWORK... "
				"[rxe]\n");
	if (!code)
		code = check_order(&order);
	if (code)
		return code;
	code = run("ip link add name %s type dummy", order.name);
	if (code)
		return complain("%s was not made; the kernel's module `dummy` is needed",
				order.name);
	/* The alias says whose it is, for `remove`. */
	code = run("ip link set dev %s mtu %u arp on alias " PAIR_ALIAS "%s", order.name, order.mtu,
		   order.nic);
	if (!code)
		code = run("ip link set dev %s up", order.name);
	if (!code)
		code = add_addresses(&order);
	if (!code)
		code = add_routes(&order);
	if (!code && order.rxe)
		code = run("rdma link add rxe_%s type rxe netdev %s", order.name, order.name);
	if (code) {
		run("ip link delete dev %s", order.name);
		return complain("a step failed: %s is taken away again", order.name);
	}
	printf("Now name it in the configuration: `dummy: %s` beside `sibling:` of %s, and reload. "
	       "Until "
	       "then nothing leaves it.\n",
	       order.name, order.nic);
	return CLI_GOOD;
}

/* --- remove --- */

/* What `add` wrote there says that it is ours. */
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
	return !strncmp(alias, PAIR_ALIAS, strlen(PAIR_ALIAS));
}

static int remove_pair(const char *name)
{
	char path[96];
	int code = CLI_GOOD;

	if (strlen(name) >= IF_NAMESIZE || !is_ours(name))
		return complain("%.32s is no device that `nic-pair add` has made", name);
	snprintf(path, sizeof(path), "/sys/class/infiniband/rxe_%s", name);
	if (!access(path, F_OK))
		code = run("rdma link delete rxe_%s", name);
	if (!code)
		code = run("ip link delete dev %s", name);
	return code ? complain("%s is not gone", name) : CLI_GOOD;
}

int cli_nic_pair(const struct cli *cli)
{
	if (cli->word_count && !strcmp(cli->words[0], "add"))
		return add_pair(cli);
	if (cli->word_count == 2 && !strcmp(cli->words[0], "remove"))
		return remove_pair(cli->words[1]);
	fprintf(stderr, "escapement: usage: nic-pair add NAME NIC ADDRESS... to NETWORK... [rxe] | "
			"remove NAME\n");
	return CLI_USAGE;
}
