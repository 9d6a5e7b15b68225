// SPDX-License-Identifier: GPL-2.0
/*
 * An idle driver for virtual machines, which have none: several states that halt, and then spin for their exit
 * latency, so that the idle governor chooses among real alternatives.
 *
 * The default figures are those of the kernel's table for Skylake-SP (intel_idle), C1 to C6, and a made-up deeper one,
 * C8, which has a tick period (4 ms at 250 Hz) and more beyond it to be chosen in. `states` gives other ones.
 *
 * With `masked`, a CPU wakes up as real ones do under MWAIT with interrupts off, or WFI: the exit latency passes and the
 * driver returns before the interrupt is handled. HLT cannot do that by itself, since it wakes up for interrupts that the
 * CPU takes. So each halt has an interrupt table of its own, whose handlers only say which vector came; the driver
 * sends it to its own CPU again, where it waits until the kernel turns interrupts on.
 *
 * rig/drive has the states' counters noted at the beginning and at the end of a window of time. Each CPU notes its own
 * when it is next about to idle: until then they do not change, and a stay that the window cut in two is over.
 */
#include <linux/cpuidle.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/idle.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <asm/apic.h>
#include <asm/desc.h>
#include <asm/msr.h>
#include <asm/tsc.h>

static char *states = "C1:2:2,C1E:10:20,C6:133:600,C8:300:2000";
module_param(states, charp, 0444);
MODULE_PARM_DESC(states,
	"states after POLL: NAME:EXIT:RESIDENCY in us, declared, then optionally :TRUE_EXIT:TRUE_ENTRY:SPREAD in ns");

static char *driver_name = "wakepath_idle";
module_param_named(name, driver_name, charp, 0444);
MODULE_PARM_DESC(name, "the driver's name, as /sys/devices/system/cpu/cpuidle/current_driver has it");

static char *cpus = "";
module_param(cpus, charp, 0444);
MODULE_PARM_DESC(cpus, "list of the CPUs that have the states; all if empty");

static bool masked;
module_param(masked, bool, 0444);
MODULE_PARM_DESC(masked, "leave the state before the interrupt is handled");

static unsigned int seed = 1;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "of the spread of exit latencies");

static unsigned long tick_stopped;
module_param(tick_stopped, ulong, 0600);
MODULE_PARM_DESC(tick_stopped, "address of tick_nohz_tick_stopped(), by which idle periods without a tick are counted; 0: not");

static unsigned int poll_burst_ns;
module_param(poll_burst_ns, uint, 0644);
MODULE_PARM_DESC(poll_burst_ns,
	"POLL looks for work once in so many ns, at most 1000; 0: it is the kernel's, whose every look leaves the emulated code");

/* What a state really takes, in ns. */
struct truth {
	u64 exit;
	u64 entry;
	u64 spread;
};

static struct truth truths[CPUIDLE_STATE_MAX];
static DEFINE_PER_CPU(u32, random_state);
static cpumask_t chosen;

static u64 spin_loops = 1000;	/* loops of 1 us */

/* ---- Counters at the beginning and at the end of a window of time. */

#define EDGES 2

struct noted {
	u64 tickless;
	struct {
		u64 usage, time_ns, above, below;
	} state[CPUIDLE_STATE_MAX];
};

struct counting {
	/* Known once the CPU has idled. */
	struct cpuidle_device *device;
	/* Idle periods that began with the tick stopped. */
	u64 tickless;
	/* Bits: the edges at which the CPU has yet to note its counters. */
	unsigned long wanted;
	struct noted noted[EDGES];
	call_single_data_t call;
};

static DEFINE_PER_CPU(struct counting, countings);

static void note(const struct counting *counting, struct noted *noted)
{
	int i;

	noted->tickless = counting->tickless;
	for (i = 0; counting->device && i < CPUIDLE_STATE_MAX; i++) {
		const struct cpuidle_state_usage *usage = &counting->device->states_usage[i];

		noted->state[i].usage = usage->usage;
		noted->state[i].time_ns = usage->time_ns;
		noted->state[i].above = usage->above;
		noted->state[i].below = usage->below;
	}
}

/* On the CPU itself, with interrupts off and no stay that has not been counted. */
static void about_to_idle(struct cpuidle_device *device)
{
	struct counting *counting = this_cpu_ptr(&countings);
	int edge;

	counting->device = device;
	if (unlikely(READ_ONCE(counting->wanted)))
		for (edge = 0; edge < EDGES; edge++)
			if (test_and_clear_bit(edge, &counting->wanted))
				note(counting, &counting->noted[edge]);
	if (tick_stopped)
		counting->tickless += ((bool (*)(void))tick_stopped)();
}

