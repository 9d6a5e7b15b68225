/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The records that the programs read, as the conformance tool writes them (src/record.rs). All
 * little-endian, naturally aligned, without padding that is not named.
 */
#ifndef WAKEPATH_RECORD_H
#define WAKEPATH_RECORD_H

#include "kernel_standin.h"

#define CASE_MAGIC	0x65736163u	/* "case" */

/* One state table and one call log. @state_count states and @call_count calls follow. */
struct case_record {
	u32 magic;
	u32 state_count;
	u32 call_count;
	u32 halt_poll_ns;
	u32 halt_poll_shrink;
	u32 halt_poll_grow;
	u32 halt_poll_grow_start;
	u32 halt_poll_allow_shrink;	/* or KEEP_DEFAULTS for all five */
};

#define KEEP_DEFAULTS	2u

#define STATE_POLLING	1u
#define STATE_DISABLED	2u

struct state_record {
	s64 exit_latency;
	s64 target_residency;
	u64 flags;
};

/* One line of a governor call log. */
struct call_record {
	s64 sleep_length;
	s64 delta_tick;
	s64 latency_req;
	u64 select_clock;
	u64 reflect_clock;
	u64 residency;
	u32 nr_iowait;
	u8 tick_stopped;
	u8 got_tick;
	u8 poll_limit_hit;
	/* A state to switch on or off before the call: TOGGLE_* of it, 0 for none. */
	u8 toggle;
};

/*
 * What a governor that serves is asked, for the CPU in a slot: to begin with it anew (ASK_START; a case and its states follow, no
 * answer), to be told of the last idle period (ASK_REFLECT: the fields of @call from reflect_clock on that say so, and the state
 * @entered), to switch a state (ASK_TOGGLE, no answer), and to choose.
 */
struct question_record {
	struct call_record call;
	u32 entered;
	u32 ask;
	/* What sched_cpu_util() says, of 1024. */
	u32 utilisation;
	u32 slot;
};

#define ASK_REFLECT	1u
#define ASK_TOGGLE	2u
#define ASK_START	4u

struct answer_record {
	s32 state;
	u32 stop_tick;
	u64 poll_limit;
};

#define TOGGLE_STATE(toggle)	(((toggle) >> 1) - 1)
#define TOGGLE_OFF(toggle)	((toggle) & 1)

/*
 * A log of utilisation updates. @event_count events follow. The levels are, for the HWP boost: the
 * lowest, the guaranteed and the highest one; for intel_pstate without HWP: the P-states min, max,
 * max_physical and turbo, and the policy's lowest and highest.
 */
struct event_case {
	u32 magic;
	u32 event_count;
	u8 levels[8];
};

#define EVENT_IOWAIT	1u
#define EVENT_OTHER_CPU	2u

struct event_record {
	u64 time;
	u32 flags;
	u32 max_capacity;
	u64 aperf;
	u64 mperf;
	u64 tsc;
};

/* A drive and the rule for its table of autonomous power state transitions. */
struct apst_record {
	u32 apsta;
	u32 npss;
	u32 enabled;
	u32 no_deepest;
	u64 max_latency_us;
	/* U64_MAX leaves the kernel's default. */
	u64 primary_timeout_ms;
	u64 secondary_timeout_ms;
	u64 primary_tolerance_us;
	u64 secondary_tolerance_us;
	struct {
		u32 entry_us;
		u32 exit_us;
		u64 non_operational;
	} states[32];
};

/* A CPU under amd-pstate. @request_count requests of a governor follow. */
struct amd_case {
	u32 magic;
	u32 request_count;
	u32 nominal_mhz;
	u32 lowest_mhz;
	u32 min_khz;
	u32 max_khz;
	u8 highest;
	u8 nominal;
	u8 lowest_nonlinear;
	u8 lowest;
	u8 firmware_minimum;
	u8 epp;
	u8 mode;		/* AMD_PSTATE_* */
	u8 performance;
	u8 boost;
	u8 boost_supported;
	u8 unused[6];
};

struct amd_request {
	u64 least;
	u64 target;
	u64 capacity;
	u32 frequency;		/* kHz; 0: the utilisation counts */
	u32 dynamic;
};

/* What the driver would send to the drive. */
struct apst_result {
	u64 sent;
	u64 enable;
	u64 entries[32];
};

/* Reads standard input to its end; the caller owns the memory. */
void *wp_read_all(size_t *size);
/* Writes to standard output, or ends the program. */
void wp_write_all(const void *data, size_t size);
/* Prints a message to standard error and ends the program. */
__attribute__((noreturn)) void wp_die(const char *message);

#endif
