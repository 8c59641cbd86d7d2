// SPDX-License-Identifier: BSD-2-Clause
/*
 * Queue pairs that follow a path: which port each packet leaves with when paths fail, return and
 * change hands, one case at a time and then at random against a second account of the rules.
 * Every packet's ICRC is compared as well. `test_failover SEED [STEPS]` repeats a run.
 */
#define TAP_PLAN 96

#include <unistd.h>

#include "steer_model.h"
#include "tests/lib/tap.h"

#define SLOT 5
#define SPORT 50000 /* of frame_build() */
#define HOME 51000
#define PORT(path) (52000 + (path))
#define FAR_NS 3600000000000ull
#define STEPS 20000

#define SEND_FIRST 0x00
#define SEND_MIDDLE 0x01
#define RESPONSE_MIDDLE 0x0e
#define ACKNOWLEDGE 0x11

static struct world w;
static uint32_t generation = 1, order;
static uint8_t ip = 4;
static enum frame_shape shape;

/* --- packets --- */

/* Sends a packet; the source port that it left with, 0 for a frame that is not right for it. */
static uint16_t send_opcode(uint8_t opcode)
{
	static struct frame f, got;
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f.data, .data_out = got.data,
		    .data_size_out = sizeof(got.data), .repeat = 1);
	struct frame_plan plan = {.opcode = opcode, .qpn = 7, .ip = ip};
	static uint32_t psn;
	uint16_t sport;

	plan.psn = psn++;
	plan.extension = opcode == ACKNOWLEDGE ? 4 : 0;
	plan.payload = opcode == ACKNOWLEDGE ? 0 : 1024;
	frame_build(&f, &plan);
	frame_set_shape(&f, shape);
	frame_seal(&f, CHECK_NONE);
	o.data_size_in = f.bytes;
	if (bpf_prog_test_run_opts(w.programs[WORLD_TC_OUT], &o) || o.retval != (uint32_t)-1)
		return 0;
	got.bytes = o.data_size_out;
	sport = frame_get16(&got, frame_udp_offset(&got));
	frame_resteer(&f, sport, CHECK_NONE);
	return f.bytes == got.bytes && !memcmp(f.data, got.data, got.bytes) ? sport : 0;
}

static struct esc_qp_key key_of(void)
{
	struct frame_plan plan = {.opcode = SEND_MIDDLE, .qpn = 7, .payload = 1024, .ip = ip};
	struct frame f;

	frame_build(&f, &plan);
	return frame_key(&f, w.port);
}

static struct esc_qp entry_read(void)
{
	struct esc_qp_key key = key_of();
	struct esc_qp qp = {0};

	world_qp(&w, &key, &qp);
	return qp;
}

static void entry_write(const struct esc_qp *qp)
{
	struct esc_qp_key key = key_of();

	bpf_map_update_elem(bpf_map__fd(w.kernel->maps.qps), &key, qp, BPF_EXIST);
}

/* What waits, if anything: not before it is @due, and then at once. */
static void set_moment(bool due)
{
	struct esc_qp qp = entry_read();

	qp.steer.flowlet_gap_ns = FAR_NS;
	qp.steer.start_local_ns = steer_now_ns() + FAR_NS;
	qp.steer.force_local_ns = due ? 0 : steer_now_ns() + FAR_NS;
	entry_write(&qp);
}

/* --- paths --- */

static struct esc_paths slot_read(void)
{
	struct esc_paths slot = {0};
	uint32_t number = SLOT;

	bpf_map_lookup_elem(bpf_map__fd(w.kernel->maps.paths), &number, &slot);
	return slot;
}

static void slot_write(const struct esc_paths *slot)
{
	uint32_t number = SLOT;

	bpf_map_update_elem(bpf_map__fd(w.kernel->maps.paths), &number, slot, BPF_ANY);
}

static void path_write(uint32_t path, const struct esc_path *value)
{
	struct esc_paths slot = slot_read();

	slot.paths[path] = *value;
	slot_write(&slot);
}

static struct esc_path path_read(uint32_t path)
{
	return slot_read().paths[path];
}

/* Three were sent, the peer received none of them and reported so after the deadline. */
static const struct pathlive_path dead = {.report_peer_ns = 9000000,
					  .received_peer_ns = 1000000,
					  .report_ns = 8000000,
					  .since_ns = 1000000,
					  .unconfirmed = 3};
