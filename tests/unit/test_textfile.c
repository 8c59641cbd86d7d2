// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "fakes.h"
#include "base/fields.h"
#include "api/api.h"

static struct fake_world the_daemon;
static char folder[64], prom[128];

static void begin(void)
{
	char yaml[256];

	strcpy(folder, "/tmp/esc-textfile-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(prom, sizeof(prom), "%s/escapement.prom", folder);
	snprintf(yaml, sizeof(yaml),
		 "interfaces: [{name: eth1}]\ntextfile: {directory: %s, top_qps: 2}\n", folder);
	cr_assert_eq(fake_daemon(&the_daemon, yaml), 0);
	cr_assert_geq(sd_event_new(&the_daemon.event), 0);
	the_daemon.core.loop = the_daemon.event;
}

static void end(void)
{
	sd_event_unref(the_daemon.event);
	events_free(the_daemon.ledger);
	config_free(the_daemon.config);
	unlink(prom);
	rmdir(folder);
}

TestSuite(textfile, .init = begin, .fini = end);

static struct textfile *new_textfile(void)
{
	struct textfile *textfile = NULL;

	cr_assert_eq(textfile_new(&textfile, &the_daemon.core), 0);
	return textfile;
}

/* Writes, and waits for the worker that does. */
static int write_now(struct textfile *textfile)
{
	int err = textfile_write(textfile);

	return err ? err : textfile_wait(textfile, 10000);
}

/* The file as text (malloc'd). */
static char *slurp(void)
{
	FILE *file = fopen(prom, "r");
	char *text = calloc(1, 1 << 20);

	cr_assert_not_null(file, "%s", prom);
	cr_assert_gt(fread(text, 1, (1 << 20) - 1, file), 0);
	fclose(file);
	return text;
}

static void expect_in(const char *text, const char *line, bool there)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "\n%s\n", line);
	cr_expect_eq(strstr(text, whole) != NULL, there, "%s: %s in\n%s", line,
		     there ? "should be" : "should not be", text);
}

static void fill(void)
{
	struct qp_entry *entry;

	fake_port("eth1");
	fake.counts[0] = (struct esc_port_counts){.rx_roce_packets = 100, .rx_roce_bytes = 9000};
	entry = fake_qp(ESC_DIRECTION_TX, "10.0.0.1", "10.0.0.2", 17);
	entry->bytes_per_second = 100;
	entry->qp.retransmits = 4;
	entry->qp.sport = 50000;
	entry = fake_qp(ESC_DIRECTION_RX, "10.0.0.2", "10.0.0.1", 18);
	entry->bytes_per_second = 50;
	entry->qp.nak_sequence = 2;
	fake_qp(ESC_DIRECTION_RX, "10.0.0.3", "10.0.0.1", 19); /* the third of two */
	fake.reasons[ESC_REASON_QP_TABLE_FULL].tc_egress = 3;
}

Test(textfile, families)
{
	struct textfile *textfile = new_textfile();
	struct stat status;
	char *text;

	fill();
	cr_assert_eq(write_now(textfile), 0);
	text = slurp();
	expect_in(text, "escapement_up 1", true);
	expect_in(text, "escapement_kill_switch 0", true);
	expect_in(text, "escapement_mode{state=\"observe\"} 1", true);
	expect_in(text, "escapement_port_visibility_info{netdev=\"eth1\",mode=\"packets\"} 1",
		  true);
	expect_in(text,
		  "escapement_port_attach_info{netdev=\"eth1\",attach=\"native\",via=\"link\","
		  "tc=\"tcx\"} 1",
		  true);
	expect_in(text, "escapement_link_up{netdev=\"eth1\"} 1", true);
	expect_in(text, "escapement_roce_packets_total{netdev=\"eth1\",direction=\"rx\"} 100",
		  true);
	expect_in(text, "escapement_roce_packets_total{netdev=\"eth1\",direction=\"tx\"} 0", true);
	expect_in(text, "escapement_qp_untracked_packets_total 3", true);
	expect_in(text, "escapement_qp_tracked 3", true);
	expect_in(text, "escapement_map_max_entries{map=\"qps\"} 16384", true);
	expect_in(text, "escapement_roce_retransmit_packets_total{direction=\"tx\"} 4", true);
	expect_in(text,
		  "escapement_qp_retransmit_packets_total{netdev=\"eth1\",dest_qpn=\"17\","
		  "src=\"10.0.0.1\",dst=\"10.0.0.2\",direction=\"tx\"} 4",
		  true);
	expect_in(text,
		  "escapement_qp_naks_total{netdev=\"eth1\",dest_qpn=\"18\",src=\"10.0.0.2\","
		  "dst=\"10.0.0.1\",direction=\"rx\",kind=\"sequence\"} 2",
		  true);
	cr_expect(strstr(text, "sport=\"50000\",transport=\"RC\",source=\"packet\"} 1"));
	cr_expect_null(strstr(text, "dest_qpn=\"19\""), "only the two busiest");
	cr_expect_null(strstr(text, "device="), "no RDMA device is known");
	cr_assert_eq(stat(prom, &status), 0);
	cr_expect_eq(status.st_mode & 0777, 0644);
	free(text);
	textfile_free(textfile);
}

