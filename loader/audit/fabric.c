// SPDX-License-Identifier: BSD-2-Clause
/* All pairs of NICs of a rail, as the daemon's last run (pairs/) measured them from this host. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/units.h"
#include "internal.h"

static const json_t *pairs_of(const struct audit_run *run)
{
	return json_object_get(run->options->daemon, "pairs");
}

/* The RDMA port of a network device, or else the device. */
static const char *subject_of(struct audit_run *run, const char *interface)
{
	audit_for_each_nic(nic, run) if (!strcmp(nic->netdev, interface)) return nic->subject;
	return interface;
}

/* Adds what a merge needs to the entry that was made last. */
static void put_pairs(const struct audit_run *run, const json_t *nic, json_t *faulty)
{
	json_t *entry = json_array_get(run->results, json_array_size(run->results) - 1);

	json_put_text(entry, "address", json_text(nic, "address"));
	json_put_count(entry, "pairs_measured", json_count(nic, "measured"));
	if (json_array_size(faulty))
		json_object_set(entry, "pairs", faulty);
}

/* Those of one kind. */
static json_t *faulty_of(const json_t *nic, const char *fault)
{
	json_t *list = json_array();
	json_t *pair;
	size_t i;

	json_array_foreach (json_object_get(nic, "faulty"), i, pair)
		if (!strcmp(json_text(pair, "fault"), fault))
			json_array_append(list, pair);
	return list;
}

static void describe(const json_t *pair, const char *fault, char *out, size_t bytes)
{
	char most[UNITS_TEXT_BYTES], limit[UNITS_TEXT_BYTES], bound[UNITS_TEXT_BYTES];
	uint64_t there = json_count(pair, "owd_out_ns"), back = json_count(pair, "owd_in_ns");
	const char *peer = json_text(pair, "peer"), *to = json_text(pair, "to");

	units_delay(limit, (double)json_count(pair, "limit_ns"));
	units_delay(bound, (double)json_count(pair, "bound_ns"));
	if (!strcmp(fault, "silent"))
		snprintf(out, bytes, "%s %s%s", peer, to,
			 json_is_true(json_object_get(pair, "echo"))
				 ? ", which replies to ICMP: no escapementd there?"
				 : "");
	else if (!strcmp(fault, "loss"))
		snprintf(out, bytes, "%s %s lost %llu of %llu", peer, to,
			 (unsigned long long)json_count(pair, "lost"),
			 (unsigned long long)json_count(pair, "sent"));
	else if (!strcmp(fault, "mtu"))
		snprintf(out, bytes, "%s %s: none of %llu bytes", peer, to,
			 (unsigned long long)json_count(pair, "bytes"));
	else if (!strcmp(fault, "latency"))
		snprintf(out, bytes, "%s %s: %s +- %s of %s at most", peer, to,
			 units_delay(most, (double)(there > back ? there : back)), bound, limit);
	else
		snprintf(out, bytes, "%s %s: %lld ns more there than back, +- %s", peer, to,
			 (long long)(there - back), bound);
}

static bool is_of_delays(const char *fault)
{
	return !strcmp(fault, "latency") || !strcmp(fault, "asymmetry");
}

/* Pairs with delays that enough others are as near as. */
static uint64_t count_judged(const json_t *nic)
{
	const json_t *class;
	uint64_t judged = 0;
	size_t i;

	json_array_foreach (json_object_get(nic, "classes"), i, class)
		if (json_is_true(json_object_get(class, "judged")))
			judged += json_count(class, "pairs");
	return judged;
}

/* What is missing to judge @fault of all pairs of a NIC; NULL: nothing. */
static const char *why_unknown(const json_t *nic, const char *fault)
{
	if (json_count(nic, "measured") < json_count(nic, "pairs"))
		return "not all pairs were measured";
	if (!json_count(nic, "measured"))
		return "there is no other NIC on the rail";
	if (!strcmp(fault, "mtu") && !json_count(nic, "small_replied"))
		return "no peer replies to ICMP echo requests";
	if (!is_of_delays(fault))
		return NULL;
	if (json_count(nic, "used"))
		return "delays of pairs that queue pairs use are in `escapement paths`";
	return count_judged(nic) ? NULL : "fewer than 3 pairs of a class have delays";
}

