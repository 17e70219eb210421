//! Reading the log from tail to head: records, their operations, and the transactions that the
//! operations make up.
//!
//! Owns: joining regions and transactions. Does **not** own the meaning of an item, or finding head
//! and tail.
//!
//! ```text
//!  record     | op | op | op   op: continued ||  record  op: was continued | op | op |
//!  tid 7      START  header  region 1 ────────────────→ (rest of region 1)   COMMIT
//!  tid 8                                                START     header ...
//! ```
//!
//! The operations of several transactions may alternate. The reader returns a transaction when it
//! reads the transaction's COMMIT. The LSN of the transaction is that of the record that holds its
//! START. A transaction whose START lies before the tail is skipped: all its changes are at their
//! home locations on disk. A transaction without a COMMIT never happened.
//!
//! # Memory
//!
//! The bytes of each open transaction are kept once. So the reader never keeps more than the log
//! between tail and head.

mod transaction;

pub use transaction::{Items, LoggedTransaction};

use std::collections::BTreeMap;

use xfs_buffer::Result;
use xfs_format::log_item::{HostOrder, LogItemCheck};
use xfs_format::log_record::{CLIENT_TRANSACTION, LogOperation, LogRecordHeader, OperationFlags};
use xfs_format::{Check, Corruption, Lsn, Structure, StructureAddress};

use crate::device::LogDevice;
use crate::state::LogState;

/// The length of an operation's header in bytes.
const OPERATION_BYTES: usize = 12;

/// A record or a transaction of the log.
#[derive(Debug)]
pub enum LogEntry {
    /// The header of a record. The transactions that the record's operations complete come next.
    Record(LogRecordHeader),
    /// A complete transaction, whose COMMIT was read.
    Transaction(LoggedTransaction),
}

/// Reads a log from its tail to its head.
pub struct LogReader<'a> {
    log: &'a LogDevice,
    /// The block number at which the next record starts.
    block: u32,
    /// Number of blocks from `block` to the head.
    left: u32,
    record: Option<ReadRecord>,
    open: BTreeMap<u32, LoggedTransaction>,
}

/// The properties that a transaction takes from the record in which it starts.
#[derive(Clone, Copy)]
struct RecordOrigin {
    lsn: Lsn,
    order: HostOrder,
    place: StructureAddress,
}

/// A record whose operations are being read.
struct ReadRecord {
    source: RecordOrigin,
    /// Headers and payload. The writer replaced the first four bytes of each block by the cycle
    /// number; these bytes are restored.
    bytes: Vec<u8>,
    /// The offset in `bytes` of the next operation.
    at: usize,
    /// The offset in `bytes` of the end of the payload.
    end: usize,
    operations_left: u32,
}

impl<'a> LogReader<'a> {
    /// Creates a reader of the log between tail and head. For a clean log, the reader returns no
    /// entries.
    #[must_use]
    pub fn new(log: &'a LogDevice, state: &LogState) -> Self {
        let left =
            if state.clean { 0 } else { log.distance(state.tail.block(), state.head.block()) };
        Self { log, block: state.tail.block(), left, record: None, open: BTreeMap::new() }
    }

    /// Returns the next record or transaction, or `None` at the head.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Io`](xfs_buffer::Error::Io) if the device fails, and
    /// [`Error::Corrupt`](xfs_buffer::Error::Corrupt) for damaged records and operations.
    pub fn next_entry(&mut self) -> Result<Option<LogEntry>> {
        loop {
            let Some(record) = &mut self.record else {
                let Some(header) = self.read_record()? else { return Ok(None) };
                return Ok(Some(LogEntry::Record(header)));
            };
            let source = record.source;
            match record.next_operation()? {
                None => self.record = None,
                Some((operation, bytes)) => {
                    if let Some(done) = apply(&mut self.open, &operation, bytes, source)? {
                        return Ok(Some(LogEntry::Transaction(done)));
                    }
                }
            }
        }
    }

