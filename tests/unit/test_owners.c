// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "dataplane/dataplane.h"
#include "qp/internal.h"

#define SECOND 1000000000ULL

struct plan {
	uint32_t device, qpn, remote_qpn;
	const char *name, *local, *remote; /* NULL: listed only */
	uint32_t pid;
	enum esc_owner_state state;
	enum esc_gid_type gid;
};

static struct owners *table_of(const struct plan *plan, size_t count)
{
	struct owners *table = calloc(1, sizeof(*table));
	struct owner *list = calloc(count + 1, sizeof(*list));

	table->proc = "/nowhere";
	for (size_t i = 0; i < count; i++) {
		struct esc_owner *is = &list[i].is;

		list[i].key = (struct esc_owner_key){plan[i].device, plan[i].qpn};
		strcpy(is->device, plan[i].name);
		is->pid = plan[i].pid;
		is->state = plan[i].state;
		is->port = 1;
		is->flags = ESC_OWNER_PORT;
		is->changed_local_ns = 100 * SECOND;
		if (plan[i].remote_qpn) {
			is->remote_qpn = plan[i].remote_qpn;
			is->flags |= ESC_OWNER_REMOTE_QPN;
		}
		if (plan[i].local) {
			address_parse(plan[i].local, &is->local);
			address_parse(plan[i].remote, &is->remote);
			is->gid_type = plan[i].gid;
			is->flags |= ESC_OWNER_PATH;
		}
	}
	cr_assert_eq(owners_replace(table, list, count), 0);
	return table;
}

static uint32_t pid_of(struct owners *table, enum esc_direction direction, const char *src,
		       const char *dst, uint32_t qpn, const char *device)
{
	struct esc_qp_key key = {.dest_qpn = qpn, .direction = direction};
	const struct owner *owner;

	address_parse(src, &key.src);
	address_parse(dst, &key.dst);
	owner = qptable_owner(&(struct qptable){.owners = table}, &key, device);
	return owner ? owner->is.pid : 0;
}

/* Two NICs, the same numbers everywhere, as two ranks of one job have them. */
static const struct plan two_nics[] = {
	{1, 17, 17, "mlx5_0", "10.0.0.1", "10.0.0.2", 100, ESC_OWNER_RTS, ESC_GID_ROCE_V2},
	{1, 18, 17, "mlx5_0", "10.0.0.1", "10.0.0.3", 101, ESC_OWNER_RTS, ESC_GID_ROCE_V2},
	{2, 17, 17, "mlx5_1", "10.0.1.1", "10.0.1.2", 102, ESC_OWNER_RTS, ESC_GID_ROCE_V1},
	{2, 18, 19, "mlx5_1", "fd00::1", "fd00::2", 103, ESC_OWNER_RTR, ESC_GID_ROCE_V2},
	{2, 20, 0, "mlx5_1", NULL, NULL, 104, ESC_OWNER_RTS, ESC_GID_UNKNOWN}, /* UD */
};
#define COUNT(list) (sizeof(list) / sizeof(list[0]))
#define TX ESC_DIRECTION_TX
#define RX ESC_DIRECTION_RX

Test(owners, tx_by_the_remote_end)
{
	struct owners *table = table_of(two_nics, COUNT(two_nics));

	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.2", 17, "mlx5_0"), 100);
	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.3", 17, "mlx5_0"), 101);
	cr_expect_eq(pid_of(table, TX, "10.0.1.1", "10.0.1.2", 17, "mlx5_1"), 102);
	cr_expect_eq(pid_of(table, TX, "fd00::1", "fd00::2", 19, ""), 103);
	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.9", 17, "mlx5_0"), 0, "no such peer");
	cr_expect_eq(pid_of(table, TX, "10.0.0.8", "10.0.0.2", 17, "mlx5_0"), 0, "not our address");
	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.2", 16, "mlx5_0"), 0);
	owners_free(table);
}

Test(owners, rx_by_the_local_end)
{
	struct owners *table = table_of(two_nics, COUNT(two_nics));

	cr_expect_eq(pid_of(table, RX, "10.0.0.2", "10.0.0.1", 17, "mlx5_0"), 100);
	cr_expect_eq(pid_of(table, RX, "10.0.1.2", "10.0.1.1", 17, "mlx5_1"), 102);
	cr_expect_eq(pid_of(table, RX, "fd00::2", "fd00::1", 18, ""), 103, "by the address");
	cr_expect_eq(pid_of(table, RX, "fd00::9", "fd00::1", 20, "mlx5_1"), 104, "UD: any");
	cr_expect_eq(pid_of(table, RX, "10.0.0.2", "10.0.0.1", 21, "mlx5_0"), 0);
	cr_expect_eq(pid_of(table, RX, "10.0.0.2", "10.0.0.9", 17, ""), 0);
	owners_free(table);
}

Test(owners, listed_only_when_there_is_no_doubt)
{
	static const struct plan plan[] = {
		{1, 30, 40, "rxe0", NULL, NULL, 200, ESC_OWNER_RTS, ESC_GID_UNKNOWN},
		{1, 31, 41, "rxe0", NULL, NULL, 201, ESC_OWNER_RTS, ESC_GID_UNKNOWN},
		{1, 32, 41, "rxe0", NULL, NULL, 202, ESC_OWNER_RTS, ESC_GID_UNKNOWN},
		{1, 33, 42, "rxe0", NULL, NULL, 203, ESC_OWNER_RTS, ESC_GID_UNKNOWN},
		{1, 34, 42, "rxe0", "10.0.0.1", "10.0.0.2", 204, ESC_OWNER_RTS, ESC_GID_ROCE_V2},
	};
	struct owners *table = table_of(plan, COUNT(plan));

	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.2", 40, "rxe0"), 200);
	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.2", 40, "rxe1"), 0, "another device");
	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.2", 40, ""), 0, "no device is known");
	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.2", 41, "rxe0"), 0, "two could be it");
	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.2", 42, "rxe0"), 204, "the exact one");
	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.3", 42, "rxe0"), 203, "the other one");
	cr_expect_eq(pid_of(table, RX, "10.0.0.2", "10.0.0.1", 32, "rxe0"), 202);
	owners_free(table);
}

