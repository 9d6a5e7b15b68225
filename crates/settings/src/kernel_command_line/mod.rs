//! Words for the kernel command line, which take effect at the next boot: in which file of which boot loader they belong, and the
//! command that makes the boot loader take them.
//!
//! [`KernelWordsPlan::new`] only reads. [`write_kernel_words`] keeps the file as it was, beside it and in the directory of the
//! journal, and [`put_back_kernel_words`] brings it back.

mod boot_loader;
mod boot_setting;
mod edit;
mod file;
mod parts;
mod plan;
mod record;
mod word;

pub use boot_loader::BootLoader;
pub use boot_setting::{
    ACPI_IDLE_STATES, AMD_PSTATE, BOOT_SETTINGS, BootSetting, HALTPOLL_DRIVER, INTEL_IDLE_STATES,
    INTEL_PSTATE, NVME_POLL_QUEUES, PCIE_ASPM,
};
pub use plan::KernelWordsPlan;
pub use record::{CommandLineOutcome, put_back_kernel_words, write_kernel_words};
pub use word::KernelWord;
