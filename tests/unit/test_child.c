// SPDX-License-Identifier: BSD-2-Clause
/* Programs run without a shell: output, exit status, time, and their end. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/readfile.h"

#define SECOND 1000000000ull

static int shell(struct child *child, const char *script, uint64_t timeout_ns)
{
	const char *const argv[] = {"sh", "-c", script, NULL};

	*child = (struct child){};
	return child_run(child, argv, timeout_ns);
}

Test(child, output_and_status)
{
	struct child child;

	cr_assert_eq(shell(&child, "echo out; echo ' two\n  lines ' >&2; exit 3", 20 * SECOND), 0);
	cr_expect_eq(child.status, 3);
	cr_expect_str_eq(child.text, "out\n");
	cr_expect_str_eq(child.complaint, "two lines");
	cr_expect_eq(child.pid, 0);
	child_clear(&child);
	cr_assert_eq(shell(&child, "kill -9 $$", 20 * SECOND), 0);
	cr_expect_eq(child.status, 128 + SIGKILL);
	cr_expect_null(child.text);
	child_clear(&child);
	/* Standard input is empty. */
	cr_assert_eq(shell(&child, "wc -c", 20 * SECOND), 0);
	cr_expect_eq(strtoul(child.text, NULL, 10), 0);
	child_clear(&child);
}

Test(child, much_output)
{
	struct child child;

	cr_assert_eq(shell(&child,
			   "head -c 3000000 /dev/zero; head -c 100000 /dev/zero | tr '\\0' x >&2",
			   60 * SECOND),
		     0);
	cr_expect_eq(child.bytes, 3000000);
	cr_expect_eq(strlen(child.complaint), CHILD_COMPLAINT_BYTES - 1);
	child_clear(&child);
}

Test(child, none_such)
{
	static const char *const argv[] = {"escapement-no-such-program", NULL};
	struct child child = {};

	cr_assert_eq(child_run(&child, argv, 20 * SECOND), 0);
	cr_expect_eq(child.status, CHILD_NOT_FOUND);
	cr_expect(strstr(child.complaint, "escapement-no-such-program"), "%s", child.complaint);
	child_clear(&child);
}

/* Not ended: who reaps it is not ours. */
static bool runs(pid_t pid)
{
	char text[512], *state;

	if (readtext(text, sizeof(text), "/proc/%d/stat", (int)pid) <= 0)
		return false;
	state = strrchr(text, ')');
	return state && state[1] && state[2] != 'Z' && state[2] != 'X';
}

/* What it began itself ends with it. */
Test(child, one_that_does_not_end, .timeout = 60)
{
	struct child child;
	pid_t below;

	cr_assert_eq(shell(&child, "sleep 1000 & echo $!; wait", 2 * SECOND), -ETIME);
	cr_assert(child.text);
	below = (pid_t)strtol(child.text, NULL, 10);
	cr_assert(below > 0 && runs(below));
	child_clear(&child);
	for (int i = 0; i < 1000 && runs(below); i++)
		usleep(10000);
	cr_expect(!runs(below));
}

/* Two at once, one that ends and one that is ended. */
Test(child, several, .timeout = 60)
{
	static const char *const quick[] = {"echo", "quick", NULL};
	static const char *const slow[] = {"sleep", "1000", NULL};
	struct child children[2] = {};
	struct child *list[] = {&children[0], &children[1]};

	cr_assert(!child_begin(&children[0], quick) && !child_begin(&children[1], slow));
	while (children[0].pid > 0)
		child_poll(list, 2, 100);
	cr_expect_str_eq(children[0].text, "quick\n");
	cr_expect(children[1].pid > 0);
	child_clear(&children[0]);
	child_clear(&children[1]);
	child_clear(&children[1]);
}

/* Ended before it has run: there is nothing yet that could have named its group. */
Test(child, ended_at_once, .timeout = 60)
{
	static const char *const slow[] = {"sleep", "1000", NULL};

	for (int i = 0; i < 200; i++) {
		struct child child;

		cr_assert_eq(child_begin(&child, slow), 0);
		child_clear(&child);
	}
}
