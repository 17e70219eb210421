//! The command line as clap sees it: every command, its arguments and its help.
//!
//! Owns: the definitions from which parsing, help, man pages and completions are made. Does **not**
//! own: what the commands do, nor the expression language of `find`, which keeps find(1)'s own
//! single-dash words and is parsed by [`crate::predicate`].

mod accepted;
mod bench;
mod json;
mod ls;
mod manual;
mod mkfs;
mod mount;
mod scan;
mod structures;
pub(crate) mod suggestions;
mod write;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use accepted::{hide_unused, parse};
pub(crate) use bench::BenchArguments;
pub(crate) use ls::LsArguments;
pub(crate) use manual::{pages, with_manual};
pub(crate) use mkfs::MkfsArguments;
pub(crate) use mount::{MountArguments, MountsArguments, StatsArguments, UmountArguments};
pub(crate) use scan::{ScanArguments, ScanFormat, ScanKey};
pub(crate) use structures::{
    DumpArguments, DumpBtree, DumpStructure, LogArguments, RecoverArguments,
};
pub(crate) use write::{
    ArchiveOptions, ChmodArguments, ChownArguments, EditArguments, FallocateArguments,
    FstrimArguments, GetArguments, GrowfsArguments, ImportArguments, LabelArguments, LnArguments,
    MkdirArguments, MvArguments, PutArguments, RmArguments, SetfaclArguments, SetfattrArguments,
    TouchArguments, TruncateArguments, UuidArguments,
};

use crate::console::Speech;
use crate::size;

/// Read and write XFS v5 images without mounting them.
///
/// A path inside an image is written IMAGE:/path. It is split at the first ":/"; where a file of
/// that whole name exists, say --image IMAGE PATH instead. IMAGE alone means its root directory.
#[derive(Debug, Parser)]
#[command(name = "ferroxfs", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Whether the command was asked for JSON, whichever it is.
    #[arg(skip)]
    json: bool,
}

impl Cli {
    /// How much the run says besides its output.
    pub(crate) const fn speech(&self) -> Speech {
        Speech { is_quiet: self.global.quiet, is_json: self.json }
    }
}

/// For a command whose own words weigh more than the options that it shares with others: they come first.
const AFTER_USAGE: &str = "\
{before-help}{about-with-newline}
{usage-heading} {usage}{after-help}

{all-args}";

const EXIT_CODES: &str = "\
Exit codes: 0 fine; 1 failed; 2 usage; 3 refused by name; 4 log dirty; 5 corrupt;
129, 130, 143 stopped by a signal; 141 nobody reads the output any more.";

/// What every command understands.
#[derive(Args, Clone, Debug)]
pub(crate) struct GlobalOptions {
    /// Use partition N of a partitioned disk image, counted from 1 (not for mkfs)
    #[arg(long, global = true, value_name = "N", conflicts_with = "offset")]
    #[arg(help_heading = "Image options")]
    pub(crate) partition: Option<u32>,
    /// The filesystem starts at this byte of the image, such as 1m (not for mkfs)
    #[arg(long, global = true, value_name = "BYTES", help_heading = "Image options")]
    #[arg(value_parser = size::parse)]
    pub(crate) offset: Option<u64>,
    /// Read an image or device that is mounted right now; what is shown may be stale
    #[arg(long, global = true, help_heading = "Image options")]
    pub(crate) live: bool,
    /// Read a volume with a dirty log as it stands, instead of replaying the log in memory
    #[arg(long, global = true, help_heading = "Image options")]
    pub(crate) no_recovery: bool,
    /// The device or file that holds the external log
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image options")]
    pub(crate) log_device: Option<PathBuf>,
    /// The image, when the other arguments are plain paths inside it
    #[arg(long, global = true, value_name = "IMAGE", help_heading = "Image options")]
    pub(crate) image: Option<PathBuf>,
    /// Give up all rights to other files, programs and the network before the image is read: as far
    /// as the kernel can (auto), or not at all unless it can (always)
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_enum)]
    #[arg(help_heading = "Image options")]
    pub(crate) sandbox: SandboxWhen,
    /// Show no progress and no summary
    #[arg(short, long, global = true, help_heading = "Output options")]
    pub(crate) quiet: bool,
    /// When to colour the output
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_enum)]
    #[arg(help_heading = "Output options")]
    pub(crate) color: ColorWhen,
}