/* As many, and there was no report since. */
static const struct pathlive_path silent = {.report_peer_ns = 1000000,
					    .received_peer_ns = 1000000,
					    .report_ns = 900000,
					    .since_ns = 1000000,
					    .unconfirmed = 30};

static void path_set_live(uint32_t path, const struct pathlive_path *live)
{
	struct esc_path value = path_read(path);

	value.live = live ? *live : (struct pathlive_path){0};
	path_write(path, &value);
}

static void path_set_backup(uint32_t path, uint8_t backup)
{
	struct esc_path value = path_read(path);

	value.backup = backup;
	path_write(path, &value);
}

static void path_trust(uint32_t path)
{
	struct esc_path value = path_read(path);

	value.live = (struct pathlive_path){0};
	value.diverted_ns = 0;
	path_write(path, &value);
}

/* All paths live; 0 is the backup of 1, 2 that of 0; the others have none. */
static void anew(void)
{
	struct esc_qp_key key = key_of();
	struct esc_paths slot = {.peer = 99, .key = {.src = key.src, .dst = key.dst}};

	for (uint32_t i = 0; i < ESC_PATHS_MAX; i++)
		slot.paths[i] = (struct esc_path){
			.deadline_ns = 3000000, .sport = PORT(i), .backup = ESC_PATH_NONE};
	slot.paths[1].backup = 0;
	slot.paths[0].backup = 2;
	steer_reset(&w);
	slot_write(&slot);
	steer_control(&w, ++generation);
}

static void give(uint16_t sport, uint8_t path, uint64_t wait_ns)
{
	uint64_t when = wait_ns ? steer_now_ns() + wait_ns : 0;
	struct esc_steer steer = {.number = ++order,
				  .sport = sport,
				  .flags = path == ESC_PATH_NONE ? 0 : ESC_STEER_PATH,
				  .path = path,
				  .slot = SLOT,
				  .flowlet_gap_ns = wait_ns,
				  .start_local_ns = when,
				  .force_local_ns = when};
	struct esc_qp_key key = key_of();

	steer_rule(&w, &key, &steer);
	steer_control(&w, ++generation);
}

static void is_port(uint8_t opcode, uint16_t want, const char *what)
{
	uint16_t got = send_opcode(opcode);

	if (!tap_ok(got == want, "%s", what))
		printf("# left with port %u, must be %u\n", got, want);
}

/* --- one case at a time --- */

static void test_death(void)
{
	uint64_t before = steer_now_ns();
	struct esc_path path;

	anew();
	give(0, 1, 0);
	is_port(SEND_MIDDLE, SPORT, "a rule with a path and no port: unchanged");
	path_set_live(1, &silent);
	is_port(SEND_MIDDLE, SPORT, "unreceived packets alone divert no packet");
	path_set_live(1, &dead);
	is_port(SEND_MIDDLE, PORT(0), "the packet that detects its dead path takes the backup");
	is_port(ACKNOWLEDGE, PORT(0), "so does an ACK");
	is_port(RESPONSE_MIDDLE, PORT(0), "and a READ response");
	path = path_read(1);
	tap_ok(path.diverted == 3 && path.diverted_ns >= before &&
		       path.diverted_ns <= steer_now_ns() && !path_read(0).diverted,
	       "the path has the time and the number");
	tap_ok(entry_read().steer.trigger == ESC_STEER_TRIGGER_DEAD &&
		       entry_read().steer.applied_local_ns == path.diverted_ns &&
		       entry_read().steer.backup == 0 && entry_read().steer.sport == PORT(0) &&
		       entry_read().steer.rule_sport == 0,
	       "the queue pair's entry shows it as well");
	path_set_live(1, NULL);
	is_port(SEND_MIDDLE, PORT(0), "it is up again: in hold-down, the backup");
	give(HOME, 1, 0);
	is_port(SEND_MIDDLE, PORT(0), "another rule on that path is diverted as well");
	anew();
	give(HOME, 1, 0);
	is_port(SEND_MIDDLE, HOME, "a rule with a path and a port: the port");
	path_set_live(1, &dead);
	is_port(SEND_MIDDLE, PORT(0), "dead: the backup's port in its place");
}

