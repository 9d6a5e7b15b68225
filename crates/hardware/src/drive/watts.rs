//! Powers written as decimal watts, read without going through floating point.

use wakepath_units::Microwatts;

/// Parses `8.00`, `0.0500` or `8` as watts. `None` for anything else, for more than six decimals and for what exceeds a
/// 64-bit number of microwatts.
pub(crate) fn parse_watts(text: &str) -> Option<Microwatts> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut characters = whole.chars().chain(fraction.chars());
    if whole.is_empty() || !characters.all(|c| c.is_ascii_digit()) || fraction.len() > 6 {
        return None;
    }
    let watts: u64 = whole.parse().ok()?;
    let microwatts: u64 = format!("{fraction:0<6}").parse().ok()?;
    watts
        .checked_mul(1_000_000)?
        .checked_add(microwatts)
        .map(Microwatts)
}

/// Formats a power in watts with as many decimals as it has: `9.39 W`.
pub(crate) fn format_watts(power: Microwatts) -> String {
    let Microwatts(uw) = power;
    let decimal = format!("{}.{:06}", uw / 1_000_000, uw % 1_000_000);
    format!("{} W", decimal.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_is_written_without_needless_digits() {
        let written = [0, 5_000, 9_390_000, 10_000_000].map(|uw| format_watts(Microwatts(uw)));
        assert_eq!(written, ["0 W", "0.005 W", "9.39 W", "10 W"]);
    }

    #[test]
    fn watts_become_exact_microwatts() {
        assert_eq!(parse_watts("8.00"), Some(Microwatts(8_000_000)));
        assert_eq!(parse_watts("0.0050"), Some(Microwatts(5_000)));
        assert_eq!(parse_watts("3"), Some(Microwatts(3_000_000)));
        for bad in [
            "",
            ".5",
            "-1",
            "1e3",
            "nan",
            "1.2345678",
            "99999999999999999999",
            "+1",
        ] {
            assert_eq!(parse_watts(bad), None, "{bad}");
        }
    }
}
