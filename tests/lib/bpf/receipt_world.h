/* SPDX-License-Identifier: BSD-2-Clause */
/* A host that sends and receives receipts: one peer, fabric time, its records and delays read. */
#ifndef ESC_TESTS_BPF_RECEIPT_WORLD_H
#define ESC_TESTS_BPF_RECEIPT_WORLD_H

#include <unistd.h>

#include "probe_world.h"
#include "receipt_model.h"

#define FABRIC_AHEAD_NS 5000000000ll /* fabric time is CLOCK_MONOTONIC and this */
#define FABRIC_BOUND_NS 700
#define THRESHOLD_NS 50000
#define QPN 0x234567
#define PEER_HOST 0x0303

struct receipt_world {
	struct probe_world w;
	struct esc_control word;
	struct esc_peer peer;
};

static inline int receipt_fd(struct receipt_world *w, const char *name)
{
	return bpf_object__find_map_fd_by_name(w->w.world.kernel->obj, name);
}

/* The peer's address as frames have it: the source of what comes in, the destination of what
 * leaves. */
static inline struct esc_address receipt_address(int ip, bool source, uint16_t host)
{
	struct esc_address a = {.bytes = {[10] = 0xff, [11] = 0xff}};

	if (ip == 6) {
		a = (struct esc_address){.bytes = {0xfd, source ? 1 : 2}};
		a.bytes[14] = source ? host >> 8 : 0;
		a.bytes[15] = source ? host & 0xff : 2;
		return a;
	}
	a.bytes[12] = 10;
	a.bytes[13] = source ? 1 : 2;
	a.bytes[14] = source ? host >> 8 : 0;
	a.bytes[15] = source ? host & 0xff : 2;
	return a;
}

static inline void receipt_set_address(struct receipt_world *w, struct esc_address address,
				       uint64_t id, uint8_t flags)
{
	struct esc_peer_address value = {.id = id, .flags = flags};
	int fd = receipt_fd(w, "peer_addresses");

	if (id)
		bpf_map_update_elem(fd, &address, &value, BPF_ANY);
	else
		bpf_map_delete_elem(fd, &address);
}

static inline void receipt_set_addresses(struct receipt_world *w, uint64_t id, uint8_t flags)
{
	for (int ip = 4; ip <= 6; ip += 2) {
		receipt_set_address(w, receipt_address(ip, true, PEER_HOST), id, flags);
		receipt_set_address(w, receipt_address(ip, false, 0), id, flags);
	}
}

/* The daemon is up, and the peer was received just now, but for what a test reports otherwise. */
static inline void receipt_refresh(struct receipt_world *w, int64_t heartbeat_age_ns,
				   int64_t heard_age_ns)
{
	uint64_t now = now_ns();

	w->word.heartbeat_local_ns = now - heartbeat_age_ns;
	world_set_control(&w->w.world, &w->word);
	w->peer.received_local_ns = now - heard_age_ns;
	probe_set_peer(&w->w, PEER, &w->peer);
}

static inline void receipt_set_clock(struct receipt_world *w, bool there)
{
	struct esc_clock clock = {.generation = there};
	uint32_t zero = 0;

	clock.slot[1] = (struct clock_model){
		.slew_end_fabric_ns = FABRIC_AHEAD_NS,
		.ref_fabric_ns = FABRIC_AHEAD_NS,
		.bound_ns =
			FABRIC_BOUND_NS - 1, /* reading adds the nanosecond of its own rounding */
		.state = CLOCK_SYNCED,
	};
	bpf_map_update_elem(receipt_fd(w, "clock"), &zero, &clock, BPF_ANY);
}

static inline void receipt_forget(struct receipt_world *w, const char *map)
{
	int fd = receipt_fd(w, map);
	struct esc_qp_key key;

	while (!bpf_map_get_next_key(fd, NULL, &key))
		bpf_map_delete_elem(fd, &key);
}

/* One peer, known by its addresses and received; every 16th PSN is sampled, always. */
static inline void receipt_reset(struct receipt_world *w)
{
	static const struct esc_rx_timestamps none;
	static const uint8_t zeros[WORLD_CPUS_MAX * sizeof(struct esc_receipt_cpu)];
	uint32_t zero = 0;

	probe_reset(&w->w);
	receipt_forget(w, "qp_sent");
	receipt_forget(w, "qp_owd");
	bpf_map_update_elem(receipt_fd(w, "rx_timestamps"), &zero, &none, BPF_ANY);
	bpf_map_update_elem(receipt_fd(w, "receipt_cpu"), &zero, zeros, BPF_ANY);
	w->word = (struct esc_control){
		.flags = ESC_CONTROL_RECEIPTS | ESC_CONTROL_SAMPLE_FIXED,
		.sample_mask = 0xf,
		.receipts_max_pps = 1000000,
		.delay_threshold_ns = THRESHOLD_NS,
	};
	w->peer = (struct esc_peer){.name = "peer"};
	receipt_set_addresses(w, PEER, ESC_PEER_NEIGHBOUR(0));
	receipt_set_clock(w, true);
	receipt_refresh(w, 0, 0);
}

