/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "control.h"

#define MAGIC_SETUP 0x72666c31u /* rfl1 */
#define MAGIC_END 0x72666c65u
#define TALK_S 10
#define SETUP_WORDS 8
#define END_WORDS 2

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

static int write_words(int fd, const uint32_t *words, size_t number)
{
	uint32_t out[256];

	while (number) {
		size_t part = number < 256 ? number : 256, bytes = part * sizeof(out[0]), at = 0;

		for (size_t i = 0; i < part; i++)
			out[i] = htonl(words[i]);
		while (at < bytes) {
			ssize_t sent = send(fd, (char *)out + at, bytes - at, MSG_NOSIGNAL);

			if (sent < 0 && errno == EINTR && !stop_asked)
				continue;
			if (sent <= 0)
				return errno == EAGAIN ? -ETIMEDOUT : -errno;
			at += sent;
		}
		words += part;
		number -= part;
	}
	return 0;
}

static int read_words(int fd, uint32_t *words, size_t number)
{
	size_t bytes = number * sizeof(*words), at = 0;

	while (at < bytes) {
		ssize_t got = recv(fd, (char *)words + at, bytes - at, 0);

		if (got < 0 && errno == EINTR && !stop_asked)
			continue;
		if (got < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (got == 0)
			return -ECONNRESET;
		at += got;
	}
	for (size_t i = 0; i < number; i++)
		words[i] = ntohl(words[i]);
	return 0;
}

int control_send_setup(int fd, const struct control_setup *setup)
{
	uint32_t head[SETUP_WORDS] = {MAGIC_SETUP,
				      setup->qps,
				      setup->uc,
				      setup->write,
				      setup->mtu,
				      setup->tos,
				      setup->size_bytes >> 32,
				      setup->size_bytes};
	int err = write_words(fd, head, SETUP_WORDS);

	return err ? err : write_words(fd, &setup->qp[0].qpn, 3 * (size_t)setup->qps);
}

int control_receive_setup(int fd, struct control_setup *setup)
{
	uint32_t head[SETUP_WORDS];
	int err = read_words(fd, head, SETUP_WORDS);

	if (err)
		return err;
	if (head[0] != MAGIC_SETUP || head[1] < 1 || head[1] > QPS_MAX)
		return -EPROTO;
	setup->qps = head[1];
	setup->uc = head[2];
	setup->write = head[3];
	setup->mtu = head[4];
	setup->tos = head[5];
	setup->size_bytes = (uint64_t)head[6] << 32 | head[7];
	return read_words(fd, &setup->qp[0].qpn, 3 * (size_t)setup->qps);
}

int control_send_end(int fd, const struct control_end *end)
{
	uint32_t head[END_WORDS] = {MAGIC_END, end->qps};
	int err = write_words(fd, head, END_WORDS);

	for (uint32_t i = 0; i < end->qps && !err; i++) {
		const struct control_count *count = &end->qp[i];
		uint32_t words[4] = {count->packets >> 32, count->packets, count->messages >> 32,
				     count->messages};

		err = write_words(fd, words, 4);
	}
	return err;
}

int control_receive_end(int fd, struct control_end *end)
{
	uint32_t head[END_WORDS];
	int err = read_words(fd, head, END_WORDS);

	if (err)
		return err;
	if (head[0] != MAGIC_END || head[1] > QPS_MAX)
		return -EPROTO;
	end->qps = head[1];
	for (uint32_t i = 0; i < end->qps && !err; i++) {
		uint32_t words[4];

		err = read_words(fd, words, 4);
		end->qp[i].packets = (uint64_t)words[0] << 32 | words[1];
		end->qp[i].messages = (uint64_t)words[2] << 32 | words[3];
	}
	return err;
}

void control_set_timeout(int fd)
{
	struct timeval patience = {.tv_sec = TALK_S};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

static void with_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

int control_listen(const struct options *options)
{
	struct sockaddr_storage address = options->address;
	int on = 1;
	int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	with_port(&address, options->control_port);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&address, address_bytes(&address)) || listen(fd, 64)) {
		fprintf(stderr,
			"roceflow: control port %u: %m; choose another with "
			"--control-port\n",
			options->control_port);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

/* One try, bounded: a connect into a black hole would wait for minutes. */
static int connect_once(const struct sockaddr_storage *address, const char *interface,
			uint64_t deadline_ns)
{
	struct pollfd ready = {.events = POLLOUT};
	int err = 0;
	socklen_t bytes = sizeof(err);
	uint64_t now = now_ns();

	ready.fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (ready.fd < 0)
		return -errno;
	/* The source address of the packets is that of this connection. */
	if (*interface && setsockopt(ready.fd, SOL_SOCKET, SO_BINDTODEVICE, interface,
				     (socklen_t)strlen(interface) + 1)) {
		err = errno;
	} else if (connect(ready.fd, (const struct sockaddr *)address, address_bytes(address))) {
		err = errno;
		if (err == EINPROGRESS) {
			int left_ms = deadline_ns > now ? (deadline_ns - now) / NS_PER_MS + 1 : 0;

			if (poll(&ready, 1, left_ms) == 1)
				getsockopt(ready.fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
			else
				err = ETIMEDOUT;
		}
	}
	if (err) {
		close(ready.fd);
		return -err;
	}
	fcntl(ready.fd, F_SETFL, fcntl(ready.fd, F_GETFL) & ~O_NONBLOCK);
	control_set_timeout(ready.fd);
	return ready.fd;
}

int control_connect(const struct options *options)
{
	uint64_t deadline = now_ns() + options->give_up_ns;
	struct sockaddr_storage address = options->address;
	int fd;

	with_port(&address, options->control_port);
	while ((fd = connect_once(&address, options->interface, deadline)) < 0) {
		if (now_ns() >= deadline || stop_asked) {
			errno = -fd;
			fprintf(stderr,
				"roceflow: no server at port %u there: %m; "
				"run `roceflow serve` on it\n",
				options->control_port);
			return -1;
		}
		poll(NULL, 0, 20);
	}
	return fd;
}
