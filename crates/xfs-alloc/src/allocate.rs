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
//! 3. A group must have what is asked for.
//!
//! Waiting is safe for groups at or above the highest whose header the step keeps. One below is asked
//! for again and again, for a while: its holder may be waiting for ours.

use std::time::Duration;

use xfs_buffer::Result;
use xfs_format::{AgNumber, FsBlock, Geometry};
use xfs_trans::Transaction;

use crate::deferred::BlockExtent;
use crate::group::{Found, GroupSpace, Near, Wanted};
use crate::owner::{ExtentOwner, Purpose};
use crate::space::Space;

/// Where blocks are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
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
    target: Target,
    wanted: Wanted,
}

impl SpaceRequest {
    /// Between `minimum` and `maximum` blocks for the contents of a file, as many as can be. Their
    /// mapping is the caller's to defer.
    ///
    /// # Panics
    ///
    /// If nothing is asked for, or the two are the wrong way round.
    #[must_use]
    pub const fn new(target: Target, minimum: u32, maximum: u32) -> Self {
        assert!(minimum > 0, "something is asked for");
        assert!(minimum <= maximum, "from the minimum to the maximum");
        Self { target, wanted: Wanted::blocks(minimum, maximum) }
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

/// How often, and how long apart, the header of a lower group is asked for.
const ASKED: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// What to do about a group whose header somebody else holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Pass over it.
    Try,
    /// Wait, if it does not lie below one that the step keeps.
    Wait,
    /// Wait, or ask again for a while.
    Insist,
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
        Target::Exact(block) => {
            let (group, block) = of_block(block);
            (group, Near::Exactly(block), false)
        }
        Target::Near(block) | Target::NearInGroup(block) => {
            let (group, block) = of_block(block);
            (group, Near::Block(block), matches!(request.target, Target::Near(_)))
        }
        Target::Group(group) => (group, Near::Anywhere, false),
        Target::FromGroup(group) => (group, Near::Anywhere, true),
    };
    let at_home = Wanted { near, ..request.wanted };
    if !is_everywhere {
        return allocate_in(tx, first, &at_home, Patience::Insist);
    }
    let left = u32::try_from(tx.blocks_left()).unwrap_or(u32::MAX);
    for (patience, total) in [(Patience::Try, left), (Patience::Wait, left), (Patience::Insist, 0)]
    {
        for group in from_group(geometry, first) {
            let near = if group == first { near } else { Near::Anywhere };
            let wanted = Wanted { near, total, ..request.wanted };
            // A group that looks too full may still have it; it is asked in the end.
            let summary = Space::of(tx.journal()).summary(group);
            if patience != Patience::Insist && summary.longest_free_blocks < wanted.minimum {
                continue;
            }
            if let Some(found) = allocate_in(tx, group, &wanted, patience)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// All groups, from this one round to it.
fn from_group(geometry: &Geometry, first: AgNumber) -> impl Iterator<Item = AgNumber> {
    let groups = geometry.ag_count;
    (0..groups).map(move |index| AgNumber((first.0 % groups + index) % groups))
}

/// The header of a group, waited for as long as that is safe.
fn insist(tx: &mut Transaction<'_>, number: AgNumber) -> Result<Option<GroupSpace>> {
    for _ in 0..ASKED {
        if let Some(group) = GroupSpace::open(tx, number)? {
            return Ok(Some(group));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(None)
}

/// Allocates in one group. If only busy blocks are left, the log is forced and they are asked for
/// once more.
fn allocate_in(
    tx: &mut Transaction<'_>,
    number: AgNumber,
    wanted: &Wanted,
    patience: Patience,
) -> Result<Option<BlockExtent>> {
    let opened = match patience {
        Patience::Try => GroupSpace::try_open(tx, number)?,
        Patience::Wait => GroupSpace::open(tx, number)?,
        Patience::Insist => insist(tx, number)?,
    };
    let Some(mut group) = opened else { return Ok(None) };
    let mut found = group.allocate(tx, wanted)?;
    if found == Found::Busy && patience != Patience::Try && group.await_busy(tx)? {
        found = group.allocate(tx, wanted)?;
    }
    let extent = match found {
        Found::Extent { range, .. } => Some(group.extent(tx, range)),
        Found::Busy | Found::Nothing => None,
    };
    if extent.is_none() {
        // Nothing of the group is needed any more, unless its free list was filled.
        group.leave(tx);
    } else {
        group.close(tx);
    }
    Ok(extent)
}