static void end_stay(void *unused)
{
}

/* For rig/drive, in its timer: has all CPUs note their counters. The interrupt ends stays, which may be as long as a run. */
void wakepath_idle_note(unsigned int edge);
void wakepath_idle_note(unsigned int edge)
{
	unsigned int cpu;

	if (edge >= EDGES)
		return;
	for_each_cpu_and(cpu, &chosen, cpu_online_mask) {
		struct counting *counting = per_cpu_ptr(&countings, cpu);

		set_bit(edge, &counting->wanted);
		/* One that is still on its way does as well. */
		smp_call_function_single_async(cpu, &counting->call);
	}
}
EXPORT_SYMBOL_GPL(wakepath_idle_note);

/* /sys/module/wakepath_idle/parameters/noted: sums over the CPUs. A line per edge and state, after one for the edge. */
static int show_noted(char *buffer, const struct kernel_param *parameter)
{
	struct noted *sum = kzalloc(sizeof(*sum), GFP_KERNEL), *now = kzalloc(sizeof(*now), GFP_KERNEL);
	int length = 0, count = 0, edge, i;

	for (edge = 0; sum && now && edge < EDGES; edge++) {
		unsigned int cpu;

		memset(sum, 0, sizeof(*sum));
		for_each_cpu(cpu, &chosen) {
			struct counting *counting = per_cpu_ptr(&countings, cpu);

			/* It has not idled since. */
			if (test_bit(edge, &counting->wanted))
				note(counting, now);
			else
				*now = counting->noted[edge];
			sum->tickless += now->tickless;
			for (i = 0; i < CPUIDLE_STATE_MAX; i++) {
				sum->state[i].usage += now->state[i].usage;
				sum->state[i].time_ns += now->state[i].time_ns;
				sum->state[i].above += now->state[i].above;
				sum->state[i].below += now->state[i].below;
			}
			if (counting->device)
				count = cpuidle_get_cpu_driver(counting->device)->state_count;
		}
		length += scnprintf(buffer + length, PAGE_SIZE - length, "edge %d tickless %llu\n", edge, sum->tickless);
		for (i = 0; i < count; i++)
			length += scnprintf(buffer + length, PAGE_SIZE - length,
				"edge %d state %d usage %llu time_ns %llu above %llu below %llu\n", edge, i,
				sum->state[i].usage, sum->state[i].time_ns, sum->state[i].above, sum->state[i].below);
	}
	if (!sum || !now)
		length = -ENOMEM;
	kfree(sum);
	kfree(now);
	return length;
}

static const struct kernel_param_ops noted_ops = {
	.get = show_noted,
};
module_param_cb(noted, &noted_ops, NULL, 0444);
MODULE_PARM_DESC(noted, "counters at the beginning and at the end of the window of rig/drive");

/* ---- Halting with interrupts off. */

#define FIRST_VECTOR 32
#define VECTORS (256 - FIRST_VECTOR)
#define STUB_SIZE 16

/* Each stub puts its vector into eax of what was interrupted, which is the halt below, and returns with interrupts off. */
asm(".pushsection .text\n"
	".balign 16\n"
	"wakepath_idle_stubs:\n"
	".set vector, 32\n"
	".rept 224\n"
	".balign 16\n"
	"	movl $vector, %eax\n"
	"	jmp wakepath_idle_common\n"
	".set vector, vector + 1\n"
	".endr\n"
	".balign 16\n"
	"wakepath_idle_common:\n"
	/* rip, cs, rflags: the interrupt flag is bit 9. */
	"	andl $~0x200, 16(%rsp)\n"
	"	iretq\n"
	".popsection\n");

static gate_desc *own_table;

static int make_table(void)
{
	struct desc_ptr kernels;
	unsigned long stubs;
	int vector;

	asm("lea wakepath_idle_stubs(%%rip), %0" : "=r"(stubs));
	own_table = (gate_desc *)get_zeroed_page(GFP_KERNEL);
	if (!own_table)
		return -ENOMEM;
	store_idt(&kernels);
	memcpy(own_table, (void *)kernels.address, 256 * sizeof(gate_desc));
	for (vector = FIRST_VECTOR; vector < 256; vector++) {
		unsigned long stub = stubs + (vector - FIRST_VECTOR) * STUB_SIZE;
		gate_desc *gate = &own_table[vector];

		gate->offset_low = (u16)stub;
		gate->segment = __KERNEL_CS;
		gate->bits.ist = 0;
		gate->bits.zero = 0;
		gate->bits.type = GATE_INTERRUPT;
		gate->bits.dpl = 0;
		gate->bits.p = 1;
		gate->offset_middle = (u16)(stub >> 16);
		gate->offset_high = (u32)(stub >> 32);
		gate->reserved = 0;
	}
	return 0;
}

