//! The arguments of the commands that copy files into an image.
//!
//! `cp` copies in both directions; its arguments are in [`export`](super::export).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::PolicyOptions;

/// Write standard input into a file
///
/// Standard input is read to its end before the image is opened. An existing file gets its new
/// contents when they are complete, and keeps its mode, owner and attributes. Until then the image
/// needs space for both.
#[derive(Args, Debug)]
pub(crate) struct PutArguments {
    /// The file: IMAGE:/path; it is created or gets new contents
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// The mode of a new file, octal or symbolic
    #[arg(short, long, value_name = "MODE", default_value = "644")]
    pub(crate) mode: String,
    /// Allow empty input to empty a file that has contents, which is refused otherwise
    #[arg(long)]
    pub(crate) allow_empty: bool,
}

/// Copy a directory of the host, an archive, or a container image, into an image
///
/// oci:DIRECTORY, oci-archive:FILE and docker-archive:FILE name container images, whose layers are
/// applied in order; :NAME after the path chooses one of several.
///
/// Archives may be tar or cpio (newc, odc), compressed with gzip, xz, zstd, bzip2 or lz4; the
/// contents decide, not the name. A member below a symbolic link to a directory goes where the link
/// points inside the image. A directory replaces a symbolic link, unless --keep-directory-symlink
/// is given.
///
/// Names are sorted, and members of an archive keep their order, so that the same source gives the
/// same image; if SOURCE_DATE_EPOCH is set, no time is later than that.
#[derive(Args, Debug)]
pub(crate) struct ImportArguments {
    /// The directory, the archive, or the container image; "-" for an archive on standard input,
    /// which is read to its end first
    pub(crate) source: PathBuf,
    /// The destination: IMAGE[:/path], a directory, which is created if it does not exist
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: OsString,
    /// Give everything to user and group 0
    #[arg(long)]
    pub(crate) all_root: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveOptions,
    #[command(flatten)]
    pub(crate) policy: PolicyOptions,
}

/// How an archive is read
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ArchiveOptions {
    /// If the archive has a directory where the image has a symbolic link to one, keep the link and
    /// put the entries into the directory that it points to
    #[arg(long)]
    pub(crate) keep_directory_symlink: bool,
    /// Continue after blocks of zeros, which end a tar archive: for archives joined by cat(1)
    #[arg(long)]
    pub(crate) ignore_zeros: bool,
}
