// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sequences of packets of one queue pair and what its entry must have, counted
 * manually. A count that a case does not name must be zero.
 */
#define TAP_PLAN 96

#include <stddef.h>

#include "model.h"
#include "tests/lib/tap.h"
#include "world.h"

#define STEPS_MAX 24
#define WANTS_MAX 12
#define TOP 0xffffff
#define ASK 0x80000000u /* in a step's PSN: the packet requests an acknowledgement */

struct step {
	uint8_t opcode;
	uint32_t psn;
	uint32_t bytes; /* payload, or the length of a READ request */
	uint8_t syndrome;
	uint32_t times; /* so many packets with PSNs in a row; 0 is 1 */
};

struct want {
	size_t offset;
	size_t bytes;
	const char *name;
	uint64_t value;
};

#define W(field, value_)                                                                           \
	{                                                                                          \
		offsetof(struct esc_qp, field), sizeof(((struct esc_qp *)0)->field), #field,       \
			value_                                                                     \
	}

/* The tables leave out what is zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

enum side { RX = 1, TX = 2, BOTH = 3 };

static const struct sequence {
	const char *name;
	enum side side;
	struct step steps[STEPS_MAX];
	struct want wants[WANTS_MAX];
} sequences[] = {
	{"RC write in order",
	 BOTH,
	 {{0x06, 10, 1024}, {0x07, 11, 1024, 0, 3}, {0x08, 14, 100}},
	 {W(packets, 5), W(payload_bytes, 4 * 1024 + 100), W(messages, 1), W(pmtu, 1024),
	  W(message_min, 4196), W(message_max, 4196), W(message_sizes[13].count, 1),
	  W(message_sizes[13].bytes, 4196), W(requests.next, 15)}},
	{"the PSN wraps in a message",
	 BOTH,
	 {{0x00, TOP - 1, 256}, {0x01, TOP, 256}, {0x01, 0, 256}, {0x02, 1, 1}},
	 {W(messages, 1), W(message_max, 769), W(message_min, 769), W(requests.next, 2),
	  W(message_sizes[10].count, 1)}},
	{"the PSN wraps between messages",
	 BOTH,
	 {{0x04, TOP - 2, 8, 0, 6}},
	 {W(messages, 6), W(requests.next, 3), W(message_sizes[4].count, 6),
	  W(message_sizes[4].bytes, 48)}},
	{"an RC receiver waits at a gap and takes the retransmission",
	 RX,
	 {{0x06, 100, 1024},
	  {0x07, 101, 1024},
	  {0x07, 103, 1024, 0, 3},
	  {0x07, 102, 1024, 0, 4},
	  {0x08, 106, 10}},
	 {W(packets, 10), W(psn_gaps, 1), W(psn_missing, 1), W(out_of_sequence, 3), W(messages, 1),
	  W(message_max, 6 * 1024 + 10), W(requests.next, 107)}},
	{"a gap over the wrap",
	 RX,
	 {{0x04, TOP - 1, 4}, {0x04, 2, 4}, {0x04, 3, 4}, {0x04, TOP, 4, 0, 5}},
	 {W(psn_gaps, 1), W(psn_missing, 3), W(out_of_sequence, 2), W(messages, 6),
	  W(requests.next, 4)}},
	{"a second gap is a second gap",
	 RX,
	 {{0x04, 1, 4}, {0x04, 3, 4}, {0x04, 2, 4, 0, 2}, {0x04, 6, 4}, {0x04, 4, 4}},
	 {W(psn_gaps, 2), W(psn_missing, 3), W(out_of_sequence, 2), W(messages, 4)}},
	{"an earlier PSN is a duplicate",
	 RX,
	 {{0x04, 1, 4, 0, 5}, {0x04, 3, 4, 0, 3}, {0x04, 6, 4}},
	 {W(duplicates, 3), W(messages, 6), W(requests.next, 7)}},
	{"what left before is a retransmission",
	 TX,
	 {{0x06, 1, 1024},
	  {0x07, 2, 1024},
	  {0x08, 3, 1},
	  {0x07, 2, 1024},
	  {0x08, 3, 1},
	  {0x0a, 4, 9}},
	 {W(retransmits, 2), W(messages, 2), W(message_max, 2049), W(message_min, 9),
	  W(requests.next, 5)}},
	{"a retransmission over the wrap",
	 TX,
	 {{0x04, TOP - 1, 4, 0, 4}, {0x04, TOP, 4, 0, 5}},
	 {W(retransmits, 3), W(messages, 6), W(requests.next, 4)}},
	{"a sender goes on behind PSNs that did not pass us",
	 TX,
	 {{0x06, 1, 512}, {0x07, 4, 512}, {0x08, 5, 3}, {0x0a, 6, 7}},
	 {W(psn_gaps, 1), W(psn_missing, 2), W(messages, 2), W(message_max, 7), W(message_min, 7),
	  W(requests.next, 7)}},
	{"UC does not wait at a gap, and a torn message is none",
	 RX,
	 {{0x26, 1, 512}, {0x27, 3, 512}, {0x28, 4, 3}, {0x2a, 5, 7}, {0x2a, 7, 8}},
	 {W(psn_gaps, 2), W(psn_missing, 2), W(messages, 2), W(message_min, 7), W(message_max, 8),
	  W(requests.next, 8)}},
	{"UC counts what comes late",
	 RX,
	 {{0x24, 1, 4, 0, 3}, {0x24, 2, 4}},
	 {W(duplicates, 1), W(messages, 3)}},
	{"UD's PSNs are not followed",
	 BOTH,
	 {{0x64, 1, 40}, {0x64, 9, 40}, {0x65, 3, 41}, {0x64, 3, 40}},
	 {W(messages, 4), W(message_min, 40), W(message_max, 41), W(requests.next, 0)}},
	{"XRC is followed as RC is",
	 RX,
	 {{0xa0, 1, 256}, {0xa2, 2, 4}, {0xa4, 4, 1}},
	 {W(psn_gaps, 1), W(psn_missing, 1), W(out_of_sequence, 1), W(messages, 1)}},
	{"empty messages",
	 BOTH,
	 {{0x04, 1, 0, 0, 2}, {0x04, 3, 5}},
	 {W(messages, 3), W(message_sizes[0].count, 2), W(message_min, 0), W(message_max, 5)}},
	{"the first packet in the middle of a message",
	 BOTH,
	 {{0x07, 5, 1024}, {0x08, 6, 4}, {0x06, 7, 1024}, {0x08, 8, 4}},
	 {W(messages, 2), W(message_sizes[11].count, 1), W(message_min, 1028)}},
	{"READ requests of a known path MTU",
	 BOTH,
	 {{0x06, 1, 1024},
	  {0x08, 2, 1},
	  {0x0c, 3, 5000},
	  {0x0c, 8, 1},
	  {0x0c, 9, 0},
	  {0x0a, 10, 1}},
	 {W(messages, 2), W(pmtu, 1024), W(requests.next, 11)}},
	{"READ requests show the path MTU",
	 BOTH,
	 {{0x0c, 1, 65536}, {0x0c, 33, 65536}, {0x0c, 65, 65536}, {0x0a, 97, 1}},
	 {W(messages, 1), W(pmtu, 2048), W(requests.next, 98)}},
	{"READ requests over the wrap",
	 BOTH,
	 {{0x0c, TOP - 2, 5000}, {0x0c, 2, 5000}, {0x0c, 7, 5000}},
	 {W(pmtu, 1024), W(requests.next, 12)}},
	{"a READ of one packet shows nothing",
	 BOTH,
	 {{0x0c, 1, 256}, {0x0c, 2, 300}, {0x0c, 3, 300}, {0x0c, 4, 5000}, {0x0c, 6, 8}},
	 {W(pmtu, 4096), W(requests.next, 7)}},
	{"a lost READ request",
	 RX,
	 {{0x06, 1, 1024},
	  {0x08, 2, 1},
	  {0x0c, 3, 5000},
	  {0x0c, 13, 5000},
	  {0x0c, 8, 5000},
	  {0x0c, 13, 5000}},
	 {W(messages, 1), W(psn_gaps, 1), W(psn_missing, 5), W(out_of_sequence, 1), W(pmtu, 1024),
	  W(requests.next, 18)}},
	{"a READ's later part requested again, path MTU known",
	 TX,
	 {{0x06, 1, 1024}, {0x08, 2, 1}, {0x0c, 3, 5000}, {0x0c, 5, 2952}, {0x0c, 8, 5000}},
	 {W(messages, 1), W(retransmits, 1), W(pmtu, 1024), W(requests.next, 13)}},
	{"a READ's later part requested again shows the path MTU",
	 TX,
	 {{0x0c, 1, 65536}, {0x0c, 8, 65536 - 7 * 1024}, {0x0c, 65, 65536}},
	 {W(retransmits, 1), W(pmtu, 1024), W(requests.next, 129)}},
	{"a whole READ requested again, path MTU unknown",
	 TX,
	 {{0x0c, 1, 5000}, {0x0c, 1, 5000}, {0x0c, 6, 5000}, {0x0c, 6, 5000}},
	 {W(retransmits, 2), W(pmtu, 1024), W(requests.next, 11)}},
	{"a path MTU guessed over a lost READ heals",
	 RX,
	 {{0x0c, 0, 65536}, {0x0c, 128, 65536}, {0x0c, 192, 65536}, {0x0c, 256, 65536}},
	 {W(pmtu, 1024), W(requests.next, 320)}},
	{"READ responses in order, with ACKs between",
	 BOTH,
	 {{0x0d, 1, 1024},
	  {0x0e, 2, 1024, 0, 3},
	  {0x0f, 5, 904},
	  {0x11, 9, 0, 0x1f},
	  {0x10, 12, 8},
	  {0x0d, 13, 1024},
	  {0x0f, 14, 1}},
	 {W(messages, 3), W(message_max, 5000), W(message_min, 8), W(acks, 1), W(pmtu, 1024),
	  W(responses.next, 15)}},
	{"a lost READ response",
	 RX,
	 {{0x0d, 1, 1024}, {0x0e, 3, 1024}, {0x0f, 4, 1}},
	 {W(psn_gaps, 1), W(psn_missing, 1), W(messages, 1), W(message_max, 0),
	  W(responses.next, 5)}},
	{"READ responses received before",
	 RX,
	 {{0x0d, 1, 1024}, {0x0e, 2, 1024}, {0x0f, 3, 1}, {0x0d, 2, 1024}, {0x0f, 3, 1}},
	 {W(duplicates, 2), W(messages, 1), W(responses.next, 4)}},
	{"READ responses retransmitted",
	 TX,
	 {{0x0d, 1, 1024}, {0x0e, 2, 1024}, {0x0f, 3, 1}, {0x0d, 2, 1024}, {0x0f, 3, 1}},
	 {W(retransmits, 2), W(messages, 1), W(responses.next, 4)}},
	{"ACKs stand for all before them and come again",
	 BOTH,
	 {{0x11, 5, 0, 0x1f}, {0x11, 9, 0, 0x1f}, {0x11, 9, 0, 0x1f}, {0x12, 10, 0, 0x1f}},
	 {W(acks, 4), W(responses.next, 11)}},
	{"NAKs by code",
	 BOTH,
	 {{0x11, 5, 0, 0x60},
	  {0x11, 5, 0, 0x61},
	  {0x11, 5, 0, 0x62},
	  {0x11, 5, 0, 0x63},
	  {0x11, 5, 0, 0x64},
	  {0x11, 5, 0, 0x2e},
	  {0x11, 5, 0, 0x40},
	  {0x11, 4, 0, 0x1f}},
	 {W(nak_sequence, 1), W(nak_invalid_request, 1), W(nak_remote_access, 1),
	  W(nak_remote_operational, 1), W(nak_other, 2), W(rnr_naks, 1), W(acks, 1),
	  W(responses.next, 5)}},
	{"a CNP belongs to no sequence",
	 BOTH,
	 {{0x04, 7, 4}, {0x81, 0, 0}, {0x04, 8, 4}},
	 {W(cnps, 1), W(messages, 2), W(packets, 3), W(transport, 0), W(requests.next, 9)}},
	{"a queue pair's number used again, far away",
	 BOTH,
	 {{0x06, 1, 1024}, {0x04, 500000, 4, 0, 3}},
	 {W(psn_resyncs, 1), W(messages, 3), W(message_max, 4), W(requests.next, 500003)}},
	{"a distance of 65,536 is still behind",
	 TX,
	 {{0x04, 65535, 4}, {0x04, 65537, 4}, {0x04, 2, 4}},
	 {W(psn_gaps, 1), W(psn_missing, 1), W(retransmits, 1), W(messages, 2)}},
	{"a distance of 65,537 is another sequence",
	 TX,
	 {{0x04, 65537, 4}, {0x04, 1, 4}},
	 {W(psn_resyncs, 1), W(messages, 2), W(requests.next, 2)}},
	{"a number used again, near: 32,768 packets in a row show it",
	 RX,
	 {{0x04, 40000, 4}, {0x04, 1000, 4, 0, 32770}},
	 {W(duplicates, 32767), W(psn_resyncs, 1), W(messages, 4), W(requests.next, 1000 + 32770)}},
	{"atomics take one PSN",
	 BOTH,
	 {{0x13, 1, 0}, {0x14, 2, 0}, {0x04, 3, 1}},
	 {W(messages, 1), W(requests.next, 4)}},
	{"FLUSH and ATOMIC WRITE take one PSN and are no messages",
	 BOTH,
	 {{0x1c, 1, 0}, {0x1d, 2, 8}, {0x04, 3, 1}},
	 {W(messages, 1), W(payload_bytes, 9), W(requests.next, 4)}},
	{"the last packet of a message has to be acknowledged",
	 BOTH,
	 {{0x06, 1, 1024}, {0x08, ASK | 2, 1}},
	 {W(messages, 1), W(requests.next, 3), W(requests.flags, ESC_PSN_VALID | ESC_PSN_ASKED)}},
	{"the newest does not, one before it does",
	 BOTH,
	 {{0x04, ASK | 1, 4}, {0x04, 2, 4}},
	 {W(messages, 2), W(requests.next, 3), W(requests.flags, ESC_PSN_VALID)}},
	{"a READ and an atomic have to be replied to",
	 BOTH,
	 {{0x0c, 1, 256}, {0x13, 2, 0}},
	 {W(requests.next, 3), W(requests.flags, ESC_PSN_VALID | ESC_PSN_ASKED)}},
	{"requests and responses of one direction do not mix",
	 BOTH,
	 {{0x04, 100, 4}, {0x11, 7000, 0, 0x1f}, {0x04, 101, 4}, {0x11, 7001, 0, 0x1f}},
	 {W(messages, 2), W(acks, 2), W(requests.next, 102), W(responses.next, 7002)}},
};

/* Counts that must be zero unless a case names them. */
static const struct want quiet[] = {
	W(messages, 0),
	W(acks, 0),
	W(psn_gaps, 0),
	W(psn_missing, 0),
	W(out_of_sequence, 0),
	W(duplicates, 0),
	W(retransmits, 0),
	W(psn_resyncs, 0),
	W(nak_sequence, 0),
	W(nak_invalid_request, 0),
	W(nak_remote_access, 0),
	W(nak_remote_operational, 0),
	W(nak_other, 0),
	W(rnr_naks, 0),
	W(ect, 0),
	W(ce, 0),
	W(cnps, 0),
	W(sport_changes, 0),
};

