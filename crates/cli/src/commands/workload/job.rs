//! Making fio jobs from the I/O that tasks did in a recording.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use wakepath_trace::task_io::{RequestSize, TaskIo, TaskIoProfile};
use wakepath_units::printable::escape_for_one_line;

/// A task with fewer requests becomes no job.
pub(super) const FEWEST_REQUESTS: u64 = 10;
/// Most tasks that become jobs; tasks with most requests come first.
pub(super) const MOST_JOBS: usize = 64;
/// CPU bursts up to this length, in ns, are the cost of a request itself, which every machine has anyway.
const SHORTEST_BURST: u64 = 20_000;
/// Most sizes that a job's `bssplit` lists.
const MOST_SIZES: usize = 10;
/// Largest area of a job, in bytes: a larger file would differ only on real drives.
const LARGEST_AREA: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// A task that becomes a job.
pub(super) struct Job<'a> {
    name: String,
    task: u32,
    io: &'a TaskIo,
}

/// The tasks that become jobs, those with most requests first.
pub(super) fn choose_tasks_with_most_requests(profile: &TaskIoProfile) -> Vec<Job<'_>> {
    let mut tasks: Vec<(u32, &TaskIo)> = profile
        .tasks
        .iter()
        .map(|(task, io)| (*task, io))
        .filter(|(_, io)| count_reads_and_writes(io) >= FEWEST_REQUESTS)
        .collect();
    tasks.sort_by_key(|(task, io)| (std::cmp::Reverse(count_reads_and_writes(io)), *task));
    tasks.truncate(MOST_JOBS);
    let mut names = BTreeSet::new();
    let jobs = tasks.into_iter().map(|(task, io)| {
        let plain = section_name_for_task(io, task);
        let name = make_unique_and_insert_name(plain, task, &mut names);
        Job { name, task, io }
    });
    jobs.collect()
}

/// A section name that no other job has: fio runs sections with the same name as one job.
pub(super) fn make_unique_and_insert_name(
    plain: String,
    task: u32,
    taken_names: &mut BTreeSet<String>,
) -> String {
    let mut name = plain;
    while !taken_names.insert(name.clone()) {
        let _ = write!(name, "-{task}");
    }
    name
}

/// A name of letters, digits and a few signs, made from a task's recorded name.
pub(super) fn plain_name_for_task(recorded: Option<&str>, task: u32) -> String {
    let recorded = recorded.unwrap_or_default().chars();
    let name: String = recorded
        .map(|c| {
            let is_plain = c.is_ascii_alphanumeric() || "-_.".contains(c);
            if is_plain { c } else { '_' }
        })
        .collect();
    if name.is_empty() {
        format!("task-{task}")
    } else {
        name
    }
}

/// A section name made from the task's name, without characters that fio would misread.
fn section_name_for_task(io: &TaskIo, task: u32) -> String {
    let name = plain_name_for_task(io.name.as_deref(), task);
    // fio takes a section `global` as defaults, not as a job.
    if name.eq_ignore_ascii_case("global") {
        format!("task-{task}")
    } else {
        name
    }
}

fn count_reads_and_writes(io: &TaskIo) -> u64 {
    io.count_requests_in_direction(false) + io.count_requests_in_direction(true)
}

/// The job file.
pub(super) fn format_fio_job_file(
    recording: &str,
    profile: &TaskIoProfile,
    jobs: &[Job<'_>],
) -> String {
    let seconds = profile.duration_ns.div_ceil(1_000_000_000).max(1);
    let mut text = format!(
        "; Made by wakepath workload extract of {}: each task is a closed loop.\n\
         [global]\ndirect=1\ntime_based=1\nruntime={seconds}s\n",
        escape_for_one_line(recording)
    );
    for job in jobs {
        append_fio_job_section(&mut text, job);
    }
    text
}

fn append_fio_job_section(text: &mut String, job: &Job<'_>) {
    let io = job.io;
    let [reads, writes] = [
        io.count_requests_in_direction(false),
        io.count_requests_in_direction(true),
    ];
    let mut lines = vec![format!(
        "; task {}: {reads} reads, {writes} writes",
        job.task
    )];
    lines.push(format!("ioengine={}", engine(io)));
    if io.most_in_flight > 1 {
        lines.push(format!("iodepth={}", io.most_in_flight));
    }
    lines.push(format!("rw={}", rw_option_value(io)));
    if reads > 0 && writes > 0 {
        let percent = 100.0 * reads as f64 / (reads + writes) as f64;
        lines.push(format!("rwmixread={percent:.0}"));
    }
    lines.push(block_size_options(io));
    lines.extend(durability_option(io));
    lines.push(format!(
        "size={}m",
        accessed_area_in_whole_mebibytes(io) / MIB
    ));
    lines.extend(think_time_options(io));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n[{}]\n{}", job.name, lines.join("\n"));
}

/// fio's engine that waits as the task did: only a task that waits for I/O by the kernel's count raises the clock.
fn engine(io: &TaskIo) -> &'static str {
    let [without, with] = io.io_waits;
    if without > with {
        "libaio"
    } else if io.most_in_flight > 1 {
        "io_uring"
    } else {
        "psync"
    }
}

