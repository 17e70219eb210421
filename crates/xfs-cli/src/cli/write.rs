//! The arguments of the commands that change a volume.
//!
//! All of them open the image for writing, alone; a dirty log is recovered first, and what they did
//! is durable when they exit.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::JsonOption;

/// Write standard input into a file
///
/// Standard input is read to its end before the image is opened. A file that is there gets its new contents when they are
/// complete, and keeps mode, owner and attributes. Until then there has to be room for both.
#[derive(Args, Debug)]
pub(crate) struct PutArguments {
    /// The file: IMAGE:/path; it is made, or gets new contents
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// The mode of a new file, octal or symbolic
    #[arg(short, long, value_name = "MODE", default_value = "644")]
    pub(crate) mode: String,
    /// Empty a file that has contents if there is no input, which is refused otherwise
    #[arg(long)]
    pub(crate) allow_empty: bool,
}

/// Edit a file in an image with a program of the host
///
/// The program gets a copy, and the image is not locked while it runs. When it ends well and has changed the copy, the
/// file gets the new contents in one step, and keeps owner, mode and attributes. A file that was changed in the image
/// meanwhile is left alone; the text is kept then, as it is after every other failure.
#[derive(Args, Debug)]
pub(crate) struct EditArguments {
    /// The file: IMAGE:/path; it is made if there is none
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// Run this command of the shell, with the path of the copy behind it, instead of $VISUAL or $EDITOR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) with: Option<OsString>,
    /// Replace the file even if it was changed in the image meanwhile
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// Write the contents of a file to standard output or into a file
#[derive(Args, Debug)]
pub(crate) struct GetArguments {
    /// The file: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// Write to this file of the host, or standard output (-); holes stay holes in a file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Put a directory of the host and all below it, or an archive, into an image
///
/// Archives are those of tar and cpio (newc, odc), also compressed by gzip, xz, zstd, bzip2 or lz4, which is told by
/// their contents. Members below a symbolic link to a directory go where the link leads inside of the image. A
/// directory takes the place of a symbolic link, unless --keep-directory-symlink is given.
///
/// Names are taken in order, and members of an archive in theirs, so that the same source gives the same
/// image; no time is later than SOURCE_DATE_EPOCH where that is set.
#[derive(Args, Debug)]
pub(crate) struct ImportArguments {
    /// The directory, or the archive; "-" for one on standard input, which is read to its end first
    pub(crate) source: PathBuf,
    /// Where its contents go: IMAGE[:/path], a directory, which is made if there is none
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// Say that everything belongs to user and group 0
    #[arg(long)]
    pub(crate) all_root: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveOptions,
}

/// How an archive is read
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ArchiveOptions {
    /// Keep symbolic links to directories where the archive has a directory of their name, and put its entries
    /// into the directory that the link leads to
    #[arg(long)]
    pub(crate) keep_directory_symlink: bool,
    /// Read on after blocks of zeros, which end a tar archive: for archives joined by cat(1)
    #[arg(long)]
    pub(crate) ignore_zeros: bool,
}

/// Make directories
#[derive(Args, Debug)]
pub(crate) struct MkdirArguments {
    /// The directories: IMAGE:/path
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Make what is missing above, and do not mind what is there already
    #[arg(short, long)]
    pub(crate) parents: bool,
    /// The mode, octal or symbolic
    #[arg(short, long, value_name = "MODE", default_value = "755")]
    pub(crate) mode: String,
}

/// Remove files, and with -r directories
#[derive(Args, Debug)]
pub(crate) struct RmArguments {
    /// What to remove: IMAGE:/path
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Remove directories and all that is in them
    #[arg(short, long, visible_short_alias = 'R')]
    pub(crate) recursive: bool,
    /// Remove directories that are empty, too, as rmdir(1) does
    #[arg(short, long)]
    pub(crate) dir: bool,
    /// Do not mind what is not there
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// Move or rename files and directories inside an image
#[derive(Args, Debug)]
pub(crate) struct MvArguments {
    /// What to move, IMAGE:/path, and last where to: a new name or a directory, in the same image
    #[arg(required = true, num_args = 2.., value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Fail where there is a file of the new name
    #[arg(short, long, conflicts_with = "exchange")]
    pub(crate) no_clobber: bool,
    /// Replace the file that has the new name, which is done in any case but with -n
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Exchange the two
    #[arg(long)]
    pub(crate) exchange: bool,
}

/// Give a file one more name, or make a symbolic link
#[derive(Args, Debug)]
pub(crate) struct LnArguments {
    /// The file, IMAGE:/path; with -s what the link shall say
    pub(crate) target: OsString,
    /// The new name, or a directory for it: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// Make a symbolic link
    #[arg(short, long)]
    pub(crate) symbolic: bool,
    /// Replace the file that has the new name
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// Change the permissions of files
#[derive(Args, Debug)]
pub(crate) struct ChmodArguments {
    /// The mode: octal, or symbolic such as u=rwX,go-w or g=u; by the umask where it names no class
    #[arg(allow_hyphen_values = true)]
    pub(crate) mode: String,
    /// The files: IMAGE[:/path]
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Go into directories
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

/// Change the owner and group of files
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct ChownArguments {
    /// USER, USER:GROUP or :GROUP, as numbers or as names of the host
    pub(crate) owner: OsString,
    /// The files: IMAGE[:/path]
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Go into directories; a symbolic link, named or met, is changed itself
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Change a symbolic link and not the file that it points to
    #[arg(short = 'P', long, visible_short_alias = 'h')]
    pub(crate) no_dereference: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
}

/// Set the times of files, and make those that are missing
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct TouchArguments {
    /// The files: IMAGE[:/path]
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// This time, such as 2026-01-31, 2026-01-31T12:00 or @SECONDS, instead of now
    #[arg(short, long, value_name = "TIME")]
    pub(crate) date: Option<String>,
    /// Make no files
    #[arg(short = 'c', long)]
    pub(crate) no_create: bool,
    /// Set the time of the last access only
    #[arg(short = 'a')]
    pub(crate) accessed: bool,
    /// Set the time of the last change only
    #[arg(short = 'm')]
    pub(crate) modified: bool,
    /// Change a symbolic link and not the file that it points to; it has to be there
    #[arg(short = 'h', long)]
    pub(crate) no_dereference: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
}

/// Set the length of files
#[derive(Args, Debug)]
pub(crate) struct TruncateArguments {
    /// The length in bytes, with + or - in front by how much; the suffixes k, m, g, t are units of 1024
    #[arg(short, long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) size: String,
    /// The files: IMAGE:/path; those that are missing are made
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Make no files
    #[arg(short = 'c', long)]
    pub(crate) no_create: bool,
}

/// Set space aside for a range of a file, or free it, as fallocate(1) does
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("way").args(
    ["punch_hole", "zero_range", "collapse_range", "insert_range", "unshare_range"]
))]
pub(crate) struct FallocateArguments {
    /// The file: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// Where the range starts; the suffixes k, m, g, t are units of 1024
    #[arg(short = 'o', value_name = "BYTES", default_value = "0", value_parser = crate::size::parse)]
    pub(crate) start: u64,
    /// How long it is
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = crate::size::parse)]
    pub(crate) length: u64,
    /// Keep the length of the file
    #[arg(short = 'n', long)]
    pub(crate) keep_size: bool,
    /// Free the space: the range reads as zeros
    #[arg(short, long)]
    pub(crate) punch_hole: bool,
    /// Make the range zeros that have space
    #[arg(short, long)]
    pub(crate) zero_range: bool,
    /// Take the range out: what is behind it moves up
    #[arg(short, long)]
    pub(crate) collapse_range: bool,
    /// Put a hole in: what is there moves down
    #[arg(short, long)]
    pub(crate) insert_range: bool,
    /// Give the range blocks of its own
    #[arg(short, long)]
    pub(crate) unshare_range: bool,
}

/// Set access control lists, as setfacl(1) does
///
/// An entry is `[d:]u:[USER]:PERMISSIONS`, `g:[GROUP]:PERMISSIONS`, `m::PERMISSIONS` or `o::PERMISSIONS`;
/// several stand between commas. PERMISSIONS are letters of rwxX, or a digit; d: means the list that new files of
/// a directory get. Where entries of a list are set or removed its mask becomes what they have together, unless it is given.
/// Removing all comes first, then --set, -x and -m.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(
    ["modify", "remove", "set", "remove_all", "remove_default"]
))]
pub(crate) struct SetfaclArguments {
    /// Add these entries, or change them
    #[arg(short, long, value_name = "ENTRIES")]
    pub(crate) modify: Vec<String>,
    /// Remove these entries, which are given without permissions
    #[arg(short = 'x', long, value_name = "ENTRIES")]
    pub(crate) remove: Vec<String>,
    /// Make the list these entries alone
    #[arg(short, long, value_name = "ENTRIES")]
    pub(crate) set: Vec<String>,
    /// Remove all that permission bits cannot say
    #[arg(short = 'b', long)]
    pub(crate) remove_all: bool,
    /// Remove the list that new files get
    #[arg(short = 'k', long)]
    pub(crate) remove_default: bool,
    /// All entries are of the list that new files get
    #[arg(short, long)]
    pub(crate) default: bool,
    /// Leave the mask as it is
    #[arg(short, long)]
    pub(crate) no_mask: bool,
    /// Go into directories
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// The files: IMAGE[:/path]
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
}

