//! Short runs that say which assumed figures come near to a change of the answer.
//!
//! All sets run with a figure at an end of its range, and as assumed, on the same seed (common random numbers). The difference
//! between both is added to what the deciding runs found, so that the noise of short runs cancels out where a figure changes
//! little. A figure comes near where half of the way to a change is gone.

use wakepath_results::Goal;

use crate::answer::Finalist;
use crate::evaluator::Trial;
use crate::figures::{Question, Score};
use crate::percentile::fewest_requests_for_metric;

/// Fewest requests of each load in a shortened screening run, unless a percentile takes more: with fewer, chance hides what a
/// figure changes.
const FEWEST_REQUESTS: f64 = 200.0;

/// Share of the way to a change of the answer; a figure comes near if less is left.
pub(crate) const NEAR: f64 = 0.5;

/// Share of the objective by which a set looks better than the answer in one run.
pub(crate) const LOOKS_BETTER: f64 = 0.005;

/// Least relative change of an objective or a condition's metric that counts as one.
const MOVED: f64 = 0.0025;

/// Where a set stands in the question.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// The objective; a small one is good.
    objective: f64,
    /// Of each condition on each load, how far its metric is beyond the limit, as a share of the limit; negative: within.
    beyond: Vec<f64>,
}

impl Standing {
    /// By the deciding runs.
    pub(crate) fn from_finalist(finalist: &Finalist, goal: Goal) -> Self {
        let kept = finalist.conditions.iter();
        Self {
            objective: finalist.objective * goal.sign_to_minimise(),
            beyond: kept.map(|kept| -kept.margin_percent / 100.0).collect(),
        }
    }

    /// By runs of a trial.
    pub(crate) fn from_score(score: &Score) -> Self {
        Self {
            objective: score.objective,
            beyond: score.distances.clone(),
        }
    }

    /// How far another set is from replacing this one: by its objective, or by the condition that it breaks most.
    fn distance_to(&self, other: &Self) -> f64 {
        let beyond = other.beyond.iter().copied().fold(0.0, f64::max);
        (other.objective / self.objective - 1.0).abs().max(beyond)
    }

    /// Where the set stands once short runs have moved from `before` to `after`. `None`: they are about other conditions.
    fn moved_by(&self, before: &Self, after: &Self) -> Option<Self> {
        let sizes = [&self.beyond, &before.beyond, &after.beyond].map(Vec::len);
        if sizes != [sizes[0]; 3] {
            return None;
        }
        let pairs = self
            .beyond
            .iter()
            .zip(before.beyond.iter().zip(&after.beyond));
        let objective = if before.objective == 0.0 {
            self.objective + after.objective
        } else {
            self.objective * after.objective / before.objective
        };
        Some(Self {
            objective,
            beyond: pairs
                .map(|(own, (before, after))| own + after - before)
                .collect(),
        })
    }
}

/// Whether shortened runs of each load have as many requests as the question's percentiles take.
pub(crate) fn has_enough_requests(
    trials: &[Option<Trial>],
    shortened: u32,
    question: &Question<'_>,
) -> bool {
    let conditions = question.conditions.iter();
    let named = conditions.map(|condition| condition.condition.metric.as_str());
    let metrics = named.chain([&*question.objective.metric.name]);
    let fewest = metrics
        .filter_map(fewest_requests_for_metric)
        .map(|requests| requests as f64)
        .fold(FEWEST_REQUESTS, f64::max);
    let mut loads = trials.iter().flatten().flat_map(|trial| &trial.loads);
    loads.all(|load| {
        let requests = load.mean_requests_of_run().unwrap_or(0.0);
        requests / f64::from(shortened) >= fewest
    })
}

/// The sets as the deciding runs and as short runs found them, with all figures as assumed.
pub(crate) struct Screening {
    /// By the deciding runs, in the order of the contenders.
    pub(crate) decided: Vec<Standing>,
    /// Short runs with all figures as assumed; `None` for a refused set.
    pub(crate) trials: Vec<Option<Trial>>,
    /// By these runs.
    pub(crate) short: Vec<Option<Standing>>,
    /// Index of the answer.
    pub(crate) answer: usize,
}

/// What short runs with a varied figure say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScreenedEnd {
    /// Share of the way to a change of the answer that is left; 1: nothing came nearer.
    pub(crate) way_left: f64,
    /// The answer's objective over that of the present settings, less 1.
    pub(crate) change: f64,
}

impl Screening {
    /// The present settings, the answer, and the set that takes least to replace the answer, by number.
    pub(crate) fn nearest_sets(&self) -> Vec<usize> {
        let answer = &self.decided[self.answer];
        let others = (1..self.decided.len()).filter(|set| *set != self.answer);
        let nearest = others.min_by(|one, other| {
            let ways = [one, other].map(|set| answer.distance_to(&self.decided[*set]));
            ways[0].total_cmp(&ways[1])
        });
        let mut sets = vec![0, self.answer];
        sets.extend(nearest);
        sets.dedup();
        sets
    }

    /// What screening runs beside the nearest sets: the others, with the present settings and the answer again, because each set
    /// is judged beside these two.
    pub(crate) fn other_sets_beside_answer(&self) -> Vec<usize> {
        let nearest = self.nearest_sets();
        let mut sets = vec![0, self.answer];
        sets.extend((0..self.decided.len()).filter(|set| !nearest.contains(set)));
        sets.dedup();
        sets
    }