static inline int receipt_world_open(struct receipt_world *w, const struct world_options *options)
{
	int error;

	memset(w, 0, sizeof(*w));
	error = probe_world_open(&w->w, options);
	if (!error)
		receipt_reset(w);
	return error;
}

/* Data of the queue pair: SEND_ONLY unless @opcode reports otherwise. */
static inline void data_build(struct frame *f, int ip, uint8_t opcode, uint32_t psn)
{
	frame_build(f,
		    &(struct frame_plan){
			    .ip = ip,
			    .opcode = opcode,
			    .psn = psn,
			    .qpn = QPN,
			    .payload = 256,
			    .extension = opcode == 0x0d || opcode == 0x0f || opcode == 0x10 ? 4 : 0,
			    .source_host = PEER_HOST,
		    });
}

static inline struct esc_qp_key data_key(const struct receipt_world *w, int ip,
					 enum esc_direction direction)
{
	return (struct esc_qp_key){
		.src = receipt_address(ip, true, PEER_HOST),
		.dst = receipt_address(ip, false, 0),
		.dest_qpn = QPN,
		.direction = direction,
		.port = w->w.world.port,
	};
}

/* Runs @hook over data; true: it let it pass as it was. @skb: with it, NULL: none. */
static inline bool data_run(struct receipt_world *w, enum world_hook hook, const struct frame *f,
			    struct __sk_buff *skb)
{
	static uint8_t out[FRAME_MAX + 1024];
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .data_out = out, .data_size_out = sizeof(out), .repeat = 1);
	struct __sk_buff after = {0};

	if (skb) {
		o.ctx_in = skb;
		o.ctx_size_in = sizeof(*skb);
		o.ctx_out = &after;
		o.ctx_size_out = sizeof(after);
	}
	if (bpf_prog_test_run_opts(w->w.world.programs[hook], &o))
		return false;
	return o.retval == world_verdicts[hook] && o.data_size_out == f->bytes &&
	       !memcmp(out, f->data, f->bytes) &&
	       (!skb || (after.mark == skb->mark && after.priority == skb->priority));
}

static inline bool data_send(struct receipt_world *w, enum world_hook hook, int ip, uint8_t opcode,
			     uint32_t psn)
{
	struct frame f;

	data_build(&f, ip, opcode, psn);
	return data_run(w, hook, &f, NULL);
}

static inline bool sent_read(struct receipt_world *w, int ip, struct esc_qp_sent *out)
{
	struct esc_qp_key key = data_key(w, ip, ESC_DIRECTION_TX);

	memset(out, 0, sizeof(*out));
	return !bpf_map_lookup_elem(receipt_fd(w, "qp_sent"), &key, out);
}

static inline bool owd_read(struct receipt_world *w, int ip, struct esc_qp_owd *out)
{
	struct esc_qp_key key = data_key(w, ip, ESC_DIRECTION_TX);

	memset(out, 0, sizeof(*out));
	return !bpf_map_lookup_elem(receipt_fd(w, "qp_owd"), &key, out);
}

static inline struct esc_qp qp_read(struct receipt_world *w, int ip, enum esc_direction direction)
{
	struct esc_qp_key key = data_key(w, ip, direction);
	struct esc_qp qp = {0};

	world_qp(&w->w.world, &key, &qp);
	return qp;
}

/* Records that wait. */
static inline unsigned int sent_waiting(const struct esc_qp_sent *sent)
{
	unsigned int count = 0;

	for (int i = 0; i < ESC_TX_RECORDS; i++)
		count += sent->records[i].tx_ktime_ns != 0;
	return count;
}

#define IS(have, want) receipt_is(#have, have, want)
static inline bool receipt_is(const char *what, uint64_t have, uint64_t want)
{
	if (have != want)
		printf("# %s is %llu, must be %llu\n", what, (unsigned long long)have,
		       (unsigned long long)want);
	return have == want;
}

#endif
