//! Small drawings in a terminal: bars and histograms.
//!
//! Only where a person looks: nothing is drawn into a pipe or on a dumb terminal. Block characters are left out
//! where the locale is not UTF-8, and colours where `NO_COLOR` is set or the terminal has none.

use console::{Style, Term};

/// A terminal that bars and histograms can be drawn on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    /// Columns.
    pub(crate) width: usize,
    /// Whether the terminal can show block characters.
    unicode: bool,
    /// Whether the terminal can show colours.
    colours: bool,
}

/// A colour's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hue {
    /// Nothing.
    Plain,
    /// Colour for values better than the baseline.
    Good,
    /// Colour for values worse than the baseline.
    Bad,
}

/// Characters that fill eighths of a column, from the left and from below.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PARTS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const PLAIN_LEVELS: [char; 8] = ['.', ':', '-', '=', '+', '*', '%', '#'];

impl Canvas {
    /// A canvas for standard output; `None` unless standard output is a terminal that can be drawn on.
    pub(crate) fn for_stdout_if_terminal() -> Option<Self> {
        let terminal = Term::stdout();
        if !terminal.is_term() || std::env::var("TERM").is_ok_and(|t| t == "dumb") {
            return None;
        }
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
            .unwrap_or_default()
            .to_lowercase();
        Some(Self {
            width: usize::from(terminal.size().1),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
            colours: console::colors_enabled(),
        })
    }

    /// Text in a colour, if the terminal shows colours.
    pub(crate) fn paint(self, text: &str, hue: Hue) -> String {
        let style = match hue {
            Hue::Plain => return text.to_owned(),
            Hue::Good => Style::new().green(),
            Hue::Bad => Style::new().red(),
        };
        style.force_styling(self.colours).apply_to(text).to_string()
    }

    /// A horizontal bar for a share from 0 to 1, filled up with blanks to `columns`.
    pub(crate) fn draw_bar_for_share(self, share: f64, columns: usize) -> String {
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        let eighths = (share * columns as f64 * 8.0).round() as usize;
        if !self.unicode {
            return "#".repeat((eighths + 4) / 8);
        }
        let mut bar = "█".repeat(eighths / 8);
        if !eighths.is_multiple_of(8) {
            bar.push(PARTS[eighths % 8 - 1]);
        }
        bar
    }

    /// A histogram with a column per value, as high as the value's share in the maximum; nonzero values stay visible.
    pub(crate) fn draw_histogram_line(self, values: &[f64]) -> String {
        let highest = values
            .iter()
            .copied()
            .filter(|v| v.is_finite())
            .fold(0.0, f64::max);
        let levels = if self.unicode { LEVELS } else { PLAIN_LEVELS };
        values
            .iter()
            .map(|value: &f64| {
                if !value.is_finite() || *value <= 0.0 || highest <= 0.0 {
                    return ' ';
                }
                let level = (value / highest * levels.len() as f64).ceil() as usize;
                levels[level.clamp(1, levels.len()) - 1]
            })
            .collect()
    }
}

/// Counts per column of a logarithmic scale, from histogram buckets `(low, high, count)`. A bucket counts at its
/// middle.
pub(crate) fn sum_buckets_on_log_scale(
    buckets: impl IntoIterator<Item = (f64, f64, f64)>,
    [lowest, highest]: [f64; 2],
    columns: usize,
) -> Vec<f64> {
    let mut sums = vec![0.0; columns];
    let span = (highest / lowest).ln();
    for (low, high, count) in buckets {
        let middle = (low.max(1.0) * high.max(1.0)).sqrt();
        let share = if span > 0.0 {
            (middle / lowest).ln() / span
        } else {
            0.5
        };
        add_count_at_share(&mut sums, share, count);
    }
    sums
}

/// Number of values in each column of a linear scale.
pub(crate) fn count_values_on_linear_scale(
    values: &[f64],
    [lowest, highest]: [f64; 2],
    columns: usize,
) -> Vec<f64> {
    let mut counts = vec![0.0; columns];
    for value in values.iter().filter(|v| v.is_finite()) {
        let share = if highest > lowest {
            (value - lowest) / (highest - lowest)
        } else {
            0.5
        };
        add_count_at_share(&mut counts, share, 1.0);
    }
    counts
}

/// Adds `count` to the column that lies at a share, from 0 to 1, of the width.
fn add_count_at_share(columns: &mut [f64], share: f64, count: f64) {
    let column = (share.clamp(0.0, 1.0) * columns.len() as f64) as usize;
    if let Some(last) = columns.len().checked_sub(1) {
        columns[column.min(last)] += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNICODE: Canvas = Canvas {
        width: 80,
        unicode: true,
        colours: false,
    };
    const PLAIN: Canvas = Canvas {
        unicode: false,
        ..UNICODE
    };

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(UNICODE.draw_bar_for_share(0.5, 4), "██");
        assert_eq!(UNICODE.draw_bar_for_share(0.53, 4), "██▏");
        assert_eq!(PLAIN.draw_bar_for_share(0.5, 4), "##");
        for odd in [f64::NAN, -1.0, 0.0] {
            assert_eq!(UNICODE.draw_bar_for_share(odd, 4), "");
        }
        assert_eq!(UNICODE.draw_bar_for_share(7.0, 4), "████");
    }

    #[test]
    fn histograms_show_what_is_not_0() {
        assert_eq!(
            UNICODE.draw_histogram_line(&[0.0, 0.001, 4.0, 8.0, f64::NAN]),
            " ▁▄█ "
        );
        assert_eq!(PLAIN.draw_histogram_line(&[0.0, 0.001, 4.0, 8.0]), " .=#");
        assert_eq!(UNICODE.draw_histogram_line(&[0.0, 0.0]), "  ");
    }

    #[test]
    fn colours_are_only_where_the_terminal_has_them() {
        let coloured = Canvas {
            colours: true,
            ..UNICODE
        };
        assert_eq!(coloured.paint("x", Hue::Good), "\u{1b}[32mx\u{1b}[0m");
        assert_eq!(coloured.paint("x", Hue::Plain), "x");
        assert_eq!(UNICODE.paint("x", Hue::Bad), "x");
    }

    #[test]
    fn values_fall_into_the_columns_of_a_linear_scale() {
        let values = [10.0, 11.0, 20.0, f64::NAN];
        assert_eq!(
            count_values_on_linear_scale(&values, [10.0, 20.0], 4),
            [2.0, 0.0, 0.0, 1.0]
        );
        assert_eq!(
            count_values_on_linear_scale(&[5.0; 3], [5.0, 5.0], 3),
            [0.0, 3.0, 0.0]
        );
        assert!(count_values_on_linear_scale(&values, [10.0, 20.0], 0).is_empty());
    }

    #[test]
    fn buckets_fall_into_the_columns_of_a_log_scale() {
        let buckets = [
            (10.0, 10.0, 1.0),
            (100.0, 100.0, 2.0),
            (1000.0, 1000.0, 3.0),
        ];
        assert_eq!(
            sum_buckets_on_log_scale(buckets, [10.0, 1000.0], 4),
            [1.0, 0.0, 2.0, 3.0]
        );
        assert_eq!(sum_buckets_on_log_scale(buckets, [10.0, 10.0], 1), [6.0]);
        assert!(sum_buckets_on_log_scale(buckets, [10.0, 1000.0], 0).is_empty());
    }
}
