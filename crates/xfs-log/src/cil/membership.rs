//! One slot's part of the open checkpoint. The threads of one CPU commit through the same slot.
//!
//! Owns: the items that were committed through the slot, their vectors, and their sizes. Does
//! **not** own the checkpoint, or the decision when to switch to the next one.
//!
//! # An item that is committed again
//!
//! ```text
//!                 same slot: replaced in place        any slot: replaced under its own lock
//!                   ┌──────┐                            ┌──────┐
//!  committed ─→ in the arena of a slot ─ another slot ─→ shared ┘
//!                                        (superseded there, a new member here)
//! ```
//!
//! Most items are committed by one thread at a time, and by the same thread again. An item that
//! moves between slots gets a vector with a lock of its own. So the item is in a checkpoint twice
//! at most, however often it moves. Each checkpoint gets a new shared vector of the item, because
//! commits may fill that of the next checkpoint before this checkpoint is written.

use std::sync::Arc;

use super::OpenCheckpoint;
use super::arena::{Arena, VectorLocation};
use super::members::{FreeMembers, MemberList};
use crate::item::{ItemState, LogItem, MemberRef, SharedVector};
use crate::mutant::{ActiveMutant, mutate};
use crate::vector::{RegionUpdater, RegionWriter, Vector};

/// Whether a push writes a member, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    /// The member is written.
    Written,
    /// Another member of the same item is written instead.
    Superseded,
    /// The member is an intent that has been finished: neither the intent nor its completion is
    /// written.
    Cancelled,
    /// The member was such an intent, and has been unpinned. The next member takes its entry and
    /// its memory.
    Free,
}

/// An item's entry in one slot's part of a checkpoint.
pub(super) struct Member {
    pub(super) item: Arc<dyn LogItem>,
    /// The order number of the last commit that contained the item. A push writes members in
    /// ascending order of these numbers.
    pub(super) order: u64,
    pub(super) location: VectorLocation,
    pub(super) disposition: Disposition,
    /// The shared vector, if several slots have committed the item. The `SharedBody` of the vector
    /// then has the order number and the bytes.
    shared: Option<Arc<SharedVector>>,
}

/// A note that a commit makes in its slot: a push must not write a certain member, which may be in
/// another slot.
pub(super) struct DispositionNote {
    pub(super) slot: u32,
    pub(super) index: u32,
    pub(super) disposition: Disposition,
}

/// A slot's part of the open checkpoint.
pub(super) struct CilMembership {
    /// The index of the per-CPU slot.
    number: u32,
    pub(super) checkpoint: Arc<OpenCheckpoint>,
    pub(super) members: Members,
    /// Number of bytes that are not yet added to the checkpoint's common count
    /// (`OpenCheckpoint::folded`). The number may be negative.
    pub(super) unfolded: i64,
    /// Number of bytes of vectors for which commits through this slot have granted log space to the
    /// checkpoint.
    pub(super) grown: u64,
    /// Number of bytes of `grown` that no vector takes: vectors have become shorter, or intents
    /// were cancelled.
    spare: u64,
    /// Number of log records whose overhead is covered by the log space that commits through this
    /// slot have granted to the checkpoint.
    pub(super) records: u64,
    /// Number of bytes of log space that commits through this slot have granted to the checkpoint.
    pub(super) granted: u64,
    /// Number of commits through this slot since the log was opened.
    pub(super) commits: u64,
    /// The largest order number of a commit through this slot.
    pub(super) clock: u64,
    /// Number of members that the commit in progress has freed.
    freed: u32,
    /// Whether the log is shut down. If so, the slot refuses commits, because no push would ever
    /// take new members out of the slot.
    pub(super) closed: bool,
    mutant: ActiveMutant,
}

/// The members (items) of a checkpoint that were committed through one slot, and the memory of
/// their vectors.
#[derive(Default)]
pub(super) struct Members {
    pub(super) list: MemberList,
    pub(super) arena: Arena,
    pub(super) disposition_notes: Vec<DispositionNote>,
    pub(super) free: FreeMembers,
}

impl Members {
    /// Returns whether the arena needs another chunk of memory to hold vectors of `bytes` bytes.
    pub(super) fn lacks_arena_chunk(&self, bytes: usize) -> bool {
        bytes != 0 && !self.arena.has_room(bytes)
    }
}

/// An item with its log state, which is looked up only once per commit.
#[derive(Clone, Copy)]
struct StatefulItem<'a> {
    item: &'a Arc<dyn LogItem>,
    state: &'a ItemState,
}

impl CilMembership {
    pub(super) fn new(number: u32, checkpoint: Arc<OpenCheckpoint>, mutant: ActiveMutant) -> Self {
        Self {
            number,
            checkpoint,
            members: Members::default(),
            unfolded: 0,
            grown: 0,
            spare: 0,
            records: 0,
            granted: 0,
            commits: 0,
            clock: 0,
            freed: 0,
            closed: false,
            mutant,
        }
    }

