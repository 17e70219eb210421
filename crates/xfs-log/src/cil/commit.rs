//! Commits.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_sync::{MutexGuard, Ordering};

use super::{Cil, CilMembership};
use crate::item::LogItem;
use crate::ticket::Ticket;
use crate::vector::Scratch;

/// What has to happen after a commit, once its items are unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Nothing.
    None,
    /// The checkpoint is large enough to be written.
    Push,
    /// It is so large that nobody may add to it.
    Throttle,
    /// The transaction logged more than it had reserved.
    Overrun,
}

/// A commit that is part of the current checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// The checkpoint. Forcing the log up to it makes the commit durable.
    pub sequence: u64,
    pub(crate) pressure: Pressure,
}

impl Cil {
    /// Adds a transaction's changes to the current checkpoint. The caller has locked `items`, and
    /// unlocks them afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Shutdown`](xfs_buffer::Error::Shutdown): nothing was added.
    pub(crate) fn commit(
        &self,
        ticket: &mut Ticket,
        items: &[Arc<dyn LogItem>],
    ) -> Result<Committed> {
        self.parts.health.check()?;
        let mut scratch = Scratch::take();
        let mut order = ticket.floor();
        for item in items {
            // Before any slot is locked: its own lock keeps the item as it is.
            scratch.format(item.as_ref());
            order = order.max(item.state().order());
        }
        let mut membership = self.lock_with_room(&scratch);
        if membership.closed {
            drop(membership);
            scratch.keep();
            return Err(xfs_buffer::Error::Shutdown);
        }
        order = order.max(membership.clock) + 1;
        membership.clock = order;
        membership.commits += 1;
        let mut growth = 0;
        for (item, vector) in items.iter().zip(scratch.vectors()) {
            growth += membership.insert(item, vector, order);
        }
        let granted = self.grant(&mut membership, growth);
        let pressure = self.fold_size(&mut membership, growth);
        let sequence = membership.checkpoint.sequence;
        drop(membership);
        scratch.keep();
        let pressure = if ticket.spend(order, granted) { pressure } else { Pressure::Overrun };
        Ok(Committed { sequence, pressure })
    }

    /// Locks this thread's slot, with memory for what is to be inserted. Memory is got while nothing
    /// is locked: an allocator that blocks would stop the switch.
    fn lock_with_room(&self, scratch: &Scratch) -> MutexGuard<'_, CilMembership> {
        let slot = self.slots.mine();
        // A vector that grows takes twice its length, so that it finds room the next time.
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
            // Somebody else may have added a chunk, and it may be what the next one needs.
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

    /// What a commit that adds `growth` bytes gives to its checkpoint, so that it can be written:
    /// the bytes, the overhead of the records that this slot's share of it begins with them, and, by
    /// the first commit, what every checkpoint takes.
    ///
    /// Each slot counts its own share. Shares that are rounded up one by one make up at least as
    /// many records as the whole. A commit begins no more records than its own bytes fill, and for
    /// these it has reserved.
    fn grant(&self, membership: &mut CilMembership, growth: i64) -> u64 {
        let layout = self.parts.writer.layout();
        let growth = growth.max(0) as u64;
        membership.grown += growth;
        let mut granted = growth;
        if membership.grown > membership.records * u64::from(layout.item_bytes()) {
            let records = layout.records(membership.grown);
            granted += (records - membership.records) * u64::from(layout.overhead_bytes());
            membership.records = records;
        }
        // Looking first keeps the word shared by all until the next switch.
        let empty = &membership.checkpoint.empty;
        if empty.load(Ordering::Acquire) && empty.swap(false, Ordering::AcqRel) {
            granted += layout.checkpoint_bytes();
            self.begin(membership.checkpoint.sequence);
        }
        membership.granted += granted;
        granted
    }

    /// Counts the bytes, in the slot until they are worth a write that all slots share.
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
