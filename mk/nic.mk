# SPDX-License-Identifier: BSD-2-Clause
# NIC failover: an object of its own, on other devices and other hooks than the rest.
NIC_SKEL := $(BUILD)/bpf/nic.skel.h

$(NIC_SKEL): $(BUILD)/bpf/nic.bpf.o
	@printf '  %-8s %s\n' BPFTOOL $@
	$(Q)$(BPFTOOL) gen skeleton $< name nic_programs > $@ 2> $@.log || { cat $@.log >&2; exit 1; }

$(BUILD)/loader/nic/kernel.o build/fuzz/loader/nic/kernel.o $(BUILD)/tests/bpf/test_nic \
	$(BUILD)/tests/bpf/test_nic_keep: $(NIC_SKEL)
