//! Extended attributes, and the privileges that a file loses by a write.
//!
//! Owns: valid names and values, permissions to change attributes, and the changes of the inode
//! that go with them. Does **not** own how attributes are stored (`xfs-dir`), or access control
//! lists ([`acl`](super::acl)).

use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::{Attributes, NewAttribute, SetMode};
use xfs_format::attr::Namespace;
use xfs_format::inode::{FileType, InodeCore};
use xfs_format::reservation::TransactionKind;
use xfs_trans::{Journal, QuotaAmount, QuotaOwners, Transaction};

use crate::inode_flags::{check_mutable, check_not_immutable};
use crate::kind::CachedInode;
use crate::leases::check_undelegated;
use crate::mode_bits;
use crate::op_context::OpContext;
use crate::permission::{AttributeUse, CAPABILITIES, Caller, QualifiedName};
use crate::watch::WatchEvents;

/// The longest value of an attribute, in bytes.
const MAX_VALUE_BYTES: usize = 64 << 10;
/// The longest name of an attribute, in bytes, without its namespace.
const MAX_ATTRIBUTE_NAME_BYTES: usize = 255;

impl OpContext<'_> {
    /// Sets an attribute, given by its name on disk.
    pub fn set_attribute(
        &self,
        file: &CachedInode,
        attribute: &NewAttribute<'_>,
        mode: SetMode,
    ) -> Result<()> {
        self.put_attribute(file, attribute, mode, AttributePurpose::Value)
    }

    /// Sets an attribute, and changes the mode and the change time of the inode as `purpose` says.
    pub(crate) fn put_attribute(
        &self,
        file: &CachedInode,
        attribute: &NewAttribute<'_>,
        mode: SetMode,
        purpose: AttributePurpose,
    ) -> Result<()> {
        if attribute.name.is_empty() {
            return Err(PosixError::InvalidArgument.into());
        }
        if attribute.name.len() > MAX_ATTRIBUTE_NAME_BYTES {
            return Err(PosixError::OutOfRange.into());
        }
        if attribute.value.len() > MAX_VALUE_BYTES {
            return Err(PosixError::ValueTooLong.into());
        }
        let is_of_capabilities =
            attribute.namespace == Namespace::Security && attribute.name == CAPABILITIES;
        if is_of_capabilities && !are_capabilities(attribute.value) {
            return Err(PosixError::InvalidArgument.into());
        }
        self.undelegated(&[file], || self.put_checked(file, attribute, mode, purpose))
    }

    /// Sets an attribute whose name and value were checked.
    fn put_checked(
        &self,
        file: &CachedInode,
        attribute: &NewAttribute<'_>,
        mode: SetMode,
        purpose: AttributePurpose,
    ) -> Result<()> {
        let geometry = self.mount.geometry();
        let (name, value) = (attribute.name.len(), attribute.value.len());
        let blocks = xfs_dir::attribute_blocks(geometry, name, value);
        let mut tx =
            self.mount.with_room(|| self.mount.journal.begin(TransactionKind::SetAttr, blocks))?;
        tx.join(file.live().log_item());
        let mode_after = purpose.changed_mode(&file.core(), self.caller);
        let now = self.mount.clock.now();
        file.forget_rights();
        let along = move |core: &mut InodeCore| (core.mode, core.change_time) = (mode_after, now);
        tx.commit_or_cancel(|tx| {
            self.check_attribute(file, attribute.namespace, attribute.name, purpose)?;
            check_undelegated(file)?;
            // As in the kernel, attributes of the system are not refused.
            if attribute.namespace != Namespace::Trusted {
                let blocks = xfs_dir::attribute_quota_blocks(geometry, name, value);
                let wanted = QuotaAmount::of_blocks(blocks);
                tx.reserve_quota(QuotaOwners::of(&file.core()), wanted)?;
            }
            xfs_dir::set_attribute_along(tx, file.live(), attribute, mode, along)
        })?;
        self.mount.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    /// Checks that an attribute may be set or removed. Only files and directories have `user.`
    /// attributes. The file is latched.
    pub(crate) fn check_attribute(
        &self,
        file: &CachedInode,
        namespace: Namespace,
        name: &[u8],
        purpose: AttributePurpose,
    ) -> Result<()> {
        let core = file.core();
        let holds_user = matches!(core.file_type(), Some(FileType::Regular | FileType::Directory));
        if namespace == Namespace::User && !holds_user {
            return Err(PosixError::NotPermitted.into());
        }
        check_mutable(&core)?;
        if self.caller.credentials().is_none() {
            return Ok(());
        }
        match purpose {
            AttributePurpose::Value => self.caller.check_attribute(
                self.mount.journal.cache(),
                &file.live().inode(),
                QualifiedName { namespace, name },
                AttributeUse::Change,
            ),
            AttributePurpose::List { .. } => self.caller.check_owner(&core),
        }
    }

    /// Removes an attribute, given by its name on disk.
    pub fn remove_attribute(
        &self,
        file: &CachedInode,
        namespace: Namespace,
        name: &[u8],
    ) -> Result<()> {
        let blocks = xfs_dir::attribute_blocks(self.mount.geometry(), name.len(), 0);
        self.undelegated(&[file], || {
            self.mount.transact(TransactionKind::RemoveAttr, blocks, |tx| {
                tx.join(file.live().log_item());
                self.check_attribute(file, namespace, name, AttributePurpose::Value)?;
                check_undelegated(file)?;
                if !take_attribute(tx, file, namespace, name)? {
                    return Err(PosixError::NoAttribute.into());
                }
                let now = self.mount.clock.now();
                file.live().change(tx, |core| core.change_time = now);
                Ok(())
            })
        })?;
        self.mount.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    /// Removes the privileges with which the file would run as a program: its capabilities and, if
    /// `set_ids`, the set-ID bits. Returns whether the file had such privileges.
    pub fn shed_privileges(&self, file: &CachedInode, set_ids: bool) -> Result<bool> {
        let is_capable = self.is_capable(file)?;
        self.drop_privileges(file, set_ids, is_capable)
    }

    /// Returns whether the file has capabilities, which a process gets by executing it.
    pub fn is_capable(&self, file: &CachedInode) -> Result<bool> {
        let _latch = file.live().log_item().latch().shared();
        is_capable(&self.mount.journal, file)
    }

    /// Does the same as [`shed_privileges`](Self::shed_privileges), for a caller that knows whether
    /// the file has capabilities (`is_capable`).
    pub fn drop_privileges(
        &self,
        file: &CachedInode,
        set_ids: bool,
        is_capable: bool,
    ) -> Result<bool> {
        let lost = |core: &InodeCore| if set_ids { self.caller.lost_set_ids(core) } else { 0 };
        if !is_capable && lost(&file.core()) == 0 {
            return Ok(false);
        }
        let blocks = xfs_dir::attribute_blocks(self.mount.geometry(), CAPABILITIES.len(), 0);
        let has_changed = self.mount.transact(TransactionKind::RemoveAttr, blocks, |tx| {
            tx.join(file.live().log_item());
            let core = file.core();
            check_not_immutable(&core)?;
            let was_capable =
                is_capable && take_attribute(tx, file, Namespace::Security, CAPABILITIES)?;
            let lost = lost(&core);
            let has_changed = was_capable || lost != 0;
            if has_changed {
                let now = self.mount.clock.now();
                file.live().change(tx, |core| {
                    core.mode &= !lost;
                    core.change_time = now;
                });
            }
            Ok(has_changed)
        })?;
        if has_changed {
            self.mount.notify(file, WatchEvents::ATTRIB);
        }
        Ok(has_changed)
    }
}

/// The reason for which an attribute changes. The reason decides which caller may change the
/// attribute, and how the mode of the file changes.
#[derive(Clone, Copy)]
pub(crate) enum AttributePurpose {
    /// A program sets or removes the attribute directly, not as an access control list.
    Value,
    /// The attribute stores an access control list, which only the owner may change. `bits` are the
    /// permission bits that an access list sets.
    List { bits: Option<u16> },
}

impl AttributePurpose {
    /// Returns whether the change of the attribute sets the permission bits.
    pub(crate) fn sets_bits(self) -> bool {
        matches!(self, Self::List { bits: Some(_) })
    }

    /// Returns the mode that the file with this core gets by the change of the attribute.
    pub(crate) fn changed_mode(self, core: &InodeCore, caller: Caller<'_>) -> u16 {
        let Self::List { bits: Some(bits) } = self else { return core.mode };
        (core.mode & !mode_bits::CLASSES | bits) & !caller.withheld_set_group_id(core.gid)
    }
}

/// Returns whether a value has the form of file capabilities. As in the kernel, only the version in
/// its first word and its length are checked.
#[doc(alias = "vfs_ns_cap_data")]
fn are_capabilities(value: &[u8]) -> bool {
    /// The versions of a value with file capabilities, each with the length of such a value in
    /// bytes. Version 3 also holds the ID of the user namespace's root for which the capabilities
    /// apply.
    const LENGTHS: [(u8, usize); 2] = [(2, 20), (3, 24)];
    // Little-endian: the lowest byte holds flags.
    let Some([_, 0, 0, version]) = value.first_chunk() else { return false };
    LENGTHS.contains(&(*version, value.len()))
}

/// Returns whether the file has capabilities. The file is latched.
pub(crate) fn is_capable(journal: &Journal, file: &CachedInode) -> Result<bool> {
    let inode = file.live().inode();
    if !inode.core().has_attr_fork() {
        return Ok(false);
    }
    match Attributes::new(journal.cache(), &inode).lookup(Namespace::Security, CAPABILITIES) {
        Ok(_) => Ok(true),
        Err(Error::Posix(PosixError::NoAttribute)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes an attribute. Returns `false` and changes nothing if the file does not have the
/// attribute.
pub(crate) fn take_attribute(
    tx: &mut Transaction<'_>,
    file: &CachedInode,
    namespace: Namespace,
    name: &[u8],
) -> Result<bool> {
    file.forget_rights();
    match xfs_dir::remove_attribute(tx, file.live(), namespace, name) {
        Ok(()) => Ok(true),
        Err(Error::Posix(PosixError::NoAttribute)) => Ok(false),
        Err(error) => Err(error),
    }
}
