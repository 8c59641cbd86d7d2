// SPDX-License-Identifier: BSD-2-Clause
/*
 * What comes in: which packets are timestamped, and the receipts made of them. They
 * are made on the loopback interface of a network namespace of the test's own,
 * with tc egress attached there, and caught as they leave.
 */
#define TAP_PLAN 33

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "receipt_world.h"

#define TCX_EGRESS 47 /* newer than the headers of the distribution */
#define TCX_INGRESS 46
#define LOOPBACK 1
#define IN WORLD_XDP
#define SEND_FIRST 0x00
#define SEND_MIDDLE 0x01
#define SEND_LAST 0x02

static int capture = -1;

static bool loopback_up(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool good = fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &request);

	close(fd);
	return good;
}

static bool capture_open(void)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(3 /* ETH_P_ALL */),
				 .sll_ifindex = LOOPBACK};

	capture = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(3));
	return capture >= 0 && !bind(capture, (struct sockaddr *)&at, sizeof(at));
}

/* What left since the last call: how many frames, the last of them in @f. */
static unsigned int captured(struct frame *f)
{
	struct sockaddr_ll from;
	socklen_t size = sizeof(from);
	unsigned int count = 0;
	uint8_t buffer[FRAME_MAX];
	ssize_t bytes;

	for (;; size = sizeof(from)) {
		bytes = recvfrom(capture, buffer, sizeof(buffer), 0, (struct sockaddr *)&from,
				 &size);
		if (bytes < 0)
			return count;
		if (from.sll_pkttype != PACKET_OUTGOING)
			continue;
		memcpy(f->data, buffer, bytes);
		f->bytes = bytes;
		count++;
	}
}

static uint32_t stamps(struct receipt_world *w)
{
	struct esc_rx_timestamps table;
	uint32_t zero = 0;

	bpf_map_lookup_elem(receipt_fd(w, "rx_timestamps"), &zero, &table);
	return table.pending;
}

/* The queue pair becomes known by PSNs 1 to @before, none of them sampled. */
static bool begin(struct receipt_world *w, int ip, uint32_t before)
{
	bool good = true;

	receipt_reset(w);
	for (uint32_t psn = 1; psn <= before; psn++)
		good = data_send(w, IN, ip, SEND_MIDDLE, psn) && good;
	return good && IS(stamps(w), 0);
}

/* tc ingress of @f with a mark of another's: untouched; what left is in @out. */
static bool ingress(struct receipt_world *w, const struct frame *f, struct frame *out,
		    unsigned int want)
{
	struct __sk_buff skb = {.mark = 0x1234, .priority = 5};

	return data_run(w, WORLD_TC_IN, f, &skb) && IS(captured(out), want);
}

/* The receipt that @out is to be: what only the kernel knows is taken from it. */
static bool is_receipt(const struct frame *data, const struct frame *out, uint32_t psn,
		       uint8_t flags, const struct probe_key *key)
{
	uint32_t bth = frame_is_ipv6(data) ? 62 : 42;
	struct receipt_plan plan = {
		.flags = flags,
		.newest = MODEL_NEWEST,
		.sender = SELF,
		.target = PEER,
		.epoch = OWN_EPOCH,
		.qpn = QPN,
		.psn = psn,
		.key = key,
		.rx_fabric_ns = probe_get(out, bth + R_RX, 8),
		.bound_ns = flags & ESC_RECEIPT_TIMED ? FABRIC_BOUND_NS : 0,
		.stack_ns = probe_get(out, bth + R_STACK, 4),
		.message_ns = probe_get(out, bth + R_MESSAGE, 4),
	};
	struct frame want;

	receipt_reply(&want, data, &plan);
	return probe_same(out, &want);
}

