// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which switches a port's packets cross: requests with hop limits 1, 2 .., and the ICMP errors of
 * the switches where they end. As Paris traceroute does (Augustin et al. 2006), what ECMP hashes is
 * the same in all packets of a port; the IPv4 identification, which is not hashed,
 * distinguishes them.
 *
 * Switches send few errors a second (Linux: six at once, then one a second for each host; others
 * alike), so the rate follows the replies, and what is known to be the same is not queried: the
 * first switch of an interface is the same for all ports, and the last one, which all routes to a
 * peer share, is left out if there are more than two: Linux replies with the address of the link
 * that the reply leaves by, so that it would seem to be several.
 */
#include <errno.h>
#include <net/if.h> /* ahead of linux/icmp.h, which has its own otherwise */

#include <linux/icmp.h>
#include <linux/sock_diag.h>
#include <math.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "pacing/random.h"
#include "probe/probe.h"
#include "internal.h"

#define REPLY_NS 250000000ull /* an error is waited for */
#define AGAIN_NS 300000000ull /* after the first miss; then */
#define AGAIN_LATER_NS 1100000000ull
#define ATTEMPTS 4
#define SILENT_MISSES 8 /* at a distance from which there never was a reply */
#define SILENT_NS 60000000000ull
#define VERIFY_NS 3000000000ull /* one port of a pair that is known */
/* Routes that changed may soon change back: what was surveyed in between is wrong then. */
#define UNSETTLED_NS 10000000000ull
#define VERIFY_SOON_NS 100000000ull
#define ORIGIN_NS 60000000000ull
#define PACE_LEAST 2.0
#define PACE_FIRST 40.0
#define PACE_BURST 16.0
/* ICMP errors that are read a second: twice as many as requests are sent, and these. */
#define ICMP_PACE 200.0
#define ICMP_BURST 256.0

/* --- distance --- */

/* How far ports are surveyed. */
static unsigned int hops_surveyed(const struct paths_pair *pair)
{
	unsigned int forks = pair->set.config.distance;

	return forks < PATHSET_HOPS ? forks : PATHSET_HOPS;
}

/* The peer's program returns a request with a hop limit of 64, whatever it came with. */
void paths_update_distance(struct paths_pair *pair, uint8_t hop_limit)
{
	unsigned int distance =
		hop_limit <= PATHPACKET_HOP_LIMIT ? PATHPACKET_HOP_LIMIT - hop_limit : 0;
	unsigned int before = pair->distance_next;

	pair->distance_next = distance;
	/* One packet that went astray changes nothing. */
	if (pair->distance_known && (distance == pair->distance || distance != before))
		return;
	pair->distance = distance;
	pair->distance_known = true;
	/* Switches that can differ from port to port: the last one is the same for all. */
	pair->set.config.distance = distance > 2 ? distance - 1 : distance;
	memset(pair->hop, 0, sizeof(pair->hop));
	memset(pair->surveys, 0, sizeof(pair->surveys));
	pair->verify_due_ns = 0;
	pair->changed = true;
}

bool paths_is_silent(const struct paths_pair *pair)
{
	unsigned int hops = hops_surveyed(pair);

	if (!pair->distance_known)
		return false;
	for (unsigned int i = hops > 1; i < hops; i++)
		if (pair->hop[i].replies || pair->hop[i].misses < SILENT_MISSES)
			return false;
	return true;
}

/* --- switches --- */

const struct esc_address *paths_hop_address(const struct paths *paths, uint64_t hop)
{
	return hop && hop <= paths->address_count ? &paths->addresses[hop - 1] : NULL;
}

/* The first switch of what leaves from the pair's address; NULL: no room. */
static struct paths_origin *origin_of(struct paths *paths, const struct paths_pair *pair)
{
	struct paths_origin *empty = NULL;

	for (size_t i = 0; i < sizeof(paths->origins) / sizeof(paths->origins[0]); i++) {
		struct paths_origin *origin = &paths->origins[i];

		if (!origin->agreed)
			empty = empty ? empty : origin;
		else if (origin->port == pair->facts.port &&
			 !memcmp(&origin->from, &pair->facts.key.src, sizeof(origin->from)))
			return origin;
	}
	if (empty) {
		empty->from = pair->facts.key.src;
		empty->port = pair->facts.port;
		empty->hop = 0;
	}
	return empty;
}

/* --- one port --- */

void paths_unsettle(struct paths_pair *pair, uint64_t now_ns)
{
	pair->verify_due_ns = 0;
	pair->unsettled_ns = now_ns + UNSETTLED_NS;
}

