// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the daemon's program in the kernel, crates/daemon/bpf/block_io.bpf.c, on one CPU: the times of completions in ns on
 * standard input; on standard output what user space is told, a line each: 1 (I/O) or 2 (quiet), and the time.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint32_t __u32;
typedef uint64_t __u64;

#define SEC(name)
#define __always_inline inline
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define BPF_PROG(name, ...) name(__VA_ARGS__)
#define BPF_MAP_TYPE_RINGBUF 1
#define BPF_MAP_TYPE_ARRAY 1
#define BPF_MAP_TYPE_HASH 1

struct gendisk { int major, first_minor; };
struct request_queue { struct gendisk *disk; };
struct request { __u32 cmd_flags; struct request_queue *q; };

struct bpf_timer {
	int (*run)(void *map, __u32 *key, void *value);
	__u64 expires;
	bool armed;
};

static __u64 clock_ns;
static __u64 ring[2];

static void *lookup(void *map);

#define bpf_ktime_get_ns() clock_ns
#define bpf_get_smp_processor_id() 0
#define bpf_map_lookup_elem(map, key) lookup(map)
#define bpf_ringbuf_reserve(map, size, flags) ((void *)ring)
#define bpf_ringbuf_submit(event, flags) printf("%u %" PRIu64 "\n", (event)->kind, (uint64_t)(event)->time_ns)
#define bpf_timer_init(timer, map, clock)
#define bpf_timer_set_callback(timer, f) ((timer)->run = (void *)(f))
#define bpf_timer_start(timer, after, flags) ((timer)->expires = clock_ns + (after), (timer)->armed = true)

#include SOURCE

static struct wp_cpu cpu;
static struct quiet quiet;

static void *lookup(void *map)
{
	if (map == (void *)&cpus)
		return &cpu;
	return map == (void *)&timers ? &quiet : NULL;
}

/* Timers that expire before `until`. */
static void run_timers(__u64 until)
{
	__u32 key = 0;

	while (quiet.timer.armed && quiet.timer.expires < until) {
		clock_ns = quiet.timer.expires;
		quiet.timer.armed = false;
		quiet.timer.run(&timers, &key, &quiet);
	}
}

int main(int count, char **arguments)
{
	struct request request = { 0 };
	__u64 time;

	if (count != 3)
		return 2;
	cpu.timeout_ns = strtoull(arguments[1], NULL, 10) * 1000000;
	cpu.first = strtoul(arguments[2], NULL, 10);
	cpu.heard = 1;
	while (scanf("%" SCNu64, &time) == 1) {
		run_timers(time);
		clock_ns = time;
		complete_timed(&request);
	}
	run_timers(UINT64_MAX);
	return 0;
}
