/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A governor and the CPU that it runs for: registered, booted, asked and told. Included by the program of the
 * conformance check and by the one that serves questions.
 */
#ifndef WAKEPATH_GOVERNOR_DEVICE_H
#define WAKEPATH_GOVERNOR_DEVICE_H

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

/* The ends of the sections of module parameters and of per-CPU data; a governor without them has none. */
extern const struct wp_param __start_wp_params[] __attribute__((weak));
extern const struct wp_param __stop_wp_params[] __attribute__((weak));
extern char __start_wp_percpu[] __attribute__((weak));
extern char __stop_wp_percpu[] __attribute__((weak));

/* What the parameters were at first. */
static u32 initial[32];
static bool has_initial;

static u32 param_value(const struct wp_param *param)
{
	return param->size == sizeof(bool) ? *(bool *)param->value : *(u32 *)param->value;
}

static void keep_initial(void)
{
	const struct wp_param *param;

	if (has_initial)
		return;
	has_initial = true;
	for (param = __start_wp_params; param < __stop_wp_params; param++) {
		if (param - __start_wp_params == ARRAY_SIZE(initial))
			wp_die("more module parameters than expected");
		if (param->size != sizeof(bool) && param->size != sizeof(u32))
			wp_die("a module parameter of an unexpected size");
		initial[param - __start_wp_params] = param_value(param);
	}
}

/* Sets a parameter that the governor may have, or puts it back. */
static void set_param(const char *name, bool keep, u32 value)
{
	const struct wp_param *param;

	for (param = __start_wp_params; param < __stop_wp_params; param++) {
		if (strcmp(param->name, name))
			continue;
		if (keep)
			value = initial[param - __start_wp_params];
		if (param->size == sizeof(bool))
			*(bool *)param->value = value;
		else
			*(u32 *)param->value = value;
	}
}

/* A CPU that was just booted with the states of this case. */
static void start(const struct case_record *c, const struct state_record *states)
{
	bool keep = c->halt_poll_allow_shrink == KEEP_DEFAULTS;
	u32 i;

	keep_initial();
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

#endif
