// SPDX-License-Identifier: BSD-2-Clause
#include "ethtool.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int ethtool_call(const char *name, void *command)
{
	struct ifreq request = {.ifr_data = command};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (fd < 0)
		return -errno;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCETHTOOL, &request) < 0)
		err = -errno;
	close(fd);
	return err;
}

void ethtool_driver(const char *name, char *out, size_t bytes)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	out[0] = '\0';
	if (!ethtool_call(name, &info))
		snprintf(out, bytes, "%.*s", (int)sizeof(info.driver), info.driver);
}

int ethtool_features(const char *name, ethtool_feature_fn *fn, void *context)
{
	struct {
		struct ethtool_sset_info info;
		uint32_t count;
	} query = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ULL << ETH_SS_FEATURES}};
	struct ethtool_gfeatures *features = NULL;
	struct ethtool_gstrings *strings = NULL;
	int err = ethtool_call(name, &query), count = (int)query.count;
	int blocks = (count + 31) / 32;

	if (err)
		return err;
	if (!query.info.sset_mask)
		return -EOPNOTSUPP;
	err = -ENOMEM;
	strings = calloc(1, sizeof(*strings) + (size_t)count * ETH_GSTRING_LEN);
	features = calloc(1, sizeof(*features) + blocks * sizeof(features->features[0]));
	if (!strings || !features)
		goto out;
	strings->cmd = ETHTOOL_GSTRINGS;
	strings->string_set = ETH_SS_FEATURES;
	strings->len = count;
	features->cmd = ETHTOOL_GFEATURES;
	features->size = blocks;
	err = ethtool_call(name, strings);
	if (!err)
		err = ethtool_call(name, features);
	for (int i = 0; !err && i < count; i++) {
		char text[ETH_GSTRING_LEN + 1] = "";

		memcpy(text, strings->data + i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
		fn(text, features->features[i / 32].active >> (i % 32) & 1, context);
	}
out:
	free(features);
	free(strings);
	return err;
}

double ethtool_speed_bps(const char *name)
{
	/* The first reply has the number of words of link modes of the driver, negative. */
	struct {
		struct ethtool_link_settings settings;
		uint32_t modes[3 * 127];
	} query = {.settings = {.cmd = ETHTOOL_GLINKSETTINGS}};
	int err = ethtool_call(name, &query);

	if (!err && query.settings.link_mode_masks_nwords < 0) {
		query.settings.cmd = ETHTOOL_GLINKSETTINGS;
		query.settings.link_mode_masks_nwords = -query.settings.link_mode_masks_nwords;
		err = ethtool_call(name, &query);
	}
	if (err || query.settings.link_mode_masks_nwords <= 0 ||
	    query.settings.speed == (uint32_t)SPEED_UNKNOWN)
		return 0;
	return query.settings.speed * 1e6;
}
