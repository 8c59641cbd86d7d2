/* SPDX-License-Identifier: BSD-2-Clause */
/* One daemon on an interface: an abstract socket per name, gone with the process. */
#ifndef ESC_LOADER_LOCK_H
#define ESC_LOADER_LOCK_H

struct config;
struct locks;

/*
 * Claims every interface of @config in this network namespace; those that
 * @held has already (NULL: none) are borrowed from it. On failure *@error
 * names the interface and the holder's pid.
 */
int locks_take(struct locks **out, const struct locks *held, const struct config *config,
	       char **error);
/* @taken becomes the set that is held; what *@held had beyond it is let go. */
void locks_replace(struct locks **held, struct locks *taken);
/* Lets go; what was borrowed stays with the set that it is of. */
void locks_free(struct locks *locks);

#endif
