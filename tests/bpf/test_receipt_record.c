// SPDX-License-Identifier: BSD-2-Clause
/* What leaves: which packets are recorded, with which departure, what invalidates a record. */
#define TAP_PLAN 44

#include "receipt_world.h"

#define OUT WORLD_TC_OUT
#define SEND_FIRST 0x00
#define SEND_MIDDLE 0x01
#define SEND_LAST 0x02
#define SEND_ONLY 0x04

static struct esc_tx_record note_of(struct receipt_world *w, int ip, uint32_t psn)
{
	struct esc_qp_sent sent;

	sent_read(w, ip, &sent);
	return sent.records[ESC_TX_RECORD_INDEX(psn)];
}

static bool is_recorded(struct receipt_world *w, int ip, uint32_t psn)
{
	struct esc_tx_record record = note_of(w, ip, psn);

	return record.tx_ktime_ns && (record.psn & 0xffffff) == psn;
}

static void test_note(struct receipt_world *w, int ip)
{
	struct esc_tx_record record;
	struct esc_qp_sent sent;
	struct esc_qp_owd owd;
	uint64_t from, to;
	bool good = true;

	receipt_reset(w);
	for (uint32_t psn = 1; psn < 16; psn++)
		good = data_send(w, OUT, ip, SEND_MIDDLE, psn) && good;
	tap_ok(good && !sent_read(w, ip, &sent) && !owd_read(w, ip, &owd),
	       "IPv%d: what is not sampled is not recorded, and has no entry", ip);
	from = now_ns();
	good = data_send(w, OUT, ip, SEND_MIDDLE, 16);
	to = now_ns();
	record = note_of(w, ip, 16);
	good = good && sent_read(w, ip, &sent) && IS(sent_waiting(&sent), 1) &&
	       IS(record.psn, 16) && record.tx_ktime_ns >= from && record.tx_ktime_ns <= to &&
	       IS(record.tx_fabric_ns, record.tx_ktime_ns + FABRIC_AHEAD_NS) &&
	       IS(record.tx_bound_ns, FABRIC_BOUND_NS) && IS(record.message_bytes, 0) &&
	       IS(record.queue_ns, 0);
	good = owd_read(w, ip, &owd) && IS(owd.samples_sent, 1) && IS(owd.receipts, 0) &&
	       IS(owd.samples_discarded + owd.samples_expired, 0) && good;
	tap_ok(good, "IPv%d: a sampled packet is recorded with fabric time and its bound", ip);
	good = data_send(w, OUT, ip, SEND_MIDDLE, 16);
	owd_read(w, ip, &owd);
	tap_ok(good && !is_recorded(w, ip, 16) && IS(owd.samples_discarded, 1) &&
		       IS(owd.samples_sent, 1),
	       "IPv%d: retransmitted, its record is invalidated", ip);
	good = data_send(w, OUT, ip, SEND_MIDDLE, 16);
	owd_read(w, ip, &owd);
	tap_ok(good && !is_recorded(w, ip, 16) && IS(owd.samples_discarded, 1) &&
		       IS(owd.samples_sent, 1) && probe_reason_is(&w->w, OUT, -1, 0),
	       "IPv%d: and stays so", ip);
}

/* Each after a packet that makes the queue pair known. */
static void test_kinds(struct receipt_world *w)
{
	static const struct {
		const char *name;
		uint8_t opcode;
		uint32_t extension;
		bool recorded;
		uint32_t name_bits;
	} kinds[] = {
		{"RC SEND_ONLY", 0x04, 0, true, 0},
		{"RC WRITE_ONLY", 0x0a, 16, true, 0},
		{"RC READ_REQUEST", 0x0c, 16, true, 0},
		{"RC READ_RESPONSE_ONLY", 0x10, 4, true, ESC_TX_RECORD_RESPONSE},
		{"RC READ_RESPONSE_MIDDLE", 0x0e, 0, true, ESC_TX_RECORD_RESPONSE},
		{"RC ACKNOWLEDGE", 0x11, 4, false, 0},
		{"RC ATOMIC_ACKNOWLEDGE", 0x12, 12, false, 0},
		{"RC FETCH_ADD", 0x14, 28, true, 0},
		{"UC SEND_ONLY", 0x24, 0, true, 0},
		{"UD SEND_ONLY", 0x64, 8, false, 0},
		{"CNP", 0x81, 16, false, 0},
		{"XRC SEND_ONLY", 0xa4, 4, true, 0},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct frame f;
		bool good;

		receipt_reset(w);
		frame_build(&f, &(struct frame_plan){.opcode = kinds[i].opcode,
						     .psn = 32,
						     .qpn = QPN,
						     .payload = 64,
						     .extension = kinds[i].extension,
						     .source_host = PEER_HOST});
		good = data_run(w, OUT, &f, NULL);
		tap_ok(good && is_recorded(w, 4, 32) == kinds[i].recorded &&
			       (!kinds[i].recorded ||
				IS(note_of(w, 4, 32).psn, 32 | kinds[i].name_bits)),
		       "%s is %s", kinds[i].name,
		       kinds[i].recorded ? "recorded" : "never recorded");
	}
}

