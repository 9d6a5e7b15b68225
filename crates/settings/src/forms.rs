//! Writes a plan as configuration of other tools: profiles of `TuneD`, rules of udev, lines of tmpfiles.d and TLP, a
//! playbook of Ansible.

use wakepath_system::setting::{Access, SettingScope};
use wakepath_system::{At, SettingKey, System};

use crate::persistent::PersistentSettings;
use crate::{PowerSupply, SettingsError, SettingsPlan};

/// A tool whose files can hold settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolForm {
    /// The file `tuned.conf` of a TuneD profile.
    Tuned,
    /// Rules of udev.
    Udev,
    /// A file of tmpfiles.d.
    Tmpfiles,
    /// A file of tlp.d.
    Tlp,
}

/// A plan written as another tool's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormText {
    /// Content of the tool's configuration file.
    pub text: String,
    /// Settings that the tool's configuration cannot hold, each with the reason.
    pub left_out: Vec<String>,
}

/// A setting with the value to write.
#[derive(Clone, Copy)]
struct NewValue<'a> {
    key: &'a SettingKey,
    value: &'a str,
}

/// The lines of a tool's configuration so far, and what it cannot hold.
#[derive(Default)]
struct FormLines {
    lines: Vec<String>,
    left_out: Vec<String>,
}

