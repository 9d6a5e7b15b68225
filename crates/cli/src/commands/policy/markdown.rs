//! All mechanisms as Markdown tables, for docs/reference/policies.md.

use std::io;

use super::listed::ListedPolicy;
use crate::output::Screen;

pub(super) fn write_policies_as_markdown(
    policies: &[ListedPolicy],
    out: &mut Screen,
) -> io::Result<()> {
    writeln!(out, "| policy | decides | works in | rule | source |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for policy in policies {
        let on = policy.on.join(", ");
        let row = [
            format_code_span(policy.name),
            policy.kind.to_owned(),
            on,
            policy.summary.to_owned(),
            policy.source.to_string(),
        ];
        writeln!(
            out,
            "| {} |",
            row.map(|cell| escape_table_cell(&cell)).join(" | ")
        )?;
    }
    writeln!(out, "\n| key | meaning | may be | without it |")?;
    writeln!(out, "|---|---|---|---|")?;
    for policy in policies {
        for key in &policy.settings {
            let unit = match key.unit {
                "" => String::new(),
                unit => format!(" [{unit}]"),
            };
            let row = [
                format_code_span(&format!("{}[{}=]", policy.name, key.key)),
                format!("{}{unit}", key.meaning),
                key.allowed.clone(),
                key.default.to_owned(),
            ];
            writeln!(
                out,
                "| {} |",
                row.map(|cell| escape_table_cell(&cell)).join(" | ")
            )?;
        }
    }
    Ok(())
}

fn format_code_span(text: &str) -> String {
    format!("`{text}`")
}

fn escape_table_cell(cell: &str) -> String {
    cell.replace('|', "\\|")
}
