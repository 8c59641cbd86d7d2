// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Another owner's cgroup/getsockopt program: an option that the kernel does not have reads as 0x55.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("cgroup/getsockopt")
int getopt_other(struct bpf_sockopt *ctx)
{
	__u8 *value = ctx->optval, *end = ctx->optval_end;

	if (ctx->level != 0xdead)
		return 1;
	if (value + 1 > end)
		return 0;
	*value = 0x55;
	ctx->optlen = 1;
	ctx->retval = 0;
	return 1;
}

char esc_license[] SEC("license") = "Dual BSD/GPL";
