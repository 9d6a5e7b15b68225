//! Notes that `wakepath sim` prints beside its tables.

use std::collections::BTreeMap;
use std::path::Path;

use wakepath_compare::{describe_drift, describe_missed_rate, mean_change_if_significant};
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{DriveModel, Origin};
use wakepath_sim::{Drift, LONGEST_UNTIMED, RateRun, ReplayRun, Run};
use wakepath_study::plan::requested_rates;
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};
use wakepath_units::printable::escape_for_one_line;
use wakepath_units::{Nanoseconds, median};
use wakepath_workloads::Workload;
use wakepath_workloads::fio::FioJob;

use crate::messages::{self, MessageKind, note};
use crate::output::{Format, count_with_noun};

/// Notes how much of each run's beginning was left out, beside a table or a recording.
pub(super) fn note_warm_up_and_mostly_paused_jobs(
    workload: &Workload,
    format: Format,
    is_recorded: bool,
) {
    let warm_up = match workload {
        Workload::Fio(file) => file.earliest_counting_start_after_ramp(),
        Workload::Server(file) => Some(file.warm_up).filter(|time| time.0 > 0),
        Workload::RtApp(_) | Workload::Tasks(_) => None,
    };
    if let Some(time) = warm_up.filter(|_| format == Format::Table || is_recorded) {
        let recorded = if is_recorded {
            "; the recording has them, and `explain` counts them"
        } else {
            ""
        };
        note!(
            "the first {} s are a warm-up and do not count (--warm-up){recorded}",
            time.as_secs_f64()
        );
    }
    let Workload::Fio(file) = workload else {
        return;
    };
    for job in file.jobs_without_warm_up_that_mostly_pause() {
        note!(
            "job `{}` pauses for as long as it runs: it has no warm-up, and counts from its first request",
            job.name
        );
    }
}

/// Notes fio jobs with a `ramp_time` that `--seconds` cuts.
pub(super) fn note_ramps_that_a_limit_cuts(workload: &Workload, at_most: Option<Nanoseconds>) {
    let (Workload::Fio(file), Some(at_most)) = (workload, at_most) else {
        return;
    };
    for job in &file.jobs {
        let left = job.clone().with_time_limit(at_most).ramp_time;
        if let (Some(asked), Some(left)) = (job.ramp_time, left)
            && left < asked
        {
            note!(
                "job `{}`: {} s of its ramp_time of {} s are simulated (--seconds)",
                escape_for_one_line(&job.name),
                left.as_secs_f64(),
                asked.as_secs_f64()
            );
        }
    }
}

/// Notes which figures of a server are assumed.
pub(super) fn note_assumed_figures_of_server(workload: &Workload) {
    let Workload::Server(file) = workload else {
        return;
    };
    let assumed = file.assumed_figures();
    let each: Vec<String> = (assumed.iter())
        .map(|(key, why)| format!("{key} ({})", escape_for_one_line(why)))
        .collect();
    if !each.is_empty() {
        let name = escape_for_one_line(&file.name);
        note!("assumed of server `{name}`: {}", each.join(", "));
    }
}

/// A sentence if a server cannot keep up with its arrivals, with the rate that it can; `None` if it keeps up.
fn overload_sentence_if_any(name: &str, rate: f64, comparison: &SimComparison) -> Option<String> {
    let each: Vec<String> = (comparison.results.iter())
        .filter_map(|result| {
            let servers = result.runs.iter().filter_map(|run| run.server.as_ref());
            let replied = median(servers.clone().map(|server| server.replied_per_second))?;
            let refused = servers.map(|server| server.refused).max().unwrap_or(0);
            let dropped = match refused {
                0 => String::new(),
                some => format!(" (its full queue refused {some} in a run)"),
            };
            (!keeps_up(result)).then(|| format!("{replied:.0}{dropped} under {}", result.policy))
        })
        .collect();
    (!each.is_empty()).then(|| {
        format!(
            "server `{}` cannot keep up with {rate:.0} requests per second, so that latency grows for as long as the run lasts; the \
             rate that it can do: {}",
            escape_for_one_line(name),
            each.join(", ")
        )
    })
}

/// Percentage of the arrivals that have to get their reply within a run.
const KEEPS_UP: f64 = 99.0;

