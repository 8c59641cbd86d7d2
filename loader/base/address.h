/* SPDX-License-Identifier: BSD-2-Clause */
/* IP addresses as the maps hold them, to and from text. */
#ifndef ESC_LOADER_ADDRESS_H
#define ESC_LOADER_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "maps/maps.h"

#define ADDRESS_TEXT_BYTES 46

bool address_is_ipv4(const struct esc_address *address);

/* "10.0.0.2" for a mapped IPv4 address, else IPv6. Returns @out. */
const char *address_format(const struct esc_address *address, char out[ADDRESS_TEXT_BYTES]);

/* The inverse. False: neither IPv4 nor IPv6. */
bool address_parse(const char *text, struct esc_address *out);

/* The same of a socket address; NULL and other families are neither. */
bool address_of_socket(const struct sockaddr *from, struct esc_address *out);
/* @ipv4: as address_is_ipv4(), but for an unspecified address. Returns the size of that in @out. */
socklen_t address_to_socket(const struct esc_address *address, uint16_t port, bool ipv4,
			    struct sockaddr_storage *out);

/* The one spelling of a queue pair: "10.0.0.1>10.0.0.2/17". Returns @out. */
#define ADDRESS_QP_BYTES (2 * ADDRESS_TEXT_BYTES + 12)
const char *address_format_qp(const struct esc_address *src, const struct esc_address *dst,
			      uint32_t qpn, char out[ADDRESS_QP_BYTES]);

#endif
