//! Tests of reading transactions and invalid operations that the tests compose by hand.

use xfs_buffer::Error;
use xfs_format::log_item::{CHECKPOINT, HostOrder, IntentDone, ItemKind, LogItemCheck, LoggedItem};
use xfs_format::log_item::{InodeCreate, TransactionHeader};
use xfs_format::log_record::OperationFlags;
use xfs_format::{AgBlock, AgNumber, Check, Lsn};

use super::{LogEntry, LogReader, LoggedTransaction};
use crate::find_head_and_tail;
use crate::testing::LogImage;

const BLOCKS: u32 = 2048;
const NONE: OperationFlags = OperationFlags::empty();
const START: OperationFlags = OperationFlags::START;
const COMMIT: OperationFlags = OperationFlags::COMMIT;
const CONTINUE: OperationFlags = OperationFlags::CONTINUE;
const WAS: OperationFlags = OperationFlags::WAS_CONTINUED;
const END: OperationFlags = OperationFlags::END;

fn log() -> LogImage {
    let mut log = LogImage::fresh(BLOCKS);
    log.tail = log.head;
    log
}

fn read(log: &LogImage) -> Result<(usize, Vec<LoggedTransaction>, usize), Error> {
    let device = log.device();
    let state = find_head_and_tail(&device)?;
    let mut reader = LogReader::new(&device, &state);
    let (mut records, mut transactions) = (0, Vec::new());
    while let Some(entry) = reader.next_entry()? {
        match entry {
            LogEntry::Record(_) => records += 1,
            LogEntry::Transaction(transaction) => transactions.push(transaction),
        }
    }
    Ok((records, transactions, reader.open_transactions().count()))
}

