//! Quantities with their unit, as people write them: `20us`, `1.5ms`, `1.2GHz`.
//!
//! A decimal fraction is allowed where the result is a whole number of the smallest unit. A sign, an
//! exponent and a blank are not.
//!
//! ```
//! use wakepath_units::{Kilohertz, Nanoseconds, quantity};
//!
//! assert_eq!(quantity::parse_time("20us"), Some(Nanoseconds(20_000)));
//! assert_eq!(quantity::parse_frequency("1.2GHz"), Some(Kilohertz(1_200_000)));
//! assert_eq!(quantity::parse_time("20"), None);
//! ```

use crate::{Kilohertz, Nanoseconds};

const TIME: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

const FREQUENCY: &[(&str, u64)] = &[("kHz", 1), ("MHz", 1_000), ("GHz", 1_000_000)];

/// Parses a length of time in `ns`, `us`, `ms`, `s`, `m` (minutes) or `h`. `None` for anything else, for fractions of
/// a nanosecond, and for overflow.
pub fn parse_time(text: &str) -> Option<Nanoseconds> {
    parse_number_with_unit(text, TIME).map(Nanoseconds)
}

/// Like [`parse_time`], and takes a number without a unit as multiples of `unit`: `parse_time_or_number_in("8", "s")` are 8 seconds.
pub fn parse_time_or_number_in(text: &str, unit: &str) -> Option<Nanoseconds> {
    parse_time(text).or_else(|| parse_time(&format!("{text}{unit}")))
}

/// Examples of how times are written, for messages.
pub const TIMES: &str = "20us, 500ms, 30s, 2m or 1h";

/// Parses a frequency in `kHz`, `MHz` or `GHz`. `None` for anything else, for fractions of a kHz, and for overflow.
pub fn parse_frequency(text: &str) -> Option<Kilohertz> {
    let khz = parse_number_with_unit(text, FREQUENCY)?;
    u32::try_from(khz).ok().map(Kilohertz)
}

/// Parses a whole number of decimal digits only; `u64::from_str` would also take a plus sign.
pub fn parse_whole_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn parse_number_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let Some((integer, fraction)) = number.split_once('.') else {
        return parse_whole_number(number)?.checked_mul(*scale);
    };
    let digits = u32::try_from(fraction.len()).ok()?;
    let tenths = u128::from(parse_whole_number(fraction)?).checked_mul(u128::from(*scale))?;
    let divisor = 10_u128.checked_pow(digits)?;
    if tenths % divisor != 0 {
        return None;
    }
    let below_one = u64::try_from(tenths / divisor).ok()?;
    parse_whole_number(integer)?
        .checked_mul(*scale)?
        .checked_add(below_one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_have_a_unit() {
        assert_eq!(parse_time("500us"), Some(Nanoseconds(500_000)));
        assert_eq!(parse_time("1.5ms"), Some(Nanoseconds(1_500_000)));
        assert_eq!(parse_time("2h"), Some(Nanoseconds(7_200_000_000_000)));
        assert_eq!(parse_time_or_number_in("2h", "s"), parse_time("2h"));
        assert_eq!(
            parse_time_or_number_in("0.5", "s"),
            Some(Nanoseconds(500_000_000))
        );
        assert_eq!(
            parse_time_or_number_in("0.5s", "us"),
            Some(Nanoseconds(500_000_000))
        );
        assert_eq!(parse_time_or_number_in("x", "s"), None);
        assert_eq!(parse_time_or_number_in("", "s"), None);
        assert_eq!(parse_time("0.000000001s"), Some(Nanoseconds(1)));
        assert_eq!(parse_frequency("1.2GHz"), Some(Kilohertz(1_200_000)));
        assert_eq!(parse_frequency("800MHz"), Some(Kilohertz(800_000)));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for wrong in [
            "",
            "3",
            "ms",
            "-1s",
            "+1s",
            "1 s",
            "1e3us",
            ".5s",
            "1.s",
            "1.2.3s",
            "0.5ns",
            "0.0000000001s",
            "99999999999999999999s",
            "9999999999999999h",
            "1.99999999999999999999999999999999999999999s",
            "3us ",
            "٣s",
        ] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
        assert_eq!(parse_frequency("5000GHz"), None);
        assert_eq!(parse_frequency("1200"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9.kMGuns ]{0,50}") {
            let _ = (parse_time(&text), parse_frequency(&text));
        }

        #[test]
        fn thousandths_are_exact(whole in 0_u64..1_000_000, thousandths in 0_u64..1000) {
            let parsed = parse_time(&format!("{whole}.{thousandths:03}ms"));
            prop_assert_eq!(parsed, Some(Nanoseconds(whole * 1_000_000 + thousandths * 1_000)));
        }
    }
}
