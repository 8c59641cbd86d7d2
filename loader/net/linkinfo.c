// SPDX-License-Identifier: BSD-2-Clause
#include "linkinfo.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/readfile.h"
#include "rdma.h"
#include "rtnl.h"

/* linux/ethtool_netlink.h of Debian 12 ends before it; that of 6.2. */
#define LINKSTATE_EXT_DOWN_CNT 7

/* --- carrier --- */

/* 0 is what stands for nothing. */
static uint64_t digest(uint64_t sum, const void *bytes, size_t count)
{
	sum = hash_add(sum ? sum : HASH_FIRST, bytes, count);
	return sum ? sum : 1;
}

static void parse_kind(const struct nlattr *info, struct link_carrier *out)
{
	const struct nlattr *a;
	char kind[16];

	mnl_attr_for_each_nested (a, info) {
		if (mnl_attr_get_type(a) == IFLA_INFO_KIND) {
			netlink_text(a, kind, sizeof(kind));
			out->identity = digest(out->identity, kind, strlen(kind));
			/* IFLA_LINK of a veth is its peer, which is not below it. */
			if (strcmp(kind, "vlan") && strcmp(kind, "macvlan"))
				out->lower = 0;
		} else if (mnl_attr_get_type(a) == IFLA_INFO_SLAVE_KIND) {
			netlink_text(a, kind, sizeof(kind));
			out->bonded = !strcmp(kind, "bond") || !strcmp(kind, "team");
		}
	}
}

int link_carrier_parse(const struct nlmsghdr *message, struct link_carrier *out)
{
	const struct ifinfomsg *link = netlink_header(message, sizeof(*link));
	const struct nlattr *a[IFLA_MAX + 1], *mac;

	if (!link || (message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK) ||
	    link->ifi_family != AF_UNSPEC)
		return -ENOENT;
	netlink_attributes(message, sizeof(*link), a, IFLA_MAX);
	memset(out, 0, sizeof(*out));
	out->ifindex = link->ifi_index;
	out->gone = message->nlmsg_type == RTM_DELLINK;
	out->admin_up = link->ifi_flags & IFF_UP;
	out->carrier = netlink_number(a[IFLA_CARRIER]) != 0;
	out->up_count = netlink_number(a[IFLA_CARRIER_UP_COUNT]);
	out->down_count = netlink_number(a[IFLA_CARRIER_DOWN_COUNT]);
	out->master = netlink_number(a[IFLA_MASTER]);
	netlink_text(a[IFLA_IFNAME], out->name, sizeof(out->name));
	if (!a[IFLA_LINK_NETNSID] && a[IFLA_LINKINFO])
		out->lower = netlink_number(a[IFLA_LINK]);
	mac = a[IFLA_PERM_ADDRESS];
	if (mac)
		out->identity = digest(0, mnl_attr_get_payload(mac), mnl_attr_get_payload_len(mac));
	if (a[IFLA_LINKINFO])
		parse_kind(a[IFLA_LINKINFO], out);
	return 0;
}

struct carriers {
	link_carrier_fn *fn;
	void *context;
};

static int take_carrier(const struct nlmsghdr *message, void *context)
{
	const struct carriers *to = context;
	struct link_carrier link;

	return link_carrier_parse(message, &link) ? 0 : to->fn(&link, to->context);
}

int link_carrier_dump(link_carrier_fn *fn, void *context)
{
	struct carriers to = {fn, context};
	union netlink_request request;

	netlink_begin(&request, RTM_GETLINK, NLM_F_DUMP, sizeof(struct ifinfomsg));
	return netlink_query(NETLINK_ROUTE, &request, take_carrier, &to);
}

int link_carrier_receive(int fd, link_carrier_fn *fn, void *context)
{
	static char buffer[64 * 1024] __attribute__((aligned(8)));
	struct carriers to = {fn, context};
	int lost = 0;

	for (unsigned int i = 0; i < LINK_MESSAGES_MAX; i++) {
		const struct nlmsghdr *message = (const void *)buffer;
		int left = (int)recv(fd, buffer, sizeof(buffer), 0);

		if (left < 0 && errno == ENOBUFS)
			lost = -ENOBUFS;
		else if (left < 0 && errno != EINTR)
			break;
		for (; left > 0 && mnl_nlmsg_ok(message, left) &&
		       message->nlmsg_len <= (uint32_t)left;
		     message = mnl_nlmsg_next(message, &left))
			take_carrier(message, &to);
	}
	return lost;
}

