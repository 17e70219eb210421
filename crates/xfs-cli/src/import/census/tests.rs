use super::{Census, path_below};
use std::collections::{BTreeMap, HashMap};

#[test]
fn paths_below_a_directory_have_single_slashes() {
    assert_eq!(path_below(b"", b"./a//b"), b"/a/b");
    assert_eq!(path_below(b"/opt", b"/"), b"/opt");
    assert_eq!(path_below(b"/opt", b"x/"), b"/opt/x");
}

#[test]
fn whiteouts_free_only_lower_files_after_the_files_before_them() {
    let mut census = Census {
        block_bytes: 4096,
        directory_block_bytes: 4096,
        inode_bytes: 512,
        groups: 4,
        has_parent_pointers: false,
        blocks: 0,
        inodes: 0,
        directories: HashMap::new(),
        layered: Some(BTreeMap::new()),
        layer: 0,
        peak: (0, 0),
    };
    census.add_name(b"/d/lower", 10);
    census.end_layer();
    census.add_name(b"/d/upper", 5);
    assert!(census.hide(b"/d/.wh..wh..opq"));
    assert!(census.hide(b"/d/.wh.upper"), "a file of the same layer stays");
    assert!(!census.hide(b"/d/file"));
    assert_eq!((census.blocks, census.inodes, census.peak), (5, 1, (15, 2)));
    census.end_layer();
    assert!(census.hide(b"/.wh.d"));
    assert_eq!((census.blocks, census.inodes, census.peak), (0, 0, (15, 2)));
}
