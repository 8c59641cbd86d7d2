// SPDX-License-Identifier: BSD-2-Clause
/* What a part of a sysdump may have, and how long one may take. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "sysdump/sysdump.h"

/* --- secrets --- */

static struct secrets secrets;

static void write_file(char path[64], const void *bytes, size_t size)
{
	FILE *file;

	strcpy(path, "/tmp/esc-sysdump-XXXXXX");
	close(mkstemp(path));
	file = fopen(path, "w");
	cr_assert_eq(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

static void add_bytes(const void *bytes, size_t size)
{
	char path[64];

	write_file(path, bytes, size);
	secrets_add_file(&secrets, path);
	unlink(path);
}

static bool found(const char *text)
{
	return secrets_are_in(&secrets, text, strlen(text));
}

TestSuite(sysdump_secrets);

Test(sysdump_secrets, a_key_is_found_in_each_form)
{
	static const unsigned char key[16] = {0x00, 0xde, 0xad, 0xbe, 0xef, 0x01, 0x23, 0x45,
					      0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba};
	char raw[40] = "before";

	add_bytes(key, sizeof(key));
	memcpy(raw + 10, key, sizeof(key));
	cr_expect(secrets_are_in(&secrets, raw, sizeof(raw)));
	cr_expect(!secrets_are_in(&secrets, raw, 25), "the last byte is missing");
	cr_expect(found("x00deadbeef0123456789abcdeffedcbay"));
	cr_expect(found("00DEADBEEF0123456789ABCDEFFEDCBA"));
	cr_expect(found("key=AN6tvu8BI0VniavN7/7cug=="), "base64");
	cr_expect(!found("00deadbeef0123456789abcdeffedcb"));
	cr_expect(!found(""));
}

Test(sysdump_secrets, keys_of_pairs_and_passwords_too)
{
	static const char pairs[] = "escapement-pair-keys 1 slot 0 host h1\n"
				    "h2 00112233445566778899aabbccddeeff\n";
	static const char password[] = "correct horse\nnot this line\n";
	static const char raw[] = "\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff";

	add_bytes(pairs, sizeof(pairs) - 1);
	cr_expect(found("00112233445566778899AABBCCDDEEFF"));
	cr_expect(secrets_are_in(&secrets, "\0\x11", 2) == false);
	cr_expect(secrets_are_in(&secrets,
				 "\0"
				 "\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff",
				 16));
	cr_expect(!secrets_are_in(&secrets, raw, sizeof(raw) - 1));
	add_bytes(password, sizeof(password) - 1);
	cr_expect(found("user:correct horse@"));
	cr_expect(!found("not this line"));
	secrets_clear(&secrets);
	cr_expect(!found("correct horse"));
}

Test(sysdump_secrets, the_configuration_names_their_files)
{
	char key[64], password[64];
	json_t *config;

	write_file(key, "0123456789abcdef", 16);
	write_file(password, "correct horse\n", 14);
	config = json_pack("{s:s, s:{s:[{s:s, s:s}]}}", "key_file", key, "alerts", "alertmanagers",
			   "url", "http://a", "password_file", password);
	secrets_add_config(&secrets, config);
	cr_expect(found("0123456789abcdef"));
	cr_expect(found("correct horse"));
	cr_expect(!found("http://a"));
	json_decref(config);
	unlink(key);
	unlink(password);
}

/* --- parts --- */

static struct part part;

TestSuite(sysdump_parts);

Test(sysdump_parts, a_command_has_its_output)
{
	collect_command(&part, (const char *[]){"printf", "a\nb", NULL}, false, SYSDUMP_PART_NS);
	cr_expect_eq(part.size, 3);
	cr_expect_eq(memcmp(part.bytes, "a\nb", 3), 0);
	cr_expect_str_eq(part.problem, "");
	part_clear(&part);
}

Test(sysdump_parts, one_that_fails_says_why)
{
	collect_command(
		&part,
		(const char *[]){"sh", "-c", "echo out; echo 'no\x1b[1m such' >&2; exit 3", NULL},
		false, SYSDUMP_PART_NS);
	cr_expect_str_eq(part.problem, "exit 3: no [1m such");
	cr_expect_eq(part.size, 4, "and what it printed is there");
	part_clear(&part);
	collect_command(&part, (const char *[]){"escapement-no-such", NULL}, false,
			SYSDUMP_PART_NS);
	cr_expect(strstr(part.problem, "No such file"), "%s", part.problem);
	part_clear(&part);
	collect_file(&part, "/no/such", false);
	cr_expect(strstr(part.problem, "/no/such: No such file"), "%s", part.problem);
	part_clear(&part);
}

Test(sysdump_parts, one_that_hangs_is_ended_with_its_children)
{
	uint64_t begun_ns = time_local_ns();

	collect_command(&part, (const char *[]){"sh", "-c", "echo a; sleep 600 & sleep 600", NULL},
			false, SYSDUMP_S / 2);
	cr_expect(strstr(part.problem, "in time"), "%s", part.problem);
	cr_expect_eq(part.size, 2);
	cr_expect_lt(time_local_ns() - begun_ns, 300 * SYSDUMP_S);
	part_clear(&part);
}

Test(sysdump_parts, a_long_one_is_cut)
{
	const char *const endless[] = {"sh", "-c",
				       "yes 0123456789abcde | head -c 40000000; echo end", NULL};

	collect_command(&part, endless, false, SYSDUMP_PART_NS);
	cr_expect_eq(part.size, SYSDUMP_PART_BYTES);
	cr_expect(part.cut);
	cr_expect_str_eq(part.problem, "");
	cr_expect_eq(memcmp(part.bytes, "0123", 4), 0);
	part_clear(&part);
	collect_command(&part, endless, true, SYSDUMP_PART_NS);
	cr_expect_eq(part.size, SYSDUMP_PART_BYTES);
	cr_expect(part.cut);
	cr_expect_eq(memcmp(part.bytes + part.size - 4, "end\n", 4), 0, "its end is there");
	part_clear(&part);
}
