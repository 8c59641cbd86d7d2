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

#include "config.h"
#include "daemon.h"
#include "dataplane.h"
#include "ledger.h"
#include "log.h"
#include "metrics.h"
#include "qptable.h"

#define LOOK_NS 1000000000ull

struct textfile {
	struct daemon *daemon;
	sd_event_source *timer;
	char *written;		/* where our file is, NULL: none yet */
	bool failed;		/* said once, until it works again */
	uint64_t turn_local_ns; /* of the last write */
	bool based;
	struct qp_totals base[2]; /* what the queue pairs had when we took the maps over */
};

/* Aside, under a name that node_exporter does not read, and then in one step to where it does. */
static int write_aside(const char *path, const struct metrics_facts *facts, uint64_t now_ns)
{
	FILE *out = NULL;
	char *aside;
	int fd, err = 0;

	if (asprintf(&aside, "%s.new", path) < 0)
		return -ENOMEM;
	/* The folder may belong to another user: nothing that lies there is followed. */
	unlink(aside);
	fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd >= 0 && !fchmod(fd, 0644))
		out = fdopen(fd, "w");
	if (!out) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		goto out;
	}
	if (facts)
		metrics_write(out, facts);
	else
		metrics_write_stopped(out, now_ns);
	if (ferror(out))
		err = -EIO;
	if (fclose(out) && !err)
		err = -errno;
	if (!err && rename(aside, path))
		err = -errno;
out:
	if (err)
		unlink(aside);
	free(aside);
	return err;
}

static void subtract(struct qp_totals *from, const struct qp_totals *base)
{
	from->packets -= base->packets;
	from->bytes -= base->bytes;
	from->messages -= base->messages;
	from->ce -= base->ce;
	from->cnps -= base->cnps;
	from->psn_gaps -= base->psn_gaps;
	from->duplicates -= base->duplicates;
	from->retransmits -= base->retransmits;
	from->naks -= base->naks;
	from->rnr_naks -= base->rnr_naks;
}

/*
 * What QPs that are gone had counted is known to the process alone. After a
 * restart the sums therefore begin anew, at 0: Prometheus takes that for a
 * reset, and would take a sum that merely shrank for a reset plus its value.
 */
static void gather_totals(struct textfile *textfile, struct metrics_facts *facts)
{
	struct daemon *daemon = textfile->daemon;

	for (int direction = 0; direction < 2; direction++) {
		qptable_totals(daemon->qps, direction, &facts->totals[direction]);
		if (!textfile->based && daemon->takeover)
			textfile->base[direction] = facts->totals[direction];
		subtract(&facts->totals[direction], &textfile->base[direction]);
	}
	textfile->based = true;
}

static void gather_ports(const struct dataplane *dataplane, struct metrics_facts *facts)
{
	for (unsigned int i = 0; i < dataplane_port_count(dataplane) && i < ESC_PORTS_MAX; i++) {
		struct metrics_port *port = &facts->ports[facts->port_count];

		if (dataplane_port(dataplane, i, &port->info))
			continue;
		port->counted = !dataplane_port_counts(dataplane, port->info.index, &port->counts);
		facts->port_count++;
	}
}

static void gather(struct textfile *textfile, struct metrics_facts *facts)
{
	struct daemon *daemon = textfile->daemon;

	facts->start_realtime_ns = daemon->start_realtime_ns;
	facts->written_realtime_ns = daemon_realtime_ns();
	facts->kill_switch = dataplane_is_off(daemon->dataplane);
	facts->events = ledger_total(daemon->ledger);
	gather_ports(daemon->dataplane, facts);
	facts->reasons_read = !dataplane_reasons(daemon->dataplane, facts->reasons);
	facts->qps_read = !daemon_refresh(daemon);
	facts->qps_max = dataplane_qps_max(daemon->dataplane);
	facts->top_qps = daemon->config->textfile.top_qps;
	if (!facts->qps_read)
		return;
	facts->qps = qptable_entries(daemon->qps, &facts->qp_count);
	gather_totals(textfile, facts);
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
		gather(textfile, facts);
		err = write_aside(path, facts, 0);
	}
	tell(textfile, directory, err);
	if (!err) {
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
		err = write_aside(textfile->written, NULL, daemon_realtime_ns());
		if (err)
			log_warning("%s: %s; it still says that the daemon is up",
				    textfile->written, strerror(-err));
	}
	free(textfile->written);
	free(textfile);
}
