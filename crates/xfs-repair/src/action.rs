//! An action of a repair: the change that one rule makes, with what it keeps and what it loses.
//!
//! Owns: the description of a change. Does **not** own: the changed bytes (`overlay`), or the text
//! of the plan (`plan`).

use std::ops::Range;

use xfs_check::{Code, Place};

/// One change of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The name of the rule, such as `directory.rebuild`. Names of rules are never changed.
    pub rule: &'static str,
    /// The object that the rule changes.
    pub place: Place,
    /// The codes of the findings that the rule answers.
    pub codes: Vec<Code>,
    /// The parts of the object that the rule keeps, in words.
    pub keeps: String,
    /// The parts that the rule gives up. Empty for a rule without loss.
    pub loses: Vec<Loss>,
}

impl Action {
    /// Creates an action without codes and losses.
    #[must_use]
    pub fn new(rule: &'static str, place: Place, keeps: impl Into<String>) -> Self {
        Self { rule, place, codes: Vec::new(), keeps: keeps.into(), loses: Vec::new() }
    }

    /// Adds the codes of the findings that the rule answers.
    #[must_use]
    pub fn codes(mut self, codes: impl IntoIterator<Item = Code>) -> Self {
        self.codes.extend(codes);
        self
    }

    /// Adds a part that the rule gives up.
    #[must_use]
    pub fn loses(mut self, loss: Loss) -> Self {
        self.loses.push(loss);
        self
    }

    /// Returns whether the action gives up anything.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        !self.loses.is_empty()
    }
}

/// A part of the volume that an action gives up. The quarantine keeps a copy of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The part, in words.
    pub what: String,
    /// The byte ranges of the device that hold the part. The quarantine gets a copy of each range
    /// as it was before the repair.
    pub ranges: Vec<Range<u64>>,
    /// The bytes of a name or a value that goes, if there is one.
    pub bytes: Option<Vec<u8>>,
}

impl Loss {
    /// Creates a loss without ranges and bytes.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ranges: Vec::new(), bytes: None }
    }

    /// Adds a range of bytes of the device that the quarantine keeps.
    #[must_use]
    pub fn range(mut self, range: Range<u64>) -> Self {
        self.ranges.push(range);
        self
    }

    /// Adds the bytes of a name or a value that the quarantine keeps.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.bytes = Some(bytes.into());
        self
    }
}
