//! The arguments of the commands that look below files: structures and the log.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::JsonOption;

/// Show any structure of a volume, field by field, and whether it passes its checks
#[derive(Args, Debug)]
pub(crate) struct DumpArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    #[command(flatten)]
    pub(crate) json: JsonOption,
    #[command(subcommand)]
    pub(crate) structure: DumpStructure,
}

/// What `dump` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum DumpStructure {
    /// The superblock, or the copy of it in an allocation group; the copy also where the first one is damaged
    /// but for the sizes of blocks and groups
    Sb {
        /// The allocation group
        #[arg(default_value_t = 0)]
        ag: u32,
    },
    /// The free space header of an allocation group
    Agf {
        /// The allocation group
        ag: u32,
    },
    /// The inode header of an allocation group
    Agi {
        /// The allocation group
        ag: u32,
    },
    /// The free list of an allocation group
    Agfl {
        /// The allocation group
        ag: u32,
    },
    /// An inode, with its forks
    Inode {
        /// The number of the inode
        ino: u64,
    },
    /// A block, by its magic number
    Block {
        /// The number of the block, group number in the high bits (fsblock)
        block: u64,
    },
    /// A btree, block by block from its root
    Btree {
        /// Which btree
        #[arg(value_enum)]
        kind: DumpBtree,
        /// The allocation group; for bmap and attr-bmap the number of the inode
        of: u64,
    },
}

/// The btrees that `dump` can walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpBtree {
    /// Free space by block.
    #[value(alias = "bnobt")]
    Bno,
    /// Free space by size.
    #[value(alias = "cntbt")]
    Cnt,
    /// Inode chunks.
    #[value(alias = "inobt")]
    Ino,
    /// Inode chunks with free inodes.
    #[value(alias = "finobt")]
    Fino,
    /// Reverse map.
    #[value(alias = "rmapbt")]
    Rmap,
    /// Reference counts.
    #[value(alias = "refcountbt")]
    Refc,
    /// Extents of the data fork of an inode.
    Bmap,
    /// Extents of the attribute fork of an inode.
    AttrBmap,
}

/// Show head, tail and state of the log, and what waits in it to be replayed
#[derive(Args, Debug)]
pub(crate) struct LogArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// Show every record, transaction and item between tail and head
    #[arg(long)]
    pub(crate) dump: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Replay a dirty log onto the volume, and mark it clean
///
/// A log that holds what is not replayed here is refused by name, and nothing is written. A recovery
/// that was interrupted can be repeated.
#[derive(Args, Debug)]
pub(crate) struct RecoverArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}