/* --- ethtool netlink (Documentation/networking/ethtool-netlink.rst) --- */

void link_details_clear(struct link_details *out)
{
	memset(out, 0, sizeof(*out));
	out->ext_downs = out->fec_corrected = out->fec_uncorrectable = LINK_UNKNOWN;
	out->symbol_errors = out->pause_rx = out->pause_tx = out->rdma_downed = LINK_UNKNOWN;
	for (int i = 0; i < LINK_PRIORITIES; i++)
		out->priority_rx[i] = out->priority_tx[i] = LINK_UNKNOWN;
	out->temperature_mc = INT32_MIN;
}

static uint64_t number64(const struct nlattr *attribute)
{
	uint64_t number;

	if (!attribute || mnl_attr_get_payload_len(attribute) < sizeof(number))
		return LINK_UNKNOWN;
	memcpy(&number, mnl_attr_get_payload(attribute), sizeof(number));
	return number;
}

/* The attributes in @nest by type; all NULL when it is not there. */
static void nested(const struct nlattr *nest, const struct nlattr **out, unsigned int most)
{
	const struct nlattr *a;

	memset(out, 0, (most + 1) * sizeof(*out));
	if (nest)
		mnl_attr_for_each_nested (a, nest)
			if (mnl_attr_get_type(a) <= most)
				out[mnl_attr_get_type(a)] = a;
}

/* As ethtool(8) writes them, by enum ethtool_link_ext_state. */
static const char *const ext_states[] = {
	"Autoneg",
	"Link training failure",
	"Logical mismatch",
	"Bad signal integrity",
	"No cable",
	"Cable issue",
	"EEPROM issue",
	"Calibration failure",
	"Power budget exceeded",
	"Overheat",
	"Module",
};

int link_parse_state(const struct nlmsghdr *message, void *details)
{
	const struct nlattr *a[LINKSTATE_EXT_DOWN_CNT + 1];
	struct link_details *out = details;
	uint32_t state;

	netlink_attributes(message, sizeof(struct genlmsghdr), a, LINKSTATE_EXT_DOWN_CNT);
	state = netlink_number(a[ETHTOOL_A_LINKSTATE_EXT_STATE]);
	if (a[ETHTOOL_A_LINKSTATE_EXT_STATE])
		out->ext_state = state < sizeof(ext_states) / sizeof(ext_states[0])
					 ? ext_states[state]
					 : "Unknown";
	if (a[LINKSTATE_EXT_DOWN_CNT])
		out->ext_downs = netlink_number(a[LINKSTATE_EXT_DOWN_CNT]);
	return 0;
}

/* The bit of enum ethtool_link_mode_bit_indices that is in use; NULL: none of FEC. */
static const char *fec_mode(const struct nlattr *active)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} modes[] = {{ETHTOOL_LINK_MODE_FEC_NONE_BIT, "Off"},
		     {ETHTOOL_LINK_MODE_FEC_RS_BIT, "RS"},
		     {ETHTOOL_LINK_MODE_FEC_BASER_BIT, "BaseR"},
		     {ETHTOOL_LINK_MODE_FEC_LLRS_BIT, "LLRS"}};

	for (size_t i = 0; active && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (netlink_number(active) == modes[i].bit)
			return modes[i].name;
	return NULL;
}

/* Arrays: the sum of all lanes, and then each (net/ethtool/fec.c, fec_stats_recalc()). */
int link_parse_fec(const struct nlmsghdr *message, void *details)
{
	const struct nlattr *a[ETHTOOL_A_FEC_STATS + 1], *stats[ETHTOOL_A_FEC_STAT_UNCORR + 1];
	struct link_details *out = details;

	netlink_attributes(message, sizeof(struct genlmsghdr), a, ETHTOOL_A_FEC_STATS);
	nested(a[ETHTOOL_A_FEC_STATS], stats, ETHTOOL_A_FEC_STAT_UNCORR);
	out->fec_mode = fec_mode(a[ETHTOOL_A_FEC_ACTIVE]);
	out->fec_corrected = number64(stats[ETHTOOL_A_FEC_STAT_CORRECTED]);
	out->fec_uncorrectable = number64(stats[ETHTOOL_A_FEC_STAT_UNCORR]);
	return 0;
}

