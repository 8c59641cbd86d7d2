/* SPDX-License-Identifier: BSD-2-Clause */
/* roceflow: a RoCEv2 endpoint over raw sockets, for kernels without RDMA. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <time.h>

#include "roceflow.h"
#include "wire.h"

volatile sig_atomic_t stop_asked;

static const char usage_text[] =
	"usage: roceflow serve --listen IP [--interface IF] [options]\n"
	"       roceflow send --to IP [options]\n"
	"       roceflow load --to IP --rate RATE [options]     plain UDP, for background load\n"
	"       roceflow sink --listen IP                       takes what load sends\n"
	"       roceflow dump FILE.pcap                         decodes, checks every ICRC\n"
	"send:  --qps N (4)  --op send|write  --transport rc|uc  --size BYTES (65536)\n"
	"       --messages N (of each QP, 100) | --seconds S  --mtu BYTES (1024)\n"
	"       --rate BITS (of all QPs, IP bytes; 10m, 1g)  --window PSNS (128)\n"
	"       --qp-rate BITS (of each QP; none takes what another leaves)\n"
	"       --sport-mode rxe|fixed:PORT|step:PORT  --qpn BASE (0x11)  --psn FIRST (random)\n"
	"       --depth MESSAGES (that wait for their acknowledge; no bound)  --think MS (0)\n"
	"       --warm S (at first at a tenth of the rates, which count to --seconds)\n"
	"       --catch-up MS (1; a sender that is late by more has lost it)\n"
	"       --ect  --tos N  --timeout MS (67)  --give-up S (10)  --reorder P\n"
	"serve: --clients N (1)  --qpn BASE (0x11)  --rnr-every N  --cnp  --idle S (60)\n"
	"       --bin MS (bytes delivered in each)  --silence MS (lists longer gaps in delivery)\n"
	"both:  --loss P  --seed N  --control-port PORT (18515)  --interface IF  --json\n"
	"       --delays (send: the time goes along; serve: lists what each packet took, by the\n"
	"       same clock)\n"
	"       --board FILE (the messages of a collective wait for each other, see board.h)\n"
	"send:  --flow N (the last byte of its QPN: its number there)  --line N (shares --rate "
	"with\n"
	"       all of that number)\n"
	"load:  --seconds S  --size BYTES (1400)  --port PORT (9)  --flows N (1)\n"
	"       --sport-mode fixed:PORT\n";

enum {
	OPT_TO = 256,
	OPT_LISTEN,
	OPT_INTERFACE,
	OPT_CONTROL,
	OPT_QPS,
	OPT_OP,
	OPT_TRANSPORT,
	OPT_SIZE,
	OPT_MESSAGES,
	OPT_SECONDS,
	OPT_MTU,
	OPT_RATE,
	OPT_WINDOW,
	OPT_SPORT,
	OPT_QPN,
	OPT_PSN,
	OPT_ECT,
	OPT_TOS,
	OPT_TIMEOUT,
	OPT_GIVE_UP,
	OPT_REORDER,
	OPT_DEPTH,
	OPT_THINK,
	OPT_WARM,
	OPT_CATCH_UP,
	OPT_BIN,
	OPT_SILENCE,
	OPT_DELAYS,
	OPT_CLIENTS,
	OPT_BOARD,
	OPT_FLOW,
	OPT_LINE,
	OPT_RNR,
	OPT_CNP,
	OPT_IDLE,
	OPT_QP_RATE,
	OPT_LOSS,
	OPT_SEED,
	OPT_JSON,
	OPT_PORT,
	OPT_FLOWS,
	OPT_SIX,
	OPT_HELP
};

static const struct option long_options[] = {
	{"to", required_argument, NULL, OPT_TO},
	{"listen", required_argument, NULL, OPT_LISTEN},
	{"interface", required_argument, NULL, OPT_INTERFACE},
	{"control-port", required_argument, NULL, OPT_CONTROL},
	{"qps", required_argument, NULL, OPT_QPS},
	{"op", required_argument, NULL, OPT_OP},
	{"transport", required_argument, NULL, OPT_TRANSPORT},
	{"size", required_argument, NULL, OPT_SIZE},
	{"messages", required_argument, NULL, OPT_MESSAGES},
	{"seconds", required_argument, NULL, OPT_SECONDS},
	{"mtu", required_argument, NULL, OPT_MTU},
	{"rate", required_argument, NULL, OPT_RATE},
	{"qp-rate", required_argument, NULL, OPT_QP_RATE},
	{"window", required_argument, NULL, OPT_WINDOW},
	{"sport-mode", required_argument, NULL, OPT_SPORT},
	{"qpn", required_argument, NULL, OPT_QPN},
	{"psn", required_argument, NULL, OPT_PSN},
	{"ect", no_argument, NULL, OPT_ECT},
	{"tos", required_argument, NULL, OPT_TOS},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"give-up", required_argument, NULL, OPT_GIVE_UP},
	{"reorder", required_argument, NULL, OPT_REORDER},
	{"depth", required_argument, NULL, OPT_DEPTH},
	{"think", required_argument, NULL, OPT_THINK},
	{"catch-up", required_argument, NULL, OPT_CATCH_UP},
	{"warm", required_argument, NULL, OPT_WARM},
	{"bin", required_argument, NULL, OPT_BIN},
	{"silence", required_argument, NULL, OPT_SILENCE},
	{"delays", no_argument, NULL, OPT_DELAYS},
	{"clients", required_argument, NULL, OPT_CLIENTS},
	{"board", required_argument, NULL, OPT_BOARD},
	{"flow", required_argument, NULL, OPT_FLOW},
	{"line", required_argument, NULL, OPT_LINE},
	{"rnr-every", required_argument, NULL, OPT_RNR},
	{"cnp", no_argument, NULL, OPT_CNP},
	{"idle", required_argument, NULL, OPT_IDLE},
	{"loss", required_argument, NULL, OPT_LOSS},
	{"seed", required_argument, NULL, OPT_SEED},
	{"json", no_argument, NULL, OPT_JSON},
	{"port", required_argument, NULL, OPT_PORT},
	{"flows", required_argument, NULL, OPT_FLOWS},
	{"ipv6", no_argument, NULL, OPT_SIX},
	{"help", no_argument, NULL, OPT_HELP},
	{0},
};

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t random_next(uint64_t *state)
{
	uint64_t mixed = *state += 0x9e3779b97f4a7c15ull;

	mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
	return mixed ^ mixed >> 31;
}

bool random_hit(uint64_t *state, double p)
{
	return p > 0 && (random_next(state) >> 11) * 0x1p-53 < p;
}

static void on_signal(int number)
{
	(void)number;
	stop_asked = 1;
}

static void bad(const char *name, const char *text, const char *wanted)
{
	fprintf(stderr, "roceflow: --%s %s: %s\n", name, text, wanted);
	exit(2);
}

/* A number in [low, high], decimal or 0x, with k, m, g for thousands. */
static uint64_t number(const char *name, const char *text, uint64_t low, uint64_t high)
{
	char wanted[96], *end;
	double value;
	const char *units = "kmg", *unit;

	errno = 0;
	value = strncasecmp(text, "0x", 2) ? strtod(text, &end) : (double)strtoull(text, &end, 16);
	for (unit = units; end != text && *end && *unit; unit++) {
		value *= 1000;
		if ((*end | 0x20) == *unit) {
			end++;
			break;
		}
	}
	if (end != text && (!strcasecmp(end, "bit") || !strcasecmp(end, "bps")))
		end += 3;
	if (errno || end == text || *end || !(value >= low && value <= high)) {
		snprintf(wanted, sizeof(wanted), "give a number from %lu to %lu", low, high);
		bad(name, text, wanted);
	}
	return value;
}

