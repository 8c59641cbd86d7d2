// SPDX-License-Identifier: BSD-2-Clause
/* Software and memory of the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define SHM_BYTES_LEAST (8ll << 30) /* NCCL maps some 10 MiB for each pair of local ranks */

/* --- software --- */

static void kernel(struct audit_run *run)
{
	char text[128];

	if (audit_read(run, text, sizeof(text), "/proc/sys/kernel/osrelease") > 0)
		audit_record(run, "", "%s", text);
	else
		audit_unknown(run, "", "/proc/sys/kernel/osrelease cannot be read");
}

static void clocksource(struct audit_run *run)
{
	static const char *const good[] = {"tsc", "arch_sys_counter", "kvm-clock",
					   "hyperv_clocksource_tsc_page"};
	char text[64];

	if (audit_read(run, text, sizeof(text),
		       "/sys/devices/system/clocksource/clocksource0/current_clocksource") <= 0) {
		audit_unknown(run, "", "current_clocksource cannot be read");
		return;
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!strcmp(text, good[i])) {
			audit_pass(run, "", "%s", text);
			return;
		}
	audit_fail(run, "", "%s", text);
}

struct daemons {
	size_t seen, count;
	char names[AUDIT_TEXT_BYTES];
};

/* One of the programs that discipline the system clock. */
static void count_time_daemon(struct audit_run *run, const char *path, void *context)
{
	static const char *const known[] = {"chronyd", "ntpd", "systemd-timesyn", "phc2sys",
					    "openntpd"};
	struct daemons *daemons = context;
	size_t used = strlen(daemons->names);
	char text[32];

	if (audit_read(run, text, sizeof(text), "%s", path) <= 0)
		return;
	daemons->seen++;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(text, known[i]) || strstr(daemons->names, text))
			continue;
		daemons->count++;
		snprintf(daemons->names + used, sizeof(daemons->names) - used, "%s%s",
			 used ? ", " : "", text);
	}
}

static void time_daemon(struct audit_run *run)
{
	struct daemons daemons = {};

	audit_each(run, "/proc/[0-9]*/comm", count_time_daemon, &daemons);
	if (!daemons.seen)
		audit_unknown(run, "", "no process can be read in /proc");
	else
		audit_decide(run, daemons.count == 1, "", "%s",
			     daemons.count ? daemons.names : "none runs");
}

struct launchers {
	size_t count;
	bool limited;
	char text[AUDIT_TEXT_BYTES];
};

/* Jobs inherit the limits of what starts them. */
static void read_launcher(struct audit_run *run, const char *path, void *context)
{
	static const char *const known[] = {"slurmd", "slurmstepd", "kubelet", "containerd",
					    "dockerd"};
	struct launchers *launchers = context;
	char comm[32], limits[4096], folder[PATH_MAX], value[32];
	const char *line;

	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
	if (audit_read(run, comm, sizeof(comm), "%s", path) <= 0)
		return;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(comm, known[i]) ||
		    audit_read(run, limits, sizeof(limits), "%s/limits", folder) <= 0)
			continue;
		line = strstr(limits, "Max locked memory");
		if (!line || sscanf(line + strlen("Max locked memory"), "%31s", value) != 1)
			continue;
		launchers->count++;
		if (strcmp(value, "unlimited") && !launchers->limited) {
			launchers->limited = true;
			snprintf(launchers->text, sizeof(launchers->text), "%s: %s", comm, value);
		}
	}
}

static void memlock(struct audit_run *run)
{
	struct launchers launchers = {};

	audit_each(run, "/proc/[0-9]*/comm", read_launcher, &launchers);
	if (!launchers.count)
		audit_unknown(run, "", "neither slurmd nor kubelet nor a container runtime runs");
	else
		audit_decide(run, !launchers.limited, "", "%s",
			     launchers.limited ? launchers.text : "unlimited");
}

/* In bytes, of "KEY:  N kB" in /proc/meminfo; -1: not known. */
static int64_t meminfo(const struct audit_run *run, const char *key)
{
	char text[4096];
	const char *line;
	long long kib;

	if (audit_read(run, text, sizeof(text), "/proc/meminfo") <= 0)
		return -1;
	line = strstr(text, key);
	return line && sscanf(line + strlen(key), ": %lld", &kib) == 1 ? kib * 1024 : -1;
}

/* "size=16777216k" of a tmpfs, as tmpfs(5) prints it; without one it has half of the memory. */
static int64_t shm_bytes(const struct audit_run *run, const char *mounts)
{
	const char *line = strstr(mounts, " /dev/shm tmpfs "), *end, *size;
	char unit = 0;
	long long number;

	if (!line)
		return -1;
	end = line + strcspn(line, "\n");
	size = strstr(line, "size=");
	if (!size || size > end)
		return meminfo(run, "MemTotal") / 2;
	if (sscanf(size, "size=%lld%c", &number, &unit) < 1)
		return -1;
	return unit == 'k' ? number << 10 : unit == 'm' ? number << 20 : number;
}

