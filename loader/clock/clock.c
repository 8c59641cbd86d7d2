// SPDX-License-Identifier: BSD-2-Clause
/* The capability: edges, the maps `fleet` and `clock`, and the page that applications read. */
#include <bpf/libbpf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/log.h"
#include "clocksync/local.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "loader/libescapement/page.h"
#include "maps/barrier.h"

const struct event_kind clock_events[] = {CLOCK_EVENTS(EVENT_KIND){}};

void clock_report(const struct clock *clock, unsigned int kind, const char *subject, json_t *seen)
{
	events_add(clock->core->events,
		   &(struct event){.kind = &clock_events[kind], .subject = subject, .seen = seen});
}

void clock_report_edge(const struct clock *clock, const struct clock_edge *edge, unsigned int kind,
		       json_t *seen)
{
	events_add(clock->core->events, &(struct event){.kind = &clock_events[kind],
							.subject = edge->host,
							.part = edge->part,
							.seen = seen});
}

uint64_t clock_epoch(const struct clock *clock)
{
	return clock->epoch;
}

struct esc_fleet *clock_fleet(const struct clock *clock)
{
	return clock->fleet;
}

int64_t clock_local_at(const struct clock *clock, uint64_t monotonic_ns)
{
	return clock_local_ns(monotonic_ns, clock->lab_offset_ns, clock->lab_drift_ppb);
}

/* The model of now is not that of long ago: what was read later has no bound. */
#define READ_OLD_NS 5000000000ull

bool clock_read_at(const struct clock *clock, uint64_t monotonic_ns, int64_t *fabric_ns,
		   int64_t *bound_ns)
{
	uint64_t now_ns = time_local_ns();
	struct clock_facts facts;

	if (monotonic_ns > now_ns || now_ns - monotonic_ns > READ_OLD_NS)
		return false;
	clock_get(clock, &facts);
	if (!facts.known)
		return false;
	*fabric_ns = clock_model_read(&facts.model, clock_local_at(clock, monotonic_ns));
	/* The rate may have been another one, backward as forward. */
	*bound_ns =
		clock_model_bound(&facts.model, facts.local_ns + (int64_t)(now_ns - monotonic_ns));
	return true;
}

const struct hostclock *clock_host(const struct clock *clock)
{
	return &clock->host;
}

uint64_t clock_rounds(const struct clock *clock)
{
	return clock->rounds;
}

/* --- edges --- */

struct clock_edge *clock_add_edge(struct clock *clock, const struct clock_edge_config *config)
{
	struct clock_edge *edge;
	size_t slot = 0;

	while (slot < CLOCK_EDGES_MAX && clock->edges[slot])
		slot++;
	edge = slot < CLOCK_EDGES_MAX ? calloc(1, sizeof(*edge)) : NULL;
	if (!edge)
		return NULL;
	edge->slot = slot;
	edge->id = config->id;
	edge->plane = config->plane;
	edge->port = config->port % ESC_PORTS_MAX;
	edge->nic = config->nic;
	edge->place = clock_place_take(clock, config);
	snprintf(edge->host, sizeof(edge->host), "%s", config->host);
	snprintf(edge->part, sizeof(edge->part), "%s", config->part);
	edge->begun_local_ns = clock_local_at(clock, time_local_ns());
	edge_init(&edge->fit, (int64_t)clock->core->config->clock.window_ns);
	clock->edges[slot] = edge;
	clock->keys[slot] = (struct clock_edge_key){
		.id = edge->id,
		.nic = edge->nic,
		.plane = (uint8_t)edge->plane,
		.port = (uint8_t)edge->port,
	};
	if (slot >= clock->slots)
		clock->slots = slot + 1;
	return edge;
}

void clock_remove_edge(struct clock *clock, struct clock_edge *edge)
{
	struct clock_nic *nic = &clock->nics[edge->port];

	clock->edges[edge->slot] = NULL;
	if (edge->place != CLOCK_PLACE_NONE)
		clock_place_leave(clock, edge->place);
	if (!--nic->edges)
		clock_nic_leave(clock, nic);
	free(edge);
}

void clock_listen(struct clock *clock, const struct clock_listener *listener, void *context)
{
	clock->listener = listener;
	clock->listener_context = context;
}

