//! How operations use quota: they allocate the dquots of new owners, and try again after a refusal.
//!
//! Owns: the dquots of the owners that an operation gives to an inode, and the second try after a
//! refusal. Does **not** own: counting, which every transaction does by itself (`xfs-trans`), or
//! limits (`xfs-quota`).

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::InodeNumber;
use xfs_format::dquot::QuotaKind;
use xfs_trans::{QuotaAmount, QuotaOwners, Transaction};

use crate::mount::Mount;
use crate::name::EntryName;

impl Mount {
    /// Runs `act`, whose transactions reserve quota. If `act` fails for lack of space or quota on a
    /// volume that counts usage, frees preallocated blocks of files and runs `act` again.
    pub(crate) fn with_quota_room<T>(&self, act: impl Fn() -> Result<T>) -> Result<T> {
        match self.journal.ledger() {
            Some(_) => self.with_room(act),
            None => act(),
        }
    }

    /// Allocates the dquots (quota records) of the owners that an operation gives to an inode, so
    /// that every owner has one (Q3 in docs/internals/quota.md). The caller holds no latch. Pass
    /// `None` for an owner that does not change, or that a new inode gets from its directory: such
    /// an owner has a dquot already.
    pub(crate) fn ensure_owners(
        &self,
        uid: Option<u32>,
        gid: Option<u32>,
        project: Option<u32>,
    ) -> Result<()> {
        let Some(ledger) = self.journal.ledger() else { return Ok(()) };
        let owners =
            [(QuotaKind::User, uid), (QuotaKind::Group, gid), (QuotaKind::Project, project)];
        for (kind, id) in owners {
            if let Some(id) = id.filter(|_| ledger.counts(kind)) {
                self.with_room(|| ledger.ensure(&self.journal, kind, id))?;
            }
        }
        Ok(())
    }
    /// Reserves `blocks` blocks in the quota of a directory's owners, which a new name of the inode
    /// `inode` may take. The kernel does the same for link and rename. On a volume without parent
    /// pointers, a refusal ends the operation only if the directory must grow for the name, because
    /// otherwise the name needs no block. The caller has changed nothing yet.
    pub(crate) fn reserve_for_name(
        &self,
        tx: &mut Transaction<'_>,
        EntryName { directory, name }: EntryName<'_>,
        inode: InodeNumber,
        blocks: u64,
    ) -> Result<()> {
        if !tx.counts_quota() {
            return Ok(());
        }
        let owners = QuotaOwners::of(&directory.core());
        let refusal = match tx.reserve_quota(owners, QuotaAmount::of_blocks(blocks)) {
            Err(refusal @ Error::Posix(PosixError::NoSpace | PosixError::QuotaExceeded)) => refusal,
            reserved => return reserved,
        };
        if self.has_parents() {
            return Err(refusal);
        }
        let place = xfs_dir::seek_entry(tx, directory.live(), name)?;
        let needs_none = place.meaning().is_some()
            || xfs_dir::has_room_for_entry(tx, directory.live(), &place, inode)?;
        if needs_none { Ok(()) } else { Err(refusal) }
    }
}
