//! Access control lists in operations: setting a list, chmod of a file that has a list, and
//! inheritance by new files.
//!
//! Owns: the rule that a list and the permission bits of a file change together, and the log space
//! and blocks that an operation reserves for lists. An operation knows how much to reserve only
//! after it has latched the inode. Does **not** own the meaning of a list ([`Acl`]).

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_dir::{NewAttribute, SetMode};
use xfs_format::attr::Namespace;
use xfs_format::inode::{FileType, InodeCore};
use xfs_format::reservation::TransactionKind;
use xfs_inode::LiveInode;
use xfs_trans::Transaction;

use super::attributes::{AttributePurpose, take_attribute};
use crate::acl::{Acl, AclKind, read_acl};
use crate::inode_flags::check_mutable;
use crate::kind::CachedInode;
use crate::leases::check_undelegated;
use crate::mount::Mount;
use crate::op_context::OpContext;
use crate::requests::CreateOptions;
use crate::watch::WatchEvents;

/// Sizes in bytes: the largest encoded access list and the largest default list for which a
/// transaction has reserved space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListRoom {
    access: usize,
    default: usize,
}

/// The outcome of an operation that may write ACLs.
pub(crate) enum Outcome<T> {
    Done(T),
    /// The operation has changed nothing, because it must write access control lists of these sizes
    /// and its transaction has reserved space for smaller lists only. The caller must repeat the
    /// operation with more space.
    RetryWith(ListRoom),
}

/// The access control lists that a file gets, encoded as values of attributes.
#[derive(Debug, Default)]
pub(crate) struct NewLists {
    access: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

impl NewLists {
    /// Encodes an access list. The result has no list if permission bits can express what the list
    /// grants.
    fn access(list: &Acl) -> Result<Self> {
        let access = (!list.is_minimal()).then(|| list.encode()).transpose()?;
        Ok(Self { access, default: None })
    }

    /// Returns the access control lists and the mode that a new file in a directory gets. The
    /// directory is latched.
    pub(crate) fn inherited(
        tx: &Transaction<'_>,
        directory: &CachedInode,
        file_type: FileType,
        creation: &CreateOptions,
    ) -> Result<(Self, u16)> {
        let CreateOptions { mode, umask, .. } = *creation;
        if file_type == FileType::Symlink {
            return Ok((Self::default(), mode));
        }
        let list = read_acl(tx.cache(), &directory.live().inode(), AclKind::Default)?;
        let Some(list) = list else { return Ok((Self::default(), mode & !umask)) };
        let (access, mode) = list.inherited(mode);
        let default = (file_type == FileType::Directory).then(|| list.encode()).transpose()?;
        Ok((Self { default, ..Self::access(&access)? }, mode))
    }

