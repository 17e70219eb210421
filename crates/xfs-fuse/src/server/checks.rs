//! Checking permissions in the place of the kernel (`nodefault_permissions`).
//!
//! Each request that depends on rights acts on the volume as its caller
//! ([`Volume::as_user`](ferroxfs::Volume::as_user)). What works by an open file or directory does not: it was asked for when
//! that was opened. docs/internals/mount.md has a table of requests.
//!
//! Owns: as whom a request acts; opening and access(2), and what the kernel would open without asking. Does **not** own: the
//! rules, which are the library's; what is known of callers ([`caller`](super::caller)).
//!
//! # Invariants
//!
//! - **I1** The kernel believes no name without asking: names, and missing ones, are told to be valid for no time,
//!   since it does not look at who may search a directory. So whoever goes by a name is looked at.
//! - **I2** OPEN, OPENDIR and ACCESS are never answered by ENOSYS, by which the kernel would go on without.
//! - **I3** Handles belong to who may do everything, and only by one is a file read or written.

use std::io;

use ferroxfs::format::inode::FileType;
use ferroxfs::{Access, Capabilities, Credentials, Node, Volume};
use rustix::fs::OFlags;
use rustix::io::Errno;
use xfs_sync::{Mutex, Slot, Slots};

use super::caller::{CallerRights, Callers, ProcAccess};
use super::{Server, VALID, errno};
use crate::transport::wire::{AccessIn, OpenOut};
use crate::transport::{Reply, Request};

/// As how many callers a slot remembers the volume. Most mounts have one.
const MOST_USERS: usize = 4;
/// Of OPEN: to execute what is in the file.
#[doc(alias = "__FMODE_EXEC")]
const OPEN_TO_EXECUTE: u32 = 0x20;

/// Who checks whether a caller may do what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// The kernel, by owners, modes and access control lists that it is told.
    #[default]
    #[doc(alias = "default_permissions")]
    Kernel,
    /// The server.
    #[doc(alias = "nodefault_permissions")]
    Server,
}

/// The volume as somebody.
struct UserVolume {
    credentials: Credentials,
    volume: Volume,
}

/// What a server has that checks permissions.
pub(super) struct Checker {
    callers: Callers,
    /// The last ones, newest first.
    users: Slots<Mutex<Vec<UserVolume>, Slot>>,
}

impl Checker {
    /// # Errors
    ///
    /// What keeps this process from seeing who callers are.
    pub(super) fn new(by: ProcAccess) -> io::Result<Self> {
        let users = Slots::new(|| Mutex::new(Vec::new()));
        Ok(Self { callers: Callers::new(by)?, users })
    }

    /// The volume as somebody.
    fn volume_as(&self, volume: &Volume, credentials: Credentials) -> Volume {
        let mut users = self.users.mine().lock();
        let place = users.iter().position(|user| user.credentials == credentials);
        let user = match place {
            Some(place) => users.remove(place),
            None => {
                users.truncate(MOST_USERS - 1);
                let volume = volume.as_user(credentials.clone());
                UserVolume { credentials, volume }
            }
        };
        let volume = user.volume.clone();
        users.insert(0, user);
        volume
    }
}

/// Who asks for something.
pub(super) struct RequestContext<'a> {
    server: &'a Server,
    /// `None` where the kernel has checked it.
    caller: Option<CheckedCaller>,
}

/// A caller that has to be looked at.
struct CheckedCaller {
    volume: Volume,
    capabilities: Capabilities,
}

impl RequestContext<'_> {
    /// The volume as who asks.
    pub(super) fn volume(&self) -> &Volume {
        self.caller.as_ref().map_or(&self.server.volume, |caller| &caller.volume)
    }

    /// The inode of a node, for who asks.
    pub(super) fn node(&self, node: u64) -> Result<Node, Errno> {
        let node = self.server.node(node)?;
        match &self.caller {
            Some(caller) => node.acting_as(&caller.volume).map_err(errno),
            None => Ok(node),
        }
    }

    /// Whether who asks has a capability; `None` where only the kernel knows.
    pub(super) fn has(&self, capability: Capabilities) -> Option<bool> {
        self.caller.as_ref().map(|caller| caller.capabilities.contains(capability))
    }

    /// Whether who has looked a file up may be told of it. The kernel opens pipes, and connects to sockets,
    /// without a word to us: they are for those alone who may do that in any manner.
    pub(super) fn check_found(&self, node: &Node) -> Result<(), Errno> {
        let wanted = match node.file_type() {
            _ if self.caller.is_none() => return Ok(()),
            FileType::Fifo => Access::READ | Access::WRITE,
            FileType::Socket => Access::WRITE,
            _ => return Ok(()),
        };
        node.access(wanted).map_err(errno)
    }
}

