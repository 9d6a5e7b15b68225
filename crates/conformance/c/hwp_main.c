// SPDX-License-Identifier: GPL-2.0
/*
 * Runs intel_pstate's HWP dynamic boost, cut out of drivers/cpufreq/intel_pstate.c, over a log of
 * utilisation updates. The answer is the minimum performance in HWP_REQUEST after the update.
 */
#include "events.h"

#define MSR_HWP_REQUEST			0x774
#define HWP_GUARANTEED_PERF(cap)	(((cap) >> 8) & 0xff)

struct cpudata {
	struct {
		u64 time;
	} sample;
	u64 last_update;
	u64 last_io_update;
	u64 hwp_req_cached;
	u64 hwp_cap_cached;
	unsigned int sched_flags;
	u32 hwp_boost_min;
};

static u64 hwp_request;

/* Called wrmsrq from Linux 6.16 on. */
#define wrmsrq(msr, value)		wrmsrl(msr, value)

static inline void wrmsrl(u32 msr, u64 value)
{
	hwp_request = value;
}

#include CUT_SOURCE

struct wp_machine wp_now;
static struct cpudata this_cpu;

static void event_start(const struct event_case *c)
{
	memset(&this_cpu, 0, sizeof(this_cpu));
	/* Desired performance and the preference are set too, so that a lost bit would show. */
	this_cpu.hwp_req_cached = c->levels[0] | c->levels[2] << 8 | 0x80ULL << 24;
	this_cpu.hwp_cap_cached = c->levels[2] | c->levels[1] << 8;
	hwp_request = this_cpu.hwp_req_cached;
}

static u32 event_update(const struct event_record *event)
{
	if (event->flags & EVENT_IOWAIT)
		this_cpu.sched_flags |= SCHED_CPUFREQ_IOWAIT;
	intel_pstate_update_util_hwp_local(&this_cpu, event->time);
	if ((hwp_request ^ this_cpu.hwp_req_cached) & ~0xffULL)
		wp_die("the boost changed more than the minimum");
	return hwp_request & 0xff;
}

EVENTS_MAIN
