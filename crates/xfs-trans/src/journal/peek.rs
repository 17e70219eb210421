//! Reads the inodes of a cluster without creating records for them in memory.

use std::sync::Arc;

use xfs_buffer::{Buffer, PosixError, Result};
use xfs_format::geometry::InodeLocation;
use xfs_format::inode::InodeCore;
use xfs_format::{BlockKind, InodeNumber};

use super::Journal;
use crate::buffer_item::BufferItem;
use crate::inode_item::InodeRecord;

impl Journal {
    /// Calls `f` with the cores of inodes of one cluster. If an inode has a record in memory, the
    /// core comes from the record, which may be newer than the disk. If not, the core comes from
    /// the cluster. Bit n of `wanted` selects the n-th inode from `first` on. Free inodes, and
    /// inodes of other clusters, are left out. Returns the number of inodes from `first` to the end
    /// of the cluster.
    ///
    /// A cluster that is not in memory is read into `scratch`, and stays out of the cache.
    ///
    /// The caller holds no latch of an inode, and knows from the inode btree that the blocks are a
    /// cluster.
    ///
    /// # Errors
    ///
    /// Returns the errors of reading the cluster. A damaged inode is passed to `f` as an error.
    pub fn peek_cluster(
        &self,
        first: InodeNumber,
        wanted: u64,
        scratch: &mut Vec<u8>,
        mut f: impl FnMut(InodeNumber, Result<InodeCore>),
    ) -> Result<u32> {
        let geometry = self.geometry();
        let place = geometry.inode_location(first).ok_or(PosixError::NotFound)?;
        let inode_size = geometry.inode_size;
        let count = (place.cluster_bytes - place.offset_bytes) / inode_size;
        let wanted = if count < u64::BITS { wanted & ((1 << count) - 1) } else { wanted };
        if wanted == 0 {
            return Ok(count);
        }
        let mut cluster = self.locate_cluster(place, scratch)?;
        let mut left = wanted;
        while left != 0 {
            let index = left.trailing_zeros();
            left &= left - 1;
            let number = InodeNumber(first.0 + u64::from(index));
            let offset_bytes = place.offset_bytes + index * inode_size;
            let core = match &cluster {
                ClusterSource::OnDevice => match self.decode_bytes(scratch, offset_bytes, number) {
                    Ok(core) => Ok(core),
                    // The inode is damaged, or is just being written in place. The buffer shows
                    // which.
                    Err(_) => {
                        cluster = self.bring_in(place)?;
                        self.peek_in(&cluster, offset_bytes, number)
                    }
                },
                in_memory @ ClusterSource::InMemory(..) => {
                    self.peek_in(in_memory, offset_bytes, number)
                }
            };
            if !matches!(&core, Ok(core) if core.is_free()) {
                f(number, core);
            }
        }
        Ok(count)
    }

    /// Returns the cluster from the cache, or reads its bytes into `scratch`. A cluster that is not
    /// in the cache has no pending writes, so all its changes are on the device.
    fn locate_cluster(&self, place: InodeLocation, scratch: &mut Vec<u8>) -> Result<ClusterSource> {
        let (at, length_bytes, kind) =
            (place.cluster, place.cluster_bytes, BlockKind::InodeCluster);
        if let Some(buffer) = self.cache().find(at, length_bytes, kind)? {
            return Ok(ClusterSource::of(buffer));
        }
        scratch.resize(length_bytes as usize, 0);
        match self.cache().read_uncached(at, kind, scratch) {
            Ok(()) => Ok(ClusterSource::OnDevice),
            Err(_) => self.bring_in(place),
        }
    }

    fn bring_in(&self, place: InodeLocation) -> Result<ClusterSource> {
        let kind = BlockKind::InodeCluster;
        self.cache().read(place.cluster, place.cluster_bytes, kind).map(ClusterSource::of)
    }

    /// Returns the core of an inode of a cluster whose buffer is in the cache. Fails with
    /// `NotFound` if `cluster` is `OnDevice`.
    fn peek_in(
        &self,
        cluster: &ClusterSource,
        offset_bytes: u32,
        number: InodeNumber,
    ) -> Result<InodeCore> {
        let ClusterSource::InMemory(buffer, records) = cluster else {
            return Err(PosixError::NotFound.into());
        };
        let record = find(records, number);
        let _latch = record.map(|record| record.latch().shared());
        // The cluster holds every part that the record does not.
        match record.and_then(|record| record.known_core()) {
            Some(core) => Ok(core),
            None => self.decode(buffer, offset_bytes, number),
        }
    }

    fn decode(&self, buffer: &Buffer, offset_bytes: u32, number: InodeNumber) -> Result<InodeCore> {
        let decode = || self.decode_bytes(&buffer.bytes(), offset_bytes, number);
        // The inode may have come into memory since, and may just be written in place. Then the
        // cluster has a later LSN than the cache knows of. Once the write has ended, the cache
        // knows it.
        decode().or_else(|_| {
            let record = find(&in_memory(buffer), number).and_then(|record| record.known_core());
            record.map_or_else(decode, Ok)
        })
    }

    fn decode_bytes(
        &self,
        cluster: &[u8],
        offset_bytes: u32,
        number: InodeNumber,
    ) -> Result<InodeCore> {
        let bytes = cluster.get(offset_bytes as usize..).expect("an inode lies in its cluster");
        let core = InodeCore::decode(bytes, number, self.geometry())?;
        core.verify(bytes, &self.cache().verify_context())?;
        Ok(core)
    }
}

/// Where the bytes of a cluster are.
enum ClusterSource {
    /// The bytes were read from the device into the scratch memory.
    OnDevice,
    /// The bytes are in this buffer. The list holds those records of the cluster's inodes that were
    /// in memory when the buffer was found. An inode without a record had no changes at that time.
    InMemory(Buffer, Vec<Arc<InodeRecord>>),
}

impl ClusterSource {
    fn of(buffer: Buffer) -> Self {
        let records = in_memory(&buffer);
        Self::InMemory(buffer, records)
    }
}

/// Returns the records in memory of the inodes of the cluster whose buffer is `buffer`.
fn in_memory(buffer: &Buffer) -> Vec<Arc<InodeRecord>> {
    buffer.attached::<BufferItem>().map_or_else(Vec::new, |item| item.records().live())
}

fn find(records: &[Arc<InodeRecord>], number: InodeNumber) -> Option<&Arc<InodeRecord>> {
    records.iter().find(|record| record.number() == number && record.is_live())
}
