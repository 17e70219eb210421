//! Tests of paths, listings, walks and the paths of inodes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ferroxfs::{Error, FileType, PosixError};

use super::volume;

fn check_errno(outcome: Result<impl Sized, Error>, expected: i32) {
    match outcome {
        Err(error) => assert_eq!(error.errno(), expected, "{error}"),
        Ok(_) => panic!("succeeded where errno {expected} was due"),
    }
}

#[test]
fn paths_resolve_as_on_linux() {
    let volume = volume();
    let number = |path: &str| volume.lookup(path).unwrap().number();
    let root = volume.root().unwrap().number();
    for same in ["", "/", ".", "//", "/..", "../..", "short/..", "/deep/1/../.."] {
        assert_eq!(number(same), root, "{same:?}");
    }
    assert_eq!(number("short/a"), number("//short/./a"));
    assert_eq!(number("/deep/1/2/3/../3/4"), number("deep/1/2/3/4"));
}

#[test]
fn path_that_leads_nowhere_has_the_errno_of_linux() {
    let volume = volume();
    check_errno(volume.lookup("/none"), 2);
    check_errno(volume.lookup("/short/a/b"), 20);
    check_errno(volume.lookup("/short/a/"), 20);
    check_errno(volume.lookup("/links-inline"), 2);
    check_errno(volume.lookup("/links-inline/"), 2);
    check_errno(volume.lookup("n".repeat(256)), 36);
    check_errno(volume.lookup("/a".repeat(2100)), 36);
    check_errno(volume.read_dir("/short/a"), 20);
    check_errno(volume.open_file("/short"), 21);
    check_errno(volume.open_file("/fifo"), 22);
    check_errno(volume.read_link("/short/a"), 22);
}

#[test]
fn links_are_followed_on_request() {
    let volume = volume();
    assert_eq!(volume.lookup_no_follow("/links-inline").unwrap().file_type(), FileType::Symlink);
    assert_eq!(volume.read_link("/links-inline").unwrap(), "target");
    assert_eq!(volume.read_link("/links-remote").unwrap().len(), 1000);
}

#[test]
fn every_directory_format_lists_its_entries() {
    let volume = volume();
    for (path, count) in [("short", 4), ("block", 60), ("leaf", 200), ("node", 800), ("many", 675)]
    {
        let entries: Vec<_> = volume.read_dir(path).unwrap().map(Result::unwrap).collect();
        assert_eq!(entries.len(), count, "{path}");
        let names: HashSet<_> = entries.iter().map(|entry| entry.name().to_owned()).collect();
        assert_eq!(names.len(), count, "{path}");
        for entry in &entries {
            let found = volume.lookup(Path::new(path).join(entry.name())).unwrap();
            assert_eq!(found.number(), entry.number());
            assert_eq!(entry.file_type(), Some(found.file_type()));
        }
    }
}

#[test]
fn walk_meets_every_name_once_in_either_order() {
    let volume = volume();
    let paths = |contents_first: bool| -> Vec<PathBuf> {
        let walk = volume.walk("/").unwrap().sorted();
        let walk = if contents_first { walk.contents_first() } else { walk };
        walk.map(|entry| entry.unwrap().path).collect()
    };
    let (before, after) = (paths(false), paths(true));
    assert_eq!(before.first(), Some(&PathBuf::from("/")));
    assert_eq!(after.last(), Some(&PathBuf::from("/")));
    let unique: HashSet<_> = before.iter().collect();
    assert_eq!(unique.len(), before.len());
    assert_eq!(unique, after.iter().collect());
    let place = |paths: &[PathBuf], path: &str| {
        paths.iter().position(|other| other == Path::new(path)).unwrap()
    };
    assert!(place(&before, "/deep/1") < place(&before, "/deep/1/2"));
    assert!(place(&after, "/deep/1") > place(&after, "/deep/1/2"));
}

#[test]
fn walk_skips_directories_on_request() {
    let volume = volume();
    let mut walk = volume.walk("/deep").unwrap();
    let mut met = Vec::new();
    while let Some(entry) = walk.next() {
        let entry = entry.unwrap();
        if entry.path.ends_with("1/2") {
            walk.skip_subtree();
        }
        met.push((entry.path, entry.depth));
    }
    let expected = [("/deep", 0), ("/deep/1", 1), ("/deep/1/2", 2)];
    assert_eq!(met, expected.map(|(path, depth)| (PathBuf::from(path), depth)));
}

#[test]
fn inode_paths_are_all_paths_of_an_inode() {
    let volume = volume();
    let number = volume.lookup("/short/bb").unwrap().number();
    let found = volume.inode_paths(number).unwrap();
    assert!(found.findings.is_empty(), "{:?}", found.findings);
    // One file with its own name and 1200 links, of which one in three was removed.
    assert_eq!(found.paths.len(), 1 + 800);
    for path in &found.paths {
        assert_eq!(volume.lookup(path).unwrap().number(), number);
    }
    let root = volume.root().unwrap().number();
    assert_eq!(volume.inode_paths(root).unwrap().paths, [PathBuf::from("/")]);
    let deep = volume.lookup("/deep/1/2/3").unwrap().number();
    assert_eq!(volume.inode_paths(deep).unwrap().paths, [PathBuf::from("/deep/1/2/3")]);
}

#[test]
fn parent_pointers_name_directory_and_entry() {
    let volume = volume();
    let node = volume.lookup("/short/ccc").unwrap();
    let parents = node.parents().unwrap();
    let directory = volume.lookup("/short").unwrap();
    assert_eq!(parents.len(), 1);
    assert_eq!(parents[0].directory, directory.number());
    assert_eq!(parents[0].generation, directory.metadata().generation);
    assert_eq!(parents[0].name, "ccc");
}

#[test]
fn untrusted_number_is_checked_first() {
    let volume = volume();
    let file = volume.lookup("/short/a").unwrap().number();
    assert_eq!(volume.node(file).unwrap().number(), file);
    for nothing in [0, 1, 63, u64::MAX, file.0 + (1 << 40)] {
        let outcome = volume.node(nothing.into());
        assert!(
            matches!(outcome, Err(Error::Posix(PosixError::NotFound))),
            "{nothing}: {outcome:?}"
        );
    }
}

/// A walk has one path that grows and shrinks. Checks that the path of every entry leads to the
/// node of the entry, also after the end of a directory.
#[test]
fn paths_of_a_walk_lead_to_its_nodes() {
    let volume = volume();
    for contents_first in [false, true] {
        for start in ["/", "", "deep/1", "/deep/1/2/../2/"] {
            let walk = volume.walk(start).unwrap();
            let walk = if contents_first { walk.contents_first() } else { walk };
            let mut count = 0;
            for entry in walk.map(Result::unwrap) {
                let found = volume.lookup_no_follow(&entry.path).unwrap();
                assert_eq!(found.number(), entry.node.number(), "{}", entry.path.display());
                count += 1;
            }
            assert!(count > 1, "{start:?}");
        }
    }
}