static void test_return(void)
{
	anew();
	give(HOME, 1, 0);
	path_set_live(1, &dead);
	is_port(SEND_MIDDLE, PORT(0), "diverted");
	path_trust(1);
	is_port(SEND_MIDDLE, PORT(0), "the hold-down has ended: the packet that detects it stays");
	tap_ok(entry_read().steer.flags & ESC_QP_STEER_RETURNS &&
		       entry_read().steer.flowlet_gap_ns >= 1000000,
	       "and waits for a gap of a millisecond, though the rule requested none");
	set_moment(false);
	is_port(SEND_FIRST, PORT(0), "no gap: it stays");
	set_moment(true);
	is_port(SEND_MIDDLE, HOME, "its trigger: back");
	tap_ok(!(entry_read().steer.flags & (ESC_QP_STEER_DIVERTED | ESC_QP_STEER_PENDING)) &&
		       entry_read().steer.trigger == ESC_STEER_TRIGGER_FORCED,
	       "the entry has the trigger");
	give(HOME, 1, 0);
	send_opcode(SEND_MIDDLE);
	path_set_live(1, &dead);
	send_opcode(SEND_MIDDLE);
	path_trust(1);
	send_opcode(SEND_MIDDLE);
	usleep(2000);
	is_port(SEND_MIDDLE, HOME, "an idle gap brings it back");
	path_set_live(1, &dead);
	send_opcode(SEND_MIDDLE);
	path_trust(1);
	send_opcode(SEND_MIDDLE);
	set_moment(false);
	path_set_live(1, &dead);
	is_port(SEND_MIDDLE, PORT(0), "dead again while it waits: it stays");
	set_moment(true);
	is_port(SEND_MIDDLE, PORT(0), "and no longer waits");
}

static void test_backups(void)
{
	struct esc_path path;

	anew();
	give(HOME, 4, 0);
	path_set_live(4, &dead);
	is_port(SEND_MIDDLE, HOME, "no backup: the rule's own port");
	tap_ok(!path_read(4).diverted_ns && !path_read(4).diverted, "and no packet was diverted");
	path_set_backup(4, 6);
	path_set_live(6, &dead);
	is_port(SEND_MIDDLE, HOME, "a dead backup: the rule's own port");
	path_set_live(6, NULL);
	is_port(SEND_MIDDLE, PORT(6), "it is up: it is taken");
	path_set_backup(4, 7);
	is_port(SEND_MIDDLE, PORT(6), "another backup: a queue pair on a live one stays there");
	path_set_live(6, &dead);
	is_port(SEND_MIDDLE, PORT(7), "until it fails");
	path_set_live(7, &dead);
	is_port(SEND_MIDDLE, HOME, "all dead: the rule's own port");
	path_set_live(7, NULL);
	is_port(SEND_MIDDLE, PORT(7), "and the backup as soon as it is up");
	path_set_backup(4, ESC_PATH_NONE);
	is_port(SEND_MIDDLE, PORT(7), "it stays while there is no other");
	path_set_live(4, NULL);
	path_set_live(7, &dead);
	is_port(SEND_MIDDLE, HOME, "its path is up, the backup failed: back at once");
	path = path_read(7);
	path.live = (struct pathlive_path){0};
	path.sport = 0;
	path_write(7, &path);
	path_set_backup(4, 7);
	path_set_live(4, &dead);
	is_port(SEND_MIDDLE, HOME, "a backup without a port is none");
	path_set_backup(4, 16);
	is_port(SEND_MIDDLE, HOME, "nor is one that cannot be");
}