/* On to the next switch that has to be queried; none is left: the port is known. */
static void survey_advance(struct paths *paths, struct paths_pair *pair,
			   struct paths_survey *survey, uint64_t now_ns)
{
	const struct paths_origin *origin = origin_of(paths, pair);
	unsigned int hops = hops_surveyed(pair);
	int index;

	while (++survey->hop <= hops) {
		unsigned int at = survey->hop - 1;

		if (!at)
			survey->hops[0] = origin && origin->agreed > 1 && now_ns < origin->until_ns
						  ? origin->hop
						  : 0;
		if (survey->hops[at] || now_ns < pair->hop[at].again_ns)
			continue;
		survey->attempts = 0;
		survey->waits = false;
		survey->due_ns = now_ns;
		return;
	}
	index = paths_set_index(pair, survey->sport);
	/* A switch that replies to others did not to this one: what is known beyond it is older. */
	for (unsigned int i = 0; i < hops; i++)
		if (!survey->hops[i] && now_ns >= pair->hop[i].again_ns)
			index = -ENOENT;
	if (index >= 0 && pathset_add_hops(&pair->set, (size_t)index, survey->hops)) {
		paths_unsettle(pair, now_ns);
		/* Other switches may be silent now. */
		for (unsigned int i = 0; i < PATHSET_HOPS; i++)
			pair->hop[i].replies = pair->hop[i].misses = 0;
		paths_report_routes(paths, pair);
	}
	/* A contradiction counts when it is seen twice: verified at once. */
	if (index >= 0 && pair->set.ports[index].changing)
		pair->verify_due_ns = 0;
	pair->changed = true;
	memset(survey, 0, sizeof(*survey));
}

static void survey_miss(struct paths *paths, struct paths_pair *pair, struct paths_survey *survey,
			uint64_t now_ns)
{
	unsigned int at = survey->hop - 1;

	survey->waits = false;
	survey->attempts++;
	pair->hop[at].misses++;
	paths->try_pace = fmax(paths->try_pace * 0.8, PACE_LEAST);
	if (!pair->hop[at].replies && pair->hop[at].misses >= SILENT_MISSES) {
		pair->hop[at].again_ns = now_ns + SILENT_NS;
		pair->changed = true;
	}
	if (survey->attempts >= ATTEMPTS || now_ns < pair->hop[at].again_ns)
		survey_advance(paths, pair, survey, now_ns);
	else
		survey->due_ns = now_ns + (survey->attempts == 1 ? AGAIN_NS : AGAIN_LATER_NS);
}

static void survey_tick(struct paths *paths, struct paths_pair *pair, struct paths_survey *survey,
			uint64_t now_ns)
{
	if (!survey->sport || now_ns < survey->due_ns)
		return;
	if (survey->waits) {
		survey_miss(paths, pair, survey, now_ns);
		return;
	}
	if (paths->try_tokens < 1)
		return;
	paths->try_tokens--;
	if (pathsend_try(paths->send, pair->sending, survey->sport, survey->hop, &survey->sequence))
		return;
	paths->facts.tries++;
	survey->waits = true;
	survey->due_ns = now_ns + REPLY_NS;
}

static void survey_reply(struct paths *paths, struct paths_pair *pair, struct paths_survey *survey,
			 const struct esc_address *from, uint64_t now_ns)
{
	unsigned int at = survey->hop - 1;
	struct paths_origin *origin = at ? NULL : origin_of(paths, pair);
	uint64_t hop = 1; /* its number */

	while (hop <= paths->address_count &&
	       memcmp(&paths->addresses[hop - 1], from, sizeof(*from)))
		hop++;
	if (hop > PATHS_ADDRESSES_MAX)
		hop = 0;
	else if (hop > paths->address_count)
		paths->addresses[paths->address_count++] = *from;
	pair->hop[at].replies++;
	pair->hop[at].misses = 0;
	pair->hop[at].again_ns = 0;
	paths->try_pace = fmin(paths->try_pace + 1, paths->facts.share.tries_pps);
	/* Two ports have to agree before the others are spared; one is queried each minute. */
	if (origin) {
		origin->agreed = origin->agreed && origin->hop == hop ? origin->agreed + 1 : 1;
		origin->hop = hop;
		origin->until_ns = now_ns + ORIGIN_NS;
	}
	survey->hops[at] = hop;
	survey_advance(paths, pair, survey, now_ns);
}

/* --- which port --- */

