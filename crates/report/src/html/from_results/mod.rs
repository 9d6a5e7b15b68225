//! Results as a report shows them.
//!
//! Only this module knows both the schema of results and the content of the page. Policies from several results stay
//! apart: a policy's name ends with the name of its result.

mod answers;
mod comparison;
mod distributions;
mod error;
mod idle;
mod load_series;
mod place;
mod provenance;
mod tiles;
mod timeline;

use wakepath_results::ResultReader;

use super::view::{PageAnswer, View};

pub use error::FromResultsError;

use place::PlacedResult;
use provenance::{origin_in_words, study_title};

/// Puts the view of a report together. The policies are compared with `baseline`, else with the baseline of their
/// machine's first result.
///
/// # Errors
/// No results, results that cannot be read, an unknown baseline. A missing table is no error: the report names the table.
pub fn build_view(
    results: &[ResultReader],
    baseline: Option<&str>,
) -> Result<View, FromResultsError> {
    let ComparedView {
        mut view,
        places,
        compared,
    } = build_compared_view(results, baseline)?;
    distributions::add_distributions(&mut view, &places, &compared.series)?;
    idle::add_idle(&mut view, &places)?;
    timeline::add_timelines(&mut view, &places)?;
    load_series::add_series_over_requested_rates(&mut view, &places);
    answers::add_answers_and_focus(&mut view, &places, &compared)?;
    Ok(view)
}

/// The answers at the start of a report: to the studies' questions, or a summary of each metric.
///
/// # Errors
/// As [`build_view`].
pub fn build_answers(
    results: &[ResultReader],
    baseline: Option<&str>,
) -> Result<Vec<PageAnswer>, FromResultsError> {
    let ComparedView {
        mut view,
        places,
        compared,
    } = build_compared_view(results, baseline)?;
    answers::add_answers_and_focus(&mut view, &places, &compared)?;
    Ok(view.answers)
}

/// The beginning of a report: the view with a comparison.
struct ComparedView<'a> {
    view: View,
    places: Vec<PlacedResult<'a>>,
    compared: comparison::Compared,
}

fn build_compared_view<'a>(
    results: &'a [ResultReader],
    baseline: Option<&str>,
) -> Result<ComparedView<'a>, FromResultsError> {
    let first = results.first().ok_or(FromResultsError::Nothing)?.document();
    let mut view = View {
        title: join_titles(results),
        made_by: concat!("wakepath ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..View::default()
    };
    let suffixes = suffixes_that_tell_results_apart(results);
    let distinct = all_policy_names_differ(results);
    let mut places = Vec::new();
    for (reader, suffix) in results.iter().zip(&suffixes) {
        let policy_suffix = if distinct { "" } else { suffix };
        places.push(PlacedResult::add_workloads_and_policies(
            &mut view,
            reader,
            policy_suffix,
        ));
    }
    let wanted = baseline.unwrap_or(&first.baseline);
    let found = view
        .policies
        .iter()
        .position(|p| p.name == wanted)
        .or_else(|| places[0].policies.get(wanted).copied());
    match found {
        // Without the option each machine has its own baseline.
        Some(index) if baseline.is_some() => view.policies[index].baseline = true,
        Some(_) => {}
        None if baseline.is_some() => {
            return Err(FromResultsError::Baseline {
                name: wanted.to_owned(),
                known: view.policies.into_iter().map(|p| p.name).collect(),
            });
        }
        None => view.cautions.push(format!(
            "The results name `{wanted}` as their baseline and have no such policy."
        )),
    }
    provenance::add_provenance(&mut view, results, &suffixes)?;
    let compared = comparison::add_comparison(&mut view, &places, found.is_some())?;
    view.cautions
        .extend(compared.describe_differences_and_shortfalls(&suffixes));
    Ok(ComparedView {
        view,
        places,
        compared,
    })
}

fn join_titles(results: &[ResultReader]) -> String {
    let mut titles: Vec<&str> = Vec::new();
    for reader in results {
        let title = study_title(reader.document());
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    titles.join(" / ")
}

/// Whether all policies have different names, as in files from other tools.
fn all_policy_names_differ(results: &[ResultReader]) -> bool {
    let policies = results.iter().flat_map(|r| &r.document().policies);
    let mut names: Vec<&str> = policies.map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).all(|w| w[0] != w[1])
}

/// Suffixes that tell policies of several results apart, as short as possible.
fn suffixes_that_tell_results_apart(results: &[ResultReader]) -> Vec<String> {
    if results.len() < 2 {
        return vec![String::new(); results.len()];
    }
    let by: [fn(&ResultReader) -> String; 3] = [
        |r| origin_in_words(r.document().backend).to_owned(),
        |r| r.document().study.name.clone(),
        |r| r.dir().display().to_string(),
    ];
    let mut candidates: Vec<Vec<String>> = by
        .iter()
        .map(|name| results.iter().map(name).collect())
        .collect();
    let best = candidates
        .iter()
        .position(|names| all_differ(names))
        .unwrap_or(candidates.len() - 1);
    let names = candidates.swap_remove(best);
    // The same directory twice.
    let numbered = if all_differ(&names) {
        names
    } else {
        names
            .into_iter()
            .enumerate()
            .map(|(i, n)| format!("{n} #{}", i + 1))
            .collect()
    };
    numbered
        .into_iter()
        .map(|name| format!(" ({name})"))
        .collect()
}

fn all_differ(names: &[String]) -> bool {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}
