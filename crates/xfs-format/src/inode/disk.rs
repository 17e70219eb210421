//! The core of an inode on disk (`xfs_dinode`), field by field.

use core::mem::{offset_of, size_of};

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::InodeFlags2;

/// The core of an inode on disk.
#[doc(alias = "xfs_dinode")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `InodeCore`, documented there")]
pub struct InodeDisk {
    pub magic: U16,
    pub mode: U16,
    pub version: u8,
    pub data_format: u8,
    pub old_nlink: U16,
    pub uid: U32,
    pub gid: U32,
    pub nlink: U32,
    pub project_id_low: U16,
    pub project_id_high: U16,
    /// Number of extents of the data fork if the inode has 64-bit counters, else 0.
    pub big_extents: U64,
    pub access_time: U64,
    pub modify_time: U64,
    pub change_time: U64,
    pub size: U64,
    pub blocks: U64,
    pub extent_size_hint: U32,
    /// Number of extents of the data fork, or of the attribute fork if the inode has 64-bit
    /// counters.
    pub extents: U32,
    /// Number of extents of the attribute fork, or 0 if the inode has 64-bit counters.
    pub attr_extents: U16,
    pub fork_offset: u8,
    pub attr_format: u8,
    pub dmapi_event_mask: U32,
    pub dmapi_state: U16,
    pub flags: U16,
    pub generation: U32,
    pub next_unlinked: U32,
    pub crc: [u8; 4],
    pub change_count: U64,
    pub lsn: U64,
    pub flags2: U64,
    pub cow_extent_size_hint: U32,
    pub pad: [u8; 12],
    pub birth_time: U64,
    pub number: U64,
    pub uuid: [u8; 16],
}

const _: () = assert!(size_of::<InodeDisk>() == 176);
const _: () = assert!(offset_of!(InodeDisk, size) == 56);
const _: () = assert!(offset_of!(InodeDisk, fork_offset) == 82);
const _: () = assert!(offset_of!(InodeDisk, crc) == 100);
const _: () = assert!(offset_of!(InodeDisk, number) == 152);

impl InodeDisk {
    /// Returns the numbers of extents of the data fork and of the attribute fork, from the fields
    /// that this inode uses.
    #[inline]
    pub(super) fn extent_counts(&self) -> (u64, u32) {
        if self.flags2.get() & InodeFlags2::NREXT64.bits() != 0 {
            (self.big_extents.get(), self.extents.get())
        } else {
            (self.extents.get().into(), self.attr_extents.get().into())
        }
    }
}
