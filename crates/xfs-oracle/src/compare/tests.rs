use super::{Differences, Resumed, merged};
use crate::ioctl::{ExtentFlags, FileExtent};
use crate::view::{InodeView, OpenAttributes, Time, Tree};

fn tree(size: u64) -> Tree {
    let node = InodeView { paths: vec![b"file".to_vec()], size, ..InodeView::default() };
    Tree { nodes: [(131, node)].into(), root: 128 }
}

#[test]
fn equal_trees_have_no_differences() {
    assert_eq!(Differences::between(&tree(1), &tree(1)).into_result(), Ok(()));
}

#[test]
fn differing_field_is_named() {
    let report = Differences::between(&tree(1), &tree(2)).into_result().unwrap_err();
    let expected = "1 differences from the kernel\nfile (inode 131): size: kernel 1, we 2\n";
    assert_eq!(report, expected);
}

#[test]
fn missing_inode_is_named() {
    let report = Differences::between(&tree(1), &Tree { root: 128, ..Tree::default() });
    assert!(report.into_result().unwrap_err().contains("only the kernel has it"));
    let report = Differences::between(&Tree { root: 128, ..Tree::default() }, &tree(1));
    assert!(report.into_result().unwrap_err().contains("only we have it"));
}

#[test]
fn only_resumed_attributes_may_differ_in_time_and_blocks() {
    let tree = |seconds, address| {
        let attributes =
            FileExtent { offset: 0, address, length: 4096, flags: ExtentFlags::empty() };
        let opened =
            OpenAttributes { attribute_extents: vec![attributes], ..OpenAttributes::default() };
        let changed = Time { seconds, nanoseconds: 0 };
        let node = InodeView { changed, opened: Some(opened), ..InodeView::default() };
        Tree { nodes: [(131, node)].into(), root: 128 }
    };
    let (kernel, ours) = (tree(70, 8192), tree(50, 4096));
    let count = |inode, seconds| {
        let since = Time { seconds, nanoseconds: 0 };
        let resumed = Resumed { inodes: [inode].into(), since };
        Differences::between_recovered(&kernel, &ours, &resumed).count()
    };
    assert_eq!(count(131, 60), 0);
    assert_eq!(count(131, 80), 1, "the time is before the recovery");
    assert_eq!(count(132, 60), 2, "another inode");
}

#[test]
fn extent_maps_are_compared_regardless_of_splits() {
    let extent = |offset, length, flags| FileExtent { offset, address: offset + 50, length, flags };
    let written = ExtentFlags::empty();
    let cut = [extent(0, 8, written), extent(8, 4, ExtentFlags::LAST)];
    assert_eq!(merged(&cut), [extent(0, 12, written)]);
    let kinds = [extent(0, 8, written), extent(8, 4, ExtentFlags::UNWRITTEN)];
    assert_eq!(merged(&kinds), kinds);
}
