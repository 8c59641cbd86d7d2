// SPDX-License-Identifier: BSD-2-Clause
/* Communicators as JSON, and the metrics. */
#include <string.h>

#include "base/json.h"
#include "internal.h"

#define RATE_MOST 1e6	/* bytes in a ns; no buffer is that fast */
#define METRIC_RANKS 16 /* in the metrics, with 4 series each */

#define NCCL_METRICS(X)                                                                            \
	X(NCCL_RANKS, "nccl_ranks", GAUGE,                                                         \
	  "Ranks of communicators whose processes run with libescapement-nccl.")                   \
	X(NCCL_COLLECTIVES, "nccl_collectives_total", COUNTER,                                     \
	  "Collectives that a rank started; of 16 ranks.")                                         \
	X(NCCL_NETWORK_BYTES, "nccl_network_bytes_total", COUNTER,                                 \
	  "Bytes that a rank's proxies sent, of what was recorded.")                               \
	X(NCCL_NETWORK, "nccl_network_seconds_total", COUNTER,                                     \
	  "Time in which a rank's sends had data in the network, over all channels.")              \
	X(NCCL_PEER, "nccl_peer_wait_seconds_total", COUNTER,                                      \
	  "Time in which they had data and waited for the peer.")                                  \
	X(NCCL_LOST, "nccl_lost_records_total", COUNTER,                                           \
	  "Records that were overwritten before they were read, or are of no valid values.")
enum { NCCL_METRICS(METRIC_ENUM) };
const struct metric nccl_metrics[] = {NCCL_METRICS(METRIC){}};

/* --- communicators --- */

static void put_share(json_t *object, const char *key, uint64_t ns, uint64_t of_ns)
{
	if (of_ns)
		json_put_real(object, key, (double)ns / (double)of_ns);
}

/* With the parts that are kept and not in the sum yet. */
static json_t *operation_json(const struct nccl_rank *rank, const struct nccl_operation *is)
{
	uint64_t whole_ns = is->network_ns + is->peer_ns + is->gpu_ns + is->idle_ns;
	uint64_t count = is->count, bytes = is->bytes, duration_ns = is->duration_ns;
	json_t *object = json_object();

	for (size_t i = 0; i < PARTS; i++) {
		const struct nccl_part *part = &rank->parts[i];

		if (!rank->states[i].updated_ns || !part->end_ns || strcmp(part->func, is->func) ||
		    strcmp(part->algo, is->algo) || strcmp(part->proto, is->proto))
			continue;
		count++;
		bytes += part->bytes;
		duration_ns += part->end_ns - part->begin_ns;
	}
	json_put_integer(object, "rank", rank->is.rank);
	json_put_name(object, "func", is->func);
	json_put_name(object, "algo", is->algo);
	json_put_name(object, "proto", is->proto);
	json_put_count(object, "count", count);
	if (count)
		json_put_count(object, "duration_ns", duration_ns / count);
	if (duration_ns && bytes && (double)bytes / (double)duration_ns < RATE_MOST)
		json_put_count(object, "throughput_bps",
			       (uint64_t)((double)bytes * 8e9 / (double)duration_ns));
	put_share(object, "network_share", is->network_ns, whole_ns);
	put_share(object, "peer_wait_share", is->peer_ns, whole_ns);
	put_share(object, "gpu_wait_share", is->gpu_ns, whole_ns);
	put_share(object, "data_wait_share", is->data_ns, is->receive_ns);
	return object;
}

static json_t *qp_json(const struct nccl_rank *rank, const struct nccl_qp *qp)
{
	json_t *object = json_object();

	json_put_integer(object, "rank", rank->is.rank);
	json_put_integer(object, "peer_rank", qp->peer);
	json_put_count(object, "qpn", qp->qpn);
	json_put_count(object, "operations", qp->operations);
	if (qp->bytes)
		json_put_count(object, "bytes", qp->bytes);
	if (qp->operations)
		json_put_count(object, "mean_ns", qp->ns / qp->operations);
	json_put_count(object, "slowest_ns", qp->slowest_ns);
	return object;
}

static const struct nccl_part *newest_part(const struct nccl_rank *rank)
{
	const struct nccl_part *newest = NULL;

	for (size_t i = 0; i < PARTS; i++)
		if (rank->states[i].updated_ns && rank->parts[i].hop_count &&
		    (!newest || rank->parts[i].begin_ns > newest->begin_ns))
			newest = &rank->parts[i];
	return newest;
}

/* Takes @list over; an empty one is left out. */
static void put_list(json_t *object, const char *key, json_t *list)
{
	if (json_array_size(list))
		json_put(object, key, list);
	else
		json_decref(list);
}

/* To which ranks its proxies send, and from which they receive: a ring has one of each. */
static void put_neighbors(json_t *object, const struct nccl_rank *rank)
{
	const struct nccl_part *part = newest_part(rank);
	json_t *next = json_array(), *previous = json_array();

	for (size_t i = 0; part && i < part->hop_count; i++)
		json_array_append_new(part->hops[i].is_send ? next : previous,
				      json_integer(part->hops[i].peer));
	put_list(object, "next", next);
	put_list(object, "previous", previous);
}

static json_t *rank_json(const struct nccl *nccl, const struct nccl_place *place)
{
	const struct nccl_rank *rank = place->rank;
	json_t *object = json_object();

	ibverbs_put_process(object, place->process);
	json_put_integer(object, "rank", rank->is.rank);
	json_put_text(object, "host", nccl->core ? nccl->core->config->host : NULL);
	json_put_count(object, "collectives", rank->is.collectives);
	json_put_count(object, "messages", rank->is.messages);
	json_put_count(object, "bytes", rank->is.bytes);
	if (rank->is.network_bytes)
		json_put_count(object, "network_bytes", rank->is.network_bytes);
	put_neighbors(object, rank);
	if (place->of->lost)
		json_put_count(object, "records_lost", place->of->lost);
	if (place->of->header.dropped)
		json_put_count(object, "events_dropped", place->of->header.dropped);
	if (place->of->header.foreign)
		json_put_count(object, "events_of_other_processes", place->of->header.foreign);
	return object;
}

