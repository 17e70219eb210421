use std::cell::Cell;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::{FreeingWait, KernelDirectory, until_there_is_memory, wait_for_freeing};
use crate::WorkloadError;
use crate::target::WorkTarget;
use crate::work::{Work, WorkStep};

/// Returns a target for a directory that need not be on XFS.
fn directory(path: &Path) -> KernelDirectory {
    KernelDirectory { path: path.to_owned(), used: 0, made: Vec::new() }
}

#[test]
fn path_that_cannot_be_removed_does_not_keep_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = directory(folder.path());
    directory.prepare(&Work::new(3, 0)).unwrap();
    fs::remove_dir(folder.path().join("thread-0")).unwrap();
    assert!(matches!(directory.close(), Err(WorkloadError::File { .. })));
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn out_of_memory_is_retried() {
    let left = Cell::new(3);
    let attempt = || match left.replace(left.get() - 1) {
        1 => Err(ErrorKind::NotFound.into()),
        _ => Err::<(), _>(ErrorKind::OutOfMemory.into()),
    };
    assert_eq!(until_there_is_memory(attempt).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(left.get(), 0);
}

#[test]
fn foreign_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = directory(folder.path());
    let work = Work::new(1, 0);
    directory.prepare(&work).unwrap();
    fs::write(folder.path().join("thread-0/theirs"), "").unwrap();
    let walked = directory.perform(WorkStep::Walk, &work);
    assert!(matches!(walked, Err(WorkloadError::Disagreement(_))));
}

#[test]
fn wait_without_progress_is_reported() {
    let patience = Duration::from_millis(5);
    let freeing = wait_for_freeing(3, patience, || Ok(4)).unwrap();
    assert!(freeing.in_vain >= patience);
    assert!(!freeing.is_certain);
    for (last, is_certain) in [(3, true), (2, false)] {
        let mut counts = [5, 4, last].into_iter();
        let freeing = wait_for_freeing(3, Duration::MAX, || Ok(counts.next().unwrap())).unwrap();
        assert_eq!(freeing, FreeingWait { in_vain: Duration::ZERO, is_certain });
    }
}
