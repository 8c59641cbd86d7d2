// SPDX-License-Identifier: BSD-2-Clause
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"

#define TICK_SLACK_NS 20000000ull
#define HEARTBEAT_SLACK_NS 25000000ull

#define LOOP_EVENTS(X)                                                                             \
	X(LOOP_DELAYED, "loop_delayed", WARNING,                                                   \
	  "The daemon's loop did not run for half a second; control ends after 2 s without a "     \
	  "heartbeat.",                                                                            \
	  .remedy = "`seen.by` names what took longest. Of `cpu_wait_ns` it could run, and other " \
		    "programs had the CPUs: see CPUWeight= of the unit, or the pod's request.")    \
	X(SYSTEM_CLOCK_SET, "system_clock_set", WARNING,                                           \
	  "The system clock was set: times of events before it are by the old one. Fabric time, "  \
	  "rules and delays do not depend on it.")
enum { LOOP_EVENTS(EVENT_ENUM) };
const struct event_kind core_loop_events[] = {LOOP_EVENTS(EVENT_KIND){}};

/* --- timers of the loop: one shot each, set again by what their function returns --- */

/*
 * All are one source of the loop, which otherwise goes round, with its system calls, for each of
 * them. It wakes when the first of them may wait no longer, and runs all that are due. Those
 * that wait are listed in the order in which they are due.
 */

struct core_timer {
	struct core *core;
	struct core_timer *next;
	uint64_t due_ns, slack_ns; /* CLOCK_MONOTONIC */
	bool *freed;		   /* set when it is freed while its function runs; else NULL */
	core_timer_fn *fn;
	void *context;
};

static void set_wake(struct core *core)
{
	uint64_t wake_ns = UINT64_MAX;

	for (struct core_timer *timer = core->timers; timer && timer->due_ns < wake_ns;
	     timer = timer->next)
		if (timer->due_ns + timer->slack_ns < wake_ns)
			wake_ns = timer->due_ns + timer->slack_ns;
	if (!core->wake || wake_ns == UINT64_MAX)
		return;
	sd_event_source_set_time(core->wake, (wake_ns + 999) / 1000);
	sd_event_source_set_enabled(core->wake, SD_EVENT_ONESHOT);
}

static void take_out(struct core_timer *timer)
{
	struct core_timer **at = &timer->core->timers;

	while (*at && *at != timer)
		at = &(*at)->next;
	if (*at)
		*at = timer->next;
}

static void put_in(struct core_timer *timer, uint64_t due_ns)
{
	struct core_timer **at = &timer->core->timers;

	while (*at && (*at)->due_ns <= due_ns)
		at = &(*at)->next;
	timer->due_ns = due_ns;
	timer->next = *at;
	*at = timer;
}

static void run_timer(struct core_timer *timer)
{
	bool freed = false;
	uint64_t delay_ns;

	take_out(timer);
	timer->freed = &freed;
	delay_ns = timer->fn(timer->context, time_local_ns());
	if (freed)
		return;
	timer->freed = NULL;
	if (delay_ns)
		put_in(timer, time_local_ns() + delay_ns);
}

static int on_wake(sd_event_source *source, uint64_t due_us, void *context)
{
	struct core *core = context;
	uint64_t now_ns = time_local_ns();

	(void)source;
	(void)due_us;
	while (core->timers && core->timers->due_ns <= now_ns)
		run_timer(core->timers);
	set_wake(core);
	return 0;
}

int core_timer_new(struct core *core, struct core_timer **out, uint64_t first_ns, uint64_t slack_ns,
		   core_timer_fn *fn, void *context)
{
	struct core_timer *timer = calloc(1, sizeof(*timer));
	int err = 0;

	*out = NULL;
	if (!timer)
		return -ENOMEM;
	if (!core->wake)
		err = sd_event_add_time(core->loop, &core->wake, CLOCK_MONOTONIC, 0, 1, on_wake,
					core);
	if (err < 0) {
		free(timer);
		return err;
	}
	*timer = (struct core_timer){
		.core = core,
		.slack_ns = slack_ns,
		.fn = fn,
		.context = context,
	};
	core->timer_count++;
	put_in(timer, time_local_ns() + first_ns);
	set_wake(core);
	*out = timer;
	return 0;
}

void core_timer_run(struct core_timer *timer)
{
	struct core *core = timer->core;

	run_timer(timer);
	set_wake(core);
}

void core_timer_free(struct core_timer *timer)
{
	if (!timer)
		return;
	take_out(timer);
	if (!--timer->core->timer_count)
		timer->core->wake = sd_event_source_disable_unref(timer->core->wake);
	if (timer->freed)
		*timer->freed = true;
	free(timer);
}

/* --- heartbeat --- */

void core_beat(struct core *core)
{
	uint64_t now_ns = time_local_ns(), last_ns = core_last_beat(core);

	if (!core->heartbeat_local_ns)
		return;
	if (last_ns && now_ns - last_ns > core->pause.silent_ns)
		core->pause.silent_ns = now_ns - last_ns;
	__atomic_store_n(core->heartbeat_local_ns, now_ns, __ATOMIC_RELAXED);
}

