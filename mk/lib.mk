# SPDX-License-Identifier: BSD-2-Clause
# libescapement: position-independent, on the C library alone, nothing exported but its own.
LIB_SONAME := libescapement.so.0
LIB_SO := $(BUILD)/$(LIB_SONAME).1.0
LIB_LINKS := $(BUILD)/$(LIB_SONAME) $(BUILD)/libescapement.so

programs: $(LIB_SO) $(LIB_LINKS)

$(LIB_SO): loader/libescapement/escapement.c loader/libescapement/escapement.h loader/libescapement/page.h loader/libescapement/escapement.map $(wildcard clocksync/*.h maps/clock.h)
	@mkdir -p $(@D)
	@printf '  %-8s %s\n' LD $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -fPIC -fvisibility=default -shared \
		-Wl,-soname,$(LIB_SONAME) -Wl,--version-script=loader/libescapement/escapement.map $< -o $@

$(LIB_LINKS): $(LIB_SO)
	$(Q)ln -sf $(notdir $(LIB_SO)) $@

.PHONY: install-lib uninstall-lib
install: install-lib
install-lib: $(LIB_SO)
	install -D -m 0755 $(LIB_SO) $(DESTDIR)$(PREFIX)/lib/$(notdir $(LIB_SO))
	ln -sf $(notdir $(LIB_SO)) $(DESTDIR)$(PREFIX)/lib/$(LIB_SONAME)
	ln -sf $(notdir $(LIB_SO)) $(DESTDIR)$(PREFIX)/lib/libescapement.so
	install -D -m 0644 loader/libescapement/escapement.h $(DESTDIR)$(PREFIX)/include/escapement.h
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' loader/libescapement/escapement.pc.in \
		> $(DESTDIR)$(PREFIX)/lib/pkgconfig/libescapement.pc
	install -D -m 0644 man/libescapement.3 $(DESTDIR)$(PREFIX)/share/man/man3/libescapement.3

uninstall: uninstall-lib
uninstall-lib:
	rm -f $(DESTDIR)$(PREFIX)/lib/libescapement.so $(DESTDIR)$(PREFIX)/lib/$(LIB_SONAME) \
		$(DESTDIR)$(PREFIX)/lib/$(notdir $(LIB_SO)) \
		$(DESTDIR)$(PREFIX)/include/escapement.h \
		$(DESTDIR)$(PREFIX)/lib/pkgconfig/libescapement.pc \
		$(DESTDIR)$(PREFIX)/share/man/man3/libescapement.3
