/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stand-ins for the kernel's headers: just the types, constants and functions that the compared
 * files use. The conformance tool makes every <linux/...> header that they include a one-line
 * file that includes this one.
 *
 * What a function would ask of the machine (the clock, the tick, the next timer) is answered from
 * @wp_now, which the driver program fills from its input before each call.
 */
#ifndef WAKEPATH_KERNEL_H
#define WAKEPATH_KERNEL_H

/* Warnings are for what the governor says itself. */
#pragma GCC system_header

#if __STDC_HOSTED__
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#else
#include "no_libc.h"
#endif

#ifndef HZ
#error "the tick rate must be given: -DHZ=250"
#endif

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef long long s64;
typedef u32 __le32;
typedef u64 __le64;
typedef s64 ktime_t;

#define U8_MAX		((u8)~0U)
#define U16_MAX		((u16)~0U)
#define U32_MAX		((u32)~0U)
#define U64_MAX		((u64)~0ULL)
#define S64_MAX		((s64)(U64_MAX >> 1))
#define KTIME_MAX	S64_MAX

#define NSEC_PER_USEC	1000L
#define NSEC_PER_MSEC	1000000L
#define NSEC_PER_SEC	1000000000L
#define USEC_PER_SEC	1000000L

/* One tick, rounded to the nearest nanosecond. */
#define TICK_NSEC	((NSEC_PER_SEC + HZ / 2) / HZ)

#define BIT(n)			(1UL << (n))
#define GENMASK_ULL(h, l)	((~0ULL << (l)) & (~0ULL >> (63 - (h))))

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define READ_ONCE(x)	(x)
#define WRITE_ONCE(x, v)	((x) = (v))
#define BUILD_BUG_ON(cond)	_Static_assert(!(cond), #cond)

#define __init
#define __exit
#define __maybe_unused	__attribute__((unused))
#define __always_inline	inline __attribute__((always_inline))
#define noinline	__attribute__((noinline))
#define fallthrough	__attribute__((fallthrough))
#define barrier()	__asm__ __volatile__("" ::: "memory")
#define __cpuidle
#define __read_mostly

#define min(a, b) ({				\
	__typeof__(a) wp_a = (a);		\
	__typeof__(b) wp_b = (b);		\
	wp_a < wp_b ? wp_a : wp_b; })
#define max(a, b) ({				\
	__typeof__(a) wp_a = (a);		\
	__typeof__(b) wp_b = (b);		\
	wp_a > wp_b ? wp_a : wp_b; })
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
#define min3(a, b, c)	min(min(a, b), c)
#define max3(a, b, c)	max(max(a, b), c)
#define clamp(v, lo, hi)	min(max(v, lo), hi)
#define clamp_t(type, v, lo, hi)	min_t(type, max_t(type, v, lo), hi)

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

#define time_after64(a, b)	((s64)((u64)(b) - (u64)(a)) < 0)
#define time_before64(a, b)	time_after64(b, a)

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

static inline s64 div64_s64(s64 dividend, s64 divisor)
{
	return dividend / divisor;
}

/* Divides in place and yields the remainder. */
#define do_div(n, base) ({			\
	u32 wp_base = (base);			\
	u32 wp_rest = (u64)(n) % wp_base;	\
	(n) = (u64)(n) / wp_base;		\
	wp_rest; })

#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define DIV_ROUND_CLOSEST(n, d)	(((n) + (d) / 2) / (d))
#define DIV_ROUND_CLOSEST_ULL(n, d)	div_u64((n) + (d) / 2, d)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define swap(a, b)	do { __typeof__(a) wp_s = (a); (a) = (b); (b) = wp_s; } while (0)
#define abs(x)	({ __typeof__(x) wp_x = (x); wp_x < 0 ? -wp_x : wp_x; })

static inline u64 mul_u64_u32_shr(u64 a, u32 mul, unsigned int shift)
{
	return (u64)(((unsigned __int128)a * mul) >> shift);
}

static inline int fls(unsigned int x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

#define ilog2(x)	(fls64(x) - 1)

static inline unsigned long int_sqrt(unsigned long x)
{
	unsigned long root = 0, bit;

	for (bit = 1UL << 31; bit; bit >>= 1)
		if ((root | bit) * (root | bit) <= x)
			root |= bit;
	return root;
}

static inline s64 ktime_to_ns(ktime_t t)
{
	return t;
}

static inline s64 ktime_to_us(ktime_t t)
{
	return t / NSEC_PER_USEC;
}

static inline u32 le32_to_cpu(__le32 v)
{
	return v;
}

static inline __le64 cpu_to_le64(u64 v)
{
	return v;
}

/* There is one CPU. Its data lies in a section of its own, so that the driver can zero all of it. */
#define DEFINE_PER_CPU(type, name) \
	__attribute__((section("wp_percpu"))) type name
#define this_cpu_ptr(ptr)	(ptr)
#define per_cpu_ptr(ptr, cpu)	(ptr)
#define per_cpu(var, cpu)	(var)
#define smp_processor_id()	0
#define raw_smp_processor_id()	0
#define this_cpu_read(var)	(var)
#define this_cpu_write(var, value)	((var) = (value))

/* How busy the CPU was, of 1024, whatever its capacity; 0 where nobody knows it, as with a call log. */
#define sched_cpu_util(cpu)	((unsigned long)wp_now.utilisation)
#define arch_scale_cpu_capacity(cpu)	1024UL

/* A start-up function becomes the one that the driver calls. */
#define postcore_initcall(fn)	int (*const wp_initcall)(void) = fn
extern int (*const wp_initcall)(void);

/* A module parameter, where the driver finds it to set it by name: between the ends of its section. */
struct wp_param {
	const char *name;
	void *value;
	size_t size;
};

#define module_param(name, type, perm)						\
	static const struct wp_param wp_param_##name				\
	__attribute__((used, section("wp_params"), aligned(__alignof__(struct wp_param)))) = \
		{ #name, &name, sizeof(name) }

/* What the machine would say now. */
struct wp_machine {
	s64 sleep_length;
	s64 delta_tick;
	s64 latency_req;
	u64 clock;
	u32 nr_iowait;
	u32 utilisation;
	bool tick_stopped;
	bool got_tick;
};

extern struct wp_machine wp_now;

static inline ktime_t tick_nohz_get_sleep_length(ktime_t *delta_next)
{
	*delta_next = wp_now.delta_tick;
	return wp_now.sleep_length;
}

static inline bool tick_nohz_tick_stopped(void)
{
	return wp_now.tick_stopped;
}

static inline bool tick_nohz_idle_got_tick(void)
{
	return wp_now.got_tick;
}

static inline unsigned int nr_iowait_cpu(int cpu)
{
	return wp_now.nr_iowait;
}

static inline u64 local_clock(void)
{
	return wp_now.clock;
}

#define pr_debug(...)	do { } while (0)
#define pr_info(...)	do { } while (0)
#define pr_warn(...)	do { } while (0)
#define pr_err(...)	do { } while (0)
#define trace_printk(...)	do { } while (0)
#define WARN_ON_ONCE(condition)	(!!(condition))
#define EXPORT_SYMBOL_GPL(name)	struct wp_export_end
#define MODULE_LICENSE(text)	struct wp_license_end
#define MODULE_AUTHOR(text)	struct wp_author_end
#define MODULE_DESCRIPTION(text)	struct wp_description_end

#define tick_nohz_enabled	true
#define kvm_para_available()	true

#define trace_guest_halt_poll_ns_grow(new, old)		do { } while (0)
#define trace_guest_halt_poll_ns_shrink(new, old)	do { } while (0)

#endif
