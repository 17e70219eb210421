//! The states of damaged metadata blocks in old records of the log.
//!
//! Owns: the logged bytes of a damaged block, and the proof that these bytes are the newest state
//! of the block. Does **not** own: reading the records (`log_runs.rs`), the replay of the log, or
//! the use of the proven block: `xfs-repair` writes it to the volume, and an [`Evidence`] with a
//! log reads it in place of the damaged block.
//!
//! # Why a block is right
//!
//! The log has those chunks of a block (128 bytes each) that were changed. If a block was freed,
//! the log has a cancellation, and the chunks that were logged before the cancellation are
//! discarded. There are two proofs:
//!
//! - **Checksum.** The logged chunks replace those of the damaged block, except for its checksum
//!   and LSN. If the checksum is then right, the result is the newest state of the block. With
//!   damage outside of the logged chunks, or with a logged chunk that is out of date, the checksum
//!   would be wrong.
//! - **Newest state.** The log has all chunks of the block. All records from the one with the
//!   oldest of these chunks up to the head can be read, and the block on disk does not have a newer
//!   LSN. So no later record changes or cancels the block. This does not hold for programs that
//!   change a volume without its log, such as `xfs_repair` and `xfs_db`.
//!
//! A block with a right checksum is never replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use xfs_device::SharedDevice;
use xfs_format::btree::PointerForm;
use xfs_format::inode::{self, INODE_MAGIC};
use xfs_format::log_item::{BufferFormat, CHUNK_BYTES, LoggedBuffer, LoggedItem};
use xfs_format::{
    BASIC_BLOCK_BYTES, BlockKind, DiskAddr, FormatVersion, InodeNumber, Lsn, crc, kind,
};
use xfs_log::{LogDevice, LogEntry, LoggedTransaction, kind_of_buffer};

use crate::log_runs::{UnbrokenRun, read_runs};
use crate::sweep::BlockIdentity;
use crate::volume::Evidence;

/// The most bytes of damaged blocks that are collected from the log.
const MOST_BYTES: usize = 64 << 20;
/// The most addresses of sound blocks that are remembered, so that they are not read again.
const MOST_SOUND: usize = 1 << 20;
/// The greatest length of a logged buffer in basic blocks: 64 KiB.
const MOST_BASIC_BLOCKS: u64 = 128;
/// The number of bytes of logged blocks that are read from the volume for each byte of the log. An
/// item of 32 bytes can name a block of 64 KiB, and a log has millions of such items.
const READS_PER_LOG_BYTE: u64 = 16;

/// The proof that a block from the log is the newest state of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockProof {
    /// The checksum stored in the damaged block is right for the result.
    Checksum,
    /// The log has the whole block, and no later record changes it.
    NewestInLog,
}

/// The newest state of a damaged metadata block, from the log.
#[derive(Clone, Debug)]
pub struct LoggedBlock {
    /// The kind of the block.
    pub kind: BlockKind,
    /// The bytes of the block, with a right checksum.
    pub bytes: Vec<u8>,
    /// The proof that the block is right.
    pub proof: BlockProof,
}

impl LoggedBlock {
    /// Returns the inode that the block names as its owner. `None` for a block of a group.
    #[must_use]
    pub fn inode(&self) -> Option<InodeNumber> {
        let is_of_group = match self.kind {
            BlockKind::Btree(kind) => kind.layout().form == PointerForm::Short,
            BlockKind::Agf | BlockKind::Agi | BlockKind::Agfl => true,
            _ => false,
        };
        let identity = BlockIdentity::of(&self.bytes).filter(|_| !is_of_group)?;
        Some(InodeNumber(identity.owner()))
    }
}

