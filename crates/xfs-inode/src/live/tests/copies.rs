//! Copies of shared blocks on a volume whose free space is scarce or fragmented, bytes past the end
//! of a file, and intents in the log that contradict the file.

use std::sync::Arc;

use xfs_buffer::{Error, PosixError};
use xfs_format::extent::FILE_BLOCK_LIMIT;
use xfs_format::inode::ForkKind;
use xfs_format::log_item::{ExchangeFlags, ExchangeIntent, MapExtent};
use xfs_format::reservation::TransactionKind;
use xfs_format::{FileBlock, FsBlock};
use xfs_trans::{IntentPayload, testing};

use super::volume::{Volume, now};
use crate::Mapping;
use crate::live::with_transaction::with_transaction;
use crate::live::{KeepSize, LiveInode, SharedRange, resume};

const BLOCK: usize = 4096;
/// Number of blocks that two files share. It is larger than the number of blocks that a full volume
/// still has in its reserved pool.
const SHARED: usize = 2048;

/// A full volume: two files share their blocks, and a third file has all other blocks.
struct FullVolume {
    volume: Volume,
    source: Arc<LiveInode>,
    copy: Arc<LiveInode>,
    filler: Arc<LiveInode>,
}

impl FullVolume {
    fn new() -> Self {
        let device = testing::make_sized(64 << 20, "-d agcount=1 -l size=16m -m reflink=1");
        let volume = Volume::of(device);
        let (source, copy, filler) = (volume.file(), volume.file(), volume.file());
        let journal = &volume.journal;
        source.write_at(journal, 0, &vec![1; SHARED * BLOCK], now()).unwrap();
        let whole = SharedRange { from: 0, to: 0, length_bytes: (SHARED * BLOCK) as u64 };
        LiveInode::reflink(journal, &source, &copy, whole, now()).unwrap();
        let mut end = 0;
        for blocks in (0..14).rev().map(|log| (BLOCK as u64) << log) {
            while filler.allocate(journal, end..end + blocks, KeepSize::No, now()).is_ok() {
                end += blocks;
            }
        }
        Self { volume, source, copy, filler }
    }

    /// Writes to the first `blocks` shared blocks of one file. The write must succeed if
    /// `is_written`, or else fail for lack of space. Then checks the contents of both files.
    fn check_write(&self, blocks: usize, is_written: bool) {
        let journal = &self.volume.journal;
        let written = self.copy.write_at(journal, 0, &vec![2; blocks * BLOCK], now());
        let count = match written {
            Ok(bytes) => bytes / BLOCK,
            Err(Error::Posix(PosixError::NoSpace)) => 0,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(count, if is_written { blocks } else { 0 });
        let mut bytes = vec![0; SHARED * BLOCK];
        self.source.inode().read_at(journal.cache(), 0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 1), "the other file changed");
        self.copy.inode().read_at(journal.cache(), 0, &mut bytes).unwrap();
        let (new, old) = bytes.split_at(count * BLOCK);
        assert!(new.iter().all(|byte| *byte == 2), "written bytes are missing");
        assert!(old.iter().all(|byte| *byte == 1), "bytes changed that were not written");
        assert!(!journal.is_shut_down());
    }
}

#[test]
fn copy_of_shared_blocks_is_put_together_from_single_free_blocks() {
    let full = FullVolume::new();
    // Every other block, so that no two free blocks are neighbours.
    for block in (0..2500).map(|number| 2 * number * BLOCK as u64) {
        full.filler.punch(&full.volume.journal, block..block + BLOCK as u64, now()).unwrap();
    }
    full.check_write(2000, true);
    let pieces = {
        let inode = full.copy.inode();
        let map = inode.extent_map(full.volume.journal.cache(), ForkKind::Data).unwrap();
        map.iter_from(FileBlock(0)).take_while(|extent| extent.file_block.0 < 2000).count()
    };
    // The blocks that the volume keeps back are neighbours.
    assert!(pieces > 200, "{pieces}");
    drop((full.source, full.copy, full.filler));
    full.volume.unmount();
}

#[test]
fn copy_of_shared_blocks_without_room_changes_nothing() {
    let full = FullVolume::new();
    full.check_write(1, false);
    full.check_write(16, false);
    full.filler.punch(&full.volume.journal, 0..1 << 20, now()).unwrap();
    full.check_write(16, true);
    drop((full.source, full.copy, full.filler));
    full.volume.unmount();
}

/// Checks that a file that grows shows zeros where old bytes lie past its end. Such bytes exist,
/// for example, if another writer crashed after it had written data and before it had set the size.
#[test]
fn growing_file_shows_zeros_where_bytes_lay_past_its_end() {
    let volume = Volume::new("");
    for (old, size) in [(100, 3000), (100, 20_000), (5000, 5001), (4096, 8192), (0, 20_000)] {
        let (live, journal) = (volume.file(), &volume.journal);
        live.write_at(journal, 0, &[7; 20_000], now()).unwrap();
        with_transaction(journal, TransactionKind::Truncate, 0, |tx| {
            tx.join(live.log_item());
            live.change(tx, |core| core.size = old);
            Ok(())
        })
        .unwrap();
        live.truncate(journal, size, now()).unwrap();
        let mut bytes = vec![9; size as usize];
        assert_eq!(live.inode().read_at(journal.cache(), 0, &mut bytes).unwrap(), bytes.len());
        let (kept, grown) = bytes.split_at(old as usize);
        assert!(kept.iter().all(|byte| *byte == 7), "{old} to {size}");
        assert!(grown.iter().all(|byte| *byte == 0), "{old} to {size}");
    }
    volume.unmount();
}

