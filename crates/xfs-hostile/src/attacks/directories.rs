//! Forged directories of every form.

use xfs_format::directory::name_hash;
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, Structure};

use super::Attack;
use super::Outcome::{Corrupt, Failed, Harmless};
use crate::forge::{Block, Forge, put};

/// Offset of the parent in a directory that is stored inside its inode. The next constants are the
/// offsets of the fields of the first entry. Inode numbers have four bytes.
const PARENT: usize = 2;
const ENTRY_LENGTH: usize = 6;
const ENTRY_NAME: usize = 9;
const ENTRY_INODE: usize = 11;

/// Offset, in a directory data block, of the first entry after "." and "..". The next constant is
/// the offset of the entry's name.
const THIRD: usize = 64 + 2 * 16;
const THIRD_NAME: usize = THIRD + 9;

/// Returns the inode number of `path` as four bytes.
fn short(forge: &Forge, path: &str) -> [u8; 4] {
    (forge.number(path).0 as u32).to_be_bytes()
}

/// Encodes the number of an index block, a file block, in four bytes: the form of child and sibling
/// pointers.
fn index(block: u32) -> [u8; 4] {
    block.to_be_bytes()
}

/// Returns the number of entries of an index block.
fn count(bytes: &[u8]) -> usize {
    let field = bytes.get(56..58).and_then(|field| field.try_into().ok());
    u16::from_be_bytes(field.unwrap_or_default()).into()
}

const INDEX: u32 = 32 << 20;

