//! Files of which only their numbers are counted.

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;
use xfs_sync::{AtomicU64, CachePadded, Object, Ordering};

use super::{FileFacts, FilePlace, FileStore, FileVisitor, parse};

/// The files of a directory: their numbers go from `removed` up to, but not including, `made`.
#[derive(Default)]
struct Files {
    made: AtomicU64<Object>,
    removed: AtomicU64<Object>,
}

/// Directories of files whose names are their numbers, all of one length.
pub(super) struct Counters {
    directories: Box<[CachePadded<Files>]>,
    file_bytes: u64,
}

impl Counters {
    pub(super) fn new(directories: usize, file_bytes: u64) -> Self {
        let directories = (0..directories).map(|_| CachePadded::default()).collect();
        Self { directories, file_bytes }
    }

    fn files(&self, directory: usize) -> Option<Range<u64>> {
        let files = self.directories.get(directory)?;
        Some(files.removed.load(Ordering::Relaxed)..files.made.load(Ordering::Relaxed))
    }

    fn facts(&self, number: u64) -> FileFacts {
        FileFacts { number, bytes: self.file_bytes }
    }
}

impl FileStore for Counters {
    fn emptied(&self) -> Arc<dyn FileStore> {
        Arc::new(Self::new(self.directories.len(), self.file_bytes))
    }

    fn directories(&self) -> usize {
        self.directories.len()
    }

    fn find(&self, directory: usize, name: &OsStr) -> Option<FileFacts> {
        let number = parse(name)?;
        self.files(directory)?.contains(&number).then(|| self.facts(number))
    }

    fn make(&self, directory: usize, name: &OsStr) -> Result<FileFacts, Errno> {
        let files = self.directories.get(directory).ok_or(Errno::NOENT)?;
        let number = parse(name).ok_or(Errno::INVAL)?;
        files.made.store(number + 1, Ordering::Relaxed);
        Ok(self.facts(number))
    }

    fn remove(&self, directory: usize, name: &OsStr) -> Result<(), Errno> {
        let files = self.directories.get(directory).ok_or(Errno::NOENT)?;
        let number = parse(name).ok_or(Errno::NOENT)?;
        files.removed.store(number + 1, Ordering::Relaxed);
        Ok(())
    }

    fn list(&self, directory: usize, from: u64, each: &mut FileVisitor<'_>) {
        let Some(files) = self.files(directory) else { return };
        _ = (files.start.max(from)..files.end)
            .try_for_each(|number| each(self.facts(number), number.to_string().as_ref()));
    }

    fn file_bytes(&self, _: FilePlace) -> u64 {
        self.file_bytes
    }

    fn read(&self, _: FilePlace, _: u64, room: &mut [u8]) -> usize {
        room.len()
    }

    fn write(&self, _: FilePlace, _: u64, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
}
