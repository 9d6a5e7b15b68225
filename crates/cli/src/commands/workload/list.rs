//! `wakepath workload list`: the built-in workloads.

use super::builtin::{BuiltinWorkload, load_all};
use crate::output::{self, PageFormat, Screen};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath workload list
  wakepath workload list --recipes")]
pub(super) struct Args {
    /// Only recipes: workloads that stand for programs.
    #[arg(long)]
    recipes: bool,
    /// What to print. A page in Markdown has recipes only.
    #[arg(long, value_enum, default_value_t)]
    format: PageFormat,
}

const HEADER: [&str; 4] = ["name", "kind", "counted beside", "what it stands for"];

pub(super) fn print_builtin_workloads(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let mut all = load_all()?;
    let only_recipes = args.recipes || args.format == PageFormat::Markdown;
    all.retain(|workload| !only_recipes || workload.recipe.is_some());
    let rows = all
        .iter()
        .map(|workload| cells(workload, workload.name.to_owned()));
    match args.format {
        PageFormat::Table => output::write_table(out, HEADER, rows),
        PageFormat::Json => output::write_json(out, &all),
        PageFormat::Csv => output::write_csv(out, HEADER, rows),
        PageFormat::Markdown => {
            let rows = all.iter().filter_map(|workload| {
                let name = workload.recipe?.name();
                Some(cells(workload, format!("[{name}]({name}.md)")))
            });
            write_page_of_recipes(rows, out)
        }
    }
}

fn cells(workload: &BuiltinWorkload, name: String) -> [String; 4] {
    [
        name,
        workload.kind.to_owned(),
        workload.program.clone().unwrap_or_default(),
        workload.title.clone(),
    ]
}

fn write_page_of_recipes(
    rows: impl Iterator<Item = [String; 4]>,
    out: &mut Screen,
) -> anyhow::Result<()> {
    writeln!(out, "# Recipes")?;
    writeln!(out)?;
    writeln!(
        out,
        "Workloads that stand for programs. What a program asked of its disk was counted; `(assumed)` where it was not. \
         `wakepath workload show NAME` prints these pages. [What they are for](../../guides/recipes.md)."
    )?;
    writeln!(out)?;
    writeln!(out, "| {} |", HEADER.join(" | "))?;
    writeln!(out, "|---|---|---|---|")?;
    for row in rows {
        writeln!(
            out,
            "| {} |",
            row.map(|cell| cell.replace('|', "\\|")).join(" | ")
        )?;
    }
    Ok(())
}
