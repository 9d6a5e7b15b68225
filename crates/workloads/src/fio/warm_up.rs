//! Warm-up for time-based jobs without `ramp_time`: the start that is not counted.
//!
//! Governors learn. A count from the first request would measure learning, equally in every repeat, so that no
//! interval between repeats reveals the bias.
//!
//! fio before 3.35 makes no pauses (`thinktime`) after a `ramp_time` until it has sent as many requests as in it: its count of
//! requests since the last pause began anew, and that of requests at the last pause did not (mended by its commit cfc4ad2e).
//! [`separate_warm_up`] makes two runs of such a job file.

use std::fmt::Write as _;

use wakepath_units::Nanoseconds;

use super::{FioJob, FioJobFile, Rate, line_sets_option_or_opposite};

/// The longest warm-up that is chosen by default. `docs/background/model.md` has how long governors take to settle.
pub const LONGEST_WARM_UP: Nanoseconds = Nanoseconds::from_secs(2);

/// The default warm-up as a multiple of the time that counts. Warm-up costs as much simulation as counted time, and
/// users who ask for short runs do not want to wait.
const MOST_OF_MEASURED: u64 = 10;

impl FioJob {
    /// Whether the job's only end is a time.
    pub fn ends_only_by_time(&self) -> bool {
        self.time_based && self.runtime.is_some()
    }

    /// The job limited to `at_most` of counted time, and its `ramp_time` to the same time, or to the default warm-up of so much
    /// counted time if that is longer.
    #[must_use]
    pub fn with_time_limit(mut self, at_most: Nanoseconds) -> Self {
        self.at_most = Some(at_most);
        let longest_ramp = at_most.max(default_warm_up_for_counted_time(at_most));
        self.ramp_time = self.ramp_time.map(|ramp| ramp.min(longest_ramp));
        self
    }

    /// Time that counts in a job with time as its only end; `None` for other jobs.
    fn counted_runtime_if_only_end(&self) -> Option<Nanoseconds> {
        let runtime = self.runtime.filter(|_| self.ends_only_by_time())?;
        Some(self.at_most.map_or(runtime, |most| most.min(runtime)))
    }

    /// The longest time between two requests of the job: its pause, or the time between two requests at its rate.
    fn longest_time_between_requests(&self) -> Nanoseconds {
        let rates = self.requested_rates();
        let [read_block, write_block, _] = self.smallest_block_per_direction();
        let limited = [(rates.read, read_block), (rates.write, write_block)];
        let apart = limited
            .into_iter()
            .filter_map(|(rate, block)| Some(ns_between_requests(rate?, block)));
        Nanoseconds(apart.min().unwrap_or(0).max(self.thinktime.0))
    }

    /// The job's default warm-up; `None` if work ends the job, or with a `ramp_time` or a steady state. A job that pauses for
    /// as long as it runs, or longer, has a warm-up of 0: otherwise all its requests may lie inside.
    fn default_warm_up_if_ended_by_time(&self) -> Option<Nanoseconds> {
        // A steady state is looked for from the first request, or after `ss_ramp`, and ends the job: the default warm-up could
        // leave nothing to count.
        let counted = self
            .counted_runtime_if_only_end()
            .filter(|_| self.can_have_warm_up() && self.steady_state.seconds == 0)?;
        if self.longest_time_between_requests() >= counted {
            return Some(Nanoseconds::ZERO);
        }
        Some(default_warm_up_for_counted_time(counted))
    }

    fn can_have_warm_up(&self) -> bool {
        self.ends_only_by_time() && self.ramp_time.is_none()
    }
}

/// Default warm-up before so much time that counts.
fn default_warm_up_for_counted_time(counted: Nanoseconds) -> Nanoseconds {
    let most = counted.0.saturating_mul(MOST_OF_MEASURED);
    Nanoseconds(most.min(LONGEST_WARM_UP.0))
}

/// Time in ns between two requests with `block` bytes at a rate.
fn ns_between_requests(rate: Rate, block: u64) -> u64 {
    let second = Nanoseconds::from_secs(1).0;
    match rate {
        Rate::Ios(per_second) => second / per_second.max(1),
        Rate::Bytes(per_second) => {
            let wait = u128::from(second) * u128::from(block) / u128::from(per_second.max(1));
            u64::try_from(wait).unwrap_or(u64::MAX)
        }
    }
}

