//! From result directories to the page: what is in the tables is on the page, and what is not there does no harm.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::Path;

use crate::common::results as made;
use tempfile::TempDir;
use wakepath_compare::results::{CompareOptions, Comparison, Source, compare_results};
use wakepath_report::html::from_results::{self, FromResultsError};
use wakepath_report::html::render_html_report;
use wakepath_report::html::view::{PageRow, Tone, View};
use wakepath_results::document::{CpuKind, RequestedRate};
use wakepath_results::rows::BUSY;
use wakepath_results::{
    Document, Goal, MachineInfo, Mode, Question, RequestSubset, ResultReader, ResultWriter,
    ResultsError, RunOrigin, RunRecord,
};

const POLICIES: [&str; 3] = ["menu", "teo", "ladder"];
const WORKLOADS: [&str; 2] = ["reads", "writes"];

fn document(repeats: u32) -> Document {
    let question = |ask: &str, metric: &str, policies: &[&str]| Question {
        ask: ask.into(),
        metric: metric.into(),
        goal: None,
        keep: vec![],
        policies: policies.iter().map(|p| (*p).to_owned()).collect(),
        workloads: vec![],
        machines: vec![],
        baseline: None,
    };
    Document {
        questions: vec![
            question("Which is fastest?", "p99_us", &[]),
            question("Is ladder worse?", "iops", &["ladder"]),
        ],
        ..made::document(&WORKLOADS, &POLICIES, repeats)
    }
}

/// teo is 10 % faster than menu, ladder 20 % slower.
fn results(document: &Document, change: impl Fn(&mut RunRecord)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("study.toml".to_owned(), b"name = \"governors\"\n".to_vec()),
        ("machine.toml".to_owned(), b"# the machine\n".to_vec()),
        ("workloads/job.fio".to_owned(), b"[reads]\n".to_vec()),
    ];
    let writer =
        ResultWriter::open(folder.path().join("r"), document.clone(), &files, Mode::New).unwrap();
    let mut index = 0;
    for repeat in 0..document.repeats {
        for (machine, workload) in document.planned_machine_workload_pairs() {
            for policy in &document.policies {
                let factor = match policy.name.as_str() {
                    "menu" => 1.0,
                    "teo" => 0.9,
                    _ => 1.2,
                };
                let mut run = made::run(&workload.name, &policy.name, repeat, factor);
                run.key.machine.clone_from(&machine.name);
                change(&mut run);
                writer.write_run(index, &run).unwrap();
                index += 1;
            }
        }
    }
    writer.write_tables_and_finish().unwrap();
    folder
}

fn view_of(folder: &TempDir) -> View {
    let reader = ResultReader::open(folder.path().join("r")).unwrap();
    from_results::build_view(&[reader], None).unwrap()
}

#[test]
fn costs_that_are_not_known_are_no_zeros() {
    let folder = results(&document(4), |run| {
        for idle in &mut run.idle {
            idle.added_latency_ns = None;
            idle.wasted_energy_uj = None;
        }
    });
    let view = view_of(&folder);
    for state in &view.workloads[0].idle[0].states {
        assert!(state.added_us.is_nan() && state.wasted_mw.is_nan());
        assert!(state.entries.is_finite());
    }
    let page = render_html_report(&view).unwrap();
    assert!(page.contains("too shallow of"));
    assert!(!page.contains("added to wake-ups") && !page.contains("mW wasted"));
    let known = render_html_report(&view_of(&results(&document(4), |_| {}))).unwrap();
    assert!(known.contains("added to wake-ups") && known.contains("mW wasted"));
}

#[test]
fn power_of_assumed_figures_has_few_digits() {
    let folder = results(&document(4), |_| {});
    let decimals = |machine: &str| {
        fs::write(folder.path().join("r/machine.toml"), machine).unwrap();
        let view = view_of(&folder);
        let power = |row: &&PageRow| view.metrics[row.metric].name == "mean_mw" && row.policy == 1;
        let row = view.rows.iter().find(power).unwrap();
        let wasted = view_digits(&render_html_report(&view).unwrap(), " mW wasted");
        (row.decimals.unwrap_or(1), wasted)
    };
    let assumed = "[package]\nidle_mw = { value = 300, assumed = \"typical\" }\n";
    assert_eq!(decimals(assumed), (0, 3));
    assert_eq!(decimals("[package]\nidle_mw = 300\n"), (1, 4));
}

