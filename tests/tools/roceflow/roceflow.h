/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of roceflow share: the options, time, and the modes' entries. */
#ifndef ROCEFLOW_H
#define ROCEFLOW_H

#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define QPS_MAX 4096

struct options {
	/* where */
	struct sockaddr_storage address; /* --to or --listen */
	char interface[16];
	uint16_t control_port;
	/* what is sent */
	unsigned int qps;
	bool write, uc;
	uint64_t size_bytes;
	uint64_t messages;    /* per QP, 0: by time */
	uint64_t duration_ns; /* 0: by count */
	uint32_t mtu;
	uint64_t qp_rate_bps; /* of each QP; 0: see rate_bps */
	uint64_t rate_bps;    /* of all QPs together, IP bytes; 0: as fast as it goes */
	uint32_t window;
	uint32_t depth;	      /* messages that are not acknowledged, at most; 0: no bound */
	uint64_t catch_up_ns; /* how far behind its rate a sender may be and still catch up */
	uint64_t warm_ns;     /* at first, at a tenth of the rates */
	uint64_t think_ns;    /* from the last acknowledge to the next message */
	uint16_t fixed_port;  /* 0: as rxe */
	uint32_t port_step;
	uint32_t first_qpn;
	int64_t first_psn; /* -1: random */
	uint8_t tos;
	/* what goes wrong */
	double loss, reorder, ack_loss;
	uint32_t rnr_every;
	uint64_t seed;
	/* when it is enough */
	uint64_t retransmit_ns, give_up_ns, idle_ns;
	unsigned int clients;
	/* a collective, see board.h */
	const char *board;
	unsigned int flow, line; /* numbers on it: of the sender's flow, of its host */
	uint64_t bin_ns;	 /* of the delivery's timeline; 0: none is kept */
	uint64_t silence_ns;	 /* deliveries of a queue pair so far apart are listed; 0: none */
	bool delays;		 /* senders timestamp payloads, servers list what packets took */
	bool cnp, json;
	/* load and sink */
	uint16_t port;
	unsigned int flows;
};

uint64_t now_ns(void);

/* A small generator of its own, so that a seed means the same everywhere. */
uint64_t random_next(uint64_t *state);
/* True with probability @p. */
bool random_hit(uint64_t *state, double p);

/* Set by SIGINT and SIGTERM: finish, report, leave. */
extern volatile sig_atomic_t stop_asked;

/* The modes. Each returns the exit code. */
int serve_run(const struct options *options);
int send_run(const struct options *options);
int load_run(const struct options *options);
int sink_run(const struct options *options);
int dump_run(const char *path);

#endif
