//! The spaces, each with a question.

#![expect(
    clippy::expect_used,
    reason = "the problems are constants of this file"
)]

use std::sync::atomic::AtomicBool;

use wakepath_hardware::Machine;
use wakepath_results::{Goal, LoadCondition};
use wakepath_tune::{
    Budget, DailyLoad, SearchObjective, SearchRequest, Simulation, Space, TuneError,
};
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;

/// A space to search, with the question.
pub(crate) struct Problem {
    pub(crate) name: &'static str,
    pub(crate) machine: &'static str,
    pub(crate) job: &'static str,
    pub(crate) hours: f64,
    pub(crate) millis: u64,
    pub(crate) over: &'static [&'static str],
    pub(crate) objective: &'static str,
    pub(crate) condition: &'static str,
}

/// What may be changed where idle states are limited for good.
const IDLE_AND_FREQUENCY: [&str; 5] = [
    "idle",
    "idle-states",
    "cpu-latency",
    "frequency",
    "frequency-limits",
];

/// What may be changed where leases limit idle states.
const LEASES_AND_FREQUENCY: [&str; 4] = ["idle", "psd", "frequency", "frequency-limits"];

/// Problems with limits far from any set's figure, compared with the noise of 30 runs: near a figure chance decides.
pub(crate) const PROBLEMS: [Problem; 5] = [
    Problem {
        name: "board-power",
        machine: "rk3399",
        job: "rw=randread\nbs=4k\ndirect=1\n",
        hours: 8.0,
        millis: 20,
        over: &IDLE_AND_FREQUENCY,
        objective: "mean_mw",
        condition: "p99_us <= -10%",
    },
    Problem {
        name: "board-latency",
        machine: "rk3399",
        job: "rw=randread\nbs=4k\ndirect=1\n",
        hours: 8.0,
        millis: 100,
        over: &IDLE_AND_FREQUENCY,
        objective: "mean_us",
        condition: "mean_mw < 165",
    },
    Problem {
        name: "board-bursts",
        machine: "rk3399",
        job: "rw=randread\nbs=4k\ndirect=1\nthinktime=2ms\nthinktime_blocks=8\n",
        hours: 12.0,
        millis: 100,
        over: &LEASES_AND_FREQUENCY,
        objective: "mean_mw",
        condition: "mean_us <= -10%",
    },
    Problem {
        name: "board-rate",
        machine: "rk3399",
        job: "rw=randread\nbs=4k\ndirect=1\nrate_iops=800\n",
        hours: 8.0,
        millis: 100,
        over: &LEASES_AND_FREQUENCY,
        objective: "mean_mw",
        condition: "p90_us < 158",
    },
    Problem {
        name: "board-writes",
        machine: "rk3399",
        job: "rw=randwrite\nbs=16k\ndirect=1\n",
        hours: 4.0,
        millis: 100,
        over: &IDLE_AND_FREQUENCY,
        objective: "mean_us",
        condition: "mean_mw < 179",
    },
];

impl Problem {
    pub(crate) fn request(&self, seed: u64, budget: u64) -> SearchRequest {
        let text = format!(
            "[j]\nfilename=/dev/nvme0n1\ntime_based\nruntime=1s\n{}",
            self.job
        );
        let file = wakepath_workloads::fio::parse(&text, "j.fio").expect("a job");
        let workload = Workload::from(file)
            .with_time_limit_and_fio_warm_up(Some(Nanoseconds::from_millis(self.millis)), None);
        SearchRequest {
            loads: vec![DailyLoad {
                name: "j".to_owned(),
                workload: Some(workload),
                hours: self.hours,
            }],
            objective: SearchObjective::new(self.objective, Goal::Minimise).expect("a metric"),
            conditions: vec![
                self.condition
                    .parse::<LoadCondition>()
                    .expect("a condition"),
            ],
            budget: Budget(budget),
            seed,
        }
    }

    pub(crate) fn space_with_simulation<T>(
        &self,
        work: impl FnOnce(&Space, &Simulation<'_>) -> Result<T, TuneError>,
    ) -> Result<T, TuneError> {
        let machine = Machine::find(self.machine).expect("a built-in machine");
        let request = self.request(1, 1);
        let cancelled = AtomicBool::new(false);
        let simulation = Simulation::new(&machine, &request.loads, true, &cancelled, &|_| ())?;
        let over: Vec<String> = self.over.iter().map(|name| (*name).to_owned()).collect();
        let space = Space::new(&machine, &over, |set| {
            simulation.policies_in_force_under(set)
        })?;
        work(&space, &simulation)
    }

    /// Text about the question, to tell whether a reference is current.
    pub(crate) fn question(&self) -> String {
        format!("{} {} {}", self.objective, self.condition, self.hours)
    }
}
