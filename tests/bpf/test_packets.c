// SPDX-License-Identifier: BSD-2-Clause
/*
 * One packet, one outcome: the verdict, the reason, the port's counts and the
 * queue pair's entry, at each hook. The expectations are written manually.
 */
#define TAP_PLAN 147

#include "model.h"
#include "tests/lib/tap.h"
#include "world.h"

#define NONE (-1) /* no reason: not RoCE */
#define ROCE (-2) /* counted by queue pair */

struct edit {
	uint16_t at; /* from the start of the IP header; ETHERTYPE below means offset 12 */
	uint16_t value;
};

#define ETHERTYPE 0xffff

static const struct packet_case {
	const char *name;
	struct frame_plan plan;
	struct edit edits[4];  /* 16-bit words */
	uint8_t extensions[8]; /* IPv6 extension headers, the innermost first; 0xff ends */
	uint8_t tags;
	int want;
	bool ce, cnp;
} cases[] = {
	{"RC SEND_ONLY", {.opcode = 0x04, .payload = 64}, .want = ROCE},
	{"RC SEND_ONLY over IPv6", {.ip = 6, .opcode = 0x04, .payload = 64}, .want = ROCE},
	{"pad counts", {.opcode = 0x04, .payload = 61, .pad = 3}, .want = ROCE},
	{"CE", {.opcode = 0x04, .payload = 4, .ecn = 3}, .want = ROCE, .ce = true},
	{"CE over IPv6", {.ip = 6, .opcode = 0x04, .ecn = 3}, .want = ROCE, .ce = true},
	{"ECT(0)", {.opcode = 0x04, .payload = 4, .ecn = 2}, .want = ROCE},
	{"CNP", {.opcode = 0x81, .extension = 16, .bth_flags = 0}, .want = ROCE, .cnp = true},
	{"XRC WRITE_ONLY with immediate",
	 {.opcode = 0xab, .extension = 24, .payload = 9},
	 .want = ROCE},
	{"UD SEND_ONLY", {.opcode = 0x64, .extension = 8, .payload = 9}, .want = ROCE},
	{"solicited event and migration bits", {.opcode = 0x04, .bth_flags = 0xc0}, .want = ROCE},
	{"a UDP length below the IP length",
	 {.opcode = 0x04, .payload = 20},
	 {{24, 8 + 12 + 4 + 10}},
	 .want = ROCE},
	{"one VLAN tag", {.opcode = 0x04, .payload = 64}, .tags = 1, .want = ROCE},
	{"two VLAN tags", {.ip = 6, .opcode = 0x04}, .tags = 2, .want = ROCE},
	{"three VLAN tags", {.opcode = 0x04}, .tags = 3, .want = ESC_REASON_VLAN_DEPTH},
	{"another UDP port", {.opcode = 0x04, .dport = 4790}, .want = NONE},
	{"TCP", {.opcode = 0x04}, {{8, 0x4006}}, .want = NONE},
	{"a TCP fragment", {.opcode = 0x04}, {{8, 0x4006}, {6, 0x2000}}, .want = NONE},
	{"ARP", {.opcode = 0x04}, {{ETHERTYPE, 0x0806}}, .want = NONE},
	{"RoCEv1", {.opcode = 0x04}, {{ETHERTYPE, 0x8915}}, .want = ESC_REASON_ROCEV1},
	{"a tagged RoCEv1 frame",
	 {.opcode = 0x04},
	 {{ETHERTYPE, 0x8915}},
	 .tags = 1,
	 .want = ESC_REASON_ROCEV1},
	{"IPv4 of version 5", {.opcode = 0x04}, {{0, 0x5500}}, .want = ESC_REASON_BAD_IP_HEADER},
	{"IPv4 header of 16 bytes",
	 {.opcode = 0x04},
	 {{0, 0x4400}},
	 .want = ESC_REASON_BAD_IP_HEADER},
	{"IPv4 shorter than its header",
	 {.opcode = 0x04},
	 {{2, 19}},
	 .want = ESC_REASON_BAD_IP_HEADER},
	{"IPv6 of version 4",
	 {.ip = 6, .opcode = 0x04},
	 {{0, 0x4000}},
	 .want = ESC_REASON_BAD_IP_HEADER},
	{"IPv4, first fragment", {.opcode = 0x04}, {{6, 0x2000}}, .want = ESC_REASON_FRAGMENT},
	{"IPv4, later fragment", {.opcode = 0x04}, {{6, 0x0010}}, .want = ESC_REASON_FRAGMENT},
	{"IPv4 length above the frame", {.opcode = 0x04}, {{2, 900}}, .want = ESC_REASON_IP_LENGTH},
	{"IPv6 length above the frame",
	 {.ip = 6, .opcode = 0x04},
	 {{4, 900}},
	 .want = ESC_REASON_IP_LENGTH},
	{"the IP packet ends in the UDP header",
	 {.opcode = 0x04},
	 {{2, 27}},
	 .want = ESC_REASON_SHORT_UDP},
	{"UDP length above the IP length",
	 {.opcode = 0x04},
	 {{24, 25}},
	 .want = ESC_REASON_UDP_LENGTH},
	{"UDP length below its header", {.opcode = 0x04}, {{24, 7}}, .want = ESC_REASON_UDP_LENGTH},
	{"UDP length 0", {.opcode = 0x04}, {{24, 0}}, .want = ESC_REASON_UDP_LENGTH},
	{"no room for the ICRC",
	 {.opcode = 0x04},
	 {{24, 8 + 12 + 3}},
	 .want = ESC_REASON_SHORT_BTH},
	{"BTH of version 1", {.opcode = 0x04, .bth_flags = 1}, .want = ESC_REASON_BTH_VERSION},
	{"opcode 0x15", {.opcode = 0x15}, .want = ESC_REASON_UNKNOWN_OPCODE},
	{"opcode of RD", {.opcode = 0x44}, .want = ESC_REASON_UNKNOWN_OPCODE},
	{"opcode 0x80", {.opcode = 0x80, .extension = 16}, .want = ESC_REASON_UNKNOWN_OPCODE},
	{"a probe",
	 {.opcode = ESC_PROBE_OPCODE_REQUEST, .payload = 64},
	 .want = ESC_REASON_UNKNOWN_OPCODE},
	{"a RETH that is cut",
	 {.opcode = 0x0a, .extension = 15},
	 .want = ESC_REASON_SHORT_EXTENSION},
	{"pad beyond the payload",
	 {.opcode = 0x04, .bth_flags = 0x10},
	 .want = ESC_REASON_SHORT_EXTENSION},
	{"hop-by-hop, routing and destination options",
	 {.ip = 6, .opcode = 0x04},
	 .extensions = {60, 43, 0, 0xff},
	 .want = ROCE},
	{"six extension headers",
	 {.ip = 6, .opcode = 0x04},
	 .extensions = {60, 60, 60, 60, 60, 60, 0xff},
	 .want = ROCE},
	{"seven extension headers",
	 {.ip = 6, .opcode = 0x04},
	 .extensions = {60, 60, 60, 60, 60, 60, 60, 0xff},
	 .want = ESC_REASON_IPV6_EXTENSIONS},
	{"an atomic fragment", {.ip = 6, .opcode = 0x04}, .extensions = {44, 0xff}, .want = ROCE},
	{"IPv6, first fragment",
	 {.ip = 6, .opcode = 0x04},
	 {{42, 1}},
	 .extensions = {44, 0xff},
	 .want = ESC_REASON_FRAGMENT},
	{"IPv6, later fragment",
	 {.ip = 6, .opcode = 0x04},
	 {{42, 8}},
	 .extensions = {44, 0xff},
	 .want = ESC_REASON_FRAGMENT},
	{"IPv6, a fragment of ICMP",
	 {.ip = 6, .opcode = 0x04},
	 {{42, 8}, {40, 0x3a00}},
	 .extensions = {44, 0xff},
	 .want = NONE},
	{"IPv6, hop-by-hop and ICMP",
	 {.ip = 6, .opcode = 0x04},
	 {{40, 0x3a00}},
	 .extensions = {0, 0xff},
	 .want = NONE},
	{"IPv6, encrypted", {.ip = 6, .opcode = 0x04}, {{6, 0x3240}}, .want = NONE},
};

