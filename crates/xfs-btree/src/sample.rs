//! Btrees made by hand on a device in memory, for tests. The superblock of the volume is that of
//! the golden image `aged`.

use std::sync::Arc;

use xfs_buffer::BufferCache;
use xfs_device::{BlockDevice, Durability, MemoryDevice};
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::{BtreeKind, PointerForm};
use xfs_format::{
    AgBlock, AgNumber, BlockKind, DiskAddr, Geometry, Lsn, StructureAddress, Superblock,
};

/// The superblock of a volume with one group of 307200 blocks of 1 KiB, and with every kind of
/// btree.
const SUPERBLOCK: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/groups/aged.headers"));

/// The block number of the first block of a sample. The other blocks follow it, level by level from
/// the leaves up.
pub(crate) const FIRST_BLOCK: u64 = 100;

/// The kind, the owner and the records of a sample btree.
pub(crate) struct Contents {
    pub(crate) kind: BtreeKind,
    pub(crate) owner: u64,
    /// The key and the bytes of each record, in order.
    pub(crate) records: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A btree on a device in memory.
pub(crate) struct Sample {
    kind: BtreeKind,
    device: Arc<MemoryDevice>,
    geometry: Arc<Geometry>,
    /// For each level, from the leaves up: the number and the lowest key of each block.
    pub(crate) levels: Vec<Vec<(u64, Vec<u8>)>>,
}

impl Sample {
    /// Builds the btree of `contents` with `fan` records or children in each block.
    pub(crate) fn new(contents: &Contents, fan: usize) -> Self {
        let geometry =
            Superblock::decode(SUPERBLOCK, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry;
        let device = Arc::new(MemoryDevice::new(geometry.data_bytes()));
        let mut sample =
            Self { kind: contents.kind, device, geometry: Arc::new(geometry), levels: Vec::new() };
        let mut next = FIRST_BLOCK;
        let mut entries = contents.records.clone();
        loop {
            let count = entries.len().div_ceil(fan).max(1) as u64;
            let mut level = Vec::new();
            for index in 0..count {
                let range = index as usize * fan..(index as usize * fan + fan).min(entries.len());
                let mut bytes = sample.empty_block(next, next + index, count);
                sample.fill(&mut bytes, contents.owner, &entries[range.clone()]);
                sample.write(next + index, &mut bytes);
                let lowest = entries.get(range.start).map(|entry| entry.0.clone());
                level.push((next + index, lowest.unwrap_or_default()));
            }
            next += count;
            let pointer = |block: u64| match sample.kind.layout().form {
                PointerForm::Short => u32::try_from(block).unwrap().to_be_bytes().to_vec(),
                PointerForm::Long => block.to_be_bytes().to_vec(),
            };
            entries = level.iter().map(|(block, key)| (key.clone(), pointer(*block))).collect();
            sample.levels.push(level);
            if count == 1 {
                return sample;
            }
        }
    }

    /// Returns the bytes of block `block`, with a header that names the siblings of the block, and
    /// without entries. The block's level consists of `count` blocks from block `first` on.
    fn empty_block(&self, first: u64, block: u64, count: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.geometry.block_size as usize];
        bytes[..4].copy_from_slice(&self.kind.layout().magic.to_be_bytes());
        bytes[5] = u8::try_from(self.levels.len()).unwrap();
        let left = if block == first { u64::MAX } else { block - 1 };
        let right = if block + 1 == first + count { u64::MAX } else { block + 1 };
        match self.kind.layout().form {
            PointerForm::Short => {
                bytes[8..12].copy_from_slice(&(left as u32).to_be_bytes());
                bytes[12..16].copy_from_slice(&(right as u32).to_be_bytes());
            }
            PointerForm::Long => {
                bytes[8..16].copy_from_slice(&left.to_be_bytes());
                bytes[16..24].copy_from_slice(&right.to_be_bytes());
            }
        }
        bytes
    }

    /// Writes the address, UUID, owner and entries to a block.
    fn fill(&self, bytes: &mut [u8], owner: u64, entries: &[(Vec<u8>, Vec<u8>)]) {
        let layout = self.kind.layout();
        let uuid = *self.geometry.meta_uuid.as_bytes();
        match layout.form {
            PointerForm::Short => {
                bytes[32..48].copy_from_slice(&uuid);
                bytes[48..52].copy_from_slice(&(owner as u32).to_be_bytes());
            }
            PointerForm::Long => {
                bytes[40..56].copy_from_slice(&uuid);
                bytes[56..64].copy_from_slice(&owner.to_be_bytes());
            }
        }
        bytes[7] = u8::try_from(entries.len()).unwrap();
        let header = layout.header_bytes();
        let pointers = header + layout.max_pointers(self.geometry.block_size) * layout.key_bytes;
        for (index, (key, value)) in entries.iter().enumerate() {
            let mut put = |start: usize, part: &[u8]| {
                let start = start + index * part.len();
                bytes[start..start + part.len()].copy_from_slice(part);
            };
            if self.levels.is_empty() {
                put(header, value);
            } else {
                put(header, key);
                put(pointers, value);
            }
        }
    }

    fn offset(&self, block: u64) -> u64 {
        block * u64::from(self.geometry.block_size)
    }

    fn write(&self, block: u64, bytes: &mut [u8]) {
        let address = self.offset(block) / 512;
        let field = match self.kind.layout().form {
            PointerForm::Short => 16,
            PointerForm::Long => 24,
        };
        bytes[field..field + 8].copy_from_slice(&address.to_be_bytes());
        BlockKind::Btree(self.kind).seal(bytes, Lsn(0));
        self.device.write_at(bytes, self.offset(block), Durability::Cached).unwrap();
    }

    /// Changes a block and updates its checksum.
    pub(crate) fn edit(&self, block: u64, change: impl FnOnce(&mut [u8])) {
        let mut bytes = vec![0; self.geometry.block_size as usize];
        self.device.read_at(&mut bytes, self.offset(block)).unwrap();
        change(&mut bytes);
        self.write(block, &mut bytes);
    }

    /// Returns a buffer cache that has read nothing yet.
    pub(crate) fn cache(&self) -> BufferCache {
        let device: Arc<dyn BlockDevice> = Arc::clone(&self.device) as _;
        BufferCache::new(device, Arc::clone(&self.geometry), 1 << 20)
    }

    /// Returns the root, as the header of the group would hold it.
    pub(crate) fn root(&self) -> BtreeRoot {
        let (block, _) = self.levels.last().unwrap()[0];
        let levels = u32::try_from(self.levels.len()).unwrap();
        BtreeRoot { block: AgBlock(u32::try_from(block).unwrap()), levels }
    }

    /// Returns the number of the group that contains the btree.
    pub(crate) const fn group(&self) -> AgNumber {
        AgNumber(0)
    }
}
