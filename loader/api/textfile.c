// SPDX-License-Identifier: BSD-2-Clause
#include "textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <systemd/sd-event.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "delay/delay.h"
#include "diagnose/diagnose.h"
#include "core/events.h"
#include "base/log.h"
#include "metrics.h"
#include "qp/owners.h"
#include "paths/paths.h"
#include "qp/table.h"
#include "base/readfile.h"

#define LOOK_NS 1000000000ull
#define FILE_BYTES_MAX (16u << 20)

struct textfile {
	struct daemon *daemon;
	sd_event_source *timer;
	char *written;		/* where our file is, NULL: none yet */
	bool failed;		/* said once, until it works again */
	uint64_t turn_local_ns; /* of the last write */
	bool continued;
	struct qp_totals before[2]; /* what the daemon before us had counted of QPs that are gone */
	struct qp_totals totals[2]; /* as last written */
};

/* A new file under a name that node_exporter does not read; NULL with errno. */
static FILE *open_aside(const char *aside)
{
	FILE *out = NULL;
	int fd, err;

	/* The folder may belong to another user: nothing that lies there is followed. */
	unlink(aside);
	fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd >= 0 && !fchmod(fd, 0644))
		out = fdopen(fd, "w");
	err = errno;
	if (fd >= 0 && !out) {
		close(fd);
		unlink(aside);
	}
	errno = err;
	return out;
}

/* Aside, and then in one step to where it is read. @facts NULL: the daemon stops. */
static int write_file(const struct textfile *textfile, const char *path,
		      const struct metrics_facts *facts)
{
	char *aside;
	FILE *out;
	int err = 0;

	if (asprintf(&aside, "%s.new", path) < 0)
		return -ENOMEM;
	out = open_aside(aside);
	if (!out) {
		err = -errno;
		goto out;
	}
	if (facts)
		metrics_write(out, facts);
	else
		metrics_write_stopped(out, daemon_realtime_ns(), textfile->totals);
	if (ferror(out))
		err = -EIO;
	if (fclose(out) && !err)
		err = -errno;
	if (!err && rename(aside, path))
		err = -errno;
	if (err)
		unlink(aside);
out:
	free(aside);
	return err;
}

/* All fields of struct qp_totals are counts of one type. */
#define TOTALS_WORDS (sizeof(struct qp_totals) / sizeof(uint64_t))

/*
 * What queue pairs that are gone had counted is known to their daemon alone,
 * and after a restart the sums would shrink: Prometheus would take that for a
 * counter that began anew and count all of it a second time. So the sums go on
 * from where the file of the daemon before us left them. A count taken between
 * its last word and our first one may be missing here; the counts per port
 * have it.
 */
static void continue_totals(struct textfile *textfile, const char *path,
			    const struct qp_totals now[2])
{
	struct qp_totals kept[2] = {};
	char *text = NULL, *why = NULL;
	size_t bytes;

	textfile->continued = true;
	if (!textfile->daemon->takeover)
		return;
	if (!readfile(path, FILE_BYTES_MAX, &text, &bytes, NULL, &why))
		metrics_read_totals(text, kept);
	free(text);
	free(why);
	for (int direction = 0; direction < 2; direction++) {
		const uint64_t *was = (const uint64_t *)&kept[direction];
		const uint64_t *is = (const uint64_t *)&now[direction];
		uint64_t *before = (uint64_t *)&textfile->before[direction];

		for (size_t i = 0; i < TOTALS_WORDS; i++)
			before[i] = was[i] > is[i] ? was[i] - is[i] : 0;
	}
}

static void gather_totals(struct textfile *textfile, const char *path, struct metrics_facts *facts)
{
	for (int direction = 0; direction < 2; direction++)
		qptable_totals(textfile->daemon->qps, direction, &facts->totals[direction]);
	if (!textfile->continued)
		continue_totals(textfile, path, facts->totals);
	for (int direction = 0; direction < 2; direction++)
		for (size_t i = 0; i < TOTALS_WORDS; i++)
			((uint64_t *)&facts->totals[direction])[i] +=
				((const uint64_t *)&textfile->before[direction])[i];
	memcpy(textfile->totals, facts->totals, sizeof(textfile->totals));
}

static void gather_ports(const struct daemon *daemon, struct metrics_facts *facts)
{
	const struct dataplane *dataplane = daemon->dataplane;

	for (unsigned int i = 0; i < dataplane_port_count(dataplane) && i < ESC_PORTS_MAX; i++) {
		struct metrics_port *port = &facts->ports[facts->port_count];

		if (dataplane_port(dataplane, i, &port->info))
			continue;
		owners_judge_port(daemon->owners, daemon_local_ns(), &port->info);
		port->counted = !dataplane_port_counts(dataplane, port->info.index, &port->counts);
		facts->port_count++;
	}
}

/* Freed with the facts. */
static void gather_mesh(const struct daemon *daemon, struct metrics_mesh *facts)
{
	struct mesh_peer_facts *peers = calloc(MESH_EDGES_MAX, sizeof(*peers));

	mesh_get(daemon->mesh, &facts->mesh);
	mesh_get_clock(daemon->mesh, &facts->clock);
	if (peers)
		facts->peer_count = mesh_get_peers(daemon->mesh, peers, MESH_EDGES_MAX);
	facts->peers = peers;
}

