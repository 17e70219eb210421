//! The arguments of `dump` and `log`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::options::JsonOption;

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

/// The structure that `dump` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum DumpStructure {
    /// The superblock, or its copy in an allocation group; a copy can be shown as long as the first
    /// one has valid sizes of blocks and groups
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
        /// The inode number
        ino: u64,
    },
    /// A block, decoded by its magic number
    Block {
        /// The block number, with the group number in the high bits (fsblock)
        block: u64,
    },
    /// A btree, block by block from its root
    Btree {
        /// The btree
        #[arg(value_enum)]
        kind: DumpBtree,
        /// The allocation group; for bmap and attr-bmap the inode number
        of: u64,
    },
}

/// A btree that `dump` can walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpBtree {
    /// Free space, ordered by block number.
    #[value(alias = "bnobt")]
    Bno,
    /// Free space, ordered by size.
    #[value(alias = "cntbt")]
    Cnt,
    /// Inode chunks.
    #[value(alias = "inobt")]
    Ino,
    /// Inode chunks with free inodes.
    #[value(alias = "finobt")]
    Fino,
    /// Reverse map: the owner of each block.
    #[value(alias = "rmapbt")]
    Rmap,
    /// Reference counts of shared blocks.
    #[value(alias = "refcountbt")]
    Refc,
    /// Extents of the data fork of an inode.
    Bmap,
    /// Extents of the attribute fork of an inode.
    AttrBmap,
}

/// Show head, tail and state of the log, and the changes that it holds for replay
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
