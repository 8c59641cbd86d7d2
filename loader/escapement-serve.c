// SPDX-License-Identifier: BSD-2-Clause
/* escapement-serve(8): what the daemon knows, over HTTP, read-only. */
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/now.h"
#include "serve/serve.h"

#define CONFIG_NS (10 * SERVE_S) /* how often the address is read again */
#define USAGE "usage: escapement-serve [--listen ADDRESS:PORT] [--socket PATH]\n"

struct program {
	struct cache cache;
	struct http *http;
	const char *given;    /* --listen; NULL: that of the configuration */
	char *listens;	      /* at what it does; NULL: not yet */
	struct reply *config; /* that is waited for */
	uint64_t config_ns, tick_ns;
	bool absent; /* reported */
};

static volatile sig_atomic_t ends;

static void on_signal(int number)
{
	(void)number;
	ends = 1;
}

/* --- where it listens --- */

static bool is_loopback(const char *listen)
{
	return !strncmp(listen, "127.", 4) || !strncmp(listen, "[::1]", 5);
}

/* @listen is that of the configuration, or of the command line. 0 or -errno; it was reported. */
static int listen_at(struct program *program, const char *listen)
{
	struct http *http = NULL;
	char *error = NULL;
	int err;

	if (program->listens && !strcmp(listen, program->listens))
		return 0;
	err = http_new(&http, listen, &program->cache, &error);
	if (err) {
		log_error("%s", error ? error : "out of memory");
		free(error);
		return err;
	}
	http_free(program->http);
	program->http = http;
	free(program->listens);
	program->listens = strdup(listen);
	log_info("http://%s/ is served%s", listen,
		 is_loopback(listen) ? ""
				     : ": to all that reach it, without encryption or password");
	return 0;
}

/* Asks for the configuration each CONFIG_NS, each second until there is one. */
static int follow_config(struct program *program, uint64_t now_ns)
{
	struct reply *reply = program->config;
	const char *listen;
	json_t *config;
	struct route route;
	char *error = NULL;
	int err = 0;

	if (!reply && now_ns >= program->config_ns &&
	    route_find(&route, SERVE_API "/config/show", &error))
		program->config = cache_get(&program->cache, &route, now_ns);
	free(error);
	if (!reply || !reply->ready)
		return 0;
	program->config_ns = now_ns + (program->listens ? CONFIG_NS : SERVE_S);
	config = json_loadb(reply->body, reply->bytes, 0, NULL);
	listen = json_text(json_object_get(config, "serve"), "listen");
	if (reply->status == 200 && *listen) {
		/* One that cannot be used is no reason to end what is served. */
		err = listen_at(program, listen);
		err = program->listens ? 0 : err;
	} else if (!program->listens && !program->absent) {
		log_warning("the address is not known until the daemon replies: %s",
			    json_text(config, "error"));
		program->absent = true;
	}
	json_decref(config);
	cache_release(reply);
	program->config = NULL;
	return err;
}

/* --- the loop --- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void wait(const struct program *program, uint64_t due_ns)
{
	uint64_t now_ns = time_local_ns();
	struct pollfd fds[2];
	nfds_t count = 0;

	if (program->http)
		fds[count++] = (struct pollfd){http_fd(program->http), POLLIN, 0};
	if (program->cache.ask.state == ASK_RUNS)
		fds[count++] =
			(struct pollfd){program->cache.ask.fd, ask_events(&program->cache.ask), 0};
	poll(fds, count, due_ns > now_ns ? (int)((due_ns - now_ns) / 1000000) + 1 : 0);
}

static void notify(const struct program *program)
{
	char text[128] = "waits for the daemon";

	if (program->http)
		http_describe(program->http, text, sizeof(text));
	sd_notifyf(0, "WATCHDOG=1\nSTATUS=%s; %llu requests to the daemon", text,
		   (unsigned long long)program->cache.asked);
}

static int run(struct program *program)
{
	int err = program->given ? listen_at(program, program->given) : 0;

	while (!ends && !err) {
		uint64_t now_ns = time_local_ns(), due_ns;

		if (now_ns >= program->tick_ns) {
			program->tick_ns = now_ns + SERVE_S;
			notify(program);
		}
		due_ns = earlier(program->tick_ns, cache_run(&program->cache, now_ns));
		if (!program->given)
			err = follow_config(program, now_ns);
		if (program->http)
			due_ns = earlier(due_ns, http_run(program->http, now_ns));
		/* What was asked for just now begins at once. */
		due_ns = earlier(due_ns, cache_run(&program->cache, now_ns));
		wait(program, due_ns);
	}
	return err;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
						{"socket", required_argument, NULL, 'k'},
						{}};
	static struct program program = {.cache.socket = PLACES_SOCKET};
	int option, err;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'l')
			program.given = optarg;
		else if (option == 'k')
			program.cache.socket = optarg;
		else
			return fputs(USAGE, stderr), 2;
	}
	if (optind < argc)
		return fputs(USAGE, stderr), 2;
	if (!geteuid()) {
		fputs("escapement-serve: it does not run as root: `systemctl start "
		      "escapement-serve`, or `setpriv --reuid=escapement-serve "
		      "--regid=" PLACES_GROUP " --clear-groups escapement-serve`\n",
		      stderr);
		return 4;
	}
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_signal}, NULL);
	sigaction(SIGINT, &(struct sigaction){.sa_handler = on_signal}, NULL);
	sd_notify(0, "READY=1");
	err = run(&program);
	http_free(program.http);
	cache_free(&program.cache);
	free(program.listens);
	return err ? 1 : 0;
}