    /// Skips records, and returns the next complete transaction, or `None` at the head.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`next_entry`](Self::next_entry).
    pub fn next_transaction(&mut self) -> Result<Option<LoggedTransaction>> {
        loop {
            match self.next_entry()? {
                Some(LogEntry::Transaction(transaction)) => return Ok(Some(transaction)),
                Some(LogEntry::Record(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// Returns the transactions whose START was read, but whose COMMIT was not read yet. When the
    /// reader is at the head, these are the transactions that never happened.
    pub fn open_transactions(&self) -> impl Iterator<Item = &LoggedTransaction> {
        self.open.values()
    }

    fn read_record(&mut self) -> Result<Option<LogRecordHeader>> {
        if self.left == 0 {
            return Ok(None);
        }
        let (header, record) = ReadRecord::read(self.log, self.block)?;
        self.block = self.log.advance(self.block, header.total_blocks());
        self.left = self.left.saturating_sub(header.total_blocks());
        self.record = Some(record);
        Ok(Some(header))
    }
}

impl ReadRecord {
    /// Reads and checks the record at `block`.
    fn read(log: &LogDevice, block: u32) -> Result<(LogRecordHeader, Self)> {
        let place = StructureAddress::Log(block);
        let (header, mut bytes) = log.read_record(block)?;
        header.unpack(&mut bytes, place)?;
        let order = HostOrder::of(header.byte_order).ok_or_else(|| {
            corrupt(place, LogItemCheck::ByteOrder { order: header.byte_order }.into())
        })?;
        let at = header.header_blocks() as usize * xfs_format::BASIC_BLOCK_BYTES as usize;
        let end = at + header.length as usize;
        let operations_left = header.operations;
        let source = RecordOrigin { lsn: header.lsn, order, place };
        Ok((header, Self { source, bytes, at, end, operations_left }))
    }

    fn next_operation(&mut self) -> Result<Option<(LogOperation, &[u8])>> {
        // Bytes after the last operation are padding.
        if self.operations_left == 0 {
            return Ok(None);
        }
        let payload = self.bytes.get(self.at..self.end).expect("the record holds its payload");
        if payload.is_empty() {
            let check = LogItemCheck::OperationLength { bytes: OPERATION_BYTES as u32, left: 0 };
            return Err(corrupt(self.source.place, check.into()).into());
        }
        let operation = LogOperation::decode(payload, self.source.place)?;
        let body = payload.get(OPERATION_BYTES..).expect("the header was decoded");
        let (bytes, left) = (operation.length, body.len());
        let check = LogItemCheck::OperationLength { bytes, left };
        let Some(body) = body.get(..bytes as usize) else {
            return Err(corrupt(self.source.place, check.into()).into());
        };
        self.operations_left -= 1;
        self.at += OPERATION_BYTES + body.len();
        Ok(Some((operation, body)))
    }
}

/// Applies an operation to the transaction to which it belongs. `open` has the incomplete
/// transactions, by their numbers. Returns the transaction if this operation is its COMMIT, and
/// `None` otherwise.
#[doc(alias = "xlog_recover_process_ophdr")]
fn apply(
    open: &mut BTreeMap<u32, LoggedTransaction>,
    operation: &LogOperation,
    bytes: &[u8],
    RecordOrigin { lsn, order, place }: RecordOrigin,
) -> Result<Option<LoggedTransaction>> {
    let id = operation.transaction;
    if operation.client != CLIENT_TRANSACTION {
        return Ok(None);
    }
    let flags = operation.flags;
    if flags.contains(OperationFlags::START) {
        if !bytes.is_empty() {
            let check = LogItemCheck::OperationFlags { flags: flags.bits() };
            return Err(corrupt(place, check.into()).into());
        }
        if open.insert(id, LoggedTransaction::new(id, lsn, order)).is_some() {
            let check = LogItemCheck::StartsTwice { transaction: id };
            return Err(corrupt(place, check.into()).into());
        }
        return Ok(None);
    }
    let Some(transaction) = open.get_mut(&id) else { return Ok(None) };
    // A region that ends here is not continued, whatever the other flags say.
    let flags = flags.difference(OperationFlags::END);
    if flags.contains(OperationFlags::WAS_CONTINUED) {
        if !transaction.extend(bytes) {
            return Err(corrupt(place, LogItemCheck::Continuation.into()).into());
        }
        return Ok(None);
    }
    match flags.difference(OperationFlags::CONTINUE) {
        OperationFlags::COMMIT => Ok(open.remove(&id)),
        flags if flags.is_empty() => {
            transaction.push(bytes);
            Ok(None)
        }
        flags if flags == OperationFlags::UNMOUNT => {
            open.remove(&id);
            Ok(None)
        }
        flags => {
            let check = LogItemCheck::OperationFlags { flags: flags.bits() };
            Err(corrupt(place, check.into()).into())
        }
    }
}

fn corrupt(place: StructureAddress, check: Check) -> Corruption {
    Corruption::new(Structure::LogItem, place, check)
}

#[cfg(test)]
mod tests;
