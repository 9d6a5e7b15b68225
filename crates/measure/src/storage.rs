//! Layers between a file and the drive, and the drive's temperature.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags, statx};
use serde::Serialize;
use wakepath_system::{Root, System};
use wakepath_units::printable;

/// Most levels of disks below disks: a volume on an encrypted partition on an array needs 3.
const MOST_LEVELS: usize = 8;
/// Begin of an encrypted device's identity (`cryptsetup`, `dm_prepare_uuid`).
const ENCRYPTED: &str = "CRYPT-";
/// Names of drives' sensors (`drivers/nvme/host/hwmon.c`, `drivers/hwmon/drivetemp.c`).
const SENSORS: [&str; 2] = ["nvme", "drivetemp"];
/// Credible temperatures in thousandths of a degree; beyond is a firmware's fault.
const POSSIBLE_MILLIDEGREES: std::ops::RangeInclusive<i64> = -60_000..=200_000;

/// Layers between a file and the drive, and the drive's temperature.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StorageStack {
    /// File system by the kernel's name; absent for a device, or if not known.
    pub file_system: Option<String>,
    /// Devices of dm-crypt on the way, with work in every time; empty without encryption.
    pub encrypted_by: Vec<String>,
    /// The drive's temperature before the experiment in degrees Celsius; absent without a sensor, or with several drives.
    pub celsius_before: Option<f64>,
    /// The drive's temperature after the experiment in degrees Celsius; absent as before.
    pub celsius_after: Option<f64>,
    /// The drive with the sensor.
    #[serde(skip)]
    drive: Option<String>,
}

impl StorageStack {
    /// The stack below an open file or device on a disk. Reads the temperature for the first time.
    pub(crate) fn find(system: &System, file: &File, disk: Option<&str>) -> Self {
        let root = system.root();
        let mount = statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok();
        let is_file = file.metadata().is_ok_and(|about| about.is_file());
        let number = mount.filter(|_| is_file).map(|about| about.stx_mnt_id);
        let below = disk.map_or_else(DisksBelow::default, |disk| DisksBelow::find(root, disk));
        let mut stack = Self {
            file_system: number.and_then(|number| file_system_of_mount(root, number)),
            drive: below.single_drive(),
            encrypted_by: below.encrypted,
            ..Self::default()
        };
        stack.celsius_before = stack.read_celsius(system);
        stack
    }

    /// Reads the temperature for the second time.
    pub(crate) fn finish(&mut self, system: &System) {
        self.celsius_after = self.read_celsius(system);
    }

    fn read_celsius(&self, system: &System) -> Option<f64> {
        read_drive_celsius(system, self.drive.as_deref()?)
    }

