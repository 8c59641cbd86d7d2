/* SPDX-License-Identifier: BSD-2-Clause */
/* Two hosts: pv0 in the test's own network namespace, pv1 in another one; 10.77.0.1 and .2, fd77::1
 * and ::2. */
#ifndef ESC_TESTS_BPF_PAIR_H
#define ESC_TESTS_BPF_PAIR_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TCX_EGRESS
#define TCX_EGRESS 47 /* newer than the headers of the distribution */
#endif

static inline bool pair_run(const char *format, ...)
{
	char command[512];
	va_list arguments;
	int status;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	status = system(command);
	if (status)
		printf("# failed (%d): %s\n", status, command);
	return !status;
}

/* A process that does nothing but to keep a network namespace until we end. */
static inline pid_t pair_make_namespace(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready) || (pid = fork()) < 0)
		return -1;
	if (!pid) {
		close(ready[0]);
		if (unshare(CLONE_NEWNET) || write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		pid = -1;
	close(ready[0]);
	return pid;
}

static inline bool pair_make_link(pid_t other)
{
	return !unshare(CLONE_NEWNET) &&
	       pair_run("ip link add pv0 type veth peer name pv1 netns %d && ip link set lo up && "
			"ip addr add 10.77.0.1/24 dev pv0 && ip -6 addr add fd77::1/64 dev pv0 "
			"nodad && "
			"ip link set pv0 up",
			other) &&
	       pair_run("nsenter -t %d -n sh -c 'ip addr add 10.77.0.2/24 dev pv1 && "
			"ip -6 addr add fd77::2/64 dev pv1 nodad && ip link set pv1 up'",
			other) &&
	       pair_run("for i in 1 2 3 4 5 6 7 8 9 10; do ping -qc1 -W1 10.77.0.2 >/dev/null && "
			"ping -qc1 -W1 fd77::2 >/dev/null && exit 0; sleep 0.1; done; exit 1");
}

static inline int pair_open_namespace(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* From our namespace to the other's address, on the port of RoCE. @sport: 0 for any. */
static inline int pair_open_socket(int ip, uint32_t mark, uint16_t sport)
{
	struct sockaddr_in to4 = {.sin_family = AF_INET, .sin_port = htons(4791)};
	struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons(4791)};
	struct sockaddr_in from4 = {.sin_family = AF_INET, .sin_port = htons(sport)};
	struct sockaddr_in6 from6 = {.sin6_family = AF_INET6, .sin6_port = htons(sport)};
	int fd = socket(ip == 6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;

	inet_pton(AF_INET, "10.77.0.2", &to4.sin_addr);
	inet_pton(AF_INET6, "fd77::2", &to6.sin6_addr);
	if (fd < 0 || (mark && setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark))) ||
	    (ip == 4 && setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &one, sizeof(one))) ||
	    (ip == 6 && setsockopt(fd, SOL_UDP, UDP_NO_CHECK6_TX, &one, sizeof(one))) ||
	    (sport && bind(fd, ip == 6 ? (void *)&from6 : (void *)&from4,
			   ip == 6 ? sizeof(from6) : sizeof(from4))) ||
	    connect(fd, ip == 6 ? (void *)&to6 : (void *)&to4, ip == 6 ? sizeof(to6) : sizeof(to4)))
		return -1;
	return fd;
}

#endif
