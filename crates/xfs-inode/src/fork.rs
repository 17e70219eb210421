//! One fork of an inode in memory.
//!
//! Owns: the five forms, and decoding them from the inode's bytes. Does **not** own: reading the
//! blocks of an extent btree.

use xfs_buffer::Result;
use xfs_format::extent::{ExtentList, ExtentRules};
use xfs_format::inode::{self, ForkFormat, ForkKind, InodeCore};
use xfs_format::{Check, Corruption, FileBlock, Geometry, Place, Structure};
use xfs_sync::{Object, SetOnce};

use crate::extent_map::ExtentMap;

/// What a fork holds.
#[derive(Debug)]
pub enum Fork {
    /// There is no such fork.
    Absent,
    /// A device number, or the nothing that pipes and sockets have.
    Device,
    /// The contents themselves.
    Local(Box<[u8]>),
    /// Few extents.
    Extents(ExtentMap),
    /// Many extents, in a btree.
    Btree(BtreeFork),
    /// The root of a btree that is not of extents: a metadata inode of the realtime section.
    MetadataBtree,
}

/// The root of an extent btree, and the map once it has been loaded.
#[derive(Debug)]
pub struct BtreeFork {
    root: Box<[u8]>,
    pub(crate) map: SetOnce<ExtentMap, Object>,
}

impl BtreeFork {
    /// The bytes of the fork, which hold the root.
    #[must_use]
    pub fn root(&self) -> &[u8] {
        &self.root
    }
}

impl Fork {
    /// Decodes a fork of the inode in `bytes`, which passed its verifier.
    pub(crate) fn decode(
        bytes: &[u8],
        core: &InodeCore,
        kind: ForkKind,
        geometry: &Geometry,
    ) -> Result<Self> {
        let fork = inode::fork(bytes, core, kind);
        Ok(match core.fork_format(kind) {
            None => Self::Absent,
            Some(ForkFormat::Device | ForkFormat::Uuid) => Self::Device,
            Some(ForkFormat::MetadataBtree) => Self::MetadataBtree,
            Some(ForkFormat::Local) => Self::Local(local_contents(fork, core, kind).into()),
            Some(ForkFormat::Btree) => {
                Self::Btree(BtreeFork { root: fork.into(), map: SetOnce::new() })
            }
            Some(ForkFormat::Extents) => {
                let rules = ExtentRules::of(core, kind, geometry);
                let extents = ExtentList::decode(fork, core.fork_extents(kind))
                    .and_then(|list| list.verify(FileBlock(0), &rules).map(|_| list))
                    .map_err(|check| corrupt(core, check))?;
                Self::Extents(ExtentMap::from_verified(extents.iter().collect()))
            }
        })
    }
}

/// The data fork holds as many bytes as the inode has; the attribute fork says inside how many.
fn local_contents<'a>(fork: &'a [u8], core: &InodeCore, kind: ForkKind) -> &'a [u8] {
    let size = usize::try_from(core.size).unwrap_or(usize::MAX);
    match kind {
        ForkKind::Data => fork.get(..size).unwrap_or(fork),
        ForkKind::Attr => fork,
    }
}

/// A finding about the extents of an inode.
pub(crate) fn corrupt(core: &InodeCore, check: impl Into<Check>) -> Corruption {
    Corruption::new(Structure::Extent, Place::Inode(core.number), check)
}
