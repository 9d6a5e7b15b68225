//! Results as a report shows them.
//!
//! The only place that knows both the schema of results and what is on the page. Policies of several results are kept
//! apart: each has the name of its result behind it.

mod answers;
mod comparison;
mod distributions;
mod idle;
mod provenance;
mod timeline;

use std::collections::BTreeMap;

use wakepath_compare::results::{CompareError, Load};
use wakepath_results::{ResultReader, ResultsError, RunOrigin};

use super::view::{PageAnswer, PagePolicy, PageWorkload, View};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum FromResultsError {
    /// No results were named.
    #[error("no results to report on")]
    Nothing,
    /// Results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Results cannot be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// `--baseline` names nothing.
    #[error("no policy `{name}`; there are: {}", known.join(", "))]
    Baseline {
        /// What was asked for.
        name: String,
        /// The policies.
        known: Vec<String>,
    },
}

/// Where the rows of one result go.
struct Place<'a> {
    reader: &'a ResultReader,
    /// Index in the view by name, of workloads by that of the machine, too.
    workloads: BTreeMap<(&'a str, &'a str), usize>,
    policies: BTreeMap<&'a str, usize>,
}

impl Place<'_> {
    /// The workload and the policy of a row; `None` if the document does not know them.
    fn of(&self, [machine, workload, policy]: [&str; 3]) -> Option<(usize, usize)> {
        let workload = self.workloads.get(&(machine, workload))?;
        Some((*workload, *self.policies.get(policy)?))
    }
}

/// Puts together what a report on these results shows. The policies are compared with `baseline`, else with the
/// baseline of their machine's first result.
///
/// # Errors
/// No results, results that cannot be read, a baseline that is not there. Tables that are missing are no error: the
/// report says what it lacks.
pub fn view(results: &[ResultReader], baseline: Option<&str>) -> Result<View, FromResultsError> {
    let Begun {
        mut view,
        places,
        compared,
    } = begin(results, baseline)?;
    distributions::add(&mut view, &places, &compared.series)?;
    idle::add(&mut view, &places)?;
    timeline::add(&mut view, &places)?;
    answers::add(&mut view, &places, &compared)?;
    Ok(view)
}

/// The answers that such a report begins with: to the questions of the studies, or to what the metrics say.
///
/// # Errors
/// As [`view`].
pub fn answers(
    results: &[ResultReader],
    baseline: Option<&str>,
) -> Result<Vec<PageAnswer>, FromResultsError> {
    let mut begun = begin(results, baseline)?;
    answers::add(&mut begun.view, &begun.places, &begun.compared)?;
    Ok(begun.view.answers)
}

/// A report with its comparison.
struct Begun<'a> {
    view: View,
    places: Vec<Place<'a>>,
    compared: comparison::ComparisonFile,
}

fn begin<'a>(
    results: &'a [ResultReader],
    baseline: Option<&str>,
) -> Result<Begun<'a>, FromResultsError> {
    let first = results.first().ok_or(FromResultsError::Nothing)?.document();
    let mut view = View {
        title: titles(results),
        made_by: concat!("wakepath ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..View::default()
    };
    let suffixes = suffixes(results);
    let told_apart = policies_differ(results);
    let mut places = Vec::new();
    for (reader, suffix) in results.iter().zip(&suffixes) {
        let suffix = if told_apart { "" } else { suffix };
        places.push(place(&mut view, reader, suffix));
    }
    let wanted = baseline.unwrap_or(&first.baseline);
    let found = view
        .policies
        .iter()
        .position(|p| p.name == wanted)
        .or_else(|| places[0].policies.get(wanted).copied());
    match found {
        // Otherwise each machine has its own.
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
    provenance::add(&mut view, results, &suffixes)?;
    let compared = comparison::add(&mut view, &places, found.is_some())?;
    view.cautions.extend(compared.cautions(&suffixes));
    Ok(Begun {
        view,
        places,
        compared,
    })
}

fn titles(results: &[ResultReader]) -> String {
    let mut titles: Vec<&str> = Vec::new();
    for reader in results {
        let study = &reader.document().study;
        let title = if study.title.is_empty() {
            &study.name
        } else {
            &study.title
        };
        if !titles.contains(&title.as_str()) {
            titles.push(title);
        }
    }
    titles.join(" / ")
}

/// Whether no two results have a policy of the same name, as files of other tools have not.
fn policies_differ(results: &[ResultReader]) -> bool {
    let policies = results.iter().flat_map(|r| &r.document().policies);
    let mut names: Vec<&str> = policies.map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).all(|w| w[0] != w[1])
}