/// By the time of recovery an inode number in an intent may belong to another file, with another
/// generation. Checks that the intent is then refused.
#[test]
fn exchange_of_another_generation_is_not_resumed() {
    let volume = Volume::new("-i exchange=1");
    let files = [volume.file(), volume.file()];
    let right = files.each_ref().map(|live| live.inode().core().generation);
    volume.journal.force_all().unwrap();
    let resumed = |generations| {
        let intent = ExchangeIntent {
            id: 1,
            inodes: files.each_ref().map(|live| live.number()),
            generations,
            starts: [FileBlock(0); 2],
            length_blocks: 4,
            flags: ExchangeFlags::empty(),
            sizes: [0; 2],
        };
        resume(&volume.journal, &IntentPayload::Exchange(intent)).map(|work| work.is_some())
    };
    assert!(resumed(right).unwrap());
    let (left, other) = (right[0].wrapping_add(1), right[1].wrapping_add(1));
    for wrong in [[left, right[1]], [right[0], other], [left, other]] {
        assert!(matches!(resumed(wrong), Err(Error::Posix(PosixError::Stale))));
    }
}

/// An exchange intent in a damaged log may name any range. Checks that one past the limit of file
/// blocks is refused.
#[test]
fn exchange_past_the_limit_of_file_blocks_is_not_resumed() {
    let volume = Volume::new("-i exchange=1");
    let files = [volume.file(), volume.file()];
    volume.journal.force_all().unwrap();
    let resumed = |starts: [u64; 2], length_blocks| {
        let intent = ExchangeIntent {
            id: 1,
            inodes: files.each_ref().map(|live| live.number()),
            generations: files.each_ref().map(|live| live.inode().core().generation),
            starts: starts.map(FileBlock),
            length_blocks,
            flags: ExchangeFlags::empty(),
            sizes: [0; 2],
        };
        resume(&volume.journal, &IntentPayload::Exchange(intent)).map(|work| work.is_some())
    };
    let last = FILE_BLOCK_LIMIT - 4;
    assert!(resumed([0, last], 4).unwrap());
    for (starts, length_blocks) in
        [([0, last], 5), ([last + 1, 0], 4), ([u64::MAX, 0], 4), ([0, 0], u64::MAX)]
    {
        let refused = resumed(starts, length_blocks);
        assert!(matches!(refused, Err(Error::Corrupt(_))), "{starts:?} {length_blocks}");
    }
}

/// A mapping intent in a damaged log may name any extent. Checks that only an intent that the file
/// agrees with is finished.
#[test]
fn map_intent_that_contradicts_the_file_is_refused() {
    let volume = Volume::new("");
    let (live, journal) = (volume.file(), &volume.journal);
    live.write_at(journal, 0, &[7; 8 * 4096], now()).unwrap();
    journal.force_all().unwrap();
    let found = live.inode().find(journal.cache(), ForkKind::Data, FileBlock(0)).unwrap();
    let Mapping::Extent(held) = found else { panic!("{found:?}") };
    let (map, unmap) = (1, 2);
    let right = MapExtent {
        inode: live.number(),
        start: held.start,
        offset: held.file_block,
        length_blocks: held.length_blocks,
        flags: unmap,
    };
    let finish = |intent: MapExtent| {
        let work = resume(journal, &IntentPayload::Map(intent))?.expect("the intent is of a file");
        with_transaction(journal, TransactionKind::Truncate, 0, |tx| work.finish(tx).map(drop))
    };
    let (far, hole) = (FsBlock(1 << 60), FileBlock(100));
    for wrong in [
        MapExtent { length_blocks: 0, ..right },
        MapExtent { length_blocks: held.length_blocks + 1, ..right },
        MapExtent { start: FsBlock(held.start.0 + 1), ..right },
        MapExtent { offset: hole, ..right },
        MapExtent { offset: FileBlock(u64::MAX), ..right },
        MapExtent { flags: map, ..right },
        MapExtent { flags: map, offset: hole, start: far, ..right },
        MapExtent { flags: map, offset: hole, start: FsBlock(1 << 40), ..right },
        MapExtent { flags: unmap | 1 << 8, ..right },
        MapExtent { flags: 3, ..right },
    ] {
        let refused = finish(wrong);
        assert!(matches!(&refused, Err(Error::Corrupt(_))), "{wrong:?}: {refused:?}");
    }
    finish(right).unwrap();
    finish(MapExtent { flags: map, ..right }).unwrap();
    volume.unmount();
}
