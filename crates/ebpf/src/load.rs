//! Why eBPF programs cannot be loaded, explained to users.

use aya::Btf;
use thiserror::Error;

/// Why eBPF programs cannot run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Wakepath was built without eBPF programs.
    #[error("wakepath has no eBPF programs: {0}")]
    NoPrograms(&'static str),
    /// The running kernel has no type information (BTF).
    #[error(
        "the kernel has no type information (/sys/kernel/btf/vmlinux), which eBPF programs need: use a kernel built \
         with CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes,
    /// Not root.
    #[error("{0} needs root, or the capabilities CAP_BPF and CAP_PERFMON: run it with sudo")]
    NotPermitted(&'static str),
    /// The system refuses eBPF programs even to root.
    #[error(
        "the kernel refuses eBPF programs even from root ({0}): kernel lockdown (/sys/kernel/security/lockdown), a \
         container without CAP_BPF and CAP_PERFMON, or a kernel without CONFIG_BPF_SYSCALL"
    )]
    Refused(String),
    /// The kernel lacks a feature that the programs need.
    #[error("the kernel cannot run the eBPF programs: {0}; they need Linux 5.16 or later")]
    Unsupported(String),
}

/// Reads the running kernel's types (BTF).
///
/// # Errors
/// It does not tell them.
pub fn read_kernel_btf() -> Result<Btf, LoadError> {
    Btf::from_sys_fs().map_err(|_| LoadError::NoTypes)
}

/// Explains a failed load to users. `what` is the intended action, as the first word of a sentence.
pub fn explain_load_failure(what: &'static str, text: String) -> LoadError {
    let denied = text.contains("Operation not permitted") || text.contains("Permission denied");
    match denied {
        true if rustix::process::geteuid().is_root() => LoadError::Refused(text),
        true => LoadError::NotPermitted(what),
        false => LoadError::Unsupported(text),
    }
}

/// The innermost cause of an error, on one line: the kernel's own message.
pub fn error_with_causes(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
