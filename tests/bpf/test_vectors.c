// SPDX-License-Identifier: BSD-2-Clause
/*
 * The captures of real soft-RoCE traffic, as the kernel programs count them
 * and as Wireshark's dissector reads them: tshark decodes every packet, the
 * accounting model runs over what it reports, and every queue pair must agree.
 */
#define TAP_PLAN 105

#include <arpa/inet.h>
#include <glob.h>
#include <unistd.h>

#include "model_qp.h"
#include "tests/lib/tap.h"
#include "world.h"

/* Order matters: the parser below counts columns. */
static const char *const fields[] = {
	"ip.src",
	"ip.dst",
	"ipv6.src",
	"ipv6.dst",
	"ip.len",
	"ipv6.plen",
	"ip.dsfield.ecn",
	"ipv6.tclass.ecn",
	"udp.srcport",
	"udp.length",
	"infiniband.bth.opcode",
	"infiniband.bth.destqp",
	"infiniband.bth.psn",
	"infiniband.bth.padcnt",
	"infiniband.aeth.syndrome",
	"infiniband.reth.dmalen",
	"infiniband.reth",
	"infiniband.deth",
	"infiniband.aeth",
	"infiniband.atomiceth",
	"infiniband.atomicacketh",
	"infiniband.immdt",
	"infiniband.ieth",
};

enum column {
	IP_SRC,
	IP_DST,
	IP6_SRC,
	IP6_DST,
	IP_LEN,
	IP6_PLEN,
	ECN,
	ECN6,
	SPORT,
	UDP_LEN,
	OPCODE,
	DEST_QP,
	PSN,
	PAD,
	SYNDROME,
	DMA_LEN,
	RETH,
	DETH,
	AETH,
	ATOMIC,
	ATOMIC_ACK,
	IMMEDIATE,
	IETH,
	COLUMNS
};

_Static_assert(sizeof(fields) / sizeof(*fields) == COLUMNS, "a name for each column");

static FILE *tshark_open(const char *path)
{
	char command[2048];
	int at, i;

	at = snprintf(command, sizeof(command),
		      "tshark -n -r '%s' -T fields -E separator='|' -E occurrence=f", path);
	for (i = 0; i < COLUMNS; i++)
		at += snprintf(command + at, sizeof(command) - at, " -e %s", fields[i]);
	snprintf(command + at, sizeof(command) - at, " 2>/dev/null");
	return popen(command, "r");
}

