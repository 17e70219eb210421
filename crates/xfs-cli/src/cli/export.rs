//! The arguments of the commands that copy files out of an image.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Write the contents of files to standard output
#[derive(Args, Debug)]
pub(crate) struct CatArguments {
    /// The files: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<OsString>,
}

/// Write the contents of a file to standard output or into a file
#[derive(Args, Debug)]
pub(crate) struct GetArguments {
    /// The file: IMAGE:/path
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// Write to this file of the host, or to standard output (-); holes stay holes in a file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Copy files out of an image, into one, or from one to another
///
/// No name or symbolic link in an image can make this write outside of the destination on the host.
#[derive(Args, Debug)]
#[command(override_usage = "ferroxfs cp [OPTIONS] <ADDRESS>... <DESTINATION>")]
pub(crate) struct CpArguments {
    /// The files or directories, and last the destination: a file, a directory, "-", or IMAGE:/path
    #[arg(required = true, num_args = 2.., value_name = "ADDRESS")]
    pub(crate) words: Vec<OsString>,
    /// Copy everything exactly: directories, links, devices, owners, times, attributes, holes
    #[arg(short, long)]
    pub(crate) archive: bool,
    /// Copy directories and everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    pub(crate) recursive: bool,
    /// Keep owners, permissions, times and attributes, as -a does
    #[arg(short, long)]
    pub(crate) preserve: bool,
    /// Leave existing files alone, and report them
    #[arg(short, long)]
    pub(crate) no_clobber: bool,
    /// Replace existing files (the default unless -n is given)
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Do not report that owners, and other properties that only root may set, could not be set
    #[arg(long)]
    pub(crate) ignore_owner: bool,
    /// Copy out of a damaged volume as far as it can be read, as salvage does; from one source
    #[arg(long)]
    pub(crate) damaged: bool,
}

impl CpArguments {
    /// Returns whether copies keep all properties of a file.
    pub(crate) const fn keeps_facts(&self) -> bool {
        self.archive || self.preserve
    }
}

/// Write a tar archive of a directory or file
#[derive(Args, Debug)]
pub(crate) struct TarArguments {
    /// The directory or file: IMAGE[:/path]
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: Option<OsString>,
    /// Write to this file instead of standard output (-); it appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Archive a damaged volume as far as it can be read, as salvage does
    #[arg(long)]
    pub(crate) damaged: bool,
}

/// Copy everything that can be read from a damaged volume, without writing to it
///
/// Files lie under their names, also where a directory is destroyed and only the parent pointers of
/// its files name them. Files without a name lie in "orphans", under their inode numbers. Ranges
/// that cannot be read are holes in the copies. The manifest has a line of JSON for each file: what
/// is complete, doubtful, partial, not copied or lost, which ranges are missing, and why. The last
/// line has the totals. The exit code is 5 unless everything is complete and in its place.
#[derive(Args, Debug)]
#[command(override_usage = "ferroxfs salvage [OPTIONS] <IMAGE> <DIRECTORY>\n       \
                            ferroxfs salvage [OPTIONS] -o <FILE> <IMAGE>\n       \
                            ferroxfs salvage [OPTIONS] --new-volume <FILE> <IMAGE>")]
pub(crate) struct SalvageArguments {
    /// The image or device
    #[arg(value_name = "IMAGE")]
    pub(crate) image: PathBuf,
    /// The directory for the copies: a new one, or an empty one
    #[arg(value_name = "DIRECTORY", required_unless_present_any = ["output", "new_volume"])]
    #[arg(conflicts_with_all = ["output", "new_volume"])]
    pub(crate) directory: Option<PathBuf>,
    /// Write a tar archive to this file, or to standard output (-), instead of a directory
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Make a new volume in this file, which must not exist, instead of a directory
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    pub(crate) new_volume: Option<PathBuf>,
    /// The length of the new volume (default: that of the damaged one, or more if the files need
    /// it); the suffixes k, m, g, t are units of 1024
    #[arg(long, value_name = "BYTES", requires = "new_volume", value_parser = crate::text::size::parse)]
    pub(crate) new_volume_size: Option<u64>,
    /// The map that ddrescue made with the image: ranges that it did not copy count as unreadable
    #[arg(long, value_name = "FILE")]
    pub(crate) map: Option<PathBuf>,
    /// Write the manifest to this file (default: beside the copies, with .manifest.ndjson added)
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// Look for deleted files too, and put them into "deleted"; reads the whole device
    #[arg(long)]
    pub(crate) deleted: bool,
    /// Do not report that owners, and other properties that only root may set, could not be set
    #[arg(long)]
    pub(crate) ignore_owner: bool,
}
