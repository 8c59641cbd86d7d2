// SPDX-License-Identifier: BSD-2-Clause
/*
 * Requests that come in: the reply byte for byte, the record, and each reason
 * to refuse one. The expectations come from probe_model.h.
 */
#define TAP_PLAN 67

#include "probe_world.h"

static bool is(const char *what, uint64_t value, uint64_t want)
{
	if (value != want)
		printf("# %s is %llu, must be %llu\n", what, (unsigned long long)value,
		       (unsigned long long)want);
	return value == want;
}

/* Tags of 00 01 02 ... with the key 00 .. 0f; 15 bytes is the paper's, all are `openssl mac`'s. */
static void test_siphash_model(void)
{
	static const struct {
		int bytes;
		uint64_t tag;
	} vectors[] = {
		{0, 0x726fdb47dd0e0e31},   {1, 0x74f839c593dc67fd},  {8, 0x93f5f5799a932462},
		{15, 0xa129ca6149be45e5},  {63, 0x958a324ceb064572}, {140, 0x3f53a7268ce4ebdf},
		{180, 0xe3d5f8ad09a750a2},
	};
	uint8_t data[180];
	bool good = true;
	size_t i;

	for (i = 0; i < sizeof(data); i++)
		data[i] = i;
	for (i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
		good = is("SipHash", model_siphash(&keys[0], data, vectors[i].bytes),
			  vectors[i].tag) &&
		       good;
	tap_ok(good, "the test's own SipHash gives the reference's tags");
}

static bool check_record_anchor(const struct esc_probe_event *e, bool known)
{
	return is("anchor_ref_fabric_ns", e->anchor_ref_fabric_ns,
		  known ? 0x292a2b2c2d2e2f30 : 0) &&
	       is("anchor_ahead_ns", e->anchor_ahead_ns, known ? 0x3132333435363738 : 0) &&
	       is("anchor_rate_q40", e->anchor_rate_q40, known ? 0x393a3b3c3d3e3f40 : 0) &&
	       is("anchor_sequence", e->anchor_sequence, known ? 0x41424344 : 0) &&
	       is("anchor_bound_ns", e->anchor_bound_ns, known ? 0x45464748 : 0) &&
	       is("anchor_id", e->anchor_id, known ? 0x494a4b4c : 0) &&
	       is("anchor_hops", e->anchor_hops, known ? 3 : 0);
}

static bool check_record(struct probe_world *w, const struct probe_plan *plan, uint64_t t2)
{
	const struct esc_probe_event *e = &w->event;

	return is("records", probe_events(w), 1) && is("kind", e->kind, ESC_PROBE_EVENT_REQUEST) &&
	       is("peer", e->peer, plan->sender) && is("epoch", e->epoch, plan->epoch) &&
	       is("t1", e->t1, plan->t1) && is("t2", e->t2, t2) && is("t3", e->t3, 0) &&
	       is("t4", e->t4, 0) && is("sequence", e->sequence, plan->sequence) &&
	       is("pair", e->pair, plan->pair) && is("flags", e->flags, plan->flags) &&
	       is("port", e->port, w->world.port) && is("about", e->about, plan->about) &&
	       is("heard_age_us", e->received_age_us, plan->received_age_us) &&
	       is("about_age_us", e->about_age_us, plan->about_age_us) &&
	       is("view_ref_local_ns", e->view_ref_local_ns, plan->view ? 0x0102030405060708 : 0) &&
	       is("view_ref_fabric_ns", e->view_ref_fabric_ns,
		  plan->view ? 0x090a0b0c0d0e0f10 : 0) &&
	       is("view_rate_q40", e->view_rate_q40, plan->view ? 0x1112131415161718 : 0) &&
	       is("view_ref_fraction", e->view_ref_fraction, plan->view ? 0x191a1b1c : 0) &&
	       is("view_bound_ns", e->view_bound_ns, plan->view ? 0x1d1e1f20 : 0) &&
	       is("view_generation", e->view_generation, plan->view ? 0x21222324 : 0) &&
	       is("view_reach", e->view_reach, plan->view ? 0x2526 : 0) &&
	       is("view_state", e->view_state, plan->view ? 2 : 0) &&
	       is("view_nic_report", e->view_nic_report, plan->view ? plan->view[39] : 0) &&
	       check_record_anchor(e, plan->anchor != NULL);
}

/* Sends the request; true when the reply and the record are what they must be. */
static bool check_reply(struct probe_world *w, const struct probe_plan *plan,
			const struct probe_responder *by, uint32_t linear)
{
	struct frame request, reply, want;
	uint64_t before, after, t2, t3;
	uint32_t bth;

	probe_build(&request, plan);
	bth = probe_bth(&request);
	before = now_ns();
	if (!is("verdict", probe_run(w, WORLD_XDP, &request, &reply, linear), XDP_VERDICT_TX))
		return false;
	after = now_ns();
	model_reply(&want, &request, &reply, by);
	t2 = probe_get(&reply, bth + P_T2, 8);
	t3 = probe_get(&reply, bth + P_T3, 8);
	return probe_same(&reply, &want) && is("t2 is in time", before <= t2 && t2 <= t3, 1) &&
	       is("t3 is in time", t3 <= after, 1) && check_record(w, plan, t2);
}

/* A reply would send the options back: there is none. */
static bool check_options(struct probe_world *w, const struct probe_plan *plan)
{
	struct frame request, out;

	probe_build(&request, plan);
	return is("verdict", probe_run(w, WORLD_XDP, &request, &out, 0), XDP_VERDICT_DROP) &&
	       probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_OPTIONS, 1) && !probe_events(w);
}

