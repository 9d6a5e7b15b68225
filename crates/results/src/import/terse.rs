//! fio's terse output (`--minimal`), version 3: a line per job or group, its fields between semicolons.
//!
//! Fields: fio's documentation, "Terse output". Lines from one invocation with equal name and group are jobs that ran at
//! once (`numjobs`) and count together, as in fio's JSON. In a file with several invocations, a job that comes again after
//! another job, or with other figures for the disks, belongs to a later invocation.

use crate::RunRecord;

use super::fio::PERCENTILES;
use super::runs::{ImportedRuns, new_imported_run};

/// How a line of fio's terse output begins in version 3.
const VERSION: &str = "3;";

/// Number of fields in a terse line, and fields that describe reads.
const NAME: usize = 2;
const GROUP: usize = 3;
const ERROR: usize = 4;
const KIBIBYTES: usize = 5;
const IOPS: usize = 7;
const RUNTIME_MS: usize = 8;
const CLAT_PERCENTILES: std::ops::Range<usize> = 17..37;
const LAT_MAX: usize = 38;
const LAT_MEAN: usize = 39;
/// Distance from a field for reads to the matching field for writes.
const TO_WRITES: usize = 41;
/// Index of the first field about the disks.
const DISKS: usize = 121;

/// Number of fields about each disk: its name, and eight numbers.
const DISK_FIELDS: usize = 9;

/// A workload's name and its metrics in one invocation of fio.
type WorkloadMetrics = (String, Vec<(String, f64)>);

/// Whether a text is fio's terse output, possibly behind warnings.
pub(super) fn has_terse_job_line(text: &str) -> bool {
    text.lines().any(is_terse_job_line)
}

/// Whether a line is a job's terse output, in any version.
fn is_terse_job_line(line: &str) -> bool {
    let mut fields = line.split(';');
    let version = fields.next().unwrap_or_default();
    version.parse::<u8>().is_ok() && fields.next().is_some_and(|f| f.starts_with("fio-"))
}

/// Imports fio's terse output: each job or group is a workload, each invocation a run.
pub(super) fn import_terse_output(policy: &str, text: &str) -> Result<ImportedRuns, String> {
    let mut runs: Vec<RunRecord> = Vec::new();
    for (workload, metrics) in merge_metrics_per_group(group_jobs_by_invocation(
        parse_job_lines_with_numbers(text)?,
    )?)? {
        let repeat = runs.iter().filter(|r| r.key.workload == workload).count() as u32;
        let mut run = new_imported_run(&workload, policy, repeat);
        run.metrics = metrics;
        runs.push(run);
    }
    let version = text
        .lines()
        .find(|l| is_terse_job_line(l))
        .and_then(|l| l.split(';').nth(1));
    Ok(ImportedRuns::from_tool(
        "fio",
        version.unwrap_or_default(),
        runs,
    ))
}

/// Parses a log from a single invocation; returns each workload with its metrics.
///
/// # Errors
/// Another version, fields that are missing or no numbers, a job that failed or did nothing.
pub(super) fn parse_single_invocation_metrics(text: &str) -> Result<Vec<WorkloadMetrics>, String> {
    let mut groups = Groups::new();
    for (_, job) in parse_job_lines_with_numbers(text)? {
        match groups
            .iter_mut()
            .find(|g| g[0].has_same_name_and_group(&job))
        {
            Some(group) => group.push(job),
            None => groups.push(vec![job]),
        }
    }
    merge_metrics_per_group(vec![groups])
}

/// Jobs of an invocation, grouped by name and group.
type Groups = Vec<Vec<TerseJob>>;

/// A line.
struct TerseJob {
    name: String,
    group: String,
    /// Figures for the disks over the whole invocation; empty if idle disks cannot tell invocations apart.
    disks: String,
    /// The job's reads and writes, each absent if none were done.
    directions: [Option<TerseDirection>; 2],
}

impl TerseJob {
    fn has_same_name_and_group(&self, other: &Self) -> bool {
        self.name == other.name && self.group == other.group
    }
}

