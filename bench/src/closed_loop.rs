//! The same closed event loops in wakepath's engine core, NeXosim and SimPy.
//!
//! [`wakepath_sim::pattern`] has the loops. An event ends a stage. All simulators must end at the same nanosecond after as
//! many events.

use std::path::Path;
use std::process::Command;

use wakepath_sim::pattern::{self, LoopOutcome};

use crate::{Effort, median, nexosim_loop, print_figure, print_judged, timed};

/// A loop for all three simulators.
struct Loop {
    name: &'static str,
    wakepath: fn(usize, u64) -> LoopOutcome,
    nexosim: fn(usize, u64) -> anyhow::Result<LoopOutcome>,
    tokens: usize,
    /// Rounds for the compiled simulators, and for SimPy.
    rounds: [u64; 2],
}

const fn queueing(tokens: usize) -> Loop {
    Loop {
        name: "queueing",
        wakepath: pattern::run_loop_with_queues,
        nexosim: nexosim_loop::run_loop_with_queues,
        tokens,
        rounds: [1_600_000, 20_000],
    }
}

/// Each token makes its rounds without waiting for others.
const fn delays_only(tokens: usize, rounds: [u64; 2]) -> Loop {
    Loop {
        name: "delays",
        wakepath: pattern::run_loop_without_queues,
        nexosim: nexosim_loop::run_loop_without_queues,
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

fn event_rate(looped: LoopOutcome, seconds: f64) -> f64 {
    looped.events as f64 / seconds
}

/// Figures from a loop: wakepath's events per second, and how many times those of other simulators.
#[derive(Default)]
struct Speeds {
    rates: Vec<f64>,
    nexosim_ratios: Vec<f64>,
    simpy_ratios: Vec<f64>,
}

impl Speeds {
    /// Runs a loop once in each simulator.
    fn add_round(&mut self, closed: &Loop, effort: Effort) -> anyhow::Result<()> {
        let [rounds, simpy_rounds] = closed.rounds.map(|rounds| rounds / effort.divisor);
        let (time, looped) = timed(|| (closed.wakepath)(closed.tokens, rounds));
        let (nexosim_time, nexosim) = timed(|| (closed.nexosim)(closed.tokens, rounds));
        anyhow::ensure!(looped == nexosim?, "NeXosim did something else");
        let rate = event_rate(looped, time.as_secs_f64());
        let nexosim_rate = event_rate(looped, nexosim_time.as_secs_f64());
        self.nexosim_ratios.push(rate / nexosim_rate);
        self.rates.push(rate);
        if effort.peers
            && let Some((seconds, simpy)) = run_simpy(closed, simpy_rounds)?
        {
            let expected = (closed.wakepath)(closed.tokens, simpy_rounds);
            anyhow::ensure!(
                simpy == expected,
                "SimPy did something else: {simpy:?}, not {expected:?}"
            );
            self.simpy_ratios.push(rate / event_rate(simpy, seconds));
        }
        Ok(())
    }

    fn print(self, closed: &Loop, effort: Effort) {
        let title = format!(
            "closed loop, {}, {} request(s): events per second",
            closed.name, closed.tokens
        );
        print_figure(&title, &format!("{:.1} M", median(self.rates) / 1e6));
        let ratio = median(self.nexosim_ratios);
        let text = format!("{ratio:.1} x");
        print_judged("    times NeXosim's", &text, "at least 3 x", ratio >= 3.0);
        if !effort.peers {
            return;
        }
        if self.simpy_ratios.is_empty() {
            println!("    SimPy is not installed; scripts/setup-python.sh does it");
            return;
        }
        let ratio = median(self.simpy_ratios);
        let text = format!("{ratio:.0} x");
        print_judged("    times SimPy's", &text, "at least 100 x", ratio >= 100.0);
    }
}

/// Prints each simulator's events per second.
pub fn measure_event_rates(effort: Effort) -> anyhow::Result<()> {
    for closed in &LOOPS {
        let mut speeds = Speeds::default();
        for _ in 0..effort.rounds {
            speeds.add_round(closed, effort)?;
        }
        speeds.print(closed, effort);
    }
    Ok(())
}

/// Runs a loop in SimPy: CPU seconds and result; `None` where SimPy is not installed.
fn run_simpy(closed: &Loop, rounds: u64) -> anyhow::Result<Option<(f64, LoopOutcome)>> {
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
    let words: Vec<&str> = text.split_whitespace().collect();
    let [seconds, events, end_ns] = words[..] else {
        anyhow::bail!("simpy_loop.py printed {} words, not 3", words.len());
    };
    let looped = LoopOutcome {
        events: events.parse()?,
        end_ns: end_ns.parse()?,
    };
    Ok(Some((seconds.parse()?, looped)))
}
