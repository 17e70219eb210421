//! The directories of the golden image, whole, damaged and made up.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use xfs_buffer::{BufferCache, Error, PosixError};
use xfs_format::dabtree::DaBtreeCheck;
use xfs_format::directory::{DirectoryCheck, FREE_OFFSET, INDEX_OFFSET};
use xfs_format::{BlockKind, Check};
use xfs_testkit::{Image, Prng, golden};

use super::Directory;
use crate::fixture::{ForkBlock, collide, lookup, put_u32, root, volume};
use crate::{Cookie, DirEntry, EntryType};

const DATA: BlockKind = BlockKind::DirectoryData;
const INDEX: BlockKind = BlockKind::DirectoryIndex;
/// The golden image has blocks of 1 KiB, and directory blocks of four of them.
const INDEX_BLOCK: u64 = INDEX_OFFSET >> 10;

/// The entries of a directory, and what could not be read.
fn list(image: &Image, path: &str) -> (Vec<DirEntry>, Vec<Error>) {
    let cache = volume(image);
    let inode = lookup(&cache, image, path).unwrap();
    let directory = Directory::new(&cache, &inode).unwrap();
    let (entries, errors): (Vec<_>, Vec<_>) =
        directory.entries_from(Cookie::START).partition(Result::is_ok);
    let errors = errors.into_iter().filter_map(Result::err).collect();
    (entries.into_iter().filter_map(Result::ok).collect(), errors)
}

fn find(image: &Image, path: &str, name: &[u8]) -> Result<EntryType, Error> {
    let cache = volume(image);
    let inode = lookup(&cache, image, path)?;
    Directory::new(&cache, &inode)?.lookup(name).map(|(_, entry_type)| entry_type)
}

fn check_corrupt(found: Result<EntryType, Error>, expected: impl Into<Check>) {
    match found {
        Err(Error::Corrupt(corruption)) => assert_eq!(*corruption.check(), expected.into()),
        other => panic!("{other:?} is not corrupt"),
    }
}

/// What is true of every directory: iteration and lookup agree, and an iteration goes on from
/// each cookie with what is behind it.
fn check_directory(path: &str, names: impl Iterator<Item = String>) {
    let image = golden();
    let (entries, errors) = list(&image, path);
    assert!(errors.is_empty(), "{path}: {errors:?}");
    let dots = [".", ".."].map(String::from);
    let expected: BTreeSet<String> = names.chain(dots).collect();
    let found = entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
    assert_eq!(found.collect::<BTreeSet<_>>(), expected, "{path}");
    assert_eq!(entries.len(), expected.len(), "{path}");
    assert!(entries.is_sorted_by(|left, right| left.cookie < right.cookie), "{path}");

    let cache = volume(&image);
    let inode = lookup(&cache, &image, path).unwrap();
    let directory = Directory::new(&cache, &inode).unwrap();
    for (index, entry) in entries.iter().enumerate() {
        let found = directory.lookup(&entry.name).unwrap();
        assert_eq!(found, (entry.inode, entry.entry_type), "{path}/{entry:?}");
        let rest = directory.entries_from(entry.cookie.after()).map(Result::unwrap);
        assert!(rest.eq(entries[index + 1..].iter().cloned()), "{path} after {entry:?}");
    }
    assert_eq!((&*entries[0].name, entries[0].inode), (&b"."[..], inode.number()));
    assert_eq!((&*entries[1].name, entries[1].inode), (&b".."[..], root(&image)));
    assert_eq!(directory.parent().unwrap(), root(&image));
    let absent = directory.lookup(b"absent");
    assert!(matches!(absent, Err(Error::Posix(PosixError::NotFound))));
    let too_long = directory.lookup(&[b'x'; 256]);
    assert!(matches!(too_long, Err(Error::Posix(PosixError::NameTooLong))));
}

#[test]
fn every_form() {
    let short = ["a", "bb", "ccc", "not-utf8-\u{fffd}\u{fffd}"].map(String::from);
    check_directory("short", short.into_iter());
    check_directory("block", (1..=60).map(|n| format!("block-{n}")));
    check_directory("leaf", (1..=200).map(|n| format!("leaf-entry-{n}")));
    let left = (1..=1200).filter(|n| n % 3 != 0);
    check_directory("node", left.map(|n| format!("a-longer-node-entry-{n}")));
}

