// SPDX-License-Identifier: BSD-2-Clause
/*
 * What is read of a link. Replies of ethtool netlink are made after the kernel's own
 * (net/ethtool/linkstate.c, fec.c, pause.c, stats.c; net/core/rtnetlink.c), with the parts that
 * each driver fills in; the counters of `ethtool -S` and the trees of sysfs are in tests/fixtures.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/linkinfo.h"

static char buffer[4096] __attribute__((aligned(8)));

static struct nlmsghdr *message(int type, size_t bytes)
{
	struct nlmsghdr *out = mnl_nlmsg_put_header(buffer);

	memset(buffer + out->nlmsg_len, 0, sizeof(buffer) - out->nlmsg_len);
	out->nlmsg_type = type;
	mnl_nlmsg_put_extra_header(out, bytes);
	return out;
}

static const char *fixture(const char *name)
{
	const char *top = getenv("ESCAPEMENT_TOP");
	static char path[512];

	snprintf(path, sizeof(path), "%s/tests/fixtures/%s", top ? top : ".", name);
	return path;
}

/* --- carrier --- */

static struct nlmsghdr *link_message(int type, unsigned int flags, uint8_t carrier, uint32_t up,
				     uint32_t down)
{
	struct nlmsghdr *out = message(type, sizeof(struct ifinfomsg));
	struct ifinfomsg *link = mnl_nlmsg_get_payload(out);

	link->ifi_index = 7;
	link->ifi_flags = flags;
	mnl_attr_put_strz(out, IFLA_IFNAME, "eth1");
	mnl_attr_put_u8(out, IFLA_CARRIER, carrier);
	mnl_attr_put_u32(out, IFLA_CARRIER_UP_COUNT, up);
	mnl_attr_put_u32(out, IFLA_CARRIER_DOWN_COUNT, down);
	return out;
}

Test(linkinfo, a_message_of_a_link)
{
	struct link_carrier link;
	struct nlmsghdr *out = link_message(RTM_NEWLINK, IFF_UP, 1, 5, 4);

	mnl_attr_put(out, IFLA_PERM_ADDRESS, 6, "\x02\x00\x00\x00\x00\x01");
	cr_assert_eq(link_carrier_parse(out, &link), 0);
	cr_expect_eq(link.ifindex, 7);
	cr_expect_str_eq(link.name, "eth1");
	cr_expect(link.admin_up && link.carrier && !link.gone);
	cr_expect_eq(link.up_count, 5);
	cr_expect_eq(link.down_count, 4);
	cr_expect_neq(link.identity, 0);
	cr_assert_eq(link_carrier_parse(link_message(RTM_DELLINK, 0, 0, 5, 5), &link), 0);
	cr_expect(link.gone && !link.admin_up && !link.carrier);
	cr_expect_eq(link.identity, 0);
}

/* A bridge's port has messages of its own family, without counters. */
Test(linkinfo, other_messages_are_not_of_links)
{
	struct nlmsghdr *out = link_message(RTM_DELLINK, IFF_UP, 1, 5, 4);
	struct link_carrier link;

	((struct ifinfomsg *)mnl_nlmsg_get_payload(out))->ifi_family = AF_BRIDGE;
	cr_expect_eq(link_carrier_parse(out, &link), -ENOENT);
	cr_expect_eq(link_carrier_parse(link_message(RTM_NEWADDR, IFF_UP, 1, 5, 4), &link),
		     -ENOENT);
	out = message(RTM_NEWLINK, 4);
	cr_expect_eq(link_carrier_parse(out, &link), -ENOENT, "too short");
}

static void put_kind(struct nlmsghdr *out, int type, const char *kind)
{
	struct nlattr *nest = mnl_attr_nest_start(out, IFLA_LINKINFO);

	mnl_attr_put_strz(out, type, kind);
	mnl_attr_nest_end(out, nest);
}

Test(linkinfo, what_is_below_a_device)
{
	static const struct {
		const char *kind;
		unsigned int lower;
	} kinds[] = {{"vlan", 3}, {"macvlan", 3}, {"veth", 0}};
	struct link_carrier link;
	struct nlmsghdr *out;

	for (size_t i = 0; i < 3; i++) {
		out = link_message(RTM_NEWLINK, IFF_UP, 1, 1, 0);
		mnl_attr_put_u32(out, IFLA_LINK, 3);
		put_kind(out, IFLA_INFO_KIND, kinds[i].kind);
		cr_assert_eq(link_carrier_parse(out, &link), 0);
		cr_expect_eq(link.lower, kinds[i].lower, "%s", kinds[i].kind);
		mnl_attr_put_u32(out, IFLA_LINK_NETNSID, 0);
		cr_assert_eq(link_carrier_parse(out, &link), 0);
		cr_expect_eq(link.lower, 0, "it is in another namespace");
	}
	out = link_message(RTM_NEWLINK, IFF_UP, 1, 1, 0);
	mnl_attr_put_u32(out, IFLA_MASTER, 9);
	put_kind(out, IFLA_INFO_SLAVE_KIND, "bond");
	cr_assert_eq(link_carrier_parse(out, &link), 0);
	cr_expect(link.bonded);
	cr_expect_eq(link.master, 9);
}

