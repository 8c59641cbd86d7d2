// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the programs do by the state of their maps and constants: the kill
 * switch, the full table, the sample mask, the turn in a dispatcher, the port.
 */
#define TAP_PLAN 72

#include <time.h>

#include "model.h"
#include "tests/lib/tap.h"
#include "world.h"

static int send_plan(struct world *w, enum world_hook hook, const struct frame_plan *plan)
{
	struct frame f;

	frame_build(&f, plan);
	return world_run(w, hook, f.data, f.bytes, 0);
}

static int send_qp(struct world *w, enum world_hook hook, uint32_t qpn, uint32_t psn)
{
	return send_plan(w, hook, &(struct frame_plan){.opcode = 0x04, .qpn = qpn, .psn = psn});
}

static uint64_t port_packets(const struct world *w, uint32_t port)
{
	struct esc_port_counts counts = world_port_counts(w, port);

	return counts.rx_roce_packets + counts.tx_roce_packets;
}

static bool first_qp(const struct world *w, struct esc_qp *qp)
{
	struct esc_qp_key key;

	return !bpf_map_get_next_key(bpf_map__fd(w->kernel->maps.qps), NULL, &key) &&
	       world_qp(w, &key, qp);
}

static void test_off(struct world *w)
{
	struct frame_plan unknown = {.opcode = 0x15};
	uint64_t reasons[ESC_REASON_MAX];
	struct esc_control word = {.flags = ESC_CONTROL_OFF};
	int hook;

	for (hook = 0; hook < WORLD_HOOKS; hook++) {
		bool good;

		world_reset(w);
		world_set_control(w, &word);
		good = send_qp(w, hook, 1, 1) == 1 && send_plan(w, hook, &unknown) == 1;
		world_reasons(w, reasons, hook);
		good = good && !world_qp_count(w) && !port_packets(w, w->port) &&
		       !reasons[ESC_REASON_UNKNOWN_OPCODE];
		world_set_control(w, &(struct esc_control){.sample_mask = 0xff});
		good = good && send_qp(w, hook, 1, 1) == 1 && world_qp_count(w) == 1;
		tap_ok(good, "%s: off counts nothing, on counts again", world_hook_names[hook]);
	}
}

static void test_full(void)
{
	const uint32_t room = 8, pairs = 13;
	struct esc_qp_key key;
	uint64_t reasons[ESC_REASON_MAX];
	struct world w;
	uint32_t i;
	int hook;

	if (world_open(&w, &(struct world_options){.qps_max = room, .port = 1})) {
		tap_ok(false, "a table of %u queue pairs loads", room);
		return;
	}
	for (hook = 0; hook < WORLD_HOOKS; hook++) {
		bool good = true;

		world_reset(&w);
		for (i = 0; i < 2 * pairs; i++)
			good = send_qp(&w, hook, i % pairs, i / pairs) == 1 && good;
		world_reasons(&w, reasons, hook);
		good = good && world_qp_count(&w) == room && port_packets(&w, 1) == 2 * pairs &&
		       reasons[ESC_REASON_QP_TABLE_FULL] == 2 * (pairs - room);
		tap_ok(good, "%s: a full table passes and counts what it refuses",
		       world_hook_names[hook]);
		good = !bpf_map_get_next_key(bpf_map__fd(w.kernel->maps.qps), NULL, &key) &&
		       !bpf_map_delete_elem(bpf_map__fd(w.kernel->maps.qps), &key) &&
		       send_qp(&w, hook, 100, 0) == 1 && world_qp_count(&w) == room;
		world_reasons(&w, reasons, hook);
		good = good && reasons[ESC_REASON_QP_TABLE_FULL] == 2 * (pairs - room);
		tap_ok(good, "%s: a place that comes free is taken", world_hook_names[hook]);
	}
	world_close(&w);
}

/* @count queue pairs of the host with this last byte, each by one packet. */
static void send_qps(struct world *w, enum world_hook hook, uint16_t host, uint32_t from,
		     uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		send_plan(w, hook,
			  &(struct frame_plan){
				  .opcode = 0x04, .qpn = from + i, .psn = 1, .source_host = host});
}

static uint64_t now_local_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void set_heartbeat(struct world *w, uint64_t at_local_ns)
{
	world_set_control(
		w, &(struct esc_control){.sample_mask = 0xff, .heartbeat_local_ns = at_local_ns});
}

/* From now on the only RDMA device is @device, with @count queue pairs; none: there is no device.
 */
