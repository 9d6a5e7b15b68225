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
 *   governor STATES.csv CALLS.csv   text as in `wakepath policy idle`: prints index,stop_tick
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "governor_device.h"

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

int main(int argc, char **argv)
{
	size_t size;
	char *data;

	if (wp_initcall() || !governor)
		wp_die("the governor did not register itself: it needs cpuidle_register_governor() of one with .select");

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