fn check(log: &LogImage) -> LogItemCheck {
    match read(log) {
        Err(Error::Corrupt(corruption)) => match corruption.check() {
            Check::LogItem(check) => *check,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn header(id: u32) -> Vec<u8> {
    let header = TransactionHeader { kind: CHECKPOINT, transaction: id, regions: 1 };
    header.encode(HostOrder::Little)
}

fn create(start: u32) -> LoggedItem<'static> {
    LoggedItem::InodeCreate(InodeCreate {
        group: AgNumber(0),
        start: AgBlock(start),
        count: 64,
        inode_size: 512,
        length_blocks: 8,
        generation: 7,
    })
}

fn items(transaction: &LoggedTransaction) -> Vec<LoggedItem<'_>> {
    transaction.items().unwrap().map(Result::unwrap).collect()
}

#[test]
fn transactions_are_returned_in_the_order_of_their_commits() {
    let mut log = log();
    let first = log.append_transaction(1, &[create(8), create(16)]);
    let second = log.append_transaction(2, &[create(24)]);
    let (records, transactions, open) = read(&log).unwrap();
    assert_eq!((records, transactions.len(), open), (2, 2, 0));
    assert_eq!(items(&transactions[0]), [create(8), create(16)]);
    assert_eq!((transactions[0].lsn(), transactions[1].lsn()), (first, second));
    assert_eq!(transactions[1].header().unwrap().transaction, 2);
}

#[test]
fn interleaved_transactions_are_separated() {
    let mut log = log();
    let (a, b) = (create(8).encode(HostOrder::Little), create(16).encode(HostOrder::Little));
    let lsn = log.head;
    log.append_operations(&[(1, START, &[]), (1, NONE, &header(1)), (2, START, &[])]);
    log.append_operations(&[(2, NONE, &header(2)), (1, NONE, &a[0]), (2, NONE, &b[0])]);
    log.append_operations(&[(2, COMMIT, &[]), (1, COMMIT, &[])]);
    let (_, transactions, _) = read(&log).unwrap();
    assert_eq!(transactions.iter().map(LoggedTransaction::id).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(items(&transactions[0]), [create(16)]);
    assert_eq!(items(&transactions[1]), [create(8)]);
    assert!(transactions.iter().all(|transaction| transaction.lsn() == lsn));
}

#[test]
fn region_split_over_records_is_joined() {
    let region = create(8).encode(HostOrder::Little).remove(0);
    for cut in (4..28).step_by(4) {
        for second in (cut..28).step_by(8) {
            let mut log = log();
            log.append_operations(&[
                (1, START, &[]),
                (1, NONE, &header(1)),
                (1, CONTINUE, &region[..cut]),
            ]);
            log.append_operations(&[(1, WAS | CONTINUE, &region[cut..second])]);
            log.append_operations(&[(1, WAS | END, &region[second..]), (1, COMMIT, &[])]);
            let (_, transactions, _) = read(&log).unwrap();
            assert_eq!(items(&transactions[0]), [create(8)]);
        }
    }
    // The header of a transaction can be split too.
    let mut log = log();
    log.append_operations(&[(1, START, &[]), (1, CONTINUE, &header(1)[..8])]);
    log.append_operations(&[(1, WAS | END, &header(1)[8..]), (1, NONE, &region)]);
    log.append_operations(&[(1, COMMIT, &[])]);
    assert_eq!(items(&read(&log).unwrap().1[0]), [create(8)]);
}

#[test]
fn transaction_without_start_or_commit_is_skipped() {
    let mut log = log();
    let done =
        LoggedItem::Done(IntentDone { kind: ItemKind::RmapDone, id: 1 }).encode(HostOrder::Little);
    log.append_operations(&[(9, NONE, &done[0]), (9, COMMIT, &[]), (8, START, &[])]);
    log.append_operations(&[(8, NONE, &header(8)), (8, NONE, &done[0])]);
    let (records, transactions, open) = read(&log).unwrap();
    assert_eq!((records, transactions.len(), open), (2, 0, 1));
}

#[test]
fn log_is_read_around_its_end() {
    let mut log = LogImage::fresh(BLOCKS);
    log.fill(1, 60);
    while log.length() - log.head.block() > 3 {
        log.append(1);
    }
    log.tail = log.head;
    for id in 0..5 {
        log.append_transaction(id, &[create(8 * id)]);
    }
    let (records, transactions, _) = read(&log).unwrap();
    assert_eq!((records, transactions.len()), (5, 5));
    assert!(transactions.last().unwrap().lsn() > transactions[0].lsn());
    assert_eq!(log.head.cycle(), transactions[0].lsn().cycle() + 1);
}

#[test]
fn clean_log_has_nothing_to_read() {
    let mut log = log();
    log.append_transaction(1, &[create(8)]);
    log.append_unmount();
    assert_eq!(read(&log).unwrap().0, 0);
}

#[test]
fn invalid_operations_are_refused() {
    let mut twice = log();
    twice.append_operations(&[(1, START, &[]), (1, START, &[])]);
    assert_eq!(check(&twice), LogItemCheck::StartsTwice { transaction: 1 });

    let mut full = log();
    full.append_operations(&[(1, START, &[0; 4])]);
    assert_eq!(check(&full), LogItemCheck::OperationFlags { flags: 1 });

    let mut unknown = log();
    unknown.append_operations(&[(1, START, &[]), (1, OperationFlags::from_bits_retain(0x40), &[])]);
    assert_eq!(check(&unknown), LogItemCheck::OperationFlags { flags: 0x40 });

    let mut unbegun = log();
    unbegun.append_operations(&[(1, START, &[]), (1, WAS | END, &[0; 4])]);
    assert_eq!(check(&unbegun), LogItemCheck::Continuation);

    let mut long = log();
    let block = long.append_operations(&[(1, START, &[])]);
    long.block_mut(block + 1)[4..8].copy_from_slice(&501_u32.to_be_bytes());
    long.edit_header(block, |_| {});
    assert_eq!(check(&long), LogItemCheck::OperationLength { bytes: 501, left: 500 });

    // The header announces an operation more than the payload holds.
    let mut missing = log();
    let block = missing.append_operations(&[(1, START, &[]), (1, NONE, &[0; 488])]);
    missing.edit_header(block, |header| header[40..44].copy_from_slice(&3_u32.to_be_bytes()));
    assert_eq!(check(&missing), LogItemCheck::OperationLength { bytes: 12, left: 0 });

    let mut order = log();
    let block = order.append_transaction(1, &[create(8)]).block();
    order.edit_header(block, |header| header[303] = 3);
    assert!(matches!(check(&order), LogItemCheck::ByteOrder { .. }));
}

#[test]
fn item_with_missing_regions_is_refused_and_ends_the_iterator() {
    let mut log = log();
    log.append_operations(&[
        (1, START, &[]),
        (1, NONE, &header(1)),
        (1, NONE, &[0x3b, 0x12, 3, 0]),
        (1, COMMIT, &[]),
    ]);
    let (_, transactions, _) = read(&log).unwrap();
    let mut items = transactions[0].items().unwrap();
    let check = items.next().unwrap().unwrap_err().check().clone();
    let promised = LogItemCheck::Regions { item: "INODE", found: 1, promised: 3 };
    assert_eq!(check, Check::LogItem(promised));
    assert!(items.next().is_none());
    assert!(transactions[0].lsn() < Lsn::NULL);
}