    /// The stack in words, such as `ext4, encrypted (dm-0), drive at 35.9 to 41.9 degrees C`; `None` if nothing is known.
    pub fn describe(&self) -> Option<String> {
        let mut parts: Vec<String> = self.file_system.iter().cloned().collect();
        if !self.encrypted_by.is_empty() {
            parts.push(format!("encrypted ({})", self.encrypted_by.join(", ")));
        }
        match (self.celsius_before, self.celsius_after) {
            (Some(before), Some(after)) if (before - after).abs() >= 0.05 => {
                parts.push(format!("drive at {before:.1} to {after:.1} degrees C"));
            }
            (Some(known), _) | (None, Some(known)) => {
                parts.push(format!("drive at {known:.1} degrees C"));
            }
            (None, None) => {}
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// A note on encryption in the figures; `None` without encryption.
    pub(crate) fn note_on_encryption(&self) -> Option<String> {
        let devices = self.encrypted_by.join(", ");
        (!devices.is_empty()).then(|| {
            format!(
                "requests pass dm-crypt ({devices}): the CPU's encryption is in every time of this drive"
            )
        })
    }
}

/// The disks below a disk.
#[derive(Debug, Default, PartialEq, Eq)]
struct DisksBelow {
    /// Disks without others below, sorted: drives.
    drives: Vec<String>,
    /// Devices of dm-crypt, from the top.
    encrypted: Vec<String>,
}

impl DisksBelow {
    fn single_drive(&self) -> Option<String> {
        match &self.drives[..] {
            [drive] => Some(drive.clone()),
            _ => None,
        }
    }

    /// Follows volumes and arrays down to drives.
    fn find(root: &Root, disk: &str) -> Self {
        let mut found = Self::default();
        let mut level = vec![disk.to_owned()];
        for _ in 0..MOST_LEVELS {
            let mut below = Vec::new();
            for disk in level {
                let uuid = root.read_text_if_readable(&format!("sys/block/{disk}/dm/uuid"));
                if uuid.is_some_and(|uuid| uuid.starts_with(ENCRYPTED)) {
                    found.encrypted.push(disk.clone());
                }
                let parts = root.list_names(&format!("sys/block/{disk}/slaves"));
                if parts.is_empty() {
                    found.drives.push(disk);
                } else {
                    below.extend(parts.iter().filter_map(|part| whole_disk(root, part)));
                }
            }
            below.sort_unstable();
            below.dedup();
            level = below;
        }
        found.drives.sort_unstable();
        found.drives.dedup();
        found
    }
}

/// The single drive at or below a disk; `None` for several.
pub(crate) fn find_single_drive(root: &Root, disk: &str) -> Option<String> {
    DisksBelow::find(root, disk).single_drive()
}

/// The drives that serve a disk's requests: below a volume or array, else the disk itself.
pub(crate) fn find_drives(root: &Root, disk: &str) -> Vec<String> {
    DisksBelow::find(root, disk).drives
}

/// The whole disk for a block device or partition.
fn whole_disk(root: &Root, device: &str) -> Option<String> {
    let disks = root.list_names("sys/block");
    if disks.iter().any(|disk| disk == device) {
        return Some(device.to_owned());
    }
    let mut owners = disks.into_iter();
    owners.find(|disk| root.exists(&format!("sys/block/{disk}/{device}/partition")))
}

/// File system by mount number (`/proc/self/mountinfo`, proc_pid_mountinfo(5)).
fn file_system_of_mount(root: &Root, number: u64) -> Option<String> {
    let mounts = root.read_text_if_readable("proc/self/mountinfo")?;
    let own = mounts.lines().find(|line| {
        let first = line.split(' ').next();
        first.and_then(|id| id.parse().ok()) == Some(number)
    })?;
    // Optional fields end with a hyphen; the type follows.
    let kind = own.split_once(" - ")?.1.split(' ').next()?;
    (!kind.is_empty()).then(|| printable::escape_for_one_line(kind).into_owned())
}

/// A drive's temperature by the first sensor (`Documentation/hwmon/sysfs-interface.rst`), in degrees Celsius.
fn read_drive_celsius(system: &System, disk: &str) -> Option<f64> {
    let root = system.root();
    // The sensor is below the controller since Linux 5.12, and was below the PCI device before.
    let controller = system.controller_of_namespace(disk);
    let of_controller = controller.iter().flat_map(|name| {
        ["", "/hwmon", "/device/hwmon"].map(|below| format!("sys/class/nvme/{name}{below}"))
    });
    let mut places = of_controller.chain([format!("sys/block/{disk}/device/hwmon")]);
    places.find_map(|place| {
        let sensors = root.list_names(&place).into_iter();
        let mut numbered = sensors.filter(|name| name.len() > 5 && name.starts_with("hwmon"));
        numbered.find_map(|sensor| {
            let folder = format!("{place}/{sensor}");
            let name = root.read_text_if_readable(&format!("{folder}/name"))?;
            let text = root.read_text_if_readable(&format!("{folder}/temp1_input"))?;
            let millidegrees: i64 = text.parse().ok()?;
            let is_drive = SENSORS.contains(&name.as_str());
            (is_drive && POSSIBLE_MILLIDEGREES.contains(&millidegrees))
                .then(|| millidegrees as f64 / 1e3)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// A volume (dm-1) on an encrypted partition (dm-0) on an NVMe drive, and a SATA drive.
    fn machine() -> (tempfile::TempDir, System) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "sys/block/dm-1/dm/uuid", "LVM-abc\n");
        write(root, "sys/block/dm-1/slaves/dm-0/dev", "253:0\n");
        write(root, "sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-12ab-luks\n");
        write(root, "sys/block/dm-0/slaves/nvme0n1p3/dev", "259:3\n");
        write(root, "sys/block/nvme0n1/nvme0n1p3/partition", "3\n");
        write(root, "sys/block/sda/size", "1\n");
        write(root, "sys/class/nvme/nvme0/model", "Fast\n");
        write(root, "sys/class/nvme/nvme0/hwmon4/name", "nvme\n");
        write(root, "sys/class/nvme/nvme0/hwmon4/temp1_input", "35850\n");
        write(
            root,
            "sys/block/sda/device/hwmon/hwmon2/name",
            "drivetemp\n",
        );
        write(
            root,
            "sys/block/sda/device/hwmon/hwmon2/temp1_input",
            "-4000\n",
        );
        let system = System::new(Root::at_directory(root));
        (folder, system)
    }

    #[test]
    fn encryption_is_found_on_the_way_to_the_drive() {
        let (_folder, system) = machine();
        let volume = DisksBelow::find(system.root(), "dm-1");
        assert_eq!(volume.encrypted, ["dm-0"]);
        assert_eq!(volume.drives, ["nvme0n1"]);
        let plain = DisksBelow::find(system.root(), "nvme0n1");
        assert!(plain.encrypted.is_empty() && plain.drives == ["nvme0n1"]);
    }

    #[test]
    fn a_volume_is_served_by_the_whole_disks_below() {
        let (folder, system) = machine();
        for (disk, below) in [("dm-2", "md0"), ("md0", "sda2"), ("md0", "nvme0n1p3")] {
            let file = format!("sys/block/{disk}/slaves/{below}/dev");
            write(folder.path(), &file, "1:1\n");
        }
        write(folder.path(), "sys/block/sda/sda2/partition", "2\n");
        assert_eq!(find_drives(system.root(), "dm-2"), ["nvme0n1", "sda"]);
        assert_eq!(find_drives(system.root(), "sda"), ["sda"]);
        assert_eq!(find_single_drive(system.root(), "dm-2"), None);
        let single = find_single_drive(system.root(), "dm-1");
        assert_eq!(single.as_deref(), Some("nvme0n1"));
    }

    #[test]
    fn disks_that_lie_on_each_other_end() {
        let (folder, system) = machine();
        write(folder.path(), "sys/block/dm-8/slaves/dm-9/dev", "253:9\n");
        write(folder.path(), "sys/block/dm-9/slaves/dm-8/dev", "253:8\n");
        assert_eq!(
            DisksBelow::find(system.root(), "dm-8"),
            DisksBelow::default()
        );
    }

    #[test]
    fn the_drive_s_own_sensor_is_read() {
        let (folder, system) = machine();
        assert_eq!(read_drive_celsius(&system, "nvme0n1"), Some(35.85));
        assert_eq!(read_drive_celsius(&system, "sda"), Some(-4.0));
        assert_eq!(read_drive_celsius(&system, "sdb"), None);
        let sensor = "sys/class/nvme/nvme0/hwmon4";
        for bad in ["", "warm", "999999999", "-273151"] {
            write(folder.path(), &format!("{sensor}/temp1_input"), bad);
            assert_eq!(read_drive_celsius(&system, "nvme0n1"), None, "{bad}");
        }
        // The place before Linux 5.12.
        fs::remove_dir_all(folder.path().join(sensor)).unwrap();
        let old = "sys/class/nvme/nvme0/device/hwmon/hwmon0";
        write(folder.path(), &format!("{old}/name"), "nvme\n");
        write(folder.path(), &format!("{old}/temp1_input"), "41000\n");
        assert_eq!(read_drive_celsius(&system, "nvme0n1"), Some(41.0));
        // Not a drive's sensor.
        write(folder.path(), &format!("{old}/name"), "coretemp\n");
        assert_eq!(read_drive_celsius(&system, "nvme0n1"), None);
    }

    #[test]
    fn the_file_system_is_that_of_the_mount() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at_directory(folder.path());
        let mounts = "21 1 253:1 / / rw,relatime shared:1 - ext4 /dev/dm-1 rw\n\
                      22 21 0:45 /home /home rw - btrfs /dev/sda rw\n\
                      23 21 0:46 / /mnt rw\n\
                      24 21 0:47 / /x rw - fuse.\u{1b}[31m x rw\n";
        write(folder.path(), "proc/self/mountinfo", mounts);
        assert_eq!(file_system_of_mount(&root, 21).as_deref(), Some("ext4"));
        assert_eq!(file_system_of_mount(&root, 22).as_deref(), Some("btrfs"));
        assert_eq!(file_system_of_mount(&root, 23), None);
        let strange = file_system_of_mount(&root, 24).unwrap();
        assert!(!strange.contains('\u{1b}'), "{strange}");
        assert_eq!(file_system_of_mount(&root, 25), None);
    }

    #[test]
    fn a_stack_is_described_in_words() {
        let mut stack = StorageStack::default();
        assert_eq!(stack.describe(), None);
        assert_eq!(stack.note_on_encryption(), None);
        stack.file_system = Some("ext4".to_owned());
        stack.celsius_before = Some(35.85);
        assert_eq!(stack.describe().unwrap(), "ext4, drive at 35.9 degrees C");
        stack.celsius_after = Some(41.0);
        stack.encrypted_by = vec!["dm-0".to_owned()];
        assert_eq!(
            stack.describe().unwrap(),
            "ext4, encrypted (dm-0), drive at 35.9 to 41.0 degrees C"
        );
        assert!(stack.note_on_encryption().unwrap().contains("(dm-0)"));
    }

    #[test]
    fn an_open_file_s_own_mount_is_looked_up() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        let stack = StorageStack::find(&System::live(), &file, None);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let named = format!(" - {} ", stack.file_system.unwrap());
        assert!(mounts.contains(&named), "{named}: {mounts}");
    }
}
