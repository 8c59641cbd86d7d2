// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

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

#define BTF_PATH "/sys/kernel/btf/vmlinux"
#define BTF_MAGIC 0xeb9f

static bool has_capability(const struct __user_cap_data_struct data[2], int capability)
{
	return data[capability / 32].effective >> (capability % 32) & 1;
}

static int check_rights(char **error)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	const char *missing = NULL;

	if (syscall(SYS_capget, &header, data) < 0)
		return 0; /* not known: loading will fail */
	if (!has_capability(data, CAP_NET_ADMIN))
		missing = "CAP_NET_ADMIN";
	else if (has_capability(data, CAP_SYS_ADMIN))
		return 0;
	else if (!has_capability(data, CAP_BPF))
		missing = "CAP_BPF";
	else if (!has_capability(data, CAP_PERFMON))
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
	uint16_t magic = 0;
	struct utsname name;
	int major, minor, fd, err;

	/* XDP on packets of several buffers came with 5.18. */
	if (!uname(&name) && sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
	    (major < 5 || (major == 5 && minor < 18)))
		return explain(error, -ENOSYS,
			       "kernel %s is too old: XDP on packets of several buffers needs "
			       "5.18; boot a newer one",
			       name.release);
	err = check_rights(error);
	if (err)
		return err;
	fd = open(BTF_PATH, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err = -errno;
	else if (read(fd, &magic, sizeof(magic)) != sizeof(magic) || magic != BTF_MAGIC)
		err = -ENODATA;
	if (fd >= 0)
		close(fd);
	return err ? explain(error, err,
			     "%s cannot be read (%s): Escapement needs the kernel's type "
			     "information; boot a kernel built with CONFIG_DEBUG_INFO_BTF=y and "
			     "mount sysfs on /sys",
			     BTF_PATH, err == -ENODATA ? "no BTF in it" : strerror(-err))
		   : 0;
}
