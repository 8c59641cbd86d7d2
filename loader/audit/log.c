// SPDX-License-Identifier: BSD-2-Clause
/*
 * The kernel's log since boot: what it reported of the hardware of this host. /dev/kmsg, or a file
 * of the same records ("6,339,5140900,-;mlx5_core ...", Documentation/ABI/testing/dev-kmsg) below
 * the root.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define RECORD_BYTES_MOST 8192 /* PRINTKRB_RECORD_MAX and its prefix; a longer one is cut */
#define LOG_BYTES_MOST (64u << 20)
#define FLAPS_MOST 8 /* within an hour */
#define HOUR_US (3600ull * 1000000)

/* By parts of the text that the kernel's sources have; all of a row have to be there, in order. */
static const struct fault {
	const char *kind, *first, *second;
} faults[] = {
	/* drivers/net/ethernet/mellanox/mlx5/core: health.c, cmd.c, events.c, en/reporter_tx.c */
	{"NIC health", "mlx5_core", "health compromised"},
	{"NIC health", "mlx5_core", "Fatal error "},
	{"NIC health", "mlx5_core", "Health issue observed"},
	{"NIC timeout", "mlx5_core", "timeout. Will cause a leak of a command resource"},
	{"NIC timeout", "NETDEV WATCHDOG: ", "timed out"}, /* net/sched/sch_generic.c */
	{"NIC module", "mlx5_core", "Port module event[error]"},
	{"NIC power", "mlx5_core", "Detected insufficient power"},
	{"PCIe", "PCIe Bus Error: severity=Uncorrect", ""},		/* drivers/pci/pcie/aer.c */
	{"machine check", "[Hardware Error]: CPU ", ": Machine Check"}, /* arch/x86 mce/core.c */
	{"machine check", "[Hardware Error]: event severity: fatal", ""}, /* apei/ghes.c */
	{"machine check", "[Hardware Error]: event severity: recoverable", ""},
	{"memory", "EDAC ", " UE "}, /* drivers/edac/edac_mc.c: uncorrectable */
	{"GPU", "NVRM: Xid (", "): "},
};

/* Errors of the program that runs on the GPU, not of the GPU (NVIDIA, XID Errors). */
static const unsigned int xids_of_programs[] = {13, 31, 43, 45, 68, 69, 137};

/* What was found of a NIC, or of the host. */
struct finding {
	unsigned long count;
	char kinds[64], last[AUDIT_TEXT_BYTES / 2];
	uint64_t downs_us[FLAPS_MOST + 1]; /* the last ones, a ring */
	unsigned long down_count;
	bool flapped;
};

struct log {
	struct audit_run *run;
	struct finding host, nics[AUDIT_NICS_MAX];
	unsigned long records;
	uint64_t first_sequence, last_us;
};

static bool is_of_program(const char *text)
{
	const char *number = strstr(text, "): ");
	unsigned long xid = number ? strtoul(number + 3, NULL, 10) : 0;

	for (size_t i = 0; i < sizeof(xids_of_programs) / sizeof(xids_of_programs[0]); i++)
		if (xid == xids_of_programs[i])
			return true;
	return false;
}

static const struct fault *fault_of(const char *text)
{
	for (const struct fault *fault = faults;
	     fault < faults + sizeof(faults) / sizeof(faults[0]); fault++) {
		const char *at = strstr(text, fault->first);

		if (at && strstr(at + strlen(fault->first), fault->second))
			return strstr(fault->first, "Xid") && is_of_program(text) ? NULL : fault;
	}
	return NULL;
}

/* @name as a word of its own: eth1 is not eth10. */
static bool has_word(const char *text, const char *name)
{
	size_t bytes = strlen(name);

	for (const char *at = bytes ? strstr(text, name) : NULL; at; at = strstr(at + 1, name))
		if ((at == text || strchr(" (", at[-1])) && strchr(" :,()", at[bytes]))
			return true;
	return false;
}

/* The first port of the device that a message is of, by its bus address or its network device. */
static struct finding *finding_of(struct log *log, const char *text)
{
	for (size_t i = 0; i < log->run->nic_count; i++)
		if (has_word(text, log->run->nics[i].bus) ||
		    has_word(text, log->run->nics[i].netdev))
			return &log->nics[i];
	return &log->host;
}

static void add_fault(struct finding *finding, const char *kind, const char *text)
{
	size_t used = strlen(finding->kinds);

	finding->count++;
	if (!strstr(finding->kinds, kind))
		snprintf(finding->kinds + used, sizeof(finding->kinds) - used, "%s%s",
			 used ? ", " : "", kind);
	snprintf(finding->last, sizeof(finding->last), "%s", text);
}

