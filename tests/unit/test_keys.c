// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clocksync/graph.h"
#include "config/config.h"
#include "fleet/fleet.h"

#define ONE "interfaces: [{name: eth1}]\n"

static void write_file(const char *path, const void *bytes, size_t size, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && !fchmod(fd, mode));
	close(fd);
}

static char folder[64];

static void make_folder(void)
{
	strcpy(folder, "/tmp/esc-config-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
	static const char *const names[] = {"e.yaml", "key", "m.json"};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
}

static int load(const char *text, struct config **config, char **error)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/e.yaml", folder);
	write_file(path, text, strlen(text), 0600);
	*config = NULL;
	return config_load(&(struct config_input){.path = path}, config, error);
}

Test(keys, keys_of_pairs, .init = make_folder, .fini = remove_folder)
{
	static const char members[] =
		"[{\"targets\": [\"10.0.0.2\"], \"labels\": {\"host\": \"h1\"}},"
		" {\"targets\": [\"10.0.0.3\"], \"labels\": {\"host\": \"h2\"}},"
		" {\"targets\": [\"10.0.0.4\"], \"labels\": {\"host\": \"h3\"}}]";
	uint64_t h1 = graph_member_id("h1"), h2 = graph_member_id("h2"), h3 = graph_member_id("h3");
	char path[128], list[128], *error = NULL, *text = NULL;
	struct fleet_keys fleet = {}, pairs = {};
	__u64 expected[2], key[2];
	struct config *config;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (geteuid())
		cr_skip("a key belongs to root");
	snprintf(path, sizeof(path), "%s/key", folder);
	snprintf(list, sizeof(list), "%s/m.json", folder);
	write_file(path, "123456789abcdef0", 16, 0600);
	write_file(list, members, strlen(members), 0644);
	cr_assert_eq(fleet_keys_add(&fleet, path, &error), 0, "%s", error);
	cr_expect_eq(fleet_pairs_write("h4", path, list, out, &error), -ENOENT);
	free(error);
	cr_assert_eq(fleet_pairs_write("h1", path, list, out, &error), 0, "%s", error);
	fclose(out);
	write_file(path, text, bytes, 0600);
	cr_assert_eq(fleet_keys_add(&pairs, path, &error), 0, "%s", error);
	cr_expect(fleet_keys_shared(&fleet, 1) && !fleet_keys_shared(&pairs, 1) && pairs.use == 1);
	cr_assert(fleet_pair_key(&fleet, 1, h2, h1, expected), "of either order");
	cr_assert(fleet_pair_key(&pairs, 1, h1, h2, key));
	cr_expect_arr_eq(key, expected, sizeof(key),
			 "the same as the other host makes of the fleet's");
	cr_assert(fleet_pair_key(&pairs, 1, h1, h3, key));
	cr_expect_arr_neq(key, expected, sizeof(key));
	cr_expect(!fleet_pair_key(&pairs, 1, h1, h1 + 1, key), "no member");
	cr_expect(!fleet_pair_key(&pairs, 0, h1, h2, key), "the other slot");
	cr_assert_eq(load("host: h1\n" ONE "key_file: key\n", &config, &error), 0, "%s", error);
	config_free(config);
	cr_expect_eq(load("host: h2\n" ONE "key_file: key\n", &config, &error), -EINVAL);
	cr_expect(strstr(error, "e.yaml:3") && strstr(error, "host h1"), "%s", error);
	free(error);
	text[bytes - 3] = 'x';
	write_file(path, text, bytes, 0600);
	cr_expect_eq(load("host: h1\n" ONE "key_file: key\n", &config, &error), -EINVAL);
	cr_expect(strstr(error, "key:3:") && strstr(error, "--pair-keys"), "%s", error);
	free(error);
	free(text);
	fleet_keys_clear(&fleet);
	fleet_keys_clear(&pairs);
}

/* By another implementation of SipHash. */
Test(keys, the_key_of_a_pair)
{
	struct fleet_keys keys = {.have = {true, false}};
	__u64 key[2];

	for (unsigned int i = 0; i < FLEET_KEY_BYTES; i++)
		keys.key[0][i] = i;
	cr_assert(fleet_pair_key(&keys, 0, 7, 3, key));
	cr_expect_eq(key[0], 0x7c83df7977c46f04ull);
	cr_expect_eq(key[1], 0x7fa5c5479a428966ull);
}