static __always_inline void load_table(unsigned long address)
{
	struct desc_ptr table = { .size = 256 * sizeof(gate_desc) - 1, .address = address };

	asm volatile("lidt %0" : : "m"(table));
}

/* Halts until an interrupt comes; returns its vector, which is then pending again, with interrupts off. */
static void halt_masked(void)
{
	struct desc_ptr kernels;
	unsigned int vector;

	asm volatile("sidt %0" : "=m"(kernels));
	load_table((unsigned long)own_table);
	asm volatile("xorl %%eax, %%eax\n\tsti\n\thlt\n\tcli" : "=a"(vector) : : "memory", "cc");
	load_table(kernels.address);
	if (vector) {
		native_apic_mem_write(APIC_EOI, 0);
		native_apic_mem_write(APIC_ICR, APIC_DEST_SELF | APIC_DM_FIXED | vector);
	}
}

/* ---- Time: instructions are, so a loop of known length is a microsecond, and the others run in between. */

static __always_inline void burn(u64 loops)
{
	if (loops)
		asm volatile("1: decq %0\n\tjnz 1b" : "+r"(loops) : : "cc");
}

static u64 ns_to_cycles(u64 ns)
{
	return mul_u64_u32_div(ns, tsc_khz, 1000000);
}

static void spin_until(u64 end)
{
	u64 microsecond = ns_to_cycles(1000);

	for (;;) {
		u64 now = rdtsc();

		if ((s64)(end - now) <= 0)
			return;
		if (end - now > 2 * microsecond) {
			burn(spin_loops);
			/* Lets the emulator run another CPU. */
			cpu_relax();
		}
	}
}

static void measure_loop(void)
{
	u64 before = rdtsc();
	u64 cycles;

	burn(100000);
	cycles = rdtsc() - before;
	spin_loops = clamp(div64_u64(100000 * ns_to_cycles(1000), cycles + 1), 10ULL, 100000ULL);
}

/* ---- The states. */

/* About normal: the sum of four uniform numbers, in 1/1024 of the standard deviation. */
static s64 about_normal(void)
{
	u32 *state = this_cpu_ptr(&random_state);
	s64 sum = 0;
	int i;

	for (i = 0; i < 4; i++) {
		*state ^= *state << 13;
		*state ^= *state >> 17;
		*state ^= *state << 5;
		sum += (s64)(*state >> 16) - 32768;
	}
	/* The standard deviation of one is 65536 / sqrt(12), of four twice as much: 37837. */
	return div_s64(sum * 1024, 37837);
}

static int wakepath_idle_enter(struct cpuidle_device *dev, struct cpuidle_driver *drv, int index)
{
	const struct truth *truth = &truths[index];
	u64 begun = rdtsc();
	u64 woken, end;
	u64 exit = truth->exit;

	about_to_idle(dev);
	if (!need_resched()) {
		if (masked) {
			halt_masked();
		} else {
			raw_safe_halt();
			raw_local_irq_disable();
		}
	}
	woken = rdtsc();
	/* Without `masked`, whatever woke the CPU had its interrupt handled; what was woken waits for the exit. */
	if (woken - begun < ns_to_cycles(truth->entry)) {
		/* Too late to turn back, and not yet far enough to have to come back. */
		spin_until(begun + ns_to_cycles(truth->entry));
		return index;
	}
	if (truth->spread) {
		s64 more = about_normal() * (s64)truth->spread / 1024;

		exit = max_t(s64, 0, (s64)exit + more);
	}
	end = woken + ns_to_cycles(exit);
	spin_until(end);
	return index;
}

/* POLL, which is the kernel's own. */
static int (*poll)(struct cpuidle_device *dev, struct cpuidle_driver *drv, int index);

/* As long as the kernel polls before it asks its governor again: until the shallowest state that halts would have paid. */
static u64 poll_limit_ns(struct cpuidle_device *dev, struct cpuidle_driver *drv)
{
	u64 limit = TICK_NSEC / 16;
	int i;

	for (i = 1; i < drv->state_count; i++)
		if (!dev->states_usage[i].disable)
			return min(limit, (u64)drv->states[i].target_residency_ns);
	return limit;
}

/*
 * POLL for an emulator, which takes as long to leave the emulated code at a `pause` as for a thousand instructions: the
 * time between two looks is spent in a loop.
 */
