//! Hardware-managed P-states (HWP, Speed Shift; AMD's CPPC in active mode). The controller in the processor chooses
//! the frequency by itself, between the kernel's limits and by its preference.
//!
//! Intel does not document the algorithm. This model has two measurable constants. The controller watches the share
//! of its highest performance that a CPU uses, as a moving average `s` with time constant `T`, and requests
//!
//! ```text
//! frequency = highest frequency x s / U      U = U128 x EPP / 128, at most 0.99
//! ```
//!
//! so that a CPU with use share `U` or more gets the highest frequency. A fully loaded CPU raises its own share by
//! running faster, hence the observed gradual ramp. From a lowest frequency `f0` to a highest `f1` the ramp takes
//! `T x (-ln(1 - U) + ln(f1 / f0) / (1 / U - 1))`. So a measured ramp gives `T`.
//!
//! The preference narrows the range of requests. A processor tuned for speed runs short work quickly and idles (race
//! to halt): below EPP 128 the range begins above the lowest frequency. A processor tuned for energy avoids high clocks: above
//! EPP 128 the range ends below the highest frequency.
//!
//! ```text
//! EPP <= 128: from  lowest + (highest - lowest) x 1, m and 0 at EPP 0, 32 and 128, m = 0.75 by default
//! EPP >= 128: up to highest x 1, 0.63 and 0.30 at EPP 128, 192 and 255
//! ```
//!
//! The shares of the highest frequency were measured on one laptop under full load (`SHARES_OF_HIGHEST`). Assumed: the
//! lines below EPP 128, whose ends were measured, and that other processors take the same shares. At EPP 32 users read clocks off
//! idle laptops that give m 0.16 to 0.84: no measurement lies between EPP 0 and 128.
//! `docs/background/frequency.md` has the sources.

use wakepath_units::{Kilohertz, Nanoseconds};

/// The EPP for which the constants are given: the default, `balance_performance`.
const EPP_OF_CONSTANTS: f64 = 128.0;
/// Highest frequency under full load as a share of that at EPP 128, by EPP. An i7-8550U ran at 3586 MHz with EPP 128 on all
/// CPUs, at 2269 MHz where the lowest EPP of any CPU was 192, and at 954 (two cores busy) to 1200 MHz (one core) with 255
/// (yzia2000/fake-big-little@2d232fc, medians of 7 runs).
const SHARES_OF_HIGHEST: [(f64, f64); 3] = [(EPP_OF_CONSTANTS, 1.0), (192.0, 0.63), (255.0, 0.30)];
/// The EPP between 0 and 128 at which the beginning of the range is given.
const MIDDLE_EPP: f64 = 32.0;
/// Way from the lowest to the highest frequency at which the range begins with EPP 32, where nothing else is given.
pub const EPP32_SHARE: f64 = 0.75;
/// Limit on the utilisation that asks for the highest frequency: beyond it a fully loaded CPU would hardly speed up at
/// all.
const HIGHEST_FULL_AT: f64 = 0.99;

/// The HWP controller of one shared clock.
#[derive(Clone, Copy, Debug)]
pub struct Hwp {
    highest: f64,
    /// The range of frequencies that the preference allows, from the lowest request.
    from: f64,
    up_to: f64,
    /// The utilisation from which on the highest frequency is requested; 0: always.
    full_at: f64,
    /// In ns.
    time_constant: f64,
    share: f64,
}

impl Hwp {
    /// A controller at rest for a clock with these frequencies: the lowest and the highest.
    ///
    /// With EPP 128 it reaches the highest frequency from the share `full_at_share` on, which is above 0
    /// and below 1, and takes `full_load_ramp` to it from the lowest one under full load. `epp` is the
    /// energy-performance preference, 0 (performance) to 255 (power). With EPP 32 the range begins at `epp32_share` of the way from
    /// the lowest to the highest frequency.
    pub fn new(
        [lowest, highest]: [Kilohertz; 2],
        full_load_ramp: Nanoseconds,
        [full_at_share, epp32_share]: [f64; 2],
        epp: u8,
    ) -> Self {
        let [lowest, highest] = [lowest, highest].map(|f| f64::from(f.0));
        let epp = f64::from(epp);
        let full_at = full_at_share.clamp(f64::EPSILON, HIGHEST_FULL_AT);
        let constants = -(-full_at).ln_1p() + (highest / lowest).ln() / (full_at.recip() - 1.0);
        Self {
            from: lowest + (highest - lowest) * find_beginning_of_range(epp, epp32_share),
            up_to: (highest * share_of_highest(epp)).max(lowest),
            highest,
            full_at: (full_at * epp / EPP_OF_CONSTANTS).min(HIGHEST_FULL_AT),
            time_constant: (full_load_ramp.0.max(1) as f64) / constants,
            share: 0.0,
        }
    }