static void test_slots(void)
{
	struct esc_paths slot;
	struct esc_path path;

	anew();
	give(HOME, 1, 0);
	path = path_read(1);
	path.live = dead;
	path.deadline_ns = 0;
	path_write(1, &path);
	is_port(SEND_MIDDLE, HOME, "without a deadline nothing is evaluated");
	path.deadline_ns = 3000000;
	path_write(1, &path);
	slot = slot_read();
	slot.peer = 0;
	slot_write(&slot);
	is_port(SEND_MIDDLE, HOME, "a slot that is free diverts no packet");
	slot.peer = 99;
	slot.key.dst.bytes[15]++;
	slot_write(&slot);
	is_port(SEND_MIDDLE, HOME, "nor one that is another pair's by now");
	slot.key.dst.bytes[15]--;
	slot_write(&slot);
	is_port(SEND_MIDDLE, PORT(0), "its own does");
	slot = slot_read();
	slot.peer = 0;
	slot_write(&slot);
	is_port(SEND_MIDDLE, PORT(0), "freed meanwhile: it stays");
	set_moment(true);
	is_port(SEND_MIDDLE, HOME, "and goes back at its trigger");
	{
		struct esc_qp_key key = key_of();
		struct esc_steer steer = {.number = ++order,
					  .sport = HOME,
					  .flags = ESC_STEER_PATH,
					  .slot = ESC_PATH_SLOTS_MAX,
					  .path = 255};

		steer_rule(&w, &key, &steer);
		steer_control(&w, ++generation);
		is_port(SEND_MIDDLE, HOME, "a rule with a slot that cannot be: its port");
	}
}

static void test_rules(void)
{
	anew();
	give(0, 1, 0);
	path_set_live(1, &dead);
	is_port(SEND_MIDDLE, PORT(0), "diverted");
	give(PORT(9), 9, FAR_NS);
	is_port(SEND_MIDDLE, PORT(0), "a rule for another path waits on the backup");
	set_moment(true);
	is_port(SEND_MIDDLE, PORT(9), "and takes effect at its trigger");
	give(0, 1, 0);
	is_port(SEND_MIDDLE, PORT(0), "a rule for a path that is dead: the backup at once");
	anew();
	give(HOME, 4, 0);
	send_opcode(SEND_MIDDLE);
	path_set_live(4, &dead);
	give(PORT(9), 9, FAR_NS);
	is_port(SEND_MIDDLE, PORT(9), "nothing waits on a path that is dead");
	tap_ok(entry_read().steer.trigger == ESC_STEER_TRIGGER_DEAD &&
		       entry_read().steer.applied == order,
	       "the entry has the reason");
	give(PORT(9), 8, FAR_NS);
	send_opcode(SEND_MIDDLE);
	tap_ok(entry_read().steer.applied == order && entry_read().steer.path == 8,
	       "a rule that changes no port waits for nothing");
	give(0, ESC_PATH_NONE, 0);
	path_set_live(8, &dead);
	is_port(SEND_MIDDLE, SPORT, "a rule without a path follows none");
}

/* --- the daemon falls silent, in each state --- */

static void into_rule(void)
{
	anew();
	give(HOME, 1, FAR_NS);
	is_port(SEND_MIDDLE, SPORT, "a rule waits");
}

static void into_move(void)
{
	anew();
	give(HOME, 1, 0);
	is_port(SEND_MIDDLE, HOME, "moved");
}

static void into_next_rule(void)
{
	into_move();
	give(PORT(9), 9, FAR_NS);
	is_port(SEND_MIDDLE, HOME, "moved, and another rule waits");
}

static void into_backup(void)
{
	anew();
	give(HOME, 1, 0);
	path_set_live(1, &dead);
	is_port(SEND_MIDDLE, PORT(0), "diverted");
}

static void into_rule_on_backup(void)
{
	into_backup();
	give(PORT(9), 9, FAR_NS);
	is_port(SEND_MIDDLE, PORT(0), "diverted, and a rule waits");
}

static void into_return(void)
{
	into_backup();
	path_trust(1);
	send_opcode(SEND_MIDDLE);
	set_moment(false);
	is_port(SEND_MIDDLE, PORT(0), "a return waits");
}

static void into_nowhere(void)
{
	into_move();
	path_set_backup(1, ESC_PATH_NONE);
	path_set_live(1, &dead);
	is_port(SEND_MIDDLE, HOME, "dead, and there is no backup");
}

static void beat(uint64_t at_ns)
{
	struct esc_control word = {
		.flags = ESC_CONTROL_STEER,
		.heartbeat_local_ns = at_ns,
		.steer_generation = generation,
		.steer_ports = 1u << w.port,
	};

	world_set_control(&w, &word);
	usleep(12000); /* a jiffy is 10 ms at most */
}

