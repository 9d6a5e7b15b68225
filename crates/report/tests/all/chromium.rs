//! The page in a real browser: everything is drawn, nothing complains, nothing is loaded, and it can be used from the
//! keyboard, on a phone, in light and in dark.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::path::{Path, PathBuf};

use crate::common::browser::Browser;
use crate::common::sample;
use serde_json::Value;
use tempfile::TempDir;
use wakepath_report::html::render_html_report;
use wakepath_report::html::view::View;

fn plain(kind: &str, index: usize) -> String {
    format!("{kind}@{index}")
}

fn write(view: &View) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    std::fs::write(&path, render_html_report(view).unwrap()).unwrap();
    (folder, path)
}

/// Pictures of any workload without an SVG with something in it.
const EMPTY: &str = "[...document.querySelectorAll('figure.picture')].filter((figure) => {
    const svg = figure.querySelector('.plot svg');
    return !figure.dataset.drawn || !svg || svg.querySelectorAll('path, text').length < 5;
}).map((figure) => figure.id)";

fn no_complaints(browser: &mut Browser) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(browser.requests(), Vec::<String>::new());
}

#[test]
fn every_picture_is_drawn_light_and_dark_and_on_a_phone() {
    let test = "every_picture_is_drawn_light_and_dark_and_on_a_phone";
    let Some(mut browser) = Browser::start(test) else {
        return;
    };
    let (_folder, page) = write(&sample::view(4, 2, plain));
    for (width, dark) in [(1280, false), (1280, true), (390, false)] {
        browser.open(&page, width, 900, dark);
        browser.draw_all();
        assert_eq!(
            browser.evaluate(EMPTY),
            serde_json::json!([]),
            "{width} {dark}"
        );
        let theme = if dark { "dark" } else { "light" };
        let drawn = browser.evaluate(
            "[...document.querySelectorAll('figure.picture')].every((f) => f.dataset.drawn)",
        );
        assert_eq!(drawn, true);
        let themes = browser.evaluate(
            "[...new Set([...document.querySelectorAll('figure.picture')].map((f) => f.dataset.drawn))]",
        );
        assert_eq!(themes, serde_json::json!([theme]));
        // No sideways scrolling of the page.
        let sideways = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
        assert!(sideways.as_i64().unwrap() <= 0, "{width}: {sideways}");
        no_complaints(&mut browser);
        // To look at after a run of the tests.
        let top = browser.screenshot(0, 4000);
        let name = format!("report-{width}-{theme}.png");
        std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), top).unwrap();
    }
    let printed = browser.print();
    assert!(printed.starts_with(b"%PDF-"));
    std::fs::write(
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.pdf"),
        printed,
    )
    .unwrap();
}

/// Where the first answer ends, in pixels from the top of the page.
const ANSWER_END: &str =
    "Math.ceil(document.getElementById('answer').getBoundingClientRect().bottom + scrollY)";

#[test]
fn the_answer_ends_above_the_fold() {
    let Some(mut browser) = Browser::start("the_answer_ends_above_the_fold") else {
        return;
    };
    let mut view = sample::view(6, 3, plain);
    view.title = "How cheap may reads be if 99 % of them take at most 300 us?".into();
    view.answers[0].question = "Which set draws least with p99 below 300 us on every load?".into();
    view.cautions = (0..10)
        .map(|i| {
            format!("Caution {i}: a sentence about what these results do not know. ").repeat(3)
        })
        .collect();
    let (_folder, page) = write(&view);
    for (width, height) in [(1280, 900), (390, 844)] {
        browser.open(&page, width, height, false);
        let end = browser.evaluate(ANSWER_END);
        assert!(end.as_u64().unwrap() <= u64::from(height), "{width}: {end}");
        // All of the tile can be seen, and the cautions follow, folded under their number.
        let tile = browser.evaluate("document.querySelectorAll('#answer .tile div').length");
        assert_eq!(tile, 4);
        let folded = browser.evaluate(
            "(() => { const d = document.querySelector('.cautions details'); return [d.open, d.textContent.includes('10 cautions')]; })()",
        );
        assert_eq!(folded, serde_json::json!([false, true]));
    }
    no_complaints(&mut browser);
}

