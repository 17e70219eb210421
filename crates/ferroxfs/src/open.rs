//! Opening a volume: from a path to a verified superblock and the state of the log.
//!
//! All files and devices are opened here, before any structure of the volume is read. A caller may
//! drop its privileges between [`OpenOptions::open_devices`] and [`Devices::open`].

mod damaged;
mod error;
mod identity;
mod quota;
mod reading;
mod realtime;
mod realtime_growth;
mod shrink;
mod to_check;
mod writable;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use xfs_buffer::{BufferCache, IoError};
use xfs_device::{LocatedVolume, PartitionChoice, Selection, SharedDevice, VolumeNote};
use xfs_dir::ParentPath;
use xfs_format::superblock::{
    Superblock, SuperblockCheck, SuperblockError, Unsupported, VolumeAccess,
};
use xfs_format::timestamp::Timestamp;
use xfs_format::{Corruption, DiskAddr, Structure, StructureAddress};
use xfs_icache::{DEFAULT_INODES, InodeIndex};
use xfs_log::{LogDevice, LogState};
use xfs_quota::QuotaOptions;
use xfs_trans::Upkeep;
use xfs_vfs::{Clock, LockCheck, MountOptions};

use crate::Error;
use crate::volume::Volume;

pub use damaged::DamagedStart;
pub use error::OpenError;
pub use realtime_growth::RealtimeGrowthError;
pub use shrink::{ShrinkError, ShrinkLimit, Shrunk};
pub use to_check::VolumeToCheck;

/// The default limit of the memory of unused buffers, in bytes.
const DEFAULT_CACHE_BYTES: usize = 64 << 20;
/// The largest sector size, in bytes. A superblock lies in one sector.
const MAX_SECTOR_BYTES: usize = 32 << 10;

/// The default time that the holder of a broken lease has to return it, as in the kernel.
const LEASE_GRACE: Duration = Duration::from_secs(45);

