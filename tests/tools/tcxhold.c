// SPDX-License-Identifier: BSD-2-Clause
/*
 * Another owner's tcx program on an interface, until it is terminated; or what is there.
 *
 *   tcxhold INTERFACE ingress|egress first|last OBJECT PROGRAM
 *   tcxhold INTERFACE ingress|egress list    (names in the order that they run)
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TCX_INGRESS 46
#define TCX_EGRESS 47
#define TCX_BEFORE (1u << 3)
#define PROGRAMS 64

static int list(int ifindex, int type)
{
	__u32 ids[PROGRAMS], count = PROGRAMS;
	int err = bpf_prog_query(ifindex, type, 0, NULL, ids, &count);

	for (__u32 i = 0; !err && i < count; i++) {
		struct bpf_prog_info info = {};
		__u32 bytes = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(ids[i]);

		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &bytes))
			printf("%s%s", i ? " " : "", info.name);
		close(fd);
	}
	printf("\n");
	return err ? 1 : 0;
}

int main(int count, char **words)
{
	LIBBPF_OPTS(bpf_link_create_opts, options);
	int ifindex = count > 3 ? (int)if_nametoindex(words[1]) : 0, type, link = -1;
	struct bpf_program *program = NULL;
	struct bpf_object *object;

	if (!ifindex) {
		fprintf(stderr,
			"tcxhold INTERFACE ingress|egress first|last|list OBJECT PROGRAM\n");
		return 2;
	}
	type = strcmp(words[2], "egress") ? TCX_INGRESS : TCX_EGRESS;
	if (!strcmp(words[3], "list"))
		return list(ifindex, type);
	options.flags = strcmp(words[3], "first") ? 0 : TCX_BEFORE;
	object = count == 6 ? bpf_object__open(words[4]) : NULL;
	if (object && !bpf_object__load(object))
		program = bpf_object__find_program_by_name(object, words[5]);
	if (program)
		link = bpf_link_create(bpf_program__fd(program), ifindex, type, &options);
	if (link < 0) {
		fprintf(stderr, "tcxhold: %s\n", strerror(errno));
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	pause();
	return 0;
}
