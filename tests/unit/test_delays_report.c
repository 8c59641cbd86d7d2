// SPDX-License-Identifier: BSD-2-Clause
/* Delays as JSON, as groups and as metrics, over a table from memory and a map of the kernel's. */
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <unistd.h>

#include "fakes.h"

#include "delay/delay.h"
#include "fleet/fleet.h"
#include "delay/internal.h"

#define MS 1000000ull
#define MEMBERS                                                                                    \
	"[{\"targets\": [\"10.0.0.1\"], \"labels\": {\"host\": \"h1\"}},"                          \
	" {\"targets\": [\"10.0.0.2\"], \"labels\": {\"host\": \"h2\", \"addresses\": "            \
	"\"10.9.0.2\"}},"                                                                          \
	" {\"targets\": [\"10.0.0.3\"], \"labels\": {\"host\": \"h3\"}}]"

static struct {
	struct fake_world daemon;
	struct members *members;
	int fd;
	uint64_t now_ns;
} world;

static void open_world(void)
{
	char *error = NULL;

	memset(&fake, 0, sizeof(fake));
	cr_assert_eq(fake_daemon(&world.daemon, "interfaces: [{name: eth1}]\n"), 0);
	cr_assert_eq(members_parse("m", MEMBERS, strlen(MEMBERS), &world.members, &error), 0, "%s",
		     error);
	cr_assert_eq(fleet_new(&world.daemon.core.fleet), 0);
	fleet_set(world.daemon.core.fleet, NULL, world.members);
	fake_port("eth1");
	fake.clock.state = CLOCK_SYNCED;
	world.fd = bpf_map_create(BPF_MAP_TYPE_HASH, "test_owd", sizeof(struct esc_qp_key),
				  sizeof(struct esc_qp_owd), 64, NULL);
	if (world.fd < 0)
		cr_skip_test("no map can be made: %s", strerror(-world.fd));
	cr_assert_eq(delays_new(&world.daemon.delays, world.fd, -1, 64, &fake.table), 0);
	world.daemon.delays->core = &world.daemon.core;
	world.now_ns = 1000ull << ESC_OWD_WINDOW_SHIFT;
	cr_assert_eq(delays_poll(world.daemon.delays, world.now_ns), 0);
	world.now_ns += 250 * MS;
}

static void close_world(void)
{
	delays_free(world.daemon.delays);
	fleet_free(world.daemon.core.fleet);
	events_free(world.daemon.ledger);
	config_free(world.daemon.config);
	close(world.fd);
}

/* @samples of @delay_ns into the entry of @qp. */
static void put(const struct qp_entry *qp, unsigned int samples, int64_t delay_ns)
{
	static struct esc_qp_owd owd;
	uint64_t ktime_ns = world.now_ns - 50 * MS;
	uint32_t number = (uint32_t)(ktime_ns >> ESC_OWD_WINDOW_SHIFT);
	struct esc_owd_window *window = &owd.windows[number % ESC_OWD_WINDOWS];

	if (bpf_map_lookup_elem(world.fd, &qp->key, &owd))
		memset(&owd, 0, sizeof(owd));
	window->number = number;
	for (unsigned int i = 0; i < samples; i++) {
		window->min_ns =
			!window->samples || delay_ns < window->min_ns ? delay_ns : window->min_ns;
		window->max_ns =
			!window->samples || delay_ns > window->max_ns ? delay_ns : window->max_ns;
		window->samples++;
		window->sum_ns += delay_ns;
		owd.histogram[esc_owd_bucket(delay_ns)]++;
	}
	window->bound_ns = 400;
	window->stack_max_ns = 7000;
	owd.samples_sent += samples + 1;
	owd.receipts += samples;
	owd.samples += samples;
	owd.over += delay_ns > 100000 ? samples : 0;
	owd.crossings += delay_ns > 100000;
	owd.feedback_sum_ns += 20000 * samples;
	owd.first_ktime_ns = 5;
	owd.last_ktime_ns = ktime_ns;
	owd.last_bound_ns = 400;
	owd.min_ns = window->min_ns;
	owd.max_ns = window->max_ns;
	cr_assert_eq(bpf_map_update_elem(world.fd, &qp->key, &owd, BPF_ANY), 0);
}

static struct qp_entry *sender(const char *dst, uint32_t qpn, uint16_t sport)
{
	struct qp_entry *qp = fake_qp(ESC_DIRECTION_TX, "10.0.0.1", dst, qpn);

	qp->qp.sport = sport;
	qp->qp.payload_bytes = 1000;
	qp->seen_local_ns = world.now_ns;
	qp->bytes_per_second = 1000;
	return qp;
}

