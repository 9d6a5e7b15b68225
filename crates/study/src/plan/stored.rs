//! The study as kept in results: copies replace the files that the study names.
//!
//! A result directory alone is enough to run the study again, even after files and built-in models change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use toml::Spanned;
use wakepath_policies::PolicySet;
use wakepath_results::RunOrigin;

use super::planned::Plan;
use super::recording::PlannedRecording;
use super::replay;
use super::workload::{PlannedWorkload, Task};
use crate::file::{RecordingName, StudyError, StudyFile, StudyText, WorkloadEntry};

/// A change to a text: a byte range, and its replacement.
type Change = (Range<usize>, String);

/// A plan's study file: the text that was read, or a text written now, and its values.
struct Source<'a> {
    text: Cow<'a, str>,
    file: Cow<'a, StudyFile>,
}

impl<'a> Source<'a> {
    fn new(plan: &'a Plan) -> Result<Self, StudyError> {
        if let Some(text) = &plan.file_text {
            return Ok(Self {
                text: Cow::Borrowed(text),
                file: Cow::Borrowed(&plan.file),
            });
        }
        let text = replay::print_replay_plan_as_study(plan)?;
        let file = StudyFile::parse(StudyText {
            origin: &plan.origin,
            text: Some(&text),
        })?;
        Ok(Self {
            text: Cow::Owned(text),
            file: Cow::Owned(file),
        })
    }
}

impl Plan {
    /// The text of the study file, with the policy sets that came from outside the file.
    ///
    /// # Errors
    /// A study made without a file cannot be written as one.
    pub fn study_text_with_sets(&self) -> Result<String, StudyError> {
        print_study_with_sets(self)
    }

    /// Files to keep in a result directory, enough to run the study again: each a path and its content. `machines` has
    /// the machine files' content, `sha256` the recordings' hashes.
    ///
    /// # Errors
    /// As [`Self::study_text_with_sets`].
    pub fn list_result_files(
        &self,
        machines: Vec<Vec<u8>>,
        sha256: &BTreeMap<String, String>,
    ) -> Result<Vec<(String, Vec<u8>)>, StudyError> {
        let study = print_study_for_result_directory(self, sha256)?;
        let mut files = vec![("study.toml".to_owned(), study.into_bytes())];
        files.extend(self.machines.iter().map(|m| m.file.clone()).zip(machines));
        let copies = self
            .workloads
            .iter()
            .flat_map(PlannedWorkload::list_texts_to_copy_into_results);
        let programs = self
            .policies
            .iter()
            .filter_map(|p| p.set.own_governor()?.file_to_keep_with_results());
        for (name, text) in copies.chain(programs) {
            if !files.iter().any(|(there, _)| *there == name) {
                files.push((name, text.as_bytes().to_vec()));
            }
        }
        Ok(files)
    }
}

/// The text of a plan's study, with policy sets from outside the file.
///
/// # Errors
/// A study made without a file cannot be written as one.
fn print_study_with_sets(plan: &Plan) -> Result<String, StudyError> {
    let source = Source::new(plan)?;
    let added = change_that_adds_policy_sets(&source, &plan.more);
    Ok(apply_changes(&source.text, added.into_iter().collect()))
}

/// A change to a study's text that adds policy sets: to `also`, or as a line at the top. `None` without sets.
fn change_that_adds_policy_sets(source: &Source<'_>, sets: &[PolicySet]) -> Option<Change> {
    if sets.is_empty() {
        return None;
    }
    let there = source.file.also.as_ref();
    let named = there.into_iter().flat_map(Spanned::get_ref);
    let mut names: Vec<String> = named.map(|name| name.get_ref().clone()).collect();
    names.extend(sets.iter().map(PolicySet::text_as_written));
    let quoted: Vec<String> = names.into_iter().map(format_toml_string).collect();
    let list = format!("[{}]", quoted.join(", "));
    if let Some(place) = there.map(Spanned::span) {
        return Some((place, list));
    }
    Some((0..0, format!("also = {list} # --policy\n")))
}

