//! The log of a VHDX image, replayed in memory.
//!
//! ```text
//! entry: 0 "loge"  4 CRC-32C of the entry   8 its length   12 tail: byte of the oldest entry that
//!        is needed   16 sequence number   24 number of descriptors   32 GUID of the log
//!        48 length that the file must have
//!        64 descriptors of 32 bytes, in sectors of 4 KiB; then one sector of data for each "desc"
//! descriptor of zeros: 0 "zero"   8 length   16 byte of the file   24 sequence number
//! descriptor of data:  0 "desc"   4 last 4 bytes   8 first 8 bytes   16 byte of the file
//!        24 sequence number
//! sector of data: 0 "data"   4 high half of the sequence number   8 4084 bytes   4092 low half
//! ```
//!
//! The log is a ring. The entries to replay are the sequence with the highest number, from the tail
//! of its last entry on. All steps are bounded by the length of the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_device::{BlockDevice, Contents, Durability, OverlayDevice, SharedDevice};

use super::damaged;
use super::layout::{LogPlace, is_sealed};
use crate::bytes::{little, part};
use crate::error::{ImageError, ImageRefusal};

const SECTOR: u64 = 4096;
const DESCRIPTOR_BYTES: usize = 32;
/// Offset in bytes of the first descriptor of an entry.
const FIRST_DESCRIPTOR: usize = 64;
/// The longest log that is replayed, in bytes. The log of most images has 1 MiB.
const MAX_LOG_BYTES: u64 = 64 << 20;
/// The most bytes that a replay writes into memory.
const MAX_REPLAY_BYTES: u64 = 256 << 20;

/// The bytes of a log, and the GUID that its entries must carry.
struct Log {
    bytes: Vec<u8>,
    id: [u8; 16],
}

/// An entry whose checksum is right.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    bytes: Vec<u8>,
    sequence: u64,
    tail: u64,
}

/// Returns the file with the log applied to it, in memory.
///
/// # Errors
///
/// [`ImageError::Damaged`] if the log has no valid sequence of entries.
pub(super) fn replayed(file: SharedDevice, place: &LogPlace) -> Result<SharedDevice, ImageError> {
    let length = place.region.length_bytes;
    if length > MAX_LOG_BYTES {
        return Err(ImageError::refused(Contents::Vhdx, ImageRefusal::LongLog(length)));
    }
    let end = place.region.offset.checked_add(length);
    let is_there = end.is_some_and(|end| end <= file.length_bytes());
    if length == 0 || !length.is_multiple_of(SECTOR) || !is_there {
        return Err(damaged("log"));
    }
    let mut bytes = vec![0; length as usize];
    file.read_at(&mut bytes, place.region.offset)?;
    let log = Log { bytes, id: place.id };
    let entries = log.active().ok_or_else(|| damaged("log"))?;
    let replayed = OverlayDevice::new(file, MAX_REPLAY_BYTES);
    for entry in &entries {
        apply(entry, &replayed)?;
    }
    Ok(Arc::new(replayed))
}

impl Log {
    /// Returns `length` bytes from byte `at` of the ring on.
    fn read(&self, at: u64, length: u64) -> Vec<u8> {
        let whole = self.bytes.len() as u64;
        let first = length.min(whole - at % whole);
        let before = part(&self.bytes, (at % whole) as usize, first as usize);
        [before, part(&self.bytes, 0, (length - first) as usize)].concat()
    }

    /// Returns the entry at byte `at` of the ring, or `None` if no valid entry is there.
    fn entry(&self, at: u64) -> Option<Entry> {
        let head = self.read(at, FIRST_DESCRIPTOR as u64);
        let length = little(&head, 8, 4);
        let is_entry = part(&head, 0, 4) == b"loge"
            && part(&head, 32, 16) == self.id
            && length.is_multiple_of(SECTOR)
            && (SECTOR..=self.bytes.len() as u64).contains(&length);
        if !is_entry {
            return None;
        }
        let bytes = self.read(at, length);
        let (sequence, tail) = (little(&head, 16, 8), little(&head, 12, 4));
        let is_whole = is_sealed(&bytes) && tail < self.bytes.len() as u64 && sequence > 0;
        is_whole.then_some(Entry { bytes, sequence, tail })
    }

