// SPDX-License-Identifier: GPL-2.0
/*
 * Runs intel_pstate's algorithm without HWP, cut out of drivers/cpufreq/intel_pstate.c, over a log
 * of utilisation updates with the CPU's counters. The answer holds the iowait boost after the
 * update (256 is the whole of the scale) in its low half and the P-state in force in its high half,
 * 0xffff being none so far.
 */
#include "events.h"

enum { MSR_IA32_APERF, MSR_IA32_MPERF, MSR_IA32_PERF_CTL };

struct update_util_data {
	int unused;
};

static struct event_record counters;

#define rdmsrl(msr, value) \
	((value) = (msr) == MSR_IA32_APERF ? counters.aperf : counters.mperf)
#define rdtsc()			(counters.tsc)
#define wrmsrl(msr, value)	do { } while (0)
/* Their names from Linux 6.16 on. */
#define rdmsrq(msr, value)	rdmsrl(msr, value)
#define wrmsrq(msr, value)	wrmsrl(msr, value)
#define local_irq_save(flags)	((void)(flags))
#define local_irq_restore(flags)	((void)(flags))
#define trace_cpu_frequency(...)	do { } while (0)
#define trace_pstate_sample(...)	do { } while (0)

static struct {
	bool no_turbo;
} global;

#include CUT_SOURCE

struct wp_machine wp_now;
static struct cpudata this_cpu;

static void event_start(const struct event_case *c)
{
	memset(&this_cpu, 0, sizeof(this_cpu));
	this_cpu.pstate.current_pstate = -1;
	this_cpu.pstate.min_pstate = c->levels[0];
	this_cpu.pstate.max_pstate = c->levels[1];
	this_cpu.pstate.max_pstate_physical = c->levels[2];
	this_cpu.pstate.turbo_pstate = c->levels[3];
	this_cpu.min_perf_ratio = c->levels[4];
	this_cpu.max_perf_ratio = c->levels[5];
}

static u32 event_update(const struct event_record *event)
{
	counters = *event;
	intel_pstate_update_util(&this_cpu.update_util, event->time,
				 event->flags & EVENT_IOWAIT ? SCHED_CPUFREQ_IOWAIT : 0);
	return this_cpu.iowait_boost | (u32)this_cpu.pstate.current_pstate << 16;
}

EVENTS_MAIN