/// Applies changes to a study's text, the last first, so that earlier positions stay valid.
fn apply_changes(text: &str, mut changes: Vec<Change>) -> String {
    let mut edited = text.to_owned();
    changes.sort_by_key(|(at, _)| at.start);
    for (at, new) in changes.into_iter().rev() {
        edited.replace_range(at, &new);
    }
    edited
}

/// The text of a study that can be run from its result directory, unchanged to the byte where possible. Recordings are
/// not copied, so their SHA-256 is pinned.
///
/// # Errors
/// As [`print_study_with_sets`].
fn print_study_for_result_directory(
    plan: &Plan,
    sha256: &BTreeMap<String, String>,
) -> Result<String, StudyError> {
    let source = Source::new(plan)?;
    let (text, file) = (&*source.text, &*source.file);
    let mut copies = CopyChanges {
        changes: change_that_adds_policy_sets(&source, &plan.more)
            .into_iter()
            .collect(),
        said: String::new(),
    };
    // A measured machine has no model; the copy `machine.toml` holds whatever could be read.
    let has_model = plan.target != RunOrigin::Live;
    let files: Vec<String> = plan.machines.iter().map(|m| m.file.clone()).collect();
    if let Some(machine) = file.machine.as_ref().filter(|_| has_model) {
        let named = machine.get_ref().listed_names();
        copies.replace_names_by_copies("machine", machine.span(), &named, &files);
    }
    for (number, entry) in file.workload.iter().enumerate() {
        // All workloads from one entry share a file.
        if let Some(workload) = plan.workloads.iter().find(|w| w.entry == number) {
            copies.replace_workload_paths_by_copies(entry, workload);
        }
    }
    for workload in &plan.workloads {
        let value = &file.workload[workload.entry].recording;
        if let (Some(value), Task::Recording(recording)) = (value, &workload.task) {
            copies.pin_recording(value, recording, sha256);
        }
    }
    if let Some(drive) = file.drive.as_ref().filter(|_| has_model) {
        copies.add_remark("drive", &drive.get_ref().listed_names(), &files);
        copies
            .changes
            .push(change_that_removes_lines_of_value(text, drive.span()));
    }
    let mut stored = apply_changes(text, copies.changes);
    if !copies.said.is_empty() {
        let header = "# wakepath has put copies beside this study of what it names:\n";
        stored.insert_str(0, &format!("{header}{}", copies.said));
    }
    Ok(stored)
}

/// Changes that make a study's text name copies, and remarks about them.
struct CopyChanges {
    changes: Vec<Change>,
    said: String,
}

impl CopyChanges {
    fn add_remark(&mut self, key: &str, named: &[String], copies: &[String]) {
        _ = writeln!(
            self.said,
            "#   {key} = {}: {}",
            format_toml_names(named),
            copies.join(", ")
        );
    }

    /// Replaces the names of files by the names of their copies, unless equal, with a remark.
    fn replace_names_by_copies(
        &mut self,
        key: &str,
        at: Range<usize>,
        named: &[String],
        copies: &[String],
    ) {
        if named != copies {
            self.changes.push((at, format_toml_names(copies)));
            self.add_remark(key, named, copies);
        }
    }

    fn replace_workload_paths_by_copies(
        &mut self,
        entry: &WorkloadEntry,
        workload: &PlannedWorkload,
    ) {
        if let (Some(value), Task::Recording(recording)) = (&entry.states, &workload.task)
            && let Some((path, _)) = &recording.states
        {
            let (named, path) = (value.get_ref().clone(), path.display().to_string());
            self.replace_names_by_copies("states", value.span(), &[named], &[path]);
        }
        if let (Some(value), Some(path)) = (&entry.trace, workload.trace_path()) {
            let (named, path) = (value.get_ref().clone(), path.display().to_string());
            self.replace_names_by_copies("trace", value.span(), &[named], &[path]);
        }
        for (key, value) in [
            ("fio", &entry.fio),
            ("rt_app", &entry.rt_app),
            ("server", &entry.server),
            ("tasks", &entry.tasks),
        ] {
            if let (Some(value), Some(copy)) = (value, workload.copy_path_of_named_file()) {
                self.replace_names_by_copies(
                    key,
                    value.span(),
                    &[value.get_ref().clone()],
                    &[copy],
                );
            }
        }
    }