    /// Takes the members of the slot's checkpoint, and starts the checkpoint `next` in the slot.
    pub(super) fn switch(&mut self, next: &Arc<OpenCheckpoint>) -> Members {
        self.checkpoint = Arc::clone(next);
        (self.unfolded, self.grown, self.spare, self.records) = (0, 0, 0, 0);
        std::mem::take(&mut self.members)
    }

    /// Begins a commit through this slot. `order` is the least order number that the commit may
    /// have. Returns the order number of the commit.
    pub(super) fn begin_commit(&mut self, order: u64) -> u64 {
        let order = order.max(self.clock) + 1;
        self.clock = order;
        self.commits += 1;
        self.freed = 0;
        self.members.free.begin_commit();
        order
    }

    /// Returns the number of bytes for which log space must be granted, because a commit adds
    /// `growth` bytes to the checkpoint. Keeps bytes for later commits if `growth` is negative.
    pub(super) fn take_spare(&mut self, growth: i64) -> u64 {
        let added = growth.max(0) as u64;
        let taken = added.min(self.spare);
        self.spare = self.spare - taken + growth.min(0).unsigned_abs();
        added - taken
    }

    /// Ends a commit of `items`. Returns those intents that the commit has finished and whose
    /// members it has freed. The caller unpins them when it has unlocked the slot.
    pub(super) fn end_commit<'a>(
        &self,
        items: &'a [Arc<dyn LogItem>],
    ) -> impl Iterator<Item = &'a dyn LogItem> + use<'a> {
        let (sequence, slot) = (self.checkpoint.sequence, self.number);
        let items = if self.freed == 0 { &[] } else { items };
        let intents = items.iter().filter_map(|item| item.finishes());
        intents.filter(move |intent| is_freed_by(intent.state(), sequence, slot))
    }

    /// Adds an item to the checkpoint, or replaces the item's vector if the item is a member
    /// already. `order` is the order number of the commit. Returns the number of bytes by which the
    /// checkpoint has grown; it may be negative.
    pub(super) fn insert(
        &mut self,
        item: &Arc<dyn LogItem>,
        vector: Vector<'_>,
        order: u64,
    ) -> i64 {
        let sequence = self.checkpoint.sequence;
        if let Some(intent) = item.finishes()
            && intent.state().sequence() == sequence
        {
            return self.cancel(intent);
        }
        let state = item.state();
        let length = vector.bytes.len() as i64;
        state.set_order(order);
        if state.sequence() != sequence {
            self.add_vector(StatefulItem { item, state }, order, vector);
            item.pin();
            state.set_length_bytes(length as u64);
            return length;
        }
        let growth = length - state.length_bytes() as i64;
        state.set_length_bytes(length as u64);
        let member_ref = state.member_ref();
        if member_ref.is_shared {
            let shared = state.shared();
            let shared = shared.as_ref().expect("an item with a shared member has its vector");
            replace_shared(shared, vector, order);
        } else if member_ref.slot == self.number {
            let member = self.members.list.get_mut(member_ref.index as usize);
            let member = member.expect("an item of this checkpoint refers to its member");
            member.order = order;
            member.location = self.members.arena.replace(member.location, vector);
        } else {
            let shared = self.new_vector(state);
            replace_shared(&shared, vector, order);
            self.note(member_ref, Disposition::Superseded);
            self.add(StatefulItem { item, state }, order, VectorLocation::default(), Some(shared));
        }
        growth
    }

    /// Brings the vector of an item up to date, which is a member of the checkpoint already.
    /// `order` is the order number of the commit.
    pub(super) fn update(&mut self, item: &Arc<dyn LogItem>, order: u64) {
        let state = item.state();
        state.set_order(order);
        let member_ref = state.member_ref();
        if member_ref.is_shared {
            let shared = state.shared();
            let shared = shared.as_ref().expect("an item with a shared member has its vector");
            let mut body = shared.body.lock();
            body.order = order;
            update_vector(item.as_ref(), &mut body.bytes, self.commits);
        } else {
            let member = self.members.list.get_mut(member_ref.index as usize);
            let member = member.expect("an updated item refers to its member (I5)");
            member.order = order;
            let vector = self.members.arena.bytes_mut(member.location);
            update_vector(item.as_ref(), vector, self.commits);
        }
    }

    /// Returns a new shared vector for an item that another slot has already committed to this
    /// checkpoint. The item's shared vector of the previous checkpoint is not reused: its bytes may
    /// not be [in that checkpoint's arena](Member::take_shared_vector) yet.
    fn new_vector(&self, state: &ItemState) -> Arc<SharedVector> {
        let mut shared = state.shared();
        let vector = mutate!(
            self.mutant,
            Mutant::SharedVectorKept,
            shared.insert(Arc::default()),
            shared.get_or_insert_default()
        );
        Arc::clone(vector)
    }

    /// Adds a member for an item to the slot, with the vector of the item. Takes the entry and the
    /// memory of a freed member, if there is one that comes after all members that this commit has
    /// added: a push writes the intents of one commit in the order of their entries.
    fn add_vector(&mut self, item: StatefulItem<'_>, order: u64, vector: Vector<'_>) {
        let Members { list, arena, free, .. } = &mut self.members;
        let Some(index) = free.take() else {
            let location = arena.store(vector);
            free.note_added(list.len() as u32);
            return self.add(item, order, location, None);
        };
        let member = list.get_mut(index as usize).expect("a freed member is in the list");
        member.location = arena.replace(member.location, vector);
        (member.order, member.disposition) = (order, Disposition::Written);
        member.item = Arc::clone(item.item);
        let member_ref = MemberRef { slot: self.number, index, is_shared: false };
        item.state.assign(self.checkpoint.sequence, member_ref);
    }

    /// Adds a member for an item to the slot. The member's vector is at `location` in the arena, or
    /// in `shared` if several slots have committed the item.
    fn add(
        &mut self,
        StatefulItem { item, state }: StatefulItem<'_>,
        order: u64,
        location: VectorLocation,
        shared: Option<Arc<SharedVector>>,
    ) {
        let index = self.members.list.len() as u32;
        let member_ref = MemberRef { slot: self.number, index, is_shared: shared.is_some() };
        state.assign(self.checkpoint.sequence, member_ref);
        let (item, disposition) = (Arc::clone(item), Disposition::Written);
        self.members.list.push(Member { item, order, location, disposition, shared });
    }

    /// Cancels an intent of this checkpoint: neither the intent nor its completion is written.
    /// Returns the number of bytes that the intent would have taken, negated.
    ///
    /// The member of an intent that was committed through this slot is freed at once. A chain of a
    /// million steps has as many intents, and most of them end in the checkpoint in which they
    /// began.
    fn cancel(&mut self, intent: &dyn LogItem) -> i64 {
        let state = intent.state();
        let member_ref = state.member_ref();
        if is_freed_by(state, self.checkpoint.sequence, self.number) {
            let member = self.members.list.get_mut(member_ref.index as usize);
            let member = member.expect("an intent of this checkpoint refers to its member");
            member.disposition = Disposition::Free;
            self.members.free.add(member_ref.index);
            self.freed += 1;
        } else {
            self.note(member_ref, Disposition::Cancelled);
        }
        -(state.length_bytes() as i64)
    }

    fn note(&mut self, member_ref: MemberRef, disposition: Disposition) {
        self.members.disposition_notes.push(DispositionNote {
            slot: member_ref.slot,
            index: member_ref.index,
            disposition,
        });
    }
}