/* --- ethtool netlink --- */

static struct nlmsghdr *ethtool_message(void)
{
	struct nlmsghdr *out = message(32, sizeof(struct genlmsghdr));
	struct nlattr *nest = mnl_attr_nest_start(out, ETHTOOL_A_LINKSTATE_HEADER);

	mnl_attr_put_u32(out, ETHTOOL_A_HEADER_DEV_INDEX, 7);
	mnl_attr_put_strz(out, ETHTOOL_A_HEADER_DEV_NAME, "eth1");
	mnl_attr_nest_end(out, nest);
	return out;
}

Test(linkinfo, why_there_is_no_link)
{
	struct nlmsghdr *out = ethtool_message();
	struct link_details details;

	link_details_clear(&details);
	mnl_attr_put_u8(out, ETHTOOL_A_LINKSTATE_LINK, 0);
	link_parse_state(out, &details);
	cr_expect_null(details.ext_state, "a driver without it, as bnxt_en");
	cr_expect_eq(details.ext_downs, LINK_UNKNOWN);
	mnl_attr_put_u8(out, ETHTOOL_A_LINKSTATE_EXT_STATE, 4);
	mnl_attr_put_u32(out, 7, 12); /* ETHTOOL_A_LINKSTATE_EXT_DOWN_CNT */
	link_parse_state(out, &details);
	cr_expect_str_eq(details.ext_state, "No cable");
	cr_expect_eq(details.ext_downs, 12);
	out = ethtool_message();
	mnl_attr_put_u8(out, ETHTOOL_A_LINKSTATE_EXT_STATE, 200);
	link_parse_state(out, &details);
	cr_expect_str_eq(details.ext_state, "Unknown", "of a later kernel");
}

Test(linkinfo, fec_counts_are_the_sum_of_the_lanes)
{
	static const uint64_t lanes[] = {100, 70, 30, 0, 0}, one[] = {8};
	struct nlmsghdr *out = ethtool_message();
	struct link_details details;
	struct nlattr *nest;

	/* mlx5: with lanes; the sum is ahead of them. */
	link_details_clear(&details);
	nest = mnl_attr_nest_start(out, ETHTOOL_A_FEC_STATS);
	mnl_attr_put(out, ETHTOOL_A_FEC_STAT_CORRECTED, sizeof(lanes), lanes);
	mnl_attr_put(out, ETHTOOL_A_FEC_STAT_UNCORR, sizeof(one), one);
	/* A driver that does not count them: an empty array. */
	mnl_attr_put(out, ETHTOOL_A_FEC_STAT_CORR_BITS, 0, NULL);
	mnl_attr_nest_end(out, nest);
	link_parse_fec(out, &details);
	cr_expect_eq(details.fec_corrected, 100);
	cr_expect_eq(details.fec_uncorrectable, 8);
	out = ethtool_message();
	nest = mnl_attr_nest_start(out, ETHTOOL_A_FEC_STATS);
	mnl_attr_put(out, ETHTOOL_A_FEC_STAT_CORRECTED, 0, NULL);
	mnl_attr_nest_end(out, nest);
	link_parse_fec(out, &details);
	cr_expect_eq(details.fec_corrected, LINK_UNKNOWN);
	cr_expect_eq(details.fec_uncorrectable, LINK_UNKNOWN);
	link_parse_fec(ethtool_message(), &details);
	cr_expect_eq(details.fec_corrected, LINK_UNKNOWN);
}

Test(linkinfo, pause_and_symbol_errors)
{
	struct nlmsghdr *out = ethtool_message();
	struct link_details details;
	struct nlattr *nest, *stat;

	link_details_clear(&details);
	nest = mnl_attr_nest_start(out, ETHTOOL_A_PAUSE_STATS);
	mnl_attr_put_u64(out, ETHTOOL_A_PAUSE_STAT_RX_FRAMES, 5);
	mnl_attr_nest_end(out, nest);
	link_parse_pause(out, &details);
	cr_expect_eq(details.pause_rx, 5);
	cr_expect_eq(details.pause_tx, LINK_UNKNOWN);
	out = ethtool_message();
	nest = mnl_attr_nest_start(out, ETHTOOL_A_STATS_GRP);
	mnl_attr_put_u32(out, ETHTOOL_A_STATS_GRP_ID, ETHTOOL_STATS_ETH_PHY);
	mnl_attr_put_u32(out, ETHTOOL_A_STATS_GRP_SS_ID, 17);
	stat = mnl_attr_nest_start(out, ETHTOOL_A_STATS_GRP_STAT);
	mnl_attr_put_u64(out, ETHTOOL_A_STATS_ETH_PHY_5_SYM_ERR, 3);
	mnl_attr_nest_end(out, stat);
	mnl_attr_nest_end(out, nest);
	link_parse_phy(out, &details);
	cr_expect_eq(details.symbol_errors, 3);
}

/* --- the module --- */

