/* SPDX-License-Identifier: BSD-2-Clause */
/* `escapement sysdump`: one file with what a bug report needs, without secrets. */
#ifndef ESC_SYSDUMP_H
#define ESC_SYSDUMP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SYSDUMP_S 1000000000ull
#define SYSDUMP_PART_BYTES (8u << 20)
#define SYSDUMP_ALL_BYTES (128ull << 20)
#define SYSDUMP_PART_NS (20 * SYSDUMP_S)
#define SYSDUMP_ALL_NS (180 * SYSDUMP_S)

/* --- collect.c: what a command prints, or a file has --- */

struct part {
	char *bytes; /* malloc'd */
	size_t size;
	bool cut;	   /* there was more: the first SYSDUMP_PART_BYTES, or the last (@tail) */
	char problem[256]; /* "": none; else why it is missing, or may be incomplete */
};

/*
 * Runs @argv, ended by NULL, without a shell, for @timeout_ns at most; its standard error is in
 * problem when it fails. @tail: the end is kept, not the beginning.
 */
void collect_command(struct part *out, const char *const argv[], bool tail, uint64_t timeout_ns);
/* The same of a file, which may be one of /proc. */
void collect_file(struct part *out, const char *path, bool tail);
void part_clear(struct part *part);

/* --- secrets.c: bytes that may not be in any part --- */

#define SECRETS_MAX 2048

struct secrets {
	struct secret {
		size_t size;
		unsigned char bytes[64];
	} list[SECRETS_MAX];
	size_t count;
};

/* The keys, or the password, of a file; one that cannot be read adds nothing. */
void secrets_add_file(struct secrets *secrets, const char *path);
/* Those that the configuration @config, as `config show` has it, names at any depth. */
void secrets_add_config(struct secrets *secrets, const json_t *config);
/* As they are, in hexadecimal of either case, or in base64. */
bool secrets_are_in(const struct secrets *secrets, const void *bytes, size_t size);
void secrets_clear(struct secrets *secrets);

/* --- archive.c: tar, compressed by gzip; libarchive --- */

struct archive_file;
/* @path "-": the standard output; else a new file, mode 0600. 0 or -errno with *@error. */
int archive_open(struct archive_file **out, const char *path, const char *folder, char **error);
/* 0 or -errno with *@error. */
int archive_add(struct archive_file *file, const char *name, const void *bytes, size_t size,
		char **error);
/* Ends it; @keep false: the file is removed. 0 or -errno with *@error. */
int archive_close(struct archive_file *file, bool keep, char **error);

/* --- parts.c: which parts there are --- */

struct sysdump {
	struct archive_file *file;
	struct secrets secrets;
	const char *escapement, *socket; /* the command line, and the daemon's socket */
	json_t *index;			 /* an array: name, command or file, bytes, problem */
	size_t missing;
	uint64_t bytes, end_local_ns;
	char *error; /* of the archive: nothing further is written */
};

/* Writes all parts and the index. 0 or -errno; then ->error says why. */
int sysdump_write(struct sysdump *dump);

#endif
