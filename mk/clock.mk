# SPDX-License-Identifier: BSD-2-Clause
# The clock's pure half stands alone: its objects, its unit tests and its simulations
# need no kernel program and no daemon.

CLOCK_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard clocksync/*.c))
SIM_MAINS := $(wildcard tests/sim/test_*.c) tests/sim/clock_sim.c tests/sim/clock_bench.c \
	tests/sim/steer_bench.c tests/sim/pause_bench.c
SIM_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(SIM_MAINS) tests/sim/peer_libsvm.c,$(wildcard tests/sim/*.c)))
SIM_BIN := $(SIM_MAINS:%.c=$(BUILD)/%)
# Oracles and peers: in tests and benches only, never in the product.
$(BUILD)/tests/sim/test_clock_oracle: SIM_LIBS := -lglpk -lcholmod
$(BUILD)/tests/sim/clock_bench: SIM_LIBS := -lsvm -llinear
$(BUILD)/tests/sim/clock_bench: $(BUILD)/tests/sim/peer_libsvm.o

.PHONY: sim
sim: $(SIM_BIN)
tests: $(SIM_BIN)

$(BUILD)/clocksync/%.o: clocksync/%.c
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CC $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libescapement_clock.a: $(CLOCK_OBJ)
	@rm -f $@
	@printf '  %-8s %s\n' AR $@
	$(Q)$(AR) qcs $@ $^

$(BUILD)/tests/sim/%.o: tests/sim/%.c
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CC $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

SIM_ARCHIVES := $(BUILD)/libescapement_clock.a $(BUILD)/libescapement_pacing.a
$(SIM_BIN): $(BUILD)/%: %.c $(SIM_OBJ) $(SIM_ARCHIVES)
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -isystem /usr/include/suitesparse -MMD -MP $(LDFLAGS) $(filter-out %.a,$^) \
		$(SIM_ARCHIVES) $(SIM_LIBS) -lm -o $@

$(BUILD)/tests/unit/test_clock%: tests/unit/test_clock%.c $(BUILD)/libescapement_clock.a
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -Wmissing-prototypes,$(CFLAGS)) -MMD -MP $(LDFLAGS) $< \
		$(BUILD)/libescapement_clock.a -lcriterion -lm -o $@