/// Value of fio's `rw`: sequential if most requests follow the last.
fn rw_option_value(io: &TaskIo) -> &'static str {
    let sequential = 2 * io.sequential > count_reads_and_writes(io);
    match (
        io.count_requests_in_direction(false) > 0,
        io.count_requests_in_direction(true) > 0,
        sequential,
    ) {
        (true, true, true) => "rw",
        (true, true, false) => "randrw",
        (true, false, true) => "read",
        (true, false, false) => "randread",
        (false, _, true) => "write",
        (false, _, false) => "randwrite",
    }
}

/// fio's option `bs` or `bssplit`, with reads before writes.
fn block_size_options(io: &TaskIo) -> String {
    let sizes = [false, true].map(|write| {
        let mut sizes: Vec<(RequestSize, u64)> = io
            .sizes
            .iter()
            .map(|(size, count)| (*size, *count))
            .filter(|(size, _)| size.write == write)
            .collect();
        sizes.sort_by_key(|(size, count)| (std::cmp::Reverse(*count), *size));
        sizes.truncate(MOST_SIZES);
        sizes
    });
    let used: Vec<&Vec<(RequestSize, u64)>> =
        sizes.iter().filter(|sizes| !sizes.is_empty()).collect();
    let key = if used.iter().all(|sizes| sizes.len() == 1) {
        "bs"
    } else {
        "bssplit"
    };
    let parts: Vec<String> = sizes
        .iter()
        .filter(|sizes| !sizes.is_empty())
        .map(|sizes| format_bssplit_shares(sizes, key == "bs"))
        .collect();
    // A single list counts for reads and for writes.
    format!("{key}={}", parts.join(","))
}

/// Sizes with their shares in %, for `bssplit`. A size whose share rounds to 0 is left out: fio reads 0 as a share that
/// is not given.
fn format_bssplit_shares(sizes: &[(RequestSize, u64)], is_only_size: bool) -> String {
    let counts: Vec<u64> = sizes.iter().map(|(_, count)| *count).collect();
    let with_shares = sizes.iter().zip(whole_percentages_with_sum_100(&counts));
    let shares = with_shares.filter_map(|((size, _), percent)| {
        let bytes = format_bytes_in_k_if_whole(size.bytes);
        match percent {
            _ if is_only_size => Some(bytes),
            0 => None,
            percent => Some(format!("{bytes}/{percent}")),
        }
    });
    shares.collect::<Vec<_>>().join(":")
}

/// Whole percentages with a sum of 100 from counts: the largest remainders are rounded up.
fn whole_percentages_with_sum_100(counts: &[u64]) -> Vec<u64> {
    let all: u128 = counts.iter().map(|count| u128::from(*count)).sum();
    let scaled = counts.iter().map(|count| 100 * u128::from(*count));
    let (mut percentages, remainders): (Vec<u64>, Vec<u128>) = scaled
        .map(|scaled| ((scaled / all.max(1)) as u64, scaled % all.max(1)))
        .unzip();
    let missing = 100_u64.saturating_sub(percentages.iter().sum());
    let mut by_remainder: Vec<usize> = (0..counts.len()).collect();
    by_remainder.sort_by_key(|index| std::cmp::Reverse(remainders[*index]));
    for index in by_remainder.into_iter().take(missing as usize) {
        percentages[index] += 1;
    }
    percentages
}

/// fio's option for writes that end on the media, or for flushes after a fixed number of writes; none for other patterns.
fn durability_option(io: &TaskIo) -> Option<String> {
    if are_all_writes_forced(io) {
        // The kernel flushes after such a write where the file needs that.
        return Some("sync=dsync".to_owned());
    }
    writes_between_flushes(io).map(|writes| format!("fdatasync={writes}"))
}

/// Number of writes between a task's flushes, if nearly all have as many between them.
fn writes_between_flushes(io: &TaskIo) -> Option<u64> {
    let numbers = io.writes_before_flushes.iter();
    let (writes, times) = numbers.max_by_key(|(_, times)| **times)?;
    let is_fixed = *writes > 0 && 10 * u128::from(*times) >= 9 * u128::from(io.flushes);
    is_fixed.then_some(*writes)
}

/// Whether nearly all writes of a task end on the media.
fn are_all_writes_forced(io: &TaskIo) -> bool {
    let writes = io.count_requests_in_direction(true);
    io.forced_writes > 0 && 10 * u128::from(io.forced_writes) >= 9 * u128::from(writes)
}

impl Job<'_> {
    /// What the job does not have of the task's flushes and forced writes, in words.
    pub(super) fn missing_durability(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.io.flushes > 0 && writes_between_flushes(self.io).is_none() {
            missing.push(format!(
                "{}: {} flushes are left out, since the number of writes between them varies",
                self.name, self.io.flushes
            ));
        }
        if self.io.forced_writes > 0 && !are_all_writes_forced(self.io) {
            missing.push(format!(
                "{}: {} writes that ended on the media are plain writes, since the others did not",
                self.name, self.io.forced_writes
            ));
        }
        missing
    }

    /// Number of the task's flushes.
    pub(super) fn flushes(&self) -> u64 {
        self.io.flushes
    }
}

