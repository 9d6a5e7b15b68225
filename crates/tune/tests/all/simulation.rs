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
use wakepath_workloads::{Workload, fio, rtapp};

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

/// Slow random reads beside a sequential reader of large requests, 200 ms.
fn two_jobs(at_most: Nanoseconds) -> DailyLoad {
    let text = "[global]\nfilename=/dev/nvme0n1\ndirect=1\ntime_based\nruntime=1\n[oltp]\nrw=randread\nbs=4k\nthinktime=500\n\
                [backup]\nioengine=libaio\niodepth=4\nrw=read\nbs=1m\n";
    let file = fio::parse(text, "two.fio").unwrap();
    DailyLoad {
        name: "two".to_owned(),
        workload: Some(Workload::from(file).with_time_limit_and_fio_warm_up(Some(at_most), None)),
        hours: 8.0,
    }
}

#[test]
fn a_condition_on_one_job_is_judged_by_that_job() {
    let mut request = request(vec![two_jobs(Nanoseconds::from_millis(200))], 700_000);
    request.conditions = ["mean_us(two:oltp) < 1000000", "mean_us(two) < 1000000"]
        .map(|text| text.parse::<LoadCondition>().unwrap())
        .into();
    let answer = search(&request, false).unwrap();
    let value = |index: usize| answer.in_force.conditions[index].value;
    // Requests of 1 MiB take longer.
    assert!(value(0) < 0.8 * value(1), "{} {}", value(0), value(1));
    for (condition, problem) in [
        (
            "mean_us(two:x) < 1",
            "two has no job of this name; there are oltp, backup",
        ),
        (
            "mean_us(other:oltp) < 1",
            "no load of this name; there are two",
        ),
    ] {
        request.conditions = vec![condition.parse().unwrap()];
        let refused = tune(&request, false).unwrap_err().to_string();
        assert_eq!(refused, format!("{condition}: {problem}"));
    }
    let mut single = self::request(vec![reads()], 700_000);
    single.conditions = vec!["mean_us(reads:a) < 1".parse().unwrap()];
    let refused = tune(&single, false).unwrap_err().to_string();
    assert!(
        refused.ends_with("reads has a single job; leave `:a` out"),
        "{refused}"
    );
}

#[test]
fn a_percentile_of_few_requests_decides_nothing() {
    let job = "[a]\nfilename=/dev/nvme0n1\ndirect=1\nrw=randread\nbs=4k\nthinktime=1000\ntime_based\nruntime=2\n";
    let load = |at_most_ms: u64| DailyLoad {
        name: "rated".to_owned(),
        workload: Some(
            Workload::from(fio::parse(job, "rated.fio").unwrap())
                .with_time_limit_and_fio_warm_up(Some(Nanoseconds::from_millis(at_most_ms)), None),
        ),
        hours: 8.0,
    };
    let ask = |at_most_ms: u64| {
        let mut asked = request(vec![load(at_most_ms)], 3_000_000);
        asked.conditions = vec!["p99_us < 450".parse().unwrap()];
        search(&asked, false)
    };
    let refused = ask(10).unwrap_err().to_string();
    assert!(
        refused.starts_with("p99_us of rated: a run has ")
            && refused.contains(
                "20 runs have too few for a percentile that takes 1000; it is not judged"
            ),
        "{refused}"
    );
    // Some 90 requests of a run: twelve runs or more have enough together.
    let answer = ask(100).unwrap();
    assert!(answer.repeats >= 10, "{}", answer.repeats);
}
