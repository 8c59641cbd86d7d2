/* SPDX-License-Identifier: BSD-2-Clause */
/* What each verb answers, as JSON. A quantity that is not measured is absent. */
#ifndef ESC_LOADER_REPORT_H
#define ESC_LOADER_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "dataplane/dataplane.h"

struct daemon;

/* `interfaces`, `qps`, `reasons`, `qp_tracing` of `status`. */
void report_put_dataplane(json_t *status, const struct daemon *daemon);
json_t *report_support(void);

/* One port of `status`; @counts NULL: they could not be read. */
json_t *report_port(const struct port_info *port, const struct esc_port_counts *counts);
/* The reasons of ESC_REASON_MAX that have a count. */
json_t *report_reasons(const struct esc_reason_count *counts);

/* True when packets of this direction are counted now, so that 0 means none. */
bool report_counts_rx(const struct port_info *port);
bool report_counts_tx(const struct port_info *port);

uint64_t report_reason_sum(const struct esc_reason_count *count);
const char *report_reason_name(enum esc_reason reason);
const char *report_xdp_mode(enum esc_xdp_mode mode);
const char *report_xdp_via(enum esc_xdp_via via);
const char *report_tc_via(enum esc_tc_via via);

/* object[key] = count; object[key] = text unless it is empty. */
void report_put_count(json_t *object, const char *key, uint64_t count);
void report_put_text(json_t *object, const char *key, const char *text);

#endif
