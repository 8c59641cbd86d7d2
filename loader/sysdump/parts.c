// SPDX-License-Identifier: BSD-2-Clause
/*
 * The parts: a command or a file each. What fails is in the index with its reason, and ends
 * nothing.
 */
#include "sysdump.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/verbs.h"
#include "base/json.h"
#include "base/now.h"

#define WORDS_MAX 24
#define NAME_BYTES 160

/* %i stands for an interface of the configuration: a part for each. */
struct command {
	const char *name; /* in the archive */
	const char *words;
	bool tail; /* the end is worth more than the beginning */
};

/* clang-format off: a table */
#define PART(name_, words_)                                                                        \
	{                                                                                          \
		.name = name_, .words = words_                                                     \
	}
#define TAIL(name_, words_)                                                                        \
	{                                                                                          \
		.name = name_, .words = words_, .tail = true                                       \
	}
static const struct command commands[] = {
	PART("versions/uname.txt", "uname -a"),
	PART("versions/command-line.txt", "@ version"),
	PART("versions/packages.txt",
	     "dpkg-query -W escapement libescapement0 libbpf1 libxdp1 libmicrohttpd12 libarchive13 "
	     "bpftool iproute2 rdma-core systemd"),
	PART("health.json", "@ -j health"),
	PART("audit.json", "@ -j audit"),
	PART("net/addresses.txt", "ip -d address"),
	PART("net/links.txt", "ip -d -s -s link"),
	PART("net/routes.txt", "ip route show table all"),
	PART("net/rules.txt", "ip rule"),
	PART("net/routes6.txt", "ip -6 route show table all"),
	PART("net/rules6.txt", "ip -6 rule"),
	PART("net/neighbours.txt", "ip neighbour"),
	PART("net/qdiscs.txt", "tc -s -d qdisc"),
	PART("net/sockets.txt", "ss -s"),
	PART("net/rdma.txt", "rdma -d link"),
	PART("net/rdma-statistics.txt", "rdma statistic"),
	PART("bpf/network.txt", "bpftool net"),
	PART("bpf/programs.txt", "bpftool prog"),
	PART("bpf/maps.txt", "bpftool map"),
	PART("bpf/links.txt", "bpftool link"),
	PART("ethtool/%i.txt", "ethtool %i"),
	PART("ethtool/%i-driver.txt", "ethtool -i %i"),
	PART("ethtool/%i-statistics.txt", "ethtool -S %i"),
	PART("ethtool/%i-features.txt", "ethtool -k %i"),
	PART("ethtool/%i-channels.txt", "ethtool -l %i"),
	PART("ethtool/%i-rings.txt", "ethtool -g %i"),
	PART("ethtool/%i-coalescing.txt", "ethtool -c %i"),
	PART("ethtool/%i-pause.txt", "ethtool -a %i"),
	PART("ethtool/%i-timestamps.txt", "ethtool -T %i"),
	PART("net/%i-filters-in.txt", "tc -s filter show dev %i ingress"),
	PART("net/%i-filters-out.txt", "tc -s filter show dev %i egress"),
	TAIL("log/kernel.txt", "dmesg --time-format iso"),
	TAIL("log/journal.txt", "journalctl --no-pager -o short-iso-precise -n 20000 -u "
				"escapementd -u escapement-alert -u escapement-serve"),
	PART("log/units.txt", "systemctl --no-pager --full -n 0 status escapementd "
			      "escapement-alert escapement-serve"),
	{},
};

