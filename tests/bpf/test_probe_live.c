// SPDX-License-Identifier: BSD-2-Clause
/*
 * Probes between two network namespaces of the test's own: a marked socket, the
 * timestamp in tc egress, the reply in the other's XDP, the record in ours. There
 * is one kernel clock, so the four timestamps of a probe are in order.
 */
#define TAP_PLAN 14

#include <linux/if_link.h>

#include "pair.h"
#include "probe_world.h"

#define PROBES 40
#define MARK 0x45734350

struct host {
	struct probe_world w;
	int netns;
	char interface[IFNAMSIZ];
	int links[2];
};

static bool host_open(struct host *h, const char *interface, uint64_t self, uint64_t epoch,
		      uint64_t peer_id)
{
	struct esc_fleet fleet = probe_fleet_usual();
	struct esc_peer peer = probe_peer_keyed();

	if (probe_world_open(&h->w, &(struct world_options){.rx_in_xdp_only = true}))
		return false;
	snprintf(h->interface, sizeof(h->interface), "%s", interface);
	fleet.self = self;
	fleet.epoch = epoch;
	probe_set_fleet(&h->w, &fleet);
	probe_set_peer(&h->w, peer_id, &peer);
	return true;
}

static bool host_attach(struct host *h, uint32_t xdp_flags)
{
	LIBBPF_OPTS(bpf_link_create_opts, o, .flags = xdp_flags);
	int index;

	if (setns(h->netns, CLONE_NEWNET))
		return false;
	index = if_nametoindex(h->interface);
	h->links[0] = bpf_link_create(h->w.world.programs[WORLD_XDP], index, BPF_XDP, &o);
	h->links[1] = bpf_link_create(h->w.world.programs[WORLD_TC_OUT], index, TCX_EGRESS, NULL);
	return h->links[0] >= 0 && h->links[1] >= 0;
}

static void host_detach(struct host *h)
{
	int i;

	for (i = 0; i < 2; i++)
		if (h->links[i] >= 0)
			close(h->links[i]);
}

static bool send_probe(int fd, uint32_t sequence)
{
	struct probe_plan plan = {.target = PEER, .sequence = sequence, .pair = sequence / 2};
	struct frame f;

	probe_build(&f, &plan);
	return send(fd, f.data + probe_bth(&f), P_END, 0) == P_END;
}

struct tally {
	uint32_t in_order, records, requested;
	uint64_t there_ns, back_ns; /* the least */
};

/* Waits for the record of one reply and looks at its timestamps and its request's. */
static void take_reply(struct host *a, struct host *b, uint32_t sequence, uint64_t before,
		       struct tally *t)
{
	const struct esc_probe_event *e = &a->w.event, *r = &b->w.event;
	int tries;

	for (tries = 0; tries < 2000 && !probe_events(&a->w); tries++)
		usleep(1000);
	if (!a->w.events || e->sequence != sequence || e->kind != ESC_PROBE_EVENT_REPLY)
		return;
	t->records++;
	t->in_order += before <= e->t1 && e->t1 <= e->t2 && e->t2 <= e->t3 && e->t3 <= e->t4 &&
		       e->t4 <= now_ns();
	if (e->t2 - e->t1 < t->there_ns)
		t->there_ns = e->t2 - e->t1;
	if (e->t4 - e->t3 < t->back_ns)
		t->back_ns = e->t4 - e->t3;
	t->requested += probe_events(&b->w) == 1 && r->kind == ESC_PROBE_EVENT_REQUEST &&
			r->peer == SELF && r->t1 == e->t1 && r->t2 == e->t2;
}

static void test_probes(struct host *a, struct host *b, int ip, const char *mode)
{
	struct tally t = {.there_ns = UINT64_MAX, .back_ns = UINT64_MAX};
	static uint32_t sequence;
	struct esc_peer peer;
	uint32_t i, sent = 0;
	uint64_t before;
	int fd = pair_open_socket(ip, MARK, 0);

	world_reset(&a->w.world);
	world_reset(&b->w.world);
	if (fd >= 0)
		world_allow(&a->w.world, fd);
	peer = probe_get_peer(&a->w, PEER);
	peer.requests_sent = 0;
	probe_set_peer(&a->w, PEER, &peer);
	for (i = 0; fd >= 0 && i < PROBES; i++) {
		before = now_ns();
		sent += send_probe(fd, ++sequence);
		take_reply(a, b, sequence, before, &t);
	}
	if (fd >= 0)
		close(fd);
	printf("# least: there %llu ns, back %llu ns\n", (unsigned long long)t.there_ns,
	       (unsigned long long)t.back_ns);
	tap_ok(sent == PROBES && t.records == PROBES && t.requested == PROBES &&
		       probe_get_peer(&a->w, PEER).requests_sent == PROBES,
	       "%s XDP, IPv%d: %u probes sent, %u replies and %u requests recorded", mode, ip, sent,
	       t.records, t.requested);
	tap_ok(t.in_order == PROBES, "%s XDP, IPv%d: t1 <= t2 <= t3 <= t4 in %u of %u", mode, ip,
	       t.in_order, PROBES);
	tap_ok(probe_reason_is(&a->w, WORLD_XDP, -1, 0) && probe_reason_is(&b->w, WORLD_XDP, -1, 0),
	       "%s XDP, IPv%d: nothing was refused", mode, ip);
}

static void test_unmarked(struct host *b, const char *mode)
{
	uint64_t counts[ESC_REASON_MAX];
	int fd = pair_open_socket(4, 0, 0), tries;

	world_reset(&b->w.world);
	send_probe(fd, 1000000);
	for (tries = 0; tries < 2000; tries++) {
		world_reasons(&b->w.world, counts, WORLD_XDP);
		if (counts[ESC_REASON_PROBE_UNKNOWN_PEER])
			break;
		usleep(1000);
	}
	tap_ok(counts[ESC_REASON_PROBE_UNKNOWN_PEER] == 1,
	       "%s XDP: a socket without the mark gets no timestamp, no name and no reply", mode);
	close(fd);
}

static void test_mode(struct host *a, struct host *b, uint32_t flags, const char *mode)
{
	bool attached = host_attach(b, flags) && host_attach(a, flags);

	/* We stay in the namespace of `a`, where the sockets are made. */
	if (attached) {
		test_probes(a, b, 4, mode);
		test_probes(a, b, 6, mode);
		test_unmarked(b, mode);
	} else {
		tap_skip("live probes over veth", "the kernel does not attach TCX or this XDP");
	}
	host_detach(a);
	host_detach(b);
}

int main(void)
{
	static struct host a, b;
	pid_t other = pair_make_namespace();

	if (other < 0 || !pair_make_link(other)) {
		tap_skip("live probes over veth", "no network namespaces with a veth pair");
	} else {
		a.netns = pair_open_namespace(getpid());
		b.netns = pair_open_namespace(other);
		if (host_open(&a, "pv0", SELF, OWN_EPOCH, PEER) &&
		    host_open(&b, "pv1", PEER, PEER_EPOCH, SELF)) {
			test_mode(&a, &b, XDP_FLAGS_DRV_MODE, "native");
			test_mode(&a, &b, XDP_FLAGS_SKB_MODE, "skb");
			probe_world_close(&a.w);
			probe_world_close(&b.w);
		} else {
			tap_ok(false, "the programs load");
		}
	}
	if (other > 0) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	return tap_end();
}
