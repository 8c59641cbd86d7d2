# SPDX-License-Identifier: BSD-2-Clause
# Escapement. `make help` lists the targets; mk/tests.mk builds the tests.

VERSION := 0.1.0
ARCH ?= $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')
# V=1 shows the commands, WERROR=1 makes warnings errors, SAN=1 builds with sanitizers, SAN=thread with ThreadSanitizer.
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
WERROR ?= 0
SAN ?= 0
BUILD ?= build
# Objects of this flavour; the kernel programs are the same in each.
OUT := $(BUILD)$(if $(filter 1,$(SAN)),/san)$(if $(filter thread,$(SAN)),/tsan)
BPF_OUT := $(BUILD)/bpf

DESTDIR ?=
PREFIX ?= /usr/local
SBINDIR ?= $(PREFIX)/sbin
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
LIBEXECDIR ?= $(PREFIX)/libexec/escapement
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
CATALOGDIR ?= $(PREFIX)/lib/systemd/catalog
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
DATADIR ?= $(PREFIX)/share/escapement
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
SYSCONFDIR ?= /etc

ifeq ($(origin CC),default)
CC := gcc
endif
CLANG ?= clang
BPFTOOL ?= $(shell command -v bpftool || echo /usr/sbin/bpftool)
INSTALL ?= install

# CFLAGS, CPPFLAGS and LDFLAGS are the user's; they come after our own.
CFLAGS ?= -O2 -g
PKGS := libbpf libxdp yaml-0.1 jansson libmnl libsystemd libelf zlib
WARN := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wformat=2 -Wvla \
	$(if $(filter 1,$(WERROR)),-Werror)
HARDEN := -fPIE -fstack-protector-strong -fstack-clash-protection
HARDEN_LINK := -pie -Wl,-z,relro -Wl,-z,now
ifeq ($(SAN),1)
SANITIZE := -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
else ifeq ($(SAN),thread)
SANITIZE := -fsanitize=thread
else ifeq ($(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),)
FORTIFY := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif
ALL_CPPFLAGS = -D_GNU_SOURCE -DESC_VERSION='"$(VERSION)"' -I. -Iloader -I$(BPF_OUT) $(FORTIFY) $(CPPFLAGS)
ALL_CFLAGS = -std=gnu11 -fno-strict-aliasing $(WARN) $(HARDEN) $(SANITIZE) $(CFLAGS)
ALL_LDFLAGS = $(HARDEN_LINK) $(SANITIZE) $(LDFLAGS)
LDLIBS := $(shell pkg-config --libs $(PKGS)) -lm
BPF_CFLAGS := -O2 -g -target bpf -mcpu=v3 -D__TARGET_ARCH_$(ARCH) -Ivmlinux/$(ARCH) -I. -Ibpf \
	-I/usr/include -ffile-prefix-map=$(CURDIR)=. -Wall -Wextra -Wno-unused-parameter -Wno-missing-declarations \
	$(if $(filter 1,$(WERROR)),-Werror) -fno-strict-aliasing

say = @mkdir -p $(@D); printf '  %-8s %s\n' $(1) $@

