//! The flag words of an inode, and the flags that programs see.

use bitflags::bitflags;

/// The flags that every inode of the metadata directory has. A directory also has
/// [`NOSYMLINKS`](InodeFlags::NOSYMLINKS).
pub const METADATA_FLAGS: InodeFlags = InodeFlags::IMMUTABLE
    .union(InodeFlags::SYNC)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NODEFRAG);

bitflags! {
    /// The bits of the word `di_flags` of an inode.
    #[doc(alias = "XFS_DIFLAG")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct InodeFlags: u16 {
        /// The file's data is on the realtime device.
        const REALTIME = 1 << 0;
        /// Blocks past the end of the file are kept.
        const PREALLOC = 1 << 1;
        /// The inode is the realtime bitmap, in the newer format.
        const NEWRTBM = 1 << 2;
        /// The file cannot be changed.
        const IMMUTABLE = 1 << 3;
        /// Data can only be appended to the file.
        const APPEND = 1 << 4;
        /// Writes to the file are synchronous.
        const SYNC = 1 << 5;
        /// The access time of the file is not updated.
        const NOATIME = 1 << 6;
        /// Backup programs skip the file.
        const NODUMP = 1 << 7;
        /// New files of this directory are realtime files.
        const RTINHERIT = 1 << 8;
        /// New files of this directory belong to its project.
        const PROJINHERIT = 1 << 9;
        /// Symbolic links cannot be created in this directory.
        const NOSYMLINKS = 1 << 10;
        /// The extent size hint is valid.
        const EXTSIZE = 1 << 11;
        /// New files of this directory inherit its extent size hint.
        const EXTSZINHERIT = 1 << 12;
        /// The file must not be defragmented.
        const NODEFRAG = 1 << 13;
        /// Files of this directory use the filestreams allocator.
        const FILESTREAM = 1 << 14;
        /// All bits. This makes decoding keep the bits that have no name.
        const _ = !0;
    }

    /// The bits of the word `di_flags2` of an inode.
    #[doc(alias = "XFS_DIFLAG2")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct InodeFlags2: u64 {
        /// The file is mapped without the page cache.
        const DAX = 1 << 0;
        /// Some extents of the file may be shared with other files.
        const REFLINK = 1 << 1;
        /// The extent size hint for copies of shared blocks is valid.
        const COWEXTSIZE = 1 << 2;
        /// The times of the inode are in the 64-bit form.
        const BIGTIME = 1 << 3;
        /// The extent counters of the inode are in the 64-bit form.
        const NREXT64 = 1 << 4;
        /// The inode is a metadata inode, in the metadata directory tree.
        const METADATA = 1 << 5;
        /// All bits. This makes decoding keep the bits that have no name.
        const _ = !0;
    }

    /// The flags of an inode as `FS_IOC_FSGETXATTR` shows them.
    #[doc(alias = "FS_XFLAG")]
    #[doc(alias = "fsx_xflags")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct ExtendedFlags: u32 {
        /// The file's data is on the realtime device.
        const REALTIME = 0x0000_0001;
        /// Blocks past the end of the file are kept.
        const PREALLOC = 0x0000_0002;
        /// The file cannot be changed.
        const IMMUTABLE = 0x0000_0008;
        /// Data can only be appended to the file.
        const APPEND = 0x0000_0010;
        /// Writes to the file are synchronous.
        const SYNC = 0x0000_0020;
        /// The access time of the file is not updated.
        const NOATIME = 0x0000_0040;
        /// Backup programs skip the file.
        const NODUMP = 0x0000_0080;
        /// New files of this directory are realtime files.
        const RTINHERIT = 0x0000_0100;
        /// New files of this directory belong to its project.
        const PROJINHERIT = 0x0000_0200;
        /// Symbolic links cannot be created in this directory.
        const NOSYMLINKS = 0x0000_0400;
        /// The extent size hint is valid.
        const EXTSIZE = 0x0000_0800;
        /// New files of this directory inherit its extent size hint.
        const EXTSZINHERIT = 0x0000_1000;
        /// The file must not be defragmented.
        const NODEFRAG = 0x0000_2000;
        /// Files of this directory use the filestreams allocator.
        const FILESTREAM = 0x0000_4000;
        /// The file is mapped without the page cache.
        const DAX = 0x0000_8000;
        /// The extent size hint for copies of shared blocks is valid.
        const COWEXTSIZE = 0x0001_0000;
        /// The inode has an attribute fork.
        const HAS_ATTR = 0x8000_0000;
    }
}

/// Pairs of a flag of `di_flags` and the flag that programs see. `NEWRTBM` is not shown to
/// programs.
const SHOWN: [(InodeFlags, ExtendedFlags); 14] = [
    (InodeFlags::REALTIME, ExtendedFlags::REALTIME),
    (InodeFlags::PREALLOC, ExtendedFlags::PREALLOC),
    (InodeFlags::IMMUTABLE, ExtendedFlags::IMMUTABLE),
    (InodeFlags::APPEND, ExtendedFlags::APPEND),
    (InodeFlags::SYNC, ExtendedFlags::SYNC),
    (InodeFlags::NOATIME, ExtendedFlags::NOATIME),
    (InodeFlags::NODUMP, ExtendedFlags::NODUMP),
    (InodeFlags::RTINHERIT, ExtendedFlags::RTINHERIT),
    (InodeFlags::PROJINHERIT, ExtendedFlags::PROJINHERIT),
    (InodeFlags::NOSYMLINKS, ExtendedFlags::NOSYMLINKS),
    (InodeFlags::EXTSIZE, ExtendedFlags::EXTSIZE),
    (InodeFlags::EXTSZINHERIT, ExtendedFlags::EXTSZINHERIT),
    (InodeFlags::NODEFRAG, ExtendedFlags::NODEFRAG),
    (InodeFlags::FILESTREAM, ExtendedFlags::FILESTREAM),
];

/// Pairs of a flag of `di_flags2` and the flag that programs see.
const SHOWN2: [(InodeFlags2, ExtendedFlags); 2] =
    [(InodeFlags2::DAX, ExtendedFlags::DAX), (InodeFlags2::COWEXTSIZE, ExtendedFlags::COWEXTSIZE)];

impl ExtendedFlags {
    /// Converts the two flag words of an inode (`di_flags` and `di_flags2`) to the flags that
    /// programs see.
    pub(super) fn from_inode(flags: InodeFlags, flags2: InodeFlags2) -> Self {
        let mut shown = Self::empty();
        // Nearly all inodes have no flags, and a scan converts the flags of every inode.
        if !flags.is_empty() {
            for (flag, as_shown) in SHOWN {
                shown.set(as_shown, flags.contains(flag));
            }
        }
        for (flag, as_shown) in SHOWN2 {
            shown.set(as_shown, flags2.contains(flag));
        }
        shown
    }
}
