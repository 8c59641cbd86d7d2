// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/readfile.h"
#include "net/rtnl.h"

#define BTF_PATH "/sys/kernel/btf/vmlinux"
#define SUPPORT_BPFFS "/sys/fs/bpf"
#define LOOPBACK 1 /* its index in every network namespace */
#ifndef BPF_F_XDP_HAS_FRAGS
#define BPF_F_XDP_HAS_FRAGS (1U << 5)
#endif

/* --- before anything is attached --- */

static int check_rights(char **error)
{
	static const struct {
		unsigned int number;
		const char *name;
	} needed[] = {{CAP_NET_ADMIN, "CAP_NET_ADMIN"},
		      {CAP_BPF, "CAP_BPF"},
		      {CAP_PERFMON, "CAP_PERFMON"}};
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	uint64_t have;

	if (syscall(SYS_capget, &header, data) < 0)
		return 0; /* not known: loading will fail */
	have = (uint64_t)data[1].effective << 32 | data[0].effective;
	if (have >> CAP_SYS_ADMIN & 1)
		have |= 1ull << CAP_BPF | 1ull << CAP_PERFMON;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!(have >> needed[i].number & 1))
			return explain(error, -EPERM,
				       "no permission: %s is missing; run escapementd as root, or "
				       "give the service CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
				       needed[i].name);
	return 0;
}

int preflight_check(char **error)
{
	uint16_t magic = 0;
	struct utsname name;
	int major, minor, fd, err;

	/* The oldest that is tested; what the programs call came with 5.18 at the latest. */
	if (!uname(&name) && sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
	    (major < 6 || (major == 6 && minor < 1)))
		return explain(error, -ENOSYS,
			       "kernel %s is too old: Escapement is tested from 6.1 on; boot a "
			       "newer one",
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

/* --- libxdp --- */

static bool bpffs_is_mounted(void)
{
	struct statfs fs;

	return !statfs(SUPPORT_BPFFS, &fs) && fs.f_type == BPF_FS_MAGIC;
}

static const char *dispatcher_why_not(void)
{
	const char *skip = getenv("LIBXDP_SKIP_DISPATCHER");
	struct xdp_program *program;

	bpflog_install();
	if (skip && !strcmp(skip, "1"))
		return "LIBXDP_SKIP_DISPATCHER is set";
	if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_EXT, NULL) != 1)
		return "the kernel refuses freplace programs, which libxdp's dispatcher needs";
	if (!bpffs_is_mounted())
		return "no bpffs is mounted on " SUPPORT_BPFFS ", where libxdp keeps its pins";
	program = xdp_program__find_file("xdp-dispatcher.o", NULL, NULL);
	if (libxdp_get_error(program))
		return "libxdp's xdp-dispatcher.o is not found: install libxdp1's files or set "
		       "LIBXDP_OBJECT_PATH";
	xdp_program__close(program);
	return NULL;
}

const char *support_dispatcher(void)
{
	static const char *why; /* does not change while we run */
	static bool tried;

	if (!tried)
		why = dispatcher_why_not();
	tried = true;
	return why;
}

/* --- what can only be tried, on interfaces of its own --- */

static int try_make_veth(void)
{
	union netlink_request request;
	struct nlattr *info;

	netlink_begin(&request, RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
		      sizeof(struct ifinfomsg));
	mnl_attr_put_strz(&request.header, IFLA_IFNAME, "esc0");
	info = mnl_attr_nest_start(&request.header, IFLA_LINKINFO);
	mnl_attr_put_str(&request.header, IFLA_INFO_KIND, "veth");
	mnl_attr_nest_end(&request.header, info);
	return netlink_query(NETLINK_ROUTE, &request, NULL, NULL);
}

/* "return @value" as a program; a descriptor or -errno. */
static int try_load(enum bpf_prog_type type, int value, __u32 flags)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = value},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .prog_flags = flags);

	return bpf_prog_load(type, "esc_try", "GPL", insns, 2, &options);
}

/* A program of @type by a link on @ifindex, which ends with its descriptor. */
static int try_link(enum bpf_prog_type type, unsigned int ifindex, enum bpf_attach_type attach,
		    __u32 flags)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = flags);
	int program = try_load(type, type == BPF_PROG_TYPE_XDP ? XDP_PASS : -1, 0), fd;

	if (program < 0)
		return program;
	fd = bpf_link_create(program, ifindex, attach, &options);
	if (fd >= 0)
		close(fd);
	close(program);
	return fd < 0 ? fd : 0;
}

/* libbpf wants the padding to be zero too, which an initialiser does not promise. */
void clsact_hook(unsigned int ifindex, int point, struct bpf_tc_hook *out)
{
	memset(out, 0, sizeof(*out));
	out->sz = sizeof(*out);
	out->ifindex = (int)ifindex;
	out->attach_point = point;
}

enum trial { XDP_LINK, XDP_NATIVE, XDP_FRAGS, TCX, CLSACT, FQ, TRIALS };
static const struct {
	const char *name, *cost;
} trials[TRIALS] = {
	[XDP_LINK] = {"xdp_link", "without XDP links what comes in is counted in tc ingress"},
	[XDP_NATIVE] = {"xdp_native",
			"without native XDP (tried on a veth; each driver decides for itself) skb "
			"mode costs more per packet"},
	[XDP_FRAGS] = {"xdp_frags",
		       "without multi-buffer XDP programs jumbo frames rule native XDP out"},
	[TCX] = {"tcx", "without tcx (6.6) tc programs are filters of a clsact qdisc, which others "
			"can remove"},
	[CLSACT] = {"clsact", "without clsact and tcx what goes out cannot be counted"},
	[FQ] = {"fq", "without the fq qdisc RoCE and UDP cannot be paced by departure time"},
};