/// Parses every job line; returns each job with its line number.
fn parse_job_lines_with_numbers(text: &str) -> Result<Vec<(usize, TerseJob)>, String> {
    let mut jobs = Vec::new();
    for (number, line) in (1..)
        .zip(text.lines())
        .filter(|(_, l)| is_terse_job_line(l))
    {
        if !line.starts_with(VERSION) {
            return Err(format!(
                "line {number}: terse output of fio is read in version 3 (--terse-version=3), or take --output-format=json"
            ));
        }
        let job =
            parse_terse_job_line(line).map_err(|message| format!("line {number}: {message}"))?;
        jobs.push((number, job));
    }
    if jobs.is_empty() {
        return Err("no line of fio's terse output (\"3;fio-...\")".to_owned());
    }
    Ok(jobs)
}

/// Divides a file's jobs into the invocations that printed them.
fn group_jobs_by_invocation(jobs: Vec<(usize, TerseJob)>) -> Result<Vec<Groups>, String> {
    let mut all: Vec<Groups> = vec![Groups::new()];
    let mut before: Option<(usize, String)> = None;
    for (number, job) in jobs {
        let current = all.len() - 1;
        let known = all[current]
            .iter()
            .position(|g| g[0].has_same_name_and_group(&job));
        let disks = job.disks.clone();
        match (known, &before) {
            (Some(group), Some((line, last))) => {
                let follows = group + 1 == all[current].len();
                if last.is_empty() && disks.is_empty() && follows {
                    return Err(format!(
                        "lines {line} and {number} are both of job '{}'. The disks were idle, so nothing tells whether two \
                         jobs ran at once (numjobs) or one job twice. Let fio write JSON \
                         (--output-format=json)",
                        job.name
                    ));
                }
                if *last == disks && !disks.is_empty() {
                    all[current][group].push(job);
                } else {
                    all.push(vec![vec![job]]);
                }
            }
            _ => all[current].push(vec![job]),
        }
        before = Some((number, disks));
    }
    Ok(all)
}

/// Name and metrics of each group of jobs, over all invocations in order.
fn merge_metrics_per_group(invocations: Vec<Groups>) -> Result<Vec<WorkloadMetrics>, String> {
    let groups = invocations.into_iter().flatten();
    let all = groups.map(|jobs| Ok((jobs[0].name.clone(), merge_job_metrics(&jobs)?)));
    all.collect()
}

/// The reads or writes of a job.
struct TerseDirection {
    bytes: f64,
    ios: f64,
    seconds: f64,
    mean_us: f64,
    max_us: f64,
    percentiles: Vec<(String, f64)>,
}

fn parse_terse_job_line(line: &str) -> Result<TerseJob, String> {
    let line = TerseFields(line.split(';').collect());
    if line.field_or_empty(ERROR) != "0" {
        return Err(format!(
            "fio job '{}' ended with error {}",
            line.field_or_empty(NAME),
            line.field_or_empty(ERROR)
        ));
    }
    Ok(TerseJob {
        name: line.field_or_empty(NAME).to_owned(),
        group: line.field_or_empty(GROUP).to_owned(),
        disks: join_disk_figures_unless_idle(line.0.get(DISKS..).unwrap_or_default()),
        directions: [
            line.parse_direction_if_any(0)?,
            line.parse_direction_if_any(TO_WRITES)?,
        ],
    })
}

/// The fields of a terse line.
struct TerseFields<'a>(Vec<&'a str>);

