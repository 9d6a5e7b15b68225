//! fio's JSON output, also `json+` with histograms.

use std::collections::BTreeMap;

use crate::{LatencyCount, RequestedRate, RunRecord};
use serde::Deserialize;

use super::runs::{ImportedRuns, new_imported_run};

/// fio's output with `--output-format=json` or `json+`.
#[derive(Debug, Deserialize)]
pub struct FioOutput {
    #[serde(rename = "fio version")]
    version: String,
    /// When fio printed the document, in seconds since 1970.
    #[serde(default)]
    timestamp_ms: u64,
    jobs: Vec<FioJob>,
}

/// A job in fio's output, or with `group_reporting` a group of jobs.
#[derive(Debug, Deserialize)]
struct FioJob {
    jobname: String,
    #[serde(default)]
    groupid: u64,
    #[serde(default)]
    error: i64,
    #[serde(default)]
    read: FioDirection,
    #[serde(default)]
    write: FioDirection,
    #[serde(default)]
    trim: FioDirection,
    /// Calls of fsync and fdatasync; their times are in `lat_ns`.
    #[serde(default)]
    sync: FioDirection,
    /// CPU time in user space, in per cent of `job_runtime`.
    #[serde(default)]
    usr_cpu: f64,
    /// CPU time in the kernel, in per cent of `job_runtime`.
    #[serde(default)]
    sys_cpu: f64,
    /// Context switches; absent in outputs of old versions.
    ctx: Option<u64>,
    /// In ms, without a `ramp_time`.
    #[serde(default)]
    job_runtime: u64,
}

/// The reads, writes or trims of a job.
#[derive(Debug, Default, Deserialize)]
struct FioDirection {
    #[serde(default)]
    io_bytes: u64,
    /// In ms.
    #[serde(default)]
    runtime: u64,
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    lat_ns: Times,
    #[serde(default)]
    clat_ns: Times,
}

impl FioDirection {
    /// Times from submission to completion; `None` where they are longer than those that begin earlier. fio 3.33 takes no time of
    /// submission for requests that a kernel thread takes from the ring (`sqthread_poll`).
    fn completion_times(&self) -> Option<&Times> {
        let is_possible = self.lat_ns.mean == 0.0 || self.clat_ns.mean <= 1.01 * self.lat_ns.mean;
        is_possible.then_some(&self.clat_ns)
    }

    fn longest_ns(&self) -> u64 {
        let completion = self.completion_times();
        completion.map_or(0, |times| times.max).max(self.lat_ns.max)
    }
}

/// A distribution of times in ns, as fio prints it.
#[derive(Debug, Default, Deserialize)]
struct Times {
    #[serde(default)]
    max: u64,
    #[serde(default)]
    mean: f64,
    /// Number of values; fio prints it since version 3.
    #[serde(default, rename = "N")]
    count: u64,
    #[serde(default)]
    percentile: BTreeMap<String, u64>,
    /// Counts of values, by the middle of their bucket in ns.
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

/// Metrics for percentiles, each with fio's name for the percentile.
pub(super) const PERCENTILES: [(&str, &str); 4] = [
    ("p50_us", "50.000000"),
    ("p90_us", "90.000000"),
    ("p99_us", "99.000000"),
    ("p999_us", "99.900000"),
];

impl FioOutput {
    /// Parses the first JSON document that fio printed, possibly behind warnings. `None` for other programs' output.
    pub fn parse_first_document(text: &str) -> Option<Result<Self, String>> {
        let start = find_fio_json_start(text)?;
        Some(parse_leading_document_and_length(&text[start..]).map(|(output, _)| output))
    }

    /// Parses all JSON documents in a text with output from several fio runs. `None` for other programs' output.
    pub(super) fn parse_all_documents(text: &str) -> Option<Result<Vec<Self>, String>> {
        let mut rest = &text[find_fio_json_start(text)?..];
        let mut all = Vec::new();
        loop {
            match parse_leading_document_and_length(rest) {
                Ok((output, length)) => {
                    all.push(output);
                    rest = &rest[length..];
                }
                Err(e) if all.is_empty() => return Some(Err(e)),
                Err(e) => return Some(Err(format!("after {} of fio's documents: {e}", all.len()))),
            }
            match find_line_starting_with_brace(rest) {
                Some(at) => rest = &rest[at..],
                None => return Some(Ok(all)),
            }
        }
    }

