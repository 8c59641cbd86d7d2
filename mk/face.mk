# SPDX-License-Identifier: BSD-2-Clause
# These stand on a fake daemon (tests/unit/fakes.h): its functions are linked
# first and win over the real ones of the core.
FAKED := test_delays_report test_report test_request test_server test_steer_auto test_textfile
$(FAKED:%=$(BUILD)/tests/unit/%): LDLIBS += -Wl,-z,muldefs
build/tests/fuzz/fuzz_request build/tests/fuzz/fuzz_config: LDLIBS += -Wl,-z,muldefs
