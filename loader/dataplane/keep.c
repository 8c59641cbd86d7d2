// SPDX-License-Identifier: BSD-2-Clause
/*
 * Links that outlive the daemon, `off` and --remove: those that forward the packets of a dummy
 * device (docs/nic.md), whose queue pairs would be cut off. The kernel keeps their programs, and
 * the maps that these use, until the device is deleted.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "internal.h"

/* The interface of the link that is pinned as @name; 0: it is gone, or this is no link. */
static unsigned int link_ifindex(const char *root, const char *name)
{
	struct bpf_link_info info = {0};
	__u32 bytes = sizeof(info);
	char path[PATH_MAX];
	int fd, err;

	snprintf(path, sizeof(path), "%s/links/%s", root, name);
	fd = pins_get_link(path);
	if (fd < 0)
		return 0;
	err = bpf_obj_get_info_by_fd(fd, &info, &bytes);
	close(fd);
	return err ? 0 : info.xdp.ifindex; /* tcx.ifindex is at the same offset */
}

/* The interface of a pin called "eth1-nic-ingress"; false: it is another one's. */
static bool link_is(const char *name, const char *pin, char interface[IF_NAMESIZE])
{
	size_t bytes = strlen(name), end = strlen(pin) + 1;

	if (bytes <= end || bytes - end >= IF_NAMESIZE || name[bytes - end] != '-' ||
	    strcmp(name + bytes - end + 1, pin))
		return false;
	memcpy(interface, name, bytes - end);
	interface[bytes - end] = '\0';
	return true;
}

/* Whether packets to or from @dummy pass @nic by `nic_local`; true where it cannot be read. */
static bool nic_serves(const char *root, unsigned int nic, unsigned int dummy)
{
	struct bpf_map_info info = {0};
	struct esc_nic_local local;
	__u32 bytes = sizeof(info);
	struct esc_address key;
	char path[PATH_MAX];
	bool found = false;
	int fd;

	snprintf(path, sizeof(path), "%s/nic_local", root);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return true;
	if (bpf_obj_get_info_by_fd(fd, &info, &bytes) || info.value_size != sizeof(local) ||
	    info.key_size != sizeof(key))
		found = true;
	for (void *at = NULL; !found && !bpf_map_get_next_key(fd, at, &key); at = &key)
		found = !bpf_map_lookup_elem(fd, &key, &local) && local.flags & ESC_NIC_DUMMY &&
			local.deliver_ifindex == dummy &&
			(local.first_ifindex == nic || local.second_ifindex == nic);
	close(fd);
	return found;
}

bool pins_forwards(const char *root, const char *name)
{
	unsigned int ifindex = link_ifindex(root, name);
	char interface[IF_NAMESIZE], folder[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *links;

	if (!ifindex)
		return false;
	if (link_is(name, PINS_NIC_DUMMY, interface))
		return true;
	if (!link_is(name, PINS_NIC_INGRESS, interface))
		return false;
	snprintf(folder, sizeof(folder), "%s/links", root);
	links = opendir(folder);
	while (links && !found && (entry = readdir(links))) {
		unsigned int dummy = link_is(entry->d_name, PINS_NIC_DUMMY, interface)
					     ? link_ifindex(root, entry->d_name)
					     : 0;

		found = dummy && nic_serves(root, ifindex, dummy);
	}
	if (links)
		closedir(links);
	return found;
}

char *pins_forwarded(const char *root)
{
	char interface[IF_NAMESIZE], folder[PATH_MAX], *names = NULL;
	struct dirent *entry;
	DIR *links;

	snprintf(folder, sizeof(folder), "%s/links", root);
	links = opendir(folder);
	while (links && (entry = readdir(links))) {
		char *before = names;

		if (!link_is(entry->d_name, PINS_NIC_DUMMY, interface) ||
		    !link_ifindex(root, entry->d_name))
			continue;
		names = NULL;
		explain_text(&names, "%s%s%s", before ? before : "", before ? ", " : "", interface);
		free(before);
	}
	if (links)
		closedir(links);
	return names;
}

int pins_remove_links(const char *root, char **error)
{
	char folder[PATH_MAX], *names = pins_forwarded(root);
	bool forwards = names;
	struct dirent *entry;
	DIR *links;

	free(names);
	snprintf(folder, sizeof(folder), "%s/links", root);
	links = opendir(folder);
	while (links && (entry = readdir(links)))
		if (entry->d_name[0] != '.' && !pins_forwards(root, entry->d_name))
			unlinkat(dirfd(links), entry->d_name, 0);
	if (!links)
		return 0;
	closedir(links);
	if (!forwards && rmdir(folder) < 0 && errno != ENOENT)
		return explain(error, -errno, "%s cannot be removed: %s", folder, strerror(errno));
	rmdir(root); /* if nothing else is in it */
	return 0;
}
