# SPDX-License-Identifier: BSD-2-Clause
# Escapement. `make help` lists the targets; README.md tells the story.

VERSION := 0.1.0
ARCH := $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')
SAN ?= 0
# V=1 shows the commands.
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
BUILD := build$(if $(filter 1,$(SAN)),/san)
PREFIX ?= /usr
DESTDIR ?=

CC := gcc
CLANG ?= clang
BPFTOOL ?= $(shell command -v bpftool || echo /usr/sbin/bpftool)

WARN := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wformat=2 -Wvla -Werror
PKGS := libbpf libxdp libcyaml yaml-0.1 jansson libsystemd libelf zlib
CPPFLAGS += -D_GNU_SOURCE -DESC_VERSION='"$(VERSION)"' -I. -Iloader -I$(BUILD)/bpf
CFLAGS += -std=gnu11 -O2 -g -fno-strict-aliasing $(WARN)
LDLIBS = $(shell pkg-config --libs $(PKGS)) -lm
ifeq ($(SAN),1)
CFLAGS += -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
LDFLAGS += -fsanitize=address,undefined
endif

BPF_CFLAGS := -O2 -g -target bpf -mcpu=v3 -D__TARGET_ARCH_$(ARCH) -Ivmlinux/$(ARCH) -I. -Ibpf \
	-I/usr/include -Wall -Wextra -Wno-unused-parameter -Wno-missing-declarations -Werror \
	-fno-strict-aliasing