struct core_run {
	core_run_fn *fn;
	void *context;
	int result;
};

static void *run_thread(void *context)
{
	struct core_run *run = context;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	run->result = run->fn(run->context);
	return NULL;
}

int core_run(struct core *core, core_run_fn *fn, void *context)
{
	struct core_run run = {.fn = fn, .context = context};
	uint64_t begun_ns = time_local_ns();
	struct timespec until;
	pthread_t thread;
	int err;

	if (pthread_create(&thread, NULL, run_thread, &run))
		return fn(context);
	do {
		if (time_local_ns() - begun_ns < CORE_RUN_NS)
			core_beat(core);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += CORE_HEARTBEAT_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		err = pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until);
	} while (err == ETIMEDOUT);
	core_took(core, "loading programs", begun_ns);
	return run.result;
}

uint64_t core_last_beat(const struct core *core)
{
	return core->heartbeat_local_ns
		       ? __atomic_load_n(core->heartbeat_local_ns, __ATOMIC_RELAXED)
		       : 0;
}

void core_took(struct core *core, const char *name, uint64_t since_local_ns)
{
	uint64_t took_ns = time_local_ns() - since_local_ns;

	if (took_ns <= core->pause.slowest_ns)
		return;
	core->pause.slowest = name;
	core->pause.slowest_ns = took_ns;
}

