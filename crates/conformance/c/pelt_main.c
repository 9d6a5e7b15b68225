// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the scheduler's tracking of load, cut out of kernel/sched/pelt.c, for a queue of tasks at full capacity. On standard
 * input lines of a time in ns and how many tasks have been in the queue until then; on standard output a line each of
 * util_avg and runnable_avg: as the kernel has updated them, and as it would at that very time.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#define __always_inline			inline
#define __maybe_unused			__attribute__((unused))
#define unlikely(condition)		(condition)
#define WRITE_ONCE(place, value)	((place) = (value))
#define SCHED_CAPACITY_SHIFT		10

static u64 mul_u64_u32_shr(u64 number, u32 factor, unsigned int shift)
{
	return (unsigned __int128)number * factor >> shift;
}

static u64 div_u64(u64 number, u32 divisor)
{
	return number / divisor;
}

struct sched_avg {
	u64 last_update_time, load_sum, runnable_sum;
	u32 util_sum, period_contrib;
	unsigned long load_avg, runnable_avg, util_avg;
};

#include CUT_SOURCE

/* All is read before anything is written. */
static struct stretch {
	u64 time;
	unsigned long tasks;
} stretches[1 << 16];

int main(void)
{
	struct sched_avg queue = { 0 }, now;
	unsigned int count = 0, i;

	while (count < sizeof(stretches) / sizeof(*stretches) &&
	       scanf("%" SCNu64 " %lu", &stretches[count].time, &stretches[count].tasks) == 2)
		count++;
	for (i = 0; i < count; i++) {
		unsigned long tasks = stretches[i].tasks;

		if (___update_load_sum(stretches[i].time, &queue, tasks, tasks, tasks > 0))
			___update_load_avg(&queue, 1);
		now = queue;
		___update_load_avg(&now, 1);
		printf("%lu %lu %lu %lu\n", queue.util_avg, queue.runnable_avg, now.util_avg, now.runnable_avg);
	}
	return 0;
}