int link_parse_pause(const struct nlmsghdr *message, void *details)
{
	const struct nlattr *a[ETHTOOL_A_PAUSE_STATS + 1];
	const struct nlattr *stats[ETHTOOL_A_PAUSE_STAT_RX_FRAMES + 1];
	struct link_details *out = details;

	netlink_attributes(message, sizeof(struct genlmsghdr), a, ETHTOOL_A_PAUSE_STATS);
	nested(a[ETHTOOL_A_PAUSE_STATS], stats, ETHTOOL_A_PAUSE_STAT_RX_FRAMES);
	out->pause_tx = number64(stats[ETHTOOL_A_PAUSE_STAT_TX_FRAMES]);
	out->pause_rx = number64(stats[ETHTOOL_A_PAUSE_STAT_RX_FRAMES]);
	return 0;
}

/* 30.3.2.1.5 aSymbolErrorDuringCarrier, the only one of the group eth-phy. */
int link_parse_phy(const struct nlmsghdr *message, void *details)
{
	const struct nlattr *a[ETHTOOL_A_STATS_GRP + 1], *group[ETHTOOL_A_STATS_GRP_STAT + 1];
	const struct nlattr *stat;
	struct link_details *out = details;

	netlink_attributes(message, sizeof(struct genlmsghdr), a, ETHTOOL_A_STATS_GRP);
	nested(a[ETHTOOL_A_STATS_GRP], group, ETHTOOL_A_STATS_GRP_STAT);
	if (netlink_number(group[ETHTOOL_A_STATS_GRP_ID]) != ETHTOOL_STATS_ETH_PHY ||
	    !group[ETHTOOL_A_STATS_GRP_STAT])
		return 0;
	mnl_attr_for_each_nested (stat, group[ETHTOOL_A_STATS_GRP_STAT])
		if (mnl_attr_get_type(stat) == ETHTOOL_A_STATS_ETH_PHY_5_SYM_ERR)
			out->symbol_errors = number64(stat);
	return 0;
}

/*
 * The header of each message has the same members, and in all but STATS_GET the type 1. @flags: a
 * message that does not know one is refused.
 */
static void ethtool_begin(union netlink_request *request, uint16_t family, uint8_t command,
			  const char *name, uint32_t flags)
{
	struct genlmsghdr *header = netlink_begin(request, family, 0, sizeof(*header));
	bool stats = command == ETHTOOL_MSG_STATS_GET;
	struct nlattr *nest;

	header->cmd = command;
	header->version = ETHTOOL_GENL_VERSION;
	nest = mnl_attr_nest_start(&request->header,
				   stats ? ETHTOOL_A_STATS_HEADER : ETHTOOL_A_LINKSTATE_HEADER);
	mnl_attr_put_strz(&request->header, ETHTOOL_A_HEADER_DEV_NAME, name);
	mnl_attr_put_u32(&request->header, ETHTOOL_A_HEADER_FLAGS, flags);
	mnl_attr_nest_end(&request->header, nest);
}

/* With its statistics; those of LINKSTATE_GET are there since Linux 6.2. */
static void query_stats(uint16_t family, uint8_t command, const char *name, netlink_reply_fn *fn,
			struct link_details *out)
{
	union netlink_request request;

	ethtool_begin(&request, family, command, name, ETHTOOL_FLAG_STATS);
	if (netlink_query(NETLINK_GENERIC, &request, fn, out) != -EINVAL)
		return;
	ethtool_begin(&request, family, command, name, 0);
	netlink_query(NETLINK_GENERIC, &request, fn, out);
}

static void query_phy(uint16_t family, const char *name, struct link_details *out)
{
	union netlink_request request;
	struct nlattr *nest;

	ethtool_begin(&request, family, ETHTOOL_MSG_STATS_GET, name, 0);
	nest = mnl_attr_nest_start(&request.header, ETHTOOL_A_STATS_GROUPS);
	mnl_attr_put(&request.header, ETHTOOL_A_BITSET_NOMASK, 0, NULL);
	mnl_attr_put_u32(&request.header, ETHTOOL_A_BITSET_SIZE, 32);
	mnl_attr_put_u32(&request.header, ETHTOOL_A_BITSET_VALUE, 1u << ETHTOOL_STATS_ETH_PHY);
	mnl_attr_nest_end(&request.header, nest);
	netlink_query(NETLINK_GENERIC, &request, link_parse_phy, out);
}

/* --- the module's temperature --- */

#define MODULE_ADDRESS 0x50
#define MODULE_SFP_DDM 0x51
#define MODULE_BYTES 128

