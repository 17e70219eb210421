//! The arguments of the commands that change the files of an image in place.
//!
//! All of them open the image for writing, with an exclusive lock. A dirty log is recovered first,
//! and the changes are durable when the command exits.

use std::ffi::OsString;

use clap::{ArgAction, Args};

/// Edit a file in an image with a program of the host
///
/// The program edits a copy, and the image is not locked while it runs. If the program succeeds and
/// has changed the copy, the file gets the new contents in one step and keeps its owner, mode and
/// attributes. A file that was changed in the image meanwhile is not replaced; the edited copy is
/// kept then, as after every other failure.
#[derive(Args, Debug)]
pub(crate) struct EditArguments {
    /// The file: IMAGE:/path; it is created if it does not exist
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// Run this shell command, followed by the path of the copy, instead of $VISUAL or $EDITOR
    #[arg(long, value_name = "COMMAND")]
    pub(crate) with: Option<OsString>,
    /// Replace the file even if it was changed in the image meanwhile
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// Create directories
#[derive(Args, Debug)]
pub(crate) struct MkdirArguments {
    /// The directories: IMAGE:/path
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Create missing parent directories, and accept directories that exist already
    #[arg(short, long)]
    pub(crate) parents: bool,
    /// The mode, octal or symbolic
    #[arg(short, long, value_name = "MODE", default_value = "755")]
    pub(crate) mode: String,
}

/// Remove files, and with -r directories
#[derive(Args, Debug)]
pub(crate) struct RmArguments {
    /// The files or directories: IMAGE:/path
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Remove directories and everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    pub(crate) recursive: bool,
    /// Also remove empty directories, as rmdir(1) does
    #[arg(short, long)]
    pub(crate) dir: bool,
    /// Ignore files that do not exist
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// Move or rename files and directories inside an image
#[derive(Args, Debug)]
#[command(override_usage = "ferroxfs mv [OPTIONS] <ADDRESS>... <DESTINATION>")]
pub(crate) struct MvArguments {
    /// The files, IMAGE:/path, and last the destination: a new name or a directory, in the same
    /// image
    #[arg(required = true, num_args = 2.., value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Fail if the destination exists
    #[arg(short, long, conflicts_with = "exchange")]
    pub(crate) no_clobber: bool,
    /// Replace an existing destination (the default unless -n is given)
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Exchange the two files, so that each gets the name of the other
    #[arg(long)]
    pub(crate) exchange: bool,
}

/// Add a name to a file, or create a symbolic link
#[derive(Args, Debug)]
pub(crate) struct LnArguments {
    /// The file, IMAGE:/path; with -s the text of the link
    pub(crate) target: OsString,
    /// The new name, or a directory for it: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// Create a symbolic link
    #[arg(short, long)]
    pub(crate) symbolic: bool,
    /// Replace a file that has the new name
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// Change the permissions of files
#[derive(Args, Debug)]
pub(crate) struct ChmodArguments {
    /// The mode: octal, or symbolic such as u=rwX,go-w or g=u; without a class, the umask applies
    #[arg(allow_hyphen_values = true)]
    pub(crate) mode: String,
    /// The files: IMAGE[:/path]
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Also change the contents of directories
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
    /// Also change the contents of directories; symbolic links are changed and not followed
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Change a symbolic link and not the file that it points to
    #[arg(short = 'P', long, visible_short_alias = 'h')]
    pub(crate) no_dereference: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
}

/// Set the times of files, and create those that do not exist
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct TouchArguments {
    /// The files: IMAGE[:/path]
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Set this time, such as 2026-01-31, 2026-01-31T12:00 or @SECONDS, instead of now
    #[arg(short, long, value_name = "TIME")]
    pub(crate) date: Option<String>,
    /// Create no files
    #[arg(short = 'c', long)]
    pub(crate) no_create: bool,
    /// Set only the time of the last access
    #[arg(short = 'a')]
    pub(crate) accessed: bool,
    /// Set only the time of the last modification
    #[arg(short = 'm')]
    pub(crate) modified: bool,
    /// Change a symbolic link, which must exist, and not the file that it points to
    #[arg(short = 'h', long)]
    pub(crate) no_dereference: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
}

/// Set the length of files
#[derive(Args, Debug)]
pub(crate) struct TruncateArguments {
    /// The length in bytes, or with + or - the change; the suffixes k, m, g, t are units of 1024
    #[arg(short, long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) size: String,
    /// The files: IMAGE:/path; those that do not exist are created
    #[arg(required = true, value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
    /// Create no files
    #[arg(short = 'c', long)]
    pub(crate) no_create: bool,
}

/// Reserve space for a range of a file, or free it, as fallocate(1) does
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("way").args(
    ["punch_hole", "zero_range", "collapse_range", "insert_range", "unshare_range"]
))]
pub(crate) struct FallocateArguments {
    /// The file: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// The start of the range
    #[arg(short = 'o', value_name = "BYTES", default_value = "0", value_parser = crate::text::size::parse)]
    pub(crate) start: u64,
    /// The length of the range
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = crate::text::size::parse)]
    pub(crate) length: u64,
    /// Keep the length of the file
    #[arg(short = 'n', long)]
    pub(crate) keep_size: bool,
    /// Free the space of the range, which then reads as zeros
    #[arg(short, long)]
    pub(crate) punch_hole: bool,
    /// Reserve space for the range, and make it read as zeros
    #[arg(short, long)]
    pub(crate) zero_range: bool,
    /// Remove the range: the contents after it move to its start
    #[arg(short, long)]
    pub(crate) collapse_range: bool,
    /// Insert a hole: the contents from the start of the range on move to its end
    #[arg(short, long)]
    pub(crate) insert_range: bool,
    /// Replace shared blocks of the range by blocks of this file alone
    #[arg(short, long)]
    pub(crate) unshare_range: bool,
}

/// Set access control lists, as setfacl(1) does
///
/// An entry is `[d:]u:[USER]:PERMISSIONS`, `g:[GROUP]:PERMISSIONS`, `m::PERMISSIONS` or
/// `o::PERMISSIONS`; commas separate several entries. PERMISSIONS are letters of rwxX, or a digit;
/// d: means the default list, which new files of a directory inherit. If entries are set or
/// removed, the mask becomes the union of their permissions, unless it is given. The order is:
/// removing all, --set, -x, -m.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(
    ["modify", "remove", "set", "remove_all", "remove_default"]
))]
pub(crate) struct SetfaclArguments {
    /// Add or change these entries
    #[arg(short, long, value_name = "ENTRIES")]
    pub(crate) modify: Vec<String>,
    /// Remove these entries, which are given without permissions
    #[arg(short = 'x', long, value_name = "ENTRIES")]
    pub(crate) remove: Vec<String>,
    /// Replace the list with these entries
    #[arg(short, long, value_name = "ENTRIES")]
    pub(crate) set: Vec<String>,
    /// Remove everything that permission bits cannot express
    #[arg(short = 'b', long)]
    pub(crate) remove_all: bool,
    /// Remove the default list
    #[arg(short = 'k', long)]
    pub(crate) remove_default: bool,
    /// Treat all given entries as entries of the default list
    #[arg(short, long)]
    pub(crate) default: bool,
    /// Leave the mask as it is
    #[arg(short, long)]
    pub(crate) no_mask: bool,
    /// Also change the contents of directories
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
    /// The value of the attribute: text, 0x and hexadecimal digits, or 0s and base64; empty if not
    /// given
    ///
    /// Text may be in quotation marks and have bytes in octal after a backslash, as getfattr prints
    /// it.
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
