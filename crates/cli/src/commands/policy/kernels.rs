//! `wakepath policy kernels`: changes to menu and teo between kernels.

use std::fmt;

use serde::Serialize;
use wakepath_policies::idle::{self, menu, teo};

use crate::output::{self, Format, Screen};

/// Print what kernels changed in the idle governors menu and teo.
///
/// Each line is a generation. It begins with a release, of one series or of several. It lasts until another
/// generation begins, in that series or a later one. `compared` names the release whose own C code decided the same over
/// every input. Without one, only the description of the change was to be had.
#[derive(clap::Args)]
#[command(after_help = "Example:
  wakepath policy kernels --format csv")]
pub(super) struct Args {
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A governor's generation: the kernels in which the governor behaves equally.
#[derive(Serialize)]
pub(super) struct GovernorGeneration {
    governor: &'static str,
    /// First releases.
    from: String,
    /// Release whose C code gave the same decisions; `None` if none was compared.
    compared: Option<&'static str>,
    change: &'static str,
}

/// The generations of a governor; empty for policies that never changed.
pub(super) fn generations_if_menu_or_teo(name: &'static str) -> Vec<GovernorGeneration> {
    let generations: Vec<_> = match name {
        "menu" => menu::menu_generations().collect(),
        "teo" => teo::teo_generations().collect(),
        _ => Vec::new(),
    };
    generations
        .into_iter()
        .map(|generation| GovernorGeneration::new(name, generation))
        .collect()
}

impl GovernorGeneration {
    pub(super) fn new(governor: &'static str, generation: &idle::generations::Generation) -> Self {
        Self {
            governor,
            from: generation.first_releases(),
            compared: generation.compared,
            change: generation.change,
        }
    }
}

impl fmt::Display for GovernorGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "as from Linux {}, ", self.from)?;
        match self.compared {
            Some(release) => write!(f, "compared with the C of {release}")?,
            None => f.write_str("not compared with a kernel's C")?,
        }
        write!(f, ": {}", self.change)
    }
}

/// A line with the number of generations.
pub(super) fn count_generations_in_words() -> String {
    let all = ["menu", "teo"].map(generations_if_menu_or_teo);
    let count = all.iter().flatten().count();
    let compared = all
        .iter()
        .flatten()
        .filter(|g| g.compared.is_some())
        .count();
    format!(
        "Kernels changed menu and teo {} times; {compared} of {count} generations are compared with the kernel's C, {} are \
         not compared: wakepath policy kernels",
        count - 2,
        count - compared
    )
}

pub(super) fn print_governor_generations(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let all: Vec<_> = ["menu", "teo"]
        .into_iter()
        .flat_map(generations_if_menu_or_teo)
        .collect();
    let header = ["governor", "from", "compared", "change"];
    let not_compared = match args.format {
        Format::Table => "not compared",
        Format::Json | Format::Csv => "",
    };
    let rows = all.iter().map(|generation| {
        [
            generation.governor.to_owned(),
            generation.from.clone(),
            generation.compared.unwrap_or(not_compared).to_owned(),
            generation.change.to_owned(),
        ]
    });
    match args.format {
        Format::Json => output::write_json(out, &all),
        Format::Csv => output::write_csv(out, header, rows),
        Format::Table => output::write_table(out, header, rows),
    }
}