static struct probe_responder responder_usual(void)
{
	return (struct probe_responder){SELF, OWN_EPOCH, 0, &keys[0], own_view, false, 0};
}

static void test_replies(struct probe_world *w)
{
	int ip, shape, second;

	for (ip = 4; ip <= 6; ip += 2)
		for (shape = 0; shape < FRAME_SHAPES; shape++)
			for (second = 0; second < 2; second++) {
				struct probe_plan plan = probe_plan_usual();
				struct probe_responder by = responder_usual();

				plan.ip = ip;
				plan.shape = shape;
				if (frame_shape_has_options(shape)) {
					probe_reset(w);
					tap_ok(check_options(w, &plan),
					       "a request over IPv%d, %s: no reply", ip,
					       frame_shape_names[shape]);
					continue;
				}
				if (second) {
					plan.flags = ESC_PROBE_SECOND | ESC_PROBE_VIEW;
					plan.view = own_view;
					plan.anchor = own_anchor;
				}
				probe_reset(w);
				tap_ok(check_reply(w, &plan, &by, 0) &&
					       probe_reason_is(w, WORLD_XDP, -1, 0),
				       "a request over IPv%d, %s%s: the reply is right", ip,
				       frame_shape_names[shape],
				       second ? ", second of its pair with a view and an anchor"
					      : "");
			}
}

static void test_checksum(struct probe_world *w)
{
	static const uint8_t limits[] = {1, 2, 63, 64, 65, 128, 255};
	struct probe_plan plan = probe_plan_usual();
	struct frame request, reply;
	bool good = true;
	uint32_t i, host;

	probe_reset(w);
	for (i = 0; i < sizeof(limits); i++)
		for (host = 0; host < 40; host++) {
			plan.sequence++;
			plan.source_host = host * 1621;
			probe_build(&request, &plan);
			request.data[14 + 8] = limits[i];
			frame_put16(&request, 14 + 10, 0);
			frame_put16(&request, 14 + 10, ~model_header_sum(&request, 14));
			good = probe_run(w, WORLD_XDP, &request, &reply, 0) == XDP_VERDICT_TX &&
			       model_header_sum(&reply, 14) == 0xffff && reply.data[14 + 8] == 64 &&
			       good;
		}
	tap_ok(good, "the reply's IPv4 checksum is right when the request's was");
	/* Of all identifications, the one whose checksum makes the sum carry twice. */
	request.data[14 + 8] = 62;
	for (i = 0, host = 0; i < 65536 && host != 0x0100; i++) {
		frame_put16(&request, 14 + 4, i);
		frame_put16(&request, 14 + 10, 0);
		host = (uint16_t)~model_header_sum(&request, 14);
		frame_put16(&request, 14 + 10, host);
	}
	probe_put(&request, 42 + P_SEQUENCE, 4, ++plan.sequence);
	probe_put_tag(&request, plan.key);
	frame_put16(&request, 40, 0xbeef);
	tap_ok(host == 0x0100 && probe_run(w, WORLD_XDP, &request, &reply, 0) == XDP_VERDICT_TX &&
		       model_header_sum(&reply, 14) == 0xffff && frame_get16(&reply, 40) == 0,
	       "also where it carries twice, and a UDP checksum is taken out");
}

