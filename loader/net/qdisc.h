/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The qdisc that keeps departure times: fq, or mq with an fq for each queue. Ours has a handle of
 * its own, and only where the kernel's default qdisc was: one that an operator set up is kept.
 */
#ifndef ESC_LOADER_QDISC_H
#define ESC_LOADER_QDISC_H

#include <stdbool.h>
#include <stdint.h>

#define QDISC_OURS 0xe5c00000u

struct qdisc_facts {
	char root[16];	     /* "mq", "fq_codel", "noqueue", "" none */
	uint32_t handle;     /* 0: the kernel's default */
	unsigned int queues; /* below mq */
	unsigned int fq_queues;
	char other[16];	  /* a qdisc of a queue that is not fq */
	char ingress[16]; /* "clsact" or "ingress", "" neither */
};

/* 0 or -errno. */
int qdisc_read(unsigned int ifindex, struct qdisc_facts *out);
/* Every packet passes an fq. */
bool qdisc_is_fq(const struct qdisc_facts *facts);
bool qdisc_is_ours(const struct qdisc_facts *facts);
/* "fq_codel", or "mq with fq_codel". */
const char *qdisc_text(const struct qdisc_facts *facts, char out[40]);

/* 0, or -errno with *@error: not over a qdisc that an operator set up. */
int qdisc_make_fq(const char *name, unsigned int ifindex, char **error);
/* Ours, if it is there: the kernel puts its default back. 0 or -errno. */
int qdisc_drop_fq(unsigned int ifindex);

#endif
