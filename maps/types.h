/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fixed-width types under the same names in BPF and in user space. */
#ifndef ESC_MAPS_TYPES_H
#define ESC_MAPS_TYPES_H

#ifdef __bpf__
#include "vmlinux.h"
#else
#include <linux/types.h>
#endif

/* Layout is part of the ABI: both sides compile the same asserts. */
#define ESC_ASSERT_SIZE(type, bytes)                                                               \
	_Static_assert(sizeof(type) == (bytes), #type " has a fixed size")
#define ESC_ASSERT_OFFSET(type, field, bytes)                                                      \
	_Static_assert(__builtin_offsetof(type, field) == (bytes),                                 \
		       #type "." #field " has a fixed offset")

#endif
