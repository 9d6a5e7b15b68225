// SPDX-License-Identifier: GPL-2.0
/*
 * An idle driver for virtual machines, which have none: several states that halt, and then spin for their exit
 * latency, so that the idle governor chooses among real alternatives.
 *
 * The figures are those of the kernel's table for Skylake-SP (intel_idle), C1 to C6, and a made-up deeper one, C8,
 * which has a tick period (4 ms at 250 Hz) and more beyond it to be chosen in.
 */
#include <linux/cpuidle.h>
#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/sched.h>

static int wakepath_idle_enter(struct cpuidle_device *dev, struct cpuidle_driver *drv, int index)
{
	if (!need_resched()) {
		raw_safe_halt();
		raw_local_irq_disable();
	}
	/* Whatever woke the CPU had its interrupt handled; what was woken waits for the exit. */
	udelay(drv->states[index].exit_latency);
	return index;
}

#define STATE(_name, _exit_us, _residency_us)			\
	{							\
		.name = _name,					\
		.desc = "halt, then spin " #_exit_us " us",	\
		.exit_latency = _exit_us,			\
		.target_residency = _residency_us,		\
		.enter = wakepath_idle_enter,			\
	}

static struct cpuidle_driver wakepath_idle_driver = {
	.name = "wakepath_idle",
	.owner = THIS_MODULE,
	.states = {
		{ /* state 0 polls, as on every x86 machine */ },
		STATE("C1", 2, 2),
		STATE("C1E", 10, 20),
		STATE("C6", 133, 600),
		STATE("C8", 300, 2000),
	},
	.state_count = 5,
	.safe_state_index = 1,
};

static int __init wakepath_idle_init(void)
{
	cpuidle_poll_state_init(&wakepath_idle_driver);
	return cpuidle_register(&wakepath_idle_driver, NULL);
}
module_init(wakepath_idle_init);

static void __exit wakepath_idle_exit(void)
{
	cpuidle_unregister(&wakepath_idle_driver);
}
module_exit(wakepath_idle_exit);

MODULE_DESCRIPTION("Idle states for virtual machines, to test wakepath with");
MODULE_LICENSE("GPL");
