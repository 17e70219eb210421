//! Forged inodes, extents and symbolic links.

use xfs_format::btree::BtreeKind;
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, Structure};

use super::Attack;
use super::Outcome::{Corrupt, Failed, Harmless};
use crate::forge::{Block, FORKS, Forge, put};
use crate::seeds;

/// Encodes an extent record: `count` blocks from `start` on, mapped at `file_block`.
fn extent(file_block: u64, start: u64, count: u64) -> [u8; 16] {
    let high = u128::from(file_block) << 73;
    (high | (u128::from(start) << 21) | u128::from(count)).to_be_bytes()
}

const SIZE: usize = 56;
const EXTENTS: usize = 24;
const BLOCKS: usize = 64;

/// Sets a field of the first leaf of an extent btree in the golden image.
fn extent_leaf(forge: &mut Forge, offset: usize, value: &[u8]) {
    let kind = BlockKind::Btree(BtreeKind::Extent);
    let leaf = seeds::of(kind).find(|seed| seed.bytes.get(4..6) == Some(&[0, 0]));
    forge.set(leaf.expect("the golden image has an extent leaf").at, kind, offset, value);
}

/// Returns the block number, within the volume, of the leaf that [`extent_leaf`] changes, as 8
/// bytes big-endian.
fn leaf_number() -> [u8; 8] {
    let kind = BlockKind::Btree(BtreeKind::Extent);
    let leaf = seeds::of(kind).find(|seed| seed.bytes.get(4..6) == Some(&[0, 0]));
    let geometry = seeds::geometry();
    let (group, block) = leaf
        .and_then(|seed| geometry.split_disk_addr(seed.at))
        .expect("the golden image has a leaf");
    geometry.join_block(group, block).0.to_be_bytes()
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("a file of 2^63 - 1 bytes", Harmless, |forge| {
        forge.inode_field("/files/sparse", SIZE, &(i64::MAX).to_be_bytes());
    }),
    Attack::new("a file of 2^63 bytes", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/files/sparse", SIZE, &(1_u64 << 63).to_be_bytes());
    }),
    Attack::new("a file of 2^64 - 1 bytes", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/files/sparse", SIZE, &[0xff; 8]);
    }),
    Attack::new("a directory of 2^63 - 1 bytes", Harmless, |forge| {
        forge.inode_field("/leaf", SIZE, &(i64::MAX).to_be_bytes());
    }),
    Attack::new("a directory of no bytes", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/leaf", SIZE, &[0; 8]);
    }),
    Attack::new("a link of 2^63 - 1 bytes", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/links-remote", SIZE, &(i64::MAX).to_be_bytes());
    }),
    Attack::new("a link of no bytes", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/links-inline", SIZE, &[0; 8]);
    }),
    Attack::new("an inline link longer than the inode", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/links-inline", SIZE, &1000_u64.to_be_bytes());
    }),
    Attack::new("an inline link with a NUL", Corrupt(Structure::Symlink), |forge| {
        forge.data_fork("/links-inline", 2, &[0]);
    }),
    Attack::new("a link whose block belongs to another", Corrupt(Structure::Symlink), |forge| {
        let block = Block::index("/links-remote").of(BlockKind::Symlink).at(0);
        forge.block(block, 32, &77_u64.to_be_bytes());
    }),
    Attack::new("a link whose block says offset 2^32 - 1", Corrupt(Structure::Symlink), |forge| {
        let block = Block::index("/links-remote").of(BlockKind::Symlink).at(0);
        forge.block(block, 4, &[0xff; 4]);
    }),
    Attack::new("extents that overlap", Corrupt(Structure::Extent), |forge| {
        forge.inode("/leaf", |bytes| {
            let first = bytes.get(FORKS..FORKS + 16).unwrap_or_default().to_vec();
            put(bytes, FORKS + 16, &first);
        });
    }),
    Attack::new("extents that go backwards", Corrupt(Structure::Extent), |forge| {
        forge.inode("/leaf", |bytes| {
            let first = bytes.get(FORKS..FORKS + 16).unwrap_or_default().to_vec();
            let second = bytes.get(FORKS + 16..FORKS + 32).unwrap_or_default().to_vec();
            put(bytes, FORKS, &second);
            put(bytes, FORKS + 16, &first);
        });
    }),
    Attack::new("an extent of no blocks", Corrupt(Structure::Extent), |forge| {
        forge.data_fork("/files/original", 0, &extent(0, 1000, 0));
    }),
    Attack::new("a record of zeros", Corrupt(Structure::Extent), |forge| {
        forge.data_fork("/files/original", 0, &[0; 16]);
    }),
    Attack::new("an extent past the end of the volume", Corrupt(Structure::Extent), |forge| {
        forge.data_fork("/files/original", 0, &extent(0, (1 << 52) - 1, 40));
    }),
    Attack::new("an extent over the end of a group", Corrupt(Structure::Extent), |forge| {
        forge.data_fork("/files/original", 0, &extent(0, 16380, 40));
    }),
    Attack::new("an extent at the end of the file space", Corrupt(Structure::Extent), |forge| {
        forge.data_fork("/files/original", 0, &extent((1 << 54) - 1, 1000, 40));
    }),
    Attack::new("an extent over the headers", Harmless, |forge| {
        forge.data_fork("/files/original", 0, &extent(0, 0, 40));
    }),
    Attack::new("2^48 extents", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/files/original", EXTENTS, &(1_u64 << 47).to_be_bytes());
    }),
    Attack::new("2^64 - 1 extents", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/files/original", EXTENTS, &[0xff; 8]);
    }),
    Attack::new("more extents than blocks", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/files/original", BLOCKS, &[0; 8]);
    }),
    Attack::new("2^64 - 1 blocks", Harmless, |forge| {
        forge.inode_field("/files/original", BLOCKS, &[0xff; 8]);
    }),
    Attack::new(
        "an attribute fork past the end of the inode",
        Corrupt(Structure::Inode),
        |forge| {
            forge.inode_field("/attr-short", 82, &[0xff]);
        },
    ),
    Attack::new("an unknown fork format", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/attr-short", 5, &[99]);
    }),
    Attack::new("a regular file in line", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/attr-short", 5, &[1]);
    }),
    Attack::new("a directory that is a device", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/leaf", 5, &[0]);
    }),
    Attack::new("a file of no type", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/attr-short", 2, &[0xf1, 0xff]);
    }),
    Attack::new("a free inode with a name", Failed, |forge| {
        forge.inode_field("/attr-short", 2, &[0; 2]);
    }),
    Attack::new("an inode that is another one", Corrupt(Structure::Inode), |forge| {
        forge.inode_field("/attr-short", 152, &1_u64.to_be_bytes());
    }),
    Attack::new("an extent btree of no level", Corrupt(Structure::Extent), |forge| {
        forge.data_fork("/files/tree", 0, &[0; 2]);
    }),
    Attack::new("an extent btree of 2^16 - 1 levels", Corrupt(Structure::Extent), |forge| {
        forge.data_fork("/files/tree", 0, &[0xff; 2]);
    }),
    Attack::new("an extent btree with 2^16 - 1 children", Corrupt(Structure::Extent), |forge| {
        forge.data_fork("/files/tree", 2, &[0xff; 2]);
    }),
    Attack::new("an extent btree with no child", Corrupt(Structure::Extent), |forge| {
        forge.data_fork("/files/tree", 2, &[0; 2]);
    }),
    Attack::new("an extent leaf that is its own sibling", Corrupt(Structure::Btree), |forge| {
        extent_leaf(forge, 16, &leaf_number());
    }),
    Attack::new("an extent leaf of another file", Corrupt(Structure::Btree), |forge| {
        extent_leaf(forge, 56, &64_u64.to_be_bytes());
    }),
    Attack::new("an extent leaf whose records overlap", Corrupt(Structure::Btree), |forge| {
        extent_leaf(forge, 72 + 16, &extent(0, 1000, 5));
    }),
    Attack::new("an extent leaf that is a node", Corrupt(Structure::Btree), |forge| {
        extent_leaf(forge, 4, &7_u16.to_be_bytes());
    }),
    Attack::new("a file over the blocks of a directory", Harmless, |forge| {
        let at = forge.fork_block("/leaf", ForkKind::Data, 0);
        let (group, block) = seeds::geometry().split_disk_addr(at).unwrap_or_default();
        let start = seeds::geometry().join_block(group, block);
        forge.data_fork("/files/original", 0, &extent(0, start.0, 40));
    }),
    Attack::new("a directory over the blocks of another", Corrupt(Structure::Directory), |forge| {
        let at = forge.fork_block("/leaf", ForkKind::Data, 0);
        let (group, block) = seeds::geometry().split_disk_addr(at).unwrap_or_default();
        let start = seeds::geometry().join_block(group, block);
        forge.data_fork("/block", 0, &extent(0, start.0, 4));
    }),
];
