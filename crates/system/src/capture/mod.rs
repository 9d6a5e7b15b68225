//! Captures a machine as files: `wakepath machine capture`.
//!
//! [`Capture::read`] reads the files, [`Capture::write_into_folder`] puts them into a directory laid out like `/`, and
//! [`machine`] turns a root into a machine description.

pub mod class;
mod clocks;
mod cpufreq;
pub mod drives;
pub mod guest;
mod isolation;
mod kinds;
mod list;
pub mod machine;
mod power_limit;
pub mod running;
mod tree;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{FileType, OFlags};
use serde::Serialize;
use wakepath_files::{Links, Tree};

use crate::nvme::{self, APST};
use crate::topology::VIRTUAL_DISK_PREFIXES;
use crate::{Root, System, SystemError};

/// Unique fields in Identify Controller, with the filler used in captures: serial number (SN), globally unique
/// identifier (FGUID), the subsystem name (SUBNQN), where many vendors repeat the serial number, and the
/// vendor-specific area.
const IDENTITY: [(std::ops::Range<usize>, u8); 4] = [
    (4..24, b' '),
    (112..128, 0),
    (768..1024, 0),
    (3072..4096, 0),
];

/// Files of a capture that the machine itself does not have: the machine file, and a note about the capture.
pub const NOTES: [&str; 2] = ["machine.toml", "about.txt"];

/// Top folders of a capture, and the journal for settings changed within the capture.
const TOP: [&str; 5] = ["boot", "dev", "proc", "sys", "var/lib/wakepath"];

/// A captured machine: its files, and what is missing.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// Content of the files, by path below the root.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Unreadable files.
    pub missing: Vec<Missing>,
    /// Facts that this machine hides though others show them, with reasons.
    pub hidden: Vec<String>,
}

/// A file that exists but could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Path of the unreadable file, below the root.
    pub path: String,
    /// The reason.
    pub why: String,
}

impl Capture {
    /// Reads everything of a machine that can be read; nothing unreadable is an error.
    pub fn read(system: &System) -> Self {
        let mut capture = Self::default();
        for pattern in list::FILES.iter().flat_map(|p| list::expand_braces(p)) {
            for path in find_matching_files(system.root(), &pattern) {
                capture.add_file_or_note_missing(system.root(), &path);
            }
        }
        capture.add_filtered_text(system.root(), "proc/cmdline", |text| {
            let words = text.split_whitespace();
            let kept: Vec<&str> = words
                .filter(|word| list::COMMAND_LINE.iter().any(|head| word.starts_with(head)))
                .collect();
            format!("{}\n", kept.join(" "))
        });
        capture.add_filtered_kernel_config(system.root());
        capture.add_latency_request(system.root(), "dev/cpu_dma_latency");
        // Kernels before 6.19 do not have this device.
        let wakeup = "dev/cpu_wakeup_latency";
        if system.root().exists(wakeup) {
            capture.add_latency_request(system.root(), wakeup);
        }
        for drive in system.nvme_controller_names() {
            capture.add_anonymized_drive_answers(system.root(), &drive);
        }
        capture.hidden = list_hidden_facts(system);
        capture
    }

    fn add_file_or_note_missing(&mut self, root: &Root, path: &str) {
        match root.read_bytes(path) {
            Ok(content) => {
                self.files.insert(path.to_owned(), content);
            }
            Err(SystemError::Read { source, .. }) => self.note_missing_file(root, path, &source),
            Err(_) => {}
        }
    }

    fn note_missing_file(&mut self, root: &Root, path: &str, why: &io::Error) {
        // Files that nobody can read are for writing only, and are not noted.
        let mode = root.type_and_permissions(path).map(|(_, mode)| mode);
        if mode.is_some_and(|mode| mode & 0o444 == 0) || why.kind() == io::ErrorKind::NotFound {
            return;
        }
        self.missing.push(Missing {
            path: path.to_owned(),
            why: match why.kind() {
                io::ErrorKind::PermissionDenied => "needs root".to_owned(),
                _ => why.to_string(),
            },
        });
    }

    /// Adds a text file, filtered by `keep`.
    fn add_filtered_text(&mut self, root: &Root, path: &str, keep: impl Fn(&str) -> String) {
        self.add_file_or_note_missing(root, path);
        if let Some(content) = self.files.get_mut(path) {
            *content = keep(&String::from_utf8_lossy(content)).into_bytes();
        }
    }

