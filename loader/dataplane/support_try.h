/* SPDX-License-Identifier: BSD-2-Clause */
/* Tries what can only be known by doing, in a network namespace made for it. */
#ifndef ESC_LOADER_SUPPORT_TRY_H
#define ESC_LOADER_SUPPORT_TRY_H

/* Each 0 when it worked, else -errno. */
struct support_trial {
	int namespace;
	int xdp_link_skb;
	int xdp_link_native;
	int xdp_frags;
	int tcx;
	int clsact;
	int fq;
};

/* In a child process that ends with its namespace; no interface of the host's is touched. */
void support_try(struct support_trial *out);

#endif
