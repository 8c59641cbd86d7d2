// SPDX-License-Identifier: BSD-2-Clause
/*
 * Receipts that return: which are refused and why, which record they take, and
 * what they leave in the queue pair's delays.
 * test_receipt_take [SEED [PACKETS]]
 */
#define TAP_PLAN 32

#include "receipt_world.h"

#define SEND_MIDDLE 0x01

static uint64_t state;

static uint64_t random_64(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 2685821657736338717ull;
}

/* A receipt that is taken when PSN 16 was recorded. */
static struct receipt_plan plan_usual(void)
{
	return (struct receipt_plan){
		.flags = ESC_RECEIPT_TIMED,
		.sender = PEER,
		.target = SELF,
		.epoch = PEER_EPOCH,
		.rx_fabric_ns = now_ns() + FABRIC_AHEAD_NS,
		.bound_ns = 300,
		.qpn = QPN,
		.psn = 16,
		.stack_ns = 1234,
		.source_host = PEER_HOST,
		.key = &keys[0],
	};
}

/*
 * The records are of what went from the source of frames to their destination, and
 * receipts go the other way: swaps the addresses of a built one, and tags it.
 */
static void turn(struct frame *f, const struct receipt_plan *plan)
{
	uint32_t ip = frame_ip_offset(f), bytes = frame_is_ipv6(f) ? 16 : 4;

	model_swap(f->data + ip + (bytes == 16 ? 8 : 12), f->data + ip + (bytes == 16 ? 24 : 16),
		   bytes);
	receipt_put_tag(f, probe_bth(f), plan->key);
}

static int take_frame(struct receipt_world *w, enum world_hook hook, const struct frame *f)
{
	struct frame out;

	return probe_run(&w->w, hook, f, &out, 0);
}

static int take(struct receipt_world *w, enum world_hook hook, const struct receipt_plan *plan)
{
	struct frame f;

	receipt_build(&f, plan);
	turn(&f, plan);
	return take_frame(w, hook, &f);
}

/* Sends PSN @psn, so that it is recorded; the record. */
static struct esc_tx_record record(struct receipt_world *w, int ip, uint32_t psn)
{
	struct esc_qp_sent sent;

	data_send(w, WORLD_TC_OUT, ip, SEND_MIDDLE, psn);
	sent_read(w, ip, &sent);
	return sent.records[ESC_TX_RECORD_INDEX(psn)];
}

static void test_match(struct receipt_world *w, int ip)
{
	struct receipt_plan plan;
	struct esc_tx_record left;
	struct esc_owd_window *window;
	struct esc_qp_sent sent;
	struct esc_qp_owd owd;
	uint64_t from, to;
	bool good;

	receipt_reset(w);
	left = record(w, ip, 16);
	plan = plan_usual();
	plan.ip = ip;
	plan.rx_fabric_ns = left.tx_fabric_ns + 12345;
	plan.flags |= ESC_RECEIPT_CE;
	from = now_ns();
	good = IS(take(w, WORLD_XDP, &plan), XDP_VERDICT_DROP);
	to = now_ns();
	owd_read(w, ip, &owd);
	sent_read(w, ip, &sent);
	good = IS(owd.receipts, 1) && IS(owd.samples, 1) && IS(owd.last_ns, 12345) &&
	       IS(owd.min_ns, 12345) && IS(owd.max_ns, 12345) && IS(owd.last_psn, 16) &&
	       IS(owd.last_bound_ns, FABRIC_BOUND_NS + 300) && IS(owd.over, 0) &&
	       IS(owd.histogram[esc_owd_bucket(12345)], 1) && IS(sent_waiting(&sent), 0) &&
	       owd.last_ktime_ns >= from && owd.last_ktime_ns <= to &&
	       IS(owd.first_ktime_ns, owd.last_ktime_ns) &&
	       IS(owd.feedback_sum_ns, owd.last_ktime_ns - left.tx_ktime_ns) && good;
	window = &owd.windows[(owd.last_ktime_ns >> ESC_OWD_WINDOW_SHIFT) % ESC_OWD_WINDOWS];
	good = IS(window->number, (uint32_t)(owd.last_ktime_ns >> ESC_OWD_WINDOW_SHIFT)) &&
	       IS(window->samples, 1) && IS(window->min_ns, 12345) && IS(window->max_ns, 12345) &&
	       IS(window->sum_ns, 12345) && IS(window->bound_ns, FABRIC_BOUND_NS + 300) &&
	       IS(window->ce, 1) && IS(window->stack_max_ns, 1234) &&
	       IS(window->queue_samples, 0) && IS(window->messages, 0) && good;
	tap_ok(good && probe_reason_is(&w->w, WORLD_XDP, -1, 0),
	       "IPv%d: a receipt takes its record and leaves its delay", ip);
	good = IS(take(w, WORLD_XDP, &plan), XDP_VERDICT_DROP) &&
	       probe_reason_is(&w->w, WORLD_XDP, ESC_REASON_RECEIPT_UNMATCHED, 1);
	owd_read(w, ip, &owd);
	tap_ok(good && IS(owd.receipts, 1), "IPv%d: the same again matches nothing", ip);
}

