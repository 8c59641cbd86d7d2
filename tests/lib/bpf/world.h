/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel programs for a test: loaded without pins and attached to nothing,
 * fed by BPF_PROG_TEST_RUN, read through their maps.
 */
#ifndef ESC_TESTS_BPF_WORLD_H
#define ESC_TESTS_BPF_WORLD_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane.skel.h"
#include "frame.h"
#include "maps/maps.h"
#include "pacing/icrc.h"

#define WORLD_CPUS_MAX 512
#define WORLD_SOCKETS 32

enum world_hook { WORLD_XDP, WORLD_TC_IN, WORLD_TC_OUT, WORLD_HOOKS };

static const char *const world_hook_names[WORLD_HOOKS] = {"xdp_ingress", "tc_ingress", "tc_egress"};
/* XDP_PASS, and TC_ACT_UNSPEC twice. */
static const uint32_t world_verdicts[WORLD_HOOKS] = {2, (uint32_t)-1, (uint32_t)-1};

struct world {
	struct dataplane *kernel;
	int programs[WORLD_HOOKS];
	uint32_t port;
	int cpus;
	uint32_t ingress_ifindex; /* of packets at tc egress: forwarded from there */
};

struct world_options {
	uint32_t qps_max; /* 0: as it comes */
	uint32_t port;
	uint16_t turn;
	bool rx_in_xdp_only;
	uint32_t sample_mask;
	uint16_t probe_port;
	uint8_t plane;
	int64_t lab_offset_ns;
	int32_t lab_drift_ppb;
	uint32_t ring_bytes; /* 0: as it comes */
	bool icrc_stale;
	uint32_t owd_max; /* entries in qp_sent and qp_owd; 0: as it comes */
	bool tc_takes;
	const char *object; /* other programs with the same maps; NULL: those of the daemon */
};

static inline int world_quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, arguments) : 0;
}

static inline int world_set_control(struct world *w, const struct esc_control *word)
{
	uint32_t zero = 0;

	return bpf_map__update_elem(w->kernel->maps.control, &zero, sizeof(zero), word,
				    sizeof(*word), BPF_ANY);
}

/* The skeleton, with the programs of the object file at @path. */
static inline struct dataplane *world_open_object(const char *path)
{
	struct dataplane *kernel = calloc(1, sizeof(*kernel));
	static char bytes[16 << 20];
	FILE *file = fopen(path, "rb");

	if (!kernel || !file || dataplane__create_skeleton(kernel))
		return NULL;
	kernel->skeleton->data = bytes;
	kernel->skeleton->data_sz = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	return bpf_object__open_skeleton(kernel->skeleton, NULL) ? NULL : kernel;
}

static inline int world_open(struct world *w, const struct world_options *options)
{
	struct esc_control word = {.sample_mask = options->sample_mask};
	int error = -ENOMEM;

	memset(w, 0, sizeof(*w));
	libbpf_set_print(world_quiet);
	w->kernel = options->object ? world_open_object(options->object) : dataplane__open();
	if (!w->kernel)
		return -errno;
	w->port = options->port;
	w->kernel->rodata->esc_port_index = options->port;
	w->kernel->rodata->esc_handover_id = options->turn;
	w->kernel->rodata->esc_rx_in_tc = !options->rx_in_xdp_only;
	w->kernel->rodata->esc_probe_port = options->probe_port;
	w->kernel->rodata->esc_plane = options->plane;
	w->kernel->rodata->esc_lab_offset_ns = options->lab_offset_ns;
	w->kernel->rodata->esc_lab_drift_ppb = options->lab_drift_ppb;
	w->kernel->rodata->esc_icrc_stale = options->icrc_stale;
	icrc_make_table(w->kernel->rodata->esc_icrc_powers);
	w->kernel->rodata->esc_tc_takes = options->tc_takes;
	if (options->owd_max) {
		bpf_map__set_max_entries(w->kernel->maps.qp_sent, options->owd_max);
		bpf_map__set_max_entries(w->kernel->maps.qp_owd, options->owd_max);
		bpf_map__set_max_entries(w->kernel->maps.qp_pace, options->owd_max);
	}
	if (options->ring_bytes)
		bpf_map__set_max_entries(w->kernel->maps.probes, options->ring_bytes);
	if (options->qps_max)
		error = bpf_map__set_max_entries(w->kernel->maps.qps, options->qps_max);
	else
		error = 0;
	if (!error)
		error = dataplane__load(w->kernel);
	if (!error)
		error = world_set_control(w, &word);
	if (error) {
		dataplane__destroy(w->kernel);
		return error;
	}
	w->programs[WORLD_XDP] = bpf_program__fd(w->kernel->progs.esc_xdp_in);
	w->programs[WORLD_TC_IN] = bpf_program__fd(w->kernel->progs.esc_tc_in);
	w->programs[WORLD_TC_OUT] = bpf_program__fd(w->kernel->progs.esc_tc_out);
	w->cpus = libbpf_num_possible_cpus();
	return 0;
}

static inline void world_forget_sockets(struct world *w)
{
	int map = bpf_map__fd(w->kernel->maps.probe_sockets);
	uint64_t cookie;

	while (!bpf_map_get_next_key(map, NULL, &cookie))
		bpf_map_delete_elem(map, &cookie);
}

/*
 * The socket that the next test run at tc makes is one of the daemon. Cookies are given in order on
 * each CPU, 4,096 at a time; some room, since others may take one meanwhile.
 */
