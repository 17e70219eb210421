//! The rights that a command gives up between opening what it names and reading the first byte of it.
//!
//! Owns: which rights those are. An image may come from anybody, so a fault in a parser must not become
//! a way to the rest of the machine: Landlock takes away files and network, a seccomp filter what the
//! process could otherwise ask of the kernel. Both stay for good. Does **not** own: which directories a
//! command still needs, which it says itself ([`Reach`]).

mod calls;

use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use crate::cli::SandboxWhen;
use crate::exit::Exit;
use crate::failure::Failure;

/// The newest rights that are asked for; an older kernel takes away what it knows.
const NEWEST: ABI = ABI::V6;

/// What a command still needs of the host when everything that it names is open.
pub(crate) enum Reach<'a> {
    /// Only what is open, and the files beneath these directories.
    Beneath(Vec<BorrowedFd<'a>>),
    /// All of it: the command reads trees of the host, or starts programs.
    Host,
    /// All of it for the first thread; those that read the image enter by themselves.
    ByThread,
}

impl Reach<'_> {
    /// Only what is open.
    pub(crate) const NOTHING: Self = Self::Beneath(Vec::new());
}

/// Gives up everything but `reach`, for this thread and those that it starts.
///
/// # Errors
///
/// A refusal, where the sandbox is asked for and the kernel cannot give it. Where it is not, the
/// command goes on with what there is.
pub(crate) fn enter(reach: Reach<'_>, when: SandboxWhen) -> Result<(), Failure> {
    let directories = match (when, reach) {
        (SandboxWhen::Never, _) | (_, Reach::ByThread) | (SandboxWhen::Auto, Reach::Host) => {
            return Ok(());
        }
        (SandboxWhen::Always, Reach::Host) => {
            return Err(refusal("this command needs the files of the host"));
        }
        (_, Reach::Beneath(directories)) => directories,
    };
    let is_confined = confine(&directories);
    let is_filtered = calls::filter();
    if when == SandboxWhen::Auto {
        return Ok(());
    }
    match is_confined {
        Ok(RulesetStatus::FullyEnforced) => {}
        Ok(_) => return Err(refusal("this kernel has no Landlock that keeps all of it")),
        Err(error) => return Err(refusal(&error.to_string())),
    }
    is_filtered.map_err(|error| refusal(&error))
}

/// Leaves of the file system what is beneath `directories`, of the network nothing.
fn confine(directories: &[BorrowedFd<'_>]) -> Result<RulesetStatus, RulesetError> {
    let files = AccessFs::from_all(NEWEST);
    let rule = |directory| Ok::<_, RulesetError>(PathBeneath::new(directory, files));
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(files)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(directories.iter().map(rule))?
        .restrict_self()?;
    Ok(status.ruleset)
}

fn refusal(why: &str) -> Failure {
    Failure::new(Exit::Refused, format!("the sandbox: {why}"))
        .hint("--sandbox=never goes without it")
}

#[cfg(test)]
mod tests;
