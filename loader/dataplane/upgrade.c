// SPDX-License-Identifier: BSD-2-Clause
/*
 * Maps of another layout: what is in them goes into the new ones, field by field of the same name
 * (BTF of both). Configuration is copied before the new programs run, counts after the old ones
 * ended.
 */
#include "internal.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "carry.skel.h"

/* --- what is carried over, and how --- */

enum upgrade_rule {
	UPGRADE_COPY, /* before the new programs run */
	UPGRADE_ADD,  /* after the old ones ended */
	UPGRADE_ANEW, /* contents of milliseconds */
};

/* Fields: separated by blanks, all that a summed field contains is summed. */
struct upgrade_map {
	const char *name;
	enum upgrade_rule rule;
	bool late; /* its programs are replaced after those of the dataplane */
	const char *sum, *least, *most, *first;
	const char *names; /* the enum that an array is indexed by */
};

static const struct upgrade_map upgrade_maps[] = {
	{"qps", UPGRADE_ADD, false,
	 "packets bytes payload_bytes messages acks psn_gaps psn_missing out_of_sequence "
	 "duplicates retransmits psn_resyncs nak_sequence nak_invalid_request nak_remote_access "
	 "nak_remote_operational nak_other rnr_naks ect ce cnps sport_changes message_sizes",
	 "message_min", "message_max", "first_local_ns", NULL},
	{"qp_owd", UPGRADE_ADD, false,
	 "samples_sent receipts samples samples_discarded samples_expired feedback_sum_ns "
	 "crossings over histogram",
	 "min_ns", "max_ns", "first_ktime_ns", NULL},
	{"port_counts", UPGRADE_ADD, false,
	 "rx_roce_packets rx_roce_bytes tx_roce_packets tx_roce_bytes rx_ce_packets tx_ce_packets "
	 "rx_cnps tx_cnps rx_rocev1_frames tx_rocev1_frames",
	 "", "", "", NULL},
	{"reasons", UPGRADE_ADD, false, "xdp_ingress tc_ingress tc_egress", "", "", "",
	 "esc_reason"},
	{"nic_counts", UPGRADE_ADD, true, "wrapped redirected unwrapped held replied", "", "", "",
	 NULL},
	{.name = "abi", .rule = UPGRADE_ANEW},
	{.name = "host_queue", .rule = UPGRADE_ANEW},
	{.name = "layouts", .rule = UPGRADE_ANEW},
	{.name = "path_cpu", .rule = UPGRADE_ANEW},
	{.name = "path_records", .rule = UPGRADE_ANEW},
	{.name = "probes", .rule = UPGRADE_ANEW},
	{.name = "qp_sent", .rule = UPGRADE_ANEW},
	{.name = "receipt_cpu", .rule = UPGRADE_ANEW},
	{.name = "repair_cpu", .rule = UPGRADE_ANEW},
	{.name = "repair_rings", .rule = UPGRADE_ANEW},
	{.name = "rx_timestamps", .rule = UPGRADE_ANEW},
	{.name = "xdp_counted", .rule = UPGRADE_ANEW},
};

static const struct upgrade_map *upgrade_find(const char *name)
{
	static const struct upgrade_map copy = {.rule = UPGRADE_COPY};

	for (size_t i = 0; i < sizeof(upgrade_maps) / sizeof(*upgrade_maps); i++)
		if (!strcmp(upgrade_maps[i].name, name))
			return &upgrade_maps[i];
	return &copy;
}

static bool upgrade_names(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += length)
		if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
			return true;
	return false;
}

/* --- values --- */

struct side {
	const struct pinned_map *map;
	struct btf *btf;
	size_t each, bytes; /* of a value: on one CPU, and as the kernel copies it */
	char *key, *value;
};

struct carry {
	struct side from, to;
	unsigned int cpus;
	const struct upgrade_map *how;
	struct carry_program *program;
};

static bool map_is_per_cpu(const struct pinned_map *map)
{
	return map->info.type == BPF_MAP_TYPE_PERCPU_ARRAY ||
	       map->info.type == BPF_MAP_TYPE_PERCPU_HASH;
}

