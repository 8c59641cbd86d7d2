# SPDX-License-Identifier: BSD-2-Clause
# The stamp behind the qdisc: an object of its own, since it may be refused alone.
QUEUE_SKEL := $(BUILD)/bpf/host_queue.skel.h

$(QUEUE_SKEL): $(BUILD)/bpf/host_queue.bpf.o
	@printf '  %-8s %s\n' BPFTOOL $@
	$(Q)$(BPFTOOL) gen skeleton $< name host_queue_out > $@ 2> $@.log || { cat $@.log >&2; exit 1; }

$(BUILD)/loader/delay/hostqueue.o build/fuzz/loader/delay/hostqueue.o: $(QUEUE_SKEL)
