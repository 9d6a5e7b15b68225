//! Where the results of a report come from, and the commands that make them again.

use wakepath_results::{Design, Document, ResultReader, ResultsError, RunOrigin};

use super::super::view::{PageSource, View};

/// Longest text of a file on the page, in bytes; the result directory has the whole file.
const LONGEST_FILE: usize = 60_000;

/// Largest total size of the files on the page, in bytes; of further files only names are shown.
const ALL_FILES: usize = 1_000_000;

pub(super) fn add_provenance(
    view: &mut View,
    results: &[ResultReader],
    suffixes: &[String],
) -> Result<(), ResultsError> {
    let mut backends: Vec<&str> = results
        .iter()
        .map(|r| origin_in_words(r.document().backend))
        .collect();
    backends.dedup();
    view.facts.push(backends.join(" and "));
    let mut machines: Vec<&str> = results
        .iter()
        .flat_map(|r| &r.document().machines)
        .map(|machine| machine.title.as_str())
        .collect();
    machines.dedup();
    view.facts.extend(
        machines
            .iter()
            .filter(|m| !m.is_empty())
            .map(|m| (*m).to_owned()),
    );
    let several_machines = results.iter().any(|r| r.document().machines.len() > 1);
    let workloads = if several_machines {
        ("workload on a machine", "workloads on machines")
    } else {
        ("workload", "workloads")
    };
    view.facts.push(format!(
        "{} × {}",
        count_in_words(view.workloads.len(), workloads.0, workloads.1),
        count_in_words(
            view.policies_without_subset_lines().count(),
            "policy",
            "policies"
        )
    ));
    let mut repeats: Vec<String> = results
        .iter()
        .map(|r| count_in_words(r.document().repeats as usize, "run each", "runs each"))
        .collect();
    repeats.dedup();
    view.facts.push(repeats.join(" and "));
    for (reader, suffix) in results.iter().zip(suffixes) {
        add_cautions(view, reader, suffix);
        view.sources.push(describe_result_source(reader, suffix)?);
    }
    view.commands = commands_that_repeat_results(results);
    let shown = results.iter().map(|r| r.dir().display().to_string());
    view.results = shown.map(|dir| quote_argument(&dir)).collect();
    Ok(())
}

fn count_in_words(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// The origin of results as an adjective: `simulated`, `measured`.
pub(super) fn origin_in_words(origin: RunOrigin) -> &'static str {
    match origin {
        RunOrigin::Sim => "simulated",
        RunOrigin::Replay => "replayed",
        RunOrigin::Live => "measured",
        RunOrigin::Lab => "measured in the laboratory",
        RunOrigin::Import => "imported",
        RunOrigin::Traced => "traced",
    }
}

fn add_cautions(view: &mut View, reader: &ResultReader, suffix: &str) {
    let document = reader.document();
    if !document.complete {
        view.cautions.push(format!(
            "The study{suffix} was interrupted: this is what was finished. `wakepath study run --resume` goes on with it."
        ));
    }
    if document.repeats == 1 {
        view.cautions.push(format!(
            "A single run of each{suffix}: nothing can be said about how much runs differ, so there are no intervals and no \
             verdicts. At least 4 runs are needed."
        ));
    }
    view.cautions.extend(document.notes.iter().cloned());
}

/// A study's title. A study whose title is its name is called by its first question, if it has any.
pub(super) fn study_title(document: &Document) -> &str {
    let study = &document.study;
    let questions = document.questions.iter().map(|question| &question.ask);
    let mut titles = std::iter::once(&study.title).chain(questions);
    titles
        .find(|title| !title.is_empty() && **title != study.name)
        .unwrap_or(&study.name)
}

fn describe_result_source(reader: &ResultReader, suffix: &str) -> Result<PageSource, ResultsError> {
    let mut title = study_title(reader.document()).to_owned();
    // A file from another tool already has its name as the title.
    if *suffix != format!(" ({title})") {
        title.push_str(suffix);
    }
    Ok(PageSource {
        title,
        facts: list_facts(reader),
        files: read_copies_within_page_size(reader)?,
    })
}

