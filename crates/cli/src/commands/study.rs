//! `wakepath study`: workloads x policies x repeats from one file, simulated or measured.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use wakepath_compare::results::Source;
use wakepath_compare::shortfalls;
use wakepath_policies::PolicySet;
use wakepath_policies::idle::program::ProgramForm;
use wakepath_policies::mechanism::Place;
use wakepath_results::{Goal, Mode, Question, ResultReader, RunOrigin, Shard};
use wakepath_study::builtin;
use wakepath_study::plan::{Plan, Task};
use wakepath_study::run::{self, Order, RunControl};
use wakepath_units::Nanoseconds;

use super::arguments;
use crate::messages::{self, Kind, note, warning};
use crate::output::{self, Format, Screen};
use crate::policy_set::{self, Programs, WholeSet};
use crate::until;
use crate::waiting::{self, Jobs};

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
    #[arg(long, value_name = "ON", default_value = "sim", value_parser = on())]
    on: RunOrigin,
    /// A policy set beside those of the study, such as 'teo + psd'; give it again for more.
    #[arg(long, value_name = "SET", value_parser = WholeSet(Place::Sim), hide_possible_values = true)]
    policy: Vec<PolicySet>,
    #[command(flatten)]
    programs: Programs,
    #[command(flatten)]
    jobs: Jobs,
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
    #[arg(long, value_name = "ON", default_value = "sim", value_parser = on())]
    on: RunOrigin,
    /// Directory of the results [default: the study's name with -sim, -live or -replay].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// A policy set beside those of the study, such as 'teo + psd'; give it again for more. The study that is kept with
    /// the results has them, so that it runs again with them.
    #[arg(long, value_name = "SET", value_parser = WholeSet(Place::Sim), hide_possible_values = true)]
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
    programs: Programs,
    #[command(flatten)]
    jobs: Jobs,
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  wakepath study list")]
struct ListArgs {
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Reads `--on`.
fn on() -> impl TypedValueParser<Value = RunOrigin> {
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

pub(crate) fn run(args: Args, out: &mut Screen) -> anyhow::Result<()> {
    match args.verb {
        Verb::New(args) => new(&args, out),
        Verb::Check(args) => check(&args, out),
        Verb::Run(args) => run_study(&args, out),
        Verb::List(args) => list_builtin_studies(&args, out),
    }
}

fn new(args: &NewArgs, out: &mut Screen) -> anyhow::Result<()> {
    let text = match &args.from {
        None => builtin::EXAMPLE,
        Some(name) => builtin::study(name).with_context(|| {
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

/// A built-in study in a list.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: String,
    machine: String,
    workloads: usize,
    policies: usize,
    repeats: u32,
}

fn list_builtin_studies(args: &ListArgs, out: &mut Screen) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for name in builtin::study_names() {
        let plan = Plan::load(Path::new(name), RunOrigin::Sim)?;
        all.push(Listed {
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
        Format::Json => output::json(out, &all),
        Format::Csv => output::csv(out, header, rows),
        Format::Table => output::table(out, header, rows),
    }
}

/// Output by `study check`.
#[derive(Serialize)]
struct Checked {
    study: String,
    on: RunOrigin,
    /// Machines to simulate.
    machines: Vec<CheckedMachine>,
    runs: usize,
    repeats: u32,
    baseline: String,
    workloads: Vec<CheckedWorkload>,
    policies: Vec<wakepath_results::PolicyInfo>,
    questions: Vec<Question>,
    /// How long the whole study takes, in seconds, if that can be said.
    seconds: Option<f64>,
    jobs: usize,
    /// Whether programs with unknown time are asked.
    #[serde(skip)]
    has_program: bool,
}

#[derive(Serialize)]
struct CheckedMachine {
    name: String,
    title: String,
}

#[derive(Serialize)]
struct CheckedWorkload {
    name: String,
    what: String,
    /// A run's own duration, in seconds.
    seconds: Option<f64>,
}

/// How long each workload is tried under each policy.
const TRY: Duration = Duration::from_millis(20);

fn check(args: &CheckArgs, out: &mut Screen) -> anyhow::Result<()> {
    let plan = Plan::with_more(
        &args.study,
        args.on,
        &policy_set::beside(&args.study, &args.policy)?,
        args.programs.allowed,
    )?;
    let jobs = args.jobs.threads();
    let backend = run::backend(&plan)?;
    run::check(&plan, &*backend)?;
    let side_by_side = match backend.order() {
        Order::Parallel => jobs,
        Order::Serial(_) => 1,
    };
    let seconds = backend
        .estimate(TRY)?
        .map(|all| all.as_secs_f64() / side_by_side as f64);
    let checked = Checked {
        study: plan.file.name.get_ref().clone(),
        on: args.on,
        machines: plan
            .machines
            .iter()
            .filter_map(|m| {
                Some(CheckedMachine {
                    name: m.name.clone(),
                    title: m.model.as_ref()?.title.clone(),
                })
            })
            .collect(),
        runs: plan.runs(),
        repeats: plan.repeats(),
        baseline: plan.policies[plan.baseline].name.clone(),
        workloads: plan
            .workloads
            .iter()
            .map(|w| CheckedWorkload {
                name: w.name.clone(),
                what: match &w.task {
                    Task::Fio { .. } => "fio job".to_owned(),
                    Task::RtApp { .. } => "rt-app file".to_owned(),
                    Task::Recording(_) => "recording".to_owned(),
                    Task::Command { words, .. } => words.join(" "),
                },
                seconds: w.duration().map(Nanoseconds::as_secs_f64),
            })
            .collect(),
        policies: plan.described_policies(),
        questions: plan.questions.clone(),
        seconds,
        jobs,
        has_program: plan.policies.iter().any(|p| {
            let program = p.set.program();
            program.is_some_and(|program| program.form() == ProgramForm::Exec)
        }),
    };
    tell_notes(&plan);
    match args.format {
        Format::Json => output::json(out, &checked),
        Format::Csv => {
            let rows = (0..plan.cells().len()).map(|cell| {
                let key = plan.key(cell);
                [
                    key.machine,
                    key.workload,
                    key.policy,
                    plan.repeats().to_string(),
                ]
            });
            output::csv(out, ["machine", "workload", "policy", "runs"], rows)
        }
        Format::Table => explain(out, &checked),
    }
}

/// Adds notes on accepted input that readers should know.
fn tell_notes(plan: &Plan) {
    policy_set::tell_warnings(plan.policies.iter().map(|p| &p.set));
    for workload in &plan.workloads {
        for warning in &workload.warnings {
            messages::add(
                Kind::Remark,
                Some(&workload.name),
                format!("line {warning}"),
            );
        }
    }
    arguments::tell_shares(plan.questions.iter().flat_map(|question| &question.keep));
    for note in plan.notes() {
        note!("{note}");
    }
    for model in plan.machines.iter().filter_map(|m| m.model.as_ref()) {
        // A set that does not fit the machine is refused by the plan.
        let _ = policy_set::tell_notes(model, plan.policies.iter().map(|p| &p.set));
    }
}

fn settings_in_words(policy: &wakepath_results::PolicyInfo) -> String {
    let settings = policy.settings.iter();
    let all: Vec<String> = settings.map(|(k, v)| format!("{k}={v}")).collect();
    if all.is_empty() {
        "nothing changed".to_owned()
    } else {
        all.join(", ")
    }
}

fn explain(out: &mut Screen, checked: &Checked) -> anyhow::Result<()> {
    let names: Vec<&str> = checked.machines.iter().map(|m| m.name.as_str()).collect();
    let on = match (&checked.machines[..], checked.on) {
        ([], RunOrigin::Replay) => "replayed".to_owned(),
        ([], _) => "measured on this machine".to_owned(),
        ([only], RunOrigin::Replay) => format!("replayed with the figures of {}", only.title),
        (_, RunOrigin::Replay) => format!("replayed with the figures of {}", names.join(", ")),
        ([only], _) => format!("simulated on {}", only.title),
        (_, _) => format!("simulated on {}", names.join(", ")),
    };
    let runs = format!(
        "{}: {}, {} of each workload under each policy, {on}",
        checked.study,
        output::counted(checked.runs as u64, "run"),
        checked.repeats
    );
    out.prose(&runs, 2)?;
    writeln!(out)?;
    let otherwise = match checked.on {
        RunOrigin::Replay => "as recorded",
        _ => "until it ends",
    };
    output::table(
        out,
        ["workload", "what", "length"],
        checked.workloads.iter().map(|w| {
            let length = w.seconds.map(|s| format!("{s} s"));
            let length = length.unwrap_or_else(|| otherwise.to_owned());
            [w.name.clone(), w.what.clone(), length]
        }),
    )?;
    writeln!(out)?;
    output::table(
        out,
        ["policy", "settings", ""],
        checked.policies.iter().map(|p| {
            let baseline = if p.name == checked.baseline {
                "baseline"
            } else {
                ""
            };
            [p.name.clone(), settings_in_words(p), baseline.to_owned()]
        }),
    )?;
    if !checked.questions.is_empty() {
        writeln!(out)?;
        let rows = checked
            .questions
            .iter()
            .map(|q| [q.ask.clone(), what_answers(q)]);
        output::table(out, ["question", "answered by"], rows)?;
    }
    if checked.repeats < 4 {
        writeln!(
            out,
            "\n{} run(s) of each: no interval can be given for fewer than 4; set `repeats`",
            checked.repeats
        )?;
    }
    match checked.seconds {
        Some(seconds) if checked.has_program => writeln!(
            out,
            "\nTakes about {} on {} core(s), and what the programs of exec: take: they are not run here.",
            until::in_words(seconds),
            checked.jobs
        )?,
        Some(seconds) if checked.on == RunOrigin::Sim => writeln!(
            out,
            "\nTakes about {} on {} core(s).",
            until::in_words(seconds),
            checked.jobs
        )?,
        Some(seconds) => writeln!(out, "\nTakes at least {}.", until::in_words(seconds))?,
        None if checked.on == RunOrigin::Replay => {}
        None => writeln!(
            out,
            "\nHow long it takes cannot be said: a workload does not say when it ends."
        )?,
    }
    Ok(())
}

/// A question's metric, or its goal and conditions.
fn what_answers(question: &Question) -> String {
    let metric = &question.metric;
    let wanted = match question.goal {
        None => metric.clone(),
        Some(Goal::Minimise) => format!("least {metric}"),
        Some(Goal::Maximise) => format!("most {metric}"),
    };
    let keep = question.keep.iter().map(ToString::to_string);
    let parts: Vec<String> = std::iter::once(wanted).chain(keep).collect();
    parts.join(", ")
}

fn run_study(args: &RunArgs, out: &mut Screen) -> anyhow::Result<()> {
    let plan = Plan::with_more(
        &args.study,
        args.on,
        &policy_set::beside(&args.study, &args.policy)?,
        args.programs.allowed,
    )?;
    plan.may_run()?;
    if args.shard.is_some() && args.on != RunOrigin::Sim {
        bail!(
            "--shard is for simulations. A measurement takes its runs in an order of its own, on one machine. A \
             recording is replayed as a whole"
        );
    }
    let dir = args.output.clone().unwrap_or_else(|| {
        let shard = args
            .shard
            .map(|s| format!("-{}-of-{}", s.number(), s.count()));
        PathBuf::from(format!(
            "{}-{}{}",
            plan.file.name.get_ref(),
            args.on.name(),
            shard.unwrap_or_default()
        ))
    });
    let runs = (0..plan.runs())
        .filter(|index: &usize| args.shard.is_none_or(|shard| shard.has(*index)))
        .count();
    let mode = match (args.resume, args.force) {
        (true, _) => Mode::Resume,
        (false, true) => Mode::Replace,
        (false, false) => Mode::New,
    };
    tell_notes(&plan);
    let surprises = waiting::counting(args.jobs, runs, "runs", |finished, cancelled| {
        let control = RunControl {
            finished,
            cancelled,
        };
        let backend = run::backend(&plan)?;
        run::run(&plan, &*backend, args.shard, &dir, mode, &control)?;
        Ok(backend.surprises())
    })?;
    for surprise in surprises {
        warning!("{surprise}");
    }
    let source = Source::read("", &ResultReader::open(&dir)?)?;
    for warning in shortfalls(&[("", &source)]) {
        warning!("{warning}");
    }
    let dir = dir.display();
    if let Some(shard) = args.shard {
        writeln!(
            out,
            "{runs} of {} runs in {dir} (shard {shard}); when all are there: wakepath results merge DIR... -o results",
            plan.runs()
        )?;
        return Ok(());
    }
    writeln!(
        out,
        "{} in {dir}; next: wakepath compare {dir}, wakepath report {dir} -o report.html",
        output::counted(plan.runs() as u64, "run")
    )?;
    Ok(())
}
