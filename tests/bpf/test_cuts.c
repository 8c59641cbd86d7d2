// SPDX-License-Identifier: BSD-2-Clause
/*
 * Every packet of the captures, cut at every length: it passes as it was and
 * is counted under the reason that the model names. In five shapes (as
 * captured, VLAN tags, IPv4 options or IPv6 extension headers) and four ways
 * of cutting: the frame alone, the IP length with it, the UDP length too, and
 * (XDP) the first buffer alone.
 */
#define TAP_PLAN 350

#include <glob.h>

#include "model.h"
#include "tests/lib/tap.h"
#include "world.h"

enum cut { CUT_FRAME, CUT_IP, CUT_UDP, CUT_BUFFER, CUTS };

static const char *const cut_names[CUTS] = {"the frame cut", "the IP length cut",
					    "the UDP length cut", "the first buffer cut"};

/* Where UDP starts; the shapes have known headers. */
static uint32_t udp_offset(const struct frame *f)
{
	uint32_t ip = frame_ip_offset(f), at = ip + 40;
	uint8_t next = f->data[ip + 6], kind;

	if (!frame_is_ipv6(f))
		return ip + (f->data[ip] & 15) * 4;
	while (next != 17) {
		kind = next;
		next = f->data[at];
		at += kind == 44 ? 8 : f->data[at + 1] * 8 + 8;
	}
	return at;
}

/* Lengths of the headers as for a packet that ends at @bytes. */
static void cut_lengths(struct frame *f, uint32_t bytes, enum cut cut)
{
	uint32_t ip = frame_ip_offset(f), udp = udp_offset(f);
	uint32_t header = frame_is_ipv6(f) ? 40 : 0;

	if (cut == CUT_UDP && bytes >= udp)
		frame_put16(f, udp + 4, bytes - udp);
	if (bytes >= ip + header)
		frame_put16(f, ip + (header ? 4 : 2), bytes - ip - header);
}

struct tally {
	uint64_t runs, refused;
	uint64_t reasons[ESC_REASON_MAX];
	uint64_t packets;
};

/* One frame at one hook. False when it did not pass as it was. */
static bool cut_one(struct world *w, enum world_hook hook, const struct frame *f, uint32_t bytes,
		    uint32_t linear, struct tally *t)
{
	struct model_packet p;
	int passed = world_run(w, hook, f->data, bytes, linear);
	int result;

	if (passed == -EINVAL) {
		t->refused++;
		return true;
	}
	if (passed != 1) {
		printf("# cut at %u (first buffer %u) of %u: %s\n", bytes, linear, f->bytes,
		       passed ? strerror(-passed) : "changed or not passed");
		return false;
	}
	t->runs++;
	result = model_decode(f->data, bytes, linear ? linear : bytes, &p);
	if (result >= 0)
		t->reasons[result]++;
	t->packets += result == MODEL_ROCE;
	return true;
}

static bool cut_frame(struct world *w, enum world_hook hook, const struct frame *whole,
		      enum cut cut, struct tally *t)
{
	struct frame f;
	uint32_t bytes;
	bool good = true;

	memcpy(&f, whole, sizeof(f));
	for (bytes = 14; good && bytes <= whole->bytes; bytes++) {
		if (cut == CUT_IP || cut == CUT_UDP) {
			memcpy(f.data, whole->data, 200);
			cut_lengths(&f, bytes, cut);
		}
		if (cut == CUT_BUFFER)
			good = cut_one(w, hook, &f, whole->bytes, bytes, t);
		else
			good = cut_one(w, hook, &f, bytes, 0, t);
	}
	return good;
}

static bool agree(const struct world *w, enum world_hook hook, const struct tally *t)
{
	struct esc_port_counts port = world_port_counts(w, w->port);
	uint64_t counted = hook == WORLD_TC_OUT ? port.tx_roce_packets : port.rx_roce_packets;
	uint64_t reasons[ESC_REASON_MAX];
	bool same = counted == t->packets;
	int i;

	if (!same)
		printf("# RoCEv2 packets: kernel %llu, model %llu\n", (unsigned long long)counted,
		       (unsigned long long)t->packets);
	world_reasons(w, reasons, hook);
	for (i = 0; i < ESC_REASON_MAX; i++) {
		if (reasons[i] == t->reasons[i])
			continue;
		printf("# %s: kernel %llu, model %llu\n", world_reason_name(i),
		       (unsigned long long)reasons[i], (unsigned long long)t->reasons[i]);
		same = false;
	}
	return same;
}

static void report(const struct tally *t, const char *name, enum world_hook hook,
		   enum frame_shape shape, enum cut cut, bool good)
{
	int i;

	if (t->refused && hook != WORLD_XDP && shape == FRAME_PLAIN && cut == CUT_FRAME)
		printf("# %s: the kernel's test run takes no IP frame that ends inside the fixed "
		       "IP header: %llu cuts not tried without a VLAN tag\n",
		       world_hook_names[hook], (unsigned long long)t->refused);
	tap_ok(good && t->runs, "%s, %s, %s, %s: %llu cuts", name, world_hook_names[hook],
	       frame_shape_names[shape], cut_names[cut], (unsigned long long)t->runs);
	if (!good)
		return;
	printf("#   whole %llu", (unsigned long long)t->packets);
	for (i = 0; i < ESC_REASON_MAX; i++)
		if (t->reasons[i])
			printf(", %s %llu", world_reason_name(i),
			       (unsigned long long)t->reasons[i]);
	printf("\n");
}

static void cut_capture(struct world *w, const char *path, enum world_hook hook,
			enum frame_shape shape, enum cut cut)
{
	FILE *capture = fopen(path, "r");
	struct tally t = {0};
	bool good = capture;
	struct frame f;

	world_reset(w);
	while (good && frame_read(capture, &f)) {
		frame_set_shape(&f, shape);
		good = cut_frame(w, hook, &f, cut, &t);
	}
	good = good && agree(w, hook, &t);
	report(&t, strrchr(path, '/') + 1, hook, shape, cut, good);
	if (capture)
		fclose(capture);
}

int main(void)
{
	int hook, shape, cut;
	struct world w;
	glob_t found;
	size_t i;

	if (glob("tests/vectors/*.pcap", 0, NULL, &found))
		return tap_bail("no captures in tests/vectors: run from the top of the source");
	if (world_open(&w, &(struct world_options){.port = 3}))
		return tap_bail("the programs do not load");
	printf("# a test run takes no frame shorter than an Ethernet header (14 bytes)\n");
	for (i = 0; i < found.gl_pathc; i++)
		for (hook = 0; hook < WORLD_HOOKS; hook++)
			for (shape = 0; shape < FRAME_SHAPES; shape++)
				for (cut = 0; cut < CUTS; cut++)
					if (cut != CUT_BUFFER || hook == WORLD_XDP)
						cut_capture(&w, found.gl_pathv[i], hook, shape,
							    cut);
	globfree(&found);
	world_close(&w);
	return tap_end();
}