    /// Returns the access list of a file, changed so that it agrees with the permission bits of
    /// `mode`. The file is latched.
    pub(crate) fn changed(tx: &Transaction<'_>, file: &CachedInode, mode: u16) -> Result<Self> {
        match read_acl(tx.cache(), &file.live().inode(), AclKind::Access)? {
            Some(list) => Self::access(&list.with_mode(mode)),
            None => Ok(Self::default()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.access.is_none() && self.default.is_none()
    }

    /// Returns the sizes of these lists if they exceed `room`, the sizes for which the transaction
    /// has reserved space. Returns `None` if `room` suffices.
    pub(crate) fn lacks_room(&self, room: ListRoom) -> Option<ListRoom> {
        let length = |list: &Option<Vec<u8>>| list.as_ref().map_or(0, Vec::len);
        let needed = ListRoom { access: length(&self.access), default: length(&self.default) };
        let fits = needed.access <= room.access && needed.default <= room.default;
        (!fits).then_some(needed)
    }

    /// Changes the inode with `change`. If these lists include an access list, sets it in the same
    /// atomic step: after a crash both changes are present or both are absent.
    pub(crate) fn set_along(
        &self,
        tx: &mut Transaction<'_>,
        file: &Arc<LiveInode>,
        change: impl FnOnce(&mut InodeCore) + Send + 'static,
    ) -> Result<()> {
        let Some(value) = &self.access else {
            file.change(tx, change);
            return Ok(());
        };
        let list = attribute(AclKind::Access, value);
        xfs_dir::set_attribute_along(tx, file, &list, SetMode::Either, change)
    }

    /// Sets the access control lists of a file that is being made. A list that does not fit into
    /// the inode is set by a later step of the transaction.
    pub(crate) fn set(&self, tx: &mut Transaction<'_>, file: &Arc<LiveInode>) -> Result<()> {
        let lists = [(AclKind::Access, &self.access), (AclKind::Default, &self.default)];
        for (kind, value) in lists {
            let Some(value) = value else { continue };
            xfs_dir::set_attribute_on_new(tx, file, &attribute(kind, value))?;
        }
        Ok(())
    }
}

impl Mount {
    /// Runs an operation that may have to write access control lists, in a transaction. The first
    /// try reserves no room for lists. If `operate` returns [`Outcome::RetryWith`], the next try
    /// reserves the room that `operate` has asked for.
    pub(crate) fn transact_with_lists<T>(
        &self,
        kind: TransactionKind,
        blocks: u64,
        operate: impl Fn(&mut Transaction<'_>, ListRoom) -> Result<Outcome<T>>,
    ) -> Result<T> {
        let mut room = ListRoom::default();
        loop {
            let tx = self.begin_with_lists(kind, blocks, room)?;
            let ended = tx.commit_or_break(|tx| {
                Ok(match operate(tx, room)? {
                    Outcome::Done(value) => ControlFlow::Continue(value),
                    Outcome::RetryWith(needed) => ControlFlow::Break(needed),
                })
            })?;
            match ended {
                ControlFlow::Continue(value) => return Ok(value),
                ControlFlow::Break(needed) => room = needed,
            }
        }
    }

    fn begin_with_lists(
        &self,
        kind: TransactionKind,
        mut blocks: u64,
        room: ListRoom,
    ) -> Result<Transaction<'_>> {
        if room == ListRoom::default() {
            return self.begin(kind, blocks);
        }
        let lists = [(AclKind::Access, room.access), (AclKind::Default, room.default)];
        for (list, bytes) in lists.into_iter().filter(|(_, bytes)| *bytes > 0) {
            blocks += xfs_dir::attribute_blocks(self.geometry(), list.name().len(), bytes);
        }
        self.with_room(|| self.journal.begin_with_attributes(kind, blocks))
    }
}

impl OpContext<'_> {
    /// Sets or removes an access control list. An access list also sets the permission bits.
    pub fn set_acl(&self, file: &CachedInode, kind: AclKind, list: Option<&Acl>) -> Result<()> {
        match (file.live().inode().file_type(), kind, list) {
            (FileType::Symlink, ..) => return Err(PosixError::NotSupported.into()),
            (FileType::Directory, ..) | (_, AclKind::Access, _) => {}
            (_, AclKind::Default, list) => {
                check_mutable(&file.core())?;
                let refused = list.map_or(Ok(()), |_| Err(PosixError::AccessDenied.into()));
                return refused;
            }
        }
        let bits = list.filter(|_| kind == AclKind::Access).map(Acl::mode_bits);
        let purpose = AttributePurpose::List { bits };
        let kept = list.filter(|list| kind == AclKind::Default || !list.is_minimal());
        if let Some(list) = kept {
            let encoded = list.encode();
            if encoded.is_err() {
                // The on-disk form is larger than the caller's. Check its size only after the
                // permission check.
                let _latch = file.live().log_item().latch().shared();
                self.check_attribute(file, Namespace::Trusted, kind.name(), purpose)?;
            }
            let value = encoded?;
            return self.put_attribute(file, &attribute(kind, &value), SetMode::Either, purpose);
        }
        self.undelegated(&[file], || self.remove_acl(file, kind, purpose))?;
        self.mount.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    /// Removes an access control list, and changes the permission bits as `purpose` says.
    fn remove_acl(
        &self,
        file: &CachedInode,
        kind: AclKind,
        purpose: AttributePurpose,
    ) -> Result<()> {
        let blocks = xfs_dir::attribute_blocks(self.mount.geometry(), kind.name().len(), 0);
        self.mount.transact(TransactionKind::RemoveAttr, blocks, |tx| {
            tx.join(file.live().log_item());
            self.check_attribute(file, Namespace::Trusted, kind.name(), purpose)?;
            check_undelegated(file)?;
            let was_there = take_attribute(tx, file, Namespace::Trusted, kind.name())?;
            if was_there || purpose.sets_bits() {
                let (mode, now) =
                    (purpose.changed_mode(&file.core(), self.caller), self.mount.clock.now());
                file.live().change(tx, |core| (core.mode, core.change_time) = (mode, now));
            }
            Ok(())
        })
    }
}

fn attribute(kind: AclKind, value: &[u8]) -> NewAttribute<'_> {
    NewAttribute { namespace: Namespace::Trusted, name: kind.name(), value }
}

#[cfg(test)]
mod tests;
