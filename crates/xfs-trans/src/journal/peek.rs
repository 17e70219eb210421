//! Looking at the inodes of a cluster without bringing one into memory.

use std::sync::Arc;

use xfs_buffer::{Buffer, PosixError, Result};
use xfs_format::inode::InodeCore;
use xfs_format::{BlockKind, InodeNumber};

use super::Journal;
use crate::buffer_item::BufferItem;
use crate::inode_item::InodeRecord;

impl Journal {
    /// Shows the inodes of one cluster to `f` as they are now: what is in memory of one, which may be ahead of
    /// the disk, or else what its cluster holds. `wanted` has a bit for each inode from `first` on; those of
    /// other clusters are left out, and so are free ones. Returns how many inodes from `first` on it was about.
    ///
    /// The caller holds no latch of an inode, and knows from the inode btree that the cluster is one.
    ///
    /// # Errors
    ///
    /// What reading the cluster meets. One inode that is damaged is handed to `f` as an error.
    pub fn peek_cluster(
        &self,
        first: InodeNumber,
        wanted: u64,
        mut f: impl FnMut(InodeNumber, Result<InodeCore>),
    ) -> Result<u32> {
        let geometry = self.geometry();
        let place = geometry.inode_place(first).ok_or(PosixError::NotFound)?;
        let inode_size = geometry.inode_size;
        let count = (place.cluster_bytes - place.offset_bytes) / inode_size;
        let wanted = if count < u64::BITS { wanted & ((1 << count) - 1) } else { wanted };
        if wanted == 0 {
            return Ok(count);
        }
        let buffer =
            self.cache().read(place.cluster, place.cluster_bytes, BlockKind::InodeCluster)?;
        // Whoever comes into memory after this look had not changed before it.
        let records = in_memory(&buffer);
        let mut left = wanted;
        while left != 0 {
            let index = left.trailing_zeros();
            left &= left - 1;
            let number = InodeNumber(first.0 + u64::from(index));
            let core = match find(&records, number) {
                Some(record) => {
                    let _latch = record.latch().shared();
                    Ok(record.image().core.clone())
                }
                None => self.decode(&buffer, place.offset_bytes + index * inode_size, number),
            };
            if !matches!(&core, Ok(core) if core.is_free()) {
                f(number, core);
            }
        }
        Ok(count)
    }

    fn decode(&self, buffer: &Buffer, offset_bytes: u32, number: InodeNumber) -> Result<InodeCore> {
        let decode = || {
            let bytes = buffer.bytes();
            let bytes = bytes.get(offset_bytes as usize..).unwrap_or_default();
            let core = InodeCore::decode(bytes, number, self.geometry())?;
            core.verify(bytes, &self.cache().verify_context())?;
            Ok(core)
        };
        // It may have come into memory since, and be just being written in place: then the cluster has a
        // later LSN than the cache knows of. Once it is in place, the cache knows.
        decode().or_else(|_| match find(&in_memory(buffer), number) {
            Some(record) => Ok(record.image().core.clone()),
            None => decode(),
        })
    }
}

/// The inodes of a cluster that are in memory.
fn in_memory(buffer: &Buffer) -> Vec<Arc<InodeRecord>> {
    buffer.attached::<BufferItem>().map_or_else(Vec::new, |item| item.records().live())
}

fn find(records: &[Arc<InodeRecord>], number: InodeNumber) -> Option<&Arc<InodeRecord>> {
    records.iter().find(|record| record.number() == number && record.is_live())
}
