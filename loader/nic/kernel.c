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

static const struct pins_link nic_hooks[] = {
	[NIC_EGRESS] = {.pin = "nic-egress", .what = "tcx egress", .type = TCX_EGRESS},
	[NIC_INGRESS] = {.pin = "nic-ingress", .what = "tcx ingress", .type = TCX_INGRESS},
	[NIC_DUMMY] = {.pin = "nic-dummy", .what = "tcx egress", .type = TCX_EGRESS},
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

int nic_kernel_attach(const struct nic_kernel *kernel, const char *interface, unsigned int ifindex,
		      enum nic_hook hook, char **error)
{
	const struct bpf_program *const programs[] = {
		[NIC_EGRESS] = kernel->skeleton->progs.esc_nic_out,
		[NIC_INGRESS] = kernel->skeleton->progs.esc_nic_in,
		[NIC_DUMMY] = kernel->skeleton->progs.esc_nic_dummy,
	};
	struct pins_link link = nic_hooks[hook];
	char *why = NULL;
	int err;

	/* Behind all that is there: what counts and steers sees the packet first. */
	link.interface = interface;
	link.ifindex = ifindex;
	err = pins_attach_link(kernel->pins, &link, bpf_program__fd(programs[hook]), &why);
	if (err)
		explain(error, err, "%s; NIC failover needs tcx, which came with Linux 6.6",
			why ? why : strerror(-err));
	free(why);
	return err;
}

void nic_kernel_detach(const struct pins *pins, const char *interface)
{
	for (int hook = NIC_EGRESS; hook <= NIC_DUMMY; hook++)
		pins_drop_link(pins, interface, nic_hooks[hook].pin);
}

struct kept {
	const char *keys;
	size_t count, bytes;
};

static bool is_kept(const void *key, void *context)
{
	const struct kept *kept = context;

	for (size_t i = 0; i < kept->count; i++)
		if (!memcmp(key, kept->keys + i * kept->bytes, kept->bytes))
			return true;
	return false;
}

void nic_kernel_keep_only(int fd, const void *keys, size_t count, size_t bytes)
{
	mapsweep(fd, bytes, is_kept, &(struct kept){keys, count, bytes});
}

void nic_kernel_counts(const struct nic_kernel *kernel, struct esc_nic_counts *out)
{
	bpfmap_sum(kernel->counts_fd, 0, out, sizeof(*out));
}
