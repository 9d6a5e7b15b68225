/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What record.bpf.c hands to wakepath, in this machine's byte order. crates/record/src/wire.rs decodes it.
 *
 * A record is a header, and for some kinds what follows below; records are handed over several at a time, one after the
 * other, behind a word that says which buffer they were: the generation, or WP_NESTED. Times are of CLOCK_MONOTONIC in ns.
 */
#ifndef WAKEPATH_WIRE_H
#define WAKEPATH_WIRE_H

enum wp_kind {
	WP_IDLE_ENTER = 1,	/* word: the state's index, and WP_LEFT */
	WP_IDLE_EXIT,		/* word: 0 */
	WP_SELECT,		/* word: the index chosen; struct wp_select */
	WP_REFLECT,		/* word: the index entered, negative: none; struct wp_reflect */
	WP_BLOCK_ISSUE,		/* word: device, major << 20 | minor; struct wp_block */
	WP_BLOCK_COMPLETE,	/* the same */
	WP_WAKE,		/* word: target CPU, and WP_IOWAIT */
	WP_FREQUENCY,		/* word: kHz; cpu: whose */
	WP_HRTIMER,		/* word: 1 for the scheduler's tick, otherwise 0 */
	WP_TIMER,		/* word: 0; a timer of the timer wheel */
	WP_HOTPLUG,		/* word: 1 on the way up, 0 on the way down; cpu: whose; once for each of many steps */
	WP_QUEUED,		/* word: device; struct wp_bio */
	WP_TAGGED,		/* word: device; struct wp_block */
	WP_INSERTED,		/* the same */
	WP_MERGED,		/* the same */
	WP_SPLIT,		/* word: device; struct wp_remap: the second half's sector in from_sector */
	WP_REMAPPED,		/* word: device below; struct wp_remap */
	WP_IRQ,			/* word: the interrupt's number */
	WP_BLOCK_SOFTIRQ,	/* word: 0 */
	WP_CALL_FUNCTION,	/* word: 0; the IPI arrives */
	WP_RESCHEDULE,		/* word: 0; the IPI arrives */
	WP_IPI_SENT,		/* word: target CPU */
	WP_IPI_SPARED,		/* word: target CPU, idle, woken by a store */
	WP_WAKING,		/* word: thread number */
	WP_WOKEN,		/* word: thread number; struct wp_woken */
	WP_RUNNING,		/* word: thread number */
	WP_TASK_NAME,		/* word: thread number; struct wp_name */
	WP_TASK_CGROUP,		/* word: thread number; struct wp_cgroup; again after the thread moved to another cgroup */
	WP_CLOCK,		/* word: 0; struct wp_clock */
	WP_UNSEEN_SWITCH,	/* word: thread number of a task that ran until a switch without a program run */
};

struct wp_header {
	__u64 time_ns;
	__u16 kind;
	__u16 cpu;
	__u32 word;
};

/* The CPU left the idle loop, to run a task, since it last chose a state or entered one. */
#define WP_LEFT			(1u << 31)

/* Which fields of struct wp_select the kernel showed: a governor that does not ask is not seen asking. */
#define WP_SEEN_SLEEP		(1 << 0)
#define WP_SEEN_LATENCY		(1 << 1)
#define WP_SEEN_IOWAITERS	(1 << 2)
#define WP_SEEN_TICK		(1 << 3)
#define WP_TICK_STOPPED		(1 << 4)
#define WP_STOP_TICK		(1 << 5)
/* And WP_LEFT. */

struct wp_select {
	struct wp_header header;
	__s64 sleep_ns;
	__s64 delta_tick_ns;
	__s64 latency_ns;
	__u32 iowaiters;
	__u32 flags;
};

#define WP_SEEN_GOT_TICK	(1 << 0)
#define WP_GOT_TICK		(1 << 1)
#define WP_POLL_LIMIT_HIT	(1 << 2)

struct wp_reflect {
	struct wp_header header;
	__u64 residency_ns;
	__u32 flags;
	__u32 unused;
};

#define WP_WRITE		(1 << 0)

struct wp_block {
	struct wp_header header;
	__u64 sector;
	__u32 bytes;
	__u32 flags;
};

/* Besides WP_WRITE: readahead, or a write that nobody waits for. */
#define WP_BACKGROUND		(1 << 1)
/* The drive empties its cache first. */
#define WP_FLUSHES_FIRST	(1 << 2)
/* A write that ends once its data are on the media. */
#define WP_FORCED		(1 << 3)

struct wp_bio {
	struct wp_block block;
	__u32 task;		/* thread number of the submitter */
	__u32 unused;
};

struct wp_remap {
	struct wp_block block;
	__u64 from_sector;
	__u32 from_device;
	__u32 unused;
};

struct wp_woken {
	struct wp_header header;
	__u32 target;		/* CPU of the run queue */
	__u32 unused;
};

struct wp_name {
	struct wp_header header;
	char name[16];
};

struct wp_cgroup {
	struct wp_header header;
	__u64 cgroup;		/* number of the cgroup's directory in the hierarchy of version 2 */
};

/* From the end of the CPU's idle period, or the beginning of a handler if that is later, to the record. */
struct wp_clock {
	struct wp_header header;
	__u64 elapsed_ns;
	__u64 cycles;
	__u64 reference;	/* cycles at a constant clock */
};

#define WP_IOWAIT		(1u << 31)

/*
 * Instead of a generation: one record, handed over by itself because the CPU was interrupted when it added to its buffer.
 * What happened before comes only with that.
 */
#define WP_NESTED		(~0ULL)

#define WP_PILE_WORDS		188

/* What a CPU did not hand over yet. User space looks at it at any time. */
struct wp_cpu_buffer {
	__u32 words;		/* taken of data */
	__u32 records;		/* in them */
	__u32 busy;		/* a record is being added */
	__u32 nested;		/* records passed by meanwhile */
	__u64 generation;	/* buffers handed over before this one; within one, data only grows */
	__u64 data[WP_PILE_WORDS];
};

#endif
