//! Formats figures for people: as many digits as the interval deserves, and units of their size.

/// Units for large values: a metric's own unit, the size from which a bigger one is used, that
/// unit, and its factor; bigger units first.
const BIGGER_UNITS: [(&str, f64, &str, f64); 3] = [
    ("mW", 1e4, "W", 1e-3),
    ("uJ", 1e7, "J", 1e-6),
    ("uJ", 1e4, "mJ", 1e-3),
];

/// Unit that all figures in a column or on an axis have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Name of the unit, such as `us`; empty for plain counts.
    pub name: String,
    /// Factor from the metric's own unit to this unit.
    pub factor: f64,
    /// Most significant digits of figures in this unit; digits before the point are never cut.
    most: i32,
}

/// Most significant digits for figures with a known model.
const MOST: i32 = 5;

/// Most significant digits for power and energy that are modelled with assumed figures.
const MOST_ASSUMED: i32 = 3;

/// Most significant digits for assumed power in watts.
const MOST_ASSUMED_WATTS: i32 = 2;

/// Percentage from which gains and bounds only say that nothing is known.
const FAR: f64 = 10_000.0;

impl Unit {
    /// Chooses the unit for values in `own` of which the largest has this size: watts from 10 W on,
    /// millijoules from 10 mJ on and joules from 10 J on, otherwise their own.
    pub fn for_value(own: &str, largest: f64) -> Self {
        let mut bigger = BIGGER_UNITS.into_iter();
        let (name, factor) = bigger
            .find(|(unit, from, ..)| *unit == own && largest.abs() >= *from)
            .map_or((own, 1.0), |(.., name, factor)| (name, factor));
        Self {
            name: name.to_owned(),
            factor,
            most: MOST,
        }
    }

    /// The unit for figures of a model with assumed power: power and energy get fewer digits.
    #[must_use]
    pub fn for_assumed_power(self) -> Self {
        let most = match self.name.as_str() {
            "W" => MOST_ASSUMED_WATTS,
            "mW" | "uJ" | "mJ" | "J" => MOST_ASSUMED,
            _ => self.most,
        };
        Self { most, ..self }
    }

    /// Chooses the unit that suits the largest of all values, given in `own`.
    pub fn for_values(own: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let sizes = values.into_iter().map(f64::abs).filter(|v| v.is_finite());
        Self::for_value(own, sizes.fold(0.0, f64::max))
    }

    /// Title of a column or an axis with the unit, such as `power, W`.
    pub fn title_with_unit(&self, title: &str) -> String {
        if self.name.is_empty() {
            title.to_owned()
        } else {
            format!("{title}, {}", self.name)
        }
    }

    /// Formats a value without its unit, with the digits that the doubt deserves. Both are in the
    /// metric's own unit.
    pub fn format_figure(&self, value: f64, doubt: Option<f64>) -> String {
        let scaled = value * self.factor;
        format_fixed(scaled, self.decimals_of_figure(value, doubt))
    }

    /// Number of digits after the point in [`Self::format_figure`].
    pub fn decimals_of_figure(&self, value: f64, doubt: Option<f64>) -> usize {
        let doubt = doubt.map(|d| d * self.factor);
        decimals_up_to(value * self.factor, doubt, self.most)
    }

    /// Formats both ends of an interval, with the digits that [`Self::format_figure`] gives the
    /// value.
    pub fn format_interval(&self, value: f64, [low, high]: [f64; 2]) -> String {
        let decimals = self.decimals_of_figure(value, Some((high - low) / 2.0));
        let [low, high] = [low, high].map(|v| format_fixed(v * self.factor, decimals));
        format!("{low} to {high}")
    }
}

/// A unit as it stands behind a figure: ` us`, `/s`, or nothing for plain counts.
pub fn unit_as_suffix(unit: &str) -> String {
    match unit {
        "" => String::new(),
        "1/s" => "/s".to_owned(),
        other => format!(" {other}"),
    }
}