struct refusal {
	const char *name;
	int reason;
	void (*alter)(struct receipt_world *w, struct receipt_plan *plan);
};

static void a_version(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->version_more = 2;
}
static void a_longer(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->longer = 4;
}
static void a_off(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)plan;
	w->word.flags &= ~ESC_CONTROL_RECEIPTS;
	receipt_refresh(w, 0, 0);
}
static void a_sender(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->sender = OTHER;
}
static void a_address(struct receipt_world *w, struct receipt_plan *plan)
{
	receipt_set_addresses(w, 0, 0);
	(void)plan;
}
static void a_others_address(struct receipt_world *w, struct receipt_plan *plan)
{
	receipt_set_addresses(w, OTHER, 0);
	(void)plan;
}
static void a_plane(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->flags |= ESC_RECEIPT_PLANE;
}
static void a_target(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->target++;
}
static void a_key(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->key = &keys[2];
}
static void a_key_slot(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->flags |= ESC_RECEIPT_KEY;
}
static void a_no_tag(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->key = NULL;
}
static void a_epoch(struct receipt_world *w, struct receipt_plan *plan)
{
	w->peer.epoch = PEER_EPOCH + 1;
	receipt_refresh(w, 0, 0);
	(void)plan;
}
static void a_psn(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->psn = 17;
}
static void a_qpn(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->qpn++;
}
static void a_response(struct receipt_world *w, struct receipt_plan *plan)
{
	(void)w;
	plan->flags |= ESC_RECEIPT_RESPONSE;
}

static const struct refusal refusals[] = {
	{"another version", ESC_REASON_PROBE_VERSION, a_version},
	{"longer", ESC_REASON_PROBE_VERSION, a_longer},
	{"receipts are off here", ESC_REASON_PROBE_OFF, a_off},
	{"of an unknown sender", ESC_REASON_PROBE_UNKNOWN_PEER, a_sender},
	{"from an unknown address's", ESC_REASON_PROBE_UNKNOWN_PEER, a_address},
	{"from another member's address", ESC_REASON_PROBE_UNKNOWN_PEER, a_others_address},
	{"of the other mesh", ESC_REASON_PROBE_UNKNOWN_PEER, a_plane},
	{"for another member", ESC_REASON_PROBE_NOT_OURS, a_target},
	{"tagged with an unknown key", ESC_REASON_PROBE_BAD_TAG, a_key},
	{"tagged with the other slot's key", ESC_REASON_PROBE_BAD_TAG, a_key_slot},
	{"not tagged", ESC_REASON_PROBE_BAD_TAG, a_no_tag},
	{"of an earlier run", ESC_REASON_PROBE_STALE_EPOCH, a_epoch},
	{"of a PSN that was not recorded", ESC_REASON_RECEIPT_UNMATCHED, a_psn},
	{"of another queue pair", ESC_REASON_RECEIPT_UNMATCHED, a_qpn},
	{"of a response of that PSN", ESC_REASON_RECEIPT_UNMATCHED, a_response},
};
#define REFUSALS (sizeof(refusals) / sizeof(*refusals))

