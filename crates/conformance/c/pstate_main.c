// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the iowait boost of intel_pstate without HWP, cut out of drivers/cpufreq/intel_pstate.c,
 * over a log of utilisation updates. The answer is the boost after the update, 256 being the whole
 * of the scale. Sampling is left out: it does not touch the boost.
 */
#include "events.h"

struct update_util_data {
	int unused;
};

struct cpudata {
	int cpu;
	struct update_util_data update_util;
	struct {
		u64 time;
	} sample;
	u64 last_update;
	unsigned int iowait_boost;
};

#define intel_pstate_sample(cpu, time)	false
#define intel_pstate_adjust_pstate(cpu)	do { } while (0)

#include CUT_SOURCE

struct wp_machine wp_now;
static struct cpudata this_cpu;

static void event_start(const struct event_case *c)
{
	memset(&this_cpu, 0, sizeof(this_cpu));
}

static u32 event_update(const struct event_record *event)
{
	intel_pstate_update_util(&this_cpu.update_util, event->time,
				 event->flags & EVENT_IOWAIT ? SCHED_CPUFREQ_IOWAIT : 0);
	return this_cpu.iowait_boost;
}

EVENTS_MAIN
