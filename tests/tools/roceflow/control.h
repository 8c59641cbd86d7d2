/* SPDX-License-Identifier: BSD-2-Clause */
/* The control connection before and after a run, over TCP: QPN, PSN and port, and what arrived. */
#ifndef ROCEFLOW_CONTROL_H
#define ROCEFLOW_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "roceflow.h"

struct control_qp {
	uint32_t qpn, psn, port;
};

struct control_setup {
	uint32_t qps, uc, write, mtu, tos;
	uint64_t size_bytes;
	struct control_qp qp[QPS_MAX];
};

/*
 * What one end put on the wire and finished for one QP. The client counts its data
 * packets and messages, the server its responses and the messages it delivered;
 * each can then wait for what is still on its way.
 */
struct control_count {
	uint64_t packets, messages;
};

struct control_end {
	uint32_t qps;
	struct control_count qp[QPS_MAX];
};

/* All return 0 or -errno; a peer that reports nothing for 10 s is -ETIMEDOUT. */
int control_send_setup(int fd, const struct control_setup *setup);
int control_receive_setup(int fd, struct control_setup *setup);
int control_send_end(int fd, const struct control_end *end);
int control_receive_end(int fd, struct control_end *end);

/* Listens at the options' address. Complains itself; -1 on failure. */
int control_listen(const struct options *options);
/* Connects, trying again until --give-up: the server may be starting. -1 on failure. */
int control_connect(const struct options *options);
void control_set_timeout(int fd);

#endif
