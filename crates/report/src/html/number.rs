//! Numbers for people, and for charts.

use serde_json::Value;
use wakepath_compare::figure;

/// Most digits after the point; a number that needs more is written with an exponent.
const MAX_DECIMALS: usize = 9;

/// A number with four significant digits and spaces between thousands; a dash for infinities and what is no number.
pub(crate) fn format_four_significant_digits(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let size = value.abs();
    let sign = if value < 0.0 { "−" } else { "" };
    let decimals = match size {
        s if s >= 999.95 || s == 0.0 => 0,
        s if s >= 99.995 => 1,
        s if s >= 9.9995 => 2,
        s if s >= 0.99995 => 3,
        s => {
            let rounded = format!("{s:.3e}");
            let exponent = rounded.split_once("e-").and_then(|(_, e)| e.parse().ok());
            let decimals = exponent.map_or(3, |e: usize| e + 3);
            if decimals > MAX_DECIMALS {
                return format!("{sign}{}", rounded.replace('-', "−"));
            }
            decimals
        }
    };
    prefix_sign_and_space_thousands(sign, &format!("{size:.decimals$}"))
}

/// A figure with so many digits after the point; with four significant digits if `decimals` is `None`.
pub(crate) fn format_with_decimals_or_four_digits(value: f64, decimals: Option<usize>) -> String {
    let Some(decimals) = decimals.filter(|_| value.is_finite()) else {
        return format_four_significant_digits(value);
    };
    let text = figure::format_fixed(value, decimals);
    match text.strip_prefix('-') {
        Some(size) => prefix_sign_and_space_thousands("−", size),
        None => prefix_sign_and_space_thousands("", &text),
    }
}

/// Puts narrow spaces between the thousands of a number without sign, and `sign` before it.
fn prefix_sign_and_space_thousands(sign: &str, text: &str) -> String {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut out = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            // A narrow space without a line break.
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Percentages with signs, and the digits that the interval deserves.
pub(crate) fn format_signed_percents<const N: usize>(
    values: [f64; N],
    interval: Option<[f64; 2]>,
) -> [String; N] {
    let texts = figure::format_percents(values, interval);
    std::array::from_fn(|i| {
        if values[i].is_finite() {
            format!("{} %", texts[i]).replace('-', "−")
        } else {
            "–".into()
        }
    })
}

/// A percentage as in [`format_signed_percents`].
pub(crate) fn format_signed_percent(value: f64, interval: Option<[f64; 2]>) -> String {
    format_signed_percents([value], interval).concat()
}

/// A share from 0 to 1 in percent.
pub(crate) fn format_share_as_percent(value: f64) -> String {
    if value.is_finite() {
        format!("{:.2} %", value * 100.0)
    } else {
        "–".into()
    }
}

/// For a chart: five significant digits are more than any screen shows, and keep the page small. `null` is a gap.
pub(crate) fn round_to_five_digits_or_null(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        return Value::from(rounded as i64);
    }
    Value::from(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.5000"),
            (0.999_96, "1.000"),
            (0.099_999, "0.1000"),
            (0.012_344, "0.01234"),
            (0.000_049, "0.00004900"),
            (-1.234_56e-6, "−0.000001235"),
            (1.234_56e-7, "1.235e−7"),
            (1.234_56, "1.235"),
            (-12.345, "−12.35"),
            (123.456, "123.5"),
            (1_234_567.8, "1\u{202f}234\u{202f}568"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
            (-0.0, "0"),
            (-9.9999e-10, "−1.000e−9"),
            (f64::MIN_POSITIVE, "2.225e−308"),
        ] {
            assert_eq!(format_four_significant_digits(value), text);
        }
        assert_eq!(format_signed_percent(-3.26, None), "−3.3 %");
        assert_eq!(format_signed_percent(3.26, Some([2.26, 4.26])), "+3.3 %");
        assert_eq!(format_signed_percent(33.26, Some([-2.0, 70.0])), "+33 %");
        assert_eq!(format_signed_percent(f64::NAN, None), "–");
        assert_eq!(
            format_with_decimals_or_four_digits(12_345.678, Some(0)),
            "12\u{202f}346"
        );
        assert_eq!(format_with_decimals_or_four_digits(-3.0, Some(2)), "−3.00");
        assert_eq!(format_with_decimals_or_four_digits(1.234_56, None), "1.235");
        assert_eq!(format_share_as_percent(0.1234), "12.34 %");
    }

    #[test]
    fn charts_get_few_digits_and_no_nan() {
        assert_eq!(
            round_to_five_digits_or_null(123.456_789).to_string(),
            "123.46"
        );
        assert_eq!(round_to_five_digits_or_null(100.0).to_string(), "100");
        assert_eq!(round_to_five_digits_or_null(f64::NAN), Value::Null);
    }
}