/* That of a port; 0: one that is free. NULL: none. */
static struct paths_survey *survey_of(struct paths_pair *pair, uint16_t sport)
{
	for (unsigned int i = 0; i < PATHS_SURVEYS; i++)
		if (pair->surveys[i].sport == sport)
			return &pair->surveys[i];
	return NULL;
}

static void survey_begin(struct paths *paths, struct paths_pair *pair, uint16_t sport,
			 uint64_t now_ns)
{
	struct paths_survey *survey = survey_of(pair, 0);

	if (survey) {
		survey->sport = sport;
		survey_advance(paths, pair, survey, now_ns);
	}
}

static unsigned int surveys_free(const struct paths_pair *pair)
{
	unsigned int unused = 0;

	for (unsigned int i = 0; i < PATHS_SURVEYS; i++)
		unused += !pair->surveys[i].sport;
	return unused;
}

/* Known ports are surveyed again: candidates and all ports alternately. */
static uint16_t port_to_verify(struct paths_pair *pair)
{
	unsigned int n = pair->verified++;

	for (unsigned int i = 0; i < pair->set.count; i++)
		if (pair->set.ports[i].changing)
			return pair->set.ports[i].sport;
	for (unsigned int i = 0; n % 2 && i < ESC_PATHS_MAX; i++) {
		uint16_t sport = pair->candidates[(n / 2 + i) % ESC_PATHS_MAX].facts.sport;

		if (sport)
			return sport;
	}
	return pair->set.count ? pair->set.ports[n / 2 % pair->set.count].sport : 0;
}

/* Of queue pairs that send, first of those that have no candidate yet; 0: all are known. */
static uint16_t port_in_need(struct paths_pair *pair)
{
	uint16_t found = 0;

	for (size_t i = 0; i < pair->set.count; i++) {
		uint16_t sport = pair->set.ports[i].sport;

		if (pair->set.ports[i].fresh || survey_of(pair, sport) ||
		    !paths_is_own(pair, sport, pair->own_awake))
			continue;
		if (paths_pair_id_of(pair, sport) < 0)
			return sport;
		found = found ? found : sport;
	}
	return found;
}

static void pair_survey_more(struct paths *paths, struct paths_pair *pair, uint64_t now_ns)
{
	unsigned int unused = surveys_free(pair);
	uint16_t ports[PATHSET_PORTS_MAX];
	size_t found;

	if (!unused || !hops_surveyed(pair))
		return;
	/* Silent switches are tried again with one port, not with all of them. */
	if (paths_is_silent(pair)) {
		if (unused == PATHS_SURVEYS && now_ns >= pair->verify_due_ns) {
			pair->verify_due_ns = now_ns + SILENT_NS;
			survey_begin(paths, pair, port_to_verify(pair), now_ns);
		}
		return;
	}
	for (uint16_t sport; unused && (sport = port_in_need(pair)); unused--)
		survey_begin(paths, pair, sport, now_ns);
	/* As many as are stale already, and no more new ones than have room. */
	found = pathset_next(&pair->set, pacing_random(&paths->random), PATHS_SURVEYS * 2, ports);
	for (size_t i = 0; i < found && unused; i++) {
		if (survey_of(pair, ports[i]))
			continue;
		survey_begin(paths, pair, ports[i], now_ns);
		unused--;
	}
	if (found || now_ns < pair->verify_due_ns)
		return;
	pair->verify_due_ns = now_ns + (now_ns < pair->unsettled_ns ? VERIFY_SOON_NS : VERIFY_NS);
	ports[0] = port_to_verify(pair);
	if (ports[0] && !survey_of(pair, ports[0]))
		survey_begin(paths, pair, ports[0], now_ns);
}

/* --- the tick --- */

