// SPDX-License-Identifier: BSD-2-Clause
/*
 * The TCP option on this kernel, segment by segment: the handshake with peers that speak it, do
 * not, or do so wrongly; others' options of the same kind; no room beside SACK blocks; silence of
 * the daemon; which class a connection is of.
 */
#define TAP_PLAN 65

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "maps/maps.h"
#include "tests/lib/tap.h"
#include "tcp_cgroup.h"
#include "tcp_peer.h"
#include "tcp/internal.h"

#define KIND ESC_TCP_KIND
#define ID0 (ESC_TCP_EXID >> 8)
#define ID1 (ESC_TCP_EXID & 0xff)
#define SYN 0x02
#define ACK 0x10
#define PSH 0x08
#define RST 0x04
#define WAIT_MS 2000

static struct tcpedge *edge;
static struct esc_tcp_control word;
static struct peer peer;
static int listener;

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* The daemon beats, and the fabric's clock is this host's. */
static void beat(uint64_t age_ns, enum clock_state state)
{
	struct esc_control control = {.heartbeat_local_ns = now_ns() - age_ns};
	struct esc_clock clock = {.generation = 2};
	struct clock_model *model = &clock.slot[0];
	uint32_t zero = 0;

	model->ref_local_ns = model->slew_end_local_ns = model->bound_local_ns =
		(long long)now_ns();
	model->ref_fabric_ns = model->slew_end_fabric_ns = model->ref_local_ns;
	model->bound_ns = 100;
	model->state = state;
	bpf_map_update_elem(tcpedge_map_fd(edge, "control"), &zero, &control, BPF_ANY);
	bpf_map_update_elem(tcpedge_map_fd(edge, "clock"), &zero, &clock, BPF_ANY);
}

static void set_mode(enum esc_tcp_mode mode)
{
	word.mode = mode;
	word.class_count = 1;
	word.classes[0] = (struct esc_tcp_class){.weight = 1, .threshold_ns = 500000};
	tcpedge_write(edge, &word);
	beat(0, CLOCK_SYNCED);
}

static struct esc_tcp_counts counts(void)
{
	struct esc_tcp_counts now;

	tcpedge_sum(edge, "tcp_counts", 1, &now, sizeof(now));
	return now;
}

/* Our option as a peer makes it, @age_ns under way. */
static uint32_t make(uint8_t *out, uint8_t length, uint8_t flags, uint64_t age_ns)
{
	uint32_t time = htonl((uint32_t)((now_ns() - age_ns) >> ESC_TCP_UNIT_SHIFT));
	uint8_t option[ESC_TCP_FULL] = {KIND, length, ID0, ID1, 0, 0, 0, flags};

	memcpy(option + 8, &time, sizeof(time));
	memcpy(out, option, sizeof(option));
	return sizeof(option);
}

static bool is_ours(const uint8_t *option)
{
	return option && option[2] == ID0 && option[3] == ID1;
}

static bool segment_has(const struct peer_segment *segment, uint8_t length)
{
	const uint8_t *option = peer_find(segment, KIND);

	return is_ours(option) && option[1] == length;
}

static bool segment_has_none(const struct peer_segment *segment)
{
	return !peer_find(segment, KIND);
}

/* A connection request with these options; the reply is in @reply. */
static bool ask(const uint8_t *options, uint32_t bytes, struct peer_segment *answer)
{
	peer.sport++;
	peer.next = 1000;
	peer.acked = 0;
	peer_send(&peer, SYN, peer.next, options, bytes, 0);
	peer.next++;
	if (!peer_take(&peer, answer, WAIT_MS) || !answer->tcp.syn || !answer->tcp.ack)
		return false;
	peer.acked = ntohl(answer->tcp.seq) + 1;
	return true;
}

/* The connection that the kernel accepted, -1: none. */
static int confirm(const uint8_t *options, uint32_t bytes)
{
	struct pollfd wait = {.fd = listener, .events = POLLIN};

	peer_send(&peer, ACK, peer.next, options, bytes, 0);
	return poll(&wait, 1, WAIT_MS) > 0 ? accept(listener, NULL, NULL) : -1;
}

static void hang_up(int fd)
{
	struct peer_segment rest;

	peer_send(&peer, RST | ACK, peer.next, NULL, 0, 0);
	if (fd >= 0)
		close(fd);
	while (peer_take(&peer, &rest, 20))
		;
}

