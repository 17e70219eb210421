//! The superblock of the realtime device (`xfs_rtsb`): block 0 of a realtime section with groups.
//!
//! Owns: decoding it, its checksum, and its comparison with the superblock of the volume. Does
//! **not** own: the sizes of the section, which only the superblock of the volume has. A zoned
//! section has no superblock of its own.
//!
//! ```text
//! 0 magic  4 CRC  8 pad  12 label  24 UUID  40 meta UUID  56 zeros to the end of the block
//! ```

mod btrees;
mod metadata;
mod space;
mod tree;

pub use crate::checks::realtime::RealtimeSpaceCheck;
pub use btrees::{
    BITMAP_METATYPE, MetadataRootLayout, RealtimeRefcounts, RealtimeReverseMap, SUMMARY_METATYPE,
};
pub use metadata::{RealtimeBlockKind, SPACE_HEADER_BYTES, SPACE_OWNER_BYTES};
pub use space::{SpaceBlock, SpaceBlockForm};
pub use tree::{
    KeyOf, RealtimeGroup, RealtimeRefcountTree, RealtimeReverseMapTree, RealtimeTree,
    RealtimeTreeBlock, RealtimeTreeEntries, decode_keys, verify_entries, verify_tree_block,
};

use core::mem::offset_of;

use uuid::Uuid;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::DiskAddr;
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::crc;
use crate::envelope;
use crate::features::{IncompatFeatures, RoCompatFeatures};
use crate::superblock::{Label, Superblock, label_from_disk};

/// Magic number of the superblock of the realtime device: "Frog".
pub const REALTIME_SUPERBLOCK_MAGIC: u32 = 0x4672_6f67;

/// The superblock of the realtime device, on disk.
#[doc(alias = "xfs_rtsb")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram says what the fields are")]
pub struct RealtimeSuperblockDisk {
    pub magic: U32,
    pub crc: [u8; 4],
    pub pad: U32,
    pub label: [u8; 12],
    pub uuid: [u8; 16],
    pub meta_uuid: [u8; 16],
}

const _: () = assert!(size_of::<RealtimeSuperblockDisk>() == 56);

/// The superblock of the realtime device in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealtimeSuperblock {
    /// The label of the volume.
    pub label: Label,
    /// The UUID of the volume that users see and change.
    pub uuid: Uuid,
    /// The UUID that the metadata of the volume carries.
    pub meta_uuid: Uuid,
}

impl RealtimeSuperblock {
    /// Decodes the superblock in `block`, the first filesystem block of the realtime device.
    ///
    /// # Errors
    ///
    /// Returns an error for too few bytes, a wrong magic number or a wrong checksum.
    pub fn decode(block: &[u8]) -> Result<Self, Corruption> {
        let needed = size_of::<RealtimeSuperblockDisk>();
        let (disk, _) = RealtimeSuperblockDisk::ref_from_prefix(block)
            .map_err(|_| corrupt(Check::Truncated { available: block.len(), needed }))?;
        envelope::verify_magic(disk.magic.get(), REALTIME_SUPERBLOCK_MAGIC).map_err(corrupt)?;
        envelope::verify_checksum(block, offset_of!(RealtimeSuperblockDisk, crc))
            .map_err(corrupt)?;
        Ok(Self {
            label: label_from_disk(disk.label),
            uuid: Uuid::from_bytes(disk.uuid),
            meta_uuid: Uuid::from_bytes(disk.meta_uuid),
        })
    }

    /// Returns the superblock of the realtime device of the volume of `superblock`.
    #[must_use]
    pub const fn of(superblock: &Superblock) -> Self {
        Self {
            label: superblock.label,
            uuid: superblock.uuid,
            meta_uuid: superblock.geometry.meta_uuid,
        }
    }

    /// Encodes the superblock at the start of `block`, a filesystem block of zeros, and seals the
    /// block.
    ///
    /// # Panics
    ///
    /// Panics if the block is shorter than the superblock.
    pub fn encode(&self, block: &mut [u8]) {
        let disk = RealtimeSuperblockDisk {
            magic: REALTIME_SUPERBLOCK_MAGIC.into(),
            crc: [0; 4],
            pad: 0.into(),
            label: self.label.padded(),
            uuid: self.uuid.into_bytes(),
            meta_uuid: self.meta_uuid.into_bytes(),
        };
        let start = block.get_mut(..size_of::<RealtimeSuperblockDisk>());
        start.expect("a block is longer than the superblock").copy_from_slice(disk.as_bytes());
        crc::seal(block, offset_of!(RealtimeSuperblockDisk, crc));
    }

    /// Checks that the realtime device belongs to the volume of `superblock`.
    ///
    /// # Errors
    ///
    /// Returns [`Check::ForeignUuid`] for the device of another volume.
    pub fn verify_against(&self, superblock: &Superblock) -> Result<(), Corruption> {
        for (found, expected) in
            [(self.uuid, superblock.uuid), (self.meta_uuid, superblock.geometry.meta_uuid)]
        {
            if found != expected {
                return Err(corrupt(Check::ForeignUuid { found }));
            }
        }
        Ok(())
    }
}

