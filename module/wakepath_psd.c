// SPDX-License-Identifier: GPL-2.0
/*
 * Power-sleep demotion prevention: a CPU that completes block I/O gets a lease,
 * a limit on the exit latency of its idle states that lasts until some
 * milliseconds after the last completion.
 *
 * Idle governors respect the smallest resume-latency request of the CPU's
 * device. Changing a request (dev_pm_qos_update_request) takes a mutex, and a
 * completion comes in an interrupt. So a work item does it: queued on the
 * completing CPU, it runs there before the CPU can idle again, whatever its
 * priority, because the idle task runs only when nothing else wants to. The
 * first idle period after the first completion has the limit already, unless
 * another CPU holds the mutex, which all CPUs share, at that moment.
 *
 * The tracepoint fires before the completion wakes the task that waits for it.
 * Work queued there would make the CPU look busy, so that the scheduler would
 * put the task on another CPU, which sleeps, and the I/O would wait for that
 * one, too. So a tasklet queues the work, after the completion.
 *
 * What makes it cheap is that the work item is queued once per lease and not
 * per completion. While a lease holds, a completion reads the clock and writes
 * one word. A timer, on the same CPU, looks at that word when the lease would
 * end: it moves on to the new end or, if there is none, has the work item
 * withdraw the limit. It also wakes a CPU that rests in a shallow state, so
 * that it chooses again.
 *
 * There are ways without the work item, each with a price. The word that
 * governors read, in dev->power.qos, can be written in an interrupt, but the
 * lock under which it is worked out from all requests is not exported: limits
 * that others set meanwhile would be lost, or ours. Flags that switch states
 * off, in the CPU's cpuidle_device, race with their file in sysfs.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/pm_qos.h>
#include <linux/seq_file.h>
#include <linux/tracepoint.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <trace/events/block.h>

#define TIMEOUT_MS_MAX	10000
#define NO_LIMIT	PM_QOS_RESUME_LATENCY_NO_CONSTRAINT

/* Both can be changed; a lease that holds takes notice when its timer fires. */
static unsigned int timeout_ms = 3;
static unsigned int ceiling_us = 20;

/*
 * Everything here is written on its own CPU only: by the probe in any context,
 * by the timer in an interrupt, by the work item and the hotplug callbacks in
 * threads of the CPU. So they see each other's writes in program order.
 */
struct psd_cpu {
	/* The CPU is online and has a request; nothing happens without. */
	bool active;
	/*
	 * The limit is asked for, or in force with the timer running: a
	 * completion only moves lease_end.
	 */
	bool held;
	ktime_t lease_end;
	unsigned long completions;

	struct tasklet_struct after_completion;
	struct work_struct work;
	struct hrtimer timer;
	struct dev_pm_qos_request request;
	/* The value of the request. */
	s32 limit_us;
	unsigned int cpu;

	/* Statistics. */
	ktime_t asked;
	ktime_t held_since;
	u64 held_ns;
	u64 arm_ns;
	u64 arm_max_ns;
	unsigned long leases;
	unsigned long extensions;
};

static DEFINE_PER_CPU(struct psd_cpu, psd_cpus);
/* Work stays on its CPU; newer kernels want to be told. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define PSD_WORKQUEUE	(WQ_HIGHPRI | WQ_PERCPU)
#else
#define PSD_WORKQUEUE	WQ_HIGHPRI
#endif

static struct workqueue_struct *psd_workqueue;
static struct tracepoint *psd_tracepoint;
static struct dentry *psd_debugfs;
static enum cpuhp_state psd_hotplug_state;

static bool psd_leased(const struct psd_cpu *psd, ktime_t now)
{
	return READ_ONCE(psd->active) && READ_ONCE(timeout_ms) &&
	       ktime_before(now, READ_ONCE(psd->lease_end));
}

/*
 * Runs with preemption off wherever the block layer completes a request, before
 * it wakes the tasks that wait for it.
 */
static void psd_complete(void *unused, struct request *rq, blk_status_t error,
			 unsigned int bytes)
{
	struct psd_cpu *psd = this_cpu_ptr(&psd_cpus);
	unsigned int timeout = READ_ONCE(timeout_ms);
	ktime_t now;

	/* Who asks a drive for its temperature is not about to read. */
	if (!timeout || !READ_ONCE(psd->active) || blk_rq_is_passthrough(rq))
		return;
	this_cpu_inc(psd_cpus.completions);
	now = ktime_get();
	WRITE_ONCE(psd->lease_end, ktime_add_ms(now, timeout));
	if (READ_ONCE(psd->held))
		return;
	psd->asked = now;
	WRITE_ONCE(psd->held, true);
	tasklet_schedule(&psd->after_completion);
}