static int side_open(struct side *side, const struct pinned_map *map, unsigned int cpus)
{
	side->map = map;
	side->each = map_is_per_cpu(map) ? (map->info.value_size + 7) & ~7u : map->info.value_size;
	side->bytes = map_is_per_cpu(map) ? side->each * cpus : side->each;
	side->key = calloc(1, map->info.key_size);
	side->value = calloc(1, side->bytes);
	side->btf = btf__load_from_kernel_by_id(map->info.btf_id);
	if (libbpf_get_error(side->btf))
		side->btf = NULL;
	return side->btf && side->key && side->value ? 0 : -ENOTSUP;
}

static void side_close(struct side *side)
{
	btf__free(side->btf);
	free(side->key);
	free(side->value);
}

static const struct btf_type *type_skip(const struct btf *btf, __u32 *id)
{
	*id = btf__resolve_type(btf, *id);
	return btf__type_by_id(btf, *id);
}

/* The member of @type called @name; NULL: none, or a bit field. */
static const struct btf_member *member_find(const struct btf *btf, const struct btf_type *type,
					    const char *name)
{
	const struct btf_member *member = btf_members(type);

	for (__u32 i = 0; i < btf_vlen(type); i++, member++)
		if (!strcmp(btf__name_by_offset(btf, member->name_off), name))
			return btf_member_bitfield_size(type, i) ? NULL : member;
	return NULL;
}

/* The same by the name of now: with ESC_ABI_BEFORE some fields had another. */
static const struct btf_member *member_before(const struct btf *btf, const struct btf_type *type,
					      const char *name)
{
	static const char *const names[][2] = {{"slew_end_local_ns", "turn_local_ns"},
					       {"slew_end_fabric_ns", "turn_fabric_ns"},
					       {"ref_rate", "line_rate"}};
	const struct btf_member *member = member_find(btf, type, name);

	for (size_t i = 0; !member && i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i][0]))
			member = member_find(btf, type, names[i][1]);
	return member;
}

/* Copies what both types have; @to is zero before. Both are of this little-endian machine. */
static void convert(const struct btf *from_btf, __u32 from_id, const char *from,
		    const struct btf *to_btf, __u32 to_id, char *to)
{
	const struct btf_type *from_type = type_skip(from_btf, &from_id);
	const struct btf_type *to_type = type_skip(to_btf, &to_id);
	__s64 from_bytes = btf__resolve_size(from_btf, from_id);
	__s64 to_bytes = btf__resolve_size(to_btf, to_id);

	if (!from_type || !to_type || from_bytes < 0 || to_bytes < 0 ||
	    btf_is_composite(from_type) != btf_is_composite(to_type) ||
	    btf_is_array(from_type) != btf_is_array(to_type))
		return;
	if (btf_is_composite(to_type)) {
		const struct btf_member *member = btf_members(to_type), *same;

		for (__u32 i = 0; i < btf_vlen(to_type); i++, member++) {
			same = btf_member_bitfield_size(to_type, i)
				       ? NULL
				       : member_before(
						 from_btf, from_type,
						 btf__name_by_offset(to_btf, member->name_off));
			if (same)
				convert(from_btf, same->type, from + same->offset / 8, to_btf,
					member->type, to + member->offset / 8);
		}
	} else if (btf_is_array(to_type)) {
		const struct btf_array *a = btf_array(from_type), *b = btf_array(to_type);
		__u32 count = a->nelems < b->nelems ? a->nelems : b->nelems;

		for (__u32 i = 0; i < count; i++)
			convert(from_btf, a->type, from + from_bytes / a->nelems * i, to_btf,
				b->type, to + to_bytes / b->nelems * i);
	} else {
		memcpy(to, from, from_bytes < to_bytes ? from_bytes : to_bytes);
	}
}

/* The index in the new map of what has @index in the old one, by its name; -ENOENT: it is gone. */
static int convert_index(const struct carry *carry, __u32 index)
{
	const struct btf *from = carry->from.btf, *to = carry->to.btf;
	__s32 from_id = btf__find_by_name_kind(from, carry->how->names, BTF_KIND_ENUM);
	__s32 to_id = btf__find_by_name_kind(to, carry->how->names, BTF_KIND_ENUM);
	const struct btf_type *old = btf__type_by_id(from, from_id);
	const struct btf_type *new = btf__type_by_id(to, to_id);

	for (__u32 i = 0; i < btf_vlen(old); i++) {
		const char *name = btf__name_by_offset(from, btf_enum(old)[i].name_off);

		if ((__u32)btf_enum(old)[i].val != index)
			continue;
		for (__u32 j = 0; j < btf_vlen(new); j++)
			if (!strcmp(btf__name_by_offset(to, btf_enum(new)[j].name_off), name))
				return btf_enum(new)[j].val;
	}
	return -ENOENT;
}

