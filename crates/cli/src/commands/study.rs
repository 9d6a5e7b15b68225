//! `wakepath study`: workloads x policies x repeats from one file, simulated or measured.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use wakepath_compare::describe_shortfalls;
use wakepath_compare::results::Source;
use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Place;
use wakepath_results::{Mode, ResultReader, RunOrigin, Shard};
use wakepath_study::builtin;
use wakepath_study::plan::Plan;
use wakepath_study::run::{self, RunControl};

use crate::messages::warning;
use crate::output::{self, Format, Screen};
use crate::policy_set::{self, ProgramPermission, WholePolicySetParser};
use crate::waiting::{self, ThreadCount};
use notes::hold_notes_on_study_input;

mod check;
mod notes;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Write a commented example.
    New(NewArgs),
    /// Explain what would run, and how long it takes. Runs nothing of it; C code is compiled.
    Check(CheckArgs),
    /// Run a study, or go on with one.
    Run(RunArgs),
    /// The built-in studies.
    List(ListArgs),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath study new my-study.toml
  wakepath study new --from idle-governor my-study.toml")]
struct NewArgs {
    /// The file to write.
    file: PathBuf,
    /// A built-in study to start from.
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath study check idle-governor")]
struct CheckArgs {
    /// Study file, or the name of a built-in study.
    study: PathBuf,
    /// Where it would run.
    #[arg(long, value_name = "ON", default_value = "sim", value_parser = sim_live_or_replay_parser())]
    on: RunOrigin,
    /// A policy set beside those of the study, such as 'teo + psd'; give it again for more.
    #[arg(long, value_name = "SET", value_parser = WholePolicySetParser(Place::Sim), hide_possible_values = true)]
    policy: Vec<PolicySet>,
    #[command(flatten)]
    programs: ProgramPermission,
    #[command(flatten)]
    jobs: ThreadCount,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath study run idle-governor
  wakepath study run my-study.toml --on live -o measured
  wakepath study run my-recordings.toml --on replay
  wakepath study run my-study.toml --policy 'menu + cpu-latency[limit=20us]'
  wakepath study run my-study.toml --resume
  wakepath study run my-study.toml --shard 3/64")]
struct RunArgs {
    /// Study file, or the name of a built-in study.
    study: PathBuf,
    /// Where it runs: on the modelled machine that the study names, for real on this one, or on recordings.
    #[arg(long, value_name = "ON", default_value = "sim", value_parser = sim_live_or_replay_parser())]
    on: RunOrigin,
    /// Directory of the results [default: the study's name with -sim, -live or -replay].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// A policy set beside those of the study, such as 'teo + psd'; give it again for more. The study that is kept with
    /// the results has them, so that it runs again with them.
    #[arg(long, value_name = "SET", value_parser = WholePolicySetParser(Place::Sim), hide_possible_values = true)]
    policy: Vec<PolicySet>,
    /// Run one of several equal parts, for job arrays: 3/64 is every 64th run, from the third one on. `wakepath results
    /// merge` puts them together.
    #[arg(long, value_name = "N/OF")]
    shard: Option<Shard>,
    /// Go on with a study that was interrupted.
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Replace results that are there.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    programs: ProgramPermission,
    #[command(flatten)]
    jobs: ThreadCount,
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  wakepath study list")]
struct ListArgs {
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Parses `--on`.
fn sim_live_or_replay_parser() -> impl TypedValueParser<Value = RunOrigin> {
    let backends = [
        (RunOrigin::Sim, "Simulated"),
        (RunOrigin::Live, "Measured"),
        (RunOrigin::Replay, "Recordings through the policies"),
    ];
    let values = backends.map(|(on, help)| PossibleValue::new(on.name()).help(help));
    PossibleValuesParser::new(values).map(move |name| {
        let found = backends.iter().find(|(on, _)| on.name() == name);
        found.map_or(RunOrigin::Sim, |(on, _)| *on)
    })
}

pub(crate) fn run_study_command(args: Args, out: &mut Screen) -> anyhow::Result<()> {
    match args.verb {
        Verb::New(args) => write_example_study_file(&args, out),
        Verb::Check(args) => check_and_print_study(&args, out),
        Verb::Run(args) => run_study_into_directory(&args, out),
        Verb::List(args) => print_builtin_studies(&args, out),
    }
}

fn write_example_study_file(args: &NewArgs, out: &mut Screen) -> anyhow::Result<()> {
    let text = match &args.from {
        None => builtin::EXAMPLE,
        Some(name) => builtin::study_text(name).with_context(|| {
            let known: Vec<&str> = builtin::study_names().collect();
            format!(
                "--from: no built-in study is called '{name}'; there are {}",
                known.join(", ")
            )
        })?,
    };
    let path = args.file.display();
    let mut options = OpenOptions::new();
    options.write(true);
    if args.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let mut file = options.open(&args.file).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            anyhow::anyhow!("{path}: the file exists; --force replaces it")
        }
        _ => anyhow::Error::new(e).context(path.to_string()),
    })?;
    file.write_all(text.as_bytes())
        .with_context(|| path.to_string())?;
    writeln!(out, "{path} is written; next: wakepath study check {path}")?;
    Ok(())
}

/// A built-in study as `study list` prints it.
#[derive(Serialize)]
struct BuiltinStudy {
    name: &'static str,
    title: String,
    machine: String,
    workloads: usize,
    policies: usize,
    repeats: u32,
}

fn print_builtin_studies(args: &ListArgs, out: &mut Screen) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for name in builtin::study_names() {
        let plan = Plan::load(Path::new(name), RunOrigin::Sim)?;
        all.push(BuiltinStudy {
            name,
            title: plan.file.title.clone().unwrap_or_default(),
            machine: plan
                .machines
                .iter()
                .map(|m| m.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
            workloads: plan.workloads.len(),
            policies: plan.policies.len(),
            repeats: plan.repeats(),
        });
    }
    let header = [
        "name",
        "title",
        "machine",
        "workloads",
        "policies",
        "repeats",
    ];
    let rows = all.iter().map(|l| {
        [
            l.name.to_owned(),
            l.title.clone(),
            l.machine.clone(),
            l.workloads.to_string(),
            l.policies.to_string(),
            l.repeats.to_string(),
        ]
    });
    match args.format {
        Format::Json => output::write_json(out, &all),
        Format::Csv => output::write_csv(out, header, rows),
        Format::Table => output::write_table(out, header, rows),
    }
}

impl RunArgs {
    /// The result directory if none is named: the study's name, and the backend's.
    fn result_directory_by_name_and_shard(&self, plan: &Plan) -> PathBuf {
        let shard = self
            .shard
            .map(|shard| format!("-{}-of-{}", shard.number(), shard.count()));
        PathBuf::from(format!(
            "{}-{}{}",
            plan.file.name.get_ref(),
            self.on.name(),
            shard.unwrap_or_default()
        ))
    }

