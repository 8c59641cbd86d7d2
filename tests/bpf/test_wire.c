// SPDX-License-Identifier: BSD-2-Clause
/*
 * What hosts of other releases, and hosts with other keys, send: the packets of version 2 as a
 * release of that version sent them (tests/vectors/wire), the programs of the next version
 * (mk/tests.mk, NEXT), and tags by keys that are not those of the pair.
 */
#define TAP_PLAN 39

#include <stdlib.h>

#include "path_world.h"

#define MARK 0x45734350
#define GOLDEN "tests/vectors/wire/probes-v2.pcap"
#define NEXT "build/tests/next/dataplane.o"

/* Of the hosts whose packets are in the capture. */
static const struct probe_key golden_key = {
	{10, ' ', 'l', 'a', 'b', ' ', 'o', 'f', ' ', 'a', ' ', 't', 'e', 's', 't', 10}};
static const struct probe_key pair = {{0x51, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

/* What @w knows: its own id, the peer's, keys by slot 0 of the fleet and of the pair. */
static void set_keys(struct receipt_world *w, uint64_t self, uint64_t peer_id, uint64_t epoch,
		     const struct probe_key *fleet_key, const struct probe_key *pair_key)
{
	struct esc_fleet fleet = probe_fleet_usual();

	fleet.self = self;
	fleet.epoch = epoch;
	fleet.flags = ESC_FLEET_REPLY | ESC_FLEET_HAS_KEY0 | (fleet_key ? ESC_FLEET_SHARED0 : 0);
	memset(fleet.key, 0, sizeof(fleet.key));
	if (fleet_key)
		memcpy(fleet.key[0], fleet_key->bytes, 16);
	probe_set_fleet(&w->w, &fleet);
	w->peer = (struct esc_peer){.name = "peer"};
	if (pair_key) {
		w->peer.key_flags = ESC_FLEET_HAS_KEY0;
		memcpy(w->peer.key[0], pair_key->bytes, 16);
	}
	probe_set_peer(&w->w, peer_id, &w->peer);
}

static uint8_t byte_of(const struct frame *f, uint32_t at)
{
	return f->data[probe_bth(f) + at];
}

/* --- the key of the pair --- */

static void check_key(struct receipt_world *w, const char *name, const struct probe_key *fleet_key,
		      const struct probe_key *pair_key, uint8_t format,
		      const struct probe_key *used, int reason)
{
	struct probe_plan plan = probe_plan_usual();
	struct frame f, out;
	int verdict;

	plan.version_more = format - 2;
	plan.newest = MODEL_NEWEST;
	plan.key = used;
	receipt_reset(w);
	set_keys(w, SELF, PEER, OWN_EPOCH, fleet_key, pair_key);
	probe_build(&f, &plan);
	verdict = probe_run(&w->w, WORLD_XDP, &f, &out, 0);
	tap_ok(probe_reason_is(&w->w, WORLD_XDP, reason, 1) &&
		       (reason < 0 ? verdict == XDP_VERDICT_TX && byte_of(&out, P_VERSION) == 3 &&
					     byte_of(&out, P_NEWEST) == MODEL_NEWEST &&
					     probe_tag_is(&out, pair_key)
				   : verdict == XDP_VERDICT_DROP),
	       "%s", name);
}

static void test_pair(struct receipt_world *w)
{
	check_key(w, "a tag by the key of the pair is good, and so is the reply's", NULL, &pair, 3,
		  &pair, -1);
	check_key(w, "one by the fleet's key is not, in version 3", &keys[0], &pair, 3, &keys[0],
		  ESC_REASON_PROBE_BAD_TAG);
	check_key(w, "nor one by the key of another pair: a member cannot pose as another", NULL,
		  &pair, 3, &keys[1], ESC_REASON_PROBE_BAD_TAG);
	check_key(w, "without a key of the pair there is no good tag", NULL, NULL, 3, &pair,
		  ESC_REASON_PROBE_BAD_TAG);
	check_key(w, "nor one by a key of zeros", NULL, NULL, 3, &(struct probe_key){{0}},
		  ESC_REASON_PROBE_BAD_TAG);
	check_key(w, "in version 2 the fleet's key is good; the reply is of version 3", &keys[0],
		  &pair, 2, &keys[0], -1);
	check_key(w, "the pair's is not", &keys[0], &pair, 2, &pair, ESC_REASON_PROBE_BAD_TAG);
	check_key(w, "without the fleet's key nothing of version 2 is accepted", NULL, &pair, 2,
		  &keys[0], ESC_REASON_PROBE_BAD_TAG);
	check_key(w, "nor with a key of zeros", NULL, &pair, 2, &(struct probe_key){{0}},
		  ESC_REASON_PROBE_BAD_TAG);
}

/* --- the format of what is sent --- */

static struct frame sent_to_peer(struct receipt_world *w)
{
	struct probe_plan plan = {.target = PEER, .sequence = 7};
	struct __sk_buff context = {.mark = MARK};
	struct frame f, out = {0};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_out = out.data, .data_size_out = sizeof(out.data),
		    .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);

	probe_build(&f, &plan);
	o.data_in = f.data;
	o.data_size_in = f.bytes;
	world_allow_socket(&w->w.world);
	bpf_prog_test_run_opts(w->w.world.programs[WORLD_TC_OUT], &o);
	out.bytes = o.data_size_out;
	return out;
}

static void check_format(struct receipt_world *w, const char *name, uint8_t peers_version,
			 uint64_t age_ns, const struct probe_key *fleet_key, uint8_t format)
{
	struct frame out;

	receipt_reset(w);
	set_keys(w, SELF, PEER, OWN_EPOCH, fleet_key, &pair);
	w->peer.version = peers_version;
	w->peer.version_ktime_ns = now_ns() - age_ns;
	probe_set_peer(&w->w, PEER, &w->peer);
	out = sent_to_peer(w);
	tap_ok(byte_of(&out, P_VERSION) == format && byte_of(&out, P_NEWEST) == MODEL_NEWEST &&
		       probe_tag_is(&out, format == 2 ? fleet_key : &pair),
	       "%s", name);
}

static void test_formats(struct receipt_world *w)
{
	check_format(w, "to a peer that was never received: the oldest", 0, 0, &keys[0], 2);
	check_format(w, "to one of the release before: the oldest", 2, 0, &keys[0], 2);
	check_format(w, "to one of this release: its own", 3, 0, &keys[0], 3);
	check_format(w, "to one of the next release: our newest", 4, 0, &keys[0], 3);
	check_format(w, "to one that was silent for 4 s: the oldest", 3, 4000000000, &keys[0], 2);
	check_format(w, "without the fleet's key never version 2", 0, 0, NULL, 3);
}

/* A version 2 reply has the request's bytes where later ones have their own version. */
static void test_echo(struct receipt_world *w)
{
	struct probe_plan plan = probe_plan_reply();
	struct frame f, out;

	receipt_reset(w);
	set_keys(w, SELF, PEER, OWN_EPOCH, &keys[0], &pair);
	plan.newest = MODEL_NEWEST;
	probe_build(&f, &plan);
	probe_run(&w->w, WORLD_XDP, &f, &out, 0);
	tap_ok(probe_get_peer(&w->w, PEER).version == 2 && probe_reason_is(&w->w, WORLD_XDP, -1, 0),
	       "a reply of version 2 does not have the version of its sender");
}

/* --- as a release of version 2 sent them --- */

static void check_golden(struct path_world *p, const struct frame *f, int number)
{
	uint32_t bth = probe_bth(f), opcode = f->data[bth + P_OPCODE];
	bool request =
		opcode == ESC_PROBE_OPCODE_REQUEST || opcode == ESC_PROBE_OPCODE_PATH_REQUEST;
	bool receipt = opcode == ESC_PROBE_OPCODE_RECEIPT;
	uint64_t sender = probe_get(f, bth + P_SENDER, 8), target = probe_get(f, bth + P_TARGET, 8);
	bool has_echo = opcode == ESC_PROBE_OPCODE_REPLY || opcode == ESC_PROBE_OPCODE_PATH_REPLY;
	struct esc_path_key way = path_way(4);
	struct esc_address source = {.bytes = {[10] = 0xff, [11] = 0xff}};
	struct frame out, again;
	int verdict;

	path_reset(p, &way);
	set_keys(&p->r, target, sender, has_echo ? probe_get(f, bth + P_ECHO, 8) : OWN_EPOCH,
		 &golden_key, &pair);
	memcpy(source.bytes + 12, f->data + 14 + 12, 4);
	receipt_set_address(&p->r, source, sender, 0);
	verdict = probe_run(&p->r.w, WORLD_XDP, f, &out, 0);
	tap_ok(verdict == (request ? XDP_VERDICT_TX : XDP_VERDICT_DROP) &&
		       probe_reason_is(&p->r.w, WORLD_XDP,
				       receipt ? ESC_REASON_RECEIPT_UNMATCHED : -1, 1),
	       "packet %d of version 2, opcode %02x, is understood", number, opcode);
	if (!request)
		return;
	again = out;
	if (opcode == ESC_PROBE_OPCODE_REQUEST)
		probe_put_tag(&again, &golden_key);
	else
		path_put_tag(&again, &golden_key);
	tap_ok(byte_of(&out, P_VERSION) == 2 && probe_same(&out, &again),
	       "and its reply is of version 2, with the tag of that");
}

static void test_golden(struct path_world *p)
{
	static uint8_t bytes[1 << 16];
	FILE *file = fopen(GOLDEN, "rb");
	size_t size = file ? fread(bytes, 1, sizeof(bytes), file) : 0, at = 24;
	int number = 0;

	while (at + 16 <= size) {
		struct frame f = {0};

		memcpy(&f.bytes, bytes + at + 8, 4);
		memcpy(f.data, bytes + at + 16, f.bytes);
		at += 16 + f.bytes;
		check_golden(p, &f, ++number);
	}
	tap_ok(number == 10, "all packets of the capture were read");
	if (file)
		fclose(file);
}

/* --- this release and the next --- */

static struct frame run_out(struct path_world *p, const struct frame *f)
{
	struct __sk_buff context = {.mark = MARK};
	struct frame out = {0};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .data_out = out.data, .data_size_out = sizeof(out.data), .ctx_in = &context,
		    .ctx_size_in = sizeof(context), .repeat = 1);

	world_allow_socket(path_kernel(p));
	bpf_prog_test_run_opts(path_kernel(p)->programs[WORLD_TC_OUT], &o);
	out.bytes = o.data_size_out;
	return out;
}