static const struct command files[] = {
	PART("versions/os-release.txt", "/etc/os-release"),
	PART("host/cpuinfo.txt", "/proc/cpuinfo"),
	PART("host/interrupts.txt", "/proc/interrupts"),
	PART("host/loadavg.txt", "/proc/loadavg"),
	PART("host/meminfo.txt", "/proc/meminfo"),
	PART("host/pressure-cpu.txt", "/proc/pressure/cpu"),
	PART("host/softnet.txt", "/proc/net/softnet_stat"),
	PART("host/snmp.txt", "/proc/net/snmp"),
	PART("host/clocksource.txt",
	     "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
	{},
};
/* clang-format on */

/* --- the archive and its index --- */

static void add_index(struct sysdump *dump, const char *name, const char *from,
		      const struct part *part, bool written)
{
	json_t *row = json_pack("{s:s}", "name", name);

	json_put_name(row, "from", from);
	if (written)
		json_put_count(row, "bytes", part->size);
	if (part->cut)
		json_put_bool(row, "cut", true);
	json_put_name(row, "problem", part->problem);
	json_array_append_new(dump->index, row);
	dump->missing += !written;
}

/* A part that may not be there gets a problem, and is left out. */
static bool may_be_there(const struct sysdump *dump, struct part *part)
{
	if (part->bytes && secrets_are_in(&dump->secrets, part->bytes, part->size)) {
		snprintf(part->problem, sizeof(part->problem),
			 "left out: it has the bytes of a key or a password");
		return false;
	}
	/* What a command printed on its standard error may have them as well. */
	if (secrets_are_in(&dump->secrets, part->problem, strlen(part->problem)))
		snprintf(part->problem, sizeof(part->problem), "it failed, with a key in the text");
	if (dump->bytes + part->size > SYSDUMP_ALL_BYTES) {
		snprintf(part->problem, sizeof(part->problem),
			 "left out: the parts before it have %llu MiB", SYSDUMP_ALL_BYTES >> 20);
		return false;
	}
	return part->bytes && (part->size || !*part->problem);
}

static int add_part(struct sysdump *dump, const char *name, const char *from, struct part *part)
{
	bool written = may_be_there(dump, part);
	int err = 0;

	if (written) {
		err = archive_add(dump->file, name, part->bytes, part->size, &dump->error);
		dump->bytes += part->size;
	}
	add_index(dump, name, from, part, written);
	part_clear(part);
	return err;
}

/* How long a part may still take; 0: no time is left, and @part says so. */
static uint64_t time_left(const struct sysdump *dump, struct part *part)
{
	uint64_t now_ns = time_local_ns();

	if (now_ns >= dump->end_local_ns) {
		snprintf(part->problem, sizeof(part->problem),
			 "left out: the parts before it took %llu s", SYSDUMP_ALL_NS / SYSDUMP_S);
		return 0;
	}
	return dump->end_local_ns - now_ns < SYSDUMP_PART_NS ? dump->end_local_ns - now_ns
							     : SYSDUMP_PART_NS;
}

/* --- commands and files --- */

/* "@" in place of the program is the command line, with its socket. */
static int add_command(struct sysdump *dump, const char *name, const char *words, bool tail)
{
	const char *argv[WORDS_MAX + 4];
	char *copy = strdup(words), *save = NULL, *word;
	struct part part = {};
	uint64_t left_ns = time_left(dump, &part);
	size_t count = 0;
	int err;

	if (!copy)
		return -ENOMEM;
	for (word = strtok_r(copy, " ", &save); word && count < WORDS_MAX;
	     word = strtok_r(NULL, " ", &save)) {
		if (!count && !strcmp(word, "@")) {
			argv[count++] = dump->escapement;
			argv[count++] = "--socket";
			word = (char *)dump->socket;
		}
		argv[count++] = word;
	}
	argv[count] = NULL;
	if (left_ns)
		collect_command(&part, argv, tail, left_ns);
	err = add_part(dump, name, *words == '@' ? words + 2 : words, &part);
	free(copy);
	return err;
}

static int add_file(struct sysdump *dump, const char *name, const char *path, bool tail)
{
	struct part part = {};

	if (time_left(dump, &part))
		collect_file(&part, path, tail);
	return add_part(dump, name, path, &part);
}

/* Each verb that only reads, as JSON. */
static int add_verbs(struct sysdump *dump)
{
	const struct verb *verb = NULL;
	char name[NAME_BYTES], words[NAME_BYTES];
	int err = 0;

	while (!err && (verb = verbs_next(verb))) {
		if (!verbs_reads_alone(verb))
			continue;
		snprintf(name, sizeof(name), "verbs/%s.json", verb->name);
		for (char *at = name; *at; at++)
			if (*at == ' ')
				*at = '-';
		snprintf(words, sizeof(words), "@ -j %s", verb->name);
		err = add_command(dump, name, words, false);
	}
	return err;
}

/* --- what the configuration names --- */

static json_t *read_config(const struct sysdump *dump)
{
	const char *argv[] = {dump->escapement, "-j",	"--socket", dump->socket,
			      "config",		"show", NULL};
	struct part part = {};
	json_t *config = NULL;

	collect_command(&part, argv, false, SYSDUMP_PART_NS);
	if (part.bytes && !*part.problem)
		config = json_loadb(part.bytes, part.size, 0, NULL);
	part_clear(&part);
	return config;
}

/* @text with @name for each %i. */
static void put_interface(char *out, size_t bytes, const char *text, const char *name)
{
	size_t used = 0;

	for (; *text && used + 1 < bytes; text++) {
		if (text[0] == '%' && text[1] == 'i') {
			used += (size_t)snprintf(out + used, bytes - used, "%s", name);
			used = used < bytes ? used : bytes - 1;
			text++;
		} else {
			out[used++] = *text;
		}
	}
	out[used] = '\0';
}

/* A name of an interface may have any bytes but these; one with others has no parts. */
static bool is_plain(const char *name)
{
	if (!*name || *name == '-')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("-_.@:", *name))
			return false;
	return true;
}