int core_open_cpu_wait(void)
{
	return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

uint64_t core_cpu_wait_ns(int fd)
{
	uint64_t wait_ns = 0;
	char text[80] = "";

	return pread(fd, text, sizeof(text) - 1, 0) > 0 &&
			       sscanf(text, "%*u %" SCNu64, &wait_ns) == 1
		       ? wait_ns
		       : 0;
}

/* Names what took most of it; `unknown`: the process was stopped, or the machine. */
static void report_pause(const struct core *core, uint64_t gap_ns, uint64_t cpu_wait_ns)
{
	const struct core_pause *pause = &core->pause;
	const char *by = pause->slowest_ns > gap_ns / 2 ? pause->slowest
			 : cpu_wait_ns > gap_ns / 2	? "waiting for a CPU"
							: "unknown";
	bool ended = pause->silent_ns > ESC_HEARTBEAT_TIMEOUT_NS;
	json_t *seen;

	log_warning("the loop was held up for %.3f s by: %s%s", (double)gap_ns / 1e9, by,
		    ended ? "; control had ended meanwhile" : "");
	seen = json_pack("{s:I, s:s}", "duration_ns", (json_int_t)gap_ns, "by", by);
	if (cpu_wait_ns)
		json_put_count(seen, "cpu_wait_ns", cpu_wait_ns);
	events_add(core->events, &(struct event){
					 .kind = &core_loop_events[LOOP_DELAYED],
					 .subject = "daemon",
					 .seen = seen,
					 .result = json_pack("{s:b}", "control_ended", ended),
				 });
}

/* CLOCK_REALTIME is for the times of events alone. It is compared with one that is never set. */
static void check_system_clock(struct core *core)
{
	int64_t offset_ns = (int64_t)(time_realtime_ns() - now_clock_ns(CLOCK_BOOTTIME));
	int64_t step_ns = offset_ns - core->realtime_offset_ns;

	core->realtime_offset_ns = offset_ns;
	if (step_ns < CORE_STEP_NS && step_ns > -CORE_STEP_NS)
		return;
	log_warning("the system clock was set by %+.3f s", (double)step_ns / 1e9);
	events_add(core->events,
		   &(struct event){.kind = &core_loop_events[SYSTEM_CLOCK_SET],
				   .subject = "daemon",
				   .seen = json_pack("{s:I}", "step_ns", (json_int_t)step_ns)});
}

static uint64_t heartbeat_tick(void *context, uint64_t now_ns)
{
	static int cpu_fd = -1; /* of the loop: opening it takes longer than reading */
	struct core *core = context;
	struct core_pause *pause = &core->pause;
	uint64_t gap_ns = pause->beat_local_ns ? now_ns - pause->beat_local_ns : 0, waited_ns;

	if (cpu_fd < 0)
		cpu_fd = core_open_cpu_wait();
	waited_ns = core_cpu_wait_ns(cpu_fd);
	core_beat(core);
	pause->beat_local_ns = now_ns;
	if (gap_ns > pause->longest_ns)
		pause->longest_ns = gap_ns;
	if (gap_ns > CORE_PAUSE_REPORT_NS)
		report_pause(core, gap_ns, waited_ns - pause->cpu_wait_ns);
	pause->cpu_wait_ns = waited_ns;
	pause->slowest_ns = pause->silent_ns = 0;
	core_check_late(core, now_ns);
	check_system_clock(core);
	return CORE_HEARTBEAT_NS;
}

int core_heartbeat_start(struct core *core, uint64_t *heartbeat_local_ns)
{
	core->realtime_offset_ns = (int64_t)(time_realtime_ns() - now_clock_ns(CLOCK_BOOTTIME));
	core_beat(core); /* the last one leaves a successor all of the timeout */
	core->heartbeat_local_ns = heartbeat_local_ns;
	core_beat(core);
	core->pause.silent_ns = 0; /* the time before is not this daemon's */
	if (core->heartbeat || !heartbeat_local_ns)
		return 0;
	return core_timer_new(core, &core->heartbeat, CORE_HEARTBEAT_NS, HEARTBEAT_SLACK_NS,
			      heartbeat_tick, core);
}

/* --- capabilities --- */

static uint64_t module_tick(void *context, uint64_t now_ns)
{
	struct core_module *module = context;

	module->capability->tick(module->self, now_ns);
	core_took(module->core, module->capability->name, now_ns);
	return module->capability->tick_ns;
}

void *core_find(const struct core *core, const char *name)
{
	core_for_each (module, core)
		if (!strcmp(module->capability->name, name))
			return module->self;
	return NULL;
}

int core_open(struct core *core, const struct capability *capability, char **error)
{
	struct core_module *module = &core->modules[core->module_count];
	void *needs[CAPABILITY_NEEDS_MAX + 1] = {};
	int err;

	for (size_t i = 0; capability->needs[i]; i++) {
		needs[i] = core_find(core, capability->needs[i]);
		if (!needs[i])
			return explain(error, -ENOENT, "%s needs %s, which is not open",
				       capability->name, capability->needs[i]);
	}
	*module = (struct core_module){.capability = capability, .core = core};
	err = capability->open(&module->self, core, needs, error);
	if (err)
		return err;
	core->module_count++;
	core_beat(core); /* the loop runs when all are open */
	if (!capability->tick)
		return 0;
	err = core_timer_new(core, &module->timer, capability->tick_ns, TICK_SLACK_NS, module_tick,
			     module);
	return err < 0 ? explain(error, err, "%s: no timer: %s", capability->name, strerror(-err))
		       : 0;
}

void core_close(struct core *core)
{
	core_timer_free(core->kill_file_timer);
	core->kill_file_timer = NULL;
	core_worker_free(core->kill_file_worker);
	core->kill_file_worker = NULL;
	core_worker_free(core->members_worker);
	core->members_worker = NULL;
	while (core->module_count) {
		struct core_module *module = &core->modules[--core->module_count];

		core_timer_free(module->timer);
		if (module->capability->close)
			module->capability->close(module->self);
	}
	core_timer_free(core->heartbeat);
	core->heartbeat = NULL;
}

int core_refresh(struct core *core)
{
	int err = 0;

	core_for_each (module, core) {
		if (!module->capability->refresh)
			continue;
		module->refresh_error = module->capability->refresh(module->self);
		err = err ? err : module->refresh_error;
	}
	return err;
}

void core_links_changed(struct core *core)
{
	core_for_each (module, core)
		if (module->capability->links_changed)
			module->capability->links_changed(module->self);
}

void core_describe_qp(const struct core *core, const struct qp_entry *entry, json_t *qp)
{
	core_for_each (module, core)
		if (module->capability->qp)
			module->capability->qp(module->self, entry, qp);
}

json_t *core_mode(const struct core *core, int slot)
{
	char text[96] = "";

	core_for_each (module, core) {
		const struct capability_mode *mode = module->capability->mode;
		unsigned int ports = mode ? mode->ports(module->self) : 0;

		if (slot < 0 ? ports : ports >> slot & 1)
			text_append(text, sizeof(text), "+", mode->name);
	}
	return json_string(text[0] ? text : "observe");
}

/* --- requests --- */

json_t *request_fail(struct request *request, int exit, char *error)
{
	free(request->error);
	request->exit = exit;
	request->error = error ? error : strdup("out of memory");
	return NULL;
}

json_t *request_misuse(struct request *request, const char *format, ...)
{
	va_list arguments;
	char *error;

	va_start(arguments, format);
	if (vasprintf(&error, format, arguments) < 0)
		error = NULL;
	va_end(arguments);
	return request_fail(request, REQUEST_MISUSE, error);
}

json_t *request_raw(struct request *request, char *text, size_t bytes)
{
	request->text = text;
	request->bytes = bytes;
	return NULL;
}

bool request_has(const struct request *request, const char *name)
{
	const json_t *value = json_object_get(request->args, name);

	return value && !json_is_null(value);
}

const char *request_text(const struct request *request, const char *name, const char *fallback)
{
	const char *given = json_string_value(json_object_get(request->args, name));

	return given ? given : fallback;
}

uint64_t request_count(const struct request *request, const char *name, uint64_t fallback)
{
	return request_has(request, name) ? json_count(request->args, name) : fallback;
}

bool request_flag(const struct request *request, const char *name)
{
	return json_is_true(json_object_get(request->args, name));
}
