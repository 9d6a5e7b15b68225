// SPDX-License-Identifier: GPL-2.0
/*
 * Runs amd-pstate, cut out of drivers/cpufreq/amd-pstate.c, over requests of a governor. The first answer of a case is
 * the frequencies that the driver begins with (the highest in the low half, the lowest non-linear one in the high half),
 * or ~0, as all further ones, if it does not load. Each further one is the request that the processor has then: minimum, desired and maximum
 * performance and the preference, from the lowest byte on.
 */
#include "record.h"

enum { AMD_PSTATE_UNDEFINED, AMD_PSTATE_DISABLE, AMD_PSTATE_PASSIVE, AMD_PSTATE_ACTIVE, AMD_PSTATE_GUIDED };
enum { CPUFREQ_POLICY_UNKNOWN, CPUFREQ_POLICY_POWERSAVE, CPUFREQ_POLICY_PERFORMANCE };

#define EINVAL				22
#define ENODEV				19
#define SCHED_CAPACITY_SHIFT		10
#define CPUFREQ_GOV_DYNAMIC_SWITCHING	1u
#define X86_FEATURE_CPPC		0
#define cpu_feature_enabled(feature)	true

#define DIV_ROUND_UP(n, d)		(((n) + (d) - 1) / (d))
#define DIV_ROUND_UP_ULL(n, d)		DIV_ROUND_UP((unsigned long long)(n), (unsigned long long)(d))
#define DIV_ROUND_CLOSEST(n, d)		(((n) + (d) / 2) / (d))
/* The upper end wins where the ends are the wrong way round. */
#define clamp(v, lo, hi)		((v) >= (hi) ? (hi) : (v) <= (lo) ? (lo) : (v))
#undef clamp_t
#define clamp_t(type, v, lo, hi)	((type)clamp((type)(v), (type)(lo), (type)(hi)))

/* The fields of the request, from the lowest bit on. */
#define AMD_CPPC_MAX_PERF(x)		(((x) & 0xff) << 0)
#define AMD_CPPC_MIN_PERF(x)		(((x) & 0xff) << 8)
#define AMD_CPPC_DES_PERF(x)		(((x) & 0xff) << 16)
#define AMD_CPPC_EPP_PERF_MASK		0xff000000ULL
#define FIELD_GET(mask, value)		(((value) & (mask)) / ((mask) & -(mask)))

#define pr_err(...)			do { } while (0)
#define pr_debug(...)			do { } while (0)
#define WARN_ON(condition)		do { } while (0)
#define trace_amd_pstate_perf_enabled()	false
#define trace_amd_pstate_perf(...)	do { } while (0)
#define trace_call__amd_pstate_perf(...) do { } while (0)
#define cpufreq_freq_transition_begin(policy, freqs)	do { } while (0)
#define cpufreq_freq_transition_end(policy, freqs, failed)	do { } while (0)
#define freq_qos_update_request(request, value)		0

union perf_cached {
	struct {
		u8 highest_perf;
		u8 nominal_perf;
		u8 lowest_nonlinear_perf;
		u8 lowest_perf;
		u8 min_limit_perf;
		u8 max_limit_perf;
		u8 bios_min_perf;
	};
	u64 val;
};

struct cppc_perf_caps {
	u32 lowest_freq;
	u32 nominal_freq;
	u32 lowest_nonlinear_perf;
};

struct quirk_entry {
	u32 nominal_freq;
	u32 lowest_freq;
};

struct cpufreq_freqs {
	unsigned int old;
	unsigned int new;
};

struct governor {
	unsigned int flags;
};

/* What the driver of each kernel keeps of a CPU, both together. */
struct amd_cpudata {
	int cpu;
	int req[2];
	u64 cppc_req_cached;
	union perf_cached perf;
	u32 highest_perf;
	u32 nominal_perf;
	u32 lowest_nonlinear_perf;
	u32 lowest_perf;
	u32 min_limit_perf;
	u32 max_limit_perf;
	u32 min_limit_freq;
	u32 max_limit_freq;
	u32 max_freq;
	u32 min_freq;
	u32 nominal_freq;
	u32 lowest_nonlinear_freq;
	u64 freq;
	struct {
		u64 aperf, mperf, tsc;
	} cur;
	bool boost_supported;
	u32 policy;
	s16 epp_policy;
};

struct cpufreq_policy {
	unsigned int min;
	unsigned int max;
	unsigned int cur;
	struct {
		unsigned int max_freq;
		unsigned int min_freq;
	} cpuinfo;
	bool boost_enabled;
	bool fast_switch_enabled;
	struct governor *governor;
	struct amd_cpudata *driver_data;
};

static int cppc_state;
static struct quirk_entry *quirks;
static struct cppc_perf_caps caps;
static struct governor this_governor;
static struct amd_cpudata this_cpu;
static struct cpufreq_policy this_policy;
static u8 firmware_epp;

#define amd_pstate_sample(cpudata)	false
#define cpufreq_cpu_get(cpu)		(&this_policy)
#define cpufreq_cpu_put(policy)		do { } while (0)

static int cppc_get_perf_caps(int cpu, struct cppc_perf_caps *answer)
{
	*answer = caps;
	return 0;
}

