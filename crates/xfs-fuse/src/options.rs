//! What stands behind `-o`.
//!
//! Owns: the names of options, their values, and which are refused by name: everything that mount(8) and XFS
//! mounts know and we do not do. Does **not** own: what they do.

use std::io;
use std::path::{Path, PathBuf};

use ferroxfs::OpenOptions;
use rustix::fs::StatVfsMountFlags;
use thiserror::Error;

use crate::server::{AccessTimes, Checks, Durability, Settings};
use crate::transport::MountFacts;
use crate::{ChannelKind, Service};

/// The fewest threads that wait for requests, unless the options say: one may have to read from the device.
const FEWEST_THREADS: usize = 2;
const MOST_THREADS: usize = 64;
/// The smallest cache: less would be read again at every step.
const LEAST_CACHE_BYTES: u64 = 1 << 20;
/// What one of so many bytes of the cache is for inodes, where they are kept apart from their blocks.
const INODES_PART: usize = 4;
/// About what an inode takes.
const INODE_BYTES: usize = 2 << 10;

/// In the flags of statvfs, of a mount on which no symbolic link is followed (`ST_NOSYMFOLLOW`).
const NO_SYMLINKS: u64 = 0x2000;

/// Options for the volume, the mount and the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// `None` where neither is named.
    read_only: Option<bool>,
    no_recovery: bool,
    offset: Option<u64>,
    partition: Option<u32>,
    log_device: Option<PathBuf>,
    cache_bytes: Option<usize>,
    allow_other: bool,
    suid: bool,
    dev: bool,
    no_exec: bool,
    no_symlinks: bool,
    /// Which changes are durable at once, by words that do not take each other back.
    sync_all: bool,
    sync_names: bool,
    /// Whose times of access stay, the same.
    no_times: bool,
    no_directory_times: bool,
    threads: Option<usize>,
    channel: ChannelKind,
    settings: Settings,
}

/// An option that is not understood.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// Nothing is called so.
    #[error("{name}: no such mount option")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// The kernel's XFS has it, and we do not.
    #[error("{name}: this mount option is not supported: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// It stands there alone, and has to have a value.
    #[error("{name}: needs a value, {}", values(name))]
    ValueMissing {
        /// Its name.
        name: String,
    },
    /// It has no such value.
    #[error("{name}: {value:?} is not {}", values(name))]
    Value {
        /// Its name.
        name: String,
        /// What was given.
        value: String,
    },
    /// Two options exclude each other.
    #[error("{first} and {second} exclude each other")]
    Conflict {
        /// One.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
}

