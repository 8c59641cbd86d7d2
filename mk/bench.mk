# SPDX-License-Identifier: BSD-2-Clause
# What the benchmark measures against; loaded from the file, so no skeleton.
$(BUILD)/tests/bench/peers.bpf.o: tests/bench/bpf/peers.bpf.c vmlinux/$(ARCH)/vmlinux.h
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CLANG $@
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

tests: $(BUILD)/tests/bench/peers.bpf.o
