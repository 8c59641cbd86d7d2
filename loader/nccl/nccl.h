/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collectives of NCCL and RCCL as libescapement-nccl records them: how long they took, in the
 * network or waiting for a peer, and which hop or rank held them up.
 */
#ifndef ESC_NCCL_NCCL_H
#define ESC_NCCL_NCCL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct capability;
struct job;
struct nccl;

/* needs: ibverbs, clock; self is the struct nccl. */
extern const struct capability nccl_capability;

/* Calls @take for each process with its job and how many ranks it has in communicators. */
typedef void nccl_take_fn(void *context, const struct job *job, size_t ranks);
void nccl_each_job(const struct nccl *nccl, nccl_take_fn *take, void *context);

/* Communicators of the processes whose job @is_of is true for. New reference: an array. */
typedef bool nccl_of_fn(const struct job *job, const char *id);
json_t *nccl_job_communicators(struct nccl *nccl, nccl_of_fn *is_of, const char *id);

/*
 * The same of several hosts: @communicators is what nccl_job_communicators() returned on each, in
 * one array. Those with the same ranks' hash are joined, and judged together. New reference. Pure.
 */
json_t *nccl_merge(const json_t *communicators);

#endif
