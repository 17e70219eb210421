//! Test helper: finds blocks in the golden image and changes them.

use xfs_format::{BlockKind, Check, DiskAddr, Geometry, Lsn, Superblock, VerifyContext, crc};
use xfs_testkit::golden;

/// A block of the golden image, with its address.
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) kind: BlockKind,
    pub(crate) at: DiskAddr,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn geometry() -> Geometry {
    let sector = golden().bytes(DiskAddr(0), 512).unwrap();
    Superblock::decode(&sector, xfs_format::StructureAddress::Disk(DiskAddr(0))).unwrap().geometry
}

/// Finds the blocks of the golden image that have `magic` at byte `offset` and their own address at
/// byte `address`.
pub(crate) fn find(kind: BlockKind, magic: &[u8], (offset, address): (usize, usize)) -> Vec<Block> {
    let (image, geometry) = (golden(), geometry());
    let length = match kind {
        BlockKind::Attr | BlockKind::AttrRemote => geometry.block_size,
        _ => geometry.directory_block_size(),
    };
    let step = u64::from(geometry.block_basic_blocks());
    let addresses = (0..image.length_bytes() as u64 / 512).step_by(step as usize).map(DiskAddr);
    let blocks = addresses.filter_map(|at| {
        let bytes = image.bytes(at, length as usize)?;
        let is_one =
            bytes[offset..].starts_with(magic) && bytes[address..].starts_with(&at.0.to_be_bytes());
        is_one.then_some(Block { kind, at, bytes })
    });
    let blocks: Vec<Block> = blocks.collect();
    assert!(!blocks.is_empty(), "the golden image has {kind:?} {magic:x?}");
    blocks
}

impl Block {
    pub(crate) fn verify(&self) -> Result<(), Check> {
        let geometry = geometry();
        let context = VerifyContext { geometry: &geometry, log_head: None };
        self.verify_in(&context)
    }

    pub(crate) fn verify_in(&self, context: &VerifyContext<'_>) -> Result<(), Check> {
        let verified = self.kind.verify(&self.bytes, self.at, context);
        verified.map_err(|corruption| corruption.check().clone())
    }

    /// Returns a copy of the block with these bytes at `offset` and a recomputed checksum.
    pub(crate) fn with(&self, offset: usize, bytes: &[u8]) -> Self {
        let mut block = self.clone();
        block.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        block.reseal();
        block
    }

    fn reseal(&mut self) {
        match self.kind {
            BlockKind::AttrRemote => crc::seal(&mut self.bytes, 12),
            kind => kind.seal(&mut self.bytes, Lsn(1)),
        }
    }

    pub(crate) fn u16(&self, offset: usize) -> u16 {
        u16::from_be_bytes(self.bytes[offset..offset + 2].try_into().unwrap())
    }

    pub(crate) fn u32(&self, offset: usize) -> u32 {
        u32::from_be_bytes(self.bytes[offset..offset + 4].try_into().unwrap())
    }
}

/// Checks that the verifier accepts all of `blocks`, that it refuses each block after a change
/// without a new checksum, and that it checks the common fields. Also checks that `read` does not
/// panic after a change of any one byte, whether the verifier accepts the changed block or not.
pub(crate) fn check_blocks(blocks: &[Block], read: impl Fn(&Block)) {
    for block in blocks {
        assert_eq!(block.verify(), Ok(()), "{}", block.at);
        read(block);
    }
    let first = &blocks[0];
    check_envelope(first);
    let geometry = geometry();
    let context = VerifyContext { geometry: &geometry, log_head: None };
    for offset in 0..first.bytes.len() {
        let old = first.bytes[offset];
        for new in [old ^ 0xff, old.wrapping_add(1)] {
            let mut damaged = first.clone();
            damaged.bytes[offset] = new;
            if offset % 16 == 0 {
                assert!(damaged.verify_in(&context).is_err(), "offset {offset}");
            }
            damaged.reseal();
            let _ = damaged.verify_in(&context);
            read(&damaged);
        }
    }
    for length in (1..first.bytes.len()).step_by(61) {
        let mut short = first.clone();
        short.bytes.truncate(length);
        assert!(short.verify_in(&context).is_err(), "length {length}");
        read(&short);
    }
}

fn check_envelope(block: &Block) {
    let mut geometry = geometry();
    let elsewhere = Block { at: DiskAddr(block.at.0 + 8), ..block.clone() };
    assert_eq!(elsewhere.verify(), Err(Check::MisplacedBlock { found: block.at }));
    let mut old = block.clone();
    old.reseal();
    let context = VerifyContext { geometry: &geometry, log_head: Some(Lsn(1)) };
    assert_eq!(old.verify_in(&context), Ok(()));
    let found = geometry.meta_uuid;
    geometry.meta_uuid = uuid::Uuid::nil();
    let context = VerifyContext { geometry: &geometry, log_head: None };
    assert_eq!(block.verify_in(&context), Err(Check::ForeignUuid { found }));
}
