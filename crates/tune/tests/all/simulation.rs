//! The search over the simulator.

use std::sync::atomic::AtomicBool;

use wakepath_hardware::Machine;
use wakepath_results::Goal;
use wakepath_results::LoadCondition;
use wakepath_tune::{
    Budget, DailyLoad, SearchAnswer, SearchObjective, SearchRequest, Sensitivity, Simulation,
    Space, TuneError, VariedFigure, search_best_policy_set, vary_assumed_figures,
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
    if let Some(Workload::Fio(file)) = &mut reads.workload {
        file.jobs[0].at_most = Some(Nanoseconds::from_millis(20));
    }
    reads.hours = 8.0;
    reads
}

fn tune(request: &SearchRequest, cancelled: bool) -> Result<String, TuneError> {
    search(request, cancelled).map(|answer| format!("{answer:?}"))
}

fn search(request: &SearchRequest, cancelled: bool) -> Result<SearchAnswer, TuneError> {
    let machine = Machine::find("rk3399").unwrap();
    let cancelled = AtomicBool::new(cancelled);
    let simulation = Simulation::new(&machine, &request.loads, true, &cancelled, &|_| ())?;
    let over = ["idle", "cpu-latency"].map(str::to_owned);
    let space = Space::new(&machine, &over, |set| {
        simulation.policies_in_force_under(set)
    })?;
    search_best_policy_set(&space, request, &simulation)
}

/// The answer with the machine's assumed figures varied by so many requests.
fn vary(request: &SearchRequest, answer: &SearchAnswer, most_requests: u64) -> Sensitivity {
    let machine = Machine::find("rk3399").unwrap();
    let cancelled = AtomicBool::new(false);
    vary_assumed_figures(
        &machine,
        request,
        answer,
        most_requests,
        &cancelled,
        &|_| (),
    )
    .unwrap()
    .unwrap()
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
        workload: Some(rtapp::parse(text, "a").unwrap().into()),
        hours: 8.0,
    };
    // 50 loops, and 20 of rest, in each run.
    let refused = tune(&request(vec![threads], 1), false).unwrap_err();
    let TuneError::Budget { needed, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(needed % 70, 0, "{needed}");
}

/// A latency limit just above the answer's latency, which another rate of ticks exceeds.
#[test]
fn an_assumed_figure_that_would_break_a_condition_is_named() {
    let mut request = request(vec![reads()], 700_000);
    let plain = search(&request, false).unwrap();
    let best = plain.best.unwrap();
    let mut metrics = best.loads[0].metrics.iter();
    let (_, latency) = metrics.find(|(name, _)| name == "mean_us").unwrap();
    let limit = format!("mean_us < {}", latency * 1.01);
    request.conditions = vec![limit.parse::<LoadCondition>().unwrap()];
    let answer = search(&request, false).unwrap();
    assert_eq!(answer.best.as_ref().unwrap().set, best.set);
    let varied = vary(&request, &answer, 10_000_000);
    assert!(varied.not_reached.is_empty(), "{:?}", varied.not_reached);
    let changing: Vec<&VariedFigure> = varied.figures_that_change_answer().collect();
    let [ticks] = changing[..] else {
        panic!("{changing:?}");
    };
    assert_eq!((ticks.figure.as_str(), ticks.assumed), ("hz", 250.0));
    assert!(
        ticks.ends.iter().any(|end| end.breaks_condition),
        "{ticks:?}"
    );
    assert!(ticks.range_source.contains("CONFIG_HZ"), "{ticks:?}");
}

#[test]
fn figures_beyond_the_requests_allowed_are_named() {
    let request = request(vec![reads()], 700_000);
    let answer = search(&request, false).unwrap();
    let [little, again] = [1_000, 1_000].map(|most| vary(&request, &answer, most));
    assert_eq!(little.figures.len(), 1);
    assert!(little.not_reached.len() > 5, "{:?}", little.not_reached);
    assert_eq!(format!("{little:?}"), format!("{again:?}"));
}
