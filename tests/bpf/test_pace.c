// SPDX-License-Identifier: BSD-2-Clause
/*
 * What leaves while pacing is on: departures by the law in user space, what is never
 * held, what ends it, and what a receipt's delay does.
 */
#define TAP_PLAN 44

#include "receipt_world.h"
#include "pacing/pause.h"

#define SEND_FIRST 0x00
#define SEND_MIDDLE 0x01
#define READ_REQUEST 0x0c
#define READ_MIDDLE 0x0e
#define ACKNOWLEDGE 0x11
#define PORT 3
#define MS 1000000ull

static const struct pause_rule usual = {
	.threshold_ns = 5 * MS,
	.line_Bps = 1000000, /* three packets open, 0.3 ms apart */
	.floor_Bps = 10000,
	.start_Bps = 100000, /* a packet of some 300 bytes in 3 ms */
	.hold_max_ns = 400 * MS,
	.quantum_ns = 10 * MS,
	.credit_ns = 1000,
	.no_feedback_ns = 10000 * MS,
	.weight = PAUSE_WEIGHT_ONE,
	.gain = PAUSE_GAIN_ONE,
	.flags = PAUSE_RATE,
};

static void set_rule(struct receipt_world *w, unsigned int class, const struct pause_rule *rule)
{
	uint32_t index = ESC_PACE_RULE(PORT, class);

	bpf_map_update_elem(receipt_fd(w, "pace_rules"), &index, rule, BPF_ANY);
}

static void set_word(struct receipt_world *w, uint32_t generation, int dscp, uint8_t class)
{
	struct esc_pace word = {.generation = generation};
	uint32_t zero = 0;

	if (dscp >= 0)
		word.dscp_class[dscp] = class;
	bpf_map_update_elem(receipt_fd(w, "pace"), &zero, &word, BPF_ANY);
}

static void reset(struct receipt_world *w, const struct pause_rule *rule)
{
	receipt_reset(w);
	receipt_forget(w, "qp_pace");
	receipt_forget(w, "pace_assigned");
	set_rule(w, 0, rule);
	set_word(w, 1, -1, 0);
	w->word.flags |= ESC_CONTROL_PACE;
	w->word.pace_ports = 1 << PORT;
	receipt_refresh(w, 0, 0);
}

static struct esc_qp_pace state_of(struct receipt_world *w, int ip)
{
	struct esc_qp_key key = data_key(w, ip, ESC_DIRECTION_TX);
	struct esc_qp_pace state = {};

	bpf_map_lookup_elem(receipt_fd(w, "qp_pace"), &key, &state);
	return state;
}

/* The packet's departure, 0 at once; UINT64_MAX: the program did not run or changed the packet. */
static uint64_t send_frame(struct receipt_world *w, const struct frame *f, uint64_t tstamp)
{
	static uint8_t out[FRAME_MAX + 1024];
	struct __sk_buff before = {.tstamp = tstamp}, after = {};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .data_out = out, .data_size_out = sizeof(out), .repeat = 1, .ctx_in = &before,
		    .ctx_size_in = sizeof(before), .ctx_out = &after,
		    .ctx_size_out = sizeof(after));

	if (bpf_prog_test_run_opts(w->w.world.programs[WORLD_TC_OUT], &o) ||
	    o.retval != world_verdicts[WORLD_TC_OUT] || o.data_size_out != f->bytes ||
	    memcmp(out, f->data, f->bytes))
		return UINT64_MAX;
	return after.tstamp;
}

static uint64_t send_one(struct receipt_world *w, int ip, uint8_t opcode, uint32_t psn)
{
	struct frame f;

	data_build(&f, ip, opcode, psn);
	return send_frame(w, &f, 0);
}

/* By the law for a packet handed over between @from and @to: the earliest and the latest. */
static bool as_the_law(const struct esc_qp_pace *before, const struct pause_rule *rule,
		       uint32_t bytes, uint64_t from, uint64_t to, uint64_t departure)
{
	struct pause_flow early = before->flow, late = before->flow;
	uint64_t least, most;

	pause_repeat(&early, rule, 0, from);
	pause_repeat(&late, rule, 0, to);
	least = pause_depart(&early, rule, bytes, from, NULL);
	most = pause_depart(&late, rule, bytes, to, NULL);
	if (!departure && least <= to)
		return true;
	if (departure < least || departure > most)
		printf("# leaves at %llu, must be %llu to %llu\n", (unsigned long long)departure,
		       (unsigned long long)least, (unsigned long long)most);
	return departure >= least && departure <= most;
}

