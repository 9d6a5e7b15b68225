//! What can go wrong in an experiment.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use wakepath_settings::SettingsError;
use wakepath_system::SystemError;

/// Why an experiment on the machine gave no result.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A setting could not be changed or put back.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The machine could not be read.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A file cannot serve as a measured file.
    #[error("{}: {why}", path.display())]
    File {
        /// The measured file or device.
        path: PathBuf,
        /// What is wrong with the measured file, and what to do.
        why: String,
    },
    /// A read or write of the measured file failed.
    #[error("{}: {action}: {source}{}", path.display(), hint(source))]
    Io {
        /// The measured file or device.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The machine lacks what the experiment needs.
    #[error("{0}")]
    Impossible(String),
    /// An experiment failed, and then settings could not be put back.
    #[error("{error}; then settings could not be put back: {unrestored}")]
    Unrestored {
        /// Why the experiment failed.
        error: Box<MeasureError>,
        /// What could not be put back.
        unrestored: Box<MeasureError>,
    },
    /// A signal ended the experiment before there was a result.
    #[error("ended before anything was measured")]
    Cancelled,
}

impl MeasureError {
    /// After an experiment: its error, with that of the release where both failed. A release that failed alone is handed
    /// on, because the results stand.
    pub(crate) fn combine_with_release<T>(
        outcome: Result<(), Self>,
        released: Result<T, Self>,
    ) -> Result<Result<T, Self>, Self> {
        match (outcome, released) {
            (Ok(()), released) => Ok(released),
            (Err(error), Ok(_)) => Err(error),
            (Err(error), Err(unrestored)) => Err(Self::Unrestored {
                error: Box::new(error),
                unrestored: Box::new(unrestored),
            }),
        }
    }

    /// The error for a file that cannot serve as the measured one.
    pub(crate) fn refuse(path: &Path, why: impl Into<String>) -> Self {
        Self::File {
            path: path.to_owned(),
            why: why.into(),
        }
    }
}

/// What to do about a system error, as the end of a message; empty for other errors.
fn hint(error: &io::Error) -> &'static str {
    if is_lost_drive(error) {
        return " (the drive failed or was removed, and `dmesg` says which; measure again once it answers)";
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (this needs root, or a file of your own)",
        io::ErrorKind::StorageFull => " (a smaller --size needs less)",
        io::ErrorKind::FileTooLarge => {
            " (a limit of the user, `ulimit -f`, or of the file system; a smaller --size needs less)"
        }
        io::ErrorKind::InvalidInput => {
            " (the file system does no direct I/O; name a file on a file system of the drive itself)"
        }
        io::ErrorKind::UnexpectedEof => {
            " (the file has become shorter, or its drive was removed; name one that stays)"
        }
        io::ErrorKind::ResourceBusy => " (another measurement has the file)",
        _ => "",
    }
}

/// Whether the kernel could not get an answer from the drive: `EIO` of a failed request, the others of a drive that is gone.
fn is_lost_drive(error: &io::Error) -> bool {
    let lost = [Errno::IO, Errno::NXIO, Errno::NODEV].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|number| lost.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(why: &str) -> MeasureError {
        MeasureError::Impossible(why.to_owned())
    }

    #[test]
    fn a_failed_release_is_told_and_costs_no_results() {
        let alone = MeasureError::combine_with_release(Ok(()), Err::<(), _>(failure("kept")));
        assert_eq!(alone.unwrap().unwrap_err().to_string(), "kept");
        let both =
            MeasureError::combine_with_release(Err(failure("gone")), Err::<(), _>(failure("kept")));
        assert_eq!(
            both.unwrap_err().to_string(),
            "gone; then settings could not be put back: kept"
        );
        let first = MeasureError::combine_with_release(Err(failure("gone")), Ok(()));
        assert_eq!(first.unwrap_err().to_string(), "gone");
    }
}
