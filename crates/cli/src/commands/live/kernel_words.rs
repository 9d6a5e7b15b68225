//! `wakepath apply --kernel-word`: words for the kernel command line.

use std::path::Path;

use serde::Serialize;
use wakepath_settings::{BootSetting, KernelWord, KernelWordsPlan, write_kernel_words};
use wakepath_system::System;

use crate::messages::tell;
use crate::output::{self, Format, Screen};

/// JSON output.
#[derive(Serialize)]
struct KernelWordsReport<'a> {
    boot_loader: &'static str,
    file: String,
    /// What known words decide.
    settings: Vec<DecidedSetting<'a>>,
    changes: Vec<LineChange<'a>>,
    /// Words that stay beside new ones of the same key.
    kept_beside: &'a [String],
    commands: &'a [String],
    /// The old file beside the new one; `None` if nothing was written, or the file is new.
    copy: Option<String>,
    written: bool,
}

/// What a word decides, and the running kernel's value.
#[derive(Serialize)]
struct DecidedSetting<'a> {
    word: &'a str,
    meaning: &'static str,
    running: Option<String>,
    /// File with the running kernel's value.
    shown_in: Option<String>,
}

impl<'a> DecidedSetting<'a> {
    fn find_for_word(system: &System, word: &'a KernelWord) -> Option<Self> {
        let known = BootSetting::for_key(word.key())?;
        let (running, shown_in) = known.read_running_value(system).unzip();
        Some(Self {
            word: word.as_str(),
            meaning: known.meaning,
            running,
            shown_in,
        })
    }
}

#[derive(Serialize)]
struct LineChange<'a> {
    old: Option<&'a str>,
    new: &'a str,
}

pub(super) fn print_or_write_kernel_words(
    system: &System,
    words: &[KernelWord],
    write: bool,
    format: Format,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let plan = KernelWordsPlan::new(system, words)?;
    let writes = write && !plan.has_all_words_already();
    let copy = if writes {
        write_kernel_words(system, &plan)?
    } else {
        None
    };
    let copy = copy
        .as_deref()
        .map(Path::display)
        .map(|path| path.to_string());
    if writes {
        let option = system.root().command_line_option();
        tell!(
            "`wakepath restore{option}` puts {} back",
            plan.file.display()
        );
    }
    let report = KernelWordsReport {
        boot_loader: plan.loader.name(),
        file: plan.file.display().to_string(),
        settings: words
            .iter()
            .filter_map(|word| DecidedSetting::find_for_word(system, word))
            .collect(),
        changes: (plan.changes.iter())
            .map(|(old, new)| LineChange {
                old: old.as_deref(),
                new,
            })
            .collect(),
        kept_beside: &plan.kept_beside,
        commands: &plan.commands,
        copy,
        written: writes,
    };
    match format {
        Format::Json => output::write_json(out, &report),
        Format::Csv => {
            let rows = report
                .changes
                .iter()
                .map(|change| [change.old.unwrap_or_default(), change.new].map(str::to_owned));
            output::write_csv(out, ["old", "new"], rows)
        }
        Format::Table => write_report_as_text(&plan, &report, out),
    }
}

fn write_report_as_text(
    plan: &KernelWordsPlan,
    report: &KernelWordsReport<'_>,
    out: &mut Screen,
) -> anyhow::Result<()> {
    for decided in &report.settings {
        write!(out, "{}: {}", decided.word, decided.meaning)?;
        if let (Some(running), Some(file)) = (&decided.running, &decided.shown_in) {
            write!(out, "; now {running} ({file})")?;
        }
        writeln!(out)?;
    }
    if plan.has_all_words_already() {
        writeln!(
            out,
            "{}: {} has the words already",
            report.boot_loader, report.file
        )?;
        return Ok(());
    }
    if report.changes.is_empty() {
        writeln!(
            out,
            "{}: its command changes the entries of all kernels",
            report.boot_loader
        )?;
    } else {
        let verb = if report.written {
            "written"
        } else {
            "to write"
        };
        writeln!(out, "{}: {verb} in {}", report.boot_loader, report.file)?;
    }
    for change in &report.changes {
        writeln!(out)?;
        if let Some(old) = change.old {
            writeln!(out, "  - {old}")?;
        }
        writeln!(out, "  + {}", change.new)?;
    }
    if !report.kept_beside.is_empty() {
        writeln!(out)?;
        writeln!(
            out,
            "left beside, since of some words every one counts: {}; of most words the last one counts",
            report.kept_beside.join(" ")
        )?;
    }
    if let Some(copy) = &report.copy {
        writeln!(out)?;
        writeln!(out, "as it was: {copy}")?;
    }
    if !report.commands.is_empty() {
        writeln!(out)?;
        writeln!(out, "then, as root, and restart:")?;
        for command in report.commands {
            writeln!(out, "  {command}")?;
        }
    }
    Ok(())
}
