/* SPDX-License-Identifier: BSD-2-Clause */
/* A host that replies to probes: its maps filled in, its programs run, its ring read. */
#ifndef ESC_TESTS_BPF_PROBE_WORLD_H
#define ESC_TESTS_BPF_PROBE_WORLD_H

#include <time.h>

#include "probe_model.h"
#include "tests/lib/tap.h"
#include "world.h"

#define XDP_VERDICT_DROP 1
#define XDP_VERDICT_PASS 2
#define XDP_VERDICT_TX 3

#define SELF 0x1111222233334444ull
#define PEER 0xaaaabbbbccccddddull
#define OTHER 0x5555666677778888ull
#define OWN_EPOCH 1700000000000000001ull
#define PEER_EPOCH 1700000000000000777ull

static const struct probe_key keys[3] = {
	{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
	{{0x93, 0x11, 0x5c, 0xee, 0x02, 0x77, 0xfa, 0x40, 9, 8, 7, 6, 5, 4, 3, 2}},
	{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}, /* of no member */
};

static const uint8_t own_view[P_VIEW_BYTES] = {
	1,  2,	3,  4,	5,  6,	7,  8,	9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
	21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 2,  0x8b};

#define PROBE_HAS_KEYS (ESC_FLEET_HAS_KEY0 | ESC_FLEET_HAS_KEY1)

struct probe_world {
	struct world world;
	struct ring_buffer *ring;
	struct esc_probe_event event; /* newest */
	unsigned int events;
};

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static inline int probe_take_event(void *context, void *data, size_t bytes)
{
	struct probe_world *w = context;

	if (bytes != sizeof(w->event))
		return -EINVAL;
	memcpy(&w->event, data, bytes);
	w->events++;
	return 0;
}

static inline int probe_world_open(struct probe_world *w, const struct world_options *options)
{
	int error = world_open(&w->world, options);

	w->events = 0;
	w->ring = error ? NULL
			: ring_buffer__new(bpf_map__fd(w->world.kernel->maps.probes),
					   probe_take_event, w, NULL);
	return error ? error : w->ring ? 0 : -errno;
}

static inline void probe_world_close(struct probe_world *w)
{
	ring_buffer__free(w->ring);
	world_close(&w->world);
}

/* Records that came since the last call; the newest is in w->event. */
static inline unsigned int probe_events(struct probe_world *w)
{
	w->events = 0;
	ring_buffer__consume(w->ring);
	return w->events;
}

static inline struct esc_fleet probe_fleet_usual(void)
{
	struct esc_fleet fleet = {
		.self = SELF,
		.epoch = OWN_EPOCH,
		.flags = ESC_FLEET_HAS_KEY0 | ESC_FLEET_SHARED0 | ESC_FLEET_SHARED1 |
			 ESC_FLEET_REPLY,
		.reply_max_pps = 1000,
		.path_max_pps = 1000,
		.view_generation = 1,
		.anchor_generation = 1,
	};

	memcpy(fleet.key[0], keys[0].bytes, 16);
	memcpy(fleet.key[1], keys[1].bytes, 16);
	memcpy(&fleet.view[1], own_view, P_VIEW_BYTES);
	memcpy(&fleet.anchor[1], own_anchor, P_ANCHOR_BYTES);
	return fleet;
}

static inline void probe_set_fleet(struct probe_world *w, const struct esc_fleet *fleet)
{
	uint32_t zero = 0;

	bpf_map_update_elem(bpf_map__fd(w->world.kernel->maps.fleet), &zero, fleet, BPF_ANY);
}

/* With the keys of the fleet as those of the pair. */
static inline struct esc_peer probe_peer_keyed(void)
{
	struct esc_peer peer = {.name = "peer", .key_flags = PROBE_HAS_KEYS};

	memcpy(peer.key[0], keys[0].bytes, 16);
	memcpy(peer.key[1], keys[1].bytes, 16);
	return peer;
}

static inline struct esc_peer_key probe_peer_key(const struct probe_world *w, uint64_t id)
{
	return (struct esc_peer_key){.id = id, .plane = w->world.kernel->rodata->esc_plane};
}

static inline void probe_set_peer(struct probe_world *w, uint64_t id, const struct esc_peer *peer)
{
	struct esc_peer_key key = probe_peer_key(w, id);

	bpf_map_update_elem(bpf_map__fd(w->world.kernel->maps.peers), &key, peer, BPF_ANY);
}

static inline struct esc_peer probe_get_peer(struct probe_world *w, uint64_t id)
{
	struct esc_peer_key key = probe_peer_key(w, id);
	struct esc_peer peer = {0};

	bpf_map_lookup_elem(bpf_map__fd(w->world.kernel->maps.peers), &key, &peer);
	return peer;
}

/* Forgets what was received and counted. One peer, at any address. */
static inline void probe_reset(struct probe_world *w)
{
	struct esc_fleet fleet = probe_fleet_usual();
	struct esc_peer_key other = probe_peer_key(w, OTHER);

	world_reset(&w->world);
	probe_set_fleet(w, &fleet);
	probe_set_peer(w, PEER, &(struct esc_peer){.name = "peer"});
	bpf_map_delete_elem(bpf_map__fd(w->world.kernel->maps.peers), &other);
	probe_events(w);
}

/* Runs one hook over @in. The verdict, or -errno. */
static inline int probe_run(struct probe_world *w, enum world_hook hook, const struct frame *in,
			    struct frame *out, uint32_t linear)
{
	struct xdp_md context = {.data_end = linear};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = in->data, .data_size_in = in->bytes,
		    .data_out = out->data, .data_size_out = sizeof(out->data), .repeat = 1);
	int error;

	if (linear) {
		o.ctx_in = &context;
		o.ctx_size_in = sizeof(context);
	}
	error = bpf_prog_test_run_opts(w->world.programs[hook], &o);
	out->bytes = o.data_size_out;
	return error ? error : (int)o.retval;
}

