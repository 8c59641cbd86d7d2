// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a test run cannot make: an skb with its headers outside of the linear
 * part, and a VLAN tag in the skb's metadata. Over a veth pair in a network
 * namespace of the test's own, tc egress at one end, native XDP at the other.
 */
#define TAP_PLAN 34

#include <poll.h>

#include "live.h"
#include "model.h"
#include "tests/lib/tap.h"
#include "world.h"

/*
 * True when the IP packet comes out at the other end within a second, byte for
 * byte. The kernel takes a VLAN tag out of the frame before a socket sees it.
 */
static bool receive_frame(int fd, const struct frame *f)
{
	uint32_t ip = frame_ip_offset(f), bytes = f->bytes - ip;
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	uint8_t buffer[FRAME_MAX];
	ssize_t got;
	int tries;

	for (tries = 0; tries < 50 && poll(&ready, 1, 1000) == 1; tries++) {
		got = read(fd, buffer, sizeof(buffer));
		if (got >= (ssize_t)bytes && !memcmp(buffer + got - bytes, f->data + ip, bytes))
			return true;
	}
	return false;
}

/* A program that moves a VLAN tag into the metadata of every skb and goes on. */
static int load_vlan_push(void)
{
	struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 0x0081},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = 7},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_skb_vlan_push},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = -1},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "vlan_push", "GPL", code,
			     sizeof(code) / sizeof(*code), NULL);
}

struct counts {
	uint64_t packets, bytes, payload;
	uint64_t unreadable;
};

static struct counts read_counts(const struct world *w, enum esc_direction direction)
{
	struct esc_qp_key key, *before = NULL;
	int fd = bpf_map__fd(w->kernel->maps.qps);
	uint64_t reasons[ESC_REASON_MAX];
	struct counts sum = {0};
	struct esc_qp qp;

	while (!bpf_map_get_next_key(fd, before, &key)) {
		before = &key;
		if (key.direction != direction || !world_qp(w, &key, &qp))
			continue;
		sum.packets += qp.packets;
		sum.bytes += qp.bytes;
		sum.payload += qp.payload_bytes;
	}
	world_reasons(w, reasons, direction == ESC_DIRECTION_TX ? WORLD_TC_OUT : WORLD_XDP);
	sum.unreadable = reasons[ESC_REASON_UNREADABLE];
	return sum;
}

static bool is_counted(const struct counts *c, const char *where, uint64_t packets, uint64_t bytes,
		       uint64_t payload)
{
	if (c->packets == packets && c->bytes == bytes && c->payload == payload && !c->unreadable)
		return true;
	printf("# %s: %llu packets, %llu bytes, %llu payload, %llu unreadable; must be "
	       "%llu, %llu, %llu, 0\n",
	       where, (unsigned long long)c->packets, (unsigned long long)c->bytes,
	       (unsigned long long)c->payload, (unsigned long long)c->unreadable,
	       (unsigned long long)packets, (unsigned long long)bytes, (unsigned long long)payload);
	return false;
}

struct live {
	struct world world;
	int from, to; /* sockets */
	int egress;   /* link of our program */
};

/* Sends one frame and compares both ends' counts with its length. */
static void test_frame(struct live *l, const char *name, const struct frame_plan *plan,
		       enum frame_shape shape, bool tagged)
{
	struct counts tx, rx;
	struct frame f;
	uint32_t bytes;
	bool good;

	world_reset(&l->world);
	frame_build(&f, plan);
	frame_set_shape(&f, shape);
	bytes = f.bytes - frame_ip_offset(&f);
	good = live_send(l->from, &f, 0) && receive_frame(l->to, &f);
	tap_ok(good, "%s: arrives as it was sent", name);
	tx = read_counts(&l->world, ESC_DIRECTION_TX);
	rx = read_counts(&l->world, ESC_DIRECTION_RX);
	tap_ok(is_counted(&tx, "tc egress", 1, bytes, plan->payload), "%s: counted at tc egress%s",
	       name, tagged ? " with the tag in the metadata" : "");
	tap_ok(is_counted(&rx, "XDP", 1, bytes, plan->payload), "%s: counted in XDP", name);
}

/* Puts tc egress behind @before, if there is one. */
static bool attach_egress(struct live *l, int before)
{
	int v0 = if_nametoindex("v0");

	if (l->egress >= 0)
		close(l->egress);
	if (before >= 0 && bpf_link_create(before, v0, TCX_EGRESS, NULL) < 0)
		return false;
	l->egress = bpf_link_create(l->world.programs[WORLD_TC_OUT], v0, TCX_EGRESS, NULL);
	return l->egress >= 0;
}

static bool attach_xdp(struct live *l)
{
	return bpf_link_create(l->world.programs[WORLD_XDP], if_nametoindex("v1"), BPF_XDP, NULL) >=
	       0;
}

static void test_all(struct live *l, const char *suffix, bool tagged)
{
	static const struct {
		const char *name;
		struct frame_plan plan;
		enum frame_shape shape;
	} frames[] = {
		{"small", {.opcode = 0x04, .qpn = 1, .payload = 64}, FRAME_PLAIN},
		{"jumbo", {.opcode = 0x01, .qpn = 1, .payload = 4096}, FRAME_PLAIN},
		{"jumbo over IPv6",
		 {.ip = 6, .opcode = 0x01, .qpn = 1, .payload = 4096},
		 FRAME_PLAIN},
		{"jumbo with IPv4 options",
		 {.opcode = 0x01, .qpn = 1, .payload = 4096},
		 FRAME_OPTIONS},
		{"jumbo with extension headers",
		 {.ip = 6, .opcode = 0x01, .qpn = 1, .payload = 4096},
		 FRAME_OPTIONS},
		{"jumbo with two tags in the data",
		 {.opcode = 0x01, .qpn = 1, .payload = 4096},
		 FRAME_QINQ},
	};
	char name[128];
	size_t i;

	for (i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
		/* The metadata has room for one tag: a third would not stay in it. */
		if (tagged && frames[i].shape == FRAME_QINQ)
			continue;
		snprintf(name, sizeof(name), "%s%s", frames[i].name, suffix);
		test_frame(l, name, &frames[i].plan, frames[i].shape, tagged);
	}
}

int main(void)
{
	struct live l = {.egress = -1};
	int push;

	if (!live_make_veth())
		return tap_skip_all("no network namespace with a veth pair");
	if (world_open(&l.world, &(struct world_options){.rx_in_xdp_only = true}))
		return tap_bail("the programs do not load");
	l.from = live_open("v0", true);
	l.to = live_open("v1", false);
	push = load_vlan_push();
	if (l.from < 0 || l.to < 0 || push < 0)
		return tap_bail("no packet sockets, or no program that pushes a tag");
	if (!attach_xdp(&l) || !attach_egress(&l, -1))
		return tap_skip_all("the kernel has no TCX or no native XDP on veth");
	test_all(&l, "", false);
	tap_ok(attach_egress(&l, push), "a program that pushes a VLAN tag goes before ours");
	test_all(&l, ", tag in the metadata", true);
	world_close(&l.world);
	return tap_end();
}
