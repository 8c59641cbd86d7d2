/* SPDX-License-Identifier: BSD-2-Clause */
/* One daemon on an interface: an abstract socket per name, gone with the process. */
#ifndef ESC_LOADER_LOCK_H
#define ESC_LOADER_LOCK_H

struct config;
struct locks;

/*
 * Claims every interface of @config in this network namespace; those that
 * @held has already (NULL: none) are moved over. On failure @held is as
 * before, and *@error names the interface and the holder's pid.
 */
int locks_take(struct locks **out, struct locks *held, const struct config *config, char **error);
void locks_free(struct locks *locks);

#endif
