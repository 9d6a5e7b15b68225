//! Power supply: mains or battery.

use wakepath_system::Root;

const DIRECTORY: &str = "sys/class/power_supply";

/// Whether the machine is on mains power. A machine without any supply, or without a battery of its own, is.
pub fn on_mains(root: &Root) -> bool {
    let mut has_battery = false;
    for name in root.names(DIRECTORY) {
        let supply = format!("{DIRECTORY}/{name}");
        let kind = root.optional(&format!("{supply}/type"));
        match kind.as_deref() {
            Some("Mains" | "USB" | "Wireless")
                if root.number(&format!("{supply}/online")) == Some(1) =>
            {
                return true;
            }
            // The battery of a mouse has scope Device.
            Some("Battery")
                if root.optional(&format!("{supply}/scope")).as_deref() != Some("Device") =>
            {
                has_battery = true;
            }
            _ => {}
        }
    }
    !has_battery
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_battery_counts_without_a_plug() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        let put = |supply: &str, file: &str, text: &str| {
            let folder = directory.path().join(DIRECTORY).join(supply);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(file), text).unwrap();
        };
        assert!(on_mains(&root));
        put("mouse", "type", "Battery\n");
        put("mouse", "scope", "Device\n");
        assert!(on_mains(&root));
        put("BAT0", "type", "Battery\n");
        assert!(!on_mains(&root));
        put("AC", "type", "Mains\n");
        put("AC", "online", "0\n");
        assert!(!on_mains(&root));
        put("AC", "online", "1\n");
        assert!(on_mains(&root));
    }
}
