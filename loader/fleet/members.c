// SPDX-License-Identifier: BSD-2-Clause
#include "fleet.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "base/address.h"
#include "base/array.h"
#include "base/explain.h"
#include "base/readfile.h"

#define MEMBERS_BYTES_MAX (64u << 20) /* a fleet of 100,000 hosts takes about 10 MB */
#define MEMBERS_SHAPE "[{\"targets\": [\"10.0.0.2\"], \"labels\": {\"host\": \"h2\"}}]"

struct reading {
	const char *path;
	char **error;
	struct members *members;
	size_t room, other_room, nic_room;
};

__attribute__((format(printf, 2, 3))) static int fail(struct reading *reading, const char *format,
						      ...)
{
	va_list arguments;
	char *what;

	va_start(arguments, format);
	if (vasprintf(&what, format, arguments) < 0)
		what = NULL;
	va_end(arguments);
	if (!what || asprintf(reading->error, "%s: %s", reading->path, what) < 0)
		*reading->error = NULL;
	free(what);
	return -EINVAL;
}

/* "10.0.0.2:9100" and "[fd00::2]:9100" lose their port; @out has room for any address. */
static bool target_address(const char *target, char out[ADDRESS_TEXT_BYTES])
{
	const char *colon = strchr(target, ':');
	size_t bytes = strlen(target);

	if (target[0] == '[') {
		target++;
		bytes = strcspn(target, "]");
	} else if (colon && !strchr(colon + 1, ':')) {
		bytes = colon - target;
	}
	if (bytes >= ADDRESS_TEXT_BYTES)
		return false;
	memcpy(out, target, bytes);
	out[bytes] = '\0';
	return true;
}

struct labels {
	const char *host, *rack, *addresses, *nics; /* NULL: none */
	enum member_plane plane;
};

static int read_target(struct reading *reading, size_t entry, size_t i, const json_t *target,
		       const struct labels *labels)
{
	struct members *members = reading->members;
	char text[ADDRESS_TEXT_BYTES];
	struct member *member;
	struct esc_address address;

	if (!json_is_string(target))
		return fail(reading, "entry %zu, targets[%zu]: should be a text with an IP address",
			    entry, i);
	if (!target_address(json_string_value(target), text) || !address_parse(text, &address))
		return fail(reading,
			    "entry %zu, targets[%zu]: \"%.64s\" is no IP address; write "
			    "the address itself, a name is not looked up",
			    entry, i, json_string_value(target));
	member = array_add(&members->list, &members->count, &reading->room, sizeof(*member));
	if (!member)
		return -ENOMEM;
	member->address = address;
	member->plane = labels->plane;
	member->host = strdup(labels->host ? labels->host : address_format(&address, text));
	member->rack = labels->rack ? strdup(labels->rack) : NULL;
	return member->host && (!labels->rack || member->rack) ? 0 : -ENOMEM;
}

static int read_labels(struct reading *reading, size_t entry, const json_t *object,
		       struct labels *out)
{
	const char *name, *plane;
	json_t *value;

	if (object && !json_is_object(object))
		return fail(reading,
			    "entry %zu, labels: should be an object, such as "
			    "{\"host\": \"h2\"}",
			    entry);
	json_object_foreach ((json_t *)object, name, value)
		if (!json_is_string(value) || !*json_string_value(value))
			return fail(reading, "entry %zu, labels.%.64s: should be a text, not empty",
				    entry, name);
	out->host = json_string_value(json_object_get(object, "host"));
	out->rack = json_string_value(json_object_get(object, "rack"));
	out->addresses = json_string_value(json_object_get(object, "addresses"));
	out->nics = json_string_value(json_object_get(object, "nics"));
	plane = json_string_value(json_object_get(object, "plane"));
	out->plane = !plane			? MEMBER_ANY
		     : strcmp(plane, "backend") ? MEMBER_FRONTEND
						: MEMBER_BACKEND;
	if (plane && strcmp(plane, "backend") && strcmp(plane, "frontend"))
		return fail(reading,
			    "entry %zu, labels.plane: \"%.64s\" should be backend or frontend; "
			    "without the label an address stands for both",
			    entry, plane);
	return 0;
}