void paths_survey_tick(struct paths *paths, uint64_t now_ns)
{
	unsigned int first = paths->try_first;

	if (!paths->try_ns)
		paths->try_pace = fmin(PACE_FIRST, paths->facts.share.tries_pps);
	else
		paths->try_tokens += paths->try_pace * (double)(now_ns - paths->try_ns) / 1e9;
	paths->icmp_tokens = fmin(
		ICMP_BURST, paths->icmp_tokens + (2 * paths->facts.share.tries_pps + ICMP_PACE) *
							 (double)(now_ns - paths->try_ns) / 1e9);
	paths->try_tokens = fmin(paths->try_tokens, PACE_BURST);
	paths->try_ns = now_ns;
	for (unsigned int i = 0; i < 2; i++)
		if (paths->icmp[i] && paths->icmp_tokens >= 1)
			sd_event_source_set_enabled(paths->icmp[i], SD_EVENT_ON);
	paths->trying = false;
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++) {
		struct paths_pair *pair = paths->by_slot[(first + i) % ESC_PATH_SLOTS_MAX];

		if (!pair)
			continue;
		/* A pair that is left without a token is first the next time. */
		if (paths->try_tokens >= 1)
			paths->try_first = pair->facts.slot + 1;
		if (!pair->sending || !pair->distance_known || !paths_pair_replies(pair, now_ns))
			continue;
		pair_survey_more(paths, pair, now_ns);
		for (unsigned int k = 0; k < PATHS_SURVEYS; k++)
			survey_tick(paths, pair, &pair->surveys[k], now_ns);
		paths->trying |= surveys_free(pair) < PATHS_SURVEYS;
	}
}

/* --- ICMP --- */

/* True: a request waits for this reply. */
static bool quote_matches(struct paths *paths, const struct pathpacket *quoted,
			  const struct esc_address *from)
{
	struct paths_pair *pair =
		paths_find(paths, &(struct esc_path_key){quoted->from, quoted->to});

	for (unsigned int i = 0; pair && i < PATHS_SURVEYS; i++) {
		struct paths_survey *survey = &pair->surveys[i];
		bool same = quoted->sequence ? quoted->sequence == survey->sequence
					     : quoted->ident == pathsend_ident(survey->sequence);

		if (!survey->sport || survey->sport != quoted->from_port || !survey->waits || !same)
			continue;
		survey_reply(paths, pair, survey, from, time_local_ns());
		return true;
	}
	return false;
}

void paths_count_overflow(const struct paths *paths, struct paths_quotes *quotes)
{
	for (unsigned int i = 0; i < 2; i++) {
		uint32_t memory[SK_MEMINFO_VARS] = {};
		socklen_t bytes = sizeof(memory);

		if (paths->icmp_fd[i] >= 0 &&
		    !getsockopt(paths->icmp_fd[i], SOL_SOCKET, SO_MEMINFO, memory, &bytes))
			quotes->overflow += memory[SK_MEMINFO_DROPS];
	}
}

static int on_icmp(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct paths *paths = context;
	bool ipv4 = fd == paths->icmp_fd[0];
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	struct pathpacket quoted;
	struct esc_address from;
	uint8_t packet[1500];
	ssize_t bytes;

	(void)events;
	for (; paths->icmp_tokens >= 1; paths->icmp_tokens--, length = sizeof(name)) {
		bytes = recvfrom(fd, packet, sizeof(packet), 0, (struct sockaddr *)&name, &length);
		if (bytes < 0)
			return 0;
		if (pathpacket_quoted(packet, (size_t)bytes, ipv4, &quoted) ||
		    !address_of_socket((struct sockaddr *)&name, &from))
			paths->facts.quotes.other++;
		else if (quote_matches(paths, &quoted, &from))
			paths->facts.quotes.matched++;
		else
			paths->facts.quotes.unmatched++;
	}
	/* Others may send without end: until there are tokens the kernel drops what has no room. */
	sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

int paths_survey_open(struct paths *paths)
{
	static const struct icmp_filter four = {~(1u << ICMP_TIME_EXCEEDED)};
	struct icmp6_filter six;

	ICMP6_FILTER_SETBLOCKALL(&six);
	ICMP6_FILTER_SETPASS(ICMP6_TIME_EXCEEDED, &six);
	for (unsigned int i = 0; i < 2; i++) {
		int fd = socket(i ? AF_INET6 : AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				i ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
		int err;

		/* A host without IPv6 has no switches that reply over it. */
		if (fd < 0 && errno == EAFNOSUPPORT)
			continue;
		paths->icmp_fd[i] = fd;
		if (fd < 0 || (i ? setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &six, sizeof(six))
				 : setsockopt(fd, SOL_RAW, ICMP_FILTER, &four, sizeof(four))))
			return -errno;
		err = sd_event_add_io(paths->core->loop, &paths->icmp[i], fd, EPOLLIN, on_icmp,
				      paths);
		if (err < 0)
			return err;
	}
	return 0;
}

void paths_survey_close(struct paths *paths)
{
	for (unsigned int i = 0; i < 2; i++) {
		sd_event_source_disable_unref(paths->icmp[i]);
		if (paths->icmp_fd[i] >= 0)
			close(paths->icmp_fd[i]);
	}
}
