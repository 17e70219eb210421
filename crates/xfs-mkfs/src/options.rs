//! The options of mkfs.xfs: as values, and parsed from text such as `-d agcount=4,size=1g`.
//!
//! Owns: names of options and suboptions, numbers with suffixes, and the list of unsupported
//! options. Does **not** own: defaults and bounds, which depend on other options ([`crate::Plan`]).

mod configuration;
mod parse;
mod size;

use std::path::PathBuf;

use thiserror::Error;
use uuid::Uuid;
use xfs_format::superblock::Label;

pub use size::{Size, Unit};

/// The requested options. An option that is `None` was not given, and its value follows from the
/// others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The block size: `-b size`.
    pub block_size: Option<Size>,
    /// The sector size: `-s size`, `-d sectsize`.
    pub sector_size: Option<Size>,
    /// The directory block size: `-n size`.
    pub directory_block_size: Option<Size>,
    /// The options of the data section: `-d`.
    pub data: DataOptions,
    /// The options of inodes: `-i`.
    pub inode: InodeOptions,
    /// The options of the log: `-l`.
    pub log: LogOptions,
    /// The options of the realtime section: `-r`.
    pub realtime: RealtimeOptions,
    /// Features, from `-m`, `-i` and `-n`.
    pub features: FeatureOptions,
    /// The kinds of quota that are on from the first mount: `-m uquota` and others.
    pub quota: QuotaOptions,
    /// The UUID of the volume: `-m uuid`.
    pub uuid: Option<Uuid>,
    /// The label of the volume: `-L`.
    pub label: Label,
    /// Whether volumes and logs that are too small for use are allowed, for tests: `--unsupported`.
    pub allow_small: bool,
    /// Whether the volume has as little overhead as the kernel mounts and grows: `--minimize`. The
    /// default is then two groups, the smallest log and no limit on inodes, and volumes and logs of
    /// less than the usual size are allowed.
    pub minimize: bool,
    /// The suboptions parsed up to now, by option letter. Each suboption may be given once.
    seen: Vec<(char, String)>,
}

/// Options of the data section. An option that is `None` was not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataOptions {
    /// The number of allocation groups.
    pub agcount: Option<Size>,
    /// Size of an allocation group.
    pub agsize: Option<Size>,
    /// Size of the volume.
    pub size: Option<Size>,
    /// Stripe unit in bytes.
    pub su: Option<Size>,
    /// Stripe width in stripe units.
    pub sw: Option<Size>,
    /// Stripe unit in units of 512 bytes.
    pub sunit: Option<Size>,
    /// Stripe width in units of 512 bytes.
    pub swidth: Option<Size>,
    /// Whether stripe alignment is off.
    pub noalign: bool,
    /// Whether the data device is a regular file, which is created if it does not exist.
    pub file: bool,
    /// The path of the data device.
    pub name: Option<PathBuf>,
    /// The number of threads that will write in parallel. It determines the number of groups.
    pub concurrency: Option<u64>,
    /// Settings of the root directory that new files inherit.
    pub inherited: InheritedOptions,
}

/// Settings of the root directory that files and directories below it inherit. A setting that is
/// `None` was not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InheritedOptions {
    /// Project ID.
    #[doc(alias = "projinherit")]
    pub project: Option<u32>,
    /// Extent size hint in blocks; 0 means none.
    #[doc(alias = "extszinherit")]
    pub extent_size_blocks: Option<u64>,
    /// Extent size hint for copy on write in blocks; 0 means the default of the kernel.
    #[doc(alias = "cowextsize")]
    pub cow_extent_size_blocks: Option<u64>,
    /// Whether files use persistent memory directly (DAX).
    #[doc(alias = "daxinherit")]
    pub dax: bool,
    /// Whether the contents of files lie in the realtime section. The default is on if the section
    /// has zones.
    #[doc(alias = "rtinherit")]
    pub realtime: Option<bool>,
}

/// Options of inodes. An option that is `None` was not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InodeOptions {
    /// Size of an inode in bytes.
    pub size: Option<Size>,
    /// Number of inodes per block.
    pub perblock: Option<Size>,
    /// Percentage of the volume that inodes may occupy.
    pub maxpct: Option<Size>,
}

/// Options of the log. An option that is `None` was not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Size of the log.
    pub size: Option<Size>,
    /// Whether the log is inside the volume.
    pub internal: Option<bool>,
    /// The number of the allocation group that holds the log.
    pub agnum: Option<Size>,
    /// The device of an external log.
    pub device: Option<PathBuf>,
    /// Whether the log device is a regular file, which is created if it does not exist.
    pub file: bool,
    /// Stripe unit in bytes.
    pub su: Option<Size>,
    /// Stripe unit in units of 512 bytes.
    pub sunit: Option<Size>,
    /// Sector size of the log device.
    pub sectsize: Option<Size>,
}

/// Options of the realtime section. An option that is `None` was not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealtimeOptions {
    /// Size of a realtime extent. A volume without a realtime section stores it too.
    pub extent_size: Option<Size>,
    /// The realtime device. Without it there is no realtime section, or a zoned one on the data
    /// device.
    pub device: Option<PathBuf>,
    /// Whether the realtime device is a regular file, which is created if it does not exist.
    pub file: bool,
    /// Size of the section.
    pub size: Option<Size>,
    /// The number of realtime groups. A section without groups ignores it.
    pub group_count: Option<Size>,
    /// Size of a realtime group, or of a zone. A section without groups ignores it.
    pub group_size: Option<Size>,
    /// Whether the section has zones. Without a realtime device, the realtime section follows the
    /// data section on the data device.
    pub zoned: bool,
    /// The first byte of a zoned section on the data device.
    pub start: Option<Size>,
    /// Size of the part of a zoned section that users cannot fill.
    pub reserved: Option<Size>,
}

