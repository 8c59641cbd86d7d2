// SPDX-License-Identifier: BSD-2-Clause
#include "fleet.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/array.h"
#include "base/explain.h"
#include "base/readfile.h"

#define MEMBERS_BYTES_MAX (256u << 20) /* 100,000 hosts with 8 NICs each take about 90 MB */
#define TEXT_BLOCK_BYTES 16384
#define MEMBERS_SHAPE "[{\"targets\": [\"10.0.0.2\"], \"labels\": {\"host\": \"h2\"}}]"

struct reading {
	const char *path;
	char **error;
	struct members *members;
	size_t room, nic_room, text_room;
	char *text_next; /* of the newest block */
	size_t text_left;
	/* Of the entry that is read; labels: NULL: none. */
	size_t entry;
	const char *host, *rack, *rail, *pod;
	enum member_plane plane;
};

/* A copy of @text, or @last, which is the same; NULL: no memory. */
static const char *text_keep(struct reading *reading, const char *last, const char *text)
{
	struct members *members = reading->members;
	size_t bytes = strlen(text) + 1;
	size_t room = bytes > TEXT_BLOCK_BYTES ? bytes : TEXT_BLOCK_BYTES;
	char **block, *kept;

	if (last && !strcmp(last, text))
		return last;
	if (bytes > reading->text_left) {
		block = array_add(&members->texts, &members->text_count, &reading->text_room,
				  sizeof(*block));
		if (!block)
			return NULL;
		*block = reading->text_next = malloc(room);
		reading->text_left = *block ? room : 0;
		if (!*block)
			return NULL;
	}
	kept = memcpy(reading->text_next, text, bytes);
	reading->text_next += bytes;
	reading->text_left -= bytes;
	return kept;
}

/* As text_keep(); a label that is not there is nothing. */
static int label_keep(struct reading *reading, const char *last, const char *text, const char **out)
{
	*out = text ? text_keep(reading, last, text) : NULL;
	return text && !*out ? -ENOMEM : 0;
}

