/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The frame of the programs that run one of cpufreq's boosts over logs of utilisation updates: a
 * program defines event_start() and event_update() and ends with EVENTS_MAIN.
 */
#ifndef WAKEPATH_EVENTS_H
#define WAKEPATH_EVENTS_H

#include "record.h"

#define SCHED_CPUFREQ_IOWAIT	1u

#define EVENTS_MAIN							\
int main(void)								\
{									\
	size_t size, used = 0, count = 0;				\
	char *data = wp_read_all(&size);				\
	u32 *answers = malloc(size / sizeof(struct event_record) * sizeof(u32) + 1); \
									\
	if (!answers)							\
		wp_die("out of memory");				\
	while (used < size) {						\
		const struct event_case *c = (const void *)(data + used); \
		const struct event_record *events = (const void *)(c + 1); \
		u32 i;							\
									\
		if (c->magic != CASE_MAGIC)				\
			wp_die("broken case record");			\
		event_start(c);						\
		for (i = 0; i < c->event_count; i++)			\
			answers[count++] = event_update(&events[i]);	\
		used += sizeof(*c) + c->event_count * sizeof(*events);	\
	}								\
	wp_write_all(answers, count * sizeof(*answers));		\
	return 0;							\
}

#endif