impl RealtimeOptions {
    /// Returns whether the volume has a realtime section.
    #[must_use]
    pub const fn has_section(&self) -> bool {
        self.device.is_some() || self.zoned
    }

    /// Returns whether the realtime section lies on the data device.
    #[must_use]
    pub const fn is_internal(&self) -> bool {
        self.zoned && self.device.is_none()
    }
}

/// The quota of each kind of owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaOptions {
    /// The quota of users: `-m uquota`, `-m uqnoenforce`.
    pub user: QuotaChoice,
    /// The quota of groups: `-m gquota`, `-m gqnoenforce`.
    pub group: QuotaChoice,
    /// The quota of projects: `-m pquota`, `-m pqnoenforce`.
    pub project: QuotaChoice,
}

/// The requested forms of one kind of quota. At most one of them can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaChoice {
    /// Whether usage is counted and limits are enforced.
    pub enforced: bool,
    /// Whether usage is counted only.
    pub accounted: bool,
}

/// Features that can be turned on and off. `None` means the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureOptions {
    /// Whether the volume has btrees of the inode chunks with free inodes.
    pub finobt: Option<bool>,
    /// Whether the volume has a reverse map.
    pub rmapbt: Option<bool>,
    /// Whether files of the volume can share extents.
    pub reflink: Option<bool>,
    /// Whether the headers hold the block counts of the inode btrees.
    pub inobtcount: Option<bool>,
    /// Whether the volume has 64-bit times.
    pub bigtime: Option<bool>,
    /// Whether the volume may have partial inode chunks.
    pub sparse: Option<bool>,
    /// Whether the volume has 64-bit extent counters.
    pub nrext64: Option<bool>,
    /// Whether the volume allows the exchange of extents between files.
    pub exchange: Option<bool>,
    /// Whether the volume has parent pointers.
    pub parent: Option<bool>,
    /// Whether metadata inodes lie in a directory tree of their own.
    pub metadir: Option<bool>,
    /// The limit for background checkers, which is stored in an attribute of the root directory.
    pub autofsck: Option<Autofsck>,
}

/// The actions that a background checker such as xfs_scrub may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autofsck {
    /// No limit is set: the root directory does not have the attribute.
    Unset,
    /// The checker may do nothing.
    None,
    /// The checker may only check metadata.
    Check,
    /// The checker may check metadata, and optimize valid metadata.
    Optimize,
    /// The checker may also repair metadata.
    Repair,
}

impl Autofsck {
    /// Returns the value of the attribute, or `None` if the root directory does not get it.
    #[must_use]
    pub const fn value(self) -> Option<&'static str> {
        match self {
            Self::Unset => None,
            Self::None => Some("none"),
            Self::Check => Some("check"),
            Self::Optimize => Some("optimize"),
            Self::Repair => Some("repair"),
        }
    }
}

/// The error of an option that is invalid or not supported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum OptionError {
    #[error("-{letter} {name}: there is no such option")]
    Unknown { letter: char, name: String },
    #[error("-{letter} {name} needs a value")]
    MissingValue { letter: char, name: String },
    #[error("-{letter} {name} is given twice")]
    Twice { letter: char, name: String },
    #[error(
        "-{letter} {name}={value}: not a number with at most one of the suffixes s, b, k, m, g, t, \
         p, e"
    )]
    NotANumber { letter: char, name: String, value: String },
    #[error("-{letter} {name}={value}: not a plain number; suffixes are not allowed here")]
    NotAPlainNumber { letter: char, name: String, value: String },
    #[error("-{letter} {name}={value}: larger than {max}")]
    TooLarge { letter: char, name: String, value: String, max: u64 },
    #[error("-{letter} {name}={value}: must be 0 or 1")]
    NotAFlag { letter: char, name: String, value: String },
    #[error("-{letter} {name}={value}: not a UUID")]
    NotAUuid { letter: char, name: String, value: String },
    #[error("-{letter} {name}={value}: must be one of 0, 1, none, check, optimize, repair")]
    NotAChoice { letter: char, name: String, value: String },
    #[error("-c: line {line}: {text:?} is neither [SECTION] nor OPTION=VALUE")]
    ConfigurationLine { line: usize, text: String },
    #[error(
        "-c: line {line}: there is no section [{section}]; the sections are block, data, inode, \
         log, metadata, naming, realtime and sector"
    )]
    ConfigurationSection { line: usize, section: String },
    #[error("-L {label}: a label has at most 12 bytes and contains no NUL")]
    Label { label: String },
    #[error(transparent)]
    NotSupported(#[from] NotSupported),
}

/// An option of mkfs.xfs that ferroxfs does not support.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{option} is not supported: {what}")]
pub struct NotSupported {
    /// The option as the user wrote it.
    pub option: String,
    /// The feature that ferroxfs does not support.
    pub what: &'static str,
}

#[cfg(test)]
mod tests;
