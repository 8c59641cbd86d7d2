// SPDX-License-Identifier: BSD-2-Clause
/*
 * A delay line: what the kernel routes into a tun device comes out of the same
 * device a fixed time later, for kernels without netem.
 *
 *   delayline NAME MICROSECONDS      makes the device, prints "ready", until killed
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define LINE_PACKETS 4096
#define LINE_BYTES 2048

struct line_packet {
	long long due_ns;
	int bytes;
	char data[LINE_BYTES];
};

static struct line_packet ring[LINE_PACKETS];
static unsigned int head, tail; /* head: next to come in, tail: next to go out */

static long long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static int tun_open(const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, TUNSETIFF, &request) < 0)
		return -errno;
	return fd;
}

static void take_in(int fd, long long delay_ns)
{
	while (head - tail < LINE_PACKETS) {
		struct line_packet *packet = &ring[head % LINE_PACKETS];

		packet->bytes = read(fd, packet->data, sizeof(packet->data));
		if (packet->bytes <= 0)
			return;
		packet->due_ns = now_ns() + delay_ns;
		head++;
	}
}

/* Nanoseconds until the next one is due, -1: there is none. */
static long long let_out(int fd)
{
	long long now = now_ns();

	while (tail != head) {
		struct line_packet *packet = &ring[tail % LINE_PACKETS];

		if (packet->due_ns > now)
			return packet->due_ns - now;
		if (write(fd, packet->data, packet->bytes) < 0 && errno == EAGAIN)
			return 50000;
		tail++;
	}
	return -1;
}

int main(int count, char **words)
{
	long long delay_ns, wait_ns;
	struct pollfd wait = {.events = POLLIN};

	if (count != 3) {
		fprintf(stderr, "delayline NAME MICROSECONDS\n");
		return 2;
	}
	delay_ns = atoll(words[2]) * 1000;
	wait.fd = tun_open(words[1]);
	if (wait.fd < 0) {
		fprintf(stderr, "delayline: %s: %s\n", words[1], strerror(-wait.fd));
		return 1;
	}
	/* Scheduling delays would change the line's delay: real-time priority, if permitted. */
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 10});
	prctl(PR_SET_TIMERSLACK, 1000);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		take_in(wait.fd, delay_ns);
		wait_ns = let_out(wait.fd);
		ppoll(&wait, 1,
		      wait_ns < 0 ? NULL : &(struct timespec){.tv_nsec = wait_ns % 1000000000},
		      NULL);
	}
}
