//! The headers of a group, which hold the roots of its btrees.

use xfs_btree::Cursor;
use xfs_buffer::{BufferCache, Result};
use xfs_format::agf::{AGF_SECTOR, Agf, AgfCheck};
use xfs_format::agfl::{AGFL_SECTOR, Agfl};
use xfs_format::agi::{AGI_SECTOR, Agi, AgiCheck};
use xfs_format::free_space::{FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunks};
use xfs_format::refcount::Refcounts;
use xfs_format::rmap::ReverseMap;
use xfs_format::{
    AgBlock, AgNumber, BlockKind, Check, Corruption, DiskAddr, Geometry, Structure,
    StructureAddress,
};

/// Reads the free-space header (AGF) of a group.
///
/// # Errors
///
/// The device's error, or a corrupt header.
pub fn read_agf(cache: &BufferCache, group: AgNumber) -> Result<Agf> {
    let at = cache.geometry().header_disk_addr(group, AGF_SECTOR);
    read_header(cache, at, BlockKind::Agf, |bytes, geometry| Agf::decode(bytes, at, geometry))
}

/// Reads the inode header (AGI) of a group.
///
/// # Errors
///
/// The errors of [`read_agf`].
pub fn read_agi(cache: &BufferCache, group: AgNumber) -> Result<Agi> {
    let at = cache.geometry().header_disk_addr(group, AGI_SECTOR);
    read_header(cache, at, BlockKind::Agi, |bytes, geometry| Agi::decode(bytes, at, geometry))
}

/// Reads a header that holds the length of its group. If the volume is growing, the header may be
/// newer than the geometry that it was verified with; it is then decoded again with the new
/// geometry.
fn read_header<T>(
    cache: &BufferCache,
    at: DiskAddr,
    kind: BlockKind,
    decode: impl Fn(&[u8], &Geometry) -> core::result::Result<T, Corruption>,
) -> Result<T> {
    loop {
        let geometry = cache.geometry();
        let buffer = cache.read(at, geometry.sector_size, kind)?;
        let decoded = decode(&buffer.bytes(), geometry);
        match decoded {
            Err(_) if !core::ptr::eq(geometry, cache.geometry()) => {}
            decoded => return Ok(decoded?),
        }
    }
}

/// Reads the list of free blocks of a group, and returns its blocks in the order in which they will
/// be taken.
///
/// # Errors
///
/// The errors of [`read_agf`], or a free list that does not have the entries that the AGF names.
pub fn read_free_list(cache: &BufferCache, agf: &Agf) -> Result<Vec<AgBlock>> {
    let geometry = cache.geometry();
    let at = geometry.header_disk_addr(agf.group, AGFL_SECTOR);
    let buffer = cache.read(at, geometry.sector_size, BlockKind::Agfl)?;
    let bytes = buffer.bytes();
    let list = Agfl::decode(&bytes, at, geometry.version)?;
    Ok(list.blocks(agf.free_list)?.collect::<Result<_, _>>()?)
}

/// The two headers of a group (AGF and AGI) that hold the roots of its btrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgHeaders {
    /// The header with the roots of the free-space btrees, the reverse map and the reference
    /// counts.
    pub agf: Agf,
    /// The header with the roots of the inode btrees.
    pub agi: Agi,
}

impl AgHeaders {
    /// Reads both headers of a group.
    ///
    /// # Errors
    ///
    /// The errors of [`read_agf`].
    pub fn read(cache: &BufferCache, group: AgNumber) -> Result<Self> {
        Ok(Self { agf: read_agf(cache, group)?, agi: read_agi(cache, group)? })
    }

    /// Returns the number of the group.
    #[must_use]
    pub const fn group(&self) -> AgNumber {
        self.agf.group
    }

