// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of failover, and dummy devices, which the command line makes without the daemon. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/readfile.h"
#include "base/verb.h"
#include "net/rtnl.h"

/* --- dummy devices: on top of a NIC, for queue pairs that have to survive it --- */

#define DUMMY_ALIAS "escapement-nic-pair:"
#define DUMMY_OUTER_BYTES 64 /* IPv6, UDP and the token */
/* No host has them: the device's packets get their headers from our program. */
#define DUMMY_HOP4 "169.254.77.1"
#define DUMMY_HOP6 "fe80::77:1"
#define DUMMY_HOP_MAC "02:e5:ca:00:00:01"

/* Runs @program, a checked command line, with @input at its standard input. */
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

/* Bits of the IP versions of @list: 1 IPv4, 2 IPv6; less than 0: one is no address. */
static int versions_of(const json_t *list, char **error)
{
	int versions = 0;
	size_t i;
	json_t *one;
	bool four;

	json_array_foreach (list, i, one) {
		if (!is_prefix(json_string_value(one), &four))
			return explain(error, -EINVAL, "`%.64s` is no address",
				       json_string_value(one));
		versions |= four ? 1 : 2;
	}
	return versions;
}

/* It becomes an argument of a command. */
static bool is_device_name(const char *name)
{
	size_t bytes = strlen(name);

	return bytes && bytes < IF_NAMESIZE && name[0] != '-' && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
		       bytes;
}

/* The commands of `ip` that make the device. */
static void write_script(FILE *out, const json_t *args, unsigned int mtu, int versions)
{
	const json_t *routes = json_object_get(args, "routes");
	const char *name = json_text(args, "name");
	json_t *one;
	size_t i;
	bool four;

	fprintf(out, "link add name %s type dummy\n", name);
	/* The alias marks it as ours, for `remove`. */
	fprintf(out, "link set dev %s mtu %u arp on alias " DUMMY_ALIAS "%s\n", name, mtu,
		json_text(args, "nic"));
	fprintf(out, "link set dev %s up\n", name);
	json_array_foreach (json_object_get(args, "addresses"), i, one) {
		is_prefix(json_string_value(one), &four);
		fprintf(out, "address add %s dev %s%s\n", json_string_value(one), name,
			four ? "" : " nodad");
	}
	for (int i6 = 0; i6 < 2; i6++)
		if (versions >> i6 & 1)
			fprintf(out,
				"neighbour replace %s lladdr " DUMMY_HOP_MAC
				" dev %s nud permanent\n",
				i6 ? DUMMY_HOP6 : DUMMY_HOP4, name);
	json_array_foreach (routes, i, one) {
		is_prefix(json_string_value(one), &four);
		fprintf(out, "route replace %s via %s dev %s onlink\n", json_string_value(one),
			four ? DUMMY_HOP4 : DUMMY_HOP6, name);
	}
}

/* The soft-RoCE device rxe_NAME. */
static bool run_rdma(const char *name, bool add, char **error)
{
	char line[128];

	snprintf(line, sizeof(line),
		 add ? "rdma link add rxe_%s type rxe netdev %s" : "rdma link delete rxe_%s", name,
		 name);
	return run(line, "", error);
}