static double fraction(const char *name, const char *text, double high)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0 && value <= high))
		bad(name, text, high == 1 ? "give a probability from 0 to 1" : "give seconds");
	return value;
}

static void address(const char *name, const char *text, struct sockaddr_storage *out)
{
	struct sockaddr_in *four = (struct sockaddr_in *)out;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1)
		out->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1)
		out->ss_family = AF_INET6;
	else
		bad(name, text, "give an IPv4 or IPv6 address");
}

static bool choice(const char *name, const char *text, const char *no, const char *yes)
{
	char wanted[64];

	if (strcasecmp(text, no) && strcasecmp(text, yes)) {
		snprintf(wanted, sizeof(wanted), "must be %s or %s", no, yes);
		bad(name, text, wanted);
	}
	return !strcasecmp(text, yes);
}

static void source_port(const char *text, struct options *options)
{
	const char *colon = strchr(text, ':');

	if (!strcmp(text, "rxe"))
		return;
	if (!colon || (strncmp(text, "fixed:", 6) && strncmp(text, "step:", 5)))
		bad("sport-mode", text, "must be rxe, fixed:PORT or step:PORT");
	options->fixed_port = number("sport-mode", colon + 1, 1, 65535);
	options->port_step = text[0] == 's';
}

static bool parse_what(int option, const char *name, const char *text, struct options *options)
{
	switch (option) {
	case OPT_QPS:
		options->qps = number(name, text, 1, QPS_MAX);
		break;
	case OPT_OP:
		options->write = choice(name, text, "send", "write");
		break;
	case OPT_TRANSPORT:
		options->uc = choice(name, text, "rc", "uc");
		break;
	case OPT_SIZE:
		options->size_bytes = number(name, text, 0, 1u << 31);
		break;
	case OPT_MESSAGES:
		options->messages = number(name, text, 1, 1ull << 40);
		break;
	case OPT_SECONDS:
		options->duration_ns = fraction(name, text, 1e6) * NS_PER_S;
		break;
	case OPT_MTU:
		options->mtu = number(name, text, 16, WIRE_MTU_MAX);
		break;
	case OPT_RATE:
		options->rate_bps = number(name, text, 1, 1000 * NS_PER_S);
		break;
	case OPT_QP_RATE:
		options->qp_rate_bps = number(name, text, 1, 1000 * NS_PER_S);
		break;
	case OPT_WINDOW:
		options->window = number(name, text, 1, 1 << 22);
		break;
	case OPT_DEPTH:
		options->depth = number(name, text, 1, 1 << 20);
		break;
	case OPT_CATCH_UP:
		options->catch_up_ns = fraction(name, text, 1e5) * NS_PER_MS;
		break;
	case OPT_WARM:
		options->warm_ns = fraction(name, text, 1e5) * NS_PER_S;
		break;
	case OPT_THINK:
		options->think_ns = fraction(name, text, 1e5) * NS_PER_MS;
		break;
	case OPT_SPORT:
		source_port(text, options);
		break;
	case OPT_QPN:
		options->first_qpn = number(name, text, 2, 0xfff000);
		break;
	case OPT_PSN:
		options->first_psn = number(name, text, 0, WIRE_PSN_MASK);
		break;
	case OPT_ECT:
		options->tos |= WIRE_ECN_ECT0;
		break;
	case OPT_TOS:
		options->tos = number(name, text, 0, 255);
		break;
	case OPT_PORT:
		options->port = number(name, text, 1, 65535);
		break;
	case OPT_FLOWS:
		options->flows = number(name, text, 1, 256);
		break;
	default:
		return false;
	}
	return true;
}