impl Evidence<'_> {
    /// Returns the newest states of damaged metadata blocks, as far as the log proves them, by
    /// address. Looks only for addresses for which `wanted` returns `true`. `log` is the device of
    /// the log, which is the data device of a volume with an internal log.
    ///
    /// Blocks with a right checksum are left out, and so are superblocks, inodes and dquots.
    /// Returns no blocks for a volume of version 4, whose blocks have no checksum.
    ///
    /// Calls `poll` after each record and each transaction. If `poll` breaks, no blocks are
    /// returned.
    #[must_use]
    pub fn logged_blocks(
        &self,
        log: SharedDevice,
        wanted: impl Fn(DiskAddr) -> bool,
        mut poll: impl FnMut() -> ControlFlow<()>,
    ) -> BTreeMap<DiskAddr, LoggedBlock> {
        if self.geometry().version != FormatVersion::V5 {
            return BTreeMap::new();
        }
        let Ok(log) = LogDevice::new(log, self.superblock()) else { return BTreeMap::new() };
        let log_bytes = u64::from(log.length_blocks()) * u64::from(BASIC_BLOCK_BYTES);
        let mut collector = Collector {
            evidence: self,
            wanted,
            blocks: BTreeMap::new(),
            sound: BTreeSet::new(),
            used_bytes: 0,
            read_budget_bytes: log_bytes.saturating_mul(READS_PER_LOG_BYTE),
            damaged: None,
        };
        let mut is_stopped = false;
        let unbroken = read_runs(&log, |entry| {
            if let LogEntry::Transaction(transaction) = entry {
                collector.take(transaction);
            }
            let polled = poll();
            is_stopped = polled.is_break();
            polled
        });
        if is_stopped { BTreeMap::new() } else { collector.finish(unbroken) }
    }
}

/// The chunks of a damaged block that the log has.
struct LoggedChunks {
    /// The header of the newest buffer item that logged chunks of the block.
    format: BufferFormat,
    bytes: Vec<u8>,
    /// For each chunk, the LSN of the newest record with this chunk. `None` if the log lacks the
    /// chunk.
    chunks: Vec<Option<Lsn>>,
}

/// Collects the logged chunks of damaged blocks.
struct Collector<'a, W> {
    evidence: &'a Evidence<'a>,
    wanted: W,
    blocks: BTreeMap<DiskAddr, LoggedChunks>,
    /// The addresses of blocks that are sound on disk.
    sound: BTreeSet<DiskAddr>,
    /// The number of bytes of all blocks in `blocks`.
    used_bytes: usize,
    /// The number of bytes that may still be read from the volume while the log is read.
    read_budget_bytes: u64,
    /// The LSN of the newest transaction with an item that is damaged, or that was skipped because
    /// of a limit. Such an item may be a cancellation or a newer state of a block.
    damaged: Option<Lsn>,
}

