/* SPDX-License-Identifier: BSD-2-Clause */
/* `roceflow load` and `sink`: plain UDP that fills a link at a given rate. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "roceflow.h"

#define BURST 16
#define FLOWS_MAX 256
/* A sender that was held up does not send all of it at once afterwards. */
#define CATCH_UP_NS (2 * NS_PER_MS)
#define IP4_UDP_BYTES 28
#define IP6_UDP_BYTES 48

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

/* A socket of flow @i: its own source port, so that ECMP may take it elsewhere. */
static int open_flow(const struct options *options, unsigned int i)
{
	struct sockaddr_storage from = {.ss_family = options->address.ss_family};
	struct sockaddr_storage to = options->address;
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	set_port(&to, options->port);
	set_port(&from, options->fixed_port ? options->fixed_port + i : 0);
	if (fd >= 0 && (bind(fd, (struct sockaddr *)&from, address_bytes(&from)) ||
			connect(fd, (struct sockaddr *)&to, address_bytes(&to)))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void send_burst(const int *fds, const struct options *options, uint64_t *packets,
		       uint64_t *errors)
{
	static uint8_t payload[65536];
	static unsigned int turn;

	for (int i = 0; i < BURST; i++) {
		ssize_t sent = send(fds[turn++ % options->flows], payload, options->size_bytes,
				    MSG_NOSIGNAL);

		*packets += sent >= 0;
		*errors += sent < 0;
		if (!options->rate_bps || stop_asked)
			continue;
		return; /* paced: one by one */
	}
}

static void wait_until(uint64_t when)
{
	uint64_t now = now_ns();
	struct timespec left;

	if (when <= now)
		return;
	left.tv_sec = (when - now) / NS_PER_S;
	left.tv_nsec = (when - now) % NS_PER_S;
	ppoll(NULL, 0, &left, NULL);
}

static void report(const struct options *options, uint64_t packets, uint64_t errors, uint64_t spent)
{
	uint64_t head = options->address.ss_family == AF_INET6 ? IP6_UDP_BYTES : IP4_UDP_BYTES;

	json_open(NULL, '{');
	json_text("role", "load");
	json_number("packets", packets);
	json_number("bytes", packets * (options->size_bytes + head));
	json_number("send_errors", errors);
	if (spent)
		json_number("rate_bps",
			    packets * (options->size_bytes + head) * 8.0 * NS_PER_S / spent);
	json_close('}');
	putchar('\n');
}

int load_run(const struct options *options)
{
	uint64_t head = options->address.ss_family == AF_INET6 ? IP6_UDP_BYTES : IP4_UDP_BYTES;
	uint64_t packets = 0, errors = 0, start, now, depart, step = 0;
	int fds[FLOWS_MAX], result = 1;
	unsigned int opened;

	for (opened = 0; opened < options->flows && opened < FLOWS_MAX; opened++) {
		fds[opened] = open_flow(options, opened);
		if (fds[opened] < 0) {
			fprintf(stderr, "roceflow: load: %m\n");
			goto out;
		}
	}
	if (options->rate_bps)
		step = (options->size_bytes + head) * 8 * NS_PER_S / options->rate_bps;
	start = now = depart = now_ns();
	while (!stop_asked && (!options->duration_ns || now - start < options->duration_ns)) {
		send_burst(fds, options, &packets, &errors);
		now = now_ns();
		if (depart + CATCH_UP_NS < now)
			depart = now - CATCH_UP_NS;
		depart += step;
		wait_until(depart);
		now = now_ns();
	}
	report(options, packets, errors, now - start);
	result = 0;
out:
	while (opened)
		close(fds[--opened]);
	return result;
}

/* Holds the port and throws all away, so that the kernel sends no reply. */
int sink_run(const struct options *options)
{
	struct sock_filter none[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
	struct sock_fprog program = {.len = 1, .filter = none};
	struct sockaddr_storage address = options->address;
	int on = 1;
	int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	set_port(&address, options->port);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ||
	    bind(fd, (struct sockaddr *)&address, address_bytes(&address))) {
		fprintf(stderr, "roceflow: sink: %m\n");
		if (fd >= 0)
			close(fd);
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (!stop_asked)
		poll(NULL, 0, 1000);
	close(fd);
	return 0;
}
