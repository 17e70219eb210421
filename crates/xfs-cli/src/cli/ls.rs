//! The arguments of `ls`: the options of ls(1) that make sense for an image.

use std::ffi::OsString;

use clap::{ArgAction, Args};

use super::options::ListOptions;

/// List directories
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct LsArguments {
    /// The files or directories: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Also list entries whose name starts with a dot
    #[arg(short, long)]
    pub(crate) all: bool,
    /// As -a, without . and ..
    #[arg(short = 'A', long)]
    pub(crate) almost_all: bool,
    /// Use the long format
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Also list the contents of directories
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Show the inode number
    #[arg(short, long)]
    pub(crate) inode: bool,
    /// Show sizes as 1.5K, 23M, 4.0G: units of 1024, rounded up
    #[arg(short, long)]
    pub(crate) human_readable: bool,
    /// Use the long format, in which owners are always numbers
    #[arg(short, long)]
    pub(crate) numeric_uid_gid: bool,
    /// List one file on each line (the default)
    #[arg(short = '1')]
    pub(crate) one_per_line: bool,
    /// List directories themselves, not their contents
    #[arg(short, long)]
    pub(crate) directory: bool,
    /// List the metadata directory, which no path leads to: the files of realtime groups and of
    /// quota
    #[arg(long)]
    pub(crate) metadir: bool,
    /// Do not sort: list in the order of the directory, in bounded memory
    #[arg(short = 'U', long)]
    pub(crate) unsorted: bool,
    /// Sort by the time of the last modification, the newest first
    #[arg(short = 't', overrides_with = "by_size", conflicts_with = "unsorted")]
    pub(crate) by_time: bool,
    /// Sort by size, the largest first
    #[arg(short = 'S', overrides_with = "by_time", conflicts_with = "unsorted")]
    pub(crate) by_size: bool,
    /// Sort in reverse order
    #[arg(short, long, conflicts_with = "unsorted")]
    pub(crate) reverse: bool,
    /// List a damaged volume as far as it can be read, as salvage does
    #[arg(long)]
    pub(crate) damaged: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
    #[command(flatten)]
    pub(crate) list: ListOptions,
}
