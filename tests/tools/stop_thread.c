// SPDX-License-Identifier: BSD-2-Clause
/*
 * stop_thread TID SECONDS: stops one thread of a process for that long, as if it hung; the others
 * run on. With the id of a process that is its main thread. Prints a line when it is stopped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what)
{
	perror(what);
	return 1;
}

int main(int argc, char **argv)
{
	int status;
	pid_t tid;

	if (argc != 3)
		return 2;
	tid = (pid_t)strtol(argv[1], NULL, 10);
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
		return fail("stop_thread: PTRACE_SEIZE");
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL))
		return fail("stop_thread: PTRACE_INTERRUPT");
	if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
		return fail("stop_thread: waitpid");
	puts("stopped");
	fflush(stdout);
	usleep((useconds_t)(strtod(argv[2], NULL) * 1e6));
	/* What ends this process detaches, too. */
	return ptrace(PTRACE_DETACH, tid, NULL, NULL) ? fail("stop_thread: PTRACE_DETACH") : 0;
}