impl FormLines {
    fn add_line_for_each(
        &mut self,
        new_values: &[NewValue<'_>],
        line: impl Fn(NewValue<'_>) -> Result<String, &'static str>,
    ) {
        for new in new_values {
            self.add_or_leave_out(*new, line(*new));
        }
    }

    fn add_or_leave_out(&mut self, new: NewValue<'_>, line: Result<String, &str>) {
        match line {
            // An option of TLP is for all CPUs, so that equal lines are written once.
            Ok(line) if self.lines.contains(&line) => {}
            Ok(line) => self.lines.push(line),
            Err(why) => self.leave_out(new, why),
        }
    }

    fn leave_out(&mut self, new: NewValue<'_>, why: &str) {
        self.left_out.push(format!("{}: {why}", new.key));
    }

    fn into_text_with_left_out_settings(self, head: &str) -> FormText {
        let mut text = head.to_owned();
        for left in &self.left_out {
            text.extend(["# left out: ", left, "\n"]);
        }
        for line in self.lines {
            text.push_str(&line);
            text.push('\n');
        }
        FormText {
            text,
            left_out: self.left_out,
        }
    }
}

/// Writes a plan as configuration of another tool, for all power supplies or a single one.
///
/// # Errors
/// The tool's configuration holds for every power supply, and `supply` names one.
pub fn format_plan_for_tool(
    system: &System,
    form: ToolForm,
    plan: &SettingsPlan,
    supply: Option<PowerSupply>,
) -> Result<FormText, SettingsError> {
    let file_for_every_supply = match form {
        ToolForm::Tlp => None,
        ToolForm::Tuned => Some("a profile of TuneD"),
        ToolForm::Udev => Some("a rule of udev"),
        ToolForm::Tmpfiles => Some("a file of tmpfiles.d"),
    };
    if let (Some(supply), Some(file)) = (supply, file_for_every_supply) {
        return Err(SettingsError::FormForEverySupply { supply, file });
    }
    let changes = plan.changes.iter();
    let new_values: Vec<NewValue<'_>> = changes
        .filter_map(|change| {
            Some(NewValue {
                key: &change.key,
                value: change.new.as_deref()?,
            })
        })
        .collect();
    let mut lines = FormLines::default();
    match form {
        ToolForm::Tlp => add_tlp_lines(system, &new_values, supply, &mut lines),
        ToolForm::Tuned => lines.add_line_for_each(&new_values, tuned_line),
        ToolForm::Udev => lines.add_line_for_each(&new_values, |new| udev_rule(system, new)),
        ToolForm::Tmpfiles => lines.add_line_for_each(&new_values, tmpfiles_line),
    }
    Ok(lines.into_text_with_left_out_settings(usage_comment_and_file_head(form)))
}

/// Writes persistent settings as an Ansible playbook.
///
/// # Errors
/// The settings cannot be persistent.
pub fn format_ansible_playbook(
    system: &System,
    settings: &PersistentSettings,
) -> Result<String, SettingsError> {
    settings.plan_for_present_supply(system)?;
    let file = settings.to_commented_text();
    let lines: Vec<String> = file
        .lines()
        .map(|line| format!("          {line}\n"))
        .collect();
    Ok(PLAYBOOK.replace("          CONTENT\n", &lines.concat()))
}

/// A name from the machine is no template: `!unsafe` keeps Ansible from looking for any.
const PLAYBOOK: &str = "\
# wakepath.yml, run with `ansible-playbook wakepath.yml`. The package wakepath is installed already.
- hosts: all
  become: true
  tasks:
    - name: Write the persistent settings of wakepath
      ansible.builtin.copy:
        dest: /etc/wakepath/settings.toml
        mode: '0644'
        content: !unsafe |
          CONTENT
      notify: Apply the persistent settings of wakepath
    - name: Enable the units that apply them at boot
      ansible.builtin.systemd:
        name: '{{ item }}'
        enabled: true
      loop: [wakepath-settings.service, wakepath-settings-resume.service]
    - name: Enable the timers that end the trial of the settings and look for drift
      ansible.builtin.systemd:
        name: '{{ item }}'
        enabled: true
        state: started
      loop: [wakepath-settings-kept.timer, wakepath-settings-drift.timer]
  handlers:
    # The service also says at the end of the boot that the settings did no harm.
    - name: Apply the persistent settings of wakepath
      ansible.builtin.systemd:
        name: wakepath-settings.service
        state: restarted
";

const fn usage_comment_and_file_head(form: ToolForm) -> &'static str {
    match form {
        ToolForm::Tuned => {
            "\
# /etc/tuned/profiles/wakepath/tuned.conf (before TuneD 2.23: /etc/tuned/wakepath/tuned.conf), then: tuned-adm profile wakepath
[main]
summary=Settings by wakepath
[sysfs]
"
        }
        ToolForm::Udev => {
            "\
# /etc/udev/rules.d/70-wakepath-settings.rules, then: udevadm control --reload && udevadm trigger --action=change
"
        }
        ToolForm::Tlp => "# /etc/tlp.d/50-wakepath.conf, then: tlp start\n",
        ToolForm::Tmpfiles => {
            "\
# /etc/tmpfiles.d/wakepath.conf, then: systemd-tmpfiles --create /etc/tmpfiles.d/wakepath.conf
"
        }
    }
}

/// Refuses a setting that tools cannot hold which only write files: one without a text file, or with another path at each boot.
fn refuse_setting_without_lasting_text_file(new: NewValue<'_>) -> Result<(), &'static str> {
    if matches!(new.key.at, At::Interrupt(_)) {
        return Err("belongs to an interrupt, whose number may be another device's after a boot");
    }
    match new.key.setting.mechanism {
        Access::Text => Ok(()),
        Access::Held => Err("lasts only as long as a process holds it"),
        Access::NvmeFeature(_) => Err("is written by an NVMe command, not by a file"),
    }
}

fn tuned_line(new: NewValue<'_>) -> Result<String, &'static str> {
    refuse_setting_without_lasting_text_file(new)?;
    Ok(format!("/{}={}", new.key.relative_path(), new.value))
}

fn tmpfiles_line(new: NewValue<'_>) -> Result<String, &'static str> {
    refuse_setting_without_lasting_text_file(new)?;
    let argument = new.value.replace('\\', "\\\\").replace('%', "%%");
    Ok(format!("w /{} - - - - {argument}", new.key.relative_path()))
}

/// The udev rule for the device that a setting belongs to.
fn udev_rule(system: &System, new: NewValue<'_>) -> Result<String, &'static str> {
    refuse_setting_without_lasting_text_file(new)?;
    let path = new.key.relative_path();
    let (device, attribute) = match &new.key.at {
        At::System => return Err("belongs to no device that udev has events for"),
        At::Cpu(cpu) | At::IdleState { cpu, .. } => {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/");
            (udev_match_for_cpu(*cpu), path.strip_prefix(&folder))
        }
        At::CpufreqPolicy(policy) => {
            let folder = format!("sys/devices/system/cpu/cpufreq/policy{policy}/");
            let file = path.strip_prefix(&folder);
            let attribute = file.map(|file| format!("cpufreq/{file}"));
            return udev_rule_assigning_attribute(
                &udev_match_for_cpu(*policy),
                attribute.as_deref(),
                new.value,
            );
        }
        At::Interrupt(_) => return Err("belongs to an interrupt, which udev has no events for"),
        At::Disk(disk) => {
            // A disk's name changes with the order in which drives are found.
            let drive = system
                .controller_of_namespace(disk)
                .ok_or("the disk has no serial number to know it by")?;
            let serial = read_serial_for_udev(system, &drive)?;
            (
                format!(
                    "SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", ATTRS{{serial}}==\"{serial}\""
                ),
                path.strip_prefix(&format!("sys/block/{disk}/")),
            )
        }
        At::Drive(name) => {
            let serial = read_serial_for_udev(system, name)?;
            (
                format!("SUBSYSTEM==\"nvme\", ATTR{{serial}}==\"{serial}\""),
                path.strip_prefix(&format!("sys/class/nvme/{name}/")),
            )
        }
    };
    udev_rule_assigning_attribute(&device, attribute, new.value)
}

/// The serial number by which udev knows an NVMe drive.
fn read_serial_for_udev(system: &System, drive: &str) -> Result<String, &'static str> {
    system
        .root()
        .read_text_if_readable(&format!("sys/class/nvme/{drive}/serial"))
        .filter(|serial| is_udev_literal(serial))
        .ok_or("the drive has no serial number to know it by")
}

/// The udev match of a CPU, whose name does not change; a frequency policy is named after its first CPU.
fn udev_match_for_cpu(cpu: usize) -> String {
    format!("SUBSYSTEM==\"cpu\", KERNEL==\"cpu{cpu}\"")
}

fn udev_rule_assigning_attribute(
    device: &str,
    attribute: Option<&str>,
    value: &str,
) -> Result<String, &'static str> {
    let attribute = attribute.ok_or("is in no folder of its device")?;
    if !is_udev_literal(value) {
        return Err("has a value that a rule cannot quote");
    }
    Ok(format!(
        "ACTION==\"add|change|online\", {device}, ATTR{{{attribute}}}=\"{value}\""
    ))
}

/// Whether a text means itself in a udev rule, in matches and in assignments.
fn is_udev_literal(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-.:/".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

/// An option of TLP, which has one value for all CPUs and devices.
struct TlpOption {
    /// Name of the setting that the option writes.
    setting: &'static str,
    /// Name of the option without its power supply.
    name: &'static str,
    /// The option's 1 is the setting's 0.
    is_inverted: bool,
}

const fn tlp_option(setting: &'static str, name: &'static str) -> TlpOption {
    TlpOption {
        setting,
        name,
        is_inverted: false,
    }
}

/// The options of TLP 1.5 and later for settings of wakepath, from TLP's manual. `CPU_BOOST` becomes the opposite in `no_turbo` of
/// intel_pstate; other drivers get it in the boost file of all policies.
static TLP_OPTIONS: [TlpOption; 9] = [
    tlp_option("frequency-governor", "CPU_SCALING_GOVERNOR"),
    tlp_option("frequency-min", "CPU_SCALING_MIN_FREQ"),
    tlp_option("frequency-max", "CPU_SCALING_MAX_FREQ"),
    tlp_option("frequency-boost", "CPU_BOOST"),
    tlp_option("boost", "CPU_BOOST"),
    TlpOption {
        is_inverted: true,
        ..tlp_option("no-turbo", "CPU_BOOST")
    },
    tlp_option("epp", "CPU_ENERGY_PERF_POLICY"),
    tlp_option("hwp-dynamic-boost", "CPU_HWP_DYN_BOOST"),
    tlp_option("aspm", "PCIE_ASPM"),
];

impl TlpOption {
    /// The option's value for a value of its setting.
    fn value_for_setting<'a>(&self, value: &'a str) -> &'a str {
        match value {
            "0" if self.is_inverted => "1",
            "1" if self.is_inverted => "0",
            same => same,
        }
    }
}

/// The part of a TLP option's name for a power supply.
const fn tlp_supply_name(supply: PowerSupply) -> &'static str {
    match supply {
        PowerSupply::Mains => "AC",
        PowerSupply::Battery => "BAT",
    }
}

fn add_tlp_lines(
    system: &System,
    new_values: &[NewValue<'_>],
    only: Option<PowerSupply>,
    lines: &mut FormLines,
) {
    let mut supplies = PowerSupply::ALL.to_vec();
    supplies.retain(|supply| only.is_none_or(|only| only == *supply));
    for new in new_values {
        let setting = new.key.setting;
        let mut options = TLP_OPTIONS.iter();
        let Some(option) = options.find(|option| option.setting == setting.name) else {
            lines.leave_out(*new, "TLP has no option for it");
            continue;
        };
        let alike = new_values
            .iter()
            .filter(|other| other.key.setting.name == setting.name && other.value == new.value)
            .count();
        let places = system.places_in_scope(setting.scope).len();
        if setting.scope == SettingScope::CpufreqPolicy && alike < places {
            lines.leave_out(*new, "TLP has one value for all CPUs");
        } else if setting.name == "epp" && new.value.parse::<u32>().is_ok() {
            lines.leave_out(*new, "TLP takes preferences by name only");
        } else {
            let value = option.value_for_setting(new.value);
            for supply in supplies.iter().copied().map(tlp_supply_name) {
                let line = format!("{}_ON_{supply}={value}", option.name);
                lines.add_or_leave_out(*new, Ok(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_system::Root;

    /// The udev rule for a setting, on a machine with two NVMe drives.
    fn rule(key: &str, value: &str) -> Result<String, &'static str> {
        let directory = tempfile::tempdir().unwrap();
        for (drive, serial) in [("nvme0", "S64A NX0R\n"), ("nvme1", "S*\n")] {
            let folder = directory.path().join("sys/class/nvme").join(drive);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("serial"), serial).unwrap();
        }
        let system = System::new(Root::at_directory(directory.path()));
        let key: SettingKey = key.parse().unwrap();
        udev_rule(&system, NewValue { key: &key, value })
    }

    #[test]
    fn udev_rules_know_drives_and_their_disks_by_serial_number() {
        assert_eq!(
            rule("read-ahead:nvme0n1", "512").unwrap(),
            "ACTION==\"add|change|online\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", ATTRS{serial}==\"S64A NX0R\", \
             ATTR{queue/read_ahead_kb}=\"512\""
        );
        assert_eq!(
            rule("drive-latency:nvme0", "20000").unwrap(),
            "ACTION==\"add|change|online\", SUBSYSTEM==\"nvme\", ATTR{serial}==\"S64A NX0R\", \
             ATTR{power/pm_qos_latency_tolerance_us}=\"20000\""
        );
    }

    #[test]
    fn disks_without_a_serial_number_that_a_rule_can_match_have_no_rule() {
        for (key, part) in [
            ("rq-affinity:vda", "the disk has no serial number"),
            // `*` would match every drive.
            ("rq-affinity:nvme1n1", "the drive has no serial number"),
            ("drive-latency:nvme1", "the drive has no serial number"),
        ] {
            let refused = rule(key, "2").unwrap_err();
            assert!(refused.contains(part), "{key}: {refused}");
        }
    }
}
