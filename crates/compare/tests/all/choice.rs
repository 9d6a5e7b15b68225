//! The best policy under conditions, of results made up here.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::collections::BTreeMap;

use wakepath_compare::results::{
    Choice, CompareError, CompareOptions, Comparison, Compliance, Load, Objective, Source, Subset,
    answer_all_questions, choose_policy, compare_results, find_pareto_front, say_per_machine,
};
use wakepath_compare::{Condition, Design, Goal, METRICS};
use wakepath_results::document::{SCHEMA, VERSION};
use wakepath_results::{
    Document, MachineInfo, MetricRow, PolicyInfo, Question, RunOrigin, StudyInfo, WorkloadInfo,
};

/// Values of `mean_mw` and `p99_us` by policy, in all runs but for a little noise.
type Policies<'a> = [(&'a str, f64, f64)];

const WORKLOADS: [&str; 2] = ["reads", "writes"];

fn source(name: &str, policies: &Policies<'_>, runs: u32, noise: f64) -> Source {
    let document = Document {
        schema: SCHEMA.into(),
        version: VERSION,
        complete: true,
        shard: None,
        study: StudyInfo {
            name: name.into(),
            title: String::new(),
        },
        backend: RunOrigin::Sim,
        tools: BTreeMap::new(),
        machines: vec![MachineInfo {
            name: name.into(),
            title: name.into(),
            ..MachineInfo::default()
        }],
        workloads: WORKLOADS
            .map(|name| WorkloadInfo {
                name: name.into(),
                kind: "fio".into(),
                source: "job.fio".into(),
                ..WorkloadInfo::default()
            })
            .into(),
        policies: policies
            .iter()
            .map(|(name, ..)| PolicyInfo {
                name: (*name).to_owned(),
                settings: BTreeMap::new(),
                notes: Vec::new(),
            })
            .collect(),
        baseline: policies[0].0.to_owned(),
        repeats: runs,
        design: Design::Paired,
        seeds: vec![1],
        sha256: BTreeMap::new(),
        questions: vec![],
        metrics: METRICS.to_vec(),
        level: 0.95,
        margin_percent: 2.0,
        notes: vec![],
    };
    let mut rows = Vec::new();
    for (number, workload) in WORKLOADS.iter().enumerate() {
        for (policy, mw, us) in policies {
            for repeat in 0..runs {
                let factor = 1.0 + noise * (f64::from(repeat % 5) - 2.0);
                // The second workload is a little slower.
                for (metric, value) in [("mean_mw", *mw), ("p99_us", us + number as f64)] {
                    rows.push(MetricRow {
                        machine: name.to_owned(),
                        workload: (*workload).to_owned(),
                        policy: (*policy).to_owned(),
                        repeat,
                        seed: Some(1),
                        block: repeat,
                        order: repeat,
                        metric: metric.to_owned(),
                        value: value * factor,
                    });
                }
            }
        }
    }
    Source {
        name: name.to_owned(),
        document,
        rows,
        files: BTreeMap::new(),
    }
}

fn least_power(keep: &[&str]) -> Objective {
    Objective {
        metric: "mean_mw".into(),
        goal: Goal::Minimise,
        keep: keep
            .iter()
            .map(|c| c.parse::<Condition>().unwrap())
            .collect(),
        among: Subset::default(),
    }
}

fn chosen(sources: &[Source], objective: &Objective) -> Choice {
    choose_policy(
        &compare_results(sources, &CompareOptions::default()).unwrap(),
        objective,
    )
    .unwrap()
}

fn order(choice: &Choice) -> Vec<&str> {
    choice
        .candidates
        .iter()
        .map(|c| c.policy.as_str())
        .collect()
}

const THREE: &Policies<'_> = &[
    ("slow", 20_000.0, 300.0),
    ("fast", 30_000.0, 100.0),
    ("hot", 40_000.0, 90.0),
];

#[test]
fn the_answer_has_figures_the_next_one_and_what_better_ones_miss() {
    let source = [source("s", THREE, 5, 0.001)];
    let choice = chosen(&source, &least_power(&["p99_us < 150"]));
    assert_eq!(order(&choice), ["fast", "hot", "slow"]);
    let says = &choice.sentences;
    assert_eq!(
        says[0],
        "fast: power 30 W (30 to 30) on reads, 30 W (30 to 30) on writes; surely keeps \
         p99_us < 150, at worst p99 latency 101.00 us (100.80 to 101.20) on writes."
    );
    assert!(says[1].starts_with("Next: hot, power +33.3 %: power 40 W"));
    assert!(
        says[2].starts_with("Better, but misses p99_us < 150 by 101 %: slow, power -33.3 %"),
        "{says:?}"
    );
    // Two that are alike are said to be.
    let alike = [("a", 100.0, 9.0), ("b", 100.01, 9.0)];
    let alike = [self::source("s", &alike, 5, 0.01)];
    let says = chosen(&alike, &least_power(&[])).sentences;
    assert!(says[1].ends_with("the intervals overlap."), "{says:?}");
}

