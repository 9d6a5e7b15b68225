// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the kernel's cpuidle_poll_time(), cut out of drivers/cpuidle/cpuidle.c, over state tables:
 * cases on standard input, one 64-bit limit in ns per case on standard output.
 */
#include "cpuidle_standin.h"
#include "record.h"

#include CUT_SOURCE

struct wp_machine wp_now;

int main(void)
{
	size_t size, used = 0, count = 0;
	char *data = wp_read_all(&size);
	u64 *limits = malloc(size / sizeof(struct case_record) * sizeof(u64) + 1);

	if (!limits)
		wp_die("out of memory");
	while (used < size) {
		const struct case_record *c = (const void *)(data + used);
		const struct state_record *states = (const void *)(c + 1);
		struct cpuidle_driver driver = { .state_count = c->state_count };
		struct cpuidle_device device = { 0 };
		u32 i;

		if (c->magic != CASE_MAGIC || c->state_count > CPUIDLE_STATE_MAX || c->call_count)
			wp_die("broken case record");
		for (i = 0; i < c->state_count; i++) {
			driver.states[i].exit_latency_ns = states[i].exit_latency;
			driver.states[i].target_residency_ns = states[i].target_residency;
			device.states_usage[i].disable = !!(states[i].flags & STATE_DISABLED);
		}
		limits[count++] = cpuidle_poll_time(&driver, &device);
		used += sizeof(*c) + c->state_count * sizeof(*states);
	}
	wp_write_all(limits, count * sizeof(*limits));
	return 0;
}
