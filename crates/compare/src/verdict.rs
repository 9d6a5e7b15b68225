//! Verdict on a comparison, and the sentence that says it.

use std::fmt;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use wakepath_results::Better;

use crate::figure::format_unsigned_percent;
use crate::gain::Gain;

/// Most runs worth asking for when a comparison leaves the outcome open.
pub const MAX_RUNS: usize = 10_000;

/// Width of an interval in percent from which its ends are printed without tenths.
const WIDE: f64 = 20.0;

/// Outcome of comparing a series with its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// The series is better by so many percent, and by more than the margin as far as the mean
    /// says.
    Better {
        /// At least.
        from: f64,
        /// At most.
        to: f64,
    },
    /// The series is worse by so many percent, and by more than the margin as far as the mean says.
    Worse {
        /// At least.
        from: f64,
        /// At most.
        to: f64,
    },
    /// The series has more by so many percent, in a metric that is neither better nor worse.
    More {
        /// At least.
        from: f64,
        /// At most.
        to: f64,
    },
    /// The series has less by so many percent, in a metric that is neither better nor worse.
    Less {
        /// At least.
        from: f64,
        /// At most.
        to: f64,
    },
    /// Any difference is smaller than the margin of interest.
    NoDifference {
        /// Largest possible difference, in percent.
        within: f64,
    },
    /// The runs leave the outcome open.
    CannotTell {
        /// Number of further runs in each series, roughly, that would settle the doubt;
        /// [`MAX_RUNS`] means so many or more.
        more_runs: usize,
        /// The open question.
        doubt: Doubt,
    },
}

/// What a comparison leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// Any difference between the series may be chance.
    Chance,
    /// The difference may be chance only because so many comparisons were made.
    Comparisons,
    /// The difference is certain, but may be larger than the margin or not.
    Margin,
}

impl Verdict {
    /// Judges a gain by its interval and its p-value, corrected for all comparisons in the
    /// question. Differences up to `margin` percent are neither better nor worse, however certain.
    pub fn from_gain(gain: &Gain, corrected_p: f64, level: f64, margin: f64) -> Self {
        let [low, high] = gain.interval;
        let largest = low.abs().max(high.abs());
        if largest <= margin {
            return Self::NoDifference { within: largest };
        }
        let apart = low > 0.0 || high < 0.0;
        let significant = corrected_p <= 1.0 - level && apart;
        let matters = gain.percent.abs() > margin;
        if significant && matters {
            return if low > 0.0 {
                Self::Better {
                    from: low,
                    to: high,
                }
            } else {
                Self::Worse {
                    from: -high,
                    to: -low,
                }
            };
        }
        // The interval narrows with the square root of the number of runs, and the quantile of the
        // p-value grows with this root.
        let half = (high - low) / 2.0;
        let (doubt, narrower) = if significant {
            let aim = (margin - gain.percent.abs()).max(margin / 10.0);
            (Doubt::Margin, half / aim)
        } else if apart {
            let wanted = two_sided_normal_quantile(gain.p_value * (1.0 - level) / corrected_p);
            (
                Doubt::Comparisons,
                wanted / two_sided_normal_quantile(gain.p_value),
            )
        } else {
            let aim = margin.max(gain.percent.abs() / 2.0).max(1e-3);
            (Doubt::Chance, half / aim)
        };
        let runs = gain.runs[0].min(gain.runs[1]) as f64;
        let more = (runs * narrower.powi(2)).ceil() - runs;
        Self::CannotTell {
            more_runs: more.clamp(1.0, MAX_RUNS as f64) as usize,
            doubt,
        }
    }

    /// The verdict in the direction that the metric calls better; `More` or `Less` in a metric
    /// without one.
    #[must_use]
    pub fn in_direction_of(self, better: Better) -> Self {
        match (better, self) {
            (Better::Neither, Self::Better { from, to }) => Self::More { from, to },
            (Better::Neither, Self::Worse { from, to }) => Self::Less { from, to },
            (_, verdict) => verdict,
        }
    }

    /// Whether the verdict says that the series is better or worse.
    pub fn names_winner(&self) -> bool {
        matches!(self, Self::Better { .. } | Self::Worse { .. })
    }
}

/// Two-sided quantile of the normal distribution for a p-value, in standard errors.
fn two_sided_normal_quantile(p_value: f64) -> f64 {
    -Normal::standard().inverse_cdf(p_value / 2.0)
}

/// Formats a range of percentages, `3.1 to 5.2`, or one number where both are the same, with as
/// many digits as the interval deserves.
pub fn format_percent_range([from, to]: [f64; 2]) -> String {
    let decimals = if to - from >= WIDE {
        0
    } else if to.abs().max(from.abs()) < 0.1 {
        3
    } else {
        1
    };
    let [from, to] = [from, to].map(|v| format_unsigned_percent(v, decimals));
    if from == to {
        from
    } else {
        format!("{from} to {to}")
    }
}

