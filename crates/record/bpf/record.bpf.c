// SPDX-License-Identifier: GPL-2.0
/*
 * Watches what wakes CPUs and how deeply they slept, for `wakepath record`.
 *
 * Programs only copy: what the events mean is decided later, in user space. Each is loaded for itself, so a kernel
 * that lacks a hook narrows what is recorded and prevents nothing else.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "wire.h"

char _license[] SEC("license") = "GPL";

/* The address of the function of the scheduler's tick; 0 when nobody knows. The loader sets it. */
const volatile __u64 tick_function;

/* Whether the steps of all tasks are recorded, and not only of those that did I/O or waited for some. The loader sets it. */
const volatile __u32 follows_all_tasks;

/* Of a request's cmd_flags: the operation (REQ_OP_MASK); odd ones move data to the drive. */
#define OPERATION_MASK 0xff

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/*
 * A ring buffer for each CPU, because writing takes the buffer's lock, and all CPUs go idle and wake all the time.
 * The loader sets the number of CPUs, here and below, and makes the buffers.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

/* By CPU; an array because the kernel inlines its lookup. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_cpu_buffer);
} buffers SEC(".maps");

/* Records that found the buffer full; a few of them may have been seen in their buffer before. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/* What the governor asked on this CPU since it last chose; the idle loop runs with interrupts off. */
struct asked {
	__s64 sleep_ns;
	__s64 delta_tick_ns;
	__s64 latency_ns;
	__u32 iowaiters;
	__u32 flags;
	__u32 got_tick;
	/* WP_LEFT or 0. */
	__u32 left;
	/* How often the idle task had made way for another when last looked, if ever. */
	__u64 switches;
	__u32 switches_known;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct asked);
} answers SEC(".maps");

/* A task that did I/O or waited for some. */
struct io_task {
	/* The task was woken, and did not run since. */
	__u32 woken;
	__u32 unused;
	/* Number of the task's cgroup; 0 where the kernel has no cgroups. */
	__u64 cgroup;
};

/* Such tasks by thread number. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct io_task);
} io_tasks SEC(".maps");

static __always_inline struct asked *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&answers, &zero);
}

/* User space looks into the buffers by the clock: a wake-up for each record would disturb what is recorded. */
static __always_inline void write(__u32 cpu, void *data, __u64 size, __u32 records)
{
	void *ring = bpf_map_lookup_elem(&rings, &cpu);

	if (!ring || bpf_ringbuf_output(ring, data, size, BPF_RB_NO_WAKEUP)) {
		__u32 zero = 0;
		__u64 *count = bpf_map_lookup_elem(&lost, &zero);

		/* An interrupt may count, too. */
		if (count)
			__sync_fetch_and_add(count, records);
	}
}

/* The largest record, in words: as much room has to be left in a buffer. */
#define LARGEST (sizeof(struct wp_select) / sizeof(__u64))

static __always_inline void write_buffer(__u32 cpu, struct wp_cpu_buffer *buffer)
{
	__u32 words = buffer->words;

	buffer->nested = 0;
	barrier();
	/* It is never more, but the kernel has to see that. */
	if (words <= WP_PILE_WORDS)
		write(cpu, &buffer->generation, (1 + words) * sizeof(__u64), buffer->records);
	buffer->words = 0;
	buffer->records = 0;
	/* A barrier, too: who sees the new generation sees that it is empty, and nobody sees its data in the old one. */
	__sync_fetch_and_add(&buffer->generation, 1);
}

/*
 * Writing to a buffer costs more than all the rest, so records buffer up until there is no room for more. User space looks
 * at what is in a buffer meanwhile.
 */
static __always_inline int add(struct wp_header *record, __u32 size)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wp_cpu_buffer *buffer = bpf_map_lookup_elem(&buffers, &cpu);
	__u32 words;

	if (!buffer)
		return 0;
	if (buffer->busy) {
		/* The CPU was interrupted in the middle of this function. */
		struct {
			__u64 nested;
			__u64 record[LARGEST];
		} alone = { .nested = WP_NESTED };

		__builtin_memcpy(alone.record, record, size);
		buffer->nested = 1;
		write(cpu, &alone, sizeof(__u64) + size, 1);
		return 0;
	}
	buffer->busy = 1;
	barrier();
	words = buffer->words;
	/* It always is, but the kernel has to see that. */
	if (words <= WP_PILE_WORDS - LARGEST) {
		__builtin_memcpy(&buffer->data[words], record, size);
		barrier();
		words += size / sizeof(__u64);
		buffer->words = words;
		buffer->records++;
	}
	barrier();
	if (words > WP_PILE_WORDS - LARGEST || buffer->nested)
		write_buffer(cpu, buffer);
	barrier();
	buffer->busy = 0;
	return 0;
}

