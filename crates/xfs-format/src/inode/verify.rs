//! Functions that check an inode by itself: its core, its checksum, and the sizes of its forks.

use core::mem::size_of;

use uuid::Uuid;

use super::{
    CORE_BYTES, CRC_OFFSET, FORK_OFFSET_BYTES, FileType, ForkFormat, ForkKind, FreeInode,
    INODE_MAGIC, INODE_VERSION, InodeCore, InodeDisk, InodeFlags, InodeFlags2, core_bytes, fork,
};
use crate::addr::{AgInode, InodeNumber, Lsn};
use crate::checks::inode::InodeCheck;
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope;
use crate::extent::{
    EXTENT_BYTES, MAX_ATTR_EXTENTS, MAX_BIG_ATTR_EXTENTS, MAX_BIG_EXTENTS, MAX_EXTENT_BLOCKS,
    MAX_EXTENTS,
};
use crate::features::{FormatVersion, IncompatFeatures, RoCompatFeatures};
use crate::geometry::Geometry;
use crate::symlink::MAX_TARGET_BYTES;
use crate::timestamp;
use crate::verify_context::VerifyContext;

/// The only valid fork offset, in units of 8 bytes, of an inode whose data fork is a device number.
const DEVICE_FORK_OFFSET: u8 = 1;