static void shm(struct audit_run *run)
{
	static char mounts[65536];
	int64_t bytes = -1;

	if (audit_read(run, mounts, sizeof(mounts), "/proc/self/mounts") > 0)
		bytes = shm_bytes(run, mounts);
	if (bytes < 0)
		audit_unknown(run, "", "no tmpfs on /dev/shm in /proc/self/mounts");
	else
		audit_decide(run, bytes >= SHM_BYTES_LEAST, "", "%lld MiB", (long long)bytes >> 20);
}

/* Without it the NIC reaches GPU memory by DMA-BUF alone, or by copies in host memory. */
static void peermem(struct audit_run *run)
{
	static char modules[65536];

	if (audit_read(run, modules, sizeof(modules), "/proc/modules") <= 0)
		audit_unknown(run, "", "/proc/modules cannot be read");
	else if (!strstr(modules, "nvidia ") && !strstr(modules, "amdgpu "))
		audit_unknown(run, "", "no GPU driver is loaded");
	else if (strstr(modules, "amdgpu "))
		audit_pass(run, "", "amdgpu has it");
	else
		audit_decide(run, strstr(modules, "nvidia_peermem "), "", "%s",
			     strstr(modules, "nvidia_peermem ") ? "loaded" : "not loaded");
}

void audit_nccl_value(const char *text, const char *key, char *out, size_t bytes)
{
	size_t length = strlen(key);

	out[0] = '\0';
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, length) && line[length] == '=')
			snprintf(out, bytes, "%.*s", (int)strcspn(line + length + 1, " \t\r\n#"),
				 line + length + 1);
		if (!*line)
			break;
	}
}

/* The first name of "^=mlx5_0:1,mlx5_1" that is no device here, "" none. */
static void nccl_missing_device(const struct audit_run *run, const char *list, char *out,
				size_t bytes)
{
	const char *name = list + strspn(list, "^=");
	bool exact = strchr("^", list[0]) ? list[1] == '=' : list[0] == '=';

	out[0] = '\0';
	while (*name && !out[0]) {
		size_t length = strcspn(name, ":,");
		bool found = false;

		for (size_t i = 0; i < run->nic_count && !found; i++)
			found = !strncmp(run->nics[i].device, name, length) &&
				(!exact || run->nics[i].device[length] == '\0');
		if (!found)
			snprintf(out, bytes, "%.*s", (int)length, name);
		name += strcspn(name, ",");
		name += *name == ',';
	}
}

static void nccl(struct audit_run *run)
{
	char text[AUDIT_CONF_BYTES], list[AUDIT_TEXT_BYTES], missing[64];

	if (audit_read(run, text, sizeof(text), "/etc/nccl.conf") <= 0) {
		audit_unknown(run, "", "/etc/nccl.conf is not there");
		return;
	}
	audit_nccl_value(text, "NCCL_IB_HCA", list, sizeof(list));
	if (!list[0]) {
		audit_pass(run, "", "no NCCL_IB_HCA");
		return;
	}
	nccl_missing_device(run, list, missing, sizeof(missing));
	if (missing[0])
		audit_fail(run, "", "NCCL_IB_HCA=%s: no device %s", list, missing);
	else
		audit_pass(run, "", "NCCL_IB_HCA=%s", list);
}

/* --- memory and processors --- */

/* To a GiB: firmware reserves a little more or less from boot to boot. */
static void memory(struct audit_run *run)
{
	int64_t bytes = meminfo(run, "MemTotal");

	if (bytes < 0)
		audit_unknown(run, "", "/proc/meminfo cannot be read");
	else
		audit_record(run, "", "%lld GiB", ((long long)bytes + (1ll << 29)) >> 30);
}

static void read_edac(struct audit_run *run, const char *path, void *context)
{
	const char *controller = strstr(path, "/mc/") + strlen("/mc/");
	char subject[32];
	int64_t count;

	(void)context;
	snprintf(subject, sizeof(subject), "%.*s", (int)strcspn(controller, "/"), controller);
	if (audit_read_number(run, &count, "%s", path))
		audit_decide(run, count == 0, subject, "%lld", (long long)count);
	else
		audit_unknown(run, subject, "%s cannot be read", path);
}

static void edac(struct audit_run *run)
{
	if (!audit_each(run, "/sys/devices/system/edac/mc/mc[0-9]*/ue_count", read_edac, NULL))
		audit_unknown(run, "", "the kernel has no memory controller in edac");
}

static void processors(struct audit_run *run)
{
	char cpus[128], nodes[64];

	if (audit_read(run, cpus, sizeof(cpus), "/sys/devices/system/cpu/online") <= 0 ||
	    audit_read(run, nodes, sizeof(nodes), "/sys/devices/system/node/online") <= 0)
		audit_unknown(run, "", "the CPUs and NUMA nodes that are online cannot be read");
	else
		audit_record(run, "", "CPUs %s, nodes %s", cpus, nodes);
}

struct governors {
	size_t count, other;
	char name[32];
};

