/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's face: the socket and the textfile. */
#ifndef ESC_API_H
#define ESC_API_H

#include "server.h"
#include "textfile.h"

#endif
