//! Parsing values as fio writes them: sizes, times, counts, switches and lists per direction.
//!
//! fio reads as much of a value as it understands and drops the rest without a word: to fio, `1.5k` is 1 byte, and
//! `30sec` is 30 microseconds. Such values are refused, so that an accepted job file means the same to both.

use wakepath_units::Nanoseconds;

use super::PerDirection;
use super::error::{LineProblem, escape_and_shorten};

/// Splits a value into its leading number, decimal or `0x` hexadecimal, and the remaining text.
fn split_leading_number(text: &str) -> Result<(u64, &str), LineProblem> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
    let end = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    if digits.is_empty() {
        let hint = match text.chars().next() {
            None => "a value is missing".to_owned(),
            Some('-') => {
                let message = format!("`{}` is negative", escape_and_shorten(text));
                return Err(LineProblem::unmodelled(message));
            }
            Some('"' | '\'') => format!(
                "`{}` is in quotes, which fio does not take off a number",
                escape_and_shorten(text)
            ),
            Some('(') => format!(
                "`{}`: fio computes only beside $pagesize, $mb_memory and $ncpus; write the number",
                escape_and_shorten(text)
            ),
            Some('$') if text.starts_with("${") => format!(
                "`{}`: this variable is not set in the environment; set it there or by --set NAME=VALUE of `sim`, or write the value",
                escape_and_shorten(text)
            ),
            Some('$') => {
                return Err(LineProblem::unmodelled(format!(
                    "`{}` depends on the machine that runs fio; write the number",
                    escape_and_shorten(text)
                )));
            }
            Some(_) => format!("`{}` is not a number", escape_and_shorten(text)),
        };
        return Err(LineProblem::new(hint));
    }
    if rest.starts_with('.') {
        return Err(LineProblem::unmodelled(format!(
            "`{}` has a fraction, which fio drops; write a whole number",
            escape_and_shorten(text)
        )));
    }
    if radix == 16 && !rest.is_empty() {
        return Err(LineProblem::unmodelled(format!(
            "`{}`: fio drops the unit of a hexadecimal number",
            escape_and_shorten(text)
        )));
    }
    let value = u64::from_str_radix(digits, radix)
        .ok()
        // fio keeps every number in a signed 64-bit integer.
        .filter(|&n| i64::try_from(n).is_ok())
        .ok_or_else(|| LineProblem::new(format!("`{}` is too large", escape_and_shorten(text))))?;
    Ok((value, rest))
}

fn multiply_within_i64(text_for_error: &str, value: u64, factor: u64) -> Result<u64, LineProblem> {
    value
        .checked_mul(factor)
        .filter(|&n| i64::try_from(n).is_ok())
        .ok_or_else(|| {
            LineProblem::new(format!(
                "`{}` is too large",
                escape_and_shorten(text_for_error)
            ))
        })
}

/// A parsed number of bytes, and whether it means something else to fio than to everyone else.
pub(super) struct ParsedBytes {
    pub(super) value: u64,
    pub(super) surprise: Option<ByteSurprise>,
}

/// How fio reads a number of bytes differently from everyone else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteSurprise {
    /// Its `kib` is 1000.
    SwappedPrefix,
    /// It ends at an arithmetic sign: fio computes only beside `$pagesize`, `$mb_memory` and `$ncpus`.
    NotComputed,
}

/// What `k` is in a job (fio's `kb_base`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KbBase {
    /// 1024, and `kib` is 1000.
    #[default]
    Swapped,
    /// 1000, and `kib` is 1024.
    Standard,
}

/// Parses a quantity in bytes (or another unit that fio scales alike): `4096`, `4k`, `4kb`, `1m`.
///
/// With fio's default `kb_base=1024`, `k` is 1024 and `kib` is 1000: the prefixes are swapped against the standards,
/// for the sake of old job files.
pub(super) fn parse_bytes(text: &str, kb_base: KbBase) -> Result<ParsedBytes, LineProblem> {
    let (value, suffix) = split_leading_number(text)?;
    let suffix = suffix.to_ascii_lowercase();
    let (prefix, binary) = match suffix.strip_suffix("ib") {
        Some(prefix) if !prefix.is_empty() => (prefix, true),
        _ => (suffix.strip_suffix('b').unwrap_or(&suffix), false),
    };
    let power = match prefix {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ if prefix.starts_with(['*', '/', '+']) => {
            return Ok(ParsedBytes {
                value,
                surprise: Some(ByteSurprise::NotComputed),
            });
        }
        _ => {
            return Err(LineProblem::unmodelled(format!(
                "`{}` has an unknown unit; expected a number with k, m, g, t or p",
                escape_and_shorten(text)
            )));
        }
    };
    let swapped = kb_base == KbBase::Swapped;
    let base: u64 = if binary == swapped { 1000 } else { 1024 };
    Ok(ParsedBytes {
        value: multiply_within_i64(text, value, base.pow(power))?,
        surprise: (binary && swapped).then_some(ByteSurprise::SwappedPrefix),
    })
}

/// Parses a count. fio scales counts like bytes, so `1k` is 1024.
pub(super) fn parse_count(text: &str, kb_base: KbBase) -> Result<u64, LineProblem> {
    let parsed = parse_bytes(text, kb_base)?;
    if parsed.surprise == Some(ByteSurprise::NotComputed) {
        return Err(LineProblem::unmodelled(format!(
            "`{}` is {} to fio, which does not compute here; write the number",
            escape_and_shorten(text),
            parsed.value
        )));
    }
    Ok(parsed.value)
}