Test(owners, random_tables_against_a_plain_search)
{
	struct plan *plan = calloc(500, sizeof(*plan));
	unsigned int seed = (unsigned int)getpid(), right = 0;

	cr_log_info("seed %u", seed);
	for (size_t i = 0; i < 500; i++)
		plan[i] = (struct plan){.device = i % 4,
					.qpn = 1000 + i / 4,
					.name = "dev0",
					.remote_qpn = 1 + rand_r(&seed) % 40,
					.local = rand_r(&seed) % 2 ? "10.0.0.1" : "10.0.1.1",
					.remote = rand_r(&seed) % 2 ? "10.0.0.2" : "10.0.0.3",
					.pid = 1 + i,
					.state = ESC_OWNER_RTS};
	struct owners *table = table_of(plan, 500);

	for (size_t i = 0; i < 500; i++) {
		uint32_t pid = pid_of(table, TX, plan[i].local, plan[i].remote, plan[i].remote_qpn,
				      "dev0");

		cr_assert(pid, "%zu has an owner (seed %u)", i, seed);
		cr_expect_eq(plan[pid - 1].remote_qpn, plan[i].remote_qpn, "seed %u", seed);
		cr_expect_str_eq(plan[pid - 1].remote, plan[i].remote, "seed %u", seed);
		cr_expect_str_eq(plan[pid - 1].local, plan[i].local, "seed %u", seed);
		right += pid == 1 + i;
	}
	cr_expect_gt(right, 0);
	owners_free(table);
	free(plan);
}

Test(owners, ready_for_a_while)
{
	struct port_info port = {.visibility = "counters"};
	struct owners *table = table_of(two_nics, COUNT(two_nics));

	cr_expect_eq(owners_ready(table, "mlx5_0", 1, 111 * SECOND, 10 * SECOND), 2);
	cr_expect_eq(owners_ready(table, "mlx5_0", 1, 109 * SECOND, 10 * SECOND), 0, "too new");
	cr_expect_eq(owners_ready(table, "mlx5_0", 2, 111 * SECOND, 10 * SECOND), 0, "port");
	cr_expect_eq(owners_ready(table, "mlx5_0", 1, 99 * SECOND, 0), 0, "not yet");
	cr_expect_eq(owners_ready(table, "mlx5_1", 0, 111 * SECOND, 10 * SECOND), 2,
		     "RTR does not send");
	owners_check_port(table, 111 * SECOND, &port);
	cr_expect_str_eq(port.visibility, "counters", "it has no RDMA device");
	owners_free(table);
}

Test(owners, rocev1)
{
	struct owners *table = table_of(two_nics, COUNT(two_nics));

	cr_expect_eq(qptable_rocev1(&(struct qptable){.owners = table}, "mlx5_1", 1), 1);
	cr_expect_eq(qptable_rocev1(&(struct qptable){.owners = table}, "mlx5_0", 1), 0,
		     "another device");
	cr_expect_eq(qptable_rocev1(&(struct qptable){.owners = table}, "mlx5_1", 2), 0,
		     "another port");
	owners_free(table);
}

Test(owners, a_table_that_is_replaced)
{
	struct owners *table = table_of(two_nics, COUNT(two_nics));

	cr_assert_eq(owners_replace(table, NULL, 0), 0);
	cr_expect_eq(table->count, 0);
	cr_expect_eq(pid_of(table, TX, "10.0.0.1", "10.0.0.2", 17, "mlx5_0"), 0);
	cr_expect_eq(qptable_rocev1(&(struct qptable){.owners = table}, "mlx5_1", 1), 0);
	owners_free(table);
}

Test(owners, a_list_against_the_map)
{
	struct esc_owner is = {.pid = 100,
			       .remote_qpn = 17,
			       .state = ESC_OWNER_RTS,
			       .flags = ESC_OWNER_REMOTE_QPN,
			       .first_local_ns = 5,
			       .changed_local_ns = 7};
	struct rdmares_qp listed = {.has_remote = true, .remote_qpn = 17, .state = ESC_OWNER_RTS};
	struct rdmares_qp other = listed;

	cr_expect_eq(owners_decide(NULL, &listed, 100, true, 10), OWNERS_PUT);
	cr_expect_eq(owners_decide(&is, &listed, 100, true, 10), OWNERS_KEEP);
	cr_expect_eq(owners_decide(&is, &listed, 0, true, 10), OWNERS_KEEP,
		     "the thread is gone, the process may not be");
	cr_expect_eq(owners_decide(&is, NULL, 0, true, 10), OWNERS_DROP);
	cr_expect_eq(owners_decide(&is, NULL, 0, true, 7), OWNERS_KEEP,
		     "it changed after the list was begun");
	cr_expect_eq(owners_decide(&is, &listed, 101, true, 10), OWNERS_PUT,
		     "the number was given to another process");
	other.remote_qpn = 18;
	cr_expect_eq(owners_decide(&is, &other, 100, true, 10), OWNERS_PUT, "another peer");
	other = listed;
	other.state = ESC_OWNER_ERR;
	cr_expect_eq(owners_decide(&is, &other, 100, true, 10), OWNERS_KEEP,
		     "the trace knows better");
	cr_expect_eq(owners_decide(&is, &other, 100, false, 10), OWNERS_PUT);
}
