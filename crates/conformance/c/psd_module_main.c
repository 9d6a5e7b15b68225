// SPDX-License-Identifier: GPL-2.0
/*
 * Runs wakepath's own module, module/wakepath_psd.c, on one CPU where work items take no time: the times of completions in
 * ns on standard input, a line for each lease on standard output, from when to when its limit is in force.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t ktime_t;
typedef int blk_status_t;

#define __init
#define __exit
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(7, 3, 0)
#define NSEC_PER_USEC 1000
#define ENODEV 19
#define ENOMEM 12
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#define DEFINE_PER_CPU(type, name) type name
#define this_cpu_ptr(pointer) (pointer)
#define per_cpu_ptr(pointer, cpu) ((void)(cpu), pointer)
#define this_cpu_inc(variable) ((variable)++)
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < 1; (cpu)++)
#define for_each_online_cpu(cpu) for_each_possible_cpu(cpu)
#define DEFINE_SHOW_ATTRIBUTE(name) static const int name##_fops
#define module_init(f) static void *keep_init = f
#define module_exit(f) static void *keep_exit = f
#define module_param_cb(name, ops, variable, mode)
#define MODULE_PARM_DESC(name, text)
#define MODULE_DESCRIPTION(text)
#define MODULE_LICENSE(text)
#define MODULE_VERSION(text)
#define pr_err(...)
#define pr_warn_once(...)

static ktime_t clock_ns;

#define ktime_get() clock_ns
#define ktime_add_ms(time, ms) ((time) + (int64_t)(ms) * 1000000)
#define ktime_sub(a, b) ((a) - (b))
#define ktime_to_ns(time) (time)
#define ktime_before(a, b) ((a) < (b))
#define div_u64(a, b) ((a) / (b))
#define div64_ul(a, b) ((a) / (b))

struct request { int unused; };
#define blk_rq_is_passthrough(rq) false

struct tasklet_struct {
	void (*run)(struct tasklet_struct *tasklet);
	bool queued;
};
#define tasklet_setup(tasklet, f) ((tasklet)->run = (f))
#define tasklet_schedule(tasklet) ((tasklet)->queued = true)
#define tasklet_kill(tasklet) ((tasklet)->queued = false)

struct work_struct {
	void (*run)(struct work_struct *work);
	bool queued;
};
struct workqueue_struct { int unused; };
#define WQ_HIGHPRI 0
#define WQ_PERCPU 0
#define INIT_WORK(work, f) ((work)->run = (f))
#define alloc_workqueue(name, flags, most) ((struct workqueue_struct *)calloc(1, 1))
#define destroy_workqueue(queue) free(queue)
#define cancel_work_sync(work) ((work)->queued = false)

static bool queue_work_on(unsigned int cpu, struct workqueue_struct *queue, struct work_struct *work)
{
	bool queued = work->queued;

	work->queued = true;
	return !queued;
}

enum hrtimer_restart { HRTIMER_NORESTART, HRTIMER_RESTART };
struct hrtimer {
	enum hrtimer_restart (*run)(struct hrtimer *timer);
	ktime_t expires;
	bool armed;
};
#define CLOCK_MONOTONIC 1
#define HRTIMER_MODE_ABS_PINNED 0
#define hrtimer_setup(timer, f, clock, mode) ((timer)->run = (f))
#define hrtimer_set_expires(timer, time) ((timer)->expires = (time))
#define hrtimer_start(timer, time, mode) ((timer)->expires = (time), (timer)->armed = true)
#define hrtimer_cancel(timer) ((timer)->armed = false)

struct dev_pm_qos_request { int unused; };
#define PM_QOS_RESUME_LATENCY_NO_CONSTRAINT INT32_MAX
#define DEV_PM_QOS_RESUME_LATENCY 0
#define get_cpu_device(cpu) NULL
#define dev_pm_qos_add_request(device, request, kind, value) 0
#define dev_pm_qos_remove_request(request)

static int dev_pm_qos_update_request(struct dev_pm_qos_request *request, s32 value)
{
	printf(value == PM_QOS_RESUME_LATENCY_NO_CONSTRAINT ? " %" PRId64 "\n" : "%" PRId64, clock_ns);
	return 1;
}

enum cpuhp_state { CPUHP_AP_ONLINE_DYN };
#define cpuhp_setup_state(state, name, online, offline) 0
#define cpuhp_remove_state(state)
struct tracepoint { const char *name; };
static struct tracepoint completed = { "block_rq_complete" };
#define for_each_kernel_tracepoint(f, found) f(&completed, found)
#define check_trace_callback_type_block_rq_complete(f)
#define tracepoint_probe_register(tracepoint, f, data) 0
#define tracepoint_probe_unregister(tracepoint, f, data)
#define tracepoint_synchronize_unregister()
struct dentry { int unused; };
struct seq_file { int unused; };
#define debugfs_create_dir(name, parent) NULL
#define debugfs_create_file(...)
#define debugfs_remove(directory)
#define seq_puts(file, text)
#define seq_printf(file, ...)
struct kernel_param;
struct kernel_param_ops {
	int (*set)(const char *text, const struct kernel_param *parameter);
	int (*get)(char *text, const struct kernel_param *parameter);
};
#define param_set_uint_minmax(text, parameter, low, high) 0
#define param_get_uint NULL

#include SOURCE

/* What waits for the handler to return. */
static void run_work(void)
{
	struct tasklet_struct *tasklet = &psd_cpus.after_completion;
	struct work_struct *work = &psd_cpus.work;

	if (tasklet->queued) {
		tasklet->queued = false;
		tasklet->run(tasklet);
	}
	while (work->queued) {
		work->queued = false;
		work->run(work);
	}
}

static void run_timers(ktime_t until)
{
	struct hrtimer *timer = &psd_cpus.timer;

	while (timer->armed && timer->expires <= until) {
		clock_ns = timer->expires;
		timer->armed = timer->run(timer) == HRTIMER_RESTART;
		run_work();
	}
}

int main(int count, char **arguments)
{
	ktime_t time;

	if (count != 2)
		return 2;
	timeout_ms = strtoul(arguments[1], NULL, 10);
	if (psd_init() || psd_cpu_online(0))
		return 1;
	while (scanf("%" SCNd64, &time) == 1) {
		run_timers(time);
		clock_ns = time;
		psd_complete(NULL, NULL, 0, 0);
		run_work();
	}
	run_timers(INT64_MAX);
	return 0;
}
