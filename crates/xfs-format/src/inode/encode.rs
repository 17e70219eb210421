//! Encoding of the core of an inode, and of the free inodes of a new chunk.

use zerocopy::{FromBytes, FromZeros};

use super::{CRC_OFFSET, INODE_MAGIC, INODE_VERSION, InodeCore, InodeDisk, InodeFlags2, seal};
use crate::addr::{AgInode, InodeNumber, Lsn};
use crate::crc;
use crate::geometry::{Geometry, INODES_PER_CHUNK};
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

    /// Returns whether [`encode`](Self::encode) can encode the core.
    #[inline]
    #[must_use]
    pub fn is_encodable(&self) -> bool {
        let times = [self.access_time, self.modify_time, self.change_time, self.birth_time];
        let has_times = match self.flags2.contains(InodeFlags2::BIGTIME) {
            true => times.into_iter().all(Timestamp::is_bigtime),
            false => times.into_iter().all(Timestamp::is_legacy),
        };
        let has_counts = self.flags2.contains(InodeFlags2::NREXT64)
            || (u32::try_from(self.extents).is_ok() && u16::try_from(self.attr_extents).is_ok());
        has_times && has_counts
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
    let core = |number: u64| InodeDisk {
        magic: INODE_MAGIC.into(),
        version: INODE_VERSION,
        generation: generation.into(),
        next_unlinked: AgInode::NULL.0.into(),
        number: number.into(),
        uuid: geometry.meta_uuid.into_bytes(),
        ..InodeDisk::new_zeroed()
    };
    let slots = bytes.chunks_exact_mut(geometry.inode_size as usize);
    let mut sums = FreeInodeSums::starting_at(first.0);
    for (slot, number) in slots.zip(first.0..) {
        let (disk, _) =
            InodeDisk::mut_from_prefix(slot).expect("the slot of an inode holds its core");
        *disk = core(number);
        match sums.known(number) {
            Some(sum) => crc::store(&mut disk.crc, sum),
            None => {
                seal(slot, Lsn(0));
                let sum = crc::stored(slot, CRC_OFFSET);
                sums.learn(number, sum.expect("a sealed inode holds its checksum"));
            }
        }
    }
}

/// The checksums of free inodes, which differ only in their numbers.
///
/// A checksum is linear: a bit of the number changes the same bits of the checksum in each inode.
/// So a run of inodes needs the checksum of its first inode, and the difference that each low bit
/// of the number makes.
struct FreeInodeSums {
    /// Number of inodes in a run, a power of two. The first number of a run is a multiple of it.
    run: u64,
    /// The checksum of the first inode of the current run.
    first: u32,
    /// The difference that each low bit of a number makes, as far as it is known.
    differences: [u32; RUN_BITS as usize],
}

/// The largest number of low bits of an inode number that vary in a run.
const RUN_BITS: u32 = INODES_PER_CHUNK.ilog2();

impl FreeInodeSums {
    fn starting_at(first: u64) -> Self {
        let bits = first.trailing_zeros().min(RUN_BITS);
        Self { run: 1 << bits, first: 0, differences: [0; RUN_BITS as usize] }
    }

    /// Returns the checksum of inode `number`, or `None` if it must be computed because it tells
    /// that of later inodes. Numbers come in ascending order.
    fn known(&self, number: u64) -> Option<u32> {
        let low = number % self.run;
        if low == 0 || low.is_power_of_two() {
            return None;
        }
        let differences = self.differences.iter().enumerate();
        let set = differences.filter(|(bit, _)| low >> bit & 1 != 0);
        Some(set.fold(self.first, |sum, (_, difference)| sum ^ difference))
    }

    /// Records the checksum of an inode for which [`known`](Self::known) has returned `None`.
    fn learn(&mut self, number: u64, sum: u32) {
        match number % self.run {
            0 => self.first = sum,
            low => {
                let difference = self.differences.get_mut(low.trailing_zeros() as usize);
                *difference.expect("a run has a difference for each low bit") = sum ^ self.first;
            }
        }
    }
}