    /// Fills `run` with metrics and histogram of all jobs together, as one workload.
    ///
    /// # Errors
    /// A job failed, or nothing was done.
    pub fn fill_metrics_and_histogram(&self, run: &mut RunRecord) -> Result<(), String> {
        fill_run_from_jobs(run, &self.jobs.iter().collect::<Vec<_>>())
    }

    /// CPU time of the jobs in user space and in the kernel, in seconds. What fio itself takes to start is not in there: 0.15 s and more,
    /// for its clock.
    pub fn cpu_seconds_of_jobs(&self) -> [f64; 2] {
        let percents: [fn(&FioJob) -> f64; 2] = [|job| job.usr_cpu, |job| job.sys_cpu];
        percents.map(|percent| {
            let jobs = self.jobs.iter();
            jobs.map(|job| percent(job) / 100.0 * job.job_runtime as f64 / 1e3)
                .sum()
        })
    }

    /// Context switches of the jobs per second of their longest run time; `None` where fio told none.
    pub fn context_switches_per_second(&self) -> Option<f64> {
        let switches: Option<u64> = self.jobs.iter().map(|job| job.ctx).sum();
        let longest_ms = self.jobs.iter().map(|job| job.job_runtime).max();
        let ms = longest_ms.filter(|ms| *ms > 0)?;
        Some(switches? as f64 * 1e3 / ms as f64)
    }

    /// Percentage of the requested rates that was reached, the smallest if there are several. `None` if unknown,
    /// because `group_reporting` has put jobs with different names together.
    pub fn smallest_reached_rate_percent(&self, rates: &[RequestedRate]) -> Option<f64> {
        let all: Option<Vec<f64>> = rates
            .iter()
            .map(|rate| self.reached_rate_percent(rate, rates))
            .collect();
        all?.into_iter().min_by(f64::total_cmp)
    }

