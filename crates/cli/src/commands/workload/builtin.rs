//! Built-in workloads by name: `wakepath workload list` and `wakepath workload show`.

use anyhow::{Context, bail};
use serde::Serialize;
use wakepath_study::builtin;
use wakepath_study::recipes::{
    COUNTED_CALLS, Recipe, SIMULATED_CALLS, description_of_workload, find_recipe, join_words,
    resolve_workload_name,
};
use wakepath_units::spelling::similar_name;
use wakepath_workloads::server::{self, FigureOrigin, ServerFile};

/// A built-in workload, described.
#[derive(Serialize)]
pub(super) struct BuiltinWorkload {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// Recipe title, or the description's first sentence.
    pub(super) title: String,
    pub(super) description: String,
    /// Program counted beside the recipe; `None`: no program.
    pub(super) program: Option<String>,
    #[serde(skip)]
    pub(super) recipe: Option<&'static Recipe>,
    /// Server figures with an origin.
    pub(super) figures: Vec<OriginatedFigure>,
    /// Calls to the disk for a request, counted and simulated.
    pub(super) calls: Vec<CallsPerRequest>,
    #[serde(skip)]
    pub(super) has_clients: bool,
    #[serde(skip)]
    pub(super) text: &'static str,
}

/// A server figure with an origin.
#[derive(Serialize)]
pub(super) struct OriginatedFigure {
    pub(super) key: &'static str,
    pub(super) value: f64,
    /// `published`, `measured`, `fitted` or `assumed`.
    pub(super) origin: &'static str,
    /// Source, measurement, fitting target or reason, as text.
    pub(super) reason: String,
}

/// Calls to the disk for a request, on average.
#[derive(Clone, Serialize)]
pub(super) struct CallsPerRequest {
    /// How the calls are known: counted beside a program, or simulated.
    pub(super) from: CallsFrom,
    /// Clients of the program that was counted, or of a simulated server without such a program; `None`: its requests arrive at a rate.
    pub(super) clients: Option<u32>,
    /// Reads, bytes read, writes, bytes written, flushes.
    #[serde(flatten)]
    pub(super) figures: CallFigures,
}

/// How calls to the disk are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CallsFrom {
    Counted,
    Simulated,
}

/// Mean calls to the disk, and bytes, for a request.
#[derive(Clone, Copy, Debug, Serialize, serde::Deserialize)]
pub(super) struct CallFigures {
    pub(super) reads: f64,
    pub(super) read_bytes: f64,
    pub(super) writes: f64,
    pub(super) written_bytes: f64,
    pub(super) flushes: f64,
}

impl CallFigures {
    pub(super) fn in_order(&self) -> [f64; 5] {
        [
            self.reads,
            self.read_bytes,
            self.writes,
            self.written_bytes,
            self.flushes,
        ]
    }
}

/// A row in the tables with counted or simulated calls.
#[derive(serde::Deserialize)]
struct CallsRow {
    recipe: String,
    clients: Option<u32>,
    program: Option<String>,
    reads: f64,
    read_bytes: f64,
    writes: f64,
    written_bytes: f64,
    flushes: f64,
}

/// All built-in workloads by name.
pub(super) fn load_all() -> anyhow::Result<Vec<BuiltinWorkload>> {
    builtin::workload_names().map(load).collect()
}

/// Loads a built-in workload by name, with or without ending.
pub(super) fn load_by_name(name: &str) -> anyhow::Result<BuiltinWorkload> {
    let Some(found) = resolve_workload_name(name) else {
        let meant = similar_name(name, builtin::workload_names());
        let suggestion =
            meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
        bail!(
            "no built-in workload is called `{name}`; {suggestion}`wakepath workload list` has all"
        );
    };
    load(found)
}

