//! Forged headers and btrees of an allocation group.

use xfs_format::agf::Agf;
use xfs_format::agi::Agi;
use xfs_format::btree::{BtreeBlock, BtreeKind};
use xfs_format::{AgBlock, AgNumber, BlockKind, DiskAddr, Structure};

use xfs_testkit::golden;

use super::Attack;
use super::Outcome::{Corrupt, Harmless};
use crate::forge::{Forge, put};
use crate::seeds;

/// Returns the addresses of the blocks on one level of a btree in the first group, from left to
/// right.
fn blocks(kind: BtreeKind, level: u32) -> Vec<DiskAddr> {
    let image = golden();
    let geometry = seeds::geometry();
    let header = |index| {
        let at = geometry.header_disk_addr(AgNumber(0), index);
        (at, image.bytes(at, 512).expect("the header lies in the image"))
    };
    let ((agf_at, agf), (agi_at, agi)) = (header(1), header(2));
    let agf = Agf::decode(&agf, agf_at, geometry).expect("the golden AGF is valid");
    let agi = Agi::decode(&agi, agi_at, geometry).expect("the golden AGI is valid");
    let root = match kind {
        BtreeKind::FreeSpaceByBlock => Some(agf.free_space_by_block),
        BtreeKind::FreeSpaceBySize => Some(agf.free_space_by_size),
        BtreeKind::ReverseMap => agf.reverse_map,
        BtreeKind::Refcount => agf.refcount,
        BtreeKind::Inode => Some(agi.inode_btree),
        BtreeKind::FreeInode => agi.free_inode_btree,
        BtreeKind::Extent | BtreeKind::RealtimeReverseMap | BtreeKind::RealtimeRefcount => None,
    };
    let mut at = address(root.expect("the golden image has this btree").block);
    loop {
        let bytes = image.bytes(at, 1024).expect("the block lies in the image");
        let block = BtreeBlock::decode(&bytes, kind, at).expect("the golden block is valid");
        if block.level() == level {
            break;
        }
        at = address(AgBlock(block.pointer(0).unwrap_or_default() as u32));
    }
    let next = |at: &DiskAddr| {
        let bytes = image.bytes(*at, 1024)?;
        let block = BtreeBlock::decode(&bytes, kind, *at).ok()?;
        block.right_sibling().map(|block| address(AgBlock(block as u32)))
    };
    std::iter::successors(Some(at), next).collect()
}

fn address(block: AgBlock) -> DiskAddr {
    seeds::geometry().ag_block_disk_addr(AgNumber(0), block)
}

fn first(kind: BtreeKind, level: u32) -> DiskAddr {
    *blocks(kind, level).first().expect("a level has at least one block")
}

fn group_block(at: DiskAddr) -> [u8; 4] {
    let (_, block) = seeds::geometry().split_disk_addr(at).expect("the block lies in the volume");
    block.0.to_be_bytes()
}

/// Sets a field of the leftmost block on one level of a btree of the first group, and recomputes
/// the checksum.
fn set(forge: &mut Forge, kind: BtreeKind, level: u32, offset: usize, value: &[u8]) {
    forge.set(first(kind, level), BlockKind::Btree(kind), offset, value);
}

