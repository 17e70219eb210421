//! The arguments of `quota`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::options::JsonOption;
use crate::text::size;

/// Show, check and set quota: the usage and the limits of users, groups and projects
///
/// Without a subcommand, `quota IMAGE` shows the report.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct QuotaArguments {
    /// The image or device
    // A subcommand has its own image, and needs none here.
    #[arg(required = true)]
    pub(crate) image: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shown: QuotaReportOptions,
    #[command(flatten)]
    pub(crate) json: JsonOption,
    #[command(subcommand)]
    pub(crate) command: Option<QuotaCommand>,
}

/// The subcommands of `quota`.
#[derive(Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    Report(QuotaReportArguments),
    Check(QuotaCheckArguments),
    Set(QuotaSetArguments),
    Project(QuotaProjectArguments),
}

/// Show the usage and the limits of all owners, as repquota(8) does
///
/// The volume is only read. Limits of ID 0 are the default limits of their type, and limit no
/// owner before the next charge.
#[derive(Args, Debug)]
pub(crate) struct QuotaReportArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    #[command(flatten)]
    pub(crate) shown: QuotaReportOptions,
}

/// The choice of owners in a report, and the form of names and sizes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct QuotaReportOptions {
    #[command(flatten)]
    pub(crate) types: QuotaTypeOptions,
    /// Show IDs, not the names that this host has for them
    #[arg(short, long)]
    pub(crate) numeric: bool,
    /// Show space with units, not in KiB
    #[arg(short = 'H', long)]
    pub(crate) human_readable: bool,
}

/// Compare the usage that the volume has recorded with all inodes
///
/// All inodes are read and counted. Nothing is written. The exit code is 1 if a count differs. Only
/// types whose counts are marked as right are compared: the next mount with quota counts the others
/// again.
#[derive(Args, Debug)]
pub(crate) struct QuotaCheckArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    #[command(flatten)]
    pub(crate) types: QuotaTypeOptions,
    /// Show IDs, not the names that this host has for them
    #[arg(short, long)]
    pub(crate) numeric: bool,
}

/// The choice of types of quota. Without a choice, all types are meant.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct QuotaTypeOptions {
    /// Show users
    #[arg(short, long)]
    pub(crate) user: bool,
    /// Show groups
    #[arg(short, long)]
    pub(crate) group: bool,
    /// Show projects
    #[arg(short, long)]
    pub(crate) project: bool,
}

/// Set limits and grace periods of a user, a group or a project
///
/// If the volume does not count the type of the owner yet, its usage is counted first, which reads
/// all inodes. The limits of ID 0 are the default limits of its type.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("owner").required(true).args(["user", "group", "project"]))]
pub(crate) struct QuotaSetArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// The user, as a number or a name of the host
    #[arg(short, long, value_name = "USER")]
    pub(crate) user: Option<OsString>,
    /// The group, as a number or a name of the host
    #[arg(short, long, value_name = "GROUP")]
    pub(crate) group: Option<OsString>,
    /// The project, as a number or a name of /etc/projid
    #[arg(short, long, value_name = "PROJECT")]
    pub(crate) project: Option<OsString>,
    /// The soft limit of space, 0 for none; the suffixes k, m, g, t are units of 1024
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub(crate) block_soft: Option<u64>,
    /// The hard limit of space, 0 for none; the suffixes k, m, g, t are units of 1024
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub(crate) block_hard: Option<u64>,
    /// The soft limit of inodes, 0 for none
    #[arg(long, value_name = "N")]
    pub(crate) inode_soft: Option<u64>,
    /// The hard limit of inodes, 0 for none
    #[arg(long, value_name = "N")]
    pub(crate) inode_hard: Option<u64>,
    /// The soft limit of space in the realtime section, 0 for none; suffixes as for --block-soft
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub(crate) realtime_soft: Option<u64>,
    /// The hard limit of space in the realtime section, 0 for none; suffixes as for --block-hard
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub(crate) realtime_hard: Option<u64>,
    /// For ID 0 the grace period of space of the type; for others the rest of it from now on
    #[arg(long, value_name = "SECONDS")]
    pub(crate) block_grace: Option<u64>,
    /// For ID 0 the grace period of inodes of the type; for others the rest of it from now on
    #[arg(long, value_name = "SECONDS")]
    pub(crate) inode_grace: Option<u64>,
    /// For ID 0 the grace period of realtime space of the type; for others the rest of it from now
    /// on
    #[arg(long, value_name = "SECONDS")]
    pub(crate) realtime_grace: Option<u64>,
}

/// Show, set or clear the project of directory trees
///
/// Without an option, the project of each file below a path that differs from the project of the
/// path is shown, and the exit code is 1 if there is one.
#[derive(Args, Debug)]
pub(crate) struct QuotaProjectArguments {
    /// The tops of the trees: IMAGE[:/path]
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Give all files to this project, a number or a name of /etc/projid, and let new files in the
    /// directories inherit it
    #[arg(short, long, value_name = "PROJECT", conflicts_with = "clear")]
    pub(crate) set: Option<OsString>,
    /// Take all files out of their project, and end the inheritance
    #[arg(short, long)]
    pub(crate) clear: bool,
}