static bool parse_where(int option, const char *name, const char *text, struct options *options)
{
	switch (option) {
	case OPT_TO:
	case OPT_LISTEN:
		address(name, text, &options->address);
		break;
	case OPT_INTERFACE:
		if (strlen(text) >= sizeof(options->interface))
			bad(name, text, "an interface name has at most 15 characters");
		strcpy(options->interface, text);
		break;
	case OPT_CONTROL:
		options->control_port = number(name, text, 1, 65535);
		break;
	case OPT_TIMEOUT:
		options->retransmit_ns = number(name, text, 1, 100000) * NS_PER_MS;
		break;
	case OPT_GIVE_UP:
		options->give_up_ns = fraction(name, text, 1e6) * NS_PER_S;
		break;
	case OPT_IDLE:
		options->idle_ns = fraction(name, text, 1e6) * NS_PER_S;
		break;
	case OPT_REORDER:
		options->reorder = fraction(name, text, 1);
		break;
	case OPT_LOSS:
		options->loss = fraction(name, text, 1);
		break;
	case OPT_SEED:
		options->seed = number(name, text, 0, 1ull << 53);
		break;
	case OPT_BIN:
		options->bin_ns = number(name, text, 1, 100000) * NS_PER_MS;
		break;
	case OPT_SILENCE:
		options->silence_ns = fraction(name, text, 1e5) * NS_PER_MS;
		break;
	case OPT_DELAYS:
		options->delays = true;
		break;
	case OPT_CLIENTS:
		options->clients = number(name, text, 1, 64);
		break;
	case OPT_BOARD:
		options->board = text;
		break;
	case OPT_FLOW:
		options->flow = number(name, text, 0, 255);
		break;
	case OPT_LINE:
		options->line = number(name, text, 0, 255);
		break;
	case OPT_RNR:
		options->rnr_every = number(name, text, 1, 1u << 31);
		break;
	case OPT_CNP:
		options->cnp = true;
		break;
	case OPT_JSON:
		options->json = true;
		break;
	case OPT_SIX:
		break; /* the address shows it */
	default:
		return false;
	}
	return true;
}

