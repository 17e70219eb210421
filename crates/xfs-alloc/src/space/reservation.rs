//! The blocks of each group that are reserved for its btrees.
//!
//! Owns: the sizes of the reserves, computed as the kernel computes them, and the accounts of
//! blocks that are not used yet. Does **not** own which operation may draw on an account.
//!
//! If a btree cannot get a block in the middle of a change, the volume has to be shut down. So each
//! group reserves the blocks that its free inode btree, its reference counts and its reverse map
//! would take if they held every block of the group. Users do not see these blocks as free.
//! `statfs` must show the same number under ferroxfs and the kernel, so the sizes must be the
//! kernel's.

use xfs_format::agf::Agf;
use xfs_format::agi::Agi;
use xfs_format::btree::BtreeKind;
use xfs_format::geometry::{Geometry, INODES_PER_CHUNK};
use xfs_format::{RoCompatFeatures, Superblock};

/// The account of reserved blocks that a btree draws on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Account {
    /// The account of the free-inode btree and the reference counts. The blocks of these btrees
    /// count as used on disk.
    Metadata,
    /// The account of the reverse map. Its blocks come from the free list and count as free on
    /// disk.
    ReverseMap,
}

/// One account of a group: the blocks that are reserved for some of its btrees.
#[doc(alias = "xfs_ag_resv")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserve {
    /// The maximum total size, in blocks, of the btrees of this account.
    pub(crate) asked: u32,
    /// Number of reserved blocks that the btrees have not taken yet.
    pub(crate) left: u32,
}

impl Reserve {
    /// Creates the account of some btrees. Together they can grow to `asked` blocks, and now have
    /// `used` blocks.
    pub(crate) const fn new(asked: u32, used: u32) -> Self {
        Self { asked, left: asked.saturating_sub(used) }
    }

    /// Takes blocks from the account. Returns the number of requested blocks that the account
    /// lacked.
    pub(crate) fn draw(&mut self, blocks: u32) -> u32 {
        let drawn = blocks.min(self.left);
        self.left -= drawn;
        blocks - drawn
    }

    /// Puts blocks back into the account, at most as many as were drawn from it. Returns the number
    /// of excess blocks, which the account does not take.
    pub(crate) fn refill(&mut self, blocks: u32) -> u32 {
        let returned = blocks.min(self.asked - self.left);
        self.left += returned;
        blocks - returned
    }
}

/// The maximum size and the present size of a group's btrees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReserveDemand {
    pub(crate) refcount: Reserve,
    pub(crate) free_inodes: Reserve,
    pub(crate) reverse_map: Reserve,
}

impl ReserveDemand {
    /// Computes the maximum and the present sizes of a group's btrees. `free_inode_blocks` is the
    /// present size of the free-inode btree in blocks. The caller passes it, because not every
    /// volume stores it.
    pub(crate) fn new(superblock: &Superblock, agf: &Agf, free_inode_blocks: u32) -> Self {
        let geometry = &superblock.geometry;
        let blocks = usable_blocks(superblock, agf);
        let has = |feature| geometry.has_ro_compat(feature);
        let mut demand = Self::default();
        if has(RoCompatFeatures::REFLINK) {
            let asked = btree_blocks(geometry, BtreeKind::Refcount, blocks.into());
            demand.refcount = Reserve::new(asked, agf.refcount_blocks);
        }
        if has(RoCompatFeatures::FINOBT) {
            let inodes = u64::from(blocks) << geometry.inodes_per_block_log;
            let chunks = inodes / u64::from(INODES_PER_CHUNK);
            let asked = btree_blocks(geometry, BtreeKind::FreeInode, chunks);
            demand.free_inodes = Reserve::new(asked, free_inode_blocks);
        }
        if has(RoCompatFeatures::RMAPBT) {
            let one_each = btree_blocks(geometry, BtreeKind::ReverseMap, blocks.into());
            let asked = one_each.max(blocks / 100);
            demand.reverse_map = Reserve::new(asked, agf.reverse_map_blocks);
        }
        demand
    }
}

/// Returns the size of the free-inode btree in blocks: 0 if the group has no such btree, `None` if
/// the header does not hold the size.
pub(crate) fn counted_free_inode_blocks(agi: &Agi) -> Option<u32> {
    match agi.free_inode_btree {
        None => Some(0),
        Some(_) => agi.free_inode_btree_blocks,
    }
}

/// Returns the number of blocks of a group, not counting blocks of the log: these never have
/// another use.
fn usable_blocks(superblock: &Superblock, agf: &Agf) -> u32 {
    let log_group = superblock.geometry.split_block(superblock.log_start);
    let is_internal = superblock.log_start.0 != 0;
    let holds_log = is_internal && log_group.is_some_and(|(group, _)| group == agf.group);
    agf.length_blocks.saturating_sub(if holds_log { superblock.log_blocks } else { 0 })
}

