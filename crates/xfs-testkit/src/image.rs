//! An in-memory image that tests edit. It is cheap to copy, because a copy keeps only the sectors
//! that it changes.
//!
//! An edit recomputes the checksum of the changed buffer. So a reader accepts the checksum, and the
//! damage reaches the checks that follow.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use xfs_device::{BlockDevice, Durability};
use xfs_format::{
    BASIC_BLOCK_BYTES, BlockKind, DiskAddr, Geometry, Lsn, StructureAddress, Superblock, inode,
};

const SECTOR: usize = BASIC_BLOCK_BYTES as usize;

/// An image: contents that all copies share, and the sectors in which this copy differs. As a
/// device it is read-only.
#[derive(Clone)]
pub struct Image {
    base: Arc<Vec<u8>>,
    length_bytes: usize,
    changed: BTreeMap<usize, [u8; SECTOR]>,
}

impl Image {
    /// Creates an image with these contents. An incomplete last sector is dropped.
    #[must_use]
    pub fn new(mut bytes: Vec<u8>) -> Self {
        bytes.truncate(bytes.len() / SECTOR * SECTOR);
        Self { length_bytes: bytes.len(), base: Arc::new(bytes), changed: BTreeMap::new() }
    }

    /// Returns the length of the image in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// Truncates the image to `length_bytes`, rounded down to a whole sector.
    pub fn truncate(&mut self, length_bytes: usize) {
        self.length_bytes = self.length_bytes.min(length_bytes) / SECTOR * SECTOR;
    }

    /// Returns the geometry that the superblock of the image gives.
    ///
    /// # Panics
    ///
    /// Panics if the superblock does not decode. A test that damages the superblock must do so
    /// last.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let sector = self.bytes(DiskAddr(0), SECTOR).expect("an image has a first sector");
        let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)));
        superblock.expect("the superblock of a test image decodes").geometry
    }

    /// Returns `length` bytes from `at` on, or `None` if they do not all lie in the image.
    #[must_use]
    pub fn bytes(&self, at: DiskAddr, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read(at.byte_offset()?, &mut bytes)?;
        Some(bytes)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Option<()> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(buffer.len()).filter(|end| *end <= self.length_bytes)?;
        buffer.copy_from_slice(self.base.get(start..end)?);
        for (sector, bytes) in self.changed.range(start / SECTOR..end.div_ceil(SECTOR)) {
            let at = sector * SECTOR;
            let (from, to) = (at.max(start), (at + SECTOR).min(end));
            let target = buffer.get_mut(from - start..to - start)?;
            target.copy_from_slice(bytes.get(from - at..to - at)?);
        }
        Some(())
    }

    /// Replaces the bytes from `at` on. Bytes past the end of the image are dropped.
    ///
    /// # Panics
    ///
    /// Panics if the length is not a multiple of the sector size.
    pub fn replace(&mut self, at: DiskAddr, bytes: &[u8]) {
        let (sectors, rest) = bytes.as_chunks::<SECTOR>();
        assert!(rest.is_empty(), "edits cover whole sectors");
        let count = self.length_bytes / SECTOR;
        let first = usize::try_from(at.0).unwrap_or(usize::MAX);
        let numbered = (first..count).zip(sectors);
        self.changed.extend(numbered.map(|(sector, bytes)| (sector, *bytes)));
    }

    /// Changes a buffer of `length` bytes at `at` and recomputes its checksum as a buffer of
    /// `kind`.
    ///
    /// # Panics
    ///
    /// Panics if the buffer does not lie inside the image.
    pub fn edit(
        &mut self,
        at: DiskAddr,
        length: usize,
        kind: BlockKind,
        change: impl FnOnce(&mut [u8]),
    ) {
        let geometry = self.geometry();
        self.edit_with(at, length, |bytes| {
            change(bytes);
            reseal(bytes, kind, &geometry);
        });
    }

    /// Changes `length` bytes at `at` without recomputing a checksum.
    ///
    /// # Panics
    ///
    /// Panics if the bytes do not lie inside the image.
    pub fn edit_with(&mut self, at: DiskAddr, length: usize, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.bytes(at, length).expect("an edit lies inside the image");
        change(&mut bytes);
        self.replace(at, &bytes);
    }
}

/// Recomputes the checksums of a buffer. Most kinds of buffer have one. Inode clusters have one per
/// inode, blocks of dquots one per dquot, and remote attribute values one per block. A buffer that
/// is too short for a checksum is left as it is.
pub fn reseal(bytes: &mut [u8], kind: BlockKind, geometry: &Geometry) {
    // "Never logged" is valid at any state of the log.
    let lsn = Lsn(0);
    if bytes.len() < SECTOR {
        return;
    }
    match kind {
        BlockKind::InodeCluster => {
            let inodes = bytes.chunks_exact_mut(geometry.inode_size as usize);
            inodes.for_each(|bytes| inode::seal(bytes, lsn));
        }
        BlockKind::AttrRemote => {
            let blocks = bytes.chunks_exact_mut(geometry.block_size as usize);
            blocks.for_each(|bytes| xfs_format::crc::seal(bytes, REMOTE_CRC));
        }
        BlockKind::Dquots => xfs_format::dquot::seal_block(bytes),
        _ => kind.seal(bytes, lsn),
    }
}

/// Offset of the checksum in a block of a remote attribute value, in bytes.
const REMOTE_CRC: usize = 12;

impl BlockDevice for Image {
    fn length_bytes(&self) -> u64 {
        self.length_bytes as u64
    }

    fn sector_size(&self) -> u32 {
        BASIC_BLOCK_BYTES
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read(offset, buffer).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn write_at(&self, _: &[u8], _: u64, _: Durability) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