/* Which key the packet names, which there are, which we use. */
static void test_keys(struct probe_world *w)
{
	static const struct {
		const char *name;
		uint32_t has;
		uint8_t flags;
		int made_with, replied_with; /* -1: none */
	} cases[] = {
		{"key 0 of one", ESC_FLEET_HAS_KEY0, 0, 0, 0},
		{"key 1 of one", ESC_FLEET_HAS_KEY1 | ESC_FLEET_USE_KEY1, ESC_PROBE_KEY, 1, 1},
		{"key 0 of two, 0 in use", ESC_FLEET_HAS_KEY0 | ESC_FLEET_HAS_KEY1, 0, 0, 0},
		{"key 1 of two, 0 in use", ESC_FLEET_HAS_KEY0 | ESC_FLEET_HAS_KEY1, ESC_PROBE_KEY,
		 1, 0},
		{"key 0 of two, 1 in use",
		 ESC_FLEET_HAS_KEY0 | ESC_FLEET_HAS_KEY1 | ESC_FLEET_USE_KEY1, 0, 0, 1},
		{"no key anywhere", 0, 0, -1, -1},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct esc_fleet fleet = probe_fleet_usual();
		struct probe_plan plan = probe_plan_usual();
		struct probe_responder by = responder_usual();

		probe_reset(w);
		fleet.flags =
			ESC_FLEET_REPLY | ESC_FLEET_SHARED0 | ESC_FLEET_SHARED1 | cases[i].has;
		probe_set_fleet(w, &fleet);
		plan.flags = cases[i].flags;
		plan.key = cases[i].made_with < 0 ? NULL : &keys[cases[i].made_with];
		by.key = cases[i].replied_with < 0 ? NULL : &keys[cases[i].replied_with];
		by.own_flags = cases[i].replied_with == 1 ? ESC_PROBE_KEY : 0;
		tap_ok(check_reply(w, &plan, &by, 0), "%s: replied to with the key in use",
		       cases[i].name);
	}
}

enum fault {
	NO_KEY = 1, /* the fleet has none */
	KEY1_ONLY,
	NOT_ANSWERING,
	OTHER_ADDRESS,
	ROGUE_KEY,
	UNTAGGED,
	TAGGED_WITHOUT_KEY,
	LONG_DATAGRAM,
	SHORT_DATAGRAM,
	SAME_FAMILY_ADDRESS,
};

static const struct refusal {
	const char *name;
	struct probe_plan change; /* added to the usual plan; sender and target take its place */
	enum fault fault;
	int reason;
	bool passes;
} refusals[] = {
	{"another version", {.version_more = 2}, 0, ESC_REASON_PROBE_VERSION, false},
	{"no magic", {.bad_magic = true}, 0, ESC_REASON_UNKNOWN_OPCODE, true},
	{"a byte too long", {0}, LONG_DATAGRAM, ESC_REASON_PROBE_VERSION, false},
	{"a byte too short", {0}, SHORT_DATAGRAM, ESC_REASON_PROBE_SHORT, false},
	{"probing is off", {0}, NOT_ANSWERING, ESC_REASON_PROBE_OFF, false},
	{"of an unknown sender", {.sender = OTHER}, 0, ESC_REASON_PROBE_UNKNOWN_PEER, false},
	{"our own, returned",
	 {.sender = SELF, .target = PEER},
	 0,
	 ESC_REASON_PROBE_UNKNOWN_PEER,
	 false},
	{"of the other mesh", {.flags = ESC_PROBE_PLANE}, 0, ESC_REASON_PROBE_UNKNOWN_PEER, false},
	{"from an address that is not the peer's",
	 {0},
	 OTHER_ADDRESS,
	 ESC_REASON_PROBE_UNKNOWN_PEER,
	 false},
	{"from an IPv6 address that is not the peer's",
	 {.ip = 6},
	 OTHER_ADDRESS,
	 ESC_REASON_PROBE_UNKNOWN_PEER,
	 false},
	{"over IPv6 of a peer with an IPv4 address",
	 {.ip = 6},
	 SAME_FAMILY_ADDRESS,
	 ESC_REASON_PROBE_UNKNOWN_PEER,
	 false},
	{"for another member", {.target = OTHER}, 0, ESC_REASON_PROBE_NOT_OURS, false},
	{"made with an unknown key", {0}, ROGUE_KEY, ESC_REASON_PROBE_BAD_TAG, false},
	{"without a tag", {0}, UNTAGGED, ESC_REASON_PROBE_BAD_TAG, false},
	{"names a key that is not there",
	 {.flags = ESC_PROBE_KEY},
	 0,
	 ESC_REASON_PROBE_BAD_TAG,
	 false},
	{"key 0 when only key 1 is there", {0}, KEY1_ONLY, ESC_REASON_PROBE_BAD_TAG, false},
	{"a tag where no host has keys", {0}, TAGGED_WITHOUT_KEY, ESC_REASON_PROBE_BAD_TAG, false},
	{"without a timestamp, where no host has keys",
	 {.t1 = -123456789},
	 NO_KEY,
	 ESC_REASON_PROBE_BAD_TAG,
	 false},
	{"without a timestamp", {.t1 = -123456789}, 0, ESC_REASON_PROBE_BAD_TAG, false},
};

