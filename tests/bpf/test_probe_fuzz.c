// SPDX-License-Identifier: BSD-2-Clause
/*
 * Probes that were altered in transit, and long runs of probes in any order:
 * nothing that was signed can be changed, a reply is always the one that
 * probe_model.h makes, and the right ones are refused.
 * `test_probe_fuzz SEED [PACKETS]` repeats a run.
 */
#define TAP_PLAN 4

#include "probe_world.h"

#define PACKETS 60000
#define SEQUENCES 400

static uint64_t state;

/* xorshift64*: the same everywhere, so a seed can be repeated. */
static uint32_t random_32(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 2685821657736338717ull) >> 32;
}

static uint32_t below(uint32_t n)
{
	return random_32() % n;
}

static const struct probe_responder usual = {SELF, OWN_EPOCH, 0, &keys[0], own_view, false, 0};

static void describe(const char *what, const struct frame *f, int verdict)
{
	uint32_t i;

	printf("# %s, verdict %d, %u bytes:", what, verdict, f->bytes);
	for (i = 0; i < f->bytes; i++)
		printf("%s%02x", i % 32 ? "" : "\n# ", f->data[i]);
	printf("\n");
}

/* What may happen to a packet at all. @replied: shows whether it was. */
static bool is_lawful(const struct frame *in, const struct frame *out, int verdict, bool *replied)
{
	struct frame want;

	*replied = verdict == XDP_VERDICT_TX;
	if (verdict == XDP_VERDICT_PASS || verdict == XDP_VERDICT_DROP)
		return probe_same(out, in);
	if (verdict != XDP_VERDICT_TX || out->bytes != in->bytes)
		return false;
	model_reply(&want, in, out, &usual);
	return probe_same(out, &want);
}

static void set_peer_address(struct probe_world *w, int ip)
{
	struct esc_peer peer = {.name = "peer"};

	memcpy(peer.address.bytes,
	       ip == 6 ? "\xfd\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
		       : "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\0\0",
	       16);
	probe_set_peer(w, PEER, &peer);
}

/* Each bit of a good request, one at a time. */
static void test_flips(struct probe_world *w, int ip)
{
	struct probe_plan plan = probe_plan_usual();
	uint32_t bit, bth, src, refused = 0, replied_count = 0, sealed = 0;
	struct frame request, f, out;
	bool good = true, replied;
	int verdict;

	plan.ip = ip;
	plan.flags = ESC_PROBE_VIEW;
	plan.view = own_view;
	probe_build(&request, &plan);
	bth = probe_bth(&request);
	src = ip == 6 ? 14 + 8 : 14 + 12;
	for (bit = 0; bit < request.bytes * 8 && good; bit++) {
		uint32_t at = bit / 8;
		bool must_refuse = (at >= bth && at < bth + P_ICRC) ||
				   (at >= src && at < src + (ip == 6 ? 16 : 4));

		f = request;
		f.data[at] ^= 1 << bit % 8;
		probe_reset(w);
		set_peer_address(w, ip);
		verdict = probe_run(w, WORLD_XDP, &f, &out, 0);
		good = is_lawful(&f, &out, verdict, &replied) && !(must_refuse && replied);
		sealed += must_refuse;
		refused += !replied;
		replied_count += replied;
		if (!good)
			describe("a flipped bit", &f, verdict);
	}
	tap_ok(good && sealed && replied_count,
	       "IPv%d: of %u single flipped bits %u end the probe, all %u of what is signed and "
	       "of the source",
	       ip, bit, refused, sealed);
}

/* The signed bytes of @f are those of the request that it was made of. */
static bool signed_is_whole(const struct frame *f, const struct frame *request)
{
	uint32_t a = probe_bth(f), b = probe_bth(request);

	return a + P_ICRC <= f->bytes && !memcmp(f->data + a, request->data + b, P_ICRC);
}

static void alter(struct frame *f)
{
	uint32_t n = 1 + below(6), bth = probe_bth(f), at;

	while (n--) {
		/* Half of them in the headers, where there is more to go wrong. */
		at = below(2) ? below(f->bytes) : below(bth + P_NEWEST);
		switch (below(4)) {
		case 0:
			f->data[at] = random_32();
			break;
		case 1:
			f->data[at] ^= 1 << below(8);
			break;
		case 2:
			f->data[at] += below(2) ? 1 : -1;
			break;
		default:
			if (below(8) == 0)
				f->bytes = 54 + below(f->bytes - 54 + 1);
			else if (below(8) == 0)
				f->bytes += below(100);
			break;
		}
		if (f->bytes <= bth + P_NEWEST)
			return;
	}
}

