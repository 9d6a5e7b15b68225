//! The page as text: what it says, that it stays one file, and what hostile names and missing parts do to it.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use crate::common::sample;
use proptest::prelude::*;
use wakepath_report::html::render_html_report;
use wakepath_report::html::view::{PageWorkload, View};

fn plain(kind: &str, index: usize) -> String {
    format!("{kind}@{index}")
}

#[test]
fn a_study_of_4_policies_and_5_workloads_fits_into_3_mb() {
    let page = render_html_report(&sample::view(4, 5, plain)).unwrap();
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    // A picture per kind and workload, the gains and the curve over the load; a table behind each.
    let figures = sample::data(&page)["figures"].as_object().unwrap().len();
    assert_eq!(figures, 5 * 8 + 2);
    assert_eq!(page.matches("<figure ").count(), figures);
    assert_eq!(page.matches("<summary>Table: ").count(), figures);
}

#[test]
fn several_cautions_are_folded_under_their_number() {
    let with_cautions = |cautions: &[&str]| {
        let view = View {
            cautions: cautions.iter().map(|text| (*text).to_owned()).collect(),
            ..sample::view(2, 1, plain)
        };
        render_html_report(&view).unwrap()
    };
    let folded = with_cautions(&["One run only.", "Power is assumed."]);
    assert!(folded.contains("<summary>2 cautions before you read on</summary>"));
    assert!(folded.contains("<li>One run only.</li>"));
    let single = with_cautions(&["One run only."]);
    assert!(single.contains("<p>One run only.</p>"));
    assert!(!single.contains("before you read on</summary>"));
}

/// The tables of the comparison.
fn comparison_tables(page: &str) -> Vec<&str> {
    let from = page.find("id=\"comparison\"").unwrap();
    let to = page[from..].find("Every comparison in a sentence").unwrap();
    page[from..from + to].split("<table ").skip(1).collect()
}

#[test]
fn a_comparison_has_a_row_per_policy_and_equal_policies_share_a_row() {
    let mut view = sample::view(4, 2, plain);
    for row in &mut view.rows {
        // policy@3 does what policy@2 does, and no policy changes the rate.
        if row.policy == 3 {
            row.policy = 2;
            let twin = row.clone();
            row.policy = 3;
            row.mean = 100.0 * (1.0 + 0.07) * 10_f64.powi(twin.metric as i32);
        }
        if row.policy == 2 {
            row.mean = 100.0 * (1.0 + 0.07) * 10_f64.powi(row.metric as i32);
        }
        if row.metric == 0 {
            row.mean = 2000.0;
            row.gain = None;
        }
    }
    let page = render_html_report(&view).unwrap();
    let tables = comparison_tables(&page);
    assert_eq!(tables.len(), 2);
    for table in tables {
        assert_eq!(table.matches("<th scope=\"row\">").count(), 3, "{table}");
        assert!(table.contains("also: <bdi>policy@3</bdi>"), "{table}");
        assert!(
            table.contains("Under every policy: IOPS 2\u{202f}000"),
            "{table}"
        );
        // The question's metric is the first column, then that of its condition.
        let heads: Vec<&str> = table.split("class=\"n\"><bdi>").skip(1).collect();
        assert!(heads[0].starts_with("power") && heads[1].starts_with("p99 latency"));
        assert_eq!(table.matches("class=\"winner\"").count(), 1);
    }
}

