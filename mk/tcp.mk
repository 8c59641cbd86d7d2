# SPDX-License-Identifier: BSD-2-Clause
# TCP at the edge: objects of their own. A wrapper stands alone, since its kernel functions may be missing.
TCP_OBJECTS := tcp_edge tcp_cubic tcp_bbr tcp_reno tcp_list
TCP_SKEL := $(TCP_OBJECTS:%=$(BUILD)/bpf/%.skel.h)

$(TCP_SKEL): $(BUILD)/bpf/%.skel.h: $(BUILD)/bpf/%.bpf.o
	@printf '  %-8s %s\n' BPFTOOL $@
	$(Q)$(BPFTOOL) gen skeleton $< name $* > $@ 2> $@.log || { cat $@.log >&2; exit 1; }

TCP_USERS := loader/tcp/edge.o loader/tcp/wrap.o loader/tcp/list.o
$(TCP_USERS:%=$(BUILD)/%) $(TCP_USERS:%=build/fuzz/%): $(TCP_SKEL)

# How tests/bpf/test_tcp_limit sees what the stack does with a socket; loaded from the file.
tests: $(BUILD)/tests/bpf/sockpace.bpf.o

# What the lab's test runs: traffic, a longer way back, the programs without a daemon.
TCPTOOLS := $(BUILD)/tests/lab/tcpload $(BUILD)/tests/lab/delayline
lab-programs: $(TCPTOOLS) $(BUILD)/tests/lab/edgerun

$(TCPTOOLS): $(BUILD)/tests/lab/%: tests/lab/tcptools/%.c
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $< -o $@

$(BUILD)/tests/lab/edgerun: tests/lab/tcptools/edgerun.c $(BUILD)/libescapement_core.a
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) $< $(BUILD)/libescapement_core.a $(LDLIBS) -o $@
