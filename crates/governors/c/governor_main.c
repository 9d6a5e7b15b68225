// SPDX-License-Identifier: GPL-2.0
/*
 * Runs one of the kernel's cpuidle governors, linked with this file, over governor call logs.
 *
 *   governor                        cases on standard input, one byte per decision on standard
 *                                   output: the state in bits 6:0, stop_tick in bit 7
 *   governor --poll-limits          the same input; prints the device's polling limit in ns after
 *                                   each call, 8 bytes each, instead of the decision
 *   governor --bench PASSES         the same input; prints nanoseconds per decision (select and
 *                                   reflect) of the fastest of PASSES passes over it
 *   governor --serve                a case without calls, then questions, each answered at once; in seccomp's strict mode
 *   governor STATES.csv CALLS.csv   text as in `wakepath policy idle`: prints index,stop_tick
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cpuidle_standin.h"
#include "record.h"

struct wp_machine wp_now;

static struct cpuidle_governor *governor;
static struct cpuidle_driver driver;
static struct cpuidle_device device;

int cpuidle_register_governor(struct cpuidle_governor *gov)
{
	/* As the kernel's. */
	if (!gov || !gov->select)
		return -EINVAL;
	governor = gov;
	return 0;
}

static struct {
	const char *name;
	void *value;
	size_t size;
	u32 initial;
} params[8];
static size_t param_count;

void wp_register_param(const char *name, void *value, size_t size)
{
	if (param_count == sizeof(params) / sizeof(params[0]))
		wp_die("more module parameters than expected");
	params[param_count].name = name;
	params[param_count].value = value;
	params[param_count].size = size;
	params[param_count].initial = size == sizeof(bool) ? *(bool *)value : *(u32 *)value;
	param_count++;
}

/* Sets a parameter that the governor may have, or puts it back. */
static void set_param(const char *name, bool keep, u32 value)
{
	size_t i;

	for (i = 0; i < param_count; i++) {
		if (strcmp(params[i].name, name))
			continue;
		if (keep)
			value = params[i].initial;
		if (params[i].size == sizeof(bool))
			*(bool *)params[i].value = value;
		else if (params[i].size == sizeof(u32))
			*(u32 *)params[i].value = value;
		else
			wp_die("a module parameter of an unexpected size");
	}
}

/* The ends of the per-CPU section; a governor without per-CPU data has none. */
extern char __start_wp_percpu[] __attribute__((weak));
extern char __stop_wp_percpu[] __attribute__((weak));

/* A CPU that was just booted with the states of this case. */
static void start(const struct case_record *c, const struct state_record *states)
{
	bool keep = c->halt_poll_allow_shrink == KEEP_DEFAULTS;
	u32 i;

	if (__start_wp_percpu)
		memset(__start_wp_percpu, 0, __stop_wp_percpu - __start_wp_percpu);
	memset(&driver, 0, sizeof(driver));
	memset(&device, 0, sizeof(device));
	memset(&wp_now, 0, sizeof(wp_now));

	driver.state_count = c->state_count;
	for (i = 0; i < c->state_count; i++) {
		driver.states[i].exit_latency_ns = states[i].exit_latency;
		driver.states[i].target_residency_ns = states[i].target_residency;
		if (states[i].flags & STATE_POLLING)
			driver.states[i].flags = CPUIDLE_FLAG_POLLING;
		device.states_usage[i].disable = !!(states[i].flags & STATE_DISABLED);
	}

	set_param("guest_halt_poll_ns", keep, c->halt_poll_ns);
	set_param("guest_halt_poll_shrink", keep, c->halt_poll_shrink);
	set_param("guest_halt_poll_grow", keep, c->halt_poll_grow);
	set_param("guest_halt_poll_grow_start", keep, c->halt_poll_grow_start);
	set_param("guest_halt_poll_allow_shrink", keep, c->halt_poll_allow_shrink);

	if (governor->enable && governor->enable(&driver, &device))
		wp_die("the governor refused the device");
}

