//! Finding and reading machine descriptions.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::Machine;
use crate::drive::library::LookupError;

/// The machines that come with wakepath: name and file text.
const BUILTIN: [(&str, &str); 2] = [
    ("rk3399", include_str!("../../data/machines/rk3399.toml")),
    ("laptop", include_str!("../../data/machines/laptop.toml")),
];

/// Largest machine file that is read; real ones have a few kilobytes.
const MAX_FILE: u64 = 1 << 20;

/// Names of the built-in machines.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}

/// Why a machine could not be had.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No built-in machine of that name.
    #[error(
        "unknown machine '{name}'; did you mean '{nearest}'? A machine is one of: {known}; or the path of a .toml file"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The most similar name.
        nearest: String,
        /// All names.
        known: String,
    },
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a machine description.
    #[error("{origin}:{line}: {message}")]
    Parse {
        /// File or built-in name.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// No drive of that name.
    #[error(transparent)]
    Drive(#[from] LookupError),
    /// A value cannot be.
    #[error("{origin}: {key}: {message}")]
    Invalid {
        /// File or built-in name.
        origin: String,
        /// Key of the value.
        key: String,
        /// What is wrong and what is expected.
        message: String,
    },
}

impl Machine {
    /// A built-in machine by its name, or a file if the name ends in `.toml` or holds a slash.
    pub fn find(name: &str) -> Result<Self, MachineError> {
        if name.contains('/') || Path::new(name).extension().is_some_and(|e| e == "toml") {
            return Self::load(Path::new(name));
        }
        if let Some((_, text)) = BUILTIN.iter().find(|(known, _)| *known == name) {
            return Self::parse(text, name);
        }
        let similarity = |a: &str| strsim::jaro_winkler(a, name);
        let nearest = builtin_names()
            .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
            .unwrap_or_default();
        Err(MachineError::Unknown {
            name: name.to_owned(),
            nearest: nearest.to_owned(),
            known: builtin_names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Reads a machine file.
    pub fn load(path: &Path) -> Result<Self, MachineError> {
        let text = read(path)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses and checks a machine description; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Self, MachineError> {
        let machine: Self = toml::from_str(text).map_err(|e| parse_error(text, origin, &e))?;
        super::validate::check(&machine).map_err(|(key, message)| MachineError::Invalid {
            origin: origin.to_owned(),
            key,
            message,
        })?;
        Ok(machine)
    }
}

/// Reads a description file.
pub(super) fn read(path: &Path) -> Result<String, MachineError> {
    let read_error = |source| MachineError::Read {
        path: path.to_owned(),
        source,
    };
    let size = fs::metadata(path).map_err(read_error)?.len();
    if size > MAX_FILE {
        return Err(read_error(io::Error::other(format!(
            "{size} bytes; a description file has at most {MAX_FILE}"
        ))));
    }
    fs::read_to_string(path).map_err(read_error)
}

/// What the TOML parser found, with the line.
pub(super) fn parse_error(text: &str, origin: &str, e: &toml::de::Error) -> MachineError {
    let at = e.span().map_or(0, |s| s.start.min(text.len()));
    MachineError::Parse {
        origin: origin.to_owned(),
        line: text[..at].matches('\n').count() + 1,
        message: e.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_machine_loads_and_is_named_after_its_file() {
        for name in builtin_names() {
            assert_eq!(Machine::find(name).unwrap().name, name);
        }
    }

    #[test]
    fn rk3399_is_fitted_with_at_most_three_numbers() {
        let machine = Machine::find("rk3399").unwrap();
        let fitted = machine
            .figures()
            .into_iter()
            .filter(|(_, f)| f.fitted_to().is_some());
        assert!((1..=3).contains(&fitted.count()));
    }

    #[test]
    fn an_unknown_machine_suggests_the_nearest() {
        let message = Machine::find("rk3388").unwrap_err().to_string();
        assert!(message.contains("did you mean 'rk3399'"), "{message}");
    }

    #[test]
    fn impossible_values_name_their_key() {
        let text = BUILTIN[0].1;
        for (from, to, key) in [
            ("true_exit_us = 1\n", "true_exit_us = -1\n", "true_exit_us"),
            ("true_exit_us = 1\n", "true_exit_us = nan\n", "true_exit_us"),
            ("cpus = 4", "cpus = 0", "cluster.little.cpus"),
            (
                "khz = 600000, uv = 825000 },\n  { khz = 816000, uv = 850000",
                "khz = 900000, uv = 825000 },\n  { khz = 816000, uv = 850000",
                "opps",
            ),
            (
                "completion = { cpu = 0",
                "completion = { cpu = 6",
                "io_path.completion.cpu",
            ),
            (
                "home = { cluster = \"big\"",
                "home = { cluster = \"huge\"",
                "scheduler.home.cluster",
            ),
            ("resume_share = 0.208", "resume_share = 0.4", "io_path"),
            ("schema = 1", "schema = 2", "schema"),
        ] {
            assert!(text.contains(from), "{from}");
            let message = Machine::parse(&text.replacen(from, to, 1), "m.toml")
                .unwrap_err()
                .to_string();
            assert!(
                message.starts_with("m.toml: ") && message.contains(key),
                "{message}"
            );
        }
    }

    #[test]
    fn a_typing_error_names_its_line() {
        let text = "schema = 1\nname = \"x\"\nhz = { value = 250 }\n";
        let message = Machine::parse(text, "m.toml").unwrap_err().to_string();
        assert!(message.starts_with("m.toml:3: "), "{message}");
    }
}