static void psd_completed(struct tasklet_struct *tasklet)
{
	struct psd_cpu *psd = container_of(tasklet, struct psd_cpu, after_completion);

	queue_work_on(psd->cpu, psd_workqueue, &psd->work);
}

static enum hrtimer_restart psd_lease_ends(struct hrtimer *timer)
{
	struct psd_cpu *psd = container_of(timer, struct psd_cpu, timer);

	if (!READ_ONCE(psd->active))
		return HRTIMER_NORESTART;
	if (psd_leased(psd, ktime_get()) && psd->limit_us == READ_ONCE(ceiling_us)) {
		psd->extensions++;
		hrtimer_set_expires(timer, psd->lease_end);
		return HRTIMER_RESTART;
	}
	queue_work_on(psd->cpu, psd_workqueue, &psd->work);
	return HRTIMER_NORESTART;
}

static void psd_count(struct psd_cpu *psd, s32 limit_us, ktime_t asked)
{
	ktime_t now = ktime_get();

	if (psd->limit_us == NO_LIMIT) {
		u64 took = ktime_to_ns(ktime_sub(now, asked));

		psd->leases++;
		psd->arm_ns += took;
		psd->arm_max_ns = max(psd->arm_max_ns, took);
		WRITE_ONCE(psd->held_since, now);
	} else if (limit_us == NO_LIMIT) {
		WRITE_ONCE(psd->held_ns,
			   psd->held_ns + ktime_to_ns(ktime_sub(now, psd->held_since)));
	}
	WRITE_ONCE(psd->limit_us, limit_us);
}

/* Brings the limit into line with the lease. */
static void psd_adjust(struct work_struct *work)
{
	struct psd_cpu *psd = container_of(work, struct psd_cpu, work);
	/* Before a completion asks again. */
	ktime_t asked = READ_ONCE(psd->asked);
	s32 limit_us = NO_LIMIT;
	bool leased;

	/* From here on completions queue this again: none goes unseen. */
	WRITE_ONCE(psd->held, false);
	leased = psd_leased(psd, ktime_get());
	if (leased)
		limit_us = READ_ONCE(ceiling_us);
	if (limit_us != psd->limit_us) {
		int error = dev_pm_qos_update_request(&psd->request, limit_us);

		if (error < 0) {
			pr_warn_once("CPU %u: cannot change its latency limit (%d)\n",
				     psd->cpu, error);
			return;
		}
		psd_count(psd, limit_us, asked);
	}
	if (leased) {
		hrtimer_start(&psd->timer, READ_ONCE(psd->lease_end),
			      HRTIMER_MODE_ABS_PINNED);
		WRITE_ONCE(psd->held, true);
	}
}

static int psd_cpu_online(unsigned int cpu)
{
	struct psd_cpu *psd = per_cpu_ptr(&psd_cpus, cpu);
	int error;

	psd->limit_us = NO_LIMIT;
	error = dev_pm_qos_add_request(get_cpu_device(cpu), &psd->request,
				       DEV_PM_QOS_RESUME_LATENCY, NO_LIMIT);
	/* 1: the limit in force has changed. */
	if (error < 0)
		return error;
	WRITE_ONCE(psd->active, true);
	return 0;
}

static int psd_cpu_offline(unsigned int cpu)
{
	struct psd_cpu *psd = per_cpu_ptr(&psd_cpus, cpu);

	/*
	 * This is a thread of the CPU, so that neither the probe nor the timer
	 * is in the middle of something; from now on they start nothing.
	 */
	WRITE_ONCE(psd->active, false);
	tasklet_kill(&psd->after_completion);
	cancel_work_sync(&psd->work);
	hrtimer_cancel(&psd->timer);
	WRITE_ONCE(psd->held, false);
	if (psd->limit_us != NO_LIMIT)
		psd_count(psd, NO_LIMIT, psd->asked);
	dev_pm_qos_remove_request(&psd->request);
	return 0;
}