impl FioJobFile {
    /// A copy with a warm-up, given or default, as `ramp_time` for each job that only time ends. An existing
    /// `ramp_time` stays. Jobs that a steady state may end have no default warm-up: `ss_ramp` is fio's own.
    #[must_use]
    pub fn with_given_or_default_warm_up(mut self, warm_up: Option<Nanoseconds>) -> Self {
        for job in &mut self.jobs {
            if job.can_have_warm_up() {
                job.ramp_time = warm_up.or_else(|| job.default_warm_up_if_ended_by_time());
            }
        }
        self
    }

    /// Jobs without a warm-up that pause for as long as they run, or longer: their first requests count.
    pub fn jobs_without_warm_up_that_mostly_pause(&self) -> impl Iterator<Item = &FioJob> {
        self.jobs.iter().filter(|job| {
            let has_none = job.ramp_time.is_none_or(|time| time.0 == 0);
            let counted = job.counted_runtime_if_only_end();
            has_none
                && counted.is_some_and(|counted| job.longest_time_between_requests() >= counted)
        })
    }

    /// Time from the start at which the first of the jobs without a stonewall begins to count; `None` if that is at the
    /// start, or no job has a `ramp_time`.
    pub fn earliest_counting_start_after_ramp(&self) -> Option<Nanoseconds> {
        let numbered = self.jobs.iter().enumerate();
        let first_group = numbered.take_while(|(index, job)| *index == 0 || !job.stonewall);
        let counts_from = first_group.map(|(_, job)| {
            let ramp = job.ramp_time.unwrap_or(Nanoseconds::ZERO);
            Nanoseconds(ramp.0.saturating_add(job.startdelay.0.0))
        });
        let ramps = self.jobs.iter().filter_map(|job| job.ramp_time);
        let has_ramp = ramps.into_iter().any(|ramp| ramp.0 > 0);
        counts_from.min().filter(|from| has_ramp && from.0 > 0)
    }
}

/// Writes a job file's text with the `ramp_time` values from `with_warm_up`; `as_read` is the same file as read from the text.
pub fn insert_ramp_times(text: &str, with_warm_up: &FioJobFile, as_read: &FioJobFile) -> String {
    let mut changed = String::with_capacity(text.len() + 64);
    let given = with_warm_up.jobs.iter().zip(&as_read.jobs);
    let mut added: Vec<(usize, Nanoseconds)> = given
        .filter(|(_, before)| before.ramp_time.is_none())
        .filter_map(|(job, before)| Some((before.line, job.ramp_time?)))
        .filter(|(_, time)| time.0 > 0)
        .collect();
    added.sort_unstable();
    added.dedup();
    let mut next = added.into_iter().peekable();
    for (index, line) in text.lines().enumerate() {
        changed.push_str(line);
        changed.push('\n');
        while let Some((_, time)) = next.next_if(|(at, _)| *at == index + 1) {
            let _ = writeln!(changed, "ramp_time={}us", time.as_micros());
        }
    }
    changed
}

/// A job file as two runs, one after the other, in place of a `ramp_time`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeparateWarmUp {
    /// Job file of the warm-up, whose figures are thrown away. Every job is ended by time, after the longest `ramp_time`
    /// of the file. Random offsets differ from those of the run that counts, so that no cache has its blocks.
    pub warm_up_text: String,
    /// Job file of the run that counts, without `ramp_time`.
    pub counted_text: String,
    /// How long each job of the warm-up runs.
    pub lasts: Nanoseconds,
}