/// How far a mean may be off: half the width of the interval, else the standard deviation.
pub fn doubt_about_mean(interval: Option<[f64; 2]>, deviation: Option<f64>) -> Option<f64> {
    let half = interval.map(|[low, high]| (high - low) / 2.0);
    half.filter(|half| half.is_finite()).or(deviation)
}

/// Formats percentages with signs: down to the second digit of half the interval's width, at most
/// two digits after the point, and one digit without an interval. A percentage beyond 10,000 is
/// only said to be beyond.
pub fn format_percents<const N: usize>(
    values: [f64; N],
    interval: Option<[f64; 2]>,
) -> [String; N] {
    let decimals = doubt_about_mean(interval, None)
        .map_or(1, |half| (1 - exponent_of_first_digit(half)).clamp(0, 2))
        as usize;
    values.map(|value| format_percent(value, decimals))
}

/// Formats a percentage with a sign and so many digits after the point, or only a bound beyond
/// 10,000.
pub fn format_percent(value: f64, decimals: usize) -> String {
    match value {
        v if v >= FAR => format!(">+{FAR:.0}"),
        v if v <= -FAR => format!("<-{FAR:.0}"),
        v => format_signed(v, decimals),
    }
}

/// Formats a percentage without a sign, or only a bound from 10,000 on.
pub(crate) fn format_unsigned_percent(value: f64, decimals: usize) -> String {
    if value >= FAR {
        format!("more than {FAR:.0}")
    } else {
        format_fixed(value, decimals)
    }
}

/// Formats a number with so many digits after the point; a number that is rounded to 0 has no sign.
pub fn format_fixed(value: f64, decimals: usize) -> String {
    drop_sign_of_zero(format!("{value:.decimals$}"))
}

/// Formats a number as [`format_fixed`] does, with a plus sign if positive.
pub fn format_signed(value: f64, decimals: usize) -> String {
    drop_sign_of_zero(format!("{value:+.decimals$}"))
}

fn drop_sign_of_zero(text: String) -> String {
    match text.strip_prefix(['-', '+']) {
        Some(size) if size.bytes().all(|b| b == b'0' || b == b'.') => size.to_owned(),
        _ => text,
    }
}

/// Power of ten that a value's first digit stands for; 0 for 0 and for values that are not finite.
fn exponent_of_first_digit(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() {
        0
    } else {
        value.abs().log10().floor() as i32
    }
}

/// Formats a value with the digits that its doubt deserves: down to the doubt's first digit, to the
/// second if the first is 1 or 2, at least three digits and at most five. Without a doubt there are
/// four. Digits before the point are never cut.
pub fn format_by_doubt(value: f64, doubt: Option<f64>) -> String {
    format_fixed(value, decimals_by_doubt(value, doubt))
}

/// Number of digits after the point that a value deserves by its doubt, as in [`format_by_doubt`].
pub fn decimals_by_doubt(value: f64, doubt: Option<f64>) -> usize {
    decimals_up_to(value, doubt, MOST)
}

