//! `wakepath machine keys`: the keys of machine files with unit, range, meaning and default.

use anyhow::bail;
use clap::ValueEnum;
use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{self, MachineKey};
use wakepath_units::spelling::suggestion_with_known_names;

use crate::output::{self, Screen};

/// Name of the keys outside of any table.
const TOP: &str = "top";
const HEADER: [&str; 6] = ["table", "key", "unit", "range", "meaning", "without it"];

/// What `keys` prints.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum KeyFormat {
    /// Columns for people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// A header line and a row per key.
    Csv,
    /// A table of a page in Markdown.
    Markdown,
    /// JSON Schema of machine files, for editors that check and complete TOML.
    Schema,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath machine keys idle_state
  wakepath machine keys --format schema > machine.schema.json")]
pub(super) struct Args {
    /// A table, such as cluster or io_path.completion; `top` has the keys outside of tables. Default: all.
    table: Option<String>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: KeyFormat,
}

#[derive(Serialize)]
struct KeyRow<'k> {
    table: &'k str,
    key: &'k str,
    unit: &'k str,
    /// Smallest and largest value of a figure.
    range: Option<[f64; 2]>,
    #[serde(skip)]
    has_own_range: bool,
    required: bool,
    meaning: &'k str,
    /// Value that holds if the key is absent.
    absent: &'k str,
    /// Section of the documentation that says more about the key.
    see: Option<&'k str>,
}

impl<'k> KeyRow<'k> {
    fn new(key: &'k MachineKey) -> Self {
        Self {
            table: if key.table.is_empty() {
                TOP
            } else {
                &key.table
            },
            key: &key.name,
            unit: &key.unit,
            range: key.is_figure.then_some([key.least, key.most]),
            has_own_range: key.has_own_range,
            required: key.required,
            meaning: &key.meaning,
            absent: &key.absent,
            see: key.see.as_deref(),
        }
    }

    fn default_or_must(&self) -> &str {
        if self.required { "must" } else { self.absent }
    }

    fn is_figure_with_own_range(&self) -> bool {
        self.range.is_some() && self.has_own_range
    }

    fn range_or_empty_text(&self) -> String {
        self.range.map_or_else(String::new, |[least, most]| {
            format!(
                "{} to {}",
                format_range_bound(least),
                format_range_bound(most)
            )
        })
    }
}

/// A bound of a range, without zeros at the end.
fn format_range_bound(number: f64) -> String {
    if number < 1e6 {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

pub(super) fn print_machine_file_keys(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    if let KeyFormat::Schema = args.format {
        return output::write_json(out, &machine::machine_file_schema());
    }
    let rows = match &args.table {
        Some(table) => find_key_rows_in_table(table)?,
        None => Machine::documented_keys().iter().map(KeyRow::new).collect(),
    };
    let cells = rows.iter().map(|row| {
        [
            row.table.to_owned(),
            row.key.to_owned(),
            row.unit.to_owned(),
            row.range_or_empty_text(),
            row.meaning.to_owned(),
            row.default_or_must().to_owned(),
        ]
    });
    match args.format {
        KeyFormat::Table => output::write_table(out, HEADER, cells),
        KeyFormat::Csv => output::write_csv(out, HEADER, cells),
        KeyFormat::Markdown => write_keys_as_markdown(&rows, out),
        KeyFormat::Json | KeyFormat::Schema => output::write_json(out, &rows),
    }
}

fn find_key_rows_in_table(table: &str) -> anyhow::Result<Vec<KeyRow<'static>>> {
    let all = Machine::documented_keys().iter().map(KeyRow::new);
    let rows: Vec<_> = all.filter(|row| row.table == table).collect();
    if rows.is_empty() {
        let mut tables: Vec<&str> = Vec::new();
        for key in Machine::documented_keys() {
            let table = KeyRow::new(key).table;
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        bail!(
            "machine files have no table '{table}'{}",
            suggestion_with_known_names(table, &tables)
        );
    }
    Ok(rows)
}

fn write_keys_as_markdown(rows: &[KeyRow<'_>], out: &mut Screen) -> anyhow::Result<()> {
    writeln!(out, "| key | unit | meaning | without it |")?;
    writeln!(out, "|---|---|---|---|")?;
    for row in rows {
        let more = row.see.map_or_else(String::new, |place| {
            format!(" See [{}](../{place}).", link_title_from_docs_place(place))
        });
        let range = if row.is_figure_with_own_range() {
            format!(" Range: {}.", row.range_or_empty_text())
        } else {
            String::new()
        };
        let cells = [
            format!("`{}`", row.key),
            row.unit.to_owned(),
            format!("{}{range}{more}", row.meaning),
            row.default_or_must().to_owned(),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    Ok(())
}

/// The words for a link to a place in `docs/` such as `background/model.md#work-at-depth`.
fn link_title_from_docs_place(place: &str) -> String {
    let (page, section) = place.split_once('#').unwrap_or((place, ""));
    let name = match section {
        "" => page
            .rsplit('/')
            .next()
            .unwrap_or(page)
            .trim_end_matches(".md"),
        _ => section,
    };
    name.replace('-', " ")
}
