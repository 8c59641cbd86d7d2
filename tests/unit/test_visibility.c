// SPDX-License-Identifier: BSD-2-Clause
/* The tree under tests/fixtures/sysfs was made manually after the shapes of five drivers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/internal.h"
#include "net/rtnl.h"

static const char *fixture(void)
{
	const char *top = getenv("ESCAPEMENT_TOP");
	static char path[512];

	snprintf(path, sizeof(path), "%s/tests/fixtures/sysfs", top ? top : ".");
	return path;
}

Test(visibility, facts_and_decision)
{
	static const struct {
		const char *netdev, *device, *driver;
		unsigned int port;
		bool software, counters;
		uint64_t packets;
		const char *mode;
	} rows[] = {
		{"eth0", "", "", 0, false, false, 0, "packets"},
		{"eth1", "mlx5_0", "mlx5_core", 1, false, true, 0, "counters"},
		{"eth1", "mlx5_0", "mlx5_core", 1, false, true, 1, "packets"},
		{"eth2", "rxe0", "", 1, true, true, 0, "packets"},
		{"eth3", "siw0", "", 1, true, false, 0, "packets"},
		{"eth4", "irdma0", "irdma", 2, false, true, 0, "counters"},
		{"eth5", "bnxt_re0", "bnxt_re", 1, false, false, 0, "none"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct port_info port = {};
		struct rdma_facts rdma;

		rdma_read(fixture(), rows[i].netdev, &rdma);
		cr_expect_str_eq(rdma.device, rows[i].device, "%s", rows[i].netdev);
		cr_expect_str_eq(rdma.driver, rows[i].driver, "%s", rows[i].netdev);
		cr_expect_eq(rdma.port, rows[i].port, "%s", rows[i].netdev);
		cr_expect_eq(rdma.software, rows[i].software, "%s", rows[i].netdev);
		cr_expect_eq(rdma.counters, rows[i].counters, "%s", rows[i].netdev);
		strcpy(port.name, rows[i].netdev);
		visibility_decide(&port, &rdma, rows[i].packets);
		cr_expect_str_eq(port.visibility, rows[i].mode, "%s", rows[i].netdev);
		cr_expect(strstr(port.visibility_note, rows[i].netdev), "%s", port.visibility_note);
		cr_expect(strstr(port.visibility_note, rows[i].device), "%s", port.visibility_note);
	}
}

Test(visibility, queue_pairs_without_packets)
{
	static const char *const before[] = {"packets", "counters", "none"};

	for (size_t i = 0; i < 3; i++) {
		struct port_info port = {
			.name = "eth1", .rdma_device = "mlx5_0", .visibility_note = "as it was"};

		strcpy(port.visibility, before[i]);
		visibility_add_ready(&port, 0);
		cr_expect_str_eq(port.visibility, before[i]);
		visibility_add_ready(&port, 64);
		cr_expect_str_eq(port.visibility, i ? "control" : "packets");
		if (i)
			cr_expect(strstr(port.visibility_note, "64 queue pairs of mlx5_0") &&
					  strstr(port.visibility_note, "passed eth1"),
				  "%s", port.visibility_note);
		else
			cr_expect_str_eq(port.visibility_note, "as it was");
	}
}

Test(visibility, no_such_tree)
{
	struct rdma_facts rdma;

	rdma_read("/nowhere", "eth1", &rdma);
	cr_expect_str_empty(rdma.device);
}

Test(offload, what_was_taken)
{
	struct offload_state before = {.known = true, .active = 0x13, .max_mtu = 9702};
	struct offload_state after = {.known = true, .active = 0x10, .max_mtu = 3498};
	struct offload_state unknown = {0};
	char note[256];

	cr_expect_eq(offload_taken(&before, &before), 0);
	cr_expect_eq(offload_taken(&before, &unknown), 0, "what is unknown is not taken");
	cr_expect_eq(offload_taken(&before, &after), 1u << 31 | 0x3);
	offload_note("no-such-dev", 0x3, false, note, sizeof(note));
	cr_expect_str_eq(note, "rx-lro, rx-gro-hw went off while XDP is attached");
	offload_note("no-such-dev", 0, false, note, sizeof(note));
	cr_expect_str_empty(note);
}

/* On a veth pair in a network namespace of the test's own. */
Test(offload, what_was_taken_is_given_back)
{
	static const char *const segmentation[] = {"tx-tcp-segmentation"};
	const uint32_t lro = 1u << 0, tso = 1u << 4, max_mtu = 1u << 31;
	char refused[256];
	uint32_t on;

	if (unshare(CLONE_NEWNET))
		cr_skip_test("no network namespace: %s", strerror(errno));
	cr_assert_eq(system("ip link add v0 type veth peer name v1 && ethtool -K v0 tso off "
			    ">/dev/null"),
		     0);
	cr_expect(offload_give_back("v0", max_mtu, refused, sizeof(refused)));
	cr_assert_eq(ethtool_features("v0", segmentation, 1, &on), 0);
	cr_expect_eq(on, 0, "of what was not taken nothing changes");
	cr_expect(offload_give_back("v0", tso | max_mtu, refused, sizeof(refused)), "%s", refused);
	cr_assert_eq(ethtool_features("v0", segmentation, 1, &on), 0);
	cr_expect_eq(on, 1);

	cr_expect_not(offload_give_back("v0", tso | lro, refused, sizeof(refused)));
	cr_expect_str_eq(refused, "rx-lro", "a veth has none");
	cr_assert_eq(system("echo 1 >/proc/sys/net/ipv4/conf/v0/forwarding"), 0);
	cr_expect(offload_give_back("v0", lro, refused, sizeof(refused)), "a router has none");
}

Test(visibility, native_mode_is_not_first_where_it_takes_the_link_down)
{
	static const char *const down[] = {"igb", "igc", "ixgbe", "i40e"};

	for (size_t i = 0; i < sizeof(down) / sizeof(down[0]); i++)
		cr_expect(native_cost(down[i], 0).link_down, "%s", down[i]);
	cr_expect(native_cost("mlx5_core", 0).does && !native_cost("mlx5_core", 0).link_down);
	cr_expect(!native_cost("veth", 0).does && !native_cost("", 0).link_down);
}

/* An interface of which the kernel says nothing, as every one before Linux 6.3. */
Test(visibility, native_mode_is_not_first_where_a_larger_mtu_loses_frames)
{
	cr_expect(native_cost("virtio_net", 0).loses_larger);
	cr_expect(!native_cost("mlx5_core", 0).loses_larger &&
		  !native_cost("veth", 0).loses_larger);
}

/* Where the peer has one: tests/lab/test_veth. */
Test(visibility, native_mode_is_not_first_where_no_peer_takes_replies)
{
	cr_expect(native_cost("veth", 0).loses_replies);
	cr_expect(!native_cost("mlx5_core", 0).loses_replies &&
		  !native_cost("virtio_net", 0).loses_replies);
}