/// Splits a job file into a warm-up and a run that counts; `None` where no job has both pauses and a `ramp_time`. `file` is
/// `text` as read.
pub fn separate_warm_up(text: &str, file: &FioJobFile) -> Option<SeparateWarmUp> {
    let has_ramp = |job: &FioJob| job.ramp_time.is_some_and(|ramp| ramp.0 > 0);
    let mut jobs = file.jobs.iter();
    if !jobs.any(|job| has_ramp(job) && job.thinktime.0 > 0) {
        return None;
    }
    let ramps = file.jobs.iter().filter_map(|job| job.ramp_time);
    let lasts = Nanoseconds(ramps.map(|ramp| ramp.0).max()?);
    let headers: Vec<usize> = file.jobs.iter().map(|job| job.line).collect();
    let (mut warm_up_text, mut counted_text) = (String::new(), String::new());
    for (index, line) in text.lines().enumerate() {
        if !line_sets_option_or_opposite(line, "ramp_time") {
            let _ = writeln!(counted_text, "{line}");
        }
        if !REPLACED_IN_WARM_UP
            .iter()
            .any(|option| line_sets_option_or_opposite(line, option))
        {
            let _ = writeln!(warm_up_text, "{line}");
        }
        if headers.contains(&(index + 1)) {
            let _ = writeln!(
                warm_up_text,
                "time_based=1\nruntime={}us\nrandrepeat=0",
                lasts.as_micros()
            );
        }
    }
    Some(SeparateWarmUp {
        warm_up_text,
        counted_text,
        lasts,
    })
}