static void test_make(struct receipt_world *w, int ip)
{
	struct frame f, out;
	uint64_t from, to, rx;
	uint32_t bth = ip == 6 ? 62 : 42;
	bool good;

	good = begin(w, ip, 15);
	data_build(&f, ip, SEND_MIDDLE, 15);
	good = good && ingress(w, &f, &out, 0);
	tap_ok(good, "IPv%d: no timestamps and no receipts for what is not sampled", ip);
	data_build(&f, ip, SEND_MIDDLE, 16);
	f.data[15] |= ip == 6 ? 0 : 0xb8;
	from = now_ns();
	good = data_run(w, IN, &f, NULL) && IS(stamps(w), 1);
	to = now_ns();
	usleep(2000);
	good = good && ingress(w, &f, &out, 1);
	rx = probe_get(&out, bth + R_RX, 8) - FABRIC_AHEAD_NS;
	good = good && is_receipt(&f, &out, 16, ESC_RECEIPT_TIMED, &keys[0]) && rx >= from &&
	       rx <= to && probe_get(&out, bth + R_STACK, 4) >= 2000000 && IS(stamps(w), 0);
	tap_ok(good, "IPv%d: a sampled packet's receipt, byte for byte; the packet as it was", ip);
	good = ingress(w, &f, &out, 0);
	tap_ok(good && probe_reason_is(&w->w, IN, -1, 0), "IPv%d: one timestamp, one receipt", ip);
}

static void test_flags(struct receipt_world *w)
{
	struct esc_fleet fleet = probe_fleet_usual();
	struct frame f, out;
	bool good;

	good = begin(w, 4, 15);
	data_build(&f, 4, SEND_MIDDLE, 16);
	f.data[15] |= 3;
	good = data_run(w, IN, &f, NULL) && ingress(w, &f, &out, 1) && good;
	tap_ok(good && is_receipt(&f, &out, 16, ESC_RECEIPT_TIMED | ESC_RECEIPT_CE, &keys[0]),
	       "CE is reported, and not borne by the receipt");
	good = begin(w, 4, 15);
	receipt_set_clock(w, false);
	data_build(&f, 4, SEND_MIDDLE, 16);
	good = data_run(w, IN, &f, NULL) && ingress(w, &f, &out, 1) && good;
	tap_ok(good && is_receipt(&f, &out, 16, 0, &keys[0]), "without fabric time it reports it");
	good = begin(w, 4, 15);
	fleet.flags |= ESC_FLEET_HAS_KEY1 | ESC_FLEET_USE_KEY1;
	probe_set_fleet(&w->w, &fleet);
	good = data_run(w, IN, &f, NULL) && ingress(w, &f, &out, 1) && good;
	tap_ok(good && is_receipt(&f, &out, 16, ESC_RECEIPT_TIMED | ESC_RECEIPT_KEY, &keys[1]),
	       "tagged with the key in use");
	good = begin(w, 4, 15);
	fleet.flags = 0;
	probe_set_fleet(&w->w, &fleet);
	good = data_run(w, IN, &f, NULL) && ingress(w, &f, &out, 1) && good;
	tap_ok(good && is_receipt(&f, &out, 16, ESC_RECEIPT_TIMED, NULL),
	       "without keys the tag is 0");
	good = begin(w, 4, 0);
	data_build(&f, 4, 0x0d, 15);
	good = data_run(w, IN, &f, NULL) && good;
	data_build(&f, 4, 0x0e, 16);
	good = data_run(w, IN, &f, NULL) && ingress(w, &f, &out, 1) && good;
	tap_ok(good && is_receipt(&f, &out, 16, ESC_RECEIPT_TIMED | ESC_RECEIPT_RESPONSE, &keys[0]),
	       "of a READ response");
}

static void test_messages(struct receipt_world *w)
{
	struct frame f, out;
	uint32_t start = 100;
	uint64_t spread;
	bool good;

	while (!ESC_MESSAGE_SAMPLED(start, 0xf) || !((start + 1) & 0xf) || !(start & 0xf))
		start++;
	receipt_reset(w);
	good = data_send(w, IN, 4, SEND_LAST, start - 1);
	good = data_send(w, IN, 4, SEND_FIRST, start) && good;
	usleep(2000);
	data_build(&f, 4, SEND_LAST, start + 1);
	good = data_run(w, IN, &f, NULL) && ingress(w, &f, &out, 1) && good;
	spread = probe_get(&out, 42 + R_MESSAGE, 4);
	tap_ok(good && spread >= 2000000 &&
		       is_receipt(&f, &out, start + 1, ESC_RECEIPT_TIMED | ESC_RECEIPT_MESSAGE,
				  &keys[0]),
	       "a timed message's END: from START to END");
	receipt_reset(w);
	good = data_send(w, IN, 4, SEND_LAST, start - 2);
	good = data_send(w, IN, 4, SEND_FIRST, start) && good;
	data_build(&f, 4, SEND_LAST, start + 1);
	good = data_run(w, IN, &f, NULL) && good;
	tap_ok(good && IS(stamps(w), 0), "not of a message that is out of order");
}