/// Whether a server answers as fast as requests arrive, if they do not wait for replies.
fn keeps_up(result: &SimulatedPolicy) -> bool {
    median_worst_reached_percent(result).is_none_or(|percent| percent >= KEEPS_UP)
}

/// Requests that a 99th percentile takes: ten lie beyond it. A 99.9th takes ten times as many.
const REQUESTS_OF_P99: u64 = 1000;

/// Notes beside a table that percentiles are of few requests, where a run, or a job in a run, has too few for its 99th.
pub(super) fn note_percentiles_of_few_requests(comparison: &SimComparison, format: Format) {
    let runs = comparison.results.iter().flat_map(|result| &result.runs);
    let has_jobs = runs.clone().any(|run| !run.jobs.is_empty());
    let counts = runs.flat_map(|run| {
        let jobs = run.jobs.iter().map(|job| job.reads + job.writes);
        jobs.chain([run.requests])
    });
    let fewest = counts.filter(|count| *count > 0).min();
    let few = fewest.filter(|fewest| *fewest < REQUESTS_OF_P99);
    if let (Some(few), Format::Table) = (few, format) {
        note!(
            "a {} has {}: a 99th percentile takes {REQUESTS_OF_P99}, and a 99.9th ten times as many; of fewer it is nearly the \
             longest (--seconds)",
            if has_jobs { "job" } else { "run" },
            count_with_noun(few, "request")
        );
    }
}

/// Notes policies under which the latency drifts: it had not settled.
pub(super) fn note_drifting_latencies(job: &Path, comparison: &SimComparison) {
    let has_server =
        (comparison.results.iter().flat_map(|result| &result.runs)).any(|run| run.server.is_some());
    let drifts: Vec<(String, f64)> = comparison
        .results
        .iter()
        // The latency of a server that cannot keep up grows without end, which another warning says.
        .filter(|result| !has_server || keeps_up(result))
        .filter_map(|result| {
            let drifts: Vec<f64> = result
                .runs
                .iter()
                .filter_map(|run| Some(run.drift?.percent))
                .collect();
            let percent = match &result.runs[..] {
                [_, _, _, _, ..] => mean_change_if_significant(&drifts)?,
                // With too few runs for an interval between runs, each run's own interval decides.
                runs => {
                    let sure = |run: &Run| Some(run.drift.filter(Drift::is_significant)?.percent);
                    let sure: Option<Vec<f64>> = runs.iter().map(sure).collect();
                    median(sure?)?
                }
            };
            Some((result.policy.to_string(), percent))
        })
        .collect();
    let who = if has_server { "the server" } else { "the job" };
    if let Some(warning) = describe_drift(who, &drifts, "--warm-up") {
        let job = job.display().to_string();
        messages::hold_message_until_result(MessageKind::Warning, Some(&job), warning);
    }
}

/// Warns of block traces that the machine cannot keep up with, under the policies with the latest last request.
pub(super) fn warn_of_late_replays(job: &Path, comparison: &SimComparison) {
    let mut latest: Option<(&SimulatedPolicy, ReplayRun)> = None;
    for result in &comparison.results {
        for replay in result.runs.iter().flat_map(|run| &run.replays) {
            let is_later = latest.is_none_or(|(_, worst)| replay.last_late_s > worst.last_late_s);
            if !keeps_up_with_trace(replay) && is_later {
                latest = Some((result, *replay));
            }
        }
    }
    let Some((result, replay)) = latest else {
        return;
    };
    let text = format!(
        "drive and CPUs cannot keep up with the trace: under {} the last of {} requests begins {:.3} s later than in the trace, and \
         {:.0} requests/s are done of {:.0}; latencies count from the late begin",
        result.policy, replay.requests, replay.last_late_s, replay.done_per_s, replay.asked_per_s
    );
    let place = job.display().to_string();
    messages::hold_message_until_result(MessageKind::Warning, Some(&place), text);
}