static void test_silence(void)
{
	static void (*const into[])(void) = {
		into_rule,	     into_move,	  into_next_rule, into_backup,
		into_rule_on_backup, into_return, into_nowhere,
	};

	for (size_t i = 0; i < sizeof(into) / sizeof(into[0]); i++) {
		into[i]();
		beat(steer_now_ns() - ESC_HEARTBEAT_TIMEOUT_NS - 1000000);
		is_port(SEND_MIDDLE, SPORT, "2 s without a heartbeat: unchanged");
		tap_ok(entry_read().steer.flags == ESC_QP_STEER_LAPSED, "and no path is followed");
		set_moment(true);
		is_port(SEND_FIRST, SPORT, "nor does anything wait");
		beat(steer_now_ns());
		is_port(SEND_MIDDLE, SPORT,
			"the heart beats again: the old order stays without force");
		give(HOME, ESC_PATH_NONE, 0);
		is_port(SEND_MIDDLE, HOME, "and a new one has it");
	}
}

static void test_label(void)
{
	struct esc_qp_key key;
	struct esc_steer steer = {.number = ++order,
				  .flow_label = 0xabcde,
				  .flags = ESC_STEER_LABEL | ESC_STEER_PATH,
				  .path = 1,
				  .slot = SLOT};

	ip = 6;
	anew();
	key = key_of();
	steer_rule(&w, &key, &steer);
	steer_control(&w, ++generation);
	send_opcode(SEND_MIDDLE);
	path_set_live(1, &dead);
	send_opcode(SEND_MIDDLE);
	tap_ok(entry_read().steer.sport == PORT(0) &&
		       entry_read().steer.flags & ESC_QP_STEER_LABEL && !entry_read().steer.refused,
	       "IPv6: a diverted packet keeps the order's flow label");
	ip = 4;
}

/* --- at random --- */

#define NOTHING (-1)

/* What the rules define, by ports and paths rather than by flags. */
static struct model {
	bool given; /* a rule not looked up yet */
	int given_sport, given_path;
	bool any;	/* a rule is in force */
	int home, path; /* path: NOTHING for none */
	int backup;	/* path that it is on; NOTHING: at home */
	int backup_port;
	enum { WAIT_NOTHING, WAIT_ORDER, WAIT_RETURN } waits;
	int next_sport, next_path;
	bool due;
} m;

static bool model_dead(const struct esc_path *path)
{
	return path->deadline_ns && path->live.unconfirmed == dead.unconfirmed;
}

static int model_port(void)
{
	return m.backup == NOTHING ? m.home : m.backup_port;
}

static void model_arrive(void)
{
	m.home = m.next_sport;
	m.path = m.next_path;
	m.backup = NOTHING;
	m.waits = WAIT_NOTHING;
	m.any = true;
}

static bool model_lives(const struct esc_paths *slot, int path)
{
	return slot->paths[path].sport && !model_dead(&slot->paths[path]);
}

/* The path is dead, or in hold-down. */
static void model_divert(struct esc_paths *slot)
{
	struct esc_path *path = &slot->paths[m.path];
	int backup = m.backup;

	if (m.waits == WAIT_RETURN)
		m.waits = WAIT_NOTHING;
	if (backup == NOTHING || !model_lives(slot, backup) ||
	    slot->paths[backup].sport != m.backup_port)
		backup = path->backup < 16 && model_lives(slot, path->backup) ? path->backup
									      : NOTHING;
	if (backup == NOTHING) {
		if (m.backup == NOTHING && !model_dead(path))
			return;
		if (m.waits == WAIT_ORDER)
			model_arrive();
		m.backup = NOTHING;
		return;
	}
	m.backup = backup;
	m.backup_port = slot->paths[backup].sport;
	path->diverted++;
	path->diverted_ns = 1; /* some time */
}

/* The port of the next packet; @slot as it is, and then as it is left. */
static int model_step(struct esc_paths *slot, bool slot_ours)
{
	if (m.given) {
		m.given = false;
		m.waits = WAIT_ORDER;
		m.next_sport = m.given_sport;
		m.next_path = m.given_path;
		m.due = false;
	}
	if (m.waits != WAIT_NOTHING && (m.due || m.next_sport == model_port()))
		model_arrive();
	if (m.any && m.path != NOTHING) {
		struct esc_path *path = &slot->paths[m.path];

		if (slot_ours && (path->diverted_ns || model_dead(path))) {
			model_divert(slot);
		} else if (m.backup != NOTHING && m.waits == WAIT_NOTHING) {
			m.waits = WAIT_RETURN;
			m.next_sport = m.home;
			m.next_path = m.path;
			m.due = false;
		}
	}
	return m.any && model_port() ? model_port() : SPORT;
}