static bool is_untaken(struct receipt_world *w)
{
	struct esc_qp_owd owd;
	struct esc_qp_sent sent;

	owd_read(w, 4, &owd);
	sent_read(w, 4, &sent);
	return IS(owd.receipts, 0) && IS(sent_waiting(&sent), 1);
}

static void test_refusals(struct receipt_world *w)
{
	bool in_order = true;

	for (size_t i = 0; i < REFUSALS; i++) {
		struct receipt_plan plan = plan_usual();
		bool good;

		receipt_reset(w);
		record(w, 4, 16);
		refusals[i].alter(w, &plan);
		good = IS(take(w, WORLD_XDP, &plan), XDP_VERDICT_DROP) &&
		       probe_reason_is(&w->w, WORLD_XDP, refusals[i].reason, 1) && is_untaken(w);
		tap_ok(good, "%s: %s", refusals[i].name, world_reason_name(refusals[i].reason));
		/* Of two faults the one that is listed first decides. */
		for (size_t j = i + 1; j < REFUSALS && refusals[i].reason != refusals[j].reason;
		     j++) {
			/* Keys and slots undo each other, as do two addresses. */
			if (refusals[j].alter == a_key_slot || refusals[j].alter == a_longer)
				continue;
			plan = plan_usual();
			receipt_reset(w);
			record(w, 4, 16);
			refusals[j].alter(w, &plan);
			refusals[i].alter(w, &plan);
			take(w, WORLD_XDP, &plan);
			in_order = probe_reason_is(&w->w, WORLD_XDP, refusals[i].reason, 1) &&
				   in_order;
		}
	}
	tap_ok(in_order, "of two faults the earlier check decides");
}

static void test_invalidated(struct receipt_world *w)
{
	struct receipt_plan plan = plan_usual();
	struct esc_qp_key key = data_key(w, 4, ESC_DIRECTION_TX);
	struct esc_qp_sent sent;
	struct esc_qp_owd owd;
	bool good;

	receipt_reset(w);
	record(w, 4, 16);
	record(w, 4, 16);
	good = IS(take(w, WORLD_XDP, &plan), XDP_VERDICT_DROP) &&
	       probe_reason_is(&w->w, WORLD_XDP, ESC_REASON_RECEIPT_UNMATCHED, 1);
	owd_read(w, 4, &owd);
	tap_ok(good && IS(owd.samples, 0), "a packet that was sent twice gives no sample");
	receipt_reset(w);
	record(w, 4, 16);
	sent_read(w, 4, &sent);
	sent.records[ESC_TX_RECORD_INDEX(16)].tx_ktime_ns -= 2100000000;
	bpf_map_update_elem(receipt_fd(w, "qp_sent"), &key, &sent, BPF_EXIST);
	good = IS(take(w, WORLD_XDP, &plan), XDP_VERDICT_DROP) &&
	       probe_reason_is(&w->w, WORLD_XDP, ESC_REASON_RECEIPT_UNMATCHED, 1);
	tap_ok(good, "nor one that left more than 2 s ago");
}

static void test_untimed(struct receipt_world *w)
{
	struct receipt_plan plan = plan_usual();
	struct esc_qp_owd owd;

	receipt_reset(w);
	record(w, 4, 16);
	plan.flags = 0;
	take(w, WORLD_XDP, &plan);
	owd_read(w, 4, &owd);
	tap_ok(IS(owd.receipts, 1) && IS(owd.samples, 0) && owd.feedback_sum_ns && !owd.max_ns,
	       "a receipt without fabric time counts, and leaves no delay");
	receipt_reset(w);
	receipt_set_clock(w, false);
	record(w, 4, 16);
	plan.flags = ESC_RECEIPT_TIMED;
	take(w, WORLD_XDP, &plan);
	owd_read(w, 4, &owd);
	tap_ok(IS(owd.receipts, 1) && IS(owd.samples, 0), "so for a record without it");
}