/* A request of @a to @b, and the reply. */
static bool exchange(struct path_world *a, struct path_world *b, uint64_t target, bool path,
		     uint32_t sequence, uint8_t *format)
{
	struct probe_plan clock_plan = {.target = target, .sequence = sequence};
	struct path_plan plan = path_plan_usual();
	struct frame f, sent, reply, none;

	plan.target = target;
	plan.sequence = sequence;
	if (path)
		path_build(&f, &plan);
	else
		probe_build(&f, &clock_plan);
	sent = run_out(a, &f);
	*format = byte_of(&sent, P_VERSION);
	return probe_run(&b->r.w, WORLD_XDP, &sent, &reply, 0) == XDP_VERDICT_TX &&
	       probe_run(&a->r.w, WORLD_XDP, &reply, &none, 0) == XDP_VERDICT_DROP &&
	       probe_reason_is(&a->r.w, WORLD_XDP, -1, 0) &&
	       probe_reason_is(&b->r.w, WORLD_XDP, -1, 0);
}

static void test_next(struct path_world *this, struct path_world *next)
{
	struct esc_path_key way = path_way(4);
	uint8_t format[2];

	for (int path = 0; path < 2; path++) {
		path_reset(this, &way);
		path_reset(next, &way);
		set_keys(&this->r, SELF, PEER, OWN_EPOCH, NULL, &pair);
		set_keys(&next->r, PEER, SELF, PEER_EPOCH, NULL, &pair);
		receipt_set_addresses(&this->r, PEER, 0);
		receipt_set_addresses(&next->r, SELF, 0);
		tap_ok(exchange(this, next, PEER, path, 1, &format[0]) && format[0] == 3 &&
			       exchange(next, this, SELF, path, 1, &format[1]) && format[1] == 3,
		       "%s between this release and the next are of version 3",
		       path ? "path probes" : "probes");
		tap_ok(probe_get_peer(&this->r.w, PEER).version == 4 &&
			       probe_get_peer(&next->r.w, SELF).version == 3,
		       "each knows the other's version");
	}
}

