//! Prints results as a table, as JSON or as CSV.

use std::io::Write as _;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::Value;

/// How to print a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For reading.
    #[default]
    Table,
    /// An array of objects.
    Json,
    /// With a header line.
    Csv,
}

/// Prints rows to standard output; their field names become the column titles.
pub fn print_rows<R: Serialize>(rows: &[R], format: Format) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, rows)?;
            writeln!(out)?;
        }
        Format::Csv => {
            let mut writer = csv::Writer::from_writer(&mut out);
            for row in rows {
                writer.serialize(row)?;
            }
            writer.flush()?;
        }
        Format::Table => writeln!(out, "{}", rows_to_table(rows)?)?,
    }
    Ok(())
}

fn rows_to_table<R: Serialize>(rows: &[R]) -> Result<Table> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (i, row) in rows.iter().enumerate() {
        let Value::Object(fields) = serde_json::to_value(row)? else {
            continue;
        };
        if i == 0 {
            table.set_header(fields.keys().map(|name| name.replace('_', " ")));
            for (column, value) in fields.values().enumerate() {
                if let (true, Some(column)) = (value.is_number(), table.column_mut(column)) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        table.add_row(fields.values().map(|value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Number(n) if n.is_f64() => format!("{:.2}", n.as_f64().unwrap_or_default()),
            other => other.to_string(),
        }));
    }
    Ok(table)
}
