// SPDX-License-Identifier: GPL-2.0
/*
 * Drives of known service times for virtual machines in virtual time: /dev/drive0 and on.
 *
 * A request is served by one of the drive's parallel units from its submission on, or when a unit is free, and after
 * the drive has woken up. A CPU that does nothing else (`cpu`) plays the drive: its timer fires a little before the
 * request ends, it waits until the very nanosecond, and completes the request. The block layer then interrupts the CPU
 * that submitted it, as a drive's interrupt does: that CPU has no timer of its own pending for it. Where CPUs share a
 * queue, or one CPU takes all interrupts (`completion_cpu`), that CPU is interrupted, and completes the request. A polled
 * queue (`poll_queues`) interrupts nobody: the task that polls finds the request there.
 *
 * With `device_interrupts`, each queue has an interrupt of its own in place of IPIs, and each request is written down with
 * the times at which the drive got it and raised its interrupt (/sys/kernel/debug/wakepath_drive): that is the truth which
 * explanations of a recording are held to.
 *
 * Nothing is stored beyond the first `store_mib` of the first drive: reads give whatever the buffer had. Times are in ns.
 *
 * The same CPU has rig/module note the counters of idle states at the beginning and at the end of a window of time. Its
 * timer does that inside the kernel, because a drive with much to do leaves programs on its CPU hardly any time.
 */
#include <linux/blk-mq.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/irqdomain.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <asm/hw_irq.h>
#include <asm/irqdomain.h>

#define MOST_POINTS 257
#define MOST_UNITS 256U
#define MOST_STATES 32U
#define MOST_DRIVES 16

static unsigned int drives = 1;
module_param(drives, uint, 0444);
MODULE_PARM_DESC(drives, "number of drives");

static unsigned int capacity_mib = 65536;
module_param(capacity_mib, uint, 0444);
MODULE_PARM_DESC(capacity_mib, "size of each drive");

static unsigned int store_mib;
module_param(store_mib, uint, 0444);
MODULE_PARM_DESC(store_mib, "MiB at the beginning of the first drive that are kept in memory, for a file system; 0: none");

static unsigned int cpu;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "the CPU that plays the drives; nothing else should run there");

static unsigned int queues;
module_param(queues, uint, 0444);
MODULE_PARM_DESC(queues, "hardware queues of each drive, over the CPUs besides `cpu`; 0: one for each");

static unsigned int poll_queues;
module_param(poll_queues, uint, 0444);
MODULE_PARM_DESC(poll_queues, "more queues of each drive, for polled requests, over the same CPUs; 0: none, and polling is refused");

static unsigned int depth = 1023;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "requests that a queue holds");

static unsigned int units = 8;
module_param(units, uint, 0644);
MODULE_PARM_DESC(units, "requests that a drive serves at a time");

static unsigned int seed = 1;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "of the service times");

static unsigned int lead_ns = 5000;
module_param(lead_ns, uint, 0644);
MODULE_PARM_DESC(lead_ns, "how long before a request ends the timer fires");

static int completion_cpu = -1;
module_param(completion_cpu, int, 0444);
MODULE_PARM_DESC(completion_cpu, "the CPU that takes all interrupts; -1: one of those of the queue");

static bool device_interrupts;
module_param(device_interrupts, bool, 0444);
MODULE_PARM_DESC(device_interrupts,
	"each queue has an interrupt with a vector of its own in place of IPIs, and completes as NVMe does; requests are written down");

static unsigned int coalesce = 1;
module_param(coalesce, uint, 0644);
MODULE_PARM_DESC(coalesce, "requests that a queue collects before it interrupts");

static unsigned int coalesce_ns;
module_param(coalesce_ns, uint, 0644);
MODULE_PARM_DESC(coalesce_ns, "how long the first of them waits at most");

/* Reads, writes. */
static unsigned int link_kbs[2];
module_param_array(link_kbs, uint, NULL, 0644);
MODULE_PARM_DESC(link_kbs, "kB/s of the link for what is beyond 4 KiB of a request, in each direction; 0: at once");

static unsigned int stream_kbs[2];
module_param_array(stream_kbs, uint, NULL, 0644);
MODULE_PARM_DESC(stream_kbs, "kB/s at which the media give or take one request; 0: as the link");

/* Equally likely service times between neighbours: one point is a constant. */
static unsigned int read_ns[MOST_POINTS] = { 80000 };
static int read_points = 1;
module_param_array(read_ns, uint, &read_points, 0644);
MODULE_PARM_DESC(read_ns, "quantiles of the service time of a read of 4 KiB, in order");

