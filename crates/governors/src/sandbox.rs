//! Confines processes with foreign code.
//!
//! The kernel learns all restrictions before the program begins. The process has no privileges and
//! never gains any, sees only given files ([`Files`]), has no network, and ends with this process. Processor time, memory and files are limited.
//! Namespaces are optional, depending on kernel and user; every other restriction is required.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, setrlimit};

mod filter;

/// Most resources that a confined process may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Processor time in seconds; `None`: unlimited.
    pub(crate) cpu_s: Option<u64>,
    /// Memory, in bytes.
    pub(crate) memory: u64,
    /// Size of the largest file that the process may write, in bytes.
    pub(crate) file: u64,
}

/// Files that a confined process may use besides the system's programs and libraries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// Files and folders, with everything below, that the process may read and run.
    pub(crate) read: Vec<PathBuf>,
    /// Folders that the process may change.
    pub(crate) write: Vec<PathBuf>,
}

/// System folders and files that every confined process may read: programs, libraries and the
/// loader's files.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
];
/// Devices without content.
const DEVICES: [&str; 4] = ["/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Newest Landlock version that is asked for. Older kernels confine as far as theirs goes.
const LANDLOCK: ABI = ABI::V6;
/// Most files that a confined process may have open at a time.
const OPEN_FILES: u64 = 1024;

/// Error text: a process cannot be confined on this kernel.
const UNCONFINED: &str = "this kernel cannot confine a program of somebody else (Landlock of Linux 5.13 and seccomp are needed)";

/// Whether a program must be confined, or may run even where the kernel cannot confine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Confinement is required.
    Confined,
    /// The user accepts a kernel that cannot confine programs.
    WherePossible,
}

impl Need {
    /// Confinement that the option `--allow-programs` leaves required.
    pub(crate) fn from_allow_programs(allowed: bool) -> Self {
        if allowed {
            Self::WherePossible
        } else {
            Self::Confined
        }
    }

    /// Error text for a program that cannot be confined, with advice.
    pub(crate) fn refusal_text() -> String {
        format!("{UNCONFINED}; --allow-programs runs it as you, with all that you may do")
    }
}

/// Limits the resources of a command's process, once started, in a process group without Ctrl-C.
/// The process ends with this one.
#[expect(unsafe_code, reason = "nothing safe acts between fork and exec")]
pub(crate) fn limit_command_resources(command: &mut Command, limits: Limits) {
    command.process_group(0);
    let parent = std::process::id();
    // SAFETY: the closure only calls the kernel, without allocating or locking.
    unsafe {
        command.pre_exec(move || {
            set_resource_limits(limits)?;
            end_with_parent(parent)
        });
    }
}

/// Confines the process that a command starts, and limits its resources as [`limit_command_resources`]
/// does.
///
/// # Errors
/// This kernel cannot confine the process, and confinement is required.
#[expect(unsafe_code, reason = "nothing safe acts between fork and exec")]
pub(crate) fn confine_command(
    command: &mut Command,
    limits: Limits,
    files: &Files,
    need: Need,
) -> Result<(), String> {
    command.process_group(0);
    let parent = std::process::id();
    let rules = create_landlock_rules(files).map_err(|e| format!("Landlock: {e}"))?;
    let filter = filter::build_filter();
    if need == Need::Confined && (rules.is_none() || filter.is_none()) {
        return Err(Need::refusal_text());
    }
    // SAFETY: the closure only calls the kernel, without allocating or locking.
    unsafe {
        command.pre_exec(move || {
            confine_this_process(parent, limits, rules.as_ref(), filter.as_deref(), need)
        });
    }
    Ok(())
}

/// Confines the calling process, between fork and exec: nothing here allocates or takes a lock.
#[expect(unsafe_code, reason = "nothing safe acts between fork and exec")]
fn confine_this_process(
    parent: u32,
    limits: Limits,
    rules: Option<&OwnedFd>,
    filter: Option<&[libc::sock_filter]>,
    need: Need,
) -> io::Result<()> {
    set_resource_limits(limits)?;
    close_files_on_exec();
    fork_into_namespaces(parent)?;
    drop_capabilities();
    // Before this point the parent's files are open, whose limit may be higher. A lower limit
    // stays.
    _ = set_resource_limit(Resource::Nofile, OPEN_FILES);
    // SAFETY: numbers only.
    let no_new = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    require_success(i64::from(no_new), need)?;
    if let Some(rules) = rules {
        // SAFETY: the descriptor of the Landlock rules is open.
        let restricted =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
        require_success(restricted, need)?;
    }
    if let Some(filter) = filter {
        require_success(filter::install_filter(filter), need)?;
    }
    Ok(())
}

