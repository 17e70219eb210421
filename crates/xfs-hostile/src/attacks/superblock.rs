//! Forged superblocks: sizes of the volume, and the location and state of the log.

use xfs_format::{BlockKind, DiskAddr};

use super::Attack;
use super::Outcome::{Failed, Harmless, Refused};
use crate::forge::{Forge, put};

const MAX: [u8; 8] = [0xff; 8];
/// The bit of the feature METADIR, in the third byte of the superblock's incompatible features. The
/// next constant is the bit of the feature ZONED in the same byte.
const METADIR: u8 = 1;
const ZONED: u8 = 2;

/// Sets `bits` in the third byte of the superblock's incompatible features.
fn add_features(forge: &mut Forge, bits: u8) {
    forge.edit(DiskAddr(0), BlockKind::Superblock, |bytes| {
        let features = bytes.get(218).copied().unwrap_or_default();
        put(bytes, 218, &[features | bits]);
    });
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("2^32 - 1 groups", Refused, |forge| forge.superblock(88, &[0xff; 4])),
    Attack::new("no group", Refused, |forge| forge.superblock(88, &[0; 4])),
    Attack::new("2^32 - 1 groups of a volume that long", Failed, |forge| {
        forge.superblock(8, &((u64::from(u32::MAX) * 16384).to_be_bytes()));
        forge.superblock(88, &[0xff; 4]);
    }),
    Attack::new("groups of one block", Refused, |forge| {
        forge.superblock(84, &1_u32.to_be_bytes());
        forge.superblock(124, &[0]);
    }),
    Attack::new("2^64 - 1 blocks", Refused, |forge| forge.superblock(8, &MAX)),
    Attack::new("2^53 blocks", Refused, |forge| {
        forge.superblock(8, &(1_u64 << 53).to_be_bytes());
    }),
    Attack::new("a shift of 63 for blocks", Refused, |forge| forge.superblock(120, &[63])),
    Attack::new("a shift of 255 for group blocks", Refused, |forge| {
        forge.superblock(124, &[255]);
    }),
    Attack::new("a shift of 31 for group blocks", Refused, |forge| {
        forge.superblock(124, &[31]);
    }),
    Attack::new("a shift of 255 for directory blocks", Refused, |forge| {
        forge.superblock(192, &[255]);
    }),
    Attack::new("2^16 - 1 inodes in a block", Refused, |forge| {
        forge.superblock(106, &[0xff; 2]);
    }),
    Attack::new("inodes of no bytes", Refused, |forge| forge.superblock(104, &[0; 2])),
    Attack::new("inodes larger than a block", Refused, |forge| {
        forge.superblock(104, &4096_u16.to_be_bytes());
    }),
    Attack::new("sectors larger than a block", Refused, |forge| {
        forge.superblock(102, &32768_u16.to_be_bytes());
    }),
    Attack::new("a root inode of 2^64 - 2", Refused, |forge| {
        forge.superblock(56, &(u64::MAX - 1).to_be_bytes());
    }),
    Attack::new("a root inode in the headers", Failed, |forge| {
        forge.superblock(56, &1_u64.to_be_bytes());
    }),
    Attack::new("a root inode that is a link", Failed, |forge| {
        let link = forge.number("/links-inline");
        forge.superblock(56, &link.0.to_be_bytes());
    }),
    Attack::new("realtime extents of no blocks", Refused, |forge| {
        forge.superblock(16, &1000_u64.to_be_bytes());
        forge.superblock(24, &1000_u64.to_be_bytes());
        forge.superblock(80, &[0; 4]);
    }),
    Attack::new("2^63 realtime blocks", Refused, |forge| {
        forge.superblock(16, &(1_u64 << 63).to_be_bytes());
        forge.superblock(24, &(1_u64 << 63).to_be_bytes());
        forge.superblock(80, &1_u32.to_be_bytes());
    }),
    Attack::new("a metadata directory past the end", Refused, |forge| {
        add_features(forge, METADIR);
        forge.superblock(264, &(1_u64 << 63).to_be_bytes());
    }),
    Attack::new("realtime groups of no extents", Refused, |forge| {
        add_features(forge, METADIR);
        forge.superblock(264, &129_u64.to_be_bytes());
        forge.superblock(16, &1000_u64.to_be_bytes());
        forge.superblock(24, &1000_u64.to_be_bytes());
        forge.superblock(80, &1_u32.to_be_bytes());
        forge.superblock(272, &1_u32.to_be_bytes());
    }),
    Attack::new("zones without realtime groups", Refused, |forge| add_features(forge, ZONED)),
    Attack::new("a quota inode that is a directory", Harmless, |forge| {
        let directory = forge.number("/short");
        forge.superblock(160, &directory.0.to_be_bytes());
        forge.superblock(176, &5_u16.to_be_bytes());
    }),
    Attack::new("three quota inodes that are one long file", Harmless, |forge| {
        let file = forge.number("/files/tree");
        for offset in [160, 168, 232] {
            forge.superblock(offset, &file.0.to_be_bytes());
        }
        forge.superblock(176, &0x7cf_u16.to_be_bytes());
    }),
    Attack::new("parent pointers on a volume that has none", Failed, |forge| {
        forge.edit(DiskAddr(0), BlockKind::Superblock, |bytes| {
            let features = bytes.get(219).copied().unwrap_or_default();
            put(bytes, 219, &[features & !0x80]);
        });
    }),
    Attack::new("a log past the end", Refused, |forge| {
        forge.superblock(96, &[0xff; 4]);
    }),
    Attack::new("a log that starts at 2^64 - 1", Refused, |forge| forge.superblock(48, &MAX)),
    Attack::new("a log over the headers", Harmless, |forge| {
        forge.superblock(48, &1_u64.to_be_bytes());
    }),
    Attack::new("a log stripe of 2^32 - 1", Refused, |forge| {
        forge.superblock(196, &[0xff; 4]);
    }),
    Attack::new("an image cut after the superblock", Failed, |forge| {
        forge.image().truncate(4096);
    }),
    Attack::new("an image cut in the middle", Failed, |forge| {
        forge.image().truncate(16 << 20);
    }),
    Attack::new("a log of noise", Harmless, |forge| {
        let mut prng = xfs_testkit::Prng::new(1);
        for sector in 0..2000 {
            let noise: Vec<u8> = (0..512).map(|_| prng.number() as u8).collect();
            forge.image().replace(DiskAddr(32784 + sector), &noise);
        }
    }),
    Attack::new("a log whose cycles go up and down", Harmless, |forge| {
        for sector in 0..10240 {
            let mut bytes = [0; 512];
            bytes[..4].copy_from_slice(&(sector as u32 % 7).to_be_bytes());
            forge.image().replace(DiskAddr(32784 + sector), &bytes);
        }
    }),
];
