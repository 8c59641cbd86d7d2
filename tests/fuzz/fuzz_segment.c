// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as the file of a process with libescapement-verbs: read from a folder, and shown. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ibverbs/internal.h"
#include "qp/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The first slots are the input's, and so is the ring; a file has its whole size. */
static void write_file(const char *path, const uint8_t *bytes, size_t size)
{
	FILE *file = fopen(path, "w");

	if (!file || fwrite(bytes, 1, size, file) != size ||
	    fseek(file, offsetof(struct segment, samples), SEEK_SET) ||
	    fwrite(bytes, 1, size % 4096, file) != size % 4096 || fclose(file) ||
	    truncate(path, SEGMENT_BYTES))
		abort();
}

static bool read_time(void *context, uint64_t local_ns, int64_t *fabric_ns, int64_t *bound_ns)
{
	(void)context;
	*fabric_ns = (int64_t)local_ns;
	*bound_ns = (int64_t)(local_ns >> 8);
	return local_ns & 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static char folder[] = "/dev/shm/esc-fuzz-XXXXXX", path[64];
	struct qptable table = {};
	struct ibverbs verbs = {
		.table = &table,
		.processes = {.folder = folder, .idle_ns = 60000000000, .read_time = read_time}};
	FILE *nowhere = fopen("/dev/null", "w");
	char *text;

	if (!path[0] && !mkdtemp(folder))
		abort();
	snprintf(path, sizeof(path), "%s/0123456789abcdef", folder);
	write_file(path, bytes, size < 65536 ? size : 65536);
	processes_poll(&verbs.processes, 1);
	/* It grows, and another queue pair is in a slot. */
	processes_poll(&verbs.processes, 600000001);
	report_make_rows(&verbs);
	watch_poll(&verbs, 600000001);
	watch_poll(&verbs, 600000001 + 2 * STUCK_NS);
	for (size_t i = 0; i < verbs.shown_count; i++) {
		json_t *row = report_row(&verbs.rows[verbs.shown[i]]);

		text = json_dumps(row, JSON_COMPACT);
		if (!text)
			abort();
		free(text);
		json_decref(row);
	}
	ibverbs_write_metrics(&verbs, nowhere);
	fclose(nowhere);
	verbs.processes.folder = NULL;
	processes_free(&verbs.processes);
	free(verbs.rows);
	free(verbs.shown);
	unlink(path);
	rmdir(folder);
	path[0] = '\0';
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
	return 0;
}