/* One select. */
static inline int choose(const struct call_record *call, bool *stop_tick)
{
	wp_now.sleep_length = call->sleep_length;
	wp_now.delta_tick = call->delta_tick;
	wp_now.latency_req = call->latency_req;
	wp_now.clock = call->select_clock;
	wp_now.nr_iowait = call->nr_iowait;
	wp_now.tick_stopped = call->tick_stopped;

	*stop_tick = true;
	return governor->select(&driver, &device, stop_tick);
}

/* One reflect, unless the driver refused the state. */
static inline void tell(const struct call_record *call, int idx)
{
	device.last_residency_ns = call->residency;
	if (call->residency) {
		if (driver.states[idx].flags & CPUIDLE_FLAG_POLLING)
			device.poll_time_limit = call->poll_limit_hit;
		wp_now.got_tick = call->got_tick;
		wp_now.clock = call->reflect_clock;
		if (governor->reflect)
			governor->reflect(&device, idx);
	}
}

static inline u8 decide(const struct call_record *call)
{
	bool stop_tick;
	int idx = choose(call, &stop_tick);

	tell(call, idx);
	return (u8)idx | (stop_tick ? 0x80 : 0);
}

/* Steps to the next case; NULL at the end of the input. */
static const struct case_record *next_case(const char **at, const char *end,
					   const struct state_record **states,
					   const struct call_record **calls)
{
	const struct case_record *c = (const void *)*at;

	if (*at == end)
		return NULL;
	if ((size_t)(end - *at) < sizeof(*c) || c->magic != CASE_MAGIC ||
	    !c->state_count || c->state_count > CPUIDLE_STATE_MAX)
		wp_die("broken case record");
	*states = (const void *)(c + 1);
	*calls = (const void *)(*states + c->state_count);
	*at = (const void *)(*calls + c->call_count);
	if (*at > end)
		wp_die("truncated case");
	return c;
}

static void run(const char *data, size_t size, bool poll_limits)
{
	const struct state_record *states;
	const struct call_record *calls;
	const struct case_record *c;
	const char *at = data;
	u8 *decisions = malloc(size / sizeof(*calls) + 1);
	u64 *limits = malloc(size / sizeof(*calls) * sizeof(u64) + 1);
	size_t count = 0;
	u32 i;

	if (!decisions || !limits)
		wp_die("out of memory");
	while ((c = next_case(&at, data + size, &states, &calls))) {
		start(c, states);
		for (i = 0; i < c->call_count; i++, count++) {
			u8 toggle = calls[i].toggle;

			if (toggle)
				device.states_usage[TOGGLE_STATE(toggle)].disable =
					TOGGLE_OFF(toggle);
			decisions[count] = decide(&calls[i]);
			limits[count] = device.poll_limit_ns;
		}
	}
	if (poll_limits)
		wp_write_all(limits, count * sizeof(*limits));
	else
		wp_write_all(decisions, count);
}

static u64 monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static void bench(const char *data, size_t size, long passes)
{
	double best = 0;
	unsigned int sink = 0;
	long pass;

	for (pass = 0; pass < passes; pass++) {
		const struct state_record *states;
		const struct call_record *calls;
		const struct case_record *c;
		const char *at = data;
		u64 total = 0, count = 0;
		double ns;

		while ((c = next_case(&at, data + size, &states, &calls))) {
			u64 begin;
			u32 i;

			start(c, states);
			begin = monotonic_ns();
			for (i = 0; i < c->call_count; i++)
				sink += decide(&calls[i]);
			total += monotonic_ns() - begin;
			count += c->call_count;
		}
		ns = (double)total / count;
		if (!pass || ns < best)
			best = ns;
	}
	printf("%.3f %u\n", best, sink);
}

