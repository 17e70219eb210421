//! The reasons why a disk image or a remote disk is not opened.

use std::fmt;
use std::io;

use xfs_device::{Contents, DeviceError, DeviceFailure, SourceError, SourceErrorKind};

/// The reason why a disk image is not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The host returned an error.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The image has a feature that ferroxfs does not support.
    #[error("is {contents} that {refusal}, which ferroxfs does not read")]
    Refused {
        /// The format of the image.
        contents: Contents,
        /// The unsupported feature.
        refusal: ImageRefusal,
    },
    /// A part of the image is damaged.
    #[error("is {contents} with a damaged {part}")]
    Damaged {
        /// The format of the image.
        contents: Contents,
        /// The name of the damaged part of the image.
        part: &'static str,
    },
    /// The image needs another file, which is not opened.
    #[error("needs the {role} {name:?}, which {refusal}")]
    Neighbour {
        /// The purpose for which the image names the other file.
        role: FileRole,
        /// The name of the other file, as the image has it.
        name: String,
        /// The reason why the other file is not opened.
        refusal: NeighbourRefusal,
    },
}

/// An unsupported feature of a disk image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageRefusal {
    /// The image has this version of the format, which is unknown.
    Version(u32),
    /// The clusters are in an external data file.
    ExternalData,
    /// The contents are encrypted.
    Encrypted,
    /// The clusters are compressed with the method of this number, which ferroxfs does not know.
    Compression(u8),
    /// The program that wrote the image has marked it as corrupt.
    MarkedCorrupt,
    /// The image has incompatible features that ferroxfs does not know, given as the bits of the
    /// header.
    Features(u64),
    /// The image has only the blocks that differ from a parent image.
    Differencing,
    /// The image is one part of a disk that is split over several files.
    PartOfSplit,
    /// The image has extents of this kind, which ferroxfs does not support.
    ExtentKind(String),
    /// The image has a log of this length in bytes, which is longer than ferroxfs replays.
    LongLog(u64),
}

/// The use that an image makes of another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileRole {
    /// The disk below the image, which has the blocks that the image lacks.
    Backing,
    /// A file that holds a part of the disk.
    Extent,
}

/// The reason why a file that an image names is not opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum NeighbourRefusal {
    /// The name leads out of the directory of the image.
    OutsideDirectory,
    /// The file is already in the chain of images: it is this image, or one that is built on this
    /// image.
    Loop,
    /// The chain of images, each with the next one as its backing file, is longer than the limit.
    TooDeep,
    /// The file cannot be opened.
    Device(Box<DeviceError>),
}

impl ImageError {
    pub(crate) const fn refused(contents: Contents, refusal: ImageRefusal) -> Self {
        Self::Refused { contents, refusal }
    }

    pub(crate) const fn damaged(contents: Contents, part: &'static str) -> Self {
        Self::Damaged { contents, part }
    }
}

impl From<ImageError> for DeviceFailure {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Io(error) => Self::Open(error),
            error => Self::Source(Box::new(error)),
        }
    }
}

impl SourceError for ImageError {
    fn kind(&self) -> SourceErrorKind {
        match self {
            Self::Damaged { .. } => SourceErrorKind::Damaged,
            Self::Refused { .. } => SourceErrorKind::Refused,
            Self::Neighbour { refusal: NeighbourRefusal::Device(_), .. } | Self::Io(_) => {
                SourceErrorKind::Failed
            }
            Self::Neighbour { .. } => SourceErrorKind::Refused,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Io(_) => return None,
            Self::Damaged { contents: Contents::Qcow2, .. } => "check it with qemu-img check",
            Self::Damaged { .. } => "copy it again from the machine where it was made",
            Self::Refused { refusal, .. } => refusal.hint(),
            Self::Neighbour { refusal, .. } => match refusal {
                NeighbourRefusal::OutsideDirectory => {
                    "an image may name only files in its own directory: link the file there and \
                     change the name (qemu-img rebase -u -b NAME IMAGE), or make one image of \
                     both (qemu-img convert -O raw IMAGE NEW)"
                }
                NeighbourRefusal::Loop | NeighbourRefusal::TooDeep => {
                    "make one image of the chain (qemu-img convert -O raw IMAGE NEW)"
                }
                NeighbourRefusal::Device(_) => {
                    "put the file beside the image, or make one image of both where it is \
                     (qemu-img convert -O raw IMAGE NEW)"
                }
            },
        })
    }
}

impl ImageRefusal {
    /// Returns advice for the user about the refused image.
    const fn hint(&self) -> &'static str {
        match self {
            Self::MarkedCorrupt => "repair it first: qemu-img check -r all IMAGE",
            Self::Encrypted => {
                "decrypt it first: qemu-img convert with --image-opts and --object secret, see \
                 qemu-img(1)"
            }
            Self::PartOfSplit => "open the file that describes the whole disk (NAME.vmdk)",
            Self::Differencing => {
                "make one image of it and its parents with the program that made it"
            }
            _ => "convert it to a raw image: qemu-img convert -O raw IMAGE NEW",
        }
    }
}

impl fmt::Display for ImageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "has version {version} of the format"),
            Self::ExternalData => f.write_str("has an external data file"),
            Self::Encrypted => f.write_str("is encrypted"),
            Self::Compression(number) => {
                write!(f, "has clusters compressed by an unknown method ({number})")
            }
            Self::MarkedCorrupt => f.write_str("is marked as corrupt"),
            Self::Features(bits) => write!(f, "has unknown features (bits {bits:#x})"),
            Self::Differencing => f.write_str("has only the differences from a parent image"),
            Self::PartOfSplit => f.write_str("is one part of a disk that is split over files"),
            Self::ExtentKind(kind) => write!(f, "has extents of the kind {kind:?}"),
            Self::LongLog(bytes) => write!(f, "has a log of {bytes} bytes"),
        }
    }
}

impl fmt::Display for FileRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Backing => "backing file",
            Self::Extent => "extent file",
        })
    }
}

impl fmt::Display for NeighbourRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutsideDirectory => f.write_str("is not in the directory of the image"),
            Self::Loop => f.write_str("leads back to an image of the same chain"),
            Self::TooDeep => write!(
                f,
                "is not opened: the chain has more than {} images",
                crate::neighbour::MAX_CHAIN
            ),
            Self::Device(error) => f.write_str(&error.reason()),
        }
    }
}
