# SPDX-License-Identifier: BSD-2-Clause
# The control laws stand alone too: no kernel program, no daemon.

PACING_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard pacing/*.c))

$(BUILD)/pacing/%.o: pacing/%.c
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CC $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libescapement_pacing.a: $(PACING_OBJ)
	@rm -f $@
	@printf '  %-8s %s\n' AR $@
	$(Q)$(AR) qcs $@ $^

# The law as the kernel has it; loaded from the file by tests/bpf/test_pause.
tests: $(BUILD)/tests/bpf/pause.bpf.o