/* Packets without a timestamp. */
static void test_refused(struct receipt_world *w)
{
	static const char *const names[] = {
		"an unknown address",	"a neighbour that is not received",
		"the daemon is dead",	"receipts are off",
		"the kill switch",	"not the ID in the handover state",
		"PSN was there before", "it begins the sequence"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct frame f;
		bool good = begin(w, 4, 15);

		data_build(&f, 4, SEND_MIDDLE, i == 7 ? 16 + 100000 : 16);
		if (i == 0)
			receipt_set_addresses(w, 0, 0);
		if (i == 3)
			w->word.flags &= ~ESC_CONTROL_RECEIPTS;
		if (i == 4)
			w->word.flags |= ESC_CONTROL_OFF;
		if (i == 5)
			w->word.xdp_handover[w->w.world.port] = 4;
		if (i == 6) {
			good = data_send(w, IN, 4, SEND_MIDDLE, 16) && good;
			good = data_send(w, IN, 4, SEND_MIDDLE, 17) && good;
		}
		receipt_refresh(w, i == 2 ? 3100000000 : 0, i == 1 ? 3100000000 : 0);
		good = data_run(w, IN, &f, NULL) && IS(stamps(w), i == 6) && good;
		tap_ok(good, "%s: no timestamp", names[i]);
	}
}

static void test_gap(struct receipt_world *w)
{
	struct frame f, out;
	bool good = begin(w, 4, 14);

	data_build(&f, 4, SEND_MIDDLE, 16);
	good = data_run(w, IN, &f, NULL) && ingress(w, &f, &out, 1) && good;
	tap_ok(good, "behind a gap: timestamped and reported");
}

static void test_headers(struct receipt_world *w)
{
	static const struct {
		const char *name;
		int ip;
		enum frame_shape shape;
	} shapes[] = {
		{"IPv4 options", 4, FRAME_OPTIONS},
		{"IPv6 extension headers", 6, FRAME_OPTIONS},
		{"two VLAN tags", 4, FRAME_QINQ},
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		struct frame f, out;
		bool good = begin(w, shapes[i].ip, 15);

		data_build(&f, shapes[i].ip, SEND_MIDDLE, 16);
		frame_set_shape(&f, shapes[i].shape);
		good = data_run(w, IN, &f, NULL) && ingress(w, &f, &out, 0) && good;
		tap_ok(good && probe_reason_is(&w->w, WORLD_TC_IN, ESC_REASON_RECEIPT_HEADERS, 1),
		       "%s: counted, and the packet as it was", shapes[i].name);
	}
}

static void test_rate(struct receipt_world *w)
{
	struct frame f, out;
	unsigned int made = 0, requested = 50;
	bool good = begin(w, 4, 15);
	uint64_t reasons[ESC_REASON_MAX];

	/* One each 10 s, and what 10 ms allow beforehand: two. */
	w->word.receipts_max_pps = 1;
	receipt_refresh(w, 0, 0);
	for (uint32_t psn = 16; psn < 16 * (requested + 1); psn += 16) {
		data_build(&f, 4, SEND_MIDDLE, psn);
		good = data_run(w, IN, &f, NULL) && good;
		good = data_run(w, WORLD_TC_IN, &f, NULL) && good;
		made += captured(&out);
	}
	world_reasons(&w->w.world, reasons, WORLD_TC_IN);
	/* A CPU each has its own; a slow machine may see a second go by. */
	tap_ok(good && made >= 1 && made < requested / 2 &&
		       IS(reasons[ESC_REASON_RECEIPT_RATE], requested - made),
	       "at most so many a second: %u of %u made, the others counted", made, requested);
	good = begin(w, 4, 15);
	w->word.receipts_max_pps = 0;
	receipt_refresh(w, 0, 0);
	data_build(&f, 4, SEND_MIDDLE, 16);
	good = data_run(w, IN, &f, NULL) && ingress(w, &f, &out, 0) && good;
	tap_ok(good && probe_reason_is(&w->w, WORLD_TC_IN, ESC_REASON_RECEIPT_RATE, 1),
	       "a rate of 0 is none at all");
}

