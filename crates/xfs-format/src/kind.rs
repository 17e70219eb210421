//! Kinds of metadata buffers: how each is verified after a read and sealed before a write.
//!
//! Owns: the table that gives each kind its verifier. The verifier of a kind checks magic number,
//! checksum, UUID, address, LSN and every bound inside the buffer. It does **not** check the
//! properties that the path to the buffer requires (owner, level, sibling): the code that follows
//! the pointer checks them.

use core::ops::Range;

pub use crate::block_kind::BlockKind;
pub use crate::verify_context::VerifyContext;

use crate::addr::{DiskAddr, Lsn};
use crate::btree::{self, BtreeKind};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope::Envelope;
use crate::features::FormatVersion;
use crate::geometry::Geometry;
use crate::realtime::RealtimeBlockKind;
use crate::{agf, agfl, agi, attr, crc, dabtree, directory, dquot, superblock, symlink};

impl BlockKind {
    /// Returns the kind of structure under which corruption of a buffer of this kind is reported.
    #[must_use]
    pub const fn structure(self) -> Structure {
        match self {
            Self::Superblock => Structure::Superblock,
            Self::Agf => Structure::Agf,
            Self::Agi => Structure::Agi,
            Self::Agfl => Structure::Agfl,
            Self::Btree(_) => Structure::Btree,
            Self::InodeCluster => Structure::Inode,
            Self::DirectoryData | Self::DirectoryIndex | Self::DirectoryFree => {
                Structure::Directory
            }
            Self::Attr | Self::AttrRemote => Structure::Attr,
            Self::Symlink => Structure::Symlink,
            Self::Dquots => Structure::Dquot,
            Self::RealtimeBitmap
            | Self::RealtimeSummary
            | Self::RealtimeGroupBitmap
            | Self::RealtimeGroupSummary => Structure::RealtimeMetadata,
        }
    }

    /// Checks the bytes of a buffer that was read from `at`.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify(
        self,
        bytes: &[u8],
        at: DiskAddr,
        context: &VerifyContext<'_>,
    ) -> Result<(), Corruption> {
        let (structure, verify): (Structure, Verifier) = match self {
            Self::Superblock => return superblock::verify_copy(bytes, at, context),
            // A bad inode must not make its neighbours unreadable. Each is verified when decoded.
            Self::InodeCluster => return Ok(()),
            // Nothing in these blocks says what they are.
            Self::RealtimeBitmap | Self::RealtimeSummary => return Ok(()),
            Self::RealtimeGroupBitmap => {
                return RealtimeBlockKind::Bitmap.verify_whole(bytes, at, context);
            }
            Self::RealtimeGroupSummary => {
                return RealtimeBlockKind::Summary.verify_whole(bytes, at, context);
            }
            // Links and remote values of a v4 volume have no header.
            Self::Symlink | Self::AttrRemote if context.geometry.version == FormatVersion::V4 => {
                return Ok(());
            }
            Self::AttrRemote => return attr::remote::verify(bytes, at, context),
            Self::Btree(kind) => {
                let checked = btree::verify(bytes, kind, at, context);
                return checked.map_err(|check| corrupt(self.structure(), at, check));
            }
            Self::DirectoryIndex | Self::Attr if dabtree::is_node(bytes) => {
                (Structure::DaBtree, dabtree::verify)
            }
            Self::Agf => (self.structure(), agf::verify),
            Self::Agi => (self.structure(), agi::verify),
            Self::Agfl => (self.structure(), agfl::verify),
            Self::DirectoryData => (self.structure(), directory::data::verify),
            Self::DirectoryIndex => (self.structure(), directory::leaf::verify),
            Self::DirectoryFree => (self.structure(), directory::free::verify),
            Self::Attr => (self.structure(), attr::leaf::verify),
            Self::Symlink => (self.structure(), symlink::verify),
            Self::Dquots => (self.structure(), dquot::verify),
        };
        verify(bytes, at, context).map_err(|check| corrupt(structure, at, check))
    }

    /// Stores the LSN and the checksum before the buffer is written. The buffer belongs to a v5
    /// volume.
    ///
    /// The code that changes inodes, remote attribute blocks and dquots seals each of them. This
    /// function does not change such buffers.
    ///
    /// # Panics
    ///
    /// Panics if `bytes` is shorter than the structure's header: a mistake of the caller.
    pub fn seal(self, bytes: &mut [u8], lsn: Lsn) {
        if self == Self::Superblock {
            return superblock::seal_logged(bytes, lsn);
        }
        if let Some(envelope) = self.envelope() {
            envelope.seal(bytes, lsn);
        }
    }

    /// Stores the address of the block in a buffer that moves to `at`. The caller seals the buffer
    /// afterwards. Buffers without such a field stay as they are. The buffer belongs to a v5
    /// volume.
    ///
    /// # Panics
    ///
    /// Panics if `bytes` is shorter than the structure's header: a mistake of the caller.
    pub fn set_address(self, bytes: &mut [u8], at: DiskAddr) {
        if let Some(envelope) = self.envelope() {
            envelope.set_address(bytes, at);
        }
    }

    /// Returns the byte ranges that [`seal`](Self::seal) writes: the LSN and the checksum. In these
    /// ranges, the log has older bytes than the disk. Returns `None` for buffers that `seal` leaves
    /// as they are, and for the superblock.
    #[must_use]
    pub fn sealed_ranges(self) -> Option<[Range<usize>; 2]> {
        let Envelope { crc, lsn, .. } = *self.envelope()?;
        Some([lsn..lsn + size_of::<u64>(), crc..crc + crc::CRC_BYTES])
    }

    /// Returns the offsets of the fields that most blocks have: checksum, own address, UUID and
    /// LSN. Returns `None` for buffers that hold several structures, such as inodes, and for the
    /// superblock, whose UUID field depends on a feature.
    fn envelope(self) -> Option<&'static Envelope> {
        match self {
            Self::Superblock
            | Self::InodeCluster
            | Self::AttrRemote
            | Self::Dquots
            | Self::RealtimeBitmap
            | Self::RealtimeSummary => None,
            Self::Agf => Some(&agf::ENVELOPE),
            Self::Agi => Some(&agi::ENVELOPE),
            Self::Agfl => Some(&agfl::ENVELOPE),
            Self::Btree(kind) => Some(btree::envelope_of(kind.layout().form)),
            Self::DirectoryData | Self::DirectoryFree => Some(&directory::data::ENVELOPE),
            Self::DirectoryIndex | Self::Attr => Some(&dabtree::ENVELOPE),
            Self::Symlink => Some(&symlink::ENVELOPE),
            Self::RealtimeGroupBitmap | Self::RealtimeGroupSummary => {
                Some(RealtimeBlockKind::Bitmap.envelope())
            }
        }
    }
}

