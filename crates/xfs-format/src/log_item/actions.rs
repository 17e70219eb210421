//! The actions of intents for the reverse map and for reference counts.
//!
//! ```text
//! RUI flags   31 attribute fork  30 block of a fork's btree  29 unwritten   7..0 action, from 1
//! CUI flags                                                                  7..0 action, from 1
//! ```
//!
//! Every unknown bit in an intent is an error: it would request an action that recovery cannot
//! carry out.

use super::LogItemCheck;
use crate::rmap::RmapFlags;

/// The bits of an intent's flags that hold the action.
const ACTION_BITS: u32 = 0xff;
/// Distance in bits between a flag of a mapping in an intent and the same flag in a record. In a
/// record the three flags are the top bits of the offset, in the same order.
const FLAGS_SHIFT: u32 = 32;

/// A change of the reverse map that an intent requests.
#[doc(alias = "XFS_RMAP_EXTENT_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RmapAction {
    /// A file maps an extent that no other file can share.
    Map,
    /// A file maps an extent that other files may share.
    MapShared,
    /// A file unmaps an extent that no other file can share.
    Unmap,
    /// A file unmaps an extent that other files may share.
    UnmapShared,
    /// A file converts an unshared extent between written and unwritten.
    Convert,
    /// A file converts, between written and unwritten, an extent that other files may share.
    ConvertShared,
    /// An owner that is not a file gets the extent.
    Allocate,
    /// An owner that is not a file gives up the extent.
    Free,
}

impl RmapAction {
    /// All actions, in the order of the numbers that stand for them, which start at 1.
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

    /// Encodes this action, for a mapping with the given flags, as the flags of an intent.
    #[must_use]
    pub fn encode(self, flags: RmapFlags) -> u32 {
        number(&Self::ALL, self) | (flags.bits() >> FLAGS_SHIFT) as u32
    }

    /// Decodes the action and the mapping's flags from the flags of an intent.
    ///
    /// # Errors
    ///
    /// Returns an error if a bit is unknown.
    pub fn decode(flags: u32) -> Result<(Self, RmapFlags), LogItemCheck> {
        let unknown = LogItemCheck::Action { flags };
        let action = action(&Self::ALL, flags).ok_or(unknown)?;
        let rest = u64::from(flags & !ACTION_BITS) << FLAGS_SHIFT;
        Ok((action, RmapFlags::from_bits(rest).ok_or(unknown)?))
    }
}

/// A change of reference counts that an intent requests.
#[doc(alias = "XFS_REFCOUNT_EXTENT_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefcountAction {
    /// Adds a reference to the extent.
    Increase,
    /// Removes a reference. Blocks without references are freed.
    Decrease,
    /// Reserves the extent for copy-on-write.
    Stage,
    /// Ends the reservation of the extent for copy-on-write.
    Unstage,
}

impl RefcountAction {
    /// All actions, in the order of the numbers that stand for them, which start at 1.
    pub const ALL: [Self; 4] = [Self::Increase, Self::Decrease, Self::Stage, Self::Unstage];

    /// Encodes this action as the flags of an intent.
    #[must_use]
    pub fn encode(self) -> u32 {
        number(&Self::ALL, self)
    }

    /// Decodes the action from the flags of an intent.
    ///
    /// # Errors
    ///
    /// Returns an error if a bit is unknown.
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
    position.expect("the list holds every action") as u32 + 1
}

fn action<A: Copy>(all: &[A], flags: u32) -> Option<A> {
    let position = (flags & ACTION_BITS).checked_sub(1)?;
    all.get(position as usize).copied()
}

#[cfg(test)]
mod tests;
