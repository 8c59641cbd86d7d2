// SPDX-License-Identifier: BSD-2-Clause
/* Writes what is generated from the tables: parts of manual pages, the example configuration,
 * the completion of shells. */
#include <stdio.h>
#include <string.h>

#include "cli/reference.h"
#include "config/config.h"
#include "daemon/daemon.h"

static int keys_man(FILE *out)
{
	return config_write_man(out, daemon_config_sections());
}

static int keys_example(FILE *out)
{
	return config_write_example(out, daemon_config_sections());
}

static int verbs_man(FILE *out)
{
	reference_man(out);
	return 0;
}

static int completion_bash(FILE *out)
{
	reference_script(out, "bash");
	return 0;
}

static int completion_zsh(FILE *out)
{
	reference_script(out, "zsh");
	return 0;
}

static const struct {
	const char *name;
	int (*write)(FILE *out); /* 0 or -errno */
} parts[] = {
	{"keys-man", keys_man},
	{"keys-example", keys_example},
	{"verbs-man", verbs_man},
	{"completion-bash", completion_bash},
	{"completion-zsh", completion_zsh},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!strcmp(argv[1], parts[i].name))
			return parts[i].write(stdout) || fflush(stdout) ? 1 : 0;
	fputs("usage: mkref PART; a PART is one of\n", stderr);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		fprintf(stderr, "  %s\n", parts[i].name);
	return 2;
}