fn load(name: &'static str) -> anyhow::Result<BuiltinWorkload> {
    let text = builtin::workload_text(name).with_context(|| name.to_owned())?;
    let server = match name.rsplit_once('.') {
        Some((_, "toml")) => Some(server::parse(text, name, None)?),
        _ => None,
    };
    let recipe = find_recipe(name);
    let description = description_of_workload(text);
    let title = match recipe {
        Some(recipe) => recipe.title.to_owned(),
        None => first_sentence(&description).to_owned(),
    };
    let counted = rows_of_recipe(COUNTED_CALLS, recipe)?;
    let simulated = rows_of_recipe(SIMULATED_CALLS, recipe)?;
    let program = counted
        .first()
        .and_then(|row| Some(join_words(row.program.as_ref()?)));
    let calls = counted
        .iter()
        .map(|row| (CallsFrom::Counted, row))
        .chain(simulated.iter().map(|row| (CallsFrom::Simulated, row)))
        .map(|(from, row)| row.calls(from));
    Ok(BuiltinWorkload {
        name,
        kind: name_of_kind(name),
        title,
        description,
        program,
        recipe,
        figures: server.as_ref().map_or_else(Vec::new, list_figures),
        calls: calls.collect(),
        has_clients: server.is_some_and(|file| file.open_rate().is_none()),
        text,
    })
}

/// Names a built-in workload's kind by the file ending.
fn name_of_kind(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "toml")) => "server",
        Some((_, "json")) => "rt-app file",
        _ => "fio job",
    }
}

/// Cuts a text after the first sentence.
fn first_sentence(text: &str) -> &str {
    text.split_once(". ")
        .map_or(text, |(sentence, _)| sentence)
        .trim_end_matches('.')
}

fn list_figures(file: &ServerFile) -> Vec<OriginatedFigure> {
    let figures = file.figures().into_iter().filter_map(|(key, figure)| {
        let (origin, reason) = match &figure.origin {
            FigureOrigin::Declared => return None,
            FigureOrigin::Source(source) => ("published", source),
            FigureOrigin::Measured(on) => ("measured", on),
            FigureOrigin::Assumed(why) => ("assumed", why),
            FigureOrigin::Fitted(target) => ("fitted", target),
        };
        Some(OriginatedFigure {
            key,
            value: figure.value,
            origin,
            reason: reason.clone(),
        })
    });
    figures.collect()
}

/// Reads a recipe's rows from a table with calls.
fn rows_of_recipe(table: &str, recipe: Option<&Recipe>) -> anyhow::Result<Vec<CallsRow>> {
    let Some(recipe) = recipe else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for row in csv::Reader::from_reader(table.as_bytes()).deserialize() {
        let row: CallsRow = row?;
        if row.recipe == recipe.name() {
            rows.push(row);
        }
    }
    Ok(rows)
}

impl CallsRow {
    fn calls(&self, from: CallsFrom) -> CallsPerRequest {
        CallsPerRequest {
            from,
            clients: self.clients,
            figures: CallFigures {
                reads: self.reads,
                read_bytes: self.read_bytes,
                writes: self.writes,
                written_bytes: self.written_bytes,
                flushes: self.flushes,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use wakepath_study::recipes::RECIPES;

    #[test]
    fn each_recipe_is_a_workload_with_a_description() {
        for recipe in RECIPES {
            let workload = load_by_name(recipe.name()).unwrap();
            assert_eq!(workload.name, recipe.file);
            assert!(workload.description.len() > 60, "{}", recipe.file);
            let is_counted = workload.program.is_some();
            assert_eq!(recipe.is_assumed(), !is_counted, "{}", recipe.file);
            assert_eq!(
                workload.calls.is_empty(),
                workload.kind != "server",
                "{}",
                recipe.file
            );
        }
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let said = load_by_name("postgres-comit").err().unwrap().to_string();
        assert_eq!(
            said,
            "no built-in workload is called `postgres-comit`; did you mean `postgres-commit.toml`? `wakepath workload list` has all"
        );
    }
}
