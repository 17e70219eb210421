//! Iterators over the records of a btree: record by record, or a leaf at a time.

use xfs_buffer::Result;
use xfs_format::btree::BtreeFormat;

use crate::cursor::Cursor;

/// An iterator over the records of a btree, from the record of a cursor on.
///
/// After an error the iterator continues after the block that could not be read.
pub struct Records<'a, F: BtreeFormat> {
    leaves: Leaves<'a, F>,
    leaf: Vec<F::Record>,
    index: usize,
}

impl<'a, F: BtreeFormat> Records<'a, F> {
    pub(crate) fn new(cursor: Cursor<'a, F>) -> Self {
        Self { leaves: cursor.leaves(), leaf: Vec::new(), index: 0 }
    }
}

impl<F: BtreeFormat> Iterator for Records<'_, F> {
    type Item = Result<F::Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.leaf.len() {
            self.index = 0;
            match self.leaves.read_next(&mut self.leaf) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        let record = self.leaf.get(self.index).copied();
        self.index += 1;
        record.map(Ok)
    }
}

/// The leaves of a btree, from the record of a cursor on.
pub struct Leaves<'a, F: BtreeFormat> {
    cursor: Cursor<'a, F>,
    /// Whether the next call returns the records of the leaf on which the cursor stands. If
    /// `false`, the next call first moves the cursor to the next leaf. `true` only if the cursor
    /// stands on a record and no leaf has been returned yet.
    is_fresh: bool,
}

impl<'a, F: BtreeFormat> Leaves<'a, F> {
    pub(crate) const fn new(cursor: Cursor<'a, F>) -> Self {
        let is_fresh = cursor.is_started();
        Self { cursor, is_fresh }
    }

    /// Replaces the contents of `records` with the records of the next leaf and returns `true`.
    /// After the last leaf, empties `records` and returns `false`.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or a corruption if a block is damaged. The next call continues
    /// after that block.
    pub fn read_next(&mut self, records: &mut Vec<F::Record>) -> Result<bool> {
        records.clear();
        let is_placed = if self.is_fresh { true } else { self.cursor.next_leaf()? };
        self.is_fresh = false;
        if is_placed {
            self.cursor.read_leaf(records)?;
        }
        Ok(!records.is_empty())
    }
}
