// SPDX-License-Identifier: BSD-2-Clause
/*
 * NIC failover: which packets are kept for being sent once more, to the byte, and that they pass
 * unchanged; who gets a ring; the daemon's read of a carrier.
 */
#define TAP_PLAN 43

#include "nic_world.h"

#define QPN 0x1234

static struct esc_repair_ring *ring; /* number 1 */

/* The queue pair's ring, as in `nic_queues`; 0: it has none. */
static uint32_t ring_of(const struct frame *f, uint32_t qpn)
{
	struct esc_nic_queue key = {.qpn = htonl(qpn)};
	uint32_t id = 0;

	addresses_of(f, &key.src, &key.dst);
	bpf_map_lookup_elem(map_fd(nic_queues), &key, &id);
	return id;
}

/* True: the newest packet of the ring is exactly this one, sent directly. */
static bool has_newest(const struct frame *f, uint8_t flags)
{
	uint32_t number = ring->head;
	const struct esc_repair_packet *packet = &ring->packets[number % ESC_REPAIR_PACKETS];

	return number && packet->number == number && packet->bytes == f->bytes &&
	       packet->flags == (flags | ESC_REPAIR_SENT) && packet->path == ESC_NIC_ROUTE_DIRECT &&
	       packet->sent_ktime_ns &&
	       !memcmp(ring->data + packet->unit * ESC_REPAIR_UNIT % ESC_REPAIR_BYTES, f->data,
		       f->bytes);
}

/* No queue pair has a ring, and ring 1 is empty and to be had. */
static bool begin(void)
{
	forget_rings();
	ring = make_ring(1);
	return ring;
}

#define NOT_KEPT 0xff

static const struct keep_case {
	const char *name;
	uint8_t opcode, syndrome;
	uint8_t flags; /* of the copy; NOT_KEPT */
} keep_cases[] = {
	{"an acknowledgement", 0x11, 0x1f, ESC_REPAIR_ACK},
	{"a NAK of a missing packet", 0x11, 0x60, ESC_REPAIR_ACK},
	{"the end of a WRITE", 0x08, 0, ESC_REPAIR_REQUEST},
	{"the middle of a WRITE", 0x07, 0, ESC_REPAIR_REQUEST},
	{"a WRITE with immediate", 0x0b, 0, ESC_REPAIR_REQUEST},
	{"a whole SEND", 0x04, 0, ESC_REPAIR_REQUEST},
	{"a SEND with invalidate", 0x17, 0, ESC_REPAIR_REQUEST | ESC_REPAIR_READ},
	{"a READ request", 0x0c, 0, ESC_REPAIR_REQUEST | ESC_REPAIR_READ},
	{"the middle of a READ response", 0x0e, 0, 0},
	{"the end of a READ response", 0x0f, 0x1f, 0},
	{"an atomic request", 0x13, 0, ESC_REPAIR_REQUEST | ESC_REPAIR_READ},
	{"an atomic reply", 0x12, 0x1f, 0},
	{"a whole SEND of UC", 0x24, 0, NOT_KEPT},
	{"a whole SEND of UD", 0x64, 0, NOT_KEPT},
	{"a CNP", 0x81, 0, NOT_KEPT},
	{"a probe of the mesh", ESC_PROBE_OPCODE_PATH_REQUEST, 0, NOT_KEPT},
};

static void keep_frame(const struct keep_case *c, bool four, uint32_t payload, struct frame *f)
{
	struct frame_plan plan = {
		.ip = four ? 4 : 6,
		.opcode = c->opcode,
		.qpn = QPN,
		.psn = 77 | 0x80000000u,
		.payload = c->opcode == 0x11 ? 0 : payload,
		.extension = c->opcode == 0x11 ? 4 : 16,
		.source_host = 3,
	};

	frame_build(f, &plan);
	if (c->opcode == 0x11 || c->opcode == 0x12)
		f->data[frame_udp_offset(f) + 8 + 12] = c->syndrome;
}

static void protect(const struct frame *f, bool four)
{
	struct esc_address src, dst;

	addresses_of(f, &src, &dst);
	set_ends(&src, &dst, four, 0, 9000);
}

static void run_keep(const struct keep_case *c, bool four)
{
	bool wanted = c->flags != NOT_KEPT;
	struct frame f, got;
	bool good;
	int verdict;

	keep_frame(c, four, 1024, &f);
	protect(&f, four);
	good = begin();
	verdict = run(out_fd, &f, &got);
	tap_ok(good && verdict == NEXT && same(&f, &got) && (ring_of(&f, QPN) == 1) == wanted &&
		       ring->kept == wanted && (!wanted || has_newest(&f, c->flags)),
	       "IPv%d, %s: goes unchanged, and is %s", four ? 4 : 6, c->name,
	       wanted ? "kept" : "not kept");
}

static bool is_not_kept(const struct frame *f)
{
	struct frame got;

	return run(out_fd, f, &got) == NEXT && same(f, &got) && !ring->kept && !ring_of(f, QPN);
}

