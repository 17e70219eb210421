//! Tests of reading attributes of the golden image, which the kernel wrote. The tests read the
//! attributes as they are, with damaged blocks, and with made-up contents.

use std::ops::ControlFlow;

use xfs_buffer::{Error, PosixError};
use xfs_format::attr::{AttrCheck, Namespace};
use xfs_format::dabtree::DaBtreeCheck;
use xfs_format::{BlockKind, Check};
use xfs_testkit::{Image, Prng, golden};

use super::{AttributeName, Attributes};
use crate::fixture::{ForkBlock, collide, lookup, put_u32, volume};

const ATTR: BlockKind = BlockKind::Attr;
const REMOTE: BlockKind = BlockKind::AttrRemote;

/// Returns the names of a file's attributes, and the errors of reading them.
fn list(image: &Image, path: &str) -> (Vec<AttributeName>, Vec<Error>) {
    let cache = volume(image);
    let inode = lookup(&cache, image, path).unwrap();
    let (names, errors): (Vec<_>, Vec<_>) =
        Attributes::new(&cache, &inode).names().partition(Result::is_ok);
    let errors = errors.into_iter().filter_map(Result::err).collect();
    (names.into_iter().filter_map(Result::ok).collect(), errors)
}

fn find(image: &Image, path: &str, name: &[u8]) -> Result<Vec<u8>, Error> {
    let cache = volume(image);
    let inode = lookup(&cache, image, path)?;
    Attributes::new(&cache, &inode).lookup(Namespace::User, name)
}

fn check_corrupt(found: Result<Vec<u8>, Error>, expected: impl Into<Check>) {
    match found {
        Err(Error::Corrupt(corruption)) => assert_eq!(*corruption.check(), expected.into()),
        other => panic!("{other:?} is not corrupt"),
    }
}

fn check_file(path: &str, attributes: &[(String, String)]) {
    let image = golden();
    let (mut names, errors) = list(&image, path);
    assert!(errors.is_empty(), "{path}: {errors:?}");
    names.sort_by(|left, right| left.name.cmp(&right.name));
    let mut expected = attributes.to_vec();
    expected.sort();
    let expected = expected.iter().map(|(name, value)| AttributeName {
        namespace: Namespace::User,
        name: name.as_bytes().into(),
        length_bytes: value.len() as u32,
    });
    assert!(names.iter().cloned().eq(expected), "{path}: {names:?}");
    for (name, value) in attributes {
        assert_eq!(find(&image, path, name.as_bytes()).unwrap(), value.as_bytes(), "{path}");
    }
    let absent = find(&image, path, b"absent");
    assert!(matches!(absent, Err(Error::Posix(PosixError::NoAttribute))), "{path}");
}

#[test]
fn attributes_of_every_form_are_found() {
    let numbered = |name: &str, count: u32| -> Vec<_> {
        (1..=count).map(|n| (format!("{name}-{n}"), format!("value-{n}"))).collect()
    };
    check_file("attr-short", &[("one".into(), "1".into())]);
    check_file("attr-leaf", &numbered("leaf", 12));
    check_file("attr-node", &numbered("node-attribute", 120));
    check_file("attr-remote", &[("remote".into(), "v".repeat(3000))]);
    // Only parent pointers, which are not listed as attributes, in a tree of their own.
    check_file("short/a", &[]);
    check_file("short", &[]);
}

#[test]
fn lookup_in_another_namespace_finds_nothing() {
    let image = golden();
    let cache = volume(&image);
    let inode = lookup(&cache, &image, "attr-short").unwrap();
    let attributes = Attributes::new(&cache, &inode);
    let found = attributes.lookup(Namespace::Trusted, b"one");
    assert!(matches!(found, Err(Error::Posix(PosixError::NoAttribute))));
    let found = attributes.lookup(Namespace::Parent, b"attr-short");
    assert!(matches!(found, Err(Error::Posix(PosixError::InvalidArgument))));
}

#[test]
fn visit_ends_when_the_visitor_breaks() {
    let image = golden();
    let cache = volume(&image);
    for path in ["attr-short", "attr-node"] {
        let inode = lookup(&cache, &image, path).unwrap();
        let mut seen = 0;
        let flow = Attributes::new(&cache, &inode).visit(&mut |_| {
            seen += 1;
            ControlFlow::Break(())
        });
        assert_eq!((flow, seen), (ControlFlow::Break(()), 1), "{path}");
    }
}