static inline void world_allow_socket(struct world *w)
{
	int map = bpf_map__fd(w->kernel->maps.probe_sockets), fd, i;
	uint64_t cookie = 0, at;
	socklen_t bytes = sizeof(cookie);
	uint32_t one = 1;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	world_forget_sockets(w);
	do {
		fd = socket(AF_INET, SOCK_DGRAM, 0);
		getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes);
		close(fd);
	} while ((cookie - 1) % 4096 >
		 4096 - 2 * WORLD_SOCKETS); /* the last of 4,096 is a multiple */
	for (i = 1; i <= WORLD_SOCKETS; i++) {
		at = cookie + i;
		bpf_map_update_elem(map, &at, &one, BPF_ANY);
	}
}

/* A socket of the test's is one of the daemon. */
static inline void world_allow(struct world *w, int fd)
{
	socklen_t bytes = sizeof(uint64_t);
	uint32_t one = 1;
	uint64_t cookie;

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes);
	bpf_map_update_elem(bpf_map__fd(w->kernel->maps.probe_sockets), &cookie, &one, BPF_ANY);
}

static inline void world_close(struct world *w)
{
	dataplane__destroy(w->kernel);
}

/*
 * Runs a program over the frame. -EINVAL: the kernel takes no such frame for a
 * test. 1: it let the frame pass as it was. 0: it did not.
 * @linear: bytes of the first XDP buffer, 0 for all.
 */
static inline int world_run(struct world *w, enum world_hook hook, const uint8_t *data,
			    uint32_t bytes, uint32_t linear)
{
	static uint8_t out[FRAME_MAX + 1024];
	struct xdp_md context = {.data_end = linear};
	struct __sk_buff forwarded = {.ingress_ifindex = w->ingress_ifindex};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = data, .data_size_in = bytes, .data_out = out,
		    .data_size_out = sizeof(out), .repeat = 1);
	int error;

	if (linear && hook == WORLD_XDP) {
		o.ctx_in = &context;
		o.ctx_size_in = sizeof(context);
	}
	if (w->ingress_ifindex && hook == WORLD_TC_OUT) {
		o.ctx_in = &forwarded;
		o.ctx_size_in = sizeof(forwarded);
	}
	error = bpf_prog_test_run_opts(w->programs[hook], &o);
	if (error)
		return error;
	return o.retval == world_verdicts[hook] && o.data_size_out == bytes &&
	       !memcmp(out, data, bytes);
}

static inline void world_reasons(const struct world *w, uint64_t out[ESC_REASON_MAX],
				 enum world_hook hook)
{
	struct esc_reason_count values[WORLD_CPUS_MAX];
	uint32_t reason;
	int cpu;

	for (reason = 0; reason < ESC_REASON_MAX; reason++) {
		out[reason] = 0;
		if (bpf_map_lookup_elem(bpf_map__fd(w->kernel->maps.reasons), &reason, values))
			continue;
		for (cpu = 0; cpu < w->cpus; cpu++)
			out[reason] += hook == WORLD_XDP     ? values[cpu].xdp_ingress
				       : hook == WORLD_TC_IN ? values[cpu].tc_ingress
							     : values[cpu].tc_egress;
	}
}

static inline struct esc_port_counts world_port_counts(const struct world *w, uint32_t port)
{
	struct esc_port_counts values[WORLD_CPUS_MAX], sum = {0};
	__u64 *to = (__u64 *)&sum, *from;
	int cpu;
	size_t i;

	if (bpf_map_lookup_elem(bpf_map__fd(w->kernel->maps.port_counts), &port, values))
		return sum;
	for (cpu = 0; cpu < w->cpus; cpu++) {
		from = (__u64 *)&values[cpu];
		for (i = 0; i < sizeof(sum) / sizeof(*to); i++)
			to[i] += from[i];
	}
	return sum;
}

static inline bool world_qp(const struct world *w, const struct esc_qp_key *key, struct esc_qp *out)
{
	return !bpf_map_lookup_elem(bpf_map__fd(w->kernel->maps.qps), key, out);
}

static inline uint32_t world_qp_count(const struct world *w)
{
	int fd = bpf_map__fd(w->kernel->maps.qps);
	struct esc_qp_key key, *before = NULL;
	uint32_t count = 0;

	while (!bpf_map_get_next_key(fd, before, &key)) {
		before = &key;
		count++;
	}
	return count;
}

/* Forgets queue pairs, reasons and port counts. */
static inline void world_reset(struct world *w)
{
	static const uint8_t zeros[WORLD_CPUS_MAX * sizeof(struct esc_port_counts)];
	int qps = bpf_map__fd(w->kernel->maps.qps);
	struct esc_qp_key key;
	uint32_t i;

	while (!bpf_map_get_next_key(qps, NULL, &key))
		bpf_map_delete_elem(qps, &key);
	for (i = 0; i < ESC_REASON_MAX; i++)
		bpf_map_update_elem(bpf_map__fd(w->kernel->maps.reasons), &i, zeros, BPF_ANY);
	for (i = 0; i < ESC_PORTS_MAX; i++)
		bpf_map_update_elem(bpf_map__fd(w->kernel->maps.port_counts), &i, zeros, BPF_ANY);
}

static inline const char *world_reason_name(int reason)
{
	static const char *const names[ESC_REASON_MAX] = {[ESC_REASON_NONE] = "none",
#define X(id, name, text) [ESC_REASON_##id] = #name,
							  ESC_REASONS(X)
#undef X
	};

	return reason >= 0 && reason < ESC_REASON_MAX ? names[reason] : "none";
}

#endif
