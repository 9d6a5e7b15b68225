//! A report as one self-contained HTML page.
//!
//! [`from_results`] puts a [`view::View`] together; [`render_html_report`] makes the page. `figures` draws pictures with tables,
//! `comparison` the comparison table. The template `page.html` adds the style sheet, the scripts and Apache ECharts,
//! all inlined. The page loads nothing and tells the browser so: a Content-Security-Policy allows no request at all, and
//! only the inlined scripts, by their hashes. [`measurements`] makes pages of another kind, without scripts.

mod bidi;
mod comparison;
mod excerpt;
mod figures;
pub mod from_results;
pub mod measurements;
mod number;
pub mod view;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minijinja::{Environment, context};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use bidi::sets_direction;
pub use excerpt::LARGEST_PAGE;
use figures::{Figure, Group, Slot};
use view::View;

/// Apache ECharts from `assets/echarts/`.
const ECHARTS: &str = include_str!("../../assets/echarts/echarts.min.js");
/// Scripts of the report's page in the order of execution.
const SCRIPTS: [&str; 6] = [
    include_str!("../../assets/page/look.js"),
    include_str!("../../assets/page/charts.js"),
    include_str!("../../assets/page/timeline.js"),
    include_str!("../../assets/page/save.js"),
    include_str!("../../assets/page/page.js"),
    include_str!("../../assets/page/sort.js"),
];
const STYLE: &str = include_str!("../../assets/page/page.css");
const TEMPLATE: &str = include_str!("../../assets/page/page.html");
/// The `head` element for every page.
const HEAD: &str = include_str!("../../assets/page/head.html");

/// A report could not be made: the template does not fit its values, which is a fault of this crate.
#[derive(Debug, thiserror::Error)]
#[error("the report's template: {0}")]
pub struct RenderError(#[from] minijinja::Error);

/// Makes a report as one HTML page. A page larger than [`LARGEST_PAGE`] leaves out policies, then workloads, and says so.
///
/// # Errors
/// None that the input could cause.
pub fn render_html_report(view: &View) -> Result<String, RenderError> {
    let all = render_view_whole(view)?;
    if all.len() <= LARGEST_PAGE {
        return Ok(all);
    }
    excerpt::render_excerpt_for_page_limit(
        view,
        &excerpt::rank_policies_by_interest(view),
        all.len(),
        render_view_whole,
    )
}

/// The pictures of a workload, and the beginning of their ids on the page.
struct WorkloadFigures {
    prefix: String,
    groups: Vec<Group>,
}

fn render_view_whole(view: &View) -> Result<String, RenderError> {
    let gains = figures::draw_gains(view);
    let load = figures::draw_load_curves(view);
    let workloads = draw_figures_of_each_workload(view);
    let scripts = format!("\"use strict\";\n(() => {{\n{}\n}})();", SCRIPTS.join("\n"));
    let content = context! {
        policy => content_security_policy(&[ECHARTS, &scripts]),
        style => STYLE,
        echarts => ECHARTS,
        scripts => scripts,
        data => encode_data_for_scripts(view, gains.iter().chain(&load), &workloads),
        blocks => comparison::build_table_per_workload(view),
        common_notes => comparison::notes_that_all_compared_policies_share(view),
        sentences => comparison::format_rows_as_sentences(view),
        gains => gains,
        load => load,
        parts => workloads.first().map(|figures| &figures.groups),
        workloads => describe_workloads_for_template(view, &workloads),
        ..describe_view_for_template(view)
    };
    Ok(render_template(TEMPLATE, content)?)
}

/// Renders a page's template. The head takes `title`, `policy`, `made_by` and `style` from the content.
fn render_template(template: &str, content: minijinja::Value) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_formatter(bidi::write_value_escaped_unless_safe);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    // The template engine escapes all values, since the templates' names end in html.
    environment.add_template("head.html", HEAD)?;
    environment.add_template("page.html", template)?;
    environment.get_template("page.html")?.render(content)
}

fn draw_figures_of_each_workload(view: &View) -> Vec<WorkloadFigures> {
    let workloads = view.workloads.iter().enumerate();
    let drawn = workloads.map(|(index, workload)| {
        let prefix = format!("w{index}");
        let groups = figures::draw_workload_groups(view, workload, &prefix);
        WorkloadFigures { prefix, groups }
    });
    drawn.collect()
}