/* One word of a label, the @count-th, of the host @host. */
typedef int read_word_fn(struct reading *reading, size_t entry, size_t count, char *word,
			 const struct labels *labels, const char *host);

static int read_other(struct reading *reading, size_t entry, size_t count, char *word,
		      const struct labels *labels, const char *host)
{
	struct members *members = reading->members;
	struct member_address *other;
	struct esc_address address;

	if (count > MEMBER_OTHERS_MAX)
		return fail(reading,
			    "entry %zu, labels.addresses: more than %d; leave out those that carry "
			    "no RDMA",
			    entry, MEMBER_OTHERS_MAX);
	if (!address_parse(word, &address))
		return fail(reading,
			    "entry %zu, labels.addresses: \"%.64s\" is no IP address; write them "
			    "with commas between, such as \"10.3.0.2, fd00::2\"",
			    entry, word);
	other = array_add(&members->others, &members->other_count, &reading->other_room,
			  sizeof(*other));
	if (!other)
		return -ENOMEM;
	*other = (struct member_address){address, labels->plane, host};
	return 0;
}

static bool nic_parse(char *word, struct member_nic *out)
{
	char *bar = strchr(word, '|'), *sign = strchr(word, '=');
	bool four;

	if (!bar || (sign && sign > bar))
		return false;
	*bar++ = '\0';
	if (sign)
		*sign++ = '\0';
	if (!address_parse(word, &out->address) || !address_parse(bar, &out->second) ||
	    !address_parse(sign ? sign : word, &out->first))
		return false;
	four = !strchr(word, ':');
	return four == !strchr(bar, ':') && four == !strchr(sign ? sign : word, ':');
}

static int read_nic(struct reading *reading, size_t entry, size_t count, char *word,
		    const struct labels *labels, const char *host)
{
	struct members *members = reading->members;
	struct member_nic parsed = {.host = host}, *nic;
	char shown[128];

	(void)labels;
	snprintf(shown, sizeof(shown), "%s", word);
	if (count > MEMBER_NICS_MAX || !nic_parse(word, &parsed))
		return fail(reading,
			    "entry %zu, labels.nics: \"%s\": write each as FIRST|SECOND, such as "
			    "\"10.1.1.2|10.2.1.2\", or ADDRESS=FIRST|SECOND where a dummy device "
			    "has the address; one IP version each, %d at most",
			    entry, shown, MEMBER_NICS_MAX);
	nic = array_add(&members->nics, &members->nic_count, &reading->nic_room, sizeof(*nic));
	if (!nic)
		return -ENOMEM;
	*nic = parsed;
	return 0;
}

/* What the label @name lists for the host of this entry, whose last target was just read. */
static int read_words(struct reading *reading, size_t entry, size_t targets,
		      const struct labels *labels, const char *name, const char *text,
		      read_word_fn *read_word)
{
	const struct members *members = reading->members;
	char *copy, *save = NULL;
	size_t count = 0;
	int err = 0;

	if (!text || !targets)
		return 0;
	if (targets > 1 && !labels->host)
		return fail(reading,
			    "entry %zu, labels.%s: it is not known which host has them; give the "
			    "entry a label `host`, or one target",
			    entry, name);
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	for (char *word = strtok_r(copy, ", \t", &save); word && !err;
	     word = strtok_r(NULL, ", \t", &save))
		err = read_word(reading, entry, ++count, word, labels,
				/* Just added. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
				members->list[members->count - 1].host);
	if (!err && !count)
		err = fail(reading, "entry %zu, labels.%s: names none; take it out", entry, name);
	free(copy);
	return err;
}

static int read_entry(struct reading *reading, size_t entry, const json_t *object)
{
	const json_t *targets = json_object_get(object, "targets");
	struct labels labels = {};
	int err;

	if (!json_is_object(object))
		return fail(reading, "entry %zu: should be an object; the file should look like %s",
			    entry, MEMBERS_SHAPE);
	if (!json_is_array(targets))
		return fail(reading,
			    "entry %zu, targets: %s; give a list of addresses, such as "
			    "[\"10.0.0.2\"]",
			    entry, targets ? "is no list" : "is missing");
	err = read_labels(reading, entry, json_object_get(object, "labels"), &labels);
	for (size_t i = 0; !err && i < json_array_size(targets); i++)
		err = read_target(reading, entry, i, json_array_get(targets, i), &labels);
	if (!err)
		err = read_words(reading, entry, json_array_size(targets), &labels, "addresses",
				 labels.addresses, read_other);
	return err ? err
		   : read_words(reading, entry, json_array_size(targets), &labels, "nics",
				labels.nics, read_nic);
}

/* Entries of all three lists begin with their address. */
static int by_address(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct esc_address));
}

