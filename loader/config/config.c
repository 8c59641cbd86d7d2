// SPDX-License-Identifier: BSD-2-Clause
/* A configuration: made, shown, compared for a reload, checked against this host, freed. */
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <jansson.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/explain.h"
#include "base/json.h"
#include "base/readfile.h"
#include "internal.h"
#include "net/rtnl.h"

#define CONFIG_BYTES_MAX (1u << 20)

const void *config_section(const struct config *config, const struct config_section *section)
{
	for (size_t i = 0; i < config->part_count; i++)
		if (config->parts[i].section == section)
			return config->parts[i].values;
	return NULL;
}

/* --- made and freed --- */

void config_set_defaults(const struct config_key *keys, void *values)
{
	struct config_reading nowhere = {.path = "default"};

	for (const struct config_key *key = keys; key->name; key++)
		if (key->fallback)
			key->type->parse(&nowhere, key, key->fallback,
					 (char *)values + key->offset);
	assert(!nowhere.error_count);
}

void config_clear_keys(const struct config_key *keys, void *values)
{
	for (const struct config_key *key = keys; key->name; key++)
		if (key->type->clear)
			key->type->clear(key, (char *)values + key->offset);
}

static int config_new(const char *path, const struct config_section *const *more,
		      struct config **out)
{
	struct config *config = *out = calloc(1, sizeof(*config));
	const struct config_section *section;
	void *values;

	if (!config)
		return -ENOMEM;
	config->path = strdup(path);
	if (!config->path)
		return -ENOMEM;
	for (size_t i = 0; (section = config_section_at(more, i)); i++) {
		if (i == CONFIG_SECTIONS_MAX)
			return -E2BIG;
		values = section->bytes ? calloc(1, section->bytes)
					: (char *)config + section->offset;
		if (!values)
			return -ENOMEM;
		config->parts[i].section = section;
		config->parts[i].values = values;
		config->part_count++;
		config_set_defaults(section->keys, values);
	}
	return 0;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->part_count; i++) {
		config_clear_keys(config->parts[i].section->keys, config->parts[i].values);
		if (config->parts[i].section->bytes)
			free(config->parts[i].values);
	}
	free(config->path);
	members_free(config->member_list);
	fleet_keys_clear(&config->keys);
	free(config);
}

/* --- to JSON --- */

json_t *config_show_keys(const struct config_key *keys, const void *values)
{
	json_t *object = json_object();

	for (const struct config_key *key = keys; key->name; key++)
		json_put(object, key->name,
			 key->type->show(key, (const char *)values + key->offset));
	return object;
}

json_t *config_to_json(const struct config *config)
{
	json_t *root = json_pack("{s:s}", "path", config->path), *parent, *child, *shown;
	size_t bytes;

	for (size_t i = 0; i < config->part_count; i++) {
		shown = config_show_keys(config->parts[i].section->keys, config->parts[i].values);
		parent = root;
		/* "pace.tcp" goes into the object of "pace". */
		for (const char *name = config->parts[i].section->name;
		     *name && json_object_size(shown); name += bytes + (name[bytes] == '.')) {
			bytes = strcspn(name, ".");
			child = json_object_getn(parent, name, bytes);
			if (!child)
				json_object_setn_new(parent, name, bytes, child = json_object());
			parent = child;
		}
		json_object_update(parent, shown);
		json_decref(shown);
	}
	return root;
}

/* --- a reload --- */

/* What is bound to the process: a socket, pins, an open file. */
static void check_fixed_key(struct config_reading *reading, const struct config_section *section,
			    const struct config_key *key, const void *old, const void *new)
{
	json_t *before = key->type->show(key, (const char *)old + key->offset);
	json_t *after = key->type->show(key, (const char *)new + key->offset);
	char *text;

	if (before ? !json_equal(before, after) : !!after) {
		text = before ? json_dumps(before, JSON_ENCODE_ANY) : NULL;
		config_enter_section(reading, section);
		config_refuse(reading, key->name,
			      "%s%s%s cannot change while escapementd runs; restart it, or %s%s",
			      section->name, *section->name ? "." : "", key->name,
			      text ? "set the old value, " : "take the line out", text ? text : "");
		free(text);
	}
	json_decref(before);
	json_decref(after);
}

int64_t config_lab_offset(const struct config *config, const char *interface)
{
	const struct config_lab *lab = &config->lab;
	bool is_wrong = lab->nic && !strcmp(lab->nic, interface);

	return lab->clock_offset_ns + (is_wrong ? lab->nic_offset_ns : 0);
}

