//! One fork of an inode in memory.
//!
//! Owns: the forms of a fork, and decoding a fork from the inode's bytes. Does **not** own reading
//! the blocks of an extent btree.

use std::sync::Arc;

use xfs_btree::ForkRoot;
use xfs_buffer::Result;
use xfs_format::extent::{EXTENT_BYTES, ExtentList, ExtentRules};
use xfs_format::inode::{self, ForkFormat, ForkKind, InodeCore};
use xfs_format::{Check, Corruption, FileBlock, Geometry, Structure, StructureAddress};
use xfs_sync::{Object, SetOnce};
use xfs_trans::ForkBytes;
use zerocopy::IntoBytes;

use crate::extent_map::ExtentMap;
use crate::fork_room;

/// The form and the contents of a fork.
#[derive(Debug)]
pub enum Fork {
    /// The inode does not have this fork.
    Absent,
    /// The fork of a device file, which holds a device number, or of a pipe or socket, which holds
    /// nothing.
    Device,
    /// The contents themselves, stored in the inode.
    Local(Arc<[u8]>),
    /// A list of extents, stored in the inode.
    Extents(ExtentMap),
    /// A btree of extents, with its root in the inode.
    Btree(Box<BtreeFork>),
    /// The root of a btree that holds no extents, in a metadata inode of the realtime section.
    MetadataBtree,
}

/// The root of an extent btree, and the map once it has been loaded.
#[derive(Debug)]
pub struct BtreeFork {
    root: Box<[u8]>,
    pub(crate) map: SetOnce<ExtentMap, Object>,
}

impl BtreeFork {
    /// Returns the bytes that the fork has in the inode. They hold the root of the btree.
    #[must_use]
    pub fn root(&self) -> &[u8] {
        &self.root
    }
}

impl Fork {
    /// Decodes one fork of the inode in `bytes`. The inode has passed its verifier.
    pub(crate) fn decode(
        bytes: &[u8],
        core: &InodeCore,
        kind: ForkKind,
        geometry: &Geometry,
    ) -> Result<Self> {
        Self::decode_room(inode::fork(bytes, core, kind), core, kind, geometry)
    }

    /// Decodes a fork from the bytes that it has in its inode. Unused bytes at the end may be
    /// missing.
    pub(crate) fn decode_room(
        fork: &[u8],
        core: &InodeCore,
        kind: ForkKind,
        geometry: &Geometry,
    ) -> Result<Self> {
        Ok(match core.fork_format(kind) {
            None => Self::Absent,
            Some(ForkFormat::Device | ForkFormat::Uuid) => Self::Device,
            Some(ForkFormat::MetadataBtree) => Self::MetadataBtree,
            Some(ForkFormat::Local) => Self::Local(local_contents(fork, core, kind).into()),
            Some(ForkFormat::Btree) => {
                Self::Btree(Box::new(BtreeFork { root: fork.into(), map: SetOnce::new() }))
            }
            Some(ForkFormat::Extents) if core.fork_extents(kind) == 0 => {
                Self::Extents(ExtentMap::default())
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

    /// Decodes `bytes`, the used bytes of a fork, as [`decode_room`](Self::decode_room) does, but
    /// copies the bytes only where necessary.
    pub(crate) fn from_bytes(
        bytes: ForkBytes,
        core: &InodeCore,
        kind: ForkKind,
        geometry: &Geometry,
    ) -> Result<Self> {
        match core.fork_format(kind) {
            Some(ForkFormat::Local) => Ok(Self::Local(bytes.into_shared())),
            _ => Self::decode_room(&bytes, core, kind, geometry),
        }
    }

    /// Returns the extent map; `None` if it has not been loaded into memory.
    pub(crate) fn loaded_map(&self) -> Option<&ExtentMap> {
        match self {
            Self::Extents(map) => Some(map),
            Self::Btree(btree) => btree.map.value(),
            _ => None,
        }
    }

    /// Encodes the used bytes of the fork as they are stored in the inode. For the root of a btree
    /// these are all bytes of the fork, because the offsets of the root's parts depend on the size
    /// of the fork.
    pub(crate) fn encode(&self) -> ForkBytes {
        match self {
            Self::Absent | Self::Device | Self::MetadataBtree => ForkBytes::NONE,
            Self::Local(bytes) => ForkBytes::Shared(Arc::clone(bytes)),
            Self::Btree(btree) => ForkBytes::Own(btree.root.to_vec()),
            Self::Extents(map) => {
                let mut bytes = Vec::with_capacity(map.count() * EXTENT_BYTES);
                for extent in map.iter() {
                    // A map holds verified or allocated extents, and both fit a record.
                    assert!(extent.encode().is_some(), "an extent of the map fits its record");
                    extent.encode().iter().for_each(|disk| bytes.extend(disk.as_bytes()));
                }
                ForkBytes::Own(bytes)
            }
        }
    }
}

impl BtreeFork {
    /// Creates the fork from the root of its btree and its extent map.
    pub(crate) fn of_root(root: &ForkRoot, map: ExtentMap) -> Self {
        let mut bytes = vec![0; fork_room::root_bytes(root.capacity)];
        root.encode(&mut bytes);
        Self { root: bytes.into(), map: SetOnce::holding(map) }
    }

    /// Returns the extent map; `None` if it was not loaded.
    pub(crate) fn into_map(self) -> Option<ExtentMap> {
        self.map.into_inner()
    }
}

/// Returns the bytes of `fork` that its contents use, for contents stored in the inode. In a data
/// fork their number is the size of the file. In an attribute fork the contents hold their own
/// size.
fn local_contents<'a>(fork: &'a [u8], core: &InodeCore, kind: ForkKind) -> &'a [u8] {
    match kind {
        ForkKind::Data => {
            fork.get(..core.size as usize).expect("the verifier has compared size and fork")
        }
        ForkKind::Attr => fork,
    }
}

/// Returns the error for a corruption of the extents of an inode.
pub(crate) fn corrupt(core: &InodeCore, check: impl Into<Check>) -> Corruption {
    Corruption::new(Structure::Extent, StructureAddress::Inode(core.number), check)
}
