// SPDX-License-Identifier: BSD-2-Clause
/* Peaks as a capability: readings, `peaks` in `status`, and the metric. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "internal.h"

#define PEAK_METRICS(X)                                                                            \
	X(PEAK_BYTES, "roce_peak_bytes_per_second", GAUGE,                                         \
	  "Highest rate of RoCEv2 packets in some 10 ms of the last 70 s, IP header to ICRC.")
enum { PEAK_METRICS(METRIC_ENUM) };
static const struct metric peak_metrics[] = {PEAK_METRICS(METRIC){}};

struct peaks {
	struct dataplane *dataplane;
	uint64_t read_ns;
	struct {
		char name[IF_NAMESIZE]; /* of the interface in this slot of `ports` */
		struct peak rx, tx;
	} ports[ESC_PORTS_MAX];
};

/* --- readings --- */

static void read_port(struct peaks *peaks, unsigned int slot, int fd)
{
	const char *name = dataplane_port_name(peaks->dataplane, slot);
	uint64_t before_ns, after_ns;
	struct esc_port_counts counts;
	int err;

	if (!name || strcmp(peaks->ports[slot].name, name) != 0) {
		memset(&peaks->ports[slot], 0, sizeof(peaks->ports[slot]));
		snprintf(peaks->ports[slot].name, IF_NAMESIZE, "%s", name ? name : "");
	}
	if (!name)
		return;
	before_ns = time_local_ns();
	err = bpfmap_sum(fd, slot, &counts, sizeof(counts));
	after_ns = time_local_ns();
	if (err)
		return;
	peak_take(&peaks->ports[slot].rx, before_ns, after_ns, counts.rx_roce_bytes);
	peak_take(&peaks->ports[slot].tx, before_ns, after_ns, counts.tx_roce_bytes);
}

static void tick(void *self, uint64_t now_local_ns)
{
	struct peaks *peaks = self;
	int fd = dataplane_map_fd(peaks->dataplane, "port_counts");

	/* After a pause of the loop ticks follow each other: an interval is not shorter. */
	if (now_local_ns - peaks->read_ns < PEAK_INTERVAL_NS / 2)
		return;
	peaks->read_ns = now_local_ns;
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++)
		read_port(peaks, slot, fd);
}

/* --- what is shown --- */

typedef void peak_show_fn(void *context, const struct port_info *port, const char *direction,
			  double bytes_per_second);

/* Those of directions that are counted now, and of which something is known. */
static void for_each_peak(const struct peaks *peaks, peak_show_fn *show, void *context)
{
	uint64_t now_ns = time_local_ns();
	struct port_facts port;
	double rate;

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		if (!peaks->ports[slot].name[0] || dataplane_port(peaks->dataplane, slot, &port))
			continue;
		if (port_counts_rx(&port.info) && peak_get(&peaks->ports[slot].rx, now_ns, &rate))
			show(context, &port.info, "rx", rate);
		if (port_counts_tx(&port.info) && peak_get(&peaks->ports[slot].tx, now_ns, &rate))
			show(context, &port.info, "tx", rate);
	}
}

static void write_one(void *context, const struct port_info *port, const char *direction,
		      double bytes_per_second)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", port->rdma_port);
	prom_value(context, bytes_per_second, "device", port->rdma_device, "port",
		   port->rdma_device[0] ? number : "", "netdev", port->name, "direction", direction,
		   NULL);
}

static void peak_write_metrics(void *self, FILE *out)
{
	for_each_peak(self, write_one, FAMILY_OF(&peak_metrics[PEAK_BYTES]));
}

static void put_one(void *context, const struct port_info *port, const char *direction,
		    double bytes_per_second)
{
	json_t *one = json_object();

	json_put_text(one, "interface", port->name);
	json_put_text(one, "direction", direction);
	json_put_real(one, "bytes_per_second", bytes_per_second);
	json_array_append_new(context, one);
}

static void peak_put_status(void *self, json_t *status)
{
	json_t *list = json_array();

	for_each_peak(self, put_one, list);
	json_put(status, "peaks", list);
}

/* --- the capability --- */

static int peak_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct peaks *peaks = calloc(1, sizeof(*peaks));

	(void)core;
	if (!peaks)
		return explain(error, -ENOMEM, "peaks: out of memory");
	peaks->dataplane = needs[0];
	*self = peaks;
	return 0;
}

const struct capability peak_capability = {
	.name = "peak",
	.needs = {"dataplane"},
	.metrics = peak_metrics,
	.open = peak_open,
	.close = free,
	.tick_ns = PEAK_INTERVAL_NS,
	.tick = tick,
	.status = peak_put_status,
	.write_metrics = peak_write_metrics,
};
