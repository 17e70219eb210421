//! The damaged volume, and reads of it. A read that fails is recorded as a damage, and the caller
//! continues with other reads.
//!
//! Owns: the device, the superblock, the list of ranges that could not be read, and the type of a
//! damage.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;

use xfs_device::{BlockDevice, SharedDevice};
use xfs_format::{
    BASIC_BLOCK_BYTES, BlockKind, Check, Corruption, DiskAddr, FsBlock, Geometry, InodeNumber, Lsn,
    Superblock, VerifyContext,
};

use crate::logged_blocks::{BlockProof, LoggedBlock};
use crate::sweep::BlockIdentity;
use crate::waste::{ForkReads, WasteBudget};

/// The largest number of ranges on the list of ranges that could not be read. A range that does not
/// fit on the list is still reported, as a damage of each structure that needs it.
const MOST_UNREAD: usize = 1 << 16;

/// A range of bytes on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRange {
    /// The first byte of the range.
    pub start: u64,
    /// The byte after the last one of the range.
    pub end: u64,
}

impl ByteRange {
    /// Returns `ranges` in ascending order. Overlapping and adjacent ranges are joined.
    #[must_use]
    pub fn joined(mut ranges: Vec<Self>) -> Vec<Self> {
        ranges.sort_unstable();
        let mut joined: Vec<Self> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        joined
    }
}

/// How far a result can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// The block has the right checksum, owner and address, and passed its checks.
    Sound,
    /// The block is damaged, but the part of it that gives the result is well formed.
    Doubtful,
}

/// A damage that was met while reading a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A structure failed a check.
    Corrupt(Corruption),
    /// The device refused to read a range.
    Unread {
        /// The range that could not be read.
        range: ByteRange,
        /// The error of the device.
        error: String,
    },
    /// A fork maps a block a second time. The block was read only the first time.
    Repeated {
        /// The block that is mapped a second time.
        block: FsBlock,
    },
    /// A structure has more blocks or entries than its budget allows. The rest was not read.
    OverBudget {
        /// The budget: the largest number of blocks or entries of the structure that are read.
        budget: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(corruption) => corruption.fmt(f),
            Self::Unread { range, error } => {
                write!(f, "bytes {} to {} cannot be read: {error}", range.start, range.end)
            }
            Self::Repeated { block } => write!(f, "{block} is mapped a second time"),
            Self::OverBudget { budget } => write!(f, "more than {budget} blocks: reading stopped"),
        }
    }
}

impl From<Corruption> for Damage {
    fn from(corruption: Corruption) -> Self {
        Self::Corrupt(corruption)
    }
}

/// A volume that may be damaged anywhere except in the given superblock.
///
/// The type reads the device and writes nothing (E1). It is meant for one thread.
pub struct Evidence<'a> {
    device: &'a dyn BlockDevice,
    superblock: &'a Superblock,
    unread: RefCell<Vec<ByteRange>>,
    waste: WasteBudget,
    log_head: Option<Lsn>,
    /// The states of damaged blocks that the log proves, by address.
    logged: BTreeMap<DiskAddr, LoggedBlock>,
    /// The inodes that own those blocks in `logged` that are not proven by a checksum.
    logged_owners: BTreeSet<InodeNumber>,
}

impl<'a> Evidence<'a> {
    /// Creates a reader of the volume on `device`, with the sizes in `superblock`.
    #[must_use]
    pub const fn new(device: &'a dyn BlockDevice, superblock: &'a Superblock) -> Self {
        let waste = WasteBudget::of(&superblock.geometry);
        let logged = BTreeMap::new();
        let logged_owners = BTreeSet::new();
        let unread = RefCell::new(Vec::new());
        Self { device, superblock, unread, waste, log_head: None, logged, logged_owners }
    }

    /// Sets the head of the log. A block with a newer LSN then fails its checks.
    #[must_use]
    pub fn with_log_head(self, log_head: Option<Lsn>) -> Self {
        Self { log_head, ..self }
    }

    /// Looks in the log for the damaged blocks of the volume. Later reads of metadata return the
    /// block that the log proves ([`logged_blocks`](Self::logged_blocks)) in place of a damaged
    /// one. Reads of file contents do not. Calls `poll` after each record and each transaction. If
    /// `poll` breaks, the log is not used.
    pub fn use_log(&mut self, log: SharedDevice, poll: impl FnMut() -> ControlFlow<()>) {
        self.logged = self.logged_blocks(log, |_| true, poll);
        let unproven = self.logged.values();
        let unproven = unproven.filter(|block| block.proof == BlockProof::NewestInLog);
        self.logged_owners = unproven.filter_map(LoggedBlock::inode).collect();
    }

    /// Returns whether the log replaces a metadata block of this inode without a proof by checksum
    /// ([`BlockProof::NewestInLog`]).
    #[must_use]
    pub fn has_block_from_log(&self, inode: InodeNumber) -> bool {
        self.logged_owners.contains(&inode)
    }