static unsigned int write_ns[MOST_POINTS] = { 20000 };
static int write_points = 1;
module_param_array(write_ns, uint, &write_points, 0644);
MODULE_PARM_DESC(write_ns, "the same of a write");

static unsigned int flush_ns;
module_param(flush_ns, uint, 0444);
MODULE_PARM_DESC(flush_ns,
	"how long a flush of what was written takes, beside other requests; 0: no volatile cache, so that none comes");

static unsigned int forced_ns;
module_param(forced_ns, uint, 0644);
MODULE_PARM_DESC(forced_ns, "how much longer a write takes that has to be on the media (FUA); none comes without a volatile cache");

/* Power states in the order in which they are entered. */
static unsigned int states;
module_param(states, uint, 0644);
MODULE_PARM_DESC(states, "how many of them are in use");

static unsigned int state_idle_us[MOST_STATES], state_entry_us[MOST_STATES], state_exit_us[MOST_STATES];
module_param_array(state_idle_us, uint, NULL, 0644);
MODULE_PARM_DESC(state_idle_us, "after how long without requests the drive begins to enter each (APST)");
module_param_array(state_entry_us, uint, NULL, 0644);
MODULE_PARM_DESC(state_entry_us, "how long entering each takes, during which the drive cannot turn back");
module_param_array(state_exit_us, uint, NULL, 0644);
MODULE_PARM_DESC(state_exit_us, "how long leaving each takes");

struct counts {
	u64 reads, writes, forced, flushes, interrupts, service_ns, queued_ns, late_ns, most_late_ns, wakes[MOST_STATES], wake_ns;
};

/* A hardware queue. */
struct queue {
	struct list_head collected;	/* only touched by the CPU that plays the drive */
	unsigned int collected_count;
	u64 collected_since;
	/* Whether the queue is polled, and so interrupts no CPU. */
	bool polled;
	/* The CPU that is interrupted; -1: that which submitted. */
	int cpu;
	/* Requests that it, or a task that polls, has not seen yet. */
	struct llist_head told;
	call_single_data_t call;
	/* With `device_interrupts`; 0: none. */
	unsigned int irq;
};

struct drive {
	struct gendisk *disk;
	struct blk_mq_tag_set tags;
	unsigned int number;
	/* Queues that interrupt; polled ones follow them. */
	unsigned int interrupting;
	/* Requests that the CPU that plays the drive has not seen yet. */
	struct llist_head inbox;
	call_single_data_t call;
	/* Only touched by that CPU. */
	struct hrtimer timer;
	struct list_head served;	/* by end */
	u64 unit_free[MOST_UNITS];
	u64 link_free[2];
	u64 awake_at, idle_since;
	/* Something was written since the last flush began, and when that ends. */
	bool unflushed;
	u64 flushed_at;
	unsigned int in_flight;
	u64 random;
	struct counts counts;
	struct queue queues[];
};

struct command {
	struct llist_node node;
	struct list_head list;
	struct queue *queue;
	u64 submitted, end;
};

static struct drive *all[MOST_DRIVES];

/* What the beginning of the first drive holds. */
static u64 *store;

/* A copy in words: what the kernel offers may take an instruction for each byte, which is time here. */
static void copy_words(u64 *to, const u64 *from, unsigned int bytes)
{
	unsigned int words = bytes / sizeof(u64), i;

	for (i = 0; i + 8 <= words; i += 8) {
		to[i] = from[i];
		to[i + 1] = from[i + 1];
		to[i + 2] = from[i + 2];
		to[i + 3] = from[i + 3];
		to[i + 4] = from[i + 4];
		to[i + 5] = from[i + 5];
		to[i + 6] = from[i + 6];
		to[i + 7] = from[i + 7];
		barrier();
	}
	for (; i < words; i++)
		to[i] = from[i];
}

/* Moves the data of a request, as far as they are kept. The CPU that plays the drives does so while the request is served. */
static void move_data(struct drive *drive, struct request *rq)
{
	u64 at = (u64)blk_rq_pos(rq) << SECTOR_SHIFT, end = (u64)store_mib << 20;
	bool write = op_is_write(req_op(rq));
	struct req_iterator iterator;
	struct bio_vec vector;

	if (!store || drive->number || (req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE))
		return;
	rq_for_each_segment(vector, rq, iterator) {
		u64 *kept = store + at / sizeof(u64);
		u64 *data;

		if (at + vector.bv_len > end)
			return;
		data = bvec_kmap_local(&vector);
		if (write)
			copy_words(kept, data, vector.bv_len);
		else
			copy_words(data, kept, vector.bv_len);
		kunmap_local(data);
		at += vector.bv_len;
	}
}

