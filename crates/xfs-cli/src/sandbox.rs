//! The rights that a command gives up after it has opened what it needs and before it reads an
//! image.
//!
//! Owns: the list of these rights. An image may come from an attacker, so a bug in a parser must
//! not give access to the machine beyond the image. Namespaces hide the file names of the host,
//! Landlock denies access to its files and network, and a seccomp filter denies the remaining
//! system calls. Root loses its capabilities. None of these steps can be undone. Does **not** own:
//! the choice of the rights that a command still needs, which the command itself names ([`Reach`]).

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod calls;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod calls {
    pub(super) const HAS_FILTER: bool = false;

    pub(super) fn filter<R>(_: &R, _: &[u16]) -> Result<(), String> {
        Err(format!("there is no filter for {}", std::env::consts::ARCH))
    }
}
mod capabilities;
mod namespaces;

use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::io::Errno;

use crate::cli::options::SandboxWhen;
use crate::exit::Exit;
use crate::failure::Failure;
pub(crate) use namespaces::Namespaces;
use namespaces::Root;

/// The version of Landlock whose access rights are restricted. An older kernel restricts only the
/// rights that it knows.
const NEWEST: ABI = ABI::V6;

/// The rights on the host that a command needs after it has opened everything.
pub(crate) enum Reach<'a> {
    /// Access only to files that are already open.
    Nothing,
    /// Access only to files that are already open, and to open rings of io_uring. The rings are
    /// restricted to the operations that they were made for.
    OpenRings,
    /// Access to files that are already open, and these rights beneath this directory.
    Beneath(BorrowedFd<'a>, Rights),
    /// Access to files that are already open, and [`Rights::Names`] beneath both directories.
    NamesBeneath([BorrowedFd<'a>; 2]),
    /// All rights, because the command reads trees of the host or starts programs.
    Host,
    /// All rights for the first thread. The threads that read the image enter the sandbox by
    /// themselves.
    ByThread,
}

/// Operations that are allowed beneath a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Giving names to open files, and removing names.
    Names,
    /// Creating, reading and replacing trees of files, by name in an open directory.
    Trees,
    /// The rights of [`Trees`](Self::Trees), and creating devices. A process with this right can
    /// reach every disk.
    TreesAndDevices,
}

impl Rights {
    fn accesses(self) -> BitFlags<AccessFs> {
        let devices = AccessFs::MakeBlock | AccessFs::MakeChar;
        let trees = AccessFs::from_all(NEWEST) & !(AccessFs::Execute | AccessFs::IoctlDev);
        match self {
            Self::Names => AccessFs::MakeReg | AccessFs::RemoveFile,
            Self::Trees => trees & !devices,
            Self::TreesAndDevices => trees,
        }
    }
}

/// Gives up all rights of this process, except those of `reach` and the right to connect to these
/// TCP ports.
///
/// # Errors
///
/// A refusal if the sandbox is required and the kernel cannot provide all of it. If the sandbox is
/// not required, the command continues with the protection that the kernel has.
pub(crate) fn enter(reach: &Reach<'_>, when: SandboxWhen, ports: &[u16]) -> Result<(), Failure> {
    let namespaces = match (when, reach) {
        (SandboxWhen::Never, _) | (_, Reach::ByThread) | (SandboxWhen::Auto, Reach::Host) => {
            return Ok(());
        }
        (SandboxWhen::Always, Reach::Host) => {
            return Err(refusal("this command needs the files of the host"));
        }
        (_, Reach::Nothing | Reach::OpenRings) => namespaces::enter(Root::Empty, ports),
        // Files are given to owners that a user namespace would not know. So only root enters
        // these.
        (_, Reach::Beneath(directory, rights)) => {
            let root = match rights {
                // These commands use absolute paths.
                Rights::Names => Root::Same,
                Rights::Trees | Rights::TreesAndDevices => Root::Directory(*directory),
            };
            namespaces::enter(root, ports).or_else(unless_root)
        }
        (_, Reach::NamesBeneath(_)) => namespaces::enter(Root::Same, ports).or_else(unless_root),
    };
    give_up(reach, when, ports, namespaces)
}

/// Gives up all rights of this thread and of the threads that it starts, except those of `reach`
/// and the right to connect to the ports of `namespaces`.
///
/// # Errors
///
/// As for [`enter`].
pub(crate) fn enter_thread(
    reach: &Reach<'_>,
    when: SandboxWhen,
    namespaces: &Namespaces,
) -> Result<(), Failure> {
    match when {
        SandboxWhen::Never => Ok(()),
        SandboxWhen::Auto | SandboxWhen::Always => {
            give_up(reach, when, namespaces.ports(), namespaces.join().or_else(unless_root))
        }
    }
}

/// Ignores `EPERM` from entering namespaces: a user other than root may lack the right to enter
/// them, and the process then continues without. Passes on any other error.
fn unless_root(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::PERM { Ok(()) } else { Err(errno) }
}

/// Gives up capabilities, files, network and system calls, except those that `reach` and
/// connections to `ports` need. Namespaces must be entered before this call, because nothing can be
/// mounted inside Landlock. `in_namespaces` is the result of entering them.
fn give_up(
    reach: &Reach<'_>,
    when: SandboxWhen,
    ports: &[u16],
    in_namespaces: Result<(), Errno>,
) -> Result<(), Failure> {
    let is_powerless = capabilities::keep(capabilities::needed(reach));
    let is_confined = confine(reach, ports);
    let is_filtered = calls::filter(reach, ports);
    if when == SandboxWhen::Auto {
        return Ok(());
    }
    in_namespaces.map_err(|errno| refusal(&format!("its namespaces: {errno}")))?;
    is_powerless.map_err(|errno| refusal(&format!("its capabilities: {errno}")))?;
    match is_confined {
        Ok(RulesetStatus::FullyEnforced) => {}
        Ok(_) => return Err(refusal("Landlock of this kernel lacks some of its rules")),
        Err(error) => return Err(refusal(&format!("Landlock: {}", cause(&error)))),
    }
    is_filtered.map_err(|error| refusal(&error))
}

/// Restricts the filesystem to the rights of `reach` beneath its directories, and the network to
/// connections to `ports`.
fn confine(reach: &Reach<'_>, ports: &[u16]) -> Result<RulesetStatus, RulesetError> {
    let directories = match reach {
        Reach::Beneath(directory, rights) => vec![(*directory, *rights)],
        Reach::NamesBeneath(both) => both.map(|directory| (directory, Rights::Names)).to_vec(),
        _ => Vec::new(),
    };
    let rule = |(directory, rights): (_, Rights)| {
        Ok::<_, RulesetError>(PathBeneath::new(directory, rights.accesses()))
    };
    let connection = |port: &u16| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp));
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(directories.into_iter().map(rule))?
        .add_rules(ports.iter().map(connection))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// Returns the error of the system that caused the error of a library. The library's own wording is
/// not shown.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.to_string();
        }
        at = error.source();
    }
    "this kernel refuses the rules".to_owned()
}

fn refusal(why: &str) -> Failure {
    Failure::new(Exit::Refused, format!("the sandbox: {why}"))
        .hint("--sandbox=never runs without it")
}

#[cfg(test)]
mod tests;
