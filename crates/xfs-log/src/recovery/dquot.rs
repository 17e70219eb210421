//! Replay of dquots, as items and as whole blocks.
//!
//! Owns: the types of quota that are not replayed, and the types whose counts are wrong after the
//! replay. Does **not** own the checks of a dquot (`xfs_format::dquot`).
//!
//! A dquot counts the usage of one owner, and a kernel can count again. So a block of dquots that
//! is damaged on disk does not stop a recovery. The superblock then says that the counts of the
//! block's quota type were not checked, so that the next mount with quota counts again. A damaged
//! item is an error like every damaged item.
//!
//! A dquot may straddle two sectors, so a torn write damages the checksums of dquots that the write
//! changed. The log holds all fields of each such dquot. The replay therefore repairs a dquot whose
//! checksum alone is wrong, as long as all dquots of its block have the owners of their places.
//! Nothing is replayed onto a block that holds something else.

use std::collections::BTreeMap;

use xfs_format::dquot::{self, DquotCheck, DquotDisk, DquotPlace, QuotaFlags, QuotaKind};
use xfs_format::log_item::{BufferType, DquotItem, LogItemCheck, LoggedBuffer, QuotaOff};
use xfs_format::{BASIC_BLOCK_BYTES, BlockKind, Check, DiskAddr, Lsn, VerifyContext};

use super::refusal::RecoveryError;
use super::store::RecoveryStore;

/// The state of quota during a replay.
pub(super) struct DquotReplay {
    /// The head of the log. No dquot may carry a later LSN.
    head: Lsn,
    /// The quota types whose accounting was turned off at some point in the log. Each type is
    /// represented by its flag for accounting.
    ended: QuotaFlags,
    /// The quota types that have a block onto which dquots could not be replayed. Each type is
    /// represented by its flag for checked counts.
    stale: QuotaFlags,
    /// The blocks that were damaged on disk before an item was replayed, with their types. Other
    /// items of the log may repair them.
    damaged: BTreeMap<DiskAddr, QuotaKind>,
}

impl DquotReplay {
    pub(super) fn new(head: Lsn) -> Self {
        let (ended, stale) = (QuotaFlags::empty(), QuotaFlags::empty());
        Self { head, ended, stale, damaged: BTreeMap::new() }
    }

    /// Notes that `item` turns accounting off for some quota types. No dquot of these types is
    /// replayed, not even one that was logged before `item`, because their quota inodes may be
    /// gone. Called in the first pass.
    #[doc(alias = "xlog_recover_quotaoff_commit_pass1")]
    pub(super) fn note_end(&mut self, item: &QuotaOff) {
        self.ended |= QuotaFlags::from_bits_retain((item.flags & 0xffff) as u16);
    }

    /// Returns the quota types whose counts the superblock must no longer show as checked. Each
    /// type is represented by its flag for checked counts. Called after the last item.
    ///
    /// # Errors
    ///
    /// Returns the error of the device.
    pub(super) fn stale(&self, store: &RecoveryStore) -> xfs_buffer::Result<QuotaFlags> {
        let geometry = store.geometry();
        let mut stale = self.stale;
        for (at, kind) in &self.damaged {
            let block = store.read(*at, geometry.block_size as usize)?;
            if BlockKind::Dquots.verify(&block, *at, &self.context(store)).is_err() {
                stale |= kind.checked_flag(geometry.version);
            }
        }
        Ok(stale)
    }