/// Options of opening a volume, in the style of [`std::fs::OpenOptions`].
///
/// A volume is opened for reading, unless [`write`](Self::write) asks for more. When it is opened
/// for writing, its log is replayed onto the disk first, and work that a crash left open is
/// finished.
///
/// ```
/// # let (_folder, image) = xfs_trans::testing::make_file();
/// use ferroxfs::OpenOptions;
///
/// let volume = OpenOptions::new().write(true).open(&image)?;
/// volume.write("/note", b"kept")?;
/// volume.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    selection: Selection,
    live: bool,
    no_recovery: bool,
    log_device: Option<PathBuf>,
    realtime_device: Option<PathBuf>,
    /// Whether a volume is opened although the superblock of its realtime device is damaged. The
    /// damage is then one of the volume's findings. Otherwise opening fails with it.
    keeps_realtime_damage: bool,
    members: Vec<PathBuf>,
    cache_bytes: usize,
    /// The memory that metadata may take until it is in place. `None`: the log's size limits it.
    unwritten_bytes: Option<usize>,
    writes: bool,
    quota: QuotaOptions,
    pub(crate) options: MountOptions,
    cached_inodes: u64,
    pub(crate) inode_index: InodeIndex,
    discards: bool,
    /// Whether blocks are kept for operations that must not fail for lack of space.
    keeps_pool: bool,
    pub(crate) log_slots: Option<usize>,
    #[cfg(feature = "object_store")]
    objects: xfs_image::ObjectOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Returns the default options: the volume is opened for reading, the start of the filesystem
    /// is searched for, and a dirty log is replayed in memory.
    #[must_use]
    pub fn new() -> Self {
        Self {
            selection: Selection::Auto,
            live: false,
            no_recovery: false,
            log_device: None,
            realtime_device: None,
            keeps_realtime_damage: false,
            members: Vec::new(),
            cache_bytes: DEFAULT_CACHE_BYTES,
            unwritten_bytes: None,
            writes: false,
            quota: QuotaOptions::default(),
            options: MountOptions {
                clock: Clock::Host,
                parents: ParentPath::Direct,
                joins_writes: true,
                lease_grace: LEASE_GRACE,
                lock_check: LockCheck::default(),
                upkeep: None,
            },
            cached_inodes: DEFAULT_INODES,
            inode_index: InodeIndex::default(),
            discards: false,
            keeps_pool: true,
            log_slots: None,
            #[cfg(feature = "object_store")]
            objects: xfs_image::ObjectOptions::new(),
        }
    }

    /// Takes the filesystem from this partition, counted from 1.
    #[must_use]
    pub fn partition(mut self, number: u32) -> Self {
        self.selection = Selection::Partition(PartitionChoice::Number(number));
        self
    }

    /// Takes the filesystem from the partition that has this name in a GPT. Only one partition may
    /// have it.
    #[must_use]
    pub fn partition_named(mut self, name: impl Into<String>) -> Self {
        self.selection = Selection::Partition(PartitionChoice::Name(name.into()));
        self
    }

    /// Takes the filesystem that starts at this byte.
    #[must_use]
    pub fn offset(mut self, bytes: u64) -> Self {
        self.selection = Selection::Offset(bytes);
        self
    }

    /// Takes the filesystem from the logical volume of LVM with this name: `VG/LV`, or `LV` if only
    /// one volume group has it.
    #[must_use]
    pub fn logical_volume(mut self, name: impl Into<String>) -> Self {
        self.selection = Selection::Volume(name.into());
        self
    }

    /// Adds another image or device of the same volume group or software RAID.
    #[must_use]
    pub fn member(mut self, path: impl Into<PathBuf>) -> Self {
        self.members.push(path.into());
        self
    }

    /// Reads a volume that is mounted elsewhere. The state that is read may be stale or
    /// inconsistent.
    #[must_use]
    pub fn live(mut self, live: bool) -> Self {
        self.live = live;
        self
    }

    /// Reads a volume as it is, even if its log is dirty or the superblock says that it needs
    /// repair. The log is not replayed.
    #[must_use]
    pub fn no_recovery(mut self, no_recovery: bool) -> Self {
        self.no_recovery = no_recovery;
        self
    }

    /// Sets the device or file that holds the external log.
    #[must_use]
    pub fn log_device(mut self, path: impl Into<PathBuf>) -> Self {
        self.log_device = Some(path.into());
        self
    }

    /// Sets the device or file that holds the realtime section. Without it, everything but the
    /// contents of realtime files can be read. A section inside the data device needs no option.
    #[must_use]
    #[doc(alias = "rtdev")]
    pub fn realtime_device(mut self, path: impl Into<PathBuf>) -> Self {
        self.realtime_device = Some(path.into());
        self
    }

    /// Sets how images on web and S3 servers are read: `http://`, `https://` and `s3://`.
    #[cfg(feature = "object_store")]
    #[must_use]
    pub fn object_options(mut self, options: xfs_image::ObjectOptions) -> Self {
        self.objects = options;
        self
    }

    /// Sets how many bytes of unused buffers of metadata the buffer cache keeps.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets how many bytes of memory changed metadata takes, about, until it is written to its home
    /// location. Beyond that it is written earlier than the log needs. By default only the size of
    /// the log limits this memory, and a log of 64 MiB can keep some 100 MiB of buffers and inodes.
    /// This applies to a volume that is open for writing. With [`fixed_time`](Self::fixed_time) it
    /// has no effect: the bytes of such a volume depend on when its metadata is written.
    #[must_use]
    pub fn unwritten_bytes(mut self, bytes: usize) -> Self {
        self.unwritten_bytes = Some(bytes);
        self
    }

    /// Opens the volume for writing, and its devices exclusively. [`Devices::recover`] and
    /// [`Devices::set_uuid`] also need this option.
    #[must_use]
    pub fn write(mut self, write: bool) -> Self {
        self.writes = write;
        self
    }

    /// Counts the usage of users, groups and projects, and enforces their limits, on a volume that
    /// is opened for writing. The first such open makes the quota inodes. Types of quota that the
    /// last open did not count are counted now, by reading every inode.
    ///
    /// Without this option nothing is counted, and the next open with quota counts all inodes
    /// again, as with the kernel. A volume with a metadata directory is an exception: without this
    /// option, flags of its superblock decide which types are counted.
    ///
    /// ```
    /// # let device = xfs_trans::testing::make();
    /// use ferroxfs::OpenOptions;
    /// use ferroxfs::quota::{QuotaMode, QuotaOptions, QuotaType};
    ///
    /// let options = QuotaOptions::new().user(QuotaMode::Enforce);
    /// let volume = OpenOptions::new().write(true).quota(options).open_device(device)?;
    /// volume.write("/note", b"kept")?;
    /// let root = volume.quota().get(QuotaType::User, 0)?.ok_or("no usage")?;
    /// // The root directory, the inodes of the realtime bitmap and summary, and the file.
    /// assert_eq!(root.inodes.used, 4);
    /// volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "uquota")]
    #[doc(alias = "gquota")]
    #[doc(alias = "pquota")]
    #[must_use]
    pub fn quota(mut self, quota: QuotaOptions) -> Self {
        self.quota = quota;
        self
    }

    /// Uses this time instead of the clock in everything that is written. The same operations then
    /// give the same bytes on any machine, under any load. Neither the clock nor background work
    /// influences what is written where (docs/internals/reproducible.md). The operations must come
    /// one after the other, because the order of concurrent threads shows in the result.
    #[must_use]
    pub fn fixed_time(mut self, time: Timestamp) -> Self {
        self.options.clock = Clock::Fixed(time);
        self
    }

    /// Sets whether small writes to a file that continue each other are buffered, up to 1 MiB of
    /// each file, and written as one. That is the default. With `false` every write is on the
    /// device before it returns. In both cases a write is durable only after a sync.
    #[must_use]
    pub fn join_writes(mut self, joins: bool) -> Self {
        self.options.joins_writes = joins;
        self
    }

    /// Sets how soon written data is durable (by default after 5 seconds), and how often the log is
    /// covered, that is, marked as having nothing to replay (by default after 30 seconds). This
    /// applies to a volume that is open for writing. With a [`fixed_time`](Self::fixed_time), the
    /// default is that neither ever happens in the background, because the result would depend on
    /// the clock. With a fixed time, a given `upkeep` applies to the log alone:
    /// [joined](Self::join_writes) writes stay buffered.
    #[must_use]
    pub fn upkeep(mut self, upkeep: Upkeep) -> Self {
        self.options.upkeep = Some(upkeep);
        self
    }

    /// Sets how long the holder of a lease has to return the lease after a conflicting operation
    /// breaks it: 45 seconds by default.
    #[must_use]
    #[doc(alias = "lease-break-time")]
    pub fn lease_grace(mut self, grace: Duration) -> Self {
        self.options.lease_grace = grace;
        self
    }

    /// Sets whether freed space is discarded on the device, once the change that freed it is
    /// durable: an image file on the host then shrinks with its contents. [`Volume::trim`] discards
    /// all free space at once.
    #[must_use]
    pub fn discard(mut self, discards: bool) -> Self {
        self.discards = discards;
        self
    }

    /// Sets whether a volume that is open for writing keeps a pool of blocks for operations that
    /// must not fail for lack of space, such as removing a file: 5% of the volume, at most 8192
    /// blocks.
    /// That is the default, as with the kernel. With `false` files can take these blocks. Then
    /// removing a file from a full volume may fail.
    ///
    /// ```
    /// # let device = xfs_trans::testing::make();
    /// use ferroxfs::OpenOptions;
    ///
    /// let usual = OpenOptions::new().write(true).open_device(device.clone())?;
    /// let usual = { let space = usual.space()?; usual.close()?; space };
    /// let all = OpenOptions::new().write(true).reserve_pool(false).open_device(device)?;
    /// assert!(all.space()?.available_blocks > usual.available_blocks);
    /// all.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "resblks")]
    #[must_use]
    pub fn reserve_pool(mut self, keeps: bool) -> Self {
        self.keeps_pool = keeps;
        self
    }

    /// Sets how many unreferenced inodes stay cached on a volume that is open for writing. Each
    /// takes about 2 KiB of memory.
    #[must_use]
    pub fn cached_inodes(mut self, most: u64) -> Self {
        self.cached_inodes = most;
        self
    }

    /// Opens the volume in an image file or on a block device.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. Some kinds of volumes can only be read. Opening them for writing is
    /// refused, with nothing changed.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Volume, OpenError> {
        self.open_devices(path)?.open()
    }

    /// Opens the volume on the caller's device, which starts with the superblock.
    ///
    /// ```
    /// # let (_folder, image) = xfs_trans::testing::make_file();
    /// use std::sync::Arc;
    ///
    /// use ferroxfs::OpenOptions;
    /// use ferroxfs::device::MemoryDevice;
    ///
    /// let device = Arc::new(MemoryDevice::from_bytes(&std::fs::read(&image)?)?);
    /// let volume = OpenOptions::new().write(true).open_device(device)?;
    /// volume.create_dir("/only-in-memory")?;
    /// volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open).
    pub fn open_device(&self, device: SharedDevice) -> Result<Volume, OpenError> {
        self.with_devices(device, None).open()
    }

    /// Opens and locks the files that `path` and the options name, and finds where the filesystem
    /// starts, without reading more of the filesystem. No file is opened later, so a caller can
    /// drop its privileges after this call.
    ///
    /// # Errors
    ///
    /// [`OpenError::Device`] and [`OpenError::Find`].
    pub fn open_devices(&self, path: impl AsRef<Path>) -> Result<Devices, OpenError> {
        let data = self.open_file(path.as_ref())?;
        let found =
            xfs_device::find_filesystem_among(data, &self.open_members()?, &self.selection)?;
        self.located_devices(found)
    }

    /// Uses the caller's devices: the data device, which starts with the superblock, and the log
    /// device if the log is external.
    #[must_use]
    pub fn with_devices(&self, data: SharedDevice, log: Option<SharedDevice>) -> Devices {
        Devices {
            data,
            start: 0,
            log,
            realtime: None,
            notes: Vec::new(),
            options: self.clone(),
            is_in_memory: false,
        }
    }

    /// Opens the log device and the realtime device that the options name. Returns them together
    /// with the data device, which is open already.
    fn located_devices(&self, found: LocatedVolume) -> Result<Devices, OpenError> {
        let open = |path: &Option<PathBuf>| match path {
            Some(path) => self.open_file(path).map(Some),
            None => Ok(None),
        };
        let (log, realtime) = (open(&self.log_device)?, open(&self.realtime_device)?);
        let LocatedVolume { device: data, start, notes, .. } = found;
        let options = self.clone();
        Ok(Devices { data, start, log, realtime, notes, options, is_in_memory: false })
    }

    /// Opens the other devices of the volume group or software RAID, as the option `member` names
    /// them.
    fn open_members(&self) -> Result<Vec<SharedDevice>, OpenError> {
        self.members.iter().map(|path| self.open_file(path)).collect()
    }

    fn open_file(&self, path: &Path) -> Result<SharedDevice, OpenError> {
        let options = match (self.writes, self.live) {
            (true, _) => xfs_device::FileOptions::read_write(),
            (false, true) => xfs_device::FileOptions::read_only().live(),
            (false, false) => xfs_device::FileOptions::read_only(),
        };
        #[cfg(feature = "object_store")]
        let opened = xfs_image::open_device_with(path, options, &self.objects)?;

        #[cfg(all(feature = "disk-images", not(feature = "object_store")))]
        let opened = xfs_image::open_device(path, options)?;

        #[cfg(not(feature = "disk-images"))]
        let opened = xfs_device::open_device(path, options)?;

        Ok(opened.device)
    }
}