#[test]
fn without_an_answer_the_nearest_is_named() {
    let source = [source("s", THREE, 5, 0.001)];
    let choice = chosen(&source, &least_power(&["p99_us < 50"]));
    assert_eq!(order(&choice), ["hot", "fast", "slow"]);
    assert!(
        choice.sentences[0].starts_with(
            "Nothing surely keeps p99_us < 50. Nearest: hot, misses p99_us < 50 by 82.0 %: p99"
        ),
        "{:?}",
        choice.sentences
    );
}

#[test]
fn too_few_runs_do_not_make_a_policy_that_misses_the_nearest() {
    // Nothing can be sure with two runs; the cheapest is far beyond the limit.
    let source = [source("s", THREE, 2, 0.001)];
    let choice = chosen(&source, &least_power(&["p99_us < 150"]));
    assert!(
        choice
            .candidates
            .iter()
            .all(|c| c.holds == Compliance::CannotTell)
    );
    assert_eq!(order(&choice), ["fast", "hot", "slow"]);
    assert!(
        choice.sentences[1].contains("too few runs for intervals"),
        "{:?}",
        choice.sentences
    );
}

#[test]
fn the_condition_that_is_in_doubt_is_the_one_that_is_named() {
    let doubtful = [("a", 1000.0, 149.5), ("b", 1000.0, 149.5)];
    let source = [source("s", &doubtful, 5, 0.01)];
    // The power is closer to its limit, by the means, and surely keeps it.
    let choice = chosen(&source, &least_power(&["mean_mw <= 1020", "p99_us < 152"]));
    let first = &choice.candidates[0];
    assert_eq!(first.holds, Compliance::CannotTell);
    assert_eq!(first.condition.as_ref().unwrap().metric, "p99_us");
}

#[test]
fn a_question_is_answered_from_its_own_results() {
    let question = Question {
        ask: "Cheapest?".into(),
        metric: "mean_mw".into(),
        goal: Some(Goal::Minimise),
        keep: vec!["p99_us < 150".parse().unwrap()],
        policies: vec!["fast".into(), "hot".into()],
        workloads: vec!["reads".into()],
        machines: vec![],
        baseline: None,
    };
    let mut sources = [
        source("board", THREE, 5, 0.001),
        source(
            "server",
            &[("fast", 1.0, 1.0), ("slow", 2.0, 1.0)],
            5,
            0.001,
        ),
    ];
    sources[0].document.questions = vec![question];
    let comparison = compare_results(&sources, &CompareOptions::default()).unwrap();
    let answers = answer_all_questions(&sources, &comparison);
    assert_eq!(answers.len(), 1);
    let choice = answers[0].choice.as_ref().unwrap();
    assert_eq!(order(choice), ["board: fast", "board: hot"]);
    assert_eq!(choice.candidates[0].figures.len(), 1);
    assert_eq!(answers[0].front, ["board: fast", "board: hot"]);
}

#[test]
fn what_a_choice_lacks_is_named() {
    let mut alone = source("s", THREE, 4, 0.001);
    alone
        .rows
        .retain(|r| r.workload != "writes" || r.metric != "p99_us");
    let comparison = compare_results(&[alone], &CompareOptions::default()).unwrap();
    let error = choose_policy(&comparison, &least_power(&["p99_us < 150"])).unwrap_err();
    assert_eq!(
        error,
        CompareError::NoFigures {
            metric: "p99_us".into(),
            workload: "writes".into()
        }
    );
    let mut reads = least_power(&["p99_us < 150"]);
    reads.among.loads = vec![Load {
        machine: String::new(),
        workload: "reads".into(),
    }];
    assert_eq!(
        choose_policy(&comparison, &reads).unwrap().candidates.len(),
        3
    );
}

#[test]
fn results_of_two_hosts_of_one_name_are_of_two_machines() {
    let measured = |name: &str, id: Option<&str>| {
        let mut source = source(name, THREE, 5, 0.001);
        source.document.backend = RunOrigin::Live;
        source.document.machines[0].name = "vm".to_owned();
        source.document.machines[0].host = id.map(str::to_owned);
        for row in &mut source.rows {
            row.machine = "vm".to_owned();
        }
        source
    };
    let notes = |one: &Source, other: &Source| {
        wakepath_compare::describe_differences(&[("a", one), ("b", other)]).join("\n")
    };
    let (a, b) = (measured("a", Some("12ab")), measured("b", Some("34cd")));
    assert!(notes(&a, &b).contains("machine `vm` is one thing in a and another in b"));
    let comparison = compare_results(&[a.clone(), b], &CompareOptions::default()).unwrap();
    // Each host has a baseline of its own.
    let own = comparison.rows.iter().filter(|row| row.policy == "b/slow");
    assert!(
        own.map(|row| row.baseline.as_ref())
            .all(|baseline| baseline.is_none())
    );
    // One host, and results of versions that do not tell it.
    assert_eq!(notes(&a, &measured("c", Some("12ab"))), "");
    assert_eq!(notes(&a, &measured("d", None)), "");
}

