//! Forged extended attributes, access control lists and parent pointers.

use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, DiskAddr, Structure};

use super::Attack;
use super::Outcome::{Corrupt, Harmless};
use crate::forge::{Block, Forge, put};
use crate::seeds;

/// Offset of the count of entries in an attribute leaf. The next constants are the offsets of the
/// lowest used byte, of the map of free ranges, and of the entries.
const COUNT: usize = 56;
const FIRST_USED: usize = 60;
const FREE_MAP: usize = 64;
const ENTRIES: usize = 80;

/// Returns the address of an attribute leaf of the file `/attr-node`, whose attributes form a tree.
fn leaf(forge: &Forge) -> DiskAddr {
    let owner = forge.number("/attr-node").0.to_be_bytes();
    let leaves = seeds::of(BlockKind::Attr);
    let leaf = leaves.filter(|seed| seed.bytes.get(8..10) == Some(&[0x3b, 0xee]));
    let mut leaf = leaf.filter(|seed| seed.bytes.get(48..56) == Some(&owner[..]));
    leaf.next().expect("the golden image has an attribute leaf").at
}

fn set_leaf(forge: &mut Forge, offset: usize, value: &[u8]) {
    let at = leaf(forge);
    forge.set(at, BlockKind::Attr, offset, value);
}

/// Changes the first name in a leaf of attributes. `change` gets the bytes from the name to the end
/// of the leaf.
fn first_name(forge: &mut Forge, change: impl FnOnce(&mut [u8])) {
    let at = leaf(forge);
    forge.edit(at, BlockKind::Attr, |bytes| {
        let offset = bytes.get(ENTRIES + 4..ENTRIES + 6).and_then(|field| field.try_into().ok());
        let offset = u16::from_be_bytes(offset.unwrap_or_default()) as usize;
        change(bytes.get_mut(offset..).unwrap_or_default());
    });
}

/// Sets a field of the first block of an attribute value that lies outside its leaf.
fn remote(forge: &mut Forge, offset: usize, value: &[u8]) {
    let block = seeds::of(BlockKind::AttrRemote).find(|seed| seed.bytes.get(4..8) == Some(&[0; 4]));
    let at = block.expect("the golden image has a remote value").at;
    forge.set(at, BlockKind::AttrRemote, offset, value);
}

