//! The page of 10,000 runs: it stays small, says what it leaves out, and what it says of all policies stays true.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::fs;

use crate::common::results as made;
use crate::common::sample;
use tempfile::TempDir;
use wakepath_report::html::{LARGEST_PAGE, from_results, render_html_report};
use wakepath_results::{Document, Goal, Mode, Question, ResultReader, ResultWriter, RunRecord};

/// The bytes around a number of things of some many, such as `64 of 500 policies`.
fn shown(page: &str, what: &str) -> [usize; 2] {
    let end = page.find(what).unwrap();
    let words: Vec<&str> = page[..end].split_whitespace().collect();
    let [some, "of", all] = words[words.len() - 3..] else {
        panic!("no numbers before {what}");
    };
    [some, all].map(|n| n.parse().unwrap())
}

/// The policies that the pictures show at first.
fn shown_first(page: &str) -> Vec<String> {
    let data = sample::data(page);
    let policies = data["policies"].as_array().unwrap().iter();
    let shown = policies.filter(|p| p["shown"] == true);
    shown
        .map(|p| p["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn ten_thousand_runs_make_a_small_page_that_says_what_it_leaves_out() {
    let policies: Vec<String> = (0..500).map(|i| format!("policy {i:03}")).collect();
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let workloads = ["reads", "writes", "mixed", "bursts"];
    let mut document = made::document(&workloads, &policies, 5);
    document.questions = vec![Question {
        ask: "Cheapest?".into(),
        metric: "mean_mw".into(),
        goal: Some(Goal::Minimise),
        keep: vec!["p99_us < 222".parse().unwrap()],
        policies: vec![],
        workloads: vec![],
        machines: vec![],
        baseline: None,
    }];
    let folder = written(&document);
    let reader = ResultReader::open(folder.path().join("r")).unwrap();
    let dir = reader.dir().display().to_string();
    let view = from_results::build_view(&[reader], None).unwrap();
    let page = render_html_report(&view).unwrap();
    assert!(page.len() <= LARGEST_PAGE, "{} bytes", page.len());
    // There is no reason to show much less than fits.
    assert!(page.len() > LARGEST_PAGE / 10 * 9, "{} bytes", page.len());
    let [some, all] = shown(&page, " policies; with everything it would be");
    assert!(all == 500 && (8..500).contains(&some), "{some} of {all}");
    let drawn = sample::data(&page)["policies"].as_array().unwrap().len();
    assert_eq!(drawn, some);
    for wanted in [
        format!("wakepath compare {dir} --format csv"),
        format!("wakepath compare {dir} --top 500"),
        "Parquet".to_owned(),
    ] {
        assert!(page.replace("&#x2f;", "/").contains(&wanted), "{wanted}");
    }
    // The answer is of all: power falls and latency rises with the number of the policy.
    let best = &view.answers[0].sentence;
    assert!(best.starts_with("policy 067: power"), "{best}");
    // It is shown, though far from the first; those on the front are, too.
    let first = shown_first(&page);
    assert_eq!(first.len(), 8);
    for name in ["policy 000", "policy 067"] {
        assert!(first.iter().any(|f| f == name), "{first:?}");
    }
}

/// The results of a study: the higher the number of a policy, the slower it is and the less it draws.
fn written(document: &Document) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("r");
    let writer = ResultWriter::open(&dir, document.clone(), &[], Mode::New).unwrap();
    let mut index = 0;
    for repeat in 0..document.repeats {
        for workload in &document.workloads {
            for (number, policy) in document.policies.iter().enumerate() {
                let factor = 1.0 + number as f64 / 1000.0;
                let mut run = made::run(&workload.name, &policy.name, repeat, factor);
                detailed(&mut run);
                // As the writer does it, which waits for the disk each time.
                let path = dir.join(format!("runs/{index:06}.json"));
                fs::write(path, serde_json::to_vec(&run).unwrap()).unwrap();
                index += 1;
            }
        }
    }
    writer.write_tables_and_finish().unwrap();
    folder
}

/// As many details as a simulation has.
fn detailed(run: &mut RunRecord) {
    let buckets = (0..60).map(|i| (1000 * i, 1000 * (i + 1), 1 + i % 7));
    run.latency = buckets.map(Into::into).collect();
    if run.key.repeat == 0 {
        let span = |i: u64| {
            let (track, from) = (format!("CPU {}", i % 4), 50_000 * i);
            (
                "p99".to_owned(),
                track,
                "WFI".to_owned(),
                from,
                from + 40_000,
            )
        };
        run.timeline = (0..40).map(|i| span(i).into()).collect();
    }
}

#[test]
fn workloads_are_left_out_where_few_policies_are_too_much() {
    let view = sample::view(9, 100, |kind, index| format!("{kind}{index}"));
    let page = render_html_report(&view).unwrap();
    assert!(page.len() <= LARGEST_PAGE, "{} bytes", page.len());
    let [some, all] = shown(&page, " workloads; with everything it would be");
    assert!(all == 100 && some > 10, "{some} of {all}");
    assert_eq!(page.matches("class=\"workload\"").count(), some);
    let [some, all] = shown(&page, " policies and ");
    assert_eq!([some, all], [8, 9]);
}

#[test]
fn a_small_page_has_everything() {
    let view = sample::view(9, 3, |kind, index| format!("{kind}{index}"));
    let page = render_html_report(&view).unwrap();
    assert!(page.len() < LARGEST_PAGE && !page.contains("id=\"left-out\""));
    assert!(page.contains("Comparison of all policies"));
    assert_eq!(shown_first(&page).len(), 8);
    for policy in 0..9 {
        assert!(page.contains(&format!("\"name\":\"policy{policy}\"")));
    }
}
