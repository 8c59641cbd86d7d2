// SPDX-License-Identifier: BSD-2-Clause
/* escapementd(8): arguments, signals, systemd. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/log.h"
#include "maps/maps.h"

static const char usage[] =
	"usage: escapementd [-c FILE] [--foreground] [--check-config]\n"
	"  -c, --config FILE  the configuration (" CONFIG_PATH_DEFAULT ")\n"
	"  --foreground       stay in the foreground; so it is under systemd\n"
	"  --check-config     check the configuration, also against this host's interfaces,\n"
	"                     the members file and the textfile directory, report all errors,\n"
	"                     exit\n"
	"  --remove           without a daemon: detach everything recorded under pin_root\n"
	"                     and remove the pins, counts included\n"
	"  --pair-keys HOST KEY_FILE MEMBERS\n"
	"                     print the key file of HOST: the keys of its pairs with the other\n"
	"                     hosts of the file MEMBERS, made from the fleet's key in KEY_FILE\n"
	"  --debug            log the messages of the kernel's verifier and of libraries\n"
	"  --version, --help\n";

struct arguments {
	const char *config, *pairs_of; /* pairs_of: with the two files behind the options */
	char **files;
	int foreground, check, remove, debug, version;
};

/* -1: go on; else the exit code. */
static int parse_arguments(int argc, char **argv, struct arguments *out)
{
	const struct option options[] = {
		{"config", required_argument, NULL, 'c'},
		{"foreground", no_argument, &out->foreground, true},
		{"check-config", no_argument, &out->check, true},
		{"remove", no_argument, &out->remove, true},
		{"pair-keys", required_argument, NULL, 'p'},
		{"debug", no_argument, &out->debug, true},
		{"version", no_argument, &out->version, true},
		{"help", no_argument, NULL, 'h'},
		{},
	};
	int code;

	while ((code = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (code == 'c') {
			out->config = optarg;
		} else if (code == 'p') {
			out->pairs_of = optarg;
		} else if (code) {
			fputs(usage, code == 'h' ? stdout : stderr);
			return code == 'h' ? 0 : 2;
		}
		if (out->version) {
			puts("escapementd " ESC_VERSION);
			return 0;
		}
	}
	log_set_debug(out->debug);
	out->files = argv + optind;
	if (argc - optind == (out->pairs_of ? 2 : 0))
		return -1;
	if (argc - optind < 2 && out->pairs_of) {
		fprintf(stderr, "escapementd: --pair-keys HOST KEY_FILE MEMBERS\n");
		return 2;
	}
	fprintf(stderr, "escapementd: no argument is expected: %s\n%s", argv[optind], usage);
	return 2;
}

/* Logs the error, if there is one, and returns the exit code. */
static int finish(int err, char *error)
{
	if (err)
		log_error("%s", error ? error : strerror(-err));
	free(error);
	return err ? 1 : 0;
}

/* --check-config: warnings and errors go to stderr, a line each. --remove: see the usage. */
static int check_or_remove(const struct arguments *arguments)
{
	const struct config_input input = {.path = arguments->config,
					   .sections = daemon_config_sections(),
					   .check_host = arguments->check};
	struct config *config = NULL;
	char *report = NULL, *kept = NULL;
	int err = config_load(&input, &config, &report);

	if (!arguments->check) {
		/* Without any configuration only the default one can have been used. */
		bool none = err == -ENOENT && !arguments->config;

		if (none) {
			free(report);
			report = NULL;
		}
		if (none || !err)
			err = dataplane_remove(none ? ESC_PIN_ROOT : config->pin_root, &kept,
					       &report);
		if (kept)
			log_info("the packets of %s are still forwarded, since its queue pairs "
				 "would be cut off; delete the device, then run this again",
				 kept);
		free(kept);
		config_free(config);
		return finish(err, report);
	}
	if (report)
		fprintf(stderr, "%s\n", report);
	else if (err)
		fprintf(stderr, "escapementd: %s\n", strerror(-err));
	if (!err)
		printf("%s: valid, %zu interface%s\n", config->path, config->interface_count,
		       config->interface_count == 1 ? "" : "s");
	config_free(config);
	free(report);
	return err ? 1 : 0;
}

/* --- signals --- */

static void reload(void *context)
{
	struct daemon *daemon = context;

	if (!daemon->reload_waits)
		return;
	daemon->reload_waits = core_reload_waits(&daemon->core, false);
	if (daemon->reload_waits)
		return;
	core_reload(&daemon->core, false, NULL); /* logs the result itself */
	sd_notify(0, "READY=1");
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *context)
{
	struct daemon *daemon = context;

	(void)source;
	(void)info;
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, time_local_ns() / 1000);
	daemon->reload_waits = true;
	reload(daemon);
	return 0;
}