struct module_page {
	uint8_t bytes[MODULE_BYTES];
	bool read;
};

static int parse_module(const struct nlmsghdr *message, void *context)
{
	const struct nlattr *a[ETHTOOL_A_MODULE_EEPROM_DATA + 1], *data;
	struct module_page *page = context;

	netlink_attributes(message, sizeof(struct genlmsghdr), a, ETHTOOL_A_MODULE_EEPROM_DATA);
	data = a[ETHTOOL_A_MODULE_EEPROM_DATA];
	page->read = data && mnl_attr_get_payload_len(data) >= MODULE_BYTES;
	if (page->read)
		memcpy(page->bytes, mnl_attr_get_payload(data), MODULE_BYTES);
	return 0;
}

/* Bytes 0 to 127 of page 0. */
static bool query_module(uint16_t family, const char *name, uint8_t address,
			 struct module_page *page)
{
	union netlink_request request;

	page->read = false;
	ethtool_begin(&request, family, ETHTOOL_MSG_MODULE_EEPROM_GET, name, 0);
	mnl_attr_put_u32(&request.header, ETHTOOL_A_MODULE_EEPROM_OFFSET, 0);
	mnl_attr_put_u32(&request.header, ETHTOOL_A_MODULE_EEPROM_LENGTH, MODULE_BYTES);
	mnl_attr_put_u8(&request.header, ETHTOOL_A_MODULE_EEPROM_PAGE, 0);
	mnl_attr_put_u8(&request.header, ETHTOOL_A_MODULE_EEPROM_BANK, 0);
	mnl_attr_put_u8(&request.header, ETHTOOL_A_MODULE_EEPROM_I2C_ADDRESS, address);
	return !netlink_query(NETLINK_GENERIC, &request, parse_module, page) && page->read;
}

/* 1/256 degrees, signed; a module without a sensor, such as a copper cable, has 0. */
static int32_t temperature_at(const uint8_t *bytes)
{
	int16_t raw = (int16_t)(bytes[0] << 8 | bytes[1]);

	return raw ? raw * 1000 / 256 : INT32_MIN;
}

int32_t link_module_temperature(const uint8_t lower[MODULE_BYTES], const uint8_t *ddm)
{
	switch (lower[0]) { /* SFF-8024, table 4-1 */
	case 0x03:	    /* SFP: SFF-8472, byte 92: digital diagnostics are implemented */
		return ddm && lower[92] & 0x40 ? temperature_at(ddm + 96) : INT32_MIN;
	case 0x0c: /* QSFP, QSFP+, QSFP28: SFF-8636 */
	case 0x0d:
	case 0x11:
		return temperature_at(lower + 22);
	case 0x18: /* QSFP-DD, OSFP, and QSFP, SFP with CMIS */
	case 0x19:
	case 0x1e:
	case 0x1f:
		return temperature_at(lower + 14);
	}
	return INT32_MIN;
}

static void read_module(uint16_t family, const char *name, struct link_details *out)
{
	struct module_page lower, ddm = {};

	if (!query_module(family, name, MODULE_ADDRESS, &lower))
		return;
	if (lower.bytes[0] == 0x03 && lower.bytes[92] & 0x40)
		query_module(family, name, MODULE_SFP_DDM, &ddm);
	out->temperature_mc = link_module_temperature(lower.bytes, ddm.read ? ddm.bytes : NULL);
}

/* --- `ethtool -S`: what has no other interface, by the drivers' names --- */

#define STATS_MAX 16384

void link_take_stat(const char *name, uint64_t value, struct link_details *out)
{
	/* Of each priority, the PFC frames that stop it. */
	static const struct {
		const char *before, *behind;
		bool tx;
	} names[] = {
		{"rx_prio", "_pause", false},	       /* mlx5 */
		{"tx_prio", "_pause", true},	       /* mlx5 */
		{"rx_priority_", "_xoff.nic", false},  /* ice */
		{"tx_priority_", "_xoff.nic", true},   /* ice */
		{"port.rx_priority_", "_xoff", false}, /* i40e */
		{"port.tx_priority_", "_xoff", true},  /* i40e */
		{"rx_pfc_ena_frames_pri", "", false},  /* bnxt */
		{"tx_pfc_ena_frames_pri", "", true},   /* bnxt */
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t bytes = strlen(names[i].before);
		unsigned int priority;

		if (strncmp(name, names[i].before, bytes))
			continue;
		priority = (unsigned int)(name[bytes] - '0');
		if (priority < LINK_PRIORITIES && !strcmp(name + bytes + 1, names[i].behind))
			(names[i].tx ? out->priority_tx : out->priority_rx)[priority] = value;
	}
	/* Where the driver does not have it in its standard statistics. */
	if (out->symbol_errors == LINK_UNKNOWN && !strcmp(name, "rx_symbol_err_phy"))
		out->symbol_errors = value;
}

