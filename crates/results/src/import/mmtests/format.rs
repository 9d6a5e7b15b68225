//! Benchmarks' output, and the numbers that MMTests compares.
//!
//! Names of logs and columns come from MMTests' scripts that run a benchmark (`shellpack_src/src/BENCHMARK`), from its
//! modules that read the output (`bin/lib/MMTests/Extract*.pm`, `parse-results`), and from the benchmarks' documentation.

use crate::import::runs::non_finite_message;
use crate::import::terse;
use crate::{Better, Metric};

/// A benchmark of MMTests whose logs can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// tbench and dbench: throughput of every second, and the time for the load file.
    Dbench,
    /// hackbench, since 2014 `perf bench sched messaging`: the time of each run.
    Hackbench,
    /// sqlite: inserts, with transactions per second for about every second.
    Sqlite,
    /// pgbench's log with `--aggregate-interval=1`.
    Pgbench,
    /// schbench: latency percentiles.
    Schbench,
    /// netperf's table.
    Netperf,
    /// fio's terse output.
    Fio,
}

/// A sample in a benchmark's log, which a comparison treats as a run.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSample {
    /// The part of the workload that the sample is about, if there are several.
    pub part: Option<String>,
    /// Metrics with values.
    pub values: Vec<(String, f64)>,
}

/// pgbench's intervals in a batch, which MMTests takes together.
const PGBENCH_BATCH: usize = 4;

/// pgbench's intervals before the first batch, as warm-up.
const PGBENCH_WARM_UP: usize = 8;

/// A time above this means that dbench's counter of milliseconds has wrapped around.
const WRAPPED_MS: f64 = 2_147_483_648.0;

/// Metrics missing in the dictionary: name, title, unit, meaning; whether more is better; whether tables begin with it.
const OWN_METRICS: [([&str; 4], Better, bool); 8] = [
    (
        [
            "loadfile_ms",
            "load file time",
            "ms",
            "time in which a client of dbench got through its load file",
        ],
        Better::Lower,
        true,
    ),
    (
        ["time_s", "time", "s", "total time of a run of hackbench"],
        Better::Lower,
        true,
    ),
    (
        [
            "transactions_per_s",
            "transactions",
            "1/s",
            "transactions per second",
        ],
        Better::Higher,
        true,
    ),
    (
        [
            "throughput_mbit",
            "network throughput",
            "Mbit/s",
            "what netperf received per second, of UDP what it sent",
        ],
        Better::Higher,
        true,
    ),
    (
        [
            "requests_per_s",
            "requests",
            "1/s",
            "requests per second of schbench",
        ],
        Better::Higher,
        true,
    ),
    (
        [
            "wake_p50_us",
            "median wake-up latency",
            "us",
            "half of the wake-ups took at most this long",
        ],
        Better::Lower,
        false,
    ),
    (
        [
            "wake_p90_us",
            "p90 wake-up latency",
            "us",
            "90 % of the wake-ups took at most this long",
        ],
        Better::Lower,
        false,
    ),
    (
        [
            "wake_p999_us",
            "p99.9 wake-up latency",
            "us",
            "99.9 % of the wake-ups took at most this long",
        ],
        Better::Lower,
        false,
    ),
];

/// Metrics of MMTests that the dictionary lacks, or ranks lower.
pub(super) fn metrics_beyond_dictionary() -> Vec<Metric> {
    let bandwidth = Metric::find("bandwidth_mbs").cloned().map(|metric| Metric {
        headline: true,
        ..metric
    });
    let own = OWN_METRICS.map(|([name, title, unit, meaning], better, headline)| Metric {
        name: name.into(),
        title: title.into(),
        meaning: meaning.into(),
        unit: unit.into(),
        better,
        mean: better.mean_kind(),
        headline,
    });
    own.into_iter().chain(bandwidth).collect()
}

impl Benchmark {
    /// Finds the benchmark behind a log and the workload's name, by the names of the log (without a compression's ending)
    /// and the benchmark's folder. `None` for unknown logs.
    pub fn with_workload_from_log_name(folder: &str, log: &str) -> Option<(Self, String)> {
        let known = [
            dbench_workload_from_log_name(folder, log).map(|name| (Self::Dbench, name)),
            hackbench_workload_from_log_name(folder, log).map(|name| (Self::Hackbench, name)),
            (log == "sqlite.log")
                .then(|| (Self::Sqlite, folder_if_variant_else_name(folder, "sqlite"))),
            pgbench_workload_from_log_name(folder, log).map(|name| (Self::Pgbench, name)),
            schbench_workload_from_log_name(log).map(|name| (Self::Schbench, name)),
            (log == "fio.log").then(|| (Self::Fio, folder_if_variant_else_name(folder, "fio"))),
            netperf_workload_from_log_name(log).map(|name| (Self::Netperf, name)),
        ];
        known.into_iter().flatten().next()
    }

