//! A sentence about a comparison.

use std::fmt;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

use crate::Gain;

/// Most runs that are worth asking for.
pub const MOST_RUNS: usize = 10_000;

/// What can be said of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// Better by so many percent.
    Better {
        /// At least.
        from: f64,
        /// At most.
        to: f64,
    },
    /// Worse by so many percent.
    Worse {
        /// At least.
        from: f64,
        /// At most.
        to: f64,
    },
    /// Any difference is smaller than anyone cares about.
    NoDifference {
        /// It is no larger than this, in percent.
        within: f64,
    },
    /// The runs leave it open.
    CannotTell {
        /// About how many more of each series would settle it; [`MOST_RUNS`]: so many or more.
        more_runs: usize,
        /// The interval leaves no doubt, and the correction for all comparisons made does.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        after_correction: bool,
    },
}

impl Verdict {
    /// The verdict on a gain whose p-value, corrected for all comparisons made, is this. Differences up
    /// to `margin` percent are of no interest.
    pub fn of(gain: &Gain, corrected_p: f64, level: f64, margin: f64) -> Self {
        let [low, high] = gain.interval;
        let significant = corrected_p <= 1.0 - level;
        let largest = low.abs().max(high.abs());
        if significant && low > 0.0 {
            return Self::Better {
                from: low,
                to: high,
            };
        }
        if significant && high < 0.0 {
            return Self::Worse {
                from: -high,
                to: -low,
            };
        }
        if largest <= margin {
            return Self::NoDifference { within: largest };
        }
        // An interval is as wide as one over the square root of the runs, and the quantile of a p-value grows with it.
        let runs = gain.runs[0].min(gain.runs[1]) as f64;
        let after_correction = low > 0.0 || high < 0.0;
        let narrower = if after_correction {
            quantile_of(gain.p_value * (1.0 - level) / corrected_p) / quantile_of(gain.p_value)
        } else {
            let aim = margin.max(gain.percent.abs() / 2.0).max(1e-3);
            (high - low) / 2.0 / aim
        };
        let more = (runs * narrower.powi(2)).ceil() - runs;
        Self::CannotTell {
            more_runs: more.clamp(1.0, MOST_RUNS as f64) as usize,
            after_correction,
        }
    }
}

/// How many standard errors from 0 a normal value is that is as rare as that, either way.
fn quantile_of(p_value: f64) -> f64 {
    -Normal::standard().inverse_cdf(p_value / 2.0)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Better { from, to } => write!(f, "better by {from:.1} to {to:.1} %"),
            Self::Worse { from, to } => write!(f, "worse by {from:.1} to {to:.1} %"),
            Self::NoDifference { within } => write!(f, "no difference larger than {within:.1} %"),
            Self::CannotTell {
                more_runs,
                after_correction,
            } => {
                let s = if *more_runs == 1 { "" } else { "s" };
                let among = if *after_correction {
                    " among so many comparisons"
                } else {
                    ""
                };
                let about = if *more_runs < MOST_RUNS {
                    "about"
                } else {
                    "at least"
                };
                write!(
                    f,
                    "cannot tell{among}: {about} {more_runs} more run{s} needed"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(interval: [f64; 2], corrected_p: f64) -> Verdict {
        let gain = Gain {
            means: [1.0, 1.0],
            percent: f64::midpoint(interval[0], interval[1]),
            interval,
            p_value: corrected_p.min(0.01),
            effect: 0.0,
            runs: [5, 5],
        };
        Verdict::of(&gain, corrected_p, 0.95, 2.0)
    }

    #[test]
    fn one_sentence_for_each_case() {
        for (interval, p, sentence) in [
            ([3.0, 5.0], 0.001, "better by 3.0 to 5.0 %"),
            ([-5.0, -3.0], 0.001, "worse by 3.0 to 5.0 %"),
            ([-0.5, 1.2], 0.6, "no difference larger than 1.2 %"),
            // Certain, but of no importance to anyone, is still better.
            ([0.1, 0.2], 0.001, "better by 0.1 to 0.2 %"),
            ([-8.0, 8.0], 0.9, "cannot tell: about 75 more runs needed"),
            (
                [-900.0, 901.0],
                0.9,
                "cannot tell: at least 10000 more runs needed",
            ),
            // Twenty comparisons: a p-value of 0.0025 is wanted instead of 0.01.
            (
                [0.5, 9.5],
                0.2,
                "cannot tell among so many comparisons: about 2 more runs needed",
            ),
        ] {
            assert_eq!(of(interval, p).to_string(), sentence);
        }
    }
}
