// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/units.h"

Test(units, durations_are_exact)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{"0", 0},
		{"1ns", 1},
		{"5us", 5000},
		{"2ms", 2000000},
		{"0.1s", 100000000},
		{"1.5us", 1500},
		{"1.500000000s", 1500000000},
		{"1.5000000000s", 1500000000}, /* zeros beyond the nanosecond are none */
		{"60s", 60000000000},
		{"1m", 60000000000},
		{"1min", 60000000000},
		{"0.25h", 900000000000},
		{"18446744073709551615ns", UINT64_MAX},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		uint64_t ns = 77;
		int err = units_parse_duration(good[i].text, &ns, NULL);

		cr_expect_eq(err, 0, "%s is refused", good[i].text);
		cr_expect_eq(ns, good[i].ns, "%s is %lu", good[i].text, ns);
	}
}

Test(units, what_is_no_duration_is_refused)
{
	static const struct {
		const char *text, *hint;
		int err;
	} bad[] = {
		{"", "", -EINVAL},
		{"5", "5s", -EINVAL},
		{"5 sec", "5s", -EINVAL},
		{"5 s", "5s", -EINVAL},
		{"10 Minutes", "10min", -EINVAL},
		{"3 parsec", "", -EINVAL},
		{"-5s", "", -EINVAL},
		{"1.s", "", -EINVAL},
		{".5s", "", -EINVAL},
		{"0x10s", "", -EINVAL},
		{"1e3s", "", -EINVAL},
		{"1.5ns", "", -EINVAL},
		{"0.0000000001s", "", -EINVAL},
		{"5s ", "", -EINVAL},
		{"18446744073709551616ns", "", -ERANGE},
		{"6000000h", "", -ERANGE},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char hint[32];
		uint64_t ns;
		int err = units_parse_duration(bad[i].text, &ns, hint);

		cr_expect_eq(err, bad[i].err, "\"%s\" gives %d", bad[i].text, err);
		cr_expect_str_eq(hint, bad[i].hint, "\"%s\" hints \"%s\"", bad[i].text, hint);
	}
}

/* Random durations written with a unit that divides them return the same. */
Test(units, durations_survive_being_written)
{
	unsigned int seed = time(NULL);
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

	cr_log_info("seed %u", seed);
	for (int i = 0; i < 10000; i++) {
		unsigned int u = rand_r(&seed) % 4;
		uint64_t want = ((uint64_t)rand_r(&seed) << 20) + rand_r(&seed), got;
		char text[64];
		int digits = u * 3;

		if (digits)
			snprintf(text, sizeof(text), "%lu.%0*lu%s", want / units[u].ns, digits,
				 want % units[u].ns, units[u].name);
		else
			snprintf(text, sizeof(text), "%luns", want);
		cr_assert_eq(units_parse_duration(text, &got, NULL), 0, "%s", text);
		cr_assert_eq(got, want, "%s gave %lu, wanted %lu", text, got, want);
	}
}

Test(units, numbers_for_people)
{
	char out[UNITS_TEXT_BYTES];

	cr_expect_str_eq(units_count(out, 0), "0");
	cr_expect_str_eq(units_count(out, 999), "999");
	cr_expect_str_eq(units_count(out, 1000), "1.00k");
	cr_expect_str_eq(units_count(out, 12345), "12.3k");
	cr_expect_str_eq(units_count(out, 999499), "999k");
	cr_expect_str_eq(units_count(out, 999501), "1.00M");
	cr_expect_str_eq(units_count(out, 1.8446744073709552e19), "18.4E");
	cr_expect_str_eq(units_bytes(out, 1023), "1023 B");
	cr_expect_str_eq(units_bytes(out, 1536), "1.50 KiB");
	cr_expect_str_eq(units_bytes(out, 1ull << 30), "1.00 GiB");
	cr_expect_str_eq(units_bit_rate(out, 125000000), "1.00 Gbit/s");
	cr_expect_str_eq(units_bit_rate(out, 0), "0 bit/s");
	cr_expect_str_eq(units_duration(out, 3 * 86400000000000ull + 4 * 3600000000000ull),
			 "3d 4h");
	cr_expect_str_eq(units_duration(out, 3600000000000ull), "1h");
	cr_expect_str_eq(units_duration(out, 65000000000ull), "1min 5s");
	cr_expect_str_eq(units_duration(out, 1500000000), "1.5s");
	cr_expect_str_eq(units_duration(out, 250000000), "250ms");
	cr_expect_str_eq(units_duration(out, 5000), "5us");
	cr_expect_str_eq(units_duration(out, 0), "0ns");
}

Test(units, delays_have_three_digits)
{
	static const struct {
		double ns;
		const char *text;
	} cases[] = {
		{0, "0.000us"},	      {7, "0.007us"},	    {999.4, "0.999us"},
		{999.6, "1.00us"},    {7616, "7.62us"},	    {9994, "9.99us"},
		{9996, "10.0us"},     {99949, "99.9us"},    {99951, "100us"},
		{999400, "999us"},    {999600, "1.00ms"},   {16808000, "16.8ms"},
		{999499999, "999ms"}, {999500001, "1.00s"}, {99.9e9, "99.9s"},
		{999e9, "999s"},      {-300, "-0.300us"},   {-12345678, "-12.3ms"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[UNITS_TEXT_BYTES];

		cr_expect_str_eq(units_delay(text, cases[i].ns), cases[i].text, "%g: %s",
				 cases[i].ns, text);
	}
}

Test(nearest, distance_counts_edits)
{
	cr_expect_eq(nearest_distance("", ""), 0);
	cr_expect_eq(nearest_distance("", "abc"), 3);
	cr_expect_eq(nearest_distance("abc", "abc"), 0);
	cr_expect_eq(nearest_distance("inteval", "interval"), 1);
	cr_expect_eq(nearest_distance("statsu", "status"), 1, "a swap is one edit");
	cr_expect_eq(nearest_distance("kitten", "sitting"), 3);
}

Test(nearest, names)
{
	static const char *const names[] = {"interval", "directory", "top_qps"};

	cr_expect_str_eq(nearest_name("intervall", names, 3), "interval");
	cr_expect_str_eq(nearest_name("dir", names, 3), "directory");
	cr_expect_str_eq(nearest_name("topqps", names, 3), "top_qps");
	cr_expect_null(nearest_name("colour", names, 3));
	cr_expect_null(nearest_name("x", names, 3));
	cr_expect_null(nearest_name("", names, 3));
}
