# SPDX-License-Identifier: BSD-2-Clause
# A daemon that leaves the ICRC as it was: tests/vm has to see that it is noticed.
STALE := $(BUILD)/tests/vm/escapementd-stale

tests: $(STALE)

$(STALE): $(BUILD)/tests/vm/stale.o $(BUILD)/loader/escapementd.o $(BUILD)/libescapement_core.a
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@
