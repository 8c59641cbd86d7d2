/* SPDX-License-Identifier: BSD-2-Clause */
/* IP addresses as the maps hold them, to and from text. */
#ifndef ESC_LOADER_ADDRESS_H
#define ESC_LOADER_ADDRESS_H

#include <stdbool.h>

#include "maps/maps.h"

#define ADDRESS_TEXT_BYTES 46

/* "10.0.0.2" for a mapped IPv4 address, else IPv6. Returns @out. */
const char *address_format(const struct esc_address *address, char out[ADDRESS_TEXT_BYTES]);

/* The inverse. False: neither IPv4 nor IPv6. */
bool address_parse(const char *text, struct esc_address *out);

/* The same of a socket address; NULL and other families are neither. */
struct sockaddr;
bool address_of_socket(const struct sockaddr *from, struct esc_address *out);

#endif