static void test_keep_nothing(void)
{
	struct esc_address dst;
	struct frame f, four_words;

	keep_frame(&keep_cases[2], true, 1024, &f);
	protect(&f, true);
	begin();
	set_word(ESC_NIC_ON, 0, FRESH);
	tap_ok(is_not_kept(&f), "not enabled: nothing is kept");
	set_word(ESC_NIC_ON | ESC_NIC_REPAIR, 0, FRESH);
	four_words = f;
	four_words.data[20] = 0x20; /* more fragments */
	tap_ok(is_not_kept(&four_words), "a fragment: nothing is kept");
	addresses_of(&f, &dst, &dst);
	bpf_map_delete_elem(map_fd(nic_peers), &dst);
	tap_ok(is_not_kept(&f), "to an address that is not a member's: nothing is kept");
	protect(&f, true);
	clear_map(map_fd(nic_local), 16);
	tap_ok(is_not_kept(&f), "an address that is not protected: nothing is kept");
}

/* Sends @f as queue pair @qpn's, with @psn; true: it left unchanged. */
static bool send_as(struct frame *f, uint16_t qpn, uint16_t psn)
{
	struct frame got;

	frame_put16(f, frame_udp_offset(f) + 8 + 6, qpn);
	frame_put16(f, frame_udp_offset(f) + 8 + 10, psn);
	return run(out_fd, f, &got) == NEXT && same(f, &got);
}

/* More packets than the ring has room for, of several lengths. */
static void test_keep_many(void)
{
	static const uint32_t payloads[] = {12, 1024,
					    3000}; /* a test run takes no more than a page */
	struct frame f;
	bool good;

	keep_frame(&keep_cases[2], true, 12, &f);
	protect(&f, true);
	good = begin();
	for (uint32_t i = 0; i < 2 * ESC_REPAIR_PACKETS; i++) {
		keep_frame(&keep_cases[2], true, payloads[i % 3], &f);
		good = good && send_as(&f, QPN, i) && has_newest(&f, ESC_REPAIR_REQUEST) &&
		       ring->packets[(uint32_t)ring->head % ESC_REPAIR_PACKETS].psn == i;
	}
	tap_ok(good && ring->kept == 2 * ESC_REPAIR_PACKETS && !ring->missed && !ring->first,
	       "twice as many packets as have room: each is the newest when it has left");
	frame_put16(&f, frame_udp_offset(&f) + 8 + 8, 0x8040);
	send_as(&f, QPN, 0);
	tap_ok(ring->first == 2 * ESC_REPAIR_PACKETS + 1,
	       "a PSN far from the one before: another connection begins with it");
}

/* Those that find no ring leave unchanged; who has one keeps it. */
static void test_no_ring(void)
{
	struct frame f;
	bool good;

	keep_frame(&keep_cases[2], true, 1024, &f);
	protect(&f, true);
	begin();
	kernel->bss->nic_not_kept = 0;
	good = send_as(&f, 1, 1) && send_as(&f, 2, 1) && send_as(&f, 2, 2) && send_as(&f, 1, 2);
	tap_ok(good && ring_of(&f, 1) == 1 && !ring_of(&f, 2) && ring->kept == 2 &&
		       kernel->bss->nic_not_kept == 2,
	       "a ring for one of two queue pairs: the first has it, the packets of the other "
	       "are counted");
	tap_ok(make_ring(2) && send_as(&f, 2, 3) && ring_of(&f, 2) == 2,
	       "when there is another one, the other queue pair takes it");
	tap_ok(ring->key.dest_qpn == 1 && ring->key.src.bytes[15] == f.data[29] &&
		       ring->key.dst.bytes[15] == f.data[33],
	       "the ring names its queue pair");
}

static void test_poll(void)
{
	struct __sk_buff context = {.ifindex = IFINDEX};
	char frame[64] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = frame, .data_size_in = sizeof(frame),
		    .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);
	int fd = bpf_program__fd(kernel->progs.esc_nic_carrier);

	tap_ok(!bpf_prog_test_run_opts(fd, &o) && !o.retval,
	       "a read of a device that is up reports it");
	context.ifindex = 999999;
	tap_ok(bpf_prog_test_run_opts(fd, &o) == -ENODEV, "and at none, that there is none");
}

int main(void)
{
	if (!nic_world_open())
		return tap_bail("the programs of NIC failover load");
	test_poll();
	set_word(ESC_NIC_ON | ESC_NIC_REPAIR, 0, FRESH);
	for (size_t i = 0; i < sizeof(keep_cases) / sizeof(keep_cases[0]); i++) {
		run_keep(&keep_cases[i], true);
		run_keep(&keep_cases[i], false);
	}
	test_keep_nothing();
	test_keep_many();
	test_no_ring();
	nic_programs__destroy(kernel);
	return tap_end();
}