    /// Percentage of a rate that was reached, together with the job's other `rates` in the same direction. A Poisson process
    /// may have as few arrivals as chance allows.
    fn reached_rate_percent(&self, rate: &RequestedRate, rates: &[RequestedRate]) -> Option<f64> {
        let asked: f64 = rates
            .iter()
            .filter(|other| (&other.job, &other.direction) == (&rate.job, &rate.direction))
            .map(|other| other.per_second)
            .sum();
        let mut per_second = 0.0;
        let (mut ios, mut jobs) = (0, 0);
        for job in self.jobs.iter().filter(|job| job.jobname == rate.job) {
            let done = match rate.direction.as_str() {
                "write" => &job.write,
                _ => &job.read,
            };
            let amount = match rate.unit.as_str() {
                "bytes" => done.io_bytes,
                _ => done.total_ios,
            };
            per_second += amount as f64 / (done.runtime.max(1) as f64 / 1e3);
            ios += done.total_ios;
            jobs += 1;
        }
        if jobs == 0 {
            return None;
        }
        let share = per_second / asked;
        let expected_ios = ios as f64 / share.max(f64::MIN_POSITIVE);
        let spread = DEVIATIONS_OF_CHANCE * expected_ios.sqrt();
        if rate.poisson && ios > 0 && ios as f64 >= expected_ios - spread {
            return Some(100.0);
        }
        Some((100.0 * share).min(100.0))
    }
}

/// A Poisson process falls so many standard deviations below its mean once in 700 runs.
const DEVIATIONS_OF_CHANCE: f64 = 3.0;

/// Byte position at which the first JSON document begins; `None` if there is none.
fn find_fio_json_start(text: &str) -> Option<usize> {
    let is_fio = text.contains("\"fio version\"");
    is_fio.then(|| find_line_starting_with_brace(text).or_else(|| text.find('{')))?
}

/// Byte position of the next document: a brace at the start of a line, or right behind the document before. fio's
/// messages may have braces inside a line.
fn find_line_starting_with_brace(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('{') {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// Parses the document at the start of a text; returns its length in bytes, too.
fn parse_leading_document_and_length(text: &str) -> Result<(FioOutput, usize), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<FioOutput>();
    match values.next() {
        Some(Ok(output)) => Ok((output, values.byte_offset())),
        Some(Err(e)) => Err(format!("no complete fio JSON: {e}")),
        None => Err("no complete fio JSON".to_owned()),
    }
}

impl FioJob {
    fn total_ios(&self) -> u64 {
        self.directions_with_ios().map(|d| d.total_ios).sum()
    }

    fn directions_with_ios(&self) -> impl Iterator<Item = &FioDirection> {
        [&self.read, &self.write, &self.trim]
            .into_iter()
            .filter(|d| d.total_ios > 0)
    }
}

fn fill_run_from_jobs(run: &mut RunRecord, jobs: &[&FioJob]) -> Result<(), String> {
    if let Some(job) = jobs.iter().find(|j| j.error != 0) {
        return Err(format!(
            "fio job '{}' ended with error {}",
            job.jobname, job.error
        ));
    }
    let all: Vec<&FioDirection> = jobs.iter().flat_map(|j| j.directions_with_ios()).collect();
    let ios: u64 = all.iter().map(|d| d.total_ios).sum();
    let ms = runtime_of_successive_groups_ms(jobs);
    if ios == 0 || ms == 0 {
        return Err("fio has finished no request".to_owned());
    }
    run.duration_ns = ms * 1_000_000;
    let seconds = ms as f64 / 1e3;
    let bytes: u64 = all.iter().map(|d| d.io_bytes).sum();
    let mut metrics = vec![
        ("iops", ios as f64 / seconds),
        ("bandwidth_mbs", bytes as f64 / seconds / 1e6),
    ];
    metrics.extend(mean_latency_us(&all).map(|mean| ("mean_us", mean)));
    let reads: Vec<&FioDirection> = jobs.iter().map(|job| &job.read).collect();
    let writes: Vec<&FioDirection> = jobs.iter().map(|job| &job.write).collect();
    for (directions, bandwidth, latency) in [
        (reads, "read_mbs", "read_mean_us"),
        (writes, "write_mbs", "write_mean_us"),
    ] {
        if let Some(mean) = mean_latency_us(&directions) {
            let bytes: u64 = directions.iter().map(|d| d.io_bytes).sum();
            metrics.push((bandwidth, bytes as f64 / seconds / 1e6));
            metrics.push((latency, mean));
        }
    }
    let completions = all.iter().map(|direction| direction.completion_times());
    let completions: Vec<&Times> = completions.collect::<Option<_>>().unwrap_or_default();
    metrics.extend(completion_percentiles_us(&completions));
    let longest = all.iter().map(|d| d.longest_ns()).max();
    let max_us = longest.filter(|max| *max > 0);
    metrics.extend(max_us.map(|max| ("max_us", max as f64 / 1e3)));
    metrics.extend(sync_metrics(jobs, seconds));
    let named = metrics.into_iter();
    run.metrics
        .extend(named.map(|(name, value)| (name.to_owned(), value)));
    run.latency = sum_counts_by_middle(completions.iter().map(|times| &times.bins))
        .into_iter()
        .map(|(middle, count)| {
            let (low_ns, high_ns) = fio_bucket_bounds_ns(middle);
            LatencyCount {
                low_ns,
                high_ns,
                count,
            }
        })
        .collect();
    Ok(())
}

/// Metrics of fsync and fdatasync calls over so many seconds; none without such calls.
fn sync_metrics(jobs: &[&FioJob], seconds: f64) -> Vec<(&'static str, f64)> {
    let syncs: Vec<&FioDirection> = jobs
        .iter()
        .map(|job| &job.sync)
        .filter(|sync| sync.total_ios > 0)
        .collect();
    let calls: u64 = syncs.iter().map(|sync| sync.total_ios).sum();
    if calls == 0 {
        return Vec::new();
    }
    let mut metrics = vec![("commits_per_s", calls as f64 / seconds)];
    metrics.extend(mean_latency_us(&syncs).map(|mean| ("sync_mean_us", mean)));
    let p99_us = match syncs[..] {
        [one] => (one.lat_ns.percentile.get("99.000000")).map(|ns| *ns as f64 / 1e3),
        // As for requests, percentiles of several jobs need a histogram from each.
        _ if syncs.iter().any(|sync| sync.lat_ns.bins.is_empty()) => None,
        _ => {
            let bins = sum_counts_by_middle(syncs.iter().map(|sync| &sync.lat_ns.bins));
            Some(histogram_percentile_us(&bins, 99.0))
        }
    };
    metrics.extend(p99_us.map(|p99| ("sync_p99_us", p99)));
    metrics
}

/// Runtime of all jobs in ms: groups run one after the other, the jobs of a group at the same time.
fn runtime_of_successive_groups_ms(jobs: &[&FioJob]) -> u64 {
    let mut groups: BTreeMap<u64, u64> = BTreeMap::new();
    for job in jobs {
        let longest = job
            .directions_with_ios()
            .map(|d| d.runtime)
            .max()
            .unwrap_or(0);
        let group = groups.entry(job.groupid).or_default();
        *group = longest.max(*group);
    }
    groups.values().sum()
}

/// The mean latency in us from submission to completion, over all requests.
fn mean_latency_us(directions: &[&FioDirection]) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_u64);
    for direction in directions {
        let times = if direction.lat_ns.mean > 0.0 {
            &direction.lat_ns
        } else {
            &direction.clat_ns
        };
        let requests = if times.count > 0 {
            times.count
        } else {
            direction.total_ios
        };
        sum += times.mean * requests as f64;
        count += requests;
    }
    (sum > 0.0).then(|| sum / count as f64 / 1e3)
}