/* What the kernel sends when the application writes a few bytes. */
static bool written(int fd, struct peer_segment *out)
{
	if (write(fd, "hello", 5) != 5)
		return false;
	do {
		if (!peer_take(&peer, out, WAIT_MS))
			return false;
	} while (!out->data_bytes);
	return true;
}

static void test_agreed(void)
{
	uint8_t option[ESC_TCP_FULL];
	struct peer_segment segment;
	struct esc_tcp_counts before = counts();
	const uint8_t *echo;
	int fd;

	beat(0, CLOCK_SYNCED);
	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 300000);
	tap_ok(ask(option, sizeof(option), &segment) && segment_has(&segment, ESC_TCP_FULL),
	       "a request with the option is replied to with it");
	echo = peer_find(&segment, KIND);
	tap_ok(echo && echo[7] == (ESC_TCP_HAS_TIME | ESC_TCP_HAS_ECHO) &&
		       (echo[4] << 8 | echo[5]) >= 300000 >> ESC_TCP_UNIT_SHIFT,
	       "and with the request's delay");
	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	fd = confirm(option, sizeof(option));
	tap_ok(fd >= 0 && written(fd, &segment) && segment_has(&segment, ESC_TCP_FULL),
	       "data goes out with it");
	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 2000000);
	peer_send(&peer, ACK | PSH, peer.next, option, sizeof(option), 100);
	peer.next += 100;
	while (peer_take(&peer, &segment, WAIT_MS) && ntohl(segment.tcp.ack_seq) != peer.next)
		;
	echo = peer_find(&segment, KIND);
	tap_ok(is_ours(echo) && echo[7] & ESC_TCP_HAS_ECHO &&
		       (echo[4] << 8 | echo[5]) >= 2000000 >> ESC_TCP_UNIT_SHIFT,
	       "an acknowledgement shows the delay of the data");
	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, -500000ull);
	peer_send(&peer, ACK | PSH, peer.next, option, sizeof(option), 100);
	peer.next += 100;
	while (peer_take(&peer, &segment, WAIT_MS) && ntohl(segment.tcp.ack_seq) != peer.next)
		;
	echo = peer_find(&segment, KIND);
	tap_ok(is_ours(echo) && echo[7] & ESC_TCP_ECHO_LESS && (echo[4] << 8 | echo[5]) &&
		       (echo[4] << 8 | echo[5]) <= 500000 >> ESC_TCP_UNIT_SHIFT,
	       "a delay of less than nothing, as clocks can make it, is reported as such");
	tap_ok(counts().agreed == before.agreed + 1, "the connection is counted as agreed");
	hang_up(fd);
}

/* A host of a later release offers our format, and that it reads others. */
static void test_later_release(void)
{
	uint8_t option[ESC_TCP_FULL];
	struct peer_segment segment;

	beat(0, CLOCK_SYNCED);
	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME | ESC_TCP_READS_LATER, 0);
	tap_ok(ask(option, sizeof(option), &segment) && segment_has(&segment, ESC_TCP_FULL) &&
		       !(peer_find(&segment, KIND)[7] & (ESC_TCP_READS_LATER | ESC_TCP_FORMAT)),
	       "the option of a release that reads later formats is replied to in ours");
	hang_up(-1);
}

/* @options, padded with NOPs by the caller, are no offer: reply and connection are plain. */
static void expect_plain(const char *name, const uint8_t *options, uint32_t bytes,
			 uint64_t malformed)
{
	struct esc_tcp_counts before = counts();
	struct peer_segment segment;
	int fd = -1;
	bool good;

	beat(0, CLOCK_SYNCED);
	good = ask(options, bytes, &segment) && segment_has_none(&segment);
	if (good)
		fd = confirm(NULL, 0);
	good = fd >= 0 && written(fd, &segment) && segment_has_none(&segment) &&
	       segment.data_bytes == 5;
	tap_ok(good, "%s: a plain connection, data flows", name);
	if (malformed)
		tap_ok(counts().malformed >= before.malformed + malformed, "%s: counted", name);
	hang_up(fd);
}