static void test_law(struct receipt_world *w, int ip)
{
	unsigned int held = 0;
	struct frame f;
	bool good = true;

	reset(w, &usual);
	for (uint32_t psn = 1; psn <= 40; psn++) {
		struct esc_qp_pace before = state_of(w, ip);
		uint64_t from, departure;

		data_build(&f, ip, SEND_MIDDLE, psn);
		from = now_ns();
		departure = send_frame(w, &f, 0);
		good = as_the_law(&before, &usual, f.bytes - 14, from, now_ns(), departure) && good;
		held += departure > 0;
	}
	tap_ok(good && held >= 35, "IPv%d: 40 packets leave at the departure of the law (%u held)",
	       ip, held);
	good = IS(state_of(w, ip).packets, 40) && IS(state_of(w, ip).held, held) &&
	       state_of(w, ip).waited_ns > 0 && state_of(w, ip).longest_ns > 0;
	tap_ok(good, "IPv%d: and are counted", ip);
}

static void test_never(struct receipt_world *w)
{
	static const struct {
		const char *name;
		uint8_t opcode;
		uint32_t extension;
	} kinds[] = {
		{"an ACK", ACKNOWLEDGE, 4},	 {"a CNP", 0x81, 16},
		{"a UD datagram", 0x64, 8},	 {"a UD datagram with immediate", 0x65, 12},
		{"an atomic's reply", 0x12, 12},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		bool good = true;
		struct frame f;

		reset(w, &usual);
		for (uint32_t psn = 100; psn < 110; psn++)
			send_one(w, 4, SEND_MIDDLE, psn);
		for (int k = 0; k < 5; k++) {
			frame_build(&f, &(struct frame_plan){.opcode = kinds[i].opcode,
							     .psn = 90 + k,
							     .qpn = QPN,
							     .extension = kinds[i].extension,
							     .source_host = PEER_HOST});
			good = IS(send_frame(w, &f, 0), 0) && good;
		}
		tap_ok(good, "%s is never held, though data of the same queue pair is",
		       kinds[i].name);
	}
}

static void test_rule(struct receipt_world *w)
{
	uint64_t last = 0, read, ack, response = 0;

	reset(w, &usual);
	for (uint32_t psn = 1; psn < 10; psn++)
		last = send_one(w, 4, SEND_MIDDLE, psn);
	read = send_one(w, 4, READ_REQUEST, 10);
	tap_ok(last && IS(read, last),
	       "a request without a payload does not overtake what is held");
	reset(w, &usual);
	for (uint32_t psn = 1; psn < 10; psn++)
		response = send_one(w, 4, READ_MIDDLE, psn);
	ack = send_one(w, 4, ACKNOWLEDGE, 10);
	tap_ok(response && IS(ack, response),
	       "READ responses are held, and an ACK does not overtake them");
	w->word.pace_ports = 0;
	receipt_refresh(w, 0, 0);
	read = send_one(w, 4, READ_MIDDLE, 11);
	tap_ok(IS(read, response), "nor does data when pacing has just ended");
	w->word.flags &= ~ESC_CONTROL_PACE;
	receipt_refresh(w, 0, 0);
	tap_ok(IS(send_one(w, 4, READ_MIDDLE, 12), 0), "the flag taken away: nothing is touched");
}

static void test_alive(struct receipt_world *w)
{
	uint64_t departure = 0, until;
	struct pause_rule slow = usual;

	reset(w, &usual);
	receipt_refresh(w, 2100 * MS, 0);
	for (uint32_t psn = 1; psn < 10; psn++)
		departure |= send_one(w, 4, SEND_MIDDLE, psn);
	tap_ok(IS(departure, 0) && IS(state_of(w, 4).held, 0),
	       "the daemon silent for more than 2 s: nothing is held");
	slow.start_Bps = slow.floor_Bps = 1000;
	reset(w, &slow);
	receipt_refresh(w, 1900 * MS, 0);
	until = w->word.heartbeat_local_ns + ESC_HEARTBEAT_TIMEOUT_NS;
	for (uint32_t psn = 1; psn < 10; psn++) {
		uint64_t one = send_one(w, 4, SEND_MIDDLE, psn);

		departure = one > departure ? one : departure;
	}
	tap_ok(departure && departure <= until, "and nothing is held for longer than that");
}