/// Says in words about how many more runs are needed.
fn describe_runs_needed(more_runs: usize) -> String {
    let s = if more_runs == 1 { "" } else { "s" };
    let about = if more_runs < MAX_RUNS {
        "about"
    } else {
        "at least"
    };
    format!("{about} {more_runs} more run{s} needed")
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Better { from, to } => {
                write!(f, "better by {} %", format_percent_range([*from, *to]))
            }
            Self::Worse { from, to } => {
                write!(f, "worse by {} %", format_percent_range([*from, *to]))
            }
            Self::More { from, to } => {
                write!(f, "more by {} %", format_percent_range([*from, *to]))
            }
            Self::Less { from, to } => {
                write!(f, "less by {} %", format_percent_range([*from, *to]))
            }
            Self::NoDifference { within } if *within == 0.0 => f.write_str("no difference"),
            Self::NoDifference { within } => {
                // The bound on the difference is rounded up.
                let tenths = (within * 10.0 - 1e-9).ceil() / 10.0;
                write!(f, "no difference larger than {tenths:.1} %")
            }
            Self::CannotTell { more_runs, doubt } => {
                let what = match doubt {
                    Doubt::Chance => "",
                    Doubt::Comparisons => " among so many comparisons",
                    Doubt::Margin => " whether it is more than the margin",
                };
                write!(f, "cannot tell{what}: {}", describe_runs_needed(*more_runs))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(interval: [f64; 2], corrected_p: f64) -> Verdict {
        let gain = Gain {
            means: [1.0, 1.0],
            percent: f64::midpoint(interval[0], interval[1]),
            interval,
            p_value: corrected_p.min(0.01),
            effect: Some(0.0),
            runs: [5, 5],
        };
        Verdict::from_gain(&gain, corrected_p, 0.95, 2.0)
    }

    #[test]
    fn one_sentence_for_each_case() {
        for (interval, p, sentence) in [
            ([3.0, 5.0], 0.001, "better by 3.0 to 5.0 %"),
            ([-5.0, -3.0], 0.001, "worse by 3.0 to 5.0 %"),
            ([30.04, 60.31], 0.001, "better by 30 to 60 %"),
            ([5.0, 5.0], 0.001, "better by 5.0 %"),
            (
                [-69_989.0, -238.0],
                0.001,
                "worse by 238 to more than 10000 %",
            ),
            // The interval reaches below the margin, but the mean does not.
            ([1.3, 3.1], 0.001, "better by 1.3 to 3.1 %"),
            ([-0.5, 1.2], 0.6, "no difference larger than 1.2 %"),
            // Certain, but unimportant.
            ([0.1, 0.2], 0.001, "no difference larger than 0.2 %"),
            ([3.3e-5, 3.3e-5], 1e-300, "no difference larger than 0.1 %"),
            ([0.0, 0.0], 1.0, "no difference"),
            (
                [0.3, 2.5],
                0.001,
                "cannot tell whether it is more than the margin: about 12 more runs needed",
            ),
            ([-8.0, 8.0], 0.9, "cannot tell: about 75 more runs needed"),
            (
                [-900.0, 901.0],
                0.9,
                "cannot tell: at least 10000 more runs needed",
            ),
            // Twenty comparisons need a p-value below 0.0025 instead of 0.01.
            (
                [0.5, 9.5],
                0.2,
                "cannot tell among so many comparisons: about 2 more runs needed",
            ),
        ] {
            assert_eq!(verdict(interval, p).to_string(), sentence);
        }
    }

    #[test]
    fn what_is_neither_better_nor_worse_is_more_or_less() {
        for (interval, sentence) in [
            ([3.0, 5.0], "more by 3.0 to 5.0 %"),
            ([-5.0, -3.0], "less by 3.0 to 5.0 %"),
            ([0.0, 0.0], "no difference"),
        ] {
            let judged = verdict(interval, 0.001).in_direction_of(Better::Neither);
            assert_eq!(judged.to_string(), sentence);
            assert!(!judged.names_winner());
        }
    }

    #[test]
    fn without_a_margin_every_certain_difference_counts() {
        let gain = Gain {
            means: [1.0, 1.0],
            percent: 0.03,
            interval: [0.02, 0.04],
            p_value: 0.001,
            effect: None,
            runs: [5, 5],
        };
        let verdict = Verdict::from_gain(&gain, 0.001, 0.95, 0.0);
        assert_eq!(verdict.to_string(), "better by 0.020 to 0.040 %");
    }
}
