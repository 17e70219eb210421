//! The errors of failed checks of an inode.

use thiserror::Error;

use crate::addr::InodeNumber;
use crate::inode::flags::{InodeFlags, InodeFlags2};
use crate::inode::kinds::{FileType, ForkFormat, ForkKind};

/// A failed check of an inode, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum InodeCheck {
    #[error("its version is {version}, not 3")]
    Version { version: u8 },
    #[error("its stored number is {found}")]
    Misplaced { found: InodeNumber },
    #[error("fork format {raw} is unknown")]
    UnknownFormat { raw: u8 },
    #[error("mode {mode:#o} has no known file type")]
    Mode { mode: u16 },
    #[error("size {size:#x} is negative")]
    Size { size: u64 },
    #[error("a {file_type:?} of size 0 has {nlink} links")]
    Empty { file_type: FileType, nlink: u32 },
    #[error("the link count of {nlink} is below the number of names")]
    TooFewLinks { nlink: u32 },
    #[error("the 16-bit link count holds {found}")]
    OldLinkCount { found: u16 },
    #[error("padding of the extent counters is not zero")]
    CounterPadding,
    #[error("feature {feature} is off on this volume, but the inode uses it")]
    FeatureOff { feature: &'static str },
    #[error("{extents} extents and {attr_extents} attribute extents in {blocks} blocks")]
    ExtentsExceedBlocks { extents: u64, attr_extents: u32, blocks: u64 },
    #[error("attribute fork at offset {offset} of a literal area of {literal_bytes} bytes")]
    ForkOffset { offset: u8, literal_bytes: usize },
    #[error("{fork:?} fork of a {file_type:?} in format {format:?}")]
    Format { fork: ForkKind, file_type: FileType, format: ForkFormat },
    #[error("{bytes} bytes stored in the inode, but only {room} fit")]
    LocalSize { bytes: u64, room: usize },
    #[error("{fork:?} fork in format {format:?} has {extents} extents, but the limit is {limit}")]
    ExtentCount { fork: ForkKind, format: ForkFormat, extents: u64, limit: u64 },
    #[error("{fork:?} fork is a btree of only {extents} extents, which fit the inode")]
    NeedlessBtree { fork: ForkKind, extents: u64 },
    #[error("no attribute fork, but {extents} attribute extents")]
    ExtentsWithoutFork { extents: u32 },
    #[error("extent size hint of {blocks} blocks does not match the flags {flags:?}")]
    ExtentSizeHint { blocks: u32, flags: InodeFlags },
    #[error("copy-on-write extent size hint of {blocks} blocks does not match the flags {flags:?}")]
    CowExtentSizeHint { blocks: u32, flags: InodeFlags2 },
    #[error("a {file_type:?} cannot share extents")]
    Reflink { file_type: FileType },
    #[error("the inode and its directory differ in whether they belong to the metadata directory")]
    MetadataMismatch,
    #[error("time stamp {raw:#018x} has more than a second of nanoseconds")]
    Nanoseconds { raw: u64 },
    #[error("a symbolic link of {size} bytes; 1024 is the limit")]
    TargetSize { size: u64 },
}
