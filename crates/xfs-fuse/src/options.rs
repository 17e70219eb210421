//! The mount options after `-o`.
//!
//! Owns: the options that have an effect, their values, and which of them exclude each other. Does
//! **not** own: their effects, or the names of options that are refused or ignored ([`names`]).

mod names;

use std::io;
use std::path::{Path, PathBuf};

use ferroxfs::OpenOptions;
use ferroxfs::device::PartitionChoice;
use ferroxfs::quota::{QuotaMode, QuotaOptions};
use rustix::fs::StatVfsMountFlags;
use thiserror::Error;

use crate::Checks;
use crate::server::{AccessTimes, Settings, SyncPolicy};
use crate::transport::MountFacts;
use crate::{ChannelKind, Service};
use names::{IGNORED, is_comment, unknown, values};

/// The smallest default number of threads: one thread can serve requests while the other waits for
/// the volume's device.
const FEWEST_THREADS: usize = 2;
const MOST_THREADS: usize = 64;
/// The smallest cache in bytes. With less, every operation would read its metadata again.
const LEAST_CACHE_BYTES: u64 = 1 << 20;
/// The divisor for the size of the inode cache: it gets this part of the memory that the option
/// `cache` gives. The buffer cache gets the rest.
const INODES_PART: usize = 4;
/// Approximate memory of a cached inode in bytes.
const INODE_BYTES: usize = 2 << 10;

/// Flag of statvfs: the mount does not follow symbolic links (`ST_NOSYMFOLLOW`).
const NO_SYMLINKS: u64 = 0x2000;

/// The mount options of a volume: for opening it, for the mount and for the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FuseMountOptions {
    /// Whether the volume is read-only. `None` if neither `ro` nor `rw` was given.
    read_only: Option<bool>,
    no_recovery: bool,
    /// Set by the option `damaged`: a damaged volume is shown as far as it can be read.
    damaged: bool,
    offset: Option<u64>,
    partition: Option<PartitionChoice>,
    logical_volume: Option<String>,
    members: Vec<PathBuf>,
    log_device: Option<PathBuf>,
    realtime_device: Option<PathBuf>,
    cache_bytes: Option<usize>,
    quota: QuotaOptions,
    allow_other: bool,
    suid: bool,
    dev: bool,
    no_exec: bool,
    no_symlinks: bool,
    /// Set by the option `sync`: each change is durable before the server answers its request.
    /// `wsync` and `dirsync` set `sync_names` instead, because they neither imply nor cancel
    /// `sync`.
    sync_all: bool,
    sync_names: bool,
    /// Set by the option `noatime`: no access time is updated. `nodiratime` sets
    /// `no_directory_times` instead, because neither option cancels the other one.
    no_times: bool,
    no_directory_times: bool,
    threads: Option<usize>,
    channel: ChannelKind,
    settings: Settings,
}

/// The reason why a mount option is rejected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// The option does not exist.
    #[error("{name}: unknown mount option")]
    Unknown {
        /// Name of the option.
        name: String,
    },
    /// ferroxfs does not support this option, which the kernel's XFS or FUSE has.
    #[error("{name}: this mount option is not supported: {reason}")]
    Refused {
        /// Name of the option.
        name: String,
        /// The reason for the refusal.
        reason: &'static str,
    },
    /// The option needs a value, and none was given.
    #[error("{name}: value missing: expected {}", values(name))]
    ValueMissing {
        /// Name of the option.
        name: String,
    },
    /// The option does not accept the given value.
    #[error("{name}: invalid value {value:?}: expected {}", values(name))]
    Value {
        /// Name of the option.
        name: String,
        /// The given value.
        value: String,
    },
    /// Two options exclude each other.
    #[error("{first} and {second} exclude each other")]
    Conflict {
        /// The first of the two options that exclude each other.
        first: &'static str,
        /// The second of the two options that exclude each other.
        second: &'static str,
    },
}

