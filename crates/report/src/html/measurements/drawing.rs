//! Pictures of measured values as lines, dots and texts with coordinates, for the template to write as SVG.

use serde::Serialize;

use super::super::number::format_four_significant_digits;
use super::picture::{
    MeasuredCurve, MeasuredInterval, MeasuredPicture, TradeOffPoint, describe_interval,
    undominated_points,
};

/// Width of a picture in its own units.
const WIDTH: f64 = 760.0;
/// Space for names of lines on the left.
const NAMES: f64 = 220.0;
/// Space for the numbers of a vertical axis.
const NUMBERS: f64 = 60.0;
/// Space on the right.
const RIGHT: f64 = 24.0;
/// Height of a line of intervals.
const ROW: f64 = 26.0;
/// Space for the axis below.
const BELOW: f64 = 44.0;
/// Height of a picture of curves, without the axis.
const CURVE_HEIGHT: f64 = 260.0;
/// Space above a picture with points, for the vertical axis's title.
const ABOVE: f64 = 24.0;
/// Most characters of a name; the table has all of it.
const NAME_LENGTH: usize = 34;
/// Least number of marks on an axis.
const FEWEST_MARKS: usize = 3;

/// A picture with coordinates.
#[derive(Debug, Default, Serialize)]
pub(super) struct Drawing {
    width: f64,
    height: f64,
    lines: Vec<Line>,
    paths: Vec<Path>,
    dots: Vec<Dot>,
    texts: Vec<Text>,
}

#[derive(Debug, Serialize)]
struct Line {
    x1: f64,
    y1: f64,
    x2: f64,
    y2: f64,
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct Path {
    points: String,
    /// Index of the curve, for its colour.
    curve: usize,
}

#[derive(Debug, Serialize)]
struct Dot {
    x: f64,
    y: f64,
    class: &'static str,
    /// What a pointer on the dot shows.
    title: String,
}

#[derive(Debug, Serialize)]
struct Text {
    x: f64,
    y: f64,
    words: String,
    /// `start`, `middle` or `end` of the text is at `x`.
    anchor: &'static str,
    class: &'static str,
}

/// An axis from a lowest to a highest value, logarithmic where all values are above 0 and far apart.
struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Coordinates of both ends.
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis for these values; `None` without a finite one.
    fn new(values: impl Iterator<Item = f64>, [from, to]: [f64; 2]) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let lowest = values.iter().copied().reduce(f64::min)?;
        let highest = values.iter().copied().reduce(f64::max)?;
        let logarithmic = lowest > 0.0 && highest / lowest > 20.0;
        let (low, high) = if logarithmic {
            (lowest / 1.15, highest * 1.15)
        } else {
            let room = (highest - lowest).max(highest.abs() * 0.1).max(1e-9) * 0.06;
            ((lowest - room).min(0.0), highest + room)
        };
        Some(Self {
            low,
            high,
            logarithmic,
            from,
            to,
        })
    }

    /// An axis around the values with some room on both sides; `None` without finite values.
    fn around(values: impl Iterator<Item = f64>, [from, to]: [f64; 2]) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let lowest = values.iter().copied().reduce(f64::min)?;
        let highest = values.iter().copied().reduce(f64::max)?;
        let room = (highest - lowest).max(highest.abs() * 0.02).max(1e-9) * 0.08;
        Some(Self {
            low: lowest - room,
            high: highest + room,
            logarithmic: false,
            from,
            to,
        })
    }

    fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
        .clamp(0.0, 1.0);
        tenths(self.from + share * (self.to - self.from))
    }

    /// Multiples of each power of ten within the axis.
    fn marks_in_decades(&self, steps: &[f64]) -> Vec<f64> {
        let lowest = self.low.log10().floor() as i32;
        let highest = self.high.log10().ceil() as i32;
        let all = (lowest..=highest).flat_map(|power| {
            let decade = 10_f64.powi(power);
            steps.iter().map(move |step| step * decade)
        });
        all.filter(|mark| (self.low..=self.high).contains(mark))
            .collect()
    }

    /// Round values within the axis.
    fn marks(&self) -> Vec<f64> {
        if self.logarithmic {
            let coarse = self.marks_in_decades(&[1.0]);
            return if coarse.len() >= FEWEST_MARKS {
                coarse
            } else {
                self.marks_in_decades(&[1.0, 2.0, 5.0])
            };
        }
        let rough = (self.high - self.low) / 5.0;
        let decade = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
        let step = steps
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }
}

