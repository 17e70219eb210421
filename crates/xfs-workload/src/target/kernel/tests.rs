use std::fs;
use std::path::Path;

use super::Directory;
use crate::WorkloadError;
use crate::target::Target;
use crate::work::{Step, Work};

/// As if `path` lay on XFS.
fn directory(path: &Path) -> Directory {
    Directory { path: path.to_owned(), used: 0, made: Vec::new() }
}

#[test]
fn one_that_cannot_be_removed_leaves_no_others_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = directory(folder.path());
    directory.prepare(&Work::new(3, 0)).unwrap();
    fs::remove_dir(folder.path().join("thread-0")).unwrap();
    assert!(matches!(directory.close(), Err(WorkloadError::File { .. })));
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn a_file_of_somebody_else_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = directory(folder.path());
    let work = Work::new(1, 0);
    directory.prepare(&work).unwrap();
    fs::write(folder.path().join("thread-0/theirs"), "").unwrap();
    let walked = directory.perform(Step::Walk, &work);
    assert!(matches!(walked, Err(WorkloadError::Disagreement(_))));
}
