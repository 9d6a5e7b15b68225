//! The site of the pages in docs/ (`scripts/site.py`), opened as a file in a real browser: its search finds what readers ask, nothing scrolls
//! sideways, and axe-core finds no serious barrier.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::common::browser::Browser;

/// A desktop's window and a phone's, in CSS pixels.
const SIZES: [(u32, u32); 2] = [(1280, 900), (PHONE, 844)];

/// The width of a phone.
const PHONE: u32 = 390;

/// How many pages of a search a reader looks at.
const LOOKED_AT: usize = 3;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn skip(test: &str, reason: &str) {
    assert!(
        std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
        "{reason}"
    );
    eprintln!("skipped: {test}: {reason}");
}

/// A program or file of the Python packages that `scripts/setup-python.sh` installs.
fn installed(pattern: &str) -> Option<PathBuf> {
    let environment = repository().join(".cache/python");
    let found = Command::new("find")
        .args([environment.as_os_str(), "-path".as_ref(), pattern.as_ref()])
        .output()
        .unwrap();
    let text = String::from_utf8(found.stdout).unwrap();
    text.lines().next().map(PathBuf::from)
}

/// The site built into a folder of its own, or why it cannot be built.
fn build_site(folder: &Path) -> Result<PathBuf, String> {
    let mdbook = installed("*/bin/mdbook").ok_or("no mdbook (scripts/setup-python.sh)")?;
    let site = folder.join("site");
    let built = Command::new("python3")
        .arg(repository().join("scripts/site.py"))
        .args(["--mdbook".as_ref(), mdbook.as_os_str()])
        .args(["--out".as_ref(), site.as_os_str()])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(built.status.success(), "{errors}");
    Ok(site)
}

/// All pages of the site, without the frame of its table of contents.
fn site_pages(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages.extend(site_pages(&path));
        } else if path.extension().is_some_and(|e| e == "html") && !path.ends_with("toc.html") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

/// A question of docs/questions.toml, and the page of the site that answers it.
struct Question {
    ask: String,
    page: String,
}

fn read_questions() -> Vec<Question> {
    let text = fs::read_to_string(repository().join("docs/questions.toml")).unwrap();
    let table: toml::Table = toml::from_str(&text).unwrap();
    let all = table["question"].as_array().unwrap().iter();
    all.map(|question| Question {
        ask: question["ask"].as_str().unwrap().to_owned(),
        page: question["page"].as_str().unwrap().replace(".md", ".html"),
    })
    .collect()
}

/// The pages that the site's search names for what a reader types, in its order and each once.
fn search(browser: &mut Browser, typed: &str) -> Vec<String> {
    let script = format!(
        "(async () => {{
            const bar = document.getElementById('mdbook-searchbar');
            bar.value = {typed};
            bar.dispatchEvent(new KeyboardEvent('keyup', {{key: 'x'}}));
            const list = document.getElementById('mdbook-searchresults');
            const outer = document.getElementById('mdbook-searchbar-outer');
            for (let i = 0; i < 200 && outer.classList.contains('searching'); i += 1)
                await new Promise((done) => setTimeout(done, 20));
            return [...list.querySelectorAll('a')].map((a) => a.href.split(/[?#]/)[0]);
        }})()",
        typed = json!(typed)
    );
    let found = browser.evaluate(&script);
    let mut pages: Vec<String> = Vec::new();
    for link in found.as_array().unwrap() {
        let link = link.as_str().unwrap().to_owned();
        if !pages.contains(&link) {
            pages.push(link);
        }
    }
    pages
}

#[test]
fn the_search_names_the_page_that_answers_a_question_among_its_first_three() {
    const NAME: &str = "the_search_names_the_page_that_answers_a_question_among_its_first_three";
    let Some(mut browser) = Browser::start(NAME) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let site = match build_site(folder.path()) {
        Ok(site) => site,
        Err(reason) => return skip(NAME, &reason),
    };
    let questions = read_questions();
    assert!(questions.len() >= 80);
    let mut missed = Vec::new();
    for (width, height) in SIZES {
        browser.open(&site.join("index.html"), width, height, false);
        browser.evaluate("document.getElementById('mdbook-search-toggle').click()");
        browser.evaluate(
            "(async () => { for (let i = 0; i < 500 && !window.elasticlunr; i += 1) await new Promise((r) => setTimeout(r, 20)); })()",
        );
        for question in &questions {
            let pages = search(&mut browser, &question.ask);
            let answer = pages.iter().position(|page| page.ends_with(&question.page));
            if answer.is_none_or(|place| place >= LOOKED_AT) {
                let named: Vec<&String> = pages.iter().take(LOOKED_AT).collect();
                missed.push(format!(
                    "{}: {named:?}, not {}",
                    question.ask, question.page
                ));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    let nonsense = search(&mut browser, "zzyzxqq");
    assert!(nonsense.is_empty(), "{nonsense:?}");
}

/// What axe-core calls serious or critical on the page that is open, as `rule: element`.
fn serious_barriers(browser: &mut Browser, axe: &str) -> Vec<String> {
    browser.evaluate(&format!("{axe}; 0"));
    let found = browser.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then((all) => all.violations
            .filter((rule) => ['serious', 'critical'].includes(rule.impact))
            .map((rule) => `${rule.id}: ${rule.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`))",
    );
    let found = found.as_array().unwrap().iter();
    found.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[test]
fn no_page_of_the_site_scrolls_sideways_or_bars_anybody() {
    const NAME: &str = "no_page_of_the_site_scrolls_sideways_or_bars_anybody";
    let Some(mut browser) = Browser::start(NAME) else {
        return;
    };
    let Some(axe) = installed("*/axe_playwright_python/axe.min.js") else {
        return skip(NAME, "no axe-core (scripts/setup-python.sh)");
    };
    let axe = fs::read_to_string(axe).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let site = match build_site(folder.path()) {
        Ok(site) => site,
        Err(reason) => return skip(NAME, &reason),
    };
    let pages = site_pages(&site);
    assert!(pages.len() > 40, "{} pages", pages.len());
    let mut wrong = Vec::new();
    for page in &pages {
        for (width, height) in SIZES {
            browser.open(page, width, height, false);
            let shown = page.strip_prefix(&site).unwrap().display();
            let over = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
            if over.as_i64().unwrap() > 0 {
                wrong.push(format!("{shown} at {width}: {over} px too wide"));
            }
            // On a phone more parts scroll by themselves. Rules on the frame of the page are the same in every window.
            if width != PHONE {
                continue;
            }
            for barrier in serious_barriers(&mut browser, &axe) {
                wrong.push(format!("{shown} at {width}: {barrier}"));
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
