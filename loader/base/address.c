// SPDX-License-Identifier: BSD-2-Clause
#include "address.h"

#include <arpa/inet.h>
#include <string.h>

static const __u8 mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

const char *address_format(const struct esc_address *address, char out[ADDRESS_TEXT_BYTES])
{
	if (!memcmp(address->bytes, mapped_prefix, sizeof(mapped_prefix)))
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
