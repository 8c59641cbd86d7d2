// SPDX-License-Identifier: BSD-2-Clause
/*
 * How long recorded packets waited in the sending host's qdisc: behind a slow one
 * on a veth pair in a network namespace of the test's own.
 */
#define TAP_PLAN 3

#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

#include "delay/internal.h"
#include "receipt_world.h"

#define SEND_MIDDLE 0x01
#define PACKETS 20
#define RATE "1mbit" /* 318 bytes and Ethernet's: 2.5 ms each */
#define PACKET_MIN_NS 2000000ull
#define BURST_PACKETS 6

static int packet_socket(const char *name)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET, .sll_protocol = 0, .sll_ifindex = if_nametoindex(name)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	return fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) ? fd : -1;
}

static bool send_some(int fd, int ip, uint32_t from)
{
	struct frame f;

	for (uint32_t psn = from; psn < from + PACKETS; psn++) {
		data_build(&f, ip, SEND_MIDDLE, psn);
		if (send(fd, f.data, f.bytes, 0) < 0)
			return false;
	}
	return true;
}

static struct esc_host_queue table_of(struct receipt_world *w)
{
	struct esc_host_queue table;
	uint32_t zero = 0;

	bpf_map_lookup_elem(receipt_fd(w, "host_queue"), &zero, &table);
	return table;
}

static struct esc_tx_record note_of(struct receipt_world *w, int ip, uint32_t psn)
{
	struct esc_qp_sent sent;

	sent_read(w, ip, &sent);
	return sent.records[ESC_TX_RECORD_INDEX(psn)];
}

/* Until all were let out, or for as long as a slow machine may need. */
static void wait_until_left(struct receipt_world *w)
{
	for (int i = 0; i < 100 && table_of(w).pending; i++)
		usleep(20000);
}

/*
 * However late this process runs, the qdisc lets out no more than its rate and a burst. A few
 * packets pass the tracepoint unseen when the machine is busy: their wait is absent.
 */
static void test_queue(struct receipt_world *w, int fd, int ip)
{
	uint64_t from = now_ns(), first = 0, left = 0;
	unsigned int told = 0;
	struct esc_tx_record record;
	bool good;

	receipt_reset(w);
	w->word.sample_mask = 0;
	receipt_refresh(w, 0, 0);
	good = send_some(fd, ip, 1);
	wait_until_left(w);
	for (uint32_t psn = 1; psn <= PACKETS; psn++) {
		record = note_of(w, ip, psn);
		good = good && record.tx_ktime_ns > from;
		if (!record.queue_ns)
			continue;
		good = good && record.tx_ktime_ns + record.queue_ns > left;
		left = record.tx_ktime_ns + record.queue_ns;
		first = first ? first : left;
		told++;
	}
	tap_ok(good && told >= PACKETS * 3 / 4 && left < now_ns() &&
		       left - first >= PACKET_MIN_NS * (told - 1 - BURST_PACKETS),
	       "IPv%d: leaving and waiting add up to the rate of the qdisc (%u of %u reported, "
	       "%llu "
	       "us)",
	       ip, told, PACKETS, (unsigned long long)(left - first) / 1000);
}

int main(void)
{
	struct host_queue_out *queue;
	struct receipt_world w;
	char why[256];
	int fd, err;

	if (unshare(CLONE_NEWNET) ||
	    system("ip link add rq0 address 02:00:00:00:00:01 type veth peer name rq1 && "
		   "ip link set rq0 up && ip link set rq1 up"))
		return tap_bail("no network namespace with a veth pair");
	if (system("tc qdisc add dev rq0 root tbf rate " RATE " burst 1600 limit 100000"))
		return tap_skip_all("no tbf qdisc here");
	if (receipt_world_open(&w, &(struct world_options){.port = 3}))
		return tap_bail("the programs do not load");
	fd = packet_socket("rq0");
	if (fd < 0 || bpf_link_create(w.w.world.programs[WORLD_TC_OUT], if_nametoindex("rq0"),
				      TCX_EGRESS, NULL) < 0)
		return tap_bail("tc egress cannot be attached");
	err = hostqueue_open(&queue, receipt_fd(&w, "host_queue"), receipt_fd(&w, "qp_sent"), why,
			     sizeof(why));
	if (err) {
		tap_ok(strlen(why) > 20 && !table_of(&w).on, "absent, with a sentence: %s", why);
		return tap_end();
	}
	test_queue(&w, fd, 4);
	test_queue(&w, fd, 6);
	hostqueue_close(queue);
	receipt_reset(&w);
	w.word.sample_mask = 0;
	receipt_refresh(&w, 0, 0);
	tap_ok(send_some(fd, 4, 1) && IS(table_of(&w).pending, 0) && IS(table_of(&w).on, 0) &&
		       IS(note_of(&w, 4, PACKETS).queue_ns, 0),
	       "detached: nothing is waited for, and the wait is absent");
	probe_world_close(&w.w);
	return tap_end();
}
