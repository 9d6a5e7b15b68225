//! The search over the simulator.

use std::sync::atomic::AtomicBool;

use wakepath_hardware::Machine;
use wakepath_results::Goal;
use wakepath_results::LoadCondition;
use wakepath_tune::{
    Budget, DailyLoad, SearchAnswer, SearchObjective, SearchRequest, Sensitivity, Simulation,
    Space, TuneError, VariedFigure, add_power_at_rest_to_answer, search_best_policy_set,
    vary_assumed_figures,
};
use wakepath_units::Nanoseconds;
use wakepath_workloads::{Workload, fio, rtapp, server};

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
    search_over(&machine, &["idle", "cpu-latency"], request, cancelled)
}

fn search_over(
    machine: &Machine,
    over: &[&str],
    request: &SearchRequest,
    cancelled: bool,
) -> Result<SearchAnswer, TuneError> {
    let cancelled = AtomicBool::new(cancelled);
    let has_rest = request.objective.counts_hours_of_rest();
    let simulation = Simulation::new(machine, &request.loads, has_rest, &cancelled, &|_| ())?;
    let over: Vec<String> = over.iter().map(|name| (*name).to_owned()).collect();
    let space = Space::new(machine, &over, |set| {
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
    let limit = format!("mean_us < {}", latency * 1.05);
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

/// An answer that a runner-up beats with the figures as they are, as a condition kept by chance alone makes it.
#[test]
fn a_figure_without_effect_never_changes_the_answer() {
    let request = request(vec![reads()], 700_000);
    let mut answer = search(&request, false).unwrap();
    let (best, worst) = (answer.best.take().unwrap(), answer.next.pop().unwrap());
    assert!(worst.objective > 1.05 * best.objective);
    answer.next = vec![best];
    answer.best = Some(worst);
    let varied = vary(&request, &answer, 10_000_000);
    // The load writes nothing.
    let write = "drive.write_service_us";
    assert!(varied.figures.iter().any(|figure| figure.figure == write));
    let mut changing = varied.figures_that_change_answer();
    assert!(changing.all(|figure| figure.figure != write));
}

/// Short runs of all figures, and whole runs of those that come near, find what whole runs of all find.
#[test]
fn short_runs_screen_every_figure_and_miss_no_change() {
    let mut load = reads();
    if let Some(Workload::Fio(file)) = &mut load.workload {
        file.jobs[0].at_most = Some(Nanoseconds::from_millis(800));
        // With a warm-up a quarter of the time would cost nearly as much as the whole.
        file.jobs[0].ramp_time = None;
    }
    let machine = Machine::find("rk3399").unwrap();
    let mut request = request(vec![load], 4_000_000);
    let plain = search_over(&machine, &["cpu-latency"], &request, false).unwrap();
    let best = plain.best.unwrap();
    let mut metrics = best.loads[0].metrics.iter();
    let (_, latency) = metrics.find(|(name, _)| name == "mean_us").unwrap();
    let limit = format!("mean_us < {}", latency * 1.03);
    request.conditions = vec![limit.parse::<LoadCondition>().unwrap()];
    let answer = search_over(&machine, &["cpu-latency"], &request, false).unwrap();
    let whole = vary(&request, &answer, 10_000_000);
    let short = vary(&request, &answer, whole.simulated);
    assert_eq!((whole.shortened, short.shortened), (1, 4));
    assert!(short.not_reached.is_empty(), "{:?}", short.not_reached);
    assert_eq!(short.figures.len(), whole.figures.len());
    let names = |varied: &Sensitivity| -> Vec<String> {
        let changing = varied.figures_that_change_answer();
        changing.map(|figure| figure.figure.clone()).collect()
    };
    assert!(!names(&whole).is_empty());
    assert_eq!(names(&short), names(&whole));
    let screened = short.figures.iter().filter(|figure| figure.by_one_run);
    assert!(screened.count() * 2 > short.figures.len());
}

#[test]
fn figures_beyond_the_requests_allowed_are_named() {
    let request = request(vec![reads()], 700_000);
    let answer = search(&request, false).unwrap();
    let [little, again] = [1_000, 1_000].map(|most| vary(&request, &answer, most));
    assert_eq!(little.figures.len(), 1);
    assert!(little.not_reached.len() > 5, "{:?}", little.not_reached);
    assert_eq!(format!("{little:?}"), format!("{again:?}"));
    // The result says how many requests reach every figure with every set.
    let needed = little.requests_for_all.unwrap();
    assert!(needed > 1_000, "{needed}");
    let all = vary(&request, &answer, needed);
    assert!(
        all.not_reached.is_empty(),
        "{needed}: {:?}",
        all.not_reached
    );
    assert_eq!(all.requests_for_all, None, "{needed}: {all:?}");
    assert!(
        all.figures
            .iter()
            .all(|figure| !figure.with_nearest_only && !figure.together)
    );
}

/// With a percentile asked for, runs of the screening stay whole, and few figures get their turn: those that move something.
#[test]
fn figures_of_likely_influence_come_first_where_requests_are_few() {
    let mut load = reads();
    if let Some(Workload::Fio(file)) = &mut load.workload {
        file.jobs[0].at_most = Some(Nanoseconds::from_millis(400));
    }
    let mut request = request(vec![load], 4_000_000);
    request.conditions = vec!["p99_us < 10000".parse().unwrap()];
    let answer = search(&request, false).unwrap();
    let whole = vary(&request, &answer, 100_000_000);
    assert_eq!(whole.ordered_by_shortened, None);
    assert!(whole.not_reached.is_empty(), "{:?}", whole.not_reached);
    let few = vary(&request, &answer, whole.simulated / 4);
    assert!(few.simulated <= whole.simulated / 3, "{}", few.simulated);
    assert!(few.ordered_by_shortened.is_some());
    assert!(few.requests_for_all > Some(few.simulated), "{few:?}");
    assert!(few.figures.len() > few.not_reached.len(), "{few:?}");
    // Those of little influence took the requests of one: the load writes nothing.
    for name in ["write_service_us", "write_mb_per_s", "flush_us"] {
        let name = format!("drive.{name}");
        let figure = few.figures.iter().find(|figure| figure.figure == name);
        let figure = figure.unwrap_or_else(|| panic!("{name}: {few:?}"));
        assert!(figure.together && figure.ends.is_empty(), "{figure:?}");
    }
    // Figures beyond those with which the machine's list begins had their turn.
    let singly = few.figures.iter().filter(|figure| !figure.together);
    let singly: Vec<&str> = singly.map(|figure| figure.figure.as_str()).collect();
    let first = &whole.figures[..singly.len()];
    let is_among_first = |name: &&str| first.iter().any(|figure| figure.figure == **name);
    assert!(!singly.iter().all(is_among_first), "{singly:?}");
    let again = vary(&request, &answer, whole.simulated / 4);
    assert_eq!(format!("{few:?}"), format!("{again:?}"));
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
                "40 runs have too few for a percentile that takes 1000; it is not judged"
            ),
        "{refused}"
    );
    // Some 90 requests of a run: twelve runs or more have enough together.
    let answer = ask(100).unwrap();
    assert!(answer.repeats >= 10, "{}", answer.repeats);
    // As an objective, the percentile of a single load is the same figure in each table.
    let mut wanted = request(vec![load(100)], 3_000_000);
    wanted.objective = SearchObjective::new("p99_us", Goal::Minimise).unwrap();
    let answer = search(&wanted, false).unwrap();
    for finalist in answer.next.iter().chain([&answer.in_force]) {
        assert_eq!(
            finalist.metric_of_load("rated", "p99_us"),
            Some(finalist.objective)
        );
    }
}

/// A read every 150 ms, longer than the timeout of the kernel's table.
#[test]
fn waits_for_a_sleeping_drive_are_figures_of_a_load() {
    let mut machine = Machine::find("laptop").unwrap();
    let drive = machine.find_own_or_known_drive("sn530").unwrap();
    machine.replace_drive_keeping_count(drive);
    let mut pauses = load("pauses", "thinktime=150ms\nrate_iops=1000\n");
    if let Some(Workload::Fio(file)) = &mut pauses.workload {
        file.jobs[0].at_most = Some(Nanoseconds::from_secs(3));
        file.jobs[0].runtime = Some(Nanoseconds::from_secs(3));
    }
    let mut request = request(vec![pauses], 1_000_000);
    request.conditions = vec!["drive_wake_max_us < 100".parse().unwrap()];
    let answer = search_over(&machine, &["apst"], &request, false).unwrap();
    let slept = &answer.in_force;
    assert!(
        slept
            .metric_of_load("pauses", "drive_wake_ups_per_s")
            .unwrap()
            > 5.0
    );
    let wait = slept.metric_of_load("pauses", "drive_wake_p99_us").unwrap();
    assert!((10_000.0..12_000.0).contains(&wait), "{wait}");
    assert!(!slept.keeps_conditions_by_means());
    let awake = answer.best.as_ref().unwrap();
    assert_eq!(
        awake.metric_of_load("pauses", "drive_wake_ups_per_s"),
        Some(0.0)
    );
    assert_eq!(awake.metric_of_load("pauses", "drive_wake_p99_us"), None);
    assert!(awake.conditions[0].value.abs() < 1e-9);
    assert!(awake.keeps_conditions_by_whole_intervals());
    let said = format!(
        "drive_wake_max_us: no request of pauses wakes the drive under {}, so that none waits for it (0 us)",
        awake.set
    );
    assert_eq!(answer.notes[0], said);
}

#[test]
fn power_at_rest_is_added_to_a_search_for_latency() {
    let machine = Machine::find("rk3399").unwrap();
    let for_power = search(&request(vec![reads()], 700_000), false).unwrap();
    let mut for_latency = request(vec![reads()], 700_000);
    for_latency.objective = SearchObjective::new("mean_us", Goal::Minimise).unwrap();
    let mut answer = search(&for_latency, false).unwrap();
    assert_eq!(answer.in_force.metric_of_load("rest", "mean_mw"), None);
    let simulated = answer.simulated;
    let called_off = AtomicBool::new(false);
    add_power_at_rest_to_answer(&machine, &mut answer, &called_off).unwrap();
    assert!(answer.simulated > simulated);
    let [ours, theirs] = [&answer, &for_power]
        .map(|answer| answer.in_force.metric_of_load("rest", "mean_mw").unwrap());
    assert!((ours / theirs - 1.0).abs() < 0.02, "{ours} {theirs}");
    assert!(
        answer
            .best
            .unwrap()
            .metric_of_load("rest", "mean_mw")
            .unwrap()
            > 0.0
    );
}

#[test]
fn a_server_that_cannot_keep_up_is_said_with_its_rate() {
    let text = "kind = 'server'\nname = 's'\nseconds = 0.2\nwarm_up_s = 0\n[arrivals]\npattern = 'fixed'\n\
                rate = RATE\n[request]\nwork_us = 1000\n";
    for (rate, is_kept) in [("100", true), ("2000", false)] {
        let file = server::parse(&text.replace("RATE", rate), "s.toml", None).unwrap();
        let busy = DailyLoad {
            name: "busy".to_owned(),
            workload: Some(Workload::from(file)),
            hours: 24.0,
        };
        let asked = request(vec![busy], 2_000_000);
        let answer = search(&asked, false).unwrap();
        let told = answer.notes.iter().find(|note| {
            note.starts_with(
                "load `busy` does not reach the 2000 requests per second that it asks for: ",
            )
        });
        assert_eq!(told.is_none(), is_kept, "{:?}", answer.notes);
        if let Some(told) = told {
            let (_, rest) = told.rsplit_once(": ").unwrap();
            let words = rest.split(' ').collect::<Vec<_>>();
            let done: f64 = words[0].parse().unwrap();
            let replies = answer.in_force.metric_of_load("busy", "iops").unwrap();
            assert!((done - replies).abs() < 1.0 + 0.02 * replies, "{told}");
            assert!(told.contains("under what is in force"), "{told}");
        }
    }
}