static void test_bounded(struct receipt_world *w)
{
	struct pause_rule slow = usual;
	struct esc_qp_pace state;
	bool good = true;

	slow.start_Bps = slow.floor_Bps = 1000; /* 0.3 s for a packet */
	slow.hold_max_ns = 20 * MS;
	reset(w, &slow);
	for (uint32_t psn = 1; psn < 30; psn++) {
		uint64_t departure = send_one(w, 4, SEND_MIDDLE, psn);

		good = departure <= now_ns() + slow.hold_max_ns && good;
	}
	state = state_of(w, 4);
	tap_ok(good && state.bounded > 20 && state.longest_ns <= slow.hold_max_ns,
	       "no packet is held longer than hold_max (%llu would have been)",
	       (unsigned long long)state.bounded);
}

static void test_off(struct receipt_world *w)
{
	uint64_t departure = 0;

	reset(w, &usual);
	w->word.pace_ports = (uint16_t) ~(1u << PORT);
	receipt_refresh(w, 0, 0);
	for (uint32_t psn = 1; psn < 10; psn++)
		departure |= send_one(w, 4, SEND_MIDDLE, psn);
	tap_ok(IS(departure, 0) && IS(state_of(w, 4).packets, 0),
	       "another port is paced: nothing is held, no entry");
	reset(w, &usual);
	receipt_set_addresses(w, 0, 0);
	send_one(w, 4, SEND_MIDDLE, 16); /* a sampled one finds out */
	receipt_forget(w, "qp_pace");
	for (uint32_t psn = 17; psn < 30; psn++)
		departure |= send_one(w, 4, SEND_MIDDLE, psn);
	tap_ok(IS(departure, 0), "no peer of ours at the other end: nothing is held");
	reset(w, &(struct pause_rule){});
	for (uint32_t psn = 1; psn < 10; psn++)
		departure |= send_one(w, 4, SEND_MIDDLE, psn);
	tap_ok(IS(departure, 0), "no rule yet: nothing is held");
	reset(w, &usual);
	w->word.flags |= ESC_CONTROL_OFF;
	receipt_refresh(w, 0, 0);
	for (uint32_t psn = 1; psn < 10; psn++)
		departure |= send_one(w, 4, SEND_MIDDLE, psn);
	tap_ok(IS(departure, 0), "the kill switch: nothing is held");
}

static void test_foreign(struct receipt_world *w)
{
	uint64_t theirs = now_ns() + 3000 * MS;
	struct frame f;

	reset(w, &usual);
	data_build(&f, 4, SEND_MIDDLE, 1);
	tap_ok(IS(send_frame(w, &f, theirs), theirs), "another program's later departure is kept");
}

static void test_class(struct receipt_world *w)
{
	struct esc_qp_key key = data_key(w, 4, ESC_DIRECTION_TX);
	struct esc_pace_assignment order = {.class = 7};
	struct frame f;

	reset(w, &usual);
	set_rule(w, 5, &usual);
	set_rule(w, 7, &usual);
	set_word(w, 2, 26, 5);
	frame_build(&f, &(struct frame_plan){.opcode = SEND_MIDDLE,
					     .psn = 1,
					     .qpn = QPN,
					     .payload = 256,
					     .ecn = 26 << 2,
					     .source_host = PEER_HOST});
	send_frame(w, &f, 0);
	tap_ok(IS(state_of(w, 4).class, 5) && IS(state_of(w, 4).dscp, 26), "a class by DSCP");
	bpf_map_update_elem(receipt_fd(w, "pace_assigned"), &key, &order, BPF_ANY);
	send_frame(w, &f, 0);
	tap_ok(IS(state_of(w, 4).class, 5), "a class is not looked up with each packet");
	set_word(w, 3, 26, 5);
	send_frame(w, &f, 0);
	tap_ok(IS(state_of(w, 4).class, 7), "but when the generation is another one");
	receipt_forget(w, "pace_assigned");
	set_word(w, 4, -1, 0);
	send_frame(w, &f, 0);
	tap_ok(IS(state_of(w, 4).class, 0), "and none is class 0");
}