impl OptionError {
    /// Returns whether the option exists but is not supported.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

impl FuseMountOptions {
    /// Returns the options of an existing mount, to which a remount adds its own options. The
    /// restrictions of the mount remain unless an added option lifts them.
    ///
    /// # Errors
    ///
    /// The error of statvfs.
    pub fn of_mount(folder: &Path) -> io::Result<Self> {
        let flags = rustix::fs::statvfs(folder)?.f_flag;
        Ok(Self {
            read_only: Some(flags.contains(StatVfsMountFlags::RDONLY)),
            suid: !flags.contains(StatVfsMountFlags::NOSUID),
            dev: !flags.contains(StatVfsMountFlags::NODEV),
            no_exec: flags.contains(StatVfsMountFlags::NOEXEC),
            no_symlinks: flags.bits() & NO_SYMLINKS != 0,
            ..Self::default()
        })
    }

    /// Parses a comma-separated list of options and adds them to the options of earlier calls.
    ///
    /// # Errors
    ///
    /// See [`OptionError`].
    pub fn add(&mut self, list: &str) -> Result<(), OptionError> {
        list.split(',').filter(|option| !option.is_empty()).try_for_each(|option| {
            match option.split_once('=') {
                Some((name, value)) => self.add_value(name, value),
                None => self.add_word(option),
            }
        })
    }

