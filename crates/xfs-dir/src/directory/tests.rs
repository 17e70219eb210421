//! Tests of reading directories of the golden image, which the kernel wrote. The tests read the
//! directories as they are, with damaged blocks, and with made-up contents.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use xfs_buffer::{BufferCache, Error, PosixError};
use xfs_format::dabtree::DaBtreeCheck;
use xfs_format::directory::{DirectoryCheck, FREE_OFFSET, INDEX_OFFSET};
use xfs_format::{BlockKind, Check};
use xfs_testkit::{Image, Prng, golden};

use super::Directory;
use crate::fixture::{ForkBlock, collide, lookup, put_u32, root, volume};
use crate::{Cookie, EntryType, OwnedEntry};

const DATA: BlockKind = BlockKind::DirectoryData;
const INDEX: BlockKind = BlockKind::DirectoryIndex;
/// The first file block of the hash index. The golden image has blocks of 1 KiB, and directory
/// blocks of four blocks.
const INDEX_BLOCK: u64 = INDEX_OFFSET >> 10;

/// Returns the entries of a directory, and the errors of reading them.
fn list(image: &Image, path: &str) -> (Vec<OwnedEntry>, Vec<Error>) {
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

/// Checks one directory of the golden image: it must have exactly these names, iteration and lookup
/// must agree, and an iteration from each cookie must continue with the entries after it.
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
fn directories_of_every_form_are_listed_and_looked_up() {
    let short = ["a", "bb", "ccc", "not-utf8-\u{fffd}\u{fffd}"].map(String::from);
    check_directory("short", short.into_iter());
    check_directory("block", (1..=60).map(|n| format!("block-{n}")));
    check_directory("leaf", (1..=200).map(|n| format!("leaf-entry-{n}")));
    let left = (1..=1200).filter(|n| n % 3 != 0);
    check_directory("node", left.map(|n| format!("a-longer-node-entry-{n}")));
}

#[test]
fn directory_view_of_a_file_is_refused() {
    let found = find(&golden(), "short/a", b"x");
    assert!(matches!(found, Err(Error::Posix(PosixError::NotDirectory))));
}

#[test]
fn visit_ends_when_the_visitor_breaks() {
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

/// Checks I3 of `xfs_dir`: an iteration does not end at damage.
#[test]
fn damaged_block_hides_only_its_own_entries() {
    let mut image = golden();
    let (all, _) = list(&image, "leaf");
    ForkBlock::find(&image, "leaf", DATA, 4).damage(&mut image);
    let (entries, errors) = list(&image, "leaf");
    assert!(matches!(errors.as_slice(), [Error::Corrupt(_)]), "{errors:?}");
    let block = |entry: &OwnedEntry| entry.cookie.offset() / 4096;
    let elsewhere: Vec<OwnedEntry> = all.iter().filter(|e| block(e) != 1).cloned().collect();
    assert!(elsewhere.len() < all.len());
    assert_eq!(entries, elsewhere);
    for entry in &all {
        let found = find(&image, "leaf", &entry.name);
        assert_eq!(found.is_ok(), block(entry) != 1, "{found:?}");
    }
}

#[test]
fn damaged_index_hides_no_entry_from_a_listing() {
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

/// Checks I1 of `xfs_dir`: a block of another inode is an error.
#[test]
fn blocks_of_another_directory_are_refused() {
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
fn blocks_of_another_form_are_refused() {
    let mut image = golden();
    // Marks the first block of a leaf form as a block form without an index.
    ForkBlock::find(&image, "leaf", DATA, 0).edit(&mut image, |bytes| {
        bytes[..4].copy_from_slice(b"XDB3");
    });
    assert_eq!(list(&image, "leaf").1.len(), 1);
}

/// Checks I2 of `xfs_dir`: a search ends, because the level falls by one from a node to its child.
#[test]
fn nodes_with_wrong_pointers_are_refused() {
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

/// Checks I2 of `xfs_dir`: an iteration ends, because no leaf is walked twice.
#[test]
fn leaves_in_a_cycle_are_refused() {
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
    // Every name has the hash that is looked up, and the last leaf links to the second.
    for (index, child) in children.iter().enumerate() {
        let next = children.get(index + 1).unwrap_or(&children[1]);
        ForkBlock::find(&image, "node", INDEX, (*child).into()).edit(&mut image, |bytes| {
            put_u32(bytes, 0, &[*next]);
            let count = usize::from(u16::from_be_bytes([bytes[56], bytes[57]]));
            // All entries are stale: none leads to an entry with another hash.
            bytes[58..60].copy_from_slice(&(count as u16).to_be_bytes());
            for entry in 0..count {
                put_u32(bytes, 64 + 8 * entry, &[hash, 0]);
            }
        });
    }
    node.edit(&mut image, |bytes| {
        for index in 0..children.len() {
            put_u32(bytes, 64 + 8 * index, &[hash]);
        }
    });
    match find(&image, "node", &absent) {
        Err(Error::Corrupt(found)) => {
            assert!(matches!(found.check(), Check::DaBtree(DaBtreeCheck::Cycle { .. })), "{found}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn index_entries_with_wrong_cookies_are_refused() {
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
fn sizes_that_differ_from_the_blocks_are_reported() {
    for size in [4096_u64, 1 << 40, u64::MAX >> 1] {
        let mut image = golden();
        let cache = volume(&image);
        let number = lookup(&cache, &image, "leaf").unwrap().number();
        let place = cache.geometry().inode_location(number).unwrap();
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

/// Performs every read operation on a directory. The operations may return errors, but must not
/// panic.
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
fn read_of_a_mutated_block_does_not_panic() {
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

/// Exchanges the contents of two index blocks, except their first `header` bytes, and computes the
/// checksums of both blocks again.
fn exchange(image: &mut Image, path: &str, (one, other): (u64, u64), header: usize) {
    let blocks = [one, other].map(|block| ForkBlock::find(image, path, INDEX, block));
    let contents = [0, 1].map(|index| blocks[index].bytes(image)[header..].to_vec());
    blocks[0].edit(image, |bytes| bytes[header..].copy_from_slice(&contents[1]));
    blocks[1].edit(image, |bytes| bytes[header..].copy_from_slice(&contents[0]));
}

/// Audits a directory with a complete listing. Returns the errors of reading the index, and the
/// differences that the audit found.
fn audit(image: &Image, path: &str) -> (Vec<Error>, Vec<DirectoryCheck>) {
    let cache = volume(image);
    let inode = lookup(&cache, image, path).unwrap();
    let directory = Directory::new(&cache, &inode).unwrap();
    let mut errors = Vec::new();
    let mut audit = directory.audit(&mut errors);
    let mut findings = Vec::new();
    for entry in directory.entries_from(Cookie::START).map(Result::unwrap) {
        findings.extend(audit.see(&entry.name, entry.cookie));
    }
    findings.extend(audit.finish());
    (errors, findings)
}

#[test]
fn audit_of_a_sound_directory_finds_nothing() {
    for path in ["short", "block", "leaf", "node"] {
        let (errors, findings) = audit(&golden(), path);
        assert!(errors.is_empty() && findings.is_empty(), "{path}: {errors:?} {findings:?}");
    }
}

/// Checks I4 of `xfs_dir`: a leaf is accepted only with the hashes that its parent names.
#[test]
fn exchanged_index_leaves_are_corruption_and_not_a_missing_name() {
    let mut image = golden();
    let node = ForkBlock::find(&image, "node", INDEX, INDEX_BLOCK).bytes(&image);
    let child = |index: usize| {
        u64::from(u32::from_be_bytes(node[68 + 8 * index..72 + 8 * index].try_into().unwrap()))
    };
    let (all, _) = list(&image, "node");
    exchange(&mut image, "node", (child(0), child(2)), 56);
    let mut damaged = 0;
    for entry in &all {
        match find(&image, "node", &entry.name) {
            Ok(_) => {}
            Err(Error::Corrupt(found)) => {
                assert!(matches!(found.check(), Check::DaBtree(_)), "{found}");
                damaged += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(damaged > 0 && damaged < all.len());
    let (errors, _) = audit(&image, "node");
    assert!(errors.len() >= 2, "{errors:?}");
    assert_eq!(list(&image, "node").0, all);
}

/// Checks I4 of `xfs_dir`: a leaf is accepted only if it names the next leaf that the parents name.
#[test]
fn leaves_that_name_a_wrong_next_leaf_are_refused() {
    for (next, is_last) in [(0, false), (1, false), (7, true)] {
        let mut image = golden();
        let node = ForkBlock::find(&image, "node", INDEX, INDEX_BLOCK).bytes(&image);
        let count = usize::from(u16::from_be_bytes([node[56], node[57]]));
        let index = if is_last { count - 1 } else { 0 };
        let word = |at: usize| u32::from_be_bytes(node[at..at + 4].try_into().unwrap());
        let at = 64 + 8 * index;
        let (hash, block) = (word(at), word(at + 4));
        let before = if is_last { word(at - 8) } else { 0 };
        ForkBlock::find(&image, "node", INDEX, block.into())
            .edit(&mut image, |bytes| put_u32(bytes, 0, &[next]));
        let all = list(&image, "node").0;
        let is_in_leaf = |e: &&OwnedEntry| {
            let found = xfs_format::directory::name_hash(&e.name);
            found > before && found <= hash
        };
        let name = &all.iter().find(is_in_leaf).expect("the leaf has a live entry").name;
        let Err(Error::Corrupt(found)) = find(&image, "node", name) else { panic!("{next}") };
        let check = found.check();
        assert!(
            matches!(
                check,
                Check::DaBtree(DaBtreeCheck::NextLeaf { .. } | DaBtreeCheck::NoNextLeaf)
            ),
            "{found}"
        );
    }
}

#[test]
fn duplicate_name_is_found_in_every_form() {
    // All names of a directory have one length, so that one can be written over another.
    for (path, one, other) in [
        ("block", "block-21", "block-42"),
        ("leaf", "leaf-entry-121", "leaf-entry-142"),
        ("node", "a-longer-node-entry-1001", "a-longer-node-entry-1100"),
    ] {
        let mut image = golden();
        let (all, _) = list(&image, path);
        let place = |name: &str| all.iter().find(|e| &*e.name == name.as_bytes()).unwrap().cookie;
        let (first, second) = (place(one).min(place(other)), place(one).max(place(other)));
        let (kept, lost) = if first == place(one) { (one, other) } else { (other, one) };
        let hashes = [kept, lost].map(|name| xfs_format::directory::name_hash(name.as_bytes()));
        let block = second.offset() / 4096;
        ForkBlock::find(&image, path, DATA, block * 4).edit(&mut image, |bytes| {
            let at = (second.offset() % 4096) as usize + 9;
            assert_eq!(&bytes[at..at + lost.len()], lost.as_bytes());
            bytes[at..at + kept.len()].copy_from_slice(kept.as_bytes());
            if path == "block" {
                move_hash(bytes, 4096 - 8, hashes, second);
            }
        });
        let expected = DirectoryCheck::NameTwice { offset: second.offset(), first: first.offset() };
        let (errors, findings) = audit(&image, path);
        assert!(errors.is_empty(), "{errors:?}");
        if path == "block" {
            assert_eq!(findings, [expected]);
            continue;
        }
        // The index has the hash of the old name, so it differs from the entries.
        assert!(
            matches!(findings.as_slice(), [DirectoryCheck::IndexDiffers { .. }]),
            "{findings:?}"
        );
        check_corrupt(
            find(&image, path, lost.as_bytes()),
            DirectoryCheck::IndexTarget { hash: hashes[1], offset: second.offset() },
        );
        // With a matching index the name is a duplicate.
        if path == "leaf" {
            ForkBlock::find(&image, path, INDEX, INDEX_BLOCK).edit(&mut image, |bytes| {
                let count = usize::from(u16::from_be_bytes([bytes[56], bytes[57]]));
                move_hash_in(&mut bytes[64..64 + 8 * count], hashes, second);
            });
            let (errors, findings) = audit(&image, path);
            assert!(errors.is_empty(), "{errors:?}");
            assert_eq!(findings, [expected]);
        }
    }
}

/// Changes the hash of the entry at `cookie` from `hashes[1]` to `hashes[0]`, in the index that
/// ends at byte `tail`, and sorts the index again.
fn move_hash(bytes: &mut [u8], tail: usize, hashes: [u32; 2], cookie: Cookie) {
    let count = u32::from_be_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize;
    move_hash_in(&mut bytes[tail - 8 * count..tail], hashes, cookie);
}

fn move_hash_in(index: &mut [u8], [new, old]: [u32; 2], cookie: Cookie) {
    let read = |entry: &[u8]| -> (u32, u32) {
        let word = |at: usize| u32::from_be_bytes(entry[at..at + 4].try_into().unwrap());
        (word(0), word(4))
    };
    let mut entries: Vec<_> = index.chunks_exact(8).map(read).collect();
    let found = entries.iter_mut().find(|entry| **entry == (old, cookie.0)).unwrap();
    found.0 = new;
    entries.sort_unstable();
    for (entry, place) in entries.into_iter().zip(index.chunks_exact_mut(8)) {
        put_u32(place, 0, &[entry.0, entry.1]);
    }
}

#[test]
fn name_missing_from_the_index_is_corruption_when_it_is_verified() {
    let mut image = golden();
    let name = b"leaf-entry-77";
    let hash = xfs_format::directory::name_hash(name);
    ForkBlock::find(&image, "leaf", INDEX, INDEX_BLOCK).edit(&mut image, |bytes| {
        let count = usize::from(u16::from_be_bytes([bytes[56], bytes[57]]));
        let stale = u16::from_be_bytes([bytes[58], bytes[59]]) + 1;
        bytes[58..60].copy_from_slice(&stale.to_be_bytes());
        let mut entries = (0..count).map(|index| 64 + 8 * index);
        let at = entries.find(|at| bytes[*at..*at + 4] == hash.to_be_bytes()).unwrap();
        put_u32(bytes, at + 4, &[0]);
    });
    let missing = find(&image, "leaf", name);
    assert!(matches!(missing, Err(Error::Posix(PosixError::NotFound))));
    let cache = volume(&image);
    let inode = lookup(&cache, &image, "leaf").unwrap();
    let directory = Directory::new(&cache, &inode).unwrap();
    let Err(Error::Corrupt(found)) = directory.verify_missing(name) else { panic!("it is there") };
    assert!(matches!(found.check(), Check::Directory(DirectoryCheck::NotIndexed { .. })));
    directory.verify_missing(b"absent").unwrap();
    let (errors, findings) = audit(&image, "leaf");
    assert!(errors.is_empty());
    assert_eq!(findings, [DirectoryCheck::IndexDiffers { indexed: 201, listed: 202 }]);
}
