//! The choice of the allocation group that serves a request for blocks.
//!
//! Owns: the request, the order in which groups are tried, and the wait for busy blocks. Does
//! **not** own what happens inside a group ([`GroupSpace`]).
//!
//! # The order
//!
//! A *step* is one transaction of a chain of transactions. It *keeps* a header if it holds the
//! latch of the header until it commits. A header is *above* another if it comes later in the lock
//! order: all AGIs before all AGFs, both in the order of the groups.
//!
//! The groups are tried from the requested one to the last one, then from the first. There are
//! three rounds, each with weaker demands:
//!
//! 1. A group must have everything that the transaction may still need, so that the transaction
//!    does not have to go to a second group half way. A group whose header another thread holds is
//!    skipped without a wait, so that concurrent writers spread over the groups.
//! 2. The same, but the thread waits for held headers.
//! 3. No group has everything. The step first secures several groups that have everything together
//!    ([`secure`]). Then a group must have only what is requested.
//!
//! # Waiting
//!
//! A thread sleeps on the latch of a header, without a limit of time, and the release of the header
//! wakes it. Two invariants make a limit unnecessary:
//!
//! - **I1** A step waits only for headers above all headers that it keeps. It takes the latch of a
//!   lower header only if no other thread holds it. `transaction/headers.rs` of `xfs-trans` has the
//!   argument that no deadlock is possible.
//! - **I2** A step that keeps the free-space header of a group has all the blocks that it may still
//!   allocate in the groups that it keeps, or it keeps all groups. So it never needs a header that
//!   it may not wait for.
//!
//! I2 holds from the first allocation of a step on. In rounds 1 and 2 the group has everything. In
//! round 3 the step keeps no free-space header yet. [`secure`] then latches groups in ascending
//! order before anything in them changes. Later allocations of the step find their blocks in these
//! groups, because no other thread can take blocks from a latched group.
//!
//! "Everything" has a margin of one length of the free list for each group. A list holds the blocks
//! that the btrees of the group take in the worst case of one change (I2 of
//! [`group`](crate::group)).
//!
//! A btree that is half changed therefore gets its block, however long another thread keeps its
//! group. If a step keeps all groups and finds nothing, the volume has no such block.
//!
//! | step | AGFs that it keeps before its first allocation | that allocation |
//! |---|---|---|
//! | maps blocks of a file, a directory or attributes | none | rounds 1 to 3 |
//! | splits a block of a file's btree | none, or those secured in round 3 | rounds 1 to 3 |
//! | makes inodes | none; filling a free list in vain ends the step | the AGI's group, last |
//! | frees an inode | none | the AGI's group, the rest secured |
//! | does deferred work in a group | none; requeued if a lower group is held | none |
//!
//! "Last" is [`SpaceRequest::at_end_of_step`].

use xfs_buffer::Result;
use xfs_format::agf::AGF_SECTOR;
use xfs_format::{AgNumber, FsBlock, Geometry};
use xfs_trans::Transaction;

use crate::extent::BlockExtent;
use crate::group::{GroupRequest, GroupSpace, Near, SearchResult};
use crate::owner::{BlockPurpose, ExtentOwner};
use crate::space::AllocatorState;

/// The block or the group near which blocks are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationTarget {
    /// The allocation must start at exactly this block.
    Exact(FsBlock),
    /// Blocks as near to this block as its group allows. If its group has no space, blocks of any
    /// other group.
    Near(FsBlock),
    /// Blocks as near to this block as its group allows, and in no other group. The block must lie
    /// in the volume.
    NearInGroup(FsBlock),
    /// Any blocks of this group, and of no other group.
    Group(AgNumber),
    /// Any blocks of this group. If this group has no space, any blocks of another group.
    FromGroup(AgNumber),
}

/// A request for an extent of free blocks.
#[doc(alias = "xfs_alloc_arg")]
#[derive(Clone, Copy, Debug)]
pub struct SpaceRequest {
    target: AllocationTarget,
    wanted: GroupRequest,
    /// Whether the transaction step allocates in no other group after this request.
    is_last: bool,
}

impl SpaceRequest {
    /// Creates a request for `minimum` to `maximum` blocks for the contents of a file, as many as
    /// possible. The caller must add their reverse mapping by a deferred change.
    ///
    /// # Panics
    ///
    /// Panics if `minimum` is 0 or greater than `maximum`.
    #[must_use]
    pub const fn new(target: AllocationTarget, minimum: u32, maximum: u32) -> Self {
        assert!(minimum > 0, "something is asked for");
        assert!(minimum <= maximum, "from the minimum to the maximum");
        Self { target, wanted: GroupRequest::blocks(minimum, maximum), is_last: false }
    }

    /// Declares that the blocks are for metadata of `owner`. The allocation then adds their reverse
    /// mapping itself.
    #[must_use]
    pub const fn with_owner(mut self, owner: ExtentOwner) -> Self {
        self.wanted.owner = Some(owner);
        self
    }