    /// Creates a cursor over the free extents in the order of their blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the root is invalid. The cursor reads the blocks later.
    pub fn free_space<'a>(&self, cache: &'a BufferCache) -> Result<Cursor<'a, FreeSpaceByBlock>> {
        Cursor::new(cache, self.group(), self.agf.free_space_by_block)
    }

    /// Creates a cursor over the free extents in the order of their lengths.
    ///
    /// # Errors
    ///
    /// The errors of [`free_space`](Self::free_space).
    pub fn free_space_by_size<'a>(
        &self,
        cache: &'a BufferCache,
    ) -> Result<Cursor<'a, FreeSpaceBySize>> {
        Cursor::new(cache, self.group(), self.agf.free_space_by_size)
    }

    /// Creates a cursor over the inode chunks in disk order.
    ///
    /// # Errors
    ///
    /// The errors of [`free_space`](Self::free_space).
    pub fn inode_chunks<'a>(&self, cache: &'a BufferCache) -> Result<Cursor<'a, InodeChunks>> {
        Cursor::new(cache, self.group(), self.agi.inode_btree)
    }

    /// Creates a cursor over the inode chunks that have free inodes; `None` on volumes without a
    /// free inode btree.
    ///
    /// # Errors
    ///
    /// The errors of [`free_space`](Self::free_space).
    pub fn free_inode_chunks<'a>(
        &self,
        cache: &'a BufferCache,
    ) -> Result<Option<Cursor<'a, FreeInodeChunks>>> {
        let root = self.agi.free_inode_btree;
        root.map(|root| Cursor::new(cache, self.group(), root)).transpose()
    }

    /// Creates a cursor over the mappings of the reverse map: extents with their owners. Returns
    /// `None` on volumes without a reverse map.
    ///
    /// # Errors
    ///
    /// The errors of [`free_space`](Self::free_space).
    pub fn reverse_map<'a>(
        &self,
        cache: &'a BufferCache,
    ) -> Result<Option<Cursor<'a, ReverseMap>>> {
        let root = self.agf.reverse_map;
        root.map(|root| Cursor::new(cache, self.group(), root)).transpose()
    }

    /// Creates a cursor over the reference count records: extents with more than one reference, and
    /// extents staged for copy-on-write. Returns `None` on volumes that cannot share extents.
    ///
    /// # Errors
    ///
    /// The errors of [`free_space`](Self::free_space).
    pub fn refcounts<'a>(&self, cache: &'a BufferCache) -> Result<Option<Cursor<'a, Refcounts>>> {
        let root = self.agf.refcount;
        root.map(|root| Cursor::new(cache, self.group(), root)).transpose()
    }

    /// Walks the free-space and inode btrees and compares the counters in the headers with the
    /// contents.
    ///
    /// # Errors
    ///
    /// The errors of a walk of each btree, or the first wrong counter.
    pub fn verify_counters(&self, cache: &BufferCache) -> Result<()> {
        self.verify_free_space(cache)?;
        self.verify_inodes(cache)
    }

    fn verify_free_space(&self, cache: &BufferCache) -> Result<()> {
        let (mut free, mut longest) = (0_u64, 0);
        for record in self.free_space(cache)?.records() {
            let count = record?.count;
            free += u64::from(count);
            longest = longest.max(count);
        }
        let by_size = self.free_space_by_size(cache)?.last()?.map_or(0, |record| record.count);
        let counters = [
            ("free blocks", self.agf.free_blocks, free),
            ("blocks of the longest free extent", self.agf.longest_free_blocks, longest.into()),
            ("blocks of the longest free extent", self.agf.longest_free_blocks, by_size.into()),
        ];
        for (what, stored, counted) in counters {
            if u64::from(stored) != counted {
                let check = AgfCheck::Counted { what, stored, counted };
                return Err(self.corrupt(Structure::Agf, check.into()).into());
            }
        }
        Ok(())
    }

    fn verify_inodes(&self, cache: &BufferCache) -> Result<()> {
        let (mut count, mut free_count) = (0_u64, 0_u64);
        for record in self.inode_chunks(cache)?.records() {
            let chunk = record?;
            count += u64::from(chunk.count);
            free_count += u64::from(chunk.free_count);
        }
        let mut in_free_btree = free_count;
        if let Some(chunks) = self.free_inode_chunks(cache)? {
            in_free_btree = 0;
            for record in chunks.records() {
                in_free_btree += u64::from(record?.free_count);
            }
        }
        let counters = [
            ("inodes", self.agi.count, count),
            ("free inodes", self.agi.free_count, free_count),
            ("free inodes", self.agi.free_count, in_free_btree),
        ];
        for (what, stored, counted) in counters {
            if u64::from(stored) != counted {
                let check = AgiCheck::Counted { what, stored, counted };
                return Err(self.corrupt(Structure::Agi, check.into()).into());
            }
        }
        Ok(())
    }

    fn corrupt(&self, structure: Structure, check: Check) -> Corruption {
        Corruption::new(structure, StructureAddress::Group(self.group()), check)
    }
}