static void refusal_prepare(struct probe_world *w, const struct refusal *r, struct frame *request)
{
	struct esc_fleet fleet = probe_fleet_usual();
	struct probe_plan plan = probe_plan_usual();
	struct esc_peer peer = {.name = "peer"};
	int more = 0;

	probe_reset(w);
	plan.ip = r->change.ip;
	plan.bad_magic = r->change.bad_magic;
	plan.flags |= r->change.flags;
	plan.version_more = r->change.version_more;
	plan.t1 += r->change.t1;
	plan.sender = r->change.sender ? r->change.sender : plan.sender;
	plan.target = r->change.target ? r->change.target : plan.target;
	if (r->fault == ROGUE_KEY)
		plan.key = &keys[2];
	if (r->fault == UNTAGGED || r->fault == NO_KEY)
		plan.key = NULL;
	if (r->fault == NO_KEY || r->fault == TAGGED_WITHOUT_KEY)
		fleet.flags &= ~ESC_FLEET_HAS_KEY0;
	if (r->fault == KEY1_ONLY)
		fleet.flags ^= ESC_FLEET_HAS_KEY0 | ESC_FLEET_HAS_KEY1;
	if (r->fault == NOT_ANSWERING)
		fleet.flags &= ~ESC_FLEET_REPLY;
	if (r->fault == OTHER_ADDRESS)
		memcpy(peer.address.bytes,
		       plan.ip == 6 ? "\xfd\1\0\0\0\0\0\0\0\0\0\0\0\0\0\1"
				    : "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\0\1",
		       16);
	if (r->fault == SAME_FAMILY_ADDRESS)
		memcpy(peer.address.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\0\0", 16);
	probe_set_fleet(w, &fleet);
	probe_set_peer(w, PEER, &peer);
	probe_build(request, &plan);
	more = r->fault == LONG_DATAGRAM ? 1 : r->fault == SHORT_DATAGRAM ? -1 : 0;
	frame_put16(request, 16, frame_get16(request, 16) + more);
	frame_put16(request, 38, frame_get16(request, 38) + more);
	request->bytes += more;
}

static void test_refusals(struct probe_world *w)
{
	struct frame request, out;
	struct esc_peer peer;
	size_t i;

	for (i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		const struct refusal *r = &refusals[i];
		bool good;

		refusal_prepare(w, r, &request);
		good = is("verdict", probe_run(w, WORLD_XDP, &request, &out, 0),
			  r->passes ? XDP_VERDICT_PASS : XDP_VERDICT_DROP);
		peer = probe_get_peer(w, PEER);
		good = good && probe_same(&out, &request) &&
		       probe_reason_is(w, WORLD_XDP, r->reason, 1) &&
		       is("records", probe_events(w), 0) &&
		       is("received", peer.requests_received, 0) && is("epoch", peer.epoch, 0) &&
		       is("heard_local_ns", peer.received_local_ns, 0);
		tap_ok(good, "a request %s: %s, nothing is written", r->name,
		       world_reason_name(r->reason));
	}
}

/* The peer's address as the members file has it. */
static void test_addresses(struct probe_world *w)
{
	struct probe_responder by = responder_usual();
	struct probe_plan plan = probe_plan_usual();
	struct esc_peer peer = {.name = "peer"};

	probe_reset(w);
	memcpy(peer.address.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\0\7", 16);
	probe_set_peer(w, PEER, &peer);
	plan.source_host = 7;
	tap_ok(check_reply(w, &plan, &by, 0), "from the peer's IPv4 address: replied to");
	memcpy(peer.address.bytes, "\xfd\1\0\0\0\0\0\0\0\0\0\0\0\0\0\7", 16);
	probe_set_peer(w, PEER, &peer);
	plan.ip = 6;
	tap_ok(check_reply(w, &plan, &by, 0), "from the peer's IPv6 address: replied to");
}

static int send_plan(struct probe_world *w, const struct probe_plan *plan)
{
	struct frame request, out;

	probe_build(&request, plan);
	return probe_run(w, WORLD_XDP, &request, &out, 0);
}

static int send_sequence(struct probe_world *w, uint32_t sequence, uint64_t epoch)
{
	struct probe_plan plan = probe_plan_usual();

	plan.sequence = sequence;
	plan.epoch = epoch;
	return send_plan(w, &plan);
}

static void test_replay(struct probe_world *w)
{
	const uint32_t starts[] = {100, 0, 0xffffffe0};
	uint32_t i, n;

	for (i = 0; i < 3; i++) {
		uint32_t first = starts[i];
		bool good;

		probe_reset(w);
		good = send_sequence(w, first, PEER_EPOCH) == XDP_VERDICT_TX &&
		       send_sequence(w, first, PEER_EPOCH) == XDP_VERDICT_DROP &&
		       send_sequence(w, first + 63, PEER_EPOCH) == XDP_VERDICT_TX &&
		       send_sequence(w, first, PEER_EPOCH) == XDP_VERDICT_DROP;
		for (n = 1; n < 63; n++)
			good = send_sequence(w, first + n, PEER_EPOCH) == XDP_VERDICT_TX && good;
		for (n = 0; n < 64; n++)
			good = send_sequence(w, first + n, PEER_EPOCH) == XDP_VERDICT_DROP && good;
		good = send_sequence(w, first + 64, PEER_EPOCH) == XDP_VERDICT_TX &&
		       send_sequence(w, first + 64 + 64, PEER_EPOCH) == XDP_VERDICT_TX &&
		       send_sequence(w, first + 64, PEER_EPOCH) == XDP_VERDICT_DROP &&
		       send_sequence(w, first + 65, PEER_EPOCH) == XDP_VERDICT_TX && good;
		tap_ok(good && probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_REPLAY, 2 + 64 + 1) &&
			       is("received", probe_get_peer(w, PEER).requests_received, 67),
		       "from sequence %u on: each is replied to once, in any order within 64",
		       first);
	}
}

static void test_epochs(struct probe_world *w)
{
	bool good;

	probe_reset(w);
	good = send_sequence(w, 5000, 10) == XDP_VERDICT_TX &&
	       send_sequence(w, 5001, 9) == XDP_VERDICT_DROP &&
	       probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_STALE_EPOCH, 1);
	tap_ok(good, "a request of an earlier run is stale");
	good = send_sequence(w, 1, 11) == XDP_VERDICT_TX &&
	       send_sequence(w, 1, 11) == XDP_VERDICT_DROP &&
	       send_sequence(w, 5001, 10) == XDP_VERDICT_DROP &&
	       is("epoch", probe_get_peer(w, PEER).epoch, 11);
	tap_ok(good, "a new run counts from 0, and ends the one before it");
}