#[test]
fn an_assumption_stands_beside_the_figures_that_rest_on_it() {
    let mut view = sample::view(3, 1, plain);
    view.assumes_power = true;
    view.policies[2].notes = vec!["EPP 80 moves the lower end.".into()];
    for policy in &mut view.policies {
        policy.notes.push("A straight line".into());
    }
    let page = render_html_report(&view).unwrap();
    // What is assumed under every policy is said once.
    assert_eq!(page.matches("A straight line").count(), 1);
    let table = comparison_tables(&page)[0];
    let row = table
        .split("<tr")
        .find(|row| row.contains("policy@2"))
        .unwrap();
    assert!(row.contains("<p>EPP 80 moves the lower end.</p>"), "{row}");
    assert_eq!(table.matches("from assumed figures").count(), 1);
    let head = table
        .split("<th")
        .find(|th| th.contains("from assumed figures"));
    assert!(head.unwrap().contains("power"));
    for picture in ["gains", "w0-tradeoff"] {
        let figure = page
            .split(&format!("<figure id=\"{picture}\""))
            .nth(1)
            .unwrap();
        let note = figure.split("class=\"note\">").nth(1).unwrap();
        assert!(
            note.split("</p>")
                .next()
                .unwrap()
                .contains("assumed figures"),
            "{picture}"
        );
    }
}

#[test]
fn pictures_open_with_the_question_and_know_its_limit_and_its_answer() {
    let page = render_html_report(&sample::view(3, 3, plain)).unwrap();
    let data = sample::data(&page);
    let figures = &data["figures"];
    assert_eq!(figures["gains"]["data"]["first"], 3);
    assert_eq!(figures["load"]["data"]["first"], 3);
    let tradeoff = &figures["w0-tradeoff"]["data"]["metrics"][0];
    assert_eq!(tradeoff["title"], "p99 latency, us");
    assert_eq!(tradeoff["limits"][0]["text"], "p99 latency at most 300 us");
    let winners = tradeoff["points"].as_array().unwrap().iter();
    let winners: Vec<bool> = winners.map(|p| p["winner"] == true).collect();
    assert_eq!(winners, [false, true, false]);
    for picture in ["w0-distribution", "w0-percentiles"] {
        assert_eq!(figures[picture]["data"]["limits"][0]["value"], 300);
    }
    // The tail of the distribution, since the condition is on it.
    let choice = page.split("id=\"w0-distribution\"").nth(1).unwrap();
    let first = choice.split("<option value=\"").nth(1).unwrap();
    assert!(first.starts_with("tail"));
    // Without a condition on the tail all requests come first.
    let mut view = sample::view(3, 1, plain);
    view.focus = None;
    let page = render_html_report(&view).unwrap();
    let choice = page.split("id=\"w0-distribution\"").nth(1).unwrap();
    assert!(
        choice
            .split("<option value=\"")
            .nth(1)
            .unwrap()
            .starts_with("cdf")
    );
}

#[test]
fn a_name_is_listed_once_for_its_colour() {
    let page = render_html_report(&sample::view(2, 2, plain)).unwrap();
    let things = sample::data(&page)["things"].clone();
    assert_eq!(
        things["states"],
        serde_json::json!(["WFI", "cpu-sleep", "cluster-sleep"])
    );
    assert_eq!(things["busy"], serde_json::json!(["(busy)"]));
    let others: Vec<&str> = things["others"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_str().unwrap())
        .collect();
    // `idle exit` is a part of the latency and a span of the timeline; `WFI` is a state.
    assert_eq!(
        others.iter().filter(|name| **name == "idle exit").count(),
        1
    );
    assert!(!others.contains(&"WFI") && others.contains(&"task") && others.contains(&"too deep"));
}

#[test]
fn every_picture_has_a_title_a_text_and_rows() {
    let page = render_html_report(&sample::view(3, 2, plain)).unwrap();
    for part in page.split("<figure ").skip(1) {
        let figure = &part[..part.find("</figure>").unwrap()];
        for wanted in [
            "<figcaption",
            "role=\"img\"",
            "tabindex=\"0\"",
            "<th scope=\"row\">",
        ] {
            assert!(figure.contains(wanted), "no {wanted} in {figure}");
        }
        let alt = figure.split("aria-label=\"").nth(1).unwrap();
        assert!(alt.split('"').next().unwrap().len() > 40, "{figure}");
    }
}

