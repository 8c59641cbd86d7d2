/* SPDX-License-Identifier: BSD-2-Clause */
/* A host with paths to one peer: receipt_world.h's, with slot, table and ring of paths. */
#ifndef ESC_TESTS_BPF_PATH_WORLD_H
#define ESC_TESTS_BPF_PATH_WORLD_H

#include "path_model.h"
#include "receipt_world.h"

#define SLOT 77
#define PATH 3
#define PATH_PORT 50003 /* of path PATH_ID; others have it and their distance */
#define PEER_KTIME 900000000000ull

struct path_world {
	struct receipt_world r;
	struct ring_buffer *ring;
	struct esc_path_record record; /* newest */
	unsigned int records;
};

static inline int path_take_record(void *context, void *data, size_t bytes)
{
	struct path_world *p = context;

	if (bytes != sizeof(p->record))
		return -EINVAL;
	memcpy(&p->record, data, bytes);
	p->records++;
	return 0;
}

static inline struct world *path_kernel(struct path_world *p)
{
	return &p->r.w.world;
}

static inline int path_world_open(struct path_world *p, const struct world_options *options)
{
	int error = receipt_world_open(&p->r, options);

	p->ring = error ? NULL
			: ring_buffer__new(receipt_fd(&p->r, "path_records"), path_take_record, p,
					   NULL);
	return error ? error : p->ring ? 0 : -errno;
}

static inline void path_world_close(struct path_world *p)
{
	ring_buffer__free(p->ring);
	probe_world_close(&p->r.w);
}

static inline unsigned int path_records(struct path_world *p)
{
	p->records = 0;
	ring_buffer__consume(p->ring);
	return p->records;
}

/* Of packets that come in: from the peer to us; of those that leave: the other way. */
static inline struct esc_path_key path_way(int ip)
{
	return (struct esc_path_key){.src = receipt_address(ip, true, PEER_HOST),
				     .dst = receipt_address(ip, false, 0)};
}

static inline struct esc_path_key path_back(int ip)
{
	struct esc_path_key way = path_way(ip);

	return (struct esc_path_key){.src = way.dst, .dst = way.src};
}

static inline void path_set_slot(struct path_world *p, const struct esc_paths *slot)
{
	uint32_t number = SLOT;

	bpf_map_update_elem(receipt_fd(&p->r, "paths"), &number, slot, BPF_ANY);
}

static inline struct esc_paths path_get_slot(struct path_world *p)
{
	struct esc_paths slot = {0};
	uint32_t number = SLOT;

	bpf_map_lookup_elem(receipt_fd(&p->r, "paths"), &number, &slot);
	return slot;
}

static inline void path_find_slot(struct path_world *p, const struct esc_path_key *key)
{
	uint32_t number = SLOT;

	bpf_map_update_elem(receipt_fd(&p->r, "path_slots"), key, &number, BPF_ANY);
}

static inline bool path_get_received(struct path_world *p, const struct esc_path_key *way,
				     struct esc_path_received *received)
{
	memset(received, 0, sizeof(*received));
	return !bpf_map_lookup_elem(receipt_fd(&p->r, "path_received"), way, received);
}

static inline void path_set_received(struct path_world *p, const struct esc_path_key *way,
				     const struct esc_path_received *received)
{
	bpf_map_update_elem(receipt_fd(&p->r, "path_received"), way, received, BPF_ANY);
}

static inline void path_forget(struct path_world *p, const char *map)
{
	int fd = receipt_fd(&p->r, map);
	struct esc_path_key key;

	while (!bpf_map_get_next_key(fd, NULL, &key))
		bpf_map_delete_elem(fd, &key);
}

/* All paths have a port and a deadline; nothing was sent or received. */
static inline struct esc_paths path_slot_usual(const struct esc_path_key *key)
{
	struct esc_paths slot = {.peer = PEER, .key = *key, .peer_epoch = PEER_EPOCH};

	for (int i = 0; i < ESC_PATHS_MAX; i++)
		slot.paths[i] = (struct esc_path){.sport = PATH_PORT + i - PATH,
						  .deadline_ns = 3000000,
						  .backup = ESC_PATH_NONE};
	return slot;
}

/* @way: the slot's, from us to the peer. */
static inline void path_reset(struct path_world *p, const struct esc_path_key *way)
{
	struct esc_paths slot = path_slot_usual(way);

	receipt_reset(&p->r);
	receipt_refresh(&p->r, -3600000000000ll, 0); /* however slow the machine is */
	path_forget(p, "path_received");
	path_forget(p, "path_slots");
	path_set_slot(p, &slot);
	path_find_slot(p, way);
	path_records(p);
}

/* A request of PEER on path PATH_ID with a reply; it has no reports. */
static inline struct path_plan path_plan_usual(void)
{
	return (struct path_plan){
		.sender = PEER,
		.target = SELF,
		.epoch = PEER_EPOCH,
		.path = PATH,
		.port = PATH_PORT,
		.source_host = PEER_HOST,
		.sequence = 100,
		.t1_ktime = PEER_KTIME,
		.ktime = PEER_KTIME,
		.key = &keys[0],
	};
}

/* A reply of PEER to a request that we sent a millisecond ago. */
static inline struct path_plan path_plan_reply(void)
{
	struct path_plan plan = path_plan_usual();

	plan.opcode = ESC_PROBE_OPCODE_PATH_REPLY;
	plan.echo_epoch = OWN_EPOCH;
	plan.t1_ktime = now_ns() - 1000000;
	return plan;
}

static inline int path_send(struct path_world *p, const struct path_plan *plan)
{
	struct frame in, out;

	path_build(&in, plan);
	return probe_run(&p->r.w, WORLD_XDP, &in, &out, 0);
}

#endif