/// Sets a field of the first entry whose value lies outside the leaf. Such an entry starts with the
/// block of its value (4 bytes) and the length of the value (4 bytes).
fn remote_entry(forge: &mut Forge, offset: usize, value: &[u8]) {
    let at = forge.fork_block("/attr-remote", ForkKind::Attr, 0);
    forge.edit(at, BlockKind::Attr, |bytes| {
        let entries = bytes.get(ENTRIES..).unwrap_or_default().as_chunks::<8>().0;
        let entry = entries.iter().find(|entry| entry[6] & 1 == 0);
        let start = entry.map_or(0, |entry| u16::from_be_bytes([entry[4], entry[5]]) as usize);
        put(bytes, start + offset, value);
    });
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("a short form of 2^16 - 1 bytes", Corrupt(Structure::Attr), |forge| {
        forge.attr_fork("/attr-short", 0, &[0xff; 2]);
    }),
    Attack::new("a short form of no bytes", Corrupt(Structure::Attr), |forge| {
        forge.attr_fork("/attr-short", 0, &[0; 2]);
    }),
    Attack::new("a short form with 255 entries", Corrupt(Structure::Attr), |forge| {
        forge.attr_fork("/attr-short", 2, &[0xff]);
    }),
    Attack::new("a name past the end of a short form", Corrupt(Structure::Attr), |forge| {
        forge.attr_fork("/attr-short", 4, &[0xff]);
    }),
    Attack::new("a value past the end of a short form", Corrupt(Structure::Attr), |forge| {
        forge.attr_fork("/attr-short", 5, &[0xff]);
    }),
    Attack::new("an empty name in a short form", Corrupt(Structure::Attr), |forge| {
        forge.attr_fork("/attr-short", 4, &[0]);
    }),
    Attack::new("a namespace that does not exist", Corrupt(Structure::Attr), |forge| {
        forge.attr_fork("/attr-short", 6, &[0x46]);
    }),
    Attack::new("a parent pointer to itself", Harmless, |forge| {
        parent_pointer(forge, "/deep/1", "/deep/1");
    }),
    Attack::new("parent pointers that form a ring", Harmless, |forge| {
        parent_pointer(forge, "/deep", "/deep/1/2/3");
    }),
    Attack::new("a parent pointer to a file", Harmless, |forge| {
        parent_pointer(forge, "/deep/1", "/short/a");
    }),
    Attack::new("a parent pointer with a slash in its name", Corrupt(Structure::Parent), |forge| {
        forge.attr_fork("/deep/1", 7, b"/");
    }),
    Attack::new("a parent pointer of one byte", Corrupt(Structure::Attr), |forge| {
        forge.attr_fork("/deep/1", 5, &[1]);
    }),
    Attack::new("a leaf with 2^16 - 1 entries", Corrupt(Structure::Attr), |forge| {
        set_leaf(forge, COUNT, &[0xff; 2]);
    }),
    Attack::new("a leaf without entries", Corrupt(Structure::Attr), |forge| {
        set_leaf(forge, COUNT, &[0; 2])
    }),
    Attack::new("a leaf whose names start in its header", Corrupt(Structure::Attr), |forge| {
        set_leaf(forge, FIRST_USED, &[0, 1]);
    }),
    Attack::new("a leaf whose free room overlaps its entries", Harmless, |forge| {
        set_leaf(forge, FREE_MAP, &[0, 80, 0, 200]);
    }),
    Attack::new("a leaf whose free room lies past its end", Corrupt(Structure::Attr), |forge| {
        set_leaf(forge, FREE_MAP, &[0xff; 4]);
    }),
    Attack::new("a leaf out of order", Corrupt(Structure::Attr), |forge| {
        set_leaf(forge, ENTRIES, &[0xff; 4])
    }),
    Attack::new("a name outside its leaf", Corrupt(Structure::Attr), |forge| {
        set_leaf(forge, ENTRIES + 4, &[0xff; 2]);
    }),
    Attack::new("a name in the header of its leaf", Corrupt(Structure::Attr), |forge| {
        set_leaf(forge, ENTRIES + 4, &[0, 8]);
    }),
    Attack::new("a value of 2^16 - 1 bytes in a leaf", Corrupt(Structure::Attr), |forge| {
        first_name(forge, |bytes| put(bytes, 0, &[0xff; 2]));
    }),
    Attack::new("a name with a NUL in a leaf", Corrupt(Structure::Attr), |forge| {
        first_name(forge, |bytes| put(bytes, 4, &[0]));
    }),
    Attack::new("an empty name in a leaf", Corrupt(Structure::Attr), |forge| {
        first_name(forge, |bytes| put(bytes, 2, &[0]));
    }),
    Attack::new("a node that points to itself", Corrupt(Structure::DaBtree), |forge| {
        let node = Block::attr("/attr-node");
        forge.block(node, 68, &[0; 4]);
        forge.block(node, 76, &[0; 4]);
    }),
    Attack::new("a node of level 2^16 - 1", Corrupt(Structure::DaBtree), |forge| {
        forge.block(Block::attr("/attr-node"), 58, &[0xff; 2]);
    }),
    Attack::new("a leaf that is its own successor", Harmless, |forge| {
        let at = leaf(forge);
        let first =
            (1..64).find(|block| forge.fork_block("/attr-node", ForkKind::Attr, *block) == at);
        let own = first.unwrap_or_default() as u32;
        forge.set(at, BlockKind::Attr, 0, &own.to_be_bytes());
    }),
    Attack::new("a remote value of 2^32 - 1 bytes", Corrupt(Structure::Attr), |forge| {
        remote_entry(forge, 4, &[0xff; 4]);
    }),
    Attack::new("a remote value of 64 KiB that is not there", Corrupt(Structure::Attr), |forge| {
        remote_entry(forge, 4, &65536_u32.to_be_bytes());
    }),
    Attack::new("a remote value in a hole", Corrupt(Structure::Extent), |forge| {
        remote_entry(forge, 0, &[0x7f; 4]);
    }),
    Attack::new("a remote value in its own leaf", Corrupt(Structure::Attr), |forge| {
        remote_entry(forge, 0, &[0; 4]);
    }),
    Attack::new("a remote block of another file", Corrupt(Structure::Attr), |forge| {
        remote(forge, 32, &64_u64.to_be_bytes());
    }),
    Attack::new("a remote block of another piece", Corrupt(Structure::Attr), |forge| {
        remote(forge, 4, &512_u32.to_be_bytes());
    }),
    Attack::new("a remote block of 2^32 - 1 bytes", Corrupt(Structure::Attr), |forge| {
        remote(forge, 8, &[0xff; 4]);
    }),
    Attack::new("a remote block of no bytes", Corrupt(Structure::Attr), |forge| {
        remote(forge, 8, &[0; 4])
    }),
    Attack::new("an access list of 2^32 - 1 entries", Corrupt(Structure::Acl), |forge| {
        access_list(forge, 0, &[0xff; 4]);
    }),
    Attack::new(
        "an access list of one entry more than there are",
        Corrupt(Structure::Acl),
        |forge| {
            access_list(forge, 3, &[7]);
        },
    ),
    Attack::new("an access list with an unknown tag", Corrupt(Structure::Acl), |forge| {
        access_list(forge, 4, &[0x77; 4]);
    }),
];

/// Changes the parent pointer of `path` so that it names the directory `parent`. The pointer is in
/// the inode.
fn parent_pointer(forge: &mut Forge, path: &str, parent: &str) {
    let number = forge.number(parent).0.to_be_bytes();
    // After the header come the entry's head of 3 bytes and a name of one or four bytes.
    let name = path.rsplit('/').next().map_or(0, str::len);
    forge.attr_fork(path, 7 + name, &number);
}

/// Sets a field of an access control list, at `offset` in its value. The value follows its name in
/// the inode.
fn access_list(forge: &mut Forge, offset: usize, value: &[u8]) {
    const NAME: &[u8] = b"SGI_ACL_FILE";
    forge.inode("/acl", |bytes| {
        let name = bytes.windows(NAME.len()).position(|window| window == NAME);
        let start = name.expect("the access control list is in the inode") + NAME.len();
        put(bytes, start + offset, value);
    });
}