static void random_path(struct esc_paths *slot)
{
	struct esc_path *path = &slot->paths[steer_below(5)];

	switch (steer_below(7)) {
	case 0:
	case 1:
		path->live = dead;
		break;
	case 2:
		path->live = steer_below(2) ? silent : (struct pathlive_path){0};
		break;
	case 3:
		path->diverted_ns = 0;
		if (steer_below(4))
			path->live = (struct pathlive_path){0};
		break;
	case 4:
		path->backup = steer_below(6) ? steer_below(5) : ESC_PATH_NONE;
		break;
	case 5:
		path->sport = steer_below(4) ? PORT(path - slot->paths) + 100 * steer_below(2) : 0;
		break;
	default:
		path->deadline_ns = steer_below(3) ? 3000000 : 0;
	}
}

static void random_rule(void)
{
	m.given = true;
	m.given_path = steer_below(6) ? (int)steer_below(5) : NOTHING;
	m.given_sport = steer_below(3) ? PORT(steer_below(6)) : 0;
	give(m.given_sport, m.given_path == NOTHING ? ESC_PATH_NONE : m.given_path, FAR_NS);
}

static bool same_slot(const struct esc_paths *have, const struct esc_paths *want)
{
	for (int i = 0; i < ESC_PATHS_MAX; i++)
		if (have->paths[i].diverted != want->paths[i].diverted ||
		    !have->paths[i].diverted_ns != !want->paths[i].diverted_ns) {
			printf("# path %d: %llu diverted (must be %llu), since %llu\n", i,
			       (unsigned long long)have->paths[i].diverted,
			       (unsigned long long)want->paths[i].diverted,
			       (unsigned long long)have->paths[i].diverted_ns);
			return false;
		}
	return true;
}

static uint32_t run_random(uint32_t steps, uint32_t *diverted)
{
	static const uint8_t opcodes[] = {SEND_MIDDLE, SEND_FIRST, ACKNOWLEDGE, RESPONSE_MIDDLE};
	struct esc_paths slot;
	uint32_t done;
	int port, got;

	m = (struct model){.path = NOTHING, .backup = NOTHING};
	anew();
	for (done = 0; done < steps; done++) {
		slot = slot_read();
		if (!steer_below(3))
			random_path(&slot);
		if (!steer_below(20))
			slot.peer = steer_below(6) ? 99 : 0;
		if (!steer_below(20))
			slot.key.src.bytes[15] = key_of().src.bytes[15] + !steer_below(6);
		slot_write(&slot);
		if (!steer_below(25))
			random_rule();
		if (!m.given && m.waits != WAIT_NOTHING) {
			m.due = !steer_below(4);
			set_moment(m.due);
		}
		shape = steer_below(FRAME_SHAPES);
		port = model_step(&slot,
				  slot.peer && slot.key.src.bytes[15] == key_of().src.bytes[15]);
		got = send_opcode(opcodes[steer_below(4)]);
		*diverted += m.backup != NOTHING;
		struct esc_paths have = slot_read();
		if (got != port || !same_slot(&have, &slot)) {
			printf("# step %u: port %d, must be %d (path %d, home %d, backup %d)\n",
			       done, got, port, m.path, m.home, m.backup);
			break;
		}
	}
	shape = FRAME_PLAIN;
	return done;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) * 7919 + 1;
	uint32_t steps = argc > 2 ? strtoul(argv[2], NULL, 0) : STEPS, diverted, done;

	printf("# seed %llu (repeat with: test_failover %llu %u)\n", (unsigned long long)seed,
	       (unsigned long long)seed, steps);
	steer_random_state = seed;
	if (world_open(&w, &(struct world_options){.port = 2}))
		return tap_bail("the programs do not load");
	test_death();
	test_return();
	test_backups();
	test_slots();
	test_rules();
	test_silence();
	test_label();
	for (ip = 4; ip <= 6; ip += 2) {
		diverted = 0;
		done = run_random(steps, &diverted);
		tap_ok(done == steps && diverted > steps / 20,
		       "IPv%u: %u of %u random steps as the rules define, %u packets on a backup",
		       ip, done, steps, diverted);
	}
	world_close(&w);
	return tap_end();
}