static void test_rate(struct probe_world *w)
{
	struct esc_fleet fleet = probe_fleet_usual();
	struct esc_peer peer;
	uint32_t i, replied = 0, sent = 0;
	uint64_t from, refused;
	uint64_t counts[ESC_REASON_MAX];

	probe_reset(w);
	fleet.reply_max_pps = 20;
	probe_set_fleet(w, &fleet);
	from = now_ns();
	for (i = 0; i < 200; i++, sent++)
		replied += send_sequence(w, i, PEER_EPOCH) == XDP_VERDICT_TX;
	world_reasons(&w->world, counts, WORLD_XDP);
	refused = counts[ESC_REASON_PROBE_RATE];
	/* A slow machine may have seen another second begin. */
	tap_ok(replied >= 20 && replied <= 20 * (2 + (now_ns() - from) / 1000000000) &&
		       replied + refused == sent,
	       "%u of %u requests within the rate are replied to, the others counted", replied,
	       sent);
	peer = probe_get_peer(w, PEER);
	peer.cap_local_ns -= 1000000000;
	probe_set_peer(w, PEER, &peer);
	tap_ok(send_sequence(w, sent, PEER_EPOCH) == XDP_VERDICT_TX &&
		       is("cap_count", probe_get_peer(w, PEER).cap_count, 1),
	       "a second later they are replied to again");
	fleet.reply_max_pps = 0;
	probe_set_fleet(w, &fleet);
	tap_ok(send_sequence(w, sent + 1, PEER_EPOCH) == XDP_VERDICT_DROP,
	       "with a rate of 0 none is replied to");
}