/* --- beside steering --- */

static void send_from(struct receipt_world *w, uint16_t sport, uint32_t first, uint32_t last)
{
	struct frame f;

	for (uint32_t psn = first; psn <= last; psn++) {
		frame_build(&f, &(struct frame_plan){.opcode = SEND_MIDDLE,
						     .psn = psn,
						     .qpn = QPN,
						     .payload = 256,
						     .sport = sport,
						     .source_host = PEER_HOST});
		send_frame(w, &f, 0);
	}
}

/* What was lost on another path shows no congestion of this one. */
static void test_moved(struct receipt_world *w)
{
	uint64_t rate;

	reset(w, &usual);
	send_from(w, 50000, 0xfffff0, 0xfffffa);
	rate = state_of(w, 4).flow.rate_Bps;
	send_from(w, 50001, 0xfffffb, 0xfffffe);
	send_from(w, 50001, 0xfffff5, 0xfffffa);
	tap_ok(IS(state_of(w, 4).flow.rate_Bps, rate),
	       "what the path before lost is sent again: the rate stays");
	send_from(w, 50001, 0xfffffb, 0xffffff);
	tap_ok(IS(state_of(w, 4).flow.rate_Bps, rate / 2), "what this one lost: it is halved");
	reset(w, &usual);
	send_from(w, 50000, 1, 10);
	send_from(w, 50000, 5, 5);
	tap_ok(IS(state_of(w, 4).flow.rate_Bps, rate / 2), "and where the path is the same");
}

/* A gap before a change of path is one between departures: what is held could be overtaken. */
static void test_gap(struct receipt_world *w)
{
	struct esc_qp_key key = data_key(w, 4, ESC_DIRECTION_TX);
	struct esc_steer rule = {.number = 1,
				 .sport = 50001,
				 .flowlet_gap_ns = 1 * MS,
				 .start_local_ns = UINT64_MAX,
				 .force_local_ns = UINT64_MAX};
	uint64_t departure = 0;
	struct esc_qp qp = {};

	reset(w, &usual);
	bpf_map_update_elem(receipt_fd(w, "steers"), &key, &rule, BPF_ANY);
	w->word.flags |= ESC_CONTROL_STEER;
	w->word.steer_ports = 1 << PORT;
	w->word.steer_generation++;
	receipt_refresh(w, 0, 0);
	for (uint32_t psn = 1; psn <= 12; psn++)
		departure = send_one(w, 4, SEND_MIDDLE, psn);
	usleep(2000);
	send_one(w, 4, SEND_MIDDLE, 13);
	bpf_map_lookup_elem(receipt_fd(w, "qps"), &key, &qp);
	tap_ok(departure > now_ns() && departure != UINT64_MAX && qp.steer.rule == 1 &&
		       !qp.steer.applied && qp.steer.last_local_ns > departure,
	       "a rule that waits for a gap of 1 ms waits for what pacing holds");
	receipt_forget(w, "steers");
	w->word.flags &= ~ESC_CONTROL_STEER;
}

/* --- the floor from probes --- */

#define OWN_SPORT 50000 /* of data_build() */

static void set_paths(struct receipt_world *w, const struct esc_path paths[2])
{
	static struct esc_paths slot;
	struct esc_qp_key key = data_key(w, 4, ESC_DIRECTION_TX);
	uint32_t number = 2;

	slot = (struct esc_paths){.peer = PEER, .key = {key.src, key.dst}};
	memcpy(slot.paths, paths, 2 * sizeof(*paths));
	bpf_map_update_elem(receipt_fd(w, "paths"), &number, &slot, BPF_ANY);
	bpf_map_update_elem(receipt_fd(w, "path_slots"), &slot.key, &number, BPF_ANY);
}

static uint64_t floor_after(struct receipt_world *w, uint32_t generation)
{
	set_word(w, generation, -1, 0);
	send_one(w, 4, SEND_MIDDLE, 1);
	return state_of(w, 4).flow.floor_ns;
}

static void steer_to(struct receipt_world *w, uint16_t sport)
{
	struct esc_qp_key key = data_key(w, 4, ESC_DIRECTION_TX);
	struct esc_qp qp = qp_read(w, 4, ESC_DIRECTION_TX);

	qp.steer.sport = sport;
	bpf_map_update_elem(receipt_fd(w, "qps"), &key, &qp, BPF_EXIST);
}