    fn context<'a>(&self, store: &'a RecoveryStore) -> VerifyContext<'a> {
        VerifyContext { geometry: store.geometry(), log_head: Some(self.head) }
    }

    fn has_ended(&self, kind: QuotaKind) -> bool {
        self.ended.contains(kind.accounted_flag())
    }

    /// Replays a logged dquot if the dquot on disk is older. Returns whether anything was replayed.
    ///
    /// The dquot keeps its LSN. The log holds all later changes of the dquot, so that a repeated
    /// recovery gives the same fields.
    #[doc(alias = "xlog_recover_dquot_commit_pass2")]
    pub(super) fn replay(
        &mut self,
        store: &mut RecoveryStore,
        item: &DquotItem<'_>,
    ) -> Result<bool, RecoveryError> {
        let logged = DquotDisk::from_fields(item.dquot);
        let checked = logged.verify_fields(store.geometry());
        let kind = checked.map_err(|check| store.corrupt(check))?;
        let place = check_place(store, item, &logged)?;
        if self.has_ended(kind) {
            return Ok(false);
        }
        let (at, length) = (item.format.at, store.geometry().block_size as usize);
        let mut block = store.read(at, length)?;
        let version = store.geometry().version;
        let owner = OwnerOfDquot { kind, place, logged: &logged };
        let is_sound = BlockKind::Dquots.verify(&block, at, &self.context(store)).is_ok();
        if !is_sound {
            self.damaged.insert(at, kind);
        }
        match self.find_owner(store, &block, owner) {
            SlotState::Foreign => {
                self.stale |= kind.checked_flag(version);
                return Ok(false);
            }
            SlotState::Sound(old) if old.0 != 0 && !old.is_null() && old >= store.lsn() => {
                return Ok(false);
            }
            SlotState::Sound(_) => {
                dquot::replace_fields(&mut block, place.index, item.dquot, version);
            }
            // The LSN may be newer than the fields. All later items replay with LSN 0.
            SlotState::Torn => {
                dquot::write_in_place(&mut block, place.index, item.dquot, Lsn(0));
            }
        }
        store.write(at, 0, &block)?;
        match is_sound {
            true => store.touch(at, length, BlockKind::Dquots),
            // `stale` verifies the block: damage of it does not stop a recovery.
            false => store.note_atomic(at, length),
        }
        Ok(true)
    }

    /// Returns the state of the owner's dquot in a block.
    fn find_owner(
        &self,
        store: &RecoveryStore,
        block: &[u8],
        owner: OwnerOfDquot<'_>,
    ) -> SlotState {
        let first = owner.logged.id.get().checked_sub(owner.place.index);
        let is_owned = first.is_some_and(|first| dquot::has_all_owners(block, owner.kind, first));
        match dquot::dquot_at(block, owner.place.index).filter(|_| is_owned) {
            None => SlotState::Foreign,
            Some(dquot) => match dquot.verify_seal(&self.context(store)) {
                Ok(()) => SlotState::Sound(Lsn(dquot.lsn.get())),
                Err(Check::Checksum { .. }) => SlotState::Torn,
                Err(_) => SlotState::Foreign,
            },
        }
    }

    /// Skips a buffer of dquots of the type `kind`. Their counts then no longer count as checked.
    /// Returns `false`.
    pub(super) fn skip(&mut self, store: &RecoveryStore, kind: QuotaKind) -> bool {
        self.stale |= kind.checked_flag(store.geometry().version);
        false
    }

    /// Replays a buffer of dquots: a block that was added to a quota inode. Returns whether
    /// anything was replayed.
    ///
    /// The LSNs of the dquots do not matter: the log holds all later changes of each dquot.
    #[doc(alias = "xlog_recover_do_dquot_buffer")]
    pub(super) fn replay_buffer(
        &mut self,
        store: &mut RecoveryStore,
        item: &LoggedBuffer<'_>,
        kind: QuotaKind,
    ) -> Result<bool, RecoveryError> {
        if self.has_ended(kind) {
            return Ok(false);
        }
        let at = item.format.at;
        let mut block =
            store.read(at, usize::from(item.format.blocks) * BASIC_BLOCK_BYTES as usize)?;
        let length = block.len();
        for piece in &item.pieces {
            let end = piece.offset_bytes.saturating_add(piece.bytes.len());
            let target = block.get_mut(piece.offset_bytes..end).ok_or_else(|| {
                store.corrupt(LogItemCheck::Piece { bytes: length, needed: piece.offset_bytes })
            })?;
            target.copy_from_slice(piece.bytes);
        }
        let context = self.context(store);
        let is_whole = block.len() == store.geometry().block_size as usize;
        let first = dquot::dquot_at(&block, 0).and_then(DquotDisk::quota_kind);
        let is_good = is_whole && BlockKind::Dquots.verify(&block, at, &context).is_ok();
        if !is_good || first != Some(kind) {
            self.stale |= kind.checked_flag(store.geometry().version);
            return Ok(false);
        }
        store.write(at, 0, &block)?;
        store.touch(at, block.len(), BlockKind::Dquots);
        Ok(true)
    }
}

/// A logged dquot, with its quota type and with its place: the block that must hold this dquot.
#[derive(Clone, Copy)]
struct OwnerOfDquot<'a> {
    kind: QuotaKind,
    place: DquotPlace,
    logged: &'a DquotDisk,
}

/// The dquot on disk onto which an item is to be replayed.
enum SlotState {
    /// The dquot passes its checks and has this LSN.
    Sound(Lsn),
    /// The checksum is wrong. A write of the block was torn.
    Torn,
    /// The block does not hold dquots, or it holds dquots of other owners than those of this place,
    /// or the dquot fails a check other than that of its checksum.
    Foreign,
}

/// Returns the quota type of the dquots in buffers of this type, or `None` if such buffers hold no
/// dquots.
pub(super) const fn kind_of_buffer(buffer_type: BufferType) -> Option<QuotaKind> {
    match buffer_type {
        BufferType::UserDquot => Some(QuotaKind::User),
        BufferType::GroupDquot => Some(QuotaKind::Group),
        BufferType::ProjectDquot => Some(QuotaKind::Project),
        _ => None,
    }
}

/// Returns the place of a logged dquot, which follows from the ID of the dquot. Returns an error
/// unless the log item agrees: it must name the same ID and offset, and one block that lies inside
/// the volume.
fn check_place(
    store: &RecoveryStore,
    item: &DquotItem<'_>,
    logged: &DquotDisk,
) -> Result<DquotPlace, RecoveryError> {
    let (format, geometry) = (&item.format, store.geometry());
    logged.verify_id(format.id).map_err(|check| store.corrupt(check))?;
    let place = DquotPlace::of(format.id, geometry);
    let offset = format.offset_bytes;
    if offset as usize != place.offset_bytes() {
        let check = DquotCheck::Offset { id: format.id, offset };
        return Err(store.corrupt(check).into());
    }
    if format.blocks != 1 {
        let (field, value) = ("blocks of dquots", format.blocks.into());
        return Err(store.corrupt(LogItemCheck::OutOfRange { field, value }).into());
    }
    store.check_range(format.at, u64::from(geometry.block_size / BASIC_BLOCK_BYTES))?;
    Ok(place)
}