/* True when @reason was counted @times at @hook and no other reason at any. */
static inline bool probe_reason_is(struct probe_world *w, enum world_hook hook, int reason,
				   uint64_t times)
{
	uint64_t counts[ESC_REASON_MAX];
	int i, at;
	bool good = true;

	for (at = 0; at < WORLD_HOOKS; at++) {
		world_reasons(&w->world, counts, at);
		for (i = 0; i < ESC_REASON_MAX; i++) {
			uint64_t want = i == reason && at == (int)hook ? times : 0;

			if (counts[i] != want)
				printf("# %s: %s is %llu, must be %llu\n", world_hook_names[at],
				       world_reason_name(i), (unsigned long long)counts[i],
				       (unsigned long long)want);
			good = good && counts[i] == want;
		}
	}
	return good;
}

/* A request that is replied to, of PEER. */
static inline struct probe_plan probe_plan_usual(void)
{
	return (struct probe_plan){
		.sender = PEER,
		.target = SELF,
		.epoch = PEER_EPOCH,
		.sequence = 100,
		.pair = 50,
		.t1 = 123456789,
		.received_age_us = 4321,
		.key = &keys[0],
	};
}

static inline struct probe_plan probe_plan_reply(void)
{
	struct probe_plan plan = probe_plan_usual();

	plan.opcode = ESC_PROBE_OPCODE_REPLY;
	plan.echo_epoch = OWN_EPOCH;
	plan.t2 = 1000001;
	plan.t3 = 1000002;
	return plan;
}

static inline bool probe_same(const struct frame *have, const struct frame *want)
{
	uint32_t i;

	if (have->bytes != want->bytes) {
		printf("# %u bytes, must be %u\n", have->bytes, want->bytes);
		return false;
	}
	for (i = 0; i < have->bytes; i++)
		if (have->data[i] != want->data[i]) {
			printf("# byte %u (BTH + %d) is %02x, must be %02x\n", i,
			       (int)i - (int)probe_bth(want), have->data[i], want->data[i]);
			return false;
		}
	return true;
}

#endif