#[test]
fn watts_at_the_wall_are_not_averaged_with_those_of_packages() {
    let policies = [("menu", 1000.0, 100.0), ("teo", 900.0, 90.0)];
    let [mut both, other] = ["a", "b"].map(|name| source(name, &policies, 4, 0.01));
    both.document.machines.extend(other.document.machines);
    both.rows.extend(other.rows);
    let compared = |scopes: [&str; 2]| {
        let mut source = both.clone();
        for (machine, scope) in source.document.machines.iter_mut().zip(scopes) {
            scope.clone_into(&mut machine.power_scope);
        }
        let comparison = compare_results(&[source], &CompareOptions::default()).unwrap();
        let has_mean = |metric: &str| comparison.summaries.iter().any(|s| s.metric == metric);
        let said = comparison.notes.join("\n");
        (
            has_mean("mean_mw"),
            has_mean("p99_us"),
            said.contains("at the wall on b"),
        )
    };
    assert_eq!(compared(["package", "package"]), (true, true, false));
    assert_eq!(compared(["package", "wall"]), (false, true, true));
}

/// Two machines in one study, whose power counts these things.
fn on_two_machines(scopes: [&str; 2]) -> Source {
    let policies = [("menu", 1000.0, 100.0), ("teo", 900.0, 90.0)];
    let [mut both, other] = ["a", "b"].map(|name| source(name, &policies, 4, 0.01));
    both.document.machines.extend(other.document.machines);
    both.rows.extend(other.rows);
    for (machine, scope) in both.document.machines.iter_mut().zip(scopes) {
        scope.clone_into(&mut machine.power_scope);
    }
    both
}

#[test]
fn rankings_and_fronts_by_power_are_of_each_machine_where_its_scope_differs() {
    let machines = |counted| {
        let comparison =
            compare_results(&[on_two_machines(counted)], &CompareOptions::default()).unwrap();
        let ranked = scopes_of(&comparison, "mean_mw");
        let metrics = ["mean_mw", "p99_us"].map(str::to_owned);
        let fronts = say_per_machine(&comparison, |among| {
            find_pareto_front(&comparison, &metrics, &among)
        });
        let fronts: Vec<Option<String>> = fronts
            .unwrap()
            .into_iter()
            .map(|scope| scope.machine)
            .collect();
        assert_eq!(ranked, fronts);
        // Latency counts the same everywhere.
        assert_eq!(scopes_of(&comparison, "p99_us").len(), 3);
        ranked
    };
    let each = ["a", "b"].map(|name| Some(name.to_owned()));
    assert_eq!(machines(["package", "wall"]), each);
    assert_eq!(machines(["wall", "wall"]).len(), 3);
}

/// The machines that a ranking by this metric is of; none: over all.
fn scopes_of(comparison: &Comparison, metric: &str) -> Vec<Option<String>> {
    let ranked = say_per_machine(comparison, |among| {
        let objective = Objective {
            metric: metric.to_owned(),
            among,
            ..least_power(&[])
        };
        choose_policy(comparison, &objective)
    });
    ranked
        .unwrap()
        .into_iter()
        .map(|scope| scope.machine)
        .collect()
}

#[test]
fn results_of_two_machines_are_not_ranked_by_watts_of_two_scopes() {
    let mut sources = ["a", "b"].map(|name| source(name, THREE, 4, 0.01));
    let ranked = |sources: &[Source]| {
        let comparison = compare_results(sources, &CompareOptions::default()).unwrap();
        choose_policy(&comparison, &least_power(&[])).map(|choice| choice.candidates.len())
    };
    assert_eq!(ranked(&sources), Ok(6));
    sources[0].document.machines[0].power_scope = "package".to_owned();
    sources[1].document.machines[0].power_scope = "wall".to_owned();
    let Err(CompareError::MixedPower(sentence)) = ranked(&sources) else {
        panic!("{:?}", ranked(&sources))
    };
    assert!(
        sentence.contains("of the package on a; at the wall on b"),
        "{sentence}"
    );
    let comparison = compare_results(&sources, &CompareOptions::default()).unwrap();
    let other = comparison
        .rows
        .iter()
        .filter(|row| row.policy == "b/slow" && row.metric == "mean_mw" && row.baseline.is_some());
    for row in other {
        assert!(
            row.gain.is_none() && row.sentence.contains("count something else"),
            "{row:?}"
        );
    }
}
