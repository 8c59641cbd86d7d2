// SPDX-License-Identifier: BSD-2-Clause
#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const __u8 mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool address_is_ipv4(const struct esc_address *address)
{
	return !memcmp(address->bytes, mapped_prefix, sizeof(mapped_prefix));
}

const char *address_format(const struct esc_address *address, char out[ADDRESS_TEXT_BYTES])
{
	if (address_is_ipv4(address))
		return inet_ntop(AF_INET, address->bytes + 12, out, ADDRESS_TEXT_BYTES);
	return inet_ntop(AF_INET6, address->bytes, out, ADDRESS_TEXT_BYTES);
}

bool address_parse(const char *text, struct esc_address *out)
{
	memcpy(out->bytes, mapped_prefix, sizeof(mapped_prefix));
	if (inet_pton(AF_INET, text, out->bytes + 12) == 1)
		return true;
	return inet_pton(AF_INET6, text, out->bytes) == 1;
}

bool address_of_socket(const struct sockaddr *from, struct esc_address *out)
{
	memcpy(out->bytes, mapped_prefix, sizeof(mapped_prefix));
	if (from && from->sa_family == AF_INET)
		memcpy(out->bytes + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
	else if (from && from->sa_family == AF_INET6)
		memcpy(out->bytes, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
	else
		return false;
	return true;
}

socklen_t address_to_socket(const struct esc_address *address, uint16_t port, bool ipv4,
			    struct sockaddr_storage *out)
{
	struct sockaddr_in *four = (struct sockaddr_in *)out;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (ipv4) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		memcpy(&four->sin_addr, address->bytes + 12, 4);
		return sizeof(*four);
	}
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	memcpy(&six->sin6_addr, address->bytes, 16);
	return sizeof(*six);
}

const char *address_format_qp(const struct esc_address *src, const struct esc_address *dst,
			      uint32_t qpn, char out[ADDRESS_QP_BYTES])
{
	char from[ADDRESS_TEXT_BYTES], to[ADDRESS_TEXT_BYTES];

	snprintf(out, ADDRESS_QP_BYTES, "%s>%s/%u", address_format(src, from),
		 address_format(dst, to), qpn);
	return out;
}