impl OptionError {
    /// Whether it is refused by name, not misunderstood.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// Options of the kernel's XFS, or of FUSE, that are refused, and why.
const REFUSED: [(&str, &str); 55] = [
    ("strictatime", "times of access are relatime or noatime"),
    ("noiversion", "version 5 counts changes in any case"),
    ("mand", "no lock is mandatory"),
    ("context", LABELS),
    ("fscontext", LABELS),
    ("defcontext", LABELS),
    ("rootcontext", LABELS),
    ("loop", "images are mounted as they are"),
    ("sizelimit", "the superblock says how large the volume is"),
    ("bind", ELSEWHERE),
    ("rbind", ELSEWHERE),
    ("move", ELSEWHERE),
    ("shared", ELSEWHERE),
    ("rshared", ELSEWHERE),
    ("slave", ELSEWHERE),
    ("rslave", ELSEWHERE),
    ("private", ELSEWHERE),
    ("rprivate", ELSEWHERE),
    ("unbindable", ELSEWHERE),
    ("runbindable", ELSEWHERE),
    ("swalloc", ALIGNMENT),
    ("sunit", ALIGNMENT),
    ("swidth", ALIGNMENT),
    ("noalign", ALIGNMENT),
    ("largeio", ALIGNMENT),
    ("allocsize", ALIGNMENT),
    ("filestreams", ALIGNMENT),
    ("inode32", "inodes are put anywhere"),
    ("logbufs", LOG),
    ("logbsize", LOG),
    ("discard", "free space is not discarded by a mount"),
    ("dax", "images are not mapped into memory"),
    ("rtdev", REALTIME),
    ("lifetime", REALTIME),
    ("nolifetime", REALTIME),
    ("max_open_zones", REALTIME),
    ("max_atomic_write", "no write is atomic"),
    ("errortag", "errors are not made on purpose"),
    ("ikeep", "inodes that are not used are given back"),
    ("noattr2", "version 5 has attr2 in any case"),
    ("quota", QUOTA),
    ("qnoenforce", QUOTA),
    ("usrquota", QUOTA),
    ("uquota", QUOTA),
    ("uqnoenforce", QUOTA),
    ("grpquota", QUOTA),
    ("gquota", QUOTA),
    ("gqnoenforce", QUOTA),
    ("prjquota", QUOTA),
    ("pquota", QUOTA),
    ("pqnoenforce", QUOTA),
    ("grpid", "use the set-group-ID bit of directories"),
    ("bsdgroups", "use the set-group-ID bit of directories"),
    ("auto_unmount", "use an entry in fstab, or ferroxfs umount"),
    ("allow_root", "use allow_other"),
];
const ALIGNMENT: &str = "the layout follows the superblock";
const LOG: &str = "the log's buffers are not to be set";
const REALTIME: &str = "realtime devices are refused";
const QUOTA: &str = "quota is not enforced";
const LABELS: &str = "labels are those of the files";
const ELSEWHERE: &str =
    "mount(8) does that with what is mounted, by an option of its own (--bind, --make-private)";

/// Options of mount(8) that are for itself, change nothing, or say what is so anyway.
const IGNORED: [&str; 29] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
    "_netdev",
    "silent",
    "loud",
    "nomand",
    "iversion",
    "nostrictatime",
    // Without it the kernel does the same.
    "norelatime",
    "remount",
    "nouuid",
    "attr2",
    "inode64",
    "noikeep",
    "nolargeio",
    "nogrpid",
    "sysvgroups",
    "noquota",
    "nodiscard",
];

impl MountOptions {
    /// Those that a mount has, for who changes some of them: what it does not let programs do stays so
    /// unless it is named.
    ///
    /// # Errors
    ///
    /// That of statvfs.
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

    /// Reads a list of options that are separated by commas, on top of those that are there.
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