/* Blind is absent: no series that reads 0 where nothing was counted. */
Test(textfile, what_is_not_measured_is_absent)
{
	struct textfile *textfile = new_textfile();
	char *text;

	fill();
	memset(fake.counts, 0, sizeof(fake.counts));
	strcpy(fake.ports[0].visibility, "counters");
	strcpy(fake.ports[0].rdma_device, "mlx5_0");
	fake.ports[0].rdma_port = 1;
	fake.refresh_error = -EIO;
	cr_assert_eq(write_now(textfile), 0);
	text = slurp();
	cr_expect_null(strstr(text, "roce_packets_total"));
	cr_expect_null(strstr(text, "escapement_qp_packets_total"));
	cr_expect_null(strstr(text, "escapement_qp_tracked"));
	cr_expect_null(strstr(text, "roce_messages_total"));
	expect_in(text, "escapement_collector_up{collector=\"qp\"} 0", true);
	expect_in(text,
		  "escapement_port_visibility_info{device=\"mlx5_0\",port=\"1\","
		  "netdev=\"eth1\",mode=\"counters\"} 1",
		  true);
	free(text);
	textfile_free(textfile);
}

Test(textfile, datagrams_have_no_sequence)
{
	struct textfile *textfile = new_textfile();
	char *text;

	fill();
	fake.qps[0].qp.transport = ESC_TRANSPORT_UD;
	cr_assert_eq(write_now(textfile), 0);
	text = slurp();
	cr_expect(strstr(text, "qp_packets_total{netdev=\"eth1\",dest_qpn=\"17\""));
	cr_expect_null(strstr(text, "qp_retransmit_packets_total{netdev=\"eth1\",dest_qpn=\"17\""));
	cr_expect_null(strstr(text, "qp_naks_total{netdev=\"eth1\",dest_qpn=\"17\""));
	free(text);
	textfile_free(textfile);
}

static int run_promtool(void)
{
	char command[512];
	int status;

	snprintf(command, sizeof(command),
		 "promtool check metrics < %s >%s/said 2>&1 && ! test -s %s/said", prom, folder,
		 folder);
	status = system(command);
	snprintf(command, sizeof(command), "%s/said", folder);
	unlink(command);
	return WEXITSTATUS(status);
}

Test(textfile, promtool_is_content)
{
	struct textfile *textfile = new_textfile();

	if (system("promtool --version >/dev/null 2>&1"))
		cr_skip("promtool is not here");
	fill();
	cr_assert_eq(write_now(textfile), 0);
	cr_expect_eq(run_promtool(), 0);
	textfile_free(textfile);
	cr_expect_eq(run_promtool(), 0, "and with what a stopped daemon leaves");
}

Test(textfile, a_stopped_daemon_leaves_up_0)
{
	struct textfile *textfile = new_textfile();
	char *text;

	fill();
	cr_assert_eq(write_now(textfile), 0);
	textfile_free(textfile);
	text = slurp();
	expect_in(text, "escapement_up 0", true);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		cr_expect(line[0] == '#' || !strncmp(line, "escapement_build_info", 21) ||
				  !strncmp(line, "escapement_up", 13) ||
				  !strncmp(line, "escapement_last_write", 21),
			  "a series that stops: %s", line);
	free(text);
}