    /// Replaces a recording's name by its whole path and SHA-256, with a remark.
    fn pin_recording(
        &mut self,
        value: &Spanned<RecordingName>,
        recording: &PlannedRecording,
        sha256: &BTreeMap<String, String>,
    ) {
        let path = recording.path.display().to_string();
        let named = value.get_ref();
        let content = sha256.get(&path).or(named.sha256.as_ref());
        if named.path != path || named.sha256.as_ref() != content {
            self.changes
                .push((value.span(), format_recording(&path, content)));
            self.add_remark("recording", std::slice::from_ref(&named.path), &[path]);
        }
    }
}

/// A recording's path and SHA-256 in a study's syntax.
fn format_recording(path: &str, sha256: Option<&String>) -> String {
    let path = format_toml_names(&[path.to_owned()]);
    match sha256 {
        Some(sha256) => format!("{{ path = {path}, sha256 = \"{sha256}\" }}"),
        None => path,
    }
}

/// A list of names in TOML syntax; a single name stands without brackets.
fn format_toml_names(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().cloned().map(format_toml_string).collect();
    match &quoted[..] {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// A text as a quoted TOML string.
fn format_toml_string(text: String) -> String {
    toml::Value::String(text).to_string()
}

/// A change that removes the lines of a key, given its value's range, from the file's first table.
fn change_that_removes_lines_of_value(text: &str, value: Range<usize>) -> Change {
    let start = text[..value.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[value.end..]
        .find('\n')
        .map_or(text.len(), |at| value.end + at + 1);
    (start..end, String::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use crate::plan::PlannedMachine;
    use std::fs;
    use std::path::Path;

    /// Content for this study's result directory.
    fn files(plan: &Plan) -> Vec<(String, Vec<u8>)> {
        let machines = plan
            .machines
            .iter()
            .map(|m: &PlannedMachine| m.model.as_ref().map(|model| model.to_toml().unwrap()));
        plan.list_result_files(
            machines
                .map(|m| m.unwrap_or_default().into_bytes())
                .collect(),
            &BTreeMap::new(),
        )
        .unwrap()
    }

    /// Stores a study and plans it again from the copy alone: everything has to be equal.
    fn survives(plan: &Plan, target: RunOrigin) -> String {
        let temp = tempfile::tempdir().unwrap();
        let first = files(plan);
        for (name, content) in &first {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let again = Plan::load(&temp.path().join("study.toml"), target).unwrap();
        let second = files(&again);
        assert_eq!(first.len(), second.len());
        for ((name, content), (stored, new)) in first.iter().zip(&second) {
            assert_eq!(name, stored);
            let [content, new] = [content, new].map(|c| String::from_utf8_lossy(c));
            assert_eq!(content, new, "{name} of {}", plan.origin);
        }
        String::from_utf8(first[0].1.clone()).unwrap()
    }

    #[test]
    fn built_in_studies_run_from_their_results() {
        for name in builtin::study_names() {
            let plan = Plan::load(Path::new(name), RunOrigin::Sim).unwrap();
            let text = survives(&plan, RunOrigin::Sim);
            let copies = ["machine = \"machine.toml\"", "machine = [\"machines/"];
            assert!(copies.iter().any(|copy| text.contains(copy)), "{text}");
        }
    }

    #[test]
    fn sets_beside_the_file_are_in_the_text_that_is_kept() {
        let temp = tempfile::tempdir().unwrap();
        let rest = "name = 'x'\nmachine = 'rk3399'\n[[workload]]\nname = 'a'\nfio_job = \"[a]\\ndirect=1\\nsize=1m\"\n";
        let more: [PolicySet; 2] = ["teo + psd".parse().unwrap(), PolicySet::default()];
        let beside = "also = [\"teo + psd\", \"unchanged\"] # --policy\n";
        for (policy, kept) in [
            (
                "policy = ['menu']\n",
                format!("{beside}policy = ['menu']\n{rest}"),
            ),
            (
                "policy = ['menu']\nalso = [ 'ladder' ] # x\n",
                format!(
                    "policy = ['menu']\nalso = [\"ladder\", \"teo + psd\", \"unchanged\"] # x\n{rest}"
                ),
            ),
            ("\u{feff}", format!("{beside}{rest}")),
        ] {
            let path = temp.path().join("study.toml");
            fs::write(&path, format!("{policy}{rest}")).unwrap();
            let plan = Plan::load_with_sets(&path, RunOrigin::Sim, &more, false).unwrap();
            assert_eq!(plan.study_text_with_sets().unwrap(), kept);
            let again = Plan::from_text(&kept, "x", temp.path(), RunOrigin::Sim).unwrap();
            let [names, expected] = [&again, &plan].map(|plan| {
                let names = plan.policies.iter().map(|policy| policy.name.clone());
                names.collect::<Vec<String>>()
            });
            assert_eq!(names, expected);
            survives(&plan, RunOrigin::Sim);
        }
        // A file has to have a policy.
        let none = Plan::from_text(rest, "s.toml", temp.path(), RunOrigin::Sim);
        let message = none.unwrap_err().to_string();
        assert!(
            message.starts_with("s.toml:1: no `policy`")
                && message.contains("policy = [\"menu\", \"teo\"]"),
            "{message}"
        );
    }

    #[test]
    fn only_names_change_however_they_are_written() {
        let temp = tempfile::tempdir().unwrap();
        let job = "[a]\ndirect=1\nrw=randread\nbs=8k\nruntime=1\ntime_based";
        fs::write(temp.path().join("a \"job\".fio"), job).unwrap();
        let study = "\u{feff}# A study.\r\nname = 'x' # short\r\nmachine = \"\"\"rk3399\"\"\"\r\n\
                     \"drive\" = '''\r\nsn530''' # not its own\r\nrepeats = 4\r\n\
                     workload = [{ name = 'ü\"\\', fio = 'a \"job\".fio', fio_options = { bs = '4k' } }, \
                     { name = 'b', rt_app = 'ping-pong.json', seconds = 2, copies = 2 }, \
                     { name = 'c', fio_job = '''[c]\ndirect=1\nruntime=1\ntime_based''', seconds = 3 }]\r\n\
                     policy = [{ name = 'p' }]";
        let plan = Plan::from_text(study, "x", temp.path(), RunOrigin::Sim).unwrap();
        let text = survives(&plan, RunOrigin::Sim);
        for kept in [
            "name = 'x' # short\r\n",
            "repeats = 4\r\nworkload = [{",
            "policy = [{ name = 'p' }]",
        ] {
            assert!(text.contains(kept), "{kept} is not in {text}");
        }
        assert!(!text.contains("not its own"), "{text}");
        for said in [
            "drive = \"sn530\": machine.toml",
            "rt_app = \"ping-pong.json\": workloads/b.json",
        ] {
            assert!(text.contains(said), "{said} is not in {text}");
        }
        // The copy has the options already.
        let copy = &files(&plan)[2];
        assert!(copy.1.starts_with(b"[global]\nbs=4k\n[a]\n"), "{copy:?}");
        // A measurement runs the same files, and has no model.
        let study = study.replace(
            ", { name = 'b', rt_app = 'ping-pong.json', seconds = 2, copies = 2 }",
            "",
        );
        let plan = Plan::from_text(&study, "x", temp.path(), RunOrigin::Live).unwrap();
        let text = survives(&plan, RunOrigin::Live);
        assert!(
            text.contains("rk3399") && text.contains("not its own"),
            "{text}"
        );
    }
}
