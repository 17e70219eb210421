//! Tests of replaying a damaged log up to the damage.

use std::ops::Range;

use xfs_buffer::Error;
use xfs_device::Durability;
use xfs_format::inode;
use xfs_format::log_item::{BufferType, InodeCreate, LoggedItem};
use xfs_format::{AgBlock, AgNumber, InodeNumber, Lsn};

use super::{Bench, LOG_BLOCKS, buffer, cancel, read};
use crate::find_head_and_tail;
use crate::recovery::{CutReplay, replay_before_damage};
use crate::state::readable;

/// Number of records after the damage: more than can have been in flight with it.
const LATER: u32 = 12;

impl Bench {
    fn replay_before_damage(&self) -> Option<CutReplay> {
        let log = self.log.device();
        assert!(find_head_and_tail(&log).is_err(), "the log must be refused");
        replay_before_damage(self.data.clone(), &log, &self.superblock).unwrap()
    }

    /// Appends a record, and then damages its payload. Returns its block.
    fn append_damaged(&mut self) -> u32 {
        let block = self.append_mode(0o711).block();
        self.log.block_mut(block + 1)[64..128].fill(0x5a);
        block
    }

    fn append_later(&mut self) {
        for _ in 0..LATER {
            self.append_mode(0o755);
        }
    }

    /// Returns the mode of the root inode after the replay.
    fn mode_after(&self, cut: &CutReplay) -> u16 {
        self.decode_inode(&*cut.replayed.device(), self.root()).mode
    }
}

#[test]
fn damaged_log_is_replayed_up_to_the_damage() {
    let mut bench = Bench::new();
    bench.append_mode(0o750);
    bench.append_mode(0o700);
    let block = bench.append_damaged();
    bench.append_later();
    let cut = bench.replay_before_damage().unwrap();
    assert_eq!(bench.mode_after(&cut), 0o040_700);
    assert_eq!((cut.end_block(), cut.has_newest()), (block, false));
    assert_eq!(cut.replayed.summary().transactions, 2);
}

/// Loses a record that lies before the tail. The changes of such a record are at their home
/// locations. Checks that all records from the tail on are replayed.
#[test]
fn damage_before_the_tail_cuts_nothing_off() {
    let mut bench = Bench::new();
    bench.append_mode(0o750);
    let lost = bench.append_mode(0o711);
    let end = bench.log.head;
    bench.log.tail = end;
    bench.append_mode(0o755);
    for block in lost.block()..end.block() {
        bench.log.make_stale(block);
    }
    let cut = bench.replay_before_damage().unwrap();
    assert_eq!(bench.mode_after(&cut), 0o040_755);
    assert!(cut.has_newest());
}

/// Checks that a buffer is not replayed if a record after the damage cancels it. Such a record has
/// freed the block, which may hold file data by now.
#[test]
fn buffer_that_is_cancelled_after_the_damage_is_not_replayed() {
    for is_cancelled in [false, true] {
        let mut bench = Bench::new();
        let at = bench.agi_at();
        let mut chunk = [0; 128];
        chunk.copy_from_slice(&read(&*bench.data, at.byte_offset().unwrap(), 128));
        chunk[28..32].copy_from_slice(&7_u32.to_be_bytes());
        bench.log.append_transaction(1, &[buffer(at, 1, BufferType::Agi, 0, &chunk)]);
        bench.append_damaged();
        if is_cancelled {
            bench.log.append_transaction(2, &[cancel(at, 1)]);
        }
        bench.append_later();
        let cut = bench.replay_before_damage().unwrap();
        assert_eq!(cut.replayed.summary().skipped, u64::from(is_cancelled));
        let after = read(&*cut.replayed.device(), at.byte_offset().unwrap(), 128);
        assert_eq!(after[28..32] == chunk[28..32], !is_cancelled);
    }
}

/// Checks that a buffer is not replayed if a transaction without a COMMIT cancels it, before or
/// after the damage. The COMMIT may be lost, and the block may be freed.
#[test]
fn buffer_that_an_open_transaction_cancels_is_not_replayed() {
    for is_before_damage in [false, true] {
        let mut bench = Bench::new();
        let at = bench.agi_at();
        let before = read(&*bench.data, at.byte_offset().unwrap(), 128);
        let mut chunk = before.clone();
        chunk[28..32].copy_from_slice(&7_u32.to_be_bytes());
        bench.log.append_transaction(1, &[buffer(at, 1, BufferType::Agi, 0, &chunk)]);
        if is_before_damage {
            bench.log.append_uncommitted(2, &[cancel(at, 1)]);
        }
        bench.append_damaged();
        if !is_before_damage {
            bench.log.append_uncommitted(2, &[cancel(at, 1)]);
        }
        bench.append_later();
        let cut = bench.replay_before_damage().unwrap();
        assert_eq!(cut.replayed.summary().skipped, 1, "{is_before_damage}");
        assert_eq!(read(&*cut.replayed.device(), at.byte_offset().unwrap(), 128), before);
    }
}