static json_t *dummy_add(const json_t *args, int *exit, char **error)
{
	const char *name = json_text(args, "name"), *nic = json_text(args, "nic");
	int versions = versions_of(json_object_get(args, "routes"), error);
	bool rxe = json_is_true(json_object_get(args, "rxe")), done;
	char *script = NULL, remove[64];
	struct link_facts link, existing;
	json_t *result;
	size_t bytes;
	FILE *out;

	*exit = 2;
	if (versions_of(json_object_get(args, "addresses"), error) < 0 || versions < 0)
		return NULL;
	*exit = 1;
	if (!is_device_name(name)) {
		explain(error, 0,
			"`%.32s` is no name of a device: 1 to %d letters, digits, _, . or -", name,
			IF_NAMESIZE - 1);
		return NULL;
	}
	if (rtnl_link(nic, &link)) {
		explain(error, 0, "there is no interface %s; `ip -br link` lists them", nic);
		return NULL;
	}
	if (!rtnl_link(name, &existing)) {
		explain(error, 0,
			"%s exists already; `escapement failover dummy remove %s` first, or "
			"choose another name",
			name, name);
		return NULL;
	}
	out = open_memstream(&script, &bytes);
	if (!out)
		return NULL;
	write_script(out, args, link.mtu - DUMMY_OUTER_BYTES, versions);
	fclose(out);
	done = run("ip -batch -", script, error) && (!rxe || run_rdma(name, true, error));
	result = done ? json_pack("{s:s, s:s, s:s}", "name", name, "nic", nic, "ip", script) : NULL;
	free(script);
	snprintf(remove, sizeof(remove), "link delete dev %s\n", name);
	if (!done && if_nametoindex(name))
		run("ip -batch -", remove, NULL);
	return result;
}

/* Created by dummy_add(). */
static bool is_ours(const char *name)
{
	char alias[64];

	readtext(alias, sizeof(alias), "/sys/class/net/%.15s/ifalias", name);
	return !strncmp(alias, DUMMY_ALIAS, strlen(DUMMY_ALIAS));
}

