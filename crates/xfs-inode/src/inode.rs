//! The in-core inode.
//!
//! Owns: reading an inode by number, and access to its contents. Does **not** own a cache of
//! inodes, or their locks.
//!
//! An inode never changes after it was read, unless it is the view of a
//! [`LiveInode`](crate::LiveInode). The map of a btree fork is loaded on first use.

use xfs_alloc::{InodeState, inode_state};
use xfs_buffer::{Buffer, BufferCache, Error, PosixError, Result};
use xfs_format::inode::{FileType, ForkKind, InodeCheck, InodeCore};
use xfs_format::{
    BlockKind, Corruption, DiskAddr, FileBlock, Geometry, InodeNumber, Structure, StructureAddress,
    VerifyContext,
};
use xfs_trans::InodeImage;

use crate::extent_map::{ExtentMap, Mapping};
use crate::fork::Fork;

/// The panic message for an inode whose place lies outside of its cluster.
const IN_CLUSTER: &str = "an inode lies in its cluster";

/// An inode in memory. It was verified, and is not free.
#[doc(alias = "xfs_inode")]
#[derive(Debug)]
pub struct Inode {
    core: InodeCore,
    file_type: FileType,
    data: Fork,
    attr: Fork,
}

impl Inode {
    /// Reads inode `number` from the inode cluster that contains it.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotFound`] for a number outside the volume and for a free inode; the device's
    /// error; the check that failed.
    #[doc(alias = "xfs_iget")]
    pub fn read(cache: &BufferCache, number: InodeNumber) -> Result<Self> {
        let place = cache.geometry().inode_location(number).ok_or(PosixError::NotFound)?;
        let (at, length_bytes, kind) =
            (place.cluster, place.cluster_bytes, BlockKind::InodeCluster);
        let decode = |cluster: Buffer| {
            let bytes = cluster.bytes();
            let inode = bytes.get(place.offset_bytes as usize..).expect(IN_CLUSTER);
            Self::decode(inode, number, &cache.verify_context())
        };
        let mut outcome = decode(cache.read(at, length_bytes, kind)?);
        // The verifier of a cluster does not check its inodes. The second read on a live volume is
        // therefore done here.
        for _ in 0..cache.rereads() {
            if !matches!(outcome, Err(Error::Corrupt(_))) {
                break;
            }
            outcome = decode(cache.read_fresh(at, length_bytes, kind)?);
        }
        outcome
    }

    /// Reads several inodes in order, as [`read`](Self::read) does. Consecutive inodes of one inode
    /// cluster need only one lookup of the cluster's buffer.
    pub fn read_each(cache: &BufferCache, numbers: &[InodeNumber]) -> Vec<Result<Self>> {
        let mut last: Option<(DiskAddr, Buffer)> = None;
        let mut read = |number: InodeNumber| {
            let place = cache.geometry().inode_location(number).ok_or(PosixError::NotFound)?;
            let cluster = match last.take().filter(|(at, _)| *at == place.cluster) {
                Some((_, cluster)) => cluster,
                None => cache.read(place.cluster, place.cluster_bytes, BlockKind::InodeCluster)?,
            };
            let bytes = cluster.bytes();
            let inode = bytes.get(place.offset_bytes as usize..).expect(IN_CLUSTER);
            let outcome = Self::decode(inode, number, &cache.verify_context());
            drop(bytes);
            last = Some((place.cluster, cluster));
            match outcome {
                // Another thread may have been writing the cluster.
                Err(Error::Corrupt(_)) if cache.rereads() > 0 => Self::read(cache, number),
                outcome => outcome,
            }
        };
        numbers.iter().map(|number| read(*number)).collect()
    }

    /// Decodes and verifies inode `number` at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotFound`] for a free inode; the check that failed.
    pub fn decode(bytes: &[u8], number: InodeNumber, context: &VerifyContext<'_>) -> Result<Self> {
        let geometry = context.geometry;
        let core = InodeCore::decode(bytes, number, geometry)?;
        core.verify(bytes, context)?;
        if core.is_free() {
            return Err(PosixError::NotFound.into());
        }
        let bytes = bytes.get(..geometry.inode_size as usize);
        let bytes = bytes.expect("the verifier has refused an inode that is cut short");
        let file_type = core.file_type().ok_or_else(|| {
            let check = InodeCheck::Mode { mode: core.mode };
            Corruption::new(Structure::Inode, StructureAddress::Inode(number), check)
        })?;
        let data = Fork::decode(bytes, &core, ForkKind::Data, geometry)?;
        let attr = Fork::decode(bytes, &core, ForkKind::Attr, geometry)?;
        Ok(Self { core, file_type, data, attr })
    }