    /// What mount(8) hands on comes in the order of the command line: of two that exclude each other the later one
    /// counts.
    fn add_word(&mut self, name: &str) -> Result<(), OptionError> {
        match name {
            "ro" => self.read_only = Some(true),
            "rw" => self.read_only = Some(false),
            "norecovery" => self.no_recovery = true,
            "allow_other" => self.allow_other = true,
            // mount(8) keeps `suid` and `dev` to itself, which take back only what it thinks is not set.
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
            _ if IGNORED.contains(&name) || is_comment(name) => {}
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    fn add_value(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let bad = || OptionError::Value { name: name.to_owned(), value: value.to_owned() };
        let id = || value.parse::<u32>().ok().filter(|id| *id != u32::MAX).ok_or_else(bad);
        match name {
            "offset" => self.offset = Some(bytes(value).ok_or_else(bad)?),
            "partition" => self.partition = Some(value.parse().map_err(|_| bad())?),
            "logdev" => self.log_device = Some(PathBuf::from(value)),
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
            // What mount(8) and libfuse's helpers add, and what the kernel shows of a mount.
            "user_id" | "group_id" | "fsname" | "subtype" | "uhelper" | "helper" | "comment" => {}
            // Who may unmount it: mount(8) notes that for umount(8).
            "user" => {}
            // The first is the kernel's default, which looks at a flag that is on no file of ours.
            "dax" if matches!(value, "inode" | "never") => {}
            _ if is_comment(name) => {}
            _ if self.clone().add_word(name).is_ok() => {
                let reason = "it takes no value here";
                return Err(OptionError::Refused { name: name.to_owned(), reason });
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// Whether nothing may be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only == Some(true) || self.no_recovery
    }

    /// How to open the volume.
    ///
    /// # Errors
    ///
    /// [`OptionError::Conflict`].
    pub fn open_options(&self) -> Result<OpenOptions, OptionError> {
        let mut open = OpenOptions::new().no_recovery(self.no_recovery);
        match (self.partition, self.offset) {
            (Some(_), Some(_)) => {
                return Err(OptionError::Conflict { first: "partition", second: "offset" });
            }
            (Some(number), None) => open = open.partition(number),
            (None, Some(bytes)) => open = open.offset(bytes),
            (None, None) => {}
        }
        if self.settings.writeback && self.sync_all {
            return Err(OptionError::Conflict { first: "writeback_cache", second: "sync" });
        }
        self.check_checks()?;
        // What a log that is not replayed may still change must not be written over.
        if self.no_recovery && self.read_only == Some(false) {
            return Err(OptionError::Conflict { first: "norecovery", second: "rw" });
        }
        if let Some(path) = &self.log_device {
            open = open.log_device(path);
        }
        if let Some(bytes) = self.cache_bytes {
            let for_inodes = if self.is_read_only() { 0 } else { bytes / INODES_PART };
            open = open
                .cache_bytes(bytes - for_inodes)
                .cached_inodes((for_inodes / INODE_BYTES) as u64);
        }
        Ok(open)
    }

    /// Whether the server can check permissions, if it is to.
    fn check_checks(&self) -> Result<(), OptionError> {
        if self.settings.checks == Checks::Kernel {
            return Ok(());
        }
        let excluded = [
            // Somebody else's processes are not to be looked at, and he trusts the kernel alone.
            ("allow_other", self.allow_other),
            // Who writes back what is written, and tells the times of that, is not who has written.
            ("writeback_cache", self.settings.writeback),
            // Rights are those of the owners that the volume has, not of those that are shown.
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

    /// What the kernel is told.
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

    /// How the volume is served.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let read_only = self.is_read_only();
        let durability = match (self.sync_all, self.sync_names) {
            (true, _) => Durability::All,
            (false, true) => Durability::Names,
            (false, false) => Durability::Asked,
        };
        let access_times = match (self.no_times, self.no_directory_times) {
            (true, _) => AccessTimes::Never,
            (false, true) => AccessTimes::Files,
            (false, false) => AccessTimes::Relative,
        };
        let writeback = self.settings.writeback && !read_only;
        Settings { read_only, writeback, durability, access_times, ..self.settings }
    }

    /// Who serves it.
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

/// Options that are nothing without a value.
const VALUED: [&str; 7] = ["offset", "partition", "logdev", "cache", "threads", "uid", "gid"];

/// What the values of an option are.
fn values(name: &str) -> &'static str {
    match name {
        "offset" => "a number of bytes",
        "logdev" => "the path of a file or device",
        "cache" => "a number of bytes from 1M on",
        "threads" => "a number from 1 to 64",
        "uid" | "gid" => "the number of a user or group",
        _ => "a number",
    }
}

/// What others read in fstab.
fn is_comment(name: &str) -> bool {
    name.starts_with("x-") || name.starts_with("X-")
}

fn unknown(name: &str) -> OptionError {
    let name = name.to_owned();
    if VALUED.contains(&name.as_str()) {
        return OptionError::ValueMissing { name };
    }
    match REFUSED.iter().find(|(refused, _)| *refused == name) {
        Some((_, reason)) => OptionError::Refused { name, reason },
        None => OptionError::Unknown { name },
    }
}

/// A number of bytes, with the suffixes of mkfs: k, m, g, t.
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
