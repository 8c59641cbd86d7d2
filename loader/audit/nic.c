// SPDX-License-Identifier: BSD-2-Clause
/* RDMA ports: state, firmware, RoCE and InfiniBand settings; and the fabric's link below them. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/readfile.h"
#include "internal.h"

#define GIDS_MAX 256
#define GID_HOLE_MAX 16 /* GIDs of a port come first in the table; holes are short */
#define PRIORITIES 8
#define PKEY_FULL 0x8000u /* full membership, IBTA 10.9.2 */
#define LID_MULTICAST 0xc000
#define TEMPERATURE_MOST_MC 85000 /* of a module's case; alarms of most are at 75 to 85 degrees */

/* --- the ports --- */

/* @path: /sys/class/infiniband/D/ports/N. */
static void find_netdev(const struct audit_run *run, const char *path, struct audit_nic *nic)
{
	for (int i = 0, hole = 0; !nic->netdev[0] && hole < GID_HOLE_MAX; i++)
		if (audit_read(run, nic->netdev, sizeof(nic->netdev), "%s/gid_attrs/ndevs/%d", path,
			       i) <= 0)
			hole++;
}

static void find_driver(const struct audit_run *run, struct audit_nic *nic)
{
	char path[PATH_MAX], link[PATH_MAX];
	ssize_t bytes;

	snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s/device/driver", run->options->root,
		 nic->device);
	bytes = readlink(path, link, sizeof(link) - 1);
	link[bytes < 0 ? 0 : bytes] = '\0';
	snprintf(nic->driver, sizeof(nic->driver), "%.31s", bytes < 0 ? "" : audit_last(link));
}

static void find_bus(const struct audit_run *run, struct audit_nic *nic)
{
	char path[PATH_MAX], real[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s/device", run->options->root,
		 nic->device);
	if (nic->driver[0] && realpath(path, real))
		snprintf(nic->bus, sizeof(nic->bus), "%.31s", audit_last(real));
}

/* What the driver reports by netlink; of a captured tree, what was recorded. */
static void read_netlink(const struct audit_run *run, struct audit_nic *nic)
{
	if (!run->options->root[0]) {
		link_details_read("/sys", nic->netdev, &nic->link);
		dcb_read(nic->netdev, &nic->dcb);
		return;
	}
	audit_recorded(run, nic->netdev, "fec", link_parse_fec, &nic->link);
	audit_recorded(run, nic->netdev, "pause", link_parse_pause, &nic->link);
	audit_recorded(run, nic->netdev, "dcb", dcb_parse, &nic->dcb);
}

static void add_nic(struct audit_run *run, const char *path, void *context)
{
	struct audit_nic *nic = &run->nics[run->nic_count];
	const char *device = path + strlen("/sys/class/infiniband/");
	char name[64], layer[32];

	(void)context;
	if (run->nic_count == AUDIT_NICS_MAX) {
		run->nics_left_out++;
		return;
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(device, "/"), device);
	memcpy(nic->device, name, sizeof(name));
	nic->port = strtoul(audit_last(path), NULL, 10);
	snprintf(nic->subject, sizeof(nic->subject), "%s:%u", name, nic->port);
	if (audit_read(run, layer, sizeof(layer), "%s/link_layer", path) > 0)
		nic->infiniband = !strcmp(layer, "InfiniBand");
	nic->roce = !layer[0] || !strcmp(layer, "Ethernet");
	find_netdev(run, path, nic);
	find_driver(run, nic);
	find_bus(run, nic);
	link_details_clear(&nic->link);
	dcb_clear(&nic->dcb);
	if (nic->netdev[0])
		read_netlink(run, nic);
	run->nic_count++;
}

void audit_find_nics(struct audit_run *run)
{
	audit_each(run, "/sys/class/infiniband/*/ports/[0-9]*", add_nic, NULL);
}

#define PORT "/sys/class/infiniband/%s/ports/%u"

static void each_nic(struct audit_run *run,
		     void (*fn)(struct audit_run *run, struct audit_nic *nic), bool needs_active)
{
	if (!run->nic_count)
		audit_skip(run, "", "there is no RDMA device");
	audit_for_each_nic(nic, run) if (needs_active && nic->active_failed)
		audit_skip(run, nic->subject, "nic.active failed");
	else fn(run, nic);
}

