# SPDX-License-Identifier: BSD-2-Clause
# The lab's programs stand alone: they link nothing of ours and need no skeleton.
ROCEFLOW_OBJ := $(patsubst tests/lab/roceflow/%.c,$(BUILD)/obj/roceflow/%.o,$(wildcard tests/lab/roceflow/*.c))

$(BUILD)/obj/roceflow/%.o: tests/lab/roceflow/%.c
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CC $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/tests/lab/roceflow: $(ROCEFLOW_OBJ)
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -lz -lm -lpthread -o $@

$(BUILD)/tests/lab/%.bpf.o: tests/lab/%.bpf.c vmlinux/$(ARCH)/vmlinux.h
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CLANG $@
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@
