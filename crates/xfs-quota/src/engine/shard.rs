//! The dquots in memory, found by type and ID.
//!
//! Owns: the maps, and dropping dquots that no other part of the program needs. Does **not** own:
//! where a block of dquots lies.
//!
//! All dquots of one block belong to one shard, so the shard's lock also protects the list of
//! blocks. No lock covers the whole volume.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use xfs_buffer::Result;
use xfs_format::FileBlock;
use xfs_format::dquot::{DquotPlace, QuotaKind};
use xfs_inode::LiveInode;
use xfs_sync::{Group, Mutex};
use xfs_trans::{Dquot, DquotBlock, Journal};

use crate::quota_file::read_block;

/// Number of shards.
const SHARDS: usize = 64;
/// The number of dquots in a shard above which unneeded dquots are dropped.
const SHARD_DQUOTS: usize = 1024;

/// All shards.
pub(super) struct DquotShards(Vec<Mutex<DquotShard, Group>>);

/// A part of the dquots in memory.
#[derive(Default)]
pub(super) struct DquotShard {
    /// The dquots in memory. The key is the type and the ID in one number, which is quick to
    /// compare.
    dquots: BTreeMap<u64, Arc<Dquot>>,
    blocks: BTreeMap<(QuotaKind, FileBlock), Weak<DquotBlock>>,
    /// Number of dquots at which the next sweep drops unneeded dquots.
    sweep_at: usize,
}

impl DquotShards {
    pub(super) fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::new(DquotShard::default())).collect())
    }

    /// Returns the shard of a block of a quota inode.
    pub(super) fn of(&self, kind: QuotaKind, block: FileBlock) -> &Mutex<DquotShard, Group> {
        let mixed = block.0.wrapping_mul(3).wrapping_add(kind.bits().into());
        let index = (mixed % SHARDS as u64) as usize;
        self.0.get(index).expect("the index is below the number of shards")
    }
}

fn key(kind: QuotaKind, id: u32) -> u64 {
    u64::from(kind.bits()) << u32::BITS | u64::from(id)
}

impl DquotShard {
    /// Returns the dquot of an owner if it is in memory.
    pub(super) fn find(&self, kind: QuotaKind, id: u32) -> Option<Arc<Dquot>> {
        self.dquots.get(&key(kind, id)).map(Arc::clone)
    }

    /// Reads the dquot of an owner, which is not in memory, from its allocated block.
    pub(super) fn read(
        &mut self,
        journal: &Journal,
        file: &LiveInode,
        kind: QuotaKind,
        id: u32,
    ) -> Result<Arc<Dquot>> {
        if self.dquots.len() >= self.sweep_at.max(SHARD_DQUOTS) {
            self.sweep();
        }
        let place = DquotPlace::of(id, journal.geometry());
        let known = self.blocks.get(&(kind, place.block)).and_then(Weak::upgrade);
        let block = match known {
            Some(block) => block,
            None => {
                let buffer = read_block(&file.inode(), journal.cache(), kind, place.block)?;
                let block = DquotBlock::new(journal, buffer);
                self.blocks.insert((kind, place.block), Arc::downgrade(&block));
                block
            }
        };
        let dquot = Dquot::read(kind, id, &block)?;
        self.dquots.insert(key(kind, id), Arc::clone(&dquot));
        Ok(dquot)
    }

    /// Drops each dquot that is unchanged since it was written to disk, and to which only this map
    /// refers. The log and transactions hold the dquots that they need.
    fn sweep(&mut self) {
        let is_needed = |dquot: &Arc<Dquot>| Arc::strong_count(dquot) > 1 || !dquot.is_in_place();
        self.dquots.retain(|_, dquot| is_needed(dquot));
        self.blocks.retain(|_, block| block.strong_count() > 0);
        self.sweep_at = self.dquots.len() * 2;
    }
}
