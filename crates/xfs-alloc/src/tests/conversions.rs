//! Tests that an intent to convert a reverse mapping carries the state after the conversion.
//!
//! The kernel reads the intent this way. If ferroxfs wrote a wrong state and read it in the same
//! wrong way, a recovery by ferroxfs would still give the right result. The tests therefore compare
//! the flags in the intent with constants.

use xfs_format::reservation::TransactionKind;
use xfs_format::{AgNumber, FileBlock, FsBlock, InodeNumber};
use xfs_trans::IntentPayload;
use xfs_trans::testing::crashed;

use super::space::{MIB, TestVolume, finish};
use crate::testing::recover;
use crate::{
    AllocationTarget, FileMapping, Section, SpaceRequest, allocate_extent, defer_convert, defer_map,
};

const BLOCKS: u32 = 9;
const UNWRITTEN: u32 = 1 << 29;

fn part(whole: &FileMapping, from: u32, to: u32) -> FileMapping {
    FileMapping {
        offset: FileBlock(whole.offset.0 + u64::from(from)),
        start: FsBlock(whole.start.0 + u64::from(from)),
        length_blocks: to - from,
        ..*whole
    }
}

/// Converts the middle of a mapping. Simulates a crash after the log has the intent and before the
/// conversion is done. Checks the flags of the intent, and the volume after recovery.
fn check(options: &str, is_unwritten: bool, expected_flags: u32) {
    let mut volume = TestVolume::new(0, 64 * MIB, options);
    let mut whole = FileMapping {
        inode: InodeNumber(volume.journal.superblock().root_inode.0 + 3),
        section: Section::Data,
        is_attr: false,
        shares: options.contains("reflink=1"),
        offset: FileBlock(70),
        start: FsBlock(0),
        length_blocks: BLOCKS,
        is_unwritten,
    };
    let request = SpaceRequest::new(AllocationTarget::Group(AgNumber(1)), BLOCKS, BLOCKS);
    let mut tx = volume.begin(BLOCKS).unwrap();
    whole.start = allocate_extent(&mut tx, &request).unwrap().unwrap().start;
    defer_map(&mut tx, &whole);
    tx.commit().unwrap();

    let middle = part(&whole, 3, 5);
    let mut tx = volume.journal.begin(TransactionKind::Write, 0).unwrap();
    defer_convert(&mut tx, &middle);
    tx.roll().unwrap();
    volume.journal.force_all().unwrap();
    let (journal, open) = recover(&crashed(&volume.device));
    let [intent] = &open[..] else { panic!("{} intents are open", open.len()) };
    let [IntentPayload::Rmap(promised)] = intent.payloads() else {
        panic!("{:?}", intent.payloads())
    };
    assert_eq!(promised.flags, expected_flags, "{options}, unwritten {is_unwritten}");
    assert_eq!((promised.start, promised.length_blocks), (middle.start, middle.length_blocks));
    assert_eq!((promised.owner, promised.offset), (whole.inode.0, middle.offset));

    volume.model.mappings.push(whole);
    volume.model.check(journal.cache());
    finish(&journal, &open);
    volume.model.mappings = vec![
        part(&whole, 0, 3),
        FileMapping { is_unwritten: !is_unwritten, ..middle },
        part(&whole, 5, BLOCKS),
    ];
    volume.model.check(journal.cache());
    journal.unmount().unwrap();
    // The chain without a crash has the same result.
    tx.commit().unwrap();
    volume.model.check(volume.journal.cache());
}

#[test]
fn intent_to_convert_carries_the_state_after_it() {
    for (options, convert) in [
        ("-b size=4k -d agcount=2 -m rmapbt=1,reflink=0", 5),
        ("-b size=4k -d agcount=2 -m rmapbt=1,reflink=1", 6),
    ] {
        check(options, false, convert | UNWRITTEN);
        check(options, true, convert);
    }
}
