//! How long runs of a workload are simulated.

use wakepath_sim::{LONGEST_TIMED, LONGEST_UNTIMED};
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;
use wakepath_workloads::fio::{FioJob, FioJobFile};

/// Expected duration of a workload's run; `None`: it ends by what it does.
pub(super) fn expected_duration(workload: &Workload) -> Option<Nanoseconds> {
    match workload {
        Workload::Fio(file) => sum_of_longest_jobs_in_groups(file, |job| {
            let runtime = job.runtime?;
            Some(job.at_most.map_or(runtime, |most| most.min(runtime)))
        }),
        Workload::RtApp(file) => file.duration,
        Workload::Server(file) => Some(Nanoseconds(file.warm_up.0 + file.counted_time().0)),
        Workload::Tasks(file) => Some(file.simulated_time()),
    }
}

/// Longest time that a run of a workload is simulated for, warm-up included: what the workload asks for or the time limit of the
/// caller, and [`LONGEST_UNTIMED`] for a fio job or [`LONGEST_TIMED`] for an rt-app file without either.
pub fn longest_simulated_time(workload: &Workload) -> Nanoseconds {
    match workload {
        Workload::Fio(file) => {
            sum_of_longest_jobs_in_groups(file, |job| Some(longest_counted_time(job)))
                .unwrap_or(LONGEST_UNTIMED)
        }
        Workload::RtApp(file) => match (file.at_most, file.duration) {
            (Some(most), Some(duration)) => most.min(duration),
            (Some(time), None) => time,
            (None, duration) => duration.map_or(LONGEST_UNTIMED, |time| time.min(LONGEST_TIMED)),
        },
        Workload::Server(_) | Workload::Tasks(_) => {
            expected_duration(workload).unwrap_or(LONGEST_UNTIMED)
        }
    }
}

/// Longest time that a fio job is simulated for after its `ramp_time`.
fn longest_counted_time(job: &FioJob) -> Nanoseconds {
    let time = job.runtime.or(job.at_most).unwrap_or(LONGEST_UNTIMED);
    job.at_most.map_or(time, |most| most.min(time))
}

/// Sum over groups of jobs of the longest job of each, where `counted_time` is a job's time after its `ramp_time`; `None` if a job
/// has none. A replay takes the time of its trace.
fn sum_of_longest_jobs_in_groups(
    file: &FioJobFile,
    counted_time: impl Fn(&FioJob) -> Option<Nanoseconds>,
) -> Option<Nanoseconds> {
    let mut groups: Vec<Nanoseconds> = Vec::new();
    for job in &file.jobs {
        if let Some(time) = job.replayed_time(LONGEST_UNTIMED) {
            return Some(time);
        }
        let ramp = job.ramp_time.unwrap_or(Nanoseconds::ZERO);
        let time = Nanoseconds(counted_time(job)?.0.saturating_add(ramp.0));
        match groups.last_mut() {
            Some(last) if !job.stonewall => *last = time.max(*last),
            _ => groups.push(time),
        }
    }
    Some(Nanoseconds(groups.iter().map(|time| time.0).sum()))
}

#[cfg(test)]
mod tests {
    use wakepath_workloads::fio;

    use super::*;

    fn whole_milliseconds(time: Nanoseconds) -> u64 {
        time.0 / 1_000_000
    }

    /// Expected and longest time of a fio job file in ms, limited to so many ms.
    fn times_of_jobs(options: &str, at_most_ms: Option<u64>) -> (Option<u64>, u64) {
        let file = fio::parse(&format!("[a]\nrw=randread\nsize=1g\n{options}"), "a.fio").unwrap();
        let workload = Workload::from(file)
            .with_time_limit_and_fio_warm_up(at_most_ms.map(Nanoseconds::from_millis), None);
        (
            expected_duration(&workload).map(whole_milliseconds),
            whole_milliseconds(longest_simulated_time(&workload)),
        )
    }

    #[test]
    fn jobs_last_as_long_as_they_say_or_as_a_caller_lets_them() {
        assert_eq!(times_of_jobs("", None), (None, 60_000));
        assert_eq!(times_of_jobs("", Some(90_000)), (None, 90_000));
        assert_eq!(times_of_jobs("runtime=5", None), (Some(5_000), 5_000));
        assert_eq!(
            times_of_jobs("runtime=5", Some(1_000)),
            (Some(1_000), 1_000)
        );
        let timed = "time_based\nruntime=100d\nramp_time=60\n";
        let days = 100 * 86_400_000;
        assert_eq!(
            times_of_jobs(timed, None),
            (Some(days + 60_000), days + 60_000)
        );
        // A limit holds for the ramp as well, which gets as long as the default warm-up.
        assert_eq!(times_of_jobs(timed, Some(2)), (Some(22), 22));
    }

    #[test]
    fn groups_of_jobs_come_one_after_the_other() {
        let two = "runtime=5\n[b]\nrw=read\nsize=1g\n";
        assert_eq!(times_of_jobs(two, None), (None, 60_000));
        let after = format!("{two}stonewall\nruntime=7\n");
        assert_eq!(times_of_jobs(&after, None), (Some(12_000), 12_000));
    }
}
