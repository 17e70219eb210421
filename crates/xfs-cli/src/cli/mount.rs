//! The arguments of `mount`, `run`, `umount`, `mounts` and `stats`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::options::JsonOption;

/// Mount a volume, also as an ordinary user, and serve it in the background
///
/// The command returns when the mount is ready, or fails with nothing mounted. Right after an
/// unmount it waits until the image is closed. An ordinary user needs fusermount3. Writes are
/// durable after fsync, or after five seconds; after a crash the next mount recovers the volume.
#[derive(Args, Debug)]
#[command(after_help = MOUNT_OPTIONS, help_template = super::options::AFTER_USAGE)]
pub(crate) struct MountArguments {
    /// The image or device; can be left out with -o remount
    #[arg(value_name = "IMAGE")]
    pub(crate) device: PathBuf,
    /// The directory, or /dev/fd/N for a connection that is mounted already
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub(crate) options: Vec<String>,
    /// Show a damaged volume read-only, as far as it can be read: as -o damaged
    #[arg(long)]
    pub(crate) damaged: bool,
    /// Stay in the foreground
    #[arg(short, long)]
    pub(crate) foreground: bool,
    /// Log to standard error: with -v phases of the mount, with -vv each request, with -vvv also
    /// transactions and log forces, each with its duration
    #[arg(short, long, action = ArgAction::Count, requires = "foreground")]
    pub(crate) verbose: u8,
    /// Serve the mount as the background process that `mount` has started, and report readiness to
    /// it on standard output
    #[arg(long, hide = true, conflicts_with = "foreground")]
    pub(crate) background: bool,
    /// Unmount when standard input ends: the process that `run` has started ends with `run`
    #[arg(long, hide = true, requires = "background")]
    pub(crate) ends_with_input: bool,
}

const MOUNT_OPTIONS: &str = "\
Mount options:
  ro, rw                     read-only, or writable (the default)
  norecovery                 read-only, without replaying the log
  damaged                    read-only, as far as the volume can be read, as
                             salvage does; reading missing contents fails with
                             EIO; all names are kept in memory
  partition=N, offset=BYTES, volume=VG/LV
                             where in the image the volume is
  member=FILE                another device of the volume group or software
                             RAID
  logdev=FILE                the external log
  rtdev=FILE                 the realtime device
  uquota, gquota, pquota     count usage of users, groups or projects, and
                             enforce limits; also usrquota, grpquota, prjquota
  uqnoenforce, gqnoenforce, pqnoenforce
                             count usage, and enforce no limits
  noquota                    count nothing (the default, except on volumes with
                             a metadata directory: they keep their types)
  allow_other                other users may use the mount; permissions are
                             always checked
  default_permissions        (the default) the kernel checks permissions
  nodefault_permissions      the server checks permissions, by the groups and
                             capabilities of the caller in /proc; the kernel
                             looks up every name of a path each time; not with
                             allow_other, uid=, gid=, dev, writeback_cache
  uid=N, gid=N               show all files as belonging to this user or group
  sync, wsync                all changes, or changes of names and inodes, are
                             durable at once
  writeback_cache            the kernel caches writes and writes them later, so
                             they are acknowledged before they have space: a
                             program that calls neither fsync(2) nor close(2)
                             does not learn of a full volume, and a crash loses
                             what was not synced
  noatime, nodiratime, relatime
                             when access times are set (relatime)
  lazytime                   access times are written when the file is synced
                             or no longer in use, or after a day, when another
                             file is read
  suid, dev, noexec, nosymfollow
                             as in mount(8); the default is nosuid and nodev
  allow_suid, allow_dev      the same as suid and dev, which mount(8) and fstab
                             do not pass on
  remount                    change ro or rw, and these four, of an existing
                             mount: mount -o remount,ro DIR
  threads=N                  the number of requests served at a time (1 per
                             processor, at least 2; the same number again while
                             others wait for a sync)
  io_uring                   requests come through rings of io_uring, one for
                             each processor, and more with threads=; fails if
                             the kernel does not support it
  cache=SIZE                 bytes of metadata to cache, a quarter of them for
                             inodes of a writable volume (64M, and 128M for
                             inodes)

Other options of mount(8) are accepted if they ask for the default (async,
atime, silent) or are meant for mount(8) itself (nofail, _netdev, user, x-...).
All others are refused by name. Of two options that exclude each other, the
later one counts.

When writes become durable:
  fsync(2) of a file, sync FILE        the file, on return
  fsync(2) of the root, sync DIR       all writes so far, on return
  sync, sync -f, nothing               within five seconds; a crash or a kill
                                       before that loses them
  stores to mapped files               once the kernel writes them: on return
                                       of msync(2) or fsync(2) of the file;
                                       after munmap(2), close(2) or sync, or
                                       after some 30 seconds
  -o sync                              each change, on return";

/// Mount a volume, run a program in it, and unmount the volume when the program ends
///
/// The program starts in the root directory of the volume. The environment variable FERROXFS_MOUNT
/// has the path of that directory. ferroxfs passes signals on to the program. Afterwards it waits
/// until the image is closed, removes the temporary directory, and exits with the code of the
/// program. The mount also ends if ferroxfs is killed.
#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// The image or device
    #[arg(value_name = "IMAGE")]
    pub(crate) device: PathBuf,
    /// Mount at this directory instead of a temporary one
    #[arg(long, value_name = "DIR")]
    pub(crate) at: Option<PathBuf>,
    /// Mount for reading: as -o ro
    #[arg(short, long)]
    pub(crate) read_only: bool,
    /// Options of the mount, separated by commas; ferroxfs mount --help lists them
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub(crate) options: Vec<String>,
    /// Do not wait for processes that use the volume when the program has ended: detach the mount,
    /// which closes when the last of them is done
    #[arg(short, long)]
    pub(crate) lazy: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Unmount a volume that `mount` has mounted, and wait until its image is closed
///
/// All changes are made durable first; if that fails, the volume stays mounted. If the image cannot
/// be closed afterwards, the command fails, and the last changes may be lost.
#[derive(Args, Debug)]
pub(crate) struct UmountArguments {
    /// The directory of the mount, or the image that is mounted there
    #[arg(value_name = "DIR|IMAGE")]
    pub(crate) folder: PathBuf,
    /// Detach the mount even though it is in use; it closes when the last user is done
    #[arg(short, long)]
    pub(crate) lazy: bool,
    /// Unmount even if some changes cannot be made durable; they are lost
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// List the mounts of ferroxfs: image, directory, access, options and process
#[derive(Args, Debug)]
pub(crate) struct MountsArguments {
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Show how many requests a mount has served, and how long they took
///
/// For a writable mount also the counters of the volume: inodes, buffers, transactions, the log.
#[derive(Args, Debug)]
pub(crate) struct StatsArguments {
    /// The directory of the mount, or the image that is mounted there
    #[arg(value_name = "DIR|IMAGE")]
    pub(crate) folder: PathBuf,
    /// Print the text format of Prometheus, with all buckets of durations
    #[arg(long, conflicts_with = "watch")]
    pub(crate) prometheus: bool,
    /// Serve the figures in the format of Prometheus by HTTP on a loopback address, such as
    /// 127.0.0.1:9187, until interrupted; every user of this machine can read them
    #[arg(long, value_name = "ADDRESS", requires = "prometheus", conflicts_with = "watch")]
    pub(crate) listen: Option<SocketAddr>,
    /// Show the totals since the mount, and then every second the requests of that second: in place
    /// on a terminal, one table after another elsewhere
    #[arg(short, long)]
    pub(crate) watch: bool,
}
