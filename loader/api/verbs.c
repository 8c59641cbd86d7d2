// SPDX-License-Identifier: BSD-2-Clause
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#include "base/explain.h"
#include "base/nearest.h"

static const struct verb verbs[] = {
	{"status", "", "version, mode, interfaces: how attached, what is seen", false},
	{"clock", "[wait --bound TIME [--timeout TIME]]",
	 "fabric time, its bound, and whom it is agreed with", false},
	{"peers", "", "each probed peer: state, delay each way, loss", false},
	{"paths", "[PEER]", "the candidate paths to each peer: delay each way, loss, state, switches", false},
	{"qp", "[KEY] [--sort ORDER] [--top N] [--watch [SECONDS]]",
	 "the queue pairs, their delays and what happened on each", false},
	{"top", "[KEY] [--sort delay|throughput|loss] [--interval SECONDS] [-n FRAMES]",
	 "the queue pairs live, the slowest first", false},
	{"events", "[--follow] [--since TIME]", "the events: what was seen and done", false},
	{"steer",
	 "[set --dst IP --qpn N --sport P [--flow-label L] [--src IP] [--flowlet-gap TIME] [--deadline TIME]\n"
	 "                  [--force] | clear --dst IP --qpn N [--src IP] [--force] | clear --all [--force]\n"
	 "                  | auto on|off | plan]",
	 "the queue pairs that were given a path; gives one, takes it away, or does so by itself",
	 false},
	{"pace",
	 "[show | on|off [INTERFACE...] | set --class NAME [--weight N] [--threshold TIME] |\n"
	 "                  set --dst IP --qpn N [--src IP] [--class NAME] | setup-fq|undo-fq INTERFACE]",
	 "packets held at the sender while the fabric's queues are long", false},
	{"mode", "observe|steer|pace [INTERFACE...]",
	 "watch only (also again after `off`), or allow `steer`, or `pace`", false},
	{"failover", "", "pairs of NICs that stand in for each other, and who goes by which", false},
	{"failover-dummy",
	 "add NAME NIC ADDRESS... to NETWORK... [rxe] | remove NAME",
	 "a dummy device on a NIC, for queue pairs that survive it; and its end", false},
	{"off", "", "the kill switch: detach everywhere, and stay detached", false},
	{"config", "show", "the configuration in force", false},
	{"features", "", "which kernel features are here, and what a missing one costs",
	 false},
	{"reload", "", "read the configuration again, all or nothing", false},
	{"version", "", "version and map ABI", false},
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
		 "`%.40s` is not in this version, escapement " ESC_VERSION "; a later one will have it",
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