    /// Whether one run of the benchmark gives many samples, each for a few seconds.
    pub(super) fn has_interval_samples(self) -> bool {
        matches!(self, Self::Dbench | Self::Sqlite | Self::Pgbench)
    }

    /// Reads all samples in a log.
    ///
    /// # Errors
    /// There are no samples, or a line has no number.
    pub fn parse_samples(self, text: &str) -> Result<Vec<LogSample>, String> {
        let (samples, looked_for) = match self {
            Self::Dbench => (
                parse_dbench_throughput_and_times(text)?,
                "\"... MB/sec  execute ...\" or \"... completed in ... ms\"",
            ),
            Self::Hackbench => (parse_hackbench_times(text)?, "\"Total time: ...\""),
            Self::Sqlite => (parse_sqlite_rates(text)?, "\"execute ...\""),
            Self::Pgbench => (
                parse_pgbench_batch_rates(text)?,
                "transactions of at least 15 intervals (--aggregate-interval=1)",
            ),
            Self::Schbench => (
                parse_schbench_last_percentiles(text)?,
                "latency percentiles (\"99.0th: ...\")",
            ),
            Self::Netperf => (
                parse_netperf_last_row(text).into_iter().collect(),
                "a row of numbers that ends with the throughput or rate",
            ),
            Self::Fio => (
                parse_fio_terse_samples(text)?,
                "a line of fio's terse output",
            ),
        };
        if samples.is_empty() {
            return Err(format!("no result in it: expected {looked_for}"));
        }
        // A sum of finite numbers can be infinite.
        let mut values = samples.iter().flat_map(|s| &s.values);
        if let Some((metric, value)) = values.find(|(_, v)| !v.is_finite()) {
            return Err(non_finite_message(metric, *value));
        }
        Ok(samples)
    }
}

/// Name of the workload that `tbench-CLIENTS.log` or `dbench-CLIENTS.log` is from. Newer versions keep throughput and
/// load file times apart; both benchmarks have the same file names there.
fn dbench_workload_from_log_name(folder: &str, log: &str) -> Option<String> {
    let stem = log.strip_suffix(".log");
    for name in ["tbench", "dbench"] {
        let clients = stem.and_then(|s| s.strip_prefix(name)?.strip_prefix('-'));
        if let Some(clients) = clients.and_then(parse_count) {
            return Some(format!("{name} {clients} client(s)"));
        }
    }
    let newer = ["benchlog-tput-", "benchlog-loadfile-"];
    let number = newer.iter().find_map(|prefix| log.strip_prefix(prefix))?;
    let clients = parse_count(number)?;
    let name = if folder.starts_with("tbench") {
        "tbench"
    } else {
        "dbench"
    };
    Some(format!("{name} {clients} client(s)"))
}

/// Name of the workload that `hackbench-GROUPS-ITERATION` is from.
fn hackbench_workload_from_log_name(folder: &str, log: &str) -> Option<String> {
    let (groups, iteration) = log.strip_prefix("hackbench-")?.split_once('-')?;
    parse_count(iteration)?;
    let name = folder_if_variant_else_name(folder, "hackbench");
    Some(format!("{name} {} group(s)", parse_count(groups)?))
}

/// Name of the workload that `pgbench-transactions-CLIENTS` is from, with or without more behind the number.
fn pgbench_workload_from_log_name(folder: &str, log: &str) -> Option<String> {
    let rest = log.strip_prefix("pgbench-transactions-")?;
    let numbers = rest.strip_suffix(".log").unwrap_or(rest);
    let first = numbers.split_once('-').map_or(numbers, |(first, _)| first);
    let clients = parse_count(first)?;
    let name = folder_if_variant_else_name(folder, "pgbench");
    Some(format!("{name} {clients} client(s)"))
}

