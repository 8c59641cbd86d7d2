/* SPDX-License-Identifier: BSD-2-Clause */
/* Drivers, features and speed by the ethtool ioctl, which works in any network namespace. */
#ifndef ESC_LOADER_ETHTOOL_H
#define ESC_LOADER_ETHTOOL_H

#include <stdbool.h>
#include <stddef.h>

/* "" when the driver does not report it. */
void ethtool_driver(const char *name, char *out, size_t bytes);

/* Called for each feature ("tx-tcp-segmentation", ...) with its state now. */
typedef void ethtool_feature_fn(const char *feature, bool active, void *context);
int ethtool_features(const char *name, ethtool_feature_fn *fn, void *context);

/* Bits a second; 0: the driver does not report it. */
double ethtool_speed_bps(const char *name);

#endif
