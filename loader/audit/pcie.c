// SPDX-License-Identifier: BSD-2-Clause
/* PCI Express: of the NICs with an RDMA device, and of the GPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>

#include "internal.h"

#define PCI_CONFIG_BYTES 256
#define PCI_CONFIG_BYTES_MOST 4096
#define PCI_CAPABILITIES 0x34
#define PCI_EXPRESS 0x10 /* the capability's id, include/uapi/linux/pci_regs.h */
#define PCI_DEVCTL 8
#define PCI_CAPABILITIES_MAX 48
#define PCI_RELAXED_ORDERING 0x10 /* of device control */
#define PCI_EXTENDED 0x100	  /* where the extended capabilities begin */
#define PCI_ACS 0x0d
#define PCI_ACS_CONTROL 6
#define PCI_ACS_REDIRECT 0x0c /* of requests and completions between devices */

/* NICs with a bus device, each once. */
static void each_device(struct audit_run *run,
			void (*fn)(struct audit_run *run, const char *device, const char *path))
{
	bool any = false;

	audit_for_each_nic(nic, run)
	{
		char path[PATH_MAX];
		bool again = nic > run->nics && !strcmp(nic[-1].device, nic->device);

		if (!nic->driver[0] || again)
			continue;
		any = true;
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", nic->device);
		fn(run, nic->device, path);
	}
	if (!any)
		audit_skip(run, "", "no RDMA device is on a bus");
}

/* "16.0 GT/s PCIe" and "16" of both ends; a slot may be narrower than the card. */
static void width_of(struct audit_run *run, const char *device, const char *path)
{
	char now[32], most[32], lanes[16], lanes_most[16];

	if (audit_read(run, now, sizeof(now), "%s/current_link_speed", path) <= 0 ||
	    audit_read(run, most, sizeof(most), "%s/max_link_speed", path) <= 0 ||
	    audit_read(run, lanes, sizeof(lanes), "%s/current_link_width", path) <= 0 ||
	    audit_read(run, lanes_most, sizeof(lanes_most), "%s/max_link_width", path) <= 0 ||
	    !strncmp(now, "Unknown", 7) || !strcmp(lanes, "0"))
		audit_unknown(run, device,
			      "the link's speed and width cannot be read: a virtual function?");
	else
		audit_decide(run, !strcmp(now, most) && !strcmp(lanes, lanes_most), device,
			     "%s x%s of %s x%s", now, lanes, most, lanes_most);
}

static void width(struct audit_run *run)
{
	each_device(run, width_of);
}

/* The TOTAL_ line of aer_dev_fatal or aer_dev_nonfatal; -1: not known. */
static int64_t aer_total(const struct audit_run *run, const char *path, const char *name)
{
	char text[2048];
	const char *line;
	long long count;

	if (audit_read(run, text, sizeof(text), "%s/%s", path, name) <= 0)
		return -1;
	line = strstr(text, "TOTAL_");
	return line && sscanf(line, "%*s %lld", &count) == 1 ? count : -1;
}

static void aer_of(struct audit_run *run, const char *device, const char *path)
{
	int64_t fatal = aer_total(run, path, "aer_dev_fatal");
	int64_t nonfatal = aer_total(run, path, "aer_dev_nonfatal");

	if (fatal < 0 || nonfatal < 0)
		audit_unknown(run, device, "the device has no AER counters");
	else
		audit_decide(run, fatal + nonfatal == 0, device, "%lld fatal, %lld nonfatal",
			     (long long)fatal, (long long)nonfatal);
}

static void aer(struct audit_run *run)
{
	each_device(run, aer_of);
}

/*
 * The configuration space of the device at @path; only root reads beyond the first 64 bytes. How
 * many bytes were read.
 */
static size_t read_config(const struct audit_run *run, const char *path, uint8_t *out, size_t bytes)
{
	char full[PATH_MAX];
	ssize_t got;
	int fd;

	snprintf(full, sizeof(full), "%s%s/config", run->options->root, path);
	fd = open(full, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, out, bytes);
	close(fd);
	return got < 0 ? 0 : (size_t)got;
}

/* Device control of the PCI Express capability; -1: there is none. */
static int device_control(const uint8_t *config)
{
	size_t at = config[PCI_CAPABILITIES] & ~3u;

	for (int i = 0; i < PCI_CAPABILITIES_MAX && at >= 0x40; i++) {
		if (at + PCI_DEVCTL + 2 > PCI_CONFIG_BYTES)
			return -1;
		if (config[at] == PCI_EXPRESS)
			return config[at + PCI_DEVCTL] | config[at + PCI_DEVCTL + 1] << 8;
		at = config[at + 1] & ~3u;
	}
	return -1;
}

