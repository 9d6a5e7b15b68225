//! When a roll-out is analysed, and how the error rate is shared between the analyses.

/// Hours of a day.
const DAY_HOURS: u32 = 24;

/// Hours after the change at which gross harm is looked for, before a day has passed.
const EARLY_HOURS: [u32; 4] = [1, 2, 4, 8];

/// Days after the change with an analysis, as far as the roll-out lasts.
const DAYS: [u32; 6] = [1, 2, 4, 7, 14, 28];

/// Share of the error rate for the analyses within the first day.
const EARLY_SHARE: f64 = 0.1;

/// Share of the remaining error rate for the last analysis, with most data.
const LAST_SHARE: f64 = 0.5;

/// An analysis of a roll-out at a planned time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InterimAnalysis {
    /// Hours since the change.
    pub hours: u32,
    /// Error rate for harm that is none.
    pub harm_alpha: f64,
    /// Error rate for missed harm beyond the tolerated; 0 within the first day, whose hours are too few to go on.
    pub safety_alpha: f64,
}

/// The planned analyses of a roll-out of some days, 1 at least. The error rates of all analyses add up to `alpha`, so the
/// rate holds for any dependence between the analyses, however often somebody looks in between.
pub fn plan_analyses(days: u32, alpha: f64) -> Vec<InterimAnalysis> {
    let last_day = days.max(1);
    let later: Vec<u32> = DAYS
        .into_iter()
        .filter(|day| *day < last_day)
        .chain([last_day])
        .collect();
    let early_alpha = alpha * EARLY_SHARE / EARLY_HOURS.len() as f64;
    let early = EARLY_HOURS.into_iter().map(|hours| InterimAnalysis {
        hours,
        harm_alpha: early_alpha,
        safety_alpha: 0.0,
    });
    let later_shares = share_between_days(later.len());
    let daily = later
        .iter()
        .zip(later_shares)
        .map(|(day, share)| InterimAnalysis {
            hours: day * DAY_HOURS,
            harm_alpha: alpha * (1.0 - EARLY_SHARE) * share,
            safety_alpha: alpha * share,
        });
    early.chain(daily).collect()
}

/// Shares of the error rate for so many analyses: the last one has [`LAST_SHARE`], the others are equal.
fn share_between_days(analyses: usize) -> Vec<f64> {
    if analyses < 2 {
        return vec![1.0; analyses];
    }
    let equal = (1.0 - LAST_SHARE) / (analyses - 1) as f64;
    let mut shares = vec![equal; analyses - 1];
    shares.push(LAST_SHARE);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_rates_add_up() {
        for days in [0, 1, 2, 3, 14, 30] {
            let analyses = plan_analyses(days, 0.05);
            let harm: f64 = analyses.iter().map(|analysis| analysis.harm_alpha).sum();
            let safety: f64 = analyses.iter().map(|analysis| analysis.safety_alpha).sum();
            assert!((harm - 0.05).abs() < 1e-12, "{days}: {harm}");
            assert!((safety - 0.05).abs() < 1e-12, "{days}: {safety}");
            assert!(
                analyses
                    .windows(2)
                    .all(|pair| pair[0].hours < pair[1].hours)
            );
        }
    }

    #[test]
    fn a_roll_out_of_two_weeks_ends_after_two_weeks() {
        let hours: Vec<u32> = plan_analyses(14, 0.05).iter().map(|a| a.hours).collect();
        assert_eq!(hours, [1, 2, 4, 8, 24, 48, 96, 168, 336]);
    }
}
