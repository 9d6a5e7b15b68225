//! A governor of one's own: C code of a kernel, or a program that answers a call log line by line.
//!
//! Users' own governors run outside of this process. This module has their names and the interface; another crate
//! compiles and runs them ([`GovernorStarter`]).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use wakepath_hardware::IdleStates;
use wakepath_units::{Nanoseconds, TickRate};

use super::table::StateTable;
use super::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery};
use crate::spec::SpecError;

/// How a user's own governor is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramForm {
    /// `c:FILE`: C code of a kernel's governor.
    C,
    /// `exec:FILE`: a program that answers a call log.
    Exec,
}

impl ProgramForm {
    /// Policy name that stands for the form, `c` or `exec`.
    pub const fn policy_name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Exec => "exec",
        }
    }

    /// Finds the form by its policy name, `c` or `exec`.
    pub fn by_policy_name(name: &str) -> Option<Self> {
        [Self::C, Self::Exec]
            .into_iter()
            .find(|f| f.policy_name() == name)
    }

    /// Splits a policy's text into its form and the text after the colon; `None` without such a
    /// prefix.
    pub fn split_prefix(text: &str) -> Option<(Self, &str)> {
        let (name, rest) = text.split_once(':')?;
        Some((Self::by_policy_name(name)?, rest))
    }

    /// First letters of a policy's text with the colon, `c:` or `exec:`.
    pub const fn policy_prefix(self) -> &'static str {
        match self {
            Self::C => "c:",
            Self::Exec => "exec:",
        }
    }

    /// Policy name with a placeholder for the path, `c:FILE` or `exec:FILE`.
    pub const fn policy_label(self) -> &'static str {
        match self {
            Self::C => "c:FILE",
            Self::Exec => "exec:FILE",
        }
    }

    /// Example of a policy in this form.
    pub const fn example_policy(self) -> &'static str {
        match self {
            Self::C => "c:teo.c",
            Self::Exec => "exec:my-governor",
        }
    }
}

/// Starts a governor that runs outside of this process.
pub trait GovernorStarter: fmt::Debug + Send + Sync {
    /// Checks a user's own governor before any start; returns warnings for its author.
    ///
    /// # Errors
    /// The governor cannot be started; the message says why and what to do.
    fn check_governor(&self) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// File name and text of the governor's copy that is kept with results; `None` if no copy is
    /// kept.
    fn copy_for_results(&self) -> Option<(String, &str)> {
        None
    }

    /// Starts the user's own governor for a CPU that was never idle.
    ///
    /// # Errors
    /// The governor cannot be started; the message says why and what to do.
    fn start_governor(
        &self,
        states: &IdleStates,
        tick: TickRate,
    ) -> Result<Box<dyn RunningGovernor>, String>;
}

/// A running governor outside of this process, for a single CPU. Dropping the value ends the
/// governor.
pub trait RunningGovernor: fmt::Debug + Send {
    /// Reports the last idle period to the user's own governor, if there was one, and queries a
    /// state. `utilisation`: recent CPU utilisation, up to 1024; 0 before the first idle period.
    ///
    /// # Errors
    /// The governor gives no answer, or a meaningless one; the message says why and what to do.
    fn report_and_query(
        &mut self,
        last: Option<(usize, &IdleOutcome)>,
        query: &IdleQuery,
        utilisation: u16,
    ) -> Result<ProgramAnswer, String>;

    /// Reports to the user's own governor that an idle state was switched off or on.
    ///
    /// # Errors
    ///
    /// The governor cannot be informed.
    fn set_disabled(&mut self, state: usize, disabled: bool) -> Result<(), String>;
}

/// Answer by a user's own governor to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramAnswer {
    /// The decision.
    pub decision: IdleDecision,
    /// Polling limit that the user's own governor asks for, if any.
    pub poll_limit: Option<Nanoseconds>,
}

/// A user's own governor: `c:teo.c@1f2e3d4c`. Two of equal text are equal.
#[derive(Clone, Debug)]
pub struct Program {
    form: ProgramForm,
    path: Arc<str>,
    hash: Option<Arc<str>>,
    starter: Option<Arc<dyn GovernorStarter>>,
    warnings: Option<Arc<str>>,
    /// First failure of the governor on any CPU, after which no CPU queries the governor.
    failed: Arc<OnceLock<String>>,
}

