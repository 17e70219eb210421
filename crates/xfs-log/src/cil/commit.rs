//! Commits: adding the changes of a transaction to the open checkpoint.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_sync::{MutexGuard, Ordering};

use super::{Cil, CilMembership};
use crate::item::{CheckpointEnd, ItemState, LogItem};
use crate::mutant::mutate;
use crate::ticket::Ticket;
use crate::vector::Scratch;

/// The work that a commit makes necessary after its items are unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// No work is necessary.
    None,
    /// The open checkpoint is large enough to be written.
    Push,
    /// The open checkpoint is so large that the committing thread must wait until the checkpoint is
    /// closed.
    Throttle,
    /// The transaction logged more bytes than it had reserved: the log must be shut down.
    Overrun,
}

/// The result of a commit: its changes are part of the open checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// The sequence number of the checkpoint to which the commit was added. Forcing the log up to
    /// this sequence makes the commit durable.
    pub sequence: u64,
    pub(crate) pressure: Pressure,
}

/// The members of the open checkpoint whose vectors a commit through one slot may update in place.
#[derive(Clone, Copy)]
struct OpenMembers {
    sequence: u64,
    slot: u32,
}

impl OpenMembers {
    /// Returns whether the commit may update the vector of an item. The vector is in the memory of
    /// the slot, or has a lock of its own because several slots share it.
    #[inline]
    fn has(self, state: &ItemState) -> bool {
        let member_ref = state.member_ref();
        state.sequence() == self.sequence && (member_ref.slot == self.slot || member_ref.is_shared)
    }
}

impl Cil {
    /// Adds a transaction's changes to the open checkpoint. The caller has locked `items`, and
    /// unlocks them after the call.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Shutdown`](xfs_buffer::Error::Shutdown) if the log is shut down; nothing
    /// was added then.
    pub(crate) fn commit(
        &self,
        ticket: &mut Ticket,
        items: &[Arc<dyn LogItem>],
    ) -> Result<Committed> {
        self.parts.health.check()?;
        let mut scratch = Scratch::take();
        let mut order = ticket.floor();
        let open = OpenMembers { sequence: self.current(), slot: self.slots.my_number() as u32 };
        for item in items {
            // Before any slot is locked: the item's own lock keeps it unchanged.
            let state = item.state();
            if open.has(state) && item.is_updatable() {
                scratch.update();
            } else {
                scratch.format(item.as_ref());
            }
            order = order.max(state.order());
        }
        let mut membership = self.lock_with_room(&scratch);
        // I5.
        let is_switched = membership.checkpoint.sequence != open.sequence;
        let is_switched = mutate!(self.parts.mutant, Mutant::UpdateAfterSwitch, is_switched, false);
        if is_switched && scratch.has_updates() {
            drop(membership);
            scratch.clear();
            items.iter().for_each(|item| scratch.format(item.as_ref()));
            membership = self.lock_with_room(&scratch);
        }
        if membership.closed {
            drop(membership);
            scratch.keep();
            return Err(xfs_buffer::Error::Shutdown);
        }
        let order = membership.begin_commit(order);
        let mut growth = 0;
        for (item, vector) in items.iter().zip(scratch.vectors()) {
            match vector {
                Some(vector) => growth += membership.insert(item, vector, order),
                None => membership.update(item, order),
            }
        }
        let granted = self.grant(&mut membership, growth);
        let pressure = self.fold_size(&mut membership, growth);
        let sequence = membership.checkpoint.sequence;
        let cancelled = membership.end_commit(items);
        drop(membership);
        cancelled.for_each(|intent| intent.unpin(CheckpointEnd::Cancelled));
        scratch.keep();
        let pressure = if ticket.spend(order, granted) { pressure } else { Pressure::Overrun };
        Ok(Committed { sequence, pressure })
    }

    /// Locks the calling thread's slot, after the slot has got memory for the vectors in `scratch`.
    /// Memory is allocated while no lock is held: an allocator that blocks would delay the switch.
    fn lock_with_room(&self, scratch: &Scratch) -> MutexGuard<'_, CilMembership> {
        let slot = self.slots.mine();
        // A vector that grows takes twice its length, so that it has room the next time.
        let (bytes, members) = (2 * scratch.length_bytes(), scratch.count());
        loop {
            let membership = slot.lock();
            let lacks_arena_chunk = membership.members.lacks_arena_chunk(bytes);
            let lacks_member_chunk = !membership.members.list.has_room(members);
            if !lacks_arena_chunk && !lacks_member_chunk {
                return membership;
            }
            drop(membership);
            let arena_chunk = lacks_arena_chunk.then(|| self.pool.take(bytes));
            let member_chunk = lacks_member_chunk.then(|| self.lists.take());
            let mut membership = slot.lock();
            member_chunk.into_iter().for_each(|chunk| membership.members.list.add(chunk));
            // Another thread may have added a chunk, and the next commit may need that one.
            let still_lacks = membership.members.lacks_arena_chunk(bytes);
            match arena_chunk {
                Some(chunk) if still_lacks => membership.members.arena.add(chunk),
                Some(unneeded) => {
                    drop(membership);
                    self.pool.give_back(unneeded);
                }
                None => {}
            }
        }
    }

    /// Grants log space to the open checkpoint for a commit that adds `growth` bytes. The grant
    /// covers these bytes and the overhead of the records that this slot begins with them. The
    /// first commit is also granted the fixed overhead that every checkpoint has (I3). Bytes that
    /// vectors of this slot no longer take are used first. Returns the number of bytes granted.
    ///
    /// Each slot counts the records that its own bytes fill, rounded up. The sum of these counts is
    /// at least the number of records that all bytes together fill. A commit begins no more records
    /// than its own bytes fill, and its ticket has reserved space for these records.
    fn grant(&self, membership: &mut CilMembership, growth: i64) -> u64 {
        let layout = self.parts.writer.layout();
        let growth = membership.take_spare(growth);
        membership.grown += growth;
        let mut granted = growth;
        if membership.grown > membership.records * u64::from(layout.item_bytes()) {
            let records = layout.records(membership.grown);
            granted += (records - membership.records) * u64::from(layout.overhead_bytes());
            membership.records = records;
        }
        // Load first: the word stays shared in all caches until the next switch.
        let empty = &membership.checkpoint.empty;
        if empty.load(Ordering::Acquire) && empty.swap(false, Ordering::AcqRel) {
            granted += layout.checkpoint_bytes();
            self.begin(membership.checkpoint.sequence);
        }
        membership.granted += granted;
        granted
    }

    /// Adds `growth` to the byte count of the slot. If the slot's count is then large, moves it to
    /// the count that all slots share. Returns the work that the size of the checkpoint makes
    /// necessary.
    fn fold_size(&self, membership: &mut CilMembership, growth: i64) -> Pressure {
        membership.unfolded += growth;
        let batch = (self.parts.soft_bytes / self.slots.iter().len() as u64).cast_signed();
        if membership.unfolded.abs() > batch {
            let folded = &membership.checkpoint.folded;
            folded.fetch_add(membership.unfolded.cast_unsigned(), Ordering::Relaxed);
            membership.unfolded = 0;
        }
        match membership.checkpoint.folded_bytes() {
            bytes if bytes >= self.hard_bytes() => Pressure::Throttle,
            bytes if bytes >= self.parts.soft_bytes => Pressure::Push,
            _ => Pressure::None,
        }
    }
}