static void test_message(struct receipt_world *w)
{
	uint32_t start = 100;
	struct receipt_plan plan = plan_usual();
	struct esc_tx_record end;
	struct esc_qp_sent sent;
	struct esc_qp_owd owd;
	const struct esc_owd_window *window;

	while (!ESC_MESSAGE_SAMPLED(start, 0xf) || !((start + 1) & 0xf))
		start++;
	receipt_reset(w);
	data_send(w, WORLD_TC_OUT, 4, 0x00, start);
	data_send(w, WORLD_TC_OUT, 4, 0x02, start + 1);
	sent_read(w, 4, &sent);
	end = sent.records[ESC_TX_RECORD_INDEX(start + 1)];
	plan.psn = start + 1;
	plan.flags |= ESC_RECEIPT_MESSAGE;
	plan.message_ns = 777;
	plan.rx_fabric_ns = end.start_fabric_ns + 5000000;
	take(w, WORLD_XDP, &plan);
	owd_read(w, 4, &owd);
	window = &owd.windows[(owd.last_ktime_ns >> ESC_OWD_WINDOW_SHIFT) % ESC_OWD_WINDOWS];
	tap_ok(IS(owd.samples, 1) && IS(window->messages, 1) && IS(window->message_bytes, 512) &&
		       IS(window->message_delay_sum_ns, 5000000) &&
		       IS(window->message_delay_max_ns, 5000000) &&
		       IS(window->message_spread_sum_ns, 777),
	       "a message: bytes, delay from its START, spread");
}

/* Many receipts against a second account of them. */
static void test_account(struct receipt_world *w)
{
	uint32_t histogram[ESC_OWD_BUCKETS] = {0};
	int64_t min = INT64_MAX, max = INT64_MIN, sum = 0, in_windows = 0;
	uint64_t over = 0, crossings = 0, window_over = 0, window_crossings = 0, samples = 0;
	struct esc_qp_owd owd;
	bool above = false, good;

	receipt_reset(w);
	for (uint32_t psn = 16; psn <= 16 * 1000; psn += 16) {
		struct esc_tx_record left = record(w, 4, psn);
		struct receipt_plan plan = plan_usual();
		int64_t delay = (int64_t)(random_64() >> (random_64() % 40 + 24)) - 100;

		plan.psn = psn;
		plan.rx_fabric_ns = left.tx_fabric_ns + delay;
		take(w, WORLD_XDP, &plan);
		histogram[esc_owd_bucket(delay)]++;
		min = delay < min ? delay : min;
		max = delay > max ? delay : max;
		sum += delay;
		over += delay > THRESHOLD_NS;
		crossings += delay > THRESHOLD_NS && !above;
		above = delay > THRESHOLD_NS;
	}
	owd_read(w, 4, &owd);
	good = IS(owd.samples, 1000) && IS(owd.receipts, 1000) && IS(owd.min_ns, min) &&
	       IS(owd.max_ns, max) && IS(owd.over, over) && IS(owd.crossings, crossings) &&
	       IS(owd.above, above) && !memcmp(owd.histogram, histogram, sizeof(histogram));
	for (int i = 0; i < ESC_OWD_WINDOWS; i++) {
		samples += owd.windows[i].samples;
		in_windows += owd.windows[i].sum_ns;
		window_over += owd.windows[i].over;
		window_crossings += owd.windows[i].crossings;
	}
	/* A machine that took more than 2 s has windows that went round. */
	if (samples == 1000)
		good = IS(in_windows, sum) && IS(window_over, over) &&
		       IS(window_crossings, crossings) && good;
	tap_ok(good, "1000 delays: histogram, extremes, crossings and windows hold them all");
}

static void test_buckets(void)
{
	bool good = true;

	for (uint32_t i = 0; i < ESC_OWD_BUCKETS; i++) {
		uint64_t floor = esc_owd_bucket_floor(i);

		good = good && esc_owd_bucket(floor) == i;
		if (i)
			good = good && esc_owd_bucket(floor - 1) == i - 1;
		if (i >= 64)
			good = good && (esc_owd_bucket_floor(i + 1) - floor) * 32 <= floor;
	}
	good = good && !esc_owd_bucket(-1) && !esc_owd_bucket(INT64_MIN) &&
	       esc_owd_bucket(INT64_MAX) == ESC_OWD_BUCKETS - 1;
	tap_ok(good, "buckets: each begins where the one before ends, at most 1/32 wide");
}