/// Name of the workload that `schbench-THREADS.log` is from.
fn schbench_workload_from_log_name(log: &str) -> Option<String> {
    let threads = log.strip_suffix(".log")?.strip_prefix("schbench-")?;
    Some(format!("schbench {} thread(s)", parse_count(threads)?))
}

/// Name of the workload that `PROTOCOL-SIZE.ITERATION` is from.
fn netperf_workload_from_log_name(log: &str) -> Option<String> {
    let (protocol, numbers) = log.split_once('-')?;
    let known = ["TCP_STREAM", "UDP_STREAM", "TCP_RR", "UDP_RR"].contains(&protocol);
    let (size, iteration) = numbers.split_once('.').filter(|_| known)?;
    parse_count(iteration)?;
    Some(format!("netperf {protocol} {} bytes", parse_count(size)?))
}

/// A workload's name with the variant, if the folder says more than the log, as in hackbench-process-pipes or
/// pgbench-timed-ro-small.
fn folder_if_variant_else_name(folder: &str, name: &str) -> String {
    let suffix = folder.strip_prefix(name);
    let is_variant = suffix.is_some_and(|suffix| suffix.starts_with('-'));
    if is_variant { folder } else { name }.to_owned()
}

fn parse_count(text: &str) -> Option<u32> {
    text.parse().ok()
}

fn sample_with_one_metric(metric: &str, value: f64) -> LogSample {
    LogSample {
        part: None,
        values: vec![(metric.to_owned(), value)],
    }
}

/// Parses a finite number that is not negative.
fn parse_non_negative(word: &str) -> Option<f64> {
    word.parse::<f64>()
        .ok()
        .filter(|v| v.is_finite() && *v >= 0.0)
}

/// Reads samples from every line that contains `mark`: the number in a column, counted from 0.
fn samples_from_column_of_marked_lines(
    text: &str,
    mark: &str,
    column: usize,
    metric: &str,
) -> Result<Vec<LogSample>, String> {
    let mut samples = Vec::new();
    for (line_number, line) in (1..).zip(text.lines()) {
        if line.contains(mark) {
            let found = line
                .split_whitespace()
                .nth(column)
                .and_then(parse_non_negative);
            let value = found.ok_or_else(|| {
                format!(
                    "line {line_number}: no number in column {} of a line with \"{mark}\"",
                    column + 1
                )
            })?;
            samples.push(sample_with_one_metric(metric, value));
        }
    }
    Ok(samples)
}

fn parse_dbench_throughput_and_times(text: &str) -> Result<Vec<LogSample>, String> {
    let mut samples = samples_from_column_of_marked_lines(text, " execute ", 2, "bandwidth_mbs")?;
    let mut times = samples_from_column_of_marked_lines(text, " completed in ", 3, "loadfile_ms")?;
    times.retain(|s| s.values.iter().all(|(_, ms)| *ms <= WRAPPED_MS));
    samples.append(&mut times);
    Ok(samples)
}

fn parse_hackbench_times(text: &str) -> Result<Vec<LogSample>, String> {
    // Words before the time in perf's output, and in the output of the program before perf.
    let newer = samples_from_column_of_marked_lines(text, "Total time: ", 2, "time_s")?;
    if newer.is_empty() {
        return samples_from_column_of_marked_lines(text, "Time: ", 1, "time_s");
    }
    Ok(newer)
}

/// sqlite's log has lines `execute RATE`, and since 2022 `execute SECONDS INTERVAL TRANSACTIONS RATE`.
fn parse_sqlite_rates(text: &str) -> Result<Vec<LogSample>, String> {
    let mut samples = Vec::new();
    for (line_number, line) in (1..).zip(text.lines()) {
        if line.starts_with("execute") {
            let last = line.split_whitespace().skip(1).last();
            let rate = last.and_then(parse_non_negative).ok_or_else(|| {
                format!("line {line_number}: no rate at the end of a line with \"execute\"")
            })?;
            samples.push(sample_with_one_metric("transactions_per_s", rate));
        }
    }
    Ok(samples)
}

