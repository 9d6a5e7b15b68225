//! fio's terse output (`--minimal`), version 3: a line per job or group, its fields between semicolons.
//!
//! Which field is what: fio's documentation, "Terse output". Lines of one invocation of fio with equal name and group are
//! jobs that ran at once (`numjobs`), and count together, as they do in fio's JSON. Where a file has several invocations,
//! what comes again after another job, or with other figures of the disks, is of a later one.

use crate::{RunKey, RunRecord};

use super::fio::PERCENTILES;
use super::runs::ImportedRuns;

/// How a line of this version begins.
const VERSION: &str = "3;";

/// Fields of a line: those of reads, and how many further on the same one of writes is.
const NAME: usize = 2;
const GROUP: usize = 3;
const ERROR: usize = 4;
const KIBIBYTES: usize = 5;
const IOPS: usize = 7;
const RUNTIME_MS: usize = 8;
const CLAT_PERCENTILES: std::ops::Range<usize> = 17..37;
const LAT_MAX: usize = 38;
const LAT_MEAN: usize = 39;
const TO_WRITES: usize = 41;
/// Where the disks begin, and the fields of each: its name, and eight numbers.
const DISKS: usize = 121;
const OF_A_DISK: usize = 9;

/// What one invocation says of a workload.
type WorkloadInfo = (String, Vec<(String, f64)>);

/// Whether this is fio's terse output, possibly with warnings in front.
pub(super) fn is_terse(text: &str) -> bool {
    text.lines().any(is_result)
}

/// Whether a line is a job's, of any version.
fn is_result(line: &str) -> bool {
    let mut fields = line.split(';');
    let version = fields.next().unwrap_or_default();
    version.parse::<u8>().is_ok() && fields.next().is_some_and(|f| f.starts_with("fio-"))
}

/// Each job or group is a workload, each invocation a run of it.
pub(super) fn import(name: &str, text: &str) -> Result<ImportedRuns, String> {
    let mut runs: Vec<RunRecord> = Vec::new();
    for (workload, metrics) in together(invocations(jobs(text)?)?)? {
        let repeat = runs.iter().filter(|r| r.key.workload == workload).count() as u32;
        let key = RunKey {
            machine: String::new(),
            workload,
            policy: name.to_owned(),
            repeat,
        };
        let mut run = RunRecord::new(key, None, repeat, repeat);
        run.metrics = metrics;
        runs.push(run);
    }
    let version = text
        .lines()
        .find(|l| is_result(l))
        .and_then(|l| l.split(';').nth(1));
    Ok(ImportedRuns::from_tool(
        "fio",
        version.unwrap_or_default(),
        runs,
    ))
}

/// The workloads of a log of one invocation.
///
/// # Errors
/// Another version, fields that are missing or no numbers, a job that failed or did nothing.
pub(super) fn one_invocation(text: &str) -> Result<Vec<WorkloadInfo>, String> {
    let mut groups = Groups::new();
    for (_, job) in jobs(text)? {
        match groups.iter_mut().find(|g| g[0].is_with(&job)) {
            Some(group) => group.push(job),
            None => groups.push(vec![job]),
        }
    }
    together(vec![groups])
}

/// The jobs of an invocation, those of equal name and group together.
type Groups = Vec<Vec<Job>>;

/// A line.
struct Job {
    name: String,
    group: String,
    /// What the disks did during the whole invocation; empty: nothing that would tell it from another.
    disks: String,
    /// Reads and writes, where there were any.
    directions: [Option<Direction>; 2],
}

impl Job {
    fn is_with(&self, other: &Self) -> bool {
        self.name == other.name && self.group == other.group
    }
}

/// The lines with their numbers.
fn jobs(text: &str) -> Result<Vec<(usize, Job)>, String> {
    let mut jobs = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, l)| is_result(l)) {
        let at = |message: String| format!("line {number}: {message}");
        if !line.starts_with(VERSION) {
            let message = "terse output of fio is read in version 3 (--terse-version=3), or take --output-format=json";
            return Err(at(message.to_owned()));
        }
        jobs.push((number, job(line).map_err(at)?));
    }
    if jobs.is_empty() {
        return Err("no line of fio's terse output (\"3;fio-...\")".to_owned());
    }
    Ok(jobs)
}

