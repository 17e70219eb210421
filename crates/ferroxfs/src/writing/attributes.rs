//! Extended attributes, as programs set and remove them, and the privileges that go with a write.
//!
//! Owns: which names and values there can be, who may change them, and what changes along. Does **not** own how
//! they are kept (`xfs-dir`), or what access control lists mean ([`lists`](super::lists)).

use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::{Attributes, NewAttribute, SetMode};
use xfs_format::attr::Namespace;
use xfs_format::inode::{FileType, InodeCore};
use xfs_format::reservation::TransactionKind;
use xfs_trans::{Journal, Transaction};

use super::access::{check_mutable, check_not_immutable};
use super::{Acting, check_undelegated};
use crate::kind::CachedInode;
use crate::permission::{AttributeUse, CAPABILITIES, Who, bits};
use crate::watch::WatchEvents;

/// The longest value of an attribute.
const MAX_VALUE_BYTES: usize = 64 << 10;
/// The longest name of an attribute, without its namespace.
const MAX_ATTRIBUTE_NAME_BYTES: usize = 255;

impl Acting<'_> {
    /// Sets an attribute under its name on disk.
    pub(crate) fn set_attribute(
        &self,
        file: &CachedInode,
        attribute: &NewAttribute<'_>,
        mode: SetMode,
    ) -> Result<()> {
        self.put_attribute(file, attribute, mode, Purpose::Value)
    }

    /// Sets an attribute, and changes the inode with it.
    pub(super) fn put_attribute(
        &self,
        file: &CachedInode,
        attribute: &NewAttribute<'_>,
        mode: SetMode,
        purpose: Purpose,
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

    /// Sets an attribute whose name and value are such as there can be.
    fn put_checked(
        &self,
        file: &CachedInode,
        attribute: &NewAttribute<'_>,
        mode: SetMode,
        purpose: Purpose,
    ) -> Result<()> {
        let geometry = self.geometry();
        let (name, value) = (attribute.name.len(), attribute.value.len());
        let blocks = xfs_dir::attribute_blocks(geometry, name, value);
        let mut tx = self.with_room(|| self.journal.begin(TransactionKind::SetAttr, blocks))?;
        tx.join(file.live().record());
        let mode_after = purpose.changed_mode(&file.core(), self.who);
        let now = self.clock.now();
        file.forget_rights();
        let along = move |core: &mut InodeCore| (core.mode, core.change_time) = (mode_after, now);
        let set = self
            .check_attribute(file, (attribute.namespace, attribute.name), purpose)
            .and_then(|()| check_undelegated(file))
            .and_then(|()| {
                xfs_dir::set_attribute_along(&mut tx, file.live(), attribute, mode, along)
            });
        if let Err(error) = set {
            tx.cancel();
            return Err(error);
        }
        tx.commit()?;
        self.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    /// Whether an attribute may be set or removed: programs have theirs on files and directories only.
    /// The caller has latched the file.
    pub(super) fn check_attribute(
        &self,
        file: &CachedInode,
        (namespace, name): (Namespace, &[u8]),
        purpose: Purpose,
    ) -> Result<()> {
        let core = file.core();
        let holds_user = matches!(core.file_type(), Some(FileType::Regular | FileType::Directory));
        if namespace == Namespace::User && !holds_user {
            return Err(PosixError::NotPermitted.into());
        }
        check_mutable(&core)?;
        if self.who.somebody().is_none() {
            return Ok(());
        }
        match purpose {
            Purpose::Value => self.who.check_attribute(
                (self.journal.cache(), &file.live().inode()),
                (namespace, name),
                AttributeUse::Change,
            ),
            Purpose::List { .. } => self.who.check_owner(&core),
        }
    }

    /// Removes an attribute by its name on disk.
    pub(crate) fn remove_attribute(
        &self,
        file: &CachedInode,
        namespace: Namespace,
        name: &[u8],
    ) -> Result<()> {
        let blocks = xfs_dir::attribute_blocks(self.geometry(), name.len(), 0);
        self.undelegated(&[file], || {
            self.transact(TransactionKind::RemoveAttr, blocks, |tx| {
                tx.join(file.live().record());
                self.check_attribute(file, (namespace, name), Purpose::Value)?;
                check_undelegated(file)?;
                if !take_attribute(tx, file, namespace, name)? {
                    return Err(PosixError::NoAttribute.into());
                }
                let now = self.clock.now();
                file.live().change(tx, |core| core.change_time = now);
                Ok(())
            })
        })?;
        self.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    /// Takes off what lets a program act in the name of the owner: capabilities, and set-ID bits if
    /// `set_ids`. Returns whether there was anything.
    pub(crate) fn shed_privileges(&self, file: &CachedInode, set_ids: bool) -> Result<bool> {
        let is_capable = self.is_capable(file)?;
        self.drop_privileges(file, set_ids, is_capable)
    }

    /// Whether the file has capabilities that whoever executes it gets.
    pub(crate) fn is_capable(&self, file: &CachedInode) -> Result<bool> {
        let _latch = file.live().record().latch().shared();
        is_capable(&self.journal, file)
    }

    /// Takes off what lets a program act in the name of the owner, as [`shed_privileges`](Self::shed_privileges), of
    /// a file of which it is known whether it is capable.
    pub(crate) fn drop_privileges(
        &self,
        file: &CachedInode,
        set_ids: bool,
        is_capable: bool,
    ) -> Result<bool> {
        let lost = |core: &InodeCore| if set_ids { self.who.lost_set_ids(core) } else { 0 };
        if !is_capable && lost(&file.core()) == 0 {
            return Ok(false);
        }
        let blocks = xfs_dir::attribute_blocks(self.geometry(), CAPABILITIES.len(), 0);
        let has_changed = self.transact(TransactionKind::RemoveAttr, blocks, |tx| {
            tx.join(file.live().record());
            let core = file.core();
            check_not_immutable(&core)?;
            let was_capable =
                is_capable && take_attribute(tx, file, Namespace::Security, CAPABILITIES)?;
            let lost = lost(&core);
            let has_changed = was_capable || lost != 0;
            if has_changed {
                let now = self.clock.now();
                file.live().change(tx, |core| {
                    core.mode &= !lost;
                    core.change_time = now;
                });
            }
            Ok(has_changed)
        })?;
        if has_changed {
            self.notify(file, WatchEvents::ATTRIB);
        }
        Ok(has_changed)
    }
}

/// Why an attribute changes: who may do that, and what changes with it.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// It is what somebody calls by its name.
    Value,
    /// It holds an access control list, which the owner sets; that for access has these permission bits.
    List { bits: Option<u16> },
}

impl Purpose {
    /// Whether the permission bits change with it.
    pub(super) fn sets_bits(self) -> bool {
        matches!(self, Self::List { bits: Some(_) })
    }

    /// The mode that the file has then.
    pub(super) fn changed_mode(self, core: &InodeCore, who: Who<'_>) -> u16 {
        let Self::List { bits: Some(bits) } = self else { return core.mode };
        (core.mode & !bits::CLASSES | bits) & !who.withheld_set_group_id(core.gid)
    }
}

/// Whether a value says which capabilities a file has, as far as the kernel looks at it: its version, which stands
/// in its first word, and its length.
#[doc(alias = "vfs_ns_cap_data")]
fn are_capabilities(value: &[u8]) -> bool {
    /// By version: the third names the user to whom it applies.
    const LENGTHS: [(u8, usize); 2] = [(2, 20), (3, 24)];
    // Little-endian: the lowest byte has flags.
    let Some([_, 0, 0, version]) = value.first_chunk() else { return false };
    LENGTHS.contains(&(*version, value.len()))
}

/// Whether the file has capabilities that whoever executes it gets. The caller has latched it.
pub(super) fn is_capable(journal: &Journal, file: &CachedInode) -> Result<bool> {
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

/// Takes an attribute away; `false`, and nothing has changed, if there is none.
pub(super) fn take_attribute(
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
