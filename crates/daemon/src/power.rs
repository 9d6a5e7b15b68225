//! Mains or battery.

use wakepath_system::Root;

const DIRECTORY: &str = "sys/class/power_supply";

/// Whether the machine is on mains power. One without any supply, or without a battery of its own, is.
pub fn on_mains(root: &Root) -> bool {
    let mut has_battery = false;
    for name in root.names(DIRECTORY) {
        let file = |file: &str| root.optional(&format!("{DIRECTORY}/{name}/{file}"));
        match file("type").as_deref() {
            Some("Mains" | "USB" | "Wireless") if file("online").as_deref() == Some("1") => {
                return true;
            }
            // The battery of a mouse has scope Device.
            Some("Battery") if file("scope").as_deref() != Some("Device") => has_battery = true,
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
            let of = directory.path().join(DIRECTORY).join(supply);
            std::fs::create_dir_all(&of).unwrap();
            std::fs::write(of.join(file), text).unwrap();
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