fn sum_counts_by_middle<'a>(
    histograms: impl Iterator<Item = &'a BTreeMap<String, u64>>,
) -> BTreeMap<u64, u64> {
    let mut all = BTreeMap::new();
    for (middle, count) in histograms.flatten() {
        if let Ok(middle) = middle.parse::<u64>() {
            *all.entry(middle).or_default() += count;
        }
    }
    all
}

/// Percentiles of the completion latency in us. For a single direction fio prints percentiles; for several, fio's rule is
/// applied to the histograms, if present.
fn completion_percentiles_us(all: &[&Times]) -> Vec<(&'static str, f64)> {
    if let [one] = all {
        return PERCENTILES
            .iter()
            .filter_map(|(name, key)| Some((*name, *one.percentile.get(*key)? as f64 / 1e3)))
            .collect();
    }
    // The sum needs a histogram from every direction.
    if all.is_empty() || all.iter().any(|times| times.bins.is_empty()) {
        return Vec::new();
    }
    let bins = sum_counts_by_middle(all.iter().map(|times| &times.bins));
    let percents = PERCENTILES.iter();
    percents
        .map(|(name, key)| {
            let percent = key.parse::<f64>();
            let us = percent.map(|percent| histogram_percentile_us(&bins, percent));
            (*name, us.unwrap_or_default())
        })
        .collect()
}

/// A percentile of a histogram, in us, by fio's rule.
fn histogram_percentile_us(counts_by_middle_ns: &BTreeMap<u64, u64>, percent: f64) -> f64 {
    let total: u64 = counts_by_middle_ns.values().sum();
    let mut seen = 0;
    let reached = counts_by_middle_ns.iter().find(|(_, count)| {
        seen += **count;
        seen as f64 >= percent / 100.0 * total as f64
    });
    reached.map_or(0.0, |(middle, _)| *middle as f64 / 1e3)
}

/// The bounds of a bucket in fio's histogram, by its middle: exact below 128 ns, then 64 buckets to each doubling (fio's
/// `stat.h`, `FIO_IO_U_PLAT_BITS`).
fn fio_bucket_bounds_ns(middle_ns: u64) -> (u64, u64) {
    let magnitude = (64 - middle_ns.leading_zeros()).saturating_sub(7);
    let low = middle_ns >> magnitude << magnitude;
    (low, low + ((1 << magnitude) - 1))
}

