//! How the answer of a search comes into force: the command that applies it, and the daemon's configuration for leases.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Kind;
use wakepath_settings::daemon_config::{self, lease_only_config_text};

use crate::new_file;

/// The steps that put a policy set in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StepsIntoForce {
    /// The part of the set that `wakepath apply` writes; `None` for leases alone.
    pub(crate) apply: Option<String>,
    /// The daemon's configuration for the leases of the set; `None` for a set without leases.
    pub(crate) daemon_toml: Option<String>,
}

impl StepsIntoForce {
    /// Divides a set between `wakepath apply` and the daemon, which alone gives leases.
    ///
    /// # Errors
    /// The daemon does not give such leases.
    pub(crate) fn new(set: &PolicySet) -> anyhow::Result<Self> {
        let leases = set.policy_of_kind(Kind::Psd);
        let daemon_toml = leases
            .map(|leases| lease_only_config_text(leases).map_err(anyhow::Error::msg))
            .transpose()?;
        let others: Vec<String> = set
            .policies()
            .iter()
            .filter(|policy| policy.kind() != Kind::Psd)
            .map(ToString::to_string)
            .collect();
        let apply = match &daemon_toml {
            // A profile is a part of a set, too, but none of its policies.
            None => Some(set.to_string()),
            Some(_) => (!others.is_empty()).then(|| others.join(" + ")),
        };
        Ok(Self { apply, daemon_toml })
    }

    /// Writes the daemon's configuration to a file. Returns whether there was one to write.
    pub(crate) fn write_daemon_toml(&self, path: &Path, force: bool) -> anyhow::Result<bool> {
        let Some(text) = &self.daemon_toml else {
            return Ok(false);
        };
        new_file::write_whole_file(path, force, |mut file| Ok(file.write_all(text.as_bytes())?))
            .with_context(|| format!("--daemon-toml {}", path.display()))?;
        Ok(true)
    }

    /// The commands that put the set in force, one a line. `daemon_toml` is the file with the daemon's configuration.
    pub(crate) fn shell_commands(&self, daemon_toml: Option<&Path>) -> String {
        let mut lines = String::new();
        if let Some(apply) = &self.apply {
            _ = writeln!(lines, "  sudo wakepath apply '{apply}'");
        }
        if self.daemon_toml.is_some() {
            let file = daemon_toml.unwrap_or(Path::new("daemon.toml"));
            // A daemon of root reads only files that nobody else can write.
            _ = writeln!(
                lines,
                "  sudo install -b -D -m 644 {} {}",
                quote_for_shell_if_needed(&file.display().to_string()),
                daemon_config::PATH
            );
            _ = writeln!(lines, "  sudo wakepath daemon");
        }
        lines
    }
}

/// A word as a shell takes it: in single quotes, unless all its characters are plain.
fn quote_for_shell_if_needed(word: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+' | ',');
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_settings::daemon_config::Config;

    fn steps(set: &str) -> StepsIntoForce {
        StepsIntoForce::new(&set.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_set_without_leases_is_applied_as_it_is() {
        for set in ["teo@6.12 + performance", "tuned[powersave]"] {
            let steps = steps(set);
            assert_eq!(steps.apply.as_deref(), Some(set));
            assert_eq!(steps.daemon_toml, None);
            assert_eq!(
                steps.shell_commands(None),
                format!("  sudo wakepath apply '{set}'\n")
            );
        }
    }

    #[test]
    fn leases_go_to_the_daemon_and_the_rest_to_apply() {
        let both = steps("teo@6.12 + psd[timeout=1ms,rule=daemon]");
        assert_eq!(both.apply.as_deref(), Some("teo@6.12"));
        let config = Config::parse("daemon.toml", both.daemon_toml.as_deref().unwrap()).unwrap();
        assert_eq!(
            config.policy.as_policy_set().to_string(),
            "psd[timeout=1ms,rule=daemon]"
        );
        assert_eq!(
            both.shell_commands(Some(Path::new("my leases.toml"))),
            "  sudo wakepath apply 'teo@6.12'\n  \
             sudo install -b -D -m 644 'my leases.toml' /etc/wakepath/daemon.toml\n  \
             sudo wakepath daemon\n"
        );
        assert_eq!(steps("psd[timeout=3ms,rule=daemon]").apply, None);
    }

    #[test]
    fn leases_of_the_kernel_patch_are_refused() {
        let set = "psd[timeout=1ms,rule=patch]".parse().unwrap();
        let refused = StepsIntoForce::new(&set).unwrap_err().to_string();
        assert!(refused.contains("leave `rule` out"), "{refused}");
    }
}
