//! Kinds of files, of forks, and of their formats.

/// The type of a file, as the type bits of its mode give it.
///
/// Not `#[non_exhaustive]`: POSIX has no other types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileType {
    /// Named pipe.
    Fifo,
    /// Character device.
    CharDevice,
    /// Directory.
    Directory,
    /// Block device.
    BlockDevice,
    /// Regular file.
    Regular,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
}

impl FileType {
    /// Returns the type of a file with this mode, or `None` if the type bits of `mode` are unknown.
    #[doc(alias = "S_IFMT")]
    #[must_use]
    pub const fn from_mode(mode: u16) -> Option<Self> {
        match mode >> 12 {
            0o01 => Some(Self::Fifo),
            0o02 => Some(Self::CharDevice),
            0o04 => Some(Self::Directory),
            0o06 => Some(Self::BlockDevice),
            0o10 => Some(Self::Regular),
            0o12 => Some(Self::Symlink),
            0o14 => Some(Self::Socket),
            _ => None,
        }
    }

    /// Returns the type bits that stand for this type in a mode.
    #[must_use]
    pub const fn mode_bits(self) -> u16 {
        let bits = match self {
            Self::Fifo => 0o01,
            Self::CharDevice => 0o02,
            Self::Directory => 0o04,
            Self::BlockDevice => 0o06,
            Self::Regular => 0o10,
            Self::Symlink => 0o12,
            Self::Socket => 0o14,
        };
        bits << 12
    }

    /// Returns whether files of this type have a device number.
    #[must_use]
    pub const fn is_device(self) -> bool {
        matches!(self, Self::CharDevice | Self::BlockDevice)
    }
}

/// The format of a fork.
#[doc(alias = "xfs_dinode_fmt")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForkFormat {
    /// A device number. Pipes and sockets have this format too, without a number.
    Device,
    /// The contents themselves: a small directory, a short link target, or a few attributes.
    Local,
    /// An array of extent records.
    Extents,
    /// The root of a btree of extent records.
    Btree,
    /// A UUID. XFS on Linux never uses this format.
    Uuid,
    /// The root of a btree of other records than extents, in metadata inodes of the realtime
    /// section.
    #[doc(alias = "XFS_DINODE_FMT_META_BTREE")]
    MetadataBtree,
}

impl ForkFormat {
    /// Returns the format that this byte stands for on disk, or `None` if the byte is unknown.
    #[must_use]
    pub const fn decode(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Device),
            1 => Some(Self::Local),
            2 => Some(Self::Extents),
            3 => Some(Self::Btree),
            4 => Some(Self::Uuid),
            5 => Some(Self::MetadataBtree),
            _ => None,
        }
    }

    /// Returns the byte that stands for this format on disk.
    #[must_use]
    pub const fn encode(self) -> u8 {
        self as u8
    }
}

/// One of the two forks of an inode.
///
/// Not `#[non_exhaustive]`: the third fork of the kernel, for copy-on-write, is never on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForkKind {
    /// The data fork: the contents of the file.
    Data,
    /// The attribute fork: the extended attributes of the file.
    Attr,
}