static void unreadable(struct audit_run *run, const char *device)
{
	audit_unknown(run, device, "the configuration space cannot be read: run it as root");
}

/* Device control of the NIC at @path; -1: not known. */
static int control_of(const struct audit_run *run, const char *path)
{
	uint8_t config[PCI_CONFIG_BYTES];

	return read_config(run, path, config, sizeof(config)) == sizeof(config)
		       ? device_control(config)
		       : -1;
}

/* 128 << bits 14:12 for reads, and << bits 7:5 for payloads; 6 and 7 are reserved. */
static void request_of(struct audit_run *run, const char *device, const char *path)
{
	int control = control_of(run, path);

	if (control < 0)
		unreadable(run, device);
	else
		audit_record(run, device, "reads %d, payload %d bytes", 128 << (control >> 12 & 7),
			     128 << (control >> 5 & 7));
}

static void request(struct audit_run *run)
{
	each_device(run, request_of);
}

static void ordering_of(struct audit_run *run, const char *device, const char *path)
{
	int control = control_of(run, path);

	if (control < 0)
		unreadable(run, device);
	else
		audit_record(run, device, "%s",
			     control & PCI_RELAXED_ORDERING ? "relaxed" : "strict");
}

static void ordering(struct audit_run *run)
{
	each_device(run, ordering_of);
}

/* The control register of Access Control Services; -1: the bridge has none. */
static int acs_control(const uint8_t *config, size_t bytes)
{
	size_t at = PCI_EXTENDED;

	for (int i = 0; i < (PCI_CONFIG_BYTES_MOST - PCI_EXTENDED) / 8; i++) {
		if (at < PCI_EXTENDED || at + PCI_ACS_CONTROL + 2 > bytes)
			return -1;
		if ((config[at] | config[at + 1] << 8) == PCI_ACS)
			return config[at + PCI_ACS_CONTROL] | config[at + PCI_ACS_CONTROL + 1] << 8;
		at = (size_t)(config[at + 2] >> 4 | config[at + 3] << 4) & ~3u;
	}
	return -1;
}

/* The bridges above a NIC, by its path in sysfs: redirected requests between devices pass the root.
 */
static void acs_of(struct audit_run *run, const char *device, const char *path)
{
	uint8_t config[PCI_CONFIG_BYTES_MOST];
	char full[PATH_MAX], real[PATH_MAX], *slash;
	size_t skip = 0, bridges = 0, bytes;

	snprintf(full, sizeof(full), "%s%s", run->options->root, path);
	if (run->options->root[0] && realpath(run->options->root, real))
		skip = strlen(real);
	if (!realpath(full, real)) {
		audit_unknown(run, device, "the device's place on the bus cannot be read");
		return;
	}
	while ((slash = strrchr(real + skip, '/'))) {
		int control;

		*slash = '\0';
		/* 0000:15:01.0; the root of the bus is pci0000:15 */
		if (strlen(audit_last(real)) < 12 || audit_last(real)[4] != ':')
			break;
		bytes = read_config(run, real + skip, config, sizeof(config));
		if (bytes < PCI_CONFIG_BYTES) {
			unreadable(run, device);
			return;
		}
		bridges++;
		control = acs_control(config, bytes);
		if (control >= 0 && control & PCI_ACS_REDIRECT) {
			audit_fail(run, device, "%s redirects requests between devices",
				   audit_last(real));
			return;
		}
	}
	if (bridges)
		audit_pass(run, device, "off on %zu bridge%s", bridges, bridges > 1 ? "s" : "");
	else
		audit_unknown(run, device, "there is no bridge above it: a virtual machine?");
}

static void acs(struct audit_run *run)
{
	each_device(run, acs_of);
}

static void node_of(struct audit_run *run, const char *device, const char *path)
{
	int64_t node;

	if (!audit_read_number(run, &node, "%s/numa_node", path) || node < 0)
		audit_unknown(run, device, "the firmware does not report the device's NUMA node");
	else
		audit_record(run, device, "%lld", (long long)node);
}

static void node(struct audit_run *run)
{
	each_device(run, node_of);
}

struct devices {
	size_t gpus, nics, storage;
	bool any;
};

/* By class code: 0x0302 and 0x1200 are GPUs, 0x02 network, 0x0108 NVMe. */
static void count_device(struct audit_run *run, const char *path, void *context)
{
	struct devices *devices = context;
	int64_t class;

	if (!audit_read_number(run, &class, "%s", path))
		return;
	devices->any = true;
	devices->gpus += class >> 8 == 0x0302 || class >> 8 == 0x1200;
	devices->nics += class >> 16 == 0x02;
	devices->storage += class >> 8 == 0x0108;
}

