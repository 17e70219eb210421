//! Which group an allocation is made in.
//!
//! Owns: the request, the order in which groups are tried, and waiting for busy blocks. Does **not**
//! own what happens inside a group ([`GroupSpace`]).
//!
//! # The order
//!
//! From the group that is asked for to the last one, then from the first. Three times round, each time
//! content with less:
//!
//! 1. A group must have all that the transaction may yet need, so that it does not have to go to a
//!    second group half way. Nobody is waited for: a group whose header somebody holds is passed
//!    over, so that writers who come together spread out.
//! 2. The same, and held headers are waited for.
//! 3. A group must have what is asked for. As long as one could not be asked, this goes on.
//!
//! Waiting is safe for groups at or above the highest whose header the step keeps. One below is only
//! tried: its holder may be waiting for ours. That is so where two steps each need a second group, which
//! takes a volume without a group that has all that a step may need; nobody could go on then, and one of
//! them is refused after [`PATIENCE`].

use std::time::{Duration, Instant};

use xfs_buffer::Result;
use xfs_format::{AgNumber, FsBlock, Geometry};
use xfs_trans::Transaction;

use crate::deferred::BlockExtent;
use crate::group::{GroupRequest, GroupSpace, Near, SearchResult};
use crate::owner::{ExtentOwner, Purpose};
use crate::space::Space;

/// Where blocks are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationTarget {
    /// From this block on, or not at all.
    Exact(FsBlock),
    /// As near to this block as its group allows, or else in another group.
    Near(FsBlock),
    /// As near to this block as its group allows.
    NearInGroup(FsBlock),
    /// Anywhere in this group.
    Group(AgNumber),
    /// Anywhere in this group, or else in another.
    FromGroup(AgNumber),
}

/// What is to be allocated.
#[doc(alias = "xfs_alloc_arg")]
#[derive(Clone, Copy, Debug)]
pub struct SpaceRequest {
    target: AllocationTarget,
    wanted: GroupRequest,
}

impl SpaceRequest {
    /// Between `minimum` and `maximum` blocks for the contents of a file, as many as can be. Their
    /// mapping is the caller's to defer.
    ///
    /// # Panics
    ///
    /// If nothing is asked for, or the two are the wrong way round.
    #[must_use]
    pub const fn new(target: AllocationTarget, minimum: u32, maximum: u32) -> Self {
        assert!(minimum > 0, "something is asked for");
        assert!(minimum <= maximum, "from the minimum to the maximum");
        Self { target, wanted: GroupRequest::blocks(minimum, maximum) }
    }

    /// For metadata, with its reverse mapping.
    #[must_use]
    pub const fn with_owner(mut self, owner: ExtentOwner) -> Self {
        self.wanted.owner = Some(owner);
        self
    }

    /// On this account.
    #[must_use]
    pub const fn with_purpose(mut self, purpose: Purpose) -> Self {
        self.wanted.purpose = Some(purpose);
        self
    }

    /// The first block is a multiple of this, counted in its group.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[must_use]
    pub const fn with_alignment(mut self, alignment: u32) -> Self {
        assert!(alignment > 0, "1 is no alignment");
        self.wanted.alignment = alignment;
        self
    }

    /// So many blocks must stay free in the group, for what the transaction allocates next.
    #[must_use]
    pub const fn with_minimum_left(mut self, minimum_left: u32) -> Self {
        self.wanted.minimum_left = minimum_left;
        self
    }
}

/// How long groups are asked that somebody else holds. A holder in its own time has long given them back:
/// it waits for the device and the log at the most.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long between two rounds.
const PAUSE: Duration = Duration::from_millis(1);

/// What to do about a group whose header somebody else holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Pass over it.
    Try,
    /// Wait, if it does not lie below one that the step keeps.
    Wait,
}

/// What a group has.
enum GroupOutcome {
    Extent(BlockExtent),
    Nothing,
    /// It could not be asked.
    Held,
}