/// The devices of a volume, open and locked.
pub struct Devices {
    data: SharedDevice,
    start: u64,
    log: Option<SharedDevice>,
    /// The device of the realtime section. `None`: no such device was given.
    realtime: Option<SharedDevice>,
    notes: Vec<VolumeNote>,
    options: OpenOptions,
    /// Whether all writes to the devices stay in memory.
    is_in_memory: bool,
}

impl Devices {
    /// Sets the device of the realtime section, in place of one that the options name.
    #[must_use]
    pub fn with_realtime(self, realtime: SharedDevice) -> Self {
        Self { realtime: Some(realtime), ..self }
    }

    /// Returns notes about the devices that the user must know, such as that a member of a RAID 1
    /// array is outdated.
    #[must_use]
    pub fn notes(&self) -> &[VolumeNote] {
        &self.notes
    }

    /// Returns the device that holds the volume, from the first byte of its superblock on.
    #[must_use]
    pub fn data(&self) -> &SharedDevice {
        &self.data
    }

    /// Returns the byte of the file or disk at which the volume starts: 0 unless it is in a
    /// partition or at an offset.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the device that was given for an external log; `None` if none was given.
    #[must_use]
    pub fn external_log(&self) -> Option<&SharedDevice> {
        self.log.as_ref()
    }

