//! `wakepath report`: an HTML page from results.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use wakepath_report::html::{from_results, render_html_report};
use wakepath_results::ResultReader;
use wakepath_results::import;

use crate::new_file;
use crate::output::Screen;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath report idle-governor-sim
  wakepath report my-study-sim my-study-live --baseline menu -o compared.html
  wakepath report before.json after.json")]
pub(crate) struct Args {
    /// Result directories; also fio JSON, hyperfine JSON and MMTests log directories, or directories of such files.
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// The page to write.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// The policy that the others are compared with [default: the first result's].
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Replace the page if it exists.
    #[arg(long)]
    force: bool,
}

pub(crate) fn write_html_report(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let place = format!("--output {}", args.output.display());
    new_file::check_output_may_be_written(&args.output, args.force)
        .with_context(|| place.clone())?;
    let opened = import::open_results(&args.results)?;
    let readers: Vec<ResultReader> = opened.into_iter().map(|o| o.results).collect();
    let view = from_results::build_view(&readers, args.baseline.as_deref())?;
    let page = render_html_report(&view)?;
    new_file::write_whole_file(&args.output, args.force, |mut file| {
        Ok(file.write_all(page.as_bytes())?)
    })
    .context(place)?;
    writeln!(
        out,
        "{}: {:.1} MB, opens in any browser, also offline",
        args.output.display(),
        page.len() as f64 / 1e6
    )?;
    Ok(())
}
