//! The rules of Linux that decide which access to a file a caller has.
//!
//! Owns: the rules, as functions of the caller and the file. Does **not** own: when the rules are
//! checked and under which latch (`ops`, `Node`), or operations that the flags of an inode forbid
//! to every caller (`inode_flags`).
//!
//! Operations of a caller without credentials run with the rights of root, to which no rule
//! applies.

mod attributes;
mod changes;
mod names;

use std::convert::Infallible;

use bitflags::bitflags;
use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::acl::AclTag;
use xfs_format::inode::{InodeCore, InodeFlags};
use xfs_icache::Rights;
use xfs_inode::Inode;

use crate::acl::{Acl, AclKind, read_acl};
use crate::credentials::{Capabilities, Credentials};
use crate::mode_bits;

pub(crate) use attributes::CAPABILITIES;
pub use attributes::{AttributeUse, QualifiedName};

bitflags! {
    /// The access to a file that a caller requests. A request for no access is always granted.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[doc(alias = "access")]
    pub struct Access: u16 {
        /// Execute a file, search a directory.
        const EXECUTE = 1;
        /// Write a file; add and remove names in a directory.
        const WRITE = 2;
        /// Read a file, list a directory.
        const READ = 4;
    }
}

impl Access {
    /// The access to a directory that a caller needs to add and remove names.
    pub(crate) const CHANGE_NAMES: Self = Self::WRITE.union(Self::EXECUTE);
}

/// Returns the permission bits of one class (owner, group or others) as an access: the mode of the
/// file, shifted right by `shift`.
fn class(file: Rights, shift: u16) -> Access {
    Access::from_bits_truncate(file.mode >> shift)
}

/// The caller of an operation: the credentials to check, if any.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a>(Option<&'a Credentials>);

impl<'a> Caller<'a> {
    /// Creates a caller with these credentials. With `None`, the caller may do everything.
    pub fn new(credentials: Option<&'a Credentials>) -> Self {
        Self(credentials)
    }

    /// Returns the credentials to check, or `None` if the caller may do everything.
    pub fn credentials(self) -> Option<&'a Credentials> {
        self.0
    }

    /// Returns whether the caller has a capability.
    #[must_use]
    pub fn has(self, capability: Capabilities) -> bool {
        self.0.is_none_or(|me| me.has(capability))
    }

    /// Checks that the caller has a capability.
    pub fn require(self, capability: Capabilities) -> Result<()> {
        if self.has(capability) { Ok(()) } else { Err(PosixError::NotPermitted.into()) }
    }

    /// Checks the caller's access to a file. The caller of this function keeps the inode from
    /// changing meanwhile.
    #[doc(alias = "inode_permission")]
    pub fn check(self, cache: &BufferCache, inode: &Inode, wanted: Access) -> Result<()> {
        match self.0 {
            Some(me) => me.check(cache, inode, wanted),
            None => Ok(()),
        }
    }

    /// Checks that the caller owns the inode, or has the same power by `CAP_FOWNER`.
    #[doc(alias = "inode_owner_or_capable")]
    pub fn check_owner(self, core: &InodeCore) -> Result<()> {
        let is_owner = self.0.is_none_or(|me| me.is_as_owner(core));
        if is_owner { Ok(()) } else { Err(PosixError::NotPermitted.into()) }
    }
}

/// Checks the access of the user `me` to a file. An immutable file cannot be written by any caller.
pub fn check_access(
    me: &Credentials,
    cache: &BufferCache,
    inode: &Inode,
    wanted: Access,
) -> Result<()> {
    me.check(cache, inode, wanted)
}

/// Returns whether mode bits or capabilities grant the access `wanted` to a file that has no access
/// control list.
pub fn grants_without_list(me: &Credentials, file: Rights, wanted: Access) -> bool {
    let Ok(may) = me.may(file, wanted, || Ok::<_, Infallible>(None));
    may
}

