/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What block_io.bpf.c hands to wakepath, in this machine's byte order. crates/daemon/src/watch.rs decodes it.
 */
#ifndef WAKEPATH_WIRE_H
#define WAKEPATH_WIRE_H

enum wp_kind {
	WP_IO = 1,	/* one of the first I/Os of a burst */
	WP_QUIET,	/* a burst is over; time_ns: no earlier than its last I/O */
};

struct wp_event {
	__u64 time_ns;	/* CLOCK_MONOTONIC */
	__u32 cpu;
	__u32 kind;
};

/*
 * The I/Os of one CPU, and what to do about them. A cache line, so that CPUs do not disturb each other, and so that
 * an I/O needs no other: when caches are busy with other things, each further line costs more than all the rest.
 */
struct wp_cpu {
	__u64 total;		/* I/Os since the start */
	__u64 last_ns;		/* of the I/Os whose time was noted */
	__u32 count;		/* I/Os so far that came within the timeout of the one before, as far as was counted */
	__u32 told;		/* how many of the burst user space has heard of; 0: there is no burst */
	__u32 lost;		/* events that found no room */
	/* User space sets these. Which I/O of a burst is the first that it hears of, and how many it hears of. */
	__u32 first;
	__u32 heard;
	__u32 unused;
	/* An I/O later than this after the one before begins a new burst. */
	__u64 timeout_ns;
	__u64 unused2[2];
};

#define WP_GAP_CLASSES 32

/* The idle gaps of one drive. */
struct wp_drive {
	__u64 last_ns;			/* when it last completed something */
	__u64 gaps[WP_GAP_CLASSES];	/* by the logarithm to base 2 of their length in us */
	__u64 gap_us[WP_GAP_CLASSES];	/* their lengths added up */
};

#endif
