//! The same closed loops of events in wakepath's engine core, NeXosim and SimPy.
//!
//! The loops are those of [`wakepath_sim::pattern`]; one event is the end of one stage. That all three end at the
//! same nanosecond after the same number of events shows that they did the same.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use wakepath_sim::pattern::{self, Looped};

use crate::{Effort, median, nexosim_loop, report, timed};

/// A loop in all three.
struct Loop {
    name: &'static str,
    ours: fn(usize, u64) -> Looped,
    nexosim: fn(usize, u64) -> anyhow::Result<Looped>,
    tokens: usize,
    /// Rounds for the compiled simulators, and for SimPy.
    rounds: [u64; 2],
}

const fn queueing(tokens: usize) -> Loop {
    Loop {
        name: "queueing",
        ours: pattern::queueing,
        nexosim: nexosim_loop::queueing,
        tokens,
        rounds: [1_600_000, 20_000],
    }
}

/// Every token makes its own rounds.
const fn delays_only(tokens: usize, rounds: [u64; 2]) -> Loop {
    Loop {
        name: "delays",
        ours: pattern::delays_only,
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

/// Prints who handles how many events per second.
pub fn run(effort: Effort) -> anyhow::Result<()> {
    for of in &LOOPS {
        let [rounds, simpy_rounds] = of.rounds.map(|rounds| rounds / effort.divisor);
        let (mut ours, mut ratios, mut simpy_ratios) = (Vec::new(), Vec::new(), Vec::new());
        let per_second = |looped: Looped, seconds: f64| looped.events as f64 / seconds;
        for _ in 0..effort.rounds {
            let (time, looped) = timed(|| (of.ours)(of.tokens, rounds));
            let (other, same) = timed(|| (of.nexosim)(of.tokens, rounds));
            anyhow::ensure!(looped == same?, "NeXosim did something else");
            let rate = per_second(looped, time.as_secs_f64());
            ratios.push(rate / per_second(looped, other.as_secs_f64()));
            ours.push(rate);
            if effort.peers
                && let Some((seconds, same)) = simpy(of, simpy_rounds)?
            {
                let wanted = (of.ours)(of.tokens, simpy_rounds);
                anyhow::ensure!(
                    wanted == same,
                    "SimPy did something else: {same:?}, not {wanted:?}"
                );
                simpy_ratios.push(rate / per_second(same, seconds));
            }
        }
        let title = format!(
            "closed loop, {}, {} request(s): events per second",
            of.name, of.tokens
        );
        println!("{title:<62} {:>8.1} M", median(ours) / 1e6);
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

/// CPU seconds that SimPy takes, and what it did; nothing if it is not installed.
fn simpy(of: &Loop, rounds: u64) -> anyhow::Result<Option<(f64, Looped)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("../.cache/python/bin/python");
    if !python.exists() {
        return Ok(None);
    }
    let output = Command::new(python)
        .arg(root.join("simpy_loop.py"))
        .args([
            of.name.to_owned(),
            of.tokens.to_string(),
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