/* Where XDP is generic or absent. */
static void test_tc(void)
{
	struct receipt_plan plan = plan_usual();
	struct receipt_world w;
	struct esc_qp_owd owd;
	bool good;

	if (receipt_world_open(&w, &(struct world_options){.tc_takes = true})) {
		tap_ok(false, "the programs load");
		return;
	}
	record(&w, 4, 16);
	good = IS(take(&w, WORLD_TC_IN, &plan), 2);
	owd_read(&w, 4, &owd);
	tap_ok(good && IS(owd.samples, 1), "in tc ingress: taken, and ends there");
	good = IS(take(&w, WORLD_TC_IN, &plan), 2) &&
	       probe_reason_is(&w.w, WORLD_TC_IN, ESC_REASON_RECEIPT_UNMATCHED, 1);
	tap_ok(good, "in tc ingress: ours and unmatched ends there");
	receipt_reset(&w);
	plan.key = &keys[2];
	good = IS(take(&w, WORLD_TC_IN, &plan), -1) &&
	       probe_reason_is(&w.w, WORLD_TC_IN, ESC_REASON_PROBE_BAD_TAG, 1);
	tap_ok(good, "in tc ingress: what may be another program's goes on");
	plan = plan_usual();
	plan.bad_magic = true;
	receipt_reset(&w);
	good = IS(take(&w, WORLD_TC_IN, &plan), -1);
	tap_ok(good, "in tc ingress: without the magic it is none of ours");
	probe_world_close(&w.w);
}

/* Random changes, half of them with a good tag: no crash, and only what is untouched is taken. */
static void test_fuzz(struct receipt_world *w, unsigned int packets)
{
	unsigned int signed_count = 0;
	bool good = true;

	for (unsigned int i = 0; i < packets && good; i++) {
		struct receipt_plan plan = plan_usual();
		bool sign = random_64() & 1, same;
		struct frame f, was;
		struct esc_qp_owd owd;
		uint32_t bth;

		receipt_reset(w);
		record(w, 4, 16);
		plan.shape = random_64() % FRAME_SHAPES;
		receipt_build(&f, &plan);
		turn(&f, &plan);
		was = f;
		bth = probe_bth(&f);
		for (uint64_t n = random_64() % 3; n > 0; n--)
			f.data[bth - 8 + random_64() % (R_ICRC + 8)] ^= 1 << random_64() % 8;
		if (sign)
			receipt_put_tag(&f, bth, plan.key);
		if (random_64() % 8 == 0)
			f.bytes -= random_64() % (f.bytes - 60);
		same = f.bytes == was.bytes && !memcmp(f.data + bth, was.data + bth, R_ICRC);
		take_frame(w, WORLD_XDP, &f);
		owd_read(w, 4, &owd);
		signed_count += sign;
		/* A valid tag covers everything; opcode and magic make it a receipt. */
		if (!sign)
			good = IS(owd.receipts, same && f.data[bth - 6] == was.data[bth - 6] &&
							f.data[bth - 5] == was.data[bth - 5] &&
							f.data[bth - 4] == was.data[bth - 4] &&
							f.data[bth - 3] == was.data[bth - 3]) &&
			       good;
		else if (same && !memcmp(f.data, was.data, f.bytes))
			good = IS(owd.receipts, 1) && good;
	}
	tap_ok(good, "%u altered receipts, %u of them with a good tag", packets, signed_count);
}

int main(int argc, char **argv)
{
	struct receipt_world w;

	state = argc > 1 ? strtoull(argv[1], NULL, 0) : (now_ns() | 1);
	printf("# seed %llu\n", (unsigned long long)state);
	if (receipt_world_open(&w, &(struct world_options){.port = 3}))
		return tap_bail("the programs do not load");
	/* What we send goes from the frames' source to their destination. */
	test_buckets();
	test_match(&w, 4);
	test_match(&w, 6);
	test_refusals(&w);
	test_invalidated(&w);
	test_untimed(&w);
	test_message(&w);
	test_account(&w);
	test_fuzz(&w, argc > 2 ? strtoul(argv[2], NULL, 0) : 3000);
	probe_world_close(&w.w);
	test_tc();
	return tap_end();
}
