//! What a survey of a generated fleet finds: classes, planted faults, other machines, and its memory.
//!
//! Usage: `fleet_figures [MACHINES [SEED]]`, 2,000 machines unless given. The fleet is that of the crate's tests: six classes and 20
//! planted faults. Exit code 1: a figure misses its goal.

#![allow(
    clippy::unwrap_used,
    reason = "as in the tests, whose generated fleets are used"
)]

#[path = "../tests/all/generated_fleet.rs"]
mod generated_fleet;
#[path = "../tests/all/planted_faults.rs"]
mod planted_faults;

use std::process::ExitCode;
use std::time::Instant;

use generated_fleet::{KINDS, VARIED_FACTS};
use planted_faults::{LEAST_NAMED, MOST_MEMORY, MOST_OTHERS, survey_generated_fleet};

/// Number of machines unless given.
const MACHINES: u64 = 2000;

/// Fewest machines with each kind and each fault among them.
const FEWEST_MACHINES: u64 = 300;

fn main() -> ExitCode {
    let numbers: Result<Vec<u64>, _> = std::env::args()
        .skip(1)
        .map(|text| text.parse::<u64>())
        .collect();
    let asked = match numbers.as_deref() {
        Ok([]) => Some((MACHINES, 1)),
        Ok([machines]) => Some((*machines, 1)),
        Ok([machines, seed]) => Some((*machines, *seed)),
        _ => None,
    };
    let Some((machines, seed)) = asked.filter(|(machines, _)| *machines >= FEWEST_MACHINES) else {
        eprintln!("usage: fleet_figures [MACHINES [SEED]], at least {FEWEST_MACHINES} machines");
        return ExitCode::from(2);
    };
    let begin = Instant::now();
    let found = survey_generated_fleet(machines as usize, seed);
    println!(
        "fleet of {machines} captures, {} planted faults, made and surveyed in {:.0} s",
        found.planted,
        begin.elapsed().as_secs_f64()
    );
    let classes_goal = format!("{} and no other", KINDS.len());
    let all_met = [
        print_figure(
            "classes with all machines of a kind and no other",
            &found.right_classes.to_string(),
            &classes_goal,
            found.right_classes == KINDS.len() && found.other_classes == 0,
        ),
        print_figure(
            "settings that vary among healthy machines, told",
            &found.divided.len().to_string(),
            &format!("{} and no other", VARIED_FACTS.len()),
            found.divided == VARIED_FACTS,
        ),
        print_figure(
            "planted faults named",
            &found.named.to_string(),
            &format!("at least {LEAST_NAMED}"),
            found.named >= LEAST_NAMED,
        ),
        print_figure(
            "other machines named",
            &found.others.len().to_string(),
            &format!("at most {MOST_OTHERS}"),
            found.others.len() <= MOST_OTHERS,
        ),
        print_figure(
            "peak memory",
            &format!("{} MiB", found.peak_bytes >> 20),
            &format!("at most {} MiB", MOST_MEMORY >> 20),
            found.peak_bytes <= MOST_MEMORY,
        ),
    ]
    .into_iter()
    .all(|is_met| is_met);
    ExitCode::from(u8::from(!all_met))
}

/// Prints a figure with its goal. Returns whether the goal is met.
fn print_figure(what: &str, value: &str, goal: &str, is_met: bool) -> bool {
    let met = if is_met { "met" } else { "NOT MET" };
    println!("    {what:<58} {value:>8}   {goal:<22} {met}");
    is_met
}
