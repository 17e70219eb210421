//! A transaction of the log: its regions, and the items that they make up.

use xfs_format::log_item::{HostOrder, ItemHeader, LogItemCheck, LoggedItem, TransactionHeader};
use xfs_format::{Corruption, Lsn, Structure, StructureAddress};

/// The range of bytes of a region in its transaction.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: usize,
    end: usize,
}

/// A transaction as read from the log.
#[derive(Clone, Debug)]
pub struct LoggedTransaction {
    id: u32,
    lsn: Lsn,
    order: HostOrder,
    bytes: Vec<u8>,
    regions: Vec<Region>,
}

impl LoggedTransaction {
    pub(super) const fn new(id: u32, lsn: Lsn, order: HostOrder) -> Self {
        Self { id, lsn, order, bytes: Vec::new(), regions: Vec::new() }
    }

    /// Appends a region.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.regions.push(Region { start, end: self.bytes.len() });
    }

    /// Appends bytes to the last region. Returns `false` if the transaction has no region.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        let end = self.bytes.len();
        self.regions.last_mut().map(|region| region.end = end).is_some()
    }

    /// Returns the transaction's number in the log.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns the LSN of the record in which the transaction starts. Replay compares this LSN with
    /// the LSN of the object on disk.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Returns the byte order of the transaction's items.
    #[must_use]
    pub const fn order(&self) -> HostOrder {
        self.order
    }

    /// Returns the address of the record in which the transaction starts, for error messages.
    #[must_use]
    pub const fn place(&self) -> StructureAddress {
        StructureAddress::Log(self.lsn.block())
    }

    /// Returns whether the transaction has no regions at all, not even a header.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Returns the number of regions, the header included.
    #[must_use]
    pub const fn region_count(&self) -> usize {
        self.regions.len()
    }

    /// Decodes the header of the transaction.
    ///
    /// # Errors
    ///
    /// Returns an error if the first region is not a valid header.
    pub fn header(&self) -> Result<TransactionHeader, Corruption> {
        let region = self.region(0).unwrap_or_default();
        TransactionHeader::decode(region, self.order, self.place())
    }

    /// Returns the items of the transaction, in the order in which they were logged.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`header`](Self::header).
    pub fn items(&self) -> Result<Items<'_>, Corruption> {
        if !self.is_empty() {
            self.header()?;
        }
        Ok(Items { transaction: self, next: 1 })
    }

    fn region(&self, index: usize) -> Option<&[u8]> {
        let region = self.regions.get(index)?;
        let bytes = self.bytes.get(region.start..region.end);
        Some(bytes.expect("a region lies in the bytes of its transaction"))
    }
}

/// An iterator over the items of a transaction. It ends after an error.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    transaction: &'a LoggedTransaction,
    next: usize,
}

impl<'a> Items<'a> {
    fn decode_next(&mut self, first: &'a [u8]) -> Result<LoggedItem<'a>, Corruption> {
        let LoggedTransaction { order, .. } = *self.transaction;
        let place = self.transaction.place();
        let header = ItemHeader::decode(first, order, place)?;
        let end = self.next + usize::from(header.regions);
        let regions: Vec<&[u8]> =
            (self.next..end).map_while(|index| self.transaction.region(index)).collect();
        let (found, promised) = (regions.len(), usize::from(header.regions));
        if found != promised {
            let check = LogItemCheck::Regions { item: header.kind.name(), found, promised };
            return Err(Corruption::new(Structure::LogItem, place, check));
        }
        self.next = end;
        LoggedItem::decode(&regions, order, place)
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<LoggedItem<'a>, Corruption>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.transaction.region(self.next)?;
        let item = self.decode_next(first);
        if item.is_err() {
            self.next = usize::MAX;
        }
        Some(item)
    }
}