static void test_departure(struct receipt_world *w)
{
	struct __sk_buff skb = {0};
	struct esc_tx_record record;
	struct frame f;
	uint64_t now = now_ns();
	bool good;

	receipt_reset(w);
	data_build(&f, 4, SEND_ONLY, 16);
	skb.tstamp = now + 5000000000ull;
	good = data_run(w, OUT, &f, &skb);
	record = note_of(w, 4, 16);
	tap_ok(good && IS(record.tx_ktime_ns, skb.tstamp) &&
		       IS(record.tx_fabric_ns, skb.tstamp + FABRIC_AHEAD_NS),
	       "a departure time ahead is when the packet leaves: its hold is no delay");
	skb.tstamp = now - 1000;
	data_build(&f, 4, SEND_ONLY, 32);
	f.data[f.bytes - 1] ^= 1;
	good = data_run(w, OUT, &f, &skb) || true;
	data_build(&f, 4, SEND_ONLY, 48);
	good = data_run(w, OUT, &f, &skb);
	record = note_of(w, 4, 48);
	tap_ok(good && record.tx_ktime_ns >= now && record.tx_ktime_ns <= now_ns(),
	       "one that has passed is not");
	skb.tstamp = 1800000000000000000ull;
	data_build(&f, 4, SEND_ONLY, 64);
	good = data_run(w, OUT, &f, &skb);
	record = note_of(w, 4, 64);
	tap_ok(good && record.tx_ktime_ns >= now && record.tx_ktime_ns <= now_ns(),
	       "nor is a time of another clock");
}

static void test_no_feedback(struct receipt_world *w)
{
	struct esc_qp qp;
	bool good;

	receipt_reset(w);
	receipt_set_addresses(w, 0, 0);
	good = data_send(w, OUT, 4, SEND_ONLY, 16);
	qp = qp_read(w, 4, ESC_DIRECTION_TX);
	tap_ok(good && !is_recorded(w, 4, 16) && (qp.sample_flags & ESC_SAMPLE_NO_FEEDBACK),
	       "to an unknown address: no feedback");
	receipt_set_addresses(w, PEER, ESC_PEER_NEIGHBOUR(0));
	good = data_send(w, OUT, 4, SEND_ONLY, 32);
	qp = qp_read(w, 4, ESC_DIRECTION_TX);
	tap_ok(good && is_recorded(w, 4, 32) && !(qp.sample_flags & ESC_SAMPLE_NO_FEEDBACK),
	       "it becomes a neighbour: feedback");
	receipt_refresh(w, 0, 3100000000);
	good = data_send(w, OUT, 4, SEND_ONLY, 48);
	qp = qp_read(w, 4, ESC_DIRECTION_TX);
	tap_ok(good && !is_recorded(w, 4, 48) && (qp.sample_flags & ESC_SAMPLE_NO_FEEDBACK),
	       "a neighbour that was not received for 3 s: no feedback");
	receipt_set_addresses(w, PEER, ESC_PEER_NEIGHBOUR(1));
	good = data_send(w, OUT, 4, SEND_ONLY, 64);
	tap_ok(good && is_recorded(w, 4, 64),
	       "a member that is no neighbour on this mesh is accepted unreceived");
	receipt_set_addresses(w, OTHER, 0);
	good = data_send(w, OUT, 4, SEND_ONLY, 80);
	tap_ok(good && !is_recorded(w, 4, 80),
	       "an address of a member that `peers` has not: no feedback");
}

static void test_switched(struct receipt_world *w)
{
	struct esc_tx_record record;
	bool good;

	receipt_reset(w);
	w->word.flags = ESC_CONTROL_SAMPLE_FIXED;
	receipt_refresh(w, 0, 0);
	good = data_send(w, OUT, 4, SEND_ONLY, 16);
	tap_ok(good && !is_recorded(w, 4, 16), "receipts off: nothing is recorded");
	w->word.flags |= ESC_CONTROL_RECEIPTS | ESC_CONTROL_OFF;
	receipt_refresh(w, 0, 0);
	good = data_send(w, OUT, 4, SEND_ONLY, 32);
	tap_ok(good && !is_recorded(w, 4, 32), "the kill switch: nothing is recorded");
	receipt_reset(w);
	receipt_set_clock(w, false);
	good = data_send(w, OUT, 4, SEND_ONLY, 16);
	record = note_of(w, 4, 16);
	tap_ok(good && record.tx_ktime_ns && IS(record.psn, 16 | ESC_TX_RECORD_UNTIMED),
	       "without fabric time a record reports it");
}

