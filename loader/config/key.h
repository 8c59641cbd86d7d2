/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of keys: what a key is named, which type, default and range it has, and its help.
 * Parsing, `config show`, the check of a reload, escapement.yaml(5) and the example configuration
 * all read it. A module that has keys of its own defines a struct config_section.
 */
#ifndef ESC_LOADER_CONFIG_KEY_H
#define ESC_LOADER_CONFIG_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct config_key;
struct config_reading; /* a file that is being read */
struct json_t;

#define CONFIG_US 1000ll
#define CONFIG_MS 1000000ll
#define CONFIG_S 1000000000ll

#define CONFIG_NUMBER_BYTES 32

struct config_type {
	const char *name; /* in the manual, such as "duration"; NULL: the words are listed */
	/* @text is not empty. 0, -ENOMEM, or -EINVAL after config_refuse(). */
	int (*parse)(struct config_reading *reading, const struct config_key *key, const char *text,
		     void *value);
	/* New reference; NULL: not set. What it shows, parse() reads. */
	struct json_t *(*show)(const struct config_key *key, const void *value);
	void (*clear)(const struct config_key *key, void *value); /* NULL: nothing is allocated */
	/* A bound as a file has it, NULL: the type has no range. */
	void (*format)(char out[CONFIG_NUMBER_BYTES], int64_t number);
};

/* A list of mappings, each kept as an entry of @entry_bytes. Its first key names it, uniquely. */
struct config_list {
	const struct config_key *keys; /* ended by {} */
	unsigned int least, most;      /* entries */
	size_t entry_bytes;
	size_t count_offset; /* of its size_t, where the list's own offset is counted from */
};

struct config_key {
	const char *name;
	const struct config_type *type;
	size_t offset, bytes;	  /* of the value in its section's, or list entry's, structure */
	const char *fallback;	  /* default, as a file has it; NULL: zero */
	const char *example;	  /* for the example where there is no default */
	int64_t least, most;	  /* range; of a text: @most bytes, 0: 4096 */
	const char *const *words; /* of a word, NULL at the end */
	const struct config_list *list; /* of a list */
	bool required;
	bool fixed; /* cannot change while the daemon runs */
	/* A given value that its type accepts: refuses it, or loads what it names. */
	void (*check)(struct config_reading *reading, const struct config_key *key, void *values);
	/* For the manual; its first sentence is also the example's comment. `x` is literal. */
	const char *help;
};

struct config_section {
	const char *name;    /* "pace", or "pace.tcp" for a mapping in it; "": the top level */
	const char *summary; /* one sentence or more, as of @help */
	const struct config_key *keys; /* ended by {} */
	size_t bytes; /* of its structure; 0: it is part of struct config, at @offset */
	size_t offset;
	bool for_tests; /* not in the example */
	/* After all keys of the file: values against each other, and defaults that depend on
	 * others. */
	void (*check)(struct config_reading *reading, const struct config *config, void *values);
};

/*
 * text and path: char *; a relative path starts from the folder of the file. word: the index in
 * .words, into an enum or a bool. boolean: bool. number: an integer of any size; duration: one in
 * ns; both are signed when .least is below 0. bit_rate: double, in bit/s, 0 for `auto`. list: a
 * pointer to the entries.
 */
extern const struct config_type config_type_text, config_type_path, config_type_word,
	config_type_boolean, config_type_number, config_type_duration, config_type_bit_rate,
	config_type_list;

/* The type and place of a key: CONFIG_FIELD(number, struct config_mesh, degree). */
#define CONFIG_FIELD(kind, structure, member)                                                      \
	.type = &config_type_##kind, .offset = offsetof(structure, member),                        \
	.bytes = sizeof(((structure *)0)->member)

#define CONFIG_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/*
 * An error in the file, at the line of @key in the mapping that is being read or checked (NULL:
 * of the mapping). The text continues "FILE:LINE: ". Returns -EINVAL.
 */
#define config_refuse(reading, key, ...)                                                           \
	config_refuse_at(reading, config_line_of(reading, key), __VA_ARGS__)
unsigned int config_line_of(struct config_reading *reading, const char *key);
int config_refuse_at(struct config_reading *reading, unsigned int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* What does not keep the file from being used; at @line, for --check-config. */
void config_warn(struct config_reading *reading, unsigned int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Nothing of the file is used, and -ENOMEM is what is returned of it. */
int config_no_memory(struct config_reading *reading);

/* Exact, as a file has it: "1500us", "2ms", "90s", "1h". */
void config_format_duration(char out[CONFIG_NUMBER_BYTES], int64_t ns);

#endif