fn format_bytes_in_k_if_whole(bytes: u32) -> String {
    if bytes.is_multiple_of(1024) {
        format!("{}k", bytes / 1024)
    } else {
        bytes.to_string()
    }
}

/// Bytes of the area that a job works on: whole mebibytes, and room for the largest request.
fn accessed_area_in_whole_mebibytes(io: &TaskIo) -> u64 {
    let sectors = io.end_sector.saturating_sub(io.first_sector);
    let largest = io.sizes.keys().map(|size| size.bytes).max().unwrap_or(0);
    let bytes = sectors.saturating_mul(512).min(LARGEST_AREA);
    bytes.max(u64::from(largest)).div_ceil(MIB).max(1) * MIB
}

/// fio's option for a task that keeps a rate in one direction; none for others.
fn rate_option(io: &TaskIo) -> Option<String> {
    let directions = [false, true].map(|writes| io.count_requests_in_direction(writes));
    let is_mixed = directions.iter().all(|count| *count > 0);
    let rate = (1e9 / io.intervals.mean).round();
    (io.keeps_rate() && !is_mixed && rate >= 1.0).then(|| format!("rate_iops={rate}"))
}

/// fio's options for pauses: the mean pause, after as many requests as came between pauses.
fn think_time_options(io: &TaskIo) -> Vec<String> {
    let per_pause = count_reads_and_writes(io) as f64 / io.pauses.max(1) as f64;
    let blocks = if io.pauses == 0 {
        1
    } else {
        (per_pause.round() as u64).max(1)
    };
    let burst = io.burst_ns / io.bursts.max(1);
    let work = if burst < SHORTEST_BURST { 0 } else { burst } * blocks;
    let mut lines = Vec::new();
    let rate = rate_option(io);
    let (pause, spin) = if rate.is_some() {
        (work, work)
    } else {
        // A short time after a sleep is fio's own: it looks at the clock until the pause is over.
        let after_sleep = io.after_sleep_ns / io.pauses.max(1);
        let worked = if after_sleep < SHORTEST_BURST {
            0
        } else {
            after_sleep
        };
        let asleep = io.asleep_ns / io.pauses.max(1);
        (asleep + io.least_usual_lateness_ns() + work, worked + work)
    };
    let [pause_us, spin_us] = [pause, spin.min(pause)].map(|ns| (ns + 500) / 1000);
    lines.extend(rate);
    if pause_us > 0 {
        lines.push(format!("thinktime={pause_us}us"));
    }
    if spin_us > 0 {
        lines.push(format!("thinktime_spin={spin_us}us"));
    }
    if pause_us > 0 && blocks > 1 {
        lines.push(format!("thinktime_blocks={blocks}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rarest_size_has_its_own_share() {
        // Rounded down each, they would leave 4 % to the rarest.
        assert_eq!(
            whole_percentages_with_sum_100(&[399, 299, 199, 99, 4]),
            [40, 30, 20, 10, 0]
        );
        assert_eq!(whole_percentages_with_sum_100(&[1, 1, 1]), [34, 33, 33]);
    }

    #[test]
    fn a_fixed_number_of_writes_between_flushes_is_an_option() {
        let task = |numbers: &[(u64, u64)], forced_writes| TaskIo {
            flushes: numbers.iter().map(|(_, times)| times).sum(),
            writes_before_flushes: numbers.iter().copied().collect(),
            forced_writes,
            sizes: [(
                RequestSize {
                    write: true,
                    bytes: 4096,
                },
                20,
            )]
            .into(),
            ..TaskIo::default()
        };
        let option = |numbers: &[(u64, u64)], forced| durability_option(&task(numbers, forced));
        assert_eq!(option(&[(1, 1), (4, 9)], 0).unwrap(), "fdatasync=4");
        for numbers in [&[][..], &[(1, 20)]] {
            assert_eq!(option(numbers, 20).unwrap(), "sync=dsync");
        }
        for (numbers, forced) in [
            (&[(1, 2), (4, 8)][..], 0),
            (&[(0, 20)], 0),
            (&[], 0),
            (&[], 10),
        ] {
            assert_eq!(option(numbers, forced), None, "{numbers:?} {forced}");
        }
        let io = task(&[(1, 2), (4, 8)], 10);
        let job = Job {
            name: "db".to_owned(),
            task: 7,
            io: &io,
        };
        assert_eq!(
            job.missing_durability(),
            [
                "db: 10 flushes are left out, since the number of writes between them varies",
                "db: 10 writes that ended on the media are plain writes, since the others did not"
            ]
        );
    }

    #[test]
    fn a_made_up_name_is_not_given_again() {
        let mut names = BTreeSet::new();
        let tasks = [("fio", 1), ("fio", 2), ("fio-2", 3), ("fio", 2)];
        let made = tasks
            .map(|(name, task)| make_unique_and_insert_name(name.to_owned(), task, &mut names));
        assert_eq!(made, ["fio", "fio-2", "fio-2-3", "fio-2-2"]);
    }
}