/// The content of a file that the page saves, as soon as the whole file is there.
fn saved(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    for _ in 0..200 {
        if path.exists() {
            return std::fs::read_to_string(path).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{name} was not saved");
}

#[test]
fn a_picture_is_saved_as_svg_and_csv() {
    let Some(mut browser) = Browser::start("a_picture_is_saved_as_svg_and_csv") else {
        return;
    };
    let (_folder, page) = write(&sample::view(3, 2, plain));
    let downloads = tempfile::tempdir().unwrap();
    browser.open(&page, 1280, 900, false);
    browser.draw_all();
    browser.save_into(downloads.path());
    let buttons = browser.evaluate(
        "[...document.querySelectorAll('figure.picture')].every((f) => f.querySelectorAll('.save button').length === 2)",
    );
    assert_eq!(buttons, true);
    browser.evaluate("document.querySelectorAll('#w0-tradeoff .save button')[0].click()");
    let svg = saved(downloads.path(), "w0-tradeoff.svg");
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("policy@2") && svg.contains("against latency"));
    // A picture of its own, without the page.
    let alone = downloads.path().join("w0-tradeoff.svg");
    browser.open(&alone, 1280, 900, false);
    assert_eq!(browser.evaluate("document.documentElement.tagName"), "svg");
    browser.open(&page, 1280, 900, false);
    browser.evaluate("document.querySelectorAll('#gains .save button')[1].click()");
    let csv = saved(downloads.path(), "gains.csv");
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("workload,metric,policy,\"gain, %\",\"from, %\",\"to, %\",significant")
    );
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), 7, "{line}");
        assert!(
            cells[3..6].iter().all(|cell| cell.parse::<f64>().is_ok()),
            "{line}"
        );
    }
    no_complaints(&mut browser);
}

#[test]
fn a_comparison_is_sorted_by_any_column() {
    let Some(mut browser) = Browser::start("a_comparison_is_sorted_by_any_column") else {
        return;
    };
    let (_folder, page) = write(&sample::view(5, 1, plain));
    browser.open(&page, 1280, 900, false);
    let column = "[...document.querySelectorAll('.comparison tbody tr')].map((row) => row.cells[0].querySelector('bdi').textContent.slice(-1)).join('')";
    assert_eq!(browser.evaluate(column), "01234");
    let click = "document.querySelectorAll('.comparison .sort')[1].click()";
    // policy@1 has no gain, policy@0 has one of -7 %.
    browser.evaluate(click);
    assert_eq!(browser.evaluate(column), "01234");
    browser.evaluate(click);
    assert_eq!(browser.evaluate(column), "43210");
    let sorted = "document.querySelectorAll('.comparison thead th')[1].getAttribute('aria-sort')";
    assert_eq!(browser.evaluate(sorted), "descending");
    no_complaints(&mut browser);
}