/// pgbench's log has a line `START TRANSACTIONS ...` per second. Samples are transactions per second in batches of
/// four, after a warm-up.
fn parse_pgbench_batch_rates(text: &str) -> Result<Vec<LogSample>, String> {
    let mut intervals = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
    {
        let mut words = line.split_whitespace().map(parse_non_negative);
        let (Some(Some(start)), Some(Some(transactions))) = (words.next(), words.next()) else {
            return Err(format!(
                "line {}: does not begin with a time and a number of transactions",
                index + 1
            ));
        };
        intervals.push((start, transactions));
    }
    let kept = intervals.get(PGBENCH_WARM_UP - 1..).unwrap_or_default();
    // The first batch is left out: its start is unknown.
    let mut samples = Vec::new();
    let mut before = None;
    for batch in kept.chunks_exact(PGBENCH_BATCH) {
        let end = batch[PGBENCH_BATCH - 1].0;
        if let Some(start) = before.replace(end).filter(|start| end > *start) {
            let transactions: f64 = batch.iter().map(|(_, count)| count).sum();
            samples.push(sample_with_one_metric(
                "transactions_per_s",
                transactions / (end - start),
            ));
        }
    }
    Ok(samples)
}

/// Reads schbench's last percentiles in the log, which cover the whole run.
fn parse_schbench_last_percentiles(text: &str) -> Result<Vec<LogSample>, String> {
    const NAMES: [(f64, [&str; 2]); 4] = [
        (50.0, ["wake_p50_us", "p50_us"]),
        (90.0, ["wake_p90_us", "p90_us"]),
        (99.0, ["wake_p99_us", "p99_us"]),
        (99.9, ["wake_p999_us", "p999_us"]),
    ];
    // Which latency the table shows: 0 wake-ups, 1 requests. Older versions know only wake-ups.
    let mut latency = Some(0);
    let mut values: Vec<(String, f64)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().filter(|w| *w != "*").collect();
        if line.contains("percentiles") {
            latency = match words.first() {
                Some(&"Request") => Some(1),
                Some(&"Wakeup" | &"Latency") => Some(0),
                _ => None,
            };
        }
        let percent = words
            .first()
            .and_then(|w| w.trim_start_matches('*').strip_suffix("th:"));
        if let (Some(percent), Some(latency)) = (percent.and_then(parse_non_negative), latency) {
            let wanted = NAMES
                .iter()
                .find(|(known, _)| known.total_cmp(&percent).is_eq());
            if let Some((_, names)) = wanted {
                let found = words.get(1).copied().and_then(parse_non_negative);
                let value = found.ok_or_else(|| no_number_message(index, words[0]))?;
                set_or_add_value(&mut values, names[latency], value);
            }
        } else if let ["average", "rps:", rate] = words[..] {
            let rate =
                parse_non_negative(rate).ok_or_else(|| no_number_message(index, words[0]))?;
            set_or_add_value(&mut values, "requests_per_s", rate);
        }
    }
    if values.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![LogSample { part: None, values }])
}

fn no_number_message(index: usize, word: &str) -> String {
    format!("line {}: no number behind \"{word}\"", index + 1)
}

/// Replaces the value with a name, or adds a new name with its value.
fn set_or_add_value(values: &mut Vec<(String, f64)>, name: &str, value: f64) {
    match values.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = value,
        None => values.push((name.to_owned(), value)),
    }
}

/// Reads the last number in netperf's row of results: the rate of requests and responses, or a stream's throughput, for
/// UDP as sent.
fn parse_netperf_last_row(text: &str) -> Option<LogSample> {
    let transactions = text.contains("REQUEST/RESPONSE");
    let metric = if transactions {
        "transactions_per_s"
    } else {
        "throughput_mbit"
    };
    // A benchmark repeated for a confidence interval prints one row for all repetitions together.
    let last_row = text.lines().rev().find_map(|line| {
        let numbers: Option<Vec<f64>> = line.split_whitespace().map(parse_non_negative).collect();
        numbers.filter(|numbers| numbers.len() > 4)
    })?;
    Some(sample_with_one_metric(metric, *last_row.last()?))
}

