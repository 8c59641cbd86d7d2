# SPDX-License-Identifier: BSD-2-Clause
# The lab's second pair of eyes: it shares nothing with the dataplane.
WITNESS := $(BUILD)/tests/lab/witness

lab-programs: $(WITNESS) $(WITNESS).bpf.o

$(WITNESS): tests/lab/witness/witness.c tests/lab/witness/record.h
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $< -lbpf -o $@

$(WITNESS).bpf.o: tests/lab/witness/witness.bpf.c tests/lab/witness/record.h vmlinux/$(ARCH)/vmlinux.h
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CLANG $@
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@
