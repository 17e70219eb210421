//! Encoding of the core of an inode, and of the free inodes of a new chunk.

use zerocopy::{FromBytes, FromZeros};

use super::{INODE_MAGIC, INODE_VERSION, InodeCore, InodeDisk, InodeFlags2, seal};
use crate::addr::{AgInode, InodeNumber, Lsn};
use crate::geometry::Geometry;
use crate::timestamp::{self, Timestamp};

impl InodeCore {
    /// Encodes the core. Returns `None` if a time or an extent count does not fit the form that the
    /// inode's flags select. [`seal`] stores LSN and checksum.
    #[must_use]
    pub fn encode(&self, geometry: &Geometry) -> Option<InodeDisk> {
        let time = |time: Timestamp| match self.flags2.contains(InodeFlags2::BIGTIME) {
            true => timestamp::encode_bigtime(time),
            false => timestamp::encode_legacy(time),
        };
        let mut disk = InodeDisk {
            magic: INODE_MAGIC.into(),
            mode: self.mode.into(),
            version: INODE_VERSION,
            data_format: self.data_format.encode(),
            old_nlink: self.metafile_type.into(),
            uid: self.uid.into(),
            gid: self.gid.into(),
            nlink: self.nlink.into(),
            project_id_low: (self.project_id as u16).into(),
            project_id_high: ((self.project_id >> 16) as u16).into(),
            access_time: time(self.access_time)?.into(),
            modify_time: time(self.modify_time)?.into(),
            change_time: time(self.change_time)?.into(),
            size: self.size.into(),
            blocks: self.blocks.into(),
            extent_size_hint: self.extent_size_hint_blocks.into(),
            fork_offset: self.fork_offset,
            attr_format: self.attr_format.encode(),
            flags: self.flags.bits().into(),
            generation: self.generation.into(),
            next_unlinked: self.next_unlinked.0.into(),
            change_count: self.change_count.into(),
            flags2: self.flags2.bits().into(),
            cow_extent_size_hint: self.cow_extent_size_hint_blocks.into(),
            birth_time: time(self.birth_time)?.into(),
            number: self.number.0.into(),
            uuid: geometry.meta_uuid.into_bytes(),
            ..InodeDisk::new_zeroed()
        };
        if self.flags2.contains(InodeFlags2::NREXT64) {
            disk.big_extents = self.extents.into();
            disk.extents = self.attr_extents.into();
        } else {
            disk.extents = u32::try_from(self.extents).ok()?.into();
            disk.attr_extents = u16::try_from(self.attr_extents).ok()?.into();
        }
        Some(disk)
    }

    /// Replaces each time that is outside the range of the form selected by the inode's flags. The
    /// replacement is the nearest time of that range.
    #[doc(alias = "timestamp_truncate")]
    pub fn clamp_times(&mut self) {
        let is_bigtime = self.flags2.contains(InodeFlags2::BIGTIME);
        let Self { access_time, modify_time, change_time, birth_time, .. } = self;
        for time in [access_time, modify_time, change_time, birth_time] {
            *time = if is_bigtime { time.clamp_bigtime() } else { time.clamp_legacy() };
        }
    }
}

/// Writes free inodes into `bytes`, as in a new chunk. `first` is the number of the first inode.
/// `bytes` must be zeros with the length of a whole number of inodes.
#[doc(alias = "xfs_ialloc_inode_init")]
pub fn encode_free(first: InodeNumber, generation: u32, geometry: &Geometry, bytes: &mut [u8]) {
    let slots = bytes.chunks_exact_mut(geometry.inode_size as usize);
    for (slot, number) in slots.zip(first.0..) {
        let (disk, _) =
            InodeDisk::mut_from_prefix(slot).expect("the slot of an inode holds its core");
        disk.magic = INODE_MAGIC.into();
        disk.version = INODE_VERSION;
        disk.generation = generation.into();
        disk.next_unlinked = AgInode::NULL.0.into();
        disk.number = number.into();
        disk.uuid = geometry.meta_uuid.into_bytes();
        seal(slot, Lsn(0));
    }
}