impl Program {
    /// Parses the text after `c:` or `exec:`: the path of a governor's file, and the file's hash if
    /// known.
    pub(crate) fn parse(form: ProgramForm, text: &str) -> Result<Self, SpecError> {
        let error = |problem: &str| SpecError::Program {
            text: format!("{}:{text}", form.policy_name()),
            problem: problem.to_owned(),
        };
        let (path, hash) = match text.rsplit_once('@') {
            Some((path, hash)) => {
                let digits = hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
                if !digits || !(4..=64).contains(&hash.len()) {
                    return Err(error(
                        "after the `@` comes the hash of the file as results have it, such as @1f2e3d4c",
                    ));
                }
                (path, Some(hash.into()))
            }
            None => (text, None),
        };
        if path.is_empty() {
            let example = form.example_policy();
            return Err(error(&format!("a file has to follow, as in {example}")));
        }
        if path.contains(['[', ']', ',', '@']) || path.contains(char::is_control) {
            return Err(error(
                "a file with one of [ ] , @ in its path cannot be named in a policy set; rename it. A \
                 governor of one's own has no settings",
            ));
        }
        Ok(Self {
            form,
            path: path.trim_start_matches("./").into(),
            hash,
            starter: None,
            warnings: None,
            failed: Arc::default(),
        })
    }

    /// Form of the user's own governor: C code or a program.
    pub fn form(&self) -> ProgramForm {
        self.form
    }

    /// Path of the governor's file, as given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Expected start of the hash of the governor's file, if given.
    pub fn hash(&self) -> Option<&str> {
        self.hash.as_deref()
    }

    /// The same governor file by another path.
    #[must_use]
    pub fn with_path(&self, path: &str) -> Self {
        Self {
            path: path.into(),
            ..self.clone()
        }
    }

    /// A copy that can be started, with the file's hash and warnings for its author.
    #[must_use]
    pub fn with_starter(
        &self,
        hash: &str,
        starter: Arc<dyn GovernorStarter>,
        warnings: Option<&str>,
    ) -> Self {
        Self {
            hash: Some(hash.into()),
            starter: Some(starter),
            warnings: warnings.map(Into::into),
            failed: Arc::default(),
            ..self.clone()
        }
    }

    /// Warnings for the governor's author, such as a compiler's.
    pub fn warnings(&self) -> Option<&str> {
        self.warnings.as_deref()
    }

    /// File name and text of the governor's copy that is kept with results.
    pub fn copy_for_results(&self) -> Option<(String, &str)> {
        self.starter.as_ref()?.copy_for_results()
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        (self.form, &self.path, &self.hash) == (other.form, &other.path, &other.hash)
    }
}

impl Eq for Program {}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.form, &self.path, &self.hash).hash(state);
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.form.policy_name(), self.path)?;
        match &self.hash {
            Some(hash) => write!(f, "@{hash}"),
            None => Ok(()),
        }
    }
}

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A user's own governor on a CPU.
///
/// After a failure on any CPU, every CPU takes state 0 without a query: each could take as long to fail. Callers
/// check [`ProgramGovernor::failure_reason`].
#[derive(Debug)]
pub struct ProgramGovernor {
    pub(in crate::idle) table: StateTable,
    program: Program,
    states: IdleStates,
    tick: TickRate,
    running: Option<Box<dyn RunningGovernor>>,
    /// Idle state and outcome of the last idle period, reported with the next query.
    last: Option<(usize, IdleOutcome)>,
    utilisation: u16,
    poll_limit: Option<Nanoseconds>,
    failure: Option<String>,
}

impl ProgramGovernor {
    /// The user's own governor for a CPU that was never idle; its process starts at the first
    /// query.
    pub fn new(program: &Program, states: &IdleStates, tick: TickRate) -> Self {
        Self {
            table: StateTable::new(states),
            program: program.clone(),
            states: states.clone(),
            tick,
            running: None,
            last: None,
            utilisation: 0,
            poll_limit: None,
            failure: None,
        }
    }

    /// Why the user's own governor stopped answering; `None` while it answers.
    pub fn failure_reason(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub(super) fn set_disabled(&mut self, state: usize, disabled: bool) {
        self.table.set_disabled(state, disabled);
        if let Some(running) = &mut self.running
            && let Err(why) = running.set_disabled(state, disabled)
        {
            self.stop_after_failure(&why);
        }
    }

    fn query_running_governor(&mut self, query: &IdleQuery) -> Result<IdleDecision, String> {
        if self.running.is_none() {
            let starter = self.program.starter.as_ref().ok_or(
                "it was not loaded: a governor of one's own runs where it is named, in sim, replay, study and policy idle",
            )?;
            self.running = Some(starter.start_governor(&self.states, self.tick)?);
        }
        let running = self.running.as_mut().ok_or("it does not run")?;
        let period = self.last.take();
        let last = period.as_ref().map(|(state, outcome)| (*state, outcome));
        let answer = running.report_and_query(last, query, self.utilisation)?;
        self.poll_limit = answer.poll_limit;
        let count = self.table.state_count();
        if answer.decision.state < count {
            Ok(answer.decision)
        } else {
            Err(format!(
                "it chose idle state {} and the CPU has {count}, counted from 0",
                answer.decision.state
            ))
        }
    }

    #[cold]
    fn stop_after_failure(&mut self, why: &str) {
        self.running = None;
        // Of failures on several CPUs at once, the first is reported everywhere.
        let failed = &self.program.failed;
        let first = failed.get_or_init(|| format!("`{}`: {why}", self.program));
        self.failure = Some(first.clone());
    }
}

impl IdleGovernor for ProgramGovernor {
    const WANTS_UTILISATION: bool = true;

