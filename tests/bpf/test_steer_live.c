// SPDX-License-Identifier: BSD-2-Clause
/*
 * Steered packets as the stack carries them: up to 9,000 bytes, headers and payload
 * outside of the linear part, checksums that are left to the NIC, and a clone that
 * another one holds and that must stay as it was.
 * `test_steer_live SEED [PACKETS]` repeats a run.
 */
#define TAP_PLAN 2

#include <poll.h>

#include "live.h"
#include "steer_model.h"
#include "tests/lib/tap.h"

#define PACKETS 6000
#define ROUND 256
#define MTU 8990 /* of IP, so that two tags fit as well */

struct job {
	struct frame frame;
	enum frame_check check;
	uint16_t sport;
};

struct live {
	struct world world;
	int from, to; /* sockets at v0 and v1 */
	bool clones;  /* `from` receives a clone of each packet, made before ours ran */
};

static struct job jobs[ROUND];
static uint32_t generation = 1, order;

static bool is_rocev2(const struct frame *f)
{
	uint32_t ip = frame_ip_offset(f);
	uint16_t type = frame_get16(f, ip - 2);

	if (f->bytes < 58 || (type != 0x0800 && type != 0x86dd))
		return false;
	if (type == 0x86dd &&
	    (f->data[ip + 6] == 58 || (!f->data[ip + 6] && f->data[ip + 40] == 58)))
		return false; /* the kernel's own multicast reports */
	return frame_get16(f, frame_udp_offset(f) + 2) == 4791;
}

/* The next RoCEv2 frame within a second. A VLAN tag is taken out before a socket sees it. */
static bool receive(int fd, struct frame *f, struct virtio_net_hdr *header)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	uint8_t buffer[sizeof(*header) + FRAME_MAX];
	ssize_t got;

	while (poll(&ready, 1, 1000) == 1) {
		got = read(fd, buffer, sizeof(buffer));
		if (got < (ssize_t)sizeof(*header) + 14)
			continue;
		memcpy(header, buffer, sizeof(*header));
		f->bytes = got - sizeof(*header);
		memcpy(f->data, buffer + sizeof(*header), f->bytes);
		if (is_rocev2(f))
			return true;
	}
	return false;
}

static bool same_packet(const struct frame *got, const struct frame *must)
{
	uint32_t a = frame_ip_offset(got), b = frame_ip_offset(must);

	return got->bytes - a == must->bytes - b &&
	       !memcmp(got->data + a, must->data + b, must->bytes - b);
}

static bool run_job(const struct live *l, const struct job *job)
{
	static struct frame got, must;
	struct virtio_net_hdr header;
	bool partial = job->check == CHECK_PARTIAL;

	if (!live_send(l->from, &job->frame, partial ? frame_udp_offset(&job->frame) : 0)) {
		printf("# %u bytes cannot be sent: %s\n", job->frame.bytes, strerror(errno));
		return false;
	}
	must = job->frame;
	frame_resteer(&must, job->sport, job->check);
	if (!receive(l->to, &got, &header) || !same_packet(&got, &must)) {
		printf("# %u bytes to port %u: not as it should be\n", must.bytes, job->sport);
		return false;
	}
	if (partial != !!(header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)) {
		printf("# the checksum is %s to the NIC\n", partial ? "no longer left" : "left");
		return false;
	}
	if (!l->clones || (receive(l->from, &got, &header) && same_packet(&got, &job->frame)))
		return true;
	printf("# the clone of %u bytes is not as it was\n", must.bytes);
	return false;
}

static uint32_t run_all(struct live *l, uint32_t packets)
{
	uint32_t right = 0, i;

	while (right < packets) {
		steer_reset(&l->world);
		for (i = 0; i < ROUND; i++) {
			struct esc_steer steer = {.number = ++order};
			struct job *job = &jobs[i];
			struct esc_qp_key key;

			job->check = frame_make_random(&job->frame, 0x100 + i, MTU);
			if (job->check == CHECK_FULL && steer_below(2))
				job->check = CHECK_PARTIAL;
			frame_seal(&job->frame, job->check);
			steer.sport = job->sport = 1 + steer_below(65535);
			key = frame_key(&job->frame, l->world.port);
			steer_rule(&l->world, &key, &steer);
		}
		steer_control(&l->world, ++generation);
		for (i = 0; i < ROUND; i++, right++)
			if (!run_job(l, &jobs[i]))
				return right;
	}
	return right;
}

/* A program before ours that gives a clone to v0's own input. */
static int load_clone(int ifindex)
{
	struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = ifindex},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = BPF_F_INGRESS},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_clone_redirect},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = -1},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "clone", "GPL", code,
			     sizeof(code) / sizeof(*code), NULL);
}

static int open_quiet(const char *interface)
{
	int fd = live_open(interface, true), on = 1;

	/* Not the frames that it sends itself. */
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
	return fd;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) * 7919 + 1;
	uint32_t packets = argc > 2 ? strtoul(argv[2], NULL, 0) : PACKETS, right;
	struct live l = {0};
	int v0, clone, link;

	printf("# seed %llu (repeat with: test_steer_live %llu %u)\n", (unsigned long long)seed,
	       (unsigned long long)seed, packets);
	if (!live_make_veth())
		return tap_skip_all("no network namespace with a veth pair");
	if (world_open(&l.world, &(struct world_options){.port = 1}))
		return tap_bail("the programs do not load");
	v0 = if_nametoindex("v0");
	l.from = open_quiet("v0");
	l.to = open_quiet("v1");
	link = bpf_link_create(l.world.programs[WORLD_TC_OUT], v0, TCX_EGRESS, NULL);
	clone = load_clone(v0);
	if (l.from < 0 || l.to < 0 || clone < 0)
		return tap_bail("no packet sockets, or no program that makes clones");
	if (link < 0)
		return tap_skip_all("the kernel has no TCX");
	steer_random_state = seed;
	right = run_all(&l, packets);
	tap_ok(right >= packets, "%u packets of up to %u bytes are right on their new port", right,
	       MTU);
	close(link);
	bpf_link_create(clone, v0, TCX_EGRESS, NULL);
	bpf_link_create(l.world.programs[WORLD_TC_OUT], v0, TCX_EGRESS, NULL);
	l.clones = true;
	right = run_all(&l, packets / 8);
	tap_ok(right >= packets / 8,
	       "%u packets that another holds a clone of: ours are right, the clones as they were",
	       right);
	world_close(&l.world);
	return tap_end();
}
