//! The format of the file that `mkfs` makes: `mkfs --format`.
//!
//! Owns: the choice of the format, and its limits. Does **not** own: the bytes of the formats
//! (`xfs-image`), or the file ([`device`](super::device)).
//!
//! The volume, and the disk around it, are made as a raw image in a staged file. A VHD image is
//! this file with a footer. A qcow2 image is a second staged file, which gets the data of the first
//! one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use ferroxfs::Timestamp;
use ferroxfs::admin::Uuid;
use xfs_image::{
    ClusterCompression, MAX_QCOW2_BYTES, MAX_VHD_BYTES, VHD_FOOTER_BYTES, vhd_footer, write_qcow2,
};

use super::disk::derive;
use crate::cli::{CompressionName, DiskOptions, ImageFormat};
use crate::failure::Failure;
use crate::interrupt;
use crate::text::size;

/// The format of the finished file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Packaging {
    #[default]
    Raw,
    Qcow2(ClusterCompression),
    Vhd,
}

impl Packaging {
    /// Returns the format that the options ask for.
    pub(super) fn parse(options: &DiskOptions) -> Result<Self, Failure> {
        let compression = match options.compression {
            None | Some(CompressionName::Zstd) => ClusterCompression::Zstd,
            Some(CompressionName::Deflate) => ClusterCompression::Deflate,
            Some(CompressionName::None) => ClusterCompression::None,
        };
        match options.format {
            ImageFormat::Qcow2 => Ok(Self::Qcow2(compression)),
            _ if options.compression.is_some() => {
                Err(Failure::usage("--compression: only clusters of --format qcow2 are compressed"))
            }
            ImageFormat::Raw => Ok(Self::Raw),
            ImageFormat::Vhd => Ok(Self::Vhd),
        }
    }

    /// Returns the name of the format as the option has it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2(_) => "qcow2",
            Self::Vhd => "vhd",
        }
    }

    /// Checks that an image of this format can hold a disk of this length.
    pub(super) fn verify(self, disk_bytes: u64) -> Result<(), Failure> {
        let most = match self {
            Self::Raw => return Ok(()),
            Self::Qcow2(_) => MAX_QCOW2_BYTES,
            Self::Vhd => MAX_VHD_BYTES,
        };
        if disk_bytes <= most {
            return Ok(());
        }
        let (name, most) = (self.name(), size::human(most));
        Err(Failure::usage(format!("--format {name}: such an image has at most {most}")))
    }

    /// Finishes a VHD image: appends the footer to the raw image `raw`. `identity` is the UUID of
    /// the volume, and `time` its time.
    pub(super) fn append_footer(raw: &File, identity: &Uuid, time: Timestamp) -> io::Result<()> {
        let length = raw.metadata()?.len();
        let footer = vhd_footer(length, time.seconds(), &derive(identity, "vhd"));
        raw.set_len(length + VHD_FOOTER_BYTES)?;
        raw.write_all_at(&footer, length)
    }

    /// Writes the qcow2 image of the raw image `raw` to `image`. Fails after a signal.
    pub(super) fn write_qcow2(
        raw: &File,
        image: &File,
        compression: ClusterCompression,
    ) -> io::Result<()> {
        write_qcow2(raw, image, compression, &mut |_| interrupt::check_io())
    }
}