/// When a command gives up its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxWhen {
    /// Where the command can do without them, as far as the kernel can take them away.
    Auto,
    /// The same, and if that is not all of them, the command does not run.
    Always,
    /// Never.
    Never,
}

impl fmt::Display for SandboxWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("auto", PossibleValue::get_name))
    }
}

/// When output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// For commands that print facts.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct JsonOption {
    /// Print one JSON document, with "schema_version"
    #[arg(long, global = true, help_heading = "Output options")]
    pub(crate) json: bool,
}

/// For commands that print lists of names.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListOptions {
    /// End each line with a NUL byte instead of a newline, and never quote names
    #[arg(short = '0', long, conflicts_with = "json", help_heading = "Output options")]
    pub(crate) null: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Info(InfoArguments),
    Ls(LsArguments),
    Tree(TreeArguments),
    Stat(StatArguments),
    Cat(CatArguments),
    Readlink(ReadlinkArguments),
    Getfacl(GetfaclArguments),
    Getfattr(GetfattrArguments),
    Find(FindArguments),
    Du(DuArguments),
    Extents(ExtentsArguments),
    Parents(ParentsArguments),
    Cp(CpArguments),
    Tar(TarArguments),
    Put(PutArguments),
    Edit(EditArguments),
    Get(GetArguments),
    Import(ImportArguments),
    Mkdir(MkdirArguments),
    Rm(RmArguments),
    Mv(MvArguments),
    Ln(LnArguments),
    Chmod(ChmodArguments),
    Chown(ChownArguments),
    Touch(TouchArguments),
    Truncate(TruncateArguments),
    Fallocate(FallocateArguments),
    Setfacl(SetfaclArguments),
    Setfattr(SetfattrArguments),
    Fstrim(FstrimArguments),
    Label(LabelArguments),
    Uuid(UuidArguments),
    Growfs(GrowfsArguments),
    Dump(DumpArguments),
    Log(LogArguments),
    Recover(RecoverArguments),
    Mkfs(Box<MkfsArguments>),
    Mount(MountArguments),
    Umount(UmountArguments),
    Mounts(MountsArguments),
    Stats(StatsArguments),
    Scan(Box<ScanArguments>),
    Bench(Box<BenchArguments>),
    Completions(CompletionsArguments),
    #[command(hide = true)]
    Complete(CompleteArguments),
    Man(ManArguments),
}

/// Show geometry, features, label, space, inodes and the state of the log
#[derive(Args, Debug)]
pub(crate) struct InfoArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// Print what xfs_info(8) prints
    #[arg(long, conflicts_with = "json")]
    pub(crate) xfs_info: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Show a directory tree
