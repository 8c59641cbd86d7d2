// SPDX-License-Identifier: BSD-2-Clause
/* Sums by job against those of all packets, over random lives of queue pairs; the timeline. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "job/internal.h"
#include "qp/internal.h"

static struct jobs jobs;
static struct qptable table;
static uint64_t all_packets;

static struct owner owner_of(unsigned int job, uint32_t qpn, uint64_t first_ns)
{
	struct owner owner = {.key = {1, qpn}, .is = {.first_local_ns = first_ns}};
	char path[96];

	snprintf(path, sizeof(path), "/system.slice/slurmstepd.scope/job_%u/step_%u", job, qpn % 3);
	job_of_path(path, &owner.job);
	return owner;
}

Test(jobs, ids)
{
	static const struct {
		const char *path, *id;
	} cases[] = {
		{"/system.slice/slurmstepd.scope/job_12/step_0/user/task_0", "job_12"},
		{"/kubepods/besteffort/pod8d2d37a1-6d4c-4e5e-9c3b-0f6a1b2c3d4e",
		 "pod_8d2d37a1-6d4c-4e5e-9c3b-0f6a1b2c3d4e"},
		{"/system.slice/nccl.service", "nccl.service"},
		{"/training/run7", "/training/run7"},
		{"/", ""},
	};
	char id[JOB_ID_BYTES];
	struct job job;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		job_of_path(cases[i].path, &job);
		cr_expect_str_eq(job_id_of(&job, id), cases[i].id);
	}
	cr_expect(job_id_matches("job_12", "12"));
	cr_expect(job_id_matches("job_12", "job_12/step_0"));
	cr_expect_not(job_id_matches("job_12", "1"));
	cr_expect_not(job_id_matches("/training/run7", "/training"));
}

/* 64 queue pairs of 4 jobs send, get their owner late, end and begin again under another job. */
Test(jobs, sums_equal_the_packets)
{
	unsigned int seed = (unsigned int)time(NULL);
	struct qp_entry entries[64] = {};
	struct owner owners[64];
	uint64_t by_job[5] = {}, now = 1000, sum = 0, none;
	struct job_counts counts[2];
	size_t qps;

	cr_log_info("seed %u", seed);
	jobs = (struct jobs){.table = &table};
	table.entries = entries;
	table.count = 64;
	for (unsigned int i = 0; i < 64; i++)
		owners[i] = owner_of(1 + i % 4, i, 1);
	for (int round = 0; round < 5000; round++) {
		unsigned int i = (unsigned int)rand_r(&seed) % 64, job = 1 + i % 4;
		struct qp_entry *entry = &entries[i];

		now++;
		if (!entry->qp.packets)
			entry->qp.first_local_ns = now;
		entry->qp.packets += (unsigned int)rand_r(&seed) % 100;
		if (rand_r(&seed) % 3)
			jobs_take(&jobs, entry, rand_r(&seed) % 2 ? &owners[i] : NULL);
		if (rand_r(&seed) % 20)
			continue;
		/* It ends: what was counted is its job's, if that was ever known. */
		by_job[entry->job ? job : 0] += entry->qp.packets;
		jobs_end(&jobs, entry);
		cr_assert_null(entry->job);
		entry->qp.packets = 0;
	}
	for (unsigned int i = 0; i < 64; i++) {
		jobs_take(&jobs, &entries[i], NULL);
		by_job[entries[i].job ? 1 + i % 4 : 0] += entries[i].qp.packets;
	}
	cr_assert_eq(jobs.count, 4);
	for (size_t j = 0; j < 4; j++) {
		unsigned int number = (unsigned int)atoi(jobs.list[j]->id + 4);

		cr_expect_eq(jobs.list[j]->counts[0].packets, by_job[number], "seed %u, %s", seed,
			     jobs.list[j]->id);
		sum += jobs.list[j]->counts[0].packets;
	}
	jobs_sum_none(&jobs, counts, &qps);
	none = counts[0].packets;
	cr_expect_eq(none, by_job[0], "seed %u", seed);
	for (size_t j = 0; j < 5; j++)
		all_packets += by_job[j];
	cr_expect_eq(sum + none, all_packets, "seed %u", seed);
}

/* A number that another job gets: the next packets are its own. */
Test(jobs, a_new_owner)
{
	struct qp_entry entry = {.qp = {.packets = 10, .first_local_ns = 5}};
	struct owner first = owner_of(1, 7, 2), second = owner_of(2, 7, 9);

	jobs = (struct jobs){.table = &table};
	jobs_take(&jobs, &entry, &first);
	entry.qp.packets = 15;
	jobs_take(&jobs, &entry, &second);
	entry.qp.packets = 18;
	jobs_end(&jobs, &entry);
	cr_assert_eq(jobs.count, 2);
	cr_expect_eq(jobs.list[0]->counts[0].packets, 15);
	cr_expect_eq(jobs.list[1]->counts[0].packets, 3);
	cr_expect_eq(jobs.list[0]->qps + jobs.list[1]->qps, 0);
}