/* A reader that opens the file at any time sees a whole one, and no other .prom. */
Test(textfile, what_is_read_by_the_verb_ends_no_window)
{
	struct textfile *textfile = new_textfile();
	size_t bytes;
	char *text;

	the_daemon.core.pause.longest_ns = 700000000;
	for (int i = 0; i < 2; i++) {
		text = textfile_text(&the_daemon.core, &bytes);
		cr_assert_not_null(text);
		cr_expect_eq(strlen(text), bytes);
		cr_expect(strstr(text, "escapement_loop_pause_seconds 0.7\n"), "%s", text);
		cr_expect(strstr(text, "escapement_up 1\n"));
		free(text);
	}
	cr_assert_eq(write_now(textfile), 0);
	text = slurp();
	cr_expect(strstr(text, "escapement_loop_pause_seconds 0.7\n"), "the file has it, too");
	free(text);
	cr_expect_eq(the_daemon.core.pause.longest_ns, 0, "which begins the next window");
	textfile_free(textfile);
}

Test(textfile, is_replaced_in_one_step)
{
	struct textfile *textfile = new_textfile();
	char aside[160], target[160];
	struct stat before, after;

	fill();
	/* Another user has prepared the temporary name. */
	snprintf(aside, sizeof(aside), "%s.new", prom);
	snprintf(target, sizeof(target), "%s/target", folder);
	cr_assert_eq(symlink(target, aside), 0);
	cr_assert_eq(write_now(textfile), 0);
	cr_expect(access(target, F_OK), "a link that lies there is not followed");
	cr_assert_eq(stat(prom, &before), 0);
	cr_assert_eq(write_now(textfile), 0);
	cr_assert_eq(stat(prom, &after), 0);
	cr_expect_neq(before.st_ino, after.st_ino, "a new file took the name");
	cr_expect(access(aside, F_OK), "nothing is left aside");
	textfile_free(textfile);
}

Test(textfile, failure_is_reported_once_and_ends)
{
	struct textfile *textfile = new_textfile();
	const struct event_count *counts;
	char moved[160];

	fill();
	snprintf(moved, sizeof(moved), "%s.gone", folder);
	cr_assert_eq(rename(folder, moved), 0);
	cr_expect_eq(write_now(textfile), -ENOENT);
	cr_expect_eq(write_now(textfile), -ENOENT);
	cr_expect_eq(events_counts(the_daemon.ledger, &counts), 1);
	cr_expect_eq(counts[0].count, 1, "an event for the first of them");
	cr_assert_eq(rename(moved, folder), 0);
	cr_expect_eq(write_now(textfile), 0);
	cr_expect_eq(events_counts(the_daemon.ledger, &counts), 2);
	cr_expect_eq(counts[0].count + counts[1].count, 2);
	textfile_free(textfile);
}

Test(textfile, moves_when_the_configuration_moves)
{
	struct textfile *textfile = new_textfile();
	char other[] = "/tmp/esc-textfile-XXXXXX", path[128];

	fill();
	cr_assert_not_null(mkdtemp(other));
	snprintf(path, sizeof(path), "%s/escapement.prom", other);
	cr_assert_eq(write_now(textfile), 0);
	free(the_daemon.config->textfile.directory);
	the_daemon.config->textfile.directory = strdup(other);
	cr_assert_eq(write_now(textfile), 0);
	cr_expect(access(prom, F_OK), "the old file would stand there for ever");
	cr_expect_eq(access(path, F_OK), 0);
	free(the_daemon.config->textfile.directory);
	the_daemon.config->textfile.directory = NULL;
	cr_assert_eq(write_now(textfile), 0);
	cr_expect(access(path, F_OK));
	textfile_free(textfile);
	rmdir(other);
}

Test(prom, labels_are_escaped_and_empty_ones_left_out)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	const struct metric metric = {"x", PROM_GAUGE, "H."};
	struct prom_family family = {.out = out, .metric = &metric};

	prom_count(&family, 1, "a", "q\"b\\s\nn", "b", NULL, "c", "", "d", "z", NULL);
	prom_value(&family, 0.5, NULL);
	fclose(out);
	cr_expect_str_eq(text, "# HELP escapement_x H.\n# TYPE escapement_x gauge\n"
			       "escapement_x{a=\"q\\\"b\\\\s\\nn\",d=\"z\"} 1\nescapement_x 0.5\n");
	free(text);
}
