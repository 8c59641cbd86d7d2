// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/events.h"
#include "qp/internal.h"

#define SECOND 1000000000ULL
#define IDLE (10 * SECOND)

struct world {
	int fd;
	struct events *ledger;
	struct qptable *table;
};

static void world_open(struct world *world, uint32_t max)
{
	world->fd = bpf_map_create(BPF_MAP_TYPE_HASH, "test_qps", sizeof(struct esc_qp_key),
				   sizeof(struct esc_qp), max, NULL);
	if (world->fd < 0)
		cr_skip_test("no map can be made: %s", strerror(-world->fd));
	cr_assert_eq(events_new(&world->ledger, 1000, NULL), 0);
	cr_assert_eq(qptable_new(&world->table, world->fd, max, IDLE, world->ledger), 0);
}

static void world_close(struct world *world)
{
	qptable_free(world->table);
	events_free(world->ledger);
	close(world->fd);
}

static struct esc_qp_key key_of(uint32_t qpn, enum esc_direction direction)
{
	struct esc_qp_key key = {.dest_qpn = qpn, .direction = direction};

	memcpy(key.src.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1", 16);
	memcpy(key.dst.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\2", 16);
	return key;
}

static void put(struct world *world, uint32_t qpn, enum esc_direction direction, uint64_t packets,
		uint64_t first_local_ns)
{
	struct esc_qp_key key = key_of(qpn, direction);
	struct esc_qp qp = {.packets = packets,
			    .bytes = packets * 100,
			    .messages = packets,
			    .first_local_ns = first_local_ns};

	cr_assert_eq(bpf_map_update_elem(world->fd, &key, &qp, BPF_ANY), 0);
}

static size_t events(struct world *world, const char *kind)
{
	json_t *all = events_since(world->ledger, 0), *event;
	size_t i, count = 0;

	json_array_foreach (all, i, event)
		count += !strcmp(json_string_value(json_object_get(event, "kind")), kind);
	json_decref(all);
	return count;
}

static size_t count_of(struct world *world)
{
	size_t count;

	qptable_entries(world->table, &count);
	return count;
}

static uint64_t total_messages(struct world *world, enum esc_direction direction)
{
	struct qp_totals totals;

	qptable_totals(world->table, direction, &totals);
	return totals.messages;
}

Test(qptable, a_life)
{
	uint64_t start = 100 * SECOND;
	const struct qp_entry *entries;
	struct world world;
	size_t count;

	world_open(&world, 64);
	cr_assert_eq(qptable_refresh(world.table, start, 0), 0);
	put(&world, 17, ESC_DIRECTION_TX, 1000, start + SECOND / 2);
	put(&world, 17, ESC_DIRECTION_RX, 10, start + SECOND / 2);
	cr_assert_eq(qptable_refresh(world.table, start + SECOND, 0), 0);
	entries = qptable_entries(world.table, &count);
	cr_assert_eq(count, 2);
	cr_expect_eq(entries[0].key.direction, ESC_DIRECTION_TX, "sorted by key");
	cr_expect_float_eq(entries[0].packets_per_second, 2000, 1e-6, "since its first packet");
	cr_expect_eq(events(&world, "qp_seen"), 2);

	put(&world, 17, ESC_DIRECTION_TX, 1500, start + SECOND / 2);
	cr_assert_eq(qptable_refresh(world.table, start + SECOND + 1000, 0), 0);
	entries = qptable_entries(world.table, &count);
	cr_expect_eq(entries[0].qp.packets, 1500, "counts are of this moment");
	cr_expect_float_eq(entries[0].packets_per_second, 2000, 1e-6,
			   "a rate is not over a moment");
	cr_assert_eq(qptable_refresh(world.table, start + 2 * SECOND, 0), 0);
	entries = qptable_entries(world.table, &count);
	cr_expect_float_eq(entries[0].packets_per_second, 500, 1e-6);
	cr_expect_float_eq(entries[0].bytes_per_second, 50000, 1e-6);

	/* rx has been still since +1 s, tx since just after. */
	cr_assert_eq(qptable_refresh(world.table, start + SECOND + IDLE - 1, 0), 0);
	cr_expect_eq(count_of(&world), 2);
	cr_assert_eq(qptable_refresh(world.table, start + SECOND + IDLE, 0), 0);
	cr_expect_eq(count_of(&world), 1);
	cr_assert_eq(qptable_refresh(world.table, start + 3 * SECOND + IDLE, 0), 0);
	cr_expect_eq(count_of(&world), 0);
	cr_expect_eq(events(&world, "qp_gone"), 2);
	cr_expect_eq(total_messages(&world, ESC_DIRECTION_TX), 1500, "totals outlive their QPs");
	cr_expect_eq(total_messages(&world, ESC_DIRECTION_RX), 10);
	world_close(&world);
}

/* The shares of the table, and the counts of entries that the programs add to. */
Test(qptable, shares)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	struct esc_qp_key key = key_of(1, ESC_DIRECTION_TX);
	struct esc_qp qp = {.packets = 1, .unknown = 1};
	struct esc_qp_room room = {};
	struct world world;
	uint32_t zero = 0;
	int fd;

	world_open(&world, 64);
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "test_room", sizeof(zero), sizeof(room), 1,
			    &options);
	cr_assert_geq(fd, 0);
	cr_assert_eq(qptable_share(world.table, fd), 0);
	cr_assert_eq(qptable_refresh(world.table, SECOND, 0), 0);
	put(&world, 1, ESC_DIRECTION_RX, 1, SECOND);
	bpf_map_update_elem(world.fd, &key, &qp, BPF_ANY);
	for (uint32_t qpn = 2; qpn < 12; qpn++) {
		key = key_of(qpn, ESC_DIRECTION_RX);
		bpf_map_update_elem(world.fd, &key, &qp, BPF_ANY);
	}
	cr_assert_eq(qptable_refresh(world.table, 2 * SECOND, 0), 0);
	bpf_map_lookup_elem(fd, &zero, &room);
	cr_expect(room.rx_max == 32 && room.unknown_max == 16 && room.foreign_max == 16);
	cr_expect(room.rx == 11 && room.unknown == 10 && room.foreign == 1, "%u %u %u", room.rx,
		  room.unknown, room.foreign);
	qptable_set_devices(world.table, (const uint32_t[]){3, 5}, 2);
	bpf_map_lookup_elem(fd, &zero, &room);
	cr_expect(room.device_count == 2 && room.devices[0] == 3 && room.devices[1] == 5);
	qptable_set_devices(world.table, NULL, ESC_QP_ROOM_DEVICES + 1);
	bpf_map_lookup_elem(fd, &zero, &room);
	cr_expect_eq(room.device_count, 0, "of more devices not all would be known");
	cr_expect_eq(events(&world, "qp_seen"), 3, "unknown hosts are not reported one by one");
	world_close(&world);
	close(fd);
}