/* More than FLAPS_MOST losses of the carrier within an hour. */
static void add_down(struct finding *finding, uint64_t us)
{
	size_t oldest;

	finding->downs_us[finding->down_count++ % (FLAPS_MOST + 1)] = us;
	oldest = finding->down_count % (FLAPS_MOST + 1);
	if (finding->down_count > FLAPS_MOST && us - finding->downs_us[oldest] <= HOUR_US)
		finding->flapped = true;
}

/* "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,...];TEXT"; what a program wrote is no message of the
 * kernel's. */
static void take_record(struct log *log, const char *record)
{
	const char *text = strchr(record, ';');
	unsigned long long sequence, us;
	const struct fault *fault;
	struct finding *finding;
	unsigned int priority;

	if (!text || sscanf(record, "%u,%llu,%llu,", &priority, &sequence, &us) != 3)
		return;
	text++;
	if (!log->records++)
		log->first_sequence = sequence;
	if (priority >> 3)
		return;
	log->last_us = us;
	fault = fault_of(text);
	if (fault)
		add_fault(finding_of(log, text), fault->kind, text);
	if (!strstr(text, "Link down") && !strstr(text, "Link is Down"))
		return;
	finding = finding_of(log, text);
	if (finding != &log->host)
		add_down(finding, us);
}

/*
 * All records; lines that begin with a space belong to the one before. 0 or -errno. The last one
 * may be cut where the file is.
 */
static int read_records(int fd, struct log *log)
{
	char buffer[2 * RECORD_BYTES_MOST + 1];
	size_t used = 0, all = 0;

	for (;;) {
		ssize_t got = read(fd, buffer + used, sizeof(buffer) - 1 - used);
		char *line = buffer, *end;

		if (got < 0 && errno == EPIPE)
			continue; /* overwritten meanwhile: goes on at the oldest that is there */
		if (got < 0 && errno != EAGAIN)
			return -errno;
		if (got <= 0 || all > LOG_BYTES_MOST)
			break;
		used += (size_t)got;
		all += (size_t)got;
		buffer[used] = '\0';
		for (; (end = memchr(line, '\n', used - (size_t)(line - buffer))); line = end + 1) {
			*end = '\0';
			take_record(log, line);
		}
		used -= (size_t)(line - buffer);
		memmove(buffer, line, used);
		if (used > RECORD_BYTES_MOST)
			used = 0;
	}
	return 0;
}

static void report_nic(struct audit_run *run, const char *device, const struct finding *finding)
{
	if (finding->flapped)
		audit_fail(run, device, "more than %d losses of the link within an hour%s%s",
			   FLAPS_MOST, finding->count ? "; also " : "", finding->last);
	else if (finding->count)
		audit_fail(run, device, "%lu of %s, the last: %s", finding->count, finding->kinds,
			   finding->last);
}

static void report(struct log *log)
{
	const char *since = log->first_sequence ? ", older ones are gone" : " since boot";

	for (size_t i = 0; i < log->run->nic_count; i++)
		report_nic(log->run, log->run->nics[i].device, &log->nics[i]);
	if (log->host.count)
		audit_fail(log->run, "", "%lu of %s, the last: %s", log->host.count,
			   log->host.kinds, log->host.last);
	else
		audit_pass(log->run, "", "none in %lu messages%s", log->records, since);
}

static void kernel_log(struct audit_run *run)
{
	struct log *log = calloc(1, sizeof(*log));
	char path[PATH_MAX];
	int fd, err;

	snprintf(path, sizeof(path), "%s/dev/kmsg", run->options->root);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	err = fd < 0 ? -errno : log ? 0 : -ENOMEM;
	if (!err) {
		log->run = run;
		err = read_records(fd, log);
	}
	if (err)
		audit_unknown(run, "", "/dev/kmsg cannot be read (%s)%s", strerror(-err),
			      err == -EPERM || err == -EACCES ? ": run it as root" : "");
	else if (!log->records)
		audit_unknown(run, "", "the kernel's log has no messages");
	else
		report(log);
	if (fd >= 0)
		close(fd);
	free(log);
}

/* clang-format off: a table */

const struct audit_check audit_log_checks[] = {
	{"log.faults", .group = "configuration.software", .name = "hardware in the kernel's log",
	 .source = "/dev/kmsg",
	 .criterion = "no message of a NIC's health, timeout, module or power, uncorrectable PCIe, "
		      "machine check or memory error, or of a GPU (Xid); at most 8 losses of a "
		      "NIC's link an hour",
	 .remedy = "read `dmesg`; drain the host and replace the part that is named, or reboot "
		   "after a repair",
	 .unknown = "/dev/kmsg cannot be read", .severity = "critical", .run = kernel_log},
	{},
};