Test(linkinfo, temperature_of_a_module)
{
	static const struct {
		uint8_t kind, at;
		bool ddm;
	} modules[] = {{0x0d, 22, false}, {0x11, 22, false}, {0x18, 14, false},
		       {0x19, 14, false}, {0x1e, 14, false}, {0x03, 96, true}};

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		uint8_t lower[128] = {modules[i].kind}, ddm[128] = {0};
		uint8_t *page = modules[i].ddm ? ddm : lower;

		cr_expect_eq(link_module_temperature(lower, ddm), INT32_MIN, "no sensor");
		page[modules[i].at] = 43; /* SFF-8636 table 6-7: 1/256 of a degree, signed */
		page[modules[i].at + 1] = 0x80;
		cr_expect_eq(link_module_temperature(lower, ddm),
			     modules[i].ddm ? INT32_MIN : 43500);
		lower[92] = 0x40;
		cr_expect_eq(link_module_temperature(lower, ddm), 43500);
		page[modules[i].at] = 0xf6;
		page[modules[i].at + 1] = 0;
		cr_expect_eq(link_module_temperature(lower, ddm), -10000);
	}
	cr_expect_eq(link_module_temperature((uint8_t[128]){0x02, [22] = 40}, NULL), INT32_MIN,
		     "soldered to the board");
	cr_expect_eq(link_module_temperature((uint8_t[128]){0x03, [92] = 0x40}, NULL), INT32_MIN,
		     "its second address was not read");
}

/* --- `ethtool -S` --- */

static struct link_details read_fixture(const char *driver)
{
	char line[256], path[64], name[64];
	unsigned long long value;
	struct link_details details;
	FILE *file;

	link_details_clear(&details);
	snprintf(path, sizeof(path), "ethtool/%s", driver);
	file = fopen(fixture(path), "r");
	cr_assert_not_null(file, "%s", path);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " %63[^:]: %llu", name, &value) == 2)
			link_take_stat(name, value, &details);
	fclose(file);
	return details;
}

static void expect_priorities(const uint64_t *found, const uint64_t *expected, const char *name)
{
	for (int i = 0; i < LINK_PRIORITIES; i++)
		cr_expect_eq(found[i], expected[i], "%s: priority %d", name, i);
}

#define U LINK_UNKNOWN
Test(linkinfo, priorities_by_the_names_of_each_driver)
{
	static const struct {
		const char *driver;
		uint64_t rx[8], tx[8], symbols;
	} drivers[] = {
		{"mlx5_core", {U, U, U, 17, U, U, U, U}, {U, U, U, 4, U, U, U, U}, 12},
		{"ice", {U, U, U, 5, U, U, U, 0}, {2, U, U, 3, U, U, U, U}, U},
		{"bnxt_en", {0, U, U, 21, U, U, U, U}, {U, U, U, 6, U, U, U, U}, U},
	};

	for (size_t i = 0; i < 3; i++) {
		struct link_details details = read_fixture(drivers[i].driver);

		expect_priorities(details.priority_rx, drivers[i].rx, drivers[i].driver);
		expect_priorities(details.priority_tx, drivers[i].tx, drivers[i].driver);
		cr_expect_eq(details.symbol_errors, drivers[i].symbols, "%s", drivers[i].driver);
	}
}

Test(linkinfo, names_that_are_no_priorities)
{
	static const char *const names[] = {"rx_prio8_pause",	     "rx_prio_pause",
					    "rx_prio3_pauses",	     "rx_prio33_pause",
					    "rx_pfc_ena_frames_pri", "rx_prio",
					    "rx_priority_3_xon.nic", ""};
	static const uint64_t none[] = {U, U, U, U, U, U, U, U};
	struct link_details details;

	link_details_clear(&details);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		link_take_stat(names[i], 1, &details);
	expect_priorities(details.priority_rx, none, "rx");
	expect_priorities(details.priority_tx, none, "tx");
}

/* --- RDMA ports in the trees of drivers --- */

Test(linkinfo, rdma_ports)
{
	static const struct {
		const char *netdev, *device, *state, *phys;
		unsigned int port;
		uint64_t downed;
	} rows[] = {
		{"eth0", "", "", "", 0, U},
		/* 8 bits in the classic counters (IBTA PortCounters): it stays at 255. */
		{"eth1", "mlx5_0", "ACTIVE", "LinkUp", 1, 255},
		{"eth2", "rxe0", "ACTIVE", "LinkUp", 1, 3},
		/* "N/A (no PMA)" is no number. */
		{"eth4", "irdma0", "DOWN", "Disabled", 2, U},
		{"eth5", "bnxt_re0", "ACTIVE", "LinkUp", 1, U},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct link_details details;

		link_details_clear(&details);
		link_read_rdma(fixture("sysfs"), rows[i].netdev, &details);
		cr_expect_str_eq(details.rdma, rows[i].device, "%s", rows[i].netdev);
		cr_expect_eq(details.rdma_port, rows[i].port, "%s", rows[i].netdev);
		cr_expect_str_eq(details.rdma_state, rows[i].state, "%s", rows[i].netdev);
		cr_expect_str_eq(details.rdma_phys, rows[i].phys, "%s", rows[i].netdev);
		cr_expect_eq(details.rdma_downed, rows[i].downed, "%s", rows[i].netdev);
	}
}