impl Drawing {
    /// Draws a picture; `None` where there is nothing to draw.
    pub(super) fn new(picture: &MeasuredPicture) -> Option<Self> {
        match picture {
            MeasuredPicture::Intervals(rows) => draw_intervals(rows),
            MeasuredPicture::Curves { x_title, curves } => draw_curves(x_title, curves),
            MeasuredPicture::TradeOff {
                x_title,
                y_title,
                more_is_better,
                points,
            } => draw_trade_off([x_title, y_title], *more_is_better, points),
        }
    }

    fn add_line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], class: &'static str) {
        self.lines.push(Line {
            x1,
            y1,
            x2,
            y2,
            class,
        });
    }

    fn add_text(
        &mut self,
        [x, y]: [f64; 2],
        text: impl Into<String>,
        anchor: &'static str,
        class: &'static str,
    ) {
        self.texts.push(Text {
            x,
            y,
            words: text.into(),
            anchor,
            class,
        });
    }

    /// Marks of a horizontal axis, with lines up to the top.
    fn add_marks_below(&mut self, axis: &Axis, bottom: f64) {
        for mark in axis.marks() {
            let x = axis.place(mark);
            self.add_line([x, 0.0], [x, bottom], "grid");
            self.add_text([x, bottom + 18.0], short_mark(mark), "middle", "quiet");
        }
    }

    /// Marks of both axes of a picture of curves or points, with the horizontal axis's title.
    fn add_axes(&mut self, x_axis: &Axis, y_axis: &Axis, x_title: &str) {
        self.add_marks_below(x_axis, CURVE_HEIGHT);
        for mark in y_axis.marks() {
            let y = y_axis.place(mark);
            self.add_line([NUMBERS, y], [WIDTH - RIGHT, y], "grid");
            self.add_text([NUMBERS - 8.0, y + 4.0], short_mark(mark), "end", "quiet");
        }
        let middle = tenths(NUMBERS.midpoint(WIDTH - RIGHT));
        self.add_text([middle, CURVE_HEIGHT + 38.0], x_title, "middle", "quiet");
    }
}

fn draw_intervals(rows: &[MeasuredInterval]) -> Option<Drawing> {
    let rows: Vec<&MeasuredInterval> = rows
        .iter()
        .filter(|row| [row.value, row.low, row.high].iter().all(|v| v.is_finite()))
        .collect();
    let values = rows.iter().flat_map(|row| {
        [row.value, row.low, row.high]
            .into_iter()
            .chain(row.reference)
    });
    let axis = Axis::new(values, [NAMES, WIDTH - RIGHT])?;
    let bottom = ROW * rows.len() as f64;
    let mut drawing = Drawing {
        width: WIDTH,
        height: bottom + BELOW - 16.0,
        ..Drawing::default()
    };
    drawing.add_marks_below(&axis, bottom);
    for (index, row) in rows.iter().enumerate() {
        let y = tenths(ROW * (index as f64 + 0.5));
        let name = shorten(&row.name);
        drawing.add_text([NAMES - 12.0, y + 4.0], name, "end", "name");
        let [low, high] = [row.low, row.high].map(|end| axis.place(end));
        drawing.add_line([low, y], [high, y], "interval");
        let title = format!("{}: {}", row.name, describe_interval(row));
        if let Some(reference) = row.reference.filter(|value| value.is_finite()) {
            let x = axis.place(reference);
            drawing.add_line([x, y - 8.0], [x, y + 8.0], "reference");
        }
        drawing.dots.push(Dot {
            x: axis.place(row.value),
            y,
            class: "value",
            title,
        });
    }
    Some(drawing)
}

fn draw_curves(x_title: &str, curves: &[MeasuredCurve]) -> Option<Drawing> {
    let points: Vec<&[f64; 2]> = curves.iter().flat_map(|curve| &curve.points).collect();
    let x_axis = Axis::new(
        points.iter().map(|point| point[0]),
        [NUMBERS, WIDTH - RIGHT],
    )?;
    let y_axis = Axis::new(points.iter().map(|point| point[1]), [CURVE_HEIGHT, 8.0])?;
    let mut drawing = Drawing {
        width: WIDTH,
        height: CURVE_HEIGHT + BELOW + 22.0 * curves.len() as f64,
        ..Drawing::default()
    };
    drawing.add_axes(&x_axis, &y_axis, x_title);
    for (curve, measured) in curves.iter().enumerate() {
        let finite = measured
            .points
            .iter()
            .filter(|p| p.iter().all(|v| v.is_finite()));
        let places: Vec<[f64; 2]> = finite
            .clone()
            .map(|[x, y]| [x_axis.place(*x), y_axis.place(*y)])
            .collect();
        let pairs: Vec<String> = places.iter().map(|[x, y]| format!("{x},{y}")).collect();
        drawing.paths.push(Path {
            points: pairs.join(" "),
            curve,
        });
        for ([x, y], [at, value]) in places.iter().zip(finite) {
            drawing.dots.push(Dot {
                x: *x,
                y: *y,
                class: "point",
                title: format!(
                    "{}: {} at {}",
                    measured.name,
                    format_four_significant_digits(*value),
                    format_four_significant_digits(*at)
                ),
            });
        }
        let y = tenths(CURVE_HEIGHT + BELOW + 22.0 * curve as f64 + 10.0);
        drawing.add_line(
            [NUMBERS, y],
            [NUMBERS + 28.0, y],
            CURVE_CLASSES[curve % CURVE_CLASSES.len()],
        );
        drawing.add_text(
            [NUMBERS + 38.0, y + 4.0],
            measured.name.clone(),
            "start",
            "name",
        );
    }
    Some(drawing)
}

