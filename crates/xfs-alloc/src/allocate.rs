//! The choice of the group that an allocation is made in.
//!
//! Owns: the request, the order in which groups are tried, and the wait for busy blocks. Does
//! **not** own what happens inside a group ([`GroupSpace`]).
//!
//! # The order
//!
//! The groups are tried from the requested one to the last one, then from the first. There are
//! three rounds, each with weaker demands:
//!
//! 1. A group must have everything that the transaction may still need, so that the transaction
//!    does not have to go to a second group half way. A group whose header another thread holds is
//!    skipped without a wait, so that concurrent writers spread over the groups.
//! 2. The same, but the thread waits for held headers.
//! 3. A group must have only what is requested. The round is repeated as long as a group could not
//!    be asked.
//!
//! Waiting is safe for groups at or above the highest group whose header the step keeps. A lower
//! group is only tried, because its holder may be waiting for our group. Two steps can be in that
//! state at once if each needs a second group, which happens only on a volume where no group has
//! everything that a step may need. Neither could continue then, so one of them is refused after
//! [`PATIENCE`].

use std::time::{Duration, Instant};

use xfs_buffer::Result;
use xfs_format::{AgNumber, FsBlock, Geometry};
use xfs_trans::Transaction;

use crate::deferred::BlockExtent;
use crate::group::{GroupRequest, GroupSpace, Near, SearchResult};
use crate::owner::{ExtentOwner, Purpose};
use crate::space::Space;

/// The position at which blocks are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationTarget {
    /// From this block on, or nowhere.
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

/// A request for blocks.
#[doc(alias = "xfs_alloc_arg")]
#[derive(Clone, Copy, Debug)]
pub struct SpaceRequest {
    target: AllocationTarget,
    wanted: GroupRequest,
}

impl SpaceRequest {
    /// Requests between `minimum` and `maximum` blocks for the contents of a file, as many as
    /// possible. The caller defers their mapping.
    ///
    /// # Panics
    ///
    /// Panics if `minimum` is 0 or greater than `maximum`.
    #[must_use]
    pub const fn new(target: AllocationTarget, minimum: u32, maximum: u32) -> Self {
        assert!(minimum > 0, "something is asked for");
        assert!(minimum <= maximum, "from the minimum to the maximum");
        Self { target, wanted: GroupRequest::blocks(minimum, maximum) }
    }

    /// Requests blocks for metadata, with their reverse mapping.
    #[must_use]
    pub const fn with_owner(mut self, owner: ExtentOwner) -> Self {
        self.wanted.owner = Some(owner);
        self
    }

    /// Sets the account that the blocks are charged to.
    #[must_use]
    pub const fn with_purpose(mut self, purpose: Purpose) -> Self {
        self.wanted.purpose = Some(purpose);
        self
    }

    /// Requires the first block to be a multiple of `alignment`, counted in its group.
    ///
    /// # Panics
    ///
    /// Panics if `alignment` is 0.
    #[must_use]
    pub const fn with_alignment(mut self, alignment: u32) -> Self {
        assert!(alignment > 0, "an alignment is at least 1");
        self.wanted.alignment = alignment;
        self
    }

    /// Requires `minimum_left` blocks to stay free in the group, for later allocations of the
    /// transaction.
    #[must_use]
    pub const fn with_minimum_left(mut self, minimum_left: u32) -> Self {
        self.wanted.minimum_left = minimum_left;
        self
    }
}

/// The time for which groups that another thread holds are tried again. A holder gives its group
/// back long before that: it waits at most for the device and the log.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two rounds.
const PAUSE: Duration = Duration::from_millis(1);

/// The treatment of a group whose header another thread holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Skip the group.
    Try,
    /// Wait for the header, unless the group lies below one that the step keeps.
    Wait,
}

/// The result of an attempt in one group.
enum GroupOutcome {
    Extent(BlockExtent),
    Nothing,
    /// Another thread holds the header of the group, so nothing is known about its space.
    Held,
}

/// Allocates blocks. Returns `None` if no group that the request allows has enough of them; then
/// the free list of a group may have been filled, but nothing else has changed.
///
/// The transaction has reserved the blocks. The allocation counts them as used.
///
/// # Errors
///
/// Errors of reading the btrees of a group, or the error that stopped the log.
#[doc(alias = "xfs_alloc_vextent")]
pub fn allocate_extent(
    tx: &mut Transaction<'_>,
    request: &SpaceRequest,
) -> Result<Option<BlockExtent>> {
    let geometry = tx.geometry();
    let of_block = |block: FsBlock| geometry.split_block(block).map(|(group, at)| (group, at.0));
    let (first, near, is_everywhere) = match request.target {
        AllocationTarget::Exact(block) => {
            let Some((group, block)) = of_block(block) else { return Ok(None) };
            (group, Near::Exactly(block), false)
        }
        AllocationTarget::Near(block) | AllocationTarget::NearInGroup(block) => {
            // A hint outside the volume counts as its first block.
            let (group, block) = of_block(block).unwrap_or((AgNumber(0), 0));
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
            // The summary may be out of date: a group that looks too full is still asked in the
            // last round.
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

/// Returns all groups, starting with `first`.
fn from_group(geometry: &Geometry, first: AgNumber) -> impl Iterator<Item = AgNumber> {
    let groups = geometry.ag_count;
    (0..groups).map(move |index| AgNumber((first.0 % groups + index) % groups))
}

/// Tries these groups until one has the blocks. Returns `None` once each has been asked for them,
/// or after `PATIENCE` if a group stays held.
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

/// Allocates in one group. If only busy blocks are left, forces the log and searches once more.
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