static int poll_in_bursts(struct cpuidle_device *dev, struct cpuidle_driver *drv, int index)
{
	u64 loops = max(1ULL, div_u64(spin_loops * min(poll_burst_ns, 1000U), 1000));
	u64 begun = rdtsc(), limit = ns_to_cycles(poll_limit_ns(dev, drv));

	dev->poll_time_limit = false;
	raw_local_irq_enable();
	if (!current_set_polling_and_test()) {
		while (!need_resched()) {
			burn(loops);
			cpu_relax();
			if (rdtsc() - begun > limit) {
				dev->poll_time_limit = true;
				break;
			}
		}
	}
	raw_local_irq_disable();
	current_clr_polling();
	return index;
}

static int wakepath_idle_poll(struct cpuidle_device *dev, struct cpuidle_driver *drv, int index)
{
	about_to_idle(dev);
	return poll_burst_ns ? poll_in_bursts(dev, drv, index) : poll(dev, drv, index);
}

static struct cpuidle_driver wakepath_idle_driver = {
	.owner = THIS_MODULE,
	.state_count = 1,
	.safe_state_index = 1,
};

static int parse_state(char *text)
{
	struct cpuidle_state *state;
	struct truth *truth;
	char *name = strsep(&text, ":");
	u64 figures[5] = { 0 };
	int given = 0;

	if (wakepath_idle_driver.state_count == CPUIDLE_STATE_MAX) {
		pr_err("wakepath_idle: a kernel has at most %d states, POLL among them\n", CPUIDLE_STATE_MAX);
		return -E2BIG;
	}
	while (text && given < 5) {
		char *figure = strsep(&text, ":");

		if (kstrtou64(figure, 10, &figures[given++])) {
			pr_err("wakepath_idle: state %s: no number: %s\n", name, figure);
			return -EINVAL;
		}
	}
	if (given < 2 || text || strlen(name) >= CPUIDLE_NAME_LEN) {
		pr_err("wakepath_idle: state %s is not NAME:EXIT:RESIDENCY[:TRUE_EXIT[:TRUE_ENTRY[:SPREAD]]]\n", name);
		return -EINVAL;
	}
	truth = &truths[wakepath_idle_driver.state_count];
	state = &wakepath_idle_driver.states[wakepath_idle_driver.state_count++];
	strscpy(state->name, name, sizeof(state->name));
	snprintf(state->desc, sizeof(state->desc), "halt, then spin");
	state->exit_latency = figures[0];
	state->target_residency = figures[1];
	state->enter = wakepath_idle_enter;
	truth->exit = given > 2 ? figures[2] : figures[0] * 1000;
	truth->entry = figures[3];
	truth->spread = figures[4];
	return 0;
}

static int __init wakepath_idle_init(void)
{
	char *copy, *rest, *one;
	int cpu, error;

	if (masked && apic_is_x2apic_enabled()) {
		pr_err("wakepath_idle: masked needs the APIC in memory, not x2APIC\n");
		return -ENODEV;
	}
	wakepath_idle_driver.name = driver_name;
	cpuidle_poll_state_init(&wakepath_idle_driver);
	poll = wakepath_idle_driver.states[0].enter;
	wakepath_idle_driver.states[0].enter = wakepath_idle_poll;
	copy = kstrdup(states, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	rest = copy;
	error = 0;
	while (!error && (one = strsep(&rest, ",")))
		error = parse_state(one);
	kfree(copy);
	if (error)
		return error;
	cpumask_copy(&chosen, cpu_possible_mask);
	if (*cpus) {
		error = cpulist_parse(cpus, &chosen);
		if (error || !cpumask_subset(&chosen, cpu_possible_mask) || cpumask_empty(&chosen)) {
			pr_err("wakepath_idle: cpus=%s are not CPUs of this machine\n", cpus);
			return -EINVAL;
		}
		wakepath_idle_driver.cpumask = &chosen;
	}
	for_each_possible_cpu(cpu) {
		INIT_CSD(&per_cpu(countings, cpu).call, end_stay, NULL);
		per_cpu(random_state, cpu) = (seed + 1) * 2654435761u + cpu * 40503u + 1;
	}
	if (masked) {
		error = make_table();
		if (error)
			return error;
	}
	measure_loop();
	error = cpuidle_register(&wakepath_idle_driver, NULL);
	if (error && own_table)
		free_page((unsigned long)own_table);
	return error;
}
module_init(wakepath_idle_init);

static void __exit wakepath_idle_exit(void)
{
	cpuidle_unregister(&wakepath_idle_driver);
	if (own_table)
		free_page((unsigned long)own_table);
}
module_exit(wakepath_idle_exit);

MODULE_DESCRIPTION("Idle states for virtual machines, to test wakepath with");
MODULE_LICENSE("GPL");
