//! Errors while a machine's files are read, each with the path.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why a machine could not be read, or why a value is impossible for a setting.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// A file of the machine could not be read.
    #[error("{}: cannot be read: {source}{}", path.display(), advice_for_io_error(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the machine could not be written.
    #[error("{}: writing '{value}': {source}{}", path.display(), advice_for_write_error(path, source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The value that was to be written.
        value: String,
        /// Why not.
        source: io::Error,
    },
    /// A text is impossible as the value of a setting.
    #[error("{setting}: '{value}' is not possible; expected {expected}")]
    Value {
        /// The setting.
        setting: String,
        /// The value.
        value: String,
        /// Allowed values.
        expected: String,
    },
    /// An NVMe command to a drive failed.
    #[error("{}: {command}: {source}{}", path.display(), advice_for_io_error(source))]
    Nvme {
        /// The device.
        path: PathBuf,
        /// The command.
        command: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// What a user can do about a refused write; empty if nothing is known.
fn advice_for_write_error(path: &Path, error: &io::Error) -> &'static str {
    // `write_irq_affinity()` in kernel/irq/proc.c: EIO up to Linux 6.12, later EPERM. Who is not root gets EACCES.
    let is_affinity = path.ends_with("smp_affinity_list");
    let by_kernel = [Errno::IO, Errno::PERM].map(|errno| Some(errno.raw_os_error()));
    if is_affinity && by_kernel.contains(&error.raw_os_error()) {
        return " (the kernel manages this interrupt, and lets nobody move it; rq-affinity chooses which CPU completes requests)";
    }
    advice_for_io_error(error)
}

/// What a user can do about an error of the system; empty if nothing is known.
fn advice_for_io_error(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (this needs root)",
        io::ErrorKind::ReadOnlyFilesystem => " (this part of the system is read-only here)",
        io::ErrorKind::ResourceBusy => {
            " (the driver refuses it in its present mode; intel_pstate, for one, allows no EPP other than performance under the governor performance)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_managed_interrupt_refuses_in_one_sentence() {
        let refused = |path: &str, errno: Errno| {
            let error = SystemError::Write {
                path: PathBuf::from(path),
                value: "2-3".to_owned(),
                source: io::Error::from_raw_os_error(errno.raw_os_error()),
            };
            error.to_string()
        };
        let affinity = "/proc/irq/24/smp_affinity_list";
        for errno in [Errno::IO, Errno::PERM] {
            let managed = refused(affinity, errno);
            assert!(
                managed.contains("the kernel manages this interrupt"),
                "{managed}"
            );
        }
        assert!(refused(affinity, Errno::ACCESS).contains("needs root"));
        assert!(!refused("/sys/block/sda/queue/rq_affinity", Errno::IO).contains("manages"));
    }
}
