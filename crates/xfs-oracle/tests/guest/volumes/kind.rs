//! The kinds of volumes that the guest fills.

use std::fs::File as HostFile;
use std::path::{Path, PathBuf};

use ferroxfs::OpenOptions;
use xfs_oracle::Xfsprogs;
use xfs_oracle::guest::GuestKernel;
use xfs_oracle::harness::TrialError;

const MIB: u64 = 1 << 20;

/// A kind of volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeKind {
    Version4,
    /// Version 4 with case-insensitive names.
    Version4FoldedNames,
    /// Version 4 with blocks of 512 bytes, old attributes and a log of version 1.
    Version4SmallBlocks,
    /// Version 5 with quota of users, groups and projects.
    Quota,
    /// A realtime device with a bitmap and a summary, as all kernels know it.
    ClassicRealtime,
    RealtimeGroups,
    /// A metadata directory without a realtime section.
    MetadataDirectory,
    ZonedDevice,
    ZonedInternal,
}

impl VolumeKind {
    pub(super) const ALL: [Self; 9] = [
        Self::Version4,
        Self::Version4FoldedNames,
        Self::Version4SmallBlocks,
        Self::Quota,
        Self::ClassicRealtime,
        Self::RealtimeGroups,
        Self::MetadataDirectory,
        Self::ZonedDevice,
        Self::ZonedInternal,
    ];

    /// Returns the kernel of the guest that fills the volume. Returns `None` for a volume that this
    /// machine's kernel fills, so that it needs no guest.
    pub(super) const fn kernel(self) -> Option<GuestKernel> {
        match self {
            Self::MetadataDirectory => None,
            _ if self.is_version_4() => Some(GuestKernel::V4),
            _ => Some(GuestKernel::New),
        }
    }

    pub(super) const fn is_version_4(self) -> bool {
        matches!(self, Self::Version4 | Self::Version4FoldedNames | Self::Version4SmallBlocks)
    }

    const fn has_realtime_device(self) -> bool {
        matches!(self, Self::ClassicRealtime | Self::RealtimeGroups | Self::ZonedDevice)
    }

    /// Returns the options with which the guest mounts the volume, apart from the realtime device.
    pub(super) const fn mount_options(self) -> &'static str {
        if matches!(self, Self::Quota) { "usrquota,grpquota,prjquota" } else { "noatime" }
    }

    /// Returns the options of mkfs.xfs, except the path of the realtime device. The seed chooses
    /// between variants.
    fn options(self, seed: u64) -> String {
        let is = |bit: u32| (seed >> bit) & 1 == 1;
        let either = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no };
        match self {
            Self::Version4 => {
                let inodes = either(is(1), "size=512,attr=2", "size=256,attr=2");
                let names = either(is(2), "ftype=0", "ftype=1");
                format!("-m crc=0 -b size=4096 -i {inodes} -n {names}")
            }
            Self::Version4FoldedNames => {
                let names = either(is(1), "version=ci,ftype=0", "version=ci,ftype=1");
                let inodes = either(is(2), "projid32bit=1", "projid32bit=0");
                format!("-m crc=0 -i {inodes} -n {names}")
            }
            Self::Version4SmallBlocks => {
                let log = either(is(1), "version=2,lazy-count=1", "version=1,lazy-count=0");
                format!("-m crc=0 -b size=512 -i attr=1,projid32bit=0,size=256 -l {log}")
            }
            Self::Quota => {
                either(is(1), "-n parent=0 -b size=1024", "-n parent=1 -i exchange=1").to_owned()
            }
            Self::ClassicRealtime => {
                let extents = either(is(1), "extsize=28k", "extsize=4096");
                format!("-m metadir=0 -r {extents}")
            }
            Self::RealtimeGroups => {
                let groups = either(is(1), "rgsize=16m", "rgsize=32m");
                format!("-m metadir=1,rmapbt=1,reflink=1 -r {groups}")
            }
            Self::MetadataDirectory => {
                let map = either(is(1), "rmapbt=1", "rmapbt=0");
                format!("-m metadir=1,{map}")
            }
            Self::ZonedDevice => "-r zoned=1,rgsize=8m".to_owned(),
            Self::ZonedInternal => "-d size=96m -r zoned=1,rgsize=8m".to_owned(),
        }
    }

    /// Returns the length of the data device in bytes.
    const fn data_bytes(self) -> u64 {
        match self {
            Self::ZonedInternal => 192 * MIB,
            _ => 96 * MIB,
        }
    }
}