static void judge_nic(struct audit_run *run, const json_t *nic, const char *fault)
{
	const json_t *counts = json_object_get(nic, "faults");
	const char *subject = subject_of(run, json_text(nic, "interface"));
	unsigned long long count = json_count(counts, fault), all = json_count(nic, "measured");
	const char *why = why_unknown(nic, fault);
	json_t *faulty = faulty_of(nic, fault);
	char text[160] = "";

	if (json_array_size(faulty))
		describe(json_array_get(faulty, 0), fault, text, sizeof(text));
	if (strcmp(fault, "silent") && all && json_count(counts, "silent") == all)
		audit_skip(run, subject, "fabric.pairs failed");
	else if (count)
		audit_fail(run, subject, "%llu of %llu pairs: %s%s", count, all, text,
			   count > 1 ? ", ..." : "");
	else if (why)
		audit_unknown(run, subject, "%s", why);
	else if (is_of_delays(fault))
		audit_pass(run, subject, "%llu of %llu pairs judged",
			   (unsigned long long)count_judged(nic), all);
	else
		audit_pass(run, subject, "%llu pairs", all);
	put_pairs(run, nic, faulty);
	json_decref(faulty);
}

static void judge(struct audit_run *run, const char *fault)
{
	const json_t *nics = json_object_get(pairs_of(run), "nics"), *nic;
	size_t i;

	if (!pairs_of(run))
		audit_unknown(run, "", "no escapementd replies");
	else if (strcmp(json_text(pairs_of(run), "state"), "completed"))
		audit_unknown(run, "", "no run is completed: `escapement audit --fleet`");
	else if (!json_array_size(nics))
		audit_unknown(run, "", "no NIC of this host is a member");
	else
		json_array_foreach (nics, i, nic)
			judge_nic(run, nic, fault);
}

static void silent(struct audit_run *run)
{
	judge(run, "silent");
}

static void loss(struct audit_run *run)
{
	judge(run, "loss");
}

static void full_size(struct audit_run *run)
{
	judge(run, "mtu");
}

static void latency(struct audit_run *run)
{
	judge(run, "latency");
}

static void asymmetry(struct audit_run *run)
{
	judge(run, "asymmetry");
}

/* The load of the NIC that had the most. */
void audit_put_pairs(json_t *report, const struct audit_run *run)
{
	const json_t *pairs = pairs_of(run), *nic;
	uint64_t most = 0;
	json_t *object;
	size_t i;

	if (!json_count(pairs, "rounds"))
		return;
	object =
		json_pack("{s:I, s:I, s:I, s:f}", "run_ns", (json_int_t)json_count(pairs, "run_ns"),
			  "round_ns", (json_int_t)json_count(pairs, "round_ns"), "rounds",
			  (json_int_t)json_count(pairs, "rounds"), "takes_s",
			  json_number_value(json_object_get(pairs, "takes_s")));
	json_array_foreach (json_object_get(pairs, "nics"), i, nic) {
		if (json_count(nic, "budget_bytes_per_second") < most)
			continue;
		most = json_count(nic, "budget_bytes_per_second");
		json_put_real(object, "budget_pps",
			      json_number_value(json_object_get(nic, "budget_pps")));
		json_put_count(object, "budget_bytes_per_second", most);
	}
	json_put(report, "pairs", object);
}

/* clang-format off: a table */

#define FABRIC .group = AUDIT_FABRIC, .source = "escapement pairs", .run

const struct audit_check audit_fabric_checks[] = {
	{"fabric.pairs", FABRIC = silent, .name = "replies of all NICs of the rail",
	 .criterion = "each replies to some of 100 probes",
	 .remedy = "check link, address and route of the NIC that is named, and its escapementd",
	 .unknown = "there was no run, or it did not measure all pairs", .severity = "critical"},
	{"fabric.loss", FABRIC = loss, .name = "loss of each pair",
	 .criterion = "0 of 100 probes on as many source ports",
	 .remedy = "see FEC and CRC counters of the NIC that is named and of its switch port; "
		   "clean or replace cable and module",
	 .unknown = "there was no run, or it did not measure all pairs", .severity = "critical"},
	{"fabric.mtu", FABRIC = full_size, .name = "packets of the interface's MTU",
	 .criterion = "one of three that must not be fragmented is replied to",
	 .remedy = "compare the MTU of both NICs and of the switch ports between them",
	 .unknown = "no peer replies to ICMP echo requests, or there was no run",
	 .severity = "critical"},
	{"fabric.latency", FABRIC = latency, .name = "least one-way delay of each pair",
	 .criterion = "the median of pairs as near, and 3 deviations by the MAD or a quarter more, "
		      "and the error bound",
	 .remedy = "compare speed, FEC and cable of the NIC that is named; then the route to it",
	 .unknown = "fewer than 3 pairs are as near, queue pairs use some, or there was no run",
	 .severity = "warning"},
	{"fabric.asymmetry", FABRIC = asymmetry, .name = "difference of both directions",
	 .criterion = "as usual among pairs as near, or less than twice the error bound",
	 .remedy = "compare routes and loss of both directions: `escapement paths PEER`",
	 .unknown = "fewer than 3 pairs are as near, queue pairs use some, or there was no run",
	 .severity = "warning"},
	{},
};
