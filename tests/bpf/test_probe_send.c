// SPDX-License-Identifier: BSD-2-Clause
/* Probes that leave: what the daemon's socket marked is timestamped and tagged, nothing else. */
#define TAP_PLAN 37

#include "probe_world.h"

#define MARK 0x45734350u

static bool is(const char *what, uint64_t value, uint64_t want)
{
	if (value != want)
		printf("# %s is %llu, must be %llu\n", what, (unsigned long long)value,
		       (unsigned long long)want);
	return value == want;
}

/* Runs tc egress; *@mark goes in and comes out. The verdict, or -errno. */
static int send_marked(struct probe_world *w, const struct frame *in, struct frame *out,
		       uint32_t *mark)
{
	struct __sk_buff before = {.mark = *mark}, after = {0};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = in->data, .data_size_in = in->bytes,
		    .data_out = out->data, .data_size_out = sizeof(out->data), .ctx_in = &before,
		    .ctx_size_in = sizeof(before), .ctx_out = &after, .ctx_size_out = sizeof(after),
		    .repeat = 1);
	int error;

	world_allow_socket(&w->world);
	error = bpf_prog_test_run_opts(w->world.programs[WORLD_TC_OUT], &o);

	out->bytes = o.data_size_out;
	*mark = after.mark;
	return error ? error : (int)o.retval;
}

/* What the daemon writes into a request before it sends it. */
static struct probe_plan plan_to_send(void)
{
	return (struct probe_plan){
		.target = PEER,
		.sequence = 7,
		.pair = 3,
		.about = OTHER,
		.flags = ESC_PROBE_SECOND | ESC_PROBE_QUERY,
	};
}

static void model_sent(struct frame *want, const struct frame *given, const struct frame *actual,
		       const struct probe_responder *by)
{
	uint32_t bth = probe_bth(given);

	*want = *given;
	frame_put16(want, bth - 2, 0);
	probe_put(want, bth + P_FLAGS, 1,
		  (given->data[bth + P_FLAGS] & (ESC_PROBE_SECOND | ESC_PROBE_QUERY)) |
			  by->own_flags | (by->view ? ESC_PROBE_VIEW : 0));
	probe_put(want, bth + P_SENDER, 8, by->self);
	probe_put(want, bth + P_EPOCH, 8, by->epoch);
	model_put_version(want, by->version);
	memcpy(want->data + bth + P_T1, actual->data + bth + P_T1, 8);
	memcpy(want->data + bth + P_HEARD_AGE, actual->data + bth + P_HEARD_AGE, 4);
	if (by->view)
		memcpy(want->data + bth + P_VIEW, by->view, P_VIEW_BYTES);
	else
		memset(want->data + bth + P_VIEW, 0, P_VIEW_BYTES);
	model_put_anchor(want, bth, by);
	probe_put_tag(want, by->key);
}

static bool check_sent(struct probe_world *w, const struct frame *given,
		       const struct probe_responder *by, bool request)
{
	uint64_t before = now_ns(), t1, sent = probe_get_peer(w, PEER).requests_sent;
	struct frame out, want;
	uint32_t mark = MARK;

	if (!is("verdict", send_marked(w, given, &out, &mark), (uint64_t)-1) ||
	    !is("mark", mark, 0))
		return false;
	t1 = probe_get(&out, probe_bth(given) + P_T1, 8);
	model_sent(&want, given, &out, by);
	return probe_same(&out, &want) && is("t1 is in time", t1 >= before && t1 <= now_ns(), 1) &&
	       is("requests_sent", probe_get_peer(w, PEER).requests_sent - sent, request) &&
	       probe_reason_is(w, WORLD_TC_OUT, -1, 0) &&
	       is("queue pairs", world_qp_count(&w->world), 0);
}

static void test_timestamps(struct probe_world *w)
{
	struct probe_responder by = {SELF, OWN_EPOCH, 0, &keys[0], own_view, false, 0};
	static const uint8_t opcodes[] = {ESC_PROBE_OPCODE_REQUEST, ESC_PROBE_OPCODE_WARMUP};
	struct frame given;
	int ip, shape, i;

	for (i = 0; i < 2; i++)
		for (ip = 4; ip <= 6; ip += 2)
			for (shape = 0; shape < FRAME_SHAPES; shape++) {
				struct probe_plan plan = plan_to_send();

				plan.opcode = opcodes[i];
				plan.ip = ip;
				plan.shape = shape;
				probe_reset(w);
				probe_build(&given, &plan);
				tap_ok(check_sent(w, &given, &by, !i),
				       "a %s over IPv%d, %s: timestamped and tagged",
				       i ? "warmer" : "request", ip, frame_shape_names[shape]);
			}
}