    /// Returns the entries to replay, oldest first. Returns `None` if the log has no valid sequence
    /// of entries. Each sector of the log is tried only once as the start of an entry, so the
    /// checksums of overlapping entries are the only repeated work.
    fn active(&self) -> Option<Vec<Entry>> {
        let mut valid = BTreeMap::new();
        let mut budget = 4 * self.bytes.len() as u64 + MAX_LOG_BYTES;
        let mut at = 0;
        while at < self.bytes.len() as u64 {
            if let Some(entry) = self.entry(at) {
                budget = budget.checked_sub(entry.bytes.len() as u64)?;
                valid.insert(at, entry);
            }
            at += SECTOR;
        }
        let mut best: Option<Vec<Entry>> = None;
        let newest = valid.values().map(|entry| entry.sequence).max()?;
        for last in valid.values().filter(|entry| entry.sequence == newest) {
            let chain = self.chain(&valid, last);
            if chain.is_some() {
                best = chain;
            }
        }
        best
    }

    /// Returns the entries from the tail, whose position `last` contains, up to `last` itself.
    /// Returns `None` if one of them does not continue the one before it.
    fn chain(&self, valid: &BTreeMap<u64, Entry>, last: &Entry) -> Option<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut at = last.tail;
        for _ in 0..=valid.len() {
            let entry = valid.get(&at)?;
            if entries.last().is_some_and(|before| entry.sequence != before.sequence + 1) {
                return None;
            }
            at = (at + entry.bytes.len() as u64) % self.bytes.len() as u64;
            let is_last = entry == last;
            entries.push(entry.clone());
            if is_last {
                return Some(entries);
            }
        }
        None
    }
}

/// Applies the descriptors of an entry to the file.
fn apply(entry: &Entry, file: &OverlayDevice) -> Result<(), ImageError> {
    let bad = || damaged("log entry");
    let count = little(&entry.bytes, 24, 4) as usize;
    let end = count.checked_mul(DESCRIPTOR_BYTES).and_then(|all| all.checked_add(FIRST_DESCRIPTOR));
    let descriptors = end.and_then(|end| entry.bytes.get(FIRST_DESCRIPTOR..end)).ok_or_else(bad)?;
    let first = (FIRST_DESCRIPTOR + descriptors.len()).next_multiple_of(SECTOR as usize);
    let mut sectors = entry.bytes.get(first..).unwrap_or_default().chunks_exact(SECTOR as usize);
    for descriptor in descriptors.chunks_exact(DESCRIPTOR_BYTES) {
        let place = little(descriptor, 16, 8);
        if little(descriptor, 24, 8) != entry.sequence {
            return Err(bad());
        }
        match part(descriptor, 0, 4) {
            b"zero" => write_zeros(file, place, little(descriptor, 8, 8))?,
            b"desc" => {
                let sector = sectors.next().ok_or_else(bad)?;
                let sequence = little(sector, 4, 4) << 32 | little(sector, 4092, 4);
                if part(sector, 0, 4) != b"data" || sequence != entry.sequence {
                    return Err(bad());
                }
                let bytes = [part(descriptor, 8, 8), part(sector, 8, 4084), part(descriptor, 4, 4)];
                write(file, &bytes.concat(), place)?;
            }
            _ => return Err(bad()),
        }
    }
    Ok(())
}

fn write_zeros(file: &OverlayDevice, place: u64, length: u64) -> Result<(), ImageError> {
    if length > MAX_REPLAY_BYTES {
        return Err(ImageError::refused(Contents::Vhdx, ImageRefusal::LongLog(length)));
    }
    file.write_zeros(place, length).map_err(ImageError::Io)
}

/// Writes bytes over those of the file, in memory. Bytes past the end of the file are dropped: a
/// log entry can describe a file that was about to grow, and nothing reads there.
fn write(file: &OverlayDevice, bytes: &[u8], place: u64) -> Result<(), ImageError> {
    let there = file.length_bytes().saturating_sub(place).min(bytes.len() as u64);
    let bytes = part(bytes, 0, there as usize);
    if bytes.is_empty() {
        return Ok(());
    }
    file.write_at(bytes, place, Durability::Cached).map_err(ImageError::Io)
}
