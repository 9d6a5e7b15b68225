//! Supported versions of Linux: 6.1 to 7.3, with their stable releases.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};

/// A version of Linux, as a person writes one: `6.12`, `6.12.48` or `7.3`.
///
/// Two numbers mean the newest stable release of the series, as distributions ship. Comparison and printing follow
/// the written form, so that a name prints back unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    major: u16,
    minor: u16,
    /// Third number of a stable release; `None` stands for the newest.
    patch: Option<u16>,
}

/// The oldest supported series; [`LAST_MINORS`] has the last minor number for each major number.
const FIRST: (u16, u16) = (6, 1);
const LAST_MINORS: [(u16, u16); 2] = [(6, 19), (7, 3)];

/// All supported series, oldest first.
fn all_series() -> impl Iterator<Item = (u16, u16)> {
    LAST_MINORS
        .into_iter()
        .flat_map(|(major, last)| (0..=last).map(move |minor| (major, minor)))
        .filter(|series| *series >= FIRST)
}

/// Highest patch number that is accepted as a stable release's.
const LAST_PATCH: u16 = 999;

/// An error: the text is no supported version of Linux.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {problem}")]
pub struct KernelVersionError {
    text: String,
    problem: String,
}

impl KernelVersionError {
    fn new(text: &str, problem: String) -> Self {
        Self {
            text: text.to_owned(),
            problem,
        }
    }

    /// What is wrong, and the supported versions, without the refused text.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl KernelVersion {
    /// Linux 6.1, from Debian 12.
    pub const V6_1: Self = Self::newest_of_series(6, 1);
    /// Linux 6.12, from Debian 13.
    pub const V6_12: Self = Self::newest_of_series(6, 12);
    /// Linux 7.3, the newest supported.
    pub const V7_3: Self = Self::newest_of_series(7, 3);

    const fn newest_of_series(major: u16, minor: u16) -> Self {
        Self {
            major,
            minor,
            patch: None,
        }
    }

    /// Every supported series, oldest first, each as its newest stable release.
    pub fn all_series() -> impl Iterator<Item = Self> {
        all_series().map(|(major, minor)| Self::newest_of_series(major, minor))
    }

    /// The first releases of the series after this version, oldest first: the next steps of mainline.
    pub fn first_releases_of_later_series(self) -> impl Iterator<Item = Self> {
        first_releases_after((self.major, self.minor))
    }

    /// The kernel named by `uname -r` or a capture.
    ///
    /// In `6.1.0-56-amd64` and `6.8.0-45-generic` the 0 stands for any stable release: distributions keep the 0 while
    /// modules fit. Such a kernel counts as the newest release of its series.
    ///
    /// # Errors
    /// The text does not begin with a version that is known.
    pub fn from_release_name(release: &str) -> Result<Self, KernelVersionError> {
        let end = release
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(release.len());
        let mut numbers = release[..end].split('.').filter(|part| !part.is_empty());
        let mut written: Vec<_> = numbers.by_ref().take(3).collect();
        if written.get(2) == Some(&"0")
            && release[end..].starts_with('-')
            && !release[end..].starts_with("-rc")
        {
            written.pop();
        }
        written
            .join(".")
            .parse()
            .map_err(|error: KernelVersionError| KernelVersionError {
                text: release.to_owned(),
                ..error
            })
    }

    /// The kernel named by `uname -r` or a capture, or else the nearest supported version. A newer kernel becomes the
    /// newest version. An older kernel becomes the first release of the next series: equal to mainline then, without
    /// later stable changes. `None`: the text does not begin with two numbers.
    pub fn nearest_supported(release: &str) -> Option<Self> {
        if let Ok(known) = Self::from_release_name(release) {
            return Some(known);
        }
        let mut numbers = release
            .split(|c: char| !c.is_ascii_digit())
            .map_while(|part| part.parse::<u16>().ok());
        let series = (numbers.next()?, numbers.next()?);
        Some(first_releases_after(series).next().unwrap_or(Self::V7_3))
    }

    /// Series and stable release, for a look-up in a table of releases. [`u16::MAX`] stands for the newest release.
    pub const fn release(self) -> (u16, u16, u16) {
        let patch = match self.patch {
            Some(patch) => patch,
            None => u16::MAX,
        };
        (self.major, self.minor, patch)
    }

    /// Whether this kernel has a change that was released in versions such as `(6, 12, 78)`, one for each stable series.
    /// Series missing from the list got the change with the last release listed.
    pub fn has_change_released_in(self, releases: &[(u16, u16, u16)]) -> bool {
        let (major, minor, patch) = self.release();
        let own = releases
            .iter()
            .find(|(in_major, in_minor, _)| (*in_major, *in_minor) == (major, minor));
        match own {
            Some((.., since)) => patch >= *since,
            None => releases
                .iter()
                .max()
                .is_some_and(|newest| self.release() >= *newest),
        }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        match self.patch {
            Some(patch) => write!(f, ".{patch}"),
            None => Ok(()),
        }
    }
}

impl FromStr for KernelVersion {
    type Err = KernelVersionError;