static void test_floor(struct receipt_world *w)
{
	struct esc_path paths[2] = {{.sport = OWN_SPORT, .floor_ns = 30001},
				    {.sport = 50001, .floor_ns = 70001}};
	struct esc_qp_key key = data_key(w, 4, ESC_DIRECTION_TX);
	struct esc_path_key way = {key.src, key.dst};
	struct esc_qp_pace state;

	reset(w, &usual);
	tap_ok(IS(floor_after(w, 1), 0), "no paths: a flow knows no floor");
	set_paths(w, paths);
	tap_ok(IS(floor_after(w, 1), 0) && IS(floor_after(w, 2), 30001),
	       "its path's floor, when it is set to look it up");
	reset(w, &usual);
	tap_ok(IS(floor_after(w, 2), 30001), "and from the first packet on, when it was there");
	state = state_of(w, 4);
	state.flow.floor_ns = 20001;
	bpf_map_update_elem(receipt_fd(w, "qp_pace"), &key, &state, BPF_EXIST);
	tap_ok(IS(floor_after(w, 3), 20001), "a lower one of its own stays");
	w->word.flags |= ESC_CONTROL_STEER;
	receipt_refresh(w, 0, 0);
	steer_to(w, 50001);
	tap_ok(IS(floor_after(w, 3), 70001), "on another path it is that one's");
	w->word.flags &= ~ESC_CONTROL_STEER;
	receipt_refresh(w, 0, 0);
	paths[0].sport = 50002;
	set_paths(w, paths);
	reset(w, &usual);
	tap_ok(IS(floor_after(w, 4), 70001), "of a port that is no path, the longest");
	paths[1].floor_ns = 0;
	set_paths(w, paths);
	reset(w, &usual);
	tap_ok(IS(floor_after(w, 5), 30001), "of those that are known");
	/* Its newest packet left 11 s ago: as if it had rested. */
	state = state_of(w, 4);
	state.flow.departed_ns = now_ns() - 11000 * MS;
	state.flow.floor_ns = 7;
	bpf_map_update_elem(receipt_fd(w, "qp_pace"), &key, &state, BPF_EXIST);
	tap_ok(IS(floor_after(w, 5), 30001),
	       "a long idle period ends its own estimate, not the probed one");
	bpf_map_delete_elem(receipt_fd(w, "path_slots"), &way);
}

/* --- a receipt's delay --- */

static int take(struct receipt_world *w, const struct esc_tx_record *record, int64_t delay_ns,
		uint32_t bound_ns, uint8_t flags)
{
	struct receipt_plan plan = {
		.flags = flags,
		.sender = PEER,
		.target = SELF,
		.epoch = PEER_EPOCH,
		.rx_fabric_ns = record->tx_fabric_ns + delay_ns,
		.bound_ns = bound_ns,
		.qpn = QPN,
		.psn = 16,
		.source_host = PEER_HOST,
		.key = &keys[0],
	};
	struct frame f, out;
	uint32_t ip;

	receipt_build(&f, &plan);
	ip = frame_ip_offset(&f);
	model_swap(f.data + ip + 12, f.data + ip + 16, 4);
	receipt_put_tag(&f, probe_bth(&f), plan.key);
	return probe_run(&w->w, WORLD_XDP, &f, &out, 0);
}

/* PSN 16, sampled and held; its departure. */
static struct esc_tx_record held_note(struct receipt_world *w, uint64_t *departure)
{
	struct esc_qp_sent sent;

	reset(w, &usual);
	for (uint32_t psn = 1; psn < 16; psn++)
		send_one(w, 4, SEND_MIDDLE, psn);
	*departure = send_one(w, 4, SEND_MIDDLE, 16);
	sent_read(w, 4, &sent);
	return sent.records[ESC_TX_RECORD_INDEX(16)];
}

/* An empty path takes nothing: what comes next is all queue. */
static void know_floor(struct receipt_world *w)
{
	struct esc_qp_key key = data_key(w, 4, ESC_DIRECTION_TX);
	struct esc_qp_pace state = state_of(w, 4);

	state.flow.floor_ns = 1;
	bpf_map_update_elem(receipt_fd(w, "qp_pace"), &key, &state, BPF_EXIST);
}

