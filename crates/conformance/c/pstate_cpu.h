/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What intel_pstate without HWP knows of a CPU. The cut-out source includes this after its own
 * struct sample, which is part of it.
 */
#ifndef WAKEPATH_PSTATE_CPU_H
#define WAKEPATH_PSTATE_CPU_H

struct cpudata {
	int cpu;
	struct update_util_data update_util;
	struct {
		int current_pstate;
		int min_pstate;
		int max_pstate;
		int max_pstate_physical;
		int turbo_pstate;
		int scaling;
	} pstate;
	u64 last_update;
	u64 last_sample_time;
	u64 aperf_mperf_shift;
	u64 prev_aperf;
	u64 prev_mperf;
	u64 prev_tsc;
	struct sample sample;
	int32_t min_perf_ratio;
	int32_t max_perf_ratio;
	unsigned int iowait_boost;
};

#endif
