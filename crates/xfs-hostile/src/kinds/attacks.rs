//! Attacks on realtime sections, metadata directories, zones and version 4.

use xfs_format::{DiskAddr, InodeNumber, Structure};
use xfs_testkit::RealtimeSection;

use super::{HostileKind, KindAttack, KindVolume, SECTOR};
use crate::attacks::Outcome::{self, Corrupt, Failed, Harmless, Refused};
use crate::forge::{FORKS, put};

const CLASSIC: HostileKind = HostileKind::Realtime(RealtimeSection::Classic);
const GROUPS: HostileKind = HostileKind::Realtime(RealtimeSection::Groups);
const ZONED: HostileKind = HostileKind::Realtime(RealtimeSection::Zoned);
const METADIR: HostileKind = HostileKind::MetadataDirectory;
const VERSION_4: HostileKind = HostileKind::Version4;

/// The greatest value of a field of eight bytes.
const MAX: [u8; 8] = [0xff; 8];
/// Offset in a superblock of the root directory's inode number, in bytes.
const ROOT_NUMBER: usize = 56;
/// Offset in a superblock of the metadata directory's inode number, in bytes.
const METADATA_NUMBER: usize = 264;

const fn attack(
    name: &'static str,
    kind: HostileKind,
    outcome: Outcome,
    forge: fn(&mut KindVolume),
) -> KindAttack {
    KindAttack { name, kind, outcome, forge }
}

impl KindVolume {
    fn superblock(&mut self, offset: usize, value: &[u8]) {
        self.edit(DiskAddr(0), |bytes| put(bytes, offset, value));
    }

    /// Returns the inode number at `offset` of the superblock.
    fn number_at(&self, offset: usize) -> InodeNumber {
        let sector = self.data.bytes(DiskAddr(0), SECTOR).expect("a volume has a superblock");
        let bytes = sector.get(offset..).and_then(<[u8]>::first_chunk);
        InodeNumber(u64::from_be_bytes(*bytes.expect("the offset lies in the superblock")))
    }

    fn inode_field(&mut self, number: InodeNumber, offset: usize, value: &[u8]) {
        let geometry = self.data.geometry();
        let place = geometry.inode_location(number).expect("the inode lies in the volume");
        let bytes = place.cluster.0 * SECTOR as u64 + u64::from(place.offset_bytes);
        // An inode of version 4 may be shorter than a sector.
        let (sector, rest) = (bytes / SECTOR as u64, bytes as usize % SECTOR);
        self.edit(DiskAddr(sector), |bytes| put(bytes, rest + offset, value));
    }

    /// Changes every realtime file whose data fork has extents in the inode: the first eight bytes
    /// of the fork become `high`, the next ones `low`.
    fn first_extents(&mut self, high: u64, low: u64) {
        for at in HostileKind::ALL.map(HostileKind::used).concat() {
            let Some(bytes) = self.data.bytes(at, SECTOR) else { continue };
            let is_file = bytes.starts_with(b"IN\x81") && bytes.get(5) == Some(&2);
            let is_realtime = bytes.get(91).is_some_and(|flags| flags & 1 == 1);
            // The count of extents lies at one of two places, which depends on a feature.
            let has = |offset: usize| bytes.get(offset).is_some_and(|extents| *extents > 0);
            if is_file && is_realtime && (has(31) || has(79)) {
                self.edit(at, |bytes| {
                    put(bytes, FORKS, &high.to_be_bytes());
                    put(bytes, FORKS + 8, &low.to_be_bytes());
                });
            }
        }
    }
}