/* --- all ports --- */

static void count(struct audit_run *run)
{
	if (run->nics_left_out)
		audit_unknown(run, "", "more than %d ports: the others were not examined",
			      AUDIT_NICS_MAX);
	else if (!run->nic_count)
		audit_unknown(run, "", "there is no RDMA device");
	else
		audit_record(run, "", "%zu", run->nic_count);
}

/* "4: ACTIVE" and "5: LinkUp". */
static void active_of(struct audit_run *run, struct audit_nic *nic)
{
	char state[32], phys[32];

	if (audit_read(run, state, sizeof(state), PORT "/state", nic->device, nic->port) <= 0 ||
	    audit_read(run, phys, sizeof(phys), PORT "/phys_state", nic->device, nic->port) <= 0) {
		audit_unknown(run, nic->subject, "the port's state cannot be read");
		return;
	}
	nic->active_failed = !strstr(state, "ACTIVE") || !strstr(phys, "LinkUp");
	audit_decide(run, !nic->active_failed, nic->subject, "%s, %s",
		     state + strspn(state, "0123456789: "), phys + strspn(phys, "0123456789: "));
}

static void active(struct audit_run *run)
{
	each_nic(run, active_of, false);
}

/* A file of the port or the device whose text should be equal on all hosts. */
static void record_file(struct audit_run *run, const struct audit_nic *nic, const char *format)
{
	char path[PATH_MAX], text[128];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(path, sizeof(path), format, nic->device, nic->port);
#pragma GCC diagnostic pop
	if (audit_read(run, text, sizeof(text), "%s", path) <= 0 || !text[0])
		audit_unknown(run, nic->subject, "%s cannot be read", path);
	else
		audit_record(run, nic->subject, "%s", text);
}

static void layer_of(struct audit_run *run, struct audit_nic *nic)
{
	record_file(run, nic, PORT "/link_layer");
}

static void layer(struct audit_run *run)
{
	each_nic(run, layer_of, false);
}

static void rate_of(struct audit_run *run, struct audit_nic *nic)
{
	record_file(run, nic, PORT "/rate");
}

static void rate(struct audit_run *run)
{
	each_nic(run, rate_of, true);
}

static void firmware_of(struct audit_run *run, struct audit_nic *nic)
{
	if (nic->driver[0])
		record_file(run, nic, "/sys/class/infiniband/%s/fw_ver");
	else
		audit_skip(run, nic->subject, "a software device has no firmware");
}

static void firmware(struct audit_run *run)
{
	each_nic(run, firmware_of, false);
}

/* The driver's own version where it is not the kernel's. */
static void driver_of(struct audit_run *run, struct audit_nic *nic)
{
	char version[64];

	if (!nic->driver[0])
		audit_skip(run, nic->subject, "a software device has no driver of a bus");
	else if (audit_read(run, version, sizeof(version), "/sys/module/%s/version", nic->driver) >
		 0)
		audit_record(run, nic->subject, "%s %s", nic->driver, version);
	else
		audit_record(run, nic->subject, "%s of the kernel", nic->driver);
}

static void driver(struct audit_run *run)
{
	each_nic(run, driver_of, false);
}

/* PCI address, RDMA device and network device belong together in the same way on all hosts. */
static void names_of(struct audit_run *run, struct audit_nic *nic)
{
	if (!nic->driver[0])
		audit_skip(run, nic->subject, "a software device is on no bus");
	else if (!nic->bus[0])
		audit_unknown(run, nic->subject, "the device's place on the bus cannot be read");
	else
		audit_record(run, nic->subject, "%s %s %s", nic->bus, nic->device,
			     nic->netdev[0] ? nic->netdev : "-");
}

static void names(struct audit_run *run)
{
	each_nic(run, names_of, false);
}

/* --- what the driver reports by netlink --- */

static void fec_of(struct audit_run *run, struct audit_nic *nic)
{
	if (nic->link.fec_uncorrectable == LINK_UNKNOWN)
		audit_unknown(run, nic->subject, "the driver reports no FEC counters");
	else
		audit_decide(run, nic->link.fec_uncorrectable == 0, nic->subject,
			     "%llu uncorrectable blocks",
			     (unsigned long long)nic->link.fec_uncorrectable);
}

