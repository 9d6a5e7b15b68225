// SPDX-License-Identifier: GPL-2.0
/*
 * An idle governor for an example: a CPU will be idle for as long as it was the last time.
 *
 * It takes the deepest state that pays off within that time, or within the time to the next timer if that is shorter,
 * and that can be left soon enough. last-idle.rs beside it does the same as a program.
 */
#include <linux/cpuidle.h>
#include <linux/percpu.h>
#include <linux/tick.h>

struct last_idle {
	u64 idle_ns;
};

static DEFINE_PER_CPU(struct last_idle, last_idle);

static int last_idle_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	per_cpu_ptr(&last_idle, dev->cpu)->idle_ns = TICK_NSEC;
	return 0;
}

static int last_idle_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct last_idle *data = per_cpu_ptr(&last_idle, dev->cpu);
	s64 limit = cpuidle_governor_latency_req(dev->cpu);
	ktime_t delta_tick;
	s64 expected = min_t(s64, data->idle_ns, tick_nohz_get_sleep_length(&delta_tick));
	int i, chosen = -1;

	for (i = 0; i < drv->state_count; i++) {
		struct cpuidle_state *s = &drv->states[i];

		if (dev->states_usage[i].disable)
			continue;
		/* The shallowest that is on, whatever it costs; deeper ones only if they pay off. */
		if (chosen < 0 || (s->target_residency_ns <= expected && s->exit_latency_ns <= limit))
			chosen = i;
	}
	*stop_tick = expected >= TICK_NSEC;
	return max(chosen, 0);
}

static void last_idle_reflect(struct cpuidle_device *dev, int index)
{
	per_cpu_ptr(&last_idle, dev->cpu)->idle_ns = dev->last_residency_ns;
}

static struct cpuidle_governor last_idle_governor = {
	.name = "last-idle",
	.rating = 1,
	.enable = last_idle_enable,
	.select = last_idle_select,
	.reflect = last_idle_reflect,
};

static int __init last_idle_init(void)
{
	return cpuidle_register_governor(&last_idle_governor);
}
postcore_initcall(last_idle_init);
