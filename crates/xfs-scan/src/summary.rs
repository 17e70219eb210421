//! The figures of a report that a person reads.

use crate::row::RowView;

/// Figures over all rows.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    inodes: u64,
}

impl Summary {
    /// Counts one inode.
    pub(crate) fn add(&mut self, _view: &RowView<'_>, _parent: Option<u64>) {
        self.inodes += 1;
    }

    /// Adds the figures of another part of the volume.
    pub(crate) fn merge(&mut self, other: Self) {
        self.inodes += other.inodes;
    }
}
