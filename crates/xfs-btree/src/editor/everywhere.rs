//! A search through all branches of a btree whose keys may enclose a record.
//!
//! Owns: the walk. Does **not** own the choice among the records found. Where records overlap, the
//! record that covers a block need not be the last one that starts at or before it.
//!
//! A node holds the lowest and the highest key of each child. Levels fall by one with each step,
//! and each child of a node is entered once, so the walk ends on any volume.

use xfs_buffer::Result;
use xfs_format::DiskAddr;
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeFormat};

use super::Editor;
use crate::path::corrupt;
use crate::root::TopRoot;
use crate::source::TreeBlock;
use crate::store::BtreeStore;

impl<F: BtreeFormat, S: BtreeStore> Editor<F, S> {
    /// Returns the first record for which `is_wanted` returns `true`; `None` if there is no such
    /// record. Enters only the children for whose lowest and highest key `may_hold` returns `true`.
    /// The editor stays where it is. The root of the btree must be in a block.
    ///
    /// # Errors
    ///
    /// The device's error, or a corrupt block.
    #[doc(alias = "xfs_rmap_query_range")]
    pub fn find_everywhere(
        &self,
        may_hold: impl Fn(F::Key, F::Key) -> bool,
        is_wanted: impl Fn(&F::Record) -> bool,
    ) -> Result<Option<F::Record>> {
        let geometry = self.store.geometry();
        let group = self.path.group(geometry);
        let TopRoot::Header(root) = &self.path.top.root else {
            unreachable!("only btrees with high keys are searched")
        };
        let mut waiting = vec![(*root, self.path.levels)];
        while let Some((number, levels)) = waiting.pop() {
            let outside = || corrupt(DiskAddr::NULL, BtreeCheck::Outside);
            let at = self.path.disk_addr(geometry, number).ok_or_else(outside)?;
            let buffer = self.store.read_block(at, F::KIND)?;
            let bytes = buffer.bytes();
            let node = BtreeBlock::decode(&bytes, F::KIND, at)?;
            let found = node.level();
            let Some(expected) = levels.checked_sub(1).filter(|level| *level == found as usize)
            else {
                let expected = levels.saturating_sub(1) as u32;
                return Err(corrupt(at, BtreeCheck::LevelOnPath { found, expected }).into());
            };
            if expected == 0 {
                for record in node.records() {
                    let record = F::decode_record(record, &group);
                    let record = record.map_err(|check| corrupt(at, check))?;
                    if is_wanted(&record) {
                        return Ok(Some(record));
                    }
                }
                continue;
            }
            for index in 0..node.count() {
                let key = |bytes: Option<&[u8]>| {
                    let key = bytes.and_then(F::decode_key);
                    key.expect("a decoded node holds two keys of each child")
                };
                if may_hold(key(node.key(index)), key(node.high_key(index))) {
                    let child = node.pointer(index).expect("a decoded node holds its children");
                    waiting.push((child, expected));
                }
            }
        }
        Ok(None)
    }
}
