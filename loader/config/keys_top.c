// SPDX-License-Identifier: BSD-2-Clause
/* The keys of the top level, and of an entry of `interfaces`. */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/units.h"
#include "internal.h"
#include "maps/maps.h"

/* --- interfaces --- */

static void check_interface(struct config_reading *reading, const struct config_key *key,
			    void *values)
{
	const char *name = *(char **)((char *)values + key->offset);

	if (!strcmp(name, ".") || !strcmp(name, "..") || strpbrk(name, "/: \t\n\v\f\r"))
		config_refuse(reading, key->name,
			      "`%s: %s` cannot be an interface; `ip -br link` lists those of this "
			      "host",
			      key->name, name);
}

static void check_other_interface(struct config_reading *reading, const struct config_key *key,
				  void *values)
{
	const struct config_interface *interface = values;
	const char *other = *(char **)((char *)values + key->offset);

	check_interface(reading, key, values);
	if (interface->name && !strcmp(other, interface->name))
		config_refuse(reading, key->name,
			      "`%s: %s` is the interface itself; name another one", key->name,
			      other);
	if (other == interface->dummy && !interface->sibling)
		config_refuse(reading, key->name,
			      "`dummy: %s` has a meaning beside `sibling` only; name the NIC that "
			      "takes over for %s",
			      other, interface->name);
}

static const char *const plane_names[] = {"backend", "frontend", NULL};
static const char *const attach_names[] = {"auto", "native", "skb", NULL};
static const char *const tc_names[] = {"auto", "tcx", "clsact", NULL};

const char *config_plane_name(enum fleet_plane plane)
{
	return plane_names[plane];
}

static const struct config_key interface_keys[] = {
	{"name", CONFIG_FIELD(text, struct config_interface, name), .required = true,
	 .example = "eth1", .most = IF_NAMESIZE - 1, .check = check_interface,
	 .help = "The interface."},
	{"plane", CONFIG_FIELD(word, struct config_interface, plane), .words = plane_names,
	 .fallback = "backend",
	 .help = "`backend` is the fabric between accelerators. Each plane has a mesh of its own, "
		 "probed from the first interface of the plane with an address that `members` "
		 "gives this host."},
	{"attach", CONFIG_FIELD(word, struct config_interface, attach), .words = attach_names,
	 .fallback = "auto",
	 .help = "How XDP is attached. `native`: in the driver; `skb`: in the kernel's generic "
		 "path; `auto`: native where the driver can, else skb."},
	{"tc", CONFIG_FIELD(word, struct config_interface, tc), .words = tc_names,
	 .fallback = "auto",
	 .help = "How the tc programs are attached. `tcx` needs Linux 6.6; `auto`: TCX where the "
		 "kernel has it, else clsact."},
	{"probe_port", CONFIG_FIELD(number, struct config_interface, probe_port),
	 .fallback = "4791", .least = 1, .most = 65535,
	 .help = "UDP port of probes, the same at both ends. The default is RoCEv2's own, so that "
		 "the fabric treats a probe like a packet of a queue pair. Use another one with a "
		 "NIC that keeps 4791 for itself."},
	{"sibling", CONFIG_FIELD(text, struct config_interface, sibling), .example = "eth2",
	 .most = IF_NAMESIZE - 1, .check = check_other_interface,
	 .help = "NIC that takes over when this one dies. It needs an address of its own, and a "
		 "route to the peers' NICs that is found in a lookup by interface, such as a "
		 "default route with a greater metric. Not given: no failover."},
	{"dummy", CONFIG_FIELD(text, struct config_interface, dummy), .example = "roce0",
	 .most = IF_NAMESIZE - 1, .check = check_other_interface,
	 .help = "Dummy device on top of this NIC. It is made by `escapement failover dummy add`."},
	{},
};

static const struct config_list interface_list = {
	.keys = interface_keys,
	.least = 1,
	.most = ESC_PORTS_MAX,
	.entry_bytes = sizeof(struct config_interface),
	.count_offset = offsetof(struct config, interface_count),
};

/* --- the top level --- */

static void check_host(struct config_reading *reading, const struct config_key *key, void *values)
{
	const struct config *config = values;

	if (strpbrk(config->host, " \t\r\n/"))
		config_refuse(reading, key->name, "`host` should be one word of at most 253 bytes");
}