#ifdef PERF_CACHED
static int amd_pstate_update_perf(struct cpufreq_policy *policy, u8 min_perf, u8 des_perf,
				  u8 max_perf, u8 epp, bool fast_switch)
{
	policy->driver_data->cppc_req_cached = max_perf | (u64)min_perf << 8 |
					       (u64)des_perf << 16 | (u64)epp << 24;
	return 0;
}
#else
#define amd_pstate_update_perf(...)	do { } while (0)
#define amd_pstate_get_epp(cpudata, value)	firmware_epp
#define amd_pstate_set_epp(cpudata, epp)	0
#endif

#include CUT_SOURCE

#ifdef PASSIVE_ONLY
/* What amd_pstate_cpu_init() does with the frequencies. A driver that knows no highest one asks for nothing. */
static int amd_pstate_init_freq(struct amd_cpudata *cpudata)
{
	int lowest = amd_get_min_freq(cpudata), highest = amd_get_max_freq(cpudata);

	if (lowest < 0 || highest <= 0 || lowest > highest)
		return -EINVAL;
	cpudata->min_freq = lowest;
	cpudata->max_freq = highest;
	cpudata->nominal_freq = amd_get_nominal_freq(cpudata);
	cpudata->lowest_nonlinear_freq = amd_get_lowest_nonlinear_freq(cpudata);
	return 0;
}

/* Boost ends the range of the policy, which no request looks at. */
#define amd_pstate_cpu_boost_update(policy, on)	do { } while (0)
#endif

static u64 start(const struct amd_case *c)
{
	memset(&this_cpu, 0, sizeof(this_cpu));
	memset(&this_policy, 0, sizeof(this_policy));
	cppc_state = c->mode;
	caps.lowest_freq = c->lowest_mhz;
	caps.nominal_freq = c->nominal_mhz;
	caps.lowest_nonlinear_perf = c->lowest_nonlinear;
	firmware_epp = c->epp;
	this_cpu.cppc_req_cached = (u64)c->epp << 24;
	this_cpu.perf.highest_perf = this_cpu.perf.max_limit_perf = this_cpu.highest_perf = c->highest;
	this_cpu.perf.nominal_perf = this_cpu.nominal_perf = c->nominal;
	this_cpu.perf.lowest_nonlinear_perf = this_cpu.lowest_nonlinear_perf = c->lowest_nonlinear;
	this_cpu.perf.lowest_perf = this_cpu.perf.min_limit_perf = this_cpu.lowest_perf = c->lowest;
	this_cpu.min_limit_perf = c->lowest;
	this_cpu.max_limit_perf = c->highest;
	this_cpu.perf.bios_min_perf = c->firmware_minimum;
	this_cpu.boost_supported = c->boost_supported;
	if (c->performance)
		this_cpu.policy = CPUFREQ_POLICY_PERFORMANCE;
	this_policy.driver_data = &this_cpu;
	this_policy.governor = &this_governor;
	this_policy.fast_switch_enabled = true;
	if (amd_pstate_init_freq(&this_cpu))
		return ~0ULL;
	this_policy.cpuinfo.max_freq = this_cpu.max_freq;
	this_policy.boost_enabled = c->boost_supported;
	if (c->boost_supported && !c->boost) {
		amd_pstate_cpu_boost_update(&this_policy, false);
		this_policy.boost_enabled = false;
	}
	this_policy.min = c->min_khz;
	this_policy.max = c->max_khz;
	return this_cpu.max_freq | (u64)this_cpu.lowest_nonlinear_freq << 32;
}

static u64 ask(const struct amd_request *r)
{
	u64 value;

	this_governor.flags = r->dynamic ? CPUFREQ_GOV_DYNAMIC_SWITCHING : 0;
#ifndef PASSIVE_ONLY
	if (cppc_state == AMD_PSTATE_ACTIVE)
#ifdef PERF_CACHED
		amd_pstate_epp_update_limit(&this_policy, true);
#else
		amd_pstate_epp_update_limit(&this_policy);
#endif
	else
#endif
	if (r->frequency)
		amd_pstate_update_freq(&this_policy, r->frequency, true);
	else
#ifdef PERF_CACHED
		amd_pstate_adjust_perf(&this_policy, r->least, r->target, r->capacity, r->capacity);
#else
		amd_pstate_adjust_perf(0, r->least, r->target, r->capacity);
#endif
	value = this_cpu.cppc_req_cached;
	return (value >> 8 & 0xff) | (value >> 16 & 0xff) << 8 | (value & 0xff) << 16 |
	       (value >> 24 & 0xff) << 24;
}

struct wp_machine wp_now;

int main(void)
{
	size_t size, used = 0, count = 0;
	char *data = wp_read_all(&size);
	u64 *answers = malloc(size + sizeof(u64));

	if (!answers)
		wp_die("out of memory");
	while (used < size) {
		const struct amd_case *c = (const void *)(data + used);
		const struct amd_request *requests = (const void *)(c + 1);
		bool loaded;
		u32 i;

		if (c->magic != CASE_MAGIC)
			wp_die("broken case record");
		answers[count] = start(c);
		loaded = answers[count++] != ~0ULL;
		for (i = 0; i < c->request_count; i++)
			answers[count++] = loaded ? ask(&requests[i]) : ~0ULL;
		used += sizeof(*c) + c->request_count * sizeof(*requests);
	}
	wp_write_all(answers, count * sizeof(*answers));
	return 0;
}