/* Whether the loader put counters of cycles into the maps below. */
const volatile __u32 counts_cycles;

/* Counters by CPU: of cycles, and of cycles at a constant clock. The loader sets the number of CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cycles SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} reference_cycles SEC(".maps");

/* The counters at a time; 0: nobody read them. */
struct clock_reading {
	__u64 time_ns;
	__u64 cycles;
	__u64 reference;
};

/* When the CPU last left an idle state, or entered a handler. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct clock_reading);
} clock_starts SEC(".maps");

static __always_inline bool read_clock(struct clock_reading *reading)
{
	struct bpf_perf_event_value value = {};

	reading->time_ns = bpf_ktime_get_ns();
	if (bpf_perf_event_read_value(&cycles, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return 0;
	reading->cycles = value.counter;
	if (bpf_perf_event_read_value(&reference_cycles, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return 0;
	reading->reference = value.counter;
	return 1;
}

/* The CPU begins to run. */
static __always_inline void start_clock(void)
{
	__u32 zero = 0;
	struct clock_reading *start;

	if (!counts_cycles)
		return;
	start = bpf_map_lookup_elem(&clock_starts, &zero);
	if (start && !read_clock(start))
		start->time_ns = 0;
}

static __always_inline struct wp_header header(__u16 kind, __u16 cpu, __u32 word)
{
	return (struct wp_header) {
		.time_ns = bpf_ktime_get_ns(),
		.kind = kind,
		.cpu = cpu,
		.word = word,
	};
}

static __always_inline int plain(__u16 kind, __u16 cpu, __u32 word)
{
	struct wp_header record = header(kind, cpu, word);

	return add(&record, sizeof(record));
}

/* The cycles since the CPU began to run. */
static __always_inline void tell_clock(void)
{
	__u32 zero = 0;
	struct clock_reading now, *start;

	if (!counts_cycles)
		return;
	start = bpf_map_lookup_elem(&clock_starts, &zero);
	if (start && start->time_ns && read_clock(&now)) {
		struct wp_clock record = {
			.header = header(WP_CLOCK, bpf_get_smp_processor_id(), 0),
			.elapsed_ns = now.time_ns - start->time_ns,
			.cycles = now.cycles - start->cycles,
			.reference = now.reference - start->reference,
		};

		add(&record.header, sizeof(record));
	}
}

/*
 * Whether the idle task made way for another since the last call: its own count of that tells, at no cost to those
 * who switch. The first call only looks.
 */
static __always_inline bool made_way(struct asked *asked)
{
	__u64 switches = bpf_get_current_task_btf()->nivcsw;
	bool more = asked->switches_known && switches != asked->switches;

	asked->switches_known = 1;
	asked->switches = switches;
	return more;
}

/*
 * Having left the idle loop since last asked: seen at its end where the kernel lets that be seen, otherwise when its
 * task had made way for another.
 */
static __always_inline __u32 take_left(struct asked *asked)
{
	__u32 left = made_way(asked) ? WP_LEFT : asked->left;

	asked->left = 0;
	return left;
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(cpu_idle, __u32 state, __u32 cpu)
{
	struct asked *asked = this_cpu();

	if (!asked)
		return 0;
	/* PWR_EVENT_EXIT is -1. */
	if (state != (__u32)-1)
		return plain(WP_IDLE_ENTER, cpu, state | take_left(asked));
	if (!asked->switches_known)
		made_way(asked);
	plain(WP_IDLE_EXIT, cpu, 0);
	start_clock();
	return 0;
}

SEC("fexit/tick_nohz_idle_exit")
int BPF_PROG(idle_exit)
{
	struct asked *asked = this_cpu();

	if (asked)
		asked->left = WP_LEFT;
	return 0;
}

SEC("tp_btf/cpu_frequency")
int BPF_PROG(cpu_frequency, __u32 khz, __u32 cpu)
{
	return plain(WP_FREQUENCY, cpu, khz);
}

/*
 * Each step of a CPU on its way up or down. The target tells the direction only beside the step: a CPU that goes
 * offline first has one in the middle.
 */
SEC("tp_btf/cpuhp_enter")
int BPF_PROG(cpuhp_enter, __u32 cpu, int target, int step)
{
	return plain(WP_HOTPLUG, cpu, step <= target);
}

/* Number of a task's cgroup in the hierarchy of version 2; 0 where the kernel has no cgroups. */
static __always_inline __u64 cgroup_number(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->cgroups))
		return 0;
	return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
}