static void load_members(struct config_reading *reading, const struct config_key *key, void *values)
{
	struct config *config = values;
	char *why;
	int err = members_load(config->members, &config->member_list, &why);

	if (err)
		config_refuse(reading, key->name, "members: %s", why ? why : strerror(-err));
	if (err)
		free(why);
}

/* Now, so that a bad key is found before anything is probed with it. */
static void load_key_file(struct config_reading *reading, const struct config_key *key,
			  void *values)
{
	struct config *config = values;
	const char *path = *(char **)((char *)values + key->offset);
	char *why = NULL;
	int err = 0;

	if (path == config->key_file_next && !config->key_file)
		config_refuse(reading, key->name,
			      "key_file_next is a second key beside key_file, which is missing");
	else
		err = fleet_keys_add(&config->keys, path, &why);
	if (err)
		config_refuse(reading, key->name, "%s: %s", key->name, why ? why : strerror(-err));
	free(why);
}

static void check_pin_root(struct config_reading *reading, const struct config_key *key,
			   void *values)
{
	const struct config *config = values;

	if (config->pin_root[0] != '/' || !config->pin_root[1])
		config_refuse(reading, key->name,
			      "`pin_root: %s` should be a folder on a BPF file system, such "
			      "as " ESC_PIN_ROOT,
			      config->pin_root);
}

static void check_socket(struct config_reading *reading, const struct config_key *key, void *values)
{
	const struct config *config = values;
	size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

	if (strlen(config->socket) > most)
		config_refuse(reading, key->name,
			      "`socket` is %zu bytes long with its folder; the kernel takes %zu",
			      strlen(config->socket), most);
}

static const struct config_key top_keys[] = {
	{"host", CONFIG_FIELD(text, struct config, host), .example = "node17", .most = 253,
	 .check = check_host,
	 .help = "Name of this host. Reports of others have it, and so has `members`. Default: the "
		 "host name."},
	{"interfaces", CONFIG_FIELD(list, struct config, interfaces), .list = &interface_list,
	 .required = true, .example = "[{name: eth1}]", .help = "Interfaces to serve, at most 16."},
	{"members", CONFIG_FIELD(path, struct config, members),
	 .example = "/etc/escapement/members.json", .check = load_members,
	 .help = "Hosts of the fleet, the same file on all of them. See MEMBERS. Without it "
		 "nothing "
		 "is probed."},
	{"key_file", CONFIG_FIELD(path, struct config, key_file),
	 .example = "/etc/escapement/fleet.key", .check = load_key_file,
	 .help = "Key of the fleet: 16 bytes, mode 0600, the same everywhere. The file has exactly "
		 "16 bytes, is owned by root, and nobody else can read it. Probes carry a tag made "
		 "with the key, and those without a good tag are refused. Without a key anybody in "
		 "the network can forge probes."},
	{"key_file_next", CONFIG_FIELD(path, struct config, key_file_next),
	 .example = "/etc/escapement/next.key", .check = load_key_file,
	 .help = "Second key, while the key is changed. Its tags are accepted, too. To change the "
		 "key: give the new one as `key_file_next` on every host, then on every host make "
		 "the new one `key_file` and the old one `key_file_next`, then remove "
		 "`key_file_next` everywhere, each time with a reload. Of the two keys one has to "
		 "begin with an even byte, the other with an odd one."},
	{"pin_root", CONFIG_FIELD(path, struct config, pin_root), .fallback = ESC_PIN_ROOT,
	 .fixed = true, .check = check_pin_root,
	 .help = "Folder on a BPF file system for maps and links. A second daemon on one kernel "
		 "needs its own."},
	{"socket", CONFIG_FIELD(path, struct config, socket), .fallback = CONFIG_SOCKET_DEFAULT,
	 .fixed = true, .check = check_socket, .help = "Socket for escapement(1)."},
	{"kill_file", CONFIG_FIELD(path, struct config, kill_file),
	 .fallback = CONFIG_KILL_FILE_DEFAULT, .fixed = true,
	 .help = "While this file exists, nothing is attached."},
	{},
};

const struct config_section config_top_section = {
	.name = "",
	.summary = "",
	.keys = top_keys,
};
