//! The same closed loops of events in wakepath's engine core, NeXosim and SimPy.
//!
//! [`wakepath_sim::pattern`] has the loops. An event is the end of a stage. All three simulators must end at the same
//! nanosecond after the same number of events.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use wakepath_sim::pattern::{self, Looped};

use crate::{Effort, median, nexosim_loop, report, timed};

/// A loop for all three simulators.
struct Loop {
    name: &'static str,
    wakepath: fn(usize, u64) -> Looped,
    nexosim: fn(usize, u64) -> anyhow::Result<Looped>,
    tokens: usize,
    /// Rounds for the compiled simulators, and for SimPy.
    rounds: [u64; 2],
}

const fn queueing(tokens: usize) -> Loop {
    Loop {
        name: "queueing",
        wakepath: pattern::queueing,
        nexosim: nexosim_loop::queueing,
        tokens,
        rounds: [1_600_000, 20_000],
    }
}

/// Each token makes its rounds without waiting for others.
const fn delays_only(tokens: usize, rounds: [u64; 2]) -> Loop {
    Loop {
        name: "delays",
        wakepath: pattern::delays_only,
        nexosim: nexosim_loop::delays_only,
        tokens,
        rounds,
    }
}

const LOOPS: [Loop; 4] = [
    queueing(1),
    queueing(32),
    delays_only(4, [400_000, 8_000]),
    delays_only(32, [50_000, 1_000]),
];

fn event_rate(looped: Looped, seconds: f64) -> f64 {
    looped.events as f64 / seconds
}

/// Prints the events per second of each simulator.
pub fn run(effort: Effort) -> anyhow::Result<()> {
    for closed in &LOOPS {
        let [rounds, simpy_rounds] = closed.rounds.map(|rounds| rounds / effort.divisor);
        let (mut rates, mut ratios, mut simpy_ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..effort.rounds {
            let (time, looped) = timed(|| (closed.wakepath)(closed.tokens, rounds));
            let (nexosim_time, nexosim) = timed(|| (closed.nexosim)(closed.tokens, rounds));
            anyhow::ensure!(looped == nexosim?, "NeXosim did something else");
            let rate = event_rate(looped, time.as_secs_f64());
            ratios.push(rate / event_rate(looped, nexosim_time.as_secs_f64()));
            rates.push(rate);
            if effort.peers
                && let Some((seconds, simpy)) = run_simpy(closed, simpy_rounds)?
            {
                let expected = (closed.wakepath)(closed.tokens, simpy_rounds);
                anyhow::ensure!(
                    simpy == expected,
                    "SimPy did something else: {simpy:?}, not {expected:?}"
                );
                simpy_ratios.push(rate / event_rate(simpy, seconds));
            }
        }
        let title = format!(
            "closed loop, {}, {} request(s): events per second",
            closed.name, closed.tokens
        );
        println!("{title:<62} {:>8.1} M", median(rates) / 1e6);
        let ratio = median(ratios);
        report(
            "    times NeXosim's",
            &format!("{ratio:.1} x"),
            "at least 3 x",
            ratio >= 3.0,
        );
        if !effort.peers {
            continue;
        }
        if simpy_ratios.is_empty() {
            println!("    SimPy is not installed; scripts/setup-python.sh does it");
            continue;
        }
        let ratio = median(simpy_ratios);
        let text = format!("{ratio:.0} x");
        report("    times SimPy's", &text, "at least 100 x", ratio >= 100.0);
    }
    Ok(())
}

/// Runs a loop in SimPy: its CPU seconds and result; `None` if SimPy is not installed.
fn run_simpy(closed: &Loop, rounds: u64) -> anyhow::Result<Option<(f64, Looped)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("../.cache/python/bin/python");
    if !python.exists() {
        return Ok(None);
    }
    let output = Command::new(python)
        .arg(root.join("simpy_loop.py"))
        .args([
            closed.name.to_owned(),
            closed.tokens.to_string(),
            rounds.to_string(),
        ])
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout)?;
    let mut words = text.split_whitespace();
    let mut next = || words.next().context("too few words from simpy_loop.py");
    let seconds = next()?.parse()?;
    let looped = Looped {
        events: next()?.parse()?,
        end_ns: next()?.parse()?,
    };
    Ok(Some((seconds, looped)))
}