static void build(struct frame *f, const struct packet_case *c)
{
	uint8_t extensions[8];
	uint32_t i, ip;

	memcpy(extensions, c->extensions, sizeof(extensions));
	frame_build(f, &c->plan);
	/* Without the 0xff that ends it, the list is not given. */
	if (memchr(extensions, 0xff, sizeof(extensions)))
		for (i = 0; extensions[i] != 0xff; i++)
			frame_add_ipv6_extension(f, extensions[i], 8);
	ip = frame_ip_offset(f);
	for (i = 0; i < 4 && (c->edits[i].at || c->edits[i].value); i++)
		frame_put16(f, c->edits[i].at == ETHERTYPE ? 12 : ip + c->edits[i].at,
			    c->edits[i].value);
	for (i = 0; i < c->tags; i++)
		frame_add_vlan(f, i ? 0x88a8 : 0x8100, i + 1);
}

static bool is(const char *what, uint64_t value, uint64_t want)
{
	if (value != want)
		printf("# %s is %llu, must be %llu\n", what, (unsigned long long)value,
		       (unsigned long long)want);
	return value == want;
}

static bool check_reasons(const struct world *w, enum world_hook hook, int want)
{
	uint64_t reasons[ESC_REASON_MAX];
	bool good = true;
	int other, i;

	for (other = 0; other < WORLD_HOOKS; other++) {
		world_reasons(w, reasons, other);
		for (i = 0; i < ESC_REASON_MAX; i++)
			good = is(world_reason_name(i), reasons[i],
				  i == want && other == (int)hook) &&
			       good;
	}
	return good;
}

