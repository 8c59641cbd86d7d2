// SPDX-License-Identifier: BSD-2-Clause
/*
 * witness OBJECT FILE NETNS:INTERFACE...
 *
 * Writes a struct witness_record for every RoCEv2 packet (but probes and
 * acknowledges) at both ends of these interfaces into FILE until SIGTERM. Prints
 * "ready", and at last {"records":N,"lost":N,"missed":N}. Exit 77: the kernel has not what it
 * needs.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "witness.h"

#define UNAVAILABLE 77
#define TURN_NS 5000000
#define TCX_EGRESS ((enum bpf_attach_type)47) /* BPF_TCX_EGRESS, Linux 6.6 */
#define BEFORE_ALL (1U << 3)		      /* BPF_F_BEFORE, and no particular program */

struct witness {
	struct bpf_object *object;
	struct ring_buffer *ring;
	FILE *out;
	unsigned long records;
};

static volatile sig_atomic_t ends;

static void on_signal(int number)
{
	(void)number;
	ends = 1;
}

static _Noreturn void fail(int code, const char *format, ...)
{
	va_list words;

	va_start(words, format);
	fputs("witness: ", stderr);
	vfprintf(stderr, format, words);
	fputc('\n', stderr);
	va_end(words);
	exit(code);
}

static int map_fd(const struct witness *witness, const char *name)
{
	return bpf_object__find_map_fd_by_name(witness->object, name);
}

static void watch_interface(const struct witness *witness, unsigned int host, char *word)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = BEFORE_ALL);
	char path[256], *interface = strchr(word, ':');
	unsigned int where[2];
	struct stat status;
	int netns, program;

	if (!interface)
		fail(2, "'%s' is no NETNS:INTERFACE", word);
	*interface++ = '\0';
	snprintf(path, sizeof(path), "/run/netns/%s", word);
	netns = open(path, O_RDONLY | O_CLOEXEC);
	if (netns < 0 || fstat(netns, &status) || setns(netns, CLONE_NEWNET))
		fail(1, "%s: %s", path, strerror(errno));
	close(netns);
	where[0] = (unsigned int)status.st_ino;
	where[1] = if_nametoindex(interface);
	if (!where[1])
		fail(1, "there is no interface %s in %s", interface, word);
	bpf_map_update_elem(map_fd(witness, "hosts"), where, &host, BPF_ANY);
	where[0] = 0;
	if (bpf_map_update_elem(map_fd(witness, "hosts"), where, &host, BPF_NOEXIST))
		fail(1, "two interfaces have the number %u", where[1]);
	program = bpf_program__fd(
		bpf_object__find_program_by_name(witness->object, "witness_leaving"));
	if (bpf_link_create(program, (int)where[1], TCX_EGRESS, &options) < 0)
		fail(UNAVAILABLE, "no tcx at %s of %s: %s", interface, word, strerror(errno));
}

static void watch_kernel(const struct witness *witness)
{
	struct bpf_program *program;

	bpf_object__for_each_program (program, witness->object)
		if (bpf_program__type(program) == BPF_PROG_TYPE_TRACING &&
		    !bpf_program__attach(program))
			fail(UNAVAILABLE, "%s does not attach: %s", bpf_program__name(program),
			     strerror(errno));
}

static int take(void *context, void *data, size_t bytes)
{
	struct witness *witness = context;

	witness->records++;
	return fwrite(data, bytes, 1, witness->out) == 1 ? 0 : -EIO;
}

static void run(struct witness *witness)
{
	const struct timespec turn = {.tv_nsec = TURN_NS};

	puts("ready");
	fflush(stdout);
	while (!ends) {
		nanosleep(&turn, NULL);
		if (ring_buffer__consume(witness->ring) < 0)
			fail(1, "the records cannot be written: %s", strerror(errno));
	}
	ring_buffer__consume(witness->ring);
}

/* Times that the kernel left a program out because the same CPU was in it already. */
static unsigned long long missed(const struct witness *witness)
{
	unsigned long long count = 0;
	struct bpf_program *program;

	bpf_object__for_each_program (program, witness->object) {
		struct bpf_prog_info info = {};
		unsigned int bytes = sizeof(info);

		if (!bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &bytes))
			count += info.recursion_misses;
	}
	return count;
}

static void report(const struct witness *witness)
{
	unsigned long long lost = 0;
	unsigned int zero = 0;

	bpf_map_lookup_elem(map_fd(witness, "lost"), &zero, &lost);
	printf("{\"records\":%lu,\"lost\":%llu,\"missed\":%llu}\n", witness->records, lost,
	       missed(witness));
}

int main(int argc, char **argv)
{
	static struct witness witness;

	if (argc < 4 || argc - 3 > WITNESS_HOSTS)
		fail(2, "usage: witness OBJECT FILE NETNS:INTERFACE...");
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	witness.object = bpf_object__open(argv[1]);
	if (!witness.object || bpf_object__load(witness.object))
		fail(UNAVAILABLE, "%s does not load: %s", argv[1], strerror(errno));
	witness.out = fopen(argv[2], "wb");
	if (!witness.out)
		fail(1, "%s: %s", argv[2], strerror(errno));
	witness.ring = ring_buffer__new(map_fd(&witness, "records"), take, &witness, NULL);
	if (!witness.ring)
		fail(1, "no ring: %s", strerror(errno));
	for (int i = 3; i < argc; i++)
		watch_interface(&witness, (unsigned int)(i - 3), argv[i]);
	watch_kernel(&witness);
	run(&witness);
	if (fclose(witness.out))
		fail(1, "%s: %s", argv[2], strerror(errno));
	report(&witness);
	return 0;
}
