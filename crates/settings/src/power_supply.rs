//! Reads whether a machine runs on mains or battery power.

use std::fmt;

use serde::{Deserialize, Serialize};
use wakepath_system::Root;

const DIRECTORY: &str = "sys/class/power_supply";

/// What a machine draws its power from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PowerSupply {
    /// A plug, or any supply of a machine that has no battery of its own.
    Mains,
    /// The machine's battery.
    Battery,
}

impl PowerSupply {
    /// Both supplies.
    pub const ALL: [Self; 2] = [Self::Mains, Self::Battery];

    /// Reads the machine's present power supply.
    pub fn read(root: &Root) -> Self {
        let mut present = Self::Mains;
        for name in root.list_names(DIRECTORY) {
            let supply = root.folder(format!("{DIRECTORY}/{name}"));
            match supply.read_text_if_readable("type").as_deref() {
                Some("Mains" | "USB" | "Wireless")
                    if supply.read_number_if_readable("online") == Some(1) =>
                {
                    return Self::Mains;
                }
                // The battery of a mouse has scope `Device`, and does not count.
                Some("Battery")
                    if supply.read_text_if_readable("scope").as_deref() != Some("Device") =>
                {
                    present = Self::Battery;
                }
                _ => {}
            }
        }
        present
    }
}

impl fmt::Display for PowerSupply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mains => "mains",
            Self::Battery => "battery",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_battery_counts_without_a_plug() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at_directory(directory.path());
        let put = |supply: &str, file: &str, text: &str| {
            let folder = directory.path().join(DIRECTORY).join(supply);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(file), text).unwrap();
        };
        assert_eq!(PowerSupply::read(&root), PowerSupply::Mains);
        put("mouse", "type", "Battery\n");
        put("mouse", "scope", "Device\n");
        assert_eq!(PowerSupply::read(&root), PowerSupply::Mains);
        put("BAT0", "type", "Battery\n");
        assert_eq!(PowerSupply::read(&root), PowerSupply::Battery);
        put("AC", "type", "Mains\n");
        put("AC", "online", "0\n");
        assert_eq!(PowerSupply::read(&root), PowerSupply::Battery);
        put("AC", "online", "1\n");
        assert_eq!(PowerSupply::read(&root), PowerSupply::Mains);
    }
}
