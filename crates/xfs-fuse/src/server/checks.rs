//! Permission checks that the server makes in place of the kernel (`nodefault_permissions`).
//!
//! Each request that depends on permissions acts on the volume as its caller
//! ([`Volume::as_user`](ferroxfs::Volume::as_user)). A request on an open file or directory acts
//! with all rights, because the caller was checked at the open. docs/internals/mount.md has a table
//! of requests.
//!
//! Owns: the identity under which a request acts, the checks of open(2) and access(2), and checks
//! for objects that the kernel opens without asking the server. Does **not** own: the rules, which
//! are the library's, and the rights of callers ([`caller`](super::caller)).
//!
//! # Invariants
//!
//! - **I1** The kernel caches no name: existing and missing names are valid for no time. The kernel
//!   does not check search permission, so each use of a name must reach the server.
//! - **I2** OPEN, OPENDIR and ACCESS are never answered with ENOSYS, after which the kernel would
//!   continue without a check.
//! - **I3** Handles act with all rights, and a file is read or written only through a handle.

use std::io;

use ferroxfs::FileType;
use ferroxfs::{Access, Capabilities, Credentials, Node, Volume};
use rustix::fs::OFlags;
use rustix::io::Errno;
use xfs_sync::{Mutex, Slot, Slots};

use super::caller::{CallerRights, Callers, ProcAccess};
use super::{Server, VALID, errno};
use crate::transport::wire::{AccessIn, OpenOut};
use crate::transport::{Reply, Request};

/// The largest number of views that each per-CPU slot caches. A view is the volume with the
/// permissions of one user. Most mounts have one user.
const MOST_USERS: usize = 4;
/// Flag of OPEN: the caller is about to execute the file.
#[doc(alias = "__FMODE_EXEC")]
const OPEN_TO_EXECUTE: u32 = 0x20;

/// A view of the volume with the permissions of one user.
struct UserVolume {
    credentials: Credentials,
    volume: Volume,
}

/// The state that a server needs to check permissions itself.
pub(super) struct Checker {
    callers: Callers,
    /// The cached views of the volume, one for each user, in a list for each per-CPU slot. The view
    /// that was used last comes first.
    users: Slots<Mutex<Vec<UserVolume>, Slot>>,
}

impl Checker {
    /// Creates a checker. `by` says whether the workers or a helper thread look up the rights of
    /// callers in /proc.
    ///
    /// # Errors
    ///
    /// The error of opening /proc or of starting the helper thread.
    pub(super) fn new(by: ProcAccess) -> io::Result<Self> {
        let users = Slots::new(|| Mutex::new(Vec::new()));
        Ok(Self { callers: Callers::new(by)?, users })
    }

    /// Returns a view of the volume with the permissions of a user.
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

/// The server as one request may use it. If the server checks permissions, the request acts with
/// the permissions of its caller.
pub(super) struct RequestContext<'a> {
    server: &'a Server,
    /// The caller whose permissions are checked. `None` if the kernel has checked them.
    caller: Option<CheckedCaller>,
}

/// A caller whose permissions the server checks.
struct CheckedCaller {
    volume: Volume,
    capabilities: Capabilities,
}