/* Marks of others' packets that happen to be ours. */
static void test_marks(struct receipt_world *w)
{
	static const uint32_t marks[] = {ESC_RECEIPT_MARK, ESC_RECEIPT_MARK_DONE};

	for (size_t i = 0; i < 2; i++) {
		struct __sk_buff skb = {.mark = marks[i]};
		struct frame f;

		receipt_reset(w);
		data_build(&f, 4, SEND_MIDDLE, 17);
		tap_ok(data_run(w, WORLD_TC_OUT, &f, &skb) &&
			       IS(qp_read(w, 4, ESC_DIRECTION_TX).packets, 1),
		       "a user's packet with the mark 0x%x goes out as it is, and is counted",
		       marks[i]);
	}
}

/* Where tc egress is not there to write it the clone gets out as a copy: once, and then no more. */
static void test_alone(struct receipt_world *w, int link)
{
	unsigned int out_count = 0, sent = 20;
	struct frame f, out;
	bool good = begin(w, 4, 15);
	uint64_t reasons[ESC_REASON_MAX];

	close(link);
	for (uint32_t psn = 16; psn <= 16 * sent; psn += 16) {
		data_build(&f, 4, SEND_MIDDLE, psn);
		good = data_run(w, IN, &f, NULL) && data_run(w, WORLD_TC_IN, &f, NULL) && good;
		out_count += captured(&out);
	}
	world_reasons(&w->w.world, reasons, WORLD_TC_IN);
	/* Each CPU detects it alone. */
	tap_ok(good && out_count <= (unsigned int)w->w.world.cpus && out_count < sent &&
		       IS(reasons[ESC_REASON_RECEIPT_CLONE], sent),
	       "without tc egress no receipts, and copies of %u packets at most", w->w.world.cpus);
}

static void test_stale(struct receipt_world *w)
{
	struct frame f, out;
	bool good = begin(w, 4, 15);
	uint32_t left;

	/* Timestamps whose packets never come to tc ingress, as behind an XDP program that takes
	 * them.
	 */
	for (uint32_t psn = 16; psn <= 16 * 40; psn += 16)
		good = data_send(w, IN, 4, SEND_MIDDLE, psn) && good;
	left = stamps(w);
	usleep(20000);
	data_build(&f, 4, SEND_MIDDLE, 1);
	for (int i = 0; i < 512 * 16 && stamps(w); i++)
		good = data_run(w, WORLD_TC_IN, &f, NULL) && good;
	tap_ok(good && left >= 36 && IS(stamps(w), 0) && IS(captured(&out), 0),
	       "%u timestamps that none took are swept out", left);
}

/* Without XDP all of it happens in tc ingress. */
static void test_without_xdp(void)
{
	struct receipt_world w;
	struct frame f, out;
	bool good = true;
	int link;

	if (receipt_world_open(&w, &(struct world_options){.port = 3})) {
		tap_ok(false, "the programs load");
		return;
	}
	link = bpf_link_create(w.w.world.programs[WORLD_TC_OUT], LOOPBACK, TCX_EGRESS, NULL);
	for (uint32_t psn = 1; psn < 16; psn++)
		good = data_send(&w, WORLD_TC_IN, 4, SEND_MIDDLE, psn) && good;
	data_build(&f, 4, SEND_MIDDLE, 16);
	good = ingress(&w, &f, &out, 1) && good;
	tap_ok(good && is_receipt(&f, &out, 16, ESC_RECEIPT_TIMED, &keys[0]),
	       "without XDP: timestamped and reported in tc ingress");
	close(link);
	probe_world_close(&w.w);
}

