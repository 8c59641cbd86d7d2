// SPDX-License-Identifier: BSD-2-Clause
#include "support.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/netlink.h"

#define LOOPBACK 1 /* its index in every network namespace */
#define TCX_INGRESS ((enum bpf_attach_type)46)
#ifndef BPF_F_XDP_HAS_FRAGS
#define BPF_F_XDP_HAS_FRAGS (1U << 5)
#endif

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

static int try_fq(void)
{
	union netlink_request request;
	struct tcmsg *tc = netlink_begin(&request, RTM_NEWQDISC,
					 NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, sizeof(*tc));

	tc->tcm_ifindex = LOOPBACK;
	tc->tcm_parent = TC_H_ROOT;
	mnl_attr_put_strz(&request.header, TCA_KIND, "fq");
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

static int try_link(int program_fd, unsigned int ifindex, enum bpf_attach_type type, __u32 flags)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = flags);
	int fd = program_fd < 0 ? program_fd : bpf_link_create(program_fd, ifindex, type, &options);

	if (fd < 0)
		return fd;
	close(fd); /* which detaches */
	return 0;
}

static int try_native(int program_fd)
{
	int err = try_make_veth();

	return err ? err
		   : try_link(program_fd, if_nametoindex("esc0"), BPF_XDP, XDP_FLAGS_DRV_MODE);
}

static void try_all(struct support_trial *out)
{
	struct bpf_tc_hook hook;
	int xdp, tc;

	memset(&hook, 0, sizeof(hook)); /* libbpf looks at the padding too */
	hook.sz = sizeof(hook);
	hook.ifindex = LOOPBACK;
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;

	out->namespace = unshare(CLONE_NEWNET) ? -errno : 0;
	if (out->namespace)
		return;
	xdp = try_load(BPF_PROG_TYPE_XDP, XDP_PASS, 0);
	tc = try_load(BPF_PROG_TYPE_SCHED_CLS, -1, 0);
	out->xdp_link_skb = try_link(xdp, LOOPBACK, BPF_XDP, XDP_FLAGS_SKB_MODE);
	out->xdp_link_native = try_native(xdp);
	out->xdp_frags = try_load(BPF_PROG_TYPE_XDP, XDP_PASS, BPF_F_XDP_HAS_FRAGS);
	if (out->xdp_frags > 0)
		out->xdp_frags = 0;
	out->tcx = try_link(tc, LOOPBACK, TCX_INGRESS, 0);
	out->clsact = bpf_tc_hook_create(&hook);
	out->fq = try_fq();
}

void support_try(struct support_trial *out)
{
	struct support_trial *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	memset(out, 0xff, sizeof(*out)); /* -EPERM: nothing could be tried */
	if (shared == MAP_FAILED)
		return;
	*shared = *out;
	child = fork();
	if (!child) {
		try_all(shared);
		_exit(0);
	}
	if (child > 0) {
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
		*out = *shared;
	}
	munmap(shared, sizeof(*shared));
}