/// Error for a system call that failed, unless confinement is optional.
fn require_success(returned: i64, need: Need) -> io::Result<()> {
    if returned == 0 || need == Need::WherePossible {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Creates the Landlock rules for these files; `None` where the kernel has no Landlock.
fn create_landlock_rules(files: &Files) -> Result<Option<OwnedFd>, RulesetError> {
    let read = AccessFs::from_read(LANDLOCK);
    let devices = AccessFs::ReadFile | AccessFs::WriteFile;
    let created = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(DEVICES, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(["/dev/null"], devices))?
        .add_rules(path_beneath_rules(&files.read, read))?
        .add_rules(path_beneath_rules(
            &files.write,
            AccessFs::from_all(LANDLOCK),
        ))?;
    Ok(created.into())
}

/// Whether every confined process may read this file, as part of the system.
pub(crate) fn is_readable_by_all(path: &Path) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder))
}

fn set_resource_limits(limits: Limits) -> io::Result<()> {
    set_resource_limit(Resource::Core, 0)?;
    set_resource_limit(Resource::As, limits.memory)?;
    set_resource_limit(Resource::Fsize, limits.file)?;
    limits
        .cpu_s
        .map_or(Ok(()), |seconds| set_resource_limit(Resource::Cpu, seconds))
}

/// Sets a resource limit of the calling process. Allocates nothing: it is called between fork and
/// exec.
fn set_resource_limit(resource: Resource, value: u64) -> io::Result<()> {
    let limit = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    Ok(setrlimit(resource, limit)?)
}

/// Makes the calling process end with its parent's thread, at once if `parent` is gone already.
#[expect(
    unsafe_code,
    reason = "rustix cannot end a process without what libc does at its end"
)]
fn end_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: numbers only.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::getppid().cast_unsigned() != parent {
            libc::_exit(1);
        }
    }
    Ok(())
}

/// Marks all inherited files, such as the shell's, to be closed when the program begins.
#[expect(unsafe_code, reason = "rustix has no close_range()")]
fn close_files_on_exec() {
    // SAFETY: the call has numbers only. Kernels before 5.11 leave the files open.
    unsafe {
        let on_exec = libc::CLOSE_RANGE_CLOEXEC;
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, on_exec);
    }
}

/// Continues in a child that is the first process of a PID namespace, without network and message queues: everything
/// started there ends with the child. The original process waits, and ends with the same status. Without namespaces
/// the original process continues.
#[expect(unsafe_code, reason = "nothing safe acts between fork and exec")]
fn fork_into_namespaces(parent: u32) -> io::Result<()> {
    let own = libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC;
    // SAFETY: the calls have numbers only, and memory on this stack. Between fork and exec there is
    // a single thread.
    unsafe {
        // Unprivileged users get the namespaces within a user namespace.
        if libc::unshare(own) != 0 && libc::unshare(libc::CLONE_NEWUSER | own) != 0 {
            return end_with_parent(parent);
        }
        let mut ends = [0; 2];
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::close(ends[1]);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                // The waiting original process may have ended before the child asked to end with
                // it.
                let mut waits = libc::pollfd {
                    fd: ends[0],
                    events: libc::POLLIN,
                    revents: 0,
                };
                if libc::poll(&raw mut waits, 1, 0) != 0 {
                    libc::_exit(1);
                }
                libc::close(ends[0]);
                Ok(())
            }
            child => {
                end_with_parent(parent)?;
                close_all_files_but(ends[1]);
                wait_and_exit_like_child(child)
            }
        }
    }
}

/// Closes all files of the calling process except `kept`: readers at the other ends wait for the
/// child, not for this process.
#[expect(unsafe_code, reason = "the files belong to what was before the fork")]
fn close_all_files_but(kept: RawFd) {
    // SAFETY: nothing uses the closed descriptors afterwards.
    unsafe {
        let kept = kept.cast_unsigned();
        let closed = kept == 0 || libc::syscall(libc::SYS_close_range, 0, kept - 1, 0) == 0;
        if !closed || libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0) != 0 {
            for file in (0..1 << 16).filter(|file| *file != kept) {
                libc::close(file.cast_signed());
            }
        }
    }
}

#[expect(unsafe_code, reason = "nothing safe acts between fork and exec")]
fn wait_and_exit_like_child(child: libc::pid_t) -> ! {
    // SAFETY: the calls have numbers only, and memory on this stack.
    unsafe {
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) == -1 {
            if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                libc::_exit(1);
            }
        }
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(libc::getpid(), signal);
        }
        libc::_exit(libc::WEXITSTATUS(status))
    }
}

/// Gives up, for good, all that root may do beyond other users. A process without such capabilities
/// loses nothing.
#[expect(unsafe_code, reason = "rustix has no call for the bounding set")]
fn drop_capabilities() {
    /// Layout of `struct __user_cap_header_struct`: version 3, this process.
    #[repr(C)]
    struct Header(u32, libc::c_int);
    const LAST: libc::c_ulong = 63;
    let header = Header(0x2008_0522, 0);
    let none = [[0_u32; 3]; 2];
    // SAFETY: the header and the capability sets live through the call.
    unsafe {
        for capability in 0..=LAST {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL,
            0,
            0,
            0,
        );
        libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr());
    }
}
