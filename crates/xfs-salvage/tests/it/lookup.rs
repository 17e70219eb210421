//! Tests of lookups by path, and of the names of the made-up directories.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use xfs_evidence::find_superblock;
use xfs_format::{BlockKind, InodeNumber};
use xfs_salvage::{Origin, Salvage, SalvageOptions};
use xfs_testkit::{Image, golden};

use crate::damage::{inode_address, number_of};
use crate::support::{Delivered, named, salvage};

fn run(image: &Image) -> Delivered {
    salvage(image, SalvageOptions::default())
}

/// Changes the entry `name` of the short directory `files`, whose inode gets a right checksum.
/// `change` gets the bytes of the entry from the name on.
fn change_entry(image: &mut Image, whole: &Delivered, name: &[u8], change: impl Fn(&mut [u8])) {
    let at = inode_address(image, number_of(whole, "files"));
    image.edit(at, 512, BlockKind::InodeCluster, |inode| {
        let start = inode.windows(name.len()).position(|bytes| bytes == name).unwrap();
        change(&mut inode[start..]);
    });
}

/// Lets the entry `original` lead to the file of the entry `empty`, and gives the parent pointer of
/// `original` the generation of another directory, so that no name leads to its file. Returns the
/// inode of that file.
fn make_orphan(image: &mut Image, whole: &Delivered) -> InodeNumber {
    let other = u32::try_from(number_of(whole, "files/empty").0).unwrap();
    change_entry(image, whole, b"original", |entry| {
        // The type of the file lies between the name and the inode number.
        entry[9..13].copy_from_slice(&other.to_be_bytes());
    });
    let orphan = number_of(whole, "files/original");
    image.edit(inode_address(image, orphan), 512, BlockKind::InodeCluster, |inode| {
        let start = inode.windows(8).position(|bytes| bytes == b"original").unwrap();
        // The number of the parent directory lies between the name and the generation.
        inode[start + 16] ^= 1;
    });
    orphan
}

/// Puts the name `name` into the parent pointer of `fifo`, a file of the root directory. The name
/// differs from that of the entry, and is longer.
fn rename_pointer(image: &mut Image, whole: &Delivered, name: &[u8]) {
    let at = inode_address(image, number_of(whole, "fifo"));
    image.edit(at, 512, BlockKind::InodeCluster, |inode| {
        let start = inode.windows(4).position(|bytes| bytes == b"fifo").unwrap();
        let value: [u8; 12] = inode[start + 4..start + 16].try_into().unwrap();
        inode[start - 3] = u8::try_from(name.len()).unwrap();
        let entry = [name, &value].concat();
        inode[start..start + entry.len()].copy_from_slice(&entry);
        // The pointer is the only attribute: a header of 4 bytes and one of 3 come before it.
        let size = u16::try_from(7 + entry.len()).unwrap();
        inode[start - 7..start - 5].copy_from_slice(&size.to_be_bytes());
    });
}

/// Looks a path up. Returns the inode, and the origin in the report on the file.
fn find(image: &Image, path: &str) -> Option<(u64, Origin)> {
    let superblock = find_superblock(image).unwrap().unwrap().superblock;
    let salvage = Salvage::survey(image, &superblock, SalvageOptions::default(), &()).unwrap();
    let origin = Rc::new(Cell::new(None));
    let sink = Rc::clone(&origin);
    salvage.report_to(move |report| assert!(sink.replace(Some(report.origin)).is_none()));
    let node = salvage.find(path.as_bytes(), &()).unwrap()?;
    assert_eq!(origin.get(), None, "a lookup reports nothing");
    let inode = node.facts().inode;
    node.set_copied();
    drop(node);
    Some((inode, origin.get().expect("the file is reported")))
}

#[test]
fn name_from_a_parent_pointer_is_found_by_its_path() {
    let mut image = golden();
    let whole = run(&image);
    change_entry(&mut image, &whole, b"original", |entry| entry[7] = b'w');
    let number = number_of(&whole, "files/original").0;
    assert_eq!(find(&image, "/files/original"), Some((number, Origin::ParentPointer)));
    assert_eq!(find(&image, "files/./originaw"), Some((number, Origin::Entry)));
    assert_eq!(find(&image, "/files/../files/original/"), Some((number, Origin::ParentPointer)));
    assert_eq!(find(&image, "/files/originax"), None);
}

#[test]
fn orphan_is_found_by_its_path() {
    let mut image = golden();
    let whole = run(&image);
    let number = make_orphan(&mut image, &whole);
    let path = format!("/orphans/{}", number.0);
    assert_eq!(find(&image, &path), Some((number.0, Origin::Orphan)));
    assert_eq!(find(&image, "/orphans/1"), None);
}

/// A lookup that fails visits directories before it fails. These must not count as salvaged in the
/// walk that follows.
#[test]
fn directory_on_the_path_of_a_failed_lookup_is_walked() {
    let image = golden();
    let superblock = find_superblock(&image).unwrap().unwrap().superblock;
    let salvage = Salvage::survey(&image, &superblock, SalvageOptions::default(), &()).unwrap();
    assert!(salvage.find(b"deep/1/2/none", &()).unwrap().is_none());
    assert!(salvage.find(b"deep/1/2/3", &()).unwrap().is_some());
    assert_eq!(salvage.totals().lost, 0);
}

/// A file of the root has the name of a made-up directory. Only the parent pointer of the file has
/// this name. The file and the orphan must both be delivered.
#[test]
fn made_up_directory_takes_no_name_of_a_parent_pointer() {
    let mut image = golden();
    let whole = run(&image);
    let number = make_orphan(&mut image, &whole);
    rename_pointer(&mut image, &whole, b"orphans");
    let left = run(&image);
    assert_eq!(left.files["orphans"], whole.files["fifo"]);
    let orphan = format!("orphans~1/{}", number.0);
    assert_eq!(left.files[&orphan].hash, whole.files["files/original"].hash);
    assert_eq!(left.reports[&orphan].inode, number);
    let listed: BTreeSet<String> = named(&image).into_keys().collect();
    assert!(listed.contains(&orphan) && listed.contains("orphans"));
    assert_eq!(find(&image, &orphan), Some((number.0, Origin::Orphan)));
}
