// SPDX-License-Identifier: BSD-2-Clause
/*
 * heartbeat CONTROL: follows the heartbeat in the pinned map of that path until the end of its
 * stdin, then prints in ms how old it became at most.
 */
#include <bpf/bpf.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "maps/control.h"

#define POLL_MS 2

static __u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

int main(int argc, char **argv)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	int fd = argc == 2 ? bpf_obj_get(argv[1]) : -1;
	const struct esc_control *control;
	__u64 before, oldest_ns = 0;

	control = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*control), PROT_READ, MAP_SHARED, fd, 0);
	if (control == MAP_FAILED) {
		perror("heartbeat");
		return 1;
	}
	before = __atomic_load_n(&control->heartbeat_local_ns, __ATOMIC_RELAXED);
	puts("follows");
	fflush(stdout);
	/* By the difference of two heartbeats: this process may be held up as well. */
	while (!poll(&input, 1, POLL_MS)) {
		__u64 beat = __atomic_load_n(&control->heartbeat_local_ns, __ATOMIC_RELAXED);

		if (beat - before > oldest_ns)
			oldest_ns = beat - before;
		before = beat;
	}
	if (now_ns() - before > oldest_ns)
		oldest_ns = now_ns() - before;
	printf("%.1f\n", (double)oldest_ns / 1e6);
	return 0;
}