static void set_up(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *))
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
	timer->function = function;
#endif
}

/* ---- A window of time in which rig/module watches the idle states. Only touched by the CPU that plays the drives. */

#define EDGES 2
/* Of rig/module. Each module is built for itself, so it is found by its name. */
#define NOTE "wakepath_idle_note"

static struct {
	/* From the first request on; a length of 0: none is wanted. */
	u64 delay, length;
	/* When the first request came, the last one ended, and the counters were noted; 0: not yet. */
	u64 first, last, noted[EDGES];
	/* When they are to be noted next, and then; 0: not again. */
	u64 next, end;
	void (*note)(unsigned int edge);
	struct hrtimer timer;
} window;

/* A CPU that has served requests for long without a pause does not wait for the timer. */
static void pass_edge(u64 now)
{
	unsigned int edge = !!window.noted[0];

	if (!window.next || now < window.next)
		return;
	window.noted[edge] = now;
	window.note(edge);
	window.next = window.end;
	window.end = 0;
}

static enum hrtimer_restart on_edge(struct hrtimer *timer)
{
	pass_edge(ktime_get_ns());
	if (!window.next)
		return HRTIMER_NORESTART;
	hrtimer_set_expires(timer, ns_to_ktime(window.next));
	return HRTIMER_RESTART;
}

static void open_window(u64 from)
{
	window.next = from + window.delay;
	window.end = window.next + window.length;
	hrtimer_start(&window.timer, ns_to_ktime(window.next), HRTIMER_MODE_ABS_PINNED_HARD);
}

static void open_window_now(void *unused)
{
	open_window(ktime_get_ns());
}

/* ---- The drives. */

static u32 next_random(struct drive *drive)
{
	drive->random = drive->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return drive->random >> 32;
}

/* Time of a unit for a request of 4 KiB. */
static u64 service(struct drive *drive, bool write)
{
	const unsigned int *points = write ? write_ns : read_ns;
	int count = write ? write_points : read_points;
	u64 at = (u64)next_random(drive) * (count - 1);
	unsigned int below = at >> 32;

	if (count == 1)
		return points[0];
	return points[below] + ((((s64)points[below + 1] - points[below]) * (s64)(u32)at) >> 32);
}

/* When what a request has beyond 4 KiB is over the link. The link takes one after the other in each direction. */
static u64 transfer(struct drive *drive, bool write, unsigned int bytes, u64 end)
{
	u64 beyond = bytes > 4096 ? (u64)(bytes - 4096) * 1000000 : 0;
	u64 link, media;

	if (!beyond || !link_kbs[write])
		return end;
	link = div_u64(beyond, link_kbs[write]);
	media = stream_kbs[write] ? div_u64(beyond, stream_kbs[write]) : 0;
	/* It is not needed before the last of the data come off the media. */
	if (media > link)
		end += media - link;
	drive->link_free[write] = max(end, drive->link_free[write]) + link;
	return drive->link_free[write];
}

/* What a request has to wait before the drive is awake. */
static u64 wake_wait(struct drive *drive, u64 now)
{
	u64 idle = now - drive->idle_since, wait;
	int state;

	/* A request may have been submitted before the one in front of it ended, and be seen after that. */
	if (drive->in_flight || !drive->idle_since || now <= drive->idle_since)
		return 0;
	for (state = min(states, MOST_STATES) - 1; state >= 0; state--) {
		u64 entered = (u64)state_idle_us[state] * 1000 + (u64)state_entry_us[state] * 1000;

		if (idle < (u64)state_idle_us[state] * 1000)
			continue;
		wait = (u64)state_exit_us[state] * 1000;
		if (idle < entered)
			wait += entered - idle;
		drive->counts.wakes[state]++;
		drive->counts.wake_ns += wait;
		return wait;
	}
	return 0;
}