/// Facts about a study, its machines and its statistics: name and value.
fn list_facts(reader: &ResultReader) -> Vec<(String, String)> {
    let document = reader.document();
    let mut facts = vec![
        ("study", document.study.name.clone()),
        ("results", origin_in_words(document.backend).to_owned()),
    ];
    for machine in &document.machines {
        let kinds = machine.cpu_kinds.iter();
        let kinds: Vec<String> = kinds.map(|k| format!("{} × {}", k.cpus, k.name)).collect();
        let name = match machine.name.as_str() {
            "" => machine.title.clone(),
            name => format!("{} ({name})", machine.title),
        };
        facts.extend([
            ("machine", name),
            ("CPUs", kinds.join(", ")),
            ("idle states", machine.idle_states.join(", ")),
            ("drive", machine.drive.clone()),
        ]);
    }
    let design = match document.design {
        Design::Paired if document.backend == RunOrigin::Sim => {
            "paired: runs of the same number have the same random numbers under every policy"
        }
        Design::Paired => "paired: policies take turns in blocks of time",
        Design::Unpaired => "unpaired",
    };
    let interval = format!("{} %, by the studentised bootstrap", document.level * 100.0);
    let margin = format!("up to {} %", document.margin_percent);
    let seeds: Vec<String> = document.seeds.iter().map(ToString::to_string).collect();
    facts.extend([
        ("baseline", document.baseline.clone()),
        ("comparison", design.to_owned()),
        ("intervals", interval),
        ("differences of no interest", margin),
        ("seeds", seeds.join(", ")),
    ]);
    let tools = document.tools.iter();
    facts.extend(tools.map(|(tool, version)| (tool.as_str(), version.clone())));
    facts.push(if document.backend == RunOrigin::Import {
        ("from", reader.dir().display().to_string())
    } else {
        let schema = format!("{} version {}", document.schema, document.version);
        ("schema", schema)
    });
    let known = facts
        .into_iter()
        .filter(|(name, value)| *name == "study" || !value.is_empty());
    known
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Copies of the study, its workloads and its machines, as far as the page has room: name and text.
fn read_copies_within_page_size(
    reader: &ResultReader,
) -> Result<Vec<(String, String)>, ResultsError> {
    let document = reader.document();
    let mut names = vec!["study.toml".to_owned()];
    for workload in document.workloads.iter().filter(|w| w.has_copied_source()) {
        if !names.contains(&workload.source) {
            names.push(workload.source.clone());
        }
    }
    names.extend(document.machines.iter().map(|m| m.source.clone()));
    let mut files = Vec::new();
    let mut shown = 0;
    for name in names {
        let Some(whole) = reader.read_file_if_present(&name)? else {
            continue;
        };
        let mut text = cut_text_to_longest_file(whole);
        if shown + text.len() > ALL_FILES {
            "[left out; the result directory has it]\n".clone_into(&mut text);
        }
        shown += text.len();
        files.push((name, text));
    }
    Ok(files)
}

fn cut_text_to_longest_file(mut text: String) -> String {
    if text.len() > LONGEST_FILE {
        let end = (0..=LONGEST_FILE)
            .rev()
            .find(|i| text.is_char_boundary(*i))
            .unwrap_or(0);
        text.truncate(end);
        text.push_str("\n[cut; the result directory has all of it]\n");
    }
    text
}

/// Commands that make the results and the page again, each in a new place. Imported results are taken as they are.
fn commands_that_repeat_results(results: &[ResultReader]) -> Vec<String> {
    let repeatable = results.iter().filter(|r| backend_option(r).is_some());
    let several = repeatable.count() > 1;
    let (mut commands, mut made) = (Vec::new(), Vec::new());
    for reader in results {
        let document = reader.document();
        let shown = reader.dir().display().to_string();
        let Some(option) = backend_option(reader) else {
            made.push(quote_argument(&shown));
            continue;
        };
        let again = if several {
            format!("again-{}", made.len() + 1)
        } else {
            "again".to_owned()
        };
        let version = document.tools.get("wakepath").map_or("", String::as_str);
        // A line break in a name would make the rest a command.
        let comment = format!("# {}, with wakepath {version}", document.study.name);
        commands.push(comment.replace(char::is_control, " "));
        commands.push(format!(
            "wakepath study run {}{option} -o {again}",
            quote_argument(&format!("{shown}/study.toml"))
        ));
        commands.push(format!(
            "wakepath compare {} {again}",
            quote_argument(&shown)
        ));
        made.push(again);
    }
    if !commands.is_empty() {
        commands.push(format!("wakepath report {} -o again.html", made.join(" ")));
    }
    commands
}

/// The option that runs a study with this backend again; none for results that no study makes.
fn backend_option(reader: &ResultReader) -> Option<&'static str> {
    match reader.document().backend {
        RunOrigin::Sim => Some(""),
        RunOrigin::Live => Some(" --on live"),
        RunOrigin::Replay => Some(" --on replay"),
        RunOrigin::Lab | RunOrigin::Import | RunOrigin::Traced => None,
    }
}

/// Quotes an argument for a shell, unless it has only harmless characters.
fn quote_argument(text: &str) -> String {
    let is_special = |c: char| !c.is_ascii_alphanumeric() && !"/._-+=@".contains(c);
    if !text.is_empty() && !text.contains(is_special) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
