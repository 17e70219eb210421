//! The arguments of the commands that change a whole volume. Those of `mkfs` have a file of their
//! own.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::options::JsonOption;

/// Give free space back to the device, or to the host of an image file, as fstrim(8) does
#[derive(Args, Debug)]
pub(crate) struct FstrimArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// Start at this byte of the volume; the suffixes k, m, g, t are units of 1024
    #[arg(short = 'o', value_name = "BYTES", default_value = "0", value_parser = crate::text::size::parse)]
    pub(crate) start: u64,
    /// Trim only this many bytes
    #[arg(short, long, value_name = "BYTES", value_parser = crate::text::size::parse)]
    pub(crate) length: Option<u64>,
    /// Skip free ranges of fewer bytes than this
    #[arg(short, long, value_name = "BYTES", default_value = "0", value_parser = crate::text::size::parse)]
    pub(crate) minimum: u64,
    /// Print how many bytes were trimmed
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Make free space read as zeros, so that copies of an image compress well and transfer fast
///
/// The free space of an image file becomes holes, if the host can make holes; otherwise zeros are
/// written. On a device, the kernel writes zeros. A dirty log is replayed first. Blocks of files,
/// metadata and the log stay as they are.
#[derive(Args, Debug)]
pub(crate) struct ZapArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// Write zeros over other bytes instead of making holes, so that the file keeps its space
    #[arg(long)]
    pub(crate) zero: bool,
}

/// Show or set the label of a volume
#[derive(Args, Debug)]
pub(crate) struct LabelArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// The new label, at most 12 bytes; an empty one removes it
    pub(crate) label: Option<OsString>,
}

/// Make a volume larger
///
/// Without a size the volume grows to the end of its device or image. An image file is extended
/// first if necessary. A last allocation group of fewer than 64 blocks is left out. "ferroxfs
/// shrink" makes a volume smaller.
#[derive(Args, Debug)]
pub(crate) struct GrowfsArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// Grow the realtime section, to the end of its device, which --rt-device names; a zoned one
    /// grows by whole zones
    #[arg(short = 'r', long)]
    pub(crate) realtime: bool,
    /// The new size of the realtime section in blocks
    #[arg(short = 'R', value_name = "BLOCKS", requires = "realtime")]
    pub(crate) realtime_blocks: Option<u64>,
    /// The new size of the volume in blocks
    #[arg(short = 'D', value_name = "BLOCKS", conflicts_with_all = ["size", "realtime"])]
    pub(crate) blocks: Option<u64>,
    /// The new size of the volume
    #[arg(long, value_name = "BYTES", value_parser = crate::text::size::parse)]
    #[arg(conflicts_with = "realtime")]
    pub(crate) size: Option<u64>,
}

/// Make a volume smaller, and its image file
///
/// Blocks of files that stand after the new end move before it. Then the volume is cut off, and at
/// last the image file is shortened; a device keeps its size. Without a size the volume shrinks as
/// far as possible. Inodes, the log and quota files do not move, and a volume keeps at least two
/// allocation groups and 32 MiB: a smaller size is refused with the least one. The volume must not
/// be mounted. After a crash it has all its files, and the old size, the new one, or one between
/// them; run the command again. Volumes with a realtime section do not shrink.
#[derive(Args, Debug)]
pub(crate) struct ShrinkArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// The new size of the volume in bytes; the suffixes k, m, g, t are units of 1024
    #[arg(long, value_name = "SIZE", value_parser = crate::text::size::parse)]
    pub(crate) to: Option<u64>,
    /// Then make the free space that is left read as zeros, as "ferroxfs zap" does, so that copies
    /// of the image are small
    #[arg(long)]
    pub(crate) sparse: bool,
}

/// Show or change the UUID of a volume
///
/// The kernel mounts a volume with the nil UUID only with -o nouuid.
#[derive(Args, Debug)]
pub(crate) struct UuidArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// The new UUID; "generate" for a random one, "restore" for the first one, or "nil"
    pub(crate) uuid: Option<String>,
}

/// Replay a dirty log onto the volume, and mark it clean
///
/// A log with items that ferroxfs cannot replay is refused by name, and nothing is written. A
/// recovery that was interrupted can be repeated.
#[derive(Args, Debug)]
pub(crate) struct RecoverArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Repair a damaged volume: plan, rehearse, apply, and undo
///
/// A plan names every change, and what it keeps and loses. The changes are made in memory first and
/// checked there. Before the first write to the volume, an undo file with the old and the new bytes
/// is durable. So an interrupted repair can be finished with --resume or taken back with --undo.
/// Rules that lose something are used only with --allow-loss, after a copy to --quarantine. A plan
/// that would leave damage, or a part that cannot be checked, is applied only with --partial. A
/// dirty log is replayed first, as a part of the repair.
/// The exit codes are those of fsck(8): 0 clean, 1 repaired, 4 damage left, 8 failed, 16 usage, 32
/// stopped. With --plan, 4 says that there is damage. fsck.ferroxfs only checks: it never repairs,
/// also not with -y or -p.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("mode").required(true).args(["plan", "apply", "undo", "resume", "yes"]))]
#[command(group = ArgGroup::new("writing").args(["apply", "yes"]))]
pub(crate) struct RepairArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// Show what a repair would change, and change nothing
    #[arg(long)]
    pub(crate) plan: bool,
    /// Make the plan again, compare it with this file, and apply it
    #[arg(long, value_name = "PLAN")]
    pub(crate) apply: Option<PathBuf>,
    /// Undo a finished or interrupted repair with this undo file
    #[arg(long, value_name = "FILE")]
    pub(crate) undo: Option<PathBuf>,
    /// Finish a repair that was interrupted
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Plan, rehearse and apply in one go
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Write the plan to this file, for --apply
    #[arg(short, long, value_name = "FILE", requires = "plan")]
    pub(crate) output: Option<PathBuf>,
    /// Write the undo file here instead of beside the image as IMAGE.undo
    #[arg(long, value_name = "FILE", requires = "writing")]
    pub(crate) undo_file: Option<PathBuf>,
    /// Apply the plan also if damage, or a part that cannot be checked, would be left
    #[arg(long, requires = "writing")]
    pub(crate) partial: bool,
    /// Also use rules that lose something
    #[arg(long, conflicts_with_all = ["undo", "resume"])]
    pub(crate) allow_loss: bool,
    /// Copy what goes into this directory first; it must be new or empty
    #[arg(long, value_name = "DIR", requires = "allow_loss", conflicts_with = "plan")]
    pub(crate) quarantine: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}
