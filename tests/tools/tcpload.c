// SPDX-License-Identifier: BSD-2-Clause
/*
 * TCP traffic for the lab.
 *
 *   tcpload serve PORT CONGESTION          sends what is requested
 *   tcpload fetch [options] ADDRESS...     requests from servers, prints JSON:
 *     --port N --seconds N --seed N
 *     --long N      connections to each server that ask without end
 *     --short N     connections to each server that ask together, every --period
 *     --period MS   --least BYTES --most BYTES   of a request
 *     --rounds N    a burst is so many requests, one after the other: the next is
 *                   requested once all servers have replied to
 *
 * Bursts begin at multiples of the period, so those of several hosts begin together.
 *
 * A request is 8 bytes: how many to send. All in one thread, nothing blocks but epoll.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LOAD_ENDLESS UINT64_MAX
#define LOAD_CHUNK 65536
#define LOAD_ROOM 200000 /* of requests that are remembered */

struct peer {
	int fd;
	bool endless, busy;
	uint64_t left;	   /* serve: to send; fetch: to come */
	uint64_t bytes;	   /* fetch: came since the warm-up */
	uint64_t asked_ns; /* of the request under way */
	uint64_t tick;	   /* that it belongs to */
	unsigned int request_got;
	unsigned char request[8];
};

struct options {
	int port, longs, shorts;
	double seconds, warm_seconds;
	uint64_t period_ns, least, most, seed, rounds;
};

static struct options options = {
	.port = 7000,
	.seconds = 5,
	.warm_seconds = 1,
	.period_ns = 100000000,
	.least = 20000,
	.most = 100000,
	.seed = 1,
	.rounds = 1,
};
static char chunk[LOAD_CHUNK];
static double *completions_us, *ticks_us;
static unsigned int completion_count, tick_count;
static uint64_t unfinished, active_ns, tick_ns, round_now;
static unsigned int busy_count;

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static uint64_t draw(void)
{
	uint64_t z = (options.seed += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "tcpload: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void watch(int loop, struct peer *peer, int how, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = peer};

	if (epoll_ctl(loop, how, peer->fd, &event) < 0)
		fail("epoll");
}

/* --- serve --- */

static void serve_accept(int loop, int listener)
{
	struct peer *peer;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;

	if (fd < 0)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		fail("memory");
	peer->fd = fd;
	watch(loop, peer, EPOLL_CTL_ADD, EPOLLIN);
}

static bool serve_requests(struct peer *peer)
{
	for (;;) {
		ssize_t got = read(peer->fd, peer->request + peer->request_got,
				   sizeof(peer->request) - peer->request_got);
		uint64_t wanted;

		if (got < 0 && errno == EAGAIN)
			return true;
		if (got <= 0)
			return false;
		peer->request_got += got;
		if (peer->request_got < sizeof(peer->request))
			continue;
		peer->request_got = 0;
		memcpy(&wanted, peer->request, sizeof(wanted));
		peer->endless |= wanted == LOAD_ENDLESS;
		if (!peer->endless)
			peer->left += wanted;
	}
}

static bool serve_data(struct peer *peer)
{
	while (peer->endless || peer->left) {
		size_t want = peer->endless || peer->left > LOAD_CHUNK ? LOAD_CHUNK : peer->left;
		ssize_t sent = write(peer->fd, chunk, want);

		if (sent < 0 && errno == EAGAIN)
			return true;
		if (sent < 0)
			return false;
		if (!peer->endless)
			peer->left -= sent;
	}
	return true;
}

static void serve_event(int loop, struct peer *peer, uint32_t events)
{
	bool good = true;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		good = serve_requests(peer);
	if (!good || !serve_data(peer)) {
		close(peer->fd);
		free(peer);
		return;
	}
	watch(loop, peer, EPOLL_CTL_MOD, EPOLLIN | (peer->endless || peer->left ? EPOLLOUT : 0));
}

static _Noreturn void serve(int port, const char *congestion)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), loop = epoll_create1(0);
	int one = 1;
	struct peer own = {.fd = listener};

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, congestion, strlen(congestion)))
		fail(congestion);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 256))
		fail("listen");
	watch(loop, &own, EPOLL_CTL_ADD, EPOLLIN);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct epoll_event events[64];
		int count = epoll_wait(loop, events, 64, -1);

		for (int i = 0; i < count; i++) {
			if (events[i].data.ptr == &own)
				serve_accept(loop, listener);
			else
				serve_event(loop, events[i].data.ptr, events[i].events);
		}
	}
}

/* --- fetch --- */

static int fetch_connect(const char *host)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
		fail(host);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		fail(host);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static void fetch_ask(struct peer *peer, uint64_t bytes)
{
	if (write(peer->fd, &bytes, sizeof(bytes)) != sizeof(bytes))
		fail("request");
	peer->left = bytes;
	peer->busy = true;
	peer->asked_ns = now_ns();
	peer->tick = tick_count;
	busy_count += !peer->endless;
}

static void fetch_done(struct peer *peer, bool counted)
{
	double took_us = (now_ns() - peer->asked_ns) / 1e3;

	peer->busy = false;
	busy_count--;
	if (!counted || completion_count == LOAD_ROOM)
		return;
	completions_us[completion_count++] = took_us;
	took_us = (now_ns() - tick_ns) / 1e3;
	if (peer->tick == tick_count && took_us > ticks_us[tick_count])
		ticks_us[tick_count] = took_us;
}

static void fetch_event(struct peer *peer, bool counted)
{
	static char sink[4 * LOAD_CHUNK];
	ssize_t got = read(peer->fd, sink, sizeof(sink));

	if (got == 0 || (got < 0 && errno != EAGAIN))
		fail("server");
	if (got < 0)
		return;
	if (counted)
		peer->bytes += got;
	if (peer->endless)
		return;
	peer->left -= (uint64_t)got > peer->left ? peer->left : (uint64_t)got;
	if (!peer->left)
		fetch_done(peer, counted);
}

