//! The arguments of the commands that show what is in a volume. Those of `ls`, `scan`, `dump` and
//! `log` have files of their own.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::options::{AFTER_USAGE, JsonOption, ListOptions};

/// Show geometry, features, label, space, inodes and the state of the log
///
/// The inodes in use include those that no directory names, such as metadata inodes of quota and
/// realtime, which have no row in `scan`. The inodes allocated include free ones.
#[derive(Args, Debug)]
pub(crate) struct InfoArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// Print the output of xfs_info(8)
    #[arg(long, conflicts_with = "json")]
    pub(crate) xfs_info: bool,
    /// Show which kernels, distributions and versions of GRUB can mount the volume, and which
    /// features prevent the others
    #[arg(long, conflicts_with = "xfs_info")]
    pub(crate) mountable_by: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Report everything that is wrong with a volume, without changing it
///
/// All structures are read and compared with each other. A dirty log is replayed in memory, and the
/// result is checked. Structures that cannot be read are reported, and the rest is still checked.
/// The exit codes are those of fsck(8): 0 clean, 4 damaged, 8 not checked, 16 usage, 32 stopped.
#[derive(Args, Debug)]
pub(crate) struct CheckArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// Show all findings and their consequences, not only the first findings of each kind
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Use this many threads; 0 is one for each processor
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) threads: usize,
    /// Print one JSON object for each finding, and the totals on the last line
    #[arg(long, conflicts_with = "json", help_heading = "Output options")]
    pub(crate) ndjson: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Show a directory tree
#[derive(Args, Debug)]
pub(crate) struct TreeArguments {
    /// The top of the tree: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: Option<OsString>,
    /// Also show entries whose name starts with a dot
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Show only directories
    #[arg(short, long)]
    pub(crate) directories: bool,
    /// Show at most this many levels
    #[arg(short = 'L', long, value_name = "LEVELS")]
    pub(crate) level: Option<usize>,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Show everything in the inode of a file
#[derive(Args, Debug)]
pub(crate) struct StatArguments {
    /// The files: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Follow a symbolic link at the end of the path
    #[arg(short = 'L', long)]
    pub(crate) dereference: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Show where a symbolic link points
#[derive(Args, Debug)]
pub(crate) struct ReadlinkArguments {
    /// The links: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    #[command(flatten)]
    pub(crate) list: ListOptions,
}

/// Show access control lists, as getfacl(1) does
#[derive(Args, Debug)]
pub(crate) struct GetfaclArguments {
    /// The files: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Show only the access list
    #[arg(short, long)]
    pub(crate) access: bool,
    /// Show only the default list, which new files of a directory inherit
    #[arg(short, long)]
    pub(crate) default: bool,
    /// Do not show file, owner and group
    #[arg(short = 'c', long)]
    pub(crate) omit_header: bool,
    /// Also show the contents of directories
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Show extended attributes, as getfattr(1) does
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct GetfattrArguments {
    /// The files: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Also show the values
    #[arg(short, long)]
    pub(crate) dump: bool,
    /// Show this attribute and its value
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["dump", "match"])]
    pub(crate) name: Option<OsString>,
    /// Show the attributes whose name matches this regular expression; "-" means all
    #[arg(short, long, value_name = "PATTERN", default_value = "^user\\.")]
    #[arg(allow_hyphen_values = true)]
    pub(crate) r#match: String,
    /// How to show values; by default text if a value is text, otherwise base64
    #[arg(short, long, value_enum)]
    pub(crate) encoding: Option<ValueEncoding>,
    /// Show the attributes of a symbolic link and not of the file that it points to
    #[arg(short = 'h', long)]
    pub(crate) no_dereference: bool,
    /// Follow a symbolic link at the end of the path (the default)
    #[arg(short = 'L', long, alias = "dereference", conflicts_with = "no_dereference")]
    logical: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// The printed form of an attribute value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ValueEncoding {
    /// Text in double quotes, with unprintable bytes in octal.
    Text,
    /// 0x and hexadecimal digits.
    Hex,
    /// 0s and base64.
    Base64,
}

/// Search for files, with the expressions of find(1)
///
/// Options of ferroxfs come before the first address, the expression after the last.
#[derive(Args, Debug)]
#[command(after_help = crate::inspect::predicate::HELP, help_template = AFTER_USAGE)]
pub(crate) struct FindArguments {
    #[command(flatten)]
    pub(crate) json: JsonOption,
    /// The tops of the searches, IMAGE[:/path], and then the expression
    #[arg(value_name = "ADDRESS... [EXPRESSION]")]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Add up the space that files use, with hard links and shared extents counted once
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct DuArguments {
    /// The tops of the trees: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Also show files, not only directories
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Show only a total for each argument
    #[arg(short, long, conflicts_with_all = ["all", "max_depth"])]
    pub(crate) summarize: bool,
    /// Show at most this many levels
    #[arg(short = 'd', long, value_name = "DEPTH")]
    pub(crate) max_depth: Option<usize>,
    /// Show sizes in bytes instead of units of 1024; unlike in du(1), this does not imply
    /// --apparent-size
    #[arg(short, long)]
    pub(crate) bytes: bool,
    /// Add up the lengths of files and directories, not the space that they use
    #[arg(long, conflicts_with = "shared")]
    pub(crate) apparent_size: bool,
    /// Show sizes as 1.5K, 23M, 4.0G: units of 1024, rounded up
    #[arg(short, long, conflicts_with = "bytes")]
    pub(crate) human_readable: bool,
    /// Also show how much is shared with other files, and how much sharing and hard links save
    #[arg(long)]
    pub(crate) shared: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
    #[command(flatten)]
    pub(crate) list: ListOptions,
}

/// Show where the contents of a file are on disk
#[derive(Args, Debug)]
pub(crate) struct ExtentsArguments {
    /// The file: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: Option<OsString>,
    /// Show the map of the attribute fork
    #[arg(short, long)]
    pub(crate) attributes: bool,
    /// Print the output of xfs_bmap -vp, in units of 512 bytes
    #[arg(long, conflicts_with = "json")]
    pub(crate) bmap: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Show every path of an inode
#[derive(Args, Debug)]
pub(crate) struct ParentsArguments {
    /// The file, IMAGE:/path, or with --ino the image
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: Option<OsString>,
    /// The number of the inode
    #[arg(long, value_name = "N")]
    pub(crate) ino: Option<u64>,
    #[command(flatten)]
    pub(crate) list: ListOptions,
}