/// Values for the template `page.html` that come from the view unchanged: facts, answers, policies, metrics, sources.
fn describe_view_for_template(view: &View) -> minijinja::Value {
    context! {
        title => view.title,
        baselines => view.baselines_in_words(),
        facts => view.facts,
        cautions => view.cautions,
        left_out => view.left_out,
        made_by => view.made_by,
        commands => view.commands,
        answers => view.answers.iter().map(|a| context! {
            question => a.question,
            sentence => a.sentence,
            details => a.details,
            tile => a.tile,
            class => a.tone.css_class(),
            sign => a.tone.sign(),
        }).collect::<Vec<_>>(),
        policies => view.policies_without_subset_lines().map(|(_, p)| context! {
            name => p.name, settings => p.settings, baseline => p.baseline, notes => p.notes,
        }).collect::<Vec<_>>(),
        settings => distinct_setting_names(view),
        metrics => view.metrics.iter().map(|m| context! {
            name => m.name, title => m.title, unit => m.unit, meaning => m.meaning,
            better => match m.higher_is_better {
                Some(true) => "more",
                Some(false) => "less",
                None => "neither",
            },
        }).collect::<Vec<_>>(),
        sources => view.sources.iter().map(|s| context! {
            title => s.title, facts => s.facts, files => s.files,
        }).collect::<Vec<_>>(),
    }
}

fn describe_workloads_for_template(
    view: &View,
    workloads: &[WorkloadFigures],
) -> Vec<minijinja::Value> {
    let sections = view
        .workloads
        .iter()
        .zip(workloads)
        .map(|(workload, figures)| {
            context! {
                name => workload.name,
                about => workload.about,
                prefix => figures.prefix,
                groups => figures.groups,
            }
        });
    sections.collect()
}

/// Names of all settings of the policies, each once, in the order of the policies.
fn distinct_setting_names(view: &View) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in view.policies.iter().flat_map(|p| &p.settings) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// A Content-Security-Policy under which a page loads nothing and runs only the given scripts: markup in a name calls no other.
fn content_security_policy(scripts: &[&str]) -> String {
    let mut allowed = String::new();
    for script in scripts {
        let hash = BASE64_STANDARD.encode(Sha256::digest(script.as_bytes()));
        let first = if allowed.is_empty() { "script-src" } else { "" };
        let _ = write!(allowed, "{first} 'sha256-{hash}'");
    }
    if !allowed.is_empty() {
        allowed.push_str("; ");
    }
    format!(
        "default-src 'none'; {allowed}style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// The data of all pictures for the page's scripts, as JSON that cannot end its script element. `general` has the figures of all workloads together.
fn encode_data_for_scripts<'a>(
    view: &View,
    general: impl Iterator<Item = &'a Figure>,
    workloads: &'a [WorkloadFigures],
) -> String {
    let slots = workloads
        .iter()
        .flat_map(|figures| &figures.groups)
        .flat_map(|group| &group.slots);
    let workload_figures = slots.filter_map(|slot| match slot {
        Slot::Figure(figure) => Some(&**figure),
        Slot::Missing { .. } => None,
    });
    let figures: serde_json::Map<String, Value> = general
        .chain(workload_figures)
        .map(|f| {
            (
                f.id.clone(),
                json!({"kind": f.kind, "title": f.title, "data": f.data}),
            )
        })
        .collect();
    let order = excerpt::rank_policies_by_interest(view);
    let at_first = &order[..order.len().min(excerpt::AT_FIRST)];
    let policies: Vec<Value> = view
        .policies
        .iter()
        .enumerate()
        .map(|(index, p)| {
            let shown = p.baseline || at_first.contains(&index);
            json!({"name": p.name, "baseline": p.baseline, "shown": shown})
        })
        .collect();
    let things = figures::list_names_to_colour(view);
    let text = json!({"policies": policies, "things": things, "figures": figures}).to_string();
    bidi::neutralise_controls_and_direction(&text).replace('<', "\\u003c")
}