void clock_configure(struct clock *clock, const struct fleet_plan *plan, bool on,
		     unsigned int pairs)
{
	unsigned int places = 0;

	for (size_t i = 0; i < CONSENSUS_PEERS_MAX; i++)
		places += clock->places[i].edges > 0;
	clock->host.config.degree = clock->host.consensus.degree = places;
	clock->pairs = pairs;
	clock->plan = plan;
	if (on && plan && plan->all.self != ROSTER_NONE)
		clock->host.config.rank = plan->rank;
	if (on && !clock->runs)
		clock->host.consensus.first_round_ns = clock_local_at(clock, time_local_ns());
	clock->runs = clock->runs || on || clock->model_taken;
}

/* --- the page, /run/escapement/clock --- */

static bool page_is_ours(int fd)
{
	struct clockpage_layout layout;
	struct stat status;

	return !fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
	       status.st_size == CLOCKPAGE_BYTES &&
	       pread(fd, &layout, sizeof(layout), 0) == sizeof(layout) &&
	       layout.magic == CLOCKPAGE_MAGIC && layout.version == CLOCKPAGE_VERSION;
}

/* A page of another version is left to those who have it mapped; its name is ours. */
static int page_make(const char *path)
{
	int fd, err;

	if (unlink(path) && errno != ENOENT)
		return -errno;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	/* Whatever the umask: every user may read the time. */
	if (!fchmod(fd, 0644) && !ftruncate(fd, CLOCKPAGE_BYTES))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int clockpage_open(struct clockpage_layout **out, const char *path, int64_t lab_offset_ns,
		   int64_t lab_drift_ppb, char **error)
{
	struct clockpage_layout *page = MAP_FAILED;
	char *copy = strdup(path);
	uint32_t sequence;
	int fd, err = 0;

	if (copy)
		mkdir(dirname(copy), 0755); /* when it fails, so does open() */
	free(copy);
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && !page_is_ours(fd)) {
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		err = fd = page_make(path);
	if (fd >= 0) {
		page = mmap(NULL, CLOCKPAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		err = page == MAP_FAILED ? -errno : 0;
		close(fd);
	}
	if (err)
		return explain(error, err, "%s, which applications read the time from: %s", path,
			       strerror(-err));
	/* Odd when a daemon was killed while it wrote. */
	sequence = page->sequence | 1;
	__atomic_store_n(&page->sequence, sequence, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (page->lab_offset_ns != lab_offset_ns || page->lab_drift_ppb != lab_drift_ppb)
		page->model.generation = 0; /* of another clock */
	page->lab_offset_ns = lab_offset_ns;
	page->lab_drift_ppb = lab_drift_ppb;
	page->version = CLOCKPAGE_VERSION;
	page->magic = CLOCKPAGE_MAGIC;
	__atomic_store_n(&page->sequence, sequence + 1, __ATOMIC_RELEASE);
	*out = page;
	return 0;
}

void clockpage_close(struct clockpage_layout *page)
{
	if (page)
		munmap(page, CLOCKPAGE_BYTES);
}

void clockpage_write(struct clockpage_layout *page, const struct clock_model *model,
		     uint64_t suspended_ns)
{
	uint32_t sequence = page->sequence;

	__atomic_store_n(&page->sequence, sequence + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	page->model = *model;
	page->suspended_ns = suspended_ns;
	__atomic_store_n(&page->sequence, sequence + 2, __ATOMIC_RELEASE);
}

/* --- the maps --- */

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

/*
 * The maps below have two slots, and a generation that says which is valid. Before a slot is
 * written the generation that took it out of use must be visible: smp_wmb(); a release alone does
 * not order what follows it.
 */

void clock_write_view(struct clock *clock, const struct clock_view *view)
{
	struct esc_fleet *fleet = clock->fleet;
	uint64_t generation = fleet->view_generation + 1;
	struct esc_probe_view *out = &fleet->view[generation & 1];

	smp_wmb();
	out->ref_local_ns = htobe64((uint64_t)view->ref_local_ns);
	out->ref_fabric_ns = htobe64((uint64_t)view->ref_fabric_ns);
	out->rate_q40 = htobe64((uint64_t)view->rate_q40);
	out->ref_fraction = htobe32(view->ref_fraction);
	out->bound_ns = htobe32(view->bound_ns);
	out->generation = htobe32(view->generation);
	out->reach = htobe16(view->reach);
	out->state = view->state;
	out->nic_report = clock->nic_report;
	__atomic_store_n(&fleet->view_generation, generation, __ATOMIC_RELEASE);
}

void clock_set_report(struct clock *clock, uint8_t report)
{
	struct esc_fleet *fleet = clock->fleet;

	/* A byte is written as a whole, to the slot in use; without a view nothing of it is sent.
	 */
	clock->nic_report = report;
	if (fleet)
		__atomic_store_n(&fleet->view[fleet->view_generation & 1].nic_report, report,
				 __ATOMIC_RELAXED);
}

void clock_write_anchor(struct clock *clock, const struct anchor_report *anchor)
{
	struct esc_fleet *fleet = clock->fleet;
	uint64_t generation = fleet->anchor_generation + 1;
	struct esc_probe_anchor *out = &fleet->anchor[generation & 1];

	smp_wmb();
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

	smp_wmb();
	map->slot[generation & 1] = clock->host.model;
	__atomic_store_n(&map->generation, generation, __ATOMIC_RELEASE);
	/* After the model: a reader in between takes the new one for older, and has no time. */
	__atomic_store_n(&map->suspended_ns, clock->suspended_ns, __ATOMIC_RELEASE);
	if (clock->page)
		clockpage_write(clock->page, &clock->host.model, clock->suspended_ns);
}

/* --- open and close --- */

static bool read_fabric(void *context, int64_t *fabric_ns, int64_t *bound_ns)
{
	struct clock_facts facts;

	clock_get(context, &facts);
	*fabric_ns = facts.fabric_ns;
	*bound_ns = facts.bound_ns;
	return facts.known;
}

static void clock_close(void *self)
{
	const struct clock_view silent = {.state = CLOCK_FREE_RUNNING};
	struct clock *clock = self;

	events_set_clock(clock->core->events, NULL, NULL);
	ring_buffer__free(clock->ring);
	if (clock->fleet) {
		/*
		 * The programs stay, and without its key they would accept packets that have no
		 * tag. They reply until the heartbeat has timed out, without a view, as our model
		 * stands still, but with the report that the mesh has set last: that we restart.
		 */
		clock_write_view(clock, &silent);
		munmap(clock->fleet, sizeof(*clock->fleet));
	}
	if (clock->map)
		munmap(clock->map, sizeof(*clock->map));
	clockpage_close(clock->page);
	free(clock);
}

static int clock_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct clock *clock = calloc(1, sizeof(*clock));
	char *copy, *path = NULL, *page_error = NULL;
	const struct dataplane *dataplane = needs[0];
	int err;

	if (!clock)
		return -ENOMEM;
	clock->core = core;
	clock->lab_offset_ns = core->config->lab.clock_offset_ns;
	clock->lab_drift_ppb = core->config->lab.clock_drift_ppb;
	/* Hosts that started together are not to have their rounds together. */
	clock->round_due_ns = time_local_ns() + core->start_realtime_ns / 1000 % HOSTCLOCK_ROUND_NS;
	err = map_open(dataplane, "fleet", sizeof(*clock->fleet), (void **)&clock->fleet, error);
	if (!err)
		err = map_open(dataplane, "clock", sizeof(*clock->map), (void **)&clock->map,
			       error);
	if (!err) {
		clock->ring = ring_buffer__new(dataplane_map_fd(dataplane, "probes"),
					       clock_take_record, clock, NULL);
		if (!clock->ring)
			err = explain(error, -errno, "the ring buffer of probes cannot be read: %s",
				      strerror(errno));
	}
	if (err) {
		clock_close(clock);
		return err;
	}
	/* Later than the one before, also when the system clock was set back. */
	clock->epoch = time_realtime_ns();
	if (clock->epoch <= clock->fleet->epoch)
		clock->epoch = clock->fleet->epoch + 1;
	/* Without the page only applications have no time. */
	copy = strdup(core->config->socket);
	if (copy && asprintf(&path, "%s/clock", dirname(copy)) >= 0 &&
	    clockpage_open(&clock->page, path, clock->lab_offset_ns, clock->lab_drift_ppb,
			   &page_error))
		log_warning("%s", page_error ? page_error : path);
	free(page_error);
	free(path);
	free(copy);
	clock_start_host(clock);
	events_set_clock(core->events, read_fabric, clock);
	*self = clock;
	return 0;
}

const struct capability clock_capability = {
	.name = "clock",
	.needs = {"dataplane"},
	.verbs = clock_verb_handlers,
	.events = clock_events,
	.metrics = clock_metrics,
	.open = clock_open,
	.close = clock_close,
	.status = clock_put_status,
	.write_metrics = clock_write_metrics,
};