/// Warns of a trace or log with a request beyond the size that is assumed of a drive whose size is not known.
pub(super) fn warn_of_requests_beyond_assumed_size(workload: &Workload, drive: &DriveModel) {
    let Workload::Fio(file) = workload else {
        return;
    };
    if drive.capacity_gb.is_given() {
        // The simulator refuses such a request.
        return;
    }
    let capacity = drive.capacity_in_bytes();
    for job in &file.jobs {
        let origin = match (&job.replay, &job.io_log.log) {
            (Some(trace), _) => &trace.origin,
            (None, Some(log)) => &log.origin,
            (None, None) => continue,
        };
        let Some(totals) = job
            .replayed_totals()
            .filter(|totals| totals.end_byte > capacity)
        else {
            continue;
        };
        let text = format!(
            "the request ends at byte {}, beyond the {} GB that are assumed of a drive whose size is not known; drive.capacity_gb in \
             the machine's file says it",
            totals.end_byte,
            capacity / 1_000_000_000
        );
        let place = format!("{origin}:{}", totals.end_line);
        messages::hold_message_until_result(MessageKind::Warning, Some(&place), text);
    }
}

/// Share of a trace's rate below which the machine cannot keep up with the trace.
const LEAST_SHARE_KEPT_UP: f64 = 0.98;

/// Lateness of the last request below which a machine keeps up, in seconds: a short trace has a low rate by a single wake-up.
const LEAST_LATENESS_S: f64 = 1e-3;

/// Whether the machine begins a trace's requests nearly as fast as they come.
fn keeps_up_with_trace(replay: &ReplayRun) -> bool {
    replay.done_per_s >= LEAST_SHARE_KEPT_UP * replay.asked_per_s
        || replay.last_late_s < LEAST_LATENESS_S
}

/// Notes jobs that had more to do than was simulated.
pub(super) fn note_jobs_ended_by_time(workload: &Workload, comparison: &SimComparison) {
    let Workload::Fio(file) = workload else {
        return;
    };
    let runs: Vec<&Run> = comparison
        .results
        .iter()
        .flat_map(|result| &result.runs)
        .collect();
    let mut cut: BTreeMap<Nanoseconds, Vec<String>> = BTreeMap::new();
    for (index, job) in file.jobs.iter().enumerate() {
        if runs.iter().any(|run| run.cut_jobs.contains(&index)) {
            let after = job.at_most.unwrap_or(LONGEST_UNTIMED);
            cut.entry(after)
                .or_default()
                .push(format!("`{}`", job.name));
        }
    }
    for (after, jobs) in cut {
        let (who, whose) = match jobs.as_slice() {
            [job] => (format!("job {job} has"), "it"),
            jobs => (format!("jobs {} have", jobs.join(", ")), "each"),
        };
        let seconds = after.as_secs_f64();
        note!(
            "{who} more to do than the {seconds} s that were simulated of {whose}; \
             --seconds N simulates more or less"
        );
    }
}

/// Notes the depths that jobs with a `latency_target` ended with, over all policies.
pub(super) fn note_found_depths(workload: &Workload, comparison: &SimComparison) {
    let Workload::Fio(file) = workload else {
        return;
    };
    for (index, job) in file.jobs.iter().enumerate() {
        note_missed_latency_target(index, job, comparison);
        let depths = depths_found_by_job(index, comparison);
        let (Some(least), Some(most)) = (depths.iter().min(), depths.iter().max()) else {
            continue;
        };
        let name = escape_for_one_line(&job.name);
        let depth = if least == most {
            format!("depth {least}")
        } else {
            format!("depths from {least} to {most}")
        };
        note!("job `{name}` ended with {depth} for its latency_target");
    }
}

/// Notes the policies under which no depth kept to a job's `latency_target`.
fn note_missed_latency_target(index: usize, job: &FioJob, comparison: &SimComparison) {
    let missed: Vec<String> = (comparison.results.iter())
        .filter(|result| {
            let mut ended = result.runs.iter().flat_map(|run| &run.found_depths);
            ended.any(|found| found.job == index && found.misses_target)
        })
        .map(|result| result.policy.to_string())
        .collect();
    if missed.is_empty() {
        return;
    }
    note!(
        "job `{}`: not even one I/O at a time keeps to its latency_target of {} us under {}",
        escape_for_one_line(&job.name),
        job.latency_target.target.0 as f64 / 1e3,
        missed.join(", ")
    );
}

