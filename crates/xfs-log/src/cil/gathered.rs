//! A checkpoint that takes no commits any more.
//!
//! Owns: which of its members are written, and in which order. Does **not** own writing them.

use std::sync::Arc;

use super::Checkpoint;
use super::share::{Fate, Member, Members, Share};
use crate::item::CheckpointEnd;
use crate::mutant::{ActiveMutant, mutate};

/// What all slots have had of a checkpoint.
pub(super) struct Gathered {
    pub(super) sequence: u64,
    /// By slot.
    pub(super) shares: Vec<Members>,
    /// What commits have given to it.
    pub(super) granted: u64,
}

/// A member whose vector is written, and when its turn is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn<'a> {
    order: u64,
    pub(super) vector: &'a [u8],
}

impl Gathered {
    pub(super) const fn new(sequence: u64) -> Self {
        Self { sequence, shares: Vec::new(), granted: 0 }
    }

    /// Takes a slot's share, after those of the slots before it, and leaves the beginning of the next
    /// checkpoint.
    pub(super) fn take(&mut self, share: &mut Share, next: &Arc<Checkpoint>) {
        self.granted += std::mem::take(&mut share.granted);
        self.shares.push(share.switch(next));
    }

    /// Finds out which members are written, and takes over what several slots have shared. To be
    /// called once, when no slot has the checkpoint any more.
    pub(super) fn settle(&mut self) {
        for slot in 0..self.shares.len() {
            let Some(share) = self.shares.get_mut(slot) else { continue };
            for fated in std::mem::take(&mut share.fated) {
                let share = self.shares.get_mut(fated.slot as usize);
                let list = share.map(|share| &mut share.list);
                if let Some(member) = list.and_then(|list| list.get_mut(fated.index as usize)) {
                    member.fate = fated.fate;
                }
            }
        }
        for share in &mut self.shares {
            let Members { list, arena, .. } = share;
            list.iter_mut().for_each(|member| member.settle(arena));
        }
    }

    /// What is written, in order, and how many regions that is.
    pub(super) fn turns(&self, mutant: ActiveMutant) -> (u32, Vec<Turn<'_>>) {
        let count = self.shares.iter().map(|share| share.list.len()).sum();
        let mut turns = Vec::with_capacity(count);
        let mut regions = 0;
        for Members { list, arena, .. } in &self.shares {
            for Member { order, place, fate, .. } in list.iter() {
                if *fate == Fate::Written && place.regions != 0 {
                    turns.push(Turn { order: *order, vector: arena.bytes(*place) });
                    regions += place.regions;
                }
            }
        }
        mutate!(mutant, Mutant::UnstableSort, {}, turns.reverse());
        if !turns.is_sorted_by_key(|turn| turn.order) {
            mutate!(mutant, Mutant::NoSort, turns.sort_by_key(|turn| turn.order), {});
        }
        (regions, turns)
    }

    /// Unpins every item that the checkpoint has pinned.
    pub(super) fn unpin_all(&self, end: CheckpointEnd) {
        for member in self.shares.iter().flat_map(|share| share.list.iter()) {
            member.unpin(end);
        }
    }
}

impl Member {
    /// Unpins the item, if it is this member that has it pinned.
    pub(super) fn unpin(&self, end: CheckpointEnd) {
        match (self.fate, end) {
            (Fate::Superseded, _) => {}
            (Fate::Cancelled, CheckpointEnd::Durable) => self.item.unpin(CheckpointEnd::Cancelled),
            _ => self.item.unpin(end),
        }
    }
}
