//! The options of `mkfs` that make a whole disk.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The kind of a new partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiskKind {
    /// GUID partition table, with its copy at the end of the disk
    Gpt,
    /// Master boot record
    Mbr,
}

/// The format of the file that holds the new volume, or the disk around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImageFormat {
    /// The bytes of the volume or disk
    Raw,
    /// QEMU: only data takes space, in compressed clusters
    Qcow2,
    /// Fixed VHD: the bytes of the disk and a footer, for Hyper-V and Azure
    Vhd,
}

/// The compression of the clusters of a qcow2 image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionName {
    /// Zstandard, which QEMU 5.1 and later read
    Zstd,
    /// Deflate, which every QEMU reads
    Deflate,
    /// No compression
    None,
}

/// Options for a disk with a partition table around the volume.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Disk options")]
pub(crate) struct DiskOptions {
    /// Make a disk with a partition table of this kind. The volume is the last partition; it begins
    /// at a multiple of 1 MiB, and -d size= is its own size
    #[arg(long, value_name = "KIND")]
    pub(crate) disk: Option<DiskKind>,
    /// Type of the volume's partition: linux, linux-root-x86-64, linux-home or another name of the
    /// discoverable partitions, or a GUID; with --disk mbr linux or a byte such as 0x83
    #[arg(long, value_name = "TYPE", requires = "disk")]
    pub(crate) partition_type: Option<String>,
    /// Name of the volume's partition, at most 36 characters; only with --disk gpt
    #[arg(long, value_name = "NAME", requires = "disk")]
    pub(crate) partition_name: Option<String>,
    /// Make an EFI system partition before the volume, and copy the files of this directory into it
    #[arg(long, value_name = "DIR", requires = "disk")]
    pub(crate) esp: Option<PathBuf>,
    /// Size of the EFI system partition, at least 34m; without it, it fits the files and has at
    /// least 64 MiB
    #[arg(long, value_name = "BYTES", requires = "esp", value_parser = crate::text::size::parse)]
    pub(crate) esp_size: Option<u64>,
    /// Make a file of this format. The raw image is made first, in a file without a name beside it
    #[arg(long, value_name = "FORMAT", default_value = "raw")]
    pub(crate) format: ImageFormat,
    /// Compression of the clusters of --format qcow2; zstd if it is not given
    #[arg(long, value_name = "METHOD")]
    pub(crate) compression: Option<CompressionName>,
}