static void fec(struct audit_run *run)
{
	each_nic(run, fec_of, true);
}

static void fec_mode_of(struct audit_run *run, struct audit_nic *nic)
{
	if (nic->link.fec_mode)
		audit_record(run, nic->subject, "%s", nic->link.fec_mode);
	else
		audit_unknown(run, nic->subject, "the driver reports no FEC mode");
}

static void fec_mode(struct audit_run *run)
{
	each_nic(run, fec_mode_of, true);
}

static void temperature_of(struct audit_run *run, struct audit_nic *nic)
{
	if (nic->link.temperature_mc == INT32_MIN)
		audit_unknown(run, nic->subject, "the module measures no temperature, or has none");
	else
		audit_decide(run, nic->link.temperature_mc <= TEMPERATURE_MOST_MC, nic->subject,
			     "%.1f C", nic->link.temperature_mc / 1e3);
}

static void temperature(struct audit_run *run)
{
	each_nic(run, temperature_of, false);
}

/* --- RoCE --- */

void audit_each_roce(struct audit_run *run,
		     void (*fn)(struct audit_run *run, struct audit_nic *nic), bool needs_active)
{
	bool any = false;

	audit_for_each_nic(nic, run)
	{
		any |= nic->roce;
		if (nic->roce && needs_active && nic->active_failed)
			audit_skip(run, nic->subject, "nic.active failed");
		else if (nic->roce)
			fn(run, nic);
	}
	if (!any)
		audit_skip(run, "", "there is no RoCE port");
}

/* Not all zero, and not fe80::/10, in the notation of sysfs. */
static bool gid_is_routable(const char *gid)
{
	return strspn(gid, "0:") != strlen(gid) && strncmp(gid, "fe8", 3) &&
	       strncmp(gid, "fe9", 3) && strncmp(gid, "fea", 3) && strncmp(gid, "feb", 3);
}

int audit_gid_index(const struct audit_run *run, const struct audit_nic *nic)
{
	int first = -1;

	for (int i = 0, hole = 0; i < GIDS_MAX && hole < GID_HOLE_MAX; i++) {
		char type[32], gid[64];

		if (audit_read(run, type, sizeof(type), PORT "/gid_attrs/types/%d", nic->device,
			       nic->port, i) <= 0 ||
		    audit_read(run, gid, sizeof(gid), PORT "/gids/%d", nic->device, nic->port, i) <=
			    0) {
			hole++;
			continue;
		}
		hole = 0;
		if (strcmp(type, "RoCE v2") || !gid_is_routable(gid))
			continue;
		if (!strncmp(gid, "0000:0000:0000:0000:0000:ffff:", 30))
			return i;
		if (first < 0)
			first = i;
	}
	return first;
}

static void gid_of(struct audit_run *run, struct audit_nic *nic)
{
	char type[32];
	int index = audit_gid_index(run, nic);

	if (index >= 0)
		audit_pass(run, nic->subject, "%d", index);
	else if (audit_read(run, type, sizeof(type), PORT "/gid_attrs/types/0", nic->device,
			    nic->port) <= 0)
		audit_unknown(run, nic->subject, "the port's GID table cannot be read");
	else
		audit_fail(run, nic->subject, "none");
}

static void gid(struct audit_run *run)
{
	audit_each_roce(run, gid_of, true);
}

static void gid_same_of(struct audit_run *run, struct audit_nic *nic)
{
	int index = audit_gid_index(run, nic);

	if (index < 0)
		audit_skip(run, nic->subject, "there is no such GID");
	else
		audit_record(run, nic->subject, "%d", index);
}

static void gid_same(struct audit_run *run)
{
	audit_each_roce(run, gid_same_of, true);
}

static void mtu_of(struct audit_run *run, struct audit_nic *nic)
{
	int64_t mtu;

	if (!nic->netdev[0] || !audit_read_number(run, &mtu, "/sys/class/net/%s/mtu", nic->netdev))
		audit_unknown(run, nic->subject,
			      "the port has no network device whose MTU can be read");
	else
		audit_record(run, nic->subject, "%lld", (long long)mtu);
}

static void mtu(struct audit_run *run)
{
	audit_each_roce(run, mtu_of, false);
}

