// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as an ICMP error, and requests of ours quoted in one, cut anywhere. */
#include "input.h"
#include "probe/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void take_any(struct input in, bool ipv4)
{
	struct pathpacket quoted;
	size_t rest;
	uint8_t *copy = input_rest(&in, &rest);

	pathpacket_quoted(copy, rest, ipv4, &quoted);
	free(copy);
}

/* What was sent is what is read of its quote; of one that is cut the sequence is 0. */
static void take_ours(struct input in, bool ipv4)
{
	struct pathpacket sent = {.to_port = 4791}, quoted;
	uint8_t packet[PATHPACKET_BYTES_MAX];
	size_t bytes, cut;
	uint8_t *copy;

	for (unsigned int i = 0; i < 16; i++) {
		sent.from.bytes[i] = (uint8_t)input_take(&in, 1);
		sent.to.bytes[i] = (uint8_t)input_take(&in, 1);
	}
	if (ipv4) {
		memcpy(sent.from.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
		memcpy(sent.to.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	} else {
		sent.to.bytes[0] = sent.from.bytes[0] = 0xfd;
	}
	sent.from_port = (uint16_t)input_take(&in, 2);
	sent.sequence = (uint32_t)input_take(&in, 4);
	sent.target = input_take(&in, 8);
	bytes = pathpacket_build(&sent, packet);
	cut = input_take(&in, 1) % (bytes + 1);
	copy = malloc(cut);
	if (cut)
		memcpy(copy, packet, cut);
	if (!pathpacket_parse(copy, cut, &quoted) &&
	    (quoted.from_port != sent.from_port || memcmp(&quoted.from, &sent.from, 16) ||
	     memcmp(&quoted.to, &sent.to, 16) ||
	     (quoted.sequence && quoted.sequence != sent.sequence)))
		abort();
	if (cut == bytes && (pathpacket_parse(copy, cut, &quoted) ||
			     quoted.sequence != sent.sequence || quoted.target != sent.target))
		abort();
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = {bytes, bytes + size};
	uint64_t which = input_take(&in, 1);

	if (which & 2)
		take_ours(in, which & 1);
	else
		take_any(in, which & 1);
	return 0;
}
