// SPDX-License-Identifier: GPL-2.0
/*
 * Pauses for programs and kernel threads that spin without: QEMU with one thread for all CPUs lets another one run only
 * at a `pause`, or when a timer fires, and then not always.
 *
 * io_uring's thread for submissions (`io_sq_thread()`) looks for completed work in each round of its loop, by
 * tctx_task_work_run(): a probe there pauses. A program that looks at its ring makes no calls. So a timer of its CPU
 * pauses at equal intervals.
 */
#include <linux/hrtimer.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/version.h>
#include <asm/processor.h>

static unsigned int cpu;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "the CPU on which a program spins");

static unsigned int interval_ns = 5000;
module_param(interval_ns, uint, 0444);
MODULE_PARM_DESC(interval_ns, "time between two pauses of the CPU");

static struct hrtimer timer;

static enum hrtimer_restart pause_program(struct hrtimer *expired)
{
	cpu_relax();
	hrtimer_forward_now(expired, ns_to_ktime(interval_ns));
	return HRTIMER_RESTART;
}

static int pause_thread(struct kprobe *probe, struct pt_regs *regs)
{
	/* Programs end their own requests there, too. */
	if (!strncmp(current->comm, "iou-sqp-", 8))
		cpu_relax();
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "tctx_task_work_run",
	.pre_handler = pause_thread,
};

static void start_timer(void *unused)
{
	hrtimer_start(&timer, ns_to_ktime(interval_ns), HRTIMER_MODE_REL_PINNED_HARD);
}

static int __init spin_init(void)
{
	int error;

	if (!cpu_online(cpu) || interval_ns < 1000)
		return -EINVAL;
	error = register_kprobe(&probe);
	if (error) {
		pr_err("%s: no probe: error %d\n", probe.symbol_name, error);
		return error;
	}
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
	hrtimer_setup(&timer, pause_program, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
#else
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer.function = pause_program;
#endif
	error = smp_call_function_single(cpu, start_timer, NULL, 1);
	if (error)
		unregister_kprobe(&probe);
	return error;
}

static void __exit spin_exit(void)
{
	hrtimer_cancel(&timer);
	unregister_kprobe(&probe);
}

module_init(spin_init);
module_exit(spin_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Pauses for what spins on a CPU of a virtual machine");