/* A 32-bit machine may show halves of two values; it does no harm. */
static int psd_stats_show(struct seq_file *file, void *unused)
{
	unsigned int cpu;

	seq_puts(file, "cpu completions leases extensions held_us ");
	seq_puts(file, "arm_mean_ns arm_max_ns limit_us\n");
	for_each_online_cpu(cpu) {
		const struct psd_cpu *psd = per_cpu_ptr(&psd_cpus, cpu);
		unsigned long leases = READ_ONCE(psd->leases);
		s32 limit_us = READ_ONCE(psd->limit_us);
		u64 held_ns = READ_ONCE(psd->held_ns);
		u64 arm_ns = READ_ONCE(psd->arm_ns);
		ktime_t since = READ_ONCE(psd->held_since);

		if (limit_us != NO_LIMIT)
			held_ns += ktime_to_ns(ktime_sub(ktime_get(), since));
		seq_printf(file, "%u %lu %lu %lu %llu %llu %llu ", cpu,
			   READ_ONCE(psd->completions), leases,
			   READ_ONCE(psd->extensions),
			   div_u64(held_ns, NSEC_PER_USEC),
			   leases ? div64_ul(arm_ns, leases) : 0,
			   READ_ONCE(psd->arm_max_ns));
		if (limit_us == NO_LIMIT)
			seq_puts(file, "none\n");
		else
			seq_printf(file, "%d\n", limit_us);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(psd_stats);

static void __init psd_find_tracepoint(struct tracepoint *tracepoint, void *found)
{
	if (!strcmp(tracepoint->name, "block_rq_complete"))
		*(struct tracepoint **)found = tracepoint;
}

static void __init psd_prepare(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct psd_cpu *psd = per_cpu_ptr(&psd_cpus, cpu);

		psd->cpu = cpu;
		tasklet_setup(&psd->after_completion, psd_completed);
		INIT_WORK(&psd->work, psd_adjust);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
		hrtimer_setup(&psd->timer, psd_lease_ends, CLOCK_MONOTONIC,
			      HRTIMER_MODE_ABS_PINNED);
#else
		hrtimer_init(&psd->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED);
		psd->timer.function = psd_lease_ends;
#endif
	}
}

static int __init psd_init(void)
{
	int error;

	/* The kernel has this tracepoint, but does not export its name. */
	for_each_kernel_tracepoint(psd_find_tracepoint, &psd_tracepoint);
	if (!psd_tracepoint) {
		pr_err("this kernel has no tracepoint block_rq_complete\n");
		return -ENODEV;
	}
	/* A mismatch would not be noticed below: there it is a void pointer. */
	check_trace_callback_type_block_rq_complete(psd_complete);

	psd_workqueue = alloc_workqueue("wakepath_psd", PSD_WORKQUEUE, 0);
	if (!psd_workqueue)
		return -ENOMEM;
	psd_prepare();
	error = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "block/wakepath_psd:online",
				  psd_cpu_online, psd_cpu_offline);
	if (error < 0)
		goto destroy_workqueue;
	psd_hotplug_state = error;
	error = tracepoint_probe_register(psd_tracepoint, psd_complete, NULL);
	if (error)
		goto remove_state;
	/* Without debugfs there are no statistics, and nothing else is missing. */
	psd_debugfs = debugfs_create_dir("wakepath_psd", NULL);
	debugfs_create_file("stats", 0444, psd_debugfs, NULL, &psd_stats_fops);
	return 0;

remove_state:
	cpuhp_remove_state(psd_hotplug_state);
destroy_workqueue:
	destroy_workqueue(psd_workqueue);
	return error;
}
module_init(psd_init);

static void __exit psd_exit(void)
{
	debugfs_remove(psd_debugfs);
	tracepoint_probe_unregister(psd_tracepoint, psd_complete, NULL);
	tracepoint_synchronize_unregister();
	cpuhp_remove_state(psd_hotplug_state);
	destroy_workqueue(psd_workqueue);
}
module_exit(psd_exit);

static int psd_set_timeout(const char *text, const struct kernel_param *parameter)
{
	return param_set_uint_minmax(text, parameter, 0, TIMEOUT_MS_MAX);
}

static int psd_set_ceiling(const char *text, const struct kernel_param *parameter)
{
	return param_set_uint_minmax(text, parameter, 0, NO_LIMIT - 1);
}

static const struct kernel_param_ops psd_timeout_ops = {
	.set = psd_set_timeout,
	.get = param_get_uint,
};

static const struct kernel_param_ops psd_ceiling_ops = {
	.set = psd_set_ceiling,
	.get = param_get_uint,
};

module_param_cb(timeout_ms, &psd_timeout_ops, &timeout_ms, 0644);
MODULE_PARM_DESC(timeout_ms, "How long a lease lasts after the last completion, 0 to 10000 ms; 0: no leases (default 3)");
module_param_cb(ceiling_us, &psd_ceiling_ops, &ceiling_us, 0644);
MODULE_PARM_DESC(ceiling_us, "Longest exit latency of idle states under a lease, us; 0: CPUs poll (default 20)");

MODULE_DESCRIPTION("Keeps CPUs that complete block I/O out of deep idle states for a few milliseconds");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
