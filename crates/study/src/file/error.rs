//! Why a study cannot be run.

use std::path::PathBuf;

use wakepath_hardware::machine::MachineError;
use wakepath_results::{ResultsError, RunKey};
use wakepath_sim::SimError;
use wakepath_units::spelling::suggestion_with_known_names;

/// Why a study cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A value in the study file is wrong.
    #[error("{origin}:{line}: {message}")]
    File {
        /// File name.
        origin: String,
        /// Line, counted from 1.
        line: usize,
        /// Fault and remedy.
        message: String,
    },
    /// A file that the study names cannot be read.
    #[error("{}", path.display())]
    Read {
        /// Path that failed.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A simulation.
    #[error("{workload} under {policy}")]
    Simulation {
        /// The workload.
        workload: String,
        /// The policy.
        policy: String,
        /// Why.
        source: Box<SimError>,
    },
    /// A measurement.
    #[error("{workload} under {policy}: {message}")]
    Measurement {
        /// The workload.
        workload: String,
        /// The policy.
        policy: String,
        /// Fault and remedy.
        message: String,
    },
    /// The measured machine's settings cannot be changed or put back.
    #[error("{0}")]
    Settings(String),
    /// The results.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// A run is missing that other processes should have made.
    #[error("{0}: this run is not there")]
    Missing(RunKey),
    /// The study was cancelled before its end.
    #[error("--resume goes on where it stopped")]
    Interrupted,
}

/// A message about an unknown name, with the nearest known name.
pub(crate) fn unknown_name_message(what: &str, wrong: &str, known: &[&str]) -> String {
    format!(
        "no {what} is called `{wrong}`{}",
        suggestion_with_known_names(wrong, known)
    )
}

#[cfg(test)]
mod tests {
    use super::super::{StudyFile, StudyText};

    fn error(text: &str) -> String {
        let source = StudyText {
            origin: "s.toml",
            text: Some(text),
        };
        StudyFile::parse(source).unwrap_err().to_string()
    }

    #[test]
    fn every_mistake_has_its_line_and_a_way_out() {
        let base = "name = 'x'\n[[workload]]\nname = 'w'\nfio_job = ''\n[[policy]]\nset = 'menu'\n";
        for (from, to, line, parts) in [
            (
                "name = 'x'",
                "naem = 'x'",
                1,
                &["unknown key `naem`", "did you mean `name`"][..],
            ),
            (
                "fio_job = ''",
                "foi = 'x'",
                4,
                &["unknown key `foi`", "`fio`"],
            ),
            (
                "set = 'menu'",
                "sett = 'menu'",
                6,
                &["unknown key `sett`", "`set`"],
            ),
            ("fio_job = ''", "", 3, &["needs one of `fio`"]),
            ("fio_job = ''", "command = []", 4, &["no words"]),
            (
                "fio_job = ''",
                "command = ['x']\nseconds = 1",
                5,
                &["ends when it ends"],
            ),
            (
                "fio_job = ''",
                "rt_app = 'x'\nfio_options = { bs = 1 }",
                3,
                &["fio_options"],
            ),
            ("fio_job = ''", "fio_job = ''\ncopies = 2", 5, &["rt-app"]),
            ("name = 'w'", "name = \"a\\nb\"", 3, &["no line breaks"]),
            ("name = 'x'", "name = 'a/b'", 1, &["no `/`", "directory"]),
            ("set = 'menu'", "name = ''", 6, &["1 to 100 bytes"]),
            (
                "name = 'x'",
                "name = 'x'\nrepeats = 0",
                2,
                &["`repeats` may be 1"],
            ),
            (
                "name = 'x'",
                "name = 'x'\nlevel = nan",
                2,
                &["`level` is NaN"],
            ),
            (
                "name = 'x'",
                "name = 'x'\nrepeats = 'many'",
                2,
                &["`repeats`", "the text \"many\" instead of a whole number"],
            ),
            (
                "name = 'x'",
                "name = 'x'\npolicy = 'menu'",
                6,
                &["given twice"],
            ),
            ("name = 'x'", "name = ", 1, &[]),
        ] {
            let message = error(&base.replacen(from, to, 1));
            assert!(
                message.starts_with(&format!("s.toml:{line}: ")),
                "{message}"
            );
            for part in parts {
                assert!(message.contains(part), "{part}: {message}");
            }
        }
        let twice = format!("{base}[[workload]]\nname = 'w'\nfio_job = ''\n");
        assert!(error(&twice).contains("a second workload is called `w`"));
    }
}
