/* SPDX-License-Identifier: BSD-2-Clause */
/* A capture, packet by packet, with the check of every ICRC. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "roceflow.h"
#include "wire.h"

#define PCAP_MICROSECONDS 0xa1b2c3d4u
#define PCAP_NANOSECONDS 0xa1b23c4du
#define ETHERNET 1
#define RECORD_MAX 262144u

static void dump_line(const struct wire_packet *packet, enum wire_verdict verdict)
{
	int family = packet->flow.six ? AF_INET6 : AF_INET;
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];

	inet_ntop(family, packet->flow.source, from, sizeof(from));
	inet_ntop(family, packet->flow.destination, to, sizeof(to));
	printf("%s.%u > %s tos %#x ip_bytes %zu %s%s qpn %#x psn %#x%s", from,
	       packet->flow.source_port, to, packet->flow.tos, packet->ip_bytes,
	       packet->opcode >> 5 == 1 ? "UC_" : "", wire_opcode_name(packet->opcode), packet->qpn,
	       packet->psn, packet->ack_request ? " ack_request" : "");
	if (packet->opcode == WIRE_ACKNOWLEDGE)
		printf(" syndrome %#x msn %u", packet->syndrome, packet->msn);
	printf(" icrc %s\n", verdict == WIRE_GOOD ? "good" : verdict == WIRE_SHORT ? "cut" : "BAD");
}

/* The IP packet in a frame, behind up to two VLAN tags; NULL for another protocol. */
static const uint8_t *dump_ip(const uint8_t *frame, size_t bytes, size_t *left)
{
	size_t at = 12;

	for (int tags = 0; tags < 3 && at + 2 <= bytes; tags++, at += 4) {
		unsigned int kind = frame[at] << 8 | frame[at + 1];

		if (kind == 0x0800 || kind == 0x86dd) {
			*left = bytes - at - 2;
			return frame + at + 2;
		}
		if (kind != 0x8100 && kind != 0x88a8)
			return NULL;
	}
	return NULL;
}

int dump_run(const char *path)
{
	static uint8_t frame[RECORD_MAX];
	uint32_t head[6], record[4];
	unsigned long total = 0, bad = 0;
	FILE *file = fopen(path, "rb");

	if (!file) {
		fprintf(stderr, "roceflow: %s: %m\n", path);
		return 1;
	}
	if (fread(head, sizeof(head), 1, file) != 1 ||
	    (head[0] != PCAP_MICROSECONDS && head[0] != PCAP_NANOSECONDS) || head[5] != ETHERNET) {
		fprintf(stderr, "roceflow: %s is no Ethernet capture in pcap format\n", path);
		fclose(file);
		return 1;
	}
	while (fread(record, sizeof(record), 1, file) == 1 && record[2] <= RECORD_MAX &&
	       fread(frame, 1, record[2], file) == record[2]) {
		struct wire_packet packet;
		enum wire_verdict verdict;
		size_t bytes;
		const uint8_t *ip = dump_ip(frame, record[2], &bytes);

		verdict = ip ? wire_parse(ip, bytes, &packet) : WIRE_NOT_ROCE;
		if (verdict == WIRE_NOT_ROCE)
			continue;
		total++;
		bad += verdict != WIRE_GOOD;
		dump_line(&packet, verdict);
	}
	fclose(file);
	printf("%lu RoCEv2 packets, %lu with a bad ICRC\n", total, bad);
	return bad ? 1 : 0;
}