static void test_altered(struct probe_world *w, uint32_t packets)
{
	static const uint8_t opcodes[] = {ESC_PROBE_OPCODE_REQUEST, ESC_PROBE_OPCODE_REQUEST,
					  ESC_PROBE_OPCODE_REPLY, ESC_PROBE_OPCODE_WARMUP};
	uint32_t i, linear, counts[4] = {0}, forged = 0;
	struct esc_fleet fleet = probe_fleet_usual();
	struct frame request, f, out;
	bool good = true, replied;
	int verdict;

	probe_reset(w);
	fleet.reply_max_pps = packets;
	probe_set_fleet(w, &fleet);
	for (i = 0; i < packets && good; i++) {
		struct probe_plan plan = probe_plan_usual();

		plan.ip = below(2) ? 6 : 4;
		plan.shape = below(FRAME_SHAPES);
		plan.opcode = opcodes[below(4)];
		plan.echo_epoch = OWN_EPOCH;
		plan.sequence = i;
		probe_build(&request, &plan);
		f = request;
		/* What lies behind a frame that is made longer. */
		memset(f.data + f.bytes, 0, 128);
		if (below(10))
			alter(&f);
		linear = below(8) ? 0 : 14 + below(f.bytes - 14 + 1);
		verdict = probe_run(w, WORLD_XDP, &f, &out, linear);
		if (verdict == -EINVAL)
			continue;
		good = is_lawful(&f, &out, verdict, &replied);
		if (good && replied && !signed_is_whole(&f, &request)) {
			forged++;
			good = false;
		}
		if (verdict >= 0 && verdict < 4)
			counts[verdict]++;
		if (!good)
			describe("an altered probe", &f, verdict);
		if (i % 1000 == 0)
			probe_events(w);
	}
	tap_ok(good && counts[XDP_VERDICT_TX] && counts[XDP_VERDICT_DROP] &&
		       counts[XDP_VERDICT_PASS] && !forged,
	       "%u probes, most of them altered: %u replied to as they must be, %u dropped, %u "
	       "passed",
	       i, counts[XDP_VERDICT_TX], counts[XDP_VERDICT_DROP], counts[XDP_VERDICT_PASS]);
}

/* Packets received, by lists of what was seen and not by windows of bits. */
struct seen {
	bool valid;
	int newest;
	bool taken[SEQUENCES];
};

struct model_peer {
	uint64_t epoch;
	struct seen requests, replies;
};

static bool seen_has(const struct seen *s, int sequence)
{
	return s->valid && (sequence <= s->newest - 64 || s->taken[sequence]);
}

static bool seen_take(struct seen *s, int sequence)
{
	if (seen_has(s, sequence))
		return false;
	if (!s->valid || sequence > s->newest)
		s->newest = sequence;
	s->valid = true;
	s->taken[sequence] = true;
	return true;
}

/* The reason to refuse it, or -1. */
static int model_judge(struct model_peer *peer, const struct probe_plan *plan, bool tagged)
{
	bool reply = plan->opcode == ESC_PROBE_OPCODE_REPLY;

	if (plan->version_more)
		return ESC_REASON_PROBE_VERSION;
	if (plan->sender != PEER)
		return ESC_REASON_PROBE_UNKNOWN_PEER;
	if (plan->target != SELF)
		return ESC_REASON_PROBE_NOT_OURS;
	if (!tagged)
		return ESC_REASON_PROBE_BAD_TAG;
	if (plan->opcode == ESC_PROBE_OPCODE_WARMUP)
		return plan->epoch < peer->epoch ? ESC_REASON_PROBE_STALE_EPOCH
		       : plan->epoch == peer->epoch && seen_has(&peer->requests, plan->sequence)
			       ? ESC_REASON_PROBE_REPLAY
			       : -1;
	if (reply && plan->echo_epoch != OWN_EPOCH)
		return ESC_REASON_PROBE_STALE_EPOCH;
	if (plan->epoch < peer->epoch)
		return ESC_REASON_PROBE_STALE_EPOCH;
	if (plan->epoch > peer->epoch)
		memset(&peer->requests, 0, sizeof(peer->requests));
	peer->epoch = plan->epoch;
	return seen_take(reply ? &peer->replies : &peer->requests, plan->sequence)
		       ? -1
		       : ESC_REASON_PROBE_REPLAY;
}