impl InodeCore {
    /// Checks the inode against its own bytes: checksum, version, UUID, number and LSN, and that
    /// type, formats, sizes, counters and flags are consistent.
    ///
    /// `bytes` is the whole inode, from which this core was decoded.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify(&self, bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), Corruption> {
        self.check(bytes, context).map_err(|check| {
            Corruption::new(Structure::Inode, StructureAddress::Inode(self.number), check)
        })
    }

    fn check(&self, bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), Check> {
        let needed = context.geometry.inode_size as usize;
        let whole =
            bytes.get(..needed).ok_or(Check::Truncated { available: bytes.len(), needed })?;
        let (disk, _) = super::split_core(whole)
            .ok_or(Check::Truncated { available: bytes.len(), needed: size_of::<InodeDisk>() })?;
        match context.geometry.version {
            FormatVersion::V5 => {
                verify_checksum(whole)?;
                self.check_identity(disk, context)?;
            }
            FormatVersion::V4 if !matches!(disk.version, 1 | 2) => {
                return Err(InodeCheck::Version { version: disk.version }.into());
            }
            FormatVersion::V4 => {}
        }
        self.check_plain_fields(disk, context.geometry)?;
        // A free inode has no type, and its forks are not read (I2).
        if let Some(file_type) = self.file_type() {
            self.check_counters(file_type)?;
            self.check_data_fork(whole, file_type)?;
            self.check_attr_fork(whole, file_type)?;
            self.check_hints(file_type, context.geometry)?;
        }
        Ok(())
    }

    fn check_identity(&self, disk: &InodeDisk, context: &VerifyContext<'_>) -> Result<(), Check> {
        check_place(disk, self.number, context.geometry)?;
        envelope::verify_lsn(self.lsn, context)
    }

    /// Checks the features, type, padding, size and times of an inode. A free inode must pass these
    /// checks too.
    fn check_plain_fields(&self, disk: &InodeDisk, geometry: &Geometry) -> Result<(), InodeCheck> {
        let is_v5 = geometry.version == FormatVersion::V5;
        self.check_features(geometry)?;
        if self.mode != 0 && self.file_type().is_none() {
            return Err(InodeCheck::Mode { mode: self.mode });
        }
        let is_metadata = self.flags2.contains(InodeFlags2::METADATA);
        if disk.old_nlink.get() != 0 && !is_metadata && is_v5 {
            return Err(InodeCheck::OldLinkCount { found: disk.old_nlink.get() });
        }
        let padding = if self.flags2.contains(InodeFlags2::NREXT64) {
            u64::from(disk.attr_extents.get())
        } else {
            disk.big_extents.get()
        };
        if padding != 0 && is_v5 {
            return Err(InodeCheck::CounterPadding);
        }
        if self.size > i64::MAX.cast_unsigned() {
            return Err(InodeCheck::Size { size: self.size });
        }
        if self.flags2.contains(InodeFlags2::BIGTIME) || self.is_free() {
            return Ok(());
        }
        let times = [disk.access_time, disk.modify_time, disk.change_time, disk.birth_time];
        // An inode of a v4 volume has no birth time.
        let stored = if is_v5 { times.len() } else { times.len() - 1 };
        match times
            .iter()
            .take(stored)
            .map(|raw| raw.get())
            .find(|raw| !timestamp::is_legacy_valid(*raw))
        {
            Some(raw) => Err(InodeCheck::Nanoseconds { raw }),
            None => Ok(()),
        }
    }

    /// Checks that the volume has the feature for each flag that changes the form of the inode.
    fn check_features(&self, geometry: &Geometry) -> Result<(), InodeCheck> {
        let bound = [
            (InodeFlags2::BIGTIME, geometry.has_incompat(IncompatFeatures::BIGTIME), "bigtime"),
            (InodeFlags2::NREXT64, geometry.has_incompat(IncompatFeatures::NREXT64), "nrext64"),
            (InodeFlags2::METADATA, geometry.has_incompat(IncompatFeatures::METADIR), "metadir"),
            (InodeFlags2::REFLINK, geometry.has_ro_compat(RoCompatFeatures::REFLINK), "reflink"),
        ];
        for (flag, is_on, feature) in bound {
            if self.flags2.contains(flag) && !is_on {
                return Err(InodeCheck::FeatureOff { feature });
            }
        }
        Ok(())
    }

    fn check_counters(&self, file_type: FileType) -> Result<(), InodeCheck> {
        let (extents, attr_extents, blocks) = (self.extents, self.attr_extents, self.blocks);
        let all = extents.saturating_add(attr_extents.into());
        // A metadata btree has blocks, but no extents.
        let blocks_without_extents =
            all == 0 && blocks != 0 && self.data_format != ForkFormat::MetadataBtree;
        if all > blocks || blocks_without_extents {
            return Err(InodeCheck::ExtentsExceedBlocks { extents, attr_extents, blocks });
        }
        let has_contents = matches!(file_type, FileType::Directory | FileType::Symlink);
        // Inactivation of an unlinked inode sets its size to 0 before it frees the inode.
        if has_contents && self.size == 0 && self.nlink != 0 {
            return Err(InodeCheck::Empty { file_type, nlink: self.nlink });
        }
        if file_type == FileType::Symlink && self.size > MAX_TARGET_BYTES as u64 {
            return Err(InodeCheck::TargetSize { size: self.size });
        }
        Ok(())
    }

    fn check_data_fork(&self, bytes: &[u8], file_type: FileType) -> Result<(), InodeCheck> {
        let room = fork(bytes, self, ForkKind::Data).len();
        let format = self.data_format;
        let fits = match file_type {
            FileType::Regular => {
                matches!(format, ForkFormat::Extents | ForkFormat::Btree)
                    || (format == ForkFormat::MetadataBtree
                        && self.flags2.contains(InodeFlags2::METADATA))
            }
            FileType::Directory | FileType::Symlink => {
                matches!(format, ForkFormat::Local | ForkFormat::Extents | ForkFormat::Btree)
            }
            _ => format == ForkFormat::Device,
        };
        if !fits {
            return Err(InodeCheck::Format { fork: ForkKind::Data, file_type, format });
        }
        if format == ForkFormat::Local && self.size > room as u64 {
            return Err(InodeCheck::LocalSize { bytes: self.size, room });
        }
        let large = self.flags2.contains(InodeFlags2::NREXT64);
        let limit = if large { MAX_BIG_EXTENTS } else { MAX_EXTENTS };
        self.check_extent_count(ForkKind::Data, room, limit)
    }

    fn check_attr_fork(&self, bytes: &[u8], file_type: FileType) -> Result<(), InodeCheck> {
        let format = self.attr_format;
        let wrong = InodeCheck::Format { fork: ForkKind::Attr, file_type, format };
        if !self.has_attr_fork() {
            // The format has no meaning in old inodes without the fork.
            let is_v5 = core_bytes(bytes) == CORE_BYTES;
            if is_v5 && !matches!(format, ForkFormat::Device | ForkFormat::Extents) {
                return Err(wrong);
            }
            return match self.attr_extents {
                0 => Ok(()),
                extents => Err(InodeCheck::ExtentsWithoutFork { extents }),
            };
        }
        let (offset, literal_bytes) = (self.fork_offset, bytes.len() - core_bytes(bytes));
        let misplaced = if self.data_format == ForkFormat::Device {
            offset != DEVICE_FORK_OFFSET
        } else {
            usize::from(offset) * FORK_OFFSET_BYTES >= literal_bytes
        };
        if misplaced {
            return Err(InodeCheck::ForkOffset { offset, literal_bytes });
        }
        if !matches!(format, ForkFormat::Local | ForkFormat::Extents | ForkFormat::Btree) {
            return Err(wrong);
        }
        let large = self.flags2.contains(InodeFlags2::NREXT64);
        let limit = if large { MAX_BIG_ATTR_EXTENTS } else { MAX_ATTR_EXTENTS };
        self.check_extent_count(ForkKind::Attr, fork(bytes, self, ForkKind::Attr).len(), limit)
    }

    /// Checks that a fork does not have more extents than its format allows. `room` is the length
    /// of the fork in the inode, in bytes, and `most` is the limit of the extent counter. If the
    /// fork has the format of a btree, there must be more extents than fit into the inode.
    fn check_extent_count(&self, kind: ForkKind, room: usize, most: u64) -> Result<(), InodeCheck> {
        let Some(format) = self.fork_format(kind) else { return Ok(()) };
        let extents = self.fork_extents(kind);
        let in_line = (room / EXTENT_BYTES) as u64;
        let limit = match format {
            ForkFormat::Extents => in_line.min(most),
            ForkFormat::Btree => most,
            _ => 0,
        };
        if extents > limit {
            return Err(InodeCheck::ExtentCount { fork: kind, format, extents, limit });
        }
        if format == ForkFormat::Btree && extents <= in_line {
            return Err(InodeCheck::NeedlessBtree { fork: kind, extents });
        }
        Ok(())
    }

    fn check_hints(&self, file_type: FileType, geometry: &Geometry) -> Result<(), InodeCheck> {
        let is_regular = file_type == FileType::Regular;
        let is_directory = file_type == FileType::Directory;
        if self.flags2.contains(InodeFlags2::REFLINK) && !is_regular {
            return Err(InodeCheck::Reflink { file_type });
        }
        let longest = if self.is_realtime() {
            MAX_EXTENT_BLOCKS
        } else {
            MAX_EXTENT_BLOCKS.min(geometry.ag_blocks / 2)
        };
        let own = self.flags.contains(InodeFlags::EXTSIZE);
        let inherited = self.flags.contains(InodeFlags::EXTSZINHERIT);
        let blocks = self.extent_size_hint_blocks;
        let present = own || inherited;
        let misused = (own && !is_regular) || (inherited && !is_directory);
        if misused || present != (blocks != 0) || blocks > longest {
            return Err(InodeCheck::ExtentSizeHint { blocks, flags: self.flags });
        }
        // Metadata inodes of a zoned volume count blocks in this field.
        if self.flags2.contains(InodeFlags2::METADATA) {
            return Ok(());
        }
        let blocks = self.cow_extent_size_hint_blocks;
        let present = self.flags2.contains(InodeFlags2::COWEXTSIZE);
        let misused = present
            && !((is_regular || is_directory) && geometry.has_ro_compat(RoCompatFeatures::REFLINK));
        if misused || present != (blocks != 0) || blocks > longest {
            return Err(InodeCheck::CowExtentSizeHint { blocks, flags: self.flags2 });
        }
        Ok(())
    }
}

