//! Files in memory, as sources of copies in tests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::source::{NamedValue, Source};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::Facts;

/// A file that exists only in memory.
#[derive(Clone, Default)]
pub(crate) struct MemoryFile {
    pub(crate) facts: Facts,
    pub(crate) contents: BTreeMap<u64, Vec<u8>>,
    pub(crate) target: Vec<u8>,
    pub(crate) attributes: Vec<NamedValue>,
    pub(crate) entries: Vec<(Vec<u8>, Arc<MemoryFile>)>,
    pub(crate) fails_at: Option<u64>,
}

impl Source for Arc<MemoryFile> {
    type Entries = std::vec::IntoIter<Result<(Vec<u8>, Self), Failure>>;

    fn facts(&self) -> Facts {
        self.facts
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Failure> {
        if self.fails_at.is_some_and(|at| offset + buffer.len() as u64 > at) {
            return Err(Failure::new(Exit::Corrupt, "bad block"));
        }
        let (start, bytes) = self.contents.range(..=offset).next_back().expect("data");
        let rest = &bytes[(offset - start) as usize..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        let ranges = self.contents.iter().map(|(start, bytes)| *start..start + bytes.len() as u64);
        Ok(ranges
            .filter(|range| range.end > offset)
            .map(|range| range.start.max(offset)..range.end)
            .next())
    }
    fn target(&self) -> Result<Vec<u8>, Failure> {
        Ok(self.target.clone())
    }
    fn attributes(&self) -> Vec<Result<NamedValue, Failure>> {
        self.attributes.iter().cloned().map(Ok).collect()
    }
    fn entries(&self) -> Result<Self::Entries, Failure> {
        let entries: Vec<_> = self.entries.iter().cloned().map(Ok).collect();
        Ok(entries.into_iter())
    }
}

/// Returns facts with the owner of the test process, so that no test needs privileges to set the
/// owner.
pub(crate) fn facts(inode: u64, mode: u32) -> Facts {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    Facts { inode, mode, links: 1, uid, gid, ..Facts::default() }
}

pub(crate) fn file(inode: u64, contents: &[u8]) -> Arc<MemoryFile> {
    let facts = Facts { size: contents.len() as u64, ..facts(inode, 0o100_644) };
    Arc::new(MemoryFile {
        facts,
        contents: [(0, contents.to_vec())].into(),
        ..MemoryFile::default()
    })
}

pub(crate) fn link(inode: u64, target: &str) -> Arc<MemoryFile> {
    Arc::new(MemoryFile {
        facts: facts(inode, 0o120_777),
        target: target.into(),
        ..MemoryFile::default()
    })
}

pub(crate) fn directory(inode: u64, entries: &[(&[u8], Arc<MemoryFile>)]) -> Arc<MemoryFile> {
    let entries = entries.iter().map(|(name, made)| (name.to_vec(), made.clone())).collect();
    Arc::new(MemoryFile { facts: facts(inode, 0o040_755), entries, ..MemoryFile::default() })
}