/// Makes a run from each document.
pub(super) fn import_final_documents(
    policy: &str,
    outputs: &[FioOutput],
) -> Result<ImportedRuns, String> {
    let mut all = ImportedRuns::default();
    let mut reports = 0;
    for (index, output) in outputs.iter().enumerate() {
        if outputs
            .get(index + 1)
            .is_some_and(|later| output.is_interim_report_in_same_run(later))
        {
            reports += 1;
        } else {
            all.append_as_later_repeats(import_document_workloads(policy, output)?);
        }
    }
    if reports > 0 {
        all.notes.push(format!(
            "{reports} report(s) that fio printed while it ran (--status-interval) are left out"
        ));
    }
    Ok(all)
}

impl FioOutput {
    /// Whether this document is a report that fio printed during a run, and `later` is from the same run: then the run
    /// began before this report.
    fn is_interim_report_in_same_run(&self, later: &Self) -> bool {
        let runtime = runtime_of_successive_groups_ms(&later.jobs.iter().collect::<Vec<_>>());
        let mut jobs = self.jobs.iter().zip(&later.jobs);
        self.timestamp_ms > 0
            && later.timestamp_ms.saturating_sub(self.timestamp_ms) < runtime
            && self.jobs.len() == later.jobs.len()
            && jobs.all(|(a, b)| {
                (&a.jobname, a.groupid) == (&b.jobname, b.groupid) && a.total_ios() <= b.total_ios()
            })
    }
}

