//! The volume during replay: checking bounds, reading, writing, stamping, and the verification at
//! the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{Error, IoError, Result};
use xfs_device::{BlockDevice, Durability, OverlayDevice};
use xfs_format::inode::{INODE_MAGIC, InodeCore, InodeDisk};
use xfs_format::log_item::LogItemCheck;
use xfs_format::{
    BASIC_BLOCK_BYTES, BlockKind, Check, Corruption, DiskAddr, FormatVersion, Geometry,
    InodeNumber, Lsn, Structure, StructureAddress, Superblock, VerifyContext,
};
use zerocopy::FromBytes;

use super::Targets;
use super::pieces::DirectoryPieces;
use crate::device::LogGeometry;
use crate::reader::LoggedTransaction;

/// Number of bytes at the start of a block within which its checksum and its LSN lie, whatever its
/// kind.
pub(super) const STAMP_BYTES: usize = 512;

/// The length in bytes and the kind of a buffer that was replayed.
#[derive(Clone, Copy)]
struct TouchedBuffer {
    length: usize,
    kind: BlockKind,
}

/// The volume during replay.
pub(super) struct RecoveryStore {
    device: Arc<OverlayDevice>,
    superblock: Superblock,
    /// The basic blocks of the data device that hold the log; empty if the log has a device of its
    /// own.
    log: Range<u64>,
    /// The LSN of the transaction that is being replayed.
    lsn: Lsn,
    place: StructureAddress,
    /// Buffers that transactions of the current LSN have changed. Their checksums are wrong until
    /// `seal` computes them again.
    unsealed: BTreeMap<DiskAddr, TouchedBuffer>,
    /// All buffers that were changed and stamped, each with the length and kind that it had when it
    /// was last stamped.
    touched: BTreeMap<DiskAddr, TouchedBuffer>,
    inodes: BTreeSet<InodeNumber>,
    /// Whether the replay skips an item if the structure that it changes (its target) is destroyed
    /// on disk.
    pub(super) targets: Targets,
    /// Whether the replay ends before the end of the log. The log then does not have all later
    /// changes of an object.
    pub(super) is_cut: bool,
    /// The pieces of directory blocks that were replayed.
    pub(super) pieces: DirectoryPieces,
    /// Byte ranges, in addition to the touched buffers, that must each be written by one write.
    atomic: Vec<Range<u64>>,
}

impl RecoveryStore {
    pub(super) fn new(
        device: Arc<OverlayDevice>,
        superblock: &Superblock,
        log: &LogGeometry,
    ) -> Self {
        let start = log.start.0;
        let end = if superblock.has_external_log() {
            start
        } else {
            start + u64::from(log.length_blocks)
        };
        Self {
            device,
            superblock: superblock.clone(),
            log: start..end,
            lsn: Lsn(0),
            place: StructureAddress::Log(0),
            unsealed: BTreeMap::new(),
            touched: BTreeMap::new(),
            inodes: BTreeSet::new(),
            targets: Targets::Sound,
            is_cut: false,
            pieces: DirectoryPieces::default(),
            atomic: Vec::new(),
        }
    }

    /// Begins the replay of a transaction. All items that are replayed next belong to this
    /// transaction.
    pub(super) fn begin(&mut self, transaction: &LoggedTransaction) -> Result<()> {
        if transaction.lsn() != self.lsn {
            self.seal()?;
        }
        (self.lsn, self.place) = (transaction.lsn(), transaction.place());
        self.pieces.begin();
        Ok(())
    }

    /// Stamps each changed buffer: stores its checksum and the LSN of the transactions that changed
    /// it. Buffers of a v4 volume have neither.
    pub(super) fn seal(&mut self) -> Result<()> {
        if self.geometry().version == FormatVersion::V4 {
            self.touched.append(&mut self.unsealed);
            return Ok(());
        }
        for (at, touched) in std::mem::take(&mut self.unsealed) {
            let mut bytes = self.read(at, touched.length)?;
            touched.kind.seal(&mut bytes, self.lsn);
            let stamp = bytes.get(..STAMP_BYTES).expect("a buffer has at least a basic block");
            self.write(at, 0, stamp)?;
            self.touched.insert(at, touched);
        }
        Ok(())
    }