/* Enabled priorities as digits, of mlx5's /sys/class/net/N/ecn/roce_{np,rp}/enable/P. */
static bool ecn_priorities(const struct audit_run *run, const struct audit_nic *nic,
			   const char *role, char out[PRIORITIES + 1])
{
	size_t used = 0;

	for (int i = 0; i < PRIORITIES; i++) {
		int64_t on;

		if (!audit_read_number(run, &on, "/sys/class/net/%s/ecn/roce_%s/enable/%d",
				       nic->netdev, role, i))
			return false;
		if (on)
			out[used++] = (char)('0' + i);
	}
	out[used] = '\0';
	return true;
}

static void ecn_of(struct audit_run *run, struct audit_nic *nic)
{
	char notify[PRIORITIES + 1], react[PRIORITIES + 1];

	if (!nic->netdev[0] || !ecn_priorities(run, nic, "np", notify) ||
	    !ecn_priorities(run, nic, "rp", react))
		audit_unknown(run, nic->subject,
			      "the driver does not report it in sysfs (mlx5 does)");
	else if (strcmp(notify, react))
		audit_fail(run, nic->subject, "CNPs for priorities %s, reaction for %s",
			   notify[0] ? notify : "none", react[0] ? react : "none");
	else
		audit_decide(run, notify[0], nic->subject, "priorities %s",
			     notify[0] ? notify : "none");
}

static void ecn(struct audit_run *run)
{
	audit_each_roce(run, ecn_of, false);
}

/* Both kinds of pause at once are a misconfiguration: global pause stops every priority. */
static void pause_of(struct audit_run *run, struct audit_nic *nic)
{
	uint64_t global = nic->link.pause_rx, priority = 0;
	bool known = global != LINK_UNKNOWN;

	for (int i = 0; i < LINK_PRIORITIES; i++)
		if (nic->link.priority_rx[i] != LINK_UNKNOWN)
			priority += nic->link.priority_rx[i];
	if (!known)
		audit_unknown(run, nic->subject, "the driver reports no pause frames");
	else
		audit_decide(run, !global || !priority, nic->subject,
			     "%llu global, %llu of priorities", (unsigned long long)global,
			     (unsigned long long)priority);
}

static void pause_frames(struct audit_run *run)
{
	audit_each_roce(run, pause_of, false);
}

/* The kernel uses the greater of `all` and the device's (Documentation/networking/ip-sysctl.rst).
 */
static int64_t effective(const struct audit_run *run, const char *netdev, const char *key)
{
	int64_t all, own;

	if (!audit_read_number(run, &all, "/proc/sys/net/ipv4/conf/all/%s", key) ||
	    !audit_read_number(run, &own, "/proc/sys/net/ipv4/conf/%s/%s", netdev, key))
		return -1;
	return all > own ? all : own;
}

/*
 * With several ports in one subnet the kernel replies to ARP on any of them, and packets of one
 * rail arrive on another. With one port nothing can be confused.
 */
static void arp_of(struct audit_run *run, struct audit_nic *nic)
{
	int64_t filter = effective(run, nic->netdev, "rp_filter");
	int64_t ignore = effective(run, nic->netdev, "arp_ignore");
	int64_t announce = effective(run, nic->netdev, "arp_announce");

	if (!nic->netdev[0] || filter < 0 || ignore < 0 || announce < 0)
		audit_unknown(run, nic->subject,
			      "the settings of its network device cannot be read");
	else
		audit_decide(run,
			     run->nic_count < 2 || (filter != 1 && ignore >= 1 && announce == 2),
			     nic->subject, "rp_filter %lld, arp_ignore %lld, arp_announce %lld",
			     (long long)filter, (long long)ignore, (long long)announce);
}

static void arp(struct audit_run *run)
{
	audit_each_roce(run, arp_of, false);
}

/* The next hop of a route over @netdev, as /proc/net/route has it; false: there is none. */
static bool gateway_of(const char *routes, const char *netdev, uint32_t *gateway)
{
	char name[64];

	for (const char *line = strchr(routes, '\n'); line; line = strchr(line + 1, '\n'))
		if (sscanf(line + 1, "%63s %*x %x", name, gateway) == 2 && !strcmp(name, netdev) &&
		    *gateway)
			return true;
	return false;
}