static void look(void)
{
	cr_assert_eq(delays_poll(world.daemon.delays, world.now_ns), 0);
}

/* The entries point into the table, so what is faked of it stays where it is. */
static json_t *told(const struct qp_entry *qp)
{
	json_t *object = json_object();

	delays_forget_facts(world.daemon.delays);
	delays_put_qp(world.daemon.delays, qp, object);
	return object;
}

static json_int_t number(const json_t *object, const char *path1, const char *path2)
{
	const json_t *value = json_object_get(json_object_get(object, path1), path2);

	cr_assert(json_is_integer(value), "%s.%s", path1, path2);
	return json_integer_value(value);
}

Test(delays_report, what_is_measured_is_reported_and_what_is_not_is_absent)
{
	struct qp_entry *qp;
	json_t *object;

	open_world();
	qp = sender("10.0.0.2", 17, 50000);
	put(qp, 99, 5000);
	put(qp, 1, 250000);
	look();
	object = told(qp);
	cr_assert_str_eq(json_string_value(json_object_get(object, "peer")), "h2");
	cr_assert_eq(number(object, "owd_ns", "samples"), 100);
	cr_assert_eq(number(object, "owd_ns", "min"), 5000);
	cr_assert_eq(number(object, "owd_ns", "max"), 250000);
	cr_assert_eq(number(object, "owd_ns", "bound"), 400);
	cr_assert(llabs(number(object, "owd_ns", "p50") - 5000) <= 5000 / 32);
	cr_assert_eq(number(object, "owd_lifetime_ns", "samples"), 100);
	cr_assert_eq(number(object, "owd_lifetime_ns", "above_threshold"), 1);
	cr_assert_eq(number(object, "stack_ns", "max"), 7000);
	cr_assert_eq(json_integer_value(json_object_get(object, "owd_floor_ns")), 5000);
	cr_assert_eq(json_integer_value(json_object_get(object, "samples_sent")), 102);
	cr_assert_eq(json_integer_value(json_object_get(object, "receipts")), 100);
	cr_assert_eq(json_integer_value(json_object_get(object, "feedback_ns")), 20000);
	cr_assert_null(json_object_get(object, "host_queue_ns"));
	cr_assert_null(json_object_get(object, "messages_timed"));
	cr_assert_null(json_object_get(object, "owd_note"));
	json_decref(object);
	close_world();
}

/* Each cause alone, over a queue pair that lacks nothing else. */
Test(delays_report, why_there_is_no_delay)
{
	static const struct {
		const char *name, *words;
	} causes[] = {
		{"off", "kill switch"},
		{"rx", "measured by its sender"},
		{"ud", "UD"},
		{"acks", "acknowledgements alone"},
		{"switched", "`receipts.mode`"},
		{"tc", "no tc program"},
		{"nobody", "`members`"},
		{"stranger", "label `addresses`"},
		{"down", "h2 is down"},
		{"silent", "sent nothing"},
		{"clock", "no fabric time here"},
		{"untimed", "h2 has no fabric time"},
		{"unanswered", "h2 sent no receipt"},
		{"blind", "h2 is not known to answer"},
		{"few", "none of its packets was sampled"},
	};

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		const char *cause = causes[i].name;
		static struct esc_qp_owd owd;
		struct qp_entry *qp;
		const char *note;
		json_t *object;

		open_world();
#define IS(name) !strcmp(cause, name)
		qp = sender(IS("stranger") ? "10.7.7.7" : "10.0.0.2", 17, 50000);
		fake.off = IS("off");
		qp->key.direction = IS("rx") ? ESC_DIRECTION_RX : ESC_DIRECTION_TX;
		if (IS("ud"))
			qp->qp.transport = ESC_TRANSPORT_UD;
		if (IS("acks")) {
			qp->qp.payload_bytes = 0;
			qp->qp.acks = 10;
		}
		world.daemon.config->receipts.on = !IS("switched");
		if (IS("tc"))
			fake.ports[0].tc_via = ESC_TC_NONE;
		if (IS("nobody"))
			fleet_set(world.daemon.core.fleet, NULL, NULL);
		snprintf(fake.peers[0].host, sizeof(fake.peers[0].host), "h2");
		fake.peers[0].state = IS("down") ? PEER_DOWN : PEER_UP;
		fake.peer_count = 1;
		if (IS("silent"))
			qp->seen_local_ns = world.now_ns - 1500 * MS;
		if (IS("clock"))
			fake.clock.state = CLOCK_FREE_RUNNING;
		memset(&owd, 0, sizeof(owd));
		owd.samples_sent = IS("untimed") || IS("unanswered") ? 20 : 0;
		owd.receipts = IS("untimed") ? 20 : 0;
		owd.first_ktime_ns = owd.last_ktime_ns = IS("untimed") ? world.now_ns : 0;
		if (owd.samples_sent)
			bpf_map_update_elem(world.fd, &qp->key, &owd, BPF_ANY);
		if (IS("blind"))
			qp->qp.sample_flags = ESC_SAMPLE_NO_FEEDBACK;
#undef IS
		look();
		object = told(qp);
		note = json_string_value(json_object_get(object, "owd_note"));
		cr_assert(note && strstr(note, causes[i].words), "%s: %s", cause, note);
		cr_assert_null(json_object_get(object, "owd_ns"), "%s", cause);
		json_decref(object);
		fleet_set(world.daemon.core.fleet, NULL, world.members);
		close_world();
	}
}

