// SPDX-License-Identifier: GPL-2.0
/*
 * Runs schedutil's iowait boost, cut out of kernel/sched/cpufreq_schedutil.c, over a log of
 * utilisation updates, in the kernel's order: boost, note the time, apply. An update of another CPU
 * in the frequency domain applies this CPU's boost without the rest.
 *
 * The answer is the boost after the update, scaled to the CPU's capacity. In 6.12
 * sugov_iowait_apply() returns it (-DAPPLY_RETURNS_BOOST); in 6.1 it raises the utilisation to it, so
 * the utilisation is set to 0 first.
 */
#include "events.h"

#define SCHED_CAPACITY_SHIFT	10
#define SCHED_CAPACITY_SCALE	(1L << SCHED_CAPACITY_SHIFT)

/* Utilisation clamps are not set, so they change nothing. */
#define cpu_rq(cpu)	NULL
#define uclamp_rq_util_with(rq, util, task)	(util)

struct update_util_data {
	int unused;
};
struct sugov_policy;

#include CUT_SOURCE

struct wp_machine wp_now;
static struct sugov_cpu this_cpu;

static void event_start(const struct event_case *c)
{
	memset(&this_cpu, 0, sizeof(this_cpu));
}

static u32 event_update(const struct event_record *event)
{
	if (!(event->flags & EVENT_OTHER_CPU)) {
		sugov_iowait_boost(&this_cpu, event->time,
				   event->flags & EVENT_IOWAIT ? SCHED_CPUFREQ_IOWAIT : 0);
		this_cpu.last_update = event->time;
	}
#ifdef APPLY_RETURNS_BOOST
	return sugov_iowait_apply(&this_cpu, event->time, event->max_capacity);
#else
	this_cpu.util = 0;
	this_cpu.max = event->max_capacity;
	sugov_iowait_apply(&this_cpu, event->time);
	return this_cpu.util;
#endif
}

EVENTS_MAIN