static __always_inline void tell_cgroup(__u32 task, __u64 cgroup)
{
	struct wp_cgroup record = {
		.header = header(WP_TASK_CGROUP, bpf_get_smp_processor_id(), task),
		.cgroup = cgroup,
	};

	if (cgroup)
		add(&record.header, sizeof(record));
}

/* From now on the task's wake-ups count. */
static __always_inline void remember_task(struct task_struct *task, __u32 woken)
{
	__u32 number = task->pid;
	struct io_task known = { .woken = woken, .cgroup = cgroup_number(task) };
	struct wp_name record;

	bpf_map_update_elem(&io_tasks, &number, &known, BPF_ANY);
	record.header = header(WP_TASK_NAME, bpf_get_smp_processor_id(), number);
	__builtin_memset(record.name, 0, sizeof(record.name));
	bpf_probe_read_kernel(record.name, sizeof(record.name), task->comm);
	add(&record.header, sizeof(record));
	tell_cgroup(number, known.cgroup);
}

/* Tasks that never did I/O are left out, so that few events are added. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	__u32 number = task->pid;
	struct io_task *known = bpf_map_lookup_elem(&io_tasks, &number);

	if (known)
		known->woken = 1;
	else if (follows_all_tasks || BPF_CORE_READ_BITFIELD(task, in_iowait))
		remember_task(task, 1);
	else
		return 0;
	return plain(WP_WAKING, bpf_get_smp_processor_id(), number);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	__u32 target = task->thread_info.cpu;
	__u32 number = task->pid;
	struct io_task *known = bpf_map_lookup_elem(&io_tasks, &number);

	if (known && known->woken) {
		struct wp_woken record = {
			.header = header(WP_WOKEN, bpf_get_smp_processor_id(), number),
			.target = target,
		};

		add(&record.header, sizeof(record));
	}
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		target |= WP_IOWAIT;
	return plain(WP_WAKE, bpf_get_smp_processor_id(), target);
}

/* The task that this CPU switched to last; task 0: none was seen. */
struct running {
	__u64 task;
	__u32 number;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct running);
} running_tasks SEC(".maps");

/*
 * A kernel may run no programs while certain tasks run, and counts no missed runs then: whatever interrupts such a task is not
 * recorded. A switch away from a task that this CPU did not switch to tells.
 */
static __always_inline void check_for_unseen_switch(struct task_struct *previous, struct task_struct *next)
{
	__u32 zero = 0;
	struct running *running = bpf_map_lookup_elem(&running_tasks, &zero);

	if (!running)
		return;
	if (running->task && running->task != (__u64)previous)
		plain(WP_UNSEEN_SWITCH, bpf_get_smp_processor_id(), running->number);
	running->task = (__u64)next;
	running->number = next->pid;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	__u32 number = next->pid;
	struct io_task *known;

	check_for_unseen_switch(previous, next);
	/* The idle task waits for nothing. */
	if (!number)
		return 0;
	known = bpf_map_lookup_elem(&io_tasks, &number);
	if (!known && follows_all_tasks)
		remember_task(next, 0);
	else if (!known || !(known->woken || follows_all_tasks))
		return 0;
	else
		known->woken = 0;
	return plain(WP_RUNNING, bpf_get_smp_processor_id(), number);
}

/* A program has another name than the one before, and a thread number another owner. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task)
{
	__u32 number = task->pid;

	bpf_map_delete_elem(&io_tasks, &number);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	__u32 number = task->pid;

	bpf_map_delete_elem(&io_tasks, &number);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq)
{
	plain(WP_IRQ, bpf_get_smp_processor_id(), irq);
	start_clock();
	return 0;
}

/* BLOCK_SOFTIRQ, include/linux/interrupt.h. */
#define BLOCK_SOFTIRQ 4

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, __u32 vector)
{
	if (vector != BLOCK_SOFTIRQ)
		return 0;
	return plain(WP_BLOCK_SOFTIRQ, bpf_get_smp_processor_id(), 0);
}

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(call_function_single)
{
	return plain(WP_CALL_FUNCTION, bpf_get_smp_processor_id(), 0);
}