/* h2 by two addresses; two to the first of them; h3 without samples. */
static void open_fleet(struct qp_entry *qps[4])
{
	open_world();
	qps[0] = sender("10.0.0.2", 1, 50000);
	qps[1] = sender("10.0.0.2", 2, 50001);
	qps[2] = sender("10.9.0.2", 3, 50000);
	qps[3] = sender("10.0.0.3", 4, 50000);
	qps[1]->loss_per_second = 3;
	put(qps[0], 70, 5000);
	put(qps[1], 20, 40000);
	put(qps[2], 10, 300000);
	look();
}

Test(delays_report, groups_by_peer)
{
	struct qp_entry *qps[4];
	struct delays_group *groups;
	size_t count;

	open_fleet(qps);
	cr_assert_eq(delays_group(world.daemon.delays, world.members, NULL, &groups, &count), 0);
	cr_assert_eq(count, 2);
	cr_assert_str_eq(groups[0].host, "h2");
	cr_assert_eq(groups[0].qps, 3);
	cr_assert_eq(groups[0].recent.samples, 100);
	cr_assert_eq(groups[0].recent.min_ns, 5000);
	cr_assert_eq(groups[0].recent.max_ns, 300000);
	cr_assert_float_eq(groups[0].recent.mean_ns, (70 * 5000 + 20 * 40000 + 10 * 300000) / 100.0,
			   1);
	cr_assert(llabs(groups[0].recent.p50_ns - 5000) <= 5000 / 32);
	cr_assert(llabs(groups[0].recent.p99_ns - 300000) <= 300000 / 32);
	cr_assert_eq(groups[0].counts.samples, 100);
	cr_assert_eq(groups[0].counts.over, 10);
	cr_assert_str_eq(groups[1].host, "h3");
	cr_assert_eq(groups[1].recent.samples, 0);
	free(groups);
	/* The hosts are not known: each address for itself. */
	cr_assert_eq(delays_group(world.daemon.delays, NULL, NULL, &groups, &count), 0);
	cr_assert_eq(count, 3);
	free(groups);
	close_world();
}

Test(delays_report, the_slowest_come_first)
{
	static const struct report_qp_filter all = {};
	struct qp_ranked *list;
	struct qp_entry *qps[4];
	size_t count;

	open_fleet(qps);
	list = report_qp_choose(&fake.table, &all, "delay", &count);
	cr_assert_eq(count, 4);
	cr_assert_eq(list[0].entry, qps[2]);
	cr_assert_eq(list[1].entry, qps[1]);
	cr_assert_eq(list[2].entry, qps[0]);
	cr_assert_eq(list[3].entry, qps[3], "those without delay are last");
	free(list);
	list = report_qp_choose(&fake.table, &all, "loss", &count);
	cr_assert_eq(list[0].entry, qps[1]);
	free(list);
	close_world();
}

Test(delays_report, peers_have_delays_of_queue_pairs_beside_the_mesh)
{
	struct qp_entry *qps[4];
	json_t *peers = json_loads("[{\"peer\":\"h2\",\"plane\":\"backend\"},"
				   "{\"peer\":\"h2\",\"plane\":\"frontend\"},"
				   "{\"peer\":\"h3\",\"plane\":\"backend\"}]",
				   0, NULL);

	open_fleet(qps);
	delays_put_peers(world.daemon.delays, peers);
	cr_assert_eq(number(json_array_get(peers, 0), "qp_owd_out_ns", "samples"), 100);
	cr_assert_eq(number(json_array_get(peers, 0), "qp_owd_out_ns", "bound"), 400);
	cr_assert_null(json_object_get(json_array_get(peers, 1), "qp_owd_out_ns"));
	cr_assert_null(json_object_get(json_array_get(peers, 2), "qp_owd_out_ns"));
	json_decref(peers);
	close_world();
}

