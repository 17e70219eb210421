//! A reader of logs that checks the log writer. This reader shares nothing with the crate's reader
//! except finding head and tail.

use std::collections::BTreeMap;

use xfs_format::log_item::{HostOrder, LoggedItem, TransactionHeader};
use xfs_format::log_record::{LogOperation, LogRecordHeader, OperationFlags};
use xfs_format::{Lsn, StructureAddress};

use super::item::number_at;
use crate::device::LogDevice;
use crate::head::find_first_header;
use crate::state::{LogState, find_head_and_tail};

/// A transaction of the log whose COMMIT was found.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) number: u32,
    /// Number of transactions that started before this one.
    pub(crate) started: usize,
    /// The LSN of the record that holds the transaction's START.
    pub(crate) start: Lsn,
    pub(crate) regions: Vec<Vec<u8>>,
}

impl Transaction {
    /// Returns the block number and the logged bytes of each buffer of the transaction.
    pub(crate) fn buffers(&self) -> Vec<(u64, Vec<u8>)> {
        let header = TransactionHeader::decode(
            &self.regions[0],
            HostOrder::NATIVE,
            StructureAddress::Log(0),
        );
        assert_eq!(header.unwrap().regions as usize, self.regions.len() - 1);
        let mut rest: Vec<&[u8]> = self.regions[1..].iter().map(Vec::as_slice).collect();
        let mut buffers = Vec::new();
        while !rest.is_empty() {
            let regions: Vec<_> = rest.drain(..2).collect();
            let item =
                LoggedItem::decode(&regions, HostOrder::NATIVE, StructureAddress::Log(0)).unwrap();
            let LoggedItem::Buffer(buffer) = item else { panic!("{item:?}") };
            buffers.push((buffer.format.at.0, regions[1].to_vec()));
        }
        buffers
    }

    /// Returns, for each buffer of the transaction, its block number and the first of the test's
    /// numbers that it contains.
    pub(crate) fn numbers(&self) -> Vec<(u64, u64)> {
        self.buffers().iter().map(|(at, bytes)| (*at, number_at(bytes, 0))).collect()
    }
}

/// Returns the complete transactions between tail and head, in the order of their COMMITs.
pub(crate) fn transactions(log: &LogDevice) -> Vec<Transaction> {
    let state = find_head_and_tail(log).unwrap();
    transactions_of(log, &state)
}

pub(crate) fn transactions_of(log: &LogDevice, state: &LogState) -> Vec<Transaction> {
    let mut open = BTreeMap::<u32, Transaction>::new();
    let mut done = Vec::new();
    let mut started = 0;
    let mut unfinished = None;
    for (header, payload) in records(log, state) {
        for (number, (operation, bytes)) in operations(&header, &payload).into_iter().enumerate() {
            check_continued(&mut unfinished, &operation, number);
            if operation.flags.contains(OperationFlags::START) {
                let number = operation.transaction;
                let start = Transaction { number, started, start: header.lsn, regions: Vec::new() };
                assert!(open.insert(number, start).is_none(), "started twice");
                started += 1;
            } else {
                apply(&mut open, &mut done, &operation, bytes);
            }
        }
    }
    done
}

/// Checks that no record names a tail after the START of a checkpoint whose COMMIT comes later:
/// recovery could not have replayed that checkpoint. All records that the log still has are
/// checked, including those before the tail.
pub(crate) fn check_tails(log: &LogDevice) {
    let state = find_head_and_tail(log).unwrap();
    let (head, length) = (state.head.block(), log.length_blocks());
    let oldest = find_first_header(log, head, length).unwrap();
    let oldest = oldest.or_else(|| find_first_header(log, 0, head).unwrap());
    let Some(tail) = oldest.map(|block| Lsn::new(0, block)) else { return };
    let mut open = BTreeMap::<u32, (Lsn, Lsn)>::new();
    for (header, payload) in records(log, &LogState { tail, clean: false, ..state }) {
        open.values_mut().for_each(|(_, tail)| *tail = header.tail.max(*tail));
        for (operation, _) in operations(&header, &payload) {
            if operation.flags.contains(OperationFlags::START) {
                open.insert(operation.transaction, (header.lsn, header.tail));
            } else if operation.flags.contains(OperationFlags::COMMIT)
                && let Some((start, tail)) = open.remove(&operation.transaction)
            {
                assert!(tail <= start, "the tail {tail} has passed START at {start}");
            }
        }
    }
}

/// Returns the operations of a record, each with its bytes.
fn operations(header: &LogRecordHeader, payload: &[u8]) -> Vec<(LogOperation, Vec<u8>)> {
    let mut rest = payload;
    let mut found = Vec::new();
    for _ in 0..header.operations {
        let operation = LogOperation::decode(rest, StructureAddress::Log(0)).unwrap();
        let length = operation.length as usize;
        found.push((operation, rest[12..12 + length].to_vec()));
        assert_eq!(length % 4, 0, "the next operation starts where this one ends");
        rest = &rest[12 + length..];
    }
    assert!(rest.iter().all(|byte| *byte == 0), "padding");
    found
}

/// Checks that a region continues with the first operation of the next record. `unfinished` is the
/// number of the transaction that has an incomplete region, and `number` is the index of the
/// operation in its record. The first record may begin inside a region.
fn check_continued(unfinished: &mut Option<u32>, operation: &LogOperation, number: usize) {
    let continues = operation.flags.contains(OperationFlags::WAS_CONTINUED);
    assert!(!continues || number == 0, "a region goes on as operation {number} of a record");
    if let Some(transaction) = unfinished.take() {
        assert!(continues && operation.transaction == transaction, "not the rest of a region (I5)");
    }
    let continues = operation.flags.contains(OperationFlags::CONTINUE);
    *unfinished = continues.then_some(operation.transaction);
}

fn apply(
    open: &mut BTreeMap<u32, Transaction>,
    done: &mut Vec<Transaction>,
    operation: &LogOperation,
    bytes: Vec<u8>,
) {
    let number = operation.transaction;
    if operation.flags.contains(OperationFlags::COMMIT) {
        // A transaction that started before the tail is in place.
        done.extend(open.remove(&number));
    } else if let Some(transaction) = open.get_mut(&number) {
        if operation.flags.contains(OperationFlags::WAS_CONTINUED) {
            transaction.regions.last_mut().unwrap().extend(bytes);
        } else {
            transaction.regions.push(bytes);
        }
    }
}

/// Returns the records from tail to head, each with its header and its payload. The first four
/// bytes of each block, which the writer replaced by the cycle number, are restored.
pub(crate) fn records(log: &LogDevice, state: &LogState) -> Vec<(LogRecordHeader, Vec<u8>)> {
    let mut records = Vec::new();
    let (mut block, end) = (state.tail.block(), state.head.block());
    while !state.clean && block != end {
        let (header, mut bytes) = log.read_record(block).unwrap();
        header.unpack(&mut bytes, StructureAddress::Log(block)).unwrap();
        block = log.advance(block, header.total_blocks());
        records.push((header, bytes[header.header_blocks() as usize * 512..].to_vec()));
    }
    records
}