#define fail(reading, format, ...)                                                                 \
	explain((reading)->error, -EINVAL, "%s: " format, (reading)->path, ##__VA_ARGS__)
#define fail_entry(reading, format, ...)                                                           \
	fail(reading, "entry %zu" format, (reading)->entry, ##__VA_ARGS__)

/* "10.0.0.2:9100" and "[fd00::2]:9100" lose their port. */
static bool target_parse(const char *target, struct esc_address *out)
{
	const char *colon = strchr(target, ':');
	char text[ADDRESS_TEXT_BYTES];
	size_t bytes = strlen(target);

	if (target[0] == '[') {
		target++;
		bytes = strcspn(target, "]");
	} else if (colon && !strchr(colon + 1, ':')) {
		bytes = colon - target;
	}
	if (bytes >= sizeof(text))
		return false;
	memcpy(text, target, bytes);
	text[bytes] = '\0';
	return address_parse(text, out);
}

static int read_target(struct reading *reading, size_t i, const json_t *target)
{
	struct members *members = reading->members;
	const char *name = json_string_value(target);
	char text[ADDRESS_TEXT_BYTES];
	struct esc_address address;
	const struct member *last;
	struct member *member;
	int err;

	if (!name)
		return fail_entry(reading, ", targets[%zu]: should be a text with an IP address",
				  i);
	if (!target_parse(name, &address))
		return fail_entry(reading,
				  ", targets[%zu]: \"%.64s\" is no IP address; write the address "
				  "itself, a name is not looked up",
				  i, name);
	member = array_add(&members->list, &members->count, &reading->room, sizeof(*member));
	if (!member)
		return -ENOMEM;
	members->targets++;
	last = member - (members->count > 1);
	*member = (struct member){.address = address,
				  .plane = reading->plane,
				  .probed = true,
				  .entry = (uint32_t)reading->entry};
	/* Entries of a host, and of a rack, are mostly next to each other. */
	err = label_keep(reading, last->host,
			 reading->host ? reading->host : address_format(&address, text),
			 &member->host);
	err = err ? err : label_keep(reading, last->rack, reading->rack, &member->rack);
	err = err ? err : label_keep(reading, last->rail, reading->rail, &member->rail);
	return err ? err : label_keep(reading, last->pod, reading->pod, &member->pod);
}

static int read_labels(struct reading *reading, json_t *labels)
{
	const char *name, *plane;
	json_t *value;

	if (labels && !json_is_object(labels))
		return fail_entry(reading,
				  ", labels: should be an object, such as {\"host\": \"h2\"}");
	json_object_foreach (labels, name, value)
		if (!json_is_string(value) || !*json_string_value(value))
			return fail_entry(reading, ", labels.%.64s: should be a text, not empty",
					  name);
	reading->host = json_string_value(json_object_get(labels, "host"));
	reading->rack = json_string_value(json_object_get(labels, "rack"));
	reading->rail = json_string_value(json_object_get(labels, "rail"));
	reading->pod = json_string_value(json_object_get(labels, "pod"));
	reading->plane = MEMBER_ANY;
	plane = json_string_value(json_object_get(labels, "plane"));
	if (!plane)
		return 0;
	reading->plane = strcmp(plane, "backend") ? MEMBER_FRONTEND : MEMBER_BACKEND;
	if (!strcmp(plane, "backend") || !strcmp(plane, "frontend"))
		return 0;
	return fail_entry(reading,
			  ", labels.plane: \"%.64s\" should be backend or frontend; without the "
			  "label an address stands for both",
			  plane);
}

/* One item of a label, the @count-th, of the host @host. */
typedef int read_item_fn(struct reading *reading, size_t count, char *item, const char *host);

static int read_address(struct reading *reading, size_t count, char *item, const char *host)
{
	struct members *members = reading->members;
	struct esc_address address;
	struct member *member;

	if (count > MEMBER_OTHERS_MAX)
		return fail_entry(reading,
				  ", labels.addresses: more than %d; leave out those that carry no "
				  "RDMA",
				  MEMBER_OTHERS_MAX);
	if (!address_parse(item, &address))
		return fail_entry(reading,
				  ", labels.addresses: \"%.64s\" is no IP address; write them with "
				  "commas between, such as \"10.3.0.2, fd00::2\"",
				  item);
	member = array_add(&members->list, &members->count, &reading->room, sizeof(*member));
	if (!member)
		return -ENOMEM;
	*member = (struct member){.address = address, .plane = reading->plane, .host = host};
	return 0;
}

static bool nic_parse(char *item, struct member_nic *out)
{
	char *bar = strchr(item, '|'), *sign = strchr(item, '='), *first;

	if (!bar || (sign && sign > bar))
		return false;
	*bar++ = '\0';
	if (sign)
		*sign++ = '\0';
	first = sign ? sign : item;
	return address_parse(item, &out->address) && address_parse(bar, &out->second) &&
	       address_parse(first, &out->first) && !strchr(item, ':') == !strchr(bar, ':') &&
	       !strchr(item, ':') == !strchr(first, ':');
}

static int read_nic(struct reading *reading, size_t count, char *item, const char *host)
{
	struct members *members = reading->members;
	struct member_nic parsed = {.host = host}, *nic;
	char shown[128];

	snprintf(shown, sizeof(shown), "%s", item);
	if (count > MEMBER_NICS_MAX || !nic_parse(item, &parsed))
		return fail_entry(
			reading,
			", labels.nics: \"%s\": write each as FIRST|SECOND, such as "
			"\"10.1.1.2|10.2.1.2\", or ADDRESS=FIRST|SECOND where a dummy device has "
			"the address; one IP version each, %d at most",
			shown, MEMBER_NICS_MAX);
	nic = array_add(&members->nics, &members->nic_count, &reading->nic_room, sizeof(*nic));
	if (!nic)
		return -ENOMEM;
	*nic = parsed;
	return 0;
}

/* What the label @name lists for the host of this entry, after its @targets. */
static int read_items(struct reading *reading, const json_t *labels, const char *name,
		      size_t targets, const char *host, read_item_fn *read_item)
{
	const char *text = json_string_value(json_object_get(labels, name));
	char *copy, *save = NULL;
	size_t count = 0;
	int err = 0;

	if (!text || !targets)
		return 0;
	if (targets > 1 && !reading->host)
		return fail_entry(
			reading,
			", labels.%s: it is not known which host has them; give the entry "
			"a label `host`, or one target",
			name);
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	for (char *item = strtok_r(copy, ", \t", &save); item && !err;
	     item = strtok_r(NULL, ", \t", &save))
		err = read_item(reading, ++count, item, host);
	if (!err && !count)
		err = fail_entry(reading, ", labels.%s: names none; take it out", name);
	free(copy);
	return err;
}

static int read_entry(struct reading *reading, const json_t *object)
{
	json_t *targets = json_object_get(object, "targets");
	json_t *labels = json_object_get(object, "labels");
	size_t count = json_array_size(targets);
	const char *host;
	int err;

	if (!json_is_object(object))
		return fail_entry(
			reading, ": should be an object; the file should look like " MEMBERS_SHAPE);
	if (!json_is_array(targets))
		return fail_entry(reading,
				  ", targets: %s; give a list of addresses, such as [\"10.0.0.2\"]",
				  targets ? "is no list" : "is missing");
	err = read_labels(reading, labels);
	for (size_t i = 0; !err && i < count; i++)
		err = read_target(reading, i, json_array_get(targets, i));
	if (err || !count)
		return err;
	/* Just added. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	host = reading->members->list[reading->members->count - 1].host;
	err = read_items(reading, labels, "addresses", count, host, read_address);
	return err ? err : read_items(reading, labels, "nics", count, host, read_nic);
}

/* Entries of both lists begin with their address. */
static int by_address(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct esc_address));
}

static int by_address_and_use(const void *a, const void *b)
{
	const struct member *one = a, *two = b;
	int order = by_address(a, b);

	return order ? order : two->probed - one->probed;
}

bool members_equal(const struct members *one, const struct members *two)
{
	if (one->count != two->count)
		return false;
	for (size_t i = 0; i < one->count; i++) {
		const struct member *a = &one->list[i], *b = &two->list[i];

		if (by_address(a, b) || a->plane != b->plane || a->probed != b->probed ||
		    strcmp(a->host, b->host))
			return false;
	}
	return true;
}

const struct member *members_find(const struct members *members, const struct esc_address *address)
{
	return members && members->count ? bsearch(address, members->list, members->count,
						   sizeof(*members->list), by_address)
					 : NULL;
}

const char *members_host(const struct members *members, const struct esc_address *address)
{
	const struct member *member = members_find(members, address);

	return member ? member->host : NULL;
}

static int check_list(struct reading *reading)
{
	struct members *members = reading->members;
	char text[ADDRESS_TEXT_BYTES];
	size_t kept = 0;

	if (members->count)
		qsort(members->list, members->count, sizeof(*members->list), by_address_and_use);
	if (members->nic_count)
		qsort(members->nics, members->nic_count, sizeof(*members->nics), by_address);
	for (size_t i = 1; i < members->nic_count; i++)
		if (!by_address(&members->nics[i - 1], &members->nics[i]))
			return fail(reading, "labels.nics: the address %s has NICs twice; keep one",
				    address_format(&members->nics[i].address, text));
	/* An address is one host's; the label may well repeat a target of its own host. */
	for (size_t i = 1; i < members->count; i++) {
		const struct member *one = &members->list[i - 1], *two = &members->list[i];

		if (by_address(one, two))
			continue;
		if (two->probed && one->rail && two->rail && strcmp(one->rail, two->rail))
			return fail(reading,
				    "the address %s is in rail %.64s (entry %u) and in rail %.64s "
				    "(entry %u); keep one",
				    address_format(&two->address, text), one->rail, one->entry,
				    two->rail, two->entry);
		if (two->probed)
			return fail(reading, "the address %s is listed twice; keep one",
				    address_format(&two->address, text));
		if (strcmp(one->host, two->host))
			return fail(reading,
				    "the address %s is given to %.64s and to %.64s; keep one",
				    address_format(&two->address, text), one->host, two->host);
	}
	for (size_t i = 0; i < members->count; i++)
		if (!kept || by_address(&members->list[kept - 1], &members->list[i]))
			members->list[kept++] = members->list[i];
	members->count = kept;
	return members_index(members, reading->path, reading->error);
}

/* --- the file: an entry after the other, as the JSON of all takes ten times its size --- */

static size_t skip_space(const char *bytes, size_t size, size_t at)
{
	while (at < size &&
	       (bytes[at] == ' ' || bytes[at] == '\t' || bytes[at] == '\n' || bytes[at] == '\r'))
		at++;
	return at;
}

/* At @at there is something else. */
static int fail_syntax(const struct reading *reading, const char *bytes, size_t at, int lines,
		       const char *why)
{
	int line = lines;

	for (size_t i = 0; i < at; i++)
		line += bytes[i] == '\n';
	return explain(reading->error, -EINVAL,
		       "%s:%d: not JSON: %s; the file should look like " MEMBERS_SHAPE,
		       reading->path, line, why);
}

/* Reads what is at *@at, and moves it behind that. */
static int read_value(struct reading *reading, const char *bytes, size_t size, size_t *at,
		      json_t **out)
{
	json_error_t problem;

	*out = json_loadb(bytes + *at, size - *at,
			  JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK,
			  &problem);
	if (!*out && json_error_code(&problem) == json_error_out_of_memory)
		return -ENOMEM;
	if (!*out)
		return fail_syntax(reading, bytes, *at, problem.line, problem.text);
	*at = skip_space(bytes, size, *at + (size_t)problem.position);
	return 0;
}

static int read_entries(struct reading *reading, const char *bytes, size_t size, size_t *at)
{
	json_t *object;
	int err;

	*at = skip_space(bytes, size, *at);
	if (*at < size && bytes[*at] == ']')
		return 0;
	for (;; reading->entry++) {
		err = read_value(reading, bytes, size, at, &object);
		if (err)
			return err;
		err = read_entry(reading, object);
		json_decref(object);
		if (err || *at == size || bytes[*at] != ',')
			return err;
		*at = skip_space(bytes, size, *at + 1);
	}
}

static int read_list(struct reading *reading, const char *bytes, size_t size)
{
	size_t at = skip_space(bytes, size, 0);
	json_t *other;
	int err;

	if (at == size || bytes[at] != '[') {
		err = read_value(reading, bytes, size, &at, &other);
		if (err)
			return err;
		json_decref(other);
		return fail(reading, "should be a list of objects: " MEMBERS_SHAPE);
	}
	at++;
	err = read_entries(reading, bytes, size, &at);
	if (err)
		return err;
	if (at == size || bytes[at] != ']')
		return fail_syntax(reading, bytes, at, 1, "a comma or ] is missing");
	at = skip_space(bytes, size, at + 1);
	return at == size ? 0 : fail_syntax(reading, bytes, at, 1, "there is more after the list");
}

int members_parse(const char *path, const char *bytes, size_t size, struct members **out,
		  char **error)
{
	struct reading reading = {.path = path, .error = error};
	int err;

	*error = NULL;
	reading.members = calloc(1, sizeof(*reading.members));
	if (!reading.members)
		return -ENOMEM;
	err = read_list(&reading, bytes, size);
	if (!err)
		err = check_list(&reading);
	if (err)
		members_free(reading.members);
	else
		*out = reading.members;
	return err;
}

int members_load(const char *path, struct members **out, char **error)
{
	char *bytes, *reason;
	size_t size;
	int err = readfile(path, MEMBERS_BYTES_MAX, &bytes, &size, NULL, &reason);

	*error = NULL;
	if (err) {
		explain(error, err,
			"%s; give a readable file in Prometheus' file_sd format, or take `members` "
			"out",
			reason ? reason : strerror(-err));
		free(reason);
		return err;
	}
	err = members_parse(path, bytes, size, out, error);
	free(bytes);
	return err;
}

void members_free(struct members *members)
{
	if (!members)
		return;
	for (size_t i = 0; i < members->text_count; i++)
		free(members->texts[i]);
	free(members->texts);
	fleet_plan_drop(members->plan);
	free(members->by_host);
	free(members->hosts);
	free(members->racks);
	free(members->list);
	free(members->nics);
	free(members);
}
