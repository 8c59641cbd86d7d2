/* SPDX-License-Identifier: BSD-2-Clause */
/* What libbpf and libxdp print goes to the debug log; users get one sentence of ours. */
#ifndef ESC_LOADER_BPFLOG_H
#define ESC_LOADER_BPFLOG_H

/* Takes over both libraries' printing. Idempotent. */
void bpflog_install(void);
/* Their last warning since bpflog_clear(), "" when there was none. */
const char *bpflog_last(void);
void bpflog_clear(void);

#endif
