//! What an intent about the reverse map or reference counts wants done.
//!
//! ```text
//! RUI flags   31 attribute fork  30 block of a fork's btree  29 unwritten   7..0 action from 1
//! CUI flags                                                                  7..0 action from 1
//! ```
//!
//! An intent comes from the log, so every bit that is not known is an error: whoever wrote it
//! wanted something that would not be done.

use super::LogItemCheck;
use crate::rmap::RmapFlags;

/// The bits of the flags that are the action.
const ACTION_BITS: u32 = 0xff;
/// Where the three flags of a mapping stand in an intent; in a record they are the top bits of the
/// offset, in the same order.
const FLAGS_SHIFT: u32 = 32;

/// A change of the reverse map.
#[doc(alias = "XFS_RMAP_EXTENT_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RmapAction {
    /// A file has got the extent, which nobody else can have.
    Map,
    /// A file has got the extent, which others may have too.
    MapShared,
    /// A file has lost the extent, which nobody else can have.
    Unmap,
    /// A file has lost the extent, which others may have too.
    UnmapShared,
    /// An extent of one file changes between written and unwritten.
    Convert,
    /// The same of an extent that others may have too.
    ConvertShared,
    /// An owner that is no file has got the extent.
    Allocate,
    /// An owner that is no file has lost the extent.
    Free,
}

impl RmapAction {
    /// In the order of their numbers, which start at 1.
    pub const ALL: [Self; 8] = [
        Self::Map,
        Self::MapShared,
        Self::Unmap,
        Self::UnmapShared,
        Self::Convert,
        Self::ConvertShared,
        Self::Allocate,
        Self::Free,
    ];

    /// The flags of an intent for this change of a mapping with these flags.
    #[must_use]
    pub fn encode(self, flags: RmapFlags) -> u32 {
        number(&Self::ALL, self) | (flags.bits() >> FLAGS_SHIFT) as u32
    }

    /// Action and mapping's flags of an intent.
    ///
    /// # Errors
    ///
    /// Bits that are not known.
    pub fn decode(flags: u32) -> Result<(Self, RmapFlags), LogItemCheck> {
        let unknown = LogItemCheck::Action { flags };
        let action = action(&Self::ALL, flags).ok_or(unknown)?;
        let rest = u64::from(flags & !ACTION_BITS) << FLAGS_SHIFT;
        Ok((action, RmapFlags::from_bits(rest).ok_or(unknown)?))
    }
}

/// A change of reference counts.
#[doc(alias = "XFS_REFCOUNT_EXTENT_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefcountAction {
    /// One more file has the extent.
    Increase,
    /// One file fewer has it; what nobody has any more is freed.
    Decrease,
    /// Set aside for copy-on-write.
    Stage,
    /// No longer set aside.
    Unstage,
}

impl RefcountAction {
    /// In the order of their numbers, which start at 1.
    pub const ALL: [Self; 4] = [Self::Increase, Self::Decrease, Self::Stage, Self::Unstage];

    /// The flags of an intent for this change.
    #[must_use]
    pub fn encode(self) -> u32 {
        number(&Self::ALL, self)
    }

    /// The action of an intent.
    ///
    /// # Errors
    ///
    /// Bits that are not known.
    pub fn decode(flags: u32) -> Result<Self, LogItemCheck> {
        let unknown = LogItemCheck::Action { flags };
        if flags & !ACTION_BITS != 0 {
            return Err(unknown);
        }
        action(&Self::ALL, flags).ok_or(unknown)
    }
}

fn number<A: PartialEq>(all: &[A], wanted: A) -> u32 {
    let position = all.iter().position(|action| *action == wanted);
    position.map_or(0, |position| position as u32 + 1)
}

fn action<A: Copy>(all: &[A], flags: u32) -> Option<A> {
    let position = (flags & ACTION_BITS).checked_sub(1)?;
    all.get(position as usize).copied()
}

#[cfg(test)]
mod tests;