static void test_ages(struct probe_world *w)
{
	struct probe_plan plan = probe_plan_usual();
	struct frame request, reply;
	struct esc_peer other = {.received_local_ns = now_ns() - 5000000};
	uint32_t bth, age;
	bool good;

	probe_reset(w);
	plan.flags = ESC_PROBE_QUERY;
	plan.about = OTHER;
	probe_build(&request, &plan);
	bth = probe_bth(&request);
	good = probe_run(w, WORLD_XDP, &request, &reply, 0) == XDP_VERDICT_TX &&
	       is("about", probe_get(&reply, bth + P_ABOUT, 8), OTHER) &&
	       is("about_age_us", probe_get(&reply, bth + P_ABOUT_AGE, 4), ESC_PROBE_NEVER) &&
	       is("heard_age_us", probe_get(&reply, bth + P_HEARD_AGE, 4), ESC_PROBE_NEVER);
	tap_ok(good, "a peer never received is reported so");
	probe_set_peer(w, OTHER, &other);
	plan.sequence++;
	probe_build(&request, &plan);
	good = probe_run(w, WORLD_XDP, &request, &reply, 0) == XDP_VERDICT_TX;
	age = probe_get(&reply, bth + P_ABOUT_AGE, 4);
	good = good && is("age of the other",
			  age >= 5000 && age <= (now_ns() - other.received_local_ns) / 1000, 1);
	age = probe_get(&reply, bth + P_HEARD_AGE, 4);
	good = good && is("age of the peer", age < 60000000, 1);
	tap_ok(good, "age of the last packet of the peer and of the member queried");
	other.received_local_ns = 1;
	probe_set_peer(w, OTHER, &other);
	plan.sequence++;
	plan.flags = 0;
	probe_build(&request, &plan);
	good = probe_run(w, WORLD_XDP, &request, &reply, 0) == XDP_VERDICT_TX &&
	       is("about_age_us", probe_get(&reply, bth + P_ABOUT_AGE, 4), ESC_PROBE_NEVER);
	tap_ok(good, "without a query there is no report");
}

static void test_no_view(struct probe_world *w)
{
	struct probe_responder by = responder_usual();
	struct esc_fleet fleet = probe_fleet_usual();
	struct probe_plan plan = probe_plan_usual();

	probe_reset(w);
	fleet.view_generation = 2; /* the other slot, which is empty */
	probe_set_fleet(w, &fleet);
	fleet.anchor_generation = 2;
	probe_set_fleet(w, &fleet);
	by.view = NULL;
	by.no_anchor = true;
	plan.flags = ESC_PROBE_VIEW;
	plan.view = own_view;
	tap_ok(check_reply(w, &plan, &by, 0), "without a view of our own none is reported");
}

