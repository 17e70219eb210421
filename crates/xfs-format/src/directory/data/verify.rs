//! Functions that check one directory data block by itself, without reading other blocks.

use core::mem::offset_of;

use super::{DataBlock, DataHeaderDisk, Record};
use crate::addr::DiskAddr;
use crate::corruption::{Check, StructureAddress};
use crate::directory::{DirectoryCheck, Entry, leaf};
use crate::envelope::Envelope;
use crate::geometry::Geometry;
use crate::verify_context::VerifyContext;

/// Offsets of the common fields in data blocks and in blocks of the free-space index.
pub(crate) const ENVELOPE: Envelope = Envelope {
    crc: offset_of!(DataHeaderDisk, crc),
    block: Some(offset_of!(DataHeaderDisk, block)),
    lsn: offset_of!(DataHeaderDisk, lsn),
    uuid: offset_of!(DataHeaderDisk, uuid),
};

/// Checks a data block that was read from `at`.
///
/// The position of the block in the directory is not known here. Dot names are therefore accepted
/// in every block, at the offsets that they have in the first block.
pub(crate) fn verify(bytes: &[u8], at: DiskAddr, context: &VerifyContext<'_>) -> Result<(), Check> {
    let block =
        DataBlock::parse(bytes, 0, StructureAddress::Disk(at), context.geometry.directory_form)?;
    ENVELOPE.verify(bytes, at, context)?;
    Ok(verify_block(&block, context.geometry)?)
}

fn verify_block(block: &DataBlock<'_>, geometry: &Geometry) -> Result<(), DirectoryCheck> {
    let mut free = FreeTable::new(block)?;
    let mut live = 0;
    let mut offset = block.form.data_header_bytes();
    while offset < block.bytes.len() {
        let (record, length) = block.record(offset)?;
        match record {
            Record::Free => free.visit(offset, length as u16)?,
            Record::Entry(entry) => {
                free.follows_free = false;
                verify_entry(block, &entry, geometry)?;
                live += 1;
            }
        }
        offset += length;
    }
    free.finish()?;
    verify_index(block, live)
}

fn verify_entry(
    block: &DataBlock<'_>,
    entry: &Entry<'_>,
    geometry: &Geometry,
) -> Result<(), DirectoryCheck> {
    let offset = entry.cookie.offset() as usize;
    if geometry.split_inode(entry.inode).is_none() {
        return Err(DirectoryCheck::EntryInode { offset, inode: entry.inode.0 });
    }
    let Some((index, _)) = block.index else { return Ok(()) };
    let hash = block.form.names.hash(entry.name);
    let listed =
        leaf::equal_hashes(index, hash).any(|candidate| candidate.cookie.get() == entry.cookie.0);
    if listed { Ok(()) } else { Err(DirectoryCheck::NotIndexed { offset }) }
}

/// Checks the index of the block form. The caller has found each of the `entries` entries in the
/// index. The index is therefore exact if exactly `entries` of its entries are not stale.
/// See I3 of `data`.
fn verify_index(block: &DataBlock<'_>, entries: u32) -> Result<(), DirectoryCheck> {
    let Some((index, tail)) = block.index else { return Ok(()) };
    let stale = leaf::verify_order(index)?;
    let count = tail.count.get();
    if stale != tail.stale.get() {
        return Err(DirectoryCheck::IndexCount { count, stale: tail.stale.get() });
    }
    let live = count - stale;
    // I3: the index has every entry once, and no other live one.
    if live != entries {
        return Err(DirectoryCheck::IndexLive { live, expected: entries });
    }
    block.parse_parent().map(|_| ())
}

/// Compares a block's table of longest free records ("best free") with the free records themselves,
/// which are visited one after the other (I2 of `data`).
struct FreeTable {
    best: [(u16, u16); 3],
    seen: [bool; 3],
    follows_free: bool,
}

impl FreeTable {
    fn new(block: &DataBlock<'_>) -> Result<Self, DirectoryCheck> {
        let best = block.best_free.map(|best| (best.offset.get(), best.length.get()));
        let mut longest = u16::MAX;
        for (index, (offset, length)) in best.into_iter().enumerate() {
            if length > longest || (offset == 0) != (length == 0) {
                return Err(DirectoryCheck::BestFree { index, offset, length });
            }
            longest = length;
        }
        Ok(Self { best, seen: best.map(|(offset, _)| offset == 0), follows_free: false })
    }

    fn visit(&mut self, offset: usize, length: u16) -> Result<(), DirectoryCheck> {
        // I2: two free records are never adjacent.
        if self.follows_free {
            return Err(DirectoryCheck::FreeAdjacent { offset });
        }
        self.follows_free = true;
        let record = (offset as u16, length);
        if let Some(index) = self.best.iter().position(|best| *best == record) {
            self.seen.get_mut(index).into_iter().for_each(|seen| *seen = true);
            return Ok(());
        }
        let [.., (_, shortest)] = self.best;
        if length > shortest {
            return Err(DirectoryCheck::FreeNotListed { offset, length });
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), DirectoryCheck> {
        match self.seen.iter().position(|seen| !seen) {
            None => Ok(()),
            Some(index) => {
                let (offset, length) = self.best.get(index).copied().unwrap_or_default();
                Err(DirectoryCheck::BestFree { index, offset, length })
            }
        }
    }
}
