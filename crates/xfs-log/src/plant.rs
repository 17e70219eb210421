//! Planted bugs: mistakes that the tests of this crate make on purpose.
//!
//! Each is one that is easy to make and that only a certain schedule shows. A test that plants it
//! must fail to find the log in order; without that nobody knows whether the test can see anything.
//! In a build that is no test there is nothing to plant, and asking costs nothing.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// A checkpoint is written in the order of its slots.
    NoSort,
    /// The sort turns around what has the same order number.
    UnstableSort,
    /// A checkpoint does not wait for its predecessor's START.
    StartOutOfOrder,
    /// The switch locks one slot after the other.
    SlotsOneByOne,
    /// An item that several slots have again takes the vector that it had in the checkpoint before.
    SharedVectorKept,
    /// No flush goes before a record with COMMIT.
    NoPreflush,
    /// A record with COMMIT does not wait for records that others have closed before it, and still fill.
    CommitBeforeRecords,
    /// The rest of a region does not come before what others append to the next record.
    PiecesApart,
    /// Who has written an item in place reads its number in the list when it has left already.
    NumberReadLate,
    /// The tail does not wait for checkpoints that are being written.
    TailPastStart,
    /// Granted bytes are given back before the head has moved over them.
    GrantBeforeHead,
    /// Of those who wait for space the one who wants least is served first.
    SmallestFirst,
    /// Who begins to wait does not look whether what he wants has come free meanwhile.
    AsleepBeforeLooking,
    /// Who waits no longer, because the log is shut down, stays in line.
    LeftBehind,
    /// A chain decides what to log again without making sure of its next step.
    RelogByGuess,
}

/// The bug that is planted, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plants {
    #[cfg(test)]
    planted: Option<Plant>,
}

impl Plants {
    /// With this bug.
    #[cfg(test)]
    pub(crate) const fn with(plant: Plant) -> Self {
        Self { planted: Some(plant) }
    }

    /// Whether this bug is planted.
    #[cfg(test)]
    pub(crate) fn has(self, plant: Plant) -> bool {
        self.planted == Some(plant)
    }

    /// Whether this bug is planted: never.
    #[cfg(not(test))]
    pub(crate) const fn has(self, _plant: Plant) -> bool {
        false
    }
}