/* --- a tag that the kernel keeps beside the packet --- */

static int open_packet_socket(const char *name)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(3),
				 .sll_ifindex = if_nametoindex(name)};
	int fd = socket(AF_PACKET, SOCK_RAW, htons(3)), on = 1;

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)))
		return -1;
	return fd;
}

/* The next frame to port 4791 that comes in; its tag, or -1 when none comes or has none. */
static int receive_tagged(int fd, struct frame *f)
{
	char control[256];
	struct sockaddr_ll from;
	struct iovec io = {f->data, sizeof(f->data)};
	struct msghdr message = {.msg_name = &from,
				 .msg_namelen = sizeof(from),
				 .msg_iov = &io,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	ssize_t bytes;

	while (poll(&wait, 1, 5000) == 1) {
		message.msg_controllen = sizeof(control);
		bytes = recvmsg(fd, &message, 0);
		if (from.sll_pkttype == PACKET_OUTGOING || bytes < 60 ||
		    frame_get16(f, 12) != 0x0800 || frame_get16(f, 36) != 4791)
			continue;
		f->bytes = bytes;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
			struct tpacket_auxdata *aux = (void *)CMSG_DATA(c);

			if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA &&
			    (aux->tp_status & TP_STATUS_VLAN_VALID))
				return aux->tp_vlan_tci;
		}
		return -1;
	}
	return -1;
}

static void test_vlan(void)
{
	struct receipt_world w;
	struct frame f, tagged, out;
	int links[2], fd, tci = -1;
	bool good;

	if (system("ip link add rm0 address 02:00:00:00:00:02 type veth peer name rm1 && "
		   "ip link set rm0 up && ip link set rm1 up") ||
	    receipt_world_open(&w, &(struct world_options){.port = 3})) {
		tap_ok(false, "a veth pair");
		return;
	}
	links[0] = bpf_link_create(w.w.world.programs[WORLD_TC_IN], if_nametoindex("rm0"),
				   TCX_INGRESS, NULL);
	links[1] = bpf_link_create(w.w.world.programs[WORLD_TC_OUT], if_nametoindex("rm0"),
				   TCX_EGRESS, NULL);
	fd = open_packet_socket("rm1");
	good = links[0] >= 0 && links[1] >= 0 && fd >= 0;
	for (uint32_t psn = 15; psn <= 16 && good; psn++) {
		data_build(&f, 4, SEND_MIDDLE, psn);
		tagged = f;
		frame_add_vlan(&tagged, 0x8100, 3 << 13 | 77);
		good = send(fd, tagged.data, tagged.bytes, 0) == (ssize_t)tagged.bytes;
	}
	if (good)
		tci = receive_tagged(fd, &out);
	tap_ok(good && IS(tci & 0xfff, 77) && is_receipt(&f, &out, 16, ESC_RECEIPT_TIMED, &keys[0]),
	       "one VLAN tag: the receipt goes back with it");
	probe_world_close(&w.w);
}

int main(void)
{
	struct receipt_world w;
	int link;

	if (unshare(CLONE_NEWNET) || !loopback_up() || !capture_open())
		return tap_bail("no network namespace");
	if (receipt_world_open(&w, &(struct world_options){.port = 3, .rx_in_xdp_only = true}))
		return tap_bail("the programs do not load");
	link = bpf_link_create(w.w.world.programs[WORLD_TC_OUT], LOOPBACK, TCX_EGRESS, NULL);
	if (link < 0)
		return tap_bail("tc egress cannot be attached");
	test_make(&w, 4);
	test_make(&w, 6);
	test_flags(&w);
	test_messages(&w);
	test_refused(&w);
	test_gap(&w);
	test_headers(&w);
	test_rate(&w);
	test_marks(&w);
	test_stale(&w);
	test_alone(&w, link);
	probe_world_close(&w.w);
	test_without_xdp();
	test_vlan();
	return tap_end();
}
