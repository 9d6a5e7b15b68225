//! `e^x` without a call, and the same to the bit on every platform.

use std::f64::consts::LN_2;

/// Tabulated powers of two per doubling.
const STEPS: usize = 64;

/// A constant from 2^52 to 2^53: adding it rounds a number to a whole number, whose two's complement is in the sum's last bits.
const ROUNDS: f64 = 6_755_399_441_055_744.0;

/// Natural logarithm of one step, in two parts. The first has so few digits that its product with a step count is exact.
const STEP_HIGH: f64 = f64::from_bits(LN_2.to_bits() >> 27 << 27) / STEPS as f64;
const STEP_LOW: f64 = (LN_2 - f64::from_bits(LN_2.to_bits() >> 27 << 27) + LN_2_LOW) / STEPS as f64;

/// What the floating-point constant `LN_2` lacks to the exact logarithm of 2.
const LN_2_LOW: f64 = 2.319_046_813_846_299_6e-17;

/// `2^(i / STEPS)`.
static POWERS: [f64; STEPS] = tabulate_powers();

const fn tabulate_powers() -> [f64; STEPS] {
    let mut powers = [0.0; STEPS];
    let mut step = 0;
    while step < STEPS {
        // The power series for e^x; the terms left out sum to less than 1e-18.
        let x = step as f64 * LN_2 / STEPS as f64;
        let mut sum = 0.0;
        let mut term = 18.0;
        while term > 0.0 {
            sum = (sum + 1.0) * x / term;
            term -= 1.0;
        }
        powers[step] = 1.0 + sum;
        step += 1;
    }
    powers
}

/// `e^x` with a relative error below 1e-15, for an `x` from -700 to 700.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    debug_assert!(x.abs() <= 700.0, "{x}");
    // x is a whole number of steps and a rest up to half a step, with a short series.
    let rounded = x * (STEPS as f64 / LN_2) + ROUNDS;
    let steps = rounded - ROUNDS;
    let rest = (x - steps * STEP_HIGH) - steps * STEP_LOW;
    let square = rest * rest;
    let series =
        rest + square * (0.5 + rest * (1.0 / 6.0) + square * (1.0 / 24.0 + rest * (1.0 / 120.0)));
    let steps = rounded.to_bits();
    let power = POWERS[steps as usize % STEPS];
    // Whole doublings are added to the floating-point exponent.
    let doublings = (steps >> STEPS.ilog2()) << (f64::MANTISSA_DIGITS - 1);
    let doubled = f64::from_bits(power.to_bits().wrapping_add(doublings));
    doubled + doubled * series
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Relative error against the standard library.
    fn error(x: f64) -> f64 {
        (exp(x) / x.exp() - 1.0).abs()
    }

    #[test]
    fn powers_of_two_and_their_neighbours() {
        for doublings in -1000..=1000 {
            for part in [-0.5, -0.499, -0.01, 0.0, 1e-9, 0.25, 0.499] {
                let x = (f64::from(doublings) + part) * LN_2;
                assert!(error(x) < 1e-15, "{x}: {}", error(x));
            }
        }
        assert_eq!(exp(0.0).to_bits(), 1.0_f64.to_bits());
    }

    proptest! {
        #[test]
        fn is_the_exponential(x in -700.0..700.0_f64, near in -6.0..6.0_f64) {
            prop_assert!(error(x) < 1e-15, "{x}: {}", error(x));
            prop_assert!(error(near) < 1e-15, "{near}: {}", error(near));
        }
    }
}