static void take_in(struct drive *drive)
{
	struct llist_node *node = llist_reverse_order(llist_del_all(&drive->inbox));
	struct command *command, *after;
	unsigned int most = clamp(units, 1U, MOST_UNITS);

	llist_for_each_entry_safe(command, after, node, node) {
		struct request *rq = blk_mq_rq_from_pdu(command);
		bool write = op_is_write(req_op(rq));
		unsigned int unit = 0, i;
		struct command *other;
		struct list_head *place;
		u64 awake, start;

		if (!window.first) {
			window.first = command->submitted;
			if (window.length)
				open_window(window.first);
		}
		drive->awake_at = max(drive->awake_at, command->submitted + wake_wait(drive, command->submitted));
		awake = max(drive->awake_at, command->submitted);
		for (i = 1; i < most; i++)
			if (drive->unit_free[i] < drive->unit_free[unit])
				unit = i;
		start = awake;
		if (req_op(rq) == REQ_OP_FLUSH) {
			if (drive->unflushed)
				drive->flushed_at = awake + flush_ns;
			drive->unflushed = false;
			command->end = max(awake, drive->flushed_at);
		} else {
			start = max(awake, drive->unit_free[unit]);
			command->end = transfer(drive, write, blk_rq_bytes(rq), start + service(drive, write));
			drive->unit_free[unit] = command->end;
			if (write && (rq->cmd_flags & REQ_FUA)) {
				command->end += forced_ns;
				drive->counts.forced++;
			} else if (write) {
				drive->unflushed = true;
			}
		}
		move_data(drive, rq);
		drive->in_flight++;
		if (req_op(rq) == REQ_OP_FLUSH)
			drive->counts.flushes++;
		else if (write)
			drive->counts.writes++;
		else
			drive->counts.reads++;
		drive->counts.service_ns += command->end - start;
		drive->counts.queued_ns += start - awake;
		place = &drive->served;
		list_for_each_entry_reverse(other, &drive->served, list) {
			if (other->end <= command->end) {
				place = &other->list;
				break;
			}
		}
		list_add(&command->list, place);
	}
}

/* Waits for the end of a request that is near, to the nanosecond. */
static void wait_for(u64 end)
{
	while (ktime_get_ns() < end)
		cpu_relax();
}

/* ---- Requests written down, with `device_interrupts`. Only the CPU that plays the drives writes. */

#define MOST_NOTED (1 << 18)

struct noted_request {
	u64 sector, submitted, end, raised;
	u32 drive, cpu;
};

static struct noted_request *noted_requests;
/* Requests since `counts` was cleared; those beyond MOST_NOTED are not written down. */
static unsigned int noted_count;
static struct dentry *noted_file;

static void note_request(const struct drive *drive, const struct queue *queue, struct command *command, u64 raised)
{
	if (noted_count < MOST_NOTED)
		noted_requests[noted_count] = (struct noted_request) {
			.sector = blk_rq_pos(blk_mq_rq_from_pdu(command)),
			.submitted = command->submitted,
			.end = command->end,
			.raised = raised,
			.drive = drive->number,
			.cpu = queue->cpu,
		};
	noted_count++;
}