static bool check_port(const struct world *w, enum world_hook hook, const struct packet_case *c,
		       uint32_t bytes)
{
	struct esc_port_counts port = world_port_counts(w, w->port);
	bool roce = c->want == ROCE, tx = hook == WORLD_TC_OUT, v1 = c->want == ESC_REASON_ROCEV1;

	return is("rx_roce_packets", port.rx_roce_packets, roce && !tx) &&
	       is("tx_roce_packets", port.tx_roce_packets, roce && tx) &&
	       is("rx_roce_bytes", port.rx_roce_bytes, roce && !tx ? bytes : 0) &&
	       is("tx_roce_bytes", port.tx_roce_bytes, roce && tx ? bytes : 0) &&
	       is("rx_ce_packets", port.rx_ce_packets, c->ce && !tx) &&
	       is("tx_ce_packets", port.tx_ce_packets, c->ce && tx) &&
	       is("rx_cnps", port.rx_cnps, c->cnp && !tx) &&
	       is("tx_cnps", port.tx_cnps, c->cnp && tx) &&
	       is("rx_rocev1_frames", port.rx_rocev1_frames, v1 && !tx) &&
	       is("tx_rocev1_frames", port.tx_rocev1_frames, v1 && tx);
}

static bool check_entry(const struct world *w, enum world_hook hook, const struct packet_case *c,
			uint32_t bytes)
{
	struct esc_qp_key key;
	struct esc_qp qp;

	if (!is("queue pairs", world_qp_count(w), c->want == ROCE))
		return false;
	if (c->want != ROCE)
		return true;
	if (bpf_map_get_next_key(bpf_map__fd(w->kernel->maps.qps), NULL, &key) ||
	    !world_qp(w, &key, &qp))
		return false;
	return is("direction", key.direction,
		  hook == WORLD_TC_OUT ? ESC_DIRECTION_TX : ESC_DIRECTION_RX) &&
	       is("port", key.port, w->port) && is("dest_qpn", key.dest_qpn, c->plan.qpn) &&
	       is("last byte of src", key.src.bytes[15], c->plan.ip == 6 ? 0 : 9) &&
	       is("::ffff:", key.src.bytes[11], c->plan.ip == 6 ? 0 : 0xff) &&
	       is("last byte of dst", key.dst.bytes[15], 2) && is("packets", qp.packets, 1) &&
	       is("bytes", qp.bytes, bytes) && is("sport", qp.sport, 50000 * !c->cnp) &&
	       is("payload_bytes", qp.payload_bytes, c->edits[0].at == 24 ? 10 : c->plan.payload) &&
	       is("ip_version", qp.ip_version, c->plan.ip == 6 ? 6 : 4) &&
	       is("port in the value", qp.port, w->port) && is("ce", qp.ce, c->ce) &&
	       is("ect", qp.ect, c->plan.ecn == 1 || c->plan.ecn == 2) &&
	       is("cnps", qp.cnps, c->cnp) &&
	       is("transport", qp.transport, c->cnp ? 0 : c->plan.opcode >> 5) &&
	       is("first_local_ns is set", qp.first_local_ns > 0, 1);
}

static void test_packet(struct world *w, const struct packet_case *c, enum world_hook hook)
{
	struct packet_case own = *c;
	uint32_t bytes;
	struct frame f;
	bool good;

	own.plan.qpn = 0x123456;
	own.plan.source_host = own.plan.ip == 6 ? 0 : 9;
	build(&f, &own);
	bytes = f.bytes - 14 - 4 * own.tags;
	world_reset(w);
	/* Ethernet padding behind the packet must not count. */
	if (own.want == ROCE)
		f.bytes += 10;
	good = world_run(w, hook, f.data, f.bytes, 0) == 1 && check_reasons(w, hook, own.want) &&
	       check_port(w, hook, &own, bytes) && check_entry(w, hook, &own, bytes);
	tap_ok(good, "%s: %s -> %s", world_hook_names[hook], own.name,
	       own.want == ROCE ? "counted by queue pair" : world_reason_name(own.want));
}

int main(void)
{
	struct world w;
	size_t i;
	int hook;

	if (world_open(&w, &(struct world_options){.port = 7, .sample_mask = 0xff}))
		return tap_bail("the programs do not load");
	for (hook = 0; hook < WORLD_HOOKS; hook++)
		for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
			test_packet(&w, &cases[i], hook);
	world_close(&w);
	return tap_end();
}