impl Server {
    /// Whether permissions are checked here.
    pub(super) fn is_checking(&self) -> bool {
        self.checker.is_some()
    }

    /// Who has sent a request.
    pub(super) fn context(&self, request: &Request<'_>) -> RequestContext<'_> {
        let caller = self.checker.as_ref().map(|checker| {
            let rights = checker.callers.rights(request);
            self.checked_caller(checker, credentials(request, &rights), rights.capabilities)
        });
        RequestContext { server: self, caller }
    }

    /// The same, for who gives a file a further name.
    pub(super) fn context_for_link(&self, request: &Request<'_>) -> RequestContext<'_> {
        let caller = self.checker.as_ref().map(|checker| {
            let rights = checker.callers.rights(request);
            let credentials = credentials(request, &rights);
            let credentials = credentials.protect_hard_links(checker.callers.protects_hard_links());
            self.checked_caller(checker, credentials, rights.capabilities)
        });
        RequestContext { server: self, caller }
    }

    fn checked_caller(
        &self,
        checker: &Checker,
        credentials: Credentials,
        capabilities: Capabilities,
    ) -> CheckedCaller {
        CheckedCaller { volume: checker.volume_as(&self.volume, credentials), capabilities }
    }

    /// The same file, for who may do everything: handles are, and what is kept for the kernel.
    pub(super) fn for_all(&self, node: Node) -> Result<Node, Errno> {
        if self.is_checking() { node.acting_as(&self.volume).map_err(errno) } else { Ok(node) }
    }

    /// How long the kernel believes a name.
    pub(super) fn name_valid_seconds(&self) -> u64 {
        if self.is_checking() { 0 } else { VALID.as_secs() }
    }

    /// Whether a file may be opened with these flags.
    pub(super) fn check_open(&self, request: &Request<'_>, flags: u32) -> Result<(), Errno> {
        if !self.is_checking() {
            return Ok(());
        }
        let node = self.context(request).node(request.node())?;
        node.access(access_of(flags)).map_err(errno)
    }

    /// Nothing is kept for an open directory. On a volume that the kernel guards it need not ask.
    pub(super) fn open_directory(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        if !self.is_checking() {
            return Err(Errno::NOSYS);
        }
        let node = self.context(request).node(request.node())?;
        node.access(Access::READ).map_err(errno)?;
        // Without a flag for it the kernel does not list from its cache.
        reply.add(&OpenOut::default());
        Ok(())
    }

    /// access(2), and going to a directory. The kernel does not say which, and of access(2) not whose rights are meant:
    /// they are those in effect.
    pub(super) fn access(&self, request: &Request<'_>) -> Result<(), Errno> {
        if !self.is_checking() {
            return Err(Errno::NOSYS);
        }
        let (wanted, _) = request.argument::<AccessIn>()?;
        let node = self.context(request).node(request.node())?;
        node.access(Access::from_bits_truncate(wanted.mask as u16)).map_err(errno)
    }
}

/// Whom permissions are checked for.
fn credentials(request: &Request<'_>, rights: &CallerRights) -> Credentials {
    Credentials::new(request.uid(), request.gid())
        .groups(rights.groups.iter().copied())
        .capabilities(rights.capabilities)
}

/// What opening a file with these flags takes.
#[doc(alias = "ACC_MODE")]
fn access_of(flags: u32) -> Access {
    if flags & OPEN_TO_EXECUTE != 0 {
        return Access::EXECUTE;
    }
    match OFlags::from_bits_retain(flags) & OFlags::RWMODE {
        OFlags::RDONLY => Access::READ,
        OFlags::WRONLY => Access::WRITE,
        // The fourth one is for ioctl(2) alone, and takes both.
        _ => Access::READ | Access::WRITE,
    }
}

#[cfg(test)]
mod tests;