SEC("tp_btf/reschedule_entry")
int BPF_PROG(reschedule)
{
	return plain(WP_RESCHEDULE, bpf_get_smp_processor_id(), 0);
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(ipi_send_cpu, __u32 target)
{
	return plain(WP_IPI_SENT, bpf_get_smp_processor_id(), target);
}

SEC("tp_btf/sched_wake_idle_without_ipi")
int BPF_PROG(wake_without_ipi, int target)
{
	return plain(WP_IPI_SPARED, bpf_get_smp_processor_id(), target);
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(hrtimer_expire_entry, struct hrtimer *timer)
{
	return plain(WP_HRTIMER, bpf_get_smp_processor_id(), (__u64)timer->function == tick_function);
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(timer_expire_entry)
{
	return plain(WP_TIMER, bpf_get_smp_processor_id(), 0);
}

static __always_inline int block(__u16 kind, struct request *request)
{
	struct gendisk *disk = request->q->disk;
	struct wp_block record;

	/* Commands to a drive's controller are not I/O. */
	if (!disk)
		return 0;
	record.header = header(kind, bpf_get_smp_processor_id(), (__u32)disk->major << 20 | disk->first_minor);
	record.sector = request->__sector;
	record.bytes = request->__data_len;
	record.flags = request->cmd_flags & OPERATION_MASK & 1 ? WP_WRITE : 0;
	return add(&record.header, sizeof(record));
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *request)
{
	return block(WP_BLOCK_ISSUE, request);
}

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

/* A thread that completes requests belongs to an interrupt (threadirqs, PREEMPT_RT) or to the softirqs: its wake-ups count. */
static __always_inline void remember_completing_thread(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = task->pid;

	/* The idle task, and any program, may have been interrupted by the handler. */
	if (number && task->flags & PF_KTHREAD && !bpf_map_lookup_elem(&io_tasks, &number))
		remember_task(task, 0);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *request)
{
	block(WP_BLOCK_COMPLETE, request);
	remember_completing_thread();
	tell_clock();
	return 0;
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(block_rq_insert, struct request *request)
{
	return block(WP_INSERTED, request);
}

SEC("tp_btf/block_rq_merge")
int BPF_PROG(block_rq_merge, struct request *request)
{
	return block(WP_MERGED, request);
}

/* A bio's whole drive, also where the bio is for a partition: but for remaps, sectors count from the drive's start by then. */
static __always_inline struct wp_block describe_bio(__u16 kind, struct bio *bio)
{
	struct gendisk *disk = bio->bi_bdev->bd_disk;
	__u32 flags = bio->bi_opf;
	__u32 write = flags & OPERATION_MASK & 1;
	__u32 ahead = flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_RAHEAD) & 1;
	__u32 sync = flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_SYNC) & 1;
	__u32 forced = flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_FUA) & 1;
	__u32 flush = flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH) & 1;

	return (struct wp_block) {
		.header = header(kind, bpf_get_smp_processor_id(), (__u32)disk->major << 20 | disk->first_minor),
		.sector = bio->bi_iter.bi_sector,
		.bytes = bio->bi_iter.bi_size,
		.flags = (write ? WP_WRITE : 0) | (ahead || (write && !sync) ? WP_BACKGROUND : 0) |
			 (flush ? WP_FLUSHES_FIRST : 0) | (forced ? WP_FORCED : 0),
	};
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = task->pid;
	struct wp_bio record = {
		.block = describe_bio(WP_QUEUED, bio),
		.task = number,
	};
	struct io_task *known = bpf_map_lookup_elem(&io_tasks, &number);

	if (known) {
		__u64 cgroup = cgroup_number(task);

		if (cgroup != known->cgroup) {
			known->cgroup = cgroup;
			tell_cgroup(number, cgroup);
		}
	} else {
		remember_task(task, 0);
	}
	return add(&record.block.header, sizeof(record));
}

SEC("tp_btf/block_getrq")
int BPF_PROG(block_getrq, struct bio *bio)
{
	struct wp_block record = describe_bio(WP_TAGGED, bio);

	return add(&record.header, sizeof(record));
}

