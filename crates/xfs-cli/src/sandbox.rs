//! The rights that a command gives up between opening what it names and reading the first byte of it.
//!
//! Owns: which rights those are. An image may come from anybody, so a fault in a parser must not become
//! a way to the rest of the machine: namespaces take away the names of the host, Landlock its files and network, a
//! seccomp filter what the process could otherwise ask of the kernel. Root loses its capabilities. All of it is for good. Does **not** own:
//! which directories a command still needs, which it says itself ([`Reach`]).

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod calls;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod calls {
    pub(super) const HAS_FILTER: bool = false;

    pub(super) fn filter(_: &super::Reach<'_>) -> Result<(), String> {
        Err(format!("there is no filter for {}", std::env::consts::ARCH))
    }
}
mod capabilities;
mod namespaces;

use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::io::Errno;

use crate::cli::SandboxWhen;
use crate::exit::Exit;
use crate::failure::Failure;
pub(crate) use namespaces::Namespaces;
use namespaces::Root;

/// The newest rights that are asked for; an older kernel takes away what it knows.
const NEWEST: ABI = ABI::V6;

/// What a command still needs of the host when everything that it names is open.
pub(crate) enum Reach<'a> {
    /// Only what is open.
    Nothing,
    /// That, rings of io_uring too, which can do no more than they were made for.
    OpenRings,
    /// That, and so much beneath this directory.
    Beneath(BorrowedFd<'a>, Rights),
    /// All of it: the command reads trees of the host, or starts programs.
    Host,
    /// All of it for the first thread; those that read the image enter by themselves.
    ByThread,
}

/// What may be done beneath a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Files that are open get and lose names.
    Names,
    /// Trees of files are made, read and replaced, by their names in an open directory.
    Trees,
    /// That, and devices are made: a way to every disk, for who may make them.
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

/// Gives up everything but `reach`, for this process.
///
/// # Errors
///
/// A refusal, where the sandbox is asked for and the kernel cannot give it. Where it is not, the
/// command goes on with what there is.
pub(crate) fn enter(reach: &Reach<'_>, when: SandboxWhen) -> Result<(), Failure> {
    let namespaces = match (when, reach) {
        (SandboxWhen::Never, _) | (_, Reach::ByThread) | (SandboxWhen::Auto, Reach::Host) => {
            return Ok(());
        }
        (SandboxWhen::Always, Reach::Host) => {
            return Err(refusal("this command needs the files of the host"));
        }
        (_, Reach::Nothing | Reach::OpenRings) => namespaces::enter(Root::Empty),
        // Files are given to owners whom a user namespace would not know. So these are root's alone.
        (_, Reach::Beneath(directory, rights)) => {
            let root = match rights {
                // They are called by whole paths.
                Rights::Names => Root::Same,
                Rights::Trees | Rights::TreesAndDevices => Root::Directory(*directory),
            };
            namespaces::enter(root).or_else(unless_root)
        }
    };
    give_up(reach, when, namespaces)
}

/// Gives up everything but `reach`, for this thread and those that it starts.
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
            give_up(reach, when, namespaces.join().or_else(unless_root))
        }
    }
}

/// That who is not root may not is no news.
fn unless_root(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::PERM { Ok(()) } else { Err(errno) }
}

/// Goes on in namespaces, or outside: inside Landlock nothing is mounted any more.
fn give_up(
    reach: &Reach<'_>,
    when: SandboxWhen,
    in_namespaces: Result<(), Errno>,
) -> Result<(), Failure> {
    let is_powerless = capabilities::keep(capabilities::needed(reach));
    let is_confined = confine(reach);
    let is_filtered = calls::filter(reach);
    if when == SandboxWhen::Auto {
        return Ok(());
    }
    in_namespaces.map_err(|errno| refusal(&format!("its namespaces: {errno}")))?;
    is_powerless.map_err(|errno| refusal(&format!("its capabilities: {errno}")))?;
    match is_confined {
        Ok(RulesetStatus::FullyEnforced) => {}
        Ok(_) => return Err(refusal("this kernel has no Landlock that keeps all of it")),
        Err(error) => return Err(refusal(&format!("Landlock: {}", cause(&error)))),
    }
    is_filtered.map_err(|error| refusal(&error))
}

/// Leaves of the file system no more than these rights beneath a directory, of the network nothing.
fn confine(reach: &Reach<'_>) -> Result<RulesetStatus, RulesetError> {
    let directory = match reach {
        Reach::Beneath(directory, rights) => Some((*directory, *rights)),
        _ => None,
    };
    let rule = |(directory, rights): (_, Rights)| {
        Ok::<_, RulesetError>(PathBeneath::new(directory, rights.accesses()))
    };
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(directory.into_iter().map(rule))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// What the system said below the error of a library, whose own words are not shown.
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
        .hint("--sandbox=never goes without it")
}

#[cfg(test)]
mod tests;
