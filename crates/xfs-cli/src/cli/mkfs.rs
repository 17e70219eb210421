//! The arguments of `mkfs`, with the letters of mkfs.xfs(8).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::import::ArchiveOptions;
use super::options::JsonOption;
use super::{DiskOptions, PolicyOptions};

/// Make a new XFS volume, as mkfs.xfs(8) does, empty or filled
///
/// Options and suboptions are those of mkfs.xfs, and sizes take its suffixes s, b, k, m, g, t, p,
/// e. A file that does not exist is created if -d size=BYTES gives its size. -d size=auto is the
/// smallest size that holds the files of --from, --add or -p.
///
/// Two runs give the same bytes if SOURCE_DATE_EPOCH, or --time, and the other options are the
/// same; the UUID is then derived from them unless -m uuid= gives it.
#[derive(Args, Clone, Debug)]
pub(crate) struct MkfsArguments {
    /// The file or device
    pub(crate) device: Option<PathBuf>,
    /// Block size: size=BYTES
    #[arg(short = 'b', value_name = "OPTIONS")]
    pub(crate) block: Vec<String>,
    /// Data: agcount=, agsize=, size=, su=, sw=, sunit=, swidth=, noalign, name=, file, sectsize=,
    /// concurrency=; for files below the root: projinherit=, extszinherit=, cowextsize=,
    /// daxinherit=, rtinherit=
    #[arg(short = 'd', value_name = "OPTIONS")]
    pub(crate) data: Vec<String>,
    /// Inodes: size=, perblock=, maxpct=, sparse=, nrext64=, exchange=
    #[arg(short = 'i', value_name = "OPTIONS")]
    pub(crate) inode: Vec<String>,
    /// Log: size=, internal, agnum=, logdev=, file, su=, sunit=, sectsize=, version=, lazy-count=
    #[arg(short = 'l', value_name = "OPTIONS")]
    pub(crate) log: Vec<String>,
    /// Metadata: finobt=, rmapbt=, reflink=, inobtcount=, bigtime=, autofsck=, crc=, uuid=,
    /// metadir=, uquota, gquota, pquota, uqnoenforce, gqnoenforce, pqnoenforce
    #[arg(short = 'm', value_name = "OPTIONS")]
    pub(crate) metadata: Vec<String>,
    /// Naming: size=, version=, ftype=, parent=
    #[arg(short = 'n', value_name = "OPTIONS")]
    pub(crate) naming: Vec<String>,
    /// Sector size: size=BYTES
    #[arg(short = 's', value_name = "OPTIONS")]
    pub(crate) sector: Vec<String>,
    /// Label: at most 12 bytes
    #[arg(short = 'L', value_name = "LABEL", overrides_with = "label")]
    pub(crate) label: Option<OsString>,
    /// Overwrite an existing volume or file
    #[arg(short, short_alias = 'C', overrides_with = "force")]
    pub(crate) force: bool,
    /// Print nothing
    #[arg(short, long, overrides_with = "quiet")]
    quiet: bool,
    /// Print the geometry and write nothing
    #[arg(short = 'N', overrides_with = "dry_run")]
    pub(crate) dry_run: bool,
    /// Do not discard the old contents of the device
    #[arg(short = 'K', overrides_with = "keep")]
    pub(crate) keep: bool,
    /// Fill the volume from a directory, from an archive of tar or cpio, compressed or not ("-" for
    /// standard input), or from a container image: oci:DIRECTORY, oci-archive:FILE,
    /// docker-archive:FILE, each with :NAME. Several sources are layers: later ones replace files
    /// of earlier ones
    #[arg(long, value_name = "SOURCE")]
    pub(crate) from: Vec<PathBuf>,
    /// After --from, copy the directory SOURCE into the directory DEST, or the file SOURCE to DEST
    #[arg(long, value_name = "SOURCE:DEST", conflicts_with = "prototype")]
    pub(crate) add: Vec<OsString>,
    /// Make the smallest volume that holds the files of --from, --add or -p: two groups, the
    /// smallest log, no limit on inodes, all space used. The kernel mounts it and grows it; until
    /// then it has no space for new files, unless --free asks for it. It has at least 32 MiB; below
    /// 300 MiB, mkfs.xfs calls a volume unsupported
    #[arg(long)]
    pub(crate) minimize: bool,
    /// With -d size=auto or --minimize, leave this much space free: bytes, or a percentage of the
    /// volume
    #[arg(long, value_name = "SIZE|PERCENT%")]
    pub(crate) free: Option<String>,
    /// Count the usage of users, groups and projects while the volume is filled: uquota, gquota,
    /// pquota, which enforce limits, or uqnoenforce, gqnoenforce, pqnoenforce. The kernel mounts
    /// the volume with the options of these names and need not count again. "-m uquota" also turns
    /// quota on for each mount; it needs a metadata directory
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub(crate) quota: Vec<String>,
    /// Set the limits of an owner, as xfs_quota(8) does: user=ID, group=ID or project=ID, then
    /// bsoft=SIZE, bhard=SIZE, isoft=N, ihard=N, such as project=42:bhard=10m,ihard=1000. ID 0
    /// stands for the default limits. The type of the owner is counted, and its limits are enforced
    #[arg(long = "limit", value_name = "OWNER:LIMITS")]
    pub(crate) limits: Vec<OsString>,
    #[command(flatten)]
    pub(crate) archive: ArchiveOptions,
    /// Fill the volume from a prototype file, or from a directory: [file=]FILE, atime=,
    /// slashes_are_spaces=
    #[arg(short = 'p', value_name = "OPTIONS", conflicts_with = "from")]
    pub(crate) prototype: Vec<OsString>,
    /// Give all files of --from or -p to user and group 0
    #[arg(long)]
    pub(crate) all_root: bool,
    /// Seconds since 1970 for all time stamps, instead of SOURCE_DATE_EPOCH
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) time: Option<i64>,
    /// A number from which UUID and inode generations are derived
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Make the bytes of this epoch, or fail: with a fixed time, the same source and options give
    /// the same bytes in every version of ferroxfs that knows the epoch. This version knows 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1))]
    pub(crate) epoch: Option<u32>,
    /// Print the SHA-256 of the finished file, also with -q; not for a device, a partition, a file
    /// with several names, -K or -N, which make no new file
    #[arg(long)]
    pub(crate) digest: bool,
    /// Allow volumes under 300 MiB and logs under 64 MiB, for tests
    #[arg(long)]
    pub(crate) unsupported: bool,
    /// Realtime: rtdev=, size=, extsize=, file; with metadir=1 also rgcount=, rgsize=
    #[arg(short = 'r', value_name = "OPTIONS")]
    pub(crate) realtime: Vec<String>,
    /// Read options from a configuration file of mkfs.xfs: FILE or options=FILE; defaults=FILE
    /// yields to other options
    #[arg(short = 'c', value_name = "FILE")]
    pub(crate) configuration: Vec<String>,
    /// Leave out features that READER cannot mount: linux-VERSION, rhel8, debian-12, grub-2.06, and
    /// others that info --mountable-by lists; may be repeated
    #[arg(long = "for", value_name = "READER")]
    pub(crate) readers: Vec<String>,
    #[command(flatten)]
    pub(crate) whole_disk: DiskOptions,
    #[command(flatten)]
    pub(crate) policy: PolicyOptions,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}