    fn from_str(text: &str) -> Result<Self, KernelVersionError> {
        let parts: Option<Vec<_>> = text.split('.').map(parse_version_number).collect();
        let (major, minor, patch) = match parts.as_deref() {
            Some(&[major, minor]) => (major, minor, None),
            Some(&[major, minor, patch]) if patch <= LAST_PATCH => (major, minor, Some(patch)),
            _ => {
                let problem = "not a kernel version; write one such as 6.12, 6.12.48 or 7.3";
                return Err(KernelVersionError::new(text, problem.to_owned()));
            }
        };
        if !all_series().any(|known| known == (major, minor)) {
            let problem = format!(
                "the policies of this kernel are not known, only those of {} to {}; nearest: {}",
                Self::newest_of_series(FIRST.0, FIRST.1),
                Self::V7_3,
                name_neighbouring_series(major, minor),
            );
            return Err(KernelVersionError::new(text, problem));
        }
        Ok(Self {
            major,
            minor,
            patch,
        })
    }
}

/// Parses a part of a version number: decimal digits without leading zeros.
fn parse_version_number(part: &str) -> Option<u16> {
    let plain = part == "0" || !part.starts_with('0');
    let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (digits && plain).then(|| part.parse().ok()).flatten()
}

/// Names of the supported series just before and just after an unsupported series, for a message.
fn name_neighbouring_series(major: u16, minor: u16) -> String {
    let before = all_series().take_while(|known| *known < (major, minor));
    let after = all_series().find(|known| *known > (major, minor));
    let near = before.last().into_iter().chain(after);
    let names: Vec<_> = near
        .map(|(major, minor)| format!("{major}.{minor}"))
        .collect();
    names.join(", ")
}

/// The first release of each supported series after `series`, oldest first.
fn first_releases_after(series: (u16, u16)) -> impl Iterator<Item = KernelVersion> {
    all_series()
        .filter(move |known| *known > series)
        .map(|(major, minor)| KernelVersion {
            major,
            minor,
            patch: Some(0),
        })
}

impl Serialize for KernelVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KernelVersion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> KernelVersion {
        text.parse().unwrap()
    }

    #[test]
    fn a_version_prints_as_written() {
        for text in ["6.1", "6.8", "6.12.0", "6.12.48", "6.19", "7.3", "7.3.4"] {
            assert_eq!(version(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_not_a_known_version_is_refused_with_the_nearest() {
        for text in [
            "",
            "6",
            "six",
            "6.12.",
            "6.012",
            "6.12.4.1",
            "6.12.1000",
            "+6.12",
            "6.-1",
        ] {
            let error = text.parse::<KernelVersion>().unwrap_err().to_string();
            assert!(error.contains("not a kernel version"), "{error}");
        }
        for (text, near) in [
            ("6.20", "6.1 to 7.3; nearest: 6.19, 7.0"),
            ("6.0", "nearest: 6.1"),
            ("5.15.3", "nearest: 6.1"),
            ("7.4", "nearest: 7.3"),
        ] {
            let error = text.parse::<KernelVersion>().unwrap_err().to_string();
            assert!(error.ends_with(near), "{error}");
        }
    }

    #[test]
    fn a_release_string_tells_its_version() {
        for (release, expected) in [
            ("6.12.48+deb13-amd64", "6.12.48"),
            ("6.16.0-rc3", "6.16.0"),
            ("6.1.0-56-amd64", "6.1"),
            ("6.12.0", "6.12.0"),
            ("6.17-rc2", "6.17"),
            ("7.0.9-204.fc44.x86_64", "7.0.9"),
            ("6.1.0.21-x", "6.1"),
        ] {
            let found = KernelVersion::from_release_name(release).map(|found| found.to_string());
            assert_eq!(found.as_deref(), Ok(expected));
        }
        assert!(KernelVersion::from_release_name("5.15.0").is_err());
        assert!(KernelVersion::from_release_name("").is_err());
    }

    #[test]
    fn the_nearest_kernel_is_what_mainline_had_come_to() {
        for (release, expected) in [
            ("6.12.48+deb13-amd64", Some("6.12.48")),
            ("6.1.0-56-amd64", Some("6.1")),
            ("4.19.0-27-amd64", Some("6.1.0")),
            ("5.15.196", Some("6.1.0")),
            ("6.8.0-45-generic", Some("6.8")),
            ("6.6.120", Some("6.6.120")),
            ("6.20", Some("7.0.0")),
            ("7.4.1", Some("7.3")),
            ("8.0-rc1", Some("7.3")),
            ("99999.1", None),
            ("6", None),
            ("", None),
            ("next-20260101", None),
        ] {
            let nearest =
                KernelVersion::nearest_supported(release).map(|kernel| kernel.to_string());
            assert_eq!(nearest.as_deref(), expected, "{release}");
        }
    }

    #[test]
    fn a_change_is_in_its_series_from_its_release_on() {
        let shortcut = [(6, 12, 78), (7, 0, 0)];
        for (text, has) in [
            ("6.1", false),
            ("6.12.77", false),
            ("6.12.78", true),
            ("6.12", true),
            ("6.13", false),
            ("6.19.11", false),
            ("7.0", true),
            ("7.3.4", true),
        ] {
            assert_eq!(
                version(text).has_change_released_in(&shortcut),
                has,
                "{text}"
            );
        }
    }
}