static void test_note(struct receipt_world *w)
{
	struct esc_tx_record record;
	struct esc_qp_pace state;
	uint64_t departure;

	record = held_note(w, &departure);
	state = state_of(w, 4);
	tap_ok(departure && IS(record.tx_ktime_ns, departure) &&
		       IS(record.tx_fabric_ns, departure + FABRIC_AHEAD_NS) &&
		       IS(record.psn, 16 | ESC_TX_RECORD_PACED) &&
		       IS(record.mark.bytes, (uint32_t)state.flow.bytes) &&
		       IS(record.mark.paused_ns, 0) && record.mark.ahead_ns > 0,
	       "a held packet's record is of when it leaves, with what the law knew then");
}

static void test_sample(struct receipt_world *w)
{
	struct esc_tx_record record;
	struct esc_qp_pace state;
	uint64_t departure, from, to;
	bool good;

	record = held_note(w, &departure);
	know_floor(w);
	while (now_ns() < departure)
		;
	from = now_ns();
	good = IS(take(w, &record, 9 * MS, 300, ESC_RECEIPT_TIMED), XDP_VERDICT_DROP);
	to = now_ns();
	state = state_of(w, 4);
	good = IS(state.samples, 1) && IS(state.unsure, 0) && IS(state.flow.delay_ns, 9 * MS) &&
	       IS(state.flow.paused_ns, 4 * MS) && IS(state.flow.over, 1) && good;
	tap_ok(good && state.flow.until_ns >= from + 4 * MS && state.flow.until_ns <= to + 4 * MS,
	       "4 ms too long: 4 ms of pause");
	record = held_note(w, &departure);
	take(w, &record, 4 * MS, 300, ESC_RECEIPT_TIMED);
	state = state_of(w, 4);
	tap_ok(IS(state.samples, 1) && IS(state.flow.paused_ns, 0), "below the threshold: none");
	record = held_note(w, &departure);
	take(w, &record, 9 * MS, usual.threshold_ns / 4, ESC_RECEIPT_TIMED);
	state = state_of(w, 4);
	tap_ok(IS(state.samples, 0) && IS(state.unsure, 1) && IS(state.flow.paused_ns, 0),
	       "a bound above a quarter of the threshold: none, and counted");
	record = held_note(w, &departure);
	take(w, &record, 9 * MS, 300, 0);
	state = state_of(w, 4);
	tap_ok(IS(state.samples, 0) && IS(state.unsure, 1) && IS(state.flow.paused_ns, 0),
	       "the receiver has no fabric time: none, and counted");
	record = held_note(w, &departure);
	take(w, &record, 9 * MS, 300, ESC_RECEIPT_TIMED);
	take(w, &record, 90 * MS, 300, ESC_RECEIPT_TIMED);
	state = state_of(w, 4);
	tap_ok(IS(state.samples, 1) && IS(state.flow.delay_ns, 9 * MS),
	       "a receipt that matches no record steers nothing");
}

static void test_full(void)
{
	struct receipt_world w;
	uint64_t departure = 0;

	if (receipt_world_open(&w, &(struct world_options){.port = PORT, .owd_max = 1})) {
		tap_ok(false, "the programs load with small tables");
		return;
	}
	reset(&w, &usual);
	for (uint32_t psn = 1; psn < 5; psn++)
		send_one(&w, 4, SEND_MIDDLE, psn);
	for (uint32_t psn = 1; psn < 10; psn++)
		departure |= send_one(&w, 6, SEND_MIDDLE, psn);
	tap_ok(IS(departure, 0) && IS(state_of(&w, 6).packets, 0),
	       "no room for another queue pair: it is not held");
	probe_world_close(&w.w);
}

int main(void)
{
	struct receipt_world w;

	if (receipt_world_open(&w, &(struct world_options){.port = PORT}))
		return tap_bail("the programs do not load");
	test_law(&w, 4);
	test_law(&w, 6);
	test_never(&w);
	test_rule(&w);
	test_alive(&w);
	test_bounded(&w);
	test_off(&w);
	test_foreign(&w);
	test_class(&w);
	test_moved(&w);
	test_gap(&w);
	test_floor(&w);
	test_note(&w);
	test_sample(&w);
	probe_world_close(&w.w);
	test_full();
	return tap_end();
}