/// Whether a commit through `slot` to the checkpoint `sequence` frees the member of the intent with
/// this state, if the commit finishes the intent. The member of an intent that came through another
/// slot stays, because only the lock of that slot protects it.
fn is_freed_by(state: &ItemState, sequence: u64, slot: u32) -> bool {
    let member_ref = state.member_ref();
    state.sequence() == sequence && member_ref.slot == slot && !member_ref.is_shared
}

/// Brings the vector of an item up to date. A build with debug assertions compares the result of
/// every 16th commit with a new vector.
fn update_vector(item: &dyn LogItem, vector: &mut [u8], commits: u64) {
    item.update(&mut RegionUpdater::new(vector));
    debug_assert!(
        !commits.is_multiple_of(16) || is_vector_of(item, vector),
        "an updated vector is the one that its item would format"
    );
}

fn is_vector_of(item: &dyn LogItem, vector: &[u8]) -> bool {
    let mut new = Vec::new();
    item.format(&mut RegionWriter::new(&mut new));
    vector == new
}

impl Member {
    /// Moves the member's vector into `arena`, if the vector is shared by several slots. Called
    /// after the checkpoint has been closed to commits.
    pub(super) fn take_shared_vector(&mut self, arena: &mut Arena) {
        if let Some(shared) = self.shared.take() {
            let mut body = shared.body.lock();
            self.order = body.order;
            self.location = arena.adopt(std::mem::take(&mut body.bytes), body.regions);
        }
    }
}

fn replace_shared(shared: &SharedVector, vector: Vector<'_>, order: u64) {
    let mut body = shared.body.lock();
    body.order = order;
    body.regions = vector.regions;
    body.bytes.clear();
    body.bytes.extend_from_slice(vector.bytes);
}
