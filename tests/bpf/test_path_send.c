// SPDX-License-Identifier: BSD-2-Clause
/*
 * Path requests that leave: what the daemon's socket marked is filled in, timestamped, tagged and
 * counted on its path, nothing else.
 */
#define TAP_PLAN 34

#include "path_world.h"

#define MARK 0x45734350u

static struct path_world p;

/* Runs tc egress; *@mark goes in and comes out. The verdict, or -errno. */
static uint32_t send_marked(const struct frame *in, struct frame *out, uint32_t *mark)
{
	struct __sk_buff before = {.mark = *mark}, after = {0};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = in->data, .data_size_in = in->bytes,
		    .data_out = out->data, .data_size_out = sizeof(out->data), .ctx_in = &before,
		    .ctx_size_in = sizeof(before), .ctx_out = &after, .ctx_size_out = sizeof(after),
		    .repeat = 1);
	int error;

	world_allow_socket(path_kernel(&p));
	error = bpf_prog_test_run_opts(path_kernel(&p)->programs[WORLD_TC_OUT], &o);

	out->bytes = o.data_size_out;
	*mark = after.mark;
	return error ? (uint32_t)error : o.retval;
}

/* What the daemon writes into a request before it sends it, as a frame. */
static struct path_plan plan_to_send(void)
{
	return (struct path_plan){.target = PEER,
				  .sequence = 7,
				  .path = PATH,
				  .port = PATH_PORT,
				  .source_host = PEER_HOST};
}

static struct path_self self_usual(uint32_t bound)
{
	return (struct path_self){
		.self = SELF, .epoch = OWN_EPOCH, .key = &keys[0], .bound = bound};
}

static bool check_sent(const struct frame *given, const struct path_self *by)
{
	uint64_t before = now_ns(), t1, ktime;
	uint32_t mark = MARK, bth = probe_bth(given);
	struct frame out, want;

	if (!IS(send_marked(given, &out, &mark), (uint32_t)-1) || !IS(mark, 0))
		return false;
	t1 = probe_get(&out, bth + Q_T1_KTIME, 8);
	ktime = probe_get(&out, bth + Q_KTIME, 8);
	model_path_sent(&want, given, &out, by);
	return probe_same(&out, &want) && IS(before <= ktime && ktime <= t1 && t1 <= now_ns(), 1) &&
	       (!by->bound || IS(probe_get(&out, bth + Q_T1, 8), t1 + FABRIC_AHEAD_NS)) &&
	       probe_reason_is(&p.r.w, WORLD_TC_OUT, -1, 0) &&
	       IS(world_qp_count(path_kernel(&p)), 0);
}

static void test_timestamps(void)
{
	for (int ip = 4; ip <= 6; ip += 2)
		for (int shape = 0; shape < FRAME_SHAPES; shape++)
			for (int timed = 0; timed < 2; timed++) {
				struct path_self by = self_usual(timed ? FABRIC_BOUND_NS : 0);
				struct esc_path_key way = path_way(ip);
				struct path_plan plan = plan_to_send();
				struct frame given;
				bool good;

				plan.ip = ip;
				plan.shape = shape;
				path_reset(&p, &way);
				receipt_set_clock(&p.r, timed);
				path_build(&given, &plan);
				good = check_sent(&given, &by);
				tap_ok(good && IS(path_get_slot(&p).paths[PATH].probes, 1) &&
					       IS(path_get_slot(&p).paths[PATH].live.unconfirmed,
						  1),
				       "a request over IPv%d, %s%s: filled in, tagged, counted", ip,
				       frame_shape_names[shape], timed ? ", with fabric time" : "");
			}
}

static void test_words(void)
{
	struct esc_path_key way = path_way(4), back = path_back(4);
	struct esc_path_received received = {.peer = PEER};
	struct path_plan plan = plan_to_send();
	struct frame given, out;
	uint32_t mark = MARK, bth;
	uint64_t now = now_ns(), ktime;
	bool good = true;

	path_reset(&p, &way);
	for (int i = 0; i < Q_PATHS; i += 3) {
		received.sport[i] = 30000 + i;
		received.received_ktime_ns[i] = now - 5000000 * i;
	}
	path_set_received(&p, &back, &received);
	path_build(&given, &plan);
	bth = probe_bth(&given);
	send_marked(&given, &out, &mark);
	ktime = probe_get(&out, bth + Q_KTIME, 8);
	for (int i = 0; i < Q_PATHS; i++) {
		uint32_t age = probe_get(&out, bth + Q_AGES + 4 * i, 4);

		good = good && IS(probe_get(&out, bth + Q_PORTS + 2 * i, 2), received.sport[i]) &&
		       IS(age, received.sport[i] ? (ktime - received.received_ktime_ns[i]) / 1000
						 : Q_NEVER);
	}
	tap_ok(good, "a request reports when each of the peer's paths was received");
}