impl<'a> TerseFields<'a> {
    /// The field with an index, counted from 0; empty if the line ends before.
    fn field_or_empty(&self, index: usize) -> &'a str {
        self.0.get(index).copied().unwrap_or_default()
    }

    fn non_negative_number(&self, index: usize) -> Result<f64, String> {
        let text = self.field_or_empty(index);
        let value = text.parse::<f64>().ok();
        value
            .filter(|v| v.is_finite() && *v >= 0.0)
            .ok_or_else(|| format!("field {} is '{text}', and should be a number", index + 1))
    }

    /// Parses reads, or writes if `offset` is added to the field's index; `None` if none were done.
    fn parse_direction_if_any(&self, offset: usize) -> Result<Option<TerseDirection>, String> {
        let seconds = self.non_negative_number(RUNTIME_MS + offset)? / 1e3;
        let percentiles = CLAT_PERCENTILES.filter_map(|index| {
            let (percent, us) = self.field_or_empty(index + offset).split_once("%=")?;
            let (metric, _) = PERCENTILES.iter().find(|(_, key)| *key == percent)?;
            Some((
                (*metric).to_owned(),
                us.parse().ok().filter(|us: &f64| us.is_finite())?,
            ))
        });
        let direction = TerseDirection {
            bytes: self.non_negative_number(KIBIBYTES + offset)? * 1024.0,
            ios: self.non_negative_number(IOPS + offset)? * seconds,
            seconds,
            mean_us: self.non_negative_number(LAT_MEAN + offset)?,
            max_us: self.non_negative_number(LAT_MAX + offset)?,
            percentiles: percentiles.collect(),
        };
        let is_done = direction.ios > 0.0 && direction.seconds > 0.0;
        Ok(is_done.then_some(direction))
    }
}

/// Joins the disks' figures, which tell invocations apart: they cover a whole invocation, and some are times. Empty if
/// the disks were idle.
fn join_disk_figures_unless_idle(fields: &[&str]) -> String {
    let disks: Vec<&[&str]> = fields
        .chunks_exact(DISK_FIELDS)
        .take_while(|disk| disk[1..].iter().all(|field| is_number_or_percentage(field)))
        .collect();
    // Reads and writes take disk time, unless next to none were done.
    let mut times = disks.iter().flat_map(|disk| &disk[5..]);
    if times.any(|time| time.contains(|c| ('1'..='9').contains(&c))) {
        disks.concat().join(";")
    } else {
        String::new()
    }
}

fn is_number_or_percentage(field: &str) -> bool {
    field.trim_end_matches('%').parse::<f64>().is_ok()
}

/// Metrics of jobs that ran at the same time, put together.
fn merge_job_metrics(jobs: &[TerseJob]) -> Result<Vec<(String, f64)>, String> {
    let all: Vec<&TerseDirection> = jobs
        .iter()
        .flat_map(|j| j.directions.iter().flatten())
        .collect();
    if all.is_empty() {
        return Err("fio has finished no request".to_owned());
    }
    let seconds = all.iter().map(|d| d.seconds).fold(0.0, f64::max);
    let ios: f64 = all.iter().map(|d| d.ios).sum();
    let bytes: f64 = all.iter().map(|d| d.bytes).sum();
    let mut metrics = vec![
        ("iops".to_owned(), ios / seconds),
        ("bandwidth_mbs".to_owned(), bytes / seconds / 1e6),
        ("mean_us".to_owned(), mean_weighted_by_ios_us(&all)),
    ];
    let names = [("read_mbs", "read_mean_us"), ("write_mbs", "write_mean_us")];
    for (index, (bandwidth, latency)) in names.into_iter().enumerate() {
        let directions: Vec<&TerseDirection> = jobs
            .iter()
            .filter_map(|job| job.directions[index].as_ref())
            .collect();
        if !directions.is_empty() {
            let bytes: f64 = directions.iter().map(|d| d.bytes).sum();
            metrics.push((bandwidth.to_owned(), bytes / seconds / 1e6));
            metrics.push((latency.to_owned(), mean_weighted_by_ios_us(&directions)));
        }
    }
    // Percentiles of two distributions say nothing about percentiles of both together.
    if let [one] = &all[..] {
        metrics.extend(one.percentiles.iter().cloned());
    }
    let max_us = all.iter().map(|d| d.max_us).fold(0.0, f64::max);
    metrics.push(("max_us".to_owned(), max_us));
    Ok(metrics)
}

