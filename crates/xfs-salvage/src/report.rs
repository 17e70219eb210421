//! The report on one file, and the totals of a run.

use xfs_evidence::ByteRange;
use xfs_format::InodeNumber;

/// How much of a file was salvaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// All bytes of the file were read, and every structure that leads to them passed its checks.
    Complete,
    /// All bytes were read, but a structure that leads to them is damaged or contradicts another.
    Doubtful,
    /// Ranges of the contents, or other parts of the file such as attributes, are missing.
    Partial,
    /// The caller did not finish the copy: the destination refused the file, or the run was
    /// stopped.
    NotCopied,
    /// Nothing of the file is left except the facts in this report.
    Lost,
}

impl Status {
    /// Returns the word for the status in a manifest.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Doubtful => "doubtful",
            Self::Partial => "partial",
            Self::NotCopied => "not_copied",
            Self::Lost => "lost",
        }
    }
}

/// The source of the name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An entry of a directory.
    Entry,
    /// A parent pointer of the file, because its directory lacks the entry.
    ParentPointer,
    /// No name led to the file. It is salvaged under its inode number.
    Orphan,
    /// The inode is free: the file was deleted.
    Deleted,
}

impl Origin {
    /// Returns the word for the origin in a manifest.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::ParentPointer => "parent_pointer",
            Self::Orphan => "orphan",
            Self::Deleted => "deleted",
        }
    }
}

/// The source of the state of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeSource {
    /// The inode was read in its place on the disk.
    Disk,
    /// The state comes from an old record of the log, because the inode on the disk is damaged or
    /// free.
    Log,
}

impl InodeSource {
    /// Returns the word for the source in a manifest.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Log => "log",
        }
    }
}

/// The report on one file or directory.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// The path of the file, relative to the destination of the copy.
    pub path: Vec<u8>,
    /// The inode number.
    pub inode: InodeNumber,
    /// The file type and permissions; 0 if they are not known.
    pub mode: u16,
    /// The length of the contents in bytes.
    pub size: u64,
    /// How much was salvaged.
    pub status: Status,
    /// The source of the name.
    pub origin: Origin,
    /// The source of the state of the inode. `None` if the inode is gone.
    pub inode_source: Option<InodeSource>,
    /// The last known name and directory of an orphan or a deleted file.
    pub last_name: Option<(InodeNumber, Vec<u8>)>,
    /// The ranges of the contents that are missing. They are holes in the copy.
    pub missing: Vec<ByteRange>,
    /// The reasons for a status other than [`Status::Complete`].
    pub reasons: Vec<String>,
}

/// The remarks on a file that are collected while it is copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remarks {
    pub(crate) texts: Vec<String>,
    /// Whether a remark is a reason to doubt the contents or the names.
    pub(crate) is_doubtful: bool,
    /// Whether a part of the file other than a range of its contents is missing, such as an
    /// attribute.
    pub(crate) is_partial: bool,
}

impl Remarks {
    /// Adds a remark, unless it was added before. The remark alone does not change the status.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.texts.contains(&text) {
            self.texts.push(text);
        }
    }

    /// Adds a remark that is a reason to doubt the contents or the names.
    pub(crate) fn doubt(&mut self, text: impl Into<String>) {
        self.is_doubtful = true;
        self.note(text);
    }

    /// Adds the remark that a part of the file other than a range of its contents is missing.
    pub(crate) fn lack(&mut self, text: impl Into<String>) {
        self.is_partial = true;
        self.note(text);
    }
}

/// The totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of reports with the status complete.
    pub complete: u64,
    /// Number of reports with the status doubtful.
    pub doubtful: u64,
    /// Number of reports with the status partial.
    pub partial: u64,
    /// Number of reports with the status not copied.
    pub not_copied: u64,
    /// Number of reports with the status lost.
    pub lost: u64,
    /// Number of orphans.
    pub orphans: u64,
    /// Number of deleted files.
    pub deleted: u64,
    /// Number of bytes that are missing.
    pub missing_bytes: u64,
}

impl Totals {
    /// Adds a report to the totals. A deleted file is counted only as deleted, whatever its status.
    pub fn add(&mut self, report: &FileReport) {
        match (report.origin, report.status) {
            (Origin::Deleted, _) => {
                self.deleted += 1;
                return;
            }
            (_, Status::Complete) => self.complete += 1,
            (_, Status::Doubtful) => self.doubtful += 1,
            (_, Status::Partial) => self.partial += 1,
            (_, Status::NotCopied) => self.not_copied += 1,
            (_, Status::Lost) => self.lost += 1,
        }
        self.orphans += u64::from(report.origin == Origin::Orphan);
        let missing = report.missing.iter().map(|range| range.end.saturating_sub(range.start));
        self.missing_bytes = missing.fold(self.missing_bytes, u64::saturating_add);
    }

    /// Returns whether every file could be read completely and without doubt. Files whose copy was
    /// not finished are not considered, because they show nothing about the volume.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.doubtful == 0 && self.partial == 0 && self.lost == 0 && self.orphans == 0
    }
}
