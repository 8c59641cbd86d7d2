// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "base/units.h"

static bool parse_calendar(const char *text, time_t now, uint64_t *since_ns)
{
	static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
					      "%Y-%m-%dT%H:%M",	   "%Y-%m-%d %H:%M",
					      "%H:%M:%S",	   "%H:%M",
					      "%Y-%m-%d"};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm tm;
		const char *end;
		time_t seconds;

		localtime_r(&now, &tm); /* the day, for a time without one */
		tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
		end = strptime(text, formats[i], &tm);
		if (!end || (*end && strcmp(end, "Z")))
			continue;
		tm.tm_isdst = -1;
		seconds = *end ? timegm(&tm) : mktime(&tm);
		if (seconds < 0 || seconds > INT64_MAX / 1000000000)
			return false;
		*since_ns = seconds * 1000000000ull;
		return true;
	}
	return false;
}

bool cli_parse_since(const char *text, uint64_t now_realtime_ns, uint64_t *since_ns)
{
	uint64_t ago_ns;
	char *end;

	if (!units_parse_duration(text, &ago_ns, NULL)) {
		*since_ns = ago_ns < now_realtime_ns ? now_realtime_ns - ago_ns : 0;
		return true;
	}
	if (text[0] != '@')
		return parse_calendar(text, now_realtime_ns / 1000000000, since_ns);
	/* Seconds since 1970. */
	errno = 0;
	*since_ns = strtoull(text + 1, &end, 10);
	if (end == text + 1 || *end || errno || text[1] == '-' ||
	    *since_ns > INT64_MAX / 1000000000)
		return false;
	*since_ns *= 1000000000;
	return true;
}