static json_t *dummy_remove(const json_t *args, int *exit, char **error)
{
	const char *name = json_text(args, "name");
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

/* --- tables --- */

/* clang-format off */

static const struct verb_section status[] = {
	{.when = "nic_failover.on",
	 .header = "NIC failover",
	 .text = "{nic_failover.pairs} pairs, {nic_failover.dead} NICs dead; "
		 "{nic_failover.failed_over} of {nic_failover.used} pairs of addresses use another "
		 "NIC (`escapement failover`)"},
	{.when = "nic_failover !nic_failover.on",
	 .header = "NIC failover",
	 .text = "off<|: {nic_failover.note}|>"},
	{},
};

static const struct verb_section health[] = {
	{.when = "nic_failover.dead",
	 .text = "{nic_failover.dead} NICs of a pair are dead",
	 .remedy = "`escapement failover` shows which; see its link and its switch",
	 .began = "nic_down",
	 .critical = true},
	{.when = "nic_failover.note", .text = "NIC failover is off: {nic_failover.note}"},
	{.when = "nic_failover.without_room",
	 .text = "{nic_failover.without_room} addresses of peers do not fit: their queue pairs do "
		 "not fail over",
	 .remedy = "`escapement failover` lists the peers"},
	{},
};

static const struct column pairs[] = {
	{"NIC", "nic.name", FORMAT_TEXT, COLUMN_LEFT, .help = "a NIC"},
	{"STATE", "{nic.state}<|:{nic.reason}|>", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`up`; `down` with the reason; `hold_down`: it recovered and is in hold-down"},
	{"SIBLING", "sibling.name", FORMAT_TEXT, COLUMN_LEFT, .help = "the NIC that replaces it"},
	{"STATE", "{sibling.state}<|:{sibling.reason}|>", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "its state"},
	{"DUMMY", "dummy", FORMAT_TEXT, COLUMN_LEFT, .help = "dummy device of the pair"},
	{},
};

static const struct column used[] = {
	{"SRC", "src", FORMAT_TEXT, COLUMN_LEFT, .help = "source address of queue pairs"},
	{"DST", "dst", FORMAT_TEXT, COLUMN_LEFT, .help = "their destination"},
	{"PEER", "peer", FORMAT_TEXT, COLUMN_LEFT, .help = "its host"},
	{"ROUTE", "route", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`direct`: by their own NICs; `second_to_second`, `second_to_first`, "
		 "`first_to_second`: our NIC and the peer's"},
	{"REASON", "reason", FORMAT_TEXT, COLUMN_LEFT, .help = "reason it is not direct"},
	{"FOR", "since_ms", FORMAT_AGE, .help = "how long"},
	{"USABLE", "routes[usable].route", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "routes on which probes are replied to"},
	{},
};

static const struct verb_section output[] = {
	{.when = "note", .text = "NIC failover is off: {note}"},
	{.when = "!note !pairs",
	 .text = "No NIC has a `sibling` in the configuration, or the kill switch is on: there is "
		 "no failover."},
	{.when = "!note pairs !mode=plain",
	 .text = "NIC failover: {on:?on|off (kill switch)}; packets are encapsulated in UDP "
		 "between the NICs, ports from {port}"},
	{.when = "!note pairs mode=plain",
	 .text = "NIC failover: {on:?on|off (kill switch)}; packets are sent unchanged by the "
		 "other NIC"},
	{.when = "!note pairs !authenticated",
	 .text = "No fleet key: probes and packets in UDP are not authenticated: any host that can "
		 "send to these NICs can divert queue pairs to the other NIC and pass RDMA packets "
		 "by the fabric's filters; set key_file."},
	{.when = "!note pairs",
	 .text = "Packets: {encapsulated} encapsulated, {redirected} redirected, {decapsulated} "
		 "decapsulated, {no_route} without a usable route"},
	{.when = "!note pairs",
	 .text = "Repair ({repair.mode}): the newest packets of {repair.qps} queue pairs are kept; "
		 "{repair.packets} were sent once more, in {repair.repairs} repairs."},
	{.when = "!note", .rows = "pairs", .columns = pairs},
	{.when = "!note", .rows = "used", .columns = used},
	{.text = "{without_room} of {peers} addresses of peers do not fit: their queue pairs do not "
		 "fail over. Those in use have room first."},
	{.text = "{not_probed} more pairs of addresses are not probed."},
	{},
};

static const struct verb_arg add_args[] = {
	{"NAME", .type = VERB_INTERFACE, .key = "name", .required = true,
	 .help = "of the new device"},
	{"NIC", .type = VERB_INTERFACE, .key = "nic", .required = true,
	 .help = "whose packets it gets; its MTU less the outer headers is that of the device"},
	{"ADDRESS", .type = VERB_TEXT, .key = "addresses", .required = true, .repeated = true,
	 .help = "addresses of the device, such as 10.1.200.1/32"},
	{"--route", "NETWORK", .type = VERB_TEXT, .key = "routes", .required = true,
	 .repeated = true, .help = "a network of the peers' dummy devices, such as 10.1.0.0/16"},
	{"--rxe", .type = VERB_FLAG, .key = "rxe", .help = "with the soft-RoCE device rxe_NAME"},
	{},
};

static const struct verb_section add_output[] = {
	{.text = "Created by these commands of ip(8):\n{ip}"},
	{.text = "Set `dummy: {name}` beside the `sibling` of {nic} in the configuration, and "
		 "reload: until then no packet leaves it."},
	{},
};

static const struct verb_arg remove_args[] = {
	{"NAME", .type = VERB_INTERFACE, .key = "name", .required = true, .help = "the device"},
	{},
};

static const struct verb_section remove_output[] = {{.text = "{removed} is removed."}, {}};

static const struct verb verbs[] = {
	{.name = "failover",
	 .reads = true,
	 .summary = "pairs of NICs, and the NIC that is used",
	 .output = output,
	 .help = "The state of each NIC that has a `sibling`, and for each pair of addresses with "
		 "queue pairs the route that their packets take."},
	{.name = "failover dummy add",
	 .summary = "create a dummy device for queue pairs",
	 .args = add_args,
	 .output = add_output,
	 .place = VERB_HERE,
	 .run = dummy_add,
	 .help = "Queue pairs on it survive the removal of a NIC's driver. Uses ip(8) and rdma(8); "
		 "when a command fails the device is removed again. Packets leave it once `dummy` "
		 "names it in the configuration."},
	{.name = "failover dummy remove",
	 .summary = "remove such a device",
	 .args = remove_args,
	 .output = remove_output,
	 .place = VERB_HERE,
	 .run = dummy_remove,
	 .help = "With its routes and its soft-RoCE device; only what `add` created."},
	{},
};

const struct verb_set nic_verbs = {"nic", verbs, status, health, NULL};
