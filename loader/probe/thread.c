// SPDX-License-Identifier: BSD-2-Clause
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#define PROBE_NICE (-5)

void probe_thread_setup(const char *name)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_TIMERSLACK, 1);
	/* Refused without CAP_SYS_NICE or LimitNICE=: probes then leave a little later. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), PROBE_NICE);
}