/// The mean latency in us over all requests, by the directions' counts.
fn mean_weighted_by_ios_us(directions: &[&TerseDirection]) -> f64 {
    let ios: f64 = directions.iter().map(|d| d.ios).sum();
    directions.iter().map(|d| d.mean_us * d.ios).sum::<f64>() / ios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_terse_output_of_version_3_is_refused() {
        assert!(!has_terse_job_line("{\"fio version\": \"fio-3.33\"}"));
        for (text, message) in [
            ("5;fio-3.33;a;0;0", "--terse-version=3"),
            ("3;fio-3.33;a;0;5", "job 'a' ended with error 5"),
            ("fio: hello\n3;fio-3.33;a;0;0", "line 2: field "),
            ("nothing", "3;fio-"),
        ] {
            let error = parse_job_lines_with_numbers(text).map(drop).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    /// A line of so many requests in a second, and what the disks did.
    fn line(name: &str, group: u32, iops: u32, disks: &str) -> String {
        let mut fields = vec!["0".to_owned(); DISKS];
        let job = [
            (NAME, name),
            (GROUP, &group.to_string()),
            (IOPS, &iops.to_string()),
        ];
        for (index, text) in [(0, "3"), (1, "fio-3.33"), (RUNTIME_MS, "1000")]
            .iter()
            .chain(&job)
        {
            fields[*index] = (*text).to_owned();
        }
        format!("{};{disks}\n", fields.join(";"))
    }

    /// The runs as `(workload, repeat, IOPS)`.
    fn runs(lines: &[String]) -> Vec<(String, u32, u32)> {
        let imported = import_terse_output("p", &lines.concat()).unwrap();
        let runs = imported.runs.into_iter();
        runs.map(|r| (r.key.workload, r.key.repeat, r.metrics[0].1.round() as u32))
            .collect()
    }

    fn run(name: &str, repeat: u32, iops: u32) -> (String, u32, u32) {
        (name.to_owned(), repeat, iops)
    }

    const QUIET: &str = "vda;0;0;0;0;0;0;0;0.00%";

    #[test]
    fn jobs_that_ran_at_once_count_together_and_those_that_did_not_apart() {
        let [first, second] = ["vda;9;0;0;0;7;0;7;1.00%", "vda;9;0;0;0;7;0;8;1.00%"];
        // Two jobs of one invocation, twice.
        let lines = [first, second].map(|disks| [line("a", 0, 10, disks), line("a", 0, 20, disks)]);
        assert_eq!(runs(&lines.concat()), [run("a", 0, 30), run("a", 1, 30)]);
        // Of two sections and groups, with and without work for the disks.
        for [first, second] in [[first, second], [QUIET, QUIET], ["", ""]] {
            let lines =
                [first, second].map(|disks| [line("a", 0, 1, disks), line("b", 1, 2, disks)]);
            let wanted = [
                run("a", 0, 1),
                run("b", 0, 2),
                run("a", 1, 1),
                run("b", 1, 2),
            ];
            assert_eq!(runs(&lines.concat()), wanted);
        }
        assert_eq!(
            runs(&[line("a", 0, 1, QUIET), line("a", 1, 2, QUIET)]),
            [run("a", 0, 1), run("a", 1, 2)]
        );
        // A description follows the disks.
        let described = format!("{first};a;b");
        assert_eq!(
            runs(&[line("a", 0, 1, &described), line("a", 0, 2, &described)]),
            [run("a", 0, 3)]
        );
    }

    #[test]
    fn what_could_be_jobs_or_runs_is_refused_but_in_a_log_of_one_invocation() {
        for disks in [QUIET, ""] {
            let text = [
                line("b", 0, 1, disks),
                line("a", 0, 10, disks),
                line("a", 0, 20, disks),
            ]
            .concat();
            let error = import_terse_output("p", &text).unwrap_err();
            assert!(
                error.contains("lines 2 and 3") && error.contains("json"),
                "{error}"
            );
            let workloads = parse_single_invocation_metrics(&text).unwrap();
            assert_eq!(workloads.len(), 2);
            assert!((workloads[1].1[0].1 - 30.0).abs() < 1e-9);
        }
    }
}
