//! The list of a share's members, in pieces that are used again by later checkpoints.
//!
//! Owns: where a member stands. Does **not** own what a member is, or the bytes of its vector
//! ([`arena`](super::arena)).
//!
//! In pieces because a list that is one piece is copied whenever it grows, under the slot's lock, and
//! because memory that is given back and taken anew has to be cleared by the system each time. All
//! pieces but the last that has members are full.

use xfs_sync::{Mutex, Slot, Slots, Volume};

use super::membership::Member;

/// Members of a piece. What becomes of them when they are durable is done piece by piece too, and for
/// that a lock of the volume is taken.
pub(super) const PIECE_MEMBERS: usize = 1024;

/// Pieces that a slot gets, and gives back, at a time: for both a lock of the volume is taken.
const MOVED_PIECES: usize = 4;

/// Bytes of log that a member takes, by a low estimate.
const BYTES_PER_MEMBER: u64 = 256;

/// A list of members.
#[derive(Default)]
pub(super) struct List {
    pieces: Vec<Vec<Member>>,
    length: usize,
}

impl List {
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    /// Whether so many members more fit.
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.pieces.len() * PIECE_MEMBERS - self.length >= count
    }

    /// Adds an empty piece.
    pub(super) fn add(&mut self, piece: Vec<Member>) {
        self.pieces.push(piece);
    }

    /// Adds a member, for which there is room.
    pub(super) fn push(&mut self, member: Member) {
        if !self.has_room(1) {
            self.add(new_piece());
        }
        if let Some(piece) = self.pieces.get_mut(self.length / PIECE_MEMBERS) {
            piece.push(member);
            self.length += 1;
        }
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Member> {
        self.pieces.get_mut(index / PIECE_MEMBERS)?.get_mut(index % PIECE_MEMBERS)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.pieces.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.pieces.iter_mut().flatten()
    }

    /// The pieces, in order.
    pub(super) fn into_pieces(self) -> impl Iterator<Item = Vec<Member>> {
        self.pieces.into_iter()
    }
}

fn new_piece() -> Vec<Member> {
    Vec::with_capacity(PIECE_MEMBERS)
}

/// Pieces that wait to be used again. Who commits gets them and who writes checkpoints gives them back,
/// so what a slot has at hand goes through the hands of all.
///
/// Lock order: a slot's pieces, then those of all.
pub(super) struct ListPool {
    most_pieces: usize,
    pieces: Mutex<Pieces, Volume>,
    at_hand: Slots<Mutex<Pieces, Slot>>,
}

type Pieces = Vec<Vec<Member>>;

impl ListPool {
    /// A pool for as many members as so many bytes of checkpoints have, in so many slots.
    pub(super) fn new(bytes: u64, slots: usize) -> Self {
        let most_pieces = (bytes / BYTES_PER_MEMBER) as usize / PIECE_MEMBERS + slots;
        Self {
            most_pieces,
            pieces: Mutex::default(),
            at_hand: Slots::with_count(slots, Mutex::default),
        }
    }

    /// An empty piece.
    pub(super) fn take(&self) -> Vec<Member> {
        let mut at_hand = self.at_hand.mine().lock();
        if at_hand.is_empty() {
            let mut kept = self.pieces.lock();
            let rest = kept.len().saturating_sub(MOVED_PIECES);
            at_hand.extend(kept.drain(rest..));
        }
        at_hand.pop().unwrap_or_else(new_piece)
    }

    /// Takes a piece back, and drops what is in it.
    pub(super) fn give_back(&self, mut piece: Vec<Member>) {
        // Before the lock: the last reference to an item may go here.
        piece.clear();
        let mut at_hand = self.at_hand.mine().lock();
        at_hand.push(piece);
        if at_hand.len() >= 2 * MOVED_PIECES {
            let mut kept = self.pieces.lock();
            let room = self.most_pieces.saturating_sub(kept.len());
            kept.extend(at_hand.drain(..MOVED_PIECES).take(room));
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
