//! Extents that a file has given up and that must not be overwritten yet.
//!
//! Owns: the extents of one group that a file has given up in a transaction that is not durable
//! yet. They are free, or belong to only one of the files that shared them. Does **not** own when a
//! checkpoint is durable: the log reports it.
//!
//! Suppose that the space of a file is given to a second file before the checkpoint that frees it
//! is on disk. A crash could then bring the first file back with the second file's data. The same
//! danger exists for a block that two files shared: one file has given it up, and the second file
//! overwrites it where it is on disk. So each of these extents stays busy until the log has written
//! the checkpoint of its transaction.
//!
//! # Invariants
//!
//! - **I1** Extents do not overlap: a block that is freed again replaces its earlier entry, as the
//!   later checkpoint is the one to wait for.
//! - **I2** A ticket is issued, and gets the sequence number of its checkpoint, while one
//!   transaction holds the latch of the group's AGF. So sequence numbers rise with tickets, and a
//!   reader under that latch sees no extents of uncommitted transactions except its own.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The number that a transaction step gets when it frees extents in the group.
type BusyTicket = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BusyExtent {
    end: u32,
    ticket: BusyTicket,
}

/// The busy extents of one group.
#[doc(alias = "xfs_extent_busy")]
#[derive(Debug, Default)]
pub(crate) struct BusyExtents {
    by_start: BTreeMap<u32, BusyExtent>,
    /// The extents in the order in which they were given up. The extents at the front become
    /// durable first, so `expire` removes only from the front.
    in_order: VecDeque<(Range<u32>, BusyTicket)>,
    /// The tickets of committed transactions, each with the sequence number of the checkpoint that
    /// the transaction belongs to. Sequence numbers rise with tickets (I2).
    settled: VecDeque<(BusyTicket, u64)>,
    last_ticket: BusyTicket,
}

impl BusyExtents {
    /// Returns a new ticket for a transaction step that is about to free an extent.
    pub(crate) fn issue_ticket(&mut self) -> BusyTicket {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// Marks blocks as busy for the transaction step with this ticket. The step has freed the
    /// blocks, or has taken them from one of the files that shared them.
    pub(crate) fn insert(&mut self, range: Range<u32>, ticket: BusyTicket) {
        self.remove(range.clone());
        self.by_start.insert(range.start, BusyExtent { end: range.end, ticket });
        self.in_order.push_back((range, ticket));
    }

    /// Records that the transaction with this ticket has committed into checkpoint `sequence`.
    pub(crate) fn settle(&mut self, ticket: BusyTicket, sequence: u64) {
        if let Some((last_ticket, last_sequence)) = self.settled.back().copied() {
            assert!(last_ticket < ticket, "I2: tickets settle in the order of their issue");
            assert!(last_sequence <= sequence, "I2: sequences rise with tickets");
        }
        self.settled.push_back((ticket, sequence));
    }

    /// Removes and returns the extents that wait for a checkpoint with a sequence number of at most
    /// `durable`. Each extent was free, or no longer shared, when it became busy. Since then it may
    /// have been used for metadata.
    pub(crate) fn expire(&mut self, durable: u64) -> Vec<Range<u32>> {
        let (mut expired, mut forgotten) = (0, Vec::new());
        while let Some((ticket, _)) =
            self.settled.pop_front_if(|(_, sequence)| *sequence <= durable)
        {
            expired = ticket;
        }
        while let Some((range, ticket)) =
            self.in_order.pop_front_if(|(_, ticket)| *ticket <= expired)
        {
            // Parts of the range may have been freed again since; those belong to another ticket.
            let inside = self.by_start.range(range).filter(|(_, busy)| busy.ticket == ticket);
            let first = forgotten.len();
            forgotten.extend(inside.map(|(start, busy)| *start..busy.end));
            for range in forgotten.iter().skip(first) {
                self.by_start.remove(&range.start);
            }
        }
        forgotten
    }

    /// Whether no extent is busy.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// Returns the sequence number of the last checkpoint that a busy extent waits for. `None` if
    /// only transactions that have not committed hold blocks busy.
    pub(crate) fn last_sequence(&self) -> Option<u64> {
        self.settled.back().map(|(_, sequence)| *sequence)
    }

    /// Returns the sequence number of the checkpoint to wait for before these blocks are
    /// overwritten. It is the checkpoint of the busy block that was given up last. `None` if no
    /// block is busy, or if the transaction that gave up that block has not committed.
    pub(crate) fn sequence_of(&self, range: Range<u32>) -> Option<u64> {
        let before = self.by_start.range(..range.start).next_back();
        let before = before.filter(|(_, busy)| busy.end > range.start);
        let all = before.into_iter().chain(self.by_start.range(range));
        let newest = all.map(|(_, busy)| busy.ticket).max()?;
        let place = self.settled.binary_search_by_key(&newest, |(ticket, _)| *ticket).ok()?;
        self.settled.get(place).map(|(_, sequence)| *sequence)
    }

    /// Returns the parts of a free extent that are not busy, in order.
    pub(crate) fn usable(&self, extent: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let mut from = extent.start;
        if let Some((_, busy)) = self.by_start.range(..extent.start).next_back() {
            from = from.max(busy.end.min(extent.end));
        }
        let inside = self.by_start.range(extent.clone()).map(|(start, busy)| (*start, busy.end));
        inside.chain([(extent.end, extent.end)]).filter_map(move |(start, end)| {
            let gap = from..start;
            from = from.max(end);
            (!gap.is_empty()).then_some(gap)
        })
    }

    /// Removes a range from the busy extents. Extents that overlap the range keep their parts
    /// outside it (I1: extents do not overlap).
    fn remove(&mut self, range: Range<u32>) {
        let before = self.by_start.range(..range.start).next_back();
        let inside = self.by_start.range(range.clone());
        let touched: Vec<_> =
            before.into_iter().chain(inside).map(|(start, busy)| (*start, *busy)).collect();
        for (start, busy) in touched.into_iter().filter(|(_, busy)| busy.end > range.start) {
            self.by_start.remove(&start);
            if start < range.start {
                self.by_start.insert(start, BusyExtent { end: range.start, ..busy });
            }
            if busy.end > range.end {
                self.by_start.insert(range.end, busy);
            }
        }
    }
}

#[cfg(test)]
mod tests;
