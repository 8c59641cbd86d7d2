// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/consensus.h"

#include <math.h>
#include <string.h>

#define MS 1000000LL
/* Of a good neighbour's deviation, or what the edge's fit says of itself: 6e-7 of the honest. */
#define GATE_SCALES 5.0
#define SCALE_MIN_NS 3.0
#define SCALE_START_NS 100.0
#define SCALE_MIN_PPB 3.0
#define SCALE_START_PPB 200.0
#define MODELS_SIGMA_PPB                                                                           \
	20.0 /* an offset is carried by the models' drift where the fit's is worse */
#define RAN_OFF_GATES 4.0
#define RAN_OFF_SURPRISES 2.0
#define SIGMA_LEAST_NS 0.2
#define SCALE_RISE 1.25 /* a round: liars cannot widen the gate at once */
#define SCALE_FALL 0.9
#define SURPRISE_START_NS 200.0
#define RESIDUAL_FADE 0.9
#define SURPRISE_FADE 0.95
/* The first guesses are no observations: they fade faster. */
#define FADE_FIRST 0.8
#define ROUNDS_FIRST 40
#define VIEW_STALE_NS (1500 * MS)
#define EDGE_STALE_NS (4000 * MS)
#define SETTLE_ROUNDS 6
#define YIELD_ROUNDS 3
#define REACH_SAFE 0.6 /* who has more of the members listens to nobody else */
#define REACH_MARGIN 0.08
#define REACH_WHOLE 0.6	     /* two halves are both wrong until they meet */
#define BLEND_WANDER_PPB 4.0 /* what a second's wander does to the models' own drift */
#define PRIOR_SPAN_MIN_PPB 200.0
#define PRIOR_SPAN_SCALES 20.0

/* A neighbour's word, as differences from our own line (or from the first's). */
struct word {
	size_t slot;
	double offset, drift, sigma, drift_sigma, weight, drift_weight, reach, age_s;
	bool in;
};

struct words {
	struct word at[CONSENSUS_PEERS_MAX];
	size_t count;
	struct clock_line base; /* offsets and drifts are against it */
};

void consensus_init(struct consensus *consensus, unsigned degree, int64_t now_ns)
{
	memset(consensus, 0, sizeof(*consensus));
	consensus->degree = degree;
	consensus->first_round_ns = now_ns;
	consensus->scale_ns = SCALE_START_NS;
	consensus->scale_ppb = SCALE_START_PPB;
	consensus->surprise_ns = SURPRISE_START_NS;
	consensus->jolt_ns = SURPRISE_START_NS;
	consensus->residual_ns = SCALE_START_NS;
}

void consensus_peer_init(struct consensus *consensus, size_t slot)
{
	memset(&consensus->peers[slot], 0, sizeof(consensus->peers[slot]));
}

void consensus_found(struct consensus *consensus, int64_t now_ns)
{
	consensus->line = (struct clock_line){.local_ns = now_ns, .fabric_ns = now_ns};
	consensus->has_line = true;
	consensus->generation++;
}

int64_t consensus_found_wait(size_t rank)
{
	size_t steps = rank < 16 ? rank : 16;

	return (int64_t)(rank ? 1000 + 500 * steps : 500) * MS;
}

static double compose_ppb(double a, double b)
{
	return a + b + a * b * 1e-9;
}

/* Local time to the neighbour's clock by the edge, then to fabric time by its line. */
static struct clock_line line_through(const struct clock_line *theirs,
				      const struct edge_estimate *edge, double drift_ppb,
				      int64_t now_ns)
{
	double ahead = (double)ns_sub(now_ns, edge->local_ns) * drift_ppb * 1e-9;
	double fraction = edge->offset_fraction_ns + ahead, rest;
	int64_t remote = ns_add(ns_add(now_ns, edge->offset_ns), (int64_t)floor(fraction));
	struct clock_line line = {.local_ns = now_ns};

	fraction -= floor(fraction);
	line.fabric_ns = clock_line_at(theirs, remote, &rest);
	line.fraction_ns = rest + fraction * (1 + theirs->rate_ppb * 1e-9);
	line.rate_ppb = compose_ppb(theirs->rate_ppb, drift_ppb);
	return line;
}

/*
 * The drift to carry an edge's offset to now: the fit's own and the models',
 * each by its variance. The models lag behind, the fit is noisy under load.
 */