static int requests_show(struct seq_file *out, void *unused)
{
	unsigned int i;

	for (i = 0; i < min_t(unsigned int, noted_count, MOST_NOTED); i++)
		seq_printf(out, "%u %llu %u %llu %llu %llu\n", noted_requests[i].drive, noted_requests[i].sector,
			   noted_requests[i].cpu, noted_requests[i].submitted, noted_requests[i].end,
			   noted_requests[i].raised);
	if (noted_count > MOST_NOTED)
		seq_puts(out, "full\n");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(requests);

/* ---- Interrupts. */

/* The handler of a queue's interrupt. Where the block layer says so, the CPU that submitted completes. */
static irqreturn_t on_device_interrupt(int irq, void *info)
{
	struct queue *queue = info;
	struct llist_node *node = llist_reverse_order(llist_del_all(&queue->told));
	struct command *command, *after;

	llist_for_each_entry_safe(command, after, node, node)
		blk_mq_complete_request(blk_mq_rq_from_pdu(command));
	return IRQ_HANDLED;
}

/* On the CPU that a queue interrupts, if it is not that which submitted. */
static void on_interrupt(void *info)
{
	struct queue *queue = info;
	struct llist_node *node = llist_reverse_order(llist_del_all(&queue->told));
	struct command *command, *after;

	llist_for_each_entry_safe(command, after, node, node)
		blk_mq_end_request(blk_mq_rq_from_pdu(command), BLK_STS_OK);
}

/* An interrupt of the kernel with a vector on the queue's CPU, as that of a message from a device (MSI). */
static int add_interrupt(struct queue *queue)
{
	struct irq_alloc_info info = { .mask = cpumask_of(queue->cpu) };
	int irq = irq_domain_alloc_irqs(x86_vector_domain, 1, NUMA_NO_NODE, &info), error;

	if (irq < 0)
		return irq;
	irq_set_handler(irq, handle_edge_irq);
	error = irq_set_affinity(irq, cpumask_of(queue->cpu));
	if (!error)
		error = request_irq(irq, on_device_interrupt, IRQF_NOBALANCING, "wakepath_drive", queue);
	if (error) {
		irq_dispose_mapping(irq);
		return error;
	}
	queue->irq = irq;
	return 0;
}

/* Sends the vector to the queue's CPU. Nothing but the interrupt is to be seen there: no IPI of the kernel's comes first. */
static void raise_interrupt(struct queue *queue)
{
	struct irq_data *data = irq_get_irq_data(queue->irq);

	data->chip->irq_retrigger(data);
}

static void remove_interrupts(struct drive *drive)
{
	unsigned int i;

	for (i = 0; i < drive->tags.nr_hw_queues; i++) {
		if (!drive->queues[i].irq)
			continue;
		free_irq(drive->queues[i].irq, &drive->queues[i]);
		irq_dispose_mapping(drive->queues[i].irq);
	}
}

/* Puts what a polled queue has collected where the next poll finds it. */
static void post(struct queue *queue)
{
	struct command *command, *after;

	queue->collected_count = 0;
	list_for_each_entry_safe(command, after, &queue->collected, list) {
		list_del(&command->list);
		llist_add(&command->node, &queue->told);
	}
}

static void interrupt(struct drive *drive, struct queue *queue)
{
	u64 now = device_interrupts ? ktime_get_ns() : 0;
	struct command *command, *after;
	bool first = false;

	drive->counts.interrupts++;
	queue->collected_count = 0;
	list_for_each_entry_safe(command, after, &queue->collected, list) {
		struct request *rq = blk_mq_rq_from_pdu(command);

		list_del(&command->list);
		if (queue->irq)
			note_request(drive, queue, command, now);
		if (queue->cpu >= 0)
			first |= llist_add(&command->node, &queue->told);
		else if (!blk_mq_complete_request_remote(rq))
			blk_mq_end_request(rq, BLK_STS_OK);
	}
	if (first && queue->irq)
		raise_interrupt(queue);
	else if (first)
		smp_call_function_single_async(queue->cpu, &queue->call);
}

/* When there is something to do next; 0: never. */
static u64 next_event(struct drive *drive)
{
	struct command *first = list_first_entry_or_null(&drive->served, struct command, list);
	u64 next = first ? first->end : 0;
	unsigned int i;

	for (i = 0; i < drive->tags.nr_hw_queues; i++) {
		u64 due = drive->queues[i].collected_since + coalesce_ns;

		if (drive->queues[i].collected_count && (!next || due < next))
			next = due;
	}
	return next;
}

static void work(struct drive *drive)
{
	u64 next;

	for (;;) {
		unsigned int i;
		u64 now;

		take_in(drive);
		next = next_event(drive);
		if (!next)
			return;
		now = ktime_get_ns();
		pass_edge(now);
		if (next > now + lead_ns)
			break;
		wait_for(next);
		now = ktime_get_ns();
		for (;;) {
			struct command *first = list_first_entry_or_null(&drive->served, struct command, list);

			if (!first || first->end > now)
				break;
			drive->counts.late_ns += now - first->end;
			drive->counts.most_late_ns = max(drive->counts.most_late_ns, now - first->end);
			window.last = first->end;
			list_move_tail(&first->list, &first->queue->collected);
			if (!first->queue->collected_count++)
				first->queue->collected_since = first->end;
			if (!--drive->in_flight)
				drive->idle_since = first->end;
		}
		for (i = 0; i < drive->tags.nr_hw_queues; i++) {
			struct queue *queue = &drive->queues[i];

			if (!queue->collected_count)
				continue;
			if (queue->polled)
				post(queue);
			else if (queue->collected_count >= coalesce || queue->collected_since + coalesce_ns <= now)
				interrupt(drive, queue);
		}
	}
	hrtimer_start(&drive->timer, ns_to_ktime(next - lead_ns), HRTIMER_MODE_ABS_PINNED_HARD);
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	work(container_of(timer, struct drive, timer));
	return HRTIMER_NORESTART;
}

static void on_call(void *drive)
{
	work(drive);
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *data)
{
	struct drive *drive = hctx->queue->queuedata;
	struct command *command = blk_mq_rq_to_pdu(data->rq);

	blk_mq_start_request(data->rq);
	command->submitted = ktime_get_ns();
	command->queue = &drive->queues[hctx->queue_num];
	/* Whoever finds the inbox empty tells the drive. */
	if (llist_add(&command->node, &drive->inbox))
		smp_call_function_single_async(cpu, &drive->call);
	return BLK_STS_OK;
}

static void complete_rq(struct request *rq)
{
	blk_mq_end_request(rq, BLK_STS_OK);
}

/* Completes what a polled queue has; how many requests these were. */
static int poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *batch)
{
	struct drive *drive = hctx->queue->queuedata;
	struct queue *queue = &drive->queues[hctx->queue_num];
	struct command *command, *after;
	struct llist_node *node;
	int found = 0;

	/*
	 * Most polls find nothing. Without a pause QEMU would let no other CPU run before a timer fires, and the block layer comes
	 * to its own pause only for a task that is about to sleep.
	 */
	if (llist_empty(&queue->told)) {
		cpu_relax();
		return 0;
	}
	node = llist_reverse_order(llist_del_all(&queue->told));
	llist_for_each_entry_safe(command, after, node, node) {
		struct request *rq = blk_mq_rq_from_pdu(command);

		if (!blk_mq_complete_request_remote(rq))
			blk_mq_end_request(rq, BLK_STS_OK);
		found++;
	}
	return found;
}