static void test_not_offered(void)
{
	const uint8_t other[] = {KIND, 8, 0xf9, 0x89, 1, 2, 3, 4};
	const uint8_t small[] = {KIND, 4, ID0, ID1};
	const uint8_t odd[] = {KIND, 11, ID0, ID1, 0, 0, 0, 1, 0, 0, 0, 1};
	const uint8_t large[] = {KIND, 16, ID0, ID1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
	const uint8_t flags[] = {KIND, 12, ID0, ID1, 0, 0, 0, 0x09, 0, 0, 0, 0};
	const uint8_t later[] = {KIND, 12, ID0, ID1, 0, 0, 0, 0x41, 0, 0, 0, 0};
	const uint8_t beyond[] = {1, 1, 1, 1, KIND, 12, ID0, ID1};
	const uint8_t cut[] = {1, 1, KIND, 2};
	const uint8_t nothing[] = {1, 1, KIND, 0};

	expect_plain("no option", NULL, 0, 0);
	expect_plain("another program's option of the kind", other, sizeof(other), 0);
	expect_plain("ours without contents", small, sizeof(small), 1);
	expect_plain("ours with an odd length", odd, sizeof(odd), 1);
	expect_plain("ours, longer than it is", large, sizeof(large), 1);
	expect_plain("ours with unknown flags", flags, sizeof(flags), 1);
	expect_plain("ours in a later format", later, sizeof(later), 1);
	expect_plain("a length beyond the header", beyond, sizeof(beyond), 0);
	expect_plain("no room for an identifier", cut, sizeof(cut), 0);
	expect_plain("a length of zero", nothing, sizeof(nothing), 0);
}

static void test_beside_others(void)
{
	uint8_t options[20] = {KIND, 6, 0xf9, 0x89, 1, 2, 1, 1};
	struct peer_segment segment;

	beat(0, CLOCK_SYNCED);
	make(options + 8, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	tap_ok(ask(options, sizeof(options), &segment) && segment_has(&segment, ESC_TCP_FULL),
	       "ours behind another program's of the kind is found");
	hang_up(-1);
}

/* The other end offered it, and its acknowledgement does not have it: something takes it away. */
static void test_taken_away(void)
{
	uint8_t option[ESC_TCP_FULL];
	struct peer_segment segment;
	int fd = -1;

	beat(0, CLOCK_SYNCED);
	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	if (ask(option, sizeof(option), &segment))
		fd = confirm(NULL, 0);
	tap_ok(fd >= 0 && written(fd, &segment) && segment_has_none(&segment),
	       "an option that is lost in transit makes a plain connection");
	hang_up(fd);
}

/* Timestamps and SACK leave 16, 8 and no bytes beside one, two and three blocks. */
static void test_no_room(void)
{
	static const uint8_t lengths[] = {ESC_TCP_FULL, ESC_TCP_SHORT, 0};
	uint8_t options[24] = {4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0};
	uint8_t stamps[24] = {1, 1, 8, 10, 0, 0, 0, 2, 0, 0, 0, 0};
	struct esc_tcp_counts before = counts();
	struct peer_segment segment = {};
	int fd = -1;

	beat(0, CLOCK_SYNCED);
	make(options + 12, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	make(stamps + 12, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	if (ask(options, sizeof(options), &segment))
		fd = confirm(stamps, sizeof(stamps));
	for (uint32_t i = 0; i < 3; i++) {
		bool right;

		make(stamps + 12, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 1000000);
		peer_send(&peer, ACK, peer.next + 1000 + i * 1000, stamps, sizeof(stamps), 100);
		right = fd >= 0 && peer_take(&peer, &segment, WAIT_MS) && peer_find(&segment, 5) &&
			peer_find(&segment, 5)[1] == 2 + 8 * (i + 1) &&
			(lengths[i] ? segment_has(&segment, lengths[i])
				    : segment_has_none(&segment));
		tap_ok(right, "beside %u SACK blocks the option has %u bytes", i + 1, lengths[i]);
	}
	tap_ok(counts().short_form > before.short_form, "the short one is counted");
	hang_up(fd);
}

/* No reply but a plain one when @why. */
static void expect_silent(const char *why)
{
	uint8_t option[ESC_TCP_FULL];
	struct peer_segment segment;

	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	tap_ok(ask(option, sizeof(option), &segment) && segment_has_none(&segment),
	       "%s: nothing is "
	       "written",
	       why);
	hang_up(-1);
}

static void test_silent(void)
{
	beat(ESC_TCP_LIMIT_NS + 1000000, CLOCK_SYNCED);
	expect_silent("the daemon is down");
	set_mode(ESC_TCP_OFF);
	expect_silent("off");
	set_mode(ESC_TCP_OBSERVE);
}

/* Without fabric time the option reports it; it makes no delay. */
static void test_no_clock(void)
{
	uint8_t option[ESC_TCP_FULL];
	struct peer_segment segment;
	const uint8_t *found;

	beat(0, CLOCK_FREE_RUNNING);
	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	tap_ok(ask(option, sizeof(option), &segment) && segment_has(&segment, ESC_TCP_FULL),
	       "without fabric time the option is still agreed on");
	found = peer_find(&segment, KIND);
	tap_ok(found && !found[7], "and carries neither time nor delay");
	hang_up(-1);
	beat(0, CLOCK_SYNCED);
}

static uint64_t class_samples(unsigned int class)
{
	struct esc_tcp_class_counts now[ESC_TCP_CLASSES];

	return tcpedge_sum(edge, "tcp_classes", ESC_TCP_CLASSES, now, sizeof(now[0]))
		       ? 0
		       : now[class].samples;
}

static uint64_t cgroup_id(const char *path)
{
	struct stat folder;

	return stat(path, &folder) ? 0 : folder.st_ino;
}

/* The class of a connection whose other end shows a delay. */
static unsigned int class_of_one(uint8_t tos)
{
	uint64_t before[ESC_TCP_CLASSES];
	uint8_t option[ESC_TCP_FULL];
	struct peer_segment segment;
	unsigned int class = 0;
	int fd = -1, marked = tos;

	for (unsigned int i = 0; i < word.class_count; i++)
		before[i] = class_samples(i);
	setsockopt(listener, IPPROTO_IP, IP_TOS, &marked, sizeof(marked));
	beat(0, CLOCK_SYNCED);
	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	if (ask(option, sizeof(option), &segment)) {
		make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME | ESC_TCP_HAS_ECHO, 0);
		fd = confirm(option, sizeof(option));
	}
	marked = 0;
	setsockopt(listener, IPPROTO_IP, IP_TOS, &marked, sizeof(marked));
	while (class < word.class_count && class_samples(class) == before[class])
		class ++;
	hang_up(fd);
	return class;
}

static void test_classes(const char *cgroup)
{
	static const struct {
		const char *name;
		struct esc_tcp_class class;
		bool named; /* the cgroup is of the class */
		uint8_t tos;
		unsigned int wanted;
	} rows[] = {
		{"nothing requested: no class alone", {.weight = 1}, false, 0, 0},
		{"our port", {.port_first = PEER_PORT, .port_last = PEER_PORT}, false, 0, 1},
		{"the other end's port", {.port_first = 20000, .port_last = 30000}, false, 0, 1},
		{"another port", {.port_first = 7100, .port_last = 7200}, false, 0, 0},
		{"the DSCP", {.dscps = 1ull << 46 | 1ull << 10}, false, 46 << 2 | 2, 1},
		{"another DSCP", {.dscps = 1ull << 46 | 1ull << 10}, false, 12 << 2, 0},
		{"no DSCP where one is requested", {.dscps = 1ull << 46}, false, 0, 0},
		{"the cgroup", {.by_cgroup = 1}, true, 0, 1},
		{"another cgroup", {.by_cgroup = 1}, false, 0, 0},
		{"all of them",
		 {.by_cgroup = 1, .dscps = 1ull << 46, .port_first = 1, .port_last = 65535},
		 true,
		 46 << 2,
		 1},
		{"all but one",
		 {.by_cgroup = 1, .dscps = 1ull << 46, .port_first = 1, .port_last = 2},
		 true,
		 46 << 2,
		 0},
	};
	uint64_t id = cgroup_id(cgroup);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t bits = rows[i].named ? 1 << 1 : 1 << 2;

		bpf_map_update_elem(tcpedge_map_fd(edge, "tcp_cgroups"), &id, &bits, BPF_ANY);
		word.class_count = 2;
		word.classes[1] = rows[i].class;
		tcpedge_write(edge, &word);
		tap_ok(class_of_one(rows[i].tos) == rows[i].wanted, "class: %s", rows[i].name);
	}
	/* The first that fits, as they are listed. */
	word.class_count = 4;
	word.classes[1] = (struct esc_tcp_class){.dscps = 1ull << 46};
	word.classes[2] = word.classes[3] =
		(struct esc_tcp_class){.port_first = PEER_PORT, .port_last = PEER_PORT};
	tcpedge_write(edge, &word);
	tap_ok(class_of_one(0) == 2, "class: the first of two that fit");
	word.class_count = 1;
	tcpedge_write(edge, &word);
}

/* --- connections of ours --- */

/* Members have to be known: the option is not offered to others, nor replied to. */
static void set_member(bool is_member)
{
	struct esc_address address = {.bytes = {[10] = 0xff, [11] = 0xff}};
	struct esc_peer_address value = {.id = 1};
	int fd = tcpedge_map_fd(edge, "peer_addresses");

	inet_pton(AF_INET, PEER_SELF, &address.bytes[12]);
	if (is_member)
		bpf_map_update_elem(fd, &address, &value, BPF_ANY);
	else
		bpf_map_delete_elem(fd, &address);
}

/* The next SYN to @port; earlier connections may send too. */
static bool take_syn(uint16_t port, struct peer_segment *syn, int wait_ms)
{
	struct peer any = {.tun = peer.tun};

	do {
		if (!peer_take(&any, syn, wait_ms)) {
			memset(syn, 0, sizeof(*syn));
			return false;
		}
	} while (!syn->tcp.syn || syn->tcp.dest != htons(port));
	return true;
}

/* A connection to @port of the peer; its SYN is in @syn. */
static int connect_to(uint16_t port, struct peer_segment *syn)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	beat(0, CLOCK_SYNCED);
	address.sin_addr.s_addr = inet_addr(PEER_SELF);
	connect(fd, (struct sockaddr *)&address, sizeof(address));
	take_syn(port, syn, WAIT_MS);
	return fd;
}

/* The peer replies to @syn. */
static void reply_to(const struct peer_segment *syn, uint8_t flags, const uint8_t *options,
		     uint32_t bytes)
{
	struct peer from = {
		.tun = peer.tun,
		.sport = ntohs(syn->tcp.dest),
		.dport = ntohs(syn->tcp.source),
		.acked = ntohl(syn->tcp.seq) + 1,
	};
	struct peer_segment rest;

	peer_send(&from, flags, 7000, options, bytes, 0);
	peer_take(&from, &rest, 100);
}

/* Whether a connection to @port offers the option; the peer replies with @flags. */
static bool offers(uint16_t port, uint8_t flags, bool agrees)
{
	struct peer_segment syn = {};
	uint8_t option[ESC_TCP_FULL];
	int fd = connect_to(port, &syn);

	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	if (flags)
		reply_to(&syn, flags, option, agrees ? sizeof(option) : 0);
	close(fd);
	return syn.tcp.syn && segment_has(&syn, ESC_TCP_FULL);
}

static void test_offers(void)
{
	struct esc_tcp_counts before = counts();
	uint8_t option[ESC_TCP_FULL];
	struct peer_segment segment;

	set_member(false);
	tap_ok(!offers(11, RST | ACK, false), "a host that is no member gets no offer");
	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	tap_ok(ask(option, sizeof(option), &segment) && segment_has_none(&segment),
	       "and no reply to its own");
	hang_up(-1);
	tap_ok(counts().outside >= before.outside + 2, "both are counted");
	set_member(true);
	tap_ok(offers(11, SYN | ACK, true) && offers(11, SYN | ACK, true),
	       "a member that agrees gets one each time");
	tap_ok(offers(12, RST | ACK, false) && offers(12, RST | ACK, false),
	       "a closed port is no refusal");
	tap_ok(offers(13, SYN | ACK, false) && !offers(13, SYN | ACK, false),
	       "a server that does not agree gets none any more");
	tap_ok(offers(11, SYN | ACK, true), "another port of the same host does");
	tap_ok(counts().withheld == before.withheld + 1, "the one not made is counted");
}

/* The first SYN has the option, one that is repeated has not, nor have later connections. */
static void test_repeated(void)
{
	struct esc_tcp_counts before = counts();
	struct peer_segment first, second;
	int fd = connect_to(9, &first);

	tap_ok(segment_has(&first, ESC_TCP_FULL), "a request of ours has the option");
	beat(0, CLOCK_SYNCED);
	tap_ok(take_syn(9, &second, 4 * WAIT_MS) && segment_has_none(&second),
	       "one that is repeated has not: something may drop it for that");
	close(fd);
	tap_ok(!offers(9, 0, false) && !offers(11, SYN | ACK, true),
	       "nor have later ones to that host, also to ports that agreed");
	tap_ok(counts().syn_timeouts == before.syn_timeouts + 1, "counted once");
}

/* An application that gives up before the SYN is repeated. False: it had no option. */
static bool give_up(void)
{
	struct peer_segment syn;
	int fd = connect_to(9, &syn);

	usleep(300000);
	close(fd);
	return segment_has(&syn, ESC_TCP_FULL);
}

/* Where a connection has agreed a SYN may be lost like any other packet. */
static void test_lost(void)
{
	struct esc_tcp_counts before = counts();
	bool offered = offers(11, SYN | ACK, true);

	for (int i = 0; i < 3; i++)
		offered = give_up() && offered;
	tap_ok(offered && offers(9, 0, false),
	       "lost SYNs of a second to a host that agreed before: the next has the option");
	usleep(1000000);
	offered = give_up();
	tap_ok(offered && offers(11, SYN | ACK, true), "and after a second loss, then it agrees");
	for (int i = 0; i < 3; i++) {
		usleep(1000000);
		offered = give_up() && offered;
	}
	tap_ok(offered && !offers(9, 0, false) && !offers(11, SYN | ACK, true),
	       "three in a row since then withhold it from that host");
	tap_ok(counts().syn_timeouts == before.syn_timeouts + 5, "each is counted");
}

static bool begin(const char *cgroup, char *why, size_t bytes)
{
	static const struct tcpedge_maps maps = {
		.control_fd = -1, .clock_fd = -1, .members_fd = -1, .flows_fd = -1};

	if (tcpedge_open(&edge, &maps, why, bytes))
		return false;
	set_member(true);
	set_mode(ESC_TCP_OBSERVE);
	return !tcpedge_attach(edge, cgroup, why, bytes);
}

/* The connection @fd of @other sends data, with the option or without it as @wanted. */
static bool sends(const struct peer *other, int fd, bool wanted)
{
	struct peer_segment segment = {};
	bool good;

	beat(0, CLOCK_SYNCED);
	peer = *other;
	good = fd >= 0 && written(fd, &segment);
	hang_up(fd);
	return good && segment_has(&segment, ESC_TCP_FULL) == wanted;
}

/* Connections from before, of the time without a program, and the next program. */
static void test_next_program(const char *cgroup)
{
	int agreed = -1, plain = -1, offered = -1;
	struct peer agreed_peer, plain_peer;
	uint8_t option[ESC_TCP_FULL];
	struct peer_segment segment;
	char why[256] = "";

	beat(0, CLOCK_SYNCED);
	make(option, ESC_TCP_FULL, ESC_TCP_HAS_TIME, 0);
	if (ask(option, sizeof(option), &segment))
		agreed = confirm(option, sizeof(option));
	agreed_peer = peer;
	tcpedge_close(edge);
	if (ask(NULL, 0, &segment))
		plain = confirm(NULL, 0);
	plain_peer = peer;
	if (ask(option, sizeof(option), &segment))
		offered = confirm(option, sizeof(option));
	tap_ok(begin(cgroup, why, sizeof(why)) && sends(&peer, offered, false),
	       "a connection of the time without a program: no option under the next one %s", why);
	tap_ok(sends(&plain_peer, plain, false), "nor when the peer did not offer it");
	tap_ok(sends(&agreed_peer, agreed, true), "one that agreed before has it again");
}

static bool listen_here(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PEER_PORT)};

	listener = socket(AF_INET, SOCK_STREAM, 0);
	return listener >= 0 && !bind(listener, (struct sockaddr *)&address, sizeof(address)) &&
	       !listen(listener, 16);
}