#[test]
fn a_bar_leads_to_a_request_in_the_timeline() {
    let Some(mut browser) = Browser::start("a_bar_leads_to_a_request_in_the_timeline") else {
        return;
    };
    let (_folder, page) = write(&sample::view(3, 1, plain));
    browser.open(&page, 1280, 900, false);
    browser.draw_all();
    let around = "['policy', 'at'].map((key) => document.querySelector(`#w0-timeline select[data-choice=${key}]`).value)";
    // The bars of the mean come first, then those of p99.
    let keys = |count: usize| {
        format!(
            "(() => {{ const plot = document.querySelector('#w0-parts .plot');
                for (let i = 0; i < {count}; i += 1) plot.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowRight'}}));
                plot.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter'}})); }})()"
        )
    };
    browser.evaluate(&keys(5));
    assert_eq!(browser.evaluate(around), serde_json::json!(["1", "p99"]));
    let focused = "document.activeElement.closest('figure').id";
    assert_eq!(browser.evaluate(focused), "w0-timeline");
    // A click on the bar of another policy.
    let place = browser.evaluate(
        "(() => { document.getElementById('w0-parts').scrollIntoView({block: 'center'});
            const box = document.querySelector('#w0-parts .plot').getBoundingClientRect();
            const bars = [...document.querySelectorAll('#w0-parts .plot svg path')].map((p) => p.getBoundingClientRect())
                .filter((r) => r.width > 40 && r.height > 12 && r.height < 40 && r.left > box.left + box.width / 2);
            const last = bars.sort((a, b) => b.top - a.top)[0];
            return [last.left + last.width / 2, last.top + last.height / 2]; })()",
    );
    browser.click(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    assert_eq!(browser.evaluate(around), serde_json::json!(["2", "p99"]));
    no_complaints(&mut browser);
}

#[test]
fn every_choice_draws_another_picture() {
    let Some(mut browser) = Browser::start("every_choice_draws_another_picture") else {
        return;
    };
    let (_folder, page) = write(&sample::view(4, 1, plain));
    browser.open(&page, 1280, 900, false);
    browser.draw_all();
    let unchanged = browser.evaluate(
        "[...document.querySelectorAll('figure.picture select')].flatMap((select) => {
            const plot = select.closest('figure').querySelector('.plot');
            const seen = new Set();
            for (const option of select.options) {
                select.value = option.value;
                select.dispatchEvent(new Event('change'));
                seen.add(plot.innerHTML.replace(/zr\\d+-/g, ''));
            }
            return seen.size === select.options.length ? [] : [select.closest('figure').id + ' ' + select.dataset.choice];
        })",
    );
    assert_eq!(unchanged, serde_json::json!([]));
    // So does taking a policy away, and the button for dark.
    let names = "document.querySelector('#w0-percentiles .plot').textContent";
    assert!(
        browser
            .evaluate(names)
            .as_str()
            .unwrap()
            .contains("policy@2")
    );
    browser.evaluate("document.querySelectorAll('#policies button')[2].click()");
    assert!(
        !browser
            .evaluate(names)
            .as_str()
            .unwrap()
            .contains("policy@2")
    );
    browser.evaluate("document.getElementById('theme').click()");
    assert_eq!(
        browser.evaluate("document.querySelector('#w0-percentiles').dataset.drawn"),
        "dark"
    );
    let paper = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_eq!(paper, "rgb(18, 22, 27)");
    no_complaints(&mut browser);
}

#[test]
fn links_lead_somewhere() {
    let Some(mut browser) = Browser::start("links_lead_somewhere") else {
        return;
    };
    let (_folder, page) = write(&sample::view(2, 3, plain));
    browser.open(&page, 1280, 900, false);
    let lost = "[...document.querySelectorAll('a')].filter((a) => !a.hash || !document.getElementById(a.hash.slice(1)))
        .map((a) => a.outerHTML)";
    assert_eq!(browser.evaluate(lost), serde_json::json!([]));
    // Another workload, by its menu and by a link from outside.
    browser.evaluate("{ const s = document.getElementById('workload'); s.value = 'w2'; s.dispatchEvent(new Event('change')); }");
    let visible = "[...document.querySelectorAll('section.workload')].filter((s) => !s.hidden).map((s) => s.id)";
    assert_eq!(browser.evaluate(visible), serde_json::json!(["w2"]));
    assert_eq!(browser.evaluate(lost), serde_json::json!([]));
    let link = browser.evaluate("document.querySelector('#bar a[data-group=power]').hash");
    assert_eq!(link, "#w2-power");
    browser.evaluate("new Promise((r) => { addEventListener('hashchange', () => r(1)); location.hash = 'w1-latency'; })");
    assert_eq!(browser.evaluate(visible), serde_json::json!(["w1"]));
    no_complaints(&mut browser);
}