/* False: the new map has no such entry. */
static bool convert_entry(struct carry *carry)
{
	int index;

	const struct bpf_map_info *from = &carry->from.map->info, *to = &carry->to.map->info;
	unsigned int values = map_is_per_cpu(carry->to.map) ? carry->cpus : 1;

	memset(carry->to.key, 0, to->key_size);
	memset(carry->to.value, 0, carry->to.bytes);
	convert(carry->from.btf, from->btf_key_type_id, carry->from.key, carry->to.btf,
		to->btf_key_type_id, carry->to.key);
	for (unsigned int i = 0; i < values; i++)
		convert(carry->from.btf, from->btf_value_type_id,
			carry->from.value + i * carry->from.each, carry->to.btf,
			to->btf_value_type_id, carry->to.value + i * carry->to.each);
	if (!carry->how->names)
		return true;
	memcpy(&index, carry->from.key, sizeof(index));
	index = convert_index(carry, index);
	memcpy(carry->to.key, &index, sizeof(index));
	return index >= 0;
}

/* --- adding to an entry that is counted in --- */

static void carry_run(struct carry *carry)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);
	struct esc_carry *in = &carry->program->bss->esc_carry_in;

	memcpy(in->key, carry->to.key, carry->to.map->info.key_size);
	if (in->count)
		bpf_prog_test_run_opts(bpf_program__fd(carry->program->progs.esc_carry), &run);
	in->count = 0;
}

static void carry_step(struct carry *carry, bool add, size_t offset, size_t bytes, __u64 value)
{
	struct esc_carry *in = &carry->program->bss->esc_carry_in;

	if (in->count == ESC_CARRY_STEPS)
		carry_run(carry);
	in->steps[in->count++] = (struct esc_carry_step){
		.act = bytes == 4 ? (add ? ESC_CARRY_ADD4 : ESC_CARRY_SET4)
				  : (add ? ESC_CARRY_ADD8 : ESC_CARRY_SET8),
		.offset = offset,
		.value = value,
	};
}

static __s64 field_read(const char *at, size_t bytes)
{
	__s32 four;
	__s64 eight;

	if (bytes == 4) {
		memcpy(&four, at, 4);
		return four;
	}
	memcpy(&eight, at, 8);
	return eight;
}

/* All leaves below @id, whose value of every CPU is summed. */
static void carry_sum(struct carry *carry, __u32 id, size_t offset)
{
	const struct btf_type *type = type_skip(carry->to.btf, &id);
	__s64 bytes = btf__resolve_size(carry->to.btf, id);
	unsigned int values = map_is_per_cpu(carry->to.map) ? carry->cpus : 1;
	__u64 sum = 0;

	if (btf_is_array(type)) {
		for (__u32 i = 0; i < btf_array(type)->nelems; i++)
			carry_sum(carry, btf_array(type)->type,
				  offset + bytes / btf_array(type)->nelems * i);
	} else if (btf_is_composite(type)) {
		for (__u32 i = 0; i < btf_vlen(type); i++)
			carry_sum(carry, btf_members(type)[i].type,
				  offset + btf_members(type)[i].offset / 8);
	} else if (bytes == 4 || bytes == 8) {
		for (unsigned int i = 0; i < values; i++)
			sum += field_read(carry->to.value + i * carry->to.each + offset, bytes);
		if (sum)
			carry_step(carry, true, offset, bytes, sum);
	}
}

/* The extreme of both; 0 and 0 are those of an entry that has none. @now: the value of the map. */
static void carry_extremes(struct carry *carry, const struct btf_type *type, const char *now)
{
	const struct btf_member *least = member_find(carry->to.btf, type, carry->how->least);
	const struct btf_member *most = member_find(carry->to.btf, type, carry->how->most);
	size_t at_least = least ? least->offset / 8 : 0, at_most = most ? most->offset / 8 : 0;
	size_t bytes = least ? btf__resolve_size(carry->to.btf, least->type) : 0;
	__s64 was_least, was_most, is_least, is_most;

	if (!least || !most)
		return;
	was_least = field_read(carry->to.value + at_least, bytes);
	was_most = field_read(carry->to.value + at_most, bytes);
	is_least = field_read(now + at_least, bytes);
	is_most = field_read(now + at_most, bytes);
	if (!was_least && !was_most)
		return;
	if (was_least < is_least || (!is_least && !is_most))
		carry_step(carry, false, at_least, bytes, was_least);
	if (was_most > is_most || (!is_least && !is_most))
		carry_step(carry, false, at_most, bytes, was_most);
}

