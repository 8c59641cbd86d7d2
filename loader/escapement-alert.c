// SPDX-License-Identifier: BSD-2-Clause
/* escapement-alert(8): follows the events of the daemon, and sends alerts. */
#include <curl/curl.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "alert/alert.h"
#include "base/json.h"
#include "base/log.h"
#include "base/now.h"
#include "base/readfile.h"
#include "base/writefile.h"

#define STATE_BYTES_MAX (32 << 20)
#define TICK_NS ALERT_S /* also the most that a signal waits */
#define USAGE "usage: escapement-alert [--state DIRECTORY] [--socket PATH] [--escapement PROGRAM]\n"

struct program {
	struct alerts alerts;
	struct push *push;
	struct hook hook;
	struct follow *follow;
	const char *state; /* directory */
	json_t *config;	   /* `alerts` of the daemon's configuration; NULL: not known yet */
	bool configure;	   /* it has to be read again */
	char *saved;	   /* as it was written last */
	bool save_failed, absent;
	uint64_t refused;
};

static volatile sig_atomic_t ends;

static void on_signal(int number)
{
	(void)number;
	ends = 1;
}

/* --- the state: DIRECTORY/state.json --- */

static void save(struct program *program)
{
	json_t *state = alerts_save(&program->alerts);
	char path[4096], *text;
	int err;

	json_put(state, "config", json_incref(program->config));
	text = json_dumps(state, JSON_COMPACT);
	json_decref(state);
	if (!text || (program->saved && !strcmp(text, program->saved))) {
		free(text);
		return;
	}
	snprintf(path, sizeof(path), "%s/state.json", program->state);
	err = writefile(path, text, strlen(text), 0600, true);
	if (err && !program->save_failed)
		log_warning("%s: %s; alerts are kept in memory, and a restart would forget them",
			    path, strerror(-err));
	program->save_failed = err != 0;
	free(program->saved);
	program->saved = err ? NULL : text;
	if (err)
		free(text);
}

static void use_config(struct program *program, json_t *alerts)
{
	const char *least = json_text(alerts, "severity");

	json_decref(program->config);
	program->config = json_incref(alerts);
	program->alerts.severity = !strcmp(least, "info")	? 0
				   : !strcmp(least, "notice")	? 1
				   : !strcmp(least, "critical") ? 3
								: 2;
	push_configure(program->push, &program->alerts, json_object_get(alerts, "alertmanagers"));
	hook_configure(&program->hook, &program->alerts, alerts);
}

static void load(struct program *program)
{
	char path[4096], *bytes = NULL, *error = NULL;
	size_t size = 0;
	json_t *state = NULL, *config;
	int err;

	snprintf(path, sizeof(path), "%s/state.json", program->state);
	err = readfile(path, STATE_BYTES_MAX, &bytes, &size, NULL, &error);
	if (!err)
		state = json_loadb(bytes, size, 0, NULL);
	if (err && err != -ENOENT)
		log_warning("%s; nothing is known of earlier alerts", error ? error : path);
	else if (!err && !alerts_load(&program->alerts, state))
		log_warning("%s is not a state of this version; nothing is known of earlier alerts",
			    path);
	config = json_object_get(state, "config");
	if (json_is_object(config))
		use_config(program, config);
	json_decref(state);
	free(bytes);
	free(error);
}

/* --- events --- */

static void take(void *context, const json_t *event, bool live)
{
	struct program *program = context;
	const char *kind = json_text(event, "kind");

	alerts_take(&program->alerts, event, live, time_realtime_ns());
	if (!strcmp(kind, "config_reloaded") || !strcmp(kind, "daemon_started"))
		program->configure = true;
}

static void configure(struct program *program)
{
	json_t *config = follow_config(program->follow), *alerts;

	if (!config)
		return;
	program->configure = false;
	alerts = json_object_get(config, "alerts");
	if (!json_is_object(alerts))
		log_warning("the daemon's configuration has no `alerts`: it is of another version");
	else
		use_config(program, alerts);
	json_decref(config);
}