static int on_end(sd_event_source *source, const struct signalfd_siginfo *info, void *context)
{
	struct daemon *daemon = context;

	(void)source;
	log_info("ending on signal %u; programs stay attached and go on counting", info->ssi_signo);
	return sd_event_exit(daemon->core.loop, 0);
}

/* --- into the background --- */

/*
 * In the child: the descriptor to write a byte to once the daemon serves, or -errno. The parent
 * waits for it, and ends with 0, or with 1 when the child ended before.
 */
static int go_to_background(void)
{
	int ends[2];
	pid_t child;
	char byte;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (child > 0) {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
	}
	close(ends[0]);
	setsid();
	return ends[1];
}

/* Log lines go to the journal where there is one. */
static void leave_terminal(int ready)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int journal = sd_journal_stream_fd("escapementd", 6, 1);

	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(journal >= 0 ? journal : null, STDERR_FILENO);
	}
	if (journal >= 0)
		setenv("JOURNAL_STREAM", "escapementd", 1); /* log.c then writes priorities */
	if (write(ready, "", 1) < 0)
		log_debug("the parent process has ended");
	close(ready);
}

static int serve(const struct arguments *arguments)
{
	static const struct {
		int number;
		sd_event_signal_handler_t handler;
	} signals[] = {{SIGTERM, on_end}, {SIGINT, on_end}, {SIGHUP, on_reload}};
	bool foreground = arguments->foreground || getenv("NOTIFY_SOCKET");
	int ready = foreground ? -1 : go_to_background();
	struct daemon *daemon = NULL;
	char *error = NULL;
	sigset_t set;
	int err;

	/* Blocked before anything may be sent: the loop receives them. */
	sigemptyset(&set);
	for (size_t i = 0; i < CONFIG_COUNT_OF(signals); i++)
		sigaddset(&set, signals[i].number);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	err = daemon_new(&daemon, arguments->config, &error);
	for (size_t i = 0; err >= 0 && i < CONFIG_COUNT_OF(signals); i++)
		err = sd_event_add_signal(daemon->core.loop, NULL, signals[i].number,
					  signals[i].handler, daemon);
	if (err >= 0) {
		daemon->reader = (struct core_reader){.fn = reload, .context = daemon};
		core_listen_read(&daemon->core, &daemon->reader);
	}
	if (err >= 0)
		err = sd_event_set_watchdog(daemon->core.loop, true);
	if (err < 0) {
		daemon_free(daemon);
		return finish(err, error);
	}
	log_info("version " ESC_VERSION " serves %zu interfaces from %s",
		 daemon->core.config->interface_count, daemon->core.config->path);
	sd_notifyf(0, "READY=1\nSTATUS=%s, %zu interfaces",
		   core_is_off(&daemon->core) ? "kill switch on" : "observing",
		   daemon->core.config->interface_count);
	if (ready >= 0)
		leave_terminal(ready);
	err = sd_event_loop(daemon->core.loop);
	sd_notify(0, "STOPPING=1");
	daemon_free(daemon);
	return finish(err < 0 ? err : 0, NULL);
}

int main(int argc, char **argv)
{
	struct arguments arguments = {0};
	int code = parse_arguments(argc, argv, &arguments);

	if (code >= 0)
		return code;
	if (arguments.pairs_of) {
		char *error = NULL;
		int err = fleet_pairs_write(arguments.pairs_of, arguments.files[0],
					    arguments.files[1], stdout, &error);

		return finish(err, error);
	}
	return arguments.check || arguments.remove ? check_or_remove(&arguments)
						   : serve(&arguments);
}
