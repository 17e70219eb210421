//! Blocks that were still staged for copy-on-write when a crash came.
//!
//! Owns: freeing these blocks, after all intents of the log have been finished. Does **not** own
//! blocks that an open file has staged: no file is open when this runs.

use std::sync::Arc;

use xfs_btree::{Cursor, Seek};
use xfs_buffer::Result;
use xfs_format::refcount::{Refcount, RefcountDomain, Refcounts};
use xfs_format::reservation::TransactionKind;
use xfs_format::{AgBlock, AgNumber};
use xfs_trans::Journal;

use crate::deferred::{defer_free, defer_unstage};
use crate::extent::BlockExtent;
use crate::headers::read_agf;
use crate::owner::{BlockPurpose, Section};
use crate::realtime::recover_realtime_leftovers;

/// Frees all blocks that are staged for copy-on-write, and returns the number of freed blocks.
///
/// # Errors
///
/// The device's error, a corrupt header or btree, or the error that stopped the log.
#[doc(alias = "xfs_refcount_recover_cow_leftovers")]
pub fn recover_leftovers(journal: &Arc<Journal>) -> Result<u64> {
    let mut freed = recover_realtime_leftovers(journal)?;
    for group in journal.geometry().groups() {
        while let Some(record) = first_staged(journal, group)? {
            let start = journal.geometry().join_block(group, record.start);
            let extent = BlockExtent { start, length_blocks: record.count };
            let mut tx = journal.begin(TransactionKind::Write, 0)?;
            defer_unstage(&mut tx, Section::Data, extent);
            defer_free(&mut tx, extent, None, BlockPurpose::File);
            tx.commit()?;
            freed += u64::from(record.count);
        }
    }
    Ok(freed)
}

/// Returns the first extent of a group that is staged for copy-on-write; `None` if there is none.
/// The caller frees each extent before it calls again.
fn first_staged(journal: &Journal, group: AgNumber) -> Result<Option<Refcount>> {
    let cache = journal.cache();
    let Some(root) = read_agf(cache, group)?.refcount else { return Ok(None) };
    let mut cursor = Cursor::<Refcounts>::new(cache, group, root)?;
    let first = cursor.seek(Seek::AtOrAfter((RefcountDomain::Staging, AgBlock(0))))?;
    Ok(first.filter(|record| record.domain == RefcountDomain::Staging))
}
