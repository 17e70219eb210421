//! The system calls that a command may still make.
//!
//! A list names the allowed calls: for memory, threads, time, and files. Every other call fails
//! with EPERM: starting processes and programs, using the network, looking into other processes,
//! and the kernel's newer and larger interfaces. Landlock decides which files can be opened. It
//! does not stop a process from changing mode, owner, attributes and times of a file by its name.
//! So if a command needs no files of the host, the only system calls with file names that it may
//! make are those that read the facts of a file.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::{Reach, Rights, cause};

/// Whether this architecture has a filter of system calls.
pub(super) const HAS_FILTER: bool = true;

/// The allowed system calls by number, each with rules on its arguments. A call with an empty list
/// of rules is allowed with any arguments.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Restricts this thread, and the threads that it starts, to the system calls that `reach` and
/// connections to `ports` need.
pub(super) fn filter(reach: &Reach<'_>, ports: &[u16]) -> Result<(), String> {
    let failed = |error: BackendError| format!("seccomp: {}", cause(&error));
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let of_allowed = program(allowed(reach, ports).map_err(failed)?, SeccompAction::Allow, denied);
    // The arguments of clone3 are in memory, where no filter sees them. Without clone3, the C
    // library creates threads with clone.
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let without_clone3 = program(clone3, unknown, SeccompAction::Allow);
    // The allow list comes last: it does not allow the call that installs a filter.
    for program in [without_clone3, of_allowed] {
        let program = program.map_err(failed)?;
        apply_filter(&program).map_err(|error| format!("seccomp: {}", cause(&error)))?;
    }
    Ok(())
}

fn program(
    rules: Rules,
    for_these: SeccompAction,
    for_others: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, for_others, for_these, TargetArch::try_from(ARCH)?)?.try_into()
}

fn allowed(reach: &Reach<'_>, ports: &[u16]) -> Result<Rules, BackendError> {
    let mut calls = [MEMORY, THREADS, CLOCKS, CONTENTS, LOOKS, OLD_CALLS].concat();
    match reach {
        Reach::Beneath(_, Rights::Names) | Reach::NamesBeneath(_) => {
            calls.extend([RENAMES, OLD_RENAMES].concat());
        }
        Reach::Beneath(..) => calls.extend([RENAMES, OLD_RENAMES, CHANGES, OLD_CHANGES].concat()),
        _ => {}
    }
    let mut rules: Rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let ioctls = if ports.is_empty() { IOCTLS.to_vec() } else { [IOCTLS, &[FIONBIO]].concat() };
    rules.insert(libc::SYS_ioctl, one_of(1, &ioctls)?);
    if !ports.is_empty() {
        allow_connections(&mut rules)?;
    }
    let names = [libc::PR_SET_NAME, libc::PR_SET_VMA].map(|name| u64::from(name.unsigned_abs()));
    rules.insert(libc::SYS_prctl, one_of(0, &names)?);
    // Limits of this process, and signals to it: `abort` ends the process with one.
    rules.insert(libc::SYS_prlimit64, one_of(0, &[0])?);
    rules.insert(libc::SYS_tgkill, one_of(0, &[u64::from(std::process::id())])?);
    // The socket pair that wakes a thread when a signal arrives.
    rules.insert(libc::SYS_socketpair, one_of(0, &[u64::from(libc::AF_UNIX.unsigned_abs())])?);
    let threads = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let is_thread = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(threads),
        threads,
    )?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_thread])?]);
    if matches!(reach, Reach::OpenRings) {
        // No ring is created after this, and the rings that exist were restricted by their creator.
        rules.insert(libc::SYS_io_uring_enter, Vec::new());
    }
    Ok(rules)
}

