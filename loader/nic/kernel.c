// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "nic.skel.h"
#include "internal.h"

/* linux/bpf.h of Debian 12 ends before these; include/uapi/linux/bpf.h of 6.6. */
#define TCX_INGRESS ((enum bpf_attach_type)46)
#define TCX_EGRESS ((enum bpf_attach_type)47)

static const struct {
	const char *pin, *word;
	enum bpf_attach_type type;
} nic_hooks[] = {
	[NIC_EGRESS] = {"nic-egress", "egress", TCX_EGRESS},
	[NIC_INGRESS] = {"nic-ingress", "ingress", TCX_INGRESS},
	[NIC_DUMMY] = {"nic-dummy", "egress", TCX_EGRESS},
};

/* The pinned maps, beside two of their own; those that these programs do not use are not made. */
static int give_maps(const struct nic_kernel *kernel, char **error)
{
	struct bpf_map *map;

	bpf_object__for_each_map (map, kernel->skeleton->obj) {
		int fd = pins_map_fd(kernel->pins, bpf_map__name(map)), err;

		if (bpf_map__is_internal(map) || map == kernel->skeleton->maps.nic_acks ||
		    map == kernel->skeleton->maps.nic_requests)
			continue;
		err = fd < 0 ? bpf_map__set_autocreate(map, false) : bpf_map__reuse_fd(map, fd);
		if (err)
			return explain(error, err, "the pinned map %s cannot be used: %s",
				       bpf_map__name(map), strerror(-err));
	}
	return 0;
}

static int map_word(struct nic_kernel *kernel)
{
	void *at = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED,
			pins_map_fd(kernel->pins, "nic_control"), 0);

	if (at == MAP_FAILED)
		return -errno;
	kernel->word = at;
	return 0;
}

int nic_kernel_open(struct nic_kernel *kernel, const struct pins *pins, char **error)
{
	int err;

	memset(kernel, 0, sizeof(*kernel));
	kernel->pins = pins;
	kernel->local_fd = pins_map_fd(pins, "nic_local");
	kernel->peers_fd = pins_map_fd(pins, "nic_peers");
	kernel->routes_fd = pins_map_fd(pins, "nic_routes");
	kernel->counts_fd = pins_map_fd(pins, "nic_counts");
	bpflog_install();
	bpflog_clear();
	kernel->skeleton = nic_programs__open();
	if (!kernel->skeleton)
		return explain(error, -errno, "the programs of NIC failover cannot be opened: %s",
			       strerror(errno));
	err = give_maps(kernel, error);
	if (!err) {
		err = nic_programs__load(kernel->skeleton);
		if (err)
			explain(error, err,
				"the kernel does not take the programs of NIC failover (%s%s%s): "
				"they "
				"want Linux 6.6; take `sibling` out of the configuration",
				strerror(-err), bpflog_last()[0] ? ": " : "", bpflog_last());
	}
	kernel->acks_fd = bpf_map__fd(kernel->skeleton->maps.nic_acks);
	kernel->requests_fd = bpf_map__fd(kernel->skeleton->maps.nic_requests);
	if (!err) {
		err = map_word(kernel);
		if (err)
			explain(error, err, "the map nic_word cannot be mapped: %s",
				strerror(-err));
	}
	if (err)
		nic_kernel_close(kernel);
	return err;
}

void nic_kernel_close(struct nic_kernel *kernel)
{
	if (kernel->word)
		munmap(kernel->word, getpagesize());
	nic_programs__destroy(kernel->skeleton);
	memset(kernel, 0, sizeof(*kernel));
}

bool nic_kernel_is_dead(const struct nic_kernel *kernel, unsigned int ifindex)
{
	struct __sk_buff context = {.ifindex = ifindex};
	char frame[64] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = sizeof(frame),
		    .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);
	int err = bpf_prog_test_run_opts(bpf_program__fd(kernel->skeleton->progs.esc_nic_carrier),
					 &run);

	return err == -ENODEV || (!err && run.retval);
}

static int program_fd(const struct nic_kernel *kernel, enum nic_hook hook)
{
	const struct bpf_program *program = hook == NIC_EGRESS ? kernel->skeleton->progs.esc_nic_out
					    : hook == NIC_INGRESS
						    ? kernel->skeleton->progs.esc_nic_in
						    : kernel->skeleton->progs.esc_nic_dummy;

	return bpf_program__fd(program);
}

/* Behind all that is there: what counts and steers sees the packet first. */
static int link_create(const struct nic_kernel *kernel, const char *interface, unsigned int ifindex,
		       enum nic_hook hook, char **error)
{
	int fd = bpf_link_create(program_fd(kernel, hook), ifindex, nic_hooks[hook].type, NULL),
	    err;

	if (fd < 0)
		return explain(
			error, fd,
			"tcx %s on %s: %s; NIC failover wants tcx, which came with Linux 6.6",
			nic_hooks[hook].word, interface, strerror(-fd));
	err = pins_keep_link(kernel->pins, interface, nic_hooks[hook].pin, fd, error);
	close(fd);
	return err;
}

int nic_kernel_attach(const struct nic_kernel *kernel, const char *interface, unsigned int ifindex,
		      enum nic_hook hook, char **error)
{
	int fd = pins_open_link(kernel->pins, interface, nic_hooks[hook].pin, ifindex, error), err;

	if (fd == -ENOENT)
		return link_create(kernel, interface, ifindex, hook, error);
	if (fd < 0)
		return fd;
	err = bpf_link_update(fd, program_fd(kernel, hook), NULL);
	close(fd);
	return err ? explain(error, err, "the tcx %s program on %s cannot be replaced: %s",
			     nic_hooks[hook].word, interface, strerror(-err))
		   : 0;
}

void nic_kernel_detach(const struct pins *pins, const char *interface)
{
	for (int hook = NIC_EGRESS; hook <= NIC_DUMMY; hook++)
		pins_drop_link(pins, interface, nic_hooks[hook].pin);
}

static bool is_kept(const void *key, const void *keys, size_t count, size_t bytes)
{
	for (size_t i = 0; i < count; i++)
		if (!memcmp(key, (const char *)keys + i * bytes, bytes))
			return true;
	return false;
}

void nic_kernel_keep_only(int fd, const void *keys, size_t count, size_t bytes)
{
	char before[64], key[64];
	bool first = true;

	/* One that goes while we walk makes the walk begin anew; what is kept bounds it. */
	while (!bpf_map_get_next_key(fd, first ? NULL : before, key)) {
		if (is_kept(key, keys, count, bytes)) {
			memcpy(before, key, bytes);
			first = false;
		} else if (bpf_map_delete_elem(fd, key)) {
			return;
		}
	}
}

void nic_kernel_counts(const struct nic_kernel *kernel, struct esc_nic_counts *out)
{
	const size_t words = sizeof(*out) / sizeof(uint64_t);
	int cpus = libbpf_num_possible_cpus();
	uint64_t *values = calloc((size_t)cpus * words, sizeof(*values));
	uint32_t zero = 0;

	memset(out, 0, sizeof(*out));
	if (values && !bpf_map_lookup_elem(kernel->counts_fd, &zero, values))
		for (size_t i = 0; i < cpus * words; i++)
			((uint64_t *)out)[i % words] += values[i];
	free(values);
}
