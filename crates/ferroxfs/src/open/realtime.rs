//! The realtime device of a volume: its checks against the volume, and its flush together with the
//! other devices.
//!
//! Owns: the check of the section's length, and the comparison of the section's own superblock with
//! that of the volume. For a volume that is open for writing, it also owns opening the free space
//! of the section, and that the log flushes the realtime device too. Does **not** own: the contents
//! on the device (`xfs-inode`), or changes of the free space (`xfs-alloc`).

use std::io;
use std::sync::Arc;

use xfs_alloc::{FreeExtentCount, RealtimeSpace};
use xfs_buffer::{IoError, Result as BufferResult};
use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_format::directory::DirectoryCheck;
use xfs_format::realtime::RealtimeSuperblock;
use xfs_format::superblock::{SuperblockCheck, VolumeAccess};
use xfs_format::{
    Corruption, DiskAddr, InodeNumber, RoCompatFeatures, Structure, StructureAddress, Superblock,
};
use xfs_inode::RealtimeGroupInodes;
use xfs_log::Replayed;
use xfs_trans::Journal;

use super::{Devices, OpenError};
use crate::Error;

impl Devices {
    /// Checks the realtime device, if one was given or is part of the data device. If the realtime
    /// section is longer than its device, returns that as damage: the rest of the volume can still
    /// be read.
    ///
    /// # Errors
    ///
    /// [`OpenError::RealtimeDevice`] if the volume has no such device, or if the device belongs to
    /// another volume; the device's error. Devices that were opened as damaged ones return the
    /// damage of the realtime device's superblock instead.
    pub(super) fn realtime_damage(
        &self,
        superblock: &Superblock,
    ) -> Result<Option<Error>, OpenError> {
        let realtime = &superblock.geometry.realtime;
        let device = match &self.realtime {
            Some(_) if !realtime.is_present() => return Err(OpenError::RealtimeDevice("none")),
            Some(_) if realtime.is_internal() => {
                return Err(OpenError::RealtimeDevice("an internal one"));
            }
            Some(device) => device,
            None if realtime.is_internal() => &self.data,
            None => return Ok(None),
        };
        let end = realtime.device_end().and_then(|end| superblock.geometry.blocks_to_bytes(end));
        let (section_bytes, device_bytes) = (end.unwrap_or(u64::MAX), device.length_bytes());
        if device_bytes < section_bytes {
            let check = SuperblockCheck::RealtimeCutShort { section_bytes, device_bytes };
            let place = StructureAddress::Disk(DiskAddr(0));
            return Ok(Some(Corruption::new(Structure::Superblock, place, check).into()));
        }
        if superblock.has_realtime_superblock() {
            let length = superblock.geometry.block_size as usize;
            let mut block = vec![0; length];
            device.read_at(&mut block, 0).map_err(|source| {
                Error::from(IoError::new("read", DiskAddr(0), length as u64, source))
            })?;
            let verdict =
                RealtimeSuperblock::decode(&block).map_err(Error::from).and_then(|found| {
                    let matched = found.verify_against(superblock).map_err(Error::from);
                    let is_of_volume = found.meta_uuid == superblock.geometry.meta_uuid;
                    match matched {
                        Err(_) if is_of_volume && self.is_changing_identity(superblock)? => Ok(()),
                        matched => matched,
                    }
                });
            return match verdict {
                Ok(()) => Ok(None),
                Err(damage) if self.options.keeps_realtime_damage => Ok(Some(damage)),
                Err(damage) => Err(damage.into()),
            };
        }
        Ok(None)
    }

    /// Checks, before a volume is changed, that its realtime device was given and is long enough. A
    /// recovery changes no contents of files, so it needs no realtime device.
    ///
    /// # Errors
    ///
    /// [`OpenError::RealtimeDeviceMissing`]; the errors of
    /// [`realtime_damage`](Self::realtime_damage), and the damage itself.
    pub(super) fn check_realtime(
        &self,
        superblock: &Superblock,
        access: VolumeAccess,
    ) -> Result<(), OpenError> {
        // A recovery in memory is for reading, which reports the damage.
        if self.is_in_memory {
            return Ok(());
        }
        if let Some(damage) = self.realtime_damage(superblock)? {
            return Err(OpenError::Volume(damage));
        }
        self.complete_identity(superblock)?;
        if access != VolumeAccess::Write || !superblock.has_writable_realtime() {
            return Ok(());
        }
        if self.realtime.is_none() && !superblock.geometry.realtime.is_internal() {
            return Err(OpenError::RealtimeDeviceMissing);
        }
        Ok(())
    }

    /// Returns the device that the log flushes in addition to its own device. The log does so for a
    /// sync, and before it writes a record. `None`: the log is on the only device of the volume.
    pub(super) fn flushed_device(&self, superblock: &Superblock) -> Option<SharedDevice> {
        let data = self.data.clone();
        let realtime = self.realtime.clone().filter(|_| superblock.has_writable_realtime());
        match (realtime, superblock.has_external_log()) {
            (Some(realtime), true) => Some(Arc::new(FlushedTogether { data, realtime })),
            // A flush of the log's device flushes the data device.
            (Some(realtime), false) => Some(realtime),
            (None, has_external_log) => has_external_log.then_some(data),
        }
    }
}