/// Parses a time with unit; a number without unit counts multiples of `default_unit_us` microseconds.
pub(super) fn parse_time_with_default_unit(
    text: &str,
    default_unit_us: u64,
) -> Result<Nanoseconds, LineProblem> {
    let (value, suffix) = split_leading_number(text)?;
    if text.starts_with("0x") || text.starts_with("0X") {
        return Err(LineProblem::unmodelled(format!(
            "`{}`: fio reads a hexadecimal time as microseconds, whatever the option's unit",
            escape_and_shorten(text)
        )));
    }
    let factor_us = match suffix.to_ascii_lowercase().as_str() {
        "" => default_unit_us,
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => {
            return Err(LineProblem::unmodelled(format!(
                "`{}` has an unknown unit of time; expected us, ms, s, m, h or d",
                escape_and_shorten(text)
            )));
        }
    };
    let us = multiply_within_i64(text, value, factor_us)?;
    Ok(Nanoseconds(multiply_within_i64(text, us, 1_000)?))
}

/// Parses a percentage from 0 to 100, without a sign.
pub(super) fn parse_percent(text: &str) -> Result<u8, LineProblem> {
    let (value, rest) = split_leading_number(text)?;
    match u8::try_from(value) {
        Ok(p) if p <= 100 && rest.is_empty() => Ok(p),
        _ => Err(LineProblem::new(format!(
            "`{}` is not a percentage; expected a whole number from 0 to 100",
            escape_and_shorten(text)
        ))),
    }
}

/// `0` or `1`.
pub(super) fn parse_zero_or_one(text: &str) -> Result<bool, LineProblem> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(LineProblem::new(format!(
            "`{}` is not a switch; expected 0 or 1",
            escape_and_shorten(text)
        ))),
    }
}

/// Parses a list `read,write,trim`. fio fills missing parts in two ways: a part after the last comma repeats the part
/// before, an empty part stays unset.
pub(super) fn parse_per_direction<'a, T: Copy>(
    text: &'a str,
    mut parse: impl FnMut(&'a str) -> Result<T, LineProblem>,
) -> Result<PerDirection<Option<T>>, LineProblem> {
    let parts: Vec<&str> = text.split(',').take(4).collect();
    if parts.len() > 3 {
        return Err(LineProblem::new(format!(
            "`{}` has more than three parts; expected read,write,trim",
            escape_and_shorten(text)
        )));
    }
    if parts.iter().all(|p| p.is_empty()) {
        return Err(LineProblem::new("a value is missing"));
    }
    let mut values = [None; 3];
    for (value, part) in values.iter_mut().zip(&parts) {
        if !part.is_empty() {
            *value = Some(parse(part)?);
        }
    }
    for missing in parts.len()..3 {
        values[missing] = values[missing - 1];
    }
    let [read, write, trim] = values;
    Ok(PerDirection { read, write, trim })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_fios() {
        for (text, expected) in [
            ("512", 512),
            ("4k", 4096),
            ("4KB", 4096),
            ("4kib", 4000),
            ("2m", 2 << 20),
            ("1g", 1 << 30),
            ("1t", 1 << 40),
            ("1p", 1 << 50),
            ("0x1000", 4096),
        ] {
            assert_eq!(parse_count(text, KbBase::Swapped), Ok(expected), "{text}");
        }
        for text in [
            "",
            "-1",
            "1.5k",
            "4kx",
            "4ib",
            "k",
            "9e18",
            "0x",
            "99999999999999999999",
            "9000000p",
            "\"4k\"",
            "(4+1)",
            "$x",
            " 4k",
        ] {
            assert!(parse_count(text, KbBase::Swapped).is_err(), "{text}");
        }
    }

    #[test]
    fn kb_base_1000_is_the_standards() {
        for (text, expected) in [("4k", 4000), ("3MB", 3_000_000), ("256GiB", 256 << 30)] {
            assert_eq!(parse_count(text, KbBase::Standard), Ok(expected), "{text}");
        }
    }

    #[test]
    fn times_are_fios() {
        let second = 1_000_000;
        for (text, default_unit_us, ns) in [
            ("30", second, 30_000_000_000),
            ("30", 1, 30_000),
            ("5ms", second, 5_000_000),
            ("5usec", 1, 5_000),
            ("2S", 1, 2_000_000_000),
            ("1m", 1, 60_000_000_000),
            ("1h", 1, 3_600_000_000_000),
            ("1d", 1, 86_400_000_000_000),
        ] {
            assert_eq!(
                parse_time_with_default_unit(text, default_unit_us),
                Ok(Nanoseconds(ns)),
                "{text}"
            );
        }
        for text in [
            "30sec",
            "2min",
            "1.5s",
            "1:30",
            "10m30s",
            "-1",
            "999999999d",
        ] {
            assert!(parse_time_with_default_unit(text, 1).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_fill_in_as_fio_does() {
        fn list(text: &str) -> Result<[Option<u64>; 3], LineProblem> {
            let counts = parse_per_direction(text, |part| parse_count(part, KbBase::Swapped))?;
            Ok([counts.read, counts.write, counts.trim])
        }
        assert_eq!(list("8"), Ok([Some(8), Some(8), Some(8)]));
        assert_eq!(list("8,9"), Ok([Some(8), Some(9), Some(9)]));
        assert_eq!(list("8,"), Ok([Some(8), None, None]));
        assert_eq!(list(",9"), Ok([None, Some(9), Some(9)]));
        assert_eq!(list(",9,"), Ok([None, Some(9), None]));
        assert_eq!(list("7,8,9"), Ok([Some(7), Some(8), Some(9)]));
        assert!(list(",").is_err());
        assert!(list("1,2,3,4").is_err());
        assert!(list("1,x").is_err());
    }
}