    fn add_filtered_kernel_config(&mut self, root: &Root) {
        let Some((path, text)) = read_kernel_config_and_its_capture_path(root) else {
            return;
        };
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| list::CONFIG.iter().any(|head| line.starts_with(head)))
            .collect();
        self.files
            .insert(path, (lines.join("\n") + "\n").into_bytes());
    }

    /// Adds a latency request in force: four bytes from its device.
    fn add_latency_request(&mut self, root: &Root, path: &str) {
        let mut bytes = [0; 4];
        let read = root
            .open_file(path, OFlags::RDONLY)
            .and_then(|mut file| file.read_exact(&mut bytes));
        match read {
            Ok(()) => {
                self.files.insert(path.to_owned(), bytes.to_vec());
            }
            Err(why) => self.note_missing_file(root, path, &why),
        }
    }

    fn add_anonymized_drive_answers(&mut self, root: &Root, drive_name: &str) {
        let admin = nvme::open_drive_or_capture(root, drive_name);
        let device = format!("dev/{drive_name}");
        match admin.read_identify_controller() {
            Ok(mut data) => {
                for (range, filling) in IDENTITY {
                    if let Some(bytes) = data.get_mut(range) {
                        bytes.fill(filling);
                    }
                }
                self.files
                    .insert(nvme::captured_identity_path(drive_name), data);
            }
            Err(why) => self.note_missing_file(root, &device, &why),
        }
        let mut table = [0; wakepath_policies::apst::TABLE_BYTES];
        // A drive without the feature refuses the command; the capture is still complete.
        if let Ok(dword) = admin.get_feature(APST, &mut table) {
            let mut content = dword.to_le_bytes().to_vec();
            content.extend_from_slice(&table);
            self.files
                .insert(nvme::captured_feature_path(drive_name, APST), content);
        }
    }

    /// Removes an older capture from a directory, if present.
    ///
    /// # Errors
    /// The capture cannot be removed.
    pub fn remove_older_capture(directory: &Path) -> Result<(), SystemError> {
        if NOTES.iter().any(|name| !directory.join(name).is_file()) {
            return Ok(());
        }
        for name in TOP {
            match remove_subfolder_without_links(directory, name) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(SystemError::Write {
                        path: directory.join(name),
                        value: "nothing, by removing it".to_owned(),
                        source: e,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the files below a directory, which must not hold another machine's.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_into_folder(&self, directory: &Path) -> Result<(), SystemError> {
        for (path, content) in &self.files {
            write_captured_file(directory, path, content)?;
        }
        Ok(())
    }

    /// Writes the files [`NOTES`] into a capture's directory.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_machine_file_and_about(
        directory: &Path,
        notes: [&str; 2],
    ) -> Result<(), SystemError> {
        for (name, content) in NOTES.into_iter().zip(notes) {
            write_captured_file(directory, name, content.as_bytes())?;
        }
        Ok(())
    }

    /// The text of the note for recipients of a capture: missing files and hidden facts.
    pub fn describe_missing_and_hidden(&self) -> String {
        let mut text = format!("{} files\n", self.files.len());
        for missing in &self.missing {
            let _ = writeln!(text, "not read: /{}: {}", missing.path, missing.why);
        }
        for hidden in &self.hidden {
            let _ = writeln!(text, "hidden: {hidden}");
        }
        text
    }
}

/// Removes a folder below a directory. Nothing is removed on the other side of a link.
fn remove_subfolder_without_links(directory: &Path, subfolder: &str) -> io::Result<()> {
    let parent = Path::new(subfolder).parent().unwrap_or(Path::new(""));
    Tree::open_folder(directory, Links::Refused)?.open_file_or_folder(parent, OFlags::PATH)?;
    fs::remove_dir_all(directory.join(subfolder))
}

/// Writes a file below a directory, and the directories above the file. No link in the directory is followed.
fn write_captured_file(directory: &Path, path: &str, content: &[u8]) -> Result<(), SystemError> {
    let tree = Tree::open_folder(directory, Links::Refused);
    let written = tree.and_then(|tree| tree.replace_file(Path::new(path), content));
    written.map_err(|source| SystemError::Write {
        path: directory.join(path),
        value: format!("{} bytes", content.len()),
        source,
    })
}

/// The files of a machine that match a pattern.
fn find_matching_files(root: &Root, pattern: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for part in pattern.split('/') {
        found = found
            .into_iter()
            .flat_map(|base| match part.split_once('*') {
                None => vec![join_path(&base, part)],
                Some((head, tail)) => root
                    .list_names(&base)
                    .iter()
                    .filter(|name| name.starts_with(head) && name.ends_with(tail))
                    .filter(|name| !is_virtual_disk_in_sys_block(&base, name))
                    .map(|name| join_path(&base, name))
                    .collect(),
            })
            .collect();
    }
    found.retain(|path| {
        let kind = root.type_and_permissions(path).map(|(kind, _)| kind);
        kind == Some(FileType::RegularFile)
    });
    found
}

/// Joins a path and a name; the path may be empty.
fn join_path(base: &str, name: &str) -> String {
    if base.is_empty() {
        name.to_owned()
    } else {
        format!("{base}/{name}")
    }
}

/// Whether a name is left out of captures: block devices that are no drives.
fn is_virtual_disk_in_sys_block(folder: &str, name: &str) -> bool {
    folder == "sys/block"
        && VIRTUAL_DISK_PREFIXES
            .iter()
            .any(|head| name.starts_with(head))
}

/// Lists the facts that this machine hides, though real machines show them.
fn list_hidden_facts(system: &System) -> Vec<String> {
    let root = system.root();
    let is_virtual = runs_under_hypervisor(root);
    let because = if is_virtual {
        "kept by the host of this virtual machine"
    } else {
        "no driver offers it"
    };
    let states = system
        .cpus()
        .first()
        .map(|cpu| system.read_idle_states(*cpu));
    let facts = [
        (
            states.is_some_and(|s| s.iter().filter(|s| !s.polling).count() > 1),
            "idle states of the processor beyond a halt",
        ),
        (
            !system.active_cpufreq_policies().is_empty(),
            "frequencies and their governor (cpufreq)",
        ),
        (
            !root.list_names("sys/class/powercap").is_empty(),
            "energy counters (RAPL)",
        ),
        (
            !system.nvme_controller_names().is_empty(),
            "power states and APST of the drives (no NVMe controller)",
        ),
        (
            root.exists("sys/kernel/debug/energy_model") || !is_virtual,
            "the energy model",
        ),
    ];
    let hidden = facts.into_iter().filter(|(is_shown, _)| !is_shown);
    hidden
        .map(|(_, fact)| format!("{fact}: {because}"))
        .collect()
}

/// Whether the machine runs under a hypervisor.
pub fn runs_under_hypervisor(root: &Root) -> bool {
    guest::hypervisor_evidence(root).is_some()
}

/// The kernel's tick rate, if it can be read.
pub fn read_configured_tick_rate_hz(root: &Root) -> Option<u64> {
    let (_, text) = read_kernel_config_and_its_capture_path(root)?;
    let line = text.lines().find_map(|l| l.strip_prefix("CONFIG_HZ="))?;
    line.parse().ok()
}

/// Whether the running kernel counts interrupt time as utilisation (`CONFIG_IRQ_TIME_ACCOUNTING`); `None` where its
/// configuration cannot be read.
pub fn has_irq_time_accounting(root: &Root) -> Option<bool> {
    let (_, text) = read_kernel_config_and_its_capture_path(root)?;
    Some(text.lines().any(|l| l == "CONFIG_IRQ_TIME_ACCOUNTING=y"))
}

/// Reads the running kernel's configuration. Returns its path in a capture, and the text.
fn read_kernel_config_and_its_capture_path(root: &Root) -> Option<(String, String)> {
    /// Limit on the size of a kernel configuration in bytes.
    const MOST: u64 = 4 << 20;
    let release = root.read_text_if_readable("proc/sys/kernel/osrelease")?;
    if release.contains('/') {
        return None;
    }
    let path = format!("boot/config-{release}");
    if let Some(text) = root.read_text_if_readable(&path) {
        return Some((path, text));
    }
    let packed = root.read_bytes("proc/config.gz").ok()?;
    let mut text = String::new();
    let unpacked = flate2::read::GzDecoder::new(packed.as_slice()).take(MOST);
    io::BufReader::new(unpacked)
        .read_to_string(&mut text)
        .ok()?;
    Some((path, text))
}