/* What processes count is a sum of its own, and keeps its job from making room while it has rows.
 */
Test(jobs, processes)
{
	struct owner owner = owner_of(1, 7, 2), none = {};
	struct ibverbs_growth grown = {.messages = 3, .bytes = 30, .received = 2, .errors = 1};

	jobs = (struct jobs){.table = &table, .polled_ns = 77};
	jobs_take_process(&jobs, &none.job, &grown, 1);
	jobs_take_process(&jobs, &owner.job, &(struct ibverbs_growth){}, 0);
	cr_expect_eq(jobs.count, 0, "of no job, and nothing");
	jobs_take_process(&jobs, &owner.job, &grown, 2);
	jobs_take_process(&jobs, &owner.job, &grown, 1);
	cr_assert_eq(jobs.count, 1);
	cr_expect_eq(jobs.list[0]->verbs.messages, 6);
	cr_expect_eq(jobs.list[0]->verbs.bytes, 60);
	cr_expect_eq(jobs.list[0]->verbs.received, 4);
	cr_expect_eq(jobs.list[0]->verbs.errors, 2);
	cr_expect_eq(jobs.list[0]->verbs_qps, 3);
	cr_expect_eq(jobs.list[0]->last_local_ns, 77);
	cr_expect_eq(jobs.list[0]->counts[0].messages, 0);
}

Test(jobs, more_jobs_than_room)
{
	struct qp_entry entries[JOBS_MAX + 2] = {};

	jobs = (struct jobs){.table = &table};
	for (uint32_t i = 0; i < JOBS_MAX + 2; i++) {
		struct owner owner = owner_of(i, i, 1);

		entries[i].qp = (struct esc_qp){.packets = 1, .first_local_ns = 2};
		jobs_take(&jobs, &entries[i], &owner);
	}
	cr_expect_eq(jobs.left_out, 2, "all have queue pairs");
	jobs_end(&jobs, &entries[3]);
	for (uint32_t i = JOBS_MAX; i < JOBS_MAX + 2; i++) {
		struct owner owner = owner_of(i, i, 1);

		jobs_take(&jobs, &entries[i], &owner);
	}
	cr_expect_eq(jobs.count, JOBS_MAX);
	cr_expect_eq(jobs.dropped, 1);
	cr_expect_null(jobs_find(&jobs, "job_3"));
	cr_expect_not_null(jobs_find(&jobs, "256"));
	cr_expect_eq(jobs.none[0].packets, 1);
}

#define QP(key, host, direction, sent, acked, after, before, bound)                                \
	"{\"key\":\"" key "\",\"host\":\"" host "\",\"direction\":\"" direction                    \
	"\",\"request_psn\":" sent acked ",\"job_id\":\"job_1\",\"progress\":{\"ago_ms\":5000,"    \
	"\"after_fabric_ns\":" after ",\"before_fabric_ns\":" before ",\"bound_ns\":" bound "}}"
#define ACKED(psn) ",\"acked_psn\":" psn

static json_t *timeline(const char *text)
{
	json_t *qps = json_loads(text, 0, NULL), *result;

	cr_assert_not_null(qps, "%s", text);
	result = job_timeline(qps, JOB_QUIET_NS);
	json_decref(qps);
	return result;
}

Test(jobs, timeline_names_the_first_or_none)
{
	json_t *result =
		timeline("[" QP("b", "h1", "tx", "9", ACKED("9"), "500", "600", "10") "," QP(
			"a", "h2", "tx", "9", ACKED("5"), "300", "400",
			"10") "," QP("a", "h3", "rx", "7", "", "100", "200", "10") "]");
	json_t *first = json_object_get(result, "first"), *second;

	cr_expect_str_eq(json_text(first, "key"), "a");
	cr_expect_str_eq(json_text(first, "host"), "h2", "where its requests are sent");
	cr_expect_str_eq(json_text(first, "cause"), "fabric", "h3 lacks two packets");
	cr_expect_eq(json_count(first, "unacknowledged_packets"), 4);
	second = json_array_get(json_object_get(result, "stopped"), 1);
	cr_expect_str_eq(json_text(second, "cause"), "local", "nothing was outstanding");
	json_decref(result);
	/* 419 and 490 with their bounds touch: neither is the first. */
	result = timeline("[" QP("b", "h1", "tx", "9", "", "430", "600",
				 "10") "," QP("a", "h2", "tx", "9", "", "300", "410", "10") "]");
	cr_expect_null(json_object_get(result, "first"));
	cr_expect_eq(json_count(result, "not_ordered"), 2);
	json_decref(result);
	result = timeline("[" QP("b", "h1", "tx", "9", "", "431", "600",
				 "10") "," QP("a", "h2", "tx", "9", "", "300", "410", "10") "]");
	cr_expect_str_eq(json_text(json_object_get(result, "first"), "key"), "a");
	json_decref(result);
	result = timeline("[]");
	cr_expect_null(json_object_get(result, "first"));
	json_decref(result);
}

