//! The facts in the inode of a file, in plain values.
//!
//! The commands that test, list, extract and archive files work on these values. So the tests of
//! these commands can use files that no kernel would make.

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time {
    /// Seconds since 1970, rounded down.
    pub(crate) seconds: i64,
    /// Nanoseconds to add to `seconds`, below 1,000,000,000.
    pub(crate) nanoseconds: u32,
}

impl Time {
    /// Returns the time that is `total` nanoseconds after 1970; `None` if its seconds do not fit in
    /// 64 bits.
    pub(crate) fn from_total_nanoseconds(total: i128) -> Option<Self> {
        const SECOND: i128 = 1_000_000_000;
        let seconds = i64::try_from(total.div_euclid(SECOND)).ok()?;
        Some(Self { seconds, nanoseconds: u32::try_from(total.rem_euclid(SECOND)).ok()? })
    }

    /// Returns the number of nanoseconds since 1970.
    pub(crate) fn total_nanoseconds(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds)
    }
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// No known type: the type bits of the mode have a value that stands for none.
    Unknown,
}

impl FileKind {
    /// Returns the type that the high bits of `mode` name.
    pub(crate) fn of(mode: u32) -> Self {
        match mode & 0o170_000 {
            0o100_000 => Self::Regular,
            0o040_000 => Self::Directory,
            0o120_000 => Self::Symlink,
            0o060_000 => Self::BlockDevice,
            0o020_000 => Self::CharDevice,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            _ => Self::Unknown,
        }
    }

    /// Returns the letter that ls(1) shows for the type.
    pub(crate) fn ls_letter(self) -> char {
        match self {
            Self::Regular => '-',
            Self::Directory => 'd',
            Self::Symlink => 'l',
            Self::BlockDevice => 'b',
            Self::CharDevice => 'c',
            Self::Fifo => 'p',
            Self::Socket => 's',
            Self::Unknown => '?',
        }
    }

    /// Returns the letter that find(1) uses for the type.
    pub(crate) fn find_letter(self) -> char {
        match self {
            Self::Regular => 'f',
            other => other.ls_letter(),
        }
    }

    /// Returns the name that stat(1) uses for the type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Regular => "regular file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
            Self::BlockDevice => "block special file",
            Self::CharDevice => "character special file",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Unknown => "weird file",
        }
    }
}

/// The facts in the inode of a file, such as type, owner, size and times, in plain values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Inode number.
    pub(crate) inode: u64,
    /// Type and permission bits.
    pub(crate) mode: u32,
    /// Number of names (hard links).
    pub(crate) links: u32,
    /// User id of the owner.
    pub(crate) uid: u32,
    /// Group id.
    pub(crate) gid: u32,
    /// Project id.
    pub(crate) project: u32,
    /// Length of the contents in bytes.
    pub(crate) size: u64,
    /// Space in use, in units of 512 bytes.
    pub(crate) blocks: u64,
    /// Major and minor number of a device file.
    pub(crate) device: (u32, u32),
    /// Time of the last access.
    pub(crate) accessed: Time,
    /// Time of the last modification of the contents.
    pub(crate) modified: Time,
    /// Time of the last change of the inode.
    pub(crate) changed: Time,
    /// Time of creation.
    pub(crate) born: Time,
    /// The creation time that an archive states for a file; `None` if the file comes from another
    /// source. With `None`, the volume sets the time of creation.
    pub(crate) created: Option<Time>,
    /// Inode flags, as in FS_IOC_FSGETXATTR.
    pub(crate) xflags: u32,
    /// The extent size hint and the copy-on-write extent size hint, in bytes; 0 for no hint. `None`
    /// if the hints are unknown.
    pub(crate) extent_size_hints: Option<(u64, u64)>,
}

impl Facts {
    /// Returns the type of the file.
    pub(crate) fn kind(&self) -> FileKind {
        FileKind::of(self.mode)
    }

    /// Returns type and permissions in the form that ls(1) shows, such as `-rw-r--r--`.
    pub(crate) fn mode_text(&self) -> String {
        let bit = |mask: u32, letter: char| if self.mode & mask == 0 { '-' } else { letter };
        let execute = |mask: u32, special: u32, letters: (char, char)| match (
            self.mode & special != 0,
            self.mode & mask != 0,
        ) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => letters.0,
            (true, false) => letters.1,
        };
        [
            self.kind().ls_letter(),
            bit(0o400, 'r'),
            bit(0o200, 'w'),
            execute(0o100, 0o4000, ('s', 'S')),
            bit(0o040, 'r'),
            bit(0o020, 'w'),
            execute(0o010, 0o2000, ('s', 'S')),
            bit(0o004, 'r'),
            bit(0o002, 'w'),
            execute(0o001, 0o1000, ('t', 'T')),
        ]
        .into_iter()
        .collect()
    }
}