/* carry->to.value, converted, is added to the entry of carry->to.key. */
static void carry_add(struct carry *carry)
{
	__u32 id = carry->to.map->info.btf_value_type_id;
	const struct btf_type *type = type_skip(carry->to.btf, &id);
	const struct btf_member *member = btf_members(type);
	char *now = calloc(1, carry->to.bytes);

	for (__u32 i = 0; i < btf_vlen(type); i++, member++) {
		const char *name = btf__name_by_offset(carry->to.btf, member->name_off);

		if (upgrade_names(carry->how->sum, name))
			carry_sum(carry, member->type, member->offset / 8);
		else if (name[0] && !strcmp(carry->how->first, name))
			carry_step(carry, false, member->offset / 8, 8,
				   field_read(carry->to.value + member->offset / 8, 8));
	}
	if (carry->how->least[0] && now &&
	    !bpf_map_lookup_elem(carry->to.map->fd, carry->to.key, now))
		carry_extremes(carry, type, now);
	carry_run(carry);
	free(now);
}

static int carry_load(struct carry *carry)
{
	struct carry_program *program = carry_program__open();
	int err;

	if (!program)
		return -errno;
	carry->program = program;
	program->rodata->esc_carry_bytes = carry->to.map->info.value_size;
	err = bpf_map__reuse_fd(program->maps.carry_to, carry->to.map->fd);
	return err ? err : carry_program__load(program);
}

/* --- maps --- */

static int carry_open(struct carry *carry, const struct pinned_map *from,
		      const struct pinned_map *to)
{
	int cpus = libbpf_num_possible_cpus(), err;

	*carry = (struct carry){.cpus = cpus, .how = upgrade_find(to->name)};
	if (cpus < 0 || from->info.key_size > ESC_CARRY_KEY_BYTES ||
	    to->info.key_size > ESC_CARRY_KEY_BYTES || !from->info.btf_value_type_id ||
	    map_is_per_cpu(from) != map_is_per_cpu(to))
		return -ENOTSUP;
	err = side_open(&carry->from, from, cpus);
	if (!err)
		err = side_open(&carry->to, to, cpus);
	if (!err && carry->how->names &&
	    (btf__find_by_name_kind(carry->from.btf, carry->how->names, BTF_KIND_ENUM) < 0 ||
	     btf__find_by_name_kind(carry->to.btf, carry->how->names, BTF_KIND_ENUM) < 0))
		err = -ENOTSUP;
	return err;
}

static void carry_close(struct carry *carry)
{
	carry_program__destroy(carry->program);
	side_close(&carry->from);
	side_close(&carry->to);
}

/* Calls @entry with each entry of the old map, converted; it may delete that. */
static void carry_each(struct carry *carry, void (*entry)(struct carry *carry))
{
	size_t bytes = carry->from.map->info.key_size;
	char next[ESC_CARRY_KEY_BYTES];
	int fd = carry->from.map->fd;
	bool more = !bpf_map_get_next_key(fd, NULL, next);

	while (more) {
		memcpy(carry->from.key, next, bytes);
		more = !bpf_map_get_next_key(fd, carry->from.key, next);
		if (bpf_map_lookup_elem(fd, carry->from.key, carry->from.value))
			continue;
		if (convert_entry(carry))
			entry(carry);
	}
}

static void copy_entry(struct carry *carry)
{
	bpf_map_update_elem(carry->to.map->fd, carry->to.key, carry->to.value, BPF_ANY);
}

/* A map moves entry by entry: what another daemon does after us, it does with what is left. */
static void add_entry(struct carry *carry)
{
	__u32 type = carry->to.map->info.type;
	int fd = carry->from.map->fd;

	if (type == BPF_MAP_TYPE_HASH &&
	    !bpf_map_update_elem(carry->to.map->fd, carry->to.key, carry->to.value, BPF_NOEXIST)) {
		bpf_map_delete_elem(fd, carry->from.key);
		return;
	}
	carry_add(carry);
	if (type == BPF_MAP_TYPE_HASH) {
		bpf_map_delete_elem(fd, carry->from.key);
		return;
	}
	memset(carry->from.value, 0, carry->from.bytes);
	bpf_map_update_elem(fd, carry->from.key, carry->from.value, BPF_ANY);
}