fn decimals_up_to(value: f64, doubt: Option<f64>, most: i32) -> usize {
    let before = exponent_of_first_digit(value) + 1;
    let decimals = match doubt.filter(|d| *d > 0.0 && d.is_finite()) {
        Some(doubt) => {
            let exponent = exponent_of_first_digit(doubt);
            let second = i32::from(doubt / 10_f64.powi(exponent) < 3.0);
            (second - exponent).clamp(most.min(3) - before, most - before)
        }
        None => most.min(4) - before,
    };
    decimals.clamp(0, 9) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_digits_that_its_doubt_deserves() {
        for (value, doubt, text) in [
            (188.345, Some(1.2), "188.3"),
            (188.345, Some(0.0012), "188.34"),
            (188.345, Some(0.09), "188.34"),
            (188.345, Some(8.0), "188"),
            (101.3, Some(60.0), "101"),
            (100.0, None, "100.0"),
            (1_234_567.0, Some(3.0), "1234567"),
            (0.0, None, "0.000"),
            (-0.0, Some(0.1), "0.00"),
            (f64::NAN, Some(1.0), "NaN"),
            (2584.13, Some(f64::INFINITY), "2584"),
        ] {
            assert_eq!(format_by_doubt(value, doubt), text);
        }
    }

    fn milliwatts(values: &[f64]) -> Unit {
        Unit::for_values("mW", values.iter().copied())
    }

    #[test]
    fn power_is_in_watts_from_10_w_on() {
        assert_eq!(milliwatts(&[9_999.0]).name, "mW");
        // A column has one unit, which its largest value decides.
        let watts = milliwatts(&[800.0, 10_000.0, f64::NAN]);
        assert_eq!(watts.title_with_unit("power"), "power, W");
        assert_eq!(watts.format_figure(800.0, None), "0.8000");
        assert_eq!(watts.format_figure(188_345.0, Some(1_350.0)), "188.3");
        assert_eq!(
            watts.format_interval(188_345.0, [187_000.0, 189_700.0]),
            "187.0 to 189.7"
        );
        // Assumed figures of hundreds of watts have no tenths.
        let assumed = watts.for_assumed_power();
        assert_eq!(assumed.format_figure(477_283.0, Some(91.0)), "477");
        assert_eq!(
            assumed.format_interval(477_283.0, [477_192.0, 477_374.0]),
            "477 to 477"
        );
        assert_eq!(assumed.format_figure(12_345.0, Some(0.1)), "12");
        assert_eq!(
            milliwatts(&[997.5])
                .for_assumed_power()
                .format_figure(997.48, Some(0.1)),
            "997"
        );
        assert_eq!(
            milliwatts(&[9.974])
                .for_assumed_power()
                .format_figure(9.9748, Some(0.001)),
            "9.97"
        );
        assert_eq!(
            Unit::for_value("us", 1.0)
                .for_assumed_power()
                .format_figure(99.4321, Some(0.01)),
            "99.432"
        );
        assert_eq!(Unit::for_value("us", 1e9).name, "us");
        for (uj, text) in [
            (3_945_282.4, "3945 mJ"),
            (18_890.3, "18.9 mJ"),
            (4176.4, "4176 uJ"),
            (2.4e7, "24.0 J"),
        ] {
            let energy = Unit::for_value("uJ", uj).for_assumed_power();
            assert_eq!(
                format!("{} {}", energy.format_figure(uj, None), energy.name),
                text
            );
        }
        assert_eq!(Unit::for_value("", 1.0).title_with_unit("IOPS"), "IOPS");
    }

    #[test]
    fn percentages_have_no_more_digits_than_their_interval() {
        for (value, interval, text) in [
            (73.214, Some([73.21, 73.22]), "+73.21"),
            (3.123, Some([2.0, 4.3]), "+3.1"),
            (-25.4, Some([-60.0, 10.0]), "-25"),
            (3.123, None, "+3.1"),
            (-0.04, None, "0.0"),
            (69_989.0, Some([238.0, 69_989.0]), ">+10000"),
            (-69_989.0, None, "<-10000"),
        ] {
            assert_eq!(format_percents([value], interval), [text]);
        }
        assert_eq!(
            format_percents([-0.001, -0.002], Some([-0.1, 0.1])),
            ["0.00", "0.00"]
        );
    }

    #[test]
    fn the_doubt_is_that_of_the_interval_or_of_the_runs() {
        assert_eq!(doubt_about_mean(Some([1.0, 3.0]), Some(9.0)), Some(1.0));
        assert_eq!(
            doubt_about_mean(Some([1.0, f64::INFINITY]), Some(9.0)),
            Some(9.0)
        );
        assert_eq!(doubt_about_mean(None, None), None);
    }
}