/// Opens the free space of the realtime section, if `access` changes files. After a crash the free
/// extents are counted, as the kernel does.
pub(super) fn open_space(
    journal: &Arc<Journal>,
    replayed: &Replayed,
    access: VolumeAccess,
) -> BufferResult<()> {
    let superblock = replayed.superblock();
    if access == VolumeAccess::Replay || !superblock.has_writable_realtime() {
        return Ok(());
    }
    if superblock.has_realtime_groups() {
        return open_groups(journal, superblock);
    }
    if superblock.has_zones() {
        return open_zones(journal, superblock);
    }
    let files = xfs_inode::realtime_files(journal, superblock)?;
    let count = match replayed.log_state().clean {
        true => FreeExtentCount::Stored,
        false => FreeExtentCount::Recounted,
    };
    RealtimeSpace::open(journal, superblock, files, count)
}

/// Opens the free space of all realtime groups. The directory `rtgroups` of the metadata directory
/// names the files of each group.
#[doc(alias = "xfs_rtginode_load")]
fn open_groups(journal: &Arc<Journal>, superblock: &Superblock) -> BufferResult<()> {
    let directory = groups_directory(journal, superblock)?;
    let mut files = Vec::new();
    for group in 0..superblock.geometry.realtime.group_count {
        let inodes = group_inodes(journal, superblock, directory, group)?;
        files.push(xfs_inode::realtime_group_files(journal, superblock, group, inodes)?);
    }
    RealtimeSpace::open_groups(journal, superblock, files)
}

/// Finds the inodes of a realtime group in the directory `rtgroups`.
pub(super) fn group_inodes(
    journal: &Journal,
    superblock: &Superblock,
    directory: InodeNumber,
    group: u32,
) -> BufferResult<RealtimeGroupInodes> {
    let find =
        |name: &str| metadata_entry(journal, directory, format!("{group}.{name}").as_bytes());
    let find_of = |feature, name| match superblock.ro_compat.contains(feature) {
        true => find(name).map(Some),
        false => Ok(None),
    };
    Ok(RealtimeGroupInodes {
        bitmap: find("bitmap")?,
        summary: find("summary")?,
        reverse_map: find_of(RoCompatFeatures::RMAPBT, "rmap")?,
        refcounts: find_of(RoCompatFeatures::REFLINK, "refcount")?,
    })
}

/// Opens the zones of a zoned realtime section. The directory `rtgroups` of the metadata directory
/// has one file for each zone: its reverse map.
fn open_zones(journal: &Arc<Journal>, superblock: &Superblock) -> BufferResult<()> {
    let directory = groups_directory(journal, superblock)?;
    let records = (0..superblock.geometry.realtime.group_count).map(|zone| {
        let inode = metadata_entry(journal, directory, format!("{zone}.rmap").as_bytes())?;
        xfs_inode::zone_record(journal, zone, inode)
    });
    RealtimeSpace::open_zones(journal, superblock, records.collect::<BufferResult<_>>()?)
}

/// Returns the inode of the directory `rtgroups` of the metadata directory.
pub(super) fn groups_directory(
    journal: &Journal,
    superblock: &Superblock,
) -> BufferResult<InodeNumber> {
    let root = superblock.metadata_directory_inode;
    let root = root.expect("a verified volume with METADIR has a metadata directory");
    metadata_entry(journal, root, b"rtgroups")
}

/// Returns the inode of an entry of a directory in the metadata directory. A missing entry is
/// damage: every such volume has it.
fn metadata_entry(
    journal: &Journal,
    directory: InodeNumber,
    name: &[u8],
) -> BufferResult<InodeNumber> {
    let missing = || {
        let check = DirectoryCheck::NoMetadataFile;
        Corruption::new(Structure::Directory, StructureAddress::Inode(directory), check)
    };
    let found = xfs_dir::find_metadata_file(journal.cache(), directory, name)?;
    found.ok_or_else(|| missing().into())
}

/// The data device, whose flush also flushes the realtime device. A record of the log may map
/// extents of both, so the contents on both must be durable before the record is written.
struct FlushedTogether {
    data: SharedDevice,
    realtime: SharedDevice,
}

impl BlockDevice for FlushedTogether {
    fn length_bytes(&self) -> u64 {
        self.data.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.data.sector_size()
    }

    fn is_read_only(&self) -> bool {
        self.data.is_read_only()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.data.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        self.data.write_at(bytes, offset, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.realtime.flush()?;
        self.data.flush()
    }

    fn check_length(&self) -> io::Result<()> {
        self.realtime.check_length()?;
        self.data.check_length()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.data.discard(offset, length)
    }

    fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        self.data.write_zeros(offset, length)
    }
}