/// Checks that a change is not replayed over a block that is not metadata on disk. The lost part of
/// the log may have freed the block, and a file may have been written there.
#[test]
fn change_before_the_damage_skips_a_block_that_is_not_metadata() {
    let mut bench = Bench::new();
    let at = bench.agi_at();
    let offset = at.byte_offset().unwrap();
    let chunk = read(&*bench.data, offset, 128);
    bench.log.append_transaction(1, &[buffer(at, 1, BufferType::Agi, 0, &chunk)]);
    let block_size = bench.superblock.geometry.block_size as usize;
    let first = AgBlock(64);
    let create = InodeCreate {
        group: AgNumber(0),
        start: first,
        count: 64,
        inode_size: bench.superblock.geometry.inode_size,
        length_blocks: bench.superblock.geometry.chunk_blocks(),
        generation: 5,
    };
    bench.log.append_transaction(2, &[LoggedItem::InodeCreate(create)]);
    bench.append_damaged();
    bench.append_later();
    let created = bench.superblock.geometry.ag_block_disk_addr(create.group, first);
    let created = created.byte_offset().unwrap();
    bench.data.write_at(&vec![0x5a; block_size], created, Durability::Cached).unwrap();
    bench.data.write_at(&[0x5a; 512], offset, Durability::Cached).unwrap();
    let cut = bench.replay_before_damage().unwrap();
    let device = cut.replayed.device();
    assert_eq!(cut.replayed.summary().skipped, 1);
    assert_eq!(read(&*device, offset, 512), [0x5a; 512]);
    assert_eq!(read(&*device, created, block_size), vec![0x5a; block_size]);
}

/// Checks that the replay of an inode creation keeps an inode that is newer on disk. The inode item
/// that followed the creation in the log is lost.
#[test]
fn creation_before_the_damage_keeps_a_newer_inode() {
    let mut bench = Bench::new();
    let geometry = bench.superblock.geometry.clone();
    let root = bench.root();
    let (group, in_group) = geometry.split_inode(root).unwrap();
    let create = InodeCreate {
        group,
        start: geometry.ag_inode_block(in_group),
        count: 64,
        inode_size: geometry.inode_size,
        length_blocks: geometry.chunk_blocks(),
        generation: 99,
    };
    let lsn = bench.log.append_transaction(1, &[LoggedItem::InodeCreate(create)]);
    bench.append_damaged();
    bench.append_later();
    let mut newer = bench.inode(&*bench.data, root);
    inode::seal(&mut newer, Lsn(lsn.0 + 1));
    let place = geometry.inode_location(root).unwrap();
    let offset = place.cluster.byte_offset().unwrap() + u64::from(place.offset_bytes);
    bench.data.write_at(&newer, offset, Durability::Cached).unwrap();
    let cut = bench.replay_before_damage().unwrap();
    let device = cut.replayed.device();
    assert_eq!(bench.inode(&*device, root), newer);
    let next = bench.decode_inode(&*device, InodeNumber(root.0 + 3));
    assert_eq!((next.mode, next.generation), (0, 99));
}

#[test]
fn log_without_a_record_at_its_tail_is_not_replayed() {
    let mut bench = Bench::new();
    bench.append_damaged();
    bench.append_later();
    assert!(bench.replay_before_damage().is_none());
}

/// Checks that a log whose newest record is an unmount record has no part to replay, whatever is
/// damaged before that record.
#[test]
fn log_whose_newest_record_is_an_unmount_has_no_part_to_replay() {
    let mut bench = Bench::new();
    bench.append_mode(0o700);
    bench.append_damaged();
    bench.append_later();
    bench.log.append_unmount();
    assert!(readable::find(&bench.log.device()).unwrap().is_none());
}

/// Writes the header of a record of 64 blocks, without a right checksum, into each of these blocks
/// of the log.
fn fill_with_headers(bench: &mut Bench, blocks: Range<u32>) {
    let block = bench.log.append(63);
    let header = bench.log.block_mut(block).to_vec();
    for block in blocks {
        let cycle = header[4..8].to_vec();
        let target = bench.log.block_mut(block);
        target.copy_from_slice(&header);
        target[16..20].copy_from_slice(&cycle);
        target[20..24].copy_from_slice(&block.to_be_bytes());
    }
}

/// Checks that the search ends after a bounded number of reads if headers overlap everywhere.
#[test]
fn log_full_of_headers_ends_the_search() {
    let mut bench = Bench::new();
    fill_with_headers(&mut bench, 0..LOG_BLOCKS);
    assert!(readable::find(&bench.log.device()).unwrap().is_none());
}

/// Checks that no part of a log is replayed if the search was given up. Such a search may have
/// missed the newest record, and cancellations of buffers.
#[test]
fn search_that_was_given_up_finds_no_part_to_replay() {
    let mut bench = Bench::new();
    bench.append_mode(0o750);
    bench.append_damaged();
    bench.append_later();
    let part = readable::find(&bench.log.device()).unwrap().unwrap();
    let end = bench.log.head.block();
    fill_with_headers(&mut bench, end..LOG_BLOCKS);
    let log = bench.log.device();
    assert!(readable::find(&log).unwrap().is_none());
    let last = Lsn::new(part.newest.cycle(), LOG_BLOCKS - 1);
    let runs = readable::runs_after(&log, part.state.head, last);
    assert!(matches!(runs, Err(Error::Corrupt(_))), "{} runs", runs.map_or(0, |runs| runs.len()));
}