static int stats_call(int fd, const char *name, void *command)
{
	struct ifreq request = {.ifr_data = command};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	return ioctl(fd, SIOCETHTOOL, &request) < 0 ? -errno : 0;
}

static void read_stats(const char *name, struct link_details *out)
{
	struct {
		struct ethtool_sset_info info;
		uint32_t count;
	} query = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ULL << ETH_SS_STATS}};
	struct ethtool_gstrings *strings = NULL;
	struct ethtool_stats *values = NULL;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t count;

	if (fd < 0)
		return;
	if (stats_call(fd, name, &query) || !query.info.sset_mask || query.count > STATS_MAX)
		goto out;
	count = query.count;
	/* The driver may have more now, and writes as many as it has: room for twice as many. */
	strings = calloc(1, sizeof(*strings) + 2 * (size_t)count * ETH_GSTRING_LEN);
	values = calloc(1, sizeof(*values) + 2 * (size_t)count * sizeof(uint64_t));
	if (!strings || !values)
		goto out;
	*strings = (struct ethtool_gstrings){ETHTOOL_GSTRINGS, ETH_SS_STATS, count};
	*values = (struct ethtool_stats){ETHTOOL_GSTATS, count};
	if (stats_call(fd, name, strings) || stats_call(fd, name, values))
		goto out;
	/* Both again have the count that the driver had. */
	for (uint32_t i = 0; i < count && i < strings->len && i < values->n_stats; i++) {
		char text[ETH_GSTRING_LEN + 1] = "";

		memcpy(text, strings->data + (size_t)i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
		link_take_stat(text, values->data[i], out);
	}
out:
	free(values);
	free(strings);
	close(fd);
}

/* --- RDMA --- */

/* "4: ACTIVE": the part behind the number. */
static void read_state(char *out, size_t bytes, const char *port, const char *file)
{
	char text[64], *name;

	readtext(text, sizeof(text), "%s/%s", port, file);
	name = strstr(text, ": ");
	snprintf(out, bytes, "%s", name ? name + 2 : "");
}

/* irdma writes "N/A (no PMA)"; a file that cannot be read is not there. */
static uint64_t read_counter(const char *port, const char *folder)
{
	char text[64], *end;
	uint64_t value;

	if (readtext(text, sizeof(text), "%s/%s/link_downed", port, folder) <= 0)
		return LINK_UNKNOWN;
	errno = 0;
	value = strtoull(text, &end, 10);
	return end == text || *end || errno ? LINK_UNKNOWN : value;
}

void link_read_rdma(const char *sysroot, const char *name, struct link_details *out)
{
	struct rdma_facts rdma;
	char port[512];

	rdma_read(sysroot, name, &rdma);
	snprintf(out->rdma, sizeof(out->rdma), "%s", rdma.device);
	out->rdma_port = rdma.port;
	if (!rdma.device[0])
		return;
	snprintf(port, sizeof(port), "%.300s/class/infiniband/%s/ports/%u", sysroot, rdma.device,
		 rdma.port);
	read_state(out->rdma_state, sizeof(out->rdma_state), port, "state");
	read_state(out->rdma_phys, sizeof(out->rdma_phys), port, "phys_state");
	out->rdma_downed = read_counter(port, "hw_counters");
	if (out->rdma_downed == LINK_UNKNOWN)
		out->rdma_downed = read_counter(port, "counters");
}

void link_details_read(const char *sysroot, const char *name, struct link_details *out)
{
	uint16_t family = netlink_family(ETHTOOL_GENL_NAME);

	link_details_clear(out);
	if (family) {
		query_stats(family, ETHTOOL_MSG_LINKSTATE_GET, name, link_parse_state, out);
		query_stats(family, ETHTOOL_MSG_FEC_GET, name, link_parse_fec, out);
		query_stats(family, ETHTOOL_MSG_PAUSE_GET, name, link_parse_pause, out);
		query_phy(family, name, out);
		read_module(family, name, out);
	}
	read_stats(name, out);
	link_read_rdma(sysroot, name, out);
}
