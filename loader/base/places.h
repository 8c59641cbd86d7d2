/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the daemon and the command line meet when nothing else is configured. */
#ifndef ESC_BASE_PLACES_H
#define ESC_BASE_PLACES_H

#define PLACES_SOCKET "/run/escapement/escapement.sock"
#define PLACES_KILL_FILE "/run/escapement/off" /* while it exists, nothing is attached */

#endif
