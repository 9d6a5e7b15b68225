//! The search over the simulator.

use std::sync::atomic::AtomicBool;

use wakepath_hardware::Machine;
use wakepath_results::Goal;
use wakepath_tune::{
    Budget, DailyLoad, SearchObjective, SearchRequest, Simulation, Space, TuneError, search_space,
};
use wakepath_units::Nanoseconds;
use wakepath_workloads::{Workload, rtapp};

use crate::made_up::load;

fn request(loads: Vec<DailyLoad>, budget: u64) -> SearchRequest {
    SearchRequest {
        loads,
        objective: SearchObjective::new("mean_mw", Goal::Minimise).unwrap(),
        conditions: Vec::new(),
        budget: Budget(budget),
        seed: 1,
    }
}

/// Random reads for 20 ms, 8 hours a day.
fn reads() -> DailyLoad {
    let mut reads = load("reads", "");
    if let Workload::Fio(file) = &mut reads.workload {
        file.jobs[0].at_most = Some(Nanoseconds::from_millis(20));
    }
    reads.hours = 8.0;
    reads
}

fn tune(request: &SearchRequest, cancelled: bool) -> Result<String, TuneError> {
    let machine = Machine::find("rk3399").unwrap();
    let cancelled = AtomicBool::new(cancelled);
    let simulation = Simulation::new(&machine, &request.loads, true, &cancelled, &|_| ())?;
    let over = ["idle", "cpu-latency"].map(str::to_owned);
    let space = Space::new(&machine, &over, |set| simulation.policies_in_force(set))?;
    search_space(&space, request, &simulation).map(|answer| format!("{answer:?}"))
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let request = request(vec![reads()], 700_000);
    let [one, three] = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| tune(&request, false)).unwrap()
    });
    assert_eq!(one, three);
}

#[test]
fn a_search_that_is_called_off_decides_nothing() {
    let refused = tune(&request(vec![reads()], 700_000), true).unwrap_err();
    assert!(matches!(refused, TuneError::Interrupted), "{refused}");
}

#[test]
fn a_load_without_requests_has_a_cost() {
    let text = r#"{ "tasks": { "a": { "loop": 50, "run": 100, "sleep": 1000 } } }"#;
    let threads = DailyLoad {
        name: "threads".to_owned(),
        workload: rtapp::parse(text, "a").unwrap().into(),
        hours: 8.0,
    };
    // 50 loops, and 20 of rest, in each run.
    let refused = tune(&request(vec![threads], 1), false).unwrap_err();
    let TuneError::Budget { needed, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(needed % 70, 0, "{needed}");
}
