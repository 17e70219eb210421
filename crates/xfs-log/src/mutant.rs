//! Mutants: deliberate bugs. The tests of this crate switch them on to prove that such bugs would
//! be found.
//!
//! Each mutant is a mistake that is easy to make and that only certain schedules expose. A test
//! that switches a mutant on must fail. Without that proof it is unknown whether the test can find
//! any bug. A build without tests contains no mutant: [`mutate!`] expands to the right code alone.

/// A deliberate bug in the log.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The items of a checkpoint are written slot by slot, not sorted by the order number of their
    /// commits.
    NoSort,
    /// The sort reverses members with equal order numbers.
    UnstableSort,
    /// A checkpoint does not wait for its predecessor's START.
    StartOutOfOrder,
    /// The switch to the next checkpoint locks one slot after the other, instead of all at once.
    SlotsOneByOne,
    /// If an item is committed through several slots in each of two successive checkpoints, the
    /// second checkpoint uses the shared vector of the first one.
    SharedVectorKept,
    /// A commit updates vectors in place although the checkpoint has been closed meanwhile.
    UpdateAfterSwitch,
    /// No flush precedes a record with COMMIT.
    NoPreflush,
    /// A record with COMMIT does not wait for earlier closed records that other threads still fill.
    CommitBeforeRecords,
    /// The last record of the first cycle may stay in the device's cache, like any other record
    /// without COMMIT.
    FirstCycleCached,
    /// Records of the second cycle do not wait for those of the first cycle.
    SecondCycleEarly,
    /// If a region is split over two records, other threads may append to the second record before
    /// the rest of the region is in it.
    PiecesApart,
    /// The thread that wrote an item to disk reads the item's number in the AIL only after the item
    /// has left the AIL.
    NumberReadLate,
    /// The tail does not wait at the START of checkpoints that are being written.
    TailPastStart,
    /// The granted bytes of a checkpoint are given back before the head has moved past its records.
    GrantBeforeHead,
    /// The waiter with the smallest request is served first.
    SmallestFirst,
    /// Waiting new transactions need as much free beside their request as the log is long.
    BatchNeverFree,
    /// A new waiter goes to sleep without checking whether bytes came free in the meantime.
    AsleepBeforeLooking,
    /// A waiter that gives up because the log is shut down stays in the queue.
    LeftBehind,
    /// A chain assumes that the space of its next transaction is reserved when it decides which
    /// intents to log again.
    RelogByGuess,
}

/// The mutant that is switched on, if any. In a build without tests this type has no size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ActiveMutant {
    #[cfg(test)]
    mutant: Option<Mutant>,
}

#[cfg(test)]
impl ActiveMutant {
    /// Switches this mutant on.
    pub(crate) const fn with(mutant: Mutant) -> Self {
        Self { mutant: Some(mutant) }
    }

    /// Returns whether this mutant is switched on.
    pub(crate) fn is(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

/// Evaluates the right expression, or the wrong one if a test has switched this mutant on:
/// `mutate!(active, Mutant::X, right, wrong)`. This version is for builds with tests.
#[cfg(test)]
macro_rules! mutate {
    ($active:expr, Mutant::$mutant:ident, $right:expr, $wrong:expr $(,)?) => {
        if $active.is($crate::mutant::Mutant::$mutant) { $wrong } else { $right }
    };
}

/// Evaluates the right expression. The wrong expression is not compiled. This version is for builds
/// without tests.
#[cfg(not(test))]
macro_rules! mutate {
    ($active:expr, Mutant::$mutant:ident, $right:expr, $wrong:expr $(,)?) => {{
        let _ = $active;
        $right
    }};
}

pub(crate) use mutate;