    /// Records that the busiest CPU of the clock used the share `used_share`, 0 to 1, of its highest performance for
    /// `elapsed`.
    pub fn record_utilisation(&mut self, elapsed: Nanoseconds, used_share: f64) {
        let kept = (-(elapsed.0 as f64) / self.time_constant).exp();
        self.share = used_share + (self.share - used_share) * kept;
    }

    /// The frequency that the controller requests now.
    pub fn desired_frequency(&self) -> Kilohertz {
        let full = self.full_at <= 0.0 || self.share >= self.full_at;
        let wanted = if full {
            self.highest
        } else {
            self.highest * self.share / self.full_at
        };
        Kilohertz(wanted.max(self.from).min(self.up_to).round() as u32)
    }
}

/// Where the range begins on the way from the lowest frequency, 0, to the highest, 1.
fn find_beginning_of_range(epp: f64, epp32_share: f64) -> f64 {
    let middle = epp32_share.clamp(0.0, 1.0);
    if epp <= MIDDLE_EPP {
        return 1.0 - (1.0 - middle) * epp / MIDDLE_EPP;
    }
    let left = (EPP_OF_CONSTANTS - epp) / (EPP_OF_CONSTANTS - MIDDLE_EPP);
    middle * left.max(0.0)
}

/// Highest frequency under full load as a share of that at EPP 128, on lines between the measured shares.
fn share_of_highest(epp: f64) -> f64 {
    let steps = SHARES_OF_HIGHEST.windows(2);
    let mut around = steps.filter_map(|pair| match pair {
        [(from, share), (to, next)] if epp <= *to => {
            let way = ((epp - from) / (to - from)).max(0.0);
            Some(share + (next - share) * way)
        }
        _ => None,
    });
    around.next().unwrap_or(SHARES_OF_HIGHEST[2].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOWEST: Kilohertz = Kilohertz(800_000);
    const HIGHEST: Kilohertz = Kilohertz(3_900_000);
    const RANGE: [Kilohertz; 2] = [LOWEST, HIGHEST];
    /// Below the end of the range of EPP 192.
    const MIDDLE: Kilohertz = Kilohertz(2_000_000);

    fn controller(epp: u8) -> Hwp {
        Hwp::new(RANGE, Nanoseconds::from_millis(5), [0.5, EPP32_SHARE], epp)
    }

    /// Slots of 10 us until a CPU with load `busy` runs at `wanted`.
    fn slots_until(hwp: &mut Hwp, busy: f64, wanted: Kilohertz) -> u64 {
        (1..100_000)
            .find(|_| {
                let used = busy * f64::from(hwp.desired_frequency().0) / f64::from(HIGHEST.0);
                hwp.record_utilisation(Nanoseconds(10_000), used);
                hwp.desired_frequency() >= wanted
            })
            .unwrap_or(u64::MAX)
    }

    #[test]
    fn the_ramp_takes_as_long_as_was_measured() {
        fn ms(epp: u8) -> f64 {
            slots_until(&mut controller(epp), 1.0, HIGHEST) as f64 / 100.0
        }
        fn to_middle(epp: u8) -> u64 {
            slots_until(&mut controller(epp), 1.0, MIDDLE)
        }
        assert!((4.95..5.05).contains(&ms(128)), "{}", ms(128));
        // A preference for power ramps more slowly, one for performance does not ramp at all.
        assert!(
            to_middle(192) > to_middle(128) * 3 / 2,
            "{}",
            to_middle(192)
        );
        assert!(ms(64) < 0.6 * ms(128), "{}", ms(64));
        assert_eq!(controller(0).desired_frequency(), HIGHEST);
    }

    #[test]
    fn a_cpu_that_is_busy_for_less_than_the_target_stays_slow() {
        let mut hwp = controller(128);
        assert_eq!(slots_until(&mut hwp, 0.45, HIGHEST), u64::MAX);
        assert_eq!(hwp.desired_frequency(), LOWEST);
        assert!(slots_until(&mut hwp, 0.55, HIGHEST) < 100_000);
    }

    /// A CPU that is busy for a twentieth of the time, which EPP 64 to 255 once left at the lowest frequency alike.
    #[test]
    fn the_preference_sets_the_range() {
        fn settled(epp: u8, busy: f64) -> u32 {
            let mut hwp = controller(epp);
            slots_until(&mut hwp, busy, Kilohertz(u32::MAX));
            hwp.desired_frequency().0
        }
        let light = [0, 32, 64, 96, 128, 192, 255].map(|epp| settled(epp, 0.05));
        assert_eq!(light[0], HIGHEST.0);
        assert_eq!(light[2], 2_350_000);
        assert!(light[..5].windows(2).all(|w| w[0] > w[1]), "{light:?}");
        assert!(light[4..].iter().all(|khz| *khz == LOWEST.0), "{light:?}");
        let full = [0, 64, 128, 192, 255].map(|epp| settled(epp, 1.0));
        assert!(full[..3].iter().all(|khz| *khz == HIGHEST.0), "{full:?}");
        assert_eq!(full[3..], [2_457_000, 1_170_000]);
    }

    /// Users read 1000 and 3000 MHz off idle laptops with EPP 32.
    #[test]
    fn the_range_below_the_default_goes_through_the_share_at_epp_32() {
        fn lowest_request(epp: u8, share: f64) -> u32 {
            let hwp = Hwp::new(RANGE, Nanoseconds::from_millis(5), [0.5, share], epp);
            hwp.desired_frequency().0
        }
        assert_eq!(lowest_request(32, 0.16), 800_000 + 496_000);
        assert_eq!(lowest_request(32, 0.84), 800_000 + 2_604_000);
        for share in [0.0, 0.16, EPP32_SHARE, 1.0] {
            assert_eq!(
                (lowest_request(0, share), lowest_request(128, share)),
                (HIGHEST.0, LOWEST.0)
            );
            let all: Vec<u32> = (0..=128).map(|epp| lowest_request(epp, share)).collect();
            assert!(all.is_sorted_by(|a, b| a >= b), "{share}: {all:?}");
        }
        // By default one line.
        assert_eq!(lowest_request(64, EPP32_SHARE), 2_350_000);
        assert_eq!(lowest_request(96, EPP32_SHARE), 1_575_000);
    }

    /// An i7-8550U, from 400 MHz to the clock that it had under full load with EPP 128.
    #[test]
    fn a_measured_laptop_is_as_slow_as_it_was_measured() {
        let full_load = |epp: u8| {
            let range = [Kilohertz(400_000), Kilohertz(3_590_000)];
            let mut hwp = Hwp::new(range, Nanoseconds::from_millis(5), [0.5, EPP32_SHARE], epp);
            for _ in 0..10_000 {
                let used = f64::from(hwp.desired_frequency().0) / 3_590_000.0;
                hwp.record_utilisation(Nanoseconds(100_000), used);
            }
            hwp.desired_frequency().0 / 1000
        };
        for (epp, measured) in [
            (0, 3588..=3598),
            (128, 3586..=3596),
            (192, 2250..=2270),
            (255, 954..=1200),
        ] {
            assert!(
                measured.contains(&full_load(epp)),
                "{epp}: {} MHz",
                full_load(epp)
            );
        }
        // Between the measured preferences each step up is slower.
        let falling: Vec<u32> = (128..=255).map(full_load).collect();
        assert!(falling.is_sorted_by(|a, b| a > b), "{falling:?}");
    }

    #[test]
    fn rest_is_forgotten_in_one_go_as_in_many() {
        let (mut one, mut many) = (controller(128), controller(128));
        for hwp in [&mut one, &mut many] {
            hwp.record_utilisation(Nanoseconds::from_millis(20), 0.8);
        }
        one.record_utilisation(Nanoseconds::from_millis(3), 0.0);
        (0..30).for_each(|_| many.record_utilisation(Nanoseconds(100_000), 0.0));
        assert!((one.share - many.share).abs() < 1e-12);
        assert!(one.share < 0.4);
    }

    proptest! {
        #[test]
        fn it_keeps_within_its_frequencies_and_more_load_never_asks_for_less(
            steps in prop::collection::vec((0_u64..1 << 40, 0.0..=1.0_f64), 1..30),
            epp in any::<u8>(),
            full_at in 0.01..0.99_f64,
            epp32 in 0.0..=1.0_f64,
        ) {
            let mut hwp = Hwp::new(RANGE, Nanoseconds(1), [full_at, epp32], epp);
            for (elapsed, used) in steps {
                let (mut more, mut less) = (hwp, hwp);
                hwp.record_utilisation(Nanoseconds(elapsed), used);
                more.record_utilisation(Nanoseconds(elapsed), (used + 0.1).min(1.0));
                less.record_utilisation(Nanoseconds(elapsed), used / 2.0);
                prop_assert!((LOWEST..=HIGHEST).contains(&hwp.desired_frequency()));
                prop_assert!(more.desired_frequency() >= hwp.desired_frequency() && hwp.desired_frequency() >= less.desired_frequency());
                prop_assert!((0.0..=1.0).contains(&hwp.share));
            }
        }
    }
}
