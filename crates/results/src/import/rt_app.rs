//! rt-app's logs, as the laboratory hands them over (docs/background/laboratory.md).
//!
//! rt-app 1.0 writes a file per thread. After two lines that begin with `#`, a line stands for a phase that the
//! thread has gone through once. It has thread, turns of its loop, run, period, start, end, start since the
//! beginning, slack, configured run and period, wake-up latency. All but the first two are in us.

use std::ops::RangeInclusive;

use serde::Deserialize;

use crate::RunRecord;

/// Number of columns in a line of rt-app's log.
const COLUMNS: usize = 11;

/// Most lines accepted in all logs together.
const MOST_ROWS: usize = 10_000_000;

/// Logs of all threads of the first task in an rt-app file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FirstTaskLogs {
    /// Text of the log, one per thread.
    logs: Vec<String>,
    /// Counted time: phases count if they end between these two times, by the log's clock.
    from_us: u64,
    to_us: u64,
    /// Log lines per loop through all phases; `None`: the threads never finish a loop.
    rows_per_loop: Option<u64>,
    /// Whether each log line has at most one wake-up's latency, and the threads wake up for nothing else.
    logs_wake_ups: bool,
}

/// A line of the log: a phase that a thread has gone through. Times are in us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RtAppLogRow {
    start: u64,
    end: u64,
    /// Sum of the phase's configured periods; 0: the phase has no timer.
    period: u64,
    /// Time left before the timer expired; with none left the thread did not sleep.
    slack: i64,
    wake_up: u64,
}

impl RtAppLogRow {
    fn parse_line(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.len() != COLUMNS {
            return None;
        }
        let row = Self {
            start: fields[4].parse().ok()?,
            end: fields[5].parse().ok()?,
            slack: fields[7].parse().ok()?,
            period: fields[9].parse().ok()?,
            wake_up: fields[10].parse().ok()?,
        };
        (row.start <= row.end).then_some(row)
    }

    /// Latency of the phase's wake-up, if the thread slept.
    fn wake_up_latency_if_slept_us(&self) -> Option<u64> {
        (self.period > 0 && self.slack > 0).then_some(self.wake_up)
    }
}

impl FirstTaskLogs {
    /// Fills `run` with the threads' metrics, as a simulation of the same file would.
    ///
    /// # Errors
    /// A text is no rt-app log, or no thread has finished a phase.
    pub(crate) fn fill_run_metrics_from_logs(&self, run: &mut RunRecord) -> Result<(), String> {
        let (from, to) = (self.from_us, self.to_us);
        if to <= from {
            return Err(format!(
                "rt-app ran from {from} to {to} us, which is no time"
            ));
        }
        let counted_us = to - from;
        let threads = self.parse_all_thread_logs()?;
        let counted = from..=to;
        if !threads
            .iter()
            .flatten()
            .any(|row| counted.contains(&row.end))
        {
            return Err("rt-app's threads have finished no phase".to_owned());
        }
        run.duration_ns = counted_us.saturating_mul(1000);
        let loops: u64 = threads
            .iter()
            .map(|rows| self.count_finished_loops(rows, &counted))
            .sum();
        let ops_per_s = loops as f64 / (counted_us as f64 / 1e6);
        run.metrics.push(("ops_per_s".to_owned(), ops_per_s));
        let rows = threads.iter().flatten();
        let mut wake_ups: Vec<u64> = rows
            .filter(|row| counted.contains(&row.end))
            .filter_map(RtAppLogRow::wake_up_latency_if_slept_us)
            .collect();
        wake_ups.sort_unstable();
        if self.logs_wake_ups && !wake_ups.is_empty() {
            let count = wake_ups.len();
            let sum: u64 = wake_ups.iter().sum();
            let p99 = wake_ups[(count * 99).div_ceil(100) - 1];
            run.metrics.extend([
                ("wake_mean_us".to_owned(), sum as f64 / count as f64),
                ("wake_p99_us".to_owned(), p99 as f64),
            ]);
        }
        Ok(())
    }

    /// Number of loops through all phases that a thread finished within the counted time.
    fn count_finished_loops(&self, rows: &[RtAppLogRow], counted: &RangeInclusive<u64>) -> u64 {
        let Some(of_loop) = self.rows_per_loop.and_then(|n| usize::try_from(n).ok()) else {
            return 0;
        };
        let ends = rows
            .chunks_exact(of_loop.max(1))
            .filter_map(<[RtAppLogRow]>::last);
        ends.filter(|row| counted.contains(&row.end)).count() as u64
    }