static void check_receipt(struct path_world *p, const char *name, uint8_t format, int reason)
{
	struct receipt_plan plan = {
		.version_more = format - 2,
		.newest = format,
		.sender = PEER,
		.target = SELF,
		.epoch = PEER_EPOCH,
		.source_host = PEER_HOST,
		.key = &pair,
	};
	struct frame f, out;

	receipt_reset(&p->r);
	set_keys(&p->r, SELF, PEER, OWN_EPOCH, NULL, &pair);
	receipt_build(&f, &plan);
	probe_run(&p->r.w, WORLD_XDP, &f, &out, 0);
	tap_ok(probe_reason_is(&p->r.w, WORLD_XDP, reason, 1), "%s", name);
}

static void test_receipts(struct path_world *this, struct path_world *next)
{
	check_receipt(this, "a receipt of version 3 is understood here", 3,
		      ESC_REASON_RECEIPT_UNMATCHED);
	check_receipt(this, "one of version 4 is not, which is counted", 4,
		      ESC_REASON_PROBE_VERSION);
	check_receipt(next, "the next release understands version 3", 3,
		      ESC_REASON_RECEIPT_UNMATCHED);
	check_receipt(next, "not 2", 2, ESC_REASON_PROBE_VERSION);
}

int main(void)
{
	static struct path_world this, next;

	if (path_world_open(&this, &(struct world_options){.rx_in_xdp_only = true}))
		return tap_bail("the programs are not loaded");
	if (path_world_open(&next, &(struct world_options){.rx_in_xdp_only = true, .object = NEXT}))
		return tap_bail("the next release's programs are not loaded: " NEXT);
	test_pair(&this.r);
	test_formats(&this.r);
	test_echo(&this.r);
	test_golden(&this);
	test_next(&this, &next);
	test_receipts(&this, &next);
	path_world_close(&next);
	path_world_close(&this);
	return tap_end();
}
