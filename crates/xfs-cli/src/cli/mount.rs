//! The arguments of `mount`, `umount` and `stats`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::JsonOption;

/// Mount a volume, as an ordinary user too, and serve it in the background
///
/// It returns when the mount can be used, or fails with nothing mounted. Right after an unmount it
/// waits until the image is closed. An ordinary user needs fusermount3. What is written is durable
/// once fsync has returned, or after five seconds; after a crash the next mount recovers.
#[derive(Args, Debug)]
#[command(after_help = MOUNT_OPTIONS, help_template = super::AFTER_USAGE)]
pub(crate) struct MountArguments {
    /// The image or device; with -o remount it can be left out
    #[arg(value_name = "IMAGE")]
    pub(crate) device: PathBuf,
    /// The folder, or /dev/fd/N for a connection that is mounted already
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub(crate) options: Vec<String>,
    /// Stay in the foreground
    #[arg(short, long)]
    pub(crate) foreground: bool,
    /// Tell on standard error what the mount does: with -v its phases, with -vv each request, with -vvv
    /// transactions and log forces too, and how long each of them took
    #[arg(short, long, action = ArgAction::Count, requires = "foreground")]
    pub(crate) verbose: u8,
    /// Serve, and say on standard output when that has begun
    #[arg(long, hide = true, conflicts_with = "foreground")]
    pub(crate) background: bool,
}

const MOUNT_OPTIONS: &str = "\
Mount options:
  ro, rw                     read-only, or (the default) for writing as well
  norecovery                 read-only, with the log as it stands
  partition=N, offset=BYTES  where in the image the volume is
  logdev=FILE                the external log
  allow_other                other users may use it; permissions are always
                             checked
  default_permissions        (the default) the kernel checks permissions
  nodefault_permissions      the server does, by the groups and capabilities
                             that /proc shows of who asks: every name of a path
                             is asked for each time; not with allow_other,
                             uid=, gid=, dev, writeback_cache
  uid=N, gid=N               whose everything appears to be
  sync, wsync                all changes, or those of names and inodes, are
                             durable at once
  writeback_cache            the kernel keeps what is written, and writes it
                             later: it is acknowledged before it has space, so
                             that a program that asks neither fsync(2) nor
                             close(2) is not told of a full volume, and lost in
                             a crash unless it is synced
  noatime, nodiratime, relatime
                             when the time of access is set (relatime)
  lazytime                   the time of access is written when the file is
                             synced or not in use any more, or after a day
                             where others are read then
  suid, dev, noexec, nosymfollow
                             as in mount(8); nosuid and nodev unless asked
                             otherwise
  allow_suid, allow_dev      the same as suid and dev, which mount(8) and fstab
                             do not hand on
  remount                    set ro or rw and those four anew, on a mount that
                             is there: mount -o remount,ro DIR
  threads=N                  how many requests are served at a time (1 per
                             processor, at least 2; and as many while others
                             are synced)
  io_uring                   requests come through rings of io_uring, one for
                             each processor and more by threads=; fails where
                             the kernel does not offer it
  cache=SIZE                 bytes of metadata that are kept, a quarter of them
                             for inodes of a volume that is written (64M, and
                             128M for inodes)

Other words of mount(8) are taken where they say what is so anyway (async,
atime, silent) or are for itself (nofail, _netdev, user, x-...), and refused by
name otherwise. Of two that exclude each other the later one counts.

What is durable when:
  fsync(2) of a file, sync FILE        the file, on return
  fsync(2) of the root, sync DIR       everything that was written, on return
  sync, sync -f, nothing               within five seconds; a crash or a kill
                                       before loses it
  stores to mapped files               from when the kernel writes them: by
                                       msync(2) and fsync(2) of the file, on
                                       return; by munmap(2), close(2), sync, or
                                       after some 30 seconds
  -o sync                              each change, on return";

/// Unmount a volume that `mount` has mounted, and wait until its image is closed
///
/// First everything is made durable; where that fails it stays mounted. It fails, too, if the image could not be
/// closed: then changes of the last moment may be lost.
#[derive(Args, Debug)]
pub(crate) struct UmountArguments {
    /// The folder, or the image that is mounted there
    #[arg(value_name = "DIR|IMAGE")]
    pub(crate) folder: PathBuf,
    /// Take it out of the tree though it is in use; it closes when it is not any more
    #[arg(short, long)]
    pub(crate) lazy: bool,
    /// Unmount it also where not everything can be made durable, and lose the rest
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// List the mounts of this program: image, folder, access and process
#[derive(Args, Debug)]
pub(crate) struct MountsArguments {
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Show how many requests a mount has served, and how long they took
///
/// Beside them, of a mount for writing, what the volume counts: inodes, buffers, transactions, the log.
#[derive(Args, Debug)]
pub(crate) struct StatsArguments {
    /// The folder, or the image that is mounted there
    #[arg(value_name = "DIR|IMAGE")]
    pub(crate) folder: PathBuf,
    /// Print the text format of Prometheus, with all classes of durations
    #[arg(long, conflicts_with = "watch")]
    pub(crate) prometheus: bool,
    /// Serve that text by HTTP on an address of this machine alone, such as 127.0.0.1:9187, until
    /// interrupted; every user of this machine may ask
    #[arg(long, value_name = "ADDRESS", requires = "prometheus", conflicts_with = "watch")]
    pub(crate) listen: Option<SocketAddr>,
    /// Show what came since the mount, and then every second what came in that: in place on a terminal, one table
    /// after the other elsewhere
    #[arg(short, long)]
    pub(crate) watch: bool,
}