/* CPUs that use the drives are numbered without the one that plays them. */
static unsigned int users(void)
{
	return max(nr_cpu_ids - 1, 1u);
}

/* Each queue of a kind serves CPUs that follow each other. Reads have no queues of their own: they use those of writes. */
static void map_queues(struct blk_mq_tag_set *tags)
{
	struct drive *drive = container_of(tags, struct drive, tags);
	unsigned int kind, other, user;

	/* The block layer has given each kind all queues. */
	tags->map[HCTX_TYPE_DEFAULT].nr_queues = drive->interrupting;
	if (tags->nr_maps > HCTX_TYPE_POLL) {
		tags->map[HCTX_TYPE_READ].nr_queues = 0;
		tags->map[HCTX_TYPE_POLL].nr_queues = tags->nr_hw_queues - drive->interrupting;
		tags->map[HCTX_TYPE_POLL].queue_offset = drive->interrupting;
	}
	for (kind = 0; kind < tags->nr_maps; kind++) {
		struct blk_mq_queue_map *map = &tags->map[kind];

		for_each_possible_cpu(other) {
			user = min(other - (other > cpu), users() - 1);
			map->mq_map[other] = map->queue_offset + user * map->nr_queues / users();
		}
	}
}

/* Drives take turns among the CPUs of a queue. */
static int interrupted_cpu(const struct drive *drive, unsigned int queue)
{
	unsigned int first = DIV_ROUND_UP(queue * users(), drive->interrupting);
	unsigned int next = DIV_ROUND_UP((queue + 1) * users(), drive->interrupting);

	if (completion_cpu >= 0)
		return completion_cpu;
	if (next - first == 1 && !device_interrupts)
		return -1;
	first += drive->number % (next - first);
	return first + (first >= cpu);
}

static const struct blk_mq_ops ops = {
	.queue_rq = queue_rq,
	.complete = complete_rq,
	.poll = poll,
	.map_queues = map_queues,
};

static const struct block_device_operations disk_ops = {
	.owner = THIS_MODULE,
};