/// A function that checks the bytes of one structure, read from an address.
type Verifier = fn(&[u8], DiskAddr, &VerifyContext<'_>) -> Result<(), Check>;

#[cold]
fn corrupt(structure: Structure, at: DiskAddr, check: Check) -> Corruption {
    Corruption::new(structure, StructureAddress::Disk(at), check)
}

/// Returns the LSN of the block in `bytes`, whatever its kind.
///
/// Returns `None` if the block has no LSN of its own: inodes, remote values, blocks that were never
/// logged, blocks of another volume or of a v4 volume, and bytes that are not metadata. Nothing
/// else of the block is checked, because its checksum may be wrong after a crash.
#[doc(alias = "xlog_recover_get_buf_lsn")]
#[must_use]
pub fn find_lsn(bytes: &[u8], geometry: &Geometry) -> Option<Lsn> {
    let magic = u32::from_be_bytes(*bytes.first_chunk()?);
    if geometry.version == FormatVersion::V4 {
        return None;
    }
    let envelope = match magic {
        superblock::SUPERBLOCK_MAGIC => return superblock::find_lsn(bytes, geometry),
        agf::AGF_MAGIC => &agf::ENVELOPE,
        agi::AGI_MAGIC => &agi::ENVELOPE,
        agfl::AGFL_MAGIC => &agfl::ENVELOPE,
        symlink::SYMLINK_MAGIC => &symlink::ENVELOPE,
        directory::data::BLOCK_MAGIC
        | directory::data::DATA_MAGIC
        | directory::free::FREE_MAGIC => &directory::data::ENVELOPE,
        _ => match (BtreeKind::of_magic(magic), dabtree::magic(bytes)) {
            (Some(kind), _) => btree::envelope_of(kind.layout().form),
            (
                None,
                Some(
                    dabtree::NODE_MAGIC
                    | directory::leaf::LEAF1_MAGIC
                    | directory::leaf::LEAFN_MAGIC
                    | attr::leaf::LEAF_MAGIC,
                ),
            ) => &dabtree::ENVELOPE,
            _ => return None,
        },
    };
    let lsn = envelope.find_lsn(bytes, geometry.meta_uuid)?;
    (lsn.0 != 0 && !lsn.is_null()).then_some(lsn)
}