static double drift_blend(const struct consensus *consensus, const struct clock_line *theirs,
			  const struct edge_estimate *edge)
{
	double models, fit = edge->drift_sigma_ppb * edge->drift_sigma_ppb;
	double lag =
		BLEND_WANDER_PPB * BLEND_WANDER_PPB + consensus->scale_ppb * consensus->scale_ppb;

	if (!consensus->settled)
		return edge->drift_ppb;
	models = (consensus->line.rate_ppb - theirs->rate_ppb) / (1 + theirs->rate_ppb * 1e-9);
	return (edge->drift_ppb * lag + models * fit) / (lag + fit);
}

static bool usable(const struct consensus_input *input, int64_t now_ns)
{
	return input->edge && input->edge->valid && input->view &&
	       input->view_age_ns <= VIEW_STALE_NS && input->view_age_ns >= 0 &&
	       ns_sub(now_ns, input->edge->local_ns) <= EDGE_STALE_NS;
}

static void word_weigh(struct word *word, const struct edge_estimate *edge, double carried_s,
		       const struct consensus *consensus)
{
	double own = consensus->settled ? consensus->scale_ns : 0;
	double own_ppb = consensus->settled ? consensus->scale_ppb : SCALE_MIN_PPB;
	double carry = carried_s * fmin(edge->drift_sigma_ppb,
					consensus->settled ? MODELS_SIGMA_PPB : INFINITY);

	word->age_s = carried_s;
	word->sigma = hypot(edge->offset_sigma_ns, carry);
	word->drift_sigma = edge->drift_sigma_ppb;
	own = fmax(own, SCALE_MIN_NS);
	word->weight = 1 / (own * own + word->sigma * word->sigma);
	word->drift_weight = 1 / (own_ppb * own_ppb + word->drift_sigma * word->drift_sigma);
}

static void gather(struct consensus *consensus, int64_t now_ns, const struct consensus_input *input,
		   size_t count, struct words *words)
{
	bool based = consensus->has_line;

	words->count = 0;
	if (based)
		words->base = clock_line_move(&consensus->line, now_ns, 0);
	for (size_t i = 0; i < count; i++) {
		struct word *word = &words->at[words->count];
		const struct edge_estimate *edge = input[i].edge;
		struct clock_line theirs, through;

		consensus->peers[i].verdict = CONSENSUS_ABSENT;
		if (!usable(&input[i], now_ns) || !clock_view_get(input[i].view, &theirs))
			continue;
		through =
			line_through(&theirs, edge, drift_blend(consensus, &theirs, edge), now_ns);
		if (!based)
			words->base = through;
		based = true;
		word->slot = i;
		word->offset = clock_line_gap(&through, &words->base, now_ns);
		word->drift = compose_ppb(theirs.rate_ppb, edge->drift_ppb) - words->base.rate_ppb;
		word->reach = input[i].view->reach / (double)CLOCK_REACH_ONE;
		word->in = false;
		word_weigh(word, edge, (double)ns_sub(now_ns, edge->local_ns) * 1e-9, consensus);
		consensus->peers[i].offset_ns = word->offset;
		consensus->peers[i].drift_ppb = word->drift;
		words->count++;
	}
}

static bool agrees(const struct consensus *consensus, const struct word *word, double centre)
{
	return fabs(word->offset - centre) <= GATE_SCALES * fmax(consensus->scale_ns, word->sigma);
}

static unsigned support(const struct consensus *consensus, const struct words *words, double centre)
{
	unsigned count = 0;

	for (size_t i = 0; i < words->count; i++)
		count += agrees(consensus, &words->at[i], centre);
	return count;
}

/* How many must agree before a value counts: three, less only where there are not three. */
static unsigned quorum(const struct words *words)
{
	unsigned quarter = (unsigned)(words->count + 3) / 4;
	unsigned half = (unsigned)(words->count + 1) / 2;

	return quarter > 3 ? quarter : half < 3 ? half : 3;
}

/* The word with most support outside the gate around @apart (or anywhere when NULL). */
static const struct word *most_supported(const struct consensus *consensus,
					 const struct words *words, const double *apart,
					 unsigned *votes)
{
	const struct word *best = NULL;

	*votes = 0;
	for (size_t i = 0; i < words->count; i++) {
		const struct word *word = &words->at[i];
		unsigned here;

		if (apart && agrees(consensus, word, *apart))
			continue;
		here = support(consensus, words, word->offset);
		if (here > *votes || (best && here == *votes && word->sigma < best->sigma)) {
			*votes = here;
			best = word;
		}
	}
	return best;
}