/// All attacks.
pub const ATTACKS: &[KindAttack] = &[
    attack("realtime extents of 2^32 - 1 blocks", CLASSIC, Refused, |volume| {
        volume.superblock(80, &[0xff; 4]);
    }),
    attack("a bitmap of no blocks", CLASSIC, Refused, |volume| volume.superblock(92, &[0; 4])),
    attack("a bitmap of 2^32 - 1 blocks", CLASSIC, Refused, |volume| {
        volume.superblock(92, &[0xff; 4]);
    }),
    attack("2^64 - 1 realtime extents", CLASSIC, Refused, |volume| volume.superblock(24, &MAX)),
    attack("a bitmap inode past the end", CLASSIC, Harmless, |volume| {
        volume.superblock(64, &(1_u64 << 50).to_be_bytes());
    }),
    attack("a bitmap inode that is the root", CLASSIC, Harmless, |volume| {
        let root = volume.number_at(ROOT_NUMBER);
        volume.superblock(64, &root.0.to_be_bytes());
    }),
    attack("an extent past the realtime section", CLASSIC, Corrupt(Structure::Extent), |volume| {
        volume.first_extents(0, 1 << 60 | 1);
    }),
    attack(
        "an extent of 2^21 - 1 realtime blocks",
        CLASSIC,
        Corrupt(Structure::Extent),
        |volume| {
            volume.first_extents(0, (1 << 21) - 1);
        },
    ),
    attack("an empty realtime device", CLASSIC, Failed, |volume| {
        volume.device.as_mut().expect("the section has a device").truncate(0);
    }),
    attack("no realtime groups", GROUPS, Refused, |volume| volume.superblock(272, &[0; 4])),
    attack("2^32 - 1 realtime groups", GROUPS, Refused, |volume| {
        volume.superblock(272, &[0xff; 4]);
    }),
    attack("realtime groups of no extents", GROUPS, Refused, |volume| {
        volume.superblock(276, &[0; 4]);
    }),
    attack("realtime groups of 2^32 - 1 extents", GROUPS, Refused, |volume| {
        volume.superblock(276, &[0xff; 4]);
    }),
    attack("a realtime group of 2^255 blocks", GROUPS, Refused, |volume| {
        volume.superblock(280, &[0xff]);
    }),
    attack(
        "an extent in a realtime group that does not exist",
        GROUPS,
        Corrupt(Structure::Extent),
        |volume| {
            volume.first_extents(0, 1 << 50 | 1);
        },
    ),
    attack(
        "an extent over the end of a realtime group",
        GROUPS,
        Corrupt(Structure::Extent),
        |volume| {
            volume.first_extents(0, 1020 << 21 | 10);
        },
    ),
    attack(
        "a metadata directory that is the root directory",
        GROUPS,
        Corrupt(Structure::Inode),
        |volume| {
            let root = volume.number_at(ROOT_NUMBER);
            volume.superblock(METADATA_NUMBER, &root.0.to_be_bytes());
        },
    ),
    attack("a root directory that is the metadata directory", GROUPS, Harmless, |volume| {
        let metadata = volume.number_at(METADATA_NUMBER);
        volume.superblock(ROOT_NUMBER, &metadata.0.to_be_bytes());
    }),
    attack("a metadata directory that is not set", GROUPS, Harmless, |volume| {
        volume.superblock(METADATA_NUMBER, &MAX);
    }),
    attack("a metadata directory with 2^63 bytes", GROUPS, Corrupt(Structure::Inode), |volume| {
        let metadata = volume.number_at(METADATA_NUMBER);
        volume.inode_field(metadata, 56, &(1_u64 << 63).to_be_bytes());
    }),
    attack("a metadata directory of another kind of metadata", GROUPS, Harmless, |volume| {
        let metadata = volume.number_at(METADATA_NUMBER);
        volume.inode_field(metadata, 6, &[0xff; 2]);
    }),
    attack("a realtime superblock of zeros", GROUPS, Refused, |volume| {
        let device = volume.device.as_mut().expect("the section has a device");
        device.replace(DiskAddr(0), &[0; 4096]);
    }),
    attack("a realtime superblock of ones", GROUPS, Refused, |volume| {
        let device = volume.device.as_mut().expect("the section has a device");
        device.replace(DiskAddr(0), &[0xff; 4096]);
    }),
    attack("zones inside of the data section", ZONED, Refused, |volume| {
        volume.superblock(288, &1_u64.to_be_bytes());
    }),
    attack("zones that start at 2^64 - 1", ZONED, Refused, |volume| volume.superblock(288, &MAX)),
    attack("zones past the end of the device", ZONED, Failed, |volume| {
        volume.superblock(288, &(1_u64 << 40).to_be_bytes());
    }),
    attack("zones with extents of two blocks", ZONED, Refused, |volume| {
        volume.superblock(80, &2_u32.to_be_bytes());
    }),
    attack("2^64 - 1 reserved blocks of zones", ZONED, Refused, |volume| {
        volume.superblock(296, &MAX);
    }),
    attack(
        "an extent in a zone that does not exist",
        ZONED,
        Corrupt(Structure::Extent),
        |volume| {
            volume.first_extents(0, 1 << 50 | 1);
        },
    ),
    attack("realtime groups on a volume without a realtime section", METADIR, Refused, |volume| {
        volume.superblock(272, &4_u32.to_be_bytes());
    }),
    attack("a realtime section of one block", METADIR, Refused, |volume| {
        volume.superblock(16, &1_u64.to_be_bytes());
        volume.superblock(24, &1_u64.to_be_bytes());
    }),
    attack("a metadata directory that is a quota file", METADIR, Harmless, |volume| {
        let metadata = volume.number_at(METADATA_NUMBER);
        volume.inode_field(metadata, 6, &2_u16.to_be_bytes());
    }),
    attack("a metadata directory past the end", METADIR, Refused, |volume| {
        volume.superblock(METADATA_NUMBER, &(1_u64 << 40).to_be_bytes());
    }),
    attack("directory blocks of 2^255 bytes", VERSION_4, Refused, |volume| {
        volume.superblock(192, &[0xff]);
    }),
    attack("inodes of 16 bytes", VERSION_4, Refused, |volume| {
        volume.superblock(104, &16_u16.to_be_bytes());
    }),
    attack("a version between 4 and 5", VERSION_4, Refused, |volume| {
        volume.superblock(100, &0xb4b6_u16.to_be_bytes());
    }),
    attack("a root inode of version 3", VERSION_4, Corrupt(Structure::Inode), |volume| {
        let root = volume.number_at(ROOT_NUMBER);
        volume.inode_field(root, 4, &[3]);
    }),
    attack(
        "an attribute fork past the end of the inode",
        VERSION_4,
        Corrupt(Structure::Inode),
        |volume| {
            let root = volume.number_at(ROOT_NUMBER);
            volume.inode_field(root, 82, &[0xff]);
        },
    ),
];