static void test_replaced(void)
{
	struct path_plan plan = path_plan_usual();
	struct path_self by = self_usual(FABRIC_BOUND_NS);
	struct esc_fleet fleet = probe_fleet_usual();
	struct esc_path_key way = path_way(6);
	struct frame given;

	path_reset(&p, &way);
	fleet.flags |= ESC_FLEET_HAS_KEY1 | ESC_FLEET_USE_KEY1;
	probe_set_fleet(&p.r.w, &fleet);
	plan.ip = 6;
	plan.sender = OTHER;
	plan.target = PEER;
	plan.flags = 0xff;
	plan.echo_epoch = plan.t1 = plan.t2 = plan.t3 = plan.t1_bound = plan.t2_bound = 9;
	plan.sport = 1;
	plan.age_us[4] = plan.report_sport[4] = 5;
	path_build(&given, &plan);
	frame_put16(&given, probe_bth(&given) - 2, 0xbeef);
	by.flags = ESC_PROBE_KEY;
	by.key = &keys[1];
	tap_ok(check_sent(&given, &by), "what the socket wrote of itself is replaced");
	fleet.flags = ESC_FLEET_REPLY;
	probe_set_fleet(&p.r.w, &fleet);
	by.flags = 0;
	by.key = NULL;
	tap_ok(check_sent(&given, &by), "without keys the tag is 0");
}

/* Sent and tagged all the same, but nothing of `paths` is touched. */
static void check_uncounted(const char *name, const struct path_plan *plan,
			    const struct esc_paths *slot, bool found)
{
	struct esc_path_key way = path_way(4);
	uint32_t mark = MARK;
	struct esc_paths after;
	struct frame given, out;

	path_reset(&p, &way);
	path_set_slot(&p, slot);
	if (!found)
		path_forget(&p, "path_slots");
	path_build(&given, plan);
	send_marked(&given, &out, &mark);
	after = path_get_slot(&p);
	tap_ok(IS(mark, 0) && IS(probe_get(&out, probe_bth(&out) + P_SENDER, 8), SELF) &&
		       !memcmp(&after, slot, sizeof(after)),
	       "%s leaves, and is counted on no path", name);
}

static void test_uncounted(void)
{
	struct esc_path_key way = path_way(4);
	struct esc_paths slot = path_slot_usual(&way);
	struct path_plan plan = plan_to_send();

	check_uncounted("a request without a slot", &plan, &slot, false);
	plan.path = ESC_PATH_NONE;
	check_uncounted("a port that is tried", &plan, &slot, true);
	plan = plan_to_send();
	plan.port++;
	check_uncounted("a request with another port than its path's", &plan, &slot, true);
	plan = plan_to_send();
	plan.target = OTHER;
	check_uncounted("a request to another member than the slot's", &plan, &slot, true);
	plan = plan_to_send();
	slot.peer = 0;
	check_uncounted("a request of a slot that is free", &plan, &slot, true);
}

static void test_unreceived(void)
{
	struct esc_path_key way = path_way(4);
	struct path_plan plan = plan_to_send();
	struct frame given, out;
	struct esc_path path;
	uint64_t first;

	path_reset(&p, &way);
	for (uint32_t i = 1; i <= 5; i++) {
		uint32_t mark = MARK;

		plan.sequence++;
		path_build(&given, &plan);
		send_marked(&given, &out, &mark);
		path = path_get_slot(&p).paths[PATH];
		if (i == 1)
			first = probe_get(&out, probe_bth(&out) + Q_T1_KTIME, 8);
		if (!IS(path.live.unconfirmed, i) || !IS(path.live.since_ns, first) ||
		    !IS(path.probes, i))
			break;
	}
	tap_ok(IS(path.live.unconfirmed, 5), "requests are unconfirmed since the first of them");
}

static void check_untouched(const char *name, const struct frame *given, uint32_t mark)
{
	uint32_t before = mark;
	struct frame out;

	tap_ok(IS(send_marked(given, &out, &mark), (uint32_t)-1) && IS(mark, before) &&
		       probe_same(&out, given) && IS(path_get_slot(&p).paths[PATH].probes, 0),
	       "%s is left as it is", name);
}

static void test_untouched(void)
{
	struct esc_path_key way = path_way(4);
	struct path_plan plan = plan_to_send();
	uint32_t good = 0, all = 0;
	struct frame f, whole, out;

	path_reset(&p, &way);
	path_build(&whole, &plan);
	check_untouched("a request without the mark", &whole, 0);
	plan.opcode = ESC_PROBE_OPCODE_PATH_REPLY;
	path_build(&f, &plan);
	check_untouched("a marked reply", &f, MARK);
	plan.opcode = 0;
	plan.bad_magic = true;
	path_build(&f, &plan);
	check_untouched("a marked request without the magic", &f, MARK);
	f = whole;
	frame_put16(&f, 38, 8 + Q_END - 1);
	check_untouched("a marked request with a byte too few", &f, MARK);
	for (uint32_t cut = 34; cut < whole.bytes; cut++, all++) {
		uint32_t mark = MARK;

		f = whole;
		f.bytes = cut;
		good += send_marked(&f, &out, &mark) == (uint32_t)-1 && probe_same(&out, &f);
	}
	tap_ok(good == all, "cut at every length: %u of %u left as they are", good, all);
}

int main(void)
{
	if (path_world_open(&p, &(struct world_options){.port = 5, .rx_in_xdp_only = true}))
		return tap_bail("the programs do not load");
	test_timestamps();
	test_words();
	test_replaced();
	test_uncounted();
	test_unreceived();
	test_untouched();
	path_world_close(&p);
	return tap_end();
}