    fn new_resume_or_replace(&self) -> Mode {
        match (self.resume, self.force) {
            (true, _) => Mode::Resume,
            (false, true) => Mode::Replace,
            (false, false) => Mode::New,
        }
    }
}

/// Plans the study of a file or a built-in one, with further policy sets.
fn load_plan(
    study: &Path,
    on: RunOrigin,
    policy: &[PolicySet],
    programs: ProgramPermission,
) -> anyhow::Result<Plan> {
    let sets = policy_set::sets_with_governor_paths_for_study(study, policy)?;
    Ok(Plan::load_with_sets(study, on, &sets, programs.allowed)?)
}

fn check_and_print_study(args: &CheckArgs, out: &mut Screen) -> anyhow::Result<()> {
    let plan = load_plan(&args.study, args.on, &args.policy, args.programs)?;
    check::check_and_print_plan(&plan, args.jobs.count_or_all_cores(), args.format, out)
}

fn run_study_into_directory(args: &RunArgs, out: &mut Screen) -> anyhow::Result<()> {
    let plan = load_plan(&args.study, args.on, &args.policy, args.programs)?;
    plan.check_programs_allowed()?;
    if args.shard.is_some() && args.on != RunOrigin::Sim {
        bail!(
            "--shard is for simulations. A measurement takes its runs in an order of its own, on one machine. A \
             recording is replayed as a whole"
        );
    }
    let dir = args
        .output
        .clone()
        .unwrap_or_else(|| args.result_directory_by_name_and_shard(&plan));
    let runs = (0..plan.run_count())
        .filter(|index: &usize| args.shard.is_none_or(|shard| shard.includes_run(*index)))
        .count();
    hold_notes_on_study_input(&plan);
    let surprises = waiting::run_with_progress(args.jobs, runs, "runs", |finished, cancelled| {
        let control = RunControl {
            finished,
            cancelled,
        };
        let backend = run::make_backend(&plan)?;
        run::run_plan(
            &plan,
            &*backend,
            args.shard,
            &dir,
            args.new_resume_or_replace(),
            &control,
        )?;
        Ok(backend.list_unexpected_findings())
    })?;
    for surprise in surprises {
        warning!("{surprise}");
    }
    let source = Source::read_result("", &ResultReader::open(&dir)?)?;
    for warning in describe_shortfalls(&[("", &source)], |_, _| true) {
        warning!("{warning}");
    }
    let dir = dir.display();
    if let Some(shard) = args.shard {
        writeln!(
            out,
            "{runs} of {} runs in {dir} (shard {shard}); when all are there: wakepath results merge DIR... -o results",
            plan.run_count()
        )?;
        return Ok(());
    }
    writeln!(
        out,
        "{} in {dir}; next: wakepath compare {dir}, wakepath report {dir} -o report.html",
        output::count_with_noun(plan.run_count() as u64, "run")
    )?;
    Ok(())
}