#define VERBS_QP(key, host, direction, counts, before)                                             \
	"{\"key\":\"" key "\",\"host\":\"" host "\",\"direction\":\"" direction                    \
	"\",\"source\":\"verbs\",\"job_id\":\"job_1\",\"rank\":\"3\",\"verbs\":{" counts           \
	"},\"progress\":{\"ago_ms\":5000,\"after_fabric_ns\":" before                              \
	"00,\"before_fabric_ns\":" before "50,\"bound_ns\":10}}"

#define DONE "\"signaled\":9,\"completed\":9"
#define WAITS(polls)                                                                               \
	"\"signaled\":9,\"completed\":7,\"pending\":{\"operations\":2,\"polls\":" polls "}"

/* What the kernel programs do not see is ordered with what they see. */
Test(jobs, timeline_has_what_processes_count)
{
	static const char *const causes[] = {"remote or fabric", "local", "", "", "local"};
	/* clang-format off */
	json_t *result = timeline("["
		VERBS_QP("a", "h1", "tx", WAITS("true"), "1") ","
		VERBS_QP("a", "h2", "rx", "", "9") ","
		VERBS_QP("b", "h1", "tx", DONE, "2") ","
		VERBS_QP("c", "h1", "tx", WAITS("false"), "3") ","
		VERBS_QP("d", "h1", "tx", DONE ",\"errors\":{\"flushed\":1}", "4") ","
		QP("e", "h3", "tx", "9", ACKED("9"), "500", "600", "10") ","
		"{\"key\":\"f\",\"source\":\"verbs\",\"direction\":\"tx\"}]");
	/* clang-format on */
	json_t *first = json_object_get(result, "first"), *one;
	size_t i;

	cr_expect_str_eq(json_text(first, "key"), "a");
	cr_expect_str_eq(json_text(first, "host"), "h1");
	cr_expect_str_eq(json_text(first, "rank"), "3");
	cr_expect_eq(json_count(first, "operations"), 2);
	cr_expect_null(json_object_get(first, "unacknowledged_packets"));
	cr_assert_eq(json_array_size(json_object_get(result, "stopped")), 5);
	json_array_foreach (json_object_get(result, "stopped"), i, one)
		cr_expect_str_eq(json_text(one, "cause"), causes[i], "%s", json_text(one, "key"));
	cr_expect_eq(json_count(result, "untimed"), 1, "f");
	json_decref(result);
}

/* Files of two hosts: rows that are not connected have no key, and are their own job's alone. */
Test(jobs, files_of_two_hosts_with_processes)
{
	/* clang-format off */
	static const char *const texts[] = {
		"{\"host\":\"h1\",\"job_id\":\"job_1\",\"verbs\":{\"tx\":{\"bytes\":5},\"errors\":1},\"qps\":["
		VERBS_QP("a", "h1", "tx", DONE, "1") ","
		"{\"source\":\"verbs\",\"direction\":\"tx\",\"job_id\":\"job_1\"},"
		"{\"source\":\"verbs\",\"direction\":\"tx\",\"job_id\":\"job_2\"}]}",
		"{\"host\":\"h2\",\"job_id\":\"job_1\",\"verbs\":{\"tx\":{\"bytes\":7},\"errors\":0},\"qps\":["
		"{\"key\":\"a\",\"source\":\"verbs\",\"direction\":\"rx\",\"job_id\":\"job_9\"}]}"};
	/* clang-format on */
	char paths[2][32], *error = NULL;
	json_t *args, *result, *verbs;
	int code;

	for (int i = 0; i < 2; i++) {
		int fd;

		strcpy(paths[i], "/tmp/test_jobs.XXXXXX");
		fd = mkstemp(paths[i]);
		cr_assert_geq(fd, 0);
		cr_assert_gt(write(fd, texts[i], strlen(texts[i])), 0);
		close(fd);
	}
	args = json_pack("{s:s, s:[s,s]}", "id", "1", "from", paths[0], paths[1]);
	result = job_run_files(args, &code, &error);
	cr_assert_not_null(result, "%s", error);
	cr_expect_eq(json_array_size(json_object_get(result, "qps")), 3);
	verbs = json_object_get(result, "verbs");
	cr_expect_eq(json_count(json_object_get(verbs, "tx"), "bytes"), 12);
	cr_expect_eq(json_count(verbs, "errors"), 1);
	cr_expect_null(json_object_get(result, "tx"), "of packets nothing is known");
	json_decref(result);
	json_object_set_new(args, "view", json_string("timeline"));
	result = job_run_files(args, &code, &error);
	cr_assert_not_null(result, "%s", error);
	cr_expect_str_eq(json_text(json_object_get(result, "first"), "key"), "a");
	cr_expect_eq(json_count(result, "qp_count"), 1);
	json_decref(result);
	json_decref(args);
	for (int i = 0; i < 2; i++)
		unlink(paths[i]);
}
