//! Figures as people read them: with as many digits as their interval deserves, and watts from 10 W on.

/// From so many milliwatts on, power is in watts.
const WATTS_FROM: f64 = 1e4;

/// The unit of figures that stand together.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Its name; empty for plain counts.
    pub name: String,
    /// What a value in the metric's own unit is multiplied by.
    pub factor: f64,
}

impl Unit {
    /// The unit for values in `own` of which the largest has this size: watts from 10 W on, otherwise their own.
    pub fn of(own: &str, largest: f64) -> Self {
        let (name, factor) = if own == "mW" && largest.abs() >= WATTS_FROM {
            ("W", 1e-3)
        } else {
            (own, 1.0)
        };
        Self {
            name: name.to_owned(),
            factor,
        }
    }

    /// The unit for all of these values.
    pub fn of_all(own: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let sizes = values.into_iter().map(f64::abs).filter(|v| v.is_finite());
        Self::of(own, sizes.fold(0.0, f64::max))
    }

    /// A title with this unit, as a column or an axis has it.
    pub fn title(&self, title: &str) -> String {
        if self.name.is_empty() {
            title.to_owned()
        } else {
            format!("{title}, {}", self.name)
        }
    }

    /// A value in the metric's own unit with the digits that its doubt, also in that unit, deserves; without the unit.
    pub fn figure(&self, value: f64, doubt: Option<f64>) -> String {
        let doubt = doubt.map(|d| d * self.factor);
        digits(value * self.factor, doubt)
    }

    /// Both ends of an interval as [`Self::figure`] has the value in it.
    pub fn interval(&self, value: f64, [low, high]: [f64; 2]) -> String {
        let decimals = decimals(value * self.factor, Some((high - low) / 2.0 * self.factor));
        let [low, high] = [low, high].map(|v| format!("{:.decimals$}", v * self.factor));
        format!("{low} to {high}")
    }
}

/// How far a mean may be off: half the width of its interval, else what the runs differ by.
pub fn doubt(interval: Option<[f64; 2]>, deviation: Option<f64>) -> Option<f64> {
    let half = interval.map(|[low, high]| (high - low) / 2.0);
    half.filter(|half| half.is_finite()).or(deviation)
}

/// Percentages with their signs: down to the second digit of half the width of their interval, at most two digits
/// after the point. Without an interval it is one.
pub fn percents<const N: usize>(values: [f64; N], interval: Option<[f64; 2]>) -> [String; N] {
    let decimals =
        doubt(interval, None).map_or(1, |half| (1 - exponent(half)).clamp(0, 2)) as usize;
    values.map(|value| format!("{value:+.decimals$}"))
}

/// The power of ten of a value's first digit.
fn exponent(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() {
        0
    } else {
        value.abs().log10().floor() as i32
    }
}

/// A value with as many digits as its doubt deserves: down to the second digit of the doubt, but at least three digits and
/// at most six. Without a doubt it has four. Digits before the point are never cut.
pub fn digits(value: f64, doubt: Option<f64>) -> String {
    let decimals = decimals(value, doubt);
    format!("{value:.decimals$}")
}

/// How many digits [`digits`] has after the point.
pub fn decimals(value: f64, doubt: Option<f64>) -> usize {
    let before = exponent(value) + 1;
    let decimals = match doubt.filter(|d| *d > 0.0 && d.is_finite()) {
        Some(doubt) => (1 - exponent(doubt)).clamp(3 - before, 6 - before),
        None => 4 - before,
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
            (188.345, Some(0.0012), "188.345"),
            (101.3, Some(60.0), "101"),
            (100.0, None, "100.0"),
            (1_234_567.0, Some(3.0), "1234567"),
            (0.0, None, "0.000"),
            (f64::NAN, Some(1.0), "NaN"),
            (2584.13, Some(f64::INFINITY), "2584"),
        ] {
            assert_eq!(digits(value, doubt), text);
        }
    }

    #[test]
    fn power_is_in_watts_from_10_w_on() {
        let of = |values: &[f64]| Unit::of_all("mW", values.iter().copied());
        assert_eq!(of(&[9_999.0]).name, "mW");
        // All of a column have one unit, that of its largest value.
        let watts = of(&[800.0, 10_000.0, f64::NAN]);
        assert_eq!(watts.title("power"), "power, W");
        assert_eq!(watts.figure(800.0, None), "0.8000");
        assert_eq!(watts.figure(188_345.0, Some(1_350.0)), "188.3");
        assert_eq!(
            watts.interval(188_345.0, [187_000.0, 189_700.0]),
            "187.0 to 189.7"
        );
        assert_eq!(Unit::of("us", 1e9).name, "us");
        assert_eq!(Unit::of("", 1.0).title("IOPS"), "IOPS");
    }

    #[test]
    fn percentages_have_no_more_digits_than_their_interval() {
        for (value, interval, text) in [
            (73.214, Some([73.21, 73.22]), "+73.21"),
            (3.123, Some([2.0, 4.3]), "+3.1"),
            (-25.4, Some([-60.0, 10.0]), "-25"),
            (3.123, None, "+3.1"),
        ] {
            assert_eq!(percents([value], interval), [text]);
        }
    }

    #[test]
    fn the_doubt_is_that_of_the_interval_or_of_the_runs() {
        assert_eq!(doubt(Some([1.0, 3.0]), Some(9.0)), Some(1.0));
        assert_eq!(doubt(Some([1.0, f64::INFINITY]), Some(9.0)), Some(9.0));
        assert_eq!(doubt(None, None), None);
    }
}