/// Digits of the first number before `unit` on a page.
fn view_digits(page: &str, unit: &str) -> usize {
    let before = page.split(unit).next().unwrap();
    let number = before.rsplit(' ').next().unwrap();
    let digits = number.trim_start_matches(['0', '.']);
    digits.chars().filter(char::is_ascii_digit).count()
}

#[test]
fn what_the_tables_say_is_in_the_view() {
    let view = view_of(&results(&document(6), |_| {}));
    assert_eq!(view.title, "Which governor?");
    let tones: Vec<Tone> = view.answers.iter().map(|a| a.tone).collect();
    assert_eq!(tones, [Tone::Better, Tone::Worse], "{:?}", view.answers);
    let fastest = &view.answers[0].sentence;
    assert!(
        fastest.starts_with("teo on both workloads: better than menu by")
            && fastest.ends_with(" %. Surely worse: ladder."),
        "{fastest}"
    );
    assert!(view.answers[0].details[0].contains("ladder: worse by"));
    let p99 = view
        .metrics
        .iter()
        .position(|m| m.name == "p99_us")
        .unwrap();
    let teo = view
        .rows
        .iter()
        .find(|r| r.metric == p99 && view.policies[r.policy].name == "teo")
        .unwrap();
    assert!((teo.gain.unwrap().percent - 10.0).abs() < 0.1 && teo.gain.unwrap().significant);
    let reads = &view.workloads[0];
    // 4 CPUs for 2 s: 400 entries in 6 runs of 2 s are 200 per second.
    let states: Vec<&str> = reads.idle[0]
        .states
        .iter()
        .map(|s| s.name.as_str())
        .collect();
    assert_eq!(states, [BUSY, "WFI", "sleep"]);
    let sleep = &reads.idle[0].states[2];
    assert!((sleep.share - 0.5).abs() < 1e-9 && (sleep.entries - 200.0).abs() < 1e-9);
    assert!((sleep.added_us - 200.0).abs() < 1e-9 && (sleep.wasted_mw - 0.2).abs() < 1e-9);
    assert!((reads.frequency[0].shares[1].1 - 0.75).abs() < 1e-9);
    assert_eq!(reads.curves.len(), 3);
    assert_eq!(reads.curves[0].requests, 6000);
    assert!((reads.curves[0].points.last().unwrap().1 - 1.0).abs() < 1e-12);
    let sum: f64 = reads.parts[0].parts.iter().map(|(_, us)| us).sum();
    let mean = view
        .rows
        .iter()
        .find(|r| view.metrics[r.metric].name == "mean_us")
        .unwrap()
        .mean;
    assert!((sum - mean).abs() < 1e-6, "{sum} {mean}");
    assert_eq!(reads.timelines.len(), 3);
    let page = render_html_report(&view).unwrap();
    for wanted in [
        "# the machine",
        "[reads]",
        "menu@6.12",
        "A note.",
        "wakepath study run",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn of_equals_the_first_is_named() {
    let folder = results(&document(6), |run| {
        if run.key.policy == "ladder" {
            run.metrics = made::run("", "teo", run.key.repeat, 0.9).metrics;
        }
    });
    let fastest = &view_of(&folder).answers[0].sentence;
    assert!(fastest.starts_with("teo on both workloads"), "{fastest}");
}

#[test]
fn a_question_is_answered_against_its_own_baseline() {
    let mut document = document(6);
    document.questions[0].baseline = Some("ladder".into());
    document.questions[1].baseline = Some("teo".into());
    document.questions[1].workloads = vec!["writes".into()];
    let view = view_of(&results(&document, |_| {}));
    let sentences: Vec<&str> = view.answers.iter().map(|a| a.sentence.as_str()).collect();
    assert!(
        sentences[0].starts_with("teo on both workloads: better than ladder by 2"),
        "{sentences:?}"
    );
    // menu is one of those that the question is about then, ladder none.
    let details = &view.answers[0].details[0];
    assert!(
        details.contains("menu: better by") && !details.contains("ladder: "),
        "{details}"
    );
    assert_eq!(sentences[1], "teo: everything else is worse.");
    assert_eq!(view.answers[1].details.len(), 1, "{:?}", view.answers[1]);
    // The table keeps the study's.
    let baseline = view.policies.iter().find(|p| p.baseline).unwrap();
    assert_eq!(baseline.name, "menu");
}

#[test]
fn a_question_for_the_best_policy_is_answered_first() {
    let mut document = document(6);
    let best = |ask: &str, keep: &str| Question {
        ask: ask.into(),
        goal: Some(Goal::Minimise),
        metric: "mean_mw".into(),
        keep: vec![keep.parse().unwrap()],
        ..document.questions[0].clone()
    };
    let questions = [
        best("Cheapest?", "p99_us < 230"),
        best("Faster?", "p99_us < 50"),
    ];
    document.questions.extend(questions);
    let folder = results(&document, |_| {});
    let view = view_of(&folder);
    let asked: Vec<&str> = view.answers.iter().map(|a| a.question.as_str()).collect();
    assert_eq!(
        asked,
        [
            "Cheapest?",
            "Faster?",
            "Which is fastest?",
            "Is ladder worse?"
        ]
    );
    // ladder draws least and is too slow.
    let [cheapest, faster] = [&view.answers[0], &view.answers[1]];
    assert!(
        cheapest.sentence.starts_with("menu: power 500.0 mW")
            && cheapest.sentence.contains("surely keeps p99_us < 230"),
        "{cheapest:?}"
    );
    assert_eq!(cheapest.tone, Tone::Better);
    let misses = &cheapest.details[1];
    assert!(
        misses.starts_with("Better, but misses p99_us < 230 by 6.1 %: ladder"),
        "{misses}"
    );
    assert!(
        cheapest
            .details
            .iter()
            .any(|d| d == "menu: idle menu@6.12.")
    );
    assert!(
        faster
            .sentence
            .contains("Nearest: teo, misses p99_us < 50 by"),
        "{faster:?}"
    );
    assert_eq!(faster.tone, Tone::Worse);
    let tile = cheapest.tile.as_ref().unwrap();
    assert_eq!(
        (tile.headline.as_str(), tile.settings.as_str()),
        ("menu", "idle menu@6.12")
    );
    let entries: Vec<[&str; 3]> = tile
        .entries
        .iter()
        .map(|entry| [&*entry.label, &*entry.value, &*entry.note])
        .collect();
    assert_eq!(entries[0][0], "p99 latency");
    assert!(
        entries[0][2].starts_with("limit at most 230 us, kept by 1")
            && entries[0][2].contains("; worst on "),
        "{entries:?}"
    );
    assert_eq!(entries[1][..2], ["power", "500.0 mW"]);
    assert_eq!(entries[2], ["next best", "teo", "power +11.1 %"]);
    // Pictures open with this question.
    let focus = view.focus.as_ref().unwrap();
    let name = |metric: usize| view.metrics[metric].name.as_str();
    assert_eq!((name(focus.metric), focus.winner), ("mean_mw", Some(0)));
    assert!((focus.limits[0].value - 230.0).abs() < 1e-9 && focus.limits[0].is_upper);
    assert_eq!(name(focus.limits[0].metric), "p99_us");
    // What nothing keeps is said, with the nearest.
    let tile = faster.tile.as_ref().unwrap();
    assert_eq!(tile.headline, "Nothing keeps the limit");
    assert_eq!(tile.entries[0].value, "teo");
    // Beside other results each study is answered by its own, with the policies as the page calls them.
    let readers = [&folder, &folder].map(|f| ResultReader::open(f.path().join("r")).unwrap());
    let both = from_results::build_view(&readers, None).unwrap();
    let first = &both.answers[0].sentence;
    assert!(
        both.policies
            .iter()
            .any(|p| first.starts_with(&format!("{}: ", p.name))),
        "{first}"
    );
}

#[test]
fn a_winner_has_a_tile_with_gain_cost_next_and_assumptions() {
    let mut document = document(6);
    document.policies[1].notes = vec!["EPP 80 is assumed.".into()];
    let folder = results(&document, |_| {});
    let machine = "[package]\nidle_mw = { value = 300, assumed = \"typical\" }\n[scheduler]\nipi_us = { value = 1, assumed = \"as elsewhere\" }\n";
    fs::write(folder.path().join("r/machine.toml"), machine).unwrap();
    let view = view_of(&folder);
    assert_eq!(view.assumed_figures, 2);
    let tile = view.answers[0].tile.as_ref().unwrap();
    assert_eq!(tile.headline, "teo");
    let entry = |label: &str| {
        tile.entries
            .iter()
            .find(|entry| entry.label == label)
            .unwrap()
    };
    let gain = entry("p99 latency");
    assert!(
        gain.value.starts_with("+10.0") && gain.value.ends_with("% better"),
        "{gain:?}"
    );
    assert_eq!(gain.note, "against menu, on 2 workloads");
    let power = entry("power");
    assert!(
        power.value.starts_with("556") && power.note.contains("from assumed figures"),
        "{power:?}"
    );
    assert_eq!(entry("next best").value, "menu");
    let assumed = entry("assumed");
    assert_eq!(assumed.value, "2 figures");
    assert!(
        assumed.note.ends_with("one thing about this policy"),
        "{assumed:?}"
    );
    // Nothing is surely better: there is no tile.
    assert!(view.answers[1].tile.is_none());
    assert_eq!(view.focus.as_ref().unwrap().winner, Some(1));
    // Measurements rest on no description.
    document.backend = RunOrigin::Live;
    let measured = results(&document, |_| {});
    fs::write(measured.path().join("r/machine.toml"), machine).unwrap();
    assert_eq!(view_of(&measured).assumed_figures, 0);
}

#[test]
fn workloads_of_a_list_of_rates_make_a_curve_over_the_load() {
    let names = ["reads/rate_iops=4000", "reads/rate_iops=1000", "writes"];
    let mut document = made::document(&names, &POLICIES, 4);
    for (workload, per_second) in document.workloads.iter_mut().zip([4000.0, 1000.0]) {
        workload.rates = vec![RequestedRate {
            job: "a".into(),
            direction: "read".into(),
            per_second,
            unit: "I/Os".into(),
            poisson: false,
        }];
    }
    let view = view_of(&results(&document, |_| {}));
    let [series] = &view.load_series[..] else {
        panic!("{:?}", view.load_series);
    };
    assert_eq!(
        (series.name.as_str(), series.unit.as_str()),
        ("reads", "I/Os")
    );
    assert_eq!(series.points, [(1000.0, 1), (4000.0, 0)]);
    let page = render_html_report(&view).unwrap();
    assert!(page.contains("<figure id=\"load\""));
}

#[test]
fn a_study_without_a_title_is_called_by_its_question() {
    let mut untitled = document(4);
    for title in ["", "governors"] {
        title.clone_into(&mut untitled.study.title);
        let view = view_of(&results(&untitled, |_| {}));
        assert_eq!(view.title, "Which is fastest?");
    }
    untitled.questions.clear();
    assert_eq!(view_of(&results(&untitled, |_| {})).title, "governors");
}

#[test]
fn the_star_considers_every_comparison_of_its_metric_and_no_other() {
    // A gain that is significant alone, and not among all of the table's.
    let document = document(6);
    let folder = results(&document, |run| {
        let noise = [0.0, 0.011, -0.009, 0.004, -0.012, 0.006][run.key.repeat as usize];
        let gain = if run.key.policy == "menu" {
            0.0
        } else {
            0.02 + noise
        };
        for (name, value) in &mut run.metrics {
            *value = 100.0 * (1.0 + if *name == "iops" { gain } else { 0.0 });
        }
    });
    let view = view_of(&folder);
    let reader = ResultReader::open(folder.path().join("r")).unwrap();
    let source = Source::read_result("r", &reader).unwrap();
    let compared = compare_results(&[source], &CompareOptions::default()).unwrap();
    for row in &view.rows {
        let (metric, workload) = (
            &view.metrics[row.metric].name,
            &view.workloads[row.workload].name,
        );
        let policy = &view.policies[row.policy].name;
        let found = compared
            .rows
            .iter()
            .find(|r| r.metric == *metric && r.load.workload == *workload && r.policy == *policy);
        assert_eq!(
            row.gain.is_some_and(|g| g.significant),
            found.unwrap().significant
        );
    }
    let alone = CompareOptions {
        metrics: vec!["iops".into()],
        ..CompareOptions::default()
    };
    let source = Source::read_result("r", &reader).unwrap();
    let alone = compare_results(&[source], &alone).unwrap();
    let p = |comparison: &Comparison| {
        let row = comparison
            .rows
            .iter()
            .find(|r| r.metric == "iops" && r.policy == "teo");
        row.unwrap().corrected_p.unwrap()
    };
    assert!((p(&alone) - p(&compared)).abs() < 1e-12);
}

#[test]
fn results_of_several_machines_have_baselines_of_their_own() {
    let first = results(&document(4), |_| {});
    let mut other = document(4);
    other.machines[0].name = "server".into();
    let other = results(&other, |run| {
        // Half as much as the board, whatever the policy.
        for (_, value) in &mut run.metrics {
            *value *= 0.5;
        }
    });
    let readers = [&first, &other].map(|f| ResultReader::open(f.path().join("r")).unwrap());
    let view = from_results::build_view(&readers, None).unwrap();
    let baselines = view.policies.iter().filter(|p| p.baseline);
    assert_eq!(baselines.count(), 2);
    let gain = |policy: usize| {
        let mut rows = view.rows.iter().filter(|r| r.policy == policy);
        rows.find(|r| view.metrics[r.metric].name == "mean_us" && r.workload == 0)
            .unwrap()
            .gain
            .map(|g| g.percent.round())
    };
    // menu, teo, ladder of the board, then of the server.
    let gains: Vec<Option<f64>> = (0..6).map(gain).collect();
    let own = [None, Some(10.0), Some(-20.0)];
    assert_eq!(gains, [own, own].concat());
    // One that is named is the baseline of all.
    let name = view.policies[0].name.clone();
    let view = from_results::build_view(&readers, Some(&name)).unwrap();
    assert_eq!(view.policies.iter().filter(|p| p.baseline).count(), 1);
    render_html_report(&view).unwrap();
}

#[test]
fn a_study_of_several_machines_compares_policies_on_each() {
    let mut both = document(4);
    let board = both.machines[0].clone();
    both.machines.push(MachineInfo {
        name: "server".into(),
        title: "A server".into(),
        source: "machines/server.toml".into(),
        cpu_kinds: vec![CpuKind {
            name: "little".into(),
            cpus: 2,
        }],
        ..board
    });
    // On the server only the first workload runs; it is five times as slow, and menu wins there.
    both.workloads[1].machines = vec!["board".into()];
    let folder = results(&both, |run| {
        let slow = if run.key.machine == "server" {
            5.0
        } else {
            1.0
        };
        let slow = if slow > 1.0 && run.key.policy == "teo" {
            9.0
        } else {
            slow
        };
        for (name, value) in &mut run.metrics {
            *value *= if name == "iops" { 1.0 / slow } else { slow };
        }
    });
    let view = view_of(&folder);
    let names: Vec<&str> = view.workloads.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["reads (board)", "writes (board)", "reads (server)"]);
    assert_eq!(view.policies.iter().filter(|p| p.baseline).count(), 1);
    let gain = |workload: usize| {
        let is_it = |r: &&PageRow| {
            r.workload == workload && r.policy == 1 && view.metrics[r.metric].name == "mean_us"
        };
        view.rows
            .iter()
            .find(is_it)
            .unwrap()
            .gain
            .unwrap()
            .percent
            .round() as i64
    };
    assert_eq!([gain(0), gain(1), gain(2)], [10, 10, -62]);
    // A state's rates are those of the machine's number of CPUs.
    let entries = |workload: usize| view.workloads[workload].idle[0].states[1].entries;
    assert!((entries(2) / entries(0) - 0.5).abs() < 1e-9);
    assert!(view.facts.contains(&"A server".to_owned()));
    render_html_report(&view).unwrap();
}

#[test]
fn a_single_run_gives_numbers_and_no_verdict() {
    let view = view_of(&results(&document(1), |_| {}));
    assert!(
        view.cautions.iter().any(|c| c.contains("A single run")),
        "{:?}",
        view.cautions
    );
    assert!(
        view.rows
            .iter()
            .all(|r| r.tone == Tone::Open && r.deviation_percent.is_none())
    );
    assert!(view.answers.iter().all(|a| a.tone == Tone::Open));
    assert!(
        view.answers[0].sentence.contains("1 run(s): no interval"),
        "{:?}",
        view.answers[0]
    );
    render_html_report(&view).unwrap();
}

#[test]
fn tables_without_rows_and_tables_that_are_gone_are_missing_parts() {
    let folder = results(&document(4), |run| {
        run.attribution.clear();
        run.timeline.clear();
    });
    fs::remove_file(folder.path().join("r/latency.parquet")).unwrap();
    let view = view_of(&folder);
    let missing: Vec<&String> = view
        .cautions
        .iter()
        .filter(|c| c.contains("is missing"))
        .collect();
    assert_eq!(missing.len(), 1, "{:?}", view.cautions);
    let reads = &view.workloads[0];
    assert!(reads.curves.is_empty() && reads.parts.is_empty() && reads.timelines.is_empty());
    assert!(!reads.percentiles.is_empty());
    // A picture and its place in the other workload each.
    assert_eq!(
        render_html_report(&view)
            .unwrap()
            .matches("<p class=\"missing\">")
            .count(),
        6
    );
}

#[test]
fn an_interrupted_study_is_reported_as_far_as_it_got() {
    let folder = results(&document(4), |_| {});
    let dir = folder.path().join("r");
    let document = fs::read_to_string(dir.join("result.json")).unwrap();
    let unfinished = document.replace("\"complete\": true", "\"complete\": false");
    fs::write(dir.join("result.json"), unfinished).unwrap();
    // teo's last repeats on the second workload are not there yet, and none of ladder's.
    for index in [16, 22, 5, 11, 17, 23] {
        fs::remove_file(dir.join(format!("runs/{index:06}.json"))).unwrap();
    }
    let view = view_of(&folder);
    assert!(
        view.cautions[0].contains("interrupted"),
        "{:?}",
        view.cautions
    );
    assert_eq!(view.workloads[1].curves.len(), 2);
    render_html_report(&view).unwrap();
}

/// The second workload is some requests of the first one.
fn with_subset(whole: &str) -> View {
    let mut document = document(4);
    document.workloads[1].subset = Some(RequestSubset {
        workload: whole.to_owned(),
        requests: "C6 met".to_owned(),
    });
    view_of(&results(&document, |_| {}))
}

#[test]
fn a_subset_of_requests_is_a_line_in_the_pictures_of_the_whole() {
    let view = with_subset(WORKLOADS[0]);
    assert_eq!(view.workloads.len(), 1);
    let shown = &view.workloads[0];
    assert_eq!(shown.curves.len(), 2 * POLICIES.len());
    let lines: Vec<usize> = shown.parts.iter().map(|parts| parts.policy).collect();
    let subset = view.policies.iter().position(|p| p.name == "menu, C6 met");
    assert!(lines.contains(&subset.unwrap()), "{lines:?}");
    // It is compared with nothing.
    assert!(view.rows.iter().all(|row| row.policy < POLICIES.len()));
    let page = render_html_report(&view).unwrap();
    assert!(page.contains("1 workload × 3 policies"));
}

#[test]
fn a_subset_of_no_known_workload_is_a_workload() {
    let view = with_subset("removed");
    assert_eq!(view.workloads.len(), 2);
    assert_eq!(view.policies.len(), POLICIES.len());
}

#[test]
fn several_results_are_told_apart() {
    let sim = results(&document(4), |_| {});
    let live = Document {
        backend: RunOrigin::Live,
        ..document(4)
    };
    let live = results(&live, |run| {
        run.attribution.clear();
    });
    let readers = [&sim, &live].map(|f| ResultReader::open(f.path().join("r")).unwrap());
    let view = from_results::build_view(&readers, None).unwrap();
    assert_eq!(view.policies.len(), 6);
    let names: Vec<&str> = view.policies.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(
        names
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        6,
        "{names:?}"
    );
    assert_eq!(view.workloads.len(), 2);
    assert_eq!(view.sources.len(), 2);
    assert_eq!(view.policies.iter().filter(|p| p.baseline).count(), 1);
    render_html_report(&view).unwrap();
}

#[test]
fn what_cannot_be_reported_on_is_one_error() {
    let folder = results(&document(4), |_| {});
    let dir = folder.path().join("r");
    let open = |dir: &Path| ResultReader::open(dir);
    assert!(matches!(
        from_results::build_view(&[], None),
        Err(FromResultsError::Nothing)
    ));
    let error = from_results::build_view(&[open(&dir).unwrap()], Some("menus"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("menus") && error.contains("ladder"),
        "{error}"
    );
    let document = fs::read_to_string(dir.join("result.json")).unwrap();
    fs::write(
        dir.join("result.json"),
        document.replace("\"version\": 2", "\"version\": 7"),
    )
    .unwrap();
    assert!(matches!(
        open(&dir),
        Err(ResultsError::Version { found: 7, .. })
    ));
    // A table that is none.
    fs::write(dir.join("result.json"), &document).unwrap();
    fs::write(dir.join("idle.parquet"), b"PAR1 and then nothing").unwrap();
    let error = from_results::build_view(&[open(&dir).unwrap()], None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("idle.parquet"), "{error}");
}