impl FreeInode {
    /// Decodes the free inode `number` in `bytes`. Returns `None` if the inode is in use.
    ///
    /// The checksum is not verified: the file that takes the inode replaces all of its bytes but
    /// the link. The LSN is verified, because recovery would not replay an older file over it.
    ///
    /// # Errors
    ///
    /// Returns a [`Corruption`] if `bytes` is not the inode `number` of this volume, or if its LSN
    /// is after the end of the log.
    #[inline]
    pub fn decode(
        bytes: &[u8],
        number: InodeNumber,
        context: &VerifyContext<'_>,
    ) -> Result<Option<Self>, Corruption> {
        let geometry = context.geometry;
        let corrupt = |check: Check| {
            Corruption::new(Structure::Inode, StructureAddress::Inode(number), check)
        };
        let needed = geometry.inode_size as usize;
        let Some((disk, _)) = bytes.get(..needed).and_then(super::split_core) else {
            return Err(corrupt(Check::Truncated { available: bytes.len(), needed }));
        };
        if disk.magic.get() != INODE_MAGIC {
            let (found, expected) = (disk.magic.get().into(), INODE_MAGIC.into());
            return Err(corrupt(Check::Magic { found, expected }));
        }
        if geometry.version == FormatVersion::V5 {
            check_place(disk, number, geometry).map_err(corrupt)?;
        }
        let free = Self {
            generation: disk.generation.get(),
            next_unlinked: AgInode(disk.next_unlinked.get()),
            lsn: Lsn(disk.lsn.get()),
        };
        envelope::verify_lsn(free.lsn, context).map_err(corrupt)?;
        Ok((disk.mode.get() == 0).then_some(free))
    }
}

/// Checks that an inode on disk is the inode `number` of this volume.
#[inline]
fn check_place(disk: &InodeDisk, number: InodeNumber, geometry: &Geometry) -> Result<(), Check> {
    if disk.version != INODE_VERSION {
        return Err(InodeCheck::Version { version: disk.version }.into());
    }
    let uuid = Uuid::from_bytes(disk.uuid);
    if uuid != geometry.meta_uuid {
        return Err(Check::ForeignUuid { found: uuid });
    }
    let found = InodeNumber(disk.number.get());
    if found != number { Err(InodeCheck::Misplaced { found }.into()) } else { Ok(()) }
}

/// Checks the checksum of an inode. `bytes` is the whole inode.
///
/// # Errors
///
/// Returns [`Check::Checksum`] if the checksum is wrong, or [`Check::Truncated`] if `bytes` is too
/// short.
pub fn verify_checksum(bytes: &[u8]) -> Result<(), Check> {
    envelope::verify_checksum(bytes, CRC_OFFSET)
}
