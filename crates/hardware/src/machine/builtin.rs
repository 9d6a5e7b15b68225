//! The machines that come with wakepath.

use wakepath_units::spelling::most_similar_name;

use super::file::parse_machine_without_like;
use super::{Machine, MachineError};

/// The built-in machines, each with the text of the machine file.
macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../data/machines/", $name, ".toml")))),*]
    };
}

pub(super) const BUILTIN: [(&str, &str); 12] = builtin![
    "rk3399",
    "rk3399-depth",
    "apple-m1-pro",
    "xeon-e3-1240v5",
    "skylake-2s-server",
    "xeon-6741p",
    "intel-tbench-80t",
    "epyc-7502",
    "laptop",
    "ryzen-8840u",
    "hybrid-i7-1260p",
    "ampere-altra",
];

/// Names of the built-in machines.
pub fn builtin_machine_names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}

/// The text of a built-in machine's file.
pub(super) fn find_builtin_machine_text(name: &str) -> Option<&'static str> {
    let (_, text) = BUILTIN.iter().find(|(known, _)| *known == name)?;
    Some(text)
}

/// Loads a built-in machine, which lends figures to others.
pub(super) fn load_builtin_machine(name: &str) -> Result<Machine, MachineError> {
    let Some(text) = find_builtin_machine_text(name) else {
        let nearest = most_similar_name(name, builtin_machine_names()).map_or("", |(_, near)| near);
        return Err(MachineError::Unknown {
            name: name.to_owned(),
            nearest: nearest.to_owned(),
            known: builtin_machine_names().collect::<Vec<_>>().join(", "),
        });
    };
    parse_machine_without_like(text, name)
}