/// The smallest number of zones of a zoned section.
#[doc(alias = "XFS_MIN_ZONES")]
pub const MIN_ZONES: u32 = 5;

/// Number of realtime extents for which one word of a bitmap has bits.
pub const BITMAP_WORD_EXTENTS: u64 = 32;
/// Length in bytes of a word of the bitmap, and of a counter of the summary.
pub const SPACE_WORD_BYTES: usize = 4;

/// Decodes a word of the bitmap, or a counter of the summary, of a section without groups. Such a
/// section has the byte order of the machine that made it. ferroxfs reads and writes the order of
/// little-endian machines, whatever its own machine.
#[must_use]
pub const fn decode_space_word(bytes: [u8; SPACE_WORD_BYTES]) -> u32 {
    u32::from_be_bytes(bytes).swap_bytes()
}

/// Encodes a word of the bitmap, or a counter of the summary, of a section without groups.
#[must_use]
pub const fn encode_space_word(word: u32) -> [u8; SPACE_WORD_BYTES] {
    word.swap_bytes().to_be_bytes()
}

impl Superblock {
    /// Returns whether the volume has a realtime section without groups, on a device of its own,
    /// whose free space is in one bitmap and one summary.
    #[must_use]
    pub fn has_classic_realtime(&self) -> bool {
        self.has_realtime()
            && !self.geometry.realtime.is_internal()
            && !self.has_incompat(IncompatFeatures::METADIR)
            && !self.ro_compat.intersects(RoCompatFeatures::RMAPBT.union(RoCompatFeatures::REFLINK))
    }

    /// Returns whether the volume has a realtime section with groups that is not zoned.
    #[must_use]
    pub const fn has_realtime_groups(&self) -> bool {
        self.has_realtime_superblock() && !self.geometry.realtime.is_internal()
    }

    /// Returns whether the volume has a zoned section without gaps between the zones, as on a
    /// device without zone reports. The section may lie on the data device.
    #[must_use]
    pub fn has_zones(&self) -> bool {
        self.has_realtime()
            && self.has_incompat(IncompatFeatures::METADIR.union(IncompatFeatures::ZONED))
            && !self.has_incompat(IncompatFeatures::ZONE_GAPS)
            && self.ro_compat.contains(RoCompatFeatures::RMAPBT)
            && !self.ro_compat.intersects(RoCompatFeatures::REFLINK)
            && self.geometry.realtime.group_count >= MIN_ZONES
    }

    /// Returns whether the volume has a realtime section that can be written.
    #[must_use]
    pub fn has_writable_realtime(&self) -> bool {
        self.has_classic_realtime() || self.has_realtime_groups() || self.has_zones()
    }

    /// Returns whether the realtime device of the volume begins with a superblock of its own: its
    /// section has groups and is not zoned.
    #[doc(alias = "xfs_has_rtsb")]
    #[must_use]
    pub const fn has_realtime_superblock(&self) -> bool {
        self.has_realtime()
            && self.has_incompat(IncompatFeatures::METADIR)
            && !self.has_incompat(IncompatFeatures::ZONED)
    }
}

fn corrupt(check: Check) -> Corruption {
    Corruption::new(Structure::RealtimeSuperblock, StructureAddress::Disk(DiskAddr(0)), check)
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use zerocopy::IntoBytes;

    use super::{REALTIME_SUPERBLOCK_MAGIC, RealtimeSuperblock, RealtimeSuperblockDisk};
    use crate::corruption::Check;
    use crate::crc;

    fn block() -> Vec<u8> {
        let disk = RealtimeSuperblockDisk {
            magic: REALTIME_SUPERBLOCK_MAGIC.into(),
            crc: [0; 4],
            pad: 0.into(),
            label: *b"label\0\0\0\0\0\0\0",
            uuid: [1; 16],
            meta_uuid: [2; 16],
        };
        let mut block = vec![0; 4096];
        disk.write_to_prefix(&mut block).unwrap();
        crc::seal(&mut block, 4);
        block
    }

    #[test]
    fn superblock_is_decoded() {
        let found = RealtimeSuperblock::decode(&block()).unwrap();
        assert_eq!(found.label.as_bytes(), b"label");
        assert_eq!((found.uuid.into_bytes(), found.meta_uuid.into_bytes()), ([1; 16], [2; 16]));
    }

    #[test]
    fn damaged_superblock_is_refused() {
        let mut changed = block();
        changed[4095] ^= 1;
        let error = RealtimeSuperblock::decode(&changed).unwrap_err();
        assert!(matches!(error.check(), Check::Checksum { .. }));
        changed[0] ^= 1;
        let error = RealtimeSuperblock::decode(&changed).unwrap_err();
        assert!(matches!(error.check(), Check::Magic { .. }));
        assert!(RealtimeSuperblock::decode(&[]).is_err());
    }
}
