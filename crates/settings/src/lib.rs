//! Changes settings of a running machine, and puts old values back.
//!
//! - [`policy`]: changes by a policy set such as `menu + idle-states[ceiling=20us]` on this machine.
//! - [`SettingsPlan`]: all writes, with old and new values.
//! - [`daemon_config`]: the configuration `/etc/wakepath/daemon.toml`; [`policy_set`] reads one as a part of a set.
//! - [`PersistentSettings`]: a policy set for every boot; [`apply_persistent_settings_at_boot`] applies it.
//! - [`KernelWordsPlan`]: words on the kernel command line, by boot loader.
//! - [`Session`]: takes the lock, keeps the journal of old values, applies and restores.
//!
//! ```no_run
//! use wakepath_settings::{Session, SettingsPlan, Targets, policy};
//! use wakepath_system::System;
//!
//! let system = System::live();
//! let set = "menu + idle-states[ceiling=20us]".parse()?;
//! let wanted = policy::resolve_to_settings(&system, &set, &Targets::default())?;
//! let plan = SettingsPlan::from_wanted(&system, wanted)?;
//! let hold = Session::open_and_recover(&system)?.apply_while_held(&plan)?;
//! // ... measure; when `hold` goes out of scope, everything is as it was.
//! hold.put_back_and_release()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod boot;
mod config_folder;
pub mod daemon_config;
mod entries;
mod error;
mod foreign;
mod forms;
mod hold;
mod journal;
mod kernel_command_line;
mod kernel_table;
mod lend;
mod nvme;
mod other_tools;
mod own_writes;
pub mod persistent;
mod persistent_drive;
mod persistent_edit;
mod persistent_plan;
mod persistent_state;
mod plan;
pub mod policy;
pub mod policy_set;
mod power_supply;
mod put_back;
mod reapply;
pub mod reset;
mod seen_writes;
mod session;
mod store;
mod supply_sets;
mod supply_switch;
mod text_file;
mod trusted_file;
mod write;

pub use boot::{BootOutcome, apply_persistent_settings_at_boot, end_boot_trial, forget_boot_trial};
pub use error::SettingsError;
pub use foreign::ForeignValue;
pub use forms::{FormText, ToolForm, format_ansible_playbook, format_plan_for_tool};
pub use hold::{Hold, Tenant, put_back_all_before_exit};
pub use kernel_command_line::{
    ACPI_IDLE_STATES, AMD_PSTATE, BOOT_SETTINGS, BootLoader, BootSetting, CommandLineOutcome,
    HALTPOLL_DRIVER, INTEL_IDLE_STATES, INTEL_PSTATE, KernelWord, KernelWordsPlan,
    NVME_POLL_QUEUES, PCIE_ASPM, put_back_kernel_words, write_kernel_words,
};
pub use lend::{LockBorrower, LockOffer};
pub use other_tools::{
    PowerTool, RivalTool, ToolEvidence, find_rival_tools, list_tools_that_write,
};
pub use persistent::{DriveModelSets, PersistentSettings};
pub use persistent_state::{DriftEvidence, DriftState, PersistentState, read_persistent_state};
pub use plan::{Change, SettingsPlan, WantedSetting};
pub use policy::Targets;
pub use power_supply::PowerSupply;
pub use put_back::Restored;
pub use reapply::{Reapplied, ReapplyOutcome, reapply_after_event};
pub use seen_writes::{SeenWrite, watch_applied_settings};
pub use session::Session;
pub use supply_sets::SupplySets;
pub use supply_switch::{
    DriftedSetting, SupplyOutcome, SupplySwitch, add_old_values_of_replaced_set,
    apply_plan_and_record_supply, describe_plan_with_old_values_of_replaced_set,
    remove_supply_record, switch_to_set_of_present_supply,
};
