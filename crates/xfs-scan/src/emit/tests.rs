use std::sync::Arc;

use xfs_buffer::BufferCache;
use xfs_format::{AgNumber, DiskAddr, StructureAddress, Superblock};

use super::{EmitContext, EmittedPart, Emitter};
use crate::batch::{Batch, RowItem, push_item};
use crate::memory::Memory;
use crate::output::{Header, Output};
use crate::row::Row;
use crate::{Field, Fields, Format, ScanSource};

fn golden_source() -> ScanSource {
    let image = xfs_testkit::golden();
    let sector = image.bytes(DiskAddr(0), 512).unwrap();
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
    let geometry = Arc::new(superblock.geometry.clone());
    ScanSource::new(Arc::new(BufferCache::new(Arc::new(image), geometry, 1 << 20)), &superblock)
}

/// Returns a batch of `count` symbolic links, each with a target of `length` bytes.
fn long_targets(count: u64, length: usize) -> Batch {
    let mut batch = Batch::default();
    for ino in 0..count {
        let start = batch.arena.len();
        push_item(&mut batch.arena, RowItem::Symlink(&vec![b'x'; length]));
        let mut row = Row { ino, mode: 0o120_777, ..Row::default() };
        batch.place_items(&mut row, start);
        batch.rows.push(row);
    }
    batch
}

#[test]
fn long_rows_are_spilled() {
    let source = golden_source();
    let memory = Memory::new(0, crate::Spill::In(std::env::temp_dir()));
    let fields: Fields = [Field::Ino, Field::Symlink].into_iter().collect();
    let output = Output::begin(Format::Csv, fields, Header { scan_time: 0 }, Box::new(Vec::new()));
    let encoding = output.unwrap().encoding;
    let context = EmitContext {
        source: &source,
        memory: &memory,
        encoding: Some(&encoding),
        directories: None,
        summary_now: None,
        hashing: None,
        accounts: &[],
    };
    let batch = long_targets(700, 60_000);
    let emitted = Emitter::new(&context).emit([Ok((AgNumber(0), batch, Vec::new()))]).unwrap();
    let spilled =
        emitted.parts.iter().filter(|part| matches!(part, EmittedPart::Spilled(..))).count();
    assert_eq!((emitted.inodes, spilled, emitted.parts.len()), (700, 2, 3));
    assert!(memory.spilled_bytes() > 32 << 20);
}
