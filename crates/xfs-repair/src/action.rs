//! The changes of a plan, in the form in which a person reads them.

use std::ops::Range;

use xfs_check::{Code, Place};
use xfs_format::extent::Extent;
use xfs_format::{BASIC_BLOCK_BYTES, Geometry, InodeNumber};

/// Returns a count with its noun, such as `1 name` or `3 names`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// One change of a plan: a rule rewrites an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Action {
    /// The name of the rule that makes the change.
    pub rule: &'static str,
    /// The object that is rewritten.
    pub place: Place,
    /// The codes of the checker's findings that led to the change. Empty for a change that follows
    /// from another change.
    pub codes: Vec<Code>,
    /// The contents of the object that are kept, and the evidence for them, in words.
    pub keeps: String,
    /// The contents that are lost. Empty for most changes.
    pub loses: Vec<Loss>,
}

impl Action {
    /// Creates the report of a change that loses nothing.
    #[must_use]
    pub fn new(
        rule: &'static str,
        place: Place,
        codes: Vec<Code>,
        keeps: impl Into<String>,
    ) -> Self {
        Self { rule, place, codes, keeps: keeps.into(), loses: Vec::new() }
    }

    /// Adds a loss to the report: `what` names the lost contents in words, and `inode` is the inode
    /// that loses them or is itself lost. Returns the report.
    #[must_use]
    pub fn losing(mut self, inode: Option<InodeNumber>, what: impl Into<String>) -> Self {
        self.loses.push(Loss { inode, what: what.into(), ranges: Vec::new() });
        self
    }

    /// Adds a range of bytes of the device to the loss that was added last. The repair frees these
    /// bytes without overwriting them, and the caller copies them to the quarantine.
    ///
    /// # Panics
    ///
    /// Panics if the action has no loss yet.
    #[must_use]
    pub fn losing_bytes(mut self, range: Range<u64>) -> Self {
        self.loses.last_mut().expect("a range belongs to a loss").ranges.push(range);
        self
    }

    /// Adds the blocks of extents to the loss that was added last. Extents outside of the volume
    /// have no bytes, and are left out.
    ///
    /// # Panics
    ///
    /// Panics if there are extents, and the action has no loss yet.
    #[must_use]
    pub(crate) fn losing_extents(self, geometry: &Geometry, extents: &[Extent]) -> Self {
        extents.iter().fold(self, |action, extent| {
            let Some(at) = geometry.block_disk_addr(extent.start) else { return action };
            let start = at.0 * u64::from(BASIC_BLOCK_BYTES);
            let bytes = u64::from(extent.length_blocks) << geometry.block_log;
            action.losing_bytes(start..start + bytes)
        })
    }
}

/// Contents that a change loses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The inode that loses the contents, or that is lost. `None` if the loss does not concern an
    /// inode.
    pub inode: Option<InodeNumber>,
    /// The lost contents, in words.
    pub what: String,
    /// The byte ranges on the device of the lost contents. The repair frees these ranges and does
    /// not overwrite them.
    pub ranges: Vec<Range<u64>>,
}