static void set_address(struct esc_address *to, const char *v4, const char *v6)
{
	if (*v6) {
		inet_pton(AF_INET6, v6, to->bytes);
		return;
	}
	memcpy(to->bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	inet_pton(AF_INET, v4, to->bytes + 12);
}

static uint32_t number(const char *text)
{
	return strtoul(text, NULL, 0);
}

/* What a line of tshark reports of a packet; its headers give the payload's length. */
static bool read_line(char *line, struct model_packet *p)
{
	static const uint32_t header_bytes[COLUMNS] = {
		[RETH] = 16,	  [DETH] = 8,	   [AETH] = 4, [ATOMIC] = 28,
		[ATOMIC_ACK] = 8, [IMMEDIATE] = 4, [IETH] = 4,
	};
	char *columns[COLUMNS];
	uint32_t headers = 8 + 12 + 4;
	int i;

	line[strcspn(line, "\n")] = 0;
	for (i = 0; i < COLUMNS; i++) {
		columns[i] = strsep(&line, "|");
		if (!columns[i])
			return false;
		if (*columns[i])
			headers += header_bytes[i];
	}
	memset(p, 0, sizeof(*p));
	set_address(&p->key.src, columns[IP_SRC], columns[IP6_SRC]);
	set_address(&p->key.dst, columns[IP_DST], columns[IP6_DST]);
	p->ip_version = *columns[IP6_SRC] ? 6 : 4;
	p->bytes = p->ip_version == 6 ? 40 + number(columns[IP6_PLEN]) : number(columns[IP_LEN]);
	p->ecn = number(columns[p->ip_version == 6 ? ECN6 : ECN]);
	p->sport = number(columns[SPORT]);
	p->opcode = number(columns[OPCODE]);
	p->key.dest_qpn = number(columns[DEST_QP]);
	p->psn = number(columns[PSN]);
	p->syndrome = number(columns[SYNDROME]);
	p->read_bytes = number(columns[DMA_LEN]);
	p->payload = number(columns[UDP_LEN]) - headers - number(columns[PAD]);
	return *columns[OPCODE];
}

/* Runs the model over tshark's reading. Returns packets, or -1 when a line is not RoCEv2. */
static int model_capture(const char *path, enum world_hook hook, uint8_t port, uint64_t *bytes)
{
	FILE *tshark = tshark_open(path);
	struct model_packet p;
	char line[8192];
	int packets = 0;

	model_reset();
	*bytes = 0;
	while (tshark && packets >= 0 && fgets(line, sizeof(line), tshark)) {
		if (!read_line(line, &p)) {
			printf("# tshark: \"%s\"\n", line);
			packets = -1;
			break;
		}
		p.key.direction = hook == WORLD_TC_OUT ? ESC_DIRECTION_TX : ESC_DIRECTION_RX;
		p.key.port = port;
		model_account(model_find(&p.key), &p);
		*bytes += p.bytes;
		packets++;
	}
	if (!tshark || pclose(tshark))
		return -1;
	return packets;
}

static int run_capture(struct world *w, const char *path, enum world_hook hook)
{
	FILE *capture = fopen(path, "r");
	struct frame f;
	int packets = 0;

	world_reset(w);
	while (capture && frame_read(capture, &f)) {
		if (world_run(w, hook, f.data, f.bytes, 0) != 1)
			printf("# packet %d was changed or did not pass\n", packets + 1);
		else
			packets++;
	}
	if (capture)
		fclose(capture);
	return packets;
}

static bool compare(struct world *w, enum world_hook hook, int packets, uint64_t bytes)
{
	struct esc_port_counts port = world_port_counts(w, w->port);
	bool tx = hook == WORLD_TC_OUT, same;
	struct esc_qp qp;
	uint32_t i;

	same = (tx ? port.tx_roce_packets : port.rx_roce_packets) == (uint64_t)packets &&
	       (tx ? port.tx_roce_bytes : port.rx_roce_bytes) == bytes;
	if (!same)
		printf("# the port's packets or bytes differ from tshark's\n");
	if (world_qp_count(w) != model_qps) {
		printf("# queue pairs: kernel %u, tshark %u\n", world_qp_count(w), model_qps);
		same = false;
	}
	for (i = 0; i < model_qps; i++)
		same = world_qp(w, &model_newest[i]->key, &qp) &&
		       model_compare(model_newest[i], &qp) && same;
	return same;
}

static void describe(void)
{
	uint32_t i;

	for (i = 0; i < model_qps; i++) {
		const struct esc_qp *c = &model_newest[i]->count;

		printf("#   qpn 0x%06x: %llu packets, %llu payload bytes, %llu messages, %llu "
		       "ACKs, "
		       "%llu NAKs, %llu retransmits, %llu duplicates, %llu gaps\n",
		       model_newest[i]->key.dest_qpn, (unsigned long long)c->packets,
		       (unsigned long long)c->payload_bytes, (unsigned long long)c->messages,
		       (unsigned long long)c->acks, (unsigned long long)c->nak_sequence,
		       (unsigned long long)c->retransmits, (unsigned long long)c->duplicates,
		       (unsigned long long)c->psn_gaps);
	}
}

/* The capture in another shape, in a file that tshark can read. */
static bool write_shape(const char *from, const char *to, enum frame_shape shape)
{
	FILE *in = fopen(from, "r"), *out = fopen(to, "w");
	uint32_t packet[4] = {0};
	uint8_t header[24];
	bool good = in && out && fread(header, sizeof(header), 1, in) == 1 &&
		    fwrite(header, sizeof(header), 1, out) == 1;
	struct frame f;

	while (good && frame_read(in, &f)) {
		frame_set_shape(&f, shape);
		packet[2] = packet[3] = htole32(f.bytes);
		good = fwrite(packet, sizeof(packet), 1, out) == 1 &&
		       fwrite(f.data, f.bytes, 1, out) == 1;
	}
	if (in)
		fclose(in);
	if (out && fclose(out))
		good = false;
	return good;
}

static void test_capture(struct world *w, const char *name, const char *path, enum world_hook hook,
			 enum frame_shape shape)
{
	int ran = run_capture(w, path, hook), decoded;
	uint64_t bytes;
	bool good;

	decoded = model_capture(path, hook, w->port, &bytes);
	if (decoded != ran)
		printf("# packets: kernel %d, tshark %d\n", ran, decoded);
	good = decoded == ran && ran > 0 && compare(w, hook, ran, bytes);
	tap_ok(good, "%s, %s, %s: %d packets as tshark reads them", name, world_hook_names[hook],
	       frame_shape_names[shape], ran);
	if (good && shape == FRAME_PLAIN && hook != WORLD_TC_IN)
		describe();
}

int main(void)
{
	char shaped[] = "/tmp/escapement-vector-XXXXXX";
	int hook, shape, file;
	struct world w;
	glob_t found;
	size_t i;

	if (system("tshark -v >/dev/null 2>&1"))
		return tap_skip_all("tshark is not installed");
	if (glob("tests/vectors/*.pcap", 0, NULL, &found))
		return tap_bail("no captures in tests/vectors: run from the top of the source");
	if (world_open(&w, &(struct world_options){.port = 5, .sample_mask = 0xff}))
		return tap_bail("the programs do not load");
	file = mkstemp(shaped);
	if (file < 0)
		return tap_bail("no temporary file");
	close(file);
	for (i = 0; i < found.gl_pathc; i++)
		for (shape = 0; shape < FRAME_SHAPES; shape++) {
			if (!write_shape(found.gl_pathv[i], shaped, shape))
				printf("# %s: not written\n", shaped);
			for (hook = 0; hook < WORLD_HOOKS; hook++)
				test_capture(&w, strrchr(found.gl_pathv[i], '/') + 1, shaped, hook,
					     shape);
		}
	unlink(shaped);
	globfree(&found);
	world_close(&w);
	return tap_end();
}