impl RequestContext<'_> {
    /// Returns the volume with the permissions of the caller.
    pub(super) fn volume(&self) -> &Volume {
        self.caller.as_ref().map_or(&self.server.volume, |caller| &caller.volume)
    }

    /// Returns the inode of the node that the kernel calls `node`, with the permissions of the
    /// caller.
    pub(super) fn node(&self, node: u64) -> Result<Node, Errno> {
        let node = self.server.node(node)?;
        match &self.caller {
            Some(caller) => node.acting_as(&caller.volume).map_err(errno),
            None => Ok(node),
        }
    }

    /// Returns whether the caller has all of these capabilities. `None` if the kernel checks
    /// permissions, because then only the kernel knows.
    pub(super) fn has(&self, capability: Capabilities) -> Option<bool> {
        self.caller.as_ref().map(|caller| caller.capabilities.contains(capability))
    }

    /// Returns an error if a lookup must not show the file to the caller. The kernel opens pipes
    /// and connects to sockets without asking the server. Therefore a lookup shows a pipe or a
    /// socket only to callers that may open it or connect to it.
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
    /// Returns whether this server checks permissions.
    pub(super) fn is_checking(&self) -> bool {
        self.checker.is_some()
    }

    /// Returns the context in which a request is served. If the server checks permissions, the
    /// context has the permissions of the request's caller.
    pub(super) fn context(&self, request: &Request<'_>) -> RequestContext<'_> {
        let caller = self.checker.as_ref().map(|checker| {
            let rights = checker.callers.rights(request);
            self.checked_caller(checker, credentials(request, &rights), rights.capabilities)
        });
        RequestContext { server: self, caller }
    }

    /// Returns the context of a request that adds a hard link. If this machine restricts hard links
    /// to files of other users, the context checks that restriction too.
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

    /// Returns the file of `node` with all rights, for a handle or for an unlinked node that the
    /// server keeps (I3).
    pub(super) fn with_all_rights(&self, node: Node) -> Result<Node, Errno> {
        // I3: handles act with all rights.
        if self.is_checking() { node.acting_as(&self.volume).map_err(errno) } else { Ok(node) }
    }

    /// Returns how many seconds the kernel may cache a name. It is 0 if the server checks
    /// permissions (I1).
    pub(super) fn name_valid_seconds(&self) -> u64 {
        // I1: the kernel caches no name.
        if self.is_checking() { 0 } else { VALID.as_secs() }
    }

    /// Returns an error if the caller may not open the file with these flags.
    pub(super) fn check_open(&self, request: &Request<'_>, flags: u32) -> Result<(), Errno> {
        if !self.is_checking() {
            return Ok(());
        }
        let node = self.context(request).node(request.node())?;
        node.access(access_of(flags)).map_err(errno)
    }

    /// Serves OPENDIR. The server keeps nothing for an open directory. If the kernel checks
    /// permissions, the answer is ENOSYS, and the kernel sends no further OPENDIR. If the server
    /// checks them, it must receive every OPENDIR, so it never answers ENOSYS (I2).
    pub(super) fn open_directory(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        // I2: ENOSYS only without checks.
        if !self.is_checking() {
            return Err(Errno::NOSYS);
        }
        let node = self.context(request).node(request.node())?;
        node.access(Access::READ).map_err(errno)?;
        // Without a flag for it, the kernel does not list from its cache.
        reply.add(&OpenOut::default());
        Ok(())
    }

    /// Serves ACCESS, which stands for access(2) or for chdir(2). The request does not say for
    /// which of the two. The request does not have the real IDs that access(2) uses, so the check
    /// uses the effective IDs.
    pub(super) fn access(&self, request: &Request<'_>) -> Result<(), Errno> {
        if !self.is_checking() {
            return Err(Errno::NOSYS);
        }
        let (wanted, _) = request.argument::<AccessIn>()?;
        let node = self.context(request).node(request.node())?;
        node.access(Access::from_bits_truncate(wanted.mask as u16)).map_err(errno)
    }
}

/// Returns the credentials of a request's caller.
fn credentials(request: &Request<'_>, rights: &CallerRights) -> Credentials {
    Credentials::new(request.uid(), request.gid())
        .groups(rights.groups.iter().copied())
        .capabilities(rights.capabilities)
}

/// Returns the permission that opening a file with these flags needs.
#[doc(alias = "ACC_MODE")]
fn access_of(flags: u32) -> Access {
    if flags & OPEN_TO_EXECUTE != 0 {
        return Access::EXECUTE;
    }
    match OFlags::from_bits_retain(flags) & OFlags::RWMODE {
        OFlags::RDONLY => Access::READ,
        OFlags::WRONLY => Access::WRITE,
        // The fourth mode is for ioctl(2) only, and needs both permissions.
        _ => Access::READ | Access::WRITE,
    }
}

#[cfg(test)]
mod tests;