static void *find(const struct esc_address *address, const void *list, size_t count, size_t bytes)
{
	return count ? bsearch(address, list, count, bytes, by_address) : NULL;
}

static const struct member *member_find(const struct members *members,
					const struct esc_address *address)
{
	return find(address, members->list, members->count, sizeof(*members->list));
}

const char *members_host(const struct members *members, const struct esc_address *address)
{
	const struct member *member = members ? member_find(members, address) : NULL;
	const struct member_address *other;

	if (!members || member)
		return member ? member->host : NULL;
	other = find(address, members->others, members->other_count, sizeof(*other));
	return other ? other->host : NULL;
}

/* An address is one host's; the label may well repeat a target of its own host. */
static int refuse_other_twins(struct reading *reading)
{
	struct members *members = reading->members;
	char text[ADDRESS_TEXT_BYTES];
	size_t kept = 0;

	for (size_t i = 0; i < members->other_count; i++) {
		const struct member_address *other = &members->others[i];
		const struct member *member = member_find(members, &other->address);
		const struct member_address *last = kept ? &members->others[kept - 1] : NULL;
		const char *owner = member ? member->host : NULL;

		if (last && !by_address(last, other))
			owner = last->host;
		if (owner && strcmp(owner, other->host))
			return fail(reading,
				    "the address %s is given to %.64s and to %.64s; keep one",
				    address_format(&other->address, text), owner, other->host);
		if (!owner)
			members->others[kept++] = *other;
	}
	members->other_count = kept;
	return 0;
}

static int read_list(struct reading *reading, const json_t *root)
{
	struct members *members = reading->members;
	char text[ADDRESS_TEXT_BYTES];
	size_t entry;
	json_t *object;
	int err;

	if (!json_is_array(root))
		return fail(reading, "should be a list of objects: %s", MEMBERS_SHAPE);
	json_array_foreach (root, entry, object) {
		err = read_entry(reading, entry, object);
		if (err)
			return err;
	}
	if (members->count)
		qsort(members->list, members->count, sizeof(*members->list), by_address);
	if (members->other_count)
		qsort(members->others, members->other_count, sizeof(*members->others), by_address);
	if (members->nic_count)
		qsort(members->nics, members->nic_count, sizeof(*members->nics), by_address);
	for (size_t i = 1; i < members->nic_count; i++)
		if (!by_address(&members->nics[i - 1], &members->nics[i]))
			return fail(reading, "labels.nics: the address %s has NICs twice; keep one",
				    address_format(&members->nics[i].address, text));
	for (size_t i = 1; i < members->count; i++)
		if (!by_address(&members->list[i - 1], &members->list[i]))
			return fail(reading, "the address %s is listed twice; keep one",
				    address_format(&members->list[i].address, text));
	return refuse_other_twins(reading);
}

int members_parse(const char *path, const char *bytes, size_t size, struct members **out,
		  char **error)
{
	struct reading reading = {.path = path, .error = error};
	json_error_t problem;
	json_t *root = NULL;
	int err = -ENOMEM;

	*error = NULL;
	reading.members = calloc(1, sizeof(*reading.members));
	if (!reading.members)
		return -ENOMEM;
	root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &problem);
	if (root)
		err = read_list(&reading, root);
	else if (json_error_code(&problem) != json_error_out_of_memory &&
		 asprintf(error, "%s:%d: not JSON: %s; the file should look like %s", path,
			  problem.line, problem.text, MEMBERS_SHAPE) >= 0)
		err = -EINVAL;
	json_decref(root);
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
	for (size_t i = 0; i < members->count; i++) {
		free(members->list[i].host);
		free(members->list[i].rack);
	}
	free(members->list);
	free(members->others);
	free(members->nics);
	free(members);
}