/// Returns the number of blocks of a btree with `records` records, if all of its blocks are half
/// full.
#[doc(alias = "xfs_btree_calc_size")]
fn btree_blocks(geometry: &Geometry, kind: BtreeKind, records: u64) -> u32 {
    let layout = kind.layout();
    let half = |most: usize, least: u64| (most as u64 / 2).max(least);
    let children = half(layout.max_pointers(geometry.block_size), 2);
    let mut level = records.div_ceil(half(layout.max_records(geometry.block_size), 1));
    let mut blocks = level;
    while level > 1 {
        level = level.div_ceil(children);
        blocks += level;
    }
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

/// Number of blocks that each group needs so that one more change of its free-space btrees is
/// always possible.
const SET_ASIDE_PER_GROUP: u64 = 8;

/// Returns the number of blocks of the whole volume that no transaction can reserve, because they
/// are set aside for the free-space btrees.
#[doc(alias = "xfs_alloc_set_aside")]
pub(crate) fn set_aside(geometry: &Geometry) -> u64 {
    u64::from(geometry.ag_count) * SET_ASIDE_PER_GROUP
}

/// The maximum size, in blocks, of the pool for operations that must not fail for lack of space.
const POOL_BLOCKS: u64 = 8192;

/// Returns the size, in blocks, of the pool for operations that must not fail for lack of space.
#[doc(alias = "xfs_default_resblks")]
pub(crate) fn pool(geometry: &Geometry) -> u64 {
    (geometry.data_blocks / 20).min(POOL_BLOCKS)
}

/// Returns the number of blocks in the free-space btrees of a group, without the two roots. They
/// count as free on disk.
pub(crate) fn free_space_btree_blocks(agf: &Agf) -> u32 {
    agf.btree_blocks.saturating_sub(agf.reverse_map_blocks.saturating_sub(1))
}

/// The free blocks that users see: those that the headers count, without those that are kept for
/// btrees and for the pool (for operations that must not fail for lack of space).
#[derive(Clone, Copy, Debug)]
pub(crate) struct VisibleBlocks {
    free: u64,
    unavailable: u64,
    pool: u64,
}

impl VisibleBlocks {
    /// Creates the count of the free blocks that users see. `free` is the number of blocks that the
    /// headers count as free, and `unavailable` the number of blocks that cannot be reserved. The
    /// blocks of the pool are subtracted, as far as there are enough.
    pub(crate) fn new(free: u64, unavailable: u64, pool: u64) -> Self {
        let pool = pool.min(free.saturating_sub(unavailable));
        Self { free: free - pool, unavailable, pool }
    }

    /// Subtracts the blocks of a group's account from the visible blocks, or from the pool if there
    /// are not enough visible blocks. Returns `false`, and subtracts nothing, if the pool does not
    /// have enough blocks either; the group then gets no such account.
    #[must_use]
    pub(crate) fn hide(&mut self, blocks: u64) -> bool {
        let source = if blocks <= self.blocks() { &mut self.free } else { &mut self.pool };
        let rest = source.checked_sub(blocks);
        *source = rest.unwrap_or(*source);
        rest.is_some()
    }

    /// Subtracts the blocks of all accounts of a group, as [`Reserves::set_up`] does. Returns
    /// `false` if there are too few.
    #[must_use]
    pub(crate) fn hide_all(&mut self, demand: &ReserveDemand) -> bool {
        let ReserveDemand { refcount, free_inodes, reverse_map } = demand;
        self.hide(u64::from(refcount.left) + u64::from(free_inodes.left))
            && self.hide(reverse_map.asked.into())
    }

    /// Returns the number of blocks left in the pool for operations that must not fail for lack of
    /// space.
    pub(crate) const fn pool(&self) -> u64 {
        self.pool
    }

    /// Returns the number of free blocks that `statfs` shows.
    pub(crate) const fn blocks(&self) -> u64 {
        self.free.saturating_sub(self.unavailable)
    }
}

/// The reserves of a group: one for the free-inode btree and the reference counts, and one for the
/// reverse map. A reserve is 0 if the volume had no blocks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserves {
    pub(crate) metadata: Reserve,
    pub(crate) reverse_map: Reserve,
}

impl Reserves {
    /// Creates the accounts of a group and subtracts their blocks from the free blocks that users
    /// see. If space is short, the account for metadata covers only the reference counts. That
    /// happens on a volume that has got its free-inode btree before reserves for it existed.
    pub(crate) fn set_up(demand: &ReserveDemand, visible: &mut VisibleBlocks) -> Self {
        let ReserveDemand { refcount, free_inodes, reverse_map } = *demand;
        let both = Reserve {
            asked: refcount.asked + free_inodes.asked,
            left: refcount.left + free_inodes.left,
        };
        let granted =
            [both, refcount].into_iter().find(|reserve| visible.hide(reserve.left.into()));
        let mut reserves = Self { metadata: granted.unwrap_or_default(), ..Self::default() };
        // Blocks of the reverse map are free on disk: its whole maximum is subtracted, including
        // the blocks that it has.
        if granted.is_some() && visible.hide(reverse_map.asked.into()) {
            reserves.reverse_map = reverse_map;
        }
        reserves
    }

    /// Returns all accounts that a group demands.
    pub(crate) fn of(demand: &ReserveDemand) -> Self {
        let ReserveDemand { refcount, free_inodes, reverse_map } = *demand;
        let metadata = Reserve {
            asked: refcount.asked + free_inodes.asked,
            left: refcount.left + free_inodes.left,
        };
        Self { metadata, reverse_map }
    }

    pub(crate) fn account(&mut self, account: Account) -> &mut Reserve {
        match account {
            Account::Metadata => &mut self.metadata,
            Account::ReverseMap => &mut self.reverse_map,
        }
    }

    /// Returns the number of reserved blocks of the group that an allocation may not use. Blocks of
    /// `own`, the account that the allocation draws on, are not counted.
    pub(crate) fn kept_from(&self, own: Option<Account>) -> u32 {
        let kept = |account, reserve: Reserve| if own == Some(account) { 0 } else { reserve.left };
        kept(Account::Metadata, self.metadata) + kept(Account::ReverseMap, self.reverse_map)
    }
}

#[cfg(test)]
mod tests;
