//! The arguments of `ls`: those of ls(1) that an image has something for.

use std::ffi::OsString;

use clap::{ArgAction, Args};

use super::ListOptions;

/// List directories
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct LsArguments {
    /// What to list: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Also list entries whose name starts with a dot
    #[arg(short, long)]
    pub(crate) all: bool,
    /// The same without the directory itself and the one above
    #[arg(short = 'A', long)]
    pub(crate) almost_all: bool,
    /// Use the long format
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Go into directories
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Show the inode number
    #[arg(short, long)]
    pub(crate) inode: bool,
    /// Show sizes as 1.5K, 23M, 4.0G: units of 1024, rounded up
    #[arg(short, long)]
    pub(crate) human_readable: bool,
    /// Use the long format; owners are numbers there in any case
    #[arg(short, long)]
    pub(crate) numeric_uid_gid: bool,
    /// List one file on each line, which is done in any case
    #[arg(short = '1')]
    pub(crate) one_per_line: bool,
    /// List directories themselves, not what is in them
    #[arg(short, long)]
    pub(crate) directory: bool,
    /// Do not sort: list as the directory has it, in bounded memory
    #[arg(short = 'U', long)]
    pub(crate) unsorted: bool,
    /// Sort by the time of the last change, the newest first
    #[arg(short = 't', overrides_with = "by_size", conflicts_with = "unsorted")]
    pub(crate) by_time: bool,
    /// Sort by size, the largest first
    #[arg(short = 'S', overrides_with = "by_time", conflicts_with = "unsorted")]
    pub(crate) by_size: bool,
    /// Sort the other way round
    #[arg(short, long, conflicts_with = "unsorted")]
    pub(crate) reverse: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
    #[command(flatten)]
    pub(crate) list: ListOptions,
}
