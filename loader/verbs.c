// SPDX-License-Identifier: BSD-2-Clause
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#include "explain.h"
#include "nearest.h"

static const struct verb verbs[] = {
	{"status", "", "version, mode, interfaces: how attached, what is seen", false},
	{"clock", "[wait --bound TIME [--timeout TIME]]",
	 "fabric time, its bound, and whom it is agreed with", false},
	{"peers", "", "each probed peer: state, delay each way, loss", false},
	{"qp", "[KEY] [--sort ORDER] [--top N] [--watch [SECONDS]] [--paths]",
	 "the queue pairs, their delays and what happened on each", false},
	{"top", "[KEY] [--sort delay|throughput|loss] [--interval SECONDS] [-n FRAMES]",
	 "the queue pairs live, the slowest first", false},
	{"events", "[--follow] [--since TIME]", "the ledger: what was seen and done", false},
	{"mode", "observe", "observe again after `off`", false},
	{"off", "", "the kill switch: detach everywhere, and stay detached", false},
	{"config", "show", "the configuration in force", false},
	{"probe-support", "", "which kernel features are here, and what a missing one costs",
	 false},
	{"reload", "", "read the configuration again, all or nothing", false},
	{"version", "", "version and map ABI", false},
	{"paths", "", "", true},
	{"steer", "", "", true},
	{"pace", "", "", true},
	{"topo", "", "", true},
	{"colocation", "", "", true},
	{"place", "", "", true},
	{"audit", "", "", true},
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

const struct verb *verbs_all(size_t *count)
{
	*count = VERBS;
	return verbs;
}

const char *verbs_later(const char *what, char out[160])
{
	snprintf(out, 160,
		 "`%.40s` is not in this version: escapement " ESC_VERSION
		 " observes, and changes nothing",
		 what);
	return out;
}

static const struct verb *unknown(const char *word, char **error)
{
	const char *names[VERBS], *near;

	for (size_t i = 0; i < VERBS; i++)
		names[i] = verbs[i].name;
	near = nearest_name(word, names, VERBS);
	if (near)
		explain(error, 0, "`%.40s` is not a verb; did you mean `%s`?", word, near);
	else
		explain(error, 0, "`%.40s` is not a verb; `escapement --help` lists them", word);
	return NULL;
}

const struct verb *verbs_find(const char *word, bool prefix, char **error)
{
	const struct verb *found = NULL;
	size_t bytes = strlen(word);

	for (size_t i = 0; i < VERBS; i++)
		if (!strcmp(verbs[i].name, word))
			return &verbs[i];
	for (size_t i = 0; prefix && bytes && i < VERBS; i++) {
		if (strncmp(verbs[i].name, word, bytes))
			continue;
		if (found) {
			explain(error, 0, "`%.40s` could be `%s` or `%s`; write more of it", word,
				found->name, verbs[i].name);
			return NULL;
		}
		found = &verbs[i];
	}
	return found ? found : unknown(word, error);
}
