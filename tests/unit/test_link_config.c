// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "link/internal.h"

static const struct config_section *const sections[] = {&link_section, NULL};

static struct config *parse(const char *text, char **error)
{
	struct config *config = NULL;

	*error = NULL;
	config_parse(&(struct config_input){.path = "/etc/x/e.yaml", .sections = sections}, text,
		     strlen(text), &config, error);
	return config;
}

static void expect_thresholds(const struct config *config, const struct link_threshold *list,
			      size_t count, const char *text)
{
	const struct link_thresholds *found = &link_keys(config)->thresholds;
	json_t *json = config_to_json(config);

	cr_expect_eq(found->count, count);
	for (size_t i = 0; i < count; i++) {
		cr_expect_eq(found->list[i].more_than, list[i].more_than);
		cr_expect_eq(found->list[i].within_ns, list[i].within_ns);
	}
	cr_expect_str_eq(
		json_string_value(json_object_get(json_object_get(json, "links"), "thresholds")),
		text);
	json_decref(json);
}

Test(link_config, more_than_eight_an_hour_by_default)
{
	char *error;
	struct config *config = parse("interfaces: [{name: eth1}]\n", &error);

	cr_assert_not_null(config, "%s", error);
	expect_thresholds(config, (struct link_threshold[]){{8, LINK_HOUR_NS}}, 1, "8/1h");
	cr_expect_eq(link_keys(config)->stable_after_ns, LINK_HOUR_NS);
	cr_expect_eq(link_keys(config)->down_after_ns, 10000000000);
	cr_expect_eq(link_keys(config)->settle_ns, 30000000000);
	config_free(config);
}

Test(link_config, several_and_any)
{
	char *error;
	struct config *config = parse("interfaces: [{name: eth1}]\n"
				      "links: {thresholds: '8/1h,3/12h , any', settle: 0s}\n",
				      &error);

	cr_assert_not_null(config, "%s", error);
	expect_thresholds(config,
			  (struct link_threshold[]){
				  {8, LINK_HOUR_NS}, {3, 12 * LINK_HOUR_NS}, {0, LINK_HOUR_NS}},
			  3, "8/1h, 3/12h, 0/1h");
	cr_expect_eq(link_keys(config)->settle_ns, 0);
	config_free(config);
}

Test(link_config, errors_name_the_line_and_a_remedy)
{
	static const char *const bad[] = {"8",
					  "8/",
					  "8/1",
					  "/1h",
					  "-1/1h",
					  "251/1h",
					  "8/0s",
					  "8/8000h",
					  "8/1h,",
					  "8/1h 3/12h",
					  "some",
					  "8/1h,8/1h,8/1h,8/1h,8/1h",
					  "00000000000000000000000000000000000000008/1h"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[200], *error;
		struct config *config;

		snprintf(text, sizeof(text),
			 "interfaces: [{name: eth1}]\nlinks:\n  thresholds: '%s'\n", bad[i]);
		config = parse(text, &error);
		cr_expect_null(config, "%s", bad[i]);
		cr_assert_not_null(error, "%s", bad[i]);
		cr_expect(strstr(error, "/etc/x/e.yaml:3: `thresholds: "), "%s", error);
		cr_expect(strstr(error, "8/1h, 3/12h"), "%s", error);
		free(error);
		config_free(config);
	}
}