    /// Verifies everything that was replayed, in its final state (I2 of `xfs_log::recovery`).
    /// `head` is the newest LSN that a block may carry.
    pub(super) fn verify(&self, head: Lsn) -> Result<()> {
        let geometry = &self.superblock.geometry;
        let context = VerifyContext { geometry, log_head: Some(head) };
        for (at, touched) in &self.touched {
            touched.kind.verify(&self.read(*at, touched.length)?, *at, &context)?;
        }
        for number in &self.inodes {
            let bytes = self.read_inode(*number)?;
            InodeCore::decode(&bytes, *number, geometry)?.verify(&bytes, &context)?;
        }
        Ok(())
    }

    pub(super) const fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    /// Replaces the superblock of the volume, for the items that are replayed next.
    pub(super) fn set_superblock(&mut self, superblock: Superblock) {
        self.superblock = superblock;
    }

    /// Returns the superblock, and the byte ranges that must each be written by one write.
    /// Otherwise a crash could leave a buffer on disk with a new LSN and old contents, and the next
    /// recovery would skip the buffer.
    pub(super) fn into_parts(self) -> (Superblock, Vec<Range<u64>>) {
        let buffers = self.touched.iter().map(|(at, touched)| byte_range(*at, touched.length));
        let buffers = buffers.chain(self.atomic).collect();
        (self.superblock, buffers)
    }

    /// Notes that the `length` bytes at `at` must be written to the volume by one write, not by
    /// several.
    pub(super) fn note_atomic(&mut self, at: DiskAddr, length: usize) {
        self.atomic.push(byte_range(at, length));
    }

    /// Returns the LSN of the transaction that is being replayed.
    pub(super) const fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Returns a corruption error for the transaction that is being replayed.
    pub(super) fn corrupt(&self, check: impl Into<Check>) -> Corruption {
        Corruption::new(Structure::LogItem, self.place, check)
    }

    /// Returns an error unless `blocks` basic blocks from `at` on lie inside the volume and outside
    /// the log (I3 of `xfs_log::recovery`).
    pub(super) fn check_range(&self, at: DiskAddr, blocks: u64) -> Result<()> {
        let geometry = self.geometry();
        let limit = geometry.data_bytes().min(self.device.length_bytes());
        let limit = limit / u64::from(BASIC_BLOCK_BYTES);
        let end = at.0.checked_add(blocks);
        let meets_log = end.is_some_and(|end| at.0 < self.log.end && self.log.start < end);
        if blocks == 0 || meets_log || end.is_none_or(|end| end > limit) {
            return Err(self.corrupt(LogItemCheck::OutsideVolume { at: at.0, blocks }).into());
        }
        Ok(())
    }

    /// Reads `length` bytes of the volume from `at` on. The caller has checked the range by
    /// `check_range`.
    pub(super) fn read(&self, at: DiskAddr, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let offset = at.byte_offset().expect("the range was checked (I3)");
        self.device
            .read_at(&mut bytes, offset)
            .map_err(|source| Error::Io(IoError::new("read", at, length as u64, source)))?;
        Ok(bytes)
    }

    /// Writes `bytes` to the volume, `inside` bytes after the address `at`. The caller has checked
    /// the range by `check_range`.
    pub(super) fn write(&self, at: DiskAddr, inside: usize, bytes: &[u8]) -> Result<()> {
        let offset = at.byte_offset().expect("the range was checked (I3)") + inside as u64;
        self.device.write_at(bytes, offset, Durability::Cached).map_err(|source| {
            let length_bytes = bytes.len() as u64;
            Error::Io(IoError::new("replay", at, length_bytes, source))
        })
    }