static void trace_qps(struct world *w, uint32_t device, uint32_t from, uint32_t count)
{
	struct esc_qp_room room;
	struct esc_owner owner = {};
	uint32_t zero = 0;

	bpf_map_lookup_elem(bpf_map__fd(w->kernel->maps.qp_room), &zero, &room);
	room.device_count = count ? 1 : 0;
	room.devices[0] = device;
	bpf_map_update_elem(bpf_map__fd(w->kernel->maps.qp_room), &zero, &room, BPF_ANY);
	for (uint32_t i = 0; i < count; i++) {
		struct esc_owner_key key = {.device = device, .qpn = from + i};

		bpf_map_update_elem(bpf_map__fd(w->kernel->maps.qp_owners), &key, &owner, BPF_ANY);
	}
}

/*
 * Of 64 entries: 32 for what is received, of those 8 for numbers that this host's RDMA devices
 * have; 16 for unknown hosts, 16 for what is forwarded.
 */
static void test_room(void)
{
	struct esc_qp_room room = {.rx_max = 32, .unknown_max = 16, .foreign_max = 16};
	struct esc_peer_address member = {.id = 7};
	struct esc_address address = {.bytes = {[10] = 0xff, 0xff, 10, 1, 0, 5}};
	struct esc_fleet fleet = {.self = 1};
	uint64_t reasons[ESC_REASON_MAX];
	uint32_t zero = 0;
	struct world w;

	if (world_open(&w, &(struct world_options){.qps_max = 64, .port = 1})) {
		tap_ok(false, "a table of 64 queue pairs loads");
		return;
	}
	world_reset(&w);
	bpf_map_update_elem(bpf_map__fd(w.kernel->maps.fleet), &zero, &fleet, BPF_ANY);
	bpf_map_update_elem(bpf_map__fd(w.kernel->maps.qp_room), &zero, &room, BPF_ANY);
	bpf_map_update_elem(bpf_map__fd(w.kernel->maps.peer_addresses), &address, &member, BPF_ANY);
	send_qps(&w, WORLD_XDP, 9, 0, 40);
	world_reasons(&w, reasons, WORLD_XDP);
	tap_ok(world_qp_count(&w) == 16 && reasons[ESC_REASON_QP_UNKNOWN_HOST] == 24,
	       "a host that is not a member has a quarter of the table");
	set_heartbeat(&w, now_local_ns());
	trace_qps(&w, 7, 1100, 2);
	send_qps(&w, WORLD_XDP, 5, 1000, 40);
	world_reasons(&w, reasons, WORLD_XDP);
	tap_ok(world_qp_count(&w) == 24 && reasons[ESC_REASON_QP_TABLE_FULL] == 32,
	       "a member's numbers that no queue pair here has leave a quarter of a half free");
	send_qps(&w, WORLD_XDP, 5, 1100, 3);
	tap_ok(world_qp_count(&w) == 26, "which queue pairs that are here take");
	set_heartbeat(&w, now_local_ns() - ESC_PROBE_HEARTBEAT_TIMEOUT_NS);
	send_qps(&w, WORLD_XDP, 5, 1200, 2);
	tap_ok(world_qp_count(&w) == 28, "and all others while no daemon traces");
	set_heartbeat(&w, now_local_ns());
	trace_qps(&w, 7, 0, 0);
	send_qps(&w, WORLD_XDP, 5, 1000, 40);
	world_reasons(&w, reasons, WORLD_XDP);
	tap_ok(world_qp_count(&w) == 32 && reasons[ESC_REASON_QP_TABLE_FULL] == 32 + 1 + 28,
	       "what is received has a half of it, members included");
	w.ingress_ifindex = 1;
	send_qps(&w, WORLD_TC_OUT, 1, 3000, 40);
	world_reasons(&w, reasons, WORLD_TC_OUT);
	tap_ok(world_qp_count(&w) == 48 && reasons[ESC_REASON_QP_FOREIGN] == 24 &&
		       !reasons[ESC_REASON_QP_TABLE_FULL],
	       "what is forwarded has a quarter");
	w.ingress_ifindex = 0;
	send_qps(&w, WORLD_TC_OUT, 1, 2000, 16);
	world_reasons(&w, reasons, WORLD_TC_OUT);
	tap_ok(world_qp_count(&w) == 64 && !reasons[ESC_REASON_QP_TABLE_FULL],
	       "the rest is left for what this host's RDMA devices send");
	bpf_map_lookup_elem(bpf_map__fd(w.kernel->maps.qp_room), &zero, &room);
	tap_ok(room.rx == 32 && room.unknown == 16 && room.foreign == 16,
	       "and that is what is counted");
	world_close(&w);
}

