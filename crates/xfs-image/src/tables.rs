//! Reads the entries of an image's tables through a small cache of pages.
//!
//! Owns: the cache. A table costs the memory of the pages that were read, and never more than
//! [`MAX_PAGES`] pages. Does **not** own the meaning of an entry.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use xfs_device::BlockDevice;
use xfs_sync::{Mutex, Volume};

use crate::bytes::{big, little};

const PAGE_BYTES: u64 = 4096;
/// The most pages that the cache keeps. If one more page would exceed this number, the cache is
/// emptied first.
const MAX_PAGES: usize = 256;

/// The byte order of the entries of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Big,
    Little,
}

/// A table of fixed-size entries in an image file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// The byte of the image file at which the table starts.
    pub(crate) start: u64,
    /// The size of an entry in bytes: 4 or 8.
    pub(crate) entry_bytes: u64,
    pub(crate) order: ByteOrder,
}

/// The pages of one image file that were read last.
pub(crate) struct TablePages {
    pages: Mutex<HashMap<u64, Arc<[u8]>>, Volume>,
}

impl TablePages {
    pub(crate) fn new() -> Self {
        Self { pages: Mutex::new(HashMap::new()) }
    }

    /// Reads the entry of `table` with this index.
    ///
    /// # Errors
    ///
    /// The error of the file; [`io::ErrorKind::UnexpectedEof`] past its end.
    pub(crate) fn entry(
        &self,
        file: &dyn BlockDevice,
        table: Table,
        index: u64,
    ) -> io::Result<u64> {
        let past_end = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let offset = index.checked_mul(table.entry_bytes).ok_or_else(past_end)?;
        let at = table.start.checked_add(offset).ok_or_else(past_end)?;
        let end = at.checked_add(table.entry_bytes).ok_or_else(past_end)?;
        if end > file.length_bytes() {
            return Err(past_end());
        }
        let length = table.entry_bytes as usize;
        let decode = match table.order {
            ByteOrder::Big => big,
            ByteOrder::Little => little,
        };
        if at / PAGE_BYTES != (end - 1) / PAGE_BYTES {
            // A damaged header can place a table so that an entry crosses a page.
            let mut bytes = [0; 8];
            file.read_at(bytes.get_mut(..length).ok_or_else(past_end)?, at)?;
            return Ok(decode(&bytes, 0, length));
        }
        let page = self.page(file, at / PAGE_BYTES)?;
        Ok(decode(&page, (at % PAGE_BYTES) as usize, length))
    }

    fn page(&self, file: &dyn BlockDevice, number: u64) -> io::Result<Arc<[u8]>> {
        if let Some(page) = self.pages.lock().get(&number) {
            return Ok(Arc::clone(page));
        }
        let start = number * PAGE_BYTES;
        let there = file.length_bytes().saturating_sub(start).min(PAGE_BYTES);
        let mut bytes = vec![0; there as usize];
        file.read_at(&mut bytes, start)?;
        let page: Arc<[u8]> = bytes.into();
        let mut pages = self.pages.lock();
        if pages.len() >= MAX_PAGES {
            pages.clear();
        }
        pages.insert(number, Arc::clone(&page));
        Ok(page)
    }
}