static double median_of(double *v, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		double moved = v[i];
		size_t j = i;

		for (; j && v[j - 1] > moved; j--)
			v[j] = v[j - 1];
		v[j] = moved;
	}
	return count % 2 ? v[count / 2] : (v[count / 2 - 1] + v[count / 2]) / 2;
}

static double group_reach(const struct consensus *consensus, const struct words *words,
			  double centre)
{
	double reach[CONSENSUS_PEERS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < words->count; i++)
		if (agrees(consensus, &words->at[i], centre))
			reach[count++] = words->at[i].reach;
	return count ? median_of(reach, count) : 0;
}

/* Does a group elsewhere have the better claim to be the fabric's time? */
static bool must_yield(struct consensus *consensus, const struct words *words, double *centre)
{
	const double here = 0;
	const struct word *other;
	double reach;
	unsigned votes;
	bool better;

	if (consensus->reach >= REACH_SAFE)
		return false;
	other = most_supported(consensus, words, &here, &votes);
	if (!other || votes < quorum(words))
		return false;
	reach = group_reach(consensus, words, other->offset);
	better = reach > consensus->reach + REACH_MARGIN ||
		 (reach > consensus->reach - REACH_MARGIN && other->offset > 0);
	consensus->yielding = better ? consensus->yielding + 1 : 0;
	if (consensus->yielding < YIELD_ROUNDS)
		return false;
	*centre = other->offset;
	return true;
}

/*
 * Our own clock may have run off: when two thirds of the neighbours are together, and
 * not farther than our own clock has lately surprised us, it was not they who moved.
 */
static bool ran_off(const struct consensus *consensus, const struct words *words,
		    const struct word *best, unsigned votes)
{
	double near = RAN_OFF_GATES * GATE_SCALES * consensus->scale_ns +
		      RAN_OFF_SURPRISES * consensus->surprise_ns;

	return best && 3 * votes >= 2 * words->count && fabs(best->offset) <= near;
}

/* Where the gate stands this round; false: nobody to follow. */
static bool choose_centre(struct consensus *consensus, const struct words *words, double *centre,
			  bool *moved)
{
	const struct word *best;
	unsigned own = consensus->has_line ? support(consensus, words, 0) : 0, votes;

	*centre = 0;
	*moved = false;
	if (!words->count)
		return false;
	best = most_supported(consensus, words, NULL, &votes);
	if (consensus->settled && own >= quorum(words)) {
		if (2 * own < words->count && ran_off(consensus, words, best, votes))
			*centre = best->offset;
		else
			*moved = must_yield(consensus, words, centre);
		return true;
	}
	if (consensus->has_line && (votes <= own || votes < quorum(words)))
		return own > 0;
	*centre = best->offset;
	*moved = !agrees(consensus, best, 0) &&
		 !(consensus->settled && ran_off(consensus, words, best, votes));
	return true;
}

/* Weighted mean of the drifts inside the drift gate, around the incumbent or the median. */
static double mean_drift(struct consensus *consensus, struct words *words, bool incumbent)
{
	size_t near = 0;

	double drift[CONSENSUS_PEERS_MAX], centre = 0, sum = 0, weights = 0, own = 0, gate;
	size_t count = 0;

	for (size_t i = 0; i < words->count; i++)
		if (words->at[i].in)
			drift[count++] = words->at[i].drift;
	gate = GATE_SCALES * consensus->scale_ppb;
	for (size_t i = 0; i < count; i++)
		near += fabs(drift[i]) <= gate;
	if (!incumbent || 2 * near < count)
		centre = median_of(drift, count);
	for (size_t i = 0; i < words->count; i++) {
		struct word *word = &words->at[i];

		if (!word->in)
			continue;
		if (fabs(word->drift - centre) > fmax(gate, GATE_SCALES * word->drift_sigma)) {
			word->in = count < 3; /* of two nobody can tell which is wrong */
			if (!word->in)
				consensus->peers[word->slot].verdict = CONSENSUS_REFUSED_DRIFT;
		}
		if (!word->in)
			continue;
		sum += word->drift_weight * word->drift;
		weights += word->drift_weight;
		own += 1 / (word->drift_sigma * word->drift_sigma + SIGMA_LEAST_NS);
	}
	consensus->formal_ppb = own > 0 ? 1 / sqrt(own) : consensus->formal_ppb;
	return weights > 0 ? sum / weights : centre;
}