    /// Reads inode `number`, where the inode number comes from outside this volume's own
    /// structures: from a user, or from a file handle. Looks the number up in the inode btree
    /// first, because a file may contain bytes that look like an inode.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotFound`] for an inode that is not in use, or the errors of
    /// [`read`](Self::read).
    #[doc(alias = "XFS_IGET_UNTRUSTED")]
    pub fn read_untrusted(cache: &BufferCache, number: InodeNumber) -> Result<Self> {
        match inode_state(cache, number)? {
            InodeState::Allocated => Self::read(cache, number),
            InodeState::Free | InodeState::Absent => Err(PosixError::NotFound.into()),
        }
    }

    /// Reads inode `number` if the inode still has the generation `generation`.
    ///
    /// # Errors
    ///
    /// [`PosixError::Stale`] if the inode is not in use or has another generation, or the errors of
    /// [`read`](Self::read).
    pub fn read_generation(
        cache: &BufferCache,
        number: InodeNumber,
        generation: u32,
    ) -> Result<Self> {
        match Self::read_untrusted(cache, number) {
            Ok(inode) if inode.core.generation != generation => Err(PosixError::Stale.into()),
            Err(Error::Posix(PosixError::NotFound)) => Err(PosixError::Stale.into()),
            other => other,
        }
    }

    /// Creates the inode from `image`, the copy of the inode that its log item holds.
    #[inline]
    pub(crate) fn from_image(image: InodeImage, geometry: &Geometry) -> Result<Self> {
        let InodeImage { core, data, attr } = image;
        let file_type = core.file_type().ok_or(PosixError::NotFound)?;
        let data = Fork::from_bytes(data, &core, ForkKind::Data, geometry)?;
        let attr = Fork::from_bytes(attr, &core, ForkKind::Attr, geometry)?;
        Ok(Self { core, file_type, data, attr })
    }

    /// Returns the core and one fork, to change both.
    pub(crate) const fn parts_mut(&mut self, kind: ForkKind) -> (&mut InodeCore, &mut Fork) {
        match kind {
            ForkKind::Data => (&mut self.core, &mut self.data),
            ForkKind::Attr => (&mut self.core, &mut self.attr),
        }
    }

    /// Returns the core, to change it.
    pub(crate) const fn core_mut(&mut self) -> &mut InodeCore {
        &mut self.core
    }

    /// Returns the core: all fields of the inode except the forks.
    #[must_use]
    pub const fn core(&self) -> &InodeCore {
        &self.core
    }

    /// Returns the inode number.
    #[must_use]
    pub const fn number(&self) -> InodeNumber {
        self.core.number
    }

    /// Returns the type of the file.
    #[must_use]
    pub const fn file_type(&self) -> FileType {
        self.file_type
    }

    /// Returns whether this is a regular file whose flag says that its contents are in the realtime
    /// section.
    pub(crate) fn has_realtime_contents(&self) -> bool {
        self.core.is_realtime() && self.file_type == FileType::Regular
    }

    /// Returns the number of blocks in the realtime section. The map of a file with realtime
    /// contents must be loaded.
    pub(crate) fn realtime_blocks(&self) -> u64 {
        if !self.has_realtime_contents() {
            return 0;
        }
        let map = self.fork(ForkKind::Data).loaded_map();
        map.expect("the map is loaded before realtime blocks are counted").blocks()
    }

    /// Returns a fork of the inode.
    #[inline]
    #[must_use]
    pub const fn fork(&self, kind: ForkKind) -> &Fork {
        match kind {
            ForkKind::Data => &self.data,
            ForkKind::Attr => &self.attr,
        }
    }

    /// Returns the extent map of a fork; it is empty if the fork has no extents. The first call for
    /// a btree reads the whole btree.
    ///
    /// # Errors
    ///
    /// The device's error, or the check that failed.
    #[inline]
    pub fn extent_map(&self, cache: &BufferCache, kind: ForkKind) -> Result<&ExtentMap> {
        match self.fork(kind) {
            Fork::Extents(map) => Ok(map),
            Fork::Btree(btree) => {
                if let Some(map) = btree.map.value() {
                    return Ok(map);
                }
                let map = ExtentMap::collect(self.extents(cache, kind))?;
                // Another thread may have loaded the same map first.
                Ok(btree.map.value_or_init(|| map))
            }
            Fork::Absent | Fork::Device | Fork::Local(_) | Fork::MetadataBtree => {
                Ok(ExtentMap::EMPTY)
            }
        }
    }

    /// Returns the mapping of file block `block` in a fork.
    ///
    /// # Errors
    ///
    /// The errors of [`extent_map`](Self::extent_map).
    pub fn find(&self, cache: &BufferCache, kind: ForkKind, block: FileBlock) -> Result<Mapping> {
        Ok(self.extent_map(cache, kind)?.find(block))
    }
}

#[cfg(test)]
mod tests;
