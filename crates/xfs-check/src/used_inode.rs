//! An inode in use: its core, its bytes and its type.
//!
//! Owns: the type `Inode`, in which form other modules pass an inode to the checks of its forks,
//! and reading a single inode. Does **not** own: the checks of an inode (`inode.rs`).

use xfs_format::inode::{FileType, ForkKind, InodeCore, InodeFlags2, fork};
use xfs_format::rmap::RmapOwner;
use xfs_format::{DiskAddr, Geometry, InodeNumber};

use crate::blocks::{Evidence, Volume};
use crate::facts::{DirectoryLinks, Owner};
use crate::finding::Place;

/// An inode in use: its decoded core, all its bytes, and its type.
pub(crate) struct Inode<'b> {
    pub(crate) core: InodeCore,
    pub(crate) bytes: &'b [u8],
    pub(crate) file_type: FileType,
}

impl Inode<'_> {
    pub(crate) fn number(&self) -> InodeNumber {
        self.core.number
    }

    pub(crate) fn fork(&self, kind: ForkKind) -> &[u8] {
        fork(self.bytes, &self.core, kind)
    }

    /// Returns whether a flag of the inode says that it belongs to the metadata directory.
    pub(crate) fn is_metadata(&self) -> bool {
        self.core.flags2.contains(InodeFlags2::METADATA)
    }

    /// Returns the links of this directory to itself and to its parent.
    pub(crate) fn links_to(&self, parent: InodeNumber) -> DirectoryLinks {
        DirectoryLinks { directory: self.number(), parent, is_metadata: self.is_metadata() }
    }

    pub(crate) fn place(&self, geometry: &Geometry) -> Place {
        Place::of_inode(self.core.number, geometry)
    }
}

/// Reads and verifies one inode. Reports no findings: for an inode that cannot be used, returns
/// `None`.
pub(crate) fn read_inode(volume: Volume<'_>, number: InodeNumber) -> Option<(InodeCore, Vec<u8>)> {
    let geometry = volume.geometry();
    let location = geometry.inode_location(number)?;
    let at = DiskAddr(location.cluster.0 + u64::from(location.offset_bytes / 512));
    let mut bytes = vec![0; geometry.inode_size as usize];
    volume.read(at, &mut bytes).ok()?;
    let core = InodeCore::decode(&bytes, number, geometry).ok()?;
    let verdict = core.verify(&bytes, &volume.context());
    let is_usable =
        verdict.err().is_none_or(|corruption| Evidence::left_by(&corruption) != Evidence::None);
    is_usable.then_some((core, bytes))
}

/// Returns the owner of an inode's blocks.
pub(crate) const fn owner_of(inode: InodeNumber) -> Owner {
    Owner::Used(RmapOwner::Inode(inode))
}