/// What tells the policies of several results apart: as little as does.
fn suffixes(results: &[ResultReader]) -> Vec<String> {
    if results.len() < 2 {
        return vec![String::new(); results.len()];
    }
    let by: [fn(&ResultReader) -> String; 3] = [
        |r| backend(r.document().backend).to_owned(),
        |r| r.document().study.name.clone(),
        |r| r.dir().display().to_string(),
    ];
    let names = by
        .iter()
        .map(|name| results.iter().map(name).collect::<Vec<_>>());
    let mut candidates = names.collect::<Vec<_>>();
    let differ = |names: &Vec<String>| {
        let mut sorted = names.clone();
        sorted.sort();
        sorted.windows(2).all(|w| w[0] != w[1])
    };
    let best = candidates
        .iter()
        .position(differ)
        .unwrap_or(candidates.len() - 1);
    let names = candidates.swap_remove(best);
    // The same directory twice.
    let numbered = if differ(&names) {
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

/// A backend in words.
fn backend(of: RunOrigin) -> &'static str {
    match of {
        RunOrigin::Sim => "simulated",
        RunOrigin::Replay => "replayed",
        RunOrigin::Live => "measured",
        RunOrigin::Lab => "measured in the laboratory",
        RunOrigin::Import => "imported",
    }
}

/// Gives the result's workloads and policies their place in the view.
fn place<'a>(view: &mut View, reader: &'a ResultReader, suffix: &str) -> Place<'a> {
    let document = reader.document();
    let mut workloads = BTreeMap::new();
    for (machine, workload) in document.loads() {
        let name = Load::new(document, &machine.name, &workload.name).to_string();
        let known = view.workloads.iter().position(|w| w.name == name);
        let index = known.unwrap_or_else(|| {
            let about = match workload.kind.as_str() {
                "" => workload.source.clone(),
                kind => format!("{kind}: {}", workload.source),
            };
            view.workloads.push(PageWorkload {
                name,
                about,
                latency_of: "latency".into(),
                ..PageWorkload::default()
            });
            view.workloads.len() - 1
        });
        workloads.insert((machine.name.as_str(), workload.name.as_str()), index);
    }
    let mut policies = BTreeMap::new();
    for policy in &document.policies {
        policies.insert(policy.name.as_str(), view.policies.len());
        view.policies.push(PagePolicy {
            name: format!("{}{suffix}", policy.name),
            settings: policy.settings.clone().into_iter().collect(),
            baseline: false,
        });
    }
    Place {
        reader,
        workloads,
        policies,
    }
}

/// A table; one that is not there counts as empty, and the report says so.
fn rows<R>(
    view: &mut View,
    what: &str,
    read: Result<Vec<R>, ResultsError>,
) -> Result<Vec<R>, ResultsError> {
    match read {
        Err(ResultsError::Io { path, source }) if source.kind() == std::io::ErrorKind::NotFound => {
            view.cautions.push(format!(
                "{} is missing: there is no {what}.",
                path.display()
            ));
            Ok(Vec::new())
        }
        other => other,
    }
}

/// A row with the indices of its workload and its policy in the view.
type Placed<R> = ((usize, usize), R);

/// The rows of a table that belong to a workload and a policy of the view. Says how many do not.
fn placed<R>(
    view: &mut View,
    place: &Place<'_>,
    (file, what): (&str, &str),
    read: Result<Vec<R>, ResultsError>,
    names: impl Fn(&R) -> [&str; 3],
) -> Result<Vec<Placed<R>>, ResultsError> {
    let rows = rows(view, what, read)?;
    let all = rows.len();
    let placed = rows.into_iter().filter_map(|row| {
        let at = place.of(names(&row))?;
        Some((at, row))
    });
    let placed: Vec<_> = placed.collect();
    unplaced(view, file, all - placed.len());
    Ok(placed)
}

/// Says how many rows belong to nothing that the document names.
fn unplaced(view: &mut View, what: &str, count: usize) {
    if count > 0 {
        view.cautions.push(format!(
            "{count} row(s) of {what} belong to machines, workloads or policies that result.json does not name; they are left out."
        ));
    }
}