/// Depths that a job's processes found, in all runs under all policies.
fn depths_found_by_job(index: usize, comparison: &SimComparison) -> Vec<u32> {
    let runs = comparison.results.iter().flat_map(|result| &result.runs);
    let found = runs.flat_map(|run| &run.found_depths);
    found
        .filter(|found| found.job == index && !found.misses_target)
        .map(|found| found.depth)
        .collect()
}

/// Notes how much buffered data came from the drive and reached it, on which the figures' meaning depends.
pub(super) fn note_use_of_page_cache(machine: &Machine, comparison: &SimComparison) {
    let first = comparison
        .results
        .first()
        .and_then(|result| result.runs.first());
    let Some((run, cache)) = first.and_then(|run| Some((run, run.page_cache?))) else {
        return;
    };
    let gib = &machine.page_cache.memory_gib;
    let memory = match gib.origin {
        Origin::Assumed(_) => format!("{} GiB of memory, which are assumed", gib.value),
        _ => format!("{} GiB of memory", gib.value),
    };
    if cache.read_requests > 0 {
        let assumed = if machine.drive.read_ahead_kb.is_given() {
            ""
        } else {
            ", which are assumed"
        };
        note!(
            "buffered reads: of {} copied, {} came from the drive, in requests of {:.0} KiB; it reads {} KiB ahead{assumed}; {memory}",
            megabytes(cache.copied_bytes),
            megabytes(cache.read_bytes),
            cache.read_bytes as f64 / cache.read_requests as f64 / 1024.0,
            machine.drive.read_ahead_bytes() / 1024,
        );
    }
    if cache.dirtied_bytes > 0 || cache.read_requests == 0 {
        note!(
            "buffered writes: of {} dirtied, {} were written back within {:.3} s; writers were held back for {:.3} s; {memory}",
            megabytes(cache.dirtied_bytes),
            megabytes(cache.written_back_bytes),
            run.seconds,
            cache.held_back_seconds,
        );
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}

/// Notes jobs that ask for polled completions of a drive whose queues are all interrupted.
pub(super) fn note_polling_without_polled_queues(workload: &Workload, machine: &Machine) {
    let Workload::Fio(file) = workload else {
        return;
    };
    if machine.io_path.completion.poll_queues.unwrap_or(0) > 0 {
        return;
    }
    for job in file.jobs.iter().filter(|job| job.polls_for_completions()) {
        note!(
            "job `{}`: no queue of the drive is polled (nvme.poll_queues): fio spins until the interrupt, as on this kernel",
            job.name
        );
    }
}

/// Notes where a power limit decided how fast the machine was.
pub(super) fn note_policies_at_power_limit(comparison: &SimComparison) {
    for result in &comparison.results {
        let percent = median(
            result
                .runs
                .iter()
                .filter_map(|run| run.energy.as_ref()?.power_limited_percent),
        )
        .unwrap_or(0.0);
        if percent >= 1.0 {
            note!(
                "a power limit of the processor held its clock down for {percent:.0} % of the time under {}",
                result.policy
            );
        }
    }
}

/// A sentence if jobs asked for a higher rate than they got; `None` if all rates were reached.
pub(super) fn missed_rates_sentence_if_any(
    workload: &Workload,
    comparison: &SimComparison,
) -> Option<String> {
    if workload.block_trace().is_some() {
        // The warning of late replays says more.
        return None;
    }
    if let Workload::Server(file) = workload {
        return overload_sentence_if_any(&file.name, file.open_rate()?, comparison);
    }
    let rates = requested_rates(workload);
    let reached: Vec<(String, f64)> = comparison
        .results
        .iter()
        .filter_map(|result| {
            Some((
                result.policy.to_string(),
                median_worst_reached_percent(result)?,
            ))
        })
        .collect();
    let who = match &rates[..] {
        [only] => format!("job `{}`", only.job),
        _ => "the workload".to_owned(),
    };
    describe_missed_rate(&who, &rates, &reached)
}

/// Percentage of the requested rate that the worst rate reached, as a median over runs.
fn median_worst_reached_percent(result: &SimulatedPolicy) -> Option<f64> {
    let shares: Option<Vec<f64>> = result
        .runs
        .iter()
        .map(|run| {
            run.rates
                .iter()
                .map(RateRun::achieved_share)
                .min_by(f64::total_cmp)
        })
        .collect();
    Some(100.0 * median(shares?)?)
}
