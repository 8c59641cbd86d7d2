/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way to the wire: raw sockets that write the whole IP packet, so that it
 * is routed, and passes tc egress, as rxe's packets do (ip_local_out), and raw
 * sockets that read behind tc ingress, where rxe would.
 */
#ifndef ROCEFLOW_PORT_H
#define ROCEFLOW_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "roceflow.h"
#include "wire.h"

struct port;

/* Where sent packets are counted: only what the kernel took counts as a packet. */
struct port_count {
	uint64_t packets, bytes, errors;
};

/*
 * Prints its own complaint; NULL on failure. @interface "" means any. Only what is for one of
 * @qps queue pairs from @first_qpn on is taken; 0: all.
 */
struct port *port_open(const struct sockaddr_storage *local, const char *interface,
		       uint32_t first_qpn, uint32_t qps);
void port_close(struct port *port);
int port_fd(const struct port *port);

/* Builds @packet into the outgoing batch; a full batch is sent. */
void port_queue(struct port *port, struct wire_packet *packet, struct port_count *count);
void port_flush(struct port *port);

typedef void (*port_handler)(void *context, const struct wire_packet *packet);
/*
 * Takes one batch of what has arrived, without waiting, and hands on each packet
 * that is whole and has a good ICRC. Returns how many packets there were.
 */
int port_receive(struct port *port, port_handler handler, void *context);

/* Packets refused for their ICRC, and packets the socket had no room for. */
uint64_t port_icrc_errors(const struct port *port);
uint64_t port_socket_drops(const struct port *port);

#endif
