# SPDX-License-Identifier: BSD-2-Clause
# What a test asks the kernel programs' headers through; loaded from the file, so no skeleton.
$(BUILD)/tests/bpf/%.bpf.o: tests/bpf/bpf/%.bpf.c vmlinux/$(ARCH)/vmlinux.h
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CLANG $@
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

tests: $(BUILD)/tests/bpf/reads.bpf.o

$(BUILD)/tests/bench/probe_feed.bpf.o: tests/bench/bpf/probe_feed.bpf.c vmlinux/$(ARCH)/vmlinux.h
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CLANG $@
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

tests: $(BUILD)/tests/bench/probe_feed.bpf.o