static void plan_random(struct probe_plan *plan, uint32_t turn, uint64_t *epoch)
{
	static const uint8_t opcodes[] = {ESC_PROBE_OPCODE_REQUEST, ESC_PROBE_OPCODE_REPLY,
					  ESC_PROBE_OPCODE_REQUEST, ESC_PROBE_OPCODE_REPLY,
					  ESC_PROBE_OPCODE_WARMUP};
	int sequence = turn / 8 + (int)below(120) - 60;

	*plan = probe_plan_usual();
	plan->opcode = opcodes[below(5)];
	plan->sequence = sequence < 0 ? 0 : sequence >= SEQUENCES ? SEQUENCES - 1 : sequence;
	*epoch += below(200) == 0;
	plan->epoch = *epoch - (below(20) == 0);
	plan->echo_epoch = OWN_EPOCH - (below(20) == 0);
	plan->version_more = below(40) ? 0 : 2;
	plan->sender = below(40) ? PEER : OTHER;
	plan->target = below(40) ? SELF : OTHER;
	plan->key = below(30) ? &keys[0] : below(2) ? &keys[2] : NULL;
	plan->ip = below(2) ? 6 : 4;
}

/* A run of SEQUENCES sequence numbers of one host, each packet compared with the model. */
static bool run_life(struct probe_world *w, uint64_t want[ESC_REASON_MAX], uint32_t *good_count)
{
	static struct model_peer peer;
	struct esc_fleet fleet = probe_fleet_usual();
	struct probe_plan plan;
	struct frame f, out;
	uint64_t epoch = 5;
	uint32_t turn;

	memset(&peer, 0, sizeof(peer));
	probe_reset(w);
	fleet.reply_max_pps = 1000000;
	probe_set_fleet(w, &fleet);
	memset(want, 0, ESC_REASON_MAX * sizeof(*want));
	for (turn = 0; turn < SEQUENCES * 8; turn++) {
		int reason, verdict, expected = XDP_VERDICT_DROP;
		unsigned int records = 0;

		plan_random(&plan, turn, &epoch);
		probe_build(&f, &plan);
		reason = model_judge(&peer, &plan, plan.key == &keys[0]);
		if (reason >= 0)
			want[reason]++;
		else if (plan.opcode != ESC_PROBE_OPCODE_WARMUP)
			records = 1;
		if (reason < 0 && plan.opcode == ESC_PROBE_OPCODE_REQUEST)
			expected = XDP_VERDICT_TX;
		verdict = probe_run(w, WORLD_XDP, &f, &out, 0);
		if (verdict != expected || probe_events(w) != records) {
			printf("# iteration %u, expected %s\n", turn, world_reason_name(reason));
			describe("a probe in a life", &f, verdict);
			return false;
		}
		*good_count += reason < 0;
	}
	return true;
}

static void test_lives(struct probe_world *w, uint32_t lives)
{
	uint64_t want[ESC_REASON_MAX], have[ESC_REASON_MAX];
	uint32_t life, good_count = 0;
	bool good = true;
	int i;

	for (life = 0; life < lives && good; life++) {
		good = run_life(w, want, &good_count);
		world_reasons(&w->world, have, WORLD_XDP);
		for (i = 0; good && i < ESC_REASON_MAX; i++)
			if (have[i] != want[i]) {
				printf("# %s is %llu, must be %llu\n", world_reason_name(i),
				       (unsigned long long)have[i], (unsigned long long)want[i]);
				good = false;
			}
	}
	tap_ok(good && good_count,
	       "%u lives of %u probes in any order: %u good, the others refused by the "
	       "model's reasons",
	       life, SEQUENCES * 8, good_count);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) * 7919;
	uint32_t packets = argc > 2 ? strtoul(argv[2], NULL, 0) : PACKETS;
	struct probe_world w;

	if (probe_world_open(&w, &(struct world_options){.rx_in_xdp_only = true}))
		return tap_bail("the programs do not load");
	printf("# seed %llu (repeat with: test_probe_fuzz %llu %u)\n", (unsigned long long)seed,
	       (unsigned long long)seed, packets);
	state = (seed + 1) * 0x9e3779b97f4a7c15ull;
	test_flips(&w, 4);
	test_flips(&w, 6);
	test_altered(&w, packets / 2);
	test_lives(&w, packets / 2 / (SEQUENCES * 8) + 1);
	probe_world_close(&w);
	return tap_end();
}