    /// Returns the device of the realtime section. `None` if none was given.
    #[must_use]
    pub fn realtime(&self) -> Option<&SharedDevice> {
        self.realtime.as_ref()
    }

    /// Returns the superblock and the state of the log, even if opening the volume would be
    /// refused.
    ///
    /// # Errors
    ///
    /// The superblock may be unreadable, corrupt, or of a version before 4.
    pub(crate) fn description(&self) -> Result<Description, Error> {
        let superblock = read_superblock(&self.data)?;
        let refusal = superblock.refusal(VolumeAccess::Read);
        let log = self.log_state(&superblock);
        Ok(Description { start: self.start, superblock, refusal, log })
    }

    /// Opens the volume, for writing if the [options](OpenOptions::write) say so.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`OpenOptions::open`].
    pub fn open(&self) -> Result<Volume, OpenError> {
        if self.options.writes { self.open_to_write() } else { self.open_to_read() }
    }

    /// Returns the corruption to report if the volume is longer than its device. `None`: the device
    /// is long enough.
    fn cut_short(&self, superblock: &Superblock) -> Option<Corruption> {
        let (volume_bytes, device_bytes) =
            (superblock.geometry.data_bytes(), self.data.length_bytes());
        let check = SuperblockCheck::CutShort { volume_bytes, device_bytes };
        (device_bytes < volume_bytes).then(|| {
            Corruption::new(Structure::Superblock, StructureAddress::Disk(DiskAddr(0)), check)
        })
    }