/// Changes the first name in a directory inside an inode to a name of the single byte `name`.
fn rename_short(forge: &mut Forge, name: u8) {
    forge.data_fork("/short", ENTRY_NAME, &[name]);
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("a name with a slash in a short form", Corrupt(Structure::Directory), |forge| {
        rename_short(forge, b'/');
    }),
    Attack::new("a name with a NUL in a short form", Corrupt(Structure::Directory), |forge| {
        rename_short(forge, 0)
    }),
    Attack::new("an entry called . in a short form", Corrupt(Structure::Directory), |forge| {
        rename_short(forge, b'.')
    }),
    Attack::new("an empty name in a short form", Corrupt(Structure::Directory), |forge| {
        forge.data_fork("/short", ENTRY_LENGTH, &[0]);
    }),
    Attack::new("a name past the end of a short form", Corrupt(Structure::Directory), |forge| {
        forge.data_fork("/short", ENTRY_LENGTH, &[0xff]);
    }),
    Attack::new("255 entries in a short form", Corrupt(Structure::Directory), |forge| {
        forge.data_fork("/short", 0, &[0xff]);
    }),
    Attack::new("a short form with long inode numbers", Corrupt(Structure::Directory), |forge| {
        forge.data_fork("/short", 1, &[0xff]);
    }),
    Attack::new("an entry without an inode", Corrupt(Structure::Directory), |forge| {
        forge.data_fork("/short", ENTRY_INODE, &[0; 4]);
    }),
    Attack::new("an entry for an inode past the end", Corrupt(Structure::Directory), |forge| {
        forge.data_fork("/short", ENTRY_INODE, &[0xff; 4]);
    }),
    Attack::new("a directory that holds itself", Harmless, |forge| {
        let own = short(forge, "/deep");
        forge.data_fork("/deep", ENTRY_INODE, &own);
    }),
    Attack::new("a directory that holds its grandparent", Harmless, |forge| {
        let above = short(forge, "/deep");
        forge.data_fork("/deep/1/2", ENTRY_INODE, &above);
    }),
    Attack::new("a directory in two places", Harmless, |forge| {
        let other = short(forge, "/leaf");
        forge.data_fork("/deep/1/2", ENTRY_INODE, &other);
    }),
    Attack::new("a directory that is its own parent", Harmless, |forge| {
        let own = short(forge, "/deep/1");
        forge.data_fork("/deep/1", PARENT, &own);
    }),
    Attack::new("parents that form a ring", Harmless, |forge| {
        let below = short(forge, "/deep/1/2");
        forge.data_fork("/deep", PARENT, &below);
    }),
    Attack::new("a parent that is a file", Harmless, |forge| {
        let file = short(forge, "/short/a");
        forge.data_fork("/deep/1", PARENT, &file);
    }),
    Attack::new("a name with a slash in a block", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/block"), THIRD_NAME, b"../../etc");
    }),
    Attack::new("a name with a NUL in a block", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/block"), THIRD_NAME + 2, &[0]);
    }),
    Attack::new("an empty name in a block", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/block"), THIRD + 8, &[0]);
    }),
    Attack::new("a name past the end of its entry", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/block"), THIRD + 8, &[0xff]);
    }),
    Attack::new("free room of no bytes", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/block"), THIRD, &[0xff, 0xff, 0, 0]);
    }),
    Attack::new("free room past the end of the block", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/block"), THIRD, &[0xff, 0xff, 0xff, 0xf8]);
    }),
    Attack::new("best free room that is none", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/block"), 48, &[0xff; 12]);
    }),
    Attack::new("2^32 - 1 index entries in a block", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/block"), 4096 - 8, &[0xff; 4]);
    }),
    Attack::new("more stale index entries than entries", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/block"), 4096 - 4, &[0xff; 4]);
    }),
    Attack::new("a block whose names all have one hash", Corrupt(Structure::Directory), |forge| {
        let at = forge.fork_block("/block", ForkKind::Data, 0);
        forge.edit(at, BlockKind::DirectoryData, |bytes| {
            let end = bytes.len() - 8;
            let count = bytes.get(end..end + 4).and_then(|field| field.try_into().ok());
            let count = u32::from_be_bytes(count.unwrap_or_default()) as usize;
            for entry in 0..count {
                put(bytes, end - 8 * (entry + 1), &[0x11; 4]);
            }
        });
    }),
    Attack::new("a leaf whose entries all lead to one name", Failed, |forge| {
        let at = forge.fork_block("/leaf", ForkKind::Data, u64::from(INDEX));
        forge.edit(at, BlockKind::DirectoryIndex, |bytes| {
            for entry in 0..200 {
                put(bytes, 64 + 8 * entry, &[0x11; 4]);
                put(bytes, 64 + 8 * entry + 4, &12_u32.to_be_bytes());
            }
        });
    }),
    Attack::new("a leaf whose entries lead past the end", Corrupt(Structure::Extent), |forge| {
        let at = forge.fork_block("/leaf", ForkKind::Data, u64::from(INDEX));
        forge.edit(at, BlockKind::DirectoryIndex, |bytes| {
            for entry in 0..200 {
                put(bytes, 64 + 8 * entry + 4, &[0x7f; 4]);
            }
        });
    }),
    Attack::new("a leaf with 2^16 - 1 entries", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::index("/leaf"), 56, &[0xff; 2]);
    }),
    Attack::new("a leaf out of order", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::index("/leaf"), 64, &[0xff; 4]);
    }),
    Attack::new("a leaf that is its own successor", Harmless, |forge| {
        forge.block(Block::index("/leaf"), 0, &index(INDEX));
    }),
    Attack::new("an index node that points to itself", Corrupt(Structure::DaBtree), |forge| {
        let at = forge.fork_block("/node", ForkKind::Data, u64::from(INDEX));
        forge.edit(at, BlockKind::DirectoryIndex, |bytes| {
            for entry in 0..3 {
                put(bytes, 64 + 8 * entry + 4, &index(INDEX));
            }
        });
    }),
    Attack::new("an index node of level 2^16 - 1", Corrupt(Structure::DaBtree), |forge| {
        forge.block(Block::index("/node"), 58, &[0xff; 2]);
    }),
    Attack::new(
        "an index node of level 5 that points to itself",
        Corrupt(Structure::DaBtree),
        |forge| {
            let at = forge.fork_block("/node", ForkKind::Data, u64::from(INDEX));
            forge.edit(at, BlockKind::DirectoryIndex, |bytes| {
                put(bytes, 58, &5_u16.to_be_bytes());
                for entry in 0..3 {
                    put(bytes, 64 + 8 * entry + 4, &index(INDEX));
                }
            });
        },
    ),
    Attack::new("an index node that points to names", Corrupt(Structure::DaBtree), |forge| {
        forge.block(Block::index("/node"), 68, &index(0));
    }),
    Attack::new("an index node that points nowhere", Corrupt(Structure::Extent), |forge| {
        forge.block(Block::index("/node"), 68, &[0xff; 4]);
    }),
    Attack::new("an index node with 2^16 - 1 children", Corrupt(Structure::DaBtree), |forge| {
        forge.block(Block::index("/node"), 56, &[0xff; 2]);
    }),
    Attack::new("a leaf below a node that is its own successor", Harmless, |forge| {
        forge.block(Block::index("/node").at(u64::from(INDEX) + 4), 0, &index(INDEX + 4));
    }),
    Attack::new(
        "a leaf of one hash that is its own successor",
        Corrupt(Structure::DaBtree),
        |forge| {
            // A lookup of this name must follow the leaves as long as the hash stays the same.
            let hash = name_hash(b"a-longer-node-entry-77").to_be_bytes();
            let leaf = INDEX + 4;
            let node = forge.fork_block("/node", ForkKind::Data, u64::from(INDEX));
            forge.edit(node, BlockKind::DirectoryIndex, |bytes| {
                for entry in 0..count(bytes) {
                    put(bytes, 64 + 8 * entry + 4, &index(leaf));
                }
            });
            let at = forge.fork_block("/node", ForkKind::Data, u64::from(leaf));
            forge.edit(at, BlockKind::DirectoryIndex, |bytes| {
                put(bytes, 0, &index(leaf));
                // No entry is stale.
                put(bytes, 58, &[0; 2]);
                for entry in 0..count(bytes) {
                    put(bytes, 64 + 8 * entry, &hash);
                    put(bytes, 64 + 8 * entry + 4, &10_u32.to_be_bytes());
                }
            });
        },
    ),
    Attack::new("a data block of another directory", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/leaf"), 40, &64_u64.to_be_bytes());
    }),
    Attack::new("a data block that lies elsewhere", Corrupt(Structure::Directory), |forge| {
        forge.block(Block::directory("/leaf"), 8, &64_u64.to_be_bytes());
    }),
    Attack::new("free space for 2^32 - 1 blocks", Harmless, |forge| {
        let block = Block::directory("/node").of(BlockKind::DirectoryFree).at(64 << 20);
        forge.block(block, 52, &[0xff; 8]);
    }),
];