/* --- control needs a key --- */

bool config_has_key(const struct config *config)
{
	return config->keys.have[0] || config->keys.have[1];
}

int config_check_control(const struct config *config, const char *what, char **error)
{
	if (config_has_key(config) || config->insecure)
		return 0;
	return explain(error, -EPERM,
		       "%s needs a key, since without one any host in the network can forge what "
		       "it acts on: give every host one `key_file` (`insecure: true` in %s allows "
		       "it without)",
		       what, config->path);
}

bool config_require_key(struct config_reading *reading, const struct config *config,
			const char *key, const char *what)
{
	char *why = NULL;
	/* A key file that cannot be used is an error of its own. */
	bool good = config->key_file || !config_check_control(config, what, &why);

	if (!good)
		config_refuse(reading, key, "%s", why ? why : strerror(EPERM));
	free(why);
	return good;
}

/* --- `escapementd --check-config`: the file against this host, as it is now --- */

/* Each link has one entry of this family; NULL: there is no such interface. */
static const struct sockaddr_ll *find_link(const struct ifaddrs *all, const char *name)
{
	for (const struct ifaddrs *at = all; at; at = at->ifa_next)
		if (at->ifa_addr && at->ifa_addr->sa_family == AF_PACKET &&
		    !strcmp(at->ifa_name, name))
			return (const struct sockaddr_ll *)at->ifa_addr;
	return NULL;
}

static void check_interfaces(struct config_reading *reading, const struct ifaddrs *all)
{
	const yaml_node_t *root = yaml_document_get_root_node(&reading->document);
	const yaml_node_t *list = config_find(reading, root, "interfaces", NULL);
	const struct config *config = reading->config;
	char names[512];

	rtnl_link_names(names, sizeof(names));
	for (size_t i = 0; list && i < config->interface_count; i++) {
		const struct config_interface *interface = &config->interfaces[i];
		const char *others[][2] = {{"sibling", interface->sibling},
					   {"dummy", interface->dummy}};
		const struct sockaddr_ll *link;

		if (!interface->name)
			continue;
		reading->mapping = yaml_document_get_node(&reading->document,
							  list->data.sequence.items.start[i]);
		reading->line = reading->mapping->start_mark.line + 1;
		link = find_link(all, interface->name);
		if (!link)
			config_refuse(reading, "name",
				      "interfaces: there is no interface %s; the ones here are %s",
				      interface->name, names);
		else if (link->sll_hatype != ARPHRD_ETHER)
			config_refuse(reading, "name",
				      "interfaces: %s is not an Ethernet device; name one that "
				      "carries RoCEv2",
				      interface->name);
		/* What takes over may be plugged in later. */
		for (size_t k = 0; k < CONFIG_COUNT_OF(others); k++)
			if (others[k][1] && !find_link(all, others[k][1]))
				config_warn(reading, config_line_of(reading, others[k][0]),
					    "`%s: %s`: there is no such interface; NIC failover is "
					    "off",
					    others[k][0], others[k][1]);
	}
}

static bool interface_has(const struct ifaddrs *all, const char *name,
			  const struct roster_member *self)
{
	struct esc_address here;

	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		if (strcmp(at->ifa_name, name) || !address_of_socket(at->ifa_addr, &here))
			continue;
		for (int family = 0; family < ROSTER_FAMILIES; family++)
			if (self->has[family] &&
			    !memcmp(&here, &self->address[family], sizeof(here)))
				return true;
	}
	return false;
}

/* One of the plane's interfaces has an address of this host in the list. */
static void check_plane(struct config_reading *reading, const struct ifaddrs *all,
			enum fleet_plane plane, unsigned int line)
{
	const struct config *config = reading->config;
	bool configured = false;
	struct roster roster;
	int err;

	err = roster_build(&roster, config->member_list, plane, config->host);
	if (err) {
		config_no_memory(reading);
		return;
	}
	for (size_t i = 0; i < config->interface_count; i++) {
		const struct config_interface *interface = &config->interfaces[i];

		if (interface->plane != plane || !interface->name)
			continue;
		configured = true;
		if (roster.self != ROSTER_NONE &&
		    interface_has(all, interface->name, &roster.list[roster.self]))
			goto out;
	}
	if (configured)
		config_warn(reading, line,
			    "no interface of the plane %s has an address that %s gives %s: nothing "
			    "is probed on it; add the address to the list, or to the interface",
			    config_plane_name(plane), config->members, config->host);
out:
	roster_free(&roster);
}