static void run_all(const char *cgroup)
{
	char why[256] = "";

	test_agreed();
	test_later_release();
	test_not_offered();
	test_beside_others();
	test_taken_away();
	test_no_room();
	test_no_clock();
	test_classes(cgroup);
	test_silent();
	test_next_program(cgroup);
	test_offers();
	test_lost();
	tcpedge_close(edge);
	tap_ok(begin(cgroup, why, sizeof(why)), "a new program has no refusals %s", why);
	test_repeated();
}

int main(void)
{
	char cgroup[200], parent[200], why[256] = "";
	bool ready;

	if (!tcp_cgroup_find(cgroup, sizeof(cgroup)))
		return tap_skip_all("no unified cgroup hierarchy is mounted");
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(cgroup, '/') - cgroup), cgroup);
	peer.tun = peer_open_tun();
	peer.sport = 20000;
	if (peer.tun < 0 || mkdir(cgroup, 0755))
		return tap_bail("no tun device, or no cgroup");
	ready = begin(cgroup, why, sizeof(why)) && tcp_cgroup_join(cgroup, getpid()) &&
		listen_here();
	tap_ok(ready, "the program loads and attaches %s", why);
	if (ready)
		run_all(cgroup);
	tcpedge_close(edge);
	tcp_cgroup_join(parent, getpid());
	rmdir(cgroup);
	return tap_end();
}