static void test_sample(struct world *w)
{
	struct esc_qp before, at, after;
	uint64_t from, to;
	int hook;

	for (hook = 0; hook < WORLD_HOOKS; hook++) {
		bool good;

		world_reset(w);
		from = now_local_ns();
		good = send_qp(w, hook, 1, 0x1ff) == 1 && first_qp(w, &before) &&
		       send_qp(w, hook, 1, 0x200) == 1 && first_qp(w, &at) &&
		       send_qp(w, hook, 1, 0x201) == 1 && first_qp(w, &after);
		to = now_local_ns();
		good = good && !before.sample_local_ns && before.first_local_ns >= from &&
		       at.sample_psn == 0x200 && at.sample_local_ns >= before.first_local_ns &&
		       at.sample_local_ns <= to && after.sample_local_ns == at.sample_local_ns &&
		       after.first_local_ns == before.first_local_ns;
		tap_ok(good, "%s: PSN & mask == 0 is timestamped, others are not",
		       world_hook_names[hook]);
	}
}

static void test_sport(struct world *w)
{
	struct frame_plan data = {.opcode = 0x04, .qpn = 9, .sport = 50001};
	struct frame_plan cnp = {.opcode = 0x81, .qpn = 9, .sport = 1111, .extension = 16};
	struct esc_qp qp;
	int hook;

	for (hook = 0; hook < WORLD_HOOKS; hook++) {
		bool good = true;

		world_reset(w);
		data.sport = 50001;
		good = send_plan(w, hook, &data) == 1 && send_plan(w, hook, &cnp) == 1;
		data.sport = 50002;
		good = good && send_plan(w, hook, &data) == 1 && send_plan(w, hook, &data) == 1;
		good = good && first_qp(w, &qp) && qp.sport == 50002 && qp.sport_changes == 1 &&
		       qp.cnps == 1 && world_qp_count(w) == 1;
		tap_ok(good, "%s: the source port is the newest, and a CNP's is not taken",
		       world_hook_names[hook]);
	}
}

static void test_tc_ingress_idle(void)
{
	struct world w;
	bool good;

	if (world_open(&w, &(struct world_options){.rx_in_xdp_only = true})) {
		tap_ok(false, "the programs load where XDP counts");
		return;
	}
	good = send_qp(&w, WORLD_TC_IN, 1, 1) == 1 && !world_qp_count(&w) && !port_packets(&w, 0);
	tap_ok(good, "tc_ingress counts nothing where XDP does");
	good = send_qp(&w, WORLD_XDP, 1, 1) == 1 && world_qp_count(&w) == 1;
	tap_ok(good, "xdp_ingress counts there");
	world_close(&w);
}

/* A second instance of the programs over the maps of the first. */
static int open_sharing(struct world *w, const struct world *first, uint32_t port, uint16_t turn)
{
	struct bpf_map *to, *from;

	*w = *first;
	w->kernel = dataplane__open();
	if (!w->kernel)
		return -errno;
	w->port = port;
	w->kernel->rodata->esc_port_index = port;
	w->kernel->rodata->esc_handover_id = turn;
	bpf_object__for_each_map (to, w->kernel->obj) {
		if (bpf_map__is_internal(to))
			continue;
		from = bpf_object__find_map_by_name(first->kernel->obj, bpf_map__name(to));
		if (!from || bpf_map__reuse_fd(to, bpf_map__fd(from)))
			return -ENOENT;
	}
	if (dataplane__load(w->kernel))
		return -errno;
	w->programs[WORLD_XDP] = bpf_program__fd(w->kernel->progs.esc_xdp_in);
	w->programs[WORLD_TC_IN] = bpf_program__fd(w->kernel->progs.esc_tc_in);
	w->programs[WORLD_TC_OUT] = bpf_program__fd(w->kernel->progs.esc_tc_out);
	return 0;
}

static void test_ports(const struct world *first)
{
	struct world second;
	bool good;

	if (open_sharing(&second, first, 2, 0)) {
		tap_ok(false, "a second instance loads over the maps of the first");
		return;
	}
	world_reset(&second);
	good = send_qp((struct world *)first, WORLD_XDP, 1, 1) == 1 &&
	       send_qp(&second, WORLD_XDP, 1, 1) == 1;
	good = good && world_qp_count(&second) == 2 && port_packets(&second, first->port) == 1 &&
	       port_packets(&second, 2) == 1;
	tap_ok(good, "the same queue pair on two ports is two entries");
	world_close(&second);
}

/* One packet through the incumbent and then its successor, as a dispatcher calls them. */
static uint64_t through_both(struct world *incumbent, struct world *successor, uint16_t at_first,
			     uint16_t at_second)
{
	struct esc_control word = {.sample_mask = 0xff};

	world_reset(incumbent);
	word.xdp_handover[incumbent->port] = at_first;
	world_set_control(incumbent, &word);
	if (send_qp(incumbent, WORLD_XDP, 1, 1) != 1)
		return 99;
	word.xdp_handover[incumbent->port] = at_second;
	world_set_control(incumbent, &word);
	if (send_qp(successor, WORLD_XDP, 1, 1) != 1)
		return 99;
	return port_packets(incumbent, incumbent->port);
}