/// Checks I3 of `xfs_dir`: an iteration does not end at damage.
#[test]
fn damaged_leaf_hides_only_its_own_attributes() {
    let mut image = golden();
    let (all, _) = list(&image, "attr-node");
    ForkBlock::find(&image, "attr-node", ATTR, 2).damage(&mut image);
    let (names, errors) = list(&image, "attr-node");
    assert!(matches!(errors.as_slice(), [Error::Corrupt(_)]), "{errors:?}");
    assert!(names.len() > all.len() / 2 && names.len() < all.len());
    assert!(names.iter().all(|name| all.contains(name)));
    for name in &all {
        let found = find(&image, "attr-node", &name.name);
        assert_eq!(found.is_ok(), names.contains(name), "{found:?}");
    }
}

/// Checks I2 of `xfs_dir`: a search ends, because the level falls by one from a node to its child.
#[test]
fn nodes_with_wrong_pointers_are_refused() {
    let check_children = |child: u32| {
        let mut image = golden();
        ForkBlock::find(&image, "attr-node", ATTR, 0).edit(&mut image, |bytes| {
            let count = usize::from(u16::from_be_bytes([bytes[56], bytes[57]]));
            for entry in 0..count {
                put_u32(bytes, 68 + 8 * entry, &[child]);
            }
        });
        list(&image, "attr-node")
    };
    // Each child is the first leaf, which is read once.
    let (names, errors) = check_children(1);
    assert!(!names.is_empty() && !errors.is_empty());
    for error in &errors {
        let Error::Corrupt(found) = error else { panic!("{error:?}") };
        assert!(matches!(found.check(), Check::DaBtree(DaBtreeCheck::Cycle { .. })), "{found}");
    }
    let (names, errors) = check_children(1 << 20);
    assert!(names.is_empty() && !errors.is_empty());
}

/// Checks I2 of `xfs_dir`: an iteration ends, because no leaf is walked twice.
#[test]
fn leaves_in_a_cycle_are_refused() {
    let mut image = golden();
    let name = b"one";
    let hash = xfs_format::directory::name_hash(name);
    // The hash of a parent pointer is not that of its name, so these leaves pass with any common
    // hash.
    let node = ForkBlock::find(&image, "short/a", ATTR, 0);
    let bytes = node.bytes(&image);
    let count = usize::from(u16::from_be_bytes([bytes[56], bytes[57]]));
    let child = |index: usize| {
        u32::from_be_bytes(bytes[68 + 8 * index..72 + 8 * index].try_into().unwrap())
    };
    for index in 0..count {
        let next = child((index + 1) % count);
        ForkBlock::find(&image, "short/a", ATTR, child(index).into()).edit(&mut image, |bytes| {
            put_u32(bytes, 0, &[next]);
            let count = usize::from(u16::from_be_bytes([bytes[56], bytes[57]]));
            for entry in 0..count {
                put_u32(bytes, 80 + 8 * entry, &[hash]);
            }
        });
    }
    node.edit(&mut image, |bytes| {
        for index in 0..count {
            put_u32(bytes, 64 + 8 * index, &[hash]);
        }
    });
    for name in [&name[..], &collide(name)] {
        let Err(Error::Corrupt(found)) = find(&image, "short/a", name) else { panic!("{name:?}") };
        assert!(matches!(found.check(), Check::DaBtree(DaBtreeCheck::Cycle { .. })), "{found}");
    }
}

#[test]
fn corrupt_remote_values_are_refused() {
    let check = |block: u64, offset: usize, words: &[u32], expected: Check| {
        let mut image = golden();
        ForkBlock::find(&image, "attr-remote", REMOTE, block)
            .edit(&mut image, |bytes| put_u32(bytes, offset, words));
        check_corrupt(find(&image, "attr-remote", b"remote"), expected);
        // The name is still listed.
        assert_eq!(list(&image, "attr-remote").0.len(), 1);
    };
    let piece = |offset, bytes, wanted, expected| {
        Check::from(AttrCheck::RemotePiece { offset, bytes, wanted, expected })
    };
    check(2, 4, &[0], piece(0, 968, 968, 968));
    check(2, 8, &[967], piece(968, 967, 968, 968));
    check(4, 8, &[95], piece(2904, 95, 2904, 96));
    let own = lookup(&volume(&golden()), &golden(), "attr-remote").unwrap().number().0;
    let owner = Check::ForeignOwner { found: own + 1, expected: own };
    check(1, 36, &[own as u32 + 1], owner);
}