static double mean_offset(struct consensus *consensus, const struct words *words, double centre)
{
	double sum = 0, weights = 0, own = 0, age = 0;

	for (size_t i = 0; i < words->count; i++) {
		const struct word *word = &words->at[i];

		if (!word->in)
			continue;
		sum += word->weight * word->offset;
		weights += word->weight;
		age += word->weight * word->age_s;
		own += 1 / (word->sigma * word->sigma + SIGMA_LEAST_NS * SIGMA_LEAST_NS);
	}
	consensus->formal_ns = own > 0 ? 1 / sqrt(own) : consensus->formal_ns;
	consensus->lag_s = weights > 0 ? age / weights : consensus->lag_s;
	return weights > 0 ? sum / weights : centre;
}

static double follow_scale(double scale, double measured, double least)
{
	measured = fmin(fmax(measured, scale * SCALE_FALL), scale * SCALE_RISE);
	return fmax(measured, least);
}

/*
 * Deviation of a good neighbour, from the shortest interval that holds more than a third
 * of the words, wherever it lies: neither liars nor a second group widen the gate.
 * The factor is that of a dozen normal words.
 */
#define SHORTEST_FACTOR 1.4

static double shortest_third(double *v, size_t count)
{
	size_t part = count / 3 + 1;
	double least;

	median_of(v, count); /* sorts */
	least = v[part - 1] - v[0];
	for (size_t i = 1; i + part <= count; i++)
		least = fmin(least, v[i + part - 1] - v[i]);
	return SHORTEST_FACTOR * least;
}

static void learn_scale(struct consensus *consensus, const struct words *words)
{
	double offset[CONSENSUS_PEERS_MAX], drift[CONSENSUS_PEERS_MAX];

	if (words->count < 3)
		return;
	for (size_t i = 0; i < words->count; i++) {
		offset[i] = words->at[i].offset;
		drift[i] = words->at[i].drift;
	}
	consensus->scale_ns = follow_scale(consensus->scale_ns,
					   shortest_third(offset, words->count), SCALE_MIN_NS);
	consensus->scale_ppb = follow_scale(consensus->scale_ppb,
					    shortest_third(drift, words->count), SCALE_MIN_PPB);
}

static double fade(const struct consensus *consensus, double later)
{
	return consensus->generation < ROUNDS_FIRST ? FADE_FIRST : later;
}

static void learn_residual(struct consensus *consensus, const struct words *words, double offset)
{
	double squares = 0, weights = 0, residual;

	for (size_t i = 0; i < words->count; i++) {
		const struct word *word = &words->at[i];
		double away = word->offset - offset;

		if (!word->in)
			continue;
		squares += word->weight * away * away;
		weights += word->weight;
	}
	residual = weights > 0 ? sqrt(squares / weights) : 0;
	consensus->residual_ns =
		fmax(residual, consensus->residual_ns * fade(consensus, RESIDUAL_FADE));
}

/* How far the line of @back rounds ago is from this one now; negative: there was none. */
static double prediction_error(const struct consensus *consensus, unsigned back, int64_t now_ns)
{
	unsigned slot = (consensus->past_next - back) % CONSENSUS_PAST;
	double span_s = (double)ns_sub(now_ns, consensus->past_ns[slot]) * 1e-9, error;

	if (!consensus->past_ns[slot])
		return -1;
	error = fabs(clock_line_gap(&consensus->past[slot], &consensus->line, now_ns));
	return span_s > 1 ? error / span_s : error;
}

static void learn_surprise(struct consensus *consensus, int64_t now_ns, bool fresh)
{
	unsigned slot = consensus->past_next % CONSENSUS_PAST;
	double keep = fade(consensus, SURPRISE_FADE), error;

	if (fresh) {
		memset(consensus->past_ns, 0, sizeof(consensus->past_ns));
		consensus->surprise_ns = fmax(consensus->surprise_ns, SURPRISE_START_NS);
		consensus->jolt_ns = fmax(consensus->jolt_ns, SURPRISE_START_NS);
	}
	error = prediction_error(consensus, CONSENSUS_PAST, now_ns);
	if (error >= 0)
		consensus->surprise_ns = fmax(error, consensus->surprise_ns * keep);
	error = prediction_error(consensus, 1, now_ns);
	if (error >= 0)
		consensus->jolt_ns = fmax(error, consensus->jolt_ns * keep);
	consensus->past[slot] = consensus->line;
	consensus->past_ns[slot] = now_ns;
	consensus->past_next++;
}

