// SPDX-License-Identifier: BSD-2-Clause
#include "mdoc.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define LINE_BYTES 74

/* The end of page(1), NULL: @at is not a reference to a manual page. */
static const char *reference_end(const char *at)
{
	const char *end = at;

	while (isalnum((unsigned char)*end) || *end == '.' || *end == '_')
		end++;
	return end > at && end[0] == '(' && isdigit((unsigned char)end[1]) && end[2] == ')'
		       ? end + 3
		       : NULL;
}

/* What stands right behind a macro's argument, up to the next space. */
static const char *write_behind(FILE *out, const char *at)
{
	for (; *at && strchr(".,;:)", *at); at++)
		fprintf(out, " %c", *at);
	if (*at && *at != ' ') {
		fputs(" Ns ", out);
		for (; *at && *at != ' '; at++)
			fputc(*at, out);
	}
	fputc('\n', out);
	return at;
}

/* A word with `x` or page(1) in it, as a line with a macro. */
static const char *write_macro(FILE *out, const char *at)
{
	bool open = *at == '(';
	const char *end;

	at += open;
	end = reference_end(at);
	if (end) {
		fprintf(out, ".Xr %s%.*s %c", open ? "( " : "", (int)(end - at) - 3, at, end[-2]);
		return write_behind(out, end);
	}
	end = strchr(at + 1, '`');
	fprintf(out, ".Ql %s\"%.*s\"", open ? "( " : "", (int)(end - at) - 1, at + 1);
	return write_behind(out, end + 1);
}

/* Options keep their hyphens. */
static void write_word(FILE *out, const char *word, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (word[i] == '-' &&
		    ((i && word[i - 1] == '-') || (i + 1 < bytes && word[i + 1] == '-')))
			fputs("\\-", out);
		else
			fputc(word[i], out);
}

void mdoc_write(FILE *out, const char *text)
{
	size_t line = 0; /* its bytes; 0: none has begun */

	while (*text) {
		const char *word = text + (*text == '(');
		size_t bytes = strcspn(text, " ");

		if ((*word == '`' && strchr(word + 1, '`')) || reference_end(word)) {
			fputs(line ? "\n" : "", out);
			text = write_macro(out, text);
			line = 0;
		} else {
			bool sentence = bytes > 1 && text[bytes - 1] == '.' && text[bytes];

			if (line)
				fputc(line + 1 + bytes > LINE_BYTES ? '\n' : ' ', out);
			line = line && line + 1 + bytes <= LINE_BYTES ? line + 1 + bytes : bytes;
			write_word(out, text, bytes);
			if (sentence)
				fputc('\n', out);
			line = sentence ? 0 : line;
			text += bytes;
		}
		text += strspn(text, " ");
	}
	fputs(line ? "\n" : "", out);
}