Test(qptable, others_delete)
{
	struct esc_qp_key key = key_of(1, ESC_DIRECTION_TX);
	struct world world;

	world_open(&world, 64);
	put(&world, 1, ESC_DIRECTION_TX, 5, 50);
	put(&world, 2, ESC_DIRECTION_TX, 7, 60);
	cr_assert_eq(qptable_refresh(world.table, SECOND, 0), 0);
	cr_expect_eq(events(&world, "qp_seen"), 1, "those there before are summed up");
	bpf_map_delete_elem(world.fd, &key);
	put(&world, 2, ESC_DIRECTION_TX, 1, 70); /* deleted, and came again */
	cr_assert_eq(qptable_refresh(world.table, 2 * SECOND, 0), 0);
	cr_expect_eq(count_of(&world), 1);
	cr_expect_eq(total_messages(&world, ESC_DIRECTION_TX), 5 + 7 + 1);
	cr_expect_eq(events(&world, "qp_gone"), 2);
	cr_expect_eq(events(&world, "qp_seen"), 2);
	world_close(&world);
}

Test(qptable, what_was_there_before_us_has_not_moved_until_it_does)
{
	const struct qp_entry *entries;
	struct world world;
	size_t count;

	world_open(&world, 64);
	put(&world, 1, ESC_DIRECTION_TX, 5, 50);
	cr_assert_eq(qptable_refresh(world.table, SECOND, 0), 0);
	put(&world, 2, ESC_DIRECTION_TX, 7, SECOND);
	cr_assert_eq(qptable_refresh(world.table, 2 * SECOND, 0), 0);
	entries = qptable_entries(world.table, &count);
	cr_assert_eq(count, 2);
	cr_expect_eq(entries[0].seen_local_ns, SECOND, "so it is not aged at once");
	cr_expect_eq(entries[0].moved_local_ns, 0);
	cr_expect_eq(entries[1].moved_local_ns, 2 * SECOND, "it came while we were here");
	put(&world, 1, ESC_DIRECTION_TX, 6, 50);
	cr_assert_eq(qptable_refresh(world.table, 3 * SECOND, 0), 0);
	entries = qptable_entries(world.table, &count);
	cr_expect_eq(entries[0].moved_local_ns, 3 * SECOND);
	cr_expect_eq(entries[1].moved_local_ns, 2 * SECOND);
	world_close(&world);
}