/* Whether /proc/net/arp has a complete entry (ATF_COM, 2) of an address on a device. */
static bool neighbor_is_complete(const char *table, uint32_t address, const char *netdev)
{
	char text[20], ip[20], device[64];
	unsigned int flags;

	snprintf(text, sizeof(text), "%u.%u.%u.%u", address & 255, address >> 8 & 255,
		 address >> 16 & 255, address >> 24);
	for (const char *line = strchr(table, '\n'); line; line = strchr(line + 1, '\n'))
		if (sscanf(line + 1, "%19s %*x %x %*s %*s %63s", ip, &flags, device) == 3 &&
		    !strcmp(ip, text) && !strcmp(device, netdev))
			return flags & 2;
	return false;
}

static void next_hop_of(struct audit_run *run, struct audit_nic *nic)
{
	static char routes[65536], table[65536];
	uint32_t gateway;

	if (!nic->netdev[0] || audit_read(run, routes, sizeof(routes), "/proc/net/route") <= 0 ||
	    audit_read(run, table, sizeof(table), "/proc/net/arp") <= 0)
		audit_unknown(run, nic->subject, "/proc/net/route or /proc/net/arp cannot be read");
	else if (!gateway_of(routes, nic->netdev, &gateway))
		audit_unknown(run, nic->subject, "no IPv4 route of %s has a next hop", nic->netdev);
	else
		audit_decide(run, neighbor_is_complete(table, gateway, nic->netdev), nic->subject,
			     "%u.%u.%u.%u", gateway & 255, gateway >> 8 & 255, gateway >> 16 & 255,
			     gateway >> 24);
}

static void next_hop(struct audit_run *run)
{
	audit_each_roce(run, next_hop_of, true);
}

static void address_of(struct audit_run *run, struct audit_nic *nic)
{
	char gid[64];
	int index = nic->roce ? audit_gid_index(run, nic) : 0;

	if (index < 0)
		audit_skip(run, nic->subject, "roce.gid: there is no routable GID");
	else if (audit_read(run, gid, sizeof(gid), PORT "/gids/%d", nic->device, nic->port,
			    index) <= 0)
		audit_unknown(run, nic->subject, "the port's GID cannot be read");
	else
		audit_record(run, nic->subject, "%s", gid);
}

static void address(struct audit_run *run)
{
	each_nic(run, address_of, false);
}

/* Of the port: two ports of a device have the same node_guid. */
static void guid_of(struct audit_run *run, struct audit_nic *nic)
{
	char guid[32];

	if (audit_read(run, guid, sizeof(guid), "/sys/class/infiniband/%s/node_guid",
		       nic->device) <= 0)
		audit_unknown(run, nic->subject, "node_guid cannot be read");
	else
		audit_record(run, nic->subject, "%s port %u", guid, nic->port);
}

static void guid(struct audit_run *run)
{
	each_nic(run, guid_of, false);
}

/* --- InfiniBand --- */

static void each_infiniband(struct audit_run *run,
			    void (*fn)(struct audit_run *run, struct audit_nic *nic))
{
	bool any = false;

	audit_for_each_nic(nic, run)
	{
		any |= nic->infiniband;
		if (nic->infiniband && nic->active_failed)
			audit_skip(run, nic->subject, "nic.active failed");
		else if (nic->infiniband)
			fn(run, nic);
	}
	if (!any)
		audit_skip(run, "", "there is no InfiniBand port");
}

static void manager_of(struct audit_run *run, struct audit_nic *nic)
{
	int64_t lid;

	if (!audit_read_number(run, &lid, PORT "/sm_lid", nic->device, nic->port))
		audit_unknown(run, nic->subject, "sm_lid cannot be read");
	else
		audit_decide(run, lid > 0 && lid < LID_MULTICAST, nic->subject, "LID %lld",
			     (long long)lid);
}

static void manager(struct audit_run *run)
{
	each_infiniband(run, manager_of);
}

static void lid_of(struct audit_run *run, struct audit_nic *nic)
{
	record_file(run, nic, PORT "/lid");
}

static void lid(struct audit_run *run)
{
	each_infiniband(run, lid_of);
}