MAINS := loader/escapementd.c loader/escapement.c
LOADER_SRC := $(shell find loader -name "*.c" -not -path "loader/libescapement/*")
CORE_SRC := $(filter-out $(MAINS),$(LOADER_SRC) $(wildcard clocksync/*.c pacing/*.c))
CORE_OBJ := $(CORE_SRC:%.c=$(BUILD)/%.o)
# These have skeletons of their own (mk/trace.mk, mk/hostqueue.mk, mk/tcp.mk, mk/nic.mk).
BPF_SRC := $(filter-out bpf/qp_trace.bpf.c bpf/host_queue.bpf.c bpf/tcp_%.bpf.c bpf/nic.bpf.c,$(wildcard bpf/*.bpf.c))
BPF_OBJ := $(BPF_SRC:%.c=$(BUILD)/%.o)
SKEL := $(BUILD)/bpf/dataplane.skel.h
UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_BIN := $(UNIT_SRC:%.c=$(BUILD)/%)
# Programs that are one C file each and stand on the core library.
TOOL_SRC := $(wildcard tests/bpf/*.c tests/bench/*.c)
TOOL_BIN := $(TOOL_SRC:%.c=$(BUILD)/%)
# Programs of the lab that stand alone; mk/lab.mk builds them.
LAB_BIN := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/lab/*.bpf.c)) $(if $(wildcard tests/lab/roceflow/*.c),$(BUILD)/tests/lab/roceflow)
# libFuzzer targets, built by clang with sanitizers.
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(FUZZ_SRC:%.c=build/%)

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all deps programs tests lab-programs demo check bench install uninstall clean help fuzz format tidy vmlinux

all: programs

programs: $(BUILD)/escapementd $(BUILD)/escapement

tests: programs lab-programs $(UNIT_BIN) $(TOOL_BIN)

lab-programs: $(LAB_BIN)

fuzz: $(FUZZ_BIN)

-include $(wildcard mk/*.mk)

# --- kernel programs: one object per hook, linked into one, one skeleton ---
$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c vmlinux/$(ARCH)/vmlinux.h
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CLANG $@
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/bpf/dataplane.o: $(BPF_OBJ)
	@printf '  %-8s %s\n' BPFTOOL $@
	$(Q)$(BPFTOOL) gen object $@ $^

$(SKEL): $(BUILD)/bpf/dataplane.o
	@printf '  %-8s %s\n' BPFTOOL $@
	$(Q)$(BPFTOOL) gen skeleton $< name dataplane > $@ 2> $@.log || { cat $@.log >&2; exit 1; }

# --- user space ---
$(BUILD)/%.o: %.c $(SKEL)
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CC $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libescapement_core.a: $(CORE_OBJ)
	@rm -f $@
	@printf '  %-8s %s\n' AR $@
	$(Q)$(AR) qcs $@ $^

$(BUILD)/escapementd: $(BUILD)/loader/escapementd.o $(BUILD)/libescapement_core.a
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/escapement: $(BUILD)/loader/escapement.o $(BUILD)/libescapement_core.a
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

# --- tests ---
$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libescapement_core.a
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CC $@
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -Wmissing-prototypes,$(CFLAGS)) -MMD -MP $(LDFLAGS) $< \
		$(BUILD)/libescapement_core.a -lcriterion $(LDLIBS) -o $@

$(BUILD)/tests/bpf/%: tests/bpf/%.c $(BUILD)/libescapement_core.a $(SKEL)
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) $< $(BUILD)/libescapement_core.a $(LDLIBS) -o $@

$(BUILD)/tests/bench/%: tests/bench/%.c $(BUILD)/libescapement_core.a $(SKEL)
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) $< $(BUILD)/libescapement_core.a $(LDLIBS) -o $@

# The fuzzers have a core library of their own: clang's coverage and sanitizers.
FUZZ_CFLAGS := -std=gnu11 -O1 -g -fno-strict-aliasing
build/fuzz/%.o: %.c $(SKEL)
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CLANG $@
	$(Q)$(CLANG) $(CPPFLAGS) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link,address,undefined -MMD -MP \
		-c $< -o $@

build/fuzz/libescapement_core.a: $(CORE_SRC:%.c=build/fuzz/%.o)
	@rm -f $@
	@printf '  %-8s %s\n' AR $@
	$(Q)$(AR) qcs $@ $^

build/tests/fuzz/%: tests/fuzz/%.c build/fuzz/libescapement_core.a
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' CLANG $@
	$(Q)$(CLANG) $(CPPFLAGS) $(FUZZ_CFLAGS) -fsanitize=fuzzer,address,undefined -MMD -MP $< \
		build/fuzz/libescapement_core.a $(LDLIBS) -o $@

deps:
	@tests/deps

demo: ; @tests/demo
check: ; @tests/check
bench: ; @tests/bench/run

install: programs
	install -D -m 0755 $(BUILD)/escapementd $(DESTDIR)$(PREFIX)/sbin/escapementd
	install -D -m 0755 $(BUILD)/escapement $(DESTDIR)$(PREFIX)/bin/escapement
	install -D -m 0644 deploy/escapementd.service $(DESTDIR)/lib/systemd/system/escapementd.service
	install -D -m 0644 deploy/escapement.yaml $(DESTDIR)/etc/escapement/escapement.yaml.example
	install -D -m 0644 man/escapement.1 $(DESTDIR)$(PREFIX)/share/man/man1/escapement.1
	install -D -m 0644 man/escapementd.8 $(DESTDIR)$(PREFIX)/share/man/man8/escapementd.8
	install -D -m 0644 man/escapement.yaml.5 $(DESTDIR)$(PREFIX)/share/man/man5/escapement.yaml.5

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/sbin/escapementd $(DESTDIR)$(PREFIX)/bin/escapement \
		$(DESTDIR)/lib/systemd/system/escapementd.service \
		$(DESTDIR)/etc/escapement/escapement.yaml.example \
		$(DESTDIR)$(PREFIX)/share/man/man1/escapement.1 \
		$(DESTDIR)$(PREFIX)/share/man/man8/escapementd.8 \
		$(DESTDIR)$(PREFIX)/share/man/man5/escapement.yaml.5

vmlinux:
	vmlinux/make-vmlinux

format:
	git ls-files '*.c' '*.h' | grep -v '^vmlinux/' | xargs clang-format -i

clean:
	rm -rf build

help:
	@echo 'make deps      check and install the Debian packages that are missing (root)'
	@echo 'make all       build escapementd and escapement into build/'
	@echo 'make demo      root: the lab, two soft-RoCE machines, the daemon, live queue pairs'
	@echo 'make check     root: every test; last line: N passed, N failed, N skipped'
	@echo 'make bench     root: cost per packet and rates, as ratios in one run'
	@echo 'make install   into $$(DESTDIR)$$(PREFIX)'
	@echo 'make fuzz      build the fuzzers into build/tests/fuzz'
	@echo 'make vmlinux   remake vmlinux/*/vmlinux.h'
	@echo 'make SAN=1 ... build with AddressSanitizer and UBSan into build/san'
	@echo 'make clean     remove build/'

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
