// SPDX-License-Identifier: BSD-2-Clause
#include "support.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOPBACK 1 /* its index in every network namespace */
#define TCX_INGRESS ((enum bpf_attach_type)46)
#ifndef BPF_F_XDP_HAS_FRAGS
#define BPF_F_XDP_HAS_FRAGS (1U << 5)
#endif

struct try_request {
	struct nlmsghdr header;
	union {
		struct ifinfomsg link;
		struct tcmsg tc;
	};
	char attributes[256];
};

static struct rtattr *try_add(struct try_request *request, int type, const void *data, size_t bytes)
{
	struct rtattr *a =
		(struct rtattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(bytes);
	if (bytes)
		memcpy(RTA_DATA(a), data, bytes);
	request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(a->rta_len);
	return a;
}

static void try_end_nest(struct try_request *request, struct rtattr *nest)
{
	nest->rta_len = (char *)request + request->header.nlmsg_len - (char *)nest;
}

static int try_send(struct try_request *request)
{
	char answer[4096] __attribute__((aligned(8)));
	const struct nlmsghdr *message = (struct nlmsghdr *)answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (send(fd, request, request->header.nlmsg_len, 0) < 0 ||
	    recv(fd, answer, sizeof(answer), 0) < 0)
		err = -errno;
	else if (message->nlmsg_type == NLMSG_ERROR)
		err = ((const struct nlmsgerr *)NLMSG_DATA(message))->error;
	close(fd);
	return err;
}

static int try_make_veth(void)
{
	struct try_request request = {
		.header =
			{
				.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
				.nlmsg_type = RTM_NEWLINK,
				.nlmsg_flags =
					NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
			},
	};
	struct rtattr *info, *data;

	try_add(&request, IFLA_IFNAME, "esc0", 5);
	info = try_add(&request, IFLA_LINKINFO, NULL, 0);
	try_add(&request, IFLA_INFO_KIND, "veth", 4);
	data = try_add(&request, IFLA_INFO_DATA, NULL, 0);
	try_end_nest(&request, data);
	try_end_nest(&request, info);
	return try_send(&request);
}

static int try_fq(void)
{
	struct try_request request = {
		.header =
			{
				.nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg)),
				.nlmsg_type = RTM_NEWQDISC,
				.nlmsg_flags =
					NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE,
			},
		.tc = {.tcm_ifindex = LOOPBACK, .tcm_parent = TC_H_ROOT},
	};

	try_add(&request, TCA_KIND, "fq", 3);
	return try_send(&request);
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
