//! A closed checkpoint, which takes no more commits.
//!
//! Owns: which of the checkpoint's members are written, and in which order. Does **not** own
//! writing them.

use std::sync::Arc;

use super::OpenCheckpoint;
use super::membership::{CilMembership, Disposition, Member, Members};
use crate::item::CheckpointEnd;
use crate::mutant::{ActiveMutant, mutate};

/// A checkpoint that takes no more commits, with its members from all slots.
pub(crate) struct ClosedCheckpoint {
    pub(super) sequence: u64,
    /// The members of the checkpoint, grouped by the slot through which they were committed.
    pub(super) members_by_slot: Vec<Members>,
    /// Number of bytes of log space that commits have granted to the checkpoint.
    pub(super) granted: u64,
}

/// A member that will be written: its vector and its order number.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormattedMember<'a> {
    order: u64,
    pub(super) vector: &'a [u8],
}

impl ClosedCheckpoint {
    pub(super) const fn new(sequence: u64) -> Self {
        Self { sequence, members_by_slot: Vec::new(), granted: 0 }
    }

    /// Takes a slot's members of this checkpoint, and starts the checkpoint `next` in the slot.
    pub(super) fn take(&mut self, membership: &mut CilMembership, next: &Arc<OpenCheckpoint>) {
        self.granted += std::mem::take(&mut membership.granted);
        self.members_by_slot.push(membership.switch(next));
    }

    /// Applies the notes of the slots: a member that a note names will not be written (I4 of
    /// `xfs_log::cil`). Moves into the arenas those vectors that several slots share. Called once,
    /// when no slot has the checkpoint any more.
    pub(super) fn resolve_members(&mut self) {
        for slot in 0..self.members_by_slot.len() {
            let members = self.members_by_slot.get_mut(slot).expect("a slot below their number");
            for note in std::mem::take(&mut members.disposition_notes) {
                let members = self.members_by_slot.get_mut(note.slot as usize);
                let member = members.and_then(|members| members.list.get_mut(note.index as usize));
                let member = member.expect("a note refers to a member of its checkpoint (I4)");
                member.disposition = note.disposition;
            }
        }
        for membership in &mut self.members_by_slot {
            let Members { list, arena, .. } = membership;
            list.iter_mut().for_each(|member| member.take_shared_vector(arena));
        }
    }

    /// Returns the number of regions to write, and the members to write, sorted by order number.
    pub(super) fn formatted_members(
        &self,
        mutant: ActiveMutant,
    ) -> (u32, Vec<FormattedMember<'_>>) {
        let count = self.members_by_slot.iter().map(|membership| membership.list.len()).sum();
        let mut members = Vec::with_capacity(count);
        let mut regions = 0;
        for Members { list, arena, .. } in &self.members_by_slot {
            for Member { order, location, disposition, .. } in list.iter() {
                if *disposition == Disposition::Written && location.regions != 0 {
                    members.push(FormattedMember { order: *order, vector: arena.bytes(*location) });
                    regions += location.regions;
                }
            }
        }
        mutate!(mutant, Mutant::UnstableSort, {}, members.reverse());
        if !members.is_sorted_by_key(|member| member.order) {
            mutate!(mutant, Mutant::NoSort, members.sort_by_key(|member| member.order), {});
        }
        (regions, members)
    }

    /// Unpins every item that the checkpoint has pinned, because the checkpoint has ended as `end`
    /// says.
    pub(super) fn unpin_all(&self, end: CheckpointEnd) {
        for member in self.members_by_slot.iter().flat_map(|membership| membership.list.iter()) {
            member.unpin(end);
        }
    }
}

impl Member {
    /// Unpins the member's item, because the checkpoint has ended as `end` says. Does nothing if
    /// the pin belongs to another member of the same item, or was removed when the member was
    /// freed.
    pub(super) fn unpin(&self, end: CheckpointEnd) {
        match (self.disposition, end) {
            (Disposition::Superseded | Disposition::Free, _) => {}
            (Disposition::Cancelled, CheckpointEnd::Durable) => {
                self.item.unpin(CheckpointEnd::Cancelled)
            }
            _ => self.item.unpin(end),
        }
    }
}
