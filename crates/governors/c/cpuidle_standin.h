/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of <linux/cpuidle.h> that governors see: a driver's states, a CPU's device, and the
 * governor itself.
 */
#ifndef WAKEPATH_CPUIDLE_H
#define WAKEPATH_CPUIDLE_H

/* Warnings are for what the governor says itself. */
#pragma GCC system_header

#include "kernel_standin.h"

#define CPUIDLE_STATE_MAX	10
#define CPUIDLE_FLAG_POLLING	BIT(0)

struct cpuidle_state {
	s64 exit_latency_ns;
	s64 target_residency_ns;
	unsigned int flags;
};

struct cpuidle_state_usage {
	unsigned long long disable;
};

struct cpuidle_driver {
	struct cpuidle_state states[CPUIDLE_STATE_MAX];
	int state_count;
};

struct cpuidle_device {
	unsigned int poll_time_limit:1;
	unsigned int cpu;
	int last_state_idx;
	u64 last_residency_ns;
	u64 poll_limit_ns;
	struct cpuidle_state_usage states_usage[CPUIDLE_STATE_MAX];
};

struct cpuidle_governor {
	const char *name;
	unsigned int rating;
	int (*enable)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
	void (*disable)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
	int (*select)(struct cpuidle_driver *drv, struct cpuidle_device *dev,
		      bool *stop_tick);
	void (*reflect)(struct cpuidle_device *dev, int index);
};

int cpuidle_register_governor(struct cpuidle_governor *gov);

static inline s64 cpuidle_governor_latency_req(unsigned int cpu)
{
	return wp_now.latency_req;
}

#endif