static json_t *communicator_json(const struct nccl *nccl, const struct nccl_group *group)
{
	const struct nccl_verdict *verdict = nccl_group_verdict(group);
	json_t *object = json_object(), *ranks = json_array(), *recent = json_array();
	json_t *operations = json_array(), *qps = json_array();
	uint32_t size = 0, nodes = 0;
	char text[24];

	snprintf(text, sizeof(text), "%016llx", (unsigned long long)group->hash);
	json_put_text(object, "communicator", text);
	json_put_name(object, "name", group->name);
	for (size_t i = 0; i < nccl->place_count; i++) {
		const struct nccl_place *place = &nccl->places[i];

		if (nccl_find_group(nccl, place) != group)
			continue;
		size = place->rank->is.ranks;
		nodes = place->rank->is.nodes;
		json_array_append_new(ranks, rank_json(nccl, place));
		for (size_t o = 0; o < place->rank->operation_count; o++)
			json_array_append_new(
				operations,
				operation_json(place->rank, &place->rank->operations[o]));
		for (size_t q = 0; q < place->rank->qp_count; q++)
			json_array_append_new(qps, qp_json(place->rank, &place->rank->qps[q]));
		for (size_t p = 0; p < PARTS; p++)
			if (place->rank->states[p].updated_ns && place->rank->parts[p].end_ns)
				json_array_append_new(recent,
						      nccl_part_json(&place->rank->parts[p]));
	}
	if (size)
		json_put_count(object, "size", size);
	if (nodes)
		json_put_count(object, "nodes", nodes);
	json_put_count(object, "judged", group->judged);
	if (verdict)
		json_put(object, "verdict", nccl_verdict_json(verdict));
	put_list(object, "ranks", ranks);
	put_list(object, "operations", operations);
	put_list(object, "qps", qps);
	put_list(object, "recent", recent);
	return object;
}

json_t *nccl_job_communicators(struct nccl *nccl, nccl_of_fn *is_of, const char *id)
{
	json_t *list = json_array();

	for (size_t g = 0; g < nccl->group_count; g++) {
		bool shown = false;

		for (size_t i = 0; i < nccl->place_count && !shown; i++)
			shown = nccl_find_group(nccl, &nccl->places[i]) == &nccl->groups[g] &&
				is_of(ibverbs_job_of(nccl->places[i].process), id);
		if (shown)
			json_array_append_new(list, communicator_json(nccl, &nccl->groups[g]));
	}
	return list;
}

struct job_count {
	nccl_take_fn *take;
	void *context;
};

static void count_ranks(void *context, const struct process *process, void *own)
{
	const struct nccl_process *of = own;
	const struct job_count *to = context;
	size_t ranks = 0;

	for (size_t i = 0; i < NCCL_COMMS; i++)
		ranks += of->ranks[i] && of->ranks[i]->is.rank >= 0;
	to->take(to->context, ibverbs_job_of(process), ranks);
}

void nccl_each_job(const struct nccl *nccl, nccl_take_fn *take, void *context)
{
	struct job_count to = {take, context};

	ibverbs_each_own(nccl->verbs, count_ranks, &to);
}

/* --- metrics --- */

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
			return false;
	return true;
}

static void write_ranks(FILE *out, const struct nccl *nccl, unsigned int kind)
{
	struct prom_family *family = FAMILY_OF(&nccl_metrics[kind]);

	for (size_t i = 0; i < nccl->place_count && i < METRIC_RANKS; i++) {
		const struct job *job = ibverbs_job_of(nccl->places[i].process);
		const struct nccl_rank *rank = nccl->places[i].rank;
		/* Without a transfer by a proxy, as between GPUs of one host, nothing is known of
		 * it. */
		bool has_network = rank->is.network_bytes || rank->network_ns || rank->peer_ns;
		double value = kind == NCCL_COLLECTIVES	    ? (double)rank->is.collectives
			       : kind == NCCL_NETWORK_BYTES ? (double)rank->is.network_bytes
			       : kind == NCCL_NETWORK	    ? (double)rank->network_ns / 1e9
							    : (double)rank->peer_ns / 1e9;
		char hash[24], number[16], id[JOB_ID_BYTES];

		if (kind != NCCL_COLLECTIVES && !has_network)
			continue;
		snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)rank->is.hash);
		snprintf(number, sizeof(number), "%d", rank->is.rank);
		job_id_of(job, id);
		prom_value(family, value, "job_id", is_plain(id) ? id : "", "communicator", hash,
			   "rank", number, NULL);
	}
}

void nccl_write_metrics(void *self, FILE *out)
{
	static const unsigned int kinds[] = {NCCL_COLLECTIVES, NCCL_NETWORK_BYTES, NCCL_NETWORK,
					     NCCL_PEER};
	const struct nccl *nccl = self;
	uint64_t lost = 0;

	/* Few hosts have such processes, and the number of series is limited. */
	if (!nccl->place_count)
		return;
	for (size_t i = 0; i < nccl->place_count; i++)
		if (!i || nccl->places[i].of != nccl->places[i - 1].of)
			lost += nccl->places[i].of->lost;
	prom_count(FAMILY_OF(&nccl_metrics[NCCL_RANKS]), nccl->place_count, NULL);
	prom_count(FAMILY_OF(&nccl_metrics[NCCL_LOST]), lost, NULL);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		write_ranks(out, nccl, kinds[k]);
}
