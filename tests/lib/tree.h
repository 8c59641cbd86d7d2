/* SPDX-License-Identifier: BSD-2-Clause */
/* A tree of files of a host, from tests/fixtures/audit/NAME.tree, of which single ones can be
 * changed. */
#ifndef ESC_TESTS_TREE_H
#define ESC_TESTS_TREE_H

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/readfile.h"

static inline void tree_need(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	abort();
}

#define LINES_MAX 400

static char root[128];

static inline int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
	(void)info;
	(void)kind;
	(void)walk;
	return remove(path);
}

static inline void clean(void)
{
	if (root[0])
		nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	root[0] = '\0';
}

static inline void make_folders(char *path)
{
	for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
}

/* @content as in the files of tests/fixtures/audit; NULL: the file is removed. */
static inline void put(const char *name, const char *content)
{
	char path[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	make_folders(path);
	unlink(path);
	if (!content)
		return;
	if (!strncmp(content, "->", 2)) {
		tree_need(!symlink(content + 2, path), path);
		return;
	}
	file = fopen(path, "w");
	tree_need(file, path);
	if (!strncmp(content, "x:", 2)) {
		unsigned int byte;

		for (const char *at = content + 2; sscanf(at, "%2x", &byte) == 1; at += 2)
			fputc((int)byte, file);
	} else {
		for (const char *at = content; *at; at++) {
			bool escape = at[0] == '\\' && (at[1] == 'n' || at[1] == 't');

			fputc(escape ? (at[1] == 'n' ? '\n' : '\t') : *at, file);
			at += escape;
		}
		fputc('\n', file);
	}
	fclose(file);
}

static char *lines[LINES_MAX];
static size_t line_count;

static inline void load(const char *flavor)
{
	const char *top = getenv("ESCAPEMENT_TOP");
	static char *bytes;
	char path[512], *save = NULL, *error = NULL;
	size_t size;

	snprintf(path, sizeof(path), "%s/tests/fixtures/audit/%s.tree", top ? top : ".", flavor);
	free(bytes);
	tree_need(!readfile(path, 1 << 20, &bytes, &size, NULL, &error), path);
	line_count = 0;
	for (char *line = strtok_r(bytes, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (line[0] != '#' && line_count < LINES_MAX)
			lines[line_count++] = line;
}

static inline void unpack(const char *flavor)
{
	clean();
	load(flavor);
	snprintf(root, sizeof(root), "/tmp/escapement-audit-XXXXXX");
	tree_need(mkdtemp(root), root);
	for (size_t i = 0; i < line_count; i++) {
		char *tab = strchr(lines[i], '\t');

		tree_need(tab, lines[i]);
		*tab = '\0';
		put(lines[i], tab + 1);
	}
}

/* As the tree had it. */
static inline void restore(const char *name)
{
	put(name, NULL);
	for (size_t i = 0; i < line_count; i++)
		if (!strcmp(lines[i], name))
			put(name, lines[i] + strlen(name) + 1);
}

#endif
