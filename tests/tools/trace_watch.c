// SPDX-License-Identifier: BSD-2-Clause
/*
 * trace_watch fentry|kprobe: traces queue pairs in that way, with maps of its
 * own, and prints a line for each that is connected and each that is gone.
 *   up QPN REMOTE_QPN REMOTE LOCAL PID COMM GID_TYPE SGID_INDEX PMTU PORT DEVICE
 *   down QPN
 * Ends by a signal. tests/vm runs it on a machine that has RDMA.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "maps/maps.h"
#include "qp/internal.h"

#define WATCHED_MAX 1024
#define PERIOD_US 50000

static struct {
	struct esc_owner_key key;
	bool there;
} watched[WATCHED_MAX];
static size_t watched_count;

static void tell_up(const struct esc_owner_key *key, const struct esc_owner *is)
{
	char remote[ADDRESS_TEXT_BYTES], local[ADDRESS_TEXT_BYTES];

	printf("up %u %u %s %s %u %s %u %u %u %u %s\n", key->qpn, is->remote_qpn,
	       address_format(&is->remote, remote), address_format(&is->local, local), is->pid,
	       is->comm, is->gid_type, is->sgid_index, is->path_mtu, is->port, is->device);
	fflush(stdout);
}

static void look(int owners)
{
	struct esc_owner_key key, *before = NULL;
	struct esc_owner is;

	for (size_t i = 0; i < watched_count; i++) {
		if (!watched[i].there || !bpf_map_lookup_elem(owners, &watched[i].key, &is))
			continue;
		watched[i].there = false;
		printf("down %u\n", watched[i].key.qpn);
		fflush(stdout);
	}
	for (; !bpf_map_get_next_key(owners, before, &key); before = &key) {
		bool known = false;

		if (bpf_map_lookup_elem(owners, &key, &is) || is.state != ESC_OWNER_RTS)
			continue;
		for (size_t i = 0; i < watched_count; i++)
			known = known ||
				(watched[i].there && !memcmp(&watched[i].key, &key, sizeof(key)));
		if (known || watched_count == WATCHED_MAX)
			continue;
		watched[watched_count].key = key;
		watched[watched_count++].there = true;
		tell_up(&key, &is);
	}
}

int main(int count, char **words)
{
	LIBBPF_OPTS(bpf_map_create_opts, mapped, .map_flags = BPF_F_MMAPABLE);
	int control = bpf_map_create(BPF_MAP_TYPE_ARRAY, "control", 4, sizeof(struct esc_control),
				     1, &mapped);
	int owners = bpf_map_create(BPF_MAP_TYPE_HASH, "qp_owners", sizeof(struct esc_owner_key),
				    sizeof(struct esc_owner), ESC_OWNERS_MAX, NULL);
	bool kprobe = count == 2 && !strcmp(words[1], "kprobe");
	struct qptrace *trace;
	char why[256];

	if (count != 2 || (!kprobe && strcmp(words[1], "fentry")) || control < 0 || owners < 0) {
		fprintf(stderr, "trace_watch fentry|kprobe\n");
		return 2;
	}
	if (qptrace_open(&trace, kprobe ? QPTRACE_KPROBE : QPTRACE_FENTRY, control, owners, why,
			 sizeof(why))) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	printf("ready %s\n", qptrace_how_name(qptrace_how(trace)));
	fflush(stdout);
	for (;;) {
		look(owners);
		usleep(PERIOD_US);
	}
}
