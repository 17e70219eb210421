//! The arguments of `metadump` and `mdrestore`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::options::JsonOption;

/// The version of the format of a metadata image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MetadumpFormat {
    /// The format that every xfs_mdrestore reads
    #[value(name = "1")]
    One,
    /// The format of xfsprogs 6.6 and later
    #[value(name = "2")]
    Two,
}

/// Write the metadata of a volume to a file that can be sent for analysis
///
/// The file has the format of xfs_metadump(8). It holds no contents of files. Names get other bytes
/// of the same length and hash, and values of attributes become zeros. Names of up to four bytes
/// stay. Damage does not stop the dump: the exit code is 5, and --warnings lists what was damaged
/// or left out.
#[derive(Args, Debug)]
pub(crate) struct MetadumpArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// The file to write; - is standard output
    #[arg(value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Keep names and values of attributes as they are
    #[arg(short = 'o', long)]
    pub(crate) no_obfuscate: bool,
    /// Also copy the bytes in blocks that no structure uses; they are never obfuscated
    #[arg(short = 'a', long)]
    pub(crate) all_blocks: bool,
    /// Copy a dirty log as it is, with readable names, although names are obfuscated
    #[arg(long, conflicts_with = "no_obfuscate")]
    pub(crate) keep_dirty_log: bool,
    /// The format of the file
    #[arg(short = 'v', long, value_enum, value_name = "VERSION", default_value = "1")]
    pub(crate) format: MetadumpFormat,
    /// Leave out extents of metadata with more blocks than this, as damaged
    #[arg(short = 'm', long, value_name = "BLOCKS", default_value = "2097151")]
    pub(crate) max_extent: u32,
    /// List what is damaged or left out
    #[arg(short = 'w', long)]
    pub(crate) warnings: bool,
    /// Overwrite an existing volume or another known kind of file
    #[arg(short, long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Restore a metadata image to a sparse image file or to a device
///
/// The restored volume has its names, sizes and structures, but files hold no contents. Commands
/// that only read metadata, such as check, info, ls and dump, also take a metadata image directly.
#[derive(Args, Debug)]
pub(crate) struct MdrestoreArguments {
    /// The metadata image, which metadump or xfs_metadump has written; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The image or device to write
    #[arg(value_name = "IMAGE")]
    pub(crate) target: PathBuf,
    /// Overwrite an existing volume or another known kind of file
    #[arg(short, long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}
