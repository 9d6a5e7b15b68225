// SPDX-License-Identifier: GPL-2.0
/*
 * Watches block I/O for `wakepath daemon`.
 *
 * Between bursts a program notes the time of every I/O, within a burst it only counts: reading a clock costs more than all
 * the rest, in virtual machines several times as much. A timer sees that nothing is counted any more. Only the first I/Os
 * of a burst and its end reach user space, so that watching costs neither a system call nor a wake-up per I/O.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "wire.h"

char _license[] SEC("license") = "GPL";

/* Of a request's cmd_flags: the operation (REQ_OP_MASK). From 32 on they are commands to drivers, not I/O. */
#define OPERATION_MASK 0xff
#define FIRST_COMMAND 32

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} events SEC(".maps");

/* By CPU; an array because the kernel inlines its lookup. The loader sets the number of CPUs, here and below. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_cpu);
} cpus SEC(".maps");

/*
 * How often within the timeout the timer looks. A burst is over when it has seen nothing new so many times in a row, and so
 * one timeout to one and a half after the last I/O.
 */
#define LOOKS 2

/* What begins and ends a burst: not touched by its I/Os. */
struct quiet {
	struct bpf_timer timer;
	__u64 begun_ns;		/* a burst began then, of which user space is to hear; 0: none */
	__u64 total;		/* I/Os when it last looked */
	__u32 unchanged;	/* looks in a row that saw no more */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct quiet);
} timers SEC(".maps");

/*
 * By device, major << 20 | minor: which of the drives it is a part of. A hash, since the numbers of devices are anywhere; all
 * namespaces of a drive lead to the same one. The loader sets the number of entries, here and below.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} namespaces SEC(".maps");

/* Drives whose idle gaps are asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_drive);
} drives SEC(".maps");

static __always_inline int report(struct wp_cpu *state, __u32 cpu, __u32 kind, __u64 time_ns)
{
	struct wp_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		state->lost++;
		return -1;
	}
	event->time_ns = time_ns;
	event->cpu = cpu;
	event->kind = kind;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

static __always_inline void look_again(struct quiet *quiet, struct wp_cpu *state)
{
	bpf_timer_start(&quiet->timer, state->timeout_ns / LOOKS, 0);
}

/*
 * Tells that a burst began, or looks whether it is over. It may run on another CPU than the one that it is about. If there
 * is no room to tell, the next look tries again.
 */
static int look(void *map, __u32 *cpu, struct quiet *quiet)
{
	struct wp_cpu *state = bpf_map_lookup_elem(&cpus, cpu);
	__u64 total, now;
	__u32 told;

	if (!state)
		return 0;
	if (quiet->begun_ns) {
		if (!report(state, *cpu, WP_IO, quiet->begun_ns))
			quiet->begun_ns = 0;
		look_again(quiet, state);
		return 0;
	}
	total = *(volatile __u64 *)&state->total;
	quiet->unchanged = total == quiet->total ? quiet->unchanged + 1 : 0;
	quiet->total = total;
	if (quiet->unchanged < LOOKS) {
		look_again(quiet, state);
		return 0;
	}
	now = bpf_ktime_get_ns();
	told = state->told;
	*(volatile __u32 *)&state->told = 0;
	/*
	 * An I/O that came meanwhile may have counted on the burst. One that is missed even so came at this very moment, and
	 * is taken for the last of the burst. Or there is no room to tell that it is over.
	 */
	if (*(volatile __u64 *)&state->total != total || report(state, *cpu, WP_QUIET, now)) {
		state->told = told;
		look_again(quiet, state);
	}
	return 0;
}

/*
 * Starts the timer for a burst. Where user space hears of `begun_ns`, the timer tells it, at once: waking user space takes
 * longer than all else, and whoever waits for this I/O should not wait for that.
 */
static __always_inline void arm(__u32 cpu, struct wp_cpu *state, __u64 begun_ns)
{
	struct quiet *quiet = bpf_map_lookup_elem(&timers, &cpu);

	if (!quiet)
		return;
	quiet->total = state->total;
	quiet->unchanged = 0;
	quiet->begun_ns = begun_ns;
	/* Once; later this fails, and does nothing. */
	bpf_timer_init(&quiet->timer, &timers, 1 /* CLOCK_MONOTONIC */);
	bpf_timer_set_callback(&quiet->timer, look);
	if (begun_ns)
		bpf_timer_start(&quiet->timer, 0, 0);
	else
		look_again(quiet, state);
}

static __always_inline int io(struct request *request, bool timed)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wp_cpu *state;
	__u64 now, gap;

	if ((request->cmd_flags & OPERATION_MASK) >= FIRST_COMMAND)
		return 0;
	state = bpf_map_lookup_elem(&cpus, &cpu);
	if (!state)
		return 0;
	state->total++;
	/* Most I/Os end here. */
	if (timed && state->told >= state->heard)
		return 0;
	now = bpf_ktime_get_ns();
	gap = now - state->last_ns;
	state->last_ns = now;
	/* Where there is a timer, it alone ends a burst that user space has heard of. */
	if (gap > state->timeout_ns && !(timed && state->told)) {
		state->count = 0;
		state->told = 0;
	}
	state->count++;
	if (state->count < state->first || state->told >= state->heard)
		return 0;
	if (timed && state->heard == 1) {
		state->told = 1;
		arm(cpu, state, now);
		return 0;
	}
	/* If there is no room, the next one tries again. */
	if (report(state, cpu, WP_IO, now))
		return 0;
	state->told++;
	if (timed && state->told == 1)
		arm(cpu, state, 0);
	return 0;
}

/* Each twice: the kernel's timers end a burst, or, where it has none for programs, user space does. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(complete_timed, struct request *request)
{
	return io(request, 1);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(issue_timed, struct request *request)
{
	return io(request, 1);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(complete, struct request *request)
{
	return io(request, 0);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(issue, struct request *request)
{
	return io(request, 0);
}

/* What it costs by the kernel's statistics is what they cost themselves. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(nothing, struct request *request)
{
	return 0;
}

/* User space puts in the drives that it asks about. */
static __always_inline struct wp_drive *drive(struct request *request)
{
	struct gendisk *disk = request->q->disk;
	__u32 device, *of;

	if (!disk)
		return NULL;
	device = (__u32)disk->major << 20 | disk->first_minor;
	of = bpf_map_lookup_elem(&namespaces, &device);
	return of ? bpf_map_lookup_elem(&drives, of) : NULL;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(gap_begins, struct request *request)
{
	struct wp_drive *of = drive(request);

	if (of)
		of->last_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(gap_ends, struct request *request)
{
	struct wp_drive *of = drive(request);
	__u64 last, now, us, rest;
	__u32 class = 0;

	if (!of || !of->last_ns)
		return 0;
	/* The first request ends the gap; those behind it find none. */
	last = of->last_ns;
	of->last_ns = 0;
	now = bpf_ktime_get_ns();
	if (now <= last)
		return 0;
	us = (now - last) / 1000;
	rest = us;
	for (int bits = 16; bits; bits >>= 1) {
		if (rest >> bits) {
			rest >>= bits;
			class += bits;
		}
	}
	class &= WP_GAP_CLASSES - 1;
	__sync_fetch_and_add(&of->gaps[class], 1);
	__sync_fetch_and_add(&of->gap_us[class], us);
	return 0;
}
