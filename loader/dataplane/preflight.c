// SPDX-License-Identifier: BSD-2-Clause
#include "preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/explain.h"

/* XDP on packets of several buffers came with 5.18. */
#define PREFLIGHT_KERNEL_MAJOR 5
#define PREFLIGHT_KERNEL_MINOR 18

#define PREFLIGHT_BTF "/sys/kernel/btf/vmlinux"
#define PREFLIGHT_BTF_MAGIC 0xeb9f

static int preflight_check_kernel(char **error)
{
	struct utsname name;
	int major, minor;

	if (uname(&name) || sscanf(name.release, "%d.%d", &major, &minor) != 2)
		return 0; /* cannot be told: loading will */
	if (major > PREFLIGHT_KERNEL_MAJOR ||
	    (major == PREFLIGHT_KERNEL_MAJOR && minor >= PREFLIGHT_KERNEL_MINOR))
		return 0;
	return explain(error, -ENOSYS,
		       "kernel %s is too old: XDP on packets of several buffers needs 5.18; boot a "
		       "newer one",
		       name.release);
}

static int preflight_check_btf(char **error)
{
	uint16_t magic = 0;
	int fd = open(PREFLIGHT_BTF, O_RDONLY | O_CLOEXEC);
	int err = fd < 0 ? -errno : 0;

	if (fd >= 0 &&
	    (read(fd, &magic, sizeof(magic)) != sizeof(magic) || magic != PREFLIGHT_BTF_MAGIC))
		err = -ENODATA;
	if (fd >= 0)
		close(fd);
	if (!err)
		return 0;
	return explain(
		error, err,
		"%s cannot be read (%s): Escapement needs the kernel's type information; boot a "
		"kernel built with CONFIG_DEBUG_INFO_BTF=y and mount sysfs on /sys",
		PREFLIGHT_BTF, err == -ENODATA ? "no BTF in it" : strerror(-err));
}

static bool preflight_has(const struct __user_cap_data_struct data[2], int capability)
{
	return data[capability / 32].effective >> (capability % 32) & 1;
}

static int preflight_check_rights(char **error)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	const char *missing = NULL;

	if (syscall(SYS_capget, &header, data) < 0)
		return 0; /* cannot be told: loading will */
	if (!preflight_has(data, CAP_NET_ADMIN))
		missing = "CAP_NET_ADMIN";
	else if (!preflight_has(data, CAP_SYS_ADMIN) && !preflight_has(data, CAP_BPF))
		missing = "CAP_BPF";
	else if (!preflight_has(data, CAP_SYS_ADMIN) && !preflight_has(data, CAP_PERFMON))
		missing = "CAP_PERFMON";
	if (!missing)
		return 0;
	return explain(error, -EPERM,
		       "no permission: %s is missing; run escapementd as root, or give the service "
		       "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
		       missing);
}

int preflight_check(char **error)
{
	int err = preflight_check_kernel(error);

	if (!err)
		err = preflight_check_rights(error);
	return err ? err : preflight_check_btf(error);
}