#[test]
fn everything_can_be_done_from_the_keyboard() {
    let Some(mut browser) = Browser::start("everything_can_be_done_from_the_keyboard") else {
        return;
    };
    let (_folder, page) = write(&sample::view(3, 1, plain));
    browser.open(&page, 1280, 900, false);
    browser.draw_all();
    let mut reached: Vec<String> = Vec::new();
    let focused = "(() => { const e = document.activeElement; const f = e.closest('figure');
        return (f ? f.id + ' ' : '') + (e.id || e.className || e.tagName); })()";
    for _ in 0..200 {
        browser.press("Tab");
        let now = browser.evaluate(focused);
        let now = now.as_str().unwrap();
        if now == "BODY" {
            break;
        }
        reached.push(now.to_owned());
        // A summary opens its table, which then takes the focus, too.
        if reached.last().unwrap().ends_with("SUMMARY") {
            browser.press("Enter");
        }
        if reached.last().unwrap().ends_with("w0-parts plot") {
            browser.press("ArrowRight");
            browser.press("ArrowRight");
            let spoken = browser.evaluate("document.getElementById('spoken').textContent");
            assert!(spoken.as_str().unwrap().contains("policy@1"), "{spoken}");
        }
    }
    let figures =
        browser.evaluate("[...document.querySelectorAll('figure.picture')].map((f) => f.id)");
    for figure in figures.as_array().unwrap() {
        let figure = figure.as_str().unwrap();
        for part in ["plot", "scroll"] {
            let wanted = format!("{figure} {part}");
            assert!(reached.contains(&wanted), "{wanted} not in {reached:?}");
        }
    }
    assert!(reached.contains(&"theme".to_owned()) && reached.contains(&"scroll".to_owned()));
    no_complaints(&mut browser);
}

#[test]
fn twenty_policies_and_hostile_names_do_no_harm() {
    let Some(mut browser) = Browser::start("twenty_policies_and_hostile_names_do_no_harm") else {
        return;
    };
    let hostile = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 2'>";
    let (_folder, page) = write(&sample::view(20, 6, |kind, i| {
        format!("{kind}-{i}-{hostile}")
    }));
    for width in [1280, 390] {
        browser.open(&page, width, 900, false);
        browser.draw_all();
        assert_eq!(browser.evaluate(EMPTY), serde_json::json!([]));
        // Tooltips are made of names as well.
        browser.evaluate(
            "for (const plot of document.querySelectorAll('section:not([hidden]) .plot')) {
                for (let i = 0; i < 3; i += 1) plot.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
            }",
        );
        assert_eq!(browser.evaluate("window.hit"), Value::Null);
        let shown =
            browser.evaluate("document.querySelectorAll('#policies [aria-pressed=true]').length");
        assert_eq!(shown, 8);
        let sideways = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
        assert!(sideways.as_i64().unwrap() <= 0, "{width}: {sideways}");
        no_complaints(&mut browser);
    }
}

#[test]
fn missing_parts_and_gaps_are_drawn_around() {
    let Some(mut browser) = Browser::start("missing_parts_and_gaps_are_drawn_around") else {
        return;
    };
    let mut view = sample::view(3, 1, plain);
    let workload = &mut view.workloads[0];
    workload.parts.clear();
    workload.timelines.clear();
    workload.curves.truncate(1);
    workload.tradeoff[0].latency.mean = f64::NAN;
    workload.percentiles[1].values.clear();
    workload.idle[0].states[2].wasted_mw = f64::NAN;
    for row in &mut view.rows {
        if let Some(gain) = &mut row.gain {
            gain.interval = None;
        }
    }
    let (_folder, page) = write(&view);
    browser.open(&page, 1280, 900, false);
    browser.draw_all();
    assert_eq!(browser.evaluate(EMPTY), serde_json::json!([]));
    no_complaints(&mut browser);
    // Nothing at all.
    let (_folder, page) = write(&View::default());
    browser.open(&page, 1280, 900, false);
    no_complaints(&mut browser);
}