/// Returns the offset of the pointers in a node of the reverse map. Before them lie a header of 56
/// bytes and space for 21 pairs of keys of 20 bytes.
fn rmap_pointers() -> usize {
    let layout = BtreeKind::ReverseMap.layout();
    layout.header_bytes() + layout.max_pointers(1024) * layout.node_key_bytes()
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("free space in more levels than there can be", Corrupt(Structure::Agf), |forge| {
        forge.header(BlockKind::Agf, 28, &[0xff; 4]);
    }),
    Attack::new("free space in no level", Corrupt(Structure::Agf), |forge| {
        forge.header(BlockKind::Agf, 28, &[0; 4]);
    }),
    Attack::new("free space whose root is the header", Corrupt(Structure::Agf), |forge| {
        forge.header(BlockKind::Agf, 16, &[0; 4]);
    }),
    Attack::new("free space whose root is past the end", Corrupt(Structure::Agf), |forge| {
        forge.header(BlockKind::Agf, 16, &[0xff, 0xff, 0xff, 0xfe]);
    }),
    Attack::new(
        "free space by block whose root is that by size",
        Corrupt(Structure::Btree),
        |forge| {
            let other = group_block(first(BtreeKind::FreeSpaceBySize, 0));
            forge.header(BlockKind::Agf, 16, &other);
        },
    ),
    Attack::new("more free blocks than the group has", Corrupt(Structure::Agf), |forge| {
        forge.header(BlockKind::Agf, 52, &[0xff; 4]);
    }),
    Attack::new("a group longer than itself", Corrupt(Structure::Agf), |forge| {
        forge.header(BlockKind::Agf, 12, &[0xff; 4]);
    }),
    Attack::new("a header of another group", Corrupt(Structure::Agf), |forge| {
        forge.header(BlockKind::Agf, 8, &1_u32.to_be_bytes());
    }),
    Attack::new("a free list that starts past its end", Corrupt(Structure::Agf), |forge| {
        forge.header(BlockKind::Agf, 40, &200_u32.to_be_bytes());
    }),
    Attack::new("a free list that ends at 2^32 - 1", Corrupt(Structure::Agf), |forge| {
        forge.header(BlockKind::Agf, 44, &[0xff; 4]);
    }),
    Attack::new("a free list of 2^32 - 1 blocks", Corrupt(Structure::Agf), |forge| {
        forge.header(BlockKind::Agf, 48, &[0xff; 4]);
    }),
    Attack::new("a free list that holds the headers", Corrupt(Structure::Agfl), |forge| {
        forge.header(BlockKind::Agfl, 36, &[0; 4 * 8]);
    }),
    Attack::new("a free list that holds blocks past the end", Corrupt(Structure::Agfl), |forge| {
        forge.header(BlockKind::Agfl, 36, &[0x7f; 4 * 8]);
    }),
    Attack::new("a free space leaf that is its own sibling", Corrupt(Structure::Btree), |forge| {
        let own = group_block(first(BtreeKind::FreeSpaceByBlock, 0));
        set(forge, BtreeKind::FreeSpaceByBlock, 0, 12, &own);
    }),
    Attack::new("a reverse map whose root points to itself", Corrupt(Structure::Btree), |forge| {
        let own = group_block(first(BtreeKind::ReverseMap, 1));
        set(forge, BtreeKind::ReverseMap, 1, rmap_pointers(), &own);
    }),
    Attack::new(
        "a reverse map whose children are one and the same",
        Corrupt(Structure::Btree),
        |forge| {
            let one = group_block(first(BtreeKind::ReverseMap, 0));
            set(forge, BtreeKind::ReverseMap, 1, rmap_pointers(), &one.repeat(4));
        },
    ),
    Attack::new(
        "reverse map leaves whose siblings form a ring",
        Corrupt(Structure::Btree),
        |forge| {
            let leaves = blocks(BtreeKind::ReverseMap, 0);
            for (leaf, next) in leaves.iter().zip(leaves.iter().cycle().skip(1)) {
                let kind = BlockKind::Btree(BtreeKind::ReverseMap);
                forge.set(*leaf, kind, 12, &group_block(*next));
            }
        },
    ),
    Attack::new("a free space record of no blocks", Corrupt(Structure::Btree), |forge| {
        set(forge, BtreeKind::FreeSpaceByBlock, 0, 60, &[0; 4]);
    }),
    Attack::new("a free space record past the end", Corrupt(Structure::Btree), |forge| {
        set(forge, BtreeKind::FreeSpaceByBlock, 0, 60, &[0xff; 4]);
    }),
    Attack::new("a leaf with 2^16 - 1 records", Corrupt(Structure::Btree), |forge| {
        set(forge, BtreeKind::FreeSpaceByBlock, 0, 6, &[0xff; 2]);
    }),
    Attack::new("a leaf that says it is a node", Corrupt(Structure::Btree), |forge| {
        set(forge, BtreeKind::FreeSpaceByBlock, 0, 4, &1_u16.to_be_bytes());
    }),
    Attack::new("a reference count of nothing", Corrupt(Structure::Btree), |forge| {
        forge.edit(first(BtreeKind::Refcount, 0), BlockKind::Btree(BtreeKind::Refcount), |bytes| {
            put(bytes, 6, &1_u16.to_be_bytes());
            put(bytes, 56, &[[0, 0, 0, 200], [0, 0, 0, 1], [0; 4]].concat());
        });
    }),
    Attack::new("inodes in no level", Corrupt(Structure::Agi), |forge| {
        forge.header(BlockKind::Agi, 24, &[0; 4]);
    }),
    Attack::new("inodes in 2^32 - 1 levels", Corrupt(Structure::Agi), |forge| {
        forge.header(BlockKind::Agi, 24, &[0xff; 4]);
    }),
    Attack::new("inode chunks that do not advance", Corrupt(Structure::Btree), |forge| {
        forge.edit(first(BtreeKind::Inode, 0), BlockKind::Btree(BtreeKind::Inode), |bytes| {
            let record = bytes.get(56..72).unwrap_or_default().to_vec();
            put(bytes, 72, &record);
        });
    }),
    Attack::new("an inode chunk at 2^32 - 64", Corrupt(Structure::Btree), |forge| {
        set(forge, BtreeKind::Inode, 0, 56, &[0xff, 0xff, 0xff, 0xc0]);
    }),
    Attack::new("an inode chunk over the headers", Corrupt(Structure::Btree), |forge| {
        set(forge, BtreeKind::Inode, 0, 56, &[0; 4]);
    }),
    Attack::new("an inode chunk of holes only", Corrupt(Structure::Btree), |forge| {
        set(forge, BtreeKind::Inode, 0, 60, &[0xff; 2]);
    }),
    Attack::new("an inode chunk with 255 free inodes", Corrupt(Structure::Btree), |forge| {
        set(forge, BtreeKind::Inode, 0, 63, &[0xff]);
    }),
    Attack::new(
        "an inode chunk whose inodes are free and in use",
        Corrupt(Structure::Agi),
        |forge| {
            forge.edit(first(BtreeKind::Inode, 0), BlockKind::Btree(BtreeKind::Inode), |bytes| {
                put(bytes, 63, &[64]);
                put(bytes, 64, &[0xff; 8]);
            });
        },
    ),
    Attack::new(
        "an inode btree that is the free-inode btree",
        Corrupt(Structure::Btree),
        |forge| {
            let other = group_block(first(BtreeKind::FreeInode, 0));
            forge.header(BlockKind::Agi, 20, &other);
        },
    ),
    Attack::new("unlinked inodes that form a ring", Harmless, |forge| {
        let number = forge.number("/attr-short");
        let in_group = number.0 as u32;
        forge.inode_field("/attr-short", 96, &in_group.to_be_bytes());
        forge.header(BlockKind::Agi, 40, &in_group.to_be_bytes());
    }),
    Attack::new("a btree block of the other group", Corrupt(Structure::Btree), |forge| {
        let geometry = seeds::geometry();
        let theirs = seeds::of(BlockKind::Btree(BtreeKind::FreeSpaceByBlock));
        let theirs = theirs.map(|seed| seed.at).find(|at| at.0 >= 32768);
        let theirs = theirs.expect("the second group has free space");
        let bytes = forge.image().bytes(theirs, 1024).expect("the block lies in the image");
        let root = geometry.ag_block_disk_addr(AgNumber(0), AgBlock(100));
        forge.image().replace(root, &bytes);
        forge.set(root, BlockKind::Btree(BtreeKind::FreeSpaceByBlock), 16, &root.0.to_be_bytes());
        forge.header(BlockKind::Agf, 16, &100_u32.to_be_bytes());
    }),
];
