// SPDX-License-Identifier: BSD-2-Clause
/*
 * A job of one queue pair with libescapement-verbs in it, over a provider whose wire is a TCP
 *connection:
 *
 *	verbsjob serve LOCAL PORT REMOTE
 *	verbsjob send LOCAL PORT REMOTE MESSAGES INTERVAL_US
 *
 * Addresses are IPv4. The sender posts SEND, in turn with unsignaled ones and WRITE; the server
 *states for each message that used a receive the time from before its post until after its poll, by
 *CLOCK_MONOTONIC, which both have. Then both poll until SIGTERM. SIGUSR1: the next operation fails;
 *SIGUSR2: one does not complete, and the next time it does; SIGHUP: the queue pair is reset.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/nullverbs.h"

#define BYTES 4096
#define SAMPLES 200000

struct wire {
	uint64_t number, posted_ns;
};

static volatile sig_atomic_t fails, sticks, resets, ends;
static struct null_device null;
static struct null_qp *qp;
static struct ibv_cq *cq;
static struct ibv_context *context;
static int wire = -1;
static bool sends, stuck;
/* Of the server, by the number of the receive. */
static uint64_t posted_ns[SAMPLES], polled_ns[SAMPLES];
static size_t posted, polled;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void take_signal(int number)
{
	fails |= number == SIGUSR1;
	sticks |= number == SIGUSR2;
	resets |= number == SIGHUP;
	ends |= number == SIGTERM;
}

/* Behind the shim: what arrived is the completion of a receive. */
static int poll_wire(struct ibv_cq *ibcq, int room, struct ibv_wc *wc)
{
	struct wire message;

	while (!sends && posted < SAMPLES &&
	       recv(wire, &message, sizeof(message), MSG_DONTWAIT | MSG_PEEK) == sizeof(message)) {
		if (recv(wire, &message, sizeof(message), 0) != sizeof(message))
			break;
		posted_ns[posted++] = message.posted_ns;
		null_complete(qp->receive, &(struct ibv_wc){.qp_num = qp->ex.qp_base.qp_num,
							    .opcode = IBV_WC_RECV,
							    .byte_len = BYTES});
	}
	return null_poll_cq(ibcq, room, wc);
}

static struct ibv_context *open_wire(struct ibv_device *device)
{
	struct ibv_context *opened = null_open(device);

	opened->ops.poll_cq = poll_wire;
	return opened;
}

static struct in_addr local;

static int query_gid(struct ibv_context *of, uint8_t port, int index, union ibv_gid *gid)
{
	null_query_gid(of, port, index, gid);
	memcpy(gid->raw + 12, &local, 4);
	return 0;
}

static int connect_wire(bool serves, in_port_t port, struct in_addr remote)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (serves) {
		int listener = fd;

		at.sin_addr = local;
		if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 1))
			return -1;
		fd = accept(listener, NULL, NULL);
		close(listener);
	} else {
		at.sin_addr = remote;
		for (int i = 0; connect(fd, (struct sockaddr *)&at, sizeof(at)); i++) {
			if (i == 100)
				return -1;
			close(fd);
			usleep(100000);
			fd = socket(AF_INET, SOCK_STREAM, 0);
		}
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void ready(uint32_t qpn, struct in_addr remote)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = qpn,
				   .ah_attr = {.is_global = 1, .port_num = 1}};

	attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
	memcpy(attr.ah_attr.grh.dgid.raw + 12, &remote, 4);
	ibv_modify_qp(&qp->ex.qp_base, &attr,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7};
	ibv_modify_qp(&qp->ex.qp_base, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT);
}

static void post(enum ibv_wr_opcode opcode, unsigned int flags)
{
	struct ibv_sge sge = {.length = BYTES};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = flags},
			   *bad;

	ibv_post_send(&qp->ex.qp_base, &wr, &bad);
}

/* The wire has it after the post, as a NIC would. */
static void send_message(uint64_t number)
{
	struct wire message = {number, now_ns()};

	post(IBV_WR_SEND, number % 2 ? IBV_SEND_SIGNALED : 0);
	if (send(wire, &message, sizeof(message), MSG_NOSIGNAL) != sizeof(message))
		ends = 1;
	if (number % 3 == 0)
		post(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
}

static void poll_all(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		if (wc.opcode == IBV_WC_RECV && !wc.status)
			polled_ns[polled++] = now_ns();
}

static void obey(void)
{
	struct ibv_wc done = {.qp_num = qp->ex.qp_base.qp_num, .opcode = IBV_WC_SEND};

	if (fails) {
		done.status = IBV_WC_RETRY_EXC_ERR;
		qp->drops = true;
		post(IBV_WR_SEND, IBV_SEND_SIGNALED);
		qp->drops = false;
		null_complete(qp->send, &done);
	}
	if (sticks) {
		qp->drops = !stuck;
		if (stuck)
			null_complete(qp->send, &done);
		else
			post(IBV_WR_SEND, IBV_SEND_SIGNALED);
		stuck = !stuck;
	}
	if (resets) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

		ibv_modify_qp(&qp->ex.qp_base, &attr, IBV_QP_STATE);
	}
	fails = sticks = resets = 0;
}

int main(int argc, char **argv)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16, .wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	struct sigaction action = {.sa_handler = take_signal};
	static const int signals[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGTERM};
	uint64_t messages = 0, interval_ns = 0, sent = 0, next_ns;
	struct in_addr remote;
	struct ibv_pd pd;
	uint32_t qpn;

	if (argc < 5 || inet_pton(AF_INET, argv[2], &local) != 1 ||
	    inet_pton(AF_INET, argv[4], &remote) != 1 || (!strcmp(argv[1], "send") && argc != 7)) {
		fprintf(stderr, "usage: verbsjob serve|send LOCAL PORT REMOTE [MESSAGES US]\n");
		return 2;
	}
	sends = !strcmp(argv[1], "send");
	if (sends) {
		messages = strtoull(argv[5], NULL, 10);
		interval_ns = strtoull(argv[6], NULL, 10) * 1000;
	}
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
	null_begin(&null);
	null.next_qpn = 100 + (uint32_t)getpid() % 100000;
	shim_real.open_device = open_wire;
	shim_real.query_gid = query_gid;
	context = ibv_open_device(&null.device);
	pd.context = context;
	cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &attr));
	init.send_cq = init.recv_cq = cq;
	qp = (struct null_qp *)ibv_create_qp(&pd, &init);
	wire = connect_wire(!sends, (in_port_t)atoi(argv[3]), remote);
	if (wire < 0 || send(wire, &qp->ex.qp_base.qp_num, 4, 0) != 4 ||
	    recv(wire, &qpn, 4, MSG_WAITALL) != 4) {
		perror("verbsjob");
		return 1;
	}
	ready(qpn, remote);
	for (next_ns = now_ns(); !ends;) {
		if (sent < messages && now_ns() >= next_ns) {
			send_message(sent++);
			next_ns += interval_ns;
		} else if (sent == messages) {
			usleep(20);
		}
		poll_all();
		obey();
	}
	printf("{\"qpn\": %u, \"sent\": %llu, \"delays\": [", qp->ex.qp_base.qp_num,
	       (unsigned long long)sent);
	for (size_t i = 0; i < polled; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)(polled_ns[i] - posted_ns[i]));
	puts("]}");
	return 0;
}
