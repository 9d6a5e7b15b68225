// SPDX-License-Identifier: GPL-2.0
/*
 * A frequency driver that takes every request, writes it down, and slows nothing down. The log shows what a governor
 * asks for (/sys/kernel/debug/wakepath_cpufreq, a line per request: time in ns, CPU, kHz).
 */
#include <linux/cpufreq.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/vmalloc.h>

#define MOST_FREQUENCIES 64
#define LOG_LINES (1 << 17)

static unsigned int khz[MOST_FREQUENCIES] = { 800000, 1600000, 2400000, 3200000 };
static int frequencies = 4;
module_param_array(khz, uint, &frequencies, 0444);
MODULE_PARM_DESC(khz, "frequencies, slowest first");

static char *cpus = "";
module_param(cpus, charp, 0444);
MODULE_PARM_DESC(cpus, "list of the CPUs that have them; all if empty");

static unsigned int clock_cpus = 1;
module_param(clock_cpus, uint, 0444);
MODULE_PARM_DESC(clock_cpus, "CPUs, in order, that share a clock");

static unsigned int latency_us = 10;
module_param(latency_us, uint, 0444);
MODULE_PARM_DESC(latency_us, "declared transition latency");

struct line {
	u64 at;
	u32 cpu, khz;
};

static struct cpufreq_frequency_table table[MOST_FREQUENCIES + 1];
static cpumask_t chosen;
static struct line *lines;
static atomic_t written;
static struct dentry *file;

static void note(unsigned int cpu, unsigned int frequency)
{
	unsigned int place = atomic_inc_return(&written) - 1;

	if (place < LOG_LINES)
		lines[place] = (struct line){ ktime_get_mono_fast_ns(), cpu, frequency };
}

/* The slowest frequency that is enough. */
static unsigned int enough(unsigned int target)
{
	int i;

	for (i = 0; i < frequencies - 1 && table[i].frequency < target; i++)
		;
	return table[i].frequency;
}

static unsigned int fast_switch(struct cpufreq_policy *policy, unsigned int target)
{
	unsigned int frequency = enough(target);

	note(policy->cpu, frequency);
	return frequency;
}

static int target_index(struct cpufreq_policy *policy, unsigned int index)
{
	policy->cur = policy->freq_table[index].frequency;
	note(policy->cpu, policy->cur);
	return 0;
}

static unsigned int get(unsigned int cpu)
{
	struct cpufreq_policy *policy = cpufreq_cpu_get_raw(cpu);

	return policy && policy->cur ? policy->cur : table[frequencies - 1].frequency;
}

static int policy_init(struct cpufreq_policy *policy)
{
	unsigned int first, other;

	if (!cpumask_test_cpu(policy->cpu, &chosen))
		return -ENODEV;
	first = policy->cpu / clock_cpus * clock_cpus;
	for (other = first; other < first + clock_cpus && other < nr_cpu_ids; other++)
		if (cpumask_test_cpu(other, &chosen))
			cpumask_set_cpu(other, policy->cpus);
	policy->freq_table = table;
	policy->cpuinfo.transition_latency = latency_us * 1000;
	policy->fast_switch_possible = true;
	policy->dvfs_possible_from_any_cpu = true;
	return 0;
}

static int policy_verify(struct cpufreq_policy_data *policy)
{
	return cpufreq_generic_frequency_table_verify(policy);
}

static struct cpufreq_driver driver = {
	.name = "wakepath_cpufreq",
	/* Nobody is told of changes: the kernel would no longer trust the clock of the CPUs, and take a slower one. */
	.flags = CPUFREQ_CONST_LOOPS | CPUFREQ_ASYNC_NOTIFICATION,
	.init = policy_init,
	.verify = policy_verify,
	.target_index = target_index,
	.fast_switch = fast_switch,
	.get = get,
};

static int show(struct seq_file *out, void *unused)
{
	unsigned int count = min(atomic_read(&written), LOG_LINES), i;

	for (i = 0; i < count; i++)
		seq_printf(out, "%llu %u %u\n", lines[i].at, lines[i].cpu, lines[i].khz);
	if (atomic_read(&written) > LOG_LINES)
		seq_puts(out, "full\n");
	return 0;
}

static int open(struct inode *inode, struct file *opened)
{
	return single_open(opened, show, NULL);
}

static ssize_t clear(struct file *opened, const char __user *text, size_t size, loff_t *at)
{
	atomic_set(&written, 0);
	return size;
}

static const struct file_operations file_ops = {
	.owner = THIS_MODULE,
	.open = open,
	.read = seq_read,
	.write = clear,
	.llseek = seq_lseek,
	.release = single_release,
};

static int __init wakepath_cpufreq_init(void)
{
	int i, error;

	if (!clock_cpus || frequencies < 1) {
		pr_err("wakepath_cpufreq: at least one frequency, and one CPU per clock\n");
		return -EINVAL;
	}
	cpumask_copy(&chosen, cpu_possible_mask);
	if (*cpus && (cpulist_parse(cpus, &chosen) || !cpumask_subset(&chosen, cpu_possible_mask))) {
		pr_err("wakepath_cpufreq: cpus=%s are not CPUs of this machine\n", cpus);
		return -EINVAL;
	}
	for (i = 0; i < frequencies; i++) {
		table[i].driver_data = i;
		table[i].frequency = khz[i];
	}
	table[frequencies].frequency = CPUFREQ_TABLE_END;
	lines = vmalloc(array_size(LOG_LINES, sizeof(*lines)));
	if (!lines)
		return -ENOMEM;
	error = cpufreq_register_driver(&driver);
	if (error) {
		vfree(lines);
		return error;
	}
	file = debugfs_create_file("wakepath_cpufreq", 0600, NULL, NULL, &file_ops);
	return 0;
}
module_init(wakepath_cpufreq_init);

static void __exit wakepath_cpufreq_exit(void)
{
	debugfs_remove(file);
	cpufreq_unregister_driver(&driver);
	vfree(lines);
}
module_exit(wakepath_cpufreq_exit);

MODULE_DESCRIPTION("A frequency driver that only writes requests down, to hold wakepath's simulator to");
MODULE_LICENSE("GPL");