/* Each 0 when it worked, else -errno. */
static void try_all(int results[TRIALS])
{
	struct bpf_tc_hook hook;
	int fd;

	results[XDP_LINK] = try_link(BPF_PROG_TYPE_XDP, LOOPBACK, BPF_XDP, XDP_FLAGS_SKB_MODE);
	results[XDP_NATIVE] = try_make_veth();
	if (!results[XDP_NATIVE])
		results[XDP_NATIVE] = try_link(BPF_PROG_TYPE_XDP, if_nametoindex("esc0"), BPF_XDP,
					       XDP_FLAGS_DRV_MODE);
	fd = try_load(BPF_PROG_TYPE_XDP, XDP_PASS, BPF_F_XDP_HAS_FRAGS);
	results[XDP_FRAGS] = fd < 0 ? fd : 0;
	results[TCX] = try_link(BPF_PROG_TYPE_SCHED_CLS, LOOPBACK, TCX_INGRESS, 0);
	clsact_hook(LOOPBACK, BPF_TC_INGRESS | BPF_TC_EGRESS, &hook);
	results[CLSACT] = bpf_tc_hook_create(&hook);
	results[FQ] = qdisc_make_fq("lo", LOOPBACK, FQ_QP_PACKETS, NULL);
}

/* In a child process whose network namespace ends with it: no interface of the host is touched. */
static void add_trials(json_t *list)
{
	struct trial_results {
		int namespace, errors[TRIALS];
	} *results = mmap(NULL, sizeof(*results), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char detail[128];
	pid_t child;

	if (results == MAP_FAILED)
		return;
	results->namespace = -EPERM; /* nothing could be tried */
	child = fork();
	if (!child) {
		results->namespace = unshare(CLONE_NEWNET) ? -errno : 0;
		if (!results->namespace)
			try_all(results->errors);
		_exit(0);
	}
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	snprintf(detail, sizeof(detail), "not tried, no network namespace can be made: %s",
		 strerror(-results->namespace));
	for (size_t i = 0; i < TRIALS; i++)
		if (results->namespace)
			feature_add(list, trials[i].name, false, detail, trials[i].cost);
		else
			feature_add_trial(list, trials[i].name, results->errors[i], trials[i].cost);
	munmap(results, sizeof(*results));
}

/* --- the list --- */

static int try_batch(enum bpf_map_type type, bool take)
{
	int fd = bpf_map_create(type, "esc_try", 4, 4, 1, NULL);
	__u32 key = 1, value = 2, cursor, count = 1;
	int err;

	if (fd < 0)
		return fd;
	bpf_map_update_elem(fd, &key, &value, BPF_ANY);
	err = take ? bpf_map_lookup_and_delete_elem(fd, &key, &value)
		   : bpf_map_lookup_batch(fd, NULL, &cursor, &key, &value, &count, NULL);
	close(fd);
	return err == -ENOENT ? 0 : err;
}

static int try_rdma_netlink(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static bool unprivileged_bpf_is_off(void)
{
	char value[8];

	readtext(value, sizeof(value), "/proc/sys/kernel/unprivileged_bpf_disabled");
	return value[0] == '1' || value[0] == '2';
}

void support_features(json_t *list)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool has_btf = !libbpf_get_error(btf);
	const char *why = support_dispatcher();

	bpflog_install();
	feature_add(list, "btf", has_btf, has_btf ? "" : "/sys/kernel/btf/vmlinux cannot be read",
		    "without the kernel's type information escapementd does not start");
	if (has_btf)
		btf__free(btf);
	feature_add(list, "bpffs", bpffs_is_mounted(), SUPPORT_BPFFS,
		    "without a bpffs nothing can be pinned and escapementd does not start, unless "
		    "pin_root names another one");
	add_trials(list);
	feature_add(list, "freplace", libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_EXT, NULL) == 1, "",
		    "without freplace programs libxdp has no dispatcher");
	feature_add(list, "xdp_dispatcher", !why, why,
		    "without libxdp's dispatcher our XDP program cannot run beside another one on "
		    "the same interface");
	feature_add_trial(list, "hash_batch", try_batch(BPF_MAP_TYPE_HASH, false),
			  "without batched lookups reading a large QP table takes more CPU");
	feature_add_trial(list, "hash_take", try_batch(BPF_MAP_TYPE_HASH, true),
			  "without lookup-and-delete a packet may be lost from the count of a QP "
			  "that ages out");
	feature_add(list, "ringbuf", libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) == 1, "",
		    "without ring buffers the kernel programs cannot hand up events");
	feature_add_trial(list, "rdma", try_rdma_netlink(),
			  "without the kernel's RDMA core this host has no RDMA devices of its "
			  "own; RoCE that passes through it is still seen");
	feature_add(list, "unprivileged_bpf_off", unprivileged_bpf_is_off(), "",
		    "as long as any user may load BPF programs, a hole in the verifier is open to "
		    "all of them; set kernel.unprivileged_bpf_disabled=1");
}