/// Allocates blocks. `None` if there are none such; then the free list of a group may have been
/// filled, but nothing else has changed.
///
/// The transaction has reserved the blocks; they are counted here.
///
/// # Errors
///
/// What reading the btrees of a group meets, or what stopped the log.
#[doc(alias = "xfs_alloc_vextent")]
pub fn allocate_extent(
    tx: &mut Transaction<'_>,
    request: &SpaceRequest,
) -> Result<Option<BlockExtent>> {
    let geometry = tx.geometry();
    let of_block = |block: FsBlock| {
        let (group, block) = geometry.split_block(block).unwrap_or_default();
        (group, block.0)
    };
    let (first, near, is_everywhere) = match request.target {
        AllocationTarget::Exact(block) => {
            let (group, block) = of_block(block);
            (group, Near::Exactly(block), false)
        }
        AllocationTarget::Near(block) | AllocationTarget::NearInGroup(block) => {
            let (group, block) = of_block(block);
            (group, Near::Block(block), matches!(request.target, AllocationTarget::Near(_)))
        }
        AllocationTarget::Group(group) => (group, Near::Anywhere, false),
        AllocationTarget::FromGroup(group) => (group, Near::Anywhere, true),
    };
    let at_home = GroupRequest { near, ..request.wanted };
    if !is_everywhere {
        return insist(tx, || std::iter::once((first, at_home)));
    }
    let left = u32::try_from(tx.blocks_left()).unwrap_or(u32::MAX);
    let wanted = |total: u32| {
        from_group(geometry, first).map(move |group| {
            let near = if group == first { near } else { Near::Anywhere };
            (group, GroupRequest { near, total, ..request.wanted })
        })
    };
    for patience in [Patience::Try, Patience::Wait] {
        for (group, wanted) in wanted(left) {
            // A group that looks too full may still have it; it is asked in the end.
            let summary = Space::of(tx.journal()).summary(group);
            if summary.longest_free_blocks < wanted.minimum {
                continue;
            }
            if let GroupOutcome::Extent(found) = allocate_in(tx, group, &wanted, patience)? {
                return Ok(Some(found));
            }
        }
    }
    insist(tx, || wanted(0))
}

/// All groups, from this one round to it.
fn from_group(geometry: &Geometry, first: AgNumber) -> impl Iterator<Item = AgNumber> {
    let groups = geometry.ag_count;
    (0..groups).map(move |index| AgNumber((first.0 % groups + index) % groups))
}

/// Asks these groups until one has what is wanted, or all have been asked and have not.
fn insist<I: Iterator<Item = (AgNumber, GroupRequest)>>(
    tx: &mut Transaction<'_>,
    groups: impl Fn() -> I,
) -> Result<Option<BlockExtent>> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut is_held = false;
        for (group, wanted) in groups() {
            match allocate_in(tx, group, &wanted, Patience::Wait)? {
                GroupOutcome::Extent(found) => return Ok(Some(found)),
                GroupOutcome::Nothing => {}
                GroupOutcome::Held => is_held = true,
            }
        }
        if !is_held || Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Allocates in one group. If only busy blocks are left, the log is forced and they are asked for
/// once more.
fn allocate_in(
    tx: &mut Transaction<'_>,
    number: AgNumber,
    wanted: &GroupRequest,
    patience: Patience,
) -> Result<GroupOutcome> {
    let opened = match patience {
        Patience::Try => GroupSpace::try_open(tx, number)?,
        Patience::Wait => GroupSpace::open(tx, number)?,
    };
    let Some(mut group) = opened else { return Ok(GroupOutcome::Held) };
    let mut found = group.allocate(tx, wanted)?;
    if found == SearchResult::Busy && patience != Patience::Try && group.await_busy(tx)? {
        found = group.allocate(tx, wanted)?;
    }
    if let SearchResult::Extent { range, .. } = found {
        let extent = group.extent(tx, range);
        group.close(tx);
        Ok(GroupOutcome::Extent(extent))
    } else {
        // Nothing of the group is needed any more, unless its free list was filled.
        group.leave(tx);
        Ok(GroupOutcome::Nothing)
    }
}
