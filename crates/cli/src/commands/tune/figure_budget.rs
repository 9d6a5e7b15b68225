//! The share of the budget for varying the machine's assumed figures.

/// Requests for the variation of assumed figures, as a share of the search's budget.
pub(super) const SENSITIVITY_SHARE: f64 = 0.5;

/// The budget whose share for the variation of assumed figures is so many requests, rounded up to two digits.
pub(super) fn find_budget_with_share_for_figures(requests: u64) -> u64 {
    let budget = (requests as f64 / SENSITIVITY_SHARE).ceil() as u64;
    let step = 10_u64.pow(budget.max(1).ilog10().saturating_sub(1));
    budget.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_has_two_digits_and_enough_for_the_figures() {
        let budgets = [1, 7, 6_150, 6_200, 8_250_001].map(find_budget_with_share_for_figures);
        assert_eq!(budgets, [2, 14, 13_000, 13_000, 17_000_000]);
    }
}
