//! Power tools of distributions that write the same settings as a plan, now or at the next boot.

use std::fmt;

use wakepath_system::{Root, System};

use crate::SettingsPlan;

/// A power tool that writes settings.
#[derive(Debug, PartialEq, Eq)]
pub struct PowerTool {
    /// Name for people.
    pub title: &'static str,
    /// Name of the tool's systemd unit, without `.service`.
    pub unit: &'static str,
    /// Name of the tool's process; `None` for a tool that ends after its work.
    process: Option<&'static str>,
    /// Names of the settings that the tool writes.
    pub writes: &'static [&'static str],
}

/// What profiles of TuneD write.
const TUNED: &[&str] = &[
    "frequency-governor",
    "frequency-boost",
    "epp",
    "cpu-latency",
    "system-latency",
    "no-turbo",
    "read-ahead",
];

/// The known power tools and their settings, from their configuration manuals, as of the versions that docs/guides/apply.md
/// names.
#[rustfmt::skip]
static TOOLS: &[PowerTool] = &[
    PowerTool {
        title: "TuneD",
        unit: "tuned",
        process: Some("tuned"),
        writes: TUNED,
    },
    PowerTool {
        title: "tuned-ppd",
        unit: "tuned-ppd",
        process: Some("tuned-ppd"),
        writes: TUNED,
    },
    PowerTool {
        title: "power-profiles-daemon",
        unit: "power-profiles-daemon",
        process: Some("power-profiles-daemon"),
        writes: &["frequency-governor", "frequency-boost", "frequency-min", "epp"],
    },
    PowerTool {
        title: "TLP",
        unit: "tlp",
        process: None,
        writes: &["frequency-governor", "frequency-boost", "frequency-min", "frequency-max", "epp", "hwp-dynamic-boost", "no-turbo", "boost", "aspm"],
    },
    PowerTool {
        title: "thermald",
        unit: "thermald",
        process: Some("thermald"),
        writes: &["frequency-max"],
    },
    PowerTool {
        title: "irqbalance",
        unit: "irqbalance",
        process: Some("irqbalance"),
        writes: &["irq-affinity"],
    },
    PowerTool {
        title: "cpupower",
        unit: "cpupower",
        process: None,
        writes: &["frequency-governor", "frequency-min", "frequency-max", "epp"],
    },
];

/// Length in bytes to which the kernel cuts the name of a process.
const COMM_CHARS: usize = 15;
/// Folder where systemd notes active units.
const ACTIVE_UNITS: &str = "run/systemd/units";
/// Folder where systemd notes which units a target wants.
const ENABLED_UNITS: &str = "etc/systemd/system";

/// By what a power tool was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEvidence {
    /// The tool's process runs, with this number.
    Process(usize),
    /// The tool's systemd unit is active.
    ActiveUnit,
    /// The tool's systemd unit starts at boot, and is not active now.
    EnabledUnit,
}

/// A power tool of this machine that overwrites settings of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RivalTool {
    /// The tool.
    pub tool: &'static PowerTool,
    /// By what the tool was found.
    pub evidence: ToolEvidence,
    /// Settings of the plan that the tool writes.
    pub overwrites: Vec<&'static str>,
}

impl fmt::Display for RivalTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PowerTool { title, unit, .. } = self.tool;
        let settings = self.overwrites.join(", ");
        match self.evidence {
            ToolEvidence::Process(id) => write!(f, "{title} is running (process {id})")?,
            ToolEvidence::ActiveUnit => write!(f, "{title} is active ({unit}.service)")?,
            ToolEvidence::EnabledUnit => write!(f, "{title} starts at boot ({unit}.service)")?,
        }
        write!(
            f,
            " and may overwrite {settings}; `systemctl disable --now {unit}` ends that"
        )
    }
}

/// Finds power tools that overwrite settings of a plan, by processes and by units of systemd below the root.
pub fn find_rival_tools(system: &System, plan: &SettingsPlan) -> Vec<RivalTool> {
    let root = system.root();
    let processes = list_processes_by_id(root);
    let active = root.list_names(ACTIVE_UNITS);
    let enabled = list_systemd_units_enabled_at_boot(root);
    let evidence_for = |tool: &PowerTool| {
        let unit = format!("{}.service", tool.unit);
        if let Some(name) = tool.process
            && let Some((id, _)) = processes
                .iter()
                .find(|(_, comm)| comm == truncate_to_kernel_comm_length(name))
        {
            return Some(ToolEvidence::Process(*id));
        }
        if active.contains(&format!("invocation:{unit}")) {
            return Some(ToolEvidence::ActiveUnit);
        }
        enabled.contains(&unit).then_some(ToolEvidence::EnabledUnit)
    };
    let rivals = TOOLS.iter().filter_map(|tool| {
        let overwrites: Vec<&str> = tool
            .writes
            .iter()
            .copied()
            .filter(|name| plan.changes.iter().any(|c| c.key.setting.name == *name))
            .collect();
        if overwrites.is_empty() {
            return None;
        }
        Some(RivalTool {
            tool,
            evidence: evidence_for(tool)?,
            overwrites,
        })
    });
    rivals.collect()
}

/// Names of the known tools that write a setting. tuned-ppd is left out: it has TuneD write.
pub fn list_tools_that_write(setting: &str) -> Vec<&'static str> {
    let tools = TOOLS.iter().filter(|tool| tool.unit != "tuned-ppd");
    tools
        .filter(|tool| tool.writes.contains(&setting))
        .map(|tool| tool.title)
        .collect()
}

/// Cuts the name of a process as the kernel does.
fn truncate_to_kernel_comm_length(name: &str) -> &str {
    name.get(..COMM_CHARS).unwrap_or(name)
}

/// Numbers and names of all processes below the root.
fn list_processes_by_id(root: &Root) -> Vec<(usize, String)> {
    let ids = root.list_entry_numbers("proc", "").into_iter();
    ids.filter_map(|id| Some((id, root.read_text_if_readable(&format!("proc/{id}/comm"))?)))
        .collect()
}

/// Names of the units that some target of systemd wants at boot.
fn list_systemd_units_enabled_at_boot(root: &Root) -> Vec<String> {
    let folders = root.list_names(ENABLED_UNITS).into_iter();
    folders
        .filter(|name| name.strip_suffix(".wants").is_some())
        .flat_map(|name| root.list_names(&format!("{ENABLED_UNITS}/{name}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Change;
    use wakepath_system::setting;

    /// Notes before a setting changes on a machine with a running thermald.
    fn texts_on_rivals(key: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let process = directory.path().join("proc/815");
        std::fs::create_dir_all(&process).unwrap();
        std::fs::write(process.join("comm"), "thermald\n").unwrap();
        let change = Change {
            key: key.parse().unwrap(),
            old: String::new(),
            new: Some("1".to_owned()),
        };
        let plan = SettingsPlan {
            changes: vec![change],
            ..SettingsPlan::default()
        };
        let system = System::new(Root::at_directory(directory.path()));
        let rivals = find_rival_tools(&system, &plan);
        rivals.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn thermald_is_named_before_a_highest_frequency_is_set() {
        assert_eq!(
            texts_on_rivals("frequency-max:policy0"),
            [
                "thermald is running (process 815) and may overwrite frequency-max; `systemctl disable --now thermald` ends that"
            ]
        );
        assert!(texts_on_rivals("frequency-min:policy0").is_empty());
    }

    #[test]
    fn tools_write_settings_that_exist() {
        for tool in TOOLS {
            for name in tool.writes {
                assert!(
                    setting::find_setting(name).is_some(),
                    "{}: {name}",
                    tool.title
                );
            }
        }
    }
}
