//! Tests that compare the parent pointers of the golden image with the entries of its directories.

use std::collections::BTreeMap;

use xfs_buffer::Error;
use xfs_format::{BlockKind, Check};
use xfs_inode::Inode;
use xfs_testkit::{Image, golden};

use super::Parents;
use crate::fixture::{ForkBlock, lookup, root, volume};
use crate::{Cookie, Directory};

#[test]
fn every_entry_has_its_parent_pointer() {
    let image = golden();
    let cache = volume(&image);
    let mut links = BTreeMap::<_, Vec<_>>::new();
    let mut pending = vec![root(&image)];
    while let Some(number) = pending.pop() {
        let inode = Inode::read(&cache, number).unwrap();
        let directory = Directory::new(&cache, &inode).unwrap();
        for entry in directory.entries_from(Cookie::START).skip(2) {
            let entry = entry.unwrap();
            if entry.entry_type == crate::EntryType::Directory {
                pending.push(entry.inode);
            }
            let link = (number, inode.core().generation, entry.name);
            links.entry(entry.inode).or_default().push(link);
        }
    }
    assert!(links.len() > 100);
    for (number, mut expected) in links {
        let inode = Inode::read(&cache, number).unwrap();
        let parents = Parents::new(&cache, &inode).map(|link| {
            let link = link.unwrap();
            (link.inode, link.generation, link.name)
        });
        let mut parents: Vec<_> = parents.collect();
        parents.sort();
        expected.sort();
        assert_eq!(parents, expected, "{number}");
    }
    let inode = Inode::read(&cache, root(&image)).unwrap();
    assert_eq!(Parents::new(&cache, &inode).count(), 0);
}

#[test]
fn damaged_leaf_hides_only_its_own_pointers() {
    let mut image = golden();
    let count = |image: &Image| {
        let cache = volume(image);
        let inode = lookup(&cache, image, "short/a").unwrap();
        let (good, bad): (Vec<_>, Vec<_>) = Parents::new(&cache, &inode).partition(Result::is_ok);
        (good.len(), bad.into_iter().filter_map(Result::err).collect::<Vec<_>>())
    };
    assert_eq!(count(&image).0, 261);
    ForkBlock::find(&image, "short/a", BlockKind::Attr, 1).damage(&mut image);
    let (good, bad) = count(&image);
    assert!(good > 100 && good < 261);
    let [Error::Corrupt(found)] = bad.as_slice() else { panic!("{bad:?}") };
    assert!(matches!(found.check(), Check::Checksum { .. }));
}
