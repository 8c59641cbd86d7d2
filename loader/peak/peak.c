// SPDX-License-Identifier: BSD-2-Clause
/* Peaks as a capability: readings, `peaks` in `status`, and the metric. */
#include <errno.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/timerthread.h"
#include "internal.h"

#define PEAK_METRICS(X)                                                                            \
	X(PEAK_BYTES, "roce_peak_bytes_per_second", GAUGE,                                         \
	  "Highest rate of RoCEv2 packets in some 10 ms of the last 70 s, IP header to ICRC.")
enum { PEAK_METRICS(METRIC_ENUM) };
static const struct metric peak_metrics[] = {PEAK_METRICS(METRIC){}};

struct peaks {
	struct timerthread thread; /* its lock: `ports` */
	struct dataplane *dataplane;
	int counts_fd;
	uint64_t due_ns;
	struct peaks_port {
		char name[IF_NAMESIZE]; /* of the interface in this slot of `ports`; "": none */
		struct peak rx, tx;
	} ports[ESC_PORTS_MAX];
};

/* --- readings, in a thread of their own: the loop wakes less often --- */

static uint64_t read_due(struct timerthread *thread)
{
	struct peaks *peaks = (struct peaks *)thread;
	uint64_t before_ns, now_ns = time_local_ns(), interval_ns = PEAK_IDLE_NS;
	struct esc_port_counts counts;

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		before_ns = now_ns;
		if (!peaks->ports[slot].name[0] ||
		    bpfmap_sum(peaks->counts_fd, slot, &counts, sizeof(counts)))
			continue;
		now_ns = time_local_ns();
		peak_take(&peaks->ports[slot].rx, before_ns, now_ns, counts.rx_roce_bytes);
		peak_take(&peaks->ports[slot].tx, before_ns, now_ns, counts.tx_roce_bytes);
		if (counts.rx_roce_bytes || counts.tx_roce_bytes)
			interval_ns = PEAK_INTERVAL_NS;
	}
	/* After a wait for a CPU an interval is not shorter. */
	peaks->due_ns += interval_ns;
	if (peaks->due_ns < now_ns + interval_ns / 2)
		peaks->due_ns = now_ns + interval_ns;
	return peaks->due_ns;
}

static void tick(void *self, uint64_t now_local_ns)
{
	struct peaks *peaks = self;

	(void)now_local_ns;
	pthread_mutex_lock(&peaks->thread.lock);
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		const char *name = dataplane_port_name(peaks->dataplane, slot);

		if (!strcmp(peaks->ports[slot].name, name ? name : ""))
			continue;
		memset(&peaks->ports[slot], 0, sizeof(peaks->ports[slot]));
		snprintf(peaks->ports[slot].name, IF_NAMESIZE, "%s", name ? name : "");
	}
	pthread_mutex_unlock(&peaks->thread.lock);
}

/* --- what is shown --- */

typedef void peak_show_fn(void *context, const struct port_info *port, const char *direction,
			  double bytes_per_second);

/* Those of directions that are counted now, and of which something is known. */
static void for_each_peak(struct peaks *peaks, peak_show_fn *show, void *context)
{
	uint64_t now_ns = time_local_ns();
	struct port_facts port;
	struct peaks_port read;
	double rate;

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		pthread_mutex_lock(&peaks->thread.lock);
		read = peaks->ports[slot];
		pthread_mutex_unlock(&peaks->thread.lock);
		if (!read.name[0] || dataplane_port(peaks->dataplane, slot, &port))
			continue;
		if (port_counts_rx(&port.info) && peak_get(&read.rx, now_ns, &rate))
			show(context, &port.info, "rx", rate);
		if (port_counts_tx(&port.info) && peak_get(&read.tx, now_ns, &rate))
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

static void peak_close(void *self)
{
	timerthread_free(self);
}

static int peak_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct peaks *peaks;
	int err = timerthread_new(&peaks, sizeof(*peaks), "esc-peaks", read_due);

	(void)core;
	if (err)
		return explain(error, err, "peaks: %s", strerror(-err));
	peaks->dataplane = needs[0];
	peaks->counts_fd = dataplane_map_fd(peaks->dataplane, "port_counts");
	tick(peaks, 0); /* its lock: the thread sees both */
	*self = peaks;
	return 0;
}

const struct capability peak_capability = {
	.name = "peak",
	.needs = {"dataplane"},
	.metrics = peak_metrics,
	.open = peak_open,
	.close = peak_close,
	.tick_ns = 1000000000,
	.tick = tick,
	.status = peak_put_status,
	.write_metrics = peak_write_metrics,
};