    /// Returns the blocks of groups (blocks without an owner inode) that the log replaces without a
    /// proof by checksum ([`BlockProof::NewestInLog`]), by address.
    pub fn group_blocks_from_log(&self) -> impl Iterator<Item = (DiskAddr, BlockKind)> {
        let blocks = self.logged.iter();
        let unproven = blocks
            .filter(|(_, block)| block.proof == BlockProof::NewestInLog && block.inode().is_none());
        unproven.map(|(at, block)| (*at, block.kind))
    }

    /// Fills `bytes` from a disk address inside one metadata block. If the block is damaged and the
    /// log proves its contents, the bytes come from the log. Otherwise reads as
    /// [`read`](Self::read) does.
    pub(crate) fn read_metadata(&self, at: DiskAddr, bytes: &mut [u8]) -> Result<(), Damage> {
        if let Some(logged) = self.logged_bytes(at, bytes.len()) {
            bytes.copy_from_slice(logged);
            return Ok(());
        }
        self.read(at, bytes)
    }

    fn logged_bytes(&self, at: DiskAddr, length: usize) -> Option<&[u8]> {
        let (start, block) = self.logged.range(..=at).next_back()?;
        let skipped = usize::try_from((at.0 - start.0) * u64::from(BASIC_BLOCK_BYTES)).ok()?;
        block.bytes.get(skipped..)?.get(..length)
    }

    /// Returns the device of the volume.
    #[must_use]
    pub const fn device(&self) -> &'a dyn BlockDevice {
        self.device
    }

    /// Returns the superblock that the caller has given.
    #[must_use]
    pub const fn superblock(&self) -> &'a Superblock {
        self.superblock
    }

    /// Returns the sizes of the volume.
    #[must_use]
    pub const fn geometry(&self) -> &'a Geometry {
        &self.superblock.geometry
    }

    /// Starts to count the wasted reads of one fork. All forks share one budget for reads that find
    /// no useful block.
    pub(crate) fn fork_reads(&self) -> ForkReads<'_> {
        self.waste.fork()
    }

    /// Returns the ranges that the device has refused to read so far, in order and joined.
    #[must_use]
    pub fn unread(&self) -> Vec<ByteRange> {
        ByteRange::joined(self.unread.borrow().clone())
    }

    /// Fills `bytes` from a disk address. A range that cannot be read is added to
    /// [`unread`](Self::unread).
    ///
    /// # Errors
    ///
    /// Returns the range that cannot be read as a damage.
    pub fn read(&self, at: DiskAddr, bytes: &mut [u8]) -> Result<(), Damage> {
        let start = at.byte_offset().unwrap_or(u64::MAX);
        let end = start.saturating_add(bytes.len() as u64);
        self.device.read_at(bytes, start).map_err(|error| {
            let range = ByteRange { start, end };
            let mut unread = self.unread.borrow_mut();
            if unread.len() < MOST_UNREAD {
                unread.push(range);
            }
            Damage::Unread { range, error: error.to_string() }
        })
    }

    /// Reads one filesystem block.
    ///
    /// # Errors
    ///
    /// Returns the range that cannot be read, or a block number outside the volume, as a damage.
    pub(crate) fn read_block(&self, block: FsBlock) -> Result<(Vec<u8>, DiskAddr), Damage> {
        let end = u64::MAX;
        let outside = Damage::Unread {
            range: ByteRange { start: end, end },
            error: format!("{block} is outside the volume"),
        };
        let at = self.geometry().block_disk_addr(block).ok_or(outside)?;
        let mut bytes = vec![0; self.geometry().block_size as usize];
        self.read_metadata(at, &mut bytes)?;
        Ok((bytes, at))
    }

    /// Checks a block, and returns how far its contents can be believed. If the block is damaged,
    /// adds the damage to `damages`.
    ///
    /// The result is `None` if the block is not of this kind at all: its magic number is wrong, it
    /// has the UUID of another volume, or it states another address.
    pub(crate) fn judge(
        &self,
        kind: BlockKind,
        bytes: &[u8],
        at: DiskAddr,
        damages: &mut Vec<Damage>,
    ) -> Option<Trust> {
        match kind.verify(bytes, at, &self.context()) {
            Ok(()) => Some(Trust::Sound),
            Err(corruption) => {
                let is_other = matches!(
                    corruption.check(),
                    Check::Magic { .. }
                        | Check::ForeignUuid { .. }
                        | Check::MisplacedBlock { .. }
                        | Check::Truncated { .. }
                );
                // The checksum is checked first, so a wrong one can hide another block's contents.
                let identity = BlockIdentity::of(bytes);
                let is_other = is_other
                    || identity.is_some_and(|identity| {
                        !identity.is_plausible(at, self.geometry().meta_uuid)
                    });
                damages.push(corruption.into());
                (!is_other).then_some(Trust::Doubtful)
            }
        }
    }

    /// Returns the facts about the volume that every verifier gets. The head of the log is unknown
    /// unless the caller has set it, so that a damaged log does not make other structures fail
    /// their checks.
    pub(crate) const fn context(&self) -> VerifyContext<'a> {
        VerifyContext { geometry: self.geometry(), log_head: self.log_head }
    }
}