/// Draws points with a line through unbeaten points. Axes do not begin at 0, since differences count here.
fn draw_trade_off(
    [x_title, y_title]: [&str; 2],
    more_is_better: [bool; 2],
    points: &[TradeOffPoint],
) -> Option<Drawing> {
    let finite = points
        .iter()
        .filter(|point| point.x.is_finite() && point.y.is_finite());
    let x_axis = Axis::around(finite.clone().map(|p| p.x), [NUMBERS, WIDTH - RIGHT])?;
    let y_axis = Axis::around(finite.clone().map(|p| p.y), [CURVE_HEIGHT, ABOVE])?;
    let mut drawing = Drawing {
        width: WIDTH,
        height: CURVE_HEIGHT + BELOW,
        ..Drawing::default()
    };
    drawing.add_axes(&x_axis, &y_axis, x_title);
    drawing.add_text([0.0, 12.0], y_title, "start", "quiet");
    let front: Vec<String> = undominated_points(points, more_is_better)
        .iter()
        .map(|[x, y]| format!("{},{}", x_axis.place(*x), y_axis.place(*y)))
        .collect();
    drawing.paths.push(Path {
        points: front.join(" "),
        curve: 0,
    });
    let middle = tenths(NUMBERS.midpoint(WIDTH - RIGHT));
    for point in finite {
        let [x, y] = [x_axis.place(point.x), y_axis.place(point.y)];
        let [at, value] = [point.x, point.y].map(format_four_significant_digits);
        drawing.dots.push(Dot {
            x,
            y,
            class: if point.is_answer { "value" } else { "point" },
            title: format!("{}: {value} at {at}", point.name),
        });
        if point.is_answer {
            let anchor = if x > middle { "end" } else { "start" };
            let beside = if x > middle { x - 9.0 } else { x + 9.0 };
            drawing.add_text([beside, y - 7.0], shorten(&point.name), anchor, "name");
        }
    }
    Some(drawing)
}

/// Classes of a curve's line in the legend; the style sheet has as many colours and dashes.
const CURVE_CLASSES: [&str; 4] = ["curve-0", "curve-1", "curve-2", "curve-3"];

/// A round number on an axis, without zeros that say nothing.
fn short_mark(value: f64) -> String {
    let text = format_four_significant_digits(value);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A coordinate with one decimal.
fn tenths(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

fn shorten(name: &str) -> String {
    if name.chars().count() <= NAME_LENGTH {
        return name.to_owned();
    }
    let head: String = name.chars().take(NAME_LENGTH - 1).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_its_values_inside_and_round_marks() {
        for values in [
            vec![96.0],
            vec![0.0],
            vec![-3.0, 4.0],
            vec![2.0, 133.0],
            vec![0.4, 4000.0],
            vec![1e-9, 1e9],
        ] {
            let axis = Axis::new(values.iter().copied(), [100.0, 700.0]).unwrap();
            for value in &values {
                assert!((100.0..=700.0).contains(&axis.place(*value)), "{values:?}");
            }
            let places: Vec<f64> = values.iter().map(|value| axis.place(*value)).collect();
            assert!(places.is_sorted(), "{values:?}: {places:?}");
            let marks = axis.marks();
            assert!((1..=25).contains(&marks.len()), "{values:?}: {marks:?}");
        }
        assert!(Axis::new([f64::NAN].into_iter(), [0.0, 1.0]).is_none());
    }

    #[test]
    fn far_values_have_a_logarithmic_axis() {
        let axis = Axis::new([1.0, 1000.0].into_iter(), [0.0, 100.0]).unwrap();
        let [one, ten, hundred] = [1.0, 10.0, 100.0].map(|value| axis.place(value));
        assert!(
            (ten - one - (hundred - ten)).abs() < 0.2,
            "{one} {ten} {hundred}"
        );
    }
}
