//! A workload with hours per day.

use wakepath_sim::LONGEST_UNTIMED;
use wakepath_units::Nanoseconds;
use wakepath_workloads::{Workload, rtapp};

use crate::TuneError;

/// Hours of a day.
pub(crate) const DAY: f64 = 24.0;
/// Tolerance for hours that add up to a day.
const HOURS_OFF: f64 = 1e-9;

/// A machine at rest: a thread that sleeps half a second, twenty times.
const REST: &str = r#"{ "tasks": { "rest": { "loop": 20, "sleep": 500000 } } }"#;

/// A workload with hours per day.
#[derive(Clone, Debug)]
pub struct DailyLoad {
    /// Name of the load in conditions and tables.
    pub name: String,
    /// Workload with a warm-up; `None` for recorded I/O, whose times do not depend on settings.
    pub workload: Option<Workload>,
    /// Hours per day.
    pub hours: f64,
}

impl DailyLoad {
    /// The workload with the measured time divided by `divisor`; the warm-up stays.
    /// `None` for recorded I/O.
    pub fn workload_with_measured_time_divided(&self, divisor: u32) -> Option<Workload> {
        let mut workload = self.workload.clone();
        let divisor = u64::from(divisor.max(1));
        match &mut workload {
            Some(Workload::Fio(file)) => {
                for job in &mut file.jobs {
                    let trace = job.replayed_time(LONGEST_UNTIMED);
                    let limits = job.at_most.into_iter().chain(job.runtime);
                    let whole = limits.chain(trace).min();
                    job.at_most = whole.map(|time| Nanoseconds(time.0 / divisor));
                }
            }
            Some(Workload::Server(file)) => {
                file.at_most = Some(Nanoseconds(file.counted_time().0 / divisor));
            }
            Some(Workload::Tasks(file)) => {
                file.at_most = Some(Nanoseconds(file.simulated_time().0 / divisor));
            }
            Some(Workload::RtApp(_)) | None => {}
        }
        workload
    }

    /// The load with nothing before its measured time, for runs that decide nothing.
    pub(crate) fn without_warm_up(&self) -> Self {
        let mut load = self.clone();
        match &mut load.workload {
            Some(Workload::Fio(file)) => {
                for job in file.jobs.iter_mut().filter(|job| job.ends_only_by_time()) {
                    job.ramp_time = None;
                }
            }
            Some(Workload::Server(file)) => file.warm_up = Nanoseconds(0),
            Some(Workload::Tasks(_) | Workload::RtApp(_)) | None => {}
        }
        load
    }