fn parse_fio_terse_samples(text: &str) -> Result<Vec<LogSample>, String> {
    let jobs = terse::parse_single_invocation_metrics(text)?.into_iter();
    Ok(jobs
        .map(|(name, values)| LogSample {
            part: Some(name),
            values,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(benchmark: Benchmark, text: &str) -> Vec<(String, f64)> {
        let samples = benchmark.parse_samples(text).unwrap();
        samples.into_iter().flat_map(|s| s.values).collect()
    }

    fn numbers(benchmark: Benchmark, text: &str) -> Vec<f64> {
        values(benchmark, text)
            .into_iter()
            .map(|(_, v)| v)
            .collect()
    }

    #[test]
    fn logs_are_known_by_their_names() {
        for (folder, log, benchmark, workload) in [
            (
                "tbench4",
                "tbench-1.log",
                Benchmark::Dbench,
                "tbench 1 client(s)",
            ),
            (
                "dbench4",
                "dbench-16.log",
                Benchmark::Dbench,
                "dbench 16 client(s)",
            ),
            (
                "tbench",
                "benchlog-tput-4",
                Benchmark::Dbench,
                "tbench 4 client(s)",
            ),
            (
                "hackbench-process-pipes",
                "hackbench-7-2",
                Benchmark::Hackbench,
                "hackbench-process-pipes 7 group(s)",
            ),
            ("sqlite", "sqlite.log", Benchmark::Sqlite, "sqlite"),
            (
                "pgbench",
                "pgbench-transactions-8-1",
                Benchmark::Pgbench,
                "pgbench 8 client(s)",
            ),
            (
                "pgbench",
                "pgbench-transactions-8.log",
                Benchmark::Pgbench,
                "pgbench 8 client(s)",
            ),
            (
                "schbench",
                "schbench-2.log",
                Benchmark::Schbench,
                "schbench 2 thread(s)",
            ),
            (
                "netperf-udp",
                "UDP_STREAM-64.3",
                Benchmark::Netperf,
                "netperf UDP_STREAM 64 bytes",
            ),
            ("fio", "fio.log", Benchmark::Fio, "fio"),
        ] {
            let found = Benchmark::with_workload_from_log_name(folder, log);
            assert_eq!(found, Some((benchmark, workload.to_owned())), "{log}");
        }
        for log in [
            "tbench-1",
            "dbench.log",
            "hackbench-7",
            "pgbench-8.log",
            "SCTP_STREAM-64.1",
            "vmstat-1",
        ] {
            assert_eq!(
                Benchmark::with_workload_from_log_name("x", log),
                None,
                "{log}"
            );
        }
    }

    /// As dbench 4.00 prints it, with the line of MMTests' patch (`--show-execute-time`).
    #[test]
    fn dbench_gives_the_throughput_of_each_second_and_the_times_of_load_files() {
        let text = "2 of 2 processes prepared for launch   0 sec\nreleasing clients\n   \
                    2      2100    90.00 MB/sec  warmup   1 sec  latency 30.700 ms\n   \
                    2      4228    79.40 MB/sec  execute   1 sec  latency 37.708 ms\n   \
                    0 completed in 153 ms\n   1 completed in 4294967290 ms\n   \
                    2      9404    67.71 MB/sec  execute   2 sec  latency 48.104 ms\n   2  cleanup   3 sec\n\
                    Throughput 67.7144 MB/sec  2 clients  2 procs  max_latency=48.104 ms\n";
        let found = values(Benchmark::Dbench, text);
        let wanted = [
            ("bandwidth_mbs", 79.40),
            ("bandwidth_mbs", 67.71),
            ("loadfile_ms", 153.0),
        ];
        assert_eq!(found, wanted.map(|(name, value)| (name.to_owned(), value)));
        let error = Benchmark::Dbench
            .parse_samples("\n 1 2 x MB/sec execute 1")
            .unwrap_err();
        assert!(error.contains("line 2"), "{error}");
        let error = Benchmark::Dbench.parse_samples("").unwrap_err();
        assert!(
            error.contains("no result") && error.contains("execute"),
            "{error}"
        );
    }

    #[test]
    fn hackbench_is_read_as_perf_prints_it_and_as_it_did_itself() {
        let perf = "# Running 'sched/messaging' benchmark:\n# 20 sender and receiver processes per group\n\
                    # 2 groups == 80 processes run\n\n     Total time: 0.248 [sec]\n";
        assert_eq!(numbers(Benchmark::Hackbench, perf), [0.248]);
        assert_eq!(
            numbers(
                Benchmark::Hackbench,
                "Running with 4*40 tasks.\nTime: 1.5\n"
            ),
            [1.5]
        );
    }

    #[test]
    fn sqlite_gives_the_rate_of_each_second_after_the_warm_up() {
        assert_eq!(
            numbers(
                Benchmark::Sqlite,
                "warmup  100.5\nexecute 2098.79\nexecute 2101\n"
            ),
            [2098.79, 2101.0]
        );
        let newer = "warmup          0.60         0.60          500      833.333\n\
                     execute         2.40         0.60          600     1000.000\n";
        assert_eq!(numbers(Benchmark::Sqlite, newer), [1000.0]);
        assert!(
            Benchmark::Sqlite
                .parse_samples("execute\n")
                .unwrap_err()
                .contains("line 1")
        );
    }

    #[test]
    fn pgbench_gives_batches_of_four_seconds_after_the_warm_up() {
        // Slow at first; then 100, 200, 300 and 400 a second, again and again.
        let lines: Vec<String> = (0..20)
            .map(|second: u64| {
                let count = match second.checked_sub(11) {
                    None => 7,
                    Some(second) => second % 4 * 100 + 100,
                };
                format!("{} {count} 1000 2000 5 50\n", 1_500_000_000 + second)
            })
            .collect();
        let text = lines.concat();
        assert_eq!(numbers(Benchmark::Pgbench, &text), [250.0, 250.0]);
        let few = lines[..10].concat();
        assert!(
            Benchmark::Pgbench
                .parse_samples(&few)
                .unwrap_err()
                .contains("--aggregate-interval=1")
        );
        assert!(
            Benchmark::Pgbench
                .parse_samples("0 x")
                .unwrap_err()
                .contains("line 1")
        );
    }

    #[test]
    fn schbench_gives_the_percentiles_of_the_whole_run() {
        let block = |p99: u32| {
            format!(
                "Wakeup Latencies percentiles (usec) runtime 10 (s) (30212 total samples)\n\
                 \t  50.0th: 7          (7806 samples)\n\t  90.0th: 18         (8649 samples)\n\
                 \t* 99.0th: {p99}        (2590 samples)\n\t  99.9th: 909        (271 samples)\n\
                 \t  min=1, max=10224\n\
                 Request Latencies percentiles (usec) runtime 10 (s) (30246 total samples)\n\
                 \t* 99.0th: 17248      (616 samples)\n\
                 RPS percentiles (requests) runtime 10 (s) (1 total samples)\n\t* 50.0th: 3020       (0 samples)\n"
            )
        };
        let text = format!(
            "{}current rps: 3000.1\n{}average rps: 3024.60\n",
            block(100),
            block(175)
        );
        let wanted = [
            ("wake_p50_us", 7.0),
            ("wake_p90_us", 18.0),
            ("wake_p99_us", 175.0),
            ("wake_p999_us", 909.0),
            ("p99_us", 17_248.0),
            ("requests_per_s", 3024.6),
        ];
        assert_eq!(
            values(Benchmark::Schbench, &text),
            wanted.map(|(name, value)| (name.to_owned(), value))
        );
        let older =
            "Latency percentiles (usec)\n\t50.0000th: 22\n\t*99.0000th: 2132\n\t99.9000th: 10000\n";
        assert_eq!(
            numbers(Benchmark::Schbench, older),
            [22.0, 2132.0, 10_000.0]
        );
        assert!(
            Benchmark::Schbench
                .parse_samples("\t* 99.0th: x\n")
                .unwrap_err()
                .contains("line 1")
        );
    }

    #[test]
    fn netperf_gives_the_last_number_of_its_row() {
        let tcp = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to localhost () port 0 AF_INET\n\
                   Recv   Send    Send                          \nSocket Socket  Message  Elapsed              \n\
                   Size   Size    Size     Time     Throughput  \nbytes  bytes   bytes    secs.    10^6bits/sec  \n\n\
                   131072  16384   1500    10.00    9406.44   \n";
        assert_eq!(
            values(Benchmark::Netperf, tcp),
            [("throughput_mbit".to_owned(), 9406.44)]
        );
        let udp = "Socket  Message  Elapsed      Messages                \n\
                   Size    Size     Time         Okay Errors   Throughput\n\
                   212992      64   10.00     2704340      0     138.45\n212992           10.00     2704340            138.41\n";
        assert_eq!(numbers(Benchmark::Netperf, udp), [138.45]);
        let answers = "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET\n\
                       16384  87380  1        1       1.00     48645.53   \n16384  87380 \n";
        assert_eq!(
            values(Benchmark::Netperf, answers),
            [("transactions_per_s".to_owned(), 48_645.53)]
        );
        assert!(
            Benchmark::Netperf
                .parse_samples("establish control: are you sure?")
                .unwrap_err()
                .contains("no result")
        );
    }
}