size_t audit_gpus(struct audit_run *run)
{
	struct devices found = {};

	audit_each(run, "/sys/bus/pci/devices/*/class", count_device, &found);
	return found.gpus;
}

static void devices(struct audit_run *run)
{
	struct devices found = {};

	audit_each(run, "/sys/bus/pci/devices/*/class", count_device, &found);
	if (!found.any)
		audit_unknown(run, "", "there is no PCI bus");
	else
		audit_record(run, "", "%zu GPUs, %zu network, %zu NVMe", found.gpus, found.nics,
			     found.storage);
}

struct groups {
	size_t count, translated;
};

static void count_group(struct audit_run *run, const char *path, void *context)
{
	struct groups *groups = context;
	char text[32];

	if (audit_read(run, text, sizeof(text), "%s", path) <= 0)
		return;
	groups->count++;
	groups->translated += !strcmp(text, "DMA") || !strcmp(text, "DMA-FQ");
}

static void iommu(struct audit_run *run)
{
	struct groups groups = {};

	audit_each(run, "/sys/kernel/iommu_groups/*/type", count_group, &groups);
	if (!groups.count)
		audit_unknown(run, "", "the kernel has no IOMMU groups");
	else if (groups.translated)
		audit_fail(run, "", "%zu of %zu groups are translated", groups.translated,
			   groups.count);
	else
		audit_pass(run, "", "identity");
}

/* clang-format off: a table */

#define PCIE .group = "configuration.pcie"

const struct audit_check audit_pcie_checks[] = {
	{"pcie.width", PCIE, .name = "PCIe speed and width",
	 .source = "/sys/class/infiniband/*/device/{current,max}_link_{speed,width}",
	 .criterion = "the device's own maximum",
	 .remedy =
		 "reseat the card or its riser; waive it where the slot is narrower than the card",
	 .unknown = "the files are missing, as for a virtual function", .severity = "critical",
	 .run = width},
	{"pcie.errors", PCIE, .name = "uncorrectable PCIe errors",
	 .source = "/sys/class/infiniband/*/device/aer_dev_{fatal,nonfatal}",
	 .criterion = "0 since boot", .remedy = "drain the host; reseat the card, then replace it",
	 .unknown = "the kernel does not own AER", .severity = "critical", .run = aer},
	{"pcie.request", PCIE, .name = "PCIe read request and payload", .compare = AUDIT_MAJORITY,
	 .source = "/sys/class/infiniband/*/device/config", .criterion = "as on most hosts",
	 .remedy = "compare the firmware's settings; setpci changes it until the next boot",
	 .unknown = "the command was not run as root", .severity = "warning", .run = request},
	{"pcie.ordering", PCIE, .name = "relaxed ordering of the NIC", .compare = AUDIT_MAJORITY,
	 .source = "/sys/class/infiniband/*/device/config", .criterion = "as on most hosts",
	 .remedy = "compare the firmware's settings (PCI_WR_ORDERING of mlxconfig) and the kernel",
	 .unknown = "the command was not run as root", .severity = "warning", .run = ordering},
	{"pcie.acs", PCIE, .name = "ACS of the bridges above the NIC",
	 .source = "config of the devices above /sys/class/infiniband/*/device",
	 .criterion = "no bridge redirects requests or completions between devices",
	 .remedy = "disable ACS in the firmware's settings, or with setpci at each boot; needed "
		   "where virtual machines own devices: waive it there",
	 .unknown = "the command was not run as root, or there is no bridge", .severity = "warning",
	 .run = acs},
	{"pcie.node", PCIE, .name = "NUMA node of the NIC", .compare = AUDIT_MAJORITY,
	 .source = "/sys/class/infiniband/*/device/numa_node", .criterion = "as on most hosts",
	 .remedy = "move the card to the slot that it has in the other hosts",
	 .unknown = "the firmware does not report it", .severity = "warning", .run = node},
	{"pcie.devices", PCIE, .name = "PCI devices", .compare = AUDIT_MAJORITY,
	 .source = "/sys/bus/pci/devices/*/class", .criterion = "as on most hosts",
	 .remedy = "look for the device that is missing: lspci, dmesg",
	 .unknown = "there is no PCI bus", .severity = "critical", .run = devices},
	{"pcie.iommu", PCIE, .name = "IOMMU", .source = "/sys/kernel/iommu_groups/*/type",
	 .criterion = "identity: no group is translated", .remedy = "boot with iommu=pt",
	 .unknown = "there are no groups", .severity = "warning", .run = iommu},
	{},
};