    fn cache(&self, device: SharedDevice, superblock: &Superblock) -> BufferCache {
        let geometry = Arc::new(superblock.geometry.clone());
        BufferCache::new(device, geometry, self.options.cache_bytes)
            .with_realtime_device(self.realtime.clone())
    }

    /// Returns the log of the volume with this superblock, for reading. `None`: the log is external
    /// and its device was not given.
    pub(crate) fn log_of(&self, superblock: &Superblock) -> Option<Result<LogDevice, Error>> {
        let device =
            if superblock.has_external_log() { self.log.clone()? } else { self.data.clone() };
        Some(LogDevice::new(device, superblock))
    }

    /// Returns the state of the log. `None`: the log is external and its device was not given.
    fn log_state(&self, superblock: &Superblock) -> Option<Result<LogState, Error>> {
        let log = self.log_of(superblock)?;
        Some(log.and_then(|log| xfs_log::find_head_and_tail(&log)))
    }
}

/// Checks that the LSN in the superblock is not past the head of the log. An LSN past the head
/// means that the log was zeroed, or belongs to another volume.
fn check_age(superblock: &Superblock, state: &LogState) -> Result<(), OpenError> {
    superblock.verify_lsn(state.head).map_err(|corruption| OpenError::Log(corruption.into()))
}

/// Properties of a volume that are known without reading its files.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "raw"),
    expect(unreachable_pub, reason = "the feature `raw` makes it public")
)]
#[non_exhaustive]
pub struct Description {
    /// The byte of the file or disk at which the volume starts: 0 unless it is in a partition.
    #[cfg_attr(not(feature = "raw"), expect(dead_code, reason = "the feature `raw` shows it"))]
    pub start: u64,
    /// The superblock.
    pub superblock: Superblock,
    /// The reason why the volume is refused when it is opened for reading. `None`: it is not
    /// refused.
    pub refusal: Option<Unsupported>,
    /// State of the log. `None`: the log is on a device that was not given.
    pub log: Option<Result<LogState, Error>>,
}

fn read_superblock(device: &SharedDevice) -> Result<Superblock, Error> {
    let length = usize::try_from(device.length_bytes()).unwrap_or(usize::MAX).min(MAX_SECTOR_BYTES);
    let mut sector = vec![0; length];
    device
        .read_at(&mut sector, 0)
        .map_err(|source: io::Error| IoError::new("read", DiskAddr(0), length as u64, source))?;
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).map_err(|error| match error {
        SuperblockError::Corrupt(corruption) => corruption.into(),
        SuperblockError::Unsupported(reason) => reason.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::{OpenOptions, Timestamp, Upkeep};

    /// Checks that with a fixed time there is no upkeep unless the caller asks for it. Upkeep
    /// forces the log at times that depend on the clock, so two runs could give different bytes.
    #[test]
    fn fixed_time_disables_upkeep() {
        let (host, fixed) =
            (OpenOptions::new(), OpenOptions::new().fixed_time(Timestamp::default()));
        assert_eq!(host.options.chosen_upkeep(), Some(Upkeep::default()));
        assert_eq!(fixed.options.chosen_upkeep(), None);
        let chosen = Upkeep::new(Upkeep::SHORTEST, Upkeep::LONGEST);
        assert_eq!(fixed.upkeep(chosen).options.chosen_upkeep(), Some(chosen));
    }
}
