# SPDX-License-Identifier: BSD-2-Clause
# Programs of the lab's clock tests: one file each.
CLOCKTOOLS := $(patsubst tests/lab/clocktools/%.c,$(BUILD)/tests/lab/%,$(wildcard tests/lab/clocktools/*.c))

lab-programs: $(CLOCKTOOLS)

$(CLOCKTOOLS): $(BUILD)/tests/lab/%: tests/lab/clocktools/%.c loader/libescapement/escapement.c $(wildcard loader/libescapement/*.h clocksync/*.h maps/clock.h)
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $< loader/libescapement/escapement.c -o $@