    /// Number of requests in the short runs of some sets, by their numbers.
    pub(crate) fn requests_of_sets(&self, numbers: &[usize]) -> f64 {
        let trials = numbers.iter().filter_map(|set| self.trials[*set].as_ref());
        trials.map(|trial| trial.requests as f64).sum()
    }

    /// Where a set would stand by the deciding runs with the varied figure; `None` where it did not run.
    fn predict(&self, index: usize, varied: &[Option<Standing>]) -> Option<Standing> {
        let before = self.short.get(index)?.as_ref()?;
        let after = varied.get(index)?.as_ref()?;
        self.decided.get(index)?.moved_by(before, after)
    }

    /// Judges short runs with a varied figure. `None` where the answer or the present settings did not run.
    pub(crate) fn judge_varied(&self, varied: &[Option<Standing>]) -> Option<ScreenedEnd> {
        let answer = self.predict(self.answer, varied)?;
        let in_force = self.predict(0, varied)?;
        let decided_answer = &self.decided[self.answer];
        let within = decided_answer.beyond.iter().zip(&answer.beyond);
        let breaking = within.map(|(before, after)| way_left(-before, -after));
        let mut least = breaking.fold(1.0, f64::min);
        for (index, decided) in self.decided.iter().enumerate() {
            let other = self.predict(index, varied).filter(|_| index != self.answer);
            if let Some(other) = other {
                let ways = way_left_for_other([decided_answer, &answer], [decided, &other]);
                least = least.min(ways);
            }
        }
        Some(ScreenedEnd {
            way_left: least,
            change: answer.objective / in_force.objective - 1.0,
        })
    }
}

/// The share of the way that is left until another set replaces the answer. Both sets before and after the variation.
fn way_left_for_other(answer: [&Standing; 2], other: [&Standing; 2]) -> f64 {
    let [gap_before, gap_after] = [0, 1].map(|when| {
        let (own, answer) = (other[when].objective, answer[when].objective);
        (own - answer) / answer.abs().max(f64::MIN_POSITIVE) + LOOKS_BETTER
    });
    let conditions = other[0].beyond.iter().zip(&other[1].beyond);
    let steps = conditions.map(|(before, after)| (*before, *after));
    let mut most: f64 = 0.0;
    let mut has_moved = false;
    for (before, after) in steps.chain([(gap_before, gap_after)]) {
        has_moved |= before - after > MOVED;
        let left = if after <= 0.0 {
            0.0
        } else {
            way_left(before, after)
        };
        most = most.max(left);
    }
    if has_moved { most } else { 1.0 }
}

/// The share of a distance to 0 that is left, where it has become clearly shorter; else 1.
fn way_left(before: f64, after: f64) -> f64 {
    if before - after <= MOVED {
        return 1.0;
    }
    if before <= 0.0 {
        return 0.0;
    }
    (after / before).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(objective: f64, beyond: f64) -> Standing {
        Standing {
            objective,
            beyond: vec![beyond],
        }
    }

    /// The answer is 20 % within its limit; the other set is 10 % worse. Short runs have other levels than the deciding ones.
    fn screening() -> Screening {
        Screening {
            decided: vec![
                standing(120.0, -0.5),
                standing(100.0, -0.2),
                standing(110.0, -0.3),
            ],
            trials: Vec::new(),
            short: vec![
                Some(standing(60.0, -0.4)),
                Some(standing(50.0, -0.1)),
                Some(standing(55.0, -0.2)),
            ],
            answer: 1,
        }
    }

    fn way_left_with(answer: Standing, other: Standing) -> f64 {
        let varied = [Some(standing(60.0, -0.4)), Some(answer), Some(other)];
        screening().judge_varied(&varied).unwrap().way_left
    }

    #[test]
    fn the_nearest_set_takes_least_to_replace_the_answer() {
        assert_eq!(screening().nearest_sets(), [0, 1, 2]);
        let mut far = screening();
        far.decided.push(standing(90.0, 0.4));
        assert_eq!(far.nearest_sets(), [0, 1, 2]);
        far.answer = 0;
        far.decided[3] = standing(121.0, -0.1);
        assert_eq!(far.nearest_sets(), [0, 3]);
    }

    #[test]
    fn what_moves_all_sets_alike_comes_near_nothing() {
        let varied = [(120.0, -0.4), (100.0, -0.1), (110.0, -0.2)];
        let twice = varied.map(|(objective, beyond)| Some(standing(objective, beyond)));
        let judged = screening().judge_varied(&twice).unwrap();
        assert!((judged.way_left - 1.0).abs() < 1e-9, "{judged:?}");
    }

    #[test]
    fn a_gap_that_closes_comes_near() {
        // The gap and what has to be beyond it: 10.5 %, of which 2.5 % are left.
        let closing = way_left_with(standing(50.0, -0.1), standing(51.0, -0.2));
        assert!((closing - 0.025 / 0.105).abs() < 1e-9, "{closing}");
        let passed = way_left_with(standing(50.0, -0.1), standing(49.0, -0.2));
        assert!(passed < 1e-9, "{passed}");
        // It gets better, and breaks its condition.
        let broken = way_left_with(standing(50.0, -0.1), standing(49.0, 0.3));
        assert!((broken - 1.0).abs() < 1e-9, "{broken}");
    }

    #[test]
    fn an_answer_that_nearly_breaks_its_condition_comes_near() {
        let near = way_left_with(standing(50.0, 0.05), standing(55.0, -0.2));
        assert!((near - 0.25).abs() < 1e-9, "{near}");
        let varied = [Some(standing(60.0, -0.4)), None, None];
        assert!(screening().judge_varied(&varied).is_none());
    }
}
