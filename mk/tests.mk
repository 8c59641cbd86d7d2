# SPDX-License-Identifier: BSD-2-Clause
# The tests' programs. A directory of tests/ holds the cases of one kind; tests/lib what they share,
# tests/tools the programs that they run.

UNIT := $(patsubst %.c,$(OUT)/%,$(wildcard tests/unit/test_*.c))
BPF_TESTS := $(patsubst %.c,$(OUT)/%,$(wildcard tests/bpf/*.c))
BENCHES := $(patsubst %.c,$(OUT)/%,$(wildcard tests/bench/*.c))
SIMS := $(patsubst %.c,$(OUT)/%,$(filter-out %/peer_libsvm.c,$(wildcard tests/sim/*.c)))
SIM_OBJ := $(patsubst %.c,$(OUT)/%.o,$(wildcard tests/lib/sim/*.c))
STRESS := $(OUT)/tests/sim/test_shim_stress
FUZZERS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
TOOLS := $(patsubst %.c,$(OUT)/%,$(filter-out %.bpf.c %/stale.c %/layout.c %/ncclring.c,$(wildcard tests/tools/*.c))) \
	$(OUT)/tests/tools/roceflow/roceflow $(OUT)/tests/tools/escapementd-stale \
	$(OUT)/tests/tools/escapementd-layout \
	$(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/tools/*.bpf.c))

.PHONY: unit bpf-tests sim tools fuzz stress
unit: $(UNIT)
bpf-tests: $(BPF_TESTS) tools $(BUILD)/tests/next/escapementd $(BUILD)/tests/next/nic.bpf.o
sim: $(SIMS)
tools: $(TOOLS) $(OUT)/tests/tools/ncclring.so
fuzz: $(FUZZERS)
stress: $(STRESS)
tests: programs unit bpf-tests sim tools $(BENCHES)

# Unit tests: Criterion defines a function for each test.
$(OUT)/tests/unit/%.o: WARN += -Wno-missing-prototypes
$(UNIT): LDLIBS += -lcriterion
$(OUT)/tests/unit/test_sysdump: LDLIBS += -larchive
# The shim itself, before a provider of the tests' own.
SHIM_OBJ := $(patsubst %.c,$(OUT)/%.o,$(wildcard loader/libescapement-verbs/*.c))
$(OUT)/tests/unit/test_shim $(OUT)/tests/unit/test_shim_samples $(OUT)/tests/bench/verbscost $(OUT)/tests/tools/verbsjob $(STRESS): $(SHIM_OBJ)
$(STRESS): $(OUT)/loader/ibverbs/segment.o
# The profiler plugin, with a clock of the tests' own.
PROFILER_OBJ := $(patsubst %.c,$(OUT)/%.o,$(wildcard loader/libescapement-nccl/*.c)) $(OUT)/loader/libescapement-verbs/file.o
$(OUT)/tests/unit/test_nccl $(OUT)/tests/bench/ncclcost: $(PROFILER_OBJ)

# The kernel programs' tests, benchmarks and tools that run them.
$(OUT)/tests/bpf/%.o $(OUT)/tests/bench/%.o: ALL_CPPFLAGS += -Itests/lib/bpf
$(BPF_TESTS:=.o) $(BENCHES:=.o) $(OUT)/tests/tools/stale.o: | $(SKELETONS)
$(OUT)/tests/tools/true_error: $(OUT)/$(LIB)/escapement.o

# Only the C library and zlib: nothing of ours.
$(OUT)/tests/tools/roceflow/roceflow: $(patsubst %.c,$(OUT)/%.o,$(wildcard tests/tools/roceflow/*.c))
	$(call say,LD)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $^ -lz -lm -lpthread -o $@

# What a rank in another language loads.
$(OUT)/tests/tools/ncclring.so: tests/tools/ncclring.c tests/lib/ncclring.h tests/lib/ncclhost.h
	$(call say,LD)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(filter-out -fPIE,$(ALL_CFLAGS)) $(filter-out -pie,$(ALL_LDFLAGS)) -fPIC -shared $< -lm -o $@

# A daemon that leaves the ICRC as it was: tests/vm has to see that it is noticed.
$(OUT)/tests/tools/escapementd-stale: $(OUT)/tests/tools/stale.o $(OUT)/loader/escapementd.o $(CORE) $(LAWS)
	$(call say,LD)
	$(LINK)

# A daemon of a release in which every map has another layout.
$(OUT)/tests/tools/escapementd-layout: $(OUT)/tests/tools/layout.o $(OUT)/loader/escapementd.o $(CORE) $(LAWS)
	$(call say,LD)
	$(LINK)

# The programs and the daemon of the next release, by its version on the wire: tests/bpf/test_wire
# and tests/lab/test_versions.
NEXT := $(BUILD)/tests/next
$(NEXT)/%.bpf.o: bpf/%.bpf.c vmlinux/$(ARCH)/vmlinux.h
	$(call say,CLANG)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -DESC_PROBE_VERSION=4 -DESC_NIC_VERSION=3 -MMD -MP -c $< -o $@

$(NEXT)/dataplane.o: $(patsubst %,$(NEXT)/%.bpf.o,$(filter-out $(ALONE),$(HOOKS)))
	$(call say,BPFTOOL)
	$(Q)$(BPFTOOL) gen object $@ $^

$(NEXT)/dataplane.skel.h: $(NEXT)/dataplane.o
	$(call say,BPFTOOL)
	$(Q)$(BPFTOOL) gen skeleton $< name dataplane > $@

$(NEXT)/object.o: loader/dataplane/object.c $(NEXT)/dataplane.skel.h
	$(call say,CC)
	$(Q)$(CC) -I$(NEXT) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(NEXT)/escapementd: $(NEXT)/object.o $(OUT)/loader/escapementd.o $(CORE) $(LAWS)
	$(call say,LD)
	$(LINK)
	$(Q)ln -sf ../../escapement $(@D)/escapement

# Simulations stand on the laws alone. Oracles and peers are in tests and benches only.
$(OUT)/tests/sim/test_clock_oracle: SIM_LIBS := -lglpk -lcholmod
$(OUT)/tests/sim/test_clock_oracle.o: ALL_CPPFLAGS += -isystem /usr/include/suitesparse
$(OUT)/tests/sim/clock_bench: SIM_LIBS := -lsvm -llinear
$(OUT)/tests/sim/clock_bench: $(OUT)/tests/sim/peer_libsvm.o
$(SIMS): LDLIBS := -lm
$(SIMS): LDLIBS += $(SIM_LIBS)
$(SIMS): $(SIM_OBJ) $(LAWS)

$(UNIT) $(BPF_TESTS) $(BENCHES) $(filter-out %/roceflow %/escapementd-stale %/escapementd-layout %.bpf.o,$(TOOLS)): $(CORE) $(LAWS)
$(UNIT) $(BPF_TESTS) $(BENCHES) $(SIMS) $(filter-out %/roceflow %/escapementd-stale %/escapementd-layout %.bpf.o,$(TOOLS)): $(OUT)/%: $(OUT)/%.o
	$(call say,LD)
	$(LINK)

$(BUILD)/tests/tools/%.bpf.o: tests/tools/%.bpf.c vmlinux/$(ARCH)/vmlinux.h
	$(call say,CLANG)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

# Fuzzers: clang's coverage and sanitizers, of those objects only that they link. The first link, of
# the plain objects, lists them.
FUZZ_CFLAGS := -std=gnu11 -O1 -g -fno-strict-aliasing
$(BUILD)/fuzz/%.o: %.c
	$(call say,CLANG)
	$(Q)$(CLANG) $(ALL_CPPFLAGS) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -MMD -MP \
		-c $< -o $@

$(FUZZERS): $(BUILD)/%: $(BUILD)/fuzz/%.o
	$(call say,LD)
	$(Q)$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer,address,undefined $(filter %.o,$^) $(LDLIBS) -o $@

ifneq ($(filter fuzz $(FUZZERS),$(MAKECMDGOALS)),)
$(BUILD)/tests/fuzz/%.objects: $(BUILD)/tests/fuzz/%.o $(BUILD)/libescapement_core.a $(BUILD)/libescapement_laws.a
	$(call say,LIST)
	$(Q)$(LD) -r -z muldefs --trace -o $@.o $^ | \
		sed -n '2,$$s|^$(BUILD)/\(.*\.o\)$$|$(@:.objects=): $(BUILD)/fuzz/\1|p' > $@
	$(Q)rm -f $@.o

include $(FUZZERS:=.objects)
endif