    fn set_utilisation(&mut self, share: u16) {
        self.utilisation = share;
    }

    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let none = IdleDecision {
            state: 0,
            stop_tick: false,
        };
        if self.failure.is_some() {
            return none;
        }
        if let Some(why) = self.program.failed.get() {
            self.running = None;
            self.failure = Some(why.clone());
            return none;
        }
        self.query_running_governor(query).unwrap_or_else(|why| {
            self.stop_after_failure(&why);
            none
        })
    }

    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        self.last = Some((entered, *outcome));
    }

    fn poll_limit(&self) -> Option<Nanoseconds> {
        self.poll_limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::make_states;
    use crate::idle::{Governor, IdlePolicy};
    use crate::{PolicySet, PolicySpec};

    fn parsed(text: &str) -> Result<PolicySpec, String> {
        text.parse().map_err(|e: SpecError| e.to_string())
    }

    #[test]
    fn a_file_is_part_of_the_name() {
        for (text, printed) in [
            ("c:teo.c", "c:teo.c"),
            (" c:./teo.c ", "c:teo.c"),
            ("c:/a b/c++/teo.c@1f2e3d4c", "c:/a b/c++/teo.c@1f2e3d4c"),
            ("exec:../my-governor", "exec:../my-governor"),
        ] {
            let spec = parsed(text).unwrap();
            assert_eq!(spec.to_string(), printed);
            assert_eq!(parsed(printed).unwrap(), spec);
        }
        let set: PolicySet = "c:6.12+deb/teo.c+psd.c + psd+schedutil".parse().unwrap();
        assert_eq!(set.to_string(), "c:6.12+deb/teo.c+psd.c + psd + schedutil");
        assert_eq!(set.policies().len(), 3);
        assert_eq!(
            set.with_kernel_for_bare_names(crate::idle::KernelVersion::V6_1)
                .to_string(),
            "c:6.12+deb/teo.c+psd.c + psd + schedutil"
        );
    }

    #[test]
    fn what_is_no_file_is_an_error() {
        for (text, says) in [
            ("c", "`c`: a file has to follow, as in c:teo.c"),
            ("exec:", "a file has to follow, as in exec:my-governor"),
            ("c:teo.c[x=1]", "has no settings"),
            ("c:teo.c@6.12", "the hash of the file"),
            ("c:@1234", "a file has to follow"),
            ("c@6.12", "has no versions"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let error = "c:a.c + menu".parse::<PolicySet>().unwrap_err().to_string();
        assert!(error.contains("are both idle policies"), "{error}");
    }

    #[derive(Debug)]
    struct Counting(usize);

    impl GovernorStarter for Counting {
        fn start_governor(
            &self,
            _: &IdleStates,
            _: TickRate,
        ) -> Result<Box<dyn RunningGovernor>, String> {
            Ok(Box::new(Self(0)))
        }
    }

    impl RunningGovernor for Counting {
        fn report_and_query(
            &mut self,
            last: Option<(usize, &IdleOutcome)>,
            _: &IdleQuery,
            _: u16,
        ) -> Result<ProgramAnswer, String> {
            assert_eq!(last.is_some(), self.0 > 0);
            self.0 += 1;
            let decision = IdleDecision {
                state: self.0 - 1,
                stop_tick: true,
            };
            Ok(ProgramAnswer {
                decision,
                poll_limit: None,
            })
        }

        fn set_disabled(&mut self, _: usize, _: bool) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_that_is_no_state_ends_it() {
        let program = Program::parse(ProgramForm::C, "x.c").unwrap();
        let program = program.with_starter("0123", Arc::new(Counting(0)), None);
        let list = make_states(&[(0, 0), (2_000, 20_000)], false);
        let policy = IdlePolicy::Program(program);
        let mut governor = Governor::new(&policy, &list, TickRate::HZ_250);
        let mut next = || {
            let decision = governor.select(&IdleQuery::default());
            governor.reflect(decision.state, &IdleOutcome::default());
            (decision.state, governor.failure_reason().map(str::to_owned))
        };
        assert_eq!([next(), next()], [(0, None), (1, None)]);
        let why = "`c:x.c@0123`: it chose idle state 2 and the CPU has 2, counted from 0";
        assert_eq!(
            [next(), next()],
            [(0, Some(why.to_owned())), (0, Some(why.to_owned()))]
        );
    }

    /// Records the reported CPU utilisation, and fails on request.
    #[derive(Clone, Debug, Default)]
    struct UtilisationRecorder {
        all: Arc<std::sync::Mutex<Vec<u16>>>,
        fails: bool,
    }

    impl GovernorStarter for UtilisationRecorder {
        fn start_governor(
            &self,
            _: &IdleStates,
            _: TickRate,
        ) -> Result<Box<dyn RunningGovernor>, String> {
            Ok(Box::new(self.clone()))
        }
    }

    impl RunningGovernor for UtilisationRecorder {
        fn report_and_query(
            &mut self,
            _: Option<(usize, &IdleOutcome)>,
            _: &IdleQuery,
            utilisation: u16,
        ) -> Result<ProgramAnswer, String> {
            self.all.lock().unwrap().push(utilisation);
            let decision = IdleDecision {
                state: 0,
                stop_tick: false,
            };
            let answer = ProgramAnswer {
                decision,
                poll_limit: None,
            };
            (!self.fails).then_some(answer).ok_or("silent".to_owned())
        }

        fn set_disabled(&mut self, _: usize, _: bool) -> Result<(), String> {
            Ok(())
        }
    }

    fn loaded(told: &UtilisationRecorder) -> IdlePolicy {
        let program = Program::parse(ProgramForm::Exec, "x").unwrap();
        IdlePolicy::Program(program.with_starter("0123", Arc::new(told.clone()), None))
    }

    #[test]
    fn a_call_log_says_how_busy_the_cpu_was() {
        const MS: u64 = 1_000_000;
        let told = UtilisationRecorder::default();
        let list = make_states(&[(0, 0), (2_000, 20_000)], false);
        let mut governor = Governor::new(&loaded(&told), &list, TickRate::HZ_250);
        // Idle for 1 ms, busy for 200 ms, refused at once, idle for 33.5 ms.
        let log = [
            (100 * MS, 101 * MS, MS),
            (301 * MS, 0, 0),
            (301 * MS, 301 * MS + (32 << 20), 32 << 20),
            (301 * MS + (32 << 20), 400 * MS, MS),
        ]
        .map(|(clock, ended, residency)| {
            let query = IdleQuery {
                clock,
                ..IdleQuery::default()
            };
            let outcome = IdleOutcome {
                clock: ended,
                residency,
                ..IdleOutcome::default()
            };
            (query, outcome)
        });
        governor.replay_log(log.iter().map(|(q, o)| (q, o)), |_| {});
        let all = told.all.lock().unwrap();
        let [first, busy, again, half] = all[..] else {
            panic!("{all:?}")
        };
        assert_eq!(first, 0);
        assert!(busy > 1000 && again == busy, "{all:?}");
        assert!(half.abs_diff(busy / 2) <= 1, "{all:?}");
    }

    #[test]
    fn one_that_fails_on_a_cpu_is_asked_on_no_other() {
        let told = UtilisationRecorder {
            fails: true,
            ..UtilisationRecorder::default()
        };
        let list = make_states(&[(0, 0), (2_000, 20_000)], false);
        let policy = loaded(&told);
        let mut cpus = [(); 3].map(|()| Governor::new(&policy, &list, TickRate::HZ_250));
        for governor in cpus.iter_mut().rev() {
            governor.select(&IdleQuery::default());
        }
        assert_eq!(told.all.lock().unwrap().len(), 1);
        for governor in &cpus {
            assert_eq!(governor.failure_reason(), Some("`exec:x@0123`: silent"));
        }
        // A newly loaded governor is queried again.
        let mut anew = Governor::new(&loaded(&told), &list, TickRate::HZ_250);
        anew.select(&IdleQuery::default());
        assert_eq!(told.all.lock().unwrap().len(), 2);
    }

    #[test]
    fn one_that_was_not_loaded_says_so() {
        let policy = parsed("c:x.c").unwrap().as_idle_policy().unwrap();
        let list = make_states(&[(0, 0), (2_000, 20_000)], false);
        let mut governor = Governor::new_or_only_state(&policy, &list, TickRate::HZ_250);
        assert_eq!(governor.failure_reason(), None);
        governor.select(&IdleQuery::default());
        assert!(governor.failure_reason().unwrap().contains("not loaded"));
    }
}