Test(qptable, many_and_full)
{
	struct world world;

	world_open(&world, 2048);
	cr_assert_eq(qptable_refresh(world.table, SECOND, 3), 0);
	cr_expect_eq(events(&world, "qp_table_full"), 0, "refused before our time");
	for (uint32_t qpn = 0; qpn < 2048; qpn++)
		put(&world, qpn, qpn & 1, 3, SECOND);
	cr_assert_eq(qptable_refresh(world.table, 2 * SECOND, 3 + 40), 0);
	cr_expect_eq(count_of(&world), 2048, "each once, whatever the batches");
	cr_expect_eq(total_messages(&world, ESC_DIRECTION_TX) +
			     total_messages(&world, ESC_DIRECTION_RX),
		     3 * 2048);
	cr_expect_eq(events(&world, "qp_seen"), 64 + 1, "a storm is summed up");
	cr_expect_eq(events(&world, "qp_table_full"), 1);
	cr_assert_eq(qptable_refresh(world.table, 3 * SECOND, 3 + 50), 0);
	cr_expect_eq(events(&world, "qp_table_full"), 1, "not more often than each 10 s");
	cr_assert_eq(qptable_refresh(world.table, 13 * SECOND, 3 + 50), 0);
	cr_expect_eq(events(&world, "qp_table_full"), 2, "suppressed events are counted");
	world_close(&world);
}

Test(qptable, message_quantile)
{
	struct esc_qp qp = {0};

	cr_expect_eq(qp_message_quantile(&qp, 0.5), 0, "nothing seen");
	qp.message_sizes[17] = (struct esc_message_bucket){.count = 100, .bytes = 6553600};
	cr_expect_eq(qp_message_quantile(&qp, 0.5), 65536, "one size is exact");
	qp.message_sizes[0] = (struct esc_message_bucket){.count = 99};
	cr_expect_eq(qp_message_quantile(&qp, 0.5), 65536);
	qp.message_sizes[0].count = 101;
	cr_expect_eq(qp_message_quantile(&qp, 0.5), 0);
	cr_expect_eq(qp_message_quantile(&qp, 0.99), 65536);
	qp.message_sizes[3] = (struct esc_message_bucket){.count = 1000, .bytes = 5500};
	cr_expect_eq(qp_message_quantile(&qp, 0.5), 5, "the mean of its bucket");
}