    /// Adds one option. mount(8) passes options in the order of the command line. Of two options
    /// that exclude each other, the later one counts.
    fn add_word(&mut self, name: &str) -> Result<(), OptionError> {
        match name {
            "ro" => self.read_only = Some(true),
            "rw" => self.read_only = Some(false),
            "norecovery" => self.no_recovery = true,
            "damaged" => self.damaged = true,
            "allow_other" => self.allow_other = true,
            // mount(8) does not pass `suid` and `dev` on, because it takes them for its defaults.
            "suid" | "allow_suid" => self.suid = true,
            "nosuid" => self.suid = false,
            "dev" | "allow_dev" => self.dev = true,
            "nodev" => self.dev = false,
            "noexec" => self.no_exec = true,
            "exec" => self.no_exec = false,
            "nosymfollow" => self.no_symlinks = true,
            "symfollow" => self.no_symlinks = false,
            "sync" => self.sync_all = true,
            "async" => self.sync_all = false,
            "wsync" | "dirsync" => self.sync_names = true,
            "io_uring" => self.channel = ChannelKind::IoUring,
            "lazytime" => self.settings.lazy_times = true,
            "nolazytime" => self.settings.lazy_times = false,
            "writeback_cache" => self.settings.writeback = true,
            "default_permissions" => self.settings.checks = Checks::Kernel,
            "nodefault_permissions" => self.settings.checks = Checks::Server,
            "noatime" => self.no_times = true,
            "atime" | "relatime" => self.no_times = false,
            "nodiratime" => self.no_directory_times = true,
            "diratime" => self.no_directory_times = false,
            _ if self.add_quota(name) => {}
            _ if IGNORED.contains(&name) || is_comment(name) => {}
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// Adds an option of quota. Returns `false` if `name` is no such option.
    fn add_quota(&mut self, name: &str) -> bool {
        let quota = &mut self.quota;
        match name {
            "quota" | "uquota" | "usrquota" => quota.user = QuotaMode::Enforce,
            "qnoenforce" | "uqnoenforce" => quota.user = QuotaMode::NoEnforce,
            "gquota" | "grpquota" => quota.group = QuotaMode::Enforce,
            "gqnoenforce" => quota.group = QuotaMode::NoEnforce,
            "pquota" | "prjquota" => quota.project = QuotaMode::Enforce,
            "pqnoenforce" => quota.project = QuotaMode::NoEnforce,
            "noquota" => *quota = QuotaOptions::all(QuotaMode::Off),
            _ => return false,
        }
        true
    }

    fn add_value(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let bad = || OptionError::Value { name: name.to_owned(), value: value.to_owned() };
        let id = || value.parse::<u32>().ok().filter(|id| *id != u32::MAX).ok_or_else(bad);
        match name {
            "offset" => self.offset = Some(bytes(value).ok_or_else(bad)?),
            "partition" => self.partition = Some(value.parse().map_err(|_| bad())?),
            "volume" => self.logical_volume = Some(value.to_owned()),
            "member" => self.members.push(PathBuf::from(value)),
            "logdev" => self.log_device = Some(PathBuf::from(value)),
            "rtdev" => self.realtime_device = Some(PathBuf::from(value)),
            "cache" => {
                let size = bytes(value).filter(|size| *size >= LEAST_CACHE_BYTES);
                let size = size.and_then(|size| usize::try_from(size).ok());
                self.cache_bytes = Some(size.ok_or_else(bad)?);
            }
            "threads" => {
                let threads = value.parse().ok().filter(|n| (1..=MOST_THREADS).contains(n));
                self.threads = Some(threads.ok_or_else(bad)?);
            }
            "uid" => self.settings.uid = Some(id()?),
            "gid" => self.settings.gid = Some(id()?),
            // Added by mount(8) and libfuse's helpers, or shown by the kernel for a mount.
            "user_id" | "group_id" | "fsname" | "subtype" | "uhelper" | "helper" | "comment" => {}
            // mount(8) notes here for umount(8) who may unmount.
            "user" => {}
            // `dax=inode` is the kernel's default and depends on a flag that none of our files has.
            "dax" if matches!(value, "inode" | "never") => {}
            _ if is_comment(name) => {}
            _ if self.clone().add_word(name).is_ok() => {
                let reason = "it takes no value";
                return Err(OptionError::Refused { name: name.to_owned(), reason });
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// Returns whether the volume must not be written to.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only == Some(true) || self.no_recovery || self.damaged
    }

    /// Returns whether the option `damaged` was given. A damaged volume is then shown as far as it
    /// can be read.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Returns whether a dirty log is replayed.
    #[must_use]
    pub fn replays_log(&self) -> bool {
        !self.no_recovery
    }

    /// Returns the given option that selects a part of the image, `partition` or `offset`. Returns
    /// `None` if neither was given.
    fn part_option(&self) -> Option<&'static str> {
        let partition = self.partition.as_ref().map(|_| "partition");
        partition.or_else(|| self.offset.map(|_| "offset"))
    }

    /// Returns the options for opening the volume.
    ///
    /// # Errors
    ///
    /// [`OptionError::Conflict`] if two options exclude each other.
    pub fn open_options(&self) -> Result<OpenOptions, OptionError> {
        let mut open = OpenOptions::new().no_recovery(self.no_recovery);
        match (&self.partition, self.offset) {
            (Some(_), Some(_)) => {
                return Err(OptionError::Conflict { first: "partition", second: "offset" });
            }
            (Some(PartitionChoice::Number(number)), None) => open = open.partition(*number),
            (Some(PartitionChoice::Name(name)), None) => open = open.partition_named(name),
            (None, Some(bytes)) => open = open.offset(bytes),
            (None, None) => {}
        }
        if let Some(name) = &self.logical_volume {
            if let Some(second) = self.part_option() {
                return Err(OptionError::Conflict { first: "volume", second });
            }
            open = open.logical_volume(name);
        }
        for member in &self.members {
            open = open.member(member);
        }
        if self.settings.writeback && self.sync_all {
            return Err(OptionError::Conflict { first: "writeback_cache", second: "sync" });
        }
        self.check_checks()?;
        // Writing is unsafe while the log has changes that were not replayed.
        if self.no_recovery && self.read_only == Some(false) {
            return Err(OptionError::Conflict { first: "norecovery", second: "rw" });
        }
        if self.damaged && self.read_only == Some(false) {
            return Err(OptionError::Conflict { first: "damaged", second: "rw" });
        }
        if self.damaged && self.settings.checks == Checks::Server {
            let second = "nodefault_permissions";
            return Err(OptionError::Conflict { first: "damaged", second });
        }
        // A read-only mount counts nothing, and shows the quota that the disk has.
        if !self.is_read_only() {
            open = open.quota(self.quota);
        }
        if let Some(path) = &self.log_device {
            open = open.log_device(path);
        }
        if let Some(path) = &self.realtime_device {
            open = open.realtime_device(path);
        }
        if let Some(bytes) = self.cache_bytes {
            let for_inodes = if self.is_read_only() { 0 } else { bytes / INODES_PART };
            open = open
                .cache_bytes(bytes - for_inodes)
                .cached_inodes((for_inodes / INODE_BYTES) as u64);
        }
        Ok(open)
    }

    /// Returns an error if the server must check permissions and another option prevents it from
    /// doing so.
    fn check_checks(&self) -> Result<(), OptionError> {
        if self.settings.checks == Checks::Kernel {
            return Ok(());
        }
        let excluded = [
            // Other users' processes must not be inspected, and those users trust only the kernel.
            ("allow_other", self.allow_other),
            // The kernel writes data back and sends times on its own behalf, not as the program
            // that wrote.
            ("writeback_cache", self.settings.writeback),
            // Permissions follow the owners on the volume, not those that are shown.
            ("uid", self.settings.uid.is_some()),
            ("gid", self.settings.gid.is_some()),
            // The kernel opens devices without asking.
            ("dev", self.dev),
        ];
        match excluded.into_iter().find(|(_, is_set)| *is_set) {
            Some((second, _)) => {
                Err(OptionError::Conflict { first: "nodefault_permissions", second })
            }
            None => Ok(()),
        }
    }

    /// Returns the attributes of the mount that mounting passes to the kernel, such as read-only.
    /// `source` is the device or image file that the mount shows as its source.
    #[must_use]
    pub fn facts(&self, source: PathBuf) -> MountFacts {
        MountFacts {
            source,
            read_only: self.is_read_only(),
            allow_other: self.allow_other,
            suid: self.suid,
            dev: self.dev,
            exec: !self.no_exec,
            symlinks: !self.no_symlinks,
        }
    }

    /// Returns the settings of the server.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let read_only = self.is_read_only();
        let durability = match (self.sync_all, self.sync_names) {
            (true, _) => SyncPolicy::All,
            (false, true) => SyncPolicy::Names,
            (false, false) => SyncPolicy::Asked,
        };
        let access_times = match (self.no_times, self.no_directory_times) {
            (true, _) => AccessTimes::Never,
            (false, true) => AccessTimes::Files,
            (false, false) => AccessTimes::Relative,
        };
        let writeback = self.settings.writeback && !read_only;
        Settings { read_only, writeback, durability, access_times, ..self.settings }
    }

    /// Returns the number of threads that serve the volume, and the kind of their channel.
    #[must_use]
    pub fn service(&self) -> Service {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let (threads, spare) = match self.threads {
            Some(threads) => (threads, 0),
            None => (processors.clamp(FEWEST_THREADS, MOST_THREADS / 2), processors),
        };
        Service { threads, spare: spare.min(MOST_THREADS - threads), channel: self.channel }
    }
}

/// Parses a number of bytes with one of mkfs's suffixes k, m, g and t. Returns `None` for other
/// text.
fn bytes(value: &str) -> Option<u64> {
    let suffixes = [("k", 10), ("m", 20), ("g", 30), ("t", 40)];
    let value = value.to_ascii_lowercase();
    for (suffix, shift) in suffixes {
        if let Some(number) = value.strip_suffix(suffix) {
            return number.parse::<u64>().ok()?.checked_mul(1 << shift);
        }
    }
    value.parse().ok()
}

#[cfg(test)]
mod tests;
