//! The kernel's timer wheel: a timer is looked at no earlier than due, and the farther ahead, the later.
//!
//! Source: `calc_wheel_index()` and `calc_index()`, `kernel/time/timer.c`, Linux 6.1 (since 4.8).

/// The flag for timers that wake no CPU, and that the kernel leaves out when looking for the next timer
/// (`TIMER_DEFERRABLE`, `include/linux/timer.h`).
pub(super) const DEFERRABLE: u64 = 0x0008_0000;

/// Buckets per level. A bucket is 2 to the power of `LEVEL_SHIFT` times as long as a bucket in the level below.
const BUCKETS: u64 = 64;
const LEVEL_SHIFT: u32 = 3;
/// Levels with more than 100 ticks per second. Slower ticks have a level less, which only matters after days.
const LEVELS: u32 = 9;

/// The tick in which the timer wheel runs a timer due at `expires` and started at `now`.
pub(super) fn expiry_tick_on_wheel(expires: u64, now: u64) -> u64 {
    let ahead = expires.wrapping_sub(now);
    if (ahead as i64) < 0 {
        // Late already.
        return now;
    }
    let last = LEVELS - 1;
    let longest = ticks_covered_below_level(last) - (1 << (last * LEVEL_SHIFT));
    let found = (0..LEVELS).find(|level| ahead < ticks_covered_below_level(*level));
    let (level, expires) = found.map_or((last, now.saturating_add(longest)), |level| {
        (level, expires)
    });
    let shift = level * LEVEL_SHIFT;
    // A wheel timer never runs early: it is in the next bucket that begins after the timer is due.
    (expires >> shift).saturating_add(1) << shift
}

/// Ticks ahead from which a timer is on a higher level: all buckets but one.
fn ticks_covered_below_level(level: u32) -> u64 {
    (BUCKETS - 1) << (level * LEVEL_SHIFT)
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
            assert_eq!(
                expiry_tick_on_wheel(expires, expires - ahead),
                expected,
                "{ahead}"
            );
        }
        // In the past, and beyond the end.
        assert_eq!(expiry_tick_on_wheel(10, 20), 20);
        assert!(expiry_tick_on_wheel(u64::MAX / 2, 0) < 1 << 32);
    }
}