LIB := loader/libescapement
SHIM := loader/libescapement-verbs
PROFILER := loader/libescapement-nccl
MAN := escapement.1 escapement-alert.8 escapement-serve.8 escapement-events.7 escapementd.8 escapement.yaml.5 libescapement.3 libescapement-verbs.7 libescapement-nccl.7
MAINS := loader/escapementd.c loader/escapement.c loader/escapement-alert.c loader/escapement-serve.c loader/escapement-sysdump.c loader/mkref.c
CORE_SRC := $(filter-out $(MAINS) $(LIB)/% $(SHIM)/% $(PROFILER)/%,$(shell find loader -name '*.c'))
LAWS_SRC := $(shell find clocksync pacing -name '*.c')
CORE := $(OUT)/libescapement_core.a
# The clock's arithmetic and the control laws: no kernel program, no daemon.
LAWS := $(OUT)/libescapement_laws.a
# Objects of their own, since one of their programs may be refused alone, or stands on other hooks.
HOOKS := $(patsubst bpf/%.bpf.c,%,$(wildcard bpf/*.bpf.c))
ALONE := $(filter carry repair qp_trace host_queue nic tcp_%,$(HOOKS))
SKELETONS := $(patsubst %,$(BPF_OUT)/%.skel.h,dataplane $(ALONE))

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all programs tests deps demo test check check-long lint bench install uninstall detach clean help format vmlinux

all: programs

programs: $(OUT)/escapementd $(OUT)/escapement $(OUT)/escapement-alert $(OUT)/escapement-serve $(OUT)/escapement-sysdump $(OUT)/libescapement.so $(OUT)/libescapement-verbs.so $(OUT)/libnccl-profiler-escapement.so $(MAN:%=$(OUT)/man/%) \
	$(OUT)/escapement-event.schema.json $(OUT)/escapement-api.schema.json $(OUT)/escapement.yaml $(OUT)/completion.bash $(OUT)/completion.zsh $(OUT)/escapement.catalog

include mk/tests.mk

# --- kernel programs: one object per hook, linked into one, and those that stand alone ---
$(BPF_OUT)/%.bpf.o: bpf/%.bpf.c vmlinux/$(ARCH)/vmlinux.h
	$(call say,CLANG)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

$(BPF_OUT)/dataplane.o: $(patsubst %,$(BPF_OUT)/%.bpf.o,$(filter-out $(ALONE),$(HOOKS)))
	$(call say,BPFTOOL)
	$(Q)$(BPFTOOL) gen object $@ $^

$(BPF_OUT)/dataplane.skel.h: $(BPF_OUT)/dataplane.o
$(ALONE:%=$(BPF_OUT)/%.skel.h): $(BPF_OUT)/%.skel.h: $(BPF_OUT)/%.bpf.o
# Where a program of the object has the object's own name.
$(BPF_OUT)/host_queue.skel.h: SKELETON := host_queue_out
$(BPF_OUT)/nic.skel.h: SKELETON := nic_programs
$(BPF_OUT)/carry.skel.h: SKELETON := carry_program
$(BPF_OUT)/repair.skel.h: SKELETON := repair_program
$(SKELETONS):
	$(call say,BPFTOOL)
	$(Q)$(BPFTOOL) gen skeleton $< name $(or $(SKELETON),$(patsubst %.skel.h,%,$(@F))) > $@ 2> $@.log || \
		{ cat $@.log >&2; exit 1; }

# --- user space ---
$(OUT)/%.o: %.c
	$(call say,CC)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# Who includes a skeleton waits for it the first time; from then on its .d file knows.
skeleton_of = $(addprefix $(BPF_OUT)/,$(shell sed -n 's/^\#include "\(.*\.skel\.h\)"/\1/p' $(1)))
$(foreach file,$(shell grep -rl --include='*.c' 'skel\.h"' loader),$(eval \
	$(OUT)/$(file:.c=.o) $(BUILD)/fuzz/$(file:.c=.o): | $(call skeleton_of,$(file))))

$(CORE): $(CORE_SRC:%.c=$(OUT)/%.o)
$(LAWS): $(LAWS_SRC:%.c=$(OUT)/%.o)
$(CORE) $(LAWS):
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) qcsT $@ $^

LINK = $(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(filter %.o %.a,$^) $(LDLIBS) -o $@

$(OUT)/escapementd $(OUT)/escapement $(OUT)/escapement-alert $(OUT)/escapement-serve $(OUT)/escapement-sysdump $(OUT)/mkref: $(OUT)/%: $(OUT)/loader/%.o $(CORE) $(LAWS)
	$(call say,LD)
	$(LINK)

# Unprivileged: it needs none of the libraries of the daemon.
$(OUT)/escapement-alert: LDLIBS := $(shell pkg-config --libs jansson libcurl libsystemd) -lm

# Its routes are the tables of the verbs, which need what the command line needs.
$(OUT)/escapement-serve: LDLIBS += -lmicrohttpd
$(OUT)/escapement-sysdump: LDLIBS += -larchive

# libescapement: position-independent, on the C library alone, nothing exported but its own.
SONAME := libescapement.so.0
$(OUT)/$(SONAME).1.0: $(LIB)/escapement.c $(LIB)/escapement.map
	$(call say,LD)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(filter-out -fPIE,$(ALL_CFLAGS)) $(filter-out -pie,$(ALL_LDFLAGS)) -MMD -MP \
		-fPIC -shared -Wl,-soname,$(SONAME) -Wl,--version-script=$(LIB)/escapement.map $< -o $@

$(OUT)/libescapement.so: $(OUT)/$(SONAME).1.0
	$(Q)ln -sf $(<F) $(OUT)/$(SONAME) && ln -sf $(<F) $@

# The shim of libibverbs, which stays behind it: what it does not replace is found there.
$(OUT)/libescapement-verbs.so: $(wildcard $(SHIM)/*.[ch]) $(SHIM)/verbs.map loader/ibverbs/segment.h
	$(call say,LD)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(filter-out -fPIE,$(ALL_CFLAGS)) $(filter-out -pie,$(ALL_LDFLAGS)) -fPIC -shared -flto \
		-Wl,-soname,$(@F) -Wl,-z,nodelete -Wl,--version-script=$(SHIM)/verbs.map $(filter %.c,$^) \
		-Wl,--no-as-needed -libverbs -o $@

# The profiler plugin of NCCL, on the C library alone; never unloaded, as NCCL has its functions.
$(OUT)/libnccl-profiler-escapement.so: $(wildcard $(PROFILER)/*.[ch]) $(PROFILER)/nccl.map $(SHIM)/file.c $(SHIM)/file.h loader/nccl/segment.h
	$(call say,LD)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(filter-out -fPIE,$(ALL_CFLAGS)) $(filter-out -pie,$(ALL_LDFLAGS)) -fPIC -shared -flto \
		-Wl,-soname,$(@F) -Wl,-z,nodelete -Wl,--version-script=$(PROFILER)/nccl.map $(filter %.c,$^) -o $@

# --- what is written from the tables: an @part@ of a page is what mkref prints for it ---
FILL = $(Q)awk -v mkref=$(OUT)/mkref '/^@[a-z-]+@$$/ { gsub(/@/, ""); fflush(); \
		if (system(mkref " " $$0)) exit 1; next } { print }' $< > $@

$(OUT)/man/%: man/%.in $(OUT)/mkref
	$(call say,MAN)
	$(FILL)

$(OUT)/%.schema.json: deploy/%.schema.json.in $(OUT)/mkref
	$(call say,MKREF)
	$(FILL)

$(OUT)/man/%: man/%
	$(call say,MAN)
	$(Q)cp $< $@

$(OUT)/escapement.yaml: $(OUT)/mkref
	$(call say,MKREF)
	$(Q)$(OUT)/mkref keys-example > $@

# --- targets without a file ---
deps: ; @tests/deps
demo: ; @tests/demo
test: programs unit
	@tests/run test
check: ; @tests/check
check-long: ; @tests/check long
lint: ; @tests/text/lint
bench: ; @tests/bench/run
vmlinux: ; vmlinux/make-vmlinux
clean: ; rm -rf $(BUILD)

format:
	git ls-files '*.c' '*.h' | grep -v '^vmlinux/' | xargs clang-format -i

$(OUT)/escapement.catalog: $(OUT)/mkref
	$(call say,MKREF)
	$(Q)$(OUT)/mkref catalog > $@

$(OUT)/escapement-api.schema.json: $(OUT)/mkref
	$(call say,MKREF)
	$(Q)$(OUT)/mkref api-schema > $@

# Where the shells look for completion.
COMPLETION = $(PREFIX)/share/bash-completion/completions/escapement $(ZSHDIR)/_escapement

$(OUT)/completion.%: $(OUT)/mkref
	$(call say,MKREF)
	$(Q)$(OUT)/mkref completion-$* > $@

DASHBOARDS = $(notdir $(sort $(wildcard deploy/grafana/*.json)))
INSTALLED = $(COMPLETION) $(SYSUSERSDIR)/escapement.conf $(SBINDIR)/escapementd $(SBINDIR)/escapement-alert $(SBINDIR)/escapement-serve $(LIBEXECDIR)/escapement-sysdump $(BINDIR)/escapement \
	$(UNITDIR)/escapementd.service $(UNITDIR)/escapement-alert.service $(UNITDIR)/escapement-serve.service \
	$(CATALOGDIR)/escapement.catalog $(DATADIR)/escapement-event.schema.json $(DATADIR)/escapement-api.schema.json $(DATADIR)/escapement-audit.schema.json $(DATADIR)/alertmanager.yml $(DATADIR)/escapement.rules.yml \
	$(addprefix $(DATADIR)/grafana/,$(DASHBOARDS)) $(DATADIR)/slurm/escapement-drain $(DATADIR)/escapement-monitor.json \
	$(SYSCONFDIR)/escapement/escapement.yaml.example $(INCLUDEDIR)/escapement.h \
	$(addprefix $(LIBDIR)/,$(SONAME).1.0 $(SONAME) libescapement.so escapement/libescapement-verbs.so escapement/libnccl-profiler-escapement.so pkgconfig/libescapement.pc) \
	$(foreach page,$(MAN),$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(page))
D := $(DESTDIR)

install: programs
	$(INSTALL) -D -m 0755 $(OUT)/escapementd $(D)$(SBINDIR)/escapementd
	$(INSTALL) -D -m 0755 $(OUT)/escapement-alert $(D)$(SBINDIR)/escapement-alert
	$(INSTALL) -D -m 0755 $(OUT)/escapement-serve $(D)$(SBINDIR)/escapement-serve
	$(INSTALL) -D -m 0755 $(OUT)/escapement-sysdump $(D)$(LIBEXECDIR)/escapement-sysdump
	$(INSTALL) -D -m 0755 $(OUT)/escapement $(D)$(BINDIR)/escapement
	$(INSTALL) -D -m 0755 $(OUT)/$(SONAME).1.0 $(D)$(LIBDIR)/$(SONAME).1.0
	ln -sf $(SONAME).1.0 $(D)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME).1.0 $(D)$(LIBDIR)/libescapement.so
	$(INSTALL) -D -m 0755 $(OUT)/libescapement-verbs.so $(D)$(LIBDIR)/escapement/libescapement-verbs.so
	$(INSTALL) -m 0755 $(OUT)/libnccl-profiler-escapement.so $(D)$(LIBDIR)/escapement/
	$(INSTALL) -D -m 0644 $(LIB)/escapement.h $(D)$(INCLUDEDIR)/escapement.h
	$(INSTALL) -d $(D)$(LIBDIR)/pkgconfig $(D)$(UNITDIR)
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@VERSION@|$(VERSION)|' \
		$(LIB)/escapement.pc.in > $(D)$(LIBDIR)/pkgconfig/libescapement.pc
	for unit in escapementd escapement-alert escapement-serve; do \
		sed 's|=/usr/sbin/|=$(SBINDIR)/|; s|/etc/escapement|$(SYSCONFDIR)/escapement|' deploy/$$unit.service \
			> $(D)$(UNITDIR)/$$unit.service || exit 1; done
	$(INSTALL) -D -m 0644 $(OUT)/escapement.catalog $(D)$(CATALOGDIR)/escapement.catalog
	$(INSTALL) -D -m 0644 $(OUT)/escapement-event.schema.json $(D)$(DATADIR)/escapement-event.schema.json
	$(INSTALL) -m 0644 $(OUT)/escapement-api.schema.json $(D)$(DATADIR)/
	$(INSTALL) -m 0644 deploy/alertmanager.yml deploy/escapement.rules.yml deploy/escapement-audit.schema.json $(D)$(DATADIR)/
	$(INSTALL) -d $(D)$(DATADIR)/grafana
	$(INSTALL) -m 0644 deploy/node-problem-detector/escapement-monitor.json $(D)$(DATADIR)/
	$(INSTALL) -D -m 0755 deploy/slurm/escapement-drain $(D)$(DATADIR)/slurm/escapement-drain
	$(INSTALL) -m 0644 $(addprefix deploy/grafana/,$(DASHBOARDS)) $(D)$(DATADIR)/grafana/
	$(INSTALL) -D -m 0644 $(OUT)/escapement.yaml $(D)$(SYSCONFDIR)/escapement/escapement.yaml.example
	$(INSTALL) -D -m 0644 deploy/escapement.sysusers $(D)$(SYSUSERSDIR)/escapement.conf
	$(INSTALL) -D -m 0644 $(OUT)/completion.bash $(D)$(word 1,$(COMPLETION))
	$(INSTALL) -D -m 0644 $(OUT)/completion.zsh $(D)$(word 2,$(COMPLETION))
	for page in $(MAN); do $(INSTALL) -D -m 0644 $(OUT)/man/$$page $(D)$(MANDIR)/man$${page##*.}/$$page || exit 1; done
	$(if $(DESTDIR),,@$(REGISTER))

# What a package's scripts would do; without systemd `groupadd -r escapement` lets others read.
REGISTER = [ "$$(id -u)" = 0 ] && [ -d /run/systemd/system ] || exit 0; \
	systemd-sysusers '$(SYSUSERSDIR)/escapement.conf' && journalctl --update-catalog && systemctl daemon-reload

uninstall: $(if $(DESTDIR),,detach)
	rm -f $(addprefix $(D),$(INSTALLED))

# Programs outlive the daemon, and without escapementd they are hard to take off. With DESTDIR nothing of it runs.
OWN_UNIT = [ -d /run/systemd/system ] && \
	[ "$$(systemctl show -p FragmentPath --value escapementd.service)" = '$(UNITDIR)/escapementd.service' ]
OWN_CONFIG = '$(SYSCONFDIR)/escapement/escapement.yaml'
detach:
	@if [ ! -x '$(SBINDIR)/escapementd' ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ]; then echo 'uninstall: not root: what is attached stays attached'; exit 0; fi; \
	if $(OWN_UNIT); then echo 'uninstall: stopping escapementd.service'; \
		systemctl disable --now escapementd.service || exit 1; fi; \
	if [ -e $(OWN_CONFIG) ]; then set -- -c $(OWN_CONFIG); else set --; fi; \
	'$(SBINDIR)/escapementd' --remove "$$@" || { \
		echo 'uninstall: nothing was removed, since programs may still be attached; see the error above' >&2; exit 1; }; \
	echo 'uninstall: every program is detached; $(SYSCONFDIR)/escapement and /var/lib/escapement stay'

help:
	@echo 'make all        build escapementd, escapement and libescapement into build/'
	@echo 'make install    into $$(DESTDIR)$$(PREFIX), /usr/local if not given; make uninstall detaches and removes it'
	@echo 'make deps       root: install the Debian packages that are missing'
	@echo 'make demo       root: the lab, two soft-RoCE machines, the daemon, live queue pairs'
	@echo 'make test       unit tests and the source as text: no root, no network, a minute'
	@echo 'make check      root: every test that passes or fails; last line: N passed, N failed, N skipped'
	@echo 'make check-long root: long series and whole tables, for hours'
	@echo 'make lint       clang-format, clang-tidy, shellcheck, ruff or pyflakes, codespell, mandoc, systemd'
	@echo 'make bench      root: cost per packet and rates, as ratios in one run'
	@echo 'make tests      build the programs of the tests and benchmarks; make fuzz, the fuzzers'
	@echo 'make format     clang-format on every C file'
	@echo 'make vmlinux    generate vmlinux/*/vmlinux.h again'
	@echo 'make clean      remove build/'
	@echo 'Variables: V=1 shows commands, WERROR=1 fails on warnings, SAN=1 builds with AddressSanitizer, SAN=thread with ThreadSanitizer'
	@echo 'and UBSan into build/san; CC CFLAGS CPPFLAGS LDFLAGS CLANG BPFTOOL; PREFIX DESTDIR SBINDIR BINDIR'
	@echo 'LIBDIR LIBEXECDIR INCLUDEDIR MANDIR UNITDIR CATALOGDIR DATADIR SYSUSERSDIR ZSHDIR'
	@echo 'SYSCONFDIR.'

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