#[derive(Args, Debug)]
pub(crate) struct TreeArguments {
    /// Where to start: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: Option<OsString>,
    /// Also show entries whose name starts with a dot
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Show directories only
    #[arg(short, long)]
    pub(crate) directories: bool,
    /// Go at most this deep
    #[arg(short = 'L', long, value_name = "LEVELS")]
    pub(crate) level: Option<usize>,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Show everything that an inode says of a file
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

/// Write the contents of files to standard output
#[derive(Args, Debug)]
pub(crate) struct CatArguments {
    /// The files: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
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
    /// Show only the list for access
    #[arg(short, long)]
    pub(crate) access: bool,
    /// Show only the list that new files of a directory get
    #[arg(short, long)]
    pub(crate) default: bool,
    /// Do not show file, owner and group
    #[arg(short = 'c', long)]
    pub(crate) omit_header: bool,
    /// Go into directories
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
    /// How to show values; without it, text where a value is text and base64 where it is not
    #[arg(short, long, value_enum)]
    pub(crate) encoding: Option<ValueEncoding>,
    /// Show those of a symbolic link and not of the file that it points to
    #[arg(short = 'h', long)]
    pub(crate) no_dereference: bool,
    /// Follow a symbolic link at the end of the path, which is done in any case
    #[arg(short = 'L', long, alias = "dereference", conflicts_with = "no_dereference")]
    logical: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// How the value of an attribute is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ValueEncoding {
    /// In double quotes, odd bytes in octal.
    Text,
    /// As 0x and hexadecimal digits.
    Hex,
    /// As 0s and base64.
    Base64,
}

/// Search for files, with the expressions of find(1)
///
/// Options of ferroxfs come before the first address, the expression after the last.
#[derive(Args, Debug)]
#[command(after_help = crate::predicate::HELP, help_template = AFTER_USAGE)]
pub(crate) struct FindArguments {
    #[command(flatten)]
    pub(crate) json: JsonOption,
    /// Where to start, IMAGE[:/path], and then the expression
    #[arg(value_name = "ADDRESS... [EXPRESSION]")]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Add up the space that files use: exact, hard links and shared extents counted once
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct DuArguments {
    /// Where to start: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Show files too, not only directories
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Show only a total for each argument
    #[arg(short, long, conflicts_with_all = ["all", "max_depth"])]
    pub(crate) summarize: bool,
    /// Show only what is at most this deep
    #[arg(short = 'd', long, value_name = "DEPTH")]
    pub(crate) max_depth: Option<usize>,
    /// Show sizes in bytes instead of units of 1024; of du(1) this is --apparent-size as well
    #[arg(short, long)]
    pub(crate) bytes: bool,
    /// Add up how long files and directories are, not the space that they use
    #[arg(long, conflicts_with = "shared")]
    pub(crate) apparent_size: bool,
    /// Show sizes as 1.5K, 23M, 4.0G: units of 1024, rounded up
    #[arg(short, long, conflicts_with = "bytes")]
    pub(crate) human_readable: bool,
    /// Also show how much is shared with other files, and saved by sharing and by hard links
    #[arg(long)]
    pub(crate) shared: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
    #[command(flatten)]
    pub(crate) list: ListOptions,
}

/// Show where the contents of a file lie
#[derive(Args, Debug)]
pub(crate) struct ExtentsArguments {
    /// The file: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: Option<OsString>,
    /// Show the map of the attribute fork
    #[arg(short, long)]
    pub(crate) attributes: bool,
    /// Print what xfs_bmap -vp prints, in units of 512 bytes
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

/// Copy files out of an image, into one, or from one to another
///
/// Nothing in an image can make this write outside of a destination on the host: it is entered once,
/// and no symbolic link below it is followed.
#[derive(Args, Debug)]
pub(crate) struct CpArguments {
    /// What to copy, and last where to: a file, a directory, "-", or IMAGE:/path
    #[arg(required = true, num_args = 2.., value_name = "ADDRESS... DESTINATION")]
    pub(crate) words: Vec<OsString>,
    /// Copy everything faithfully: directories, links, devices, owners, times, attributes, holes
    #[arg(short, long)]
    pub(crate) archive: bool,
    /// Copy directories and what is in them
    #[arg(short, long, visible_short_alias = 'R')]
    pub(crate) recursive: bool,
    /// Carry over owners, permissions, times and attributes, as -a does
    #[arg(short, long)]
    pub(crate) preserve: bool,
    /// Leave files alone that exist already, and say so
    #[arg(short, long)]
    pub(crate) no_clobber: bool,
    /// Replace files that exist already, which is done in any case but with -n
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Do not mind that owners, and what else only root may set, could not be set
    #[arg(long)]
    pub(crate) ignore_owner: bool,
}

impl CpArguments {
    /// Whether copies get everything that is known of the file.
    pub(crate) const fn keeps_facts(&self) -> bool {
        self.archive || self.preserve
    }
}

/// Write a tar archive of a directory or file
#[derive(Args, Debug)]
pub(crate) struct TarArguments {
    /// What to archive: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: Option<OsString>,
    /// Write to this file instead of standard output (-); it appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Print the completions of a shell
#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the paths that the last word of a command line may become, for completions
#[derive(Args, Debug)]
pub(crate) struct CompleteArguments {
    /// The words behind the name of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Write the man pages into a directory
#[derive(Args, Debug)]
pub(crate) struct ManArguments {
    /// The directory
    pub(crate) directory: PathBuf,
}