impl<W: Fn(DiskAddr) -> bool> Collector<'_, W> {
    /// Applies the items of a transaction. Its cancellations come last, as in a replay.
    fn take(&mut self, transaction: &LoggedTransaction) {
        let lsn = transaction.lsn();
        let Ok(items) = transaction.items() else {
            self.damaged = self.damaged.max(Some(lsn));
            return;
        };
        let mut cancelled = Vec::new();
        for item in items {
            match item {
                Ok(LoggedItem::Buffer(item)) if item.is_cancel() => {
                    cancelled.push((item.format.at, item.format.blocks.into()));
                }
                Ok(LoggedItem::Buffer(item)) => self.add(&item, lsn),
                Ok(LoggedItem::InodeCreate(create)) => {
                    let geometry = self.evidence.geometry();
                    let at = geometry.ag_block_disk_addr(create.group, create.start);
                    let block = u64::from(geometry.block_basic_blocks());
                    cancelled.push((at, u64::from(create.length_blocks) * block));
                }
                Ok(_) => {}
                Err(_) => {
                    self.damaged = self.damaged.max(Some(lsn));
                    break;
                }
            }
        }
        cancelled.into_iter().for_each(|(at, blocks)| self.cancel(at, blocks));
    }

    /// Discards the chunks of all blocks in a range of basic blocks, because the range was freed.
    fn cancel(&mut self, at: DiskAddr, blocks: u64) {
        let end = DiskAddr(at.0.saturating_add(blocks));
        let first = DiskAddr(at.0.saturating_sub(MOST_BASIC_BLOCKS));
        let is_inside = |start: &DiskAddr, block: &mut LoggedChunks| {
            start.0 + u64::from(block.format.blocks) > at.0
        };
        let cancelled = self.blocks.extract_if(first..end, is_inside);
        self.used_bytes -= cancelled.map(|(_, block)| block.bytes.len()).sum::<usize>();
    }

    /// Adds the chunks of an item to those of its block, if the block is damaged. Ignores an item
    /// without chunks, and an item for a block of more than 64 KiB, which no program logs.
    fn add(&mut self, item: &LoggedBuffer<'_>, lsn: Lsn) {
        let at = item.format.at;
        if u64::from(item.format.blocks) > MOST_BASIC_BLOCKS || item.pieces.is_empty() {
            return;
        }
        if !(self.wanted)(at) || self.sound.contains(&at) || !self.is_inside(&item.format) {
            return;
        }
        let length = usize::from(item.format.blocks) * BASIC_BLOCK_BYTES as usize;
        let is_known = self.blocks.get(&at).is_some_and(|known| known.bytes.len() == length);
        if !is_known && !self.make_room(&item.format, lsn) {
            return;
        }
        let block = self.blocks.get_mut(&at).expect("the block was just looked up or inserted");
        block.format = item.format.clone();
        for piece in &item.pieces {
            let first = piece.offset_bytes / CHUNK_BYTES;
            for (index, bytes) in (first..).zip(piece.bytes.chunks(CHUNK_BYTES)) {
                block.put(index, bytes, lsn);
            }
        }
    }

    /// Makes an entry for the chunks of a block that has none yet, or that has one with another
    /// length. Returns `false` if the block is sound, or if a limit is reached.
    fn make_room(&mut self, format: &BufferFormat, lsn: Lsn) -> bool {
        let length = usize::from(format.blocks) * BASIC_BLOCK_BYTES as usize;
        if let Some(known) = self.blocks.remove(&format.at) {
            self.used_bytes -= known.bytes.len();
        }
        let read_budget_bytes = self.read_budget_bytes.checked_sub(length as u64);
        // E4: memory grows only with blocks that were read, up to a limit.
        let Some(read_budget_bytes) =
            read_budget_bytes.filter(|_| self.used_bytes + length <= MOST_BYTES)
        else {
            self.damaged = self.damaged.max(Some(lsn));
            return false;
        };
        self.read_budget_bytes = read_budget_bytes;
        if self.is_sound(format) {
            if self.sound.len() < MOST_SOUND {
                self.sound.insert(format.at);
            }
            return false;
        }
        self.used_bytes += length;
        let chunks = vec![None; length / CHUNK_BYTES];
        let block = LoggedChunks { format: format.clone(), bytes: vec![0; length], chunks };
        self.blocks.insert(format.at, block);
        true
    }

    fn is_inside(&self, format: &BufferFormat) -> bool {
        let device = self.evidence.device().length_bytes();
        let limit = device.min(self.evidence.geometry().data_bytes());
        let end = format.at.0.checked_add(format.blocks.into());
        let end = end.and_then(|end| end.checked_mul(BASIC_BLOCK_BYTES.into()));
        format.blocks != 0 && end.is_some_and(|end| end <= limit)
    }

    /// Returns whether the disk has a sound block at the address: a block of the logged type, or a
    /// block of another kind that states its own address. A program that does not use the log may
    /// have written the latter.
    fn is_sound(&self, format: &BufferFormat) -> bool {
        let Some(bytes) = self.on_disk(format) else { return false };
        let logged = kind_of_buffer(format, &bytes, self.evidence.geometry());
        let named = BlockIdentity::of(&bytes).map(|identity| identity.kind());
        let kinds = logged.into_iter().chain(named);
        kinds.into_iter().any(|kind| self.passes(kind, &bytes, format.at))
    }

    /// Returns whether the place of a logged buffer holds, after its first filesystem block,
    /// another sound block or a sound inode. The logged buffer must not replace these.
    fn covers_sound_block(&self, format: &BufferFormat, on_disk: &[u8]) -> bool {
        let geometry = self.evidence.geometry();
        let step = geometry.block_basic_blocks() as usize;
        let blocks = on_disk.chunks(geometry.block_size as usize);
        let places = (format.at.0..).step_by(step).map(DiskAddr);
        let mut inner = blocks.zip(places).skip(1);
        inner.any(|(block, at)| self.has_sound_block(block, at) || self.has_sound_inode(block))
    }

    /// Returns whether `at` has a sound block that states its own address. `first` are the bytes of
    /// its first filesystem block.
    fn has_sound_block(&self, first: &[u8], at: DiskAddr) -> bool {
        let Some(identity) = BlockIdentity::of(first) else { return false };
        let (kind, geometry) = (identity.kind(), self.evidence.geometry());
        let length = match kind {
            BlockKind::DirectoryData | BlockKind::DirectoryIndex | BlockKind::DirectoryFree => {
                geometry.directory_block_size() as usize
            }
            _ => first.len(),
        };
        let mut bytes = vec![0; length];
        self.evidence.read(at, &mut bytes).is_ok() && self.passes(kind, &bytes, at)
    }

    /// Returns whether `bytes` begins with an inode that has a right checksum.
    fn has_sound_inode(&self, bytes: &[u8]) -> bool {
        let size = self.evidence.geometry().inode_size as usize;
        let Some(inode) = bytes.get(..size) else { return false };
        let magic = inode.first_chunk().map(|magic| u16::from_be_bytes(*magic));
        let stored = crc::stored(inode, inode::CRC_OFFSET);
        magic == Some(INODE_MAGIC) && stored == crc::compute(inode, inode::CRC_OFFSET)
    }

    fn on_disk(&self, format: &BufferFormat) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::from(format.blocks) * BASIC_BLOCK_BYTES as usize];
        self.evidence.read(format.at, &mut bytes).ok().map(|()| bytes)
    }

    fn passes(&self, kind: BlockKind, bytes: &[u8], at: DiskAddr) -> bool {
        kind.verify(bytes, at, &self.evidence.context()).is_ok()
    }

    fn finish(self, unbroken: Option<UnbrokenRun>) -> BTreeMap<DiskAddr, LoggedBlock> {
        let proven = self.blocks.iter().filter_map(|(at, block)| {
            let on_disk = self.on_disk(&block.format);
            let on_disk = on_disk.as_deref();
            let covers_sound =
                || on_disk.is_some_and(|bytes| self.covers_sound_block(&block.format, bytes));
            if self.is_sound(&block.format) || covers_sound() {
                return None;
            }
            let start = unbroken.map(|run| run.start);
            let proven = on_disk.and_then(|on_disk| {
                let all = self.by_checksum(block, on_disk, None);
                all.or_else(|| self.by_checksum(block, on_disk, Some(start?)))
            });
            let proven = proven.or_else(|| self.by_log(block, on_disk, unbroken?));
            proven.map(|proven| (*at, proven))
        });
        proven.collect()
    }

    /// Replaces chunks of the damaged block by logged ones: all of them, or only those from records
    /// with an LSN of at least `since`. Returns the block if its checksum is then right.
    fn by_checksum(
        &self,
        block: &LoggedChunks,
        on_disk: &[u8],
        since: Option<Lsn>,
    ) -> Option<LoggedBlock> {
        let mut bytes = on_disk.to_vec();
        let logged = block.bytes.chunks(CHUNK_BYTES).zip(&block.chunks);
        for (target, (chunk, lsn)) in bytes.chunks_mut(CHUNK_BYTES).zip(logged) {
            if lsn.is_some_and(|lsn| since.is_none_or(|since| lsn >= since)) {
                target.copy_from_slice(chunk);
            }
        }
        let kind = kind_of_buffer(&block.format, &bytes, self.evidence.geometry())?;
        for range in kind.sealed_ranges()? {
            bytes.get_mut(range.clone())?.copy_from_slice(on_disk.get(range)?);
        }
        let is_right = self.passes(kind, &bytes, block.format.at);
        is_right.then_some(LoggedBlock { kind, bytes, proof: BlockProof::Checksum })
    }

    /// Returns the block if the log has all of its chunks in their newest state.
    fn by_log(
        &self,
        block: &LoggedChunks,
        on_disk: Option<&[u8]>,
        unbroken: UnbrokenRun,
    ) -> Option<LoggedBlock> {
        let logged = block.chunks.iter().copied().collect::<Option<Vec<Lsn>>>()?;
        let (oldest, newest) = (*logged.iter().min()?, *logged.iter().max()?);
        if oldest < unbroken.start || self.damaged.is_some_and(|damaged| damaged >= oldest) {
            return None;
        }
        let geometry = self.evidence.geometry();
        // An LSN past the head is damage, and says nothing about the age of the block.
        let lsn = on_disk.and_then(|bytes| kind::find_lsn(bytes, geometry));
        if lsn.is_some_and(|lsn| lsn > newest && lsn <= unbroken.head) {
            return None;
        }
        let mut bytes = block.bytes.clone();
        let kind = kind_of_buffer(&block.format, &bytes, geometry)?;
        kind.sealed_ranges()?;
        kind.seal(&mut bytes, newest);
        let is_right = self.passes(kind, &bytes, block.format.at);
        is_right.then_some(LoggedBlock { kind, bytes, proof: BlockProof::NewestInLog })
    }
}

impl LoggedChunks {
    /// Stores the bytes of a chunk from the record with this LSN, unless the chunk is already known
    /// from a newer record.
    fn put(&mut self, index: usize, bytes: &[u8], lsn: Lsn) {
        let Some(known) = self.chunks.get_mut(index) else { return };
        if known.is_some_and(|known| known > lsn) {
            return;
        }
        let start = index * CHUNK_BYTES;
        let Some(target) = self.bytes.get_mut(start..start + bytes.len()) else { return };
        target.copy_from_slice(bytes);
        *known = Some(lsn);
    }
}
