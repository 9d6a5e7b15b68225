//! The system calls that a confined program cannot make, as a seccomp filter.
//!
//! The filter forbids what Landlock does not cover: sockets, namespaces, other processes, changes to modes, owners
//! and times, and broad kernel interfaces. Calls for another architecture or x32 would evade a list of numbers, so
//! all are forbidden.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
    SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, c_long, sock_filter,
};

/// Architecture that the filter accepts system calls for: this program's `AUDIT_ARCH_*`.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00f3);
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
const ARCHITECTURE: Option<u32> = None;

/// Flags `CLONE_NEW*` for namespaces, except time, which clone() does not accept.
const NAMESPACES: u32 = 0x7e02_0000;
/// `__X32_SYSCALL_BIT`.
const X32: u32 = 0x4000_0000;
/// Offsets of a system call's number, architecture and arguments within `struct seccomp_data`.
const AT_NUMBER: u32 = 0;
const AT_ARCHITECTURE: u32 = 4;
const AT_ARGUMENTS: u32 = 16;

const FORBIDDEN: [c_long; 57] = [
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    // System calls with the same number on every architecture: fchmodat2(), setxattrat() and
    // removexattrat().
    452,
    463,
    466,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_utimensat,
    libc::SYS_truncate,
    libc::SYS_mq_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_reboot,
];
/// Forbidden system calls that only older architectures have.
#[cfg(target_arch = "x86_64")]
const FORBIDDEN_HERE: [c_long; 8] = [
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_iopl,
    libc::SYS_ioperm,
];
#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_HERE: [c_long; 0] = [];

const fn bpf_instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

const fn load_word(at: u32) -> sock_filter {
    bpf_instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, at)
}

const fn load_call_argument(index: u32) -> sock_filter {
    load_word(AT_ARGUMENTS + 8 * index)
}

/// BPF instruction: goes on if the loaded value equals `number`, or else jumps over `skipped`
/// instructions.
const fn skip_unless_equal(number: u32, skipped: u8) -> sock_filter {
    bpf_instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, skipped, number)
}

const fn return_action(action: u32) -> sock_filter {
    bpf_instruction(BPF_RET | BPF_K, 0, 0, action)
}

const ALLOW: sock_filter = return_action(SECCOMP_RET_ALLOW);
const REFUSE: sock_filter = return_action(SECCOMP_RET_ERRNO | libc::EPERM as u32);

/// Builds the seccomp filter; `None` on an architecture whose system call numbers are not known
/// here.
pub(super) fn build_filter() -> Option<Vec<sock_filter>> {
    let mut all = vec![
        load_word(AT_ARCHITECTURE),
        bpf_instruction(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCHITECTURE?),
        return_action(SECCOMP_RET_KILL_PROCESS),
        load_word(AT_NUMBER),
        bpf_instruction(BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32),
        REFUSE,
    ];
    for number in FORBIDDEN.into_iter().chain(FORBIDDEN_HERE) {
        all.extend([skip_unless_equal(number as u32, 1), REFUSE]);
    }
    // clone3() is forbidden as unknown: its flags are in memory, where a filter cannot look.
    // Libraries then take clone().
    all.extend([
        skip_unless_equal(libc::SYS_clone3 as u32, 1),
        return_action(SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    ]);
    all.extend([
        skip_unless_equal(libc::SYS_clone as u32, 4),
        load_call_argument(0),
        bpf_instruction(BPF_JMP | BPF_JSET | BPF_K, 0, 1, NAMESPACES),
        REFUSE,
        ALLOW,
    ]);
    // Pairs of datagram sockets are forbidden, because they could send to other addresses.
    all.extend([
        skip_unless_equal(libc::SYS_socketpair as u32, 7),
        load_call_argument(0),
        skip_unless_equal(libc::AF_UNIX as u32, 4),
        load_call_argument(1),
        bpf_instruction(BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xf),
        skip_unless_equal(libc::SOCK_STREAM as u32, 1),
        ALLOW,
        REFUSE,
    ]);
    // The address argument is a pointer of two words.
    all.extend([
        skip_unless_equal(libc::SYS_sendto as u32, 6),
        load_call_argument(4),
        skip_unless_equal(0, 3),
        load_word(AT_ARGUMENTS + 8 * 4 + 4),
        skip_unless_equal(0, 1),
        ALLOW,
        REFUSE,
    ]);
    all.push(ALLOW);
    Some(all)
}

/// Installs the seccomp filter for this process and all its children. Returns prctl()'s result.
#[expect(
    unsafe_code,
    reason = "no library takes a filter between fork and exec"
)]
pub(super) fn install_filter(filter: &[sock_filter]) -> i64 {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the seccomp filter lives through the call, and the kernel only reads it.
    let returned = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
            0,
            0,
        )
    };
    i64::from(returned)
}