/// Options that a warm-up of its own has otherwise than the job file.
const REPLACED_IN_WARM_UP: [&str; 6] = [
    "ramp_time",
    "time_based",
    "runtime",
    "randrepeat",
    "allrandrepeat",
    "randseed",
];

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const TEXT: &str = "[global]\nrw=randread\ndirect=1\nsize=1g\n[timed]\ntime_based\nruntime=100ms\n\
                        [by size]\nruntime=9\n[own]\ntime_based\nruntime=9\nramp_time=3\n\
                        [none] ; of its own\ntime_based\nruntime=9\nramp_time=0\n[long]\ntime_based\nruntime=9\n";

    fn ramps(file: &FioJobFile) -> Vec<Option<u64>> {
        let ramps = file.jobs.iter().map(|job| job.ramp_time);
        ramps.map(|ramp| ramp.map(Nanoseconds::as_micros)).collect()
    }

    #[test]
    fn jobs_that_their_time_ends_get_a_warm_up_unless_they_have_one() {
        let read = parse(TEXT, "x").unwrap();
        let most = LONGEST_WARM_UP.as_micros();
        let with_default = read.clone().with_given_or_default_warm_up(None);
        let wanted = [Some(1_000_000), None, Some(3_000_000), Some(0), Some(most)];
        assert_eq!(ramps(&with_default), wanted);
        // fio itself would read the resulting text.
        let text = insert_ramp_times(TEXT, &with_default, &read);
        assert_eq!(ramps(&parse(&text, "x").unwrap()), wanted, "{text}");
        assert_eq!(
            parse(&text, "x").unwrap().to_string(),
            with_default.to_string()
        );
        let second = Nanoseconds::from_secs(1);
        let with_own = read.clone().with_given_or_default_warm_up(Some(second));
        assert_eq!(ramps(&with_own)[0], Some(1_000_000));
        let without = read.with_given_or_default_warm_up(Some(Nanoseconds::ZERO));
        assert_eq!(ramps(&without)[4], Some(0));
    }

    #[test]
    fn a_short_run_has_a_short_warm_up() {
        let mut file = parse("[a]\nrw=randread\ntime_based\nruntime=30\n", "x").unwrap();
        file.jobs[0].at_most = Some(Nanoseconds::from_millis(10));
        let file = file.with_given_or_default_warm_up(None);
        assert_eq!(
            file.earliest_counting_start_after_ramp(),
            Some(Nanoseconds::from_millis(100))
        );
    }

    #[test]
    fn a_job_that_pauses_for_longer_than_it_runs_counts_from_its_first_request() {
        for (pace, has_warm_up) in [
            ("thinktime=5s", false),
            ("thinktime=3s", false),
            ("thinktime=2s", true),
            ("rate_iops=1", true),
            ("rate_iops=1\nthinktime=4s", false),
        ] {
            let text = format!("[a]\nrw=randread\nsize=1m\ntime_based\nruntime=3\n{pace}\n");
            let file = parse(&text, "x")
                .unwrap()
                .with_given_or_default_warm_up(None);
            assert_eq!(
                file.earliest_counting_start_after_ramp().is_some(),
                has_warm_up,
                "{pace}"
            );
            let paused = file.jobs_without_warm_up_that_mostly_pause().count();
            assert_eq!(paused == 0, has_warm_up, "{pace}");
        }
        // What a person asks for is kept, whatever is left of it.
        let text = "[a]\nrw=randread\ntime_based\nruntime=3\nthinktime=5s\n";
        let asked = Some(Nanoseconds::from_secs(2));
        let file = parse(text, "x")
            .unwrap()
            .with_given_or_default_warm_up(asked);
        assert_eq!(file.earliest_counting_start_after_ramp(), asked);
    }

    #[test]
    fn a_job_with_a_steady_state_counts_from_its_first_request() {
        let counts_from = |options: &str, warm_up: Option<Nanoseconds>| {
            let text = format!("[a]\nrw=randread\nsize=1m\ntime_based\nruntime=30\n{options}\n");
            let parsed = parse(&text, "x").unwrap();
            let file = parsed.with_given_or_default_warm_up(warm_up);
            file.earliest_counting_start_after_ramp()
        };
        let second = Nanoseconds::from_secs(1);
        let steady = "ss=iops:10%\nss_dur=2";
        assert_eq!(counts_from("", None), Some(LONGEST_WARM_UP));
        assert_eq!(counts_from(steady, None), None);
        assert_eq!(counts_from(&format!("{steady}\nss_ramp=1"), None), None);
        // What a person asks for is kept.
        assert_eq!(counts_from(steady, Some(second)), Some(second));
        let with_ramp = format!("{steady}\nramp_time=1");
        assert_eq!(counts_from(&with_ramp, None), Some(second));
    }

    #[test]
    fn a_time_limit_holds_for_the_ramp_as_well() {
        let ramp_ms = |given: &str, at_most_ms: u64| {
            let text = format!("[a]\nrw=randread\ntime_based\nruntime=3\n{given}\n");
            let mut file = parse(&text, "x").unwrap();
            let job = file.jobs.remove(0);
            let limited = job.with_time_limit(Nanoseconds::from_millis(at_most_ms));
            limited.ramp_time.map(|ramp| ramp.0 / 1_000_000)
        };
        assert_eq!(ramp_ms("ramp_time=60", 2), Some(20));
        assert_eq!(ramp_ms("ramp_time=60", 1_000), Some(2_000));
        assert_eq!(ramp_ms("ramp_time=60", 10_000), Some(10_000));
        assert_eq!(ramp_ms("ramp_time=60", 100_000), Some(60_000));
        assert_eq!(ramp_ms("", 2), None);
    }

    #[test]
    fn a_job_with_pauses_and_a_ramp_is_split_into_two_runs() {
        let text = "[global]\nrw=randread\nsize=1g\ntime_based\nrandseed=7\n[pauses]\nruntime=5\n ramp_time = 2\n\
                    thinktime=200\n[other]\ntimeout=9\nthinktime=0\n";
        let file = parse(text, "x").unwrap();
        let split = separate_warm_up(text, &file).unwrap();
        assert_eq!(split.lasts, Nanoseconds::from_secs(2));
        let warm_up = parse(&split.warm_up_text, "x").unwrap();
        let counted = parse(&split.counted_text, "x").unwrap();
        for job in &warm_up.jobs {
            assert_eq!(job.runtime, Some(split.lasts), "{}", split.warm_up_text);
            assert!(job.time_based && job.ramp_time.is_none(), "{job:?}");
        }
        assert!(!split.warm_up_text.contains("randseed"));
        assert_eq!(warm_up.jobs[0].thinktime, file.jobs[0].thinktime);
        // What counts is the file but for its `ramp_time`.
        let mut without = file;
        without.jobs[0].ramp_time = None;
        assert_eq!(counted.to_string(), without.to_string());
    }

    #[test]
    fn a_job_without_pauses_or_without_a_ramp_is_not_split() {
        for options in ["ramp_time=2", "thinktime=200", "thinktime=200\nramp_time=0"] {
            let text = format!("[a]\nrw=randread\nsize=1m\ntime_based\nruntime=3\n{options}\n");
            let file = parse(&text, "x").unwrap();
            assert_eq!(separate_warm_up(&text, &file), None, "{options}");
        }
    }
}
