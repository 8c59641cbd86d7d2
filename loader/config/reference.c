// SPDX-License-Identifier: BSD-2-Clause
/* The reference part of escapement.yaml(5), and the example configuration, from the tables. */
#include <string.h>

#include "base/mdoc.h"
#include "internal.h"

#define COMMENT_COLUMN 34
#define SUMMARY_COLUMNS 92

/* "1us to 1s"; false: the type has no range. */
static bool range_text(const struct config_key *key, char out[2 * CONFIG_NUMBER_BYTES + 4])
{
	char least[CONFIG_NUMBER_BYTES], most[CONFIG_NUMBER_BYTES];

	if (!key->type->format)
		return false;
	key->type->format(least, key->least);
	key->type->format(most, key->most);
	sprintf(out, "%s to %s", least, most);
	return true;
}

/* --- mdoc --- */

static void write_words(FILE *out, const struct config_key *key, const char *macro)
{
	for (size_t i = 0; key->words[i]; i++)
		fprintf(out, "%s%s", i ? " | " : macro, key->words[i]);
}

static void write_mdoc_keys(FILE *out, const struct config_key *keys)
{
	char range[2 * CONFIG_NUMBER_BYTES + 4];

	fputs(".Bl -tag -width Ds\n", out);
	for (const struct config_key *key = keys; key->name; key++) {
		fprintf(out, ".It Cm %s :", key->name);
		if (key->words)
			write_words(out, key, " Cm ");
		else
			fprintf(out, " Ar %s", key->type->name);
		fputc('\n', out);
		mdoc_write(out, key->help);
		if (key->required)
			fputs("Required.\n", out);
		if (key->fallback)
			fprintf(out, "Default: %s.\n", key->fallback);
		if (range_text(key, range))
			fprintf(out, "Range: %s.\n", range);
		if (key->fixed)
			fputs("Cannot change while the daemon runs.\n", out);
		if (key->list)
			write_mdoc_keys(out, key->list->keys);
	}
	fputs(".El\n", out);
}

void config_write_man(FILE *out, const struct config_section *const *sections)
{
	const struct config_section *section;

	for (int for_tests = 0; for_tests < 2; for_tests++)
		for (size_t i = 0; (section = config_section_at(sections, i)); i++) {
			if (section->for_tests != for_tests)
				continue;
			fprintf(out, ".Ss %s\n", *section->name ? section->name : "Top level");
			mdoc_write(out, section->summary);
			write_mdoc_keys(out, section->keys);
		}
}

/* --- the example --- */

/*
 * @lead is what the line begins with, up to the key. The comment is the first sentence of the help,
 * without its full stop and its backquotes.
 */
static void write_example_key(FILE *out, const char *lead, const struct config_key *key)
{
	const char *value = key->fallback ? key->fallback : key->example;
	bool per_word = key->words && key->help[0] == '`'; /* the help explains each word */
	const char *end = strstr(key->help, ". ");
	int used = fprintf(out, "%s%s: %s", lead, key->name, value);
	char range[2 * CONFIG_NUMBER_BYTES + 4];

	fprintf(out, "%*s # ", used < COMMENT_COLUMN ? COMMENT_COLUMN - used : 0, "");
	if (key->words)
		write_words(out, key, "");
	if (key->words && !per_word)
		fputs(": ", out);
	for (const char *at = key->help; !per_word && *at && at != end; at++)
		if (*at != '`' && (*at != '.' || at[1]))
			fputc(*at, out);
	if (range_text(key, range))
		fprintf(out, "; %s", range);
	fputc('\n', out);
}

/* A required list is not commented out, nor are its required keys. */
static void write_example_list(FILE *out, const char *lead, const struct config_key *key)
{
	const struct config_key *entry = key->list->keys;
	char begin[32], more[32];

	if (key->required) {
		fprintf(out, "%s:\n", key->name);
		strcpy(begin, "  - ");
		strcpy(more, "    # ");
	} else {
		fprintf(out, "%s%s:\n", lead, key->name);
		snprintf(begin, sizeof(begin), "%s- ", lead);
		snprintf(more, sizeof(more), "%s  ", lead);
	}
	for (; entry->name; entry++)
		write_example_key(out, entry == key->list->keys ? begin : more, entry);
}

static void write_summary(FILE *out, const char *lead, const char *text)
{
	size_t used = 0;

	while (*text) {
		size_t bytes = strcspn(text, " ");

		if (!used || used + bytes > SUMMARY_COLUMNS) {
			fprintf(out, "%s%s", used ? "\n" : "", lead);
			used = strlen(lead);
		} else {
			fputc(' ', out);
		}
		for (size_t i = 0; i < bytes; i++)
			if (text[i] != '`')
				fputc(text[i], out);
		used += bytes + 1;
		text += bytes;
		text += strspn(text, " ");
	}
	fputs(used ? "\n" : "", out);
}

static void write_example_section(FILE *out, const struct config_section *section)
{
	const char *dot = strrchr(section->name, '.');
	char lead[16] = "# ";

	if (!dot)
		fputc('\n', out);
	for (const char *at = section->name; (at = strchr(at, '.')); at++)
		strcat(lead, "  ");
	write_summary(out, dot ? strcat(lead, "# ") : lead, section->summary);
	if (dot)
		lead[strlen(lead) - 2] = '\0';
	if (*section->name) {
		fprintf(out, "%s%s:\n", lead, dot ? dot + 1 : section->name);
		strcat(lead, "  ");
	}
	for (const struct config_key *key = section->keys; key->name; key++)
		if (key->list)
			write_example_list(out, lead, key);
		else
			write_example_key(out, lead, key);
}

void config_write_example(FILE *out, const struct config_section *const *sections)
{
	const struct config_section *section;

	fputs("# SPDX-License-Identifier: BSD-2-Clause\n"
	      "# Escapement: copy to " CONFIG_PATH_DEFAULT " and name your interfaces.\n"
	      "# A key that is commented out has its default, or an example where there is none.\n"
	      "# escapement.yaml(5) explains every key; `escapementd --check-config` checks the\n"
	      "# file, `systemctl reload escapementd` applies it as a whole or not at all.\n",
	      out);
	for (size_t i = 0; (section = config_section_at(sections, i)); i++)
		if (!section->for_tests)
			write_example_section(out, section);
}