static void pkey_of(struct audit_run *run, struct audit_nic *nic)
{
	int64_t pkey;

	if (!audit_read_number(run, &pkey, PORT "/pkeys/0", nic->device, nic->port))
		audit_unknown(run, nic->subject, "pkeys/0 cannot be read");
	else
		audit_decide(run, pkey & PKEY_FULL, nic->subject, "0x%llx", (long long)pkey);
}

static void pkey(struct audit_run *run)
{
	each_infiniband(run, pkey_of);
}

static void description_of(struct audit_run *run, struct audit_nic *nic)
{
	char text[128], host[128];

	if (audit_read(run, host, sizeof(host), "/proc/sys/kernel/hostname") <= 0 ||
	    audit_read(run, text, sizeof(text), "/sys/class/infiniband/%s/node_desc",
		       nic->device) <= 0)
		audit_unknown(run, nic->subject, "the host's name or node_desc cannot be read");
	else
		audit_decide(run, strstr(text, host), nic->subject, "%s", text);
}

static void description(struct audit_run *run)
{
	each_infiniband(run, description_of);
}

/* clang-format off: a table */

#define BACKEND .group = "backend"
#define ROCE .group = "backend.roce"
#define INFINIBAND .group = "backend.infiniband"

const struct audit_check audit_nic_checks[] = {
	{"nic.count", BACKEND, .name = "RDMA ports", .compare = AUDIT_MAJORITY,
	 .source = "/sys/class/infiniband/*/ports", .criterion = "as on most hosts",
	 .remedy = "look for the NIC that is missing: lspci, dmesg", .unknown = "there is none",
	 .severity = "critical", .run = count},
	{"nic.active", BACKEND, .name = "port state", .source = "ports/N/state, phys_state",
	 .criterion = "ACTIVE, LinkUp", .remedy = "check cable and module; then the switch's port",
	 .unknown = "a file is missing", .severity = "critical", .run = active},
	{"nic.rate", BACKEND, .name = "port rate", .compare = AUDIT_MAJORITY,
	 .source = "ports/N/rate", .criterion = "as on most hosts",
	 .remedy = "check cable and module, and the switch's port speed",
	 .unknown = "the file is missing", .severity = "critical", .run = rate},
	{"nic.link_layer", BACKEND, .name = "link layer", .compare = AUDIT_MAJORITY,
	 .source = "ports/N/link_layer", .criterion = "as on most hosts",
	 .remedy = "set the port's type as on the other hosts: mlxconfig LINK_TYPE_P1",
	 .unknown = "the file is missing", .severity = "critical", .run = layer},
	{"nic.firmware", BACKEND, .name = "firmware", .compare = AUDIT_MAJORITY, .source = "fw_ver",
	 .criterion = "as on most hosts", .remedy = "flash the release of the other hosts",
	 .unknown = "a file is missing", .severity = "warning", .run = firmware},
	{"nic.driver", BACKEND, .name = "driver", .compare = AUDIT_MAJORITY,
	 .source = "/sys/module/DRIVER/version", .criterion = "as on most hosts",
	 .remedy = "install the release of the other hosts", .unknown = "a file is missing",
	 .severity = "warning", .run = driver},
	{"nic.names", BACKEND, .name = "names of PCI, RDMA and network device",
	 .compare = AUDIT_MAJORITY, .source = "/sys/class/infiniband/*/device, gid_attrs/ndevs",
	 .criterion = "as on most hosts",
	 .remedy = "udev rules or rdma-core's persistent names, the same on all hosts",
	 .unknown = "a file is missing", .severity = "warning", .run = names},
	{"nic.fec", BACKEND, .name = "FEC", .source = "ethtool netlink, FEC statistics",
	 .criterion = "0 uncorrectable blocks", .remedy = "clean or replace cable and module",
	 .unknown = "the driver does not report it", .severity = "warning", .run = fec},
	{"nic.fec_mode", BACKEND, .name = "FEC mode", .compare = AUDIT_MAJORITY,
	 .source = "ethtool netlink, FEC", .criterion = "as on most hosts",
	 .remedy = "ethtool --set-fec DEV encoding MODE, as the switch's port has it",
	 .unknown = "the driver does not report it", .severity = "warning", .run = fec_mode},
	{"nic.temperature", BACKEND, .name = "module temperature",
	 .source = "ethtool netlink, module EEPROM", .criterion = "at most 85 C",
	 .remedy = "check the host's air flow; replace the module",
	 .unknown = "the module does not measure it", .severity = "warning", .run = temperature},
	{"nic.address", BACKEND, .name = "GID", .compare = AUDIT_UNIQUE, .source = "ports/N/gids",
	 .criterion = "no other port has it", .remedy = "give one of the hosts another address",
	 .unknown = "the port has no GID", .severity = "critical", .run = address},
	{"nic.guid", BACKEND, .name = "GUID", .compare = AUDIT_UNIQUE, .source = "node_guid",
	 .criterion = "no other device has it",
	 .remedy = "flash the card with its own GUID, that of its label",
	 .unknown = "the file is missing", .severity = "critical", .run = guid},
	{"roce.gid", ROCE, .name = "GID index", .source = "ports/N/gids, gid_attrs/types",
	 .criterion = "a routable GID of RoCE v2",
	 .remedy = "give the port's network device an address", .unknown = "a file is missing",
	 .severity = "critical", .run = gid},
	{"roce.gid_same", ROCE, .name = "the same GID index", .compare = AUDIT_MAJORITY,
	 .source = "ports/N/gids, gid_attrs/types", .criterion = "as on most hosts",
	 .remedy = "remove addresses that other hosts do not have; NCCL_IB_GID_INDEX names one "
		   "index for all",
	 .unknown = "never; skipped without such a GID", .severity = "critical", .run = gid_same},
	{"roce.mtu", ROCE, .name = "MTU", .compare = AUDIT_MAJORITY,
	 .source = "/sys/class/net/*/mtu", .criterion = "as on most hosts",
	 .remedy = "set the MTU of the other hosts", .unknown = "the port has no network device",
	 .severity = "critical", .run = mtu},
	{"roce.ecn", ROCE, .name = "ECN of RoCE",
	 .source = "/sys/class/net/*/ecn/roce_{np,rp}/enable",
	 .criterion = "the same priorities notify and react, at least one",
	 .remedy = "enable both for the job's priority", .unknown = "the driver does not report it",
	 .severity = "warning", .run = ecn},
	{"roce.pause", ROCE, .name = "pause frames", .source = "ethtool netlink, pause statistics",
	 .criterion = "not both global and priority pause",
	 .remedy = "ethtool -A DEV rx off tx off where PFC is used",
	 .unknown = "the driver does not report them", .severity = "warning", .run = pause_frames},
	{"roce.arp", ROCE, .name = "ARP and reverse path of several ports",
	 .source = "/proc/sys/net/ipv4/conf/*/{rp_filter,arp_ignore,arp_announce}",
	 .criterion = "rp_filter 0 or 2, arp_ignore 1 or more, arp_announce 2 where there are "
		      "several ports",
	 .remedy = "set them in /etc/sysctl.d", .unknown = "the port has no network device",
	 .severity = "warning", .run = arp},
	{"roce.next_hop", ROCE, .name = "next hop", .source = "/proc/net/route, /proc/net/arp",
	 .criterion = "it has replied to ARP",
	 .remedy = "ping it from the port; check VLAN and cabling",
	 .unknown = "no route of the port has a next hop", .severity = "critical", .run = next_hop},
	{"infiniband.manager", INFINIBAND, .name = "subnet manager", .source = "ports/N/sm_lid",
	 .criterion = "a unicast LID", .remedy = "start opensm, or check the fabric manager",
	 .unknown = "the file is missing", .severity = "critical", .run = manager},
	{"infiniband.lid", INFINIBAND, .name = "LID", .compare = AUDIT_UNIQUE,
	 .source = "ports/N/lid", .criterion = "no other port has it",
	 .remedy = "restart the subnet manager's sweep", .unknown = "the file is missing",
	 .severity = "critical", .run = lid},
	{"infiniband.pkey", INFINIBAND, .name = "partition", .source = "ports/N/pkeys/0",
	 .criterion = "full membership (0x8000)",
	 .remedy = "add the port to the partition as a full member",
	 .unknown = "the file is missing", .severity = "warning", .run = pkey},
	{"infiniband.description", INFINIBAND, .name = "node description", .source = "node_desc",
	 .criterion = "it has the host's name", .remedy = "start rdma-ndd",
	 .unknown = "the file is missing", .severity = "warning", .run = description},
	{},
};