static void check_host(struct config_reading *reading)
{
	const yaml_node_t *root = yaml_document_get_root_node(&reading->document);
	const struct config *config = reading->config;
	const struct members *members = config->member_list;
	unsigned int line = 1;
	struct ifaddrs *all;
	size_t i = 0;

	if (getifaddrs(&all)) {
		config_warn(reading, 1, "interfaces and addresses cannot be listed: %s",
			    strerror(errno));
		return;
	}
	check_interfaces(reading, all);
	config_find(reading, root, "members", &line);
	while (members && i < members->count && strcmp(members->list[i].host, config->host))
		i++;
	if (members && i == members->count) {
		config_warn(reading, line,
			    "host %s is not in %s: nothing is probed; add it there, or set `host` "
			    "to its name in it",
			    config->host, config->members);
	} else if (members) {
		check_plane(reading, all, FLEET_PLANE_BACKEND, line);
		check_plane(reading, all, FLEET_PLANE_FRONTEND, line);
	}
	freeifaddrs(all);
}

/* --- a file --- */

static void check_key_host(struct config_reading *reading)
{
	const struct config *config = reading->config;

	if (!config->keys.host[0] || !strcmp(config->keys.host, config->host))
		return;
	config_enter_section(reading, config->parts[0].section);
	config_refuse(reading, "key_file",
		      "the keys of pairs are those of host %s, and this host is %s (`host`)",
		      config->keys.host, config->host);
}

static int read_file(struct config_reading *reading, const struct config_input *input,
		     const char *bytes, size_t size)
{
	char name[256] = "";
	int err = config_new(reading->path, input->sections, &reading->config);

	reading->for_host = input->check_host;
	reading->fleet = input->fleet;
	reading->read = input->read;
	reading->no_members = input->no_members;
	if (!err)
		err = config_read_yaml(reading, bytes, size);
	if (err)
		return err;
	/* A container may have no host name. */
	if (!reading->config->host) {
		bool named = !gethostname(name, sizeof(name) - 1) && name[0];

		reading->config->host = strdup(named ? name : "localhost");
	}
	if (!reading->config->host)
		return -ENOMEM;
	check_key_host(reading);
	for (size_t i = 0; input->in_force && i < reading->config->part_count; i++) {
		const struct config_section *section = reading->config->parts[i].section;
		const void *old = config_section(input->in_force, section);

		for (const struct config_key *key = section->keys; old && key->name; key++)
			if (key->fixed)
				check_fixed_key(reading, section, key, old,
						reading->config->parts[i].values);
	}
	if (input->check_host)
		check_host(reading);
	if (reading->no_memory)
		return -ENOMEM;
	return reading->error_count ? -EINVAL : 0;
}

int config_parse(const struct config_input *input, const char *bytes, size_t size,
		 struct config **out, char **report)
{
	struct config_reading reading = {.path = input->path ? input->path : CONFIG_PATH_DEFAULT};
	size_t report_bytes;
	FILE *lines = NULL;
	int err;

	*report = NULL;
	err = read_file(&reading, input, bytes, size);
	if (reading.fault_count)
		lines = open_memstream(report, &report_bytes);
	for (unsigned int i = 0; i < reading.fault_count; i++) {
		if (lines)
			fprintf(lines, "%s%s:%u: %s", i ? "\n" : "", reading.path,
				reading.faults[i].line, reading.faults[i].text);
		free(reading.faults[i].text);
	}
	if (lines && reading.error_count > CONFIG_FAULTS_MAX)
		fprintf(lines, "\n%s: more than %d errors; correct these first", reading.path,
			CONFIG_FAULTS_MAX);
	if (reading.fault_count && (!lines || fclose(lines)) && !err)
		err = -ENOMEM;
	yaml_document_delete(&reading.document);
	if (err)
		config_free(reading.config);
	else
		*out = reading.config;
	return err;
}

int config_load(const struct config_input *input, struct config **out, char **report)
{
	char *bytes, *reason;
	size_t size;
	int err = readfile(input->path ? input->path : CONFIG_PATH_DEFAULT, CONFIG_BYTES_MAX,
			   &bytes, &size, NULL, &reason);

	*report = NULL;
	if (err) {
		explain(report, err, "%s; %s", reason ? reason : strerror(-err),
			err == -ENOENT ? "write one (man escapement.yaml) or name another with -c "
					 "FILE"
			: err == -EFBIG || err == -EISDIR || err == -EINVAL
				? "name a configuration file with -c FILE"
				: "see that root may read it");
		free(reason);
		return err;
	}
	err = config_parse(input, bytes, size, out, report);
	free(bytes);
	return err;
}