static void run_text(const char *states_path, const char *calls_path)
{
	struct case_record c = { .halt_poll_allow_shrink = KEEP_DEFAULTS };
	struct state_record states[CPUIDLE_STATE_MAX] = { 0 };
	FILE *file = fopen(states_path, "r");
	int polling, disabled, stopped, tick, limit;
	struct call_record call = { 0 };

	if (!file)
		wp_die("cannot open the state table");
	while (c.state_count < CPUIDLE_STATE_MAX &&
	       fscanf(file, " %*[^,],%lld,%lld,%d,%d", &states[c.state_count].exit_latency,
		      &states[c.state_count].target_residency, &polling, &disabled) == 4) {
		states[c.state_count].flags = (polling ? STATE_POLLING : 0) |
					      (disabled ? STATE_DISABLED : 0);
		c.state_count++;
	}
	fclose(file);
	start(&c, states);

	file = fopen(calls_path, "r");
	if (!file)
		wp_die("cannot open the call log");
	while (fscanf(file, "%lld,%lld,%d,%lld,%" SCNu32 ",%llu,%llu,%llu,%d,%d",
		      &call.sleep_length, &call.delta_tick, &stopped, &call.latency_req,
		      &call.nr_iowait, &call.select_clock, &call.reflect_clock,
		      &call.residency, &tick, &limit) == 10) {
		u8 decision;

		call.tick_stopped = stopped;
		call.got_tick = tick;
		call.poll_limit_hit = limit;
		decision = decide(&call);
		printf("%u,%u\n", decision & 0x7f, decision >> 7);
	}
	fclose(file);
}

/* What the exit status of one that does not come to an end says. */
#define EXIT_ENDLESS	86

static volatile u64 answered;

/* Every second of processor time: the governor must have answered something since the last. */
static void look(int signal)
{
	static u64 last = -1ULL;

	if (answered == last)
		syscall(SYS_exit, EXIT_ENDLESS);
	last = answered;
}

static bool is_served(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[1], "--serve");
}

/* Before any code of the governor, its constructors included. */
static void confine(int argc, char **argv)
{
	struct itimerval second = { { 1, 0 }, { 1, 0 } };

	if (!is_served(argc, argv))
		return;
	signal(SIGVTALRM, look);
	setitimer(ITIMER_VIRTUAL, &second, NULL);
	/* From here on it can read, write and end. A kernel without seccomp leaves it the limits that it was started with. */
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
}

__attribute__((section(".preinit_array"), used))
static void (*const confine_first)(int, char **) = confine;

/* Reads one record; ends the program at the end of the input. */
static void take(void *record, size_t size)
{
	char *at = record;

	while (size) {
		ssize_t got = read(0, at, size);

		if (!got)
			syscall(SYS_exit, 0);
		if (got < 0)
			wp_die("cannot read");
		at += got;
		size -= got;
	}
}

static void serve(void)
{
	struct state_record states[CPUIDLE_STATE_MAX];
	struct case_record c;

	take(&c, sizeof(c));
	if (c.magic != CASE_MAGIC || !c.state_count || c.state_count > CPUIDLE_STATE_MAX)
		wp_die("broken case record");
	take(states, c.state_count * sizeof(states[0]));
	start(&c, states);
	for (;;) {
		struct answer_record answer = { 0 };
		struct question_record question;
		const struct call_record *call = &question.call;
		bool stop_tick;

		take(&question, sizeof(question));
		if (question.ask & ASK_TOGGLE) {
			device.states_usage[TOGGLE_STATE(call->toggle)].disable = TOGGLE_OFF(call->toggle);
			continue;
		}
		if (question.ask & ASK_REFLECT)
			tell(call, question.entered);
		wp_now.utilisation = question.utilisation;
		answer.state = choose(call, &stop_tick);
		answer.stop_tick = stop_tick;
		answer.poll_limit = device.poll_limit_ns;
		answered++;
		if (write(1, &answer, sizeof(answer)) != sizeof(answer))
			wp_die("cannot write");
	}
}

int main(int argc, char **argv)
{
	size_t size;
	char *data;

	if (wp_initcall() || !governor)
		wp_die("the governor did not register itself: it needs cpuidle_register_governor() of one with .select");

	if (is_served(argc, argv))
		serve();
	if (argc == 3 && strcmp(argv[1], "--bench")) {
		run_text(argv[1], argv[2]);
		return 0;
	}
	data = wp_read_all(&size);
	if (argc == 3)
		bench(data, size, atol(argv[2]));
	else
		run(data, size, argc == 2);
	return 0;
}