/* What keeps alerts from being sent is an alert itself, and in the log. */
static void report(struct program *program, bool heard)
{
	struct alerts *alerts = &program->alerts;
	char text[128];

	if (program->absent == heard && alerts->any) {
		program->absent = !heard;
		log_warning(heard ? "the daemon replies again" : "no daemon has replied for 60 s");
		alerts_own(alerts, "daemon_absent", "",
			   heard ? NULL : "See `systemctl status escapementd`.",
			   time_realtime_ns());
	}
	if (program->refused != alerts->refused)
		log_warning("%llu alerts had no room beside %d others",
			    (unsigned long long)(alerts->refused - program->refused), ALERTS_MAX);
	program->refused = alerts->refused;
	push_describe(program->push, text, sizeof(text));
	sd_notifyf(0, "WATCHDOG=1\nSTATUS=%zu alerts; %s; %llu refused", alerts->count, text,
		   (unsigned long long)alerts->refused);
}

/* --- the loop --- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* When the next held alert is due, CLOCK_MONOTONIC. */
static uint64_t release(struct program *program, uint64_t now_local_ns)
{
	uint64_t wait_ns = alerts_release(&program->alerts, time_realtime_ns());

	return wait_ns < UINT64_MAX - now_local_ns ? now_local_ns + wait_ns : UINT64_MAX;
}

static void wait(struct program *program, uint64_t due_ns)
{
	struct curl_waitfd fds[2];
	unsigned int count = 0;
	uint64_t now_ns = time_local_ns();

	if (follow_fd(program->follow) >= 0)
		fds[count++] =
			(struct curl_waitfd){follow_fd(program->follow), CURL_WAIT_POLLIN, 0};
	if (program->hook.pid && program->hook.fd >= 0)
		fds[count++] = (struct curl_waitfd){program->hook.fd, CURL_WAIT_POLLIN, 0};
	due_ns = earlier(due_ns, now_ns + TICK_NS);
	push_wait(program->push, fds, count,
		  due_ns > now_ns ? (int)((due_ns - now_ns) / 1000000) + 1 : 0);
}

static void run(struct program *program)
{
	uint64_t tick_ns = 0;

	while (!ends) {
		uint64_t now_ns = time_local_ns(), due_ns, follow_due_ns;
		bool heard;

		heard = follow_run(program->follow, now_ns, &follow_due_ns, take, program);
		if (now_ns >= tick_ns) {
			tick_ns = now_ns + TICK_NS;
			alerts_tick(&program->alerts, time_realtime_ns());
			if (program->configure || !program->config)
				configure(program);
			report(program, heard);
			save(program);
		}
		due_ns = earlier(follow_due_ns, release(program, now_ns));
		due_ns = earlier(due_ns, push_run(program->push, &program->alerts, now_ns));
		due_ns = earlier(due_ns, hook_run(&program->hook, &program->alerts, now_ns));
		wait(program, earlier(due_ns, tick_ns));
	}
	save(program);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"state", required_argument, NULL, 's'},
						{"socket", required_argument, NULL, 'k'},
						{"escapement", required_argument, NULL, 'e'},
						{}};
	static struct program program;
	const char *socket = NULL, *escapement = "escapement", *state = getenv("STATE_DIRECTORY");
	struct stat status;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's')
			state = optarg;
		else if (option == 'k')
			socket = optarg;
		else if (option == 'e')
			escapement = optarg;
		else
			return fputs(USAGE, stderr), 2;
	}
	if (optind < argc)
		return fputs(USAGE, stderr), 2;
	program.state = state ? state : "/var/lib/escapement-alert";
	if (stat(program.state, &status) || !S_ISDIR(status.st_mode)) {
		fprintf(stderr,
			"escapement-alert: %s is not a directory; make it, or give --state\n",
			program.state);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_signal}, NULL);
	sigaction(SIGINT, &(struct sigaction){.sa_handler = on_signal}, NULL);
	if (push_new(&program.push) || follow_new(&program.follow, escapement, socket)) {
		log_error("out of memory");
		return 1;
	}
	program.alerts.severity = 2;
	load(&program);
	program.configure = true;
	sd_notify(0, "READY=1");
	run(&program);
	follow_free(program.follow);
	hook_free(&program.hook);
	push_free(program.push);
	alerts_free(&program.alerts);
	json_decref(program.config);
	free(program.saved);
	return 0;
}
