//! What a process of somebody else's code may do: little.
//!
//! Before the program begins, the kernel is told what holds for it. It can never gain privileges, has no network, and
//! ends with this process. Its processor time, memory and files are limited. Where the kernel, or who it runs for,
//! allows no network namespace, it keeps the network; all else holds everywhere.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The most that a process may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Processor time, in seconds.
    pub(crate) cpu_s: Option<u64>,
    /// Memory, in bytes.
    pub(crate) memory: u64,
    /// Of a file that it writes, in bytes.
    pub(crate) file: u64,
}

/// Has a command run within limits, in a process group of its own: Ctrl-C is this process's business.
#[expect(unsafe_code, reason = "nothing safe acts between fork and exec")]
pub(crate) fn limit(command: &mut Command, limits: Limits) {
    command.process_group(0);
    let confine = move || {
        let set = |what, most: u64| {
            let limit = libc::rlimit {
                rlim_cur: most,
                rlim_max: most,
            };
            // SAFETY: the limit lives through the call.
            match unsafe { libc::setrlimit(what, &raw const limit) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        set(libc::RLIMIT_CORE, 0)?;
        set(libc::RLIMIT_AS, limits.memory)?;
        set(libc::RLIMIT_FSIZE, limits.file)?;
        if let Some(seconds) = limits.cpu_s {
            set(libc::RLIMIT_CPU, seconds)?;
        }
        // SAFETY: numbers only; what fails changes nothing.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            if libc::unshare(libc::CLONE_NEWNET) != 0 {
                libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET);
            }
        }
        Ok(())
    };
    // SAFETY: only calls to the kernel, no memory is allocated and no lock taken.
    unsafe {
        command.pre_exec(confine);
    }
}
