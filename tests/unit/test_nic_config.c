// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "nic/nic.h"

static const struct config_section *const sections[] = {&nic_section, NULL};

static struct config *parse(const char *text, char **error)
{
	struct config *config = NULL;

	*error = NULL;
	config_parse(&(struct config_input){.path = "/etc/x/e.yaml", .sections = sections}, text,
		     strlen(text), &config, error);
	return config;
}

Test(nic_config, off_by_default)
{
	char *error;
	struct config *config = parse("interfaces: [{name: eth1}]\n", &error);

	cr_assert_not_null(config, "%s", error);
	cr_expect_null(config->interfaces[0].sibling);
	cr_expect_null(config->interfaces[0].dummy);
	cr_expect_eq(nic_keys(config)->port, 4792);
	cr_expect_eq(nic_keys(config)->mode, NIC_WRAP);
	cr_expect_eq(nic_keys(config)->repair, NIC_REPAIR_REPLAY);
	cr_expect_eq(nic_keys(config)->probe_interval_ns, 20000000);
	cr_expect_eq(nic_keys(config)->dead_after_ns, 100000000);
	cr_expect_eq(nic_keys(config)->return_after_ns, 5000000000);
	config_free(config);
}

Test(nic_config, modes_of_repair)
{
	char *error;
	struct config *config = parse("interfaces: [{name: eth1, sibling: eth2}]\ninsecure: true\n"
				      "nic: {repair: provoke}\n",
				      &error);

	cr_assert_not_null(config, "%s", error);
	cr_expect_eq(nic_keys(config)->repair, NIC_REPAIR_PROVOKE);
	config_free(config);
}

Test(nic_config, everything_given)
{
	char *error;
	json_t *json, *interface;
	struct config *config = parse(
		"interfaces:\n  - {name: eth1, sibling: eth2, dummy: roce0}\n  - {name: eth2}\n"
		"insecure: true\n"
		"nic: {mode: plain, port: 5000, probe_interval: 10ms, dead_after: 30ms, "
		"return_after: 2s}\n",
		&error);

	cr_assert_not_null(config, "%s", error);
	cr_expect_str_eq(config->interfaces[0].sibling, "eth2");
	cr_expect_str_eq(config->interfaces[0].dummy, "roce0");
	cr_expect_null(config->interfaces[1].sibling);
	cr_expect_eq(nic_keys(config)->mode, NIC_PLAIN);
	cr_expect_eq(nic_keys(config)->port, 5000);
	cr_expect_eq(nic_keys(config)->probe_interval_ns, 10000000);
	cr_expect_eq(nic_keys(config)->dead_after_ns, 30000000);
	json = config_to_json(config);
	interface = json_array_get(json_object_get(json, "interfaces"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(interface, "sibling")), "eth2");
	cr_expect_str_eq(
		json_string_value(json_object_get(json_object_get(json, "nic"), "return_after")),
		"2s");
	json_decref(json);
	config_free(config);
}

Test(nic_config, each_mistake_has_its_sentence)
{
	static const struct {
		const char *text, *named;
	} cases[] = {
		{"interfaces: [{name: eth1, sibling: eth1}]\n",
		 ":1: `sibling: eth1` is the interface"},
		{"interfaces: [{name: eth1, sibling: \"a b\"}]\n", "cannot be an interface"},
		{"interfaces: [{name: eth1, dummy: roce0}]\n", "beside `sibling` only"},
		{"interfaces: [{name: eth1}]\nnic: {port: 80}\n", ":2: `port: 80` is out of range"},
		{"interfaces: [{name: eth1}]\nnic: {mode: warp}\n", "did you mean `wrap`"},
		{"interfaces: [{name: eth1}]\nnic: {dead_after: 50ms}\n", "three times"},
		{"interfaces: [{name: eth1}]\nnic: {return_after: 1ms}\n", "out of range"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *error;

		cr_expect_null(parse(cases[i].text, &error));
		cr_expect(error && strstr(error, cases[i].named), "%s: %s", cases[i].text, error);
		free(error);
	}
}
