// SPDX-License-Identifier: BSD-2-Clause
/* NIC failover between hosts of this release and of the next one (mk/tests.mk, NEXT). */
#define TAP_PLAN 15

#include "nic_packets.h"

#define NEXT_RELEASE "build/tests/next/nic.bpf.o"

/* Its programs over our maps take the place of ours. */
static bool load_next(struct bpf_object **next)
{
	struct bpf_map *map;

	*next = bpf_object__open_file(NEXT_RELEASE, NULL);
	if (!*next)
		return false;
	bpf_object__for_each_map (map, *next) {
		struct bpf_map *ours =
			bpf_object__find_map_by_name(kernel->obj, bpf_map__name(map));

		if (ours && !bpf_map__is_internal(map))
			bpf_map__reuse_fd(map, bpf_map__fd(ours));
	}
	if (bpf_object__load(*next))
		return false;
	in_fd = bpf_program__fd(bpf_object__find_program_by_name(*next, "esc_nic_in"));
	out_fd = bpf_program__fd(bpf_object__find_program_by_name(*next, "esc_nic_out"));
	return true;
}

static struct esc_nic_peer peer_of(const char *text)
{
	struct esc_address address = address_of(text);
	struct esc_nic_peer peer = {};

	bpf_map_lookup_elem(map_fd(nic_peers), &address, &peer);
	return peer;
}

/* A probe and data of a host that writes format @of and reads up to @reads. */
static void check_taken(const char *host, uint8_t of, uint8_t reads, uint8_t known, uint8_t own)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	struct frame inner, f, got;
	bool good;

	format = of;
	newest = reads;
	frame_build(&inner, &plan);
	set_receiver(&inner, true);
	build_probe(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, NULL);
	good = run(in_fd, &f, &got) == REDIRECT && got.data[46] == of && got.data[49] == own &&
	       peer_of("10.9.0.2").version == known;
	set_receiver(&inner, true);
	wrap(&inner, "10.9.0.2", "10.8.0.2", PORT);
	good = good && run(in_fd, &inner, &got) == REDIRECT && peer_of("10.9.0.2").version == known;
	tap_ok(good, "%s: format %u of a host that reads up to %u: taken, and that is known", host,
	       of, reads);
	format = newest = 2;
}

static void check_not_taken(uint8_t of)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	struct frame inner, f;

	format = newest = of;
	frame_build(&inner, &plan);
	set_receiver(&inner, true);
	build_probe(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, NULL);
	refuse("a probe of a format that is not known: no reply", &f, NEXT, ESC_REASON_NIC_PROBE);
	wrap(&inner, "10.9.0.2", "10.8.0.2", PORT);
	refuse("data of a format that is not known: ends here", &inner, SHOT, ESC_REASON_NIC_PROBE);
	format = newest = 2;
}

/* What is written to a NIC that was received @age_ns ago and reads up to @reads. */
static void check_written(const char *name, uint8_t reads, uint64_t age_ns, uint8_t of, uint8_t own)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64};
	struct esc_address src, dst, a = address_of("10.8.0.2");
	struct esc_nic_peer peer;
	struct frame f, got;

	frame_build(&f, &plan);
	addresses_of(&f, &src, &dst);
	set_ends(&src, &dst, true, ESC_NIC_FIRST_DOWN, 9000);
	peer = peer_of("10.8.0.2");
	peer.version = reads;
	peer.number_ktime_ns = now_ns() - age_ns;
	bpf_map_update_elem(map_fd(nic_peers), &a, &peer, BPF_ANY);
	tap_ok(run(out_fd, &f, &got) == REDIRECT && got.data[42] == of && got.data[44] == own,
	       "%s: format %u", name, of);
}

int main(void)
{
	struct bpf_object *next = NULL;

	if (!nic_world_open())
		return tap_bail("the programs of NIC failover load");
	set_word(ESC_NIC_ON, 1, FRESH);
	check_taken("here", 2, 0, 2, 2); /* a release that had only the format on the wire */
	check_taken("here", 2, 2, 2, 2);
	check_taken("here", 2, 3, 3, 2);
	check_not_taken(3);
	check_written("here, to a host of the next release", 3, 0, 2, 2);
	if (!load_next(&next))
		return tap_bail("the next release's programs are not loaded: " NEXT_RELEASE);
	check_taken("next release", 2, 0, 2, 3);
	check_taken("next release", 2, 2, 2, 3);
	check_taken("next release", 3, 3, 3, 3);
	check_not_taken(4);
	check_written("next release, to a host that was not received", 0, 0, 2, 3);
	check_written("next release, to one of this release", 2, 0, 2, 3);
	check_written("next release, to another one", 3, 0, 3, 3);
	check_written("next release, to one that was silent for 4 s", 3, 4000000000, 2, 3);
	bpf_object__close(next);
	nic_programs__destroy(kernel);
	return tap_end();
}
