// SPDX-License-Identifier: BSD-2-Clause
/* What `escapement sysdump` runs: libarchive and what it needs stay out of the command line. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/verb.h"
#include "sysdump/sysdump.h"

#define USAGE "usage: escapement sysdump [FILE]\n"

static struct sysdump dump;

/* "escapement-sysdump-h1-20260131T120000Z". */
static void name_folder(char *out, size_t bytes)
{
	char host[65] = "", stamp[32];
	time_t now = time(NULL);
	struct tm parts;

	gethostname(host, sizeof(host) - 1);
	for (char *at = host; *at; at++)
		if (*at == '/')
			*at = '_';
	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &parts));
	snprintf(out, bytes, "escapement-sysdump-%s-%s", host, stamp);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"socket", required_argument, NULL, 's'},
						{"escapement", required_argument, NULL, 'e'},
						{}};
	char folder[128], path[160], *error = NULL;
	const char *file = path;
	int option, err;

	dump = (struct sysdump){.escapement = "escapement", .socket = PLACES_SOCKET};
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's')
			dump.socket = optarg;
		else if (option == 'e')
			dump.escapement = optarg;
		else
			return fputs(USAGE, stderr), 2;
	}
	if (optind + 1 < argc)
		return fputs(USAGE, stderr), 2;
	name_folder(folder, sizeof(folder));
	snprintf(path, sizeof(path), "%s.tar.gz", folder);
	if (optind < argc)
		file = argv[optind];
	signal(SIGPIPE, SIG_IGN);
	dump.index = json_array();
	err = archive_open(&dump.file, file, folder, &error);
	if (!err) {
		int close_err;

		err = sysdump_write(&dump);
		close_err = archive_close(dump.file, !err, &error);
		err = err ? err : close_err;
	}
	if (err)
		fprintf(stderr, "escapement: %s\n",
			dump.error ? dump.error
			: error	   ? error
				   : strerror(-err));
	else if (strcmp(file, "-"))
		printf("%s: %zu parts of %llu KiB; %zu are missing, index.json in it has the "
		       "reasons\n",
		       file, json_array_size(dump.index) - dump.missing,
		       (unsigned long long)(dump.bytes >> 10), dump.missing);
	json_decref(dump.index);
	free(dump.error);
	free(error);
	return err || fflush(stdout) ? 1 : 0;
}