static int add_drive(unsigned int number)
{
	unsigned int interrupting = queues ? min(queues, users()) : users(), polled = min(poll_queues, users()), i;
	unsigned int count = interrupting + polled;
	struct drive *drive;
	int error;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
	struct queue_limits limits = {
		.logical_block_size = 512,
		.physical_block_size = 4096,
		.max_hw_sectors = 8192,
		.max_segments = 1024,
	};
#endif

	drive = kzalloc(struct_size(drive, queues, count), GFP_KERNEL);
	if (!drive)
		return -ENOMEM;
	drive->number = number;
	drive->interrupting = interrupting;
	INIT_LIST_HEAD(&drive->served);
	init_llist_head(&drive->inbox);
	INIT_CSD(&drive->call, on_call, drive);
	set_up(&drive->timer, on_timer);
	drive->random = (u64)seed * 2654435761u + number;
	next_random(drive);
	drive->tags.ops = &ops;
	drive->tags.nr_hw_queues = count;
	drive->tags.nr_maps = polled ? HCTX_MAX_TYPES : 1;
	drive->tags.queue_depth = depth;
	drive->tags.numa_node = NUMA_NO_NODE;
	drive->tags.cmd_size = sizeof(struct command);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	drive->tags.flags = BLK_MQ_F_SHOULD_MERGE;
#endif
	for (i = 0; i < count; i++) {
		INIT_LIST_HEAD(&drive->queues[i].collected);
		init_llist_head(&drive->queues[i].told);
		INIT_CSD(&drive->queues[i].call, on_interrupt, &drive->queues[i]);
		drive->queues[i].polled = i >= interrupting;
		drive->queues[i].cpu = drive->queues[i].polled ? -1 : interrupted_cpu(drive, i);
		error = device_interrupts && !drive->queues[i].polled ? add_interrupt(&drive->queues[i]) : 0;
		if (error)
			goto free;
	}
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
	if (flush_ns)
		limits.features |= BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
#endif
	error = blk_mq_alloc_tag_set(&drive->tags);
	if (error)
		goto free;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
	drive->disk = blk_mq_alloc_disk(&drive->tags, &limits, drive);
#else
	drive->disk = blk_mq_alloc_disk(&drive->tags, drive);
#endif
	if (IS_ERR(drive->disk)) {
		error = PTR_ERR(drive->disk);
		goto free_tags;
	}
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 9, 0)
	blk_queue_logical_block_size(drive->disk->queue, 512);
	blk_queue_physical_block_size(drive->disk->queue, 4096);
	blk_queue_max_hw_sectors(drive->disk->queue, 8192);
	blk_queue_max_segments(drive->disk->queue, 1024);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, drive->disk->queue);
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
	blk_queue_write_cache(drive->disk->queue, flush_ns > 0, flush_ns > 0);
#endif
	drive->disk->fops = &disk_ops;
	drive->disk->private_data = drive;
	snprintf(drive->disk->disk_name, DISK_NAME_LEN, "drive%u", number);
	set_capacity(drive->disk, (sector_t)capacity_mib * 2048);
	error = add_disk(drive->disk);
	if (error)
		goto put;
	all[number] = drive;
	return 0;
put:
	put_disk(drive->disk);
free_tags:
	blk_mq_free_tag_set(&drive->tags);
free:
	remove_interrupts(drive);
	kfree(drive);
	return error;
}

/* /sys/module/wakepath_drive/parameters/counts: a line per drive; writing to it begins anew, with drives that are awake. */
static int show_counts(char *buffer, const struct kernel_param *parameter)
{
	unsigned int state;
	int length = 0, i;

	for (i = 0; i < MOST_DRIVES && all[i]; i++) {
		const struct counts *of = &all[i]->counts;

		length += scnprintf(buffer + length, PAGE_SIZE - length,
			"drive%d reads %llu writes %llu forced %llu flushes %llu interrupts %llu service_ns %llu queued_ns %llu late_ns %llu most_late_ns %llu wake_ns %llu wakes",
			i, of->reads, of->writes, of->forced, of->flushes, of->interrupts, of->service_ns, of->queued_ns,
			of->late_ns, of->most_late_ns, of->wake_ns);
		for (state = 0; state < min(states, MOST_STATES); state++)
			length += scnprintf(buffer + length, PAGE_SIZE - length, " %llu", of->wakes[state]);
		length += scnprintf(buffer + length, PAGE_SIZE - length, "\n");
	}
	return length;
}

static int clear_counts(const char *text, const struct kernel_param *parameter)
{
	int i;

	for (i = 0; i < MOST_DRIVES && all[i]; i++) {
		memset(&all[i]->counts, 0, sizeof(all[i]->counts));
		all[i]->idle_since = 0;
	}
	noted_count = 0;
	hrtimer_cancel(&window.timer);
	window.length = window.next = window.end = 0;
	window.first = window.last = window.noted[0] = window.noted[1] = 0;
	return 0;
}

static const struct kernel_param_ops counts_ops = {
	.get = show_counts,
	.set = clear_counts,
};
module_param_cb(counts, &counts_ops, NULL, 0644);
MODULE_PARM_DESC(counts, "what each drive did; writing begins anew");

