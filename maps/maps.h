/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The whole contract between the kernel programs and user space. */
#ifndef ESC_MAPS_MAPS_H
#define ESC_MAPS_MAPS_H

#include "maps/clock.h"
#include "maps/control.h"
#include "maps/layout.h"
#include "maps/link.h"
#include "maps/path.h"
#include "maps/nic.h"
#include "maps/owd.h"
#include "maps/steer.h"
#include "maps/owner.h"
#include "maps/pace.h"
#include "maps/peer.h"
#include "maps/probe.h"
#include "maps/qp.h"
#include "maps/reasons.h"
#include "maps/repair.h"
#include "maps/rocev2.h"

#define ESC_PIN_ROOT "/sys/fs/bpf/escapement"
#define ESC_QPS_MAX_DEFAULT 16384

/* Names of programs; the kernel keeps 15 characters. */
#define ESC_PROGRAM_XDP "esc_xdp_in"
#define ESC_PROGRAM_TC_INGRESS "esc_tc_in"
#define ESC_PROGRAM_HOST_QUEUE "esc_queue_out"
#define ESC_PROGRAM_TC_EGRESS "esc_tc_out"

#endif