/// Set or remove an extended attribute, as setfattr(1) does
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["name", "remove"]))]
#[command(disable_help_flag = true)]
pub(crate) struct SetfattrArguments {
    /// Set this attribute
    #[arg(short, long, value_name = "NAME")]
    pub(crate) name: Option<OsString>,
    /// Its value: text, 0x and hexadecimal digits, or 0s and base64; empty if not given
    ///
    /// Text may stand between quotation marks, and have bytes in octal behind a backslash, as getfattr prints it.
    #[arg(short, long, value_name = "VALUE", requires = "name")]
    pub(crate) value: Option<OsString>,
    /// Remove this attribute
    #[arg(short = 'x', long, value_name = "NAME")]
    pub(crate) remove: Option<OsString>,
    /// Change a symbolic link and not the file that it points to
    #[arg(short = 'P', long, visible_short_alias = 'h')]
    pub(crate) no_dereference: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
    /// The files: IMAGE[:/path]
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
}

/// Give what is free back to the device, or to the host of an image file, as fstrim(8) does
#[derive(Args, Debug)]
pub(crate) struct FstrimArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// Start at this byte of the volume; the suffixes k, m, g, t are units of 1024
    #[arg(short = 'o', value_name = "BYTES", default_value = "0", value_parser = crate::size::parse)]
    pub(crate) start: u64,
    /// Look at so many bytes only
    #[arg(short, long, value_name = "BYTES", value_parser = crate::size::parse)]
    pub(crate) length: Option<u64>,
    /// Leave alone what is shorter
    #[arg(short, long, value_name = "BYTES", default_value = "0", value_parser = crate::size::parse)]
    pub(crate) minimum: u64,
    /// Say how many bytes were free
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
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
/// Without a size it takes all of its device or image. An image file is made longer first if need be. A
/// last allocation group of fewer than 64 blocks is left out. Volumes do not shrink.
#[derive(Args, Debug)]
pub(crate) struct GrowfsArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// How many blocks the volume shall have
    #[arg(short = 'D', value_name = "BLOCKS", conflicts_with = "size")]
    pub(crate) blocks: Option<u64>,
    /// How long the volume shall be
    #[arg(long, value_name = "BYTES", value_parser = crate::size::parse)]
    pub(crate) size: Option<u64>,
}

/// Show or change the UUID of a volume
///
/// A volume with the UUID nil is mounted by the kernel with -o nouuid only.
#[derive(Args, Debug)]
pub(crate) struct UuidArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// The new UUID; "generate" for a random one, "restore" for the first one, or "nil"
    pub(crate) uuid: Option<String>,
}
