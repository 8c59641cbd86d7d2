// SPDX-License-Identifier: BSD-2-Clause
/*
 * The hook: a program that gets each alert that begins or ends. One at a time, in a process group
 * of its own that is killed when it takes too long, and so many in a minute; what waits is in the
 * table of alerts, so that it is bounded.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alert.h"
#include "base/json.h"
#include "base/log.h"
#include "base/now.h"
#include "base/units.h"

#define INPUT_BYTES_MAX 65536 /* what a pipe takes at once (pipe(7)) */
#define POLL_NS (ALERT_S / 10)

/* From the first that failed to the next that did not. */
static void report(struct hook *hook, struct alerts *alerts, bool good)
{
	if (hook->failed == !good)
		return;
	hook->failed = !good;
	alerts_own(alerts, "alert_hook_failed", "",
		   good ? NULL : "See `journalctl -u escapement-alert`, and run the hook by hand.",
		   time_realtime_ns());
}

void hook_configure(struct hook *hook, struct alerts *alerts, const json_t *config)
{
	const char *path = json_text(config, "hook");

	if (!hook->path || strcmp(path, hook->path))
		report(hook, alerts, true);
	free(hook->path);
	hook->path = *path ? strdup(path) : NULL;
	if (units_parse_duration(json_text(config, "hook_timeout"), &hook->timeout_ns, NULL))
		hook->timeout_ns = 10 * ALERT_S;
	hook->per_minute = (unsigned int)json_count(config, "hook_per_minute");
	hook->per_minute = hook->per_minute ? hook->per_minute : 1;
}

/* A whole minute's number at once, then one after the other. */
static bool take_token(struct hook *hook, uint64_t now_ns)
{
	uint64_t token_ns = 60 * ALERT_S / hook->per_minute, passed_ns = now_ns - hook->at_local_ns;

	hook->at_local_ns = now_ns;
	hook->spent_ns -= passed_ns < hook->spent_ns ? passed_ns : hook->spent_ns;
	if (hook->spent_ns + token_ns > 60 * ALERT_S)
		return false;
	hook->spent_ns += token_ns;
	return true;
}

/* In the child. */
static void become(const char *path, int input)
{
	static char *const environment[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
	char *const words[] = {(char *)path, NULL};
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(input, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 &&
	    !close_range(3, ~0u, 0))
		execve(path, words, environment);
	_exit(127);
}

static int start(struct hook *hook, const char *text, uint64_t now_ns)
{
	int input[2];

	if (pipe2(input, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	/* It fits: nothing is written while the program runs. */
	if (write(input[1], text, strlen(text)) != (ssize_t)strlen(text)) {
		close(input[0]);
		close(input[1]);
		return -EMSGSIZE;
	}
	close(input[1]);
	fcntl(input[0], F_SETFL, 0);
	hook->pid = fork();
	if (!hook->pid)
		become(hook->path, input[0]);
	close(input[0]);
	if (hook->pid < 0) {
		hook->pid = 0;
		return -errno;
	}
	setpgid(hook->pid, hook->pid);
	hook->fd = (int)syscall(SYS_pidfd_open, hook->pid, 0);
	hook->started_local_ns = now_ns;
	hook->killed = false;
	return 0;
}

static void check_running(struct hook *hook, struct alerts *alerts, uint64_t now_ns)
{
	int status;

	if (waitpid(hook->pid, &status, WNOHANG) == hook->pid) {
		bool good = WIFEXITED(status) && !WEXITSTATUS(status);

		if (!good)
			log_warning("hook %s: %s %d%s", hook->path ? hook->path : "",
				    WIFEXITED(status) ? "exit" : "signal",
				    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
				    hook->killed ? ", it took longer than `hook_timeout`" : "");
		kill(-hook->pid, SIGKILL); /* what it left behind */
		if (hook->fd >= 0)
			close(hook->fd);
		hook->pid = 0;
		report(hook, alerts, good);
	} else if (!hook->killed && now_ns - hook->started_local_ns >= hook->timeout_ns) {
		kill(-hook->pid, SIGKILL);
		hook->killed = true;
	}
}

static bool is_waiting(const struct alert *alert)
{
	return alert->hold_ns	 ? false
	       : alert->ended_ns ? alert->begin_hooked && !alert->end_hooked
				 : !alert->begin_hooked;
}

/* The oldest that waits, and that no other one explains; NULL: none. */
static struct alert *next_alert(struct alerts *alerts)
{
	json_t *explained = alerts_explained(alerts);
	struct alert *found = NULL;

	for (size_t i = 0; i < alerts->count; i++) {
		struct alert *alert = &alerts->list[i];

		if (is_waiting(alert) && (!found || alert->started_ns < found->started_ns) &&
		    !alert_explained_by(alerts, explained, alert))
			found = alert;
	}
	json_decref(explained);
	return found;
}

static char *input_text(const struct alert *alert)
{
	json_t *object = alert_json(alert, time_realtime_ns() + PUSH_LAPSE_NS);
	char *text;

	json_put_text(object, "status", alert->ended_ns ? "resolved" : "firing");
	json_put(object, "event", json_incref(alert->event));
	text = json_dumps(object, JSON_COMPACT);
	if (text && strlen(text) >= INPUT_BYTES_MAX) {
		free(text);
		json_object_del(object, "event");
		json_object_del(object, "annotations");
		text = json_dumps(object, JSON_COMPACT);
	}
	json_decref(object);
	return text;
}

uint64_t hook_run(struct hook *hook, struct alerts *alerts, uint64_t now_local_ns)
{
	struct alert *alert;
	char *text;
	int err;

	if (hook->pid)
		check_running(hook, alerts, now_local_ns);
	if (hook->pid)
		return now_local_ns + POLL_NS;
	alert = hook->path ? next_alert(alerts) : NULL;
	if (!alert)
		return UINT64_MAX;
	if (!take_token(hook, now_local_ns))
		return now_local_ns + POLL_NS;
	text = input_text(alert);
	err = text ? start(hook, text, now_local_ns) : -ENOMEM;
	free(text);
	if (err) {
		log_warning("hook %s: %s", hook->path, strerror(-err));
		report(hook, alerts, false);
		return now_local_ns + ALERT_S;
	}
	/* At most once: a hook that fails is not run again for it. */
	if (alert->ended_ns)
		alert->end_hooked = true;
	else
		alert->begin_hooked = true;
	return now_local_ns + POLL_NS;
}

void hook_free(struct hook *hook)
{
	if (hook->pid) {
		kill(-hook->pid, SIGKILL);
		waitpid(hook->pid, NULL, 0);
		if (hook->fd >= 0)
			close(hook->fd);
	}
	free(hook->path);
	*hook = (struct hook){};
}