SEC("tp_btf/block_split")
int BPF_PROG(block_split, struct bio *bio, __u32 at)
{
	struct wp_remap record = {
		.block = describe_bio(WP_SPLIT, bio),
		.from_sector = at,
	};
	__u64 sector = record.block.sector;

	/* The tracepoint has the low 32 bits of the sector where the second half begins. */
	record.from_sector |= sector >> 32 << 32;
	if (record.from_sector < sector)
		record.from_sector += 1ULL << 32;

	return add(&record.block.header, sizeof(record));
}

SEC("tp_btf/block_bio_remap")
int BPF_PROG(block_bio_remap, struct bio *bio, __u32 device, __u64 sector)
{
	struct wp_remap record = {
		.block = describe_bio(WP_REMAPPED, bio),
		.from_sector = sector,
		.from_device = device,
	};

	/* A stacked device sends the bio to a partition, whose own remap comes only then. */
	if (device != bio->bi_bdev->bd_dev)
		record.block.sector += bio->bi_bdev->bd_start_sect;

	return add(&record.block.header, sizeof(record));
}

/*
 * The governor's questions and the answers. Each governor asks for the latency limit first, so whatever else is asked
 * counts after that only: others ask, too.
 */
SEC("fexit/cpuidle_governor_latency_req")
int BPF_PROG(latency_req, __u32 cpu, __s64 limit_ns)
{
	struct asked *asked = this_cpu();

	if (asked) {
		asked->latency_ns = limit_ns;
		asked->flags = WP_SEEN_LATENCY;
	}
	return 0;
}

SEC("fexit/tick_nohz_get_sleep_length")
int BPF_PROG(sleep_length, __s64 *delta_next, __s64 sleep_ns)
{
	struct asked *asked = this_cpu();

	if (asked && asked->flags & WP_SEEN_LATENCY) {
		asked->sleep_ns = sleep_ns;
		asked->flags |= WP_SEEN_SLEEP;
		bpf_probe_read_kernel(&asked->delta_tick_ns, sizeof(asked->delta_tick_ns), delta_next);
	}
	return 0;
}

SEC("fexit/nr_iowait_cpu")
int BPF_PROG(nr_iowait, int cpu, __u32 iowaiters)
{
	struct asked *asked = this_cpu();

	if (asked && asked->flags & WP_SEEN_LATENCY && cpu == bpf_get_smp_processor_id()) {
		asked->iowaiters = iowaiters;
		asked->flags |= WP_SEEN_IOWAITERS;
	}
	return 0;
}

SEC("fexit/tick_nohz_tick_stopped")
int BPF_PROG(tick_stopped, bool stopped)
{
	struct asked *asked = this_cpu();

	if (asked && asked->flags & WP_SEEN_LATENCY)
		asked->flags |= WP_SEEN_TICK | (stopped ? WP_TICK_STOPPED : 0);
	return 0;
}

SEC("fexit/cpuidle_select")
int BPF_PROG(cpuidle_select, struct cpuidle_driver *driver, struct cpuidle_device *device, bool *stop_tick, int index)
{
	struct asked *asked = this_cpu();
	struct wp_select record;
	__u8 stop = 0;

	if (!asked)
		return 0;
	record.header = header(WP_SELECT, device->cpu, index);
	record.sleep_ns = asked->sleep_ns;
	record.delta_tick_ns = asked->delta_tick_ns;
	record.latency_ns = asked->latency_ns;
	record.iowaiters = asked->iowaiters;
	bpf_probe_read_kernel(&stop, sizeof(stop), stop_tick);
	record.flags = asked->flags | (stop ? WP_STOP_TICK : 0) | take_left(asked);
	asked->flags = 0;
	asked->got_tick = 0;
	return add(&record.header, sizeof(record));
}

SEC("fexit/tick_nohz_idle_got_tick")
int BPF_PROG(got_tick, bool got)
{
	struct asked *asked = this_cpu();

	if (asked)
		asked->got_tick = WP_SEEN_GOT_TICK | (got ? WP_GOT_TICK : 0);
	return 0;
}

SEC("fexit/cpuidle_reflect")
int BPF_PROG(cpuidle_reflect, struct cpuidle_device *device, int index)
{
	struct asked *asked = this_cpu();
	struct wp_reflect record;

	if (!asked)
		return 0;
	record.header = header(WP_REFLECT, device->cpu, index);
	record.residency_ns = device->last_residency_ns;
	record.flags = asked->got_tick | (BPF_CORE_READ_BITFIELD(device, poll_time_limit) ? WP_POLL_LIMIT_HIT : 0);
	record.unused = 0;
	return add(&record.header, sizeof(record));
}