/* --- metrics --- */

static char *metrics(uint32_t top_qps)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	world.daemon.config->textfile.top_qps = top_qps;
	delay_write_metrics(world.daemon.delays, out);
	fclose(out);
	return text;
}

static double value_of(const char *text, const char *series)
{
	const char *at = strstr(text, series);

	cr_assert(at, "no %s in\n%s", series, text);
	return strtod(at + strlen(series), NULL);
}

static size_t count_of(const char *text, const char *what)
{
	size_t count = 0;

	for (; (text = strstr(text, what)); text++)
		count++;
	return count;
}

#define QP3 "{netdev=\"eth1\",dest_qpn=\"3\",src=\"10.0.0.1\",dst=\"10.9.0.2\",peer=\"h2\""
#define H2 "{netdev=\"eth1\",peer=\"h2\",plane=\"backend\""

Test(delays_report, metrics_show_the_slowest_and_sum_up_all)
{
	struct qp_entry *qps[4];
	char *text;

	open_fleet(qps);
	text = metrics(1);
	cr_assert_float_eq(value_of(text, "escapement_qp_owd_max_seconds" QP3 "} "), 3e-4, 1e-9);
	cr_assert_float_eq(value_of(text, "escapement_qp_owd_error_bound_seconds" QP3 "} "), 4e-7,
			   1e-12);
	cr_assert_eq(value_of(text, "escapement_qp_owd_over_threshold_total" QP3 "} "), 10);
	cr_assert_eq(count_of(text, "\nescapement_qp_owd_p99_seconds{"), 1,
		     "one queue pair is shown");
	cr_assert_float_eq(value_of(text, "escapement_peer_qp_owd_max_seconds" H2 "} "), 3e-4,
			   1e-9);
	cr_assert_null(strstr(text, "peer=\"h3\""), "nothing was measured to it");
#define PORT "netdev=\"eth1\",plane=\"backend\""
	cr_assert_eq(value_of(text, "escapement_receipt_samples_sent_total{" PORT "} "), 103);
	cr_assert_eq(value_of(text, "escapement_receipts_matched_total{" PORT "} "), 100);
	cr_assert_eq(value_of(text, "escapement_receipts_untimed_total{" PORT "} "), 0);
	cr_assert_eq(value_of(text, "port_qp_owd_seconds_bucket{" PORT ",le=\"4.096e-06\"} "), 0);
	cr_assert_eq(value_of(text, "port_qp_owd_seconds_bucket{" PORT ",le=\"8.192e-06\"} "), 70);
	cr_assert_eq(value_of(text, "port_qp_owd_seconds_bucket{" PORT ",le=\"6.5536e-05\"} "), 90);
	cr_assert_eq(value_of(text, "port_qp_owd_seconds_bucket{" PORT ",le=\"+Inf\"} "), 100);
	cr_assert_eq(value_of(text, "port_qp_owd_seconds_count{" PORT "} "), 100);
	cr_assert_float_eq(value_of(text, "port_qp_owd_seconds_sum{" PORT "} "),
			   (70 * 5000 + 20 * 40000 + 10 * 300000) / 1e9, 1e-9);
	free(text);
	close_world();
}

Test(delays_report, a_written_burst_is_not_written_again)
{
	struct qp_entry *qps[4];
	char *text;

	open_fleet(qps);
	delays_written(world.daemon.delays);
	world.now_ns += 250 * MS;
	qps[0]->seen_local_ns = world.now_ns;
	put(qps[0], 5, 6000);
	look();
	text = metrics(32);
	cr_assert_eq(count_of(text, "\nescapement_qp_owd_p99_seconds{"), 1,
		     "the others had no sample since");
	cr_assert(value_of(text, "escapement_peer_qp_owd_max_seconds" H2 "} ") < 6.2e-6);
	cr_assert_eq(value_of(text, "escapement_port_qp_owd_over_threshold_total{" PORT "} "), 10,
		     "counters go on");
	free(text);
	close_world();
}

Test(delays_report, receipts_that_are_off_leave_no_series)
{
	char *text;

	open_world();
	world.daemon.config->receipts.on = false;
	look();
	text = metrics(32);
	cr_assert_eq(value_of(text, "\nescapement_receipts_enabled "), 0);
	cr_assert_null(strstr(text, "port_qp_owd_seconds"));
	cr_assert_null(strstr(text, "receipt_samples_sent"));
	free(text);
	close_world();
}