static void gather(struct textfile *textfile, const char *path, struct metrics_facts *facts)
{
	struct daemon *daemon = textfile->daemon;

	facts->start_realtime_ns = daemon->start_realtime_ns;
	facts->written_realtime_ns = daemon_realtime_ns();
	facts->kill_switch = dataplane_is_off(daemon->dataplane);
	facts->events = ledger_total(daemon->ledger);
	gather_ports(daemon, facts);
	gather_mesh(daemon, &facts->mesh);
	steer_get(daemon->steer, &facts->steer);
	paths_get(daemon->paths, &facts->paths);
	metrics_lanes_gather(daemon->paths, daemon->config->textfile.top_paths, &facts->lanes);
	pace_get(daemon->pace, &facts->pace);
	tcppace_get(daemon->tcp, &facts->tcp);
	facts->nics = daemon->nics;
	judge_get_counts(daemon->judge, &facts->verdicts);
	facts->reasons_read = !dataplane_reasons(daemon->dataplane, facts->reasons);
	facts->qps_read = !daemon_refresh(daemon);
	facts->qps_max = dataplane_qps_max(daemon->dataplane);
	facts->owners = daemon->owners;
	facts->top_qps = daemon->config->textfile.top_qps;
	facts->delays = daemon->delays;
	facts->members = daemon->config->member_list;
	facts->receipts = daemon->config->receipts.on;
	if (!facts->qps_read)
		return;
	facts->qps = qptable_entries(daemon->qps, &facts->qp_count);
	gather_totals(textfile, path, facts);
}

static void tell(struct textfile *textfile, const char *directory, int err)
{
	if (err && !textfile->failed) {
		log_warning("textfile.directory %s: escapement.prom cannot be written: %s; tried "
			    "again every turn",
			    directory, strerror(-err));
		ledger_add(textfile->daemon->ledger, "textfile_failed", directory,
			   json_pack("{s:s}", "error", strerror(-err)), NULL, NULL, NULL);
	} else if (!err && textfile->failed) {
		log_info("textfile.directory %s: escapement.prom is written again", directory);
		ledger_add(textfile->daemon->ledger, "textfile_written_again", directory, NULL,
			   NULL, NULL, NULL);
	}
	textfile->failed = err != 0;
}

/* A reload may have moved the file; the old one would stand there for ever. */
static void forget_written(struct textfile *textfile, const char *path)
{
	if (!textfile->written || (path && !strcmp(textfile->written, path)))
		return;
	unlink(textfile->written);
	free(textfile->written);
	textfile->written = NULL;
}

int textfile_write(struct textfile *textfile)
{
	const char *directory = textfile->daemon->config->textfile.directory;
	struct metrics_facts *facts;
	char *path = NULL;
	int err = -ENOMEM;

	if (!directory) {
		forget_written(textfile, NULL);
		return 0;
	}
	facts = calloc(1, sizeof(*facts));
	if (facts && asprintf(&path, "%s/escapement.prom", directory) >= 0) {
		gather(textfile, path, facts);
		err = write_file(textfile, path, facts);
		free((void *)facts->mesh.peers);
		free(facts->lanes.list);
	}
	tell(textfile, directory, err);
	if (!err) {
		delays_written(textfile->daemon->delays);
		forget_written(textfile, path);
		if (!textfile->written) {
			textfile->written = path;
			path = NULL;
		}
	}
	free(path);
	free(facts);
	return err;
}

static int textfile_turn(sd_event_source *source, uint64_t usec, void *context)
{
	struct textfile *textfile = context;

	uint64_t interval_ns = textfile->daemon->config->textfile.interval_ns;
	uint64_t now_ns = daemon_local_ns(), left_ns;

	(void)usec;
	if (!textfile->turn_local_ns || now_ns - textfile->turn_local_ns >= interval_ns) {
		textfile->turn_local_ns = now_ns;
		textfile_write(textfile);
	}
	/* A reload may have made the interval shorter: look once a second. */
	left_ns = textfile->turn_local_ns + interval_ns - now_ns;
	sd_event_source_set_time_relative(source,
					  (left_ns < LOOK_NS ? left_ns : LOOK_NS) / 1000 + 1);
	sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

int textfile_new(struct textfile **out, struct daemon *daemon, char **error)
{
	struct textfile *textfile = calloc(1, sizeof(*textfile));
	int err;

	(void)error;
	if (!textfile)
		return -ENOMEM;
	textfile->daemon = daemon;
	/* The first turn comes as soon as the loop runs. */
	err = sd_event_add_time_relative(daemon->event, &textfile->timer, CLOCK_MONOTONIC, 0, 0,
					 textfile_turn, textfile);
	if (err < 0) {
		free(textfile);
		return err;
	}
	*out = textfile;
	return 0;
}

void textfile_free(struct textfile *textfile)
{
	int err;

	if (!textfile)
		return;
	sd_event_source_disable_unref(textfile->timer);
	if (textfile->written) {
		err = write_file(textfile, textfile->written, NULL);
		if (err)
			log_warning("%s: %s; it still says that the daemon is up",
				    textfile->written, strerror(-err));
	}
	free(textfile->written);
	free(textfile);
}