/* /sys/module/wakepath_drive/parameters/window: when it began and ended, between the first request and the last. */
static int show_window(char *buffer, const struct kernel_param *parameter)
{
	return scnprintf(buffer, PAGE_SIZE, "first_ns %llu begin_ns %llu end_ns %llu last_ns %llu\n", window.first,
			 window.noted[0], window.noted[1], window.last);
}

/* Of the run that `counts` began: its delay from the first request on and its length in ns, and `now` to wait for none. */
static int set_window(const char *text, const struct kernel_param *parameter)
{
	unsigned long long delay, length;
	char word[4] = "", more;
	int given = sscanf(text, "%llu %llu %3s %c", &delay, &length, word, &more);

	if (given < 2 || given > 3 || !length || (given == 3 && strcmp(word, "now"))) {
		pr_err("wakepath_drive: window=%.*s is not DELAY LENGTH [now], in ns\n", (int)strcspn(text, "\n"), text);
		return -EINVAL;
	}
	if (window.length || (given == 2 && window.first)) {
		pr_err("wakepath_drive: before a window `counts` is to be cleared, and no request may have come since\n");
		return -EBUSY;
	}
	if (!window.note)
		window.note = __symbol_get(NOTE);
	if (!window.note) {
		pr_err("wakepath_drive: the counters are those of wakepath_idle, which is not loaded\n");
		return -ENODEV;
	}
	window.delay = delay;
	window.length = length;
	return given == 3 ? smp_call_function_single(cpu, open_window_now, NULL, 1) : 0;
}

static const struct kernel_param_ops window_ops = {
	.get = show_window,
	.set = set_window,
};
module_param_cb(window, &window_ops, NULL, 0644);
MODULE_PARM_DESC(window, "the window in which idle states are watched");

static void remove_all(void)
{
	int i;

	for (i = 0; i < MOST_DRIVES && all[i]; i++) {
		del_gendisk(all[i]->disk);
		put_disk(all[i]->disk);
		hrtimer_cancel(&all[i]->timer);
		blk_mq_free_tag_set(&all[i]->tags);
		remove_interrupts(all[i]);
		kfree(all[i]);
		all[i] = NULL;
	}
	hrtimer_cancel(&window.timer);
	if (window.note)
		symbol_put_addr(window.note);
	debugfs_remove(noted_file);
	vfree(noted_requests);
	vfree(store);
	store = NULL;
}

static int __init wakepath_drive_init(void)
{
	unsigned int i;
	int error;

	if (!drives || drives > MOST_DRIVES || cpu >= nr_cpu_ids || !cpu_online(cpu)) {
		pr_err("wakepath_drive: 1 to %d drives, played by a CPU that is online\n", MOST_DRIVES);
		return -EINVAL;
	}
	if (completion_cpu >= 0 && (completion_cpu >= nr_cpu_ids || !cpu_online(completion_cpu))) {
		pr_err("wakepath_drive: completion_cpu=%d is no CPU that is online\n", completion_cpu);
		return -EINVAL;
	}
	if (units > MOST_UNITS || states > MOST_STATES) {
		pr_err("wakepath_drive: at most %u units and %u power states\n", MOST_UNITS, MOST_STATES);
		return -EINVAL;
	}
	if (store_mib > capacity_mib) {
		pr_err("wakepath_drive: store_mib is at most capacity_mib, %u\n", capacity_mib);
		return -EINVAL;
	}
	set_up(&window.timer, on_edge);
	if (store_mib) {
		store = vzalloc((unsigned long)store_mib << 20);
		if (!store)
			return -ENOMEM;
	}
	if (device_interrupts) {
		noted_requests = vmalloc(array_size(MOST_NOTED, sizeof(*noted_requests)));
		if (!noted_requests) {
			vfree(store);
			return -ENOMEM;
		}
		noted_file = debugfs_create_file("wakepath_drive", 0400, NULL, NULL, &requests_fops);
	}
	for (i = 0; i < drives; i++) {
		error = add_drive(i);
		if (error) {
			remove_all();
			return error;
		}
	}
	return 0;
}
module_init(wakepath_drive_init);

static void __exit wakepath_drive_exit(void)
{
	remove_all();
}
module_exit(wakepath_drive_exit);

MODULE_DESCRIPTION("Drives of known service times, to hold wakepath's simulator to");
MODULE_LICENSE("GPL");
