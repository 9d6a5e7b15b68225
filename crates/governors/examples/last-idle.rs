//! An idle governor for an example: a CPU will be idle for as long as it was the last time.
//!
//! It takes the deepest state that pays off within that time, or within the time to the next timer if that is shorter,
//! and that can be left soon enough. `last-idle.c` beside it does the same in the kernel's C.
//!
//! Build it with `rustc -O crates/governors/examples/last-idle.rs`, and run it as `--policy exec:./last-idle`.

use std::error::Error;
use std::io::{self, BufRead, Write};

/// An idle state.
struct State {
    exit_latency_ns: i64,
    target_residency_ns: i64,
    disabled: bool,
}

/// What is known of the CPU.
#[derive(Default)]
struct Cpu {
    tick_ns: i64,
    states: Vec<State>,
    last_idle_ns: i64,
}

impl Cpu {
    /// The index of a state, and whether the tick may stop.
    fn select(&self, sleep_length_ns: i64, latency_request_ns: i64) -> (usize, bool) {
        let expected = self.last_idle_ns.min(sleep_length_ns);
        let on = || (0..).zip(&self.states).filter(|(_, state)| !state.disabled);
        let fits = |state: &State| {
            state.target_residency_ns <= expected && state.exit_latency_ns <= latency_request_ns
        };
        let deepest = on().filter(|(_, state)| fits(state)).last();
        let chosen = deepest.or(on().next()).map_or(0, |(index, _)| index);
        (chosen, expected >= self.tick_ns)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut cpu = Cpu::default();
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let fields: Vec<&str> = line.split(',').collect();
        match fields[..] {
            ["tick", period] => {
                cpu.tick_ns = period.parse()?;
                cpu.last_idle_ns = cpu.tick_ns;
            }
            ["state", _name, exit, residency, _polling, disabled] => cpu.states.push(State {
                exit_latency_ns: exit.parse()?,
                target_residency_ns: residency.parse()?,
                disabled: disabled == "1",
            }),
            [
                "select",
                sleep_length,
                _delta_tick,
                _tick_stopped,
                latency_request,
                _nr_iowait,
                _clock,
            ] => {
                let (state, stop_tick) =
                    cpu.select(sleep_length.parse()?, latency_request.parse()?);
                // Each answer at once: wakepath waits for it.
                writeln!(out, "{state},{}", u8::from(stop_tick))?;
                out.flush()?;
            }
            [
                "reflect",
                _entered,
                _clock,
                residency,
                _got_tick,
                _poll_limit_hit,
            ] => {
                // 0: the CPU did not enter the state.
                let residency: i64 = residency.parse()?;
                if residency > 0 {
                    cpu.last_idle_ns = residency;
                }
            }
            ["disable", index, off] => {
                if let Some(state) = cpu.states.get_mut(index.parse::<usize>()?) {
                    state.disabled = off == "1";
                }
            }
            // Such as `utilisation`, which it does not need.
            _ => {}
        }
    }
    Ok(())
}