    /// Sets the account that the blocks are taken from: the transaction's reservation, or the
    /// reserve that the group keeps for its btrees.
    #[must_use]
    pub const fn with_purpose(mut self, purpose: BlockPurpose) -> Self {
        self.wanted.purpose = Some(purpose);
        self
    }

    /// Requires the number of the first block, counted from the start of its group, to be a
    /// multiple of `alignment`.
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

    /// Requires that `minimum_left` blocks stay free in the group, for later allocations of the
    /// transaction.
    #[must_use]
    pub const fn with_minimum_left(mut self, minimum_left: u32) -> Self {
        self.wanted.minimum_left = minimum_left;
        self
    }

    /// Declares that the transaction step allocates in no other group after this request, which
    /// must name a group. The rest of the step needs no more blocks, so the step need not latch
    /// further groups for it (I2).
    #[must_use]
    pub(crate) const fn at_end_of_step(mut self) -> Self {
        self.is_last = true;
        self
    }
}

/// The treatment of a group whose header another thread holds latched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupWait {
    /// Skip the group without waiting.
    Try,
    /// Wait for the header, unless the transaction step holds the header of a higher group latched.
    Wait,
}

/// The treatment of a latched group that cannot serve a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnRefusal {
    /// Release the header, if nothing in the group has changed.
    Release,
    /// Keep the header latched. The transaction step may need the blocks of the group for other
    /// requests, and must then hold the group already (I2).
    Keep,
}

impl OnRefusal {
    /// Returns `Keep` if the transaction step already keeps the header of the group, or else
    /// `Release`.
    fn of(tx: &Transaction<'_>, number: AgNumber) -> Self {
        if tx.keeps_space() && keeps(tx, number) { Self::Keep } else { Self::Release }
    }
}

/// The result of an attempt to allocate in one group.
enum GroupOutcome {
    Extent(BlockExtent),
    Nothing,
    /// Another thread holds the header of the group latched, so nothing is known about its space.
    Held,
}

/// Allocates blocks for `request`. Returns `None` if no group that the request allows has enough of
/// them. In that case the free list of a group may have been filled, but nothing else has changed.
///
/// A request for one group also returns `None` if the step may not wait for that group, because it
/// may wait only for higher groups than those it keeps (I1).
///
/// The transaction has reserved the blocks. The allocation counts them as used.
///
/// # Errors
///
/// The device's error, a corrupt header or btree of a group, or the error that stopped the log.
///
/// # Panics
///
/// Panics if the block of [`AllocationTarget::NearInGroup`] lies outside the volume.
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
        AllocationTarget::Near(block) => {
            // A hint outside the volume counts as its first block.
            let (group, block) = of_block(block).unwrap_or((AgNumber(0), 0));
            (group, Near::Block(block), true)
        }
        AllocationTarget::NearInGroup(block) => {
            let named = of_block(block);
            let (group, block) = named.expect("the block that names the group lies in the volume");
            (group, Near::Block(block), false)
        }
        AllocationTarget::Group(group) => (group, Near::Anywhere, false),
        AllocationTarget::FromGroup(group) => (group, Near::Anywhere, true),
    };
    let at_home = GroupRequest { near, ..request.wanted };
    if !is_everywhere {
        return allocate_at_home(tx, first, &at_home, request.is_last);
    }
    let left = needed_in_total(tx);
    let wanted = |total: u32| {
        from_group(geometry, first).map(move |group| {
            let near = if group == first { near } else { Near::Anywhere };
            (group, GroupRequest { near, total, ..request.wanted })
        })
    };
    for wait in [GroupWait::Try, GroupWait::Wait] {
        for (group, wanted) in wanted(left) {
            // The summary may be out of date: a group that looks too full is still asked in the
            // last round.
            let summary = AllocatorState::of(tx.journal()).summary(group);
            if summary.longest_free_blocks < wanted.minimum {
                continue;
            }
            if let GroupOutcome::Extent(found) = allocate_in(tx, group, &wanted, wait)? {
                return Ok(Some(found));
            }
        }
    }
    let was_secured = tx.keeps_space();
    if !was_secured {
        secure(tx, &request.wanted, None)?;
    }
    // The groups that the step keeps are asked without a wait.
    for wait in [GroupWait::Try, GroupWait::Wait] {
        for (group, wanted) in wanted(0) {
            if let GroupOutcome::Extent(found) = allocate_in(tx, group, &wanted, wait)? {
                return Ok(Some(found));
            }
        }
    }
    assert!(
        !was_secured || !request.wanted.is_single_block() || keeps_all_groups(tx),
        "I2: a step that keeps a group has the blocks that it may still allocate"
    );
    Ok(None)
}

/// Returns the number of blocks that the transaction may still need, at most the largest `u32`. No
/// group has more blocks than that, so a larger number would be refused as well.
fn needed_in_total(tx: &Transaction<'_>) -> u32 {
    u32::try_from(tx.blocks_left()).unwrap_or(u32::MAX)
}