/// The way in which the guest leaves a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeEnd {
    Unmounted,
    /// Shut down after some operations that are in the log.
    Logged,
    /// Shut down at a random moment while threads share, overwrite and remove files, so that
    /// intents are open.
    Storm,
}

impl VolumeEnd {
    /// Returns the end of the volume of a seed. Logs of version 4 with open intents are not
    /// replayed onto the disk. So half of the dirty volumes of each kind have no open intents.
    pub(super) const fn of(kind: VolumeKind, seed: u64) -> Self {
        match (seed % 2, (seed / 2) % 2, kind.is_version_4()) {
            (0, ..) => Self::Unmounted,
            (_, 0, true) | (_, 1, false) => Self::Logged,
            _ => Self::Storm,
        }
    }
}

/// A volume that a guest fills.
#[derive(Clone)]
pub(super) struct GuestVolume {
    pub(super) kind: VolumeKind,
    pub(super) seed: u64,
    pub(super) end: VolumeEnd,
    pub(super) data: PathBuf,
    pub(super) realtime: Option<PathBuf>,
}

impl GuestVolume {
    /// Makes an empty volume with mkfs.xfs.
    pub(super) fn make(folder: &Path, kind: VolumeKind, seed: u64) -> Result<Self, TrialError> {
        let file = |name: &str, bytes: u64| -> Result<PathBuf, String> {
            let path = folder.join(format!("{kind:?}-{seed}.{name}"));
            let file = HostFile::create(&path).map_err(|error| error.to_string())?;
            file.set_len(bytes).map_err(|error| error.to_string())?;
            Ok(path)
        };
        let data = file("data", kind.data_bytes())?;
        let realtime =
            kind.has_realtime_device().then(|| file("realtime", 80 * MIB)).transpose()?;
        let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
        mkfs.args(["-q", "-f", "--unsupported"]).args(kind.options(seed).split(' '));
        if let Some(path) = &realtime {
            mkfs.arg("-r").arg(format!("rtdev={}", path.display()));
        }
        let output = mkfs.arg(&data).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{kind:?}: mkfs.xfs: {said}").into());
        }
        Ok(Self { kind, seed, end: VolumeEnd::of(kind, seed), data, realtime })
    }

    /// Copies the image files of the volume. Returns the volume in the copies.
    pub(super) fn copied(&self) -> Result<Self, String> {
        let copy = |path: &PathBuf| {
            let mut to = path.clone().into_os_string();
            to.push(".copy");
            let mut cp = std::process::Command::new("cp");
            let status = cp.arg("--sparse=always").arg(path).arg(&to).status();
            match status.map_err(|error| error.to_string())?.success() {
                true => Ok(PathBuf::from(to)),
                false => Err(format!("cp {} failed", path.display())),
            }
        };
        let realtime = self.realtime.as_ref().map(copy).transpose()?;
        Ok(Self { data: copy(&self.data)?, realtime, ..self.clone() })
    }

    /// Returns the options with which ferroxfs opens the volume.
    pub(super) fn options(&self) -> OpenOptions {
        let options = OpenOptions::new();
        match &self.realtime {
            Some(path) => options.realtime_device(path),
            None => options,
        }
    }

    /// Returns an error if xfs_repair reports anything about the volume.
    pub(super) fn passes_xfs_repair(&self) -> Result<(), TrialError> {
        let mut repair = Xfsprogs::newer()?.command("xfs_repair");
        repair.arg("-n");
        if let Some(path) = &self.realtime {
            repair.arg("-r").arg(path);
        }
        let output = repair.arg(&self.data).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(format!("xfs_repair -n: {said}").into())
    }
}