static uint64_t value_of(const struct esc_qp *qp, const struct want *want)
{
	uint64_t value = 0;

	memcpy(&value, (const uint8_t *)qp + want->offset, want->bytes);
	return value;
}

static bool is_named(const struct sequence *sequence, size_t offset)
{
	int i;

	for (i = 0; i < WANTS_MAX && sequence->wants[i].name; i++)
		if (sequence->wants[i].offset == offset)
			return true;
	return false;
}

static bool check(const struct esc_qp *qp, const struct want *want)
{
	uint64_t value = value_of(qp, want);

	if (value == want->value)
		return true;
	printf("# %s is %llu, must be %llu\n", want->name, (unsigned long long)value,
	       (unsigned long long)want->value);
	return false;
}

static bool feed(struct world *w, enum world_hook hook, const struct step *step)
{
	struct model_opcode o = model_opcode(step->opcode);
	bool read = o.operation == MODEL_READ_REQUEST;
	struct frame_plan plan = {
		.opcode = step->opcode,
		.qpn = 0x77,
		.extension = o.extension,
		.payload = read ? 0 : step->bytes,
		.read_bytes = read ? step->bytes : 0,
		.syndrome = step->syndrome,
	};
	uint32_t i;
	struct frame f;

	for (i = 0; i < (step->times ? step->times : 1); i++) {
		plan.psn = ((step->psn + i) & TOP) | (step->psn & ASK);
		frame_build(&f, &plan);
		if (world_run(w, hook, f.data, f.bytes, 0) != 1)
			return false;
	}
	return true;
}