static void fetch_round(struct peer *peers, int count)
{
	round_now++;
	for (int i = 0; i < count; i++) {
		if (peers[i].endless)
			continue;
		if (peers[i].busy)
			unfinished++;
		else
			fetch_ask(&peers[i],
				  options.least + draw() % (options.most - options.least + 1));
	}
}

static void fetch_tick(struct peer *peers, int count)
{
	if (tick_count < LOAD_ROOM - 1)
		tick_count++;
	ticks_us[tick_count] = 0;
	tick_ns = now_ns();
	round_now = 0;
	fetch_round(peers, count);
}

static void fetch_loop(int loop, struct peer *peers, int count)
{
	uint64_t start = now_ns(), now;
	uint64_t next = ((start + 200000000) / options.period_ns + 1) * options.period_ns;
	uint64_t warm = start + (uint64_t)(options.warm_seconds * 1e9);
	uint64_t end = warm + (uint64_t)(options.seconds * 1e9);

	while ((now = now_ns()) < end) {
		struct epoll_event events[64];
		struct timespec wait = {};
		uint64_t until = next < end ? next : end;
		int got;

		if (now >= next) {
			fetch_tick(peers, count);
			next += options.period_ns;
			continue;
		}
		wait.tv_sec = (until - now) / 1000000000;
		wait.tv_nsec = (until - now) % 1000000000;
		got = epoll_pwait2(loop, events, 64, &wait, NULL);
		for (int i = 0; i < got; i++)
			fetch_event(events[i].data.ptr, now >= warm);
		if (got > 0 && !busy_count && round_now && round_now < options.rounds)
			fetch_round(peers, count);
	}
}

static void print_numbers(const char *name, const double *values, unsigned int count, bool last)
{
	bool first = true;

	printf("\"%s\":[", name);
	for (unsigned int i = 0; i < count; i++) {
		if (values[i] <= 0)
			continue;
		printf("%s%.0f", first ? "" : ",", values[i]);
		first = false;
	}
	printf("]%s", last ? "" : ",");
}

static void fetch_print(const struct peer *peers, int count)
{
	bool first = true;

	printf("{\"seconds\":%.3f,\"active_seconds\":%.3f,\"long_bytes\":[", options.seconds,
	       active_ns / 1e9);
	for (int i = 0; i < count; i++) {
		if (!peers[i].endless)
			continue;
		printf("%s%llu", first ? "" : ",", (unsigned long long)peers[i].bytes);
		first = false;
	}
	printf("],\"unfinished\":%llu,", (unsigned long long)unfinished);
	print_numbers("completions_us", completions_us, completion_count, false);
	print_numbers("bursts_us", ticks_us, tick_count + 1, true);
	printf("}\n");
}

static int fetch(char **hosts, int host_count)
{
	int each = options.longs + options.shorts, count = each * host_count;
	struct peer *peers = calloc(count + 1, sizeof(*peers));
	int loop = epoll_create1(0);

	completions_us = calloc(LOAD_ROOM, sizeof(*completions_us));
	ticks_us = calloc(LOAD_ROOM, sizeof(*ticks_us));
	if (!peers || !completions_us || !ticks_us)
		fail("memory");
	for (int i = 0; i < count; i++) {
		peers[i].fd = fetch_connect(hosts[i % host_count]);
		peers[i].endless = i / host_count < options.longs;
		watch(loop, &peers[i], EPOLL_CTL_ADD, EPOLLIN);
	}
	for (int i = 0; i < count; i++)
		if (peers[i].endless)
			fetch_ask(&peers[i], LOAD_ENDLESS);
	active_ns = now_ns();
	fetch_loop(loop, peers, count);
	active_ns = now_ns() - active_ns;
	fetch_print(peers, count);
	return 0;
}

static bool option_set(const char *name, const char *value)
{
	if (!strcmp(name, "--port"))
		options.port = atoi(value);
	else if (!strcmp(name, "--seconds"))
		options.seconds = atof(value);
	else if (!strcmp(name, "--warm"))
		options.warm_seconds = atof(value);
	else if (!strcmp(name, "--seed"))
		options.seed = strtoull(value, NULL, 0);
	else if (!strcmp(name, "--long"))
		options.longs = atoi(value);
	else if (!strcmp(name, "--short"))
		options.shorts = atoi(value);
	else if (!strcmp(name, "--period"))
		options.period_ns = strtoull(value, NULL, 0) * 1000000;
	else if (!strcmp(name, "--rounds"))
		options.rounds = strtoull(value, NULL, 0);
	else if (!strcmp(name, "--least"))
		options.least = strtoull(value, NULL, 0);
	else if (!strcmp(name, "--most"))
		options.most = strtoull(value, NULL, 0);
	else
		return false;
	return true;
}

int main(int count, char **words)
{
	int i = 2;

	signal(SIGPIPE, SIG_IGN);
	/* It sleeps nearly always; when others keep the CPUs busy, it is not what is measured. */
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 5});
	if (count == 4 && !strcmp(words[1], "serve"))
		serve(atoi(words[2]), words[3]);
	if (count < 3 || strcmp(words[1], "fetch")) {
		fprintf(stderr,
			"tcpload serve PORT CONGESTION | fetch [OPTION VALUE]... ADDRESS...\n");
		return 2;
	}
	for (; i + 1 < count && !strncmp(words[i], "--", 2); i += 2) {
		if (!option_set(words[i], words[i + 1])) {
			fprintf(stderr, "tcpload: unknown option %s\n", words[i]);
			return 2;
		}
	}
	return fetch(words + i, count - i);
}