static void defaults(struct options *options)
{
	*options = (struct options){
		.control_port = 18515,
		.qps = 4,
		.mtu = 1024,
		.window = 128,
		.first_qpn = 0x11,
		.first_psn = -1,
		.retransmit_ns = 67 * NS_PER_MS,
		.catch_up_ns = NS_PER_MS,
		.give_up_ns = 10 * NS_PER_S,
		.idle_ns = 60 * NS_PER_S,
		.clients = 1,
		.port = 9,
		.flows = 1,
		.size_bytes = UINT64_MAX,
		.seed = now_ns() & 0xffffffff,
	};
}

static void parse(int argc, char **argv, struct options *options)
{
	int option, index = 0;

	defaults(options);
	while ((option = getopt_long(argc, argv, "", long_options, &index)) != -1) {
		const char *name = option == '?' ? "" : long_options[index].name;

		if (option == OPT_HELP) {
			fputs(usage_text, stdout);
			exit(0);
		}
		if (option == '?' || (!parse_what(option, name, optarg, options) &&
				      !parse_where(option, name, optarg, options))) {
			fputs(usage_text, stderr);
			exit(2);
		}
	}
	if (optind != argc) {
		fprintf(stderr, "roceflow: %s is not expected\n%s", argv[optind], usage_text);
		exit(2);
	}
}

static int run(const char *mode, struct options *options)
{
	bool load = !strcmp(mode, "load");

	if (!options->address.ss_family) {
		fprintf(stderr, "roceflow: %s needs --%s IP\n", mode,
			*mode == 's' && mode[2] != 'n' ? "listen" : "to");
		return 2;
	}
	if (options->size_bytes == UINT64_MAX)
		options->size_bytes = load ? 1400 : 65536;
	if (load)
		return options->size_bytes > 65000 ? (bad("size", "", "at most 65000"), 2)
						   : load_run(options);
	if (options->board && *mode == 's' && mode[2] == 'n' &&
	    (options->qps != 1 || options->first_qpn % 256 != options->flow)) {
		fputs("roceflow: a --flow of a --board has one queue pair, with the flow's number "
		      "as the "
		      "last byte of its QPN\n",
		      stderr);
		return 2;
	}
	if (!options->messages && !options->duration_ns)
		options->messages = 100;
	if (!strcmp(mode, "serve"))
		return serve_run(options);
	if (!strcmp(mode, "sink"))
		return sink_run(options);
	return send_run(options);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct options options;
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "dump") && argc == 3)
		return dump_run(argv[2]);
	if (!strcmp(mode, "--help")) {
		fputs(usage_text, stdout);
		return 0;
	}
	if (strcmp(mode, "serve") && strcmp(mode, "send") && strcmp(mode, "load") &&
	    strcmp(mode, "sink")) {
		fputs(usage_text, stderr);
		return 2;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	prctl(PR_SET_TIMERSLACK, 1ul); /* the pace is kept to microseconds */
	parse(argc - 1, argv + 1, &options);
	return run(mode, &options);
}