/// Allows sockets of TCP, and connecting them. Landlock decides to which ports they may connect.
fn allow_connections(rules: &mut Rules) -> Result<(), BackendError> {
    rules.extend(CONNECTIONS.iter().map(|call| (*call, Vec::new())));
    let families = [libc::AF_INET, libc::AF_INET6];
    let mut sockets = Vec::new();
    for family in families.map(|family| u64::from(family.unsigned_abs())) {
        let (equal, masked) = (SeccompCmpOp::Eq, SeccompCmpOp::MaskedEq(SOCKET_TYPES));
        let of_family = SeccompCondition::new(0, SeccompCmpArgLen::Dword, equal, family)?;
        let of_type = SeccompCondition::new(1, SeccompCmpArgLen::Dword, masked, STREAM)?;
        sockets.push(SeccompRule::new(vec![of_family, of_type])?);
    }
    rules.insert(libc::SYS_socket, sockets);
    Ok(())
}

/// Returns rules that allow only these values of the argument with the index `index`.
fn one_of(index: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |value: &u64| {
        let (length, is) = (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq);
        SeccompRule::new(vec![SeccompCondition::new(index, length, is, *value)?])
    };
    values.iter().map(rule).collect()
}

const MEMORY: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
];

const THREADS: &[c_long] = &[
    // The second filter answers it.
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

const CLOCKS: &[c_long] = &[
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
];

/// System calls on open files.
const CONTENTS: &[c_long] = &[
    libc::SYS_close,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readv,
    // Sockets by which a signal wakes a waiting thread. They are created before; these calls write
    // to them.
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_splice,
    libc::SYS_sync_file_range,
    libc::SYS_write,
    libc::SYS_writev,
];

/// System calls of TCP connections. The calls for sending and receiving are in [`CONTENTS`].
const CONNECTIONS: &[c_long] = &[
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// The bits of the type of a socket, without flags such as SOCK_CLOEXEC.
const SOCKET_TYPES: u64 = 0xf;
/// SOCK_STREAM.
const STREAM: u64 = 1;
/// The request of ioctl(2) that makes a socket non-blocking, while it is being connected.
const FIONBIO: u64 = 0x5421;

/// System calls that read facts of files by their names, and that open files where Landlock allows
/// it.
const LOOKS: &[c_long] = &[
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_getcwd,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_readlinkat,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_umask,
];

/// System calls that add, replace and remove names.
const RENAMES: &[c_long] = &[libc::SYS_linkat, libc::SYS_renameat2, libc::SYS_unlinkat];

/// System calls that create files and change inodes.
const CHANGES: &[c_long] = &[
    // Attributes are set by a name in the working directory.
    libc::SYS_fchdir,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_lsetxattr,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_setxattr,
    libc::SYS_symlinkat,
    libc::SYS_utimensat,
];

/// The system call number of `fchmodat2`, which is the same on every architecture.
const FCHMODAT2: c_long = 452;

/// Old system calls that the C library still makes on this architecture.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[c_long] = &[];

#[cfg(target_arch = "x86_64")]
const OLD_RENAMES: &[c_long] =
    &[libc::SYS_link, libc::SYS_rename, libc::SYS_renameat, libc::SYS_rmdir, libc::SYS_unlink];
#[cfg(target_arch = "aarch64")]
const OLD_RENAMES: &[c_long] = &[libc::SYS_renameat];
#[cfg(target_arch = "riscv64")]
const OLD_RENAMES: &[c_long] = &[];

#[cfg(target_arch = "x86_64")]
const OLD_CHANGES: &[c_long] = &[libc::SYS_mkdir, libc::SYS_symlink];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CHANGES: &[c_long] = &[];

/// Requests of ioctl(2) that are allowed: on terminals (size and mode), on block devices, and for
/// the flags of files. Requests that inject terminal input are not among them.
const IOCTLS: &[u64] = &[
    0x5401,      // TCGETS
    0x5413,      // TIOCGWINSZ
    0x1277,      // BLKDISCARD
    0x127f,      // BLKZEROOUT
    0x8008_1272, // BLKGETSIZE64
    0x8008_6601, // FS_IOC_GETFLAGS
    0x4008_6602, // FS_IOC_SETFLAGS
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x401c_5820, // FS_IOC_FSSETXATTR
];