static void read_governor(struct audit_run *run, const char *path, void *context)
{
	struct governors *governors = context;
	char text[32];

	if (audit_read(run, text, sizeof(text), "%s", path) <= 0)
		return;
	governors->count++;
	if (strcmp(text, "performance")) {
		governors->other++;
		snprintf(governors->name, sizeof(governors->name), "%s", text);
	}
}

static void governor(struct audit_run *run)
{
	struct governors governors = {};

	audit_each(run, "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", read_governor,
		   &governors);
	if (!governors.count)
		audit_unknown(run, "", "no CPU has a frequency governor");
	else if (governors.other)
		audit_fail(run, "", "%s on %zu of %zu CPUs", governors.name, governors.other,
			   governors.count);
	else
		audit_pass(run, "", "performance");
}

/* clang-format off: a table */

#define SOFTWARE .group = "configuration.software"
#define MEMORY .group = "configuration.memory"

const struct audit_check audit_host_checks[] = {
	{"software.kernel", SOFTWARE, .name = "kernel release", .compare = AUDIT_MAJORITY,
	 .source = "/proc/sys/kernel/osrelease", .criterion = "as on most hosts",
	 .remedy = "boot the image that the other hosts run", .unknown = "the file is missing",
	 .severity = "warning", .run = kernel},
	{"software.clocksource", SOFTWARE, .name = "clock source",
	 .source = "/sys/devices/system/clocksource/clocksource0/current_clocksource",
	 .criterion = "tsc, arch_sys_counter, kvm-clock or hyperv_clocksource_tsc_page",
	 .remedy = "see dmesg for the reason that the kernel left the TSC; tsc=reliable only where "
		   "the vendor says so",
	 .unknown = "the file is missing", .severity = "critical", .run = clocksource},
	{"software.time_daemon", SOFTWARE, .name = "programs that discipline the system clock",
	 .source = "/proc/*/comm", .criterion = "exactly one",
	 .remedy =
		 "keep one of chronyd, ntpd, systemd-timesyncd and phc2sys, and disable the others",
	 .unknown = "no process can be read", .severity = "warning", .run = time_daemon},
	{"software.memlock", SOFTWARE, .name = "locked memory of jobs",
	 .source = "/proc/PID/limits of slurmd, kubelet, containerd and dockerd",
	 .criterion = "unlimited",
	 .remedy = "LimitMEMLOCK=infinity in the unit of the program that starts jobs, and restart "
		   "it",
	 .unknown = "no such program runs", .severity = "critical", .run = memlock},
	{"software.shm", SOFTWARE, .name = "room of /dev/shm", .source = "/proc/self/mounts",
	 .criterion = "at least 8192 MiB",
	 .remedy = "mount -o remount,size=50% /dev/shm, and the same in fstab",
	 .unknown = "no tmpfs is mounted there", .severity = "warning", .run = shm},
	{"software.peermem", SOFTWARE, .name = "GPU memory for NICs", .source = "/proc/modules",
	 .criterion = "nvidia_peermem is loaded, or the driver is amdgpu",
	 .remedy = "modprobe nvidia_peermem; not needed where NCCL uses DMA-BUF: waive it there",
	 .unknown = "no GPU driver is loaded", .severity = "warning", .run = peermem},
	{"software.nccl", SOFTWARE, .name = "NICs in NCCL's settings",
	 .source = "/etc/nccl.conf, /sys/class/infiniband",
	 .criterion = "each device of NCCL_IB_HCA is there",
	 .remedy = "correct NCCL_IB_HCA in /etc/nccl.conf, or find the NIC that is missing",
	 .unknown = "there is no /etc/nccl.conf", .severity = "critical", .run = nccl},
	{"memory.size", MEMORY, .name = "memory", .compare = AUDIT_MAJORITY,
	 .source = "/proc/meminfo", .criterion = "as on most hosts, to a GiB",
	 .remedy = "look for a module that the firmware disabled", .unknown = "the file is missing",
	 .severity = "warning", .run = memory},
	{"memory.uncorrectable", MEMORY, .name = "uncorrectable memory errors",
	 .source = "/sys/devices/system/edac/mc/mc*/ue_count", .criterion = "0",
	 .remedy = "drain the host and replace the module",
	 .unknown = "the kernel has no driver of the memory controller", .severity = "critical",
	 .run = edac},
	{"memory.processors", MEMORY, .name = "CPUs and NUMA nodes online",
	 .compare = AUDIT_MAJORITY, .source = "/sys/devices/system/{cpu,node}/online",
	 .criterion = "as on most hosts",
	 .remedy = "compare the firmware's settings (SMT, NPS, SNC) and the kernel's command line",
	 .unknown = "a file is missing", .severity = "warning", .run = processors},
	{"memory.governor", MEMORY, .name = "CPU frequency governor",
	 .source = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
	 .criterion = "performance",
	 .remedy = "cpupower frequency-set -g performance, and the same at boot",
	 .unknown = "no CPU has one, as in most virtual machines", .severity = "warning",
	 .run = governor},
	{},
};
