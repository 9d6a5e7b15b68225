//! The canary's figures over simulated roll-outs: false alarms, missed harm, and the power of `canary plan`.
//!
//! Usage: `canary_figures [ROLL_OUTS]`, 10,000 unless given. Roll-outs are those of the crate's tests: 14 days with day curves,
//! autocorrelation 0.9, unlike machines and gaps. Those of `p99_us` take most of the time. Exit code 1: a figure misses its goal.

#![allow(
    clippy::unwrap_used,
    reason = "as in the tests, whose simulated roll-outs are used"
)]

#[path = "../tests/all/error_rates.rs"]
mod error_rates;
#[path = "../tests/all/simulated_fleet.rs"]
mod simulated_fleet;

use std::process::ExitCode;

use error_rates::{CONFIRMED_POWER, count_verdicts, plan_and_simulate};
use simulated_fleet::Reported;

/// Number of simulated roll-outs unless given.
const ROLL_OUTS: u64 = 10_000;

/// Largest share of wrong verdicts.
const WRONG: f64 = 0.05;

fn main() -> ExitCode {
    let parsed = match std::env::args().nth(1) {
        Some(text) => text.parse().ok().filter(|number| *number >= 100),
        None => Some(ROLL_OUTS),
    };
    let Some(roll_outs) = parsed else {
        eprintln!("usage: canary_figures [ROLL_OUTS], at least 100");
        return ExitCode::from(2);
    };
    let [missed, _, _] = count_verdicts(roll_outs, 0.1, 0.1, Reported::Power);
    let mut all_met = true;
    for (what, wrong) in [
        (
            "canary judge mean_mw, no harm: taken back",
            count_verdicts(roll_outs, 0.0, 0.05, Reported::Power)[2],
        ),
        (
            "canary judge p99_us, no harm: taken back",
            count_verdicts(roll_outs, 0.0, 0.05, Reported::Latencies)[2],
        ),
        ("canary judge mean_mw, harm at the limit: gone on", missed),
    ] {
        let share = wrong as f64 / roll_outs as f64;
        let goal = format!("at most {:.0} % of {roll_outs}", 100.0 * WRONG);
        all_met &= print_share(what, share, &goal, share <= WRONG);
    }
    let (trials, confirmations) = (u32::try_from(roll_outs).unwrap_or(u32::MAX), roll_outs / 3);
    let plans = plan_and_simulate(trials, confirmations);
    for plan in &plans {
        let what = format!(
            "canary plan, 80 % power, {} days, {} of {}: planned {:.1} %",
            plan.days,
            plan.changed,
            plan.machines,
            100.0 * plan.planned
        );
        let goal = format!("planned \u{b1} 5, of {confirmations}");
        let is_met = CONFIRMED_POWER.contains(&plan.found)
            && plan.is_confirmed(trials, confirmations)
            && plan.false_alarms <= WRONG;
        all_met &= print_share(&what, plan.found, &goal, is_met);
    }
    ExitCode::from(u8::from(!all_met || plans.is_empty()))
}

/// Prints a share with its goal. Returns whether the goal is met.
fn print_share(what: &str, share: f64, goal: &str, is_met: bool) -> bool {
    let met = if is_met { "met" } else { "NOT MET" };
    println!("{what:<62} {:>6.1} %   {goal:<22} {met}", 100.0 * share);
    is_met
}