static void test_cuts(struct probe_world *w)
{
	struct probe_plan plan = probe_plan_usual();
	uint32_t ip, at, bth, cut, good = 0, all = 0;
	struct frame request, f, out;
	int verdict;

	for (ip = 4; ip <= 6; ip += 2) {
		plan.ip = ip;
		probe_build(&request, &plan);
		at = ip == 6 ? 18 : 16;
		bth = probe_bth(&request);
		/* The frame ends early: never a probe. */
		for (cut = 54; cut < request.bytes; cut++, all++) {
			probe_reset(w);
			f = request;
			f.bytes = cut;
			good += probe_run(w, WORLD_XDP, &f, &out, 0) == XDP_VERDICT_PASS &&
				probe_same(&out, &f) && !probe_events(w);
		}
		/* The datagram ends early, and its lengths report it. */
		for (cut = 0; cut < P_END; cut++, all++) {
			int reason = cut < 16 ? ESC_REASON_SHORT_BTH : ESC_REASON_PROBE_SHORT;

			probe_reset(w);
			f = request;
			f.bytes = bth + cut;
			frame_put16(&f, at, (ip == 6 ? 0 : 20) + 8 + cut);
			frame_put16(&f, bth - 4, 8 + cut);
			verdict = probe_run(w, WORLD_XDP, &f, &out, 0);
			good += verdict == (cut < 16 ? XDP_VERDICT_PASS : XDP_VERDICT_DROP) &&
				probe_same(&out, &f) && probe_reason_is(w, WORLD_XDP, reason, 1);
		}
		/* The first of two buffers ends early: it goes on, or it is replied to. */
		for (cut = 14; cut <= request.bytes; cut++, all++) {
			probe_reset(w);
			verdict = probe_run(w, WORLD_XDP, &request, &out, cut);
			good += cut < request.bytes
					? verdict == XDP_VERDICT_PASS &&
						  probe_same(&out, &request) &&
						  probe_reason_is(w, WORLD_XDP,
								  ESC_REASON_UNREADABLE, 1)
					: verdict == XDP_VERDICT_TX;
		}
	}
	tap_ok(good == all && all, "cut at every length, three ways: %u of %u as they must be",
	       good, all);
}

static void test_buffers(struct probe_world *w)
{
	struct probe_plan plan = probe_plan_usual();
	struct probe_responder by = responder_usual();
	struct frame request, reply;

	/* Padding behind the packet is in a second buffer, the probe in the first. */
	probe_reset(w);
	probe_build(&request, &plan);
	request.bytes += 100;
	tap_ok(probe_run(w, WORLD_XDP, &request, &reply, request.bytes - 100) == XDP_VERDICT_TX &&
		       reply.bytes == request.bytes,
	       "padding in a second buffer: replied to, as long as it was");
	plan.sequence++;
	plan.shape = FRAME_QINQ;
	tap_ok(probe_events(w) == 1 && check_reply(w, &plan, &by, 0), "and the next as well");
}

static void test_ring_full(void)
{
	struct probe_responder by = responder_usual();
	struct probe_plan plan = probe_plan_usual();
	struct world_options options = {.port = 1, .ring_bytes = 4096, .rx_in_xdp_only = true};
	/* Each record has eight bytes of the kernel's before it. */
	const uint32_t most = 4096 / (sizeof(struct esc_probe_event) + 8);
	uint64_t counts[ESC_REASON_MAX];
	uint32_t i, replied = 0, kept;
	struct probe_world w;

	if (probe_world_open(&w, &options)) {
		tap_ok(false, "the programs load with a small ring");
		return;
	}
	probe_reset(&w);
	for (i = 0; i < 100; i++)
		replied += send_sequence(&w, i, PEER_EPOCH) == XDP_VERDICT_TX;
	kept = probe_events(&w);
	world_reasons(&w.world, counts, WORLD_XDP);
	tap_ok(replied == 100 && kept + 1 >= most && kept <= most &&
		       counts[ESC_REASON_PROBE_RING_FULL] == 100 - kept,
	       "a full ring: all are replied to, %u recorded, %u counted as lost", kept,
	       (uint32_t)counts[ESC_REASON_PROBE_RING_FULL]);
	plan.sequence = 1000;
	tap_ok(check_reply(&w, &plan, &by, 0), "a ring that was read takes records again");
	probe_world_close(&w);
}

int main(void)
{
	struct probe_world w;

	if (probe_world_open(&w, &(struct world_options){.port = 5, .rx_in_xdp_only = true}))
		return tap_bail("the programs do not load");
	test_siphash_model();
	test_replies(&w);
	test_checksum(&w);
	test_keys(&w);
	test_refusals(&w);
	test_addresses(&w);
	test_replay(&w);
	test_epochs(&w);
	test_rate(&w);
	test_ages(&w);
	test_no_view(&w);
	test_cuts(&w);
	test_buffers(&w);
	test_ring_full();
	probe_world_close(&w);
	return tap_end();
}
