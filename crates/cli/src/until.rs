//! Waiting for a time to pass or for a signal that ends the program.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wakepath_units::Nanoseconds;
use wakepath_units::quantity::{self, TIMES};

/// From now on Ctrl-C, SIGTERM and a closed terminal do nothing by themselves. A program that is told to ignore a
/// closed terminal, as nohup does, goes on ignoring it. A shell lets background programs of a script ignore Ctrl-C
/// only because of the keyboard. So a SIGINT that is sent to them counts.
fn catch_end_signals_except_ignored_hangup() -> anyhow::Result<Signals> {
    let hang_up_ignored = ignored_signal_mask() >> (SIGHUP - 1) & 1 != 0;
    let caught = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|signal| *signal != SIGHUP || !hang_up_ignored);
    Signals::new(caught).context("catching signals")
}

/// Signals ignored by this process: bit 0 is signal 1 (proc(5), `SigIgn`).
fn ignored_signal_mask() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Catches signals that would end the program, from its creation on.
pub(crate) struct EndSignals {
    caught: mpsc::Receiver<i32>,
}

impl EndSignals {
    /// Begins to catch: from now on Ctrl-C, SIGTERM and a closed terminal do not end the program, but the waiting.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let mut signals = catch_end_signals_except_ignored_hangup()?;
        let (send, caught) = mpsc::channel();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                // The receiver is gone only when the program is about to end anyway.
                let _ = send.send(signal);
            }
        });
        Ok(Self { caught })
    }

    /// Waits for `time`, or for ever without a time. Returns the signal that ended the waiting early, if any.
    pub(crate) fn wait_for_signal_up_to(&self, longest: Option<Duration>) -> Option<i32> {
        match longest {
            Some(time) => self.caught.recv_timeout(time).ok(),
            None => self.caught.recv().ok(),
        }
    }
}

/// Calls `handle` for each signal: from now on Ctrl-C, SIGTERM and a closed terminal do nothing else.
pub(crate) fn handle_end_signals_in_thread(
    handle: impl Fn(i32) + Send + 'static,
) -> anyhow::Result<()> {
    let mut signals = catch_end_signals_except_ignored_hangup()?;
    std::thread::spawn(move || signals.forever().for_each(handle));
    Ok(())
}

/// Lets the program end only after `cleaning_up`: from now on Ctrl-C, SIGTERM and a closed terminal call this first,
/// and then end the program as usual.
pub(crate) fn clean_up_before_signal_ends_program(
    cleaning_up: impl FnOnce() + Send + 'static,
) -> anyhow::Result<()> {
    let mut signals = catch_end_signals_except_ignored_hangup()?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            cleaning_up();
            // The default handler ends the program and does not return.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// Parses a duration such as `500ms`, `30s`, `10m`, `2h`; a plain number counts seconds.
pub(crate) fn parse_duration_or_seconds(text: &str) -> anyhow::Result<Duration> {
    match quantity::parse_time_or_number_in(text, "s").map(Nanoseconds::as_duration) {
        Some(time) if time >= Duration::from_millis(1) => Ok(time),
        _ => bail!("expected a time above 0, such as {TIMES}; a plain number counts seconds"),
    }
}

/// Parses simulated time, down to nanoseconds; a plain number counts seconds.
pub(crate) fn parse_simulated_time_or_seconds(text: &str) -> anyhow::Result<Nanoseconds> {
    match quantity::parse_time_or_number_in(text, "s") {
        Some(time) if (1_000..=YEAR_NS).contains(&time.0) => Ok(time),
        _ => bail!(
            "expected a time from 1us to a year, such as {TIMES}; a plain number counts seconds"
        ),
    }
}

/// Parses simulated time for a warm-up, which may be 0; a plain number counts seconds.
pub(crate) fn parse_warm_up_or_zero(text: &str) -> anyhow::Result<Nanoseconds> {
    match text.trim() {
        "0" => Ok(Nanoseconds::ZERO),
        other => parse_simulated_time_or_seconds(other).context("0 counts from the first request"),
    }
}

const YEAR_NS: u64 = 365 * 86_400 * 1_000_000_000;

/// Parses a time in whole microseconds; a plain number counts microseconds.
pub(crate) fn parse_whole_microseconds(text: &str) -> anyhow::Result<u64> {
    parse_time_in_whole_units(text, ("us", "microseconds"), 1_000)
}

/// Parses a time in whole milliseconds; a plain number counts milliseconds.
pub(crate) fn parse_whole_milliseconds(text: &str) -> anyhow::Result<u64> {
    parse_time_in_whole_units(text, ("ms", "milliseconds"), 1_000_000)
}

fn parse_time_in_whole_units(
    text: &str,
    (unit, name): (&str, &str),
    unit_ns: u64,
) -> anyhow::Result<u64> {
    match quantity::parse_time_or_number_in(text, unit) {
        Some(Nanoseconds(ns)) if ns % unit_ns == 0 => Ok(ns / unit_ns),
        _ => {
            bail!("expected a time in whole {name}, such as {TIMES}; a plain number counts {name}")
        }
    }
}

/// A duration for people, in s, min or h.
pub(crate) fn duration_in_words(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_number_counts_seconds_where_people_wait() {
        assert_eq!(
            parse_duration_or_seconds("10").ok(),
            Some(Duration::from_secs(10))
        );
        assert_eq!(
            parse_duration_or_seconds("500ms").ok(),
            Some(Duration::from_millis(500))
        );
        assert_eq!(parse_duration_or_seconds("10 parsecs").ok(), None);
        assert_eq!(parse_duration_or_seconds("0").ok(), None);
        assert_eq!(parse_warm_up_or_zero("0").ok(), Some(Nanoseconds::ZERO));
        assert_eq!(
            parse_warm_up_or_zero("2").ok(),
            Some(Nanoseconds::from_secs(2))
        );
        assert_eq!(
            parse_warm_up_or_zero("500ms").ok(),
            Some(Nanoseconds::from_millis(500))
        );
        assert_eq!(parse_warm_up_or_zero("-1").ok(), None);
    }
}
