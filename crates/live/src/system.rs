//! Reads, writes and verifies single settings.

use std::fs::File;
use std::io::{Read, Write};

use rustix::fs::OFlags;

use crate::nvme::{self, ApstFeature};
use crate::setting::{Mechanism, SettingInfo, same};
use crate::{Key, LiveError, Root};

/// A machine whose settings can be read and changed.
#[derive(Clone, Debug)]
pub struct System {
    root: Root,
}

impl System {
    /// This machine.
    pub fn live() -> Self {
        Self::new(Root::live())
    }

    /// The machine below a root.
    pub const fn new(root: Root) -> Self {
        Self { root }
    }

    /// Where its files are.
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// Checks that a setting can have a value on this machine.
    ///
    /// # Errors
    /// [`LiveError::Value`] with what it may be.
    pub fn check(&self, key: &Key, value: &str) -> Result<(), LiveError> {
        key.setting
            .check(value, |file| self.root.optional(&key.beside(file)))
            .map_err(|expected| LiveError::Value {
                setting: key.to_string(),
                value: value.to_owned(),
                expected,
            })
    }

    /// The value of a setting.
    ///
    /// # Errors
    /// The machine has no such setting, or does not let it be read.
    pub fn read(&self, key: &Key) -> Result<String, LiveError> {
        match key.setting.mechanism {
            Mechanism::Text => self.root.text(&key.path()),
            Mechanism::Held => {
                let bytes = self
                    .root
                    .open(&key.path(), OFlags::RDONLY)
                    .and_then(read_held);
                bytes.map_err(|source| LiveError::Read {
                    path: self.root.path(&key.path()),
                    source,
                })
            }
            Mechanism::NvmeFeature(_) => {
                let drive = nvme::admin(&self.root, &key.at.to_string());
                let feature = ApstFeature::get(&*drive);
                Ok(feature
                    .map_err(|source| self.nvme_error(key, "Get Features", source))?
                    .to_string())
            }
        }
    }

    /// Writes a setting. What holds a request returns it; dropping it takes the request back.
    ///
    /// # Errors
    /// The value is impossible, or the machine refuses it.
    pub(crate) fn write(&self, key: &Key, value: &str) -> Result<Option<File>, LiveError> {
        let write_error = |source| LiveError::Write {
            path: self.root.path(&key.path()),
            value: value.to_owned(),
            source,
        };
        match key.setting.mechanism {
            Mechanism::Text => {
                self.root
                    .write(&key.path(), format!("{value}\n").as_bytes())
                    .map_err(write_error)?;
                Ok(None)
            }
            Mechanism::Held => {
                let number: i32 = value.parse().map_err(|_| LiveError::Value {
                    setting: key.to_string(),
                    value: value.to_owned(),
                    expected: "whole microseconds".to_owned(),
                })?;
                let mut file = self
                    .root
                    .open(&key.path(), OFlags::RDWR)
                    .map_err(write_error)?;
                file.write_all(&number.to_ne_bytes()).map_err(write_error)?;
                Ok(Some(file))
            }
            Mechanism::NvmeFeature(_) => {
                let feature = ApstFeature::parse(value).ok_or_else(|| LiveError::Value {
                    setting: key.to_string(),
                    value: value.to_owned(),
                    expected: "on: or off: and 512 hexadecimal digits".to_owned(),
                })?;
                let drive = nvme::admin(&self.root, &key.at.to_string());
                feature
                    .set(&*drive)
                    .map_err(|source| self.nvme_error(key, "Set Features", source))?;
                Ok(None)
            }
        }
    }

    /// Reads a setting back and compares.
    ///
    /// # Errors
    /// [`LiveError::ReadBack`] if the value is another one.
    pub(crate) fn verify(&self, key: &Key, expected: &str) -> Result<(), LiveError> {
        let found = self.read(key)?;
        if holds(key.setting, expected, &found) {
            return Ok(());
        }
        Err(LiveError::ReadBack {
            path: self.root.path(&key.path()),
            expected: expected.to_owned(),
            found,
        })
    }

    /// Whether what is found is what was written: the same, or what a maximum frequency that was lowered since leaves of
    /// a minimum.
    pub(crate) fn left_of(&self, key: &Key, written: &str, found: &str) -> bool {
        let number = |text: &str| text.parse::<u64>().ok();
        let lowered = || {
            key.setting.name == "frequency-min"
                && number(found) < number(written)
                && self
                    .root
                    .optional(&key.beside("scaling_max_freq"))
                    .as_deref()
                    == Some(found)
        };
        same(key.setting, written, found) || lowered()
    }

    fn nvme_error(&self, key: &Key, command: &'static str, source: std::io::Error) -> LiveError {
        LiveError::Nvme {
            path: self.root.path(&key.path()),
            command,
            source,
        }
    }
}

/// Whether what was read means that what was written is in force.
fn holds(setting: &SettingInfo, expected: &str, found: &str) -> bool {
    match setting.mechanism {
        // It reads as the strictest request of all processes.
        Mechanism::Held => {
            let number = |text: &str| text.parse::<i64>().ok();
            matches!((number(expected), number(found)), (Some(e), Some(f)) if f <= e)
        }
        Mechanism::Text | Mechanism::NvmeFeature(_) => same(setting, expected, found),
    }
}

/// The four bytes of a held request as a decimal number.
fn read_held(mut file: File) -> std::io::Result<String> {
    let mut bytes = [0; 4];
    file.read_exact(&mut bytes)?;
    Ok(i32::from_ne_bytes(bytes).to_string())
}