/// Makes a run from a document. Each job is a workload; jobs with the same name and group count together.
fn import_document_workloads(policy: &str, output: &FioOutput) -> Result<ImportedRuns, String> {
    let mut groups: Vec<(String, Vec<&FioJob>)> = Vec::new();
    for job in &output.jobs {
        match groups
            .iter_mut()
            .find(|(name, jobs)| *name == job.jobname && jobs[0].groupid == job.groupid)
        {
            Some((_, jobs)) => jobs.push(job),
            None => groups.push((job.jobname.clone(), vec![job])),
        }
    }
    let mut runs = Vec::new();
    for (workload, jobs) in groups {
        let mut run = new_imported_run(&workload, policy, 0);
        fill_run_from_jobs(&mut run, &jobs)?;
        runs.push(run);
    }
    Ok(ImportedRuns::from_tool("fio", &output.version, runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_fios_bounds() {
        for (middle, low, high) in [(5, 5, 5), (127, 127, 127), (129, 128, 129), (310, 308, 311)] {
            assert_eq!(fio_bucket_bounds_ns(middle), (low, high), "{middle}");
        }
    }

    /// A document with a number of requests in a second, and the time of printing.
    fn output(ios: u64, at_ms: u64) -> String {
        format!(
            "{{\n  \"fio version\" : \"fio-3.33\",\n  \"timestamp_ms\" : {at_ms},\n  \"jobs\" : [{{\"jobname\": \"a\", \
             \"read\": {{\"total_ios\": {ios}, \"runtime\": {}}}}}]\n}}\n",
            1000 * ios / 10
        )
    }

    /// A run with jobs of these objects.
    fn parse_run(jobs: &[String]) -> RunRecord {
        let text = format!(
            "{{\"fio version\": \"fio-3.33\", \"jobs\": [{}]}}",
            jobs.join(", ")
        );
        let mut run = new_imported_run("", "", 0);
        FioOutput::parse_first_document(&text)
            .unwrap()
            .unwrap()
            .fill_metrics_and_histogram(&mut run)
            .unwrap();
        run
    }

    /// A job whose requests take 95 us, with completion times of this length.
    fn job_with_completion_times(ns: u64) -> String {
        format!(
            "{{\"jobname\": \"a\", \"read\": {{\"total_ios\": 8, \"runtime\": 2000, \"lat_ns\": {{\"max\": 99000, \"mean\": 95000.0, \
             \"N\": 8}}, \"clat_ns\": {{\"max\": {ns}, \"mean\": {ns}, \"N\": 8, \"bins\": {{\"{ns}\": 8}}, \
             \"percentile\": {{\"99.000000\": {ns}}}}}}}}}"
        )
    }

    #[test]
    fn completion_times_longer_than_the_whole_latency_are_left_out() {
        let [usual, by_kernel_thread] = [94_000, 5_570_031_248].map(job_with_completion_times);
        let run = parse_run(std::slice::from_ref(&usual));
        assert!(
            run.metrics.contains(&("p99_us".to_owned(), 94.0)),
            "{run:?}"
        );
        assert_eq!(run.latency.len(), 1);
        for jobs in [
            vec![by_kernel_thread.clone()],
            vec![usual, by_kernel_thread],
        ] {
            let run = parse_run(&jobs);
            assert!(
                run.metrics.iter().all(|(name, _)| name != "p99_us"),
                "{run:?}"
            );
            for (name, us) in [("mean_us", 95.0), ("max_us", 99.0)] {
                assert!(run.metrics.contains(&(name.to_owned(), us)), "{run:?}");
            }
            assert!(run.latency.is_empty());
        }
    }

    /// Metrics of fsync calls by name, in jobs with these objects `sync`.
    fn parse_sync_metrics(syncs: &[&str]) -> BTreeMap<String, f64> {
        let jobs: Vec<String> = syncs
            .iter()
            .map(|sync| {
                format!(
                    "{{\"jobname\": \"a\", \"write\": {{\"total_ios\": 8, \"runtime\": 2000}}, \"sync\": {sync}}}"
                )
            })
            .collect();
        let syncs = parse_run(&jobs).metrics.into_iter();
        syncs
            .filter(|(name, _)| name.starts_with("sync_") || name == "commits_per_s")
            .collect()
    }

    #[test]
    fn fsync_calls_have_their_own_metrics() {
        let one = "{\"total_ios\": 4, \"lat_ns\": {\"mean\": 3000.0, \"N\": 4, \"percentile\": {\"99.000000\": 5000}, \
                   \"bins\": {\"2000\": 3, \"5000\": 1}}}";
        let single = parse_sync_metrics(&[one]);
        assert!((single["commits_per_s"] - 2.0).abs() < 1e-9, "{single:?}");
        assert!((single["sync_mean_us"] - 3.0).abs() < 1e-9, "{single:?}");
        assert!((single["sync_p99_us"] - 5.0).abs() < 1e-9, "{single:?}");
        // Two jobs: the percentile is that of the histograms together.
        let both = parse_sync_metrics(&[one, one]);
        assert!((both["commits_per_s"] - 4.0).abs() < 1e-9, "{both:?}");
        assert!((both["sync_p99_us"] - 5.0).abs() < 0.1, "{both:?}");
        let without_bins = one.replace("bins", "other");
        assert!(!parse_sync_metrics(&[one, &without_bins]).contains_key("sync_p99_us"));
        assert!(parse_sync_metrics(&["{}"]).is_empty());
    }

    /// Repeats with their IOPS.
    fn repeats(text: &str) -> Result<Vec<(u32, f64)>, String> {
        let imported =
            import_final_documents("p", &FioOutput::parse_all_documents(text).unwrap()?)?;
        let runs = imported.runs.into_iter();
        Ok(runs.map(|r| (r.key.repeat, r.metrics[0].1)).collect())
    }

    #[test]
    fn documents_one_after_the_other_are_runs() {
        let [one, two] = [output(10, 5000), output(10, 6100)];
        let wanted = Ok(vec![(0, 10.0), (1, 10.0)]);
        for between in ["", "\n\n", "fio: a {warning}\n"] {
            assert_eq!(
                repeats(&format!("{between}{one}{between}{two}{between}")),
                wanted
            );
        }
        assert_eq!(repeats(&format!("{}{}", one.trim(), two.trim())), wanted);
        // Cut off, or something else.
        for (last, part) in [(&two[..40], "EOF"), ("{\"results\": []}", "fio version")] {
            let error = repeats(&format!("{one}{last}")).unwrap_err();
            assert!(
                error.contains("after 1 of fio's") && error.contains(part),
                "{error}"
            );
        }
        // Two reports during a run, the run, and another run.
        let text =
            [(10, 5000), (20, 6000), (25, 6500), (10, 7600)].map(|(ios, at)| output(ios, at));
        let imported = import_final_documents(
            "p",
            &FioOutput::parse_all_documents(&text.concat())
                .unwrap()
                .unwrap(),
        )
        .unwrap();
        assert_eq!(imported.runs.len(), 2);
        assert_eq!(imported.runs[0].duration_ns, 2_500_000_000);
        assert!(
            imported.notes[0].contains("2 report(s)"),
            "{:?}",
            imported.notes
        );
    }

    fn rate(job: &str, direction: &str, per_second: f64, unit: &str) -> RequestedRate {
        RequestedRate {
            job: job.to_owned(),
            direction: direction.to_owned(),
            per_second,
            unit: unit.to_owned(),
            poisson: false,
        }
    }

    #[test]
    fn a_rate_that_a_measurement_does_not_reach_has_its_share() {
        // Two processes in job `a`, and a job that writes.
        let text = r#"{"fio version": "fio-3.33", "jobs": [
            {"jobname": "a", "read": {"total_ios": 300, "runtime": 1000}},
            {"jobname": "a", "read": {"total_ios": 100, "runtime": 500}},
            {"jobname": "b", "write": {"io_bytes": 5000, "total_ios": 5, "runtime": 1000}}]}"#;
        let output = FioOutput::parse_first_document(text).unwrap().unwrap();
        let a = rate("a", "read", 1000.0, "I/Os");
        assert_eq!(
            output.smallest_reached_rate_percent(std::slice::from_ref(&a)),
            Some(50.0)
        );
        let b = rate("b", "write", 20_000.0, "bytes");
        assert_eq!(output.smallest_reached_rate_percent(&[a, b]), Some(25.0));
        // Whatever fio does too early is no more than what was asked for.
        assert_eq!(
            output.smallest_reached_rate_percent(&[rate("a", "read", 100.0, "I/Os")]),
            Some(100.0)
        );
        assert_eq!(
            output.smallest_reached_rate_percent(&[rate("c", "read", 100.0, "I/Os")]),
            None
        );
        assert_eq!(output.smallest_reached_rate_percent(&[]), None);
    }

    #[test]
    fn a_poisson_process_is_held_to_what_its_chance_allows() {
        let reached = |ios: u64, seconds: u64, poisson| {
            let text = format!(
                r#"{{"fio version": "fio-3.33", "jobs": [
                {{"jobname": "a", "read": {{"total_ios": {ios}, "io_bytes": {}, "runtime": {}}}}}]}}"#,
                ios * 4096,
                seconds * 1000
            );
            let output = FioOutput::parse_first_document(&text).unwrap().unwrap();
            let [by_ios, by_bytes] = [(100.0, "I/Os"), (409_600.0, "bytes")].map(|(rate, unit)| {
                let rate = RequestedRate {
                    job: "a".to_owned(),
                    direction: "read".to_owned(),
                    per_second: rate,
                    unit: unit.to_owned(),
                    poisson,
                };
                format!(
                    "{:.0}",
                    output.smallest_reached_rate_percent(&[rate]).unwrap()
                )
            });
            assert_eq!(by_ios, by_bytes);
            by_ios
        };
        // 100 arrivals on average: 70 may be chance, 69 are not; of 10,000 not even 9,699.
        assert_eq!(reached(0, 1, true), "0");
        assert_eq!(reached(70, 1, true), "100");
        assert_eq!(reached(69, 1, true), "69");
        assert_eq!(reached(9_700, 100, true), "100");
        assert_eq!(reached(9_500, 100, true), "95");
        assert_eq!(reached(70, 1, false), "70");
    }

    #[test]
    fn what_is_not_fios_is_not_taken_for_it() {
        assert!(FioOutput::parse_first_document("{\"results\": []}").is_none());
        assert!(
            FioOutput::parse_first_document("fio: x\n{\"fio version\": \"fio-3\"")
                .unwrap()
                .is_err()
        );
        let nothing =
            "fio: a warning\n{\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"a\"}]}";
        let output = FioOutput::parse_first_document(nothing).unwrap().unwrap();
        let error = output
            .fill_metrics_and_histogram(&mut new_imported_run("", "", 0))
            .unwrap_err();
        assert!(error.contains("no request"), "{error}");
    }
}