/// Returns the numbers of all groups: from `first` to the last one, then from group 0 to the one
/// before `first`.
fn from_group(geometry: &Geometry, first: AgNumber) -> impl Iterator<Item = AgNumber> {
    let groups = geometry.ag_count;
    (0..groups).map(move |index| AgNumber((first.0 % groups + index) % groups))
}

/// Allocates in the group that the request names. Unless this is the last request of the
/// transaction step, first latches groups that together have all blocks that the step may need
/// later (I2: the step keeps all blocks that it may need).
fn allocate_at_home(
    tx: &mut Transaction<'_>,
    number: AgNumber,
    wanted: &GroupRequest,
    is_last: bool,
) -> Result<Option<BlockExtent>> {
    let mut on_refusal = OnRefusal::of(tx, number);
    let Some(mut group) = GroupSpace::open(tx, number)? else { return Ok(None) };
    if !is_last && !tx.keeps_space() && !group.has_all(wanted, needed_in_total(tx)) {
        group.leave(tx);
        secure(tx, wanted, Some(number))?;
        let kept = GroupSpace::open(tx, number)?;
        group = kept.expect("the group that a request names is among those secured (I2)");
        on_refusal = OnRefusal::Keep;
    }
    match take(tx, group, wanted, GroupWait::Wait, on_refusal)? {
        GroupOutcome::Extent(found) => Ok(Some(found)),
        GroupOutcome::Nothing | GroupOutcome::Held => Ok(None),
    }
}

/// Latches groups, in ascending order, until two conditions hold or all groups are latched.
/// Together the groups must have all blocks that the transaction may still need, and one group must
/// be able to serve the request.
///
/// The groups stay latched until the end of the transaction step. The step must not keep a
/// free-space header before the call. If the request names a group, only that group can serve it.
fn secure(tx: &mut Transaction<'_>, wanted: &GroupRequest, named: Option<AgNumber>) -> Result<()> {
    debug_assert!(!tx.keeps_space(), "I1: groups are secured before one is kept");
    let (mut missing_blocks, mut is_servable) = (tx.blocks_left(), false);
    let mut without_blocks = Vec::new();
    for number in tx.geometry().groups() {
        let may_serve = named.is_none_or(|named| named == number);
        if missing_blocks == 0 && !may_serve {
            continue;
        }
        let group = GroupSpace::open(tx, number)?;
        let group = group.expect("groups are latched in ascending order (I1)");
        is_servable |= may_serve && (named.is_some() || group.can_afford(wanted));
        let blocks = group.blocks_for_sure();
        missing_blocks = missing_blocks.saturating_sub(blocks.into());
        if blocks > 0 || named == Some(number) {
            group.close(tx);
        } else {
            without_blocks.push(group);
        }
        if missing_blocks == 0 && is_servable {
            without_blocks.into_iter().for_each(|group| group.leave(tx));
            return Ok(());
        }
    }
    // Not enough: only with every group latched is it certain that the volume has no more.
    without_blocks.into_iter().for_each(|group| group.close(tx));
    Ok(())
}

/// Whether the transaction step keeps the free-space headers (AGFs) of all groups latched until it
/// commits.
fn keeps_all_groups(tx: &Transaction<'_>) -> bool {
    tx.geometry().groups().all(|group| keeps(tx, group))
}

/// Whether the transaction step keeps the free-space header (AGF) of this group latched until it
/// commits.
fn keeps(tx: &Transaction<'_>, group: AgNumber) -> bool {
    tx.holds(tx.geometry().header_disk_addr(group, AGF_SECTOR))
}

/// Latches one group and attempts an allocation in it.
fn allocate_in(
    tx: &mut Transaction<'_>,
    number: AgNumber,
    wanted: &GroupRequest,
    wait: GroupWait,
) -> Result<GroupOutcome> {
    let on_refusal = OnRefusal::of(tx, number);
    let opened = match wait {
        GroupWait::Try => GroupSpace::try_open(tx, number)?,
        GroupWait::Wait => GroupSpace::open(tx, number)?,
    };
    match opened {
        Some(group) => take(tx, group, wanted, wait, on_refusal),
        None => Ok(GroupOutcome::Held),
    }
}

/// Allocates in a latched group. If it finds only busy blocks, whose freeing is not durable yet,
/// forces the log and searches once more.
fn take(
    tx: &mut Transaction<'_>,
    mut group: GroupSpace,
    wanted: &GroupRequest,
    wait: GroupWait,
    on_refusal: OnRefusal,
) -> Result<GroupOutcome> {
    let mut found = group.allocate(tx, wanted)?;
    if found == SearchResult::Busy && wait != GroupWait::Try && group.await_busy(tx)? {
        found = group.allocate(tx, wanted)?;
    }
    if let SearchResult::Extent { range, .. } = found {
        let extent = group.extent(tx, range);
        group.close(tx);
        return Ok(GroupOutcome::Extent(extent));
    }
    match on_refusal {
        OnRefusal::Keep => group.close(tx),
        // The header stays latched if the free list was filled.
        OnRefusal::Release => group.leave(tx),
    }
    Ok(GroupOutcome::Nothing)
}