/* Messages of three packets; PSNs avoid the multiples of 16 at their ends. */
static uint32_t sampled_start(uint32_t from, uint32_t mask, bool sampled)
{
	while ((from & mask) == 0 || ((from + 2) & mask) == 0 || ((from + 1) & mask) == 0 ||
	       (((from * 0x9e3779b1u) >> 8 & mask) == 0) != sampled)
		from++;
	return from;
}

static void test_messages(struct receipt_world *w)
{
	uint32_t start = sampled_start(100, 0xf, true), plain = sampled_start(300, 0xf, false);
	struct esc_tx_record record;
	uint64_t began;
	bool good;

	receipt_reset(w);
	good = data_send(w, OUT, 4, SEND_ONLY, start - 1);
	good = data_send(w, OUT, 4, SEND_FIRST, start) && good;
	began = qp_read(w, 4, ESC_DIRECTION_TX).message_start_local_ns;
	good = IS(qp_read(w, 4, ESC_DIRECTION_TX).message_start_psn, start) && good;
	good = data_send(w, OUT, 4, SEND_MIDDLE, start + 1) && good;
	good = !is_recorded(w, 4, start) && !is_recorded(w, 4, start + 1) && good;
	good = data_send(w, OUT, 4, SEND_LAST, start + 2) && good;
	record = note_of(w, 4, start + 2);
	tap_ok(good && is_recorded(w, 4, start + 2) && IS(record.message_bytes, 3 * 256) &&
		       IS(record.start_fabric_ns, began + FABRIC_AHEAD_NS) &&
		       record.tx_fabric_ns >= record.start_fabric_ns,
	       "a timed message's END is recorded, with START's time and its bytes");
	good = data_send(w, OUT, 4, SEND_ONLY, plain - 1);
	good = data_send(w, OUT, 4, SEND_FIRST, plain) && good;
	good = data_send(w, OUT, 4, SEND_MIDDLE, plain + 1) && good;
	good = data_send(w, OUT, 4, SEND_LAST, plain + 2) && good;
	tap_ok(good && !is_recorded(w, 4, plain + 2), "another's is not");
	start = sampled_start(500, 0xf, true);
	good = data_send(w, OUT, 4, SEND_ONLY, start - 1);
	good = data_send(w, OUT, 4, SEND_FIRST, start) && good;
	good = data_send(w, OUT, 4, SEND_LAST, start + 2) && good;
	tap_ok(good && !is_recorded(w, 4, start + 2), "nor one with a hole");
	start = sampled_start(700, 0xf, true);
	good = data_send(w, OUT, 4, SEND_ONLY, start);
	record = note_of(w, 4, start);
	tap_ok(good && is_recorded(w, 4, start) && IS(record.message_bytes, 256) &&
		       IS(record.start_fabric_ns, record.tx_fabric_ns),
	       "a message of one packet begins when it leaves");
}

/*
 * The queue pair, with @mask and its last sample @apart_ns ago, after another sample. A machine
 * that was busy elsewhere in between does it again.
 */
static struct esc_qp send_apart(struct receipt_world *w, enum world_hook hook, uint32_t mask,
				uint64_t apart_ns, bool slow, uint32_t psn)
{
	enum esc_direction direction = hook == OUT ? ESC_DIRECTION_TX : ESC_DIRECTION_RX;
	struct esc_qp_key key = data_key(w, 4, direction);
	struct esc_qp before = qp_read(w, 4, direction), qp = before;
	int tries = 0;

	w->word.flags &= ~ESC_CONTROL_SAMPLE_FIXED;
	receipt_refresh(w, 0, 0);
	do {
		uint64_t now = now_ns();

		qp = before;
		qp.sample_mask = mask;
		qp.sample_local_ns = now - apart_ns;
		qp.sample_slow = slow ? now >> 20 : 0;
		bpf_map_update_elem(bpf_map__fd(w->w.world.kernel->maps.qps), &key, &qp, BPF_EXIST);
		data_send(w, hook, 4, SEND_MIDDLE, psn);
		if (now_ns() - now < 400000)
			break;
	} while (++tries < 1000);
	return qp_read(w, 4, direction);
}