static void test_iterations(const struct world *first)
{
	static const uint16_t own = 3 * ESC_HANDOVER_NEXT;
	const uint16_t states[] = {own, own | ESC_HANDOVER_ANNOUNCE, own | ESC_HANDOVER_PASS,
				   own + ESC_HANDOVER_NEXT};
	static const char *const names[] = {"steady", "announce", "pass", "the successor's"};
	struct world incumbent, successor;
	uint64_t counted;
	uint32_t i;

	if (open_sharing(&incumbent, first, 4, own) ||
	    open_sharing(&successor, first, 4, own + ESC_HANDOVER_NEXT)) {
		tap_ok(false, "an incumbent and a successor load over the same maps");
		return;
	}
	for (i = 0; i < 4; i++) {
		counted = through_both(&incumbent, &successor, states[i], states[i]);
		tap_ok(counted == 1, "handover ID %s: two programs count a packet once (%llu)",
		       names[i], (unsigned long long)counted);
		if (i == 3)
			break;
		counted = through_both(&incumbent, &successor, states[i], states[i + 1]);
		tap_ok(counted == 1,
		       "a packet between the programs at the step from %s to %s is counted once "
		       "(%llu)",
		       names[i], names[i + 1], (unsigned long long)counted);
	}
	world_set_control(&incumbent, &(struct esc_control){.sample_mask = 0xff});
	world_close(&incumbent);
	world_close(&successor);
}

/* A RoCE MTU of 4,096 in buffers of a page or less. */
static void test_buffers(struct world *w)
{
	struct frame_plan plan = {.opcode = 0x01, .qpn = 5, .psn = 1, .payload = 4096};
	static const uint32_t firsts[] = {58, 256, 2048, 3500, 4000};
	uint64_t reasons[ESC_REASON_MAX];
	struct frame f;
	struct esc_qp qp;
	bool good = true;
	uint32_t i;

	world_reset(w);
	for (i = 0; i < 5; i++) {
		plan.psn = i;
		frame_build(&f, &plan);
		good = world_run(w, WORLD_XDP, f.data, f.bytes, firsts[i]) == 1 && good;
	}
	good = good && first_qp(w, &qp) && qp.packets == 5 && qp.payload_bytes == 5 * 4096 &&
	       qp.pmtu == 4096 && qp.bytes == 5 * (f.bytes - 14);
	tap_ok(good, "xdp_ingress: packets of 4,096 bytes in several buffers");
	good = world_run(w, WORLD_XDP, f.data, f.bytes - 1, 256) == 1;
	world_reasons(w, reasons, WORLD_XDP);
	tap_ok(good && reasons[ESC_REASON_IP_LENGTH] == 1,
	       "xdp_ingress: a byte missing in the last buffer is ip_length");
	good = world_run(w, WORLD_XDP, f.data, f.bytes, 53) == 1;
	world_reasons(w, reasons, WORLD_XDP);
	tap_ok(good && reasons[ESC_REASON_UNREADABLE] == 1,
	       "xdp_ingress: a BTH in the second buffer is unreadable");
}

/* What `bpftool map dump` must be able to print: keys and values with types. */
static void test_btf(const struct world *w)
{
	struct bpf_map *map;

	bpf_object__for_each_map (map, w->kernel->obj) {
		struct bpf_map_info info = {0};
		uint32_t bytes = sizeof(info);

		/* A ring buffer has records, no keys; the kernel takes no BTF for a map of maps. */
		if (bpf_map__is_internal(map) || bpf_map__type(map) == BPF_MAP_TYPE_RINGBUF ||
		    bpf_map__type(map) == BPF_MAP_TYPE_ARRAY_OF_MAPS)
			continue;
		tap_ok(!bpf_obj_get_info_by_fd(bpf_map__fd(map), &info, &bytes) && info.btf_id &&
			       info.btf_key_type_id && info.btf_value_type_id &&
			       strlen(bpf_map__name(map)) < 16,
		       "map %s has a BTF key and value", bpf_map__name(map));
	}
}

int main(void)
{
	struct world w;

	if (world_open(&w, &(struct world_options){.port = 1, .sample_mask = 0xff}))
		return tap_bail("the programs do not load");
	test_off(&w);
	test_full();
	test_room();
	test_sample(&w);
	test_sport(&w);
	test_tc_ingress_idle();
	test_ports(&w);
	test_iterations(&w);
	test_buffers(&w);
	test_btf(&w);
	world_close(&w);
	return tap_end();
}