#[test]
fn remote_values_of_wrong_lengths_are_refused() {
    let check = |length: u32, block: u32| {
        let mut image = golden();
        ForkBlock::find(&image, "attr-remote", ATTR, 0).edit(&mut image, |bytes| {
            // The other entry is the parent pointer, whose value lies beside its name.
            let entry = if bytes[80 + 6] == 0 { 80 } else { 88 };
            let name = usize::from(u16::from_be_bytes([bytes[entry + 4], bytes[entry + 5]]));
            put_u32(bytes, name, &[block, length]);
        });
        find(&image, "attr-remote", b"remote")
    };
    assert_eq!(check(3000, 1).unwrap().len(), 3000);
    for (length, block) in [(3001, 1), (1 << 16, 1), (3000, 2), (3000, 0), (3000, u32::MAX)] {
        assert!(matches!(check(length, block), Err(Error::Corrupt(_))), "{length} at {block}");
    }
    let Err(Error::Corrupt(found)) = check((1 << 16) + 1, 1) else { panic!("too long") };
    assert!(matches!(found.check(), Check::Attr(AttrCheck::RemoteValue { .. })), "{found}");
}

#[test]
fn read_of_a_mutated_block_does_not_panic() {
    let mut prng = Prng::new(0xa778_1b07);
    let blocks = [
        ("attr-node", ATTR, 0),
        ("attr-node", ATTR, 3),
        ("attr-remote", ATTR, 0),
        ("attr-remote", REMOTE, 2),
        ("short/a", ATTR, 1),
    ];
    for (path, kind, block) in blocks {
        let block = ForkBlock::find(&golden(), path, kind, block);
        for _ in 0..60 {
            let mut image = golden();
            block.edit(&mut image, |bytes| prng.mutate(bytes));
            let cache = volume(&image);
            let Ok(inode) = lookup(&cache, &image, path) else { continue };
            let attributes = Attributes::new(&cache, &inode);
            assert!(attributes.names().count() < 1000);
            assert!(crate::Parents::new(&cache, &inode).count() < 1000);
            for name in ["node-attribute-7", "remote", "absent"] {
                let _ = attributes.lookup(Namespace::User, name.as_bytes());
            }
        }
    }
}

/// Checks I4 of `xfs_dir`: a leaf is accepted only with the hashes that its parent names.
#[test]
fn exchanged_leaves_are_corruption_and_not_a_missing_attribute() {
    let mut image = golden();
    let (all, _) = list(&image, "attr-node");
    let node = ForkBlock::find(&image, "attr-node", ATTR, 0).bytes(&image);
    let count = usize::from(u16::from_be_bytes([node[56], node[57]]));
    let child = |index: usize| {
        u64::from(u32::from_be_bytes(node[68 + 8 * index..72 + 8 * index].try_into().unwrap()))
    };
    let blocks =
        [0, count - 1].map(|index| ForkBlock::find(&image, "attr-node", ATTR, child(index)));
    let contents = [0, 1].map(|index| blocks[index].bytes(&image)[56..].to_vec());
    blocks[0].edit(&mut image, |bytes| bytes[56..].copy_from_slice(&contents[1]));
    blocks[1].edit(&mut image, |bytes| bytes[56..].copy_from_slice(&contents[0]));
    // Every name is listed, and each of the two leaves is reported as an error.
    let (names, errors) = list(&image, "attr-node");
    assert_eq!(names.len(), all.len());
    assert_eq!(errors.len(), 2, "{errors:?}");
    let mut damaged = 0;
    for name in &all {
        match find(&image, "attr-node", &name.name) {
            Ok(_) => {}
            Err(Error::Corrupt(found)) => {
                assert!(matches!(found.check(), Check::DaBtree(_)), "{found}");
                damaged += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(damaged > 0 && damaged < all.len());
}