static void test_ring(struct receipt_world *w)
{
	struct esc_qp_sent sent;
	struct esc_qp_owd owd;
	struct esc_qp qp;
	uint32_t psn = 0;
	bool good = true;

	receipt_reset(w);
	w->word.flags &= ~ESC_CONTROL_SAMPLE_FIXED;
	w->word.sample_mask = 0;
	receipt_refresh(w, 0, 0);
	/* A mask of 0 with packets far closer than 500 us: thinned out by the rate alone. */
	while (psn < 64)
		good = data_send(w, OUT, 4, SEND_MIDDLE, psn++) && good;
	qp = qp_read(w, 4, ESC_DIRECTION_TX);
	tap_ok(good && qp.sample_mask > 0,
	       "packets in quick succession: samples thin out (mask %u)", qp.sample_mask);
	receipt_reset(w);
	w->word.sample_mask = 0;
	receipt_refresh(w, 0, 0);
	for (psn = 0; psn < 64; psn++)
		good = data_send(w, OUT, 4, SEND_MIDDLE, psn) && good;
	owd_read(w, 4, &owd);
	sent_read(w, 4, &sent);
	tap_ok(good && IS(sent_waiting(&sent), 64) && IS(owd.samples_sent, 64) &&
		       IS(owd.samples_expired, 0),
	       "64 samples in a row wait beside each other");
	for (; psn < 80; psn++)
		good = data_send(w, OUT, 4, SEND_MIDDLE, psn) && good;
	owd_read(w, 4, &owd);
	tap_ok(good && IS(owd.samples_expired, 16) && IS(owd.samples_sent, 80) &&
		       IS(qp_read(w, 4, ESC_DIRECTION_TX).sample_mask, 0),
	       "receipts slower than the ring: records are overwritten");
	qp = send_apart(w, OUT, 7, 4000000, false, 528); /* in the place of PSN 24 */
	owd_read(w, 4, &owd);
	tap_ok(IS(owd.samples_expired, 17) && IS(qp.sample_mask, 15) && qp.sample_slow,
	       "and unless the mask is fixed samples thin out for it, which is remembered");
}

static void test_adapt(struct receipt_world *w, enum world_hook hook)
{
	enum esc_direction direction = hook == OUT ? ESC_DIRECTION_TX : ESC_DIRECTION_RX;
	static const struct {
		uint32_t mask, want;
		uint64_t apart_ns;
		bool slow;
	} steps[] = {
		{15, 31, 50000, false},	       {15, 15, 600000, false},
		{15, 15, 9500000, false},      {15, 7, 10100000, false},
		{15, 15, 600000000, true},     {7, 7, 49000000, false},
		{7, 3, 51000000, false},       {0, 0, 3000000000, false},
		{0, 1, 1000, false},	       {0xffff, 0xffff, 1000, false},
		{0x7fff, 0xffff, 1000, false},
	};
	bool good = true;

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		struct esc_qp qp;

		receipt_reset(w);
		data_send(w, hook, 4, SEND_MIDDLE, 0xffff);
		qp = send_apart(w, hook, steps[i].mask, steps[i].apart_ns, steps[i].slow, 0x10000);
		good = IS(qp.sample_mask, steps[i].want) && good;
	}
	tap_ok(good, "%s: the mask doubles, stays and halves as in maps/owd.h",
	       world_hook_names[hook]);
	receipt_reset(w);
	data_send(w, hook, 4, SEND_MIDDLE, 0xffff);
	w->word.sample_mask = 0xff;
	receipt_refresh(w, 0, 0);
	data_send(w, hook, 4, SEND_MIDDLE, 0x10000);
	tap_ok(IS(qp_read(w, 4, direction).sample_mask, 0xff),
	       "%s: a fixed mask is the configuration's at the next sample",
	       world_hook_names[hook]);
}

static void test_full(void)
{
	struct receipt_world w;
	struct frame f;
	bool good = true;

	if (receipt_world_open(&w, &(struct world_options){.owd_max = 2})) {
		tap_ok(false, "the programs load with small tables");
		return;
	}
	for (uint32_t qpn = 1; qpn <= 4; qpn++)
		for (uint32_t psn = 15; psn < 33; psn++) {
			frame_build(&f, &(struct frame_plan){.opcode = SEND_MIDDLE,
							     .psn = psn,
							     .qpn = qpn,
							     .payload = 256,
							     .source_host = PEER_HOST});
			good = data_run(&w, OUT, &f, NULL) && good;
		}
	good = probe_reason_is(&w.w, OUT, ESC_REASON_OWD_TABLE_FULL, 4) && good;
	tap_ok(good && IS(world_qp_count(&w.w.world), 4),
	       "full tables: counted once for each sampled packet, traffic goes on");
	probe_world_close(&w.w);
}

int main(void)
{
	struct receipt_world w;

	if (receipt_world_open(&w, &(struct world_options){.port = 3}))
		return tap_bail("the programs do not load");
	test_note(&w, 4);
	test_note(&w, 6);
	test_kinds(&w);
	test_departure(&w);
	test_no_feedback(&w);
	test_switched(&w);
	test_messages(&w);
	test_ring(&w);
	test_adapt(&w, WORLD_TC_OUT);
	test_adapt(&w, WORLD_XDP);
	probe_world_close(&w.w);
	test_full();
	return tap_end();
}