    /// Notes that a buffer was changed. At the end of the replay, the buffer is verified as a block
    /// of the kind `kind`.
    pub(super) fn touch(&mut self, at: DiskAddr, length: usize, kind: BlockKind) {
        self.unsealed.insert(at, TouchedBuffer { length, kind });
    }

    /// Returns whether a transaction of the current LSN has changed the buffer at `at`.
    pub(super) fn is_unsealed(&self, at: DiskAddr) -> bool {
        self.unsealed.contains_key(&at)
    }

    /// Forgets the changes of buffers in a range of basic blocks, because the range holds inodes
    /// from now on.
    pub(super) fn forget(&mut self, at: DiskAddr, blocks: u64) {
        let range = at..DiskAddr(at.0.saturating_add(blocks));
        self.pieces.forget(&range);
        self.unsealed.extract_if(range.clone(), |_, _| true).for_each(drop);
        self.touched.extract_if(range, |_, _| true).for_each(drop);
    }

    /// Notes that an inode was changed, so that it is verified at the end of the replay.
    pub(super) fn touch_inode(&mut self, number: InodeNumber) {
        self.inodes.insert(number);
    }

    /// Returns the address of an inode's cluster, and the inode's offset in bytes in the cluster.
    /// Returns an error if the volume has no such inode.
    pub(super) fn inode_address(&self, number: InodeNumber) -> Result<(DiskAddr, usize)> {
        let place = self.geometry().inode_location(number).ok_or_else(|| {
            self.corrupt(LogItemCheck::OutOfRange { field: "inode", value: number.0 })
        })?;
        let blocks = u64::from(place.cluster_bytes / BASIC_BLOCK_BYTES);
        self.check_range(place.cluster, blocks)?;
        Ok((place.cluster, place.offset_bytes as usize))
    }

    /// Reads the bytes of an inode.
    pub(super) fn read_inode(&self, number: InodeNumber) -> Result<Vec<u8>> {
        let (cluster, inside) = self.inode_address(number)?;
        let at = DiskAddr(cluster.0 + (inside / BASIC_BLOCK_BYTES as usize) as u64);
        let skipped = inside % BASIC_BLOCK_BYTES as usize;
        let inode_size = self.geometry().inode_size as usize;
        let mut bytes = self.read(at, skipped + inode_size)?;
        bytes.drain(..skipped);
        Ok(bytes)
    }

    /// Returns whether `bytes` begin with an inode of this volume whose LSN is not older than the
    /// transaction that is being replayed.
    pub(super) fn is_current_inode(&self, bytes: &[u8]) -> bool {
        InodeDisk::ref_from_prefix(bytes).is_ok_and(|(inode, _)| {
            let lsn = Lsn(inode.lsn.get());
            self.is_inode(bytes) && !lsn.is_null() && lsn >= self.lsn
        })
    }

    /// Returns whether `bytes` begin with an inode that has the UUID of this volume. The inodes of
    /// a v4 volume have no UUID, so the result is `false` for them.
    pub(super) fn is_inode(&self, bytes: &[u8]) -> bool {
        let geometry = self.geometry();
        InodeDisk::ref_from_prefix(bytes).is_ok_and(|(inode, _)| {
            geometry.version == FormatVersion::V5
                && inode.magic.get() == INODE_MAGIC
                && inode.uuid == geometry.meta_uuid.into_bytes()
        })
    }

    /// Writes the bytes of an inode.
    pub(super) fn write_inode(&self, number: InodeNumber, bytes: &[u8]) -> Result<()> {
        let (cluster, inside) = self.inode_address(number)?;
        self.write(cluster, inside, bytes)
    }
}

/// Returns the byte range on the device of `length` bytes from `at` on. The caller must have
/// checked the range by `check_range`.
fn byte_range(at: DiskAddr, length: usize) -> Range<u64> {
    let start = at.0 * u64::from(BASIC_BLOCK_BYTES);
    start..start + length as u64
}
