// SPDX-License-Identifier: BSD-2-Clause
/* The clock in the maps `fleet` and `clock`, and in the page that applications read. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/explain.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "page.h"

static int map_open(const struct dataplane *dataplane, const char *name, size_t bytes, void **out,
		    char **error)
{
	int fd = dataplane_map_fd(dataplane, name);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return explain(error, -errno, "the map %s cannot be mapped: %s", name,
			       strerror(errno));
	*out = memory;
	return 0;
}

int clock_open_maps(struct clock *clock, const struct dataplane *dataplane, char **error)
{
	int err =
		map_open(dataplane, "fleet", sizeof(*clock->fleet), (void **)&clock->fleet, error);

	return err ? err
		   : map_open(dataplane, "clock", sizeof(*clock->map), (void **)&clock->map, error);
}

void clock_close_maps(struct clock *clock)
{
	struct clock_view silent = {.state = CLOCK_FREE_RUNNING};

	if (clock->fleet) {
		/* A host that does not probe is not to reply either: its clock stands still. */
		__atomic_store_n(&clock->fleet->flags, 0, __ATOMIC_SEQ_CST);
		clock_write_view(clock, &silent);
		munmap(clock->fleet, sizeof(*clock->fleet));
	}
	if (clock->map)
		munmap(clock->map, sizeof(*clock->map));
}

void clock_write_view(struct clock *clock, const struct clock_view *view)
{
	struct esc_fleet *fleet = clock->fleet;
	uint64_t generation = fleet->view_generation + 1;
	struct esc_probe_view *out = &fleet->view[generation & 1];

	out->ref_local_ns = htobe64((uint64_t)view->ref_local_ns);
	out->ref_fabric_ns = htobe64((uint64_t)view->ref_fabric_ns);
	out->rate_q40 = htobe64((uint64_t)view->rate_q40);
	out->ref_fraction = htobe32(view->ref_fraction);
	out->bound_ns = htobe32(view->bound_ns);
	out->generation = htobe32(view->generation);
	out->reach = htobe16(view->reach);
	out->state = view->state;
	out->reserved = 0;
	__atomic_store_n(&fleet->view_generation, generation, __ATOMIC_RELEASE);
}

void clock_write_anchor(struct clock *clock, const struct anchor_report *anchor)
{
	struct esc_fleet *fleet = clock->fleet;
	uint64_t generation = fleet->anchor_generation + 1;
	struct esc_probe_anchor *out = &fleet->anchor[generation & 1];

	memset(out, 0, sizeof(*out));
	out->ref_fabric_ns = htobe64((uint64_t)anchor->ref_fabric_ns);
	out->ahead_ns = htobe64((uint64_t)anchor->ahead_ns);
	out->rate_q40 = htobe64((uint64_t)anchor->rate_q40);
	out->sequence = htobe32(anchor->sequence);
	out->bound_ns = htobe32(anchor->bound_ns);
	out->anchor = htobe32(anchor->anchor);
	out->hops = anchor->hops;
	__atomic_store_n(&fleet->anchor_generation, generation, __ATOMIC_RELEASE);
}

void clock_write_model(struct clock *clock)
{
	struct esc_clock *map = clock->map;
	uint64_t generation = map->generation + 1;

	map->slot[generation & 1] = clock->host.model;
	__atomic_store_n(&map->generation, generation, __ATOMIC_RELEASE);
	if (clock->page)
		clockpage_write(clock->page, &clock->host.model);
}
