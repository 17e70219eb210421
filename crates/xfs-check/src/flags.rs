//! The flag words of an inode: whether each flag exists, and whether the type of the file can have
//! it. Flags that change the form of the inode are checked by its verifier.

use xfs_format::InodeNumber;
use xfs_format::inode::{FileType, InodeCore, InodeFlags, InodeFlags2};

/// Flags of an inode's first flag word that only directories can have.
const OF_DIRECTORIES: InodeFlags = InodeFlags::RTINHERIT
    .union(InodeFlags::PROJINHERIT)
    .union(InodeFlags::NOSYMLINKS)
    .union(InodeFlags::EXTSZINHERIT);

/// Flags of an inode's first flag word that only regular files can have.
const OF_FILES: InodeFlags = InodeFlags::REALTIME.union(InodeFlags::EXTSIZE);

/// The flags that exist in the second flag word of an inode.
const KNOWN2: InodeFlags2 = InodeFlags2::DAX
    .union(InodeFlags2::REFLINK)
    .union(InodeFlags2::COWEXTSIZE)
    .union(InodeFlags2::BIGTIME)
    .union(InodeFlags2::NREXT64)
    .union(InodeFlags2::METADATA);

/// The bit of an inode's first flag word that belongs to no flag.
const UNKNOWN: u16 = 1 << 15;

/// Returns what is wrong with the flags of an inode in use, in words, or `None`. `bitmap` is the
/// inode of the realtime bitmap.
pub(crate) fn problem(
    core: &InodeCore,
    file_type: FileType,
    bitmap: InodeNumber,
) -> Option<String> {
    let (flags, flags2) = (core.flags, core.flags2);
    if flags.contains(InodeFlags::NEWRTBM) && core.number != bitmap {
        return Some("the flag of the realtime bitmap".to_owned());
    }
    if flags.bits() & UNKNOWN != 0 {
        return Some(format!("flag {UNKNOWN:#x}, which does not exist"));
    }
    let unknown = flags2.bits() & !KNOWN2.bits();
    if unknown != 0 {
        return Some(format!("flags {unknown:#x} of the second word, which do not exist"));
    }
    let is_directory = file_type == FileType::Directory;
    let is_file = file_type == FileType::Regular;
    let mut misplaced = InodeFlags::from_bits_retain(0);
    if !is_directory {
        misplaced |= flags & OF_DIRECTORIES;
    }
    if !is_file {
        misplaced |= flags & OF_FILES;
    }
    if misplaced.bits() != 0 {
        return Some(format!("a {file_type:?} with the flags {misplaced:?}"));
    }
    if flags2.contains(InodeFlags2::DAX) && !is_directory && !is_file {
        return Some(format!("a {file_type:?} with the flag DAX"));
    }
    None
}