/// Tells the invocations of a file apart.
fn invocations(jobs: Vec<(usize, Job)>) -> Result<Vec<Groups>, String> {
    let mut all: Vec<Groups> = vec![Groups::new()];
    let mut before: Option<(usize, String)> = None;
    for (number, job) in jobs {
        let current = all.len() - 1;
        let known = all[current].iter().position(|g| g[0].is_with(&job));
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

/// The metrics of each group of each invocation.
fn together(invocations: Vec<Groups>) -> Result<Vec<WorkloadInfo>, String> {
    let groups = invocations.into_iter().flatten();
    let all = groups.map(|jobs| Ok((jobs[0].name.clone(), metrics(&jobs)?)));
    all.collect()
}

/// Reads or writes of a job.
struct Direction {
    bytes: f64,
    ios: f64,
    seconds: f64,
    mean_us: f64,
    max_us: f64,
    percentiles: Vec<(String, f64)>,
}

fn job(line: &str) -> Result<Job, String> {
    let fields: Vec<&str> = line.split(';').collect();
    let text = |index: usize| fields.get(index).copied().unwrap_or_default();
    if text(ERROR) != "0" {
        return Err(format!(
            "fio job '{}' ended with error {}",
            text(NAME),
            text(ERROR)
        ));
    }
    let number = |index: usize| {
        let value = text(index).parse::<f64>().ok();
        value.filter(|v| v.is_finite() && *v >= 0.0).ok_or_else(|| {
            format!(
                "field {} is '{}', and should be a number",
                index + 1,
                text(index)
            )
        })
    };
    let direction = |from: usize| {
        let seconds = number(RUNTIME_MS + from)? / 1e3;
        let percentiles = CLAT_PERCENTILES.filter_map(|index| {
            let (percent, us) = text(index + from).split_once("%=")?;
            let (metric, _) = PERCENTILES.iter().find(|(_, key)| *key == percent)?;
            Some((
                (*metric).to_owned(),
                us.parse().ok().filter(|us: &f64| us.is_finite())?,
            ))
        });
        Ok::<_, String>(Direction {
            bytes: number(KIBIBYTES + from)? * 1024.0,
            ios: number(IOPS + from)? * seconds,
            seconds,
            mean_us: number(LAT_MEAN + from)?,
            max_us: number(LAT_MAX + from)?,
            percentiles: percentiles.collect(),
        })
    };
    let done = |from: usize| {
        Ok::<_, String>(Some(direction(from)?).filter(|d| d.ios > 0.0 && d.seconds > 0.0))
    };
    Ok(Job {
        name: text(NAME).to_owned(),
        group: text(GROUP).to_owned(),
        disks: disks(fields.get(DISKS..).unwrap_or_default()),
        directions: [done(0)?, done(TO_WRITES)?],
    })
}

/// The disks' figures, if they had anything to do. They are of all jobs of an invocation together, and those of two
/// invocations are never the same: among them are times.
fn disks(fields: &[&str]) -> String {
    let is_number = |f: &&str| f.trim_end_matches('%').parse::<f64>().is_ok();
    let disks: Vec<&[&str]> = fields
        .chunks_exact(OF_A_DISK)
        .take_while(|disk| disk[1..].iter().all(is_number))
        .collect();
    // Reads and writes take time, unless there were next to none.
    let busy = |disk: &&[&str]| {
        disk[5..]
            .iter()
            .any(|f| f.contains(|c| ('1'..='9').contains(&c)))
    };
    if disks.iter().any(busy) {
        disks.concat().join(";")
    } else {
        String::new()
    }
}

/// What jobs have done that ran at once.
fn metrics(jobs: &[Job]) -> Result<Vec<(String, f64)>, String> {
    let all: Vec<&Direction> = jobs
        .iter()
        .flat_map(|j| j.directions.iter().flatten())
        .collect();
    if all.is_empty() {
        return Err("fio has finished no request".to_owned());
    }
    let sum = |of: fn(&Direction) -> f64| all.iter().map(|d| of(d)).sum::<f64>();
    let largest = |of: fn(&Direction) -> f64| all.iter().map(|d| of(d)).fold(0.0, f64::max);
    let mean = |of: &[&Direction]| {
        let ios: f64 = of.iter().map(|d| d.ios).sum();
        of.iter().map(|d| d.mean_us * d.ios).sum::<f64>() / ios
    };
    let seconds = largest(|d| d.seconds);
    let mut metrics = vec![
        ("iops".to_owned(), sum(|d| d.ios) / seconds),
        ("bandwidth_mbs".to_owned(), sum(|d| d.bytes) / seconds / 1e6),
        ("mean_us".to_owned(), mean(&all)),
    ];
    let of = |index: usize| -> Vec<&Direction> {
        jobs.iter()
            .filter_map(|j| j.directions[index].as_ref())
            .collect()
    };
    let names = [("read_mbs", "read_mean_us"), ("write_mbs", "write_mean_us")];
    for (index, (bandwidth, latency)) in names.into_iter().enumerate() {
        let direction = of(index);
        if !direction.is_empty() {
            let bytes: f64 = direction.iter().map(|d| d.bytes).sum();
            metrics.push((bandwidth.to_owned(), bytes / seconds / 1e6));
            metrics.push((latency.to_owned(), mean(&direction)));
        }
    }
    // Percentiles of two distributions say nothing about those of both together.
    if let [one] = &all[..] {
        metrics.extend(one.percentiles.iter().cloned());
    }
    metrics.push(("max_us".to_owned(), largest(|d| d.max_us)));
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_terse_output_of_version_3_is_refused() {
        assert!(!is_terse("{\"fio version\": \"fio-3.33\"}"));
        let error = |text: &str| jobs(text).map(drop).unwrap_err();
        assert!(error("5;fio-3.33;a;0;0").contains("--terse-version=3"));
        assert!(error("3;fio-3.33;a;0;5").contains("job 'a' ended with error 5"));
        assert!(error("fio: hello\n3;fio-3.33;a;0;0").contains("line 2: field "));
        assert!(error("nothing").contains("3;fio-"));
    }

    /// A line of so many requests in a second, and what the disks did.
    fn line(name: &str, group: u32, iops: u32, disks: &str) -> String {
        let mut fields = vec!["0".to_owned(); DISKS];
        let of = [
            (NAME, name),
            (GROUP, &group.to_string()),
            (IOPS, &iops.to_string()),
        ];
        for (index, text) in [(0, "3"), (1, "fio-3.33"), (RUNTIME_MS, "1000")]
            .iter()
            .chain(&of)
        {
            fields[*index] = (*text).to_owned();
        }
        format!("{};{disks}\n", fields.join(";"))
    }

    /// The runs as `(workload, repeat, IOPS)`.
    fn runs(lines: &[String]) -> Vec<(String, u32, u32)> {
        let imported = import("p", &lines.concat()).unwrap();
        let runs = imported.runs.into_iter();
        runs.map(|r| (r.key.workload, r.key.repeat, r.metrics[0].1.round() as u32))
            .collect()
    }

    const QUIET: &str = "vda;0;0;0;0;0;0;0;0.00%";

    #[test]
    fn jobs_that_ran_at_once_count_together_and_those_that_did_not_apart() {
        let run = |name: &str, repeat, iops| (name.to_owned(), repeat, iops);
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
            let error = import("p", &text).unwrap_err();
            assert!(
                error.contains("lines 2 and 3") && error.contains("json"),
                "{error}"
            );
            let workloads = one_invocation(&text).unwrap();
            assert_eq!(workloads.len(), 2);
            assert!((workloads[1].1[0].1 - 30.0).abs() < 1e-9);
        }
    }
}