    fn parse_all_thread_logs(&self) -> Result<Vec<Vec<RtAppLogRow>>, String> {
        let all: usize = self.logs.iter().map(|log| log.lines().count()).sum();
        if all > MOST_ROWS {
            return Err(format!(
                "{all} lines of rt-app's logs, and there may be {MOST_ROWS}"
            ));
        }
        let logs = self.logs.iter().enumerate();
        logs.map(|(thread, log)| parse_thread_log(thread, log))
            .collect()
    }
}

/// Parses one thread's log.
fn parse_thread_log(thread: usize, log: &str) -> Result<Vec<RtAppLogRow>, String> {
    let lines = (1..).zip(log.lines());
    let rows = lines.filter(|(_, line)| !line.starts_with('#'));
    rows.map(|(at, line)| {
        RtAppLogRow::parse_line(line).ok_or_else(|| {
            let start: String = line.chars().take(80).collect();
            format!("thread {thread}, line {at}: `{start}` is no line of an rt-app log ({COLUMNS} numbers)")
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::runs::new_imported_run;
    use super::*;

    /// What rt-app 1.0 of Debian 12 left in the laboratory's guest, the first 42 lines, under
    /// `menu + idle-states[disable=POLL,C1E,C6,C8]`: `rig/lab.py STUDY -o DIR`, then
    /// `head -n 42 DIR/guest-1/runs/000002.rt-app/thread-beat-0.log`. The file was
    /// `{"tasks": {"beat": {"loop": -1, "run": 100, "timer": {"ref": "unique", "period": 3000}}}, "global": {"duration": 1}}`.
    const LOG: &str = include_str!("testdata/rt-app-1.0.log");

    fn metrics(
        logs: &str,
        rows_per_loop: Option<u64>,
        from_us: u64,
        to_us: u64,
    ) -> Result<Vec<(String, f64)>, String> {
        let logs = FirstTaskLogs {
            logs: vec![logs.to_owned()],
            from_us,
            to_us,
            rows_per_loop,
            logs_wake_ups: true,
        };
        let mut run = new_imported_run("", "", 0);
        logs.fill_run_metrics_from_logs(&mut run)
            .map(|()| run.metrics)
    }

    #[test]
    fn a_log_of_rt_app_has_loops_and_wake_ups() {
        // Its 40 lines end every 3 ms from 5339235 us on, and the wake-ups took 57, 51 and 38 times 56 us.
        let named = |values: &[(&str, f64)]| -> Vec<(String, f64)> {
            values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect()
        };
        let all = metrics(LOG, Some(1), 5_336_235, 5_456_235).unwrap();
        assert_eq!(all[0], ("ops_per_s".to_owned(), 40.0 / 0.12));
        assert_eq!(all[2], ("wake_p99_us".to_owned(), 57.0));
        assert_eq!(all[1], ("wake_mean_us".to_owned(), 55.9));
        // Lines 2 to 10; two lines are a loop.
        let some = metrics(LOG, Some(2), 5_340_000, 5_367_000).unwrap();
        let rate = 5.0 / 0.027;
        assert_eq!(
            some,
            named(&[
                ("ops_per_s", rate),
                ("wake_mean_us", 56.0),
                ("wake_p99_us", 56.0)
            ])
        );
        // Phases without end are no loops.
        let none = metrics(LOG, None, 5_340_000, 5_367_000).unwrap();
        assert_eq!(none[0], ("ops_per_s".to_owned(), 0.0));
    }

    #[test]
    fn what_was_missed_is_no_wake_up() {
        let header = "#idx perf run period start end rel_st slack c_duration c_period wu_lat\n";
        let log = format!(
            "{header}0 520 99 100 1000 1100 0 -784 100 3000 0\n0 520 99 100 1100 4200 0 2900 100 3000 64\n"
        );
        let found = metrics(&log, Some(1), 0, 10_000).unwrap();
        assert_eq!(found[1], ("wake_mean_us".to_owned(), 64.0));
    }

    #[test]
    fn what_is_no_log_is_one_error() {
        let short = "0 1 2 3\n";
        let backwards = "0 520 99 100 2000 1000 0 1 100 3000 0\n";
        let huge = "0 520 99 100 1 99999999999999999999999 0 1 100 3000 0\n";
        for log in [
            short,
            backwards,
            huge,
            "fio-3.33\n",
            "\n",
            "0 520 99 100 1 -2 0 1 100 3000 0\n",
        ] {
            let error = metrics(log, Some(1), 0, 10_000).unwrap_err();
            assert!(
                error.contains("thread 0, line 1") && error.contains("no line of an rt-app log"),
                "{error}"
            );
        }
        for (log, from, to, message) in [
            ("", 0, 10, "finished no phase"),
            (LOG, 0, 10, "finished no phase"),
            (LOG, 10, 10, "no time"),
        ] {
            let error = metrics(log, Some(1), from, to).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