static void learn_reach(struct consensus *consensus, const struct words *words)
{
	double reach[CONSENSUS_PEERS_MAX + 1];
	size_t count = 0;
	unsigned degree = consensus->degree ? consensus->degree : 1;
	double mine = (double)consensus->used / degree;

	for (size_t i = 0; i < words->count; i++)
		if (words->at[i].in)
			reach[count++] = words->at[i].reach;
	if (mine > 1)
		mine = 1;
	reach[count++] = consensus->reach;
	consensus->reach = (mine + 4 * median_of(reach, count)) / 5;
}

static void settle(struct consensus *consensus, const struct words *words, int64_t now_ns,
		   bool moved)
{
	const double here = 0;
	unsigned others;
	bool agreed = !moved && consensus->used >= quorum(words);

	most_supported(consensus, words, &here, &others);
	agreed = agreed && (2 * consensus->used > words->count || consensus->used >= 2 * others);
	if (moved) {
		consensus->settled = false;
		consensus->settling = 0;
		consensus->yielding = 0;
		consensus->moves++;
		consensus->reach = 0;
	}
	if (!consensus->settled) {
		consensus->settling = agreed ? consensus->settling + 1 : 0;
		consensus->settled = consensus->settling >= SETTLE_ROUNDS;
	}
	consensus->last_used_ns = now_ns;
}

static void mark_peers(struct consensus *consensus, struct words *words, double centre,
		       int64_t now_ns)
{
	for (size_t i = 0; i < words->count; i++) {
		struct word *word = &words->at[i];

		word->in = agrees(consensus, word, centre);
		consensus->peers[word->slot].verdict =
			word->in ? CONSENSUS_USED : CONSENSUS_REFUSED_OFFSET;
	}
	(void)now_ns;
}

static void count_peers(struct consensus *consensus, const struct words *words, int64_t now_ns)
{
	consensus->used = 0;
	consensus->heard = (unsigned)words->count;
	for (size_t i = 0; i < words->count; i++) {
		struct consensus_peer *peer = &consensus->peers[words->at[i].slot];

		if (peer->verdict == CONSENSUS_USED) {
			peer->refused_since_ns = 0;
			peer->rounds_used++;
			consensus->used++;
			continue;
		}
		if (!peer->refused_since_ns)
			peer->refused_since_ns = now_ns;
		peer->rounds_refused++;
	}
}

enum consensus_result consensus_round(struct consensus *consensus, int64_t now_ns,
				      const struct consensus_input *input, size_t count)
{
	bool had_line = consensus->has_line, moved;
	double centre, offset, drift;
	struct words words;

	if (count > CONSENSUS_PEERS_MAX)
		count = CONSENSUS_PEERS_MAX;
	gather(consensus, now_ns, input, count, &words);
	if (!choose_centre(consensus, &words, &centre, &moved)) {
		consensus->heard = (unsigned)words.count;
		consensus->used = 0;
		return CONSENSUS_NOTHING;
	}
	mark_peers(consensus, &words, centre, now_ns);
	drift = mean_drift(consensus, &words, consensus->settled && !moved);
	offset = mean_offset(consensus, &words, centre);
	if (words.count == 1 && had_line && !moved) {
		/* Two hosts that both went all the way would change places. */
		offset /= 2;
		drift /= 2;
	}
	count_peers(consensus, &words, now_ns);
	consensus->line = clock_line_move(&words.base, now_ns, offset);
	consensus->line.rate_ppb = words.base.rate_ppb + drift;
	consensus->has_line = true;
	consensus->generation++;
	learn_scale(consensus, &words);
	learn_residual(consensus, &words, offset);
	learn_surprise(consensus, now_ns, moved || !had_line);
	settle(consensus, &words, now_ns, moved);
	learn_reach(consensus, &words);
	if (consensus->reach >= REACH_WHOLE)
		consensus->last_whole_ns = now_ns;
	return !had_line ? CONSENSUS_JOINED : moved ? CONSENSUS_MOVED : CONSENSUS_STEPPED;
}

struct edge_prior consensus_prior(const struct consensus *consensus, const struct clock_view *view)
{
	struct edge_prior prior = {.known = false};
	struct clock_line theirs;

	if (!consensus->settled || !view || !clock_view_get(view, &theirs))
		return prior;
	prior.known = true;
	prior.drift_ppb =
		(consensus->line.rate_ppb - theirs.rate_ppb) / (1 + theirs.rate_ppb * 1e-9);
	prior.span_ppb = fmax(PRIOR_SPAN_MIN_PPB, PRIOR_SPAN_SCALES * consensus->scale_ppb);
	return prior;
}
