//! The decision by the harm to changed machines beyond machines left alone.

use serde::Serialize;

use super::difference::MeanDifference;
use super::schedule::InterimAnalysis;
use super::series::MetricChange;

/// What to do with a roll-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryVerdict {
    /// Harm beyond the tolerated is excluded: change the next machines.
    GoOn,
    /// Neither harm nor harmlessness is shown: change no further machine.
    Stop,
    /// Harm is shown, and harm beyond the tolerated is not excluded.
    TakeBack,
}

/// Harm to the machines of a group: the logarithm of the metric after over before, positive where it got worse.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupHarm {
    likely: Vec<f64>,
    /// The least that each machine's harm may be: buckets of histograms leave it open.
    least: Vec<f64>,
    /// The most that each machine's harm may be.
    most: Vec<f64>,
}

impl GroupHarm {
    /// Number of machines.
    pub(crate) const fn machines(&self) -> usize {
        self.likely.len()
    }

    /// Harm that is known to a number.
    pub(crate) fn from_exact_values(values: Vec<f64>) -> Self {
        Self {
            least: values.clone(),
            most: values.clone(),
            likely: values,
        }
    }

    /// Adds a machine's change; `sign` is the metric's harm sign.
    pub(crate) fn add_machine(&mut self, sign: f64, change: &MetricChange) {
        let [first, second] = change.log_ratio_range.map(|ratio| sign * ratio);
        self.likely.push(sign * change.log_ratio);
        self.least.push(first.min(second));
        self.most.push(first.max(second));
    }
}

/// A decision by the harm to two groups.
pub(crate) struct HarmDecision {
    /// The harm to changed machines beyond machines left alone; `None` with too few machines.
    pub(crate) difference: Option<MeanDifference>,
    /// The least and the most that the harm is, at the analysis' error rates; `None` without a bound.
    pub(crate) bounds: [Option<f64>; 2],
    /// What is decided; `None`: nothing yet.
    pub(crate) verdict: Option<CanaryVerdict>,
}

/// Decides by each machine's harm. Harm is excluded only if it is wherever requests lie in their buckets; that there is harm follows
/// from the likely values, because a quantile's direction does not depend on where they lie.
pub(crate) fn decide_by_harm(
    changed: &GroupHarm,
    left_alone: &GroupHarm,
    tolerated: f64,
    analysis: &InterimAnalysis,
) -> HarmDecision {
    let difference = MeanDifference::between(&changed.likely, &left_alone.likely);
    let least = MeanDifference::between(&changed.least, &left_alone.most)
        .and_then(|harm| harm.lower_bound(analysis.harm_alpha))
        .filter(|bound| bound.is_finite());
    let most = MeanDifference::between(&changed.most, &left_alone.least)
        .and_then(|harm| harm.upper_bound(analysis.safety_alpha))
        .filter(|bound| bound.is_finite());
    let limit = tolerated.ln_1p();
    let is_harm_excluded = most.is_some_and(|high| high < limit);
    // Hours within the first day cannot exclude harm beyond the tolerated, so they have to show it.
    let is_harm_shown = if analysis.safety_alpha > 0.0 {
        difference.is_some_and(|harm| harm.p_value_of_increase() <= analysis.harm_alpha)
    } else {
        least.is_some_and(|low| low > limit)
    };
    let verdict = if is_harm_excluded {
        Some(CanaryVerdict::GoOn)
    } else if is_harm_shown {
        Some(CanaryVerdict::TakeBack)
    } else {
        None
    };
    HarmDecision {
        difference,
        bounds: [least, most],
        verdict,
    }
}
