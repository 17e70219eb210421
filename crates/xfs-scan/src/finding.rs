//! Findings: unreadable or invalid data. Each is a row of its own in the output, so that a missing
//! inode row is always explained.

use xfs_buffer::Error;
use xfs_format::{Check, Corruption, StructureAddress};

/// The kind of a finding. The word for a kind in the output never changes, so that programs can
/// rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingCode {
    /// The device could not be read.
    Io,
    /// A checksum is wrong.
    Checksum,
    /// A magic number is wrong.
    Magic,
    /// The structure belongs to another volume, another address or another owner.
    Misplaced,
    /// A structure has impossible values.
    Corrupt,
    /// The structure is of an unsupported kind.
    Unsupported,
    /// The inode btree marks a used inode as free, or a free inode as used.
    Allocation,
    /// The parent directory of an inode does not exist.
    ParentMissing,
    /// The parent of an inode is not a directory.
    ParentNotDirectory,
    /// A parent pointer states a generation that its parent does not have.
    ParentStale,
    /// A directory is its own ancestor: its parents lead back to it.
    ParentCycle,
    /// A name is empty, `.` or `..`, or holds `/` or NUL.
    BadName,
    /// A path is too long to show.
    PathTooLong,
    /// An inode has more paths than are shown.
    TooManyPaths,
    /// A directory entry names an inode that does not exist.
    DanglingEntry,
}

impl FindingCode {
    /// All kinds of findings.
    pub const ALL: [Self; 15] = [
        Self::Io,
        Self::Checksum,
        Self::Magic,
        Self::Misplaced,
        Self::Corrupt,
        Self::Unsupported,
        Self::Allocation,
        Self::ParentMissing,
        Self::ParentNotDirectory,
        Self::ParentStale,
        Self::ParentCycle,
        Self::BadName,
        Self::PathTooLong,
        Self::TooManyPaths,
        Self::DanglingEntry,
    ];

    /// Returns the kind with this word in the output.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }

    /// Returns whether the finding says that the volume is damaged. Other findings are about the
    /// device, or about limits of the scan.
    #[must_use]
    pub const fn is_corruption(self) -> bool {
        !matches!(self, Self::Io | Self::Unsupported | Self::PathTooLong | Self::TooManyPaths)
    }

    /// Returns the word for this kind of finding in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Checksum => "checksum",
            Self::Magic => "magic",
            Self::Misplaced => "misplaced",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Allocation => "allocation",
            Self::ParentMissing => "parent_missing",
            Self::ParentNotDirectory => "parent_not_directory",
            Self::ParentStale => "parent_stale",
            Self::ParentCycle => "parent_cycle",
            Self::BadName => "bad_name",
            Self::PathTooLong => "path_too_long",
            Self::TooManyPaths => "too_many_paths",
            Self::DanglingEntry => "dangling_entry",
        }
    }
}

/// One problem, and the rows that are missing because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of the problem.
    pub code: FindingCode,
    /// The kind of structure that is damaged, if any.
    pub structure: Option<&'static str>,
    /// The allocation group, if known.
    pub ag: Option<u32>,
    /// The number of the inode, or of the first inode without a row.
    pub ino: Option<u64>,
    /// Number of inodes from `ino` on that have no row because of this problem. 0 if no row is
    /// missing.
    pub inode_count: u32,
    /// Address on the device, in units of 512 bytes.
    pub disk_address: Option<u64>,
    /// Description of the problem, with the values found.
    pub message: String,
}

impl Finding {
    /// Creates a finding about one inode whose row is present.
    #[must_use]
    #[cold]
    pub fn about(code: FindingCode, ino: u64, message: String) -> Self {
        Self {
            code,
            structure: None,
            ag: None,
            ino: Some(ino),
            inode_count: 0,
            disk_address: None,
            message,
        }
    }

    /// Creates a finding from an error of reading the volume.
    #[must_use]
    #[cold]
    pub fn from_error(error: &Error) -> Self {
        let mut finding = Self {
            code: FindingCode::Corrupt,
            structure: None,
            ag: None,
            ino: None,
            inode_count: 0,
            disk_address: None,
            message: error.to_string(),
        };
        match error {
            Error::Io(io) => {
                finding.code = FindingCode::Io;
                finding.disk_address = Some(io.at.0);
            }
            Error::Corrupt(corruption) => finding.place(corruption),
            Error::Unsupported(_) => finding.code = FindingCode::Unsupported,
            _ => {}
        }
        finding
    }

    fn place(&mut self, corruption: &Corruption) {
        self.code = match corruption.check() {
            Check::Checksum { .. } => FindingCode::Checksum,
            Check::Magic { .. } => FindingCode::Magic,
            Check::ForeignUuid { .. }
            | Check::MisplacedBlock { .. }
            | Check::ForeignOwner { .. } => FindingCode::Misplaced,
            _ => FindingCode::Corrupt,
        };
        self.structure = Some(corruption.structure().name());
        match corruption.address() {
            StructureAddress::Disk(at) => self.disk_address = Some(at.0),
            StructureAddress::Group(group) => self.ag = Some(group.0),
            StructureAddress::Inode(ino)
            | StructureAddress::Data(ino, _)
            | StructureAddress::Attr(ino, _) => self.ino = Some(ino.0),
            _ => {}
        }
    }

    /// Sets the allocation group of the finding.
    #[must_use]
    pub fn in_group(mut self, ag: u32) -> Self {
        self.ag = Some(ag);
        self
    }

    /// Records that `inode_count` inodes, the first of which is `first_ino`, have no row because of
    /// this finding.
    #[must_use]
    pub fn hides(mut self, first_ino: u64, inode_count: u32) -> Self {
        self.ino = Some(first_ino);
        self.inode_count = inode_count;
        self
    }
}