int upgrade_copy(const struct pinned_map *from, const struct pinned_map *to)
{
	struct carry carry;
	int err;

	if (upgrade_find(to->name)->rule != UPGRADE_COPY)
		return 0;
	err = carry_open(&carry, from, to);
	if (!err)
		carry_each(&carry, copy_entry);
	carry_close(&carry);
	return err;
}

static int upgrade_add(const struct pinned_map *from, const struct pinned_map *to)
{
	struct carry carry;
	int err = carry_open(&carry, from, to);

	if (!err)
		err = carry_load(&carry);
	if (!err)
		carry_each(&carry, add_entry);
	carry_close(&carry);
	return err;
}

void upgrade_wait_grace_period(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
		return;
	usleep(200000); /* nohz_full kernels refuse; a packet's programs take microseconds */
}

void upgrade_carry(struct pins *pins, bool late)
{
	const struct pinned_map *to;

	if (pins->old_count)
		upgrade_wait_grace_period();
	for (size_t i = 0; i < pins->old_count; i++) {
		struct pinned_map *from = &pins->old[i];
		const struct upgrade_map *how = upgrade_find(from->name);

		to = pins_find(pins, from->name);
		if (!to || how->rule != UPGRADE_ADD || (how->late && !late) || from->lost)
			continue;
		from->lost = upgrade_add(from, to) != 0;
		if (from->lost)
			log_warning("the counts of the map %s cannot be carried over: they start "
				    "from 0",
				    from->name);
	}
}

long upgrade_handover_offset(const struct pinned_map *control)
{
	struct btf *btf = btf__load_from_kernel_by_id(control->info.btf_id);
	__u32 id = control->info.btf_value_type_id;
	const struct btf_type *type;
	const struct btf_member *member;
	long offset = -ENOENT;

	if (libbpf_get_error(btf))
		return -ENOENT;
	type = type_skip(btf, &id);
	member = type && btf_is_composite(type) ? member_find(btf, type, "xdp_handover") : NULL;
	if (member)
		offset = member->offset / 8;
	btf__free(btf);
	return offset;
}

/* --- the end of an upgrade or downgrade --- */

/* Maps of another release that ours does not have; else an upgrade would find old contents. */
static void pins_unpin_unknown(struct pins *pins)
{
	DIR *directory = opendir(pins->root);
	struct pinned_map map;
	struct esc_layout layout;
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "links") ||
		    !strcmp(entry->d_name, PINS_NEXT) || pins_find(pins, entry->d_name) ||
		    pins_open_one(pins, entry->d_name, false, &map, NULL))
			continue;
		if (!bpf_map_lookup_elem(pins_map_fd(pins, "layouts"), &map.info.id, &layout))
			unlinkat(pins->lock_fd, entry->d_name, 0);
		close(map.fd);
	}
	if (directory)
		closedir(directory);
}

static void pins_commit(struct pins *pins)
{
	char from[PATH_MAX], to[PATH_MAX];

	for (size_t i = 0; i < pins->count; i++) {
		struct pinned_map *map = &pins->maps[i];

		pins_map_path(pins, map->name, true, from, sizeof(from));
		pins_map_path(pins, map->name, false, to, sizeof(to));
		if (!map->next) {
			unlink(from); /* of another release's start that was cut short */
		} else if (rename(from, to)) {
			log_warning("%s cannot be renamed to %s: %s", from, to, strerror(errno));
			return;
		}
		map->next = false;
	}
	for (size_t i = 0; i < pins->old_count; i++) {
		bpf_map_delete_elem(pins_map_fd(pins, "layouts"), &pins->old[i].info.id);
		close(pins->old[i].fd);
	}
	pins->old_count = 0;
	if (pins->old_control)
		munmap(pins->old_control, getpagesize());
	pins->old_control = pins->old_handover = NULL;
	pins_map_path(pins, "", true, from, sizeof(from));
	rmdir(from);
	pins_unpin_unknown(pins);
	pins_write_abi(pins_map_fd(pins, "abi"));
}

void pins_settle(struct pins *pins, bool all)
{
	if (!pins->old_count)
		return;
	upgrade_carry(pins, all);
	if (all)
		pins_commit(pins);
}