static int add_for_interfaces(struct sysdump *dump, const struct command *command,
			      const json_t *config)
{
	char name[NAME_BYTES], words[NAME_BYTES];
	json_t *one;
	int err = 0;
	size_t i;

	json_array_foreach (json_object_get(config, "interfaces"), i, one) {
		const char *interface = json_text(one, "name");

		if (err || !is_plain(interface))
			continue;
		put_interface(name, sizeof(name), command->name, interface);
		put_interface(words, sizeof(words), command->words, interface);
		err = add_command(dump, name, words, command->tail);
	}
	return err;
}

static int add_configured(struct sysdump *dump, const json_t *config)
{
	const char *file = json_text(json_object_get(config, "events"), "file");
	const char *folder = json_text(json_object_get(config, "textfile"), "directory");
	const char *root = json_text(config, "pin_root");
	char text[NAME_BYTES + 256];
	int err = 0;

	if (*file)
		err = add_file(dump, "log/events.jsonl", file, true);
	snprintf(text, sizeof(text), "%s/escapement.prom", folder);
	if (!err && *folder)
		err = add_file(dump, "metrics/escapement.prom", text, false);
	if (!err)
		err = add_command(dump, "metrics/now.prom", "@ metrics", false);
	snprintf(text, sizeof(text), "ls -lR %s", *root ? root : "/sys/fs/bpf/escapement");
	if (!err && !strchr(root, ' '))
		err = add_command(dump, "bpf/pins.txt", text, false);
	snprintf(text, sizeof(text), "bpftool map dump pinned %s/abi",
		 *root ? root : "/sys/fs/bpf/escapement");
	if (!err && !strchr(root, ' '))
		err = add_command(dump, "bpf/layouts.txt", text, false);
	return err;
}

static int add_index_file(struct sysdump *dump)
{
	json_t *index = json_pack("{s:s, s:s, s:i, s:I, s:O}", "format", "escapement-sysdump",
				  "program", ESC_VERSION, "version", 1, "time_ns",
				  (json_int_t)time_realtime_ns(), "parts", dump->index);
	char *text = json_dumps(index, JSON_INDENT(1));
	int err = text ? archive_add(dump->file, "index.json", text, strlen(text), &dump->error)
		       : -ENOMEM;

	free(text);
	json_decref(index);
	return err;
}

int sysdump_write(struct sysdump *dump)
{
	json_t *config;
	int err;

	dump->end_local_ns = time_local_ns() + SYSDUMP_ALL_NS;
	config = read_config(dump);
	secrets_add_config(&dump->secrets, config);
	/* Where the daemon does not say which files they are. */
	secrets_add_file(&dump->secrets, "/etc/escapement/fleet.key");
	err = add_verbs(dump);
	if (!err)
		err = add_configured(dump, config);
	for (const struct command *one = commands; !err && one->name; one++)
		err = strstr(one->name, "%i") ? add_for_interfaces(dump, one, config)
					      : add_command(dump, one->name, one->words, one->tail);
	for (const struct command *one = files; !err && one->name; one++)
		err = add_file(dump, one->name, one->words, one->tail);
	if (!err)
		err = add_index_file(dump);
	json_decref(config);
	secrets_clear(&dump->secrets);
	return err;
}
