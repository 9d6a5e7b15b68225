//! When the kernel's timer wheel looks at a timer: not before it is due, and the later the longer that takes.
//!
//! Source: `calc_wheel_index()` and `calc_index()`, `kernel/time/timer.c`, Linux 6.1 (since 4.8).

/// The flag of a timer for which no CPU wakes up, and which the kernel's search for the next timer leaves out
/// (`TIMER_DEFERRABLE`, `include/linux/timer.h`).
pub(super) const DEFERRABLE: u64 = 0x0008_0000;

/// Each level has as many buckets, and each of them is of 2 to the power of `LEVEL_SHIFT` of those of the
/// level before.
const BUCKETS: u64 = 64;
const LEVEL_SHIFT: u32 = 3;
/// With more than 100 ticks a second; else it is one less, which makes a difference after days.
const LEVELS: u32 = 9;

/// The tick in which a timer that is due at `expires` is looked at if it is started at `now`.
pub(super) fn bucket(expires: u64, now: u64) -> u64 {
    let ahead = expires.wrapping_sub(now);
    if (ahead as i64) < 0 {
        // It is late already.
        return now;
    }
    // A level takes what is less than all of its buckets but one ahead.
    let end = |level: u32| (BUCKETS - 1) << (level * LEVEL_SHIFT);
    let last = LEVELS - 1;
    let longest = end(last) - (1 << (last * LEVEL_SHIFT));
    let found = (0..LEVELS).find(|level| ahead < end(*level));
    let (level, expires) = found.map_or((last, now.saturating_add(longest)), |level| {
        (level, expires)
    });
    let shift = level * LEVEL_SHIFT;
    // Never early: the next bucket that begins after it.
    (expires >> shift).saturating_add(1) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.12 said in a trace: due, ahead by, and the bucket.
    #[test]
    fn buckets_are_those_of_the_kernel() {
        for (expires, ahead, expected) in [
            (4_294_898_076, 1, 4_294_898_077),
            (4_294_898_270, 125, 4_294_898_272),
            (4_294_898_301, 117, 4_294_898_304),
            (4_294_899_550, 1_250, 4_294_899_584),
            (4_294_899_841, 1_506, 4_294_899_904),
            (4_294_913_335, 15_000, 4_294_913_536),
        ] {
            assert_eq!(bucket(expires, expires - ahead), expected, "{ahead}");
        }
        // In the past, and beyond the end.
        assert_eq!(bucket(10, 20), 20);
        assert!(bucket(u64::MAX / 2, 0) < 1 << 32);
    }
}
