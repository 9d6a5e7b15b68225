//! Policy sets for simulations, in which a part may be the daemon's configuration.

use std::path::Path;

use wakepath_policies::PolicySet;

use crate::daemon_config::{Config, MAX_BYTES};

/// Prefix of a part that names a configuration file.
const FILE: &str = "file:";

/// Parses a policy set in which a part may be `file:PATH`, the `policy` in a daemon's configuration. So
/// `menu + file:/etc/wakepath/daemon.toml` is menu under leases of the daemon, without drive profiles and boost.
///
/// # Errors
/// The file cannot be read, has a mistake, or a part is no policy. The message says which.
pub fn parse_with_daemon_config_files(text: &str) -> Result<PolicySet, String> {
    let parts = text.split(" + ").map(str::trim);
    let (files, policies): (Vec<&str>, Vec<&str>) = parts.partition(|part| part.starts_with(FILE));
    if files.is_empty() {
        return text.parse().map_err(error_text);
    }
    let mut sets = Vec::new();
    for policy in policies {
        sets.push(policy.parse().map_err(error_text)?);
    }
    for file in files {
        let path = file.trim_start_matches(FILE);
        let text = wakepath_files::read_text_up_to(Path::new(path), MAX_BYTES)
            .map_err(|e| format!("`{file}`: {path}: {e}"))?;
        let config = Config::parse(path, &text).map_err(error_text)?;
        sets.push(config.policy.as_policy_set().clone());
    }
    PolicySet::join_sets(sets).map_err(error_text)
}

fn error_text(error: impl std::error::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_configuration_is_a_part_of_a_set() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("daemon.toml");
        let name = format!("file:{}", file.display());
        fs::write(&file, "policy = ['psd[timeout=5ms]']").unwrap();
        let set = parse_with_daemon_config_files(&format!("menu@6.12 + {name}")).unwrap();
        assert_eq!(set.to_string(), "menu@6.12 + psd[timeout=5ms,rule=daemon]");
        let psd = set.psd().unwrap();
        assert_eq!((psd.timeout_ms, psd.start_after), (5, 2));
        // No leases.
        fs::write(&file, "policy = []").unwrap();
        assert_eq!(
            parse_with_daemon_config_files(&name).unwrap(),
            PolicySet::default()
        );
        // A profile is a part, too.
        fs::write(&file, "policy = ['psd']").unwrap();
        let set = parse_with_daemon_config_files(&format!("tuned[balanced] + {name}")).unwrap();
        assert_eq!(set.to_string(), "tuned[balanced] + psd[rule=daemon]");
        // Without a file it is a set as everywhere.
        assert_eq!(
            parse_with_daemon_config_files("teo").unwrap(),
            "teo".parse().unwrap()
        );
    }

    fn assert_refused(text: &str, parts: &[&str]) {
        let message = parse_with_daemon_config_files(text).unwrap_err();
        for part in parts {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn mistakes_are_one_message_with_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("daemon.toml");
        let name = format!("file:{}", file.display());
        assert_refused(&name, &["daemon.toml", "No such file"]);
        assert_refused("file:", &["file:"]);
        fs::write(&file, "policy = ['psb']").unwrap();
        assert_refused(&name, &["daemon.toml:1:", "did you mean `psd`"]);
        fs::write(&file, "policy = ['psd']").unwrap();
        assert_refused(&format!("psd + {name}"), &["psd", "rule=daemon"]);
        assert_refused("tio", &["did you mean `teo`"]);
    }
}
