//! A report as one self-contained HTML page.
//!
//! [`from_results`] puts a [`view::View`] together; [`render`] makes the page. `figures` draws pictures with tables,
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

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minijinja::{Environment, context};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use bidi::sets_direction;
pub use excerpt::LARGEST;
use figures::{Figure, Group, Slot};
use view::View;

/// Apache ECharts from `assets/echarts/`.
const ECHARTS: &str = include_str!("../../assets/echarts/echarts.min.js");
/// Our scripts in execution order.
const SCRIPTS: [&str; 4] = [
    include_str!("../../assets/page/look.js"),
    include_str!("../../assets/page/charts.js"),
    include_str!("../../assets/page/timeline.js"),
    include_str!("../../assets/page/page.js"),
];
const STYLE: &str = include_str!("../../assets/page/page.css");
const TEMPLATE: &str = include_str!("../../assets/page/page.html");

/// Why no page can be made: the template does not fit the values, a fault in this crate.
#[derive(Debug, thiserror::Error)]
#[error("the report's template: {0}")]
pub struct RenderError(#[from] minijinja::Error);

/// Makes the page. A page larger than [`LARGEST`] leaves out policies, then workloads, and says so.
///
/// # Errors
/// None that the input could cause.
pub fn render(view: &View) -> Result<String, RenderError> {
    let all = render_page(view)?;
    if all.len() <= LARGEST {
        return Ok(all);
    }
    excerpt::render_excerpt(
        view,
        &excerpt::policies_by_interest(view),
        all.len(),
        render_page,
    )
}

/// A workload's figures, with the beginning of their ids.
struct WorkloadFigures {
    prefix: String,
    groups: Vec<Group>,
}

fn render_page(view: &View) -> Result<String, RenderError> {
    let gains = figures::draw_gains(view);
    let workloads = draw_workloads(view);
    let scripts = format!("\"use strict\";\n(() => {{\n{}\n}})();", SCRIPTS.join("\n"));
    let mut environment = Environment::new();
    environment.set_formatter(bidi::format_value);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    // Values are escaped because the name ends in html.
    environment.add_template("page.html", TEMPLATE)?;
    let content = context! {
        policy => content_security_policy([ECHARTS, &scripts]),
        style => STYLE,
        echarts => ECHARTS,
        scripts => scripts,
        data => script_data(view, gains.as_ref(), &workloads),
        blocks => comparison::comparison_blocks(view),
        sentences => comparison::verdict_sentences(view),
        gains => gains,
        parts => workloads.first().map(|figures| &figures.groups),
        workloads => workload_sections(view, &workloads),
        ..head_content(view)
    };
    Ok(environment.get_template("page.html")?.render(content)?)
}

fn draw_workloads(view: &View) -> Vec<WorkloadFigures> {
    let workloads = view.workloads.iter().enumerate();
    let drawn = workloads.map(|(index, workload)| {
        let prefix = format!("w{index}");
        let groups = figures::workload_groups(view, workload, &prefix);
        WorkloadFigures { prefix, groups }
    });
    drawn.collect()
}

/// What the template takes from the view as it is: facts, answers, policies, metrics, sources.
fn head_content(view: &View) -> minijinja::Value {
    context! {
        title => view.title,
        facts => view.facts,
        cautions => view.cautions,
        left_out => view.left_out,
        made_by => view.made_by,
        commands => view.commands,
        answers => view.answers.iter().map(|a| context! {
            question => a.question,
            sentence => a.sentence,
            details => a.details,
            class => a.tone.class(),
            sign => a.tone.sign(),
        }).collect::<Vec<_>>(),
        policies => view.compared_policies().map(|(_, p)| context! {
            name => p.name, settings => p.settings, baseline => p.baseline,
        }).collect::<Vec<_>>(),
        settings => setting_names(view),
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

fn workload_sections(view: &View, workloads: &[WorkloadFigures]) -> Vec<minijinja::Value> {
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

/// All settings, in the order of the policies.
fn setting_names(view: &View) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in view.policies.iter().flat_map(|p| &p.settings) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Nothing may be loaded, and only these scripts may run: not even markup in a name could call another script.
fn content_security_policy<const N: usize>(scripts: [&str; N]) -> String {
    let hashes = scripts.map(|script| {
        format!(
            "'sha256-{}'",
            BASE64_STANDARD.encode(Sha256::digest(script.as_bytes()))
        )
    });
    format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        hashes.join(" ")
    )
}

/// Data for the scripts, as JSON that cannot end its script element.
fn script_data(view: &View, gains: Option<&Figure>, workloads: &[WorkloadFigures]) -> String {
    let slots = workloads
        .iter()
        .flat_map(|figures| &figures.groups)
        .flat_map(|group| &group.slots);
    let workload_figures = slots.filter_map(|slot| match slot {
        Slot::Figure(figure) => Some(&**figure),
        Slot::Missing { .. } => None,
    });
    let figures: serde_json::Map<String, Value> = gains
        .into_iter()
        .chain(workload_figures)
        .map(|f| {
            (
                f.id.clone(),
                json!({"kind": f.kind, "title": f.title, "data": f.data}),
            )
        })
        .collect();
    let order = excerpt::policies_by_interest(view);
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
    let text = json!({"policies": policies, "figures": figures}).to_string();
    bidi::mark_directions(&text).replace('<', "\\u003c")
}
