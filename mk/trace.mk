# SPDX-License-Identifier: BSD-2-Clause
# The tracing of queue pairs: an object of its own, since its programs may be refused alone.
TRACE_SKEL := $(BUILD)/bpf/qp_trace.skel.h

$(TRACE_SKEL): $(BUILD)/bpf/qp_trace.bpf.o
	@printf '  %-8s %s\n' BPFTOOL $@
	$(Q)$(BPFTOOL) gen skeleton $< name qp_trace > $@ 2> $@.log || { cat $@.log >&2; exit 1; }

$(BUILD)/loader/qp/trace.o build/fuzz/loader/qp/trace.o $(BUILD)/tests/bpf/test_trace: $(TRACE_SKEL)
