//! Rankings of policy sets by their scores.

use std::collections::{BTreeMap, BTreeSet};

use crate::figures::Score;
use crate::space::SetChoice;

/// The policy sets of a rung with their scores, the best first.
pub(crate) type Ranking = Vec<(Score, SetChoice)>;

/// Ranks sets by their scores.
pub(crate) fn rank_scores(scores: &BTreeMap<SetChoice, Score>) -> Ranking {
    let ranking = scores.iter().map(|(c, score)| (score.clone(), c.clone()));
    rank_distinct_best_first(ranking.collect())
}

/// Ranks sets: in turn the next best by its figures as they are, and the next best that noise alone may have carried beyond
/// a limit. Where the limit is close, a ranking by one of both would hold no set that keeps it, or none but far ones. Of sets
/// with equal figures only the smallest change stays.
pub(crate) fn rank_distinct_best_first(mut ranking: Ranking) -> Ranking {
    sort_best_first(&mut ranking, |score| score.excess);
    ranking.dedup_by(|later, earlier| later.0 == earlier.0);
    let mut tolerant = ranking.clone();
    sort_best_first(&mut tolerant, |score| score.excess_beyond_noise);
    let mut known = BTreeSet::new();
    let in_turn = ranking
        .into_iter()
        .zip(tolerant)
        .flat_map(|(strict, tolerant)| [strict, tolerant]);
    in_turn
        .filter(|(_, candidate)| known.insert(candidate.clone()))
        .collect()
}

/// Sorts a ranking: the least excess first, then the best objective, and of equal sets the smallest change.
fn sort_best_first(ranking: &mut Ranking, excess: impl Fn(&Score) -> f64) {
    ranking.sort_by(|(a, first), (b, second)| {
        excess(a)
            .total_cmp(&excess(b))
            .then(a.objective.total_cmp(&b.objective))
            .then(
                first
                    .count_changed_dimensions()
                    .cmp(&second.count_changed_dimensions()),
            )
            .then(first.cmp(second))
    });
}