impl Credentials {
    /// Checks access to a file. No credentials allow a write to an immutable file.
    pub(crate) fn check(&self, cache: &BufferCache, inode: &Inode, wanted: Access) -> Result<()> {
        let core = inode.core();
        if wanted.contains(Access::WRITE) && core.flags.contains(InodeFlags::IMMUTABLE) {
            return Err(PosixError::NotPermitted.into());
        }
        let list = || read_acl(cache, inode, AclKind::Access);
        match self.may(core.into(), wanted, list)? {
            true => Ok(()),
            false => Err(PosixError::AccessDenied.into()),
        }
    }

    /// Returns whether the permission bits, the access control list or a capability grant access.
    /// `list` reads the list of the file, and is called only if the result depends on it.
    #[doc(alias = "generic_permission")]
    pub(crate) fn may<E>(
        &self,
        file: Rights,
        wanted: Access,
        list: impl FnOnce() -> Result<Option<Acl>, E>,
    ) -> Result<bool, E> {
        Ok(self.is_granted(file, wanted, list)? || self.overrides(file, wanted))
    }

    /// Returns whether the permission bits or the access control list grant access. Capabilities
    /// are not considered. As in Linux, but unlike acl(5), a list with an empty mask is ignored,
    /// and the permission bits decide.
    fn is_granted<E>(
        &self,
        file: Rights,
        wanted: Access,
        list: impl FnOnce() -> Result<Option<Acl>, E>,
    ) -> Result<bool, E> {
        if self.uid() == file.uid {
            return Ok(class(file, 6).contains(wanted));
        }
        if file.mode & mode_bits::GROUP != 0
            && let Some(list) = list()?
        {
            return Ok(self.is_granted_by(&list, file.gid, wanted));
        }
        let shift = if self.is_in_group(file.gid) { 3 } else { 0 };
        Ok(class(file, shift).contains(wanted))
    }

    /// Returns whether the access control list of a file grants access to this user. `gid` is the
    /// group of the file. The user is not the owner of the file.
    #[doc(alias = "posix_acl_permission")]
    fn is_granted_by(&self, list: &Acl, gid: u32, wanted: Access) -> bool {
        let grants = |permissions| Access::from_bits_truncate(permissions).contains(wanted);
        let entries = list.entries();
        let of = |tag| entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions);
        let passes_mask = of(AclTag::Mask).is_none_or(grants);
        if let Some(permissions) = of(AclTag::User(self.uid())) {
            return passes_mask && grants(permissions);
        }
        let is_mine = |tag| match tag {
            AclTag::OwningGroup => self.is_in_group(gid),
            AclTag::Group(group) => self.is_in_group(group),
            _ => false,
        };
        let mut mine = entries.iter().filter(|entry| is_mine(entry.tag)).peekable();
        if mine.peek().is_some() {
            return passes_mask && mine.any(|entry| grants(entry.permissions));
        }
        of(AclTag::Other).is_some_and(grants)
    }

    fn overrides(&self, file: Rights, wanted: Access) -> bool {
        let is_directory = file.is_directory();
        let only_looks =
            if is_directory { !wanted.contains(Access::WRITE) } else { wanted == Access::READ };
        let can_be_done = is_directory
            || !wanted.contains(Access::EXECUTE)
            || file.mode & mode_bits::EXECUTE != 0;
        only_looks && self.has(Capabilities::DAC_READ_SEARCH)
            || can_be_done && self.has(Capabilities::DAC_OVERRIDE)
    }

    pub(crate) fn is_as_owner(&self, core: &InodeCore) -> bool {
        self.uid() == core.uid || self.has(Capabilities::FOWNER)
    }

    /// Returns whether the user may set the set-group-ID bit on a file of group `gid`, and may
    /// change such a file without clearing the bit.
    #[doc(alias = "in_group_or_capable")]
    fn may_lend_group(&self, gid: u32) -> bool {
        self.is_in_group(gid) || self.has(Capabilities::FSETID)
    }
}