static struct esc_qp_key key_of(enum world_hook hook)
{
	struct frame_plan plan = {.opcode = 0x04, .qpn = 0x77};
	struct model_packet p;
	struct frame f;

	frame_build(&f, &plan);
	model_decode(f.data, f.bytes, f.bytes, &p);
	p.key.direction = hook == WORLD_TC_OUT ? ESC_DIRECTION_TX : ESC_DIRECTION_RX;
	return p.key;
}

static void run(struct world *w, const struct sequence *sequence, enum world_hook hook)
{
	struct esc_qp_key key = key_of(hook);
	bool good = true;
	struct esc_qp qp;
	size_t i;

	world_reset(w);
	for (i = 0; i < STEPS_MAX && (sequence->steps[i].opcode || sequence->steps[i].psn); i++)
		good = feed(w, hook, &sequence->steps[i]) && good;
	good = world_qp(w, &key, &qp) && good;
	for (i = 0; good && i < WANTS_MAX && sequence->wants[i].name; i++)
		good = check(&qp, &sequence->wants[i]) && good;
	for (i = 0; good && i < sizeof(quiet) / sizeof(*quiet); i++)
		if (!is_named(sequence, quiet[i].offset))
			good = check(&qp, &quiet[i]) && good;
	tap_ok(good, "%s: %s", world_hook_names[hook], sequence->name);
}

int main(void)
{
	struct world w;
	size_t i;

	if (world_open(&w, &(struct world_options){.sample_mask = 0xff}))
		return tap_bail("the programs do not load");
	for (i = 0; i < sizeof(sequences) / sizeof(*sequences); i++) {
		if (sequences[i].side & RX) {
			run(&w, &sequences[i], WORLD_XDP);
			run(&w, &sequences[i], WORLD_TC_IN);
		}
		if (sequences[i].side & TX)
			run(&w, &sequences[i], WORLD_TC_OUT);
	}
	world_close(&w);
	return tap_end();
}