    /// Names of several fio jobs with separate figures; empty for a single job and other workloads.
    pub fn names_of_several_jobs(&self) -> Vec<&str> {
        match &self.workload {
            Some(Workload::Fio(file)) if file.jobs.len() > 1 => {
                file.jobs.iter().map(|job| job.name.as_str()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether the load has no own rate, so that a slower machine does less in equal time.
    pub fn is_closed_loop(&self) -> bool {
        match &self.workload {
            Some(Workload::Fio(file)) => file.jobs.iter().any(|job| match &job.replay {
                Some(trace) => trace.is_dependent,
                None => !job.is_rate_limited(),
            }),
            Some(Workload::Server(file)) => file.open_rate().is_none(),
            Some(Workload::Tasks(_)) => true,
            Some(Workload::RtApp(_)) | None => false,
        }
    }

    /// Requests in a whole run per request in a run with the measured time divided by `divisor`; 1 if nothing is shortened.
    pub(crate) fn whole_run_over_shortened_run(&self, divisor: u32) -> f64 {
        let file = match &self.workload {
            Some(Workload::Fio(file)) => file,
            Some(Workload::Server(_) | Workload::Tasks(_) | Workload::RtApp(_)) | None => {
                return 1.0;
            }
        };
        let ratios = file.jobs.iter().map(|job| {
            let warm_up = job.ramp_time.filter(|_| job.ends_only_by_time());
            let warm_up = warm_up.map_or(0.0, |time| time.0 as f64);
            let measured = job.at_most.into_iter().chain(job.runtime).min();
            measured.map_or(1.0, |whole| {
                let whole = whole.0 as f64;
                let short = whole / f64::from(divisor.max(1));
                (whole + warm_up) / (short + warm_up).max(1.0)
            })
        });
        ratios.reduce(f64::min).unwrap_or(1.0)
    }

    /// Requests simulated per request measured: the warm-up is simulated, too.
    pub(crate) fn simulated_requests_per_measured(&self, divisor: u32) -> f64 {
        let file = match &self.workload {
            Some(Workload::Fio(file)) => file,
            Some(Workload::Server(file)) => {
                let counted = file.counted_time().0 as f64 / f64::from(divisor.max(1));
                return (counted + file.warm_up.0 as f64) / counted.max(1.0);
            }
            Some(Workload::RtApp(_) | Workload::Tasks(_)) | None => return 1.0,
        };
        let factors = file.jobs.iter().map(|job| {
            let measured = job.at_most.into_iter().chain(job.runtime).min();
            let warm_up = job.ramp_time.filter(|_| job.ends_only_by_time());
            match (measured, warm_up) {
                (Some(measured), Some(warm_up)) if measured.0 > 0 => {
                    let counted = measured.0 as f64 / f64::from(divisor.max(1));
                    (counted + warm_up.0 as f64) / counted
                }
                _ => 1.0,
            }
        });
        factors.fold(1.0, f64::max)
    }
}

/// Whether the loads leave any hour for rest.
pub fn leaves_hours_of_rest(loads: &[DailyLoad]) -> bool {
    let busy: f64 = loads.iter().map(|load| load.hours).sum();
    busy < DAY - HOURS_OFF
}

/// Hours per day left for rest by the loads.
///
/// # Errors
/// Impossible hours, more than a day has, or a name given twice.
pub(crate) fn check_hours_and_count_rest(loads: &[DailyLoad]) -> Result<f64, TuneError> {
    for (index, load) in loads.iter().enumerate() {
        let problem = if !(load.hours.is_finite() && load.hours > 0.0) {
            Some(format!("{} hours per day; give more than 0", load.hours))
        } else if loads[..index].iter().any(|other| other.name == load.name) {
            Some("two loads have this name, which is the file's; rename one file".to_owned())
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(TuneError::Load {
                load: load.name.clone(),
                problem,
            });
        }
    }
    let busy: f64 = loads.iter().map(|load| load.hours).sum();
    if busy > DAY + HOURS_OFF {
        return Err(TuneError::Load {
            load: "all loads together".to_owned(),
            problem: format!("{busy} hours per day; a day has {DAY}"),
        });
    }
    Ok((DAY - busy).max(0.0))
}

/// The workload of a machine at rest.
///
/// # Errors
/// None in practice: the text is built in.
pub fn rest_workload() -> Result<Workload, TuneError> {
    rtapp::parse(REST, "rest")
        .map(Workload::from)
        .map_err(|e| TuneError::Load {
            load: "rest".to_owned(),
            problem: e.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_workloads::block_trace::{BlockTrace, BlockTraceOptions};
    use wakepath_workloads::fio;

    fn load(text: &str, hours: f64) -> DailyLoad {
        let file = fio::parse(text, "a.fio").unwrap();
        DailyLoad {
            name: "a".to_owned(),
            workload: Some(file.with_given_or_default_warm_up(None).into()),
            hours,
        }
    }

    const JOB: &str = "[a]\nfilename=/dev/nvme0n1\nrw=randread\ntime_based\nruntime=800ms\n";

    #[test]
    fn a_shorter_load_keeps_its_warm_up() {
        let whole = load(JOB, 1.0);
        let Some(Workload::Fio(short)) = whole.workload_with_measured_time_divided(4) else {
            panic!("a fio job stays one");
        };
        let Some(Workload::Fio(long)) = &whole.workload else {
            panic!("a fio job");
        };
        assert_eq!(short.jobs[0].at_most, Some(Nanoseconds::from_millis(200)));
        assert_eq!(short.jobs[0].ramp_time, long.jobs[0].ramp_time);
        assert!(long.jobs[0].ramp_time.is_some());
    }

    #[test]
    fn two_loads_with_one_name_are_refused_with_a_way_out() {
        let refused = check_hours_and_count_rest(&[load(JOB, 6.0), load(JOB, 1.0)]);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "a: two loads have this name, which is the file's; rename one file"
        );
        let mut other = load(JOB, 1.0);
        other.name = "b".to_owned();
        let rest = check_hours_and_count_rest(&[load(JOB, 6.0), other]);
        assert!((rest.unwrap() - 17.0).abs() < 1e-9);
    }

    #[test]
    fn a_load_with_a_rate_is_no_closed_loop() {
        assert!(load(JOB, 1.0).is_closed_loop());
        assert!(!load(&format!("{JOB}rate_iops=100\n"), 1.0).is_closed_loop());
    }

    #[test]
    fn a_trace_is_an_open_loop_unless_dependent_and_as_long_as_it_is_simulated() {
        let load = |is_dependent: bool| {
            let options = BlockTraceOptions {
                is_dependent,
                ..BlockTraceOptions::default()
            };
            let text = "0,a,0,Read,0,512,9\n6000000000,a,0,Read,0,512,9\n";
            let trace = BlockTrace::from_text(text.as_bytes(), "t", &options).unwrap();
            DailyLoad {
                name: "a".to_owned(),
                workload: Some(fio::FioJobFile::for_block_trace(trace).into()),
                hours: 1.0,
            }
        };
        assert!(load(true).is_closed_loop() && !load(false).is_closed_loop());
        // A trace of 600 s is simulated for 60 s.
        let Some(Workload::Fio(short)) = load(false).workload_with_measured_time_divided(4) else {
            panic!("a trace is a job");
        };
        assert_eq!(short.jobs[0].at_most, Some(Nanoseconds::from_secs(15)));
    }

    #[test]
    fn more_hours_than_a_day_has_are_refused() {
        let refused = check_hours_and_count_rest(&[load(JOB, 25.0)])
            .unwrap_err()
            .to_string();
        assert!(refused.contains("a day has 24"), "{refused}");
        assert!((check_hours_and_count_rest(&[load(JOB, 20.0)]).unwrap() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn the_built_in_rest_is_a_workload() {
        assert!(rest_workload().is_ok());
    }
}