#[test]
fn a_name_cannot_turn_the_text_around_it() {
    let odd = |kind: &str, index: usize| format!("{kind}{index}-\u{202e}gpj\u{2067}");
    let mut view = sample::view(2, 2, odd);
    view.title = "A \u{202e}title".into();
    let page = render_html_report(&view).unwrap();
    for control in ['\u{202e}', '\u{2067}'] {
        assert!(!page.contains(control));
    }
    assert!(page.contains("<title>A [U+202E]title \u{2013} wakepath</title>"));
    assert!(page.contains("<h1><bdi>A [U+202E]title</bdi></h1>"));
    let name = sample::data(&page)["policies"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(name.ends_with("-[U+202E]gpj[U+2067]"), "{name}");
    assert!(page.contains(&format!("<bdi>{name}</bdi>")));
}

#[test]
fn the_same_view_gives_the_same_page() {
    let page = || render_html_report(&sample::view(2, 2, plain)).unwrap();
    assert_eq!(page(), page());
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let page = render_html_report(&sample::view(2, 1, plain)).unwrap();
    for bad in ["src=", "<link rel=\"stylesheet", "@import", "url("] {
        // ECharts has its own way with some of these words.
        let ours = page.replace(include_str!("../../assets/echarts/echarts.min.js"), "");
        assert!(!ours.contains(bad), "{bad}");
    }
    assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none'"));
}

#[test]
fn what_is_missing_is_said() {
    let mut view = sample::view(2, 1, plain);
    let workload = &view.workloads[0];
    view.workloads[0] = PageWorkload {
        name: workload.name.clone(),
        percentiles: workload.percentiles.clone(),
        ..PageWorkload::default()
    };
    let page = render_html_report(&view).unwrap();
    assert_eq!(page.matches("<p class=\"missing\">").count(), 7);
    assert_eq!(page.matches("<figure ").count(), 2);
    // Not even a policy.
    let page = render_html_report(&View::default()).unwrap();
    assert!(page.contains("there is nothing to compare") && !page.contains("<figure "));
}

#[test]
fn what_is_no_number_is_a_gap() {
    let mut view = sample::view(2, 1, plain);
    view.rows[0].mean = f64::NAN;
    view.workloads[0].tradeoff[0].power.mean = f64::NAN;
    view.workloads[0].idle[0].states[1].wasted_mw = f64::INFINITY;
    view.workloads[0].percentiles[0].values[0].1.low = f64::NAN;
    let page = render_html_report(&view).unwrap();
    assert!(!page.contains("NaN\"") && !page.contains(">inf<") && !page.contains(">NaN<"));
    assert!(
        sample::data(&page)["figures"]["w0-tradeoff"]["data"]["metrics"][1]["points"][0]["y"][0]
            .is_null()
    );
}

const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ title }}]]>--!>";

#[test]
fn names_are_only_names() {
    let page = render_html_report(&sample::view(3, 2, |kind, i| {
        format!("{kind}{i} {HOSTILE}")
    }))
    .unwrap();
    assert!(!page.contains("<img src=x") && !page.contains("<script>alert"));
    assert_eq!(page.matches("<script").count(), 3);
    assert_eq!(page.matches("</script>").count(), 3);
    let name = sample::data(&page)["policies"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(name, format!("policy0 {HOSTILE}"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_name_and_any_number_make_a_page(
        name in "\\PC{0,20}",
        scale in prop::num::f64::ANY,
        policies in 0_usize..4,
        workloads in 0_usize..3,
    ) {
        let mut view = sample::view(policies, workloads, |kind, i| format!("{kind}{i}{name}"));
        for row in &mut view.rows {
            row.mean *= scale;
        }
        for workload in &mut view.workloads {
            for idle in &mut workload.idle {
                idle.states[0].share = scale;
            }
            for curve in &mut workload.curves {
                curve.points[3].0 = scale;
            }
        }
        let page = render_html_report(&view).unwrap();
        prop_assert_eq!(page.matches("<script").count(), 3);
        prop_assert!(sample::data(&page)["figures"].is_object());
    }
}