#[test]
fn a_file_is_no_directory() {
    let found = find(&golden(), "short/a", b"x");
    assert!(matches!(found, Err(Error::Posix(PosixError::NotDirectory))));
}

#[test]
fn a_visitor_may_break_off() {
    let image = golden();
    let cache = volume(&image);
    for path in ["short", "block", "node"] {
        let inode = lookup(&cache, &image, path).unwrap();
        let mut seen = 0;
        let flow = Directory::new(&cache, &inode).unwrap().visit(Cookie::START, &mut |_| {
            seen += 1;
            if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((flow, seen), (ControlFlow::Break(()), 3), "{path}");
    }
}

#[test]
fn a_damaged_block_hides_only_itself() {
    let mut image = golden();
    let (all, _) = list(&image, "leaf");
    ForkBlock::find(&image, "leaf", DATA, 4).damage(&mut image);
    let (entries, errors) = list(&image, "leaf");
    assert!(matches!(errors.as_slice(), [Error::Corrupt(_)]), "{errors:?}");
    let block = |entry: &DirEntry| entry.cookie.offset() / 4096;
    let elsewhere: Vec<DirEntry> = all.iter().filter(|e| block(e) != 1).cloned().collect();
    assert!(elsewhere.len() < all.len());
    assert_eq!(entries, elsewhere);
    for entry in &all {
        let found = find(&image, "leaf", &entry.name);
        assert_eq!(found.is_ok(), block(entry) != 1, "{found:?}");
    }
}

#[test]
fn a_damaged_index_hides_nothing() {
    let mut image = golden();
    let (all, _) = list(&image, "node");
    ForkBlock::find(&image, "node", INDEX, INDEX_BLOCK).damage(&mut image);
    ForkBlock::find(&image, "node", BlockKind::DirectoryFree, FREE_OFFSET >> 10).damage(&mut image);
    let (entries, errors) = list(&image, "node");
    assert!(errors.is_empty());
    assert_eq!(entries, all);
    let found = find(&image, "node", b"a-longer-node-entry-1");
    assert!(matches!(found, Err(Error::Corrupt(_))));
}

#[test]
fn blocks_of_another_directory() {
    let mut image = golden();
    let block = ForkBlock::find(&image, "leaf", INDEX, INDEX_BLOCK);
    let own = u64::from_be_bytes(block.bytes(&image)[48..56].try_into().unwrap());
    block.edit(&mut image, |bytes| bytes[55] ^= 1);
    let owner = Check::ForeignOwner { found: own ^ 1, expected: own };
    check_corrupt(find(&image, "leaf", b"leaf-entry-1"), owner.clone());
    let mut image = golden();
    ForkBlock::find(&image, "leaf", DATA, 4).edit(&mut image, |bytes| bytes[47] ^= 1);
    let (_, errors) = list(&image, "leaf");
    assert!(matches!(errors.as_slice(), [Error::Corrupt(found)] if *found.check() == owner));
}

#[test]
fn blocks_of_another_form() {
    let mut image = golden();
    // The first block of a leaf form as that of a block form without an index.
    ForkBlock::find(&image, "leaf", DATA, 0).edit(&mut image, |bytes| {
        bytes[..4].copy_from_slice(b"XDB3");
    });
    assert_eq!(list(&image, "leaf").1.len(), 1);
}

#[test]
fn nodes_that_lead_back_or_astray() {
    let name = b"a-longer-node-entry-1";
    let root = INDEX_BLOCK as u32;
    let check_children = |child: u32, expected: Option<DaBtreeCheck>| {
        let mut image = golden();
        ForkBlock::find(&image, "node", INDEX, INDEX_BLOCK).edit(&mut image, |bytes| {
            let count = usize::from(u16::from_be_bytes([bytes[56], bytes[57]]));
            for entry in 0..count {
                put_u32(bytes, 68 + 8 * entry, &[child]);
            }
        });
        match expected {
            Some(expected) => check_corrupt(find(&image, "node", name), expected),
            None => assert!(find(&image, "node", name).is_err()),
        }
    };
    check_children(root, Some(DaBtreeCheck::LevelBelow { found: 1, expected: 0 }));
    check_children(1, None);
    check_children(u32::MAX, None);
}

#[test]
fn leaves_in_a_ring() {
    let mut image = golden();
    let name = b"a-longer-node-entry-1";
    let absent = collide(name);
    let hash = xfs_format::directory::name_hash(name);
    let node = ForkBlock::find(&image, "node", INDEX, INDEX_BLOCK);
    let children: Vec<u32> = node.bytes(&image)[64..]
        .chunks_exact(8)
        .map(|entry| u32::from_be_bytes(entry[4..].try_into().unwrap()))
        .take_while(|child| *child != 0)
        .collect();
    assert!(children.len() >= 3);
    // Every name has the hash that is looked for, and the last leaf leads to the second.
    for (index, child) in children.iter().enumerate() {
        let next = children.get(index + 1).unwrap_or(&children[1]);
        ForkBlock::find(&image, "node", INDEX, (*child).into()).edit(&mut image, |bytes| {
            put_u32(bytes, 0, &[*next]);
            let count = usize::from(u16::from_be_bytes([bytes[56], bytes[57]]));
            for entry in 0..count {
                put_u32(bytes, 64 + 8 * entry, &[hash]);
            }
        });
    }
    node.edit(&mut image, |bytes| {
        for index in 0..children.len() {
            put_u32(bytes, 64 + 8 * index, &[hash]);
        }
    });
    assert_eq!(find(&image, "node", name).unwrap(), EntryType::Regular);
    match find(&image, "node", &absent) {
        Err(Error::Corrupt(found)) => {
            assert!(matches!(found.check(), Check::DaBtree(DaBtreeCheck::Cycle { .. })), "{found}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn index_entries_that_lead_nowhere() {
    for cookie in [1, 9, 0x0fff_ffff, u32::MAX] {
        let mut image = golden();
        ForkBlock::find(&image, "leaf", INDEX, INDEX_BLOCK).edit(&mut image, |bytes| {
            let count = usize::from(u16::from_be_bytes([bytes[56], bytes[57]]));
            for entry in 0..count {
                put_u32(bytes, 68 + 8 * entry, &[cookie]);
            }
        });
        assert!(matches!(find(&image, "leaf", b"leaf-entry-1"), Err(Error::Corrupt(_))));
    }
}

#[test]
fn sizes_that_do_not_go_with_the_blocks() {
    for size in [4096_u64, 1 << 40, u64::MAX >> 1] {
        let mut image = golden();
        let cache = volume(&image);
        let number = lookup(&cache, &image, "leaf").unwrap().number();
        let place = cache.geometry().inode_place(number).unwrap();
        let length = place.cluster_bytes as usize;
        image.edit(place.cluster, length, BlockKind::InodeCluster, |bytes| {
            let offset = place.offset_bytes as usize + 56;
            bytes[offset..offset + 8].copy_from_slice(&size.to_be_bytes());
        });
        let Ok(inode) = lookup(&volume(&image), &image, "leaf") else { continue };
        assert_eq!(inode.core().size, size);
        let (entries, errors) = list(&image, "leaf");
        assert_eq!(entries.len(), 202);
        let [Error::Corrupt(found)] = errors.as_slice() else { panic!("{errors:?}") };
        assert!(matches!(found.check(), Check::Directory(DirectoryCheck::Size { .. })));
    }
}

/// Reads all there is to read of a directory, for the sake of not panicking.
fn exercise(cache: &BufferCache, image: &Image, path: &str) {
    let Ok(inode) = lookup(cache, image, path) else { return };
    let Ok(directory) = Directory::new(cache, &inode) else { return };
    let entries: Vec<_> = directory.entries_from(Cookie::START).flatten().take(5000).collect();
    assert!(entries.len() < 5000);
    let _ = directory.parent();
    for entry in entries.iter().step_by(37) {
        let _ = directory.lookup(&entry.name);
        let _ = directory.lookup(b"absent");
    }
}

#[test]
fn no_change_of_a_block_makes_it_panic() {
    let mut prng = Prng::new(0xd1ec_7042);
    let blocks = [
        ("block", DATA, 0),
        ("leaf", DATA, 4),
        ("leaf", INDEX, INDEX_BLOCK),
        ("node", INDEX, INDEX_BLOCK),
        ("node", INDEX, INDEX_BLOCK + 4),
    ];
    for (path, kind, block) in blocks {
        let block = ForkBlock::find(&golden(), path, kind, block);
        for _ in 0..60 {
            let mut image = golden();
            block.edit(&mut image, |bytes| prng.mutate(bytes));
            exercise(&volume(&image), &image, path);
        }
    }
}