static void test_fields(struct probe_world *w)
{
	struct probe_responder by = {SELF, OWN_EPOCH, 0, &keys[0], own_view, false, 0};
	struct esc_fleet fleet = probe_fleet_usual();
	struct esc_peer peer = {.received_local_ns = now_ns() - 3000000};
	struct probe_plan plan = plan_to_send();
	struct frame given, out;
	uint32_t mark = MARK, age, bth;

	probe_build(&given, &plan);
	bth = probe_bth(&given);
	probe_reset(w);
	send_marked(w, &given, &out, &mark);
	tap_ok(is("age", probe_get(&out, bth + P_HEARD_AGE, 4), ESC_PROBE_NEVER),
	       "a peer that was never received is reported so");
	probe_set_peer(w, PEER, &peer);
	mark = MARK;
	send_marked(w, &given, &out, &mark);
	age = probe_get(&out, bth + P_HEARD_AGE, 4);
	tap_ok(is("age", age >= 3000 && age <= (now_ns() - peer.received_local_ns) / 1000, 1),
	       "one that was is reported when");
	probe_reset(w);
	plan.ip = 6;
	probe_build(&given, &plan);
	frame_put16(&given, probe_bth(&given) - 2, 0xbeef);
	tap_ok(check_sent(w, &given, &by, true), "a UDP checksum is taken out");
	plan.flags = 0xff;
	plan.sender = OTHER;
	plan.epoch = 5;
	plan.t1 = 99;
	plan.view = (const uint8_t *)"0123456789012345678901234567890123456789";
	probe_build(&given, &plan);
	fleet.flags |= ESC_FLEET_HAS_KEY1 | ESC_FLEET_USE_KEY1;
	plan.anchor = plan.view;
	probe_build(&given, &plan);
	fleet.view_generation = 2;
	fleet.anchor_generation = 2;
	probe_set_fleet(w, &fleet);
	by = (struct probe_responder){SELF, OWN_EPOCH, ESC_PROBE_KEY, &keys[1], NULL, true, 0};
	tap_ok(check_sent(w, &given, &by, true), "what the socket wrote of itself is replaced");
	fleet.flags = ESC_FLEET_REPLY;
	probe_set_fleet(w, &fleet);
	by.key = NULL;
	by.own_flags = 0;
	tap_ok(check_sent(w, &given, &by, true), "without keys the tag is 0");
}

/* Of a socket that is not the daemon's, which any process with CAP_NET_RAW can mark. */
static void test_foreign(struct probe_world *w)
{
	struct probe_plan plan = plan_to_send();
	struct __sk_buff context = {.mark = MARK};
	struct frame given, out;
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = given.data, .data_out = out.data,
		    .data_size_out = sizeof(out.data), .ctx_in = &context,
		    .ctx_size_in = sizeof(context), .ctx_out = &context,
		    .ctx_size_out = sizeof(context), .repeat = 1);

	probe_reset(w);
	world_allow_socket(&w->world);
	world_forget_sockets(&w->world);
	probe_build(&given, &plan);
	o.data_size_in = given.bytes;
	bpf_prog_test_run_opts(w->world.programs[WORLD_TC_OUT], &o);
	out.bytes = o.data_size_out;
	tap_ok(probe_same(&out, &given) && is("mark", context.mark, MARK) &&
		       is("requests_sent", probe_get_peer(w, PEER).requests_sent, 0),
	       "a marked request of another socket is left as it is, without a tag");
	tap_ok(probe_reason_is(w, WORLD_TC_OUT, ESC_REASON_UNKNOWN_OPCODE, 1), "and counted");
}

static void check_untouched(struct probe_world *w, const char *name, const struct frame *given,
			    uint32_t mark)
{
	uint32_t before = mark;
	struct frame out;

	tap_ok(is("verdict", send_marked(w, given, &out, &mark), (uint64_t)-1) &&
		       is("mark", mark, before) && probe_same(&out, given) &&
		       is("requests_sent", probe_get_peer(w, PEER).requests_sent, 0),
	       "%s is left as it is", name);
}

static void test_untouched(struct probe_world *w)
{
	struct probe_plan plan = plan_to_send();
	struct frame f;
	int i;

	probe_reset(w);
	probe_build(&f, &plan);
	check_untouched(w, "a request without the mark", &f, 0);
	for (i = 0; i < 32; i++) {
		uint32_t mark = MARK ^ 1u << i;
		struct frame out;

		if (send_marked(w, &f, &out, &mark) != -1 || !probe_same(&out, &f))
			break;
	}
	tap_ok(i == 32, "a request with a bit of the mark wrong is left as it is");
	plan.opcode = ESC_PROBE_OPCODE_REPLY;
	probe_build(&f, &plan);
	check_untouched(w, "a marked reply", &f, MARK);
	plan.opcode = ESC_PROBE_OPCODE_RECEIPT;
	probe_build(&f, &plan);
	check_untouched(w, "a marked receipt", &f, MARK);
	plan.opcode = ESC_PROBE_OPCODE_REQUEST;
	plan.bad_magic = true;
	probe_build(&f, &plan);
	check_untouched(w, "a marked request without the magic", &f, MARK);
	plan.bad_magic = false;
	plan.dport = 53;
	probe_build(&f, &plan);
	check_untouched(w, "a marked datagram to another port", &f, MARK);
	plan.dport = 0;
	probe_build(&f, &plan);
	frame_put16(&f, 38, 8 + P_END - 1);
	check_untouched(w, "a marked request with a byte too few", &f, MARK);
	frame_build(&f, &(struct frame_plan){.opcode = 0x04, .payload = 500, .qpn = 3});
	check_untouched(w, "a marked RoCE packet", &f, MARK);
	tap_ok(is("queue pairs", world_qp_count(&w->world), 1), "and counted as one");
}

static void test_cuts(struct probe_world *w)
{
	struct probe_plan plan = plan_to_send();
	uint32_t good = 0, all = 0, cut, mark;
	struct frame whole, f, out;

	probe_reset(w);
	probe_build(&whole, &plan);
	for (cut = 34; cut < whole.bytes; cut++, all++) {
		f = whole;
		f.bytes = cut;
		mark = MARK;
		good += send_marked(w, &f, &out, &mark) == -1 && probe_same(&out, &f);
	}
	tap_ok(good == all, "cut at every length: %u of %u left as they are", good, all);
}

int main(void)
{
	struct probe_world w;

	if (probe_world_open(&w, &(struct world_options){.port = 5, .rx_in_xdp_only = true}))
		return tap_bail("the programs do not load");
	test_timestamps(&w);
	test_fields(&w);
	test_foreign(&w);
	test_untouched(&w);
	test_cuts(&w);
	probe_world_close(&w);
	return tap_end();
}
