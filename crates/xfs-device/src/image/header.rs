//! The header of a qcow2 image, with its fields by byte offset. An image with unsupported features
//! is refused.
//!
//! ```text
//!  0 "QFI\xfb"   4 version      8 backing file: offset, 16 its length
//! 20 log2 of the cluster size
//! 24 disk size  32 encryption  36 entries of the L1 table, 40 its offset
//! 72 incompatible features     100 length of the header   104 compression of clusters
//! ```

use std::fmt;
use std::io;

use crate::device::BlockDevice;
use crate::file::FileDevice;

/// Number of bytes of a header that are read at most.
const HEADER_BYTES: usize = 112;
/// The length of a version 2 header in bytes.
const HEADER_BYTES_2: usize = 72;

const DIRTY: u64 = 1 << 0;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;

/// An unsupported feature of a disk image, because of which the image is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageRefusal {
    /// The image has this version of the format, which is unknown.
    Version(u32),
    /// The image depends on this backing file, which has the clusters that the image lacks.
    BackingFile(String),
    /// The clusters are in an external data file.
    ExternalData,
    /// The clusters are encrypted.
    Encrypted,
    /// The clusters are compressed by this method, which is not deflate.
    Compression(u8),
    /// The program that wrote the image has marked it as corrupt.
    MarkedCorrupt,
    /// The image has incompatible features that ferroxfs does not know, given as the bits of the
    /// header.
    Features(u64),
}

impl fmt::Display for ImageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "has version {version} of the format"),
            Self::BackingFile(name) => write!(f, "has a backing file ({name})"),
            Self::ExternalData => f.write_str("has an external data file"),
            Self::Encrypted => f.write_str("is encrypted"),
            Self::Compression(1) => f.write_str("has clusters compressed by zstd"),
            Self::Compression(number) => {
                write!(f, "has clusters compressed by an unknown method ({number})")
            }
            Self::MarkedCorrupt => f.write_str("is marked as corrupt"),
            Self::Features(bits) => write!(f, "has unknown features (bits {bits:#x})"),
        }
    }
}

impl ImageRefusal {
    /// Returns advice for the user about the refused image.
    pub(crate) const fn hint(&self) -> &'static str {
        match self {
            Self::BackingFile(_) => {
                "merge it with its backing file into one image: qemu-img convert -O raw IMAGE \
                 NEW, or -O qcow2"
            }
            Self::MarkedCorrupt => "repair it first: qemu-img check -r all IMAGE",
            Self::Encrypted => {
                "decrypt it first: qemu-img convert with --image-opts and --object secret, see \
                 qemu-img(1)"
            }
            Self::Version(_) | Self::ExternalData | Self::Compression(_) | Self::Features(_) => {
                "convert it to a raw image: qemu-img convert -O raw IMAGE NEW"
            }
        }
    }
}

/// The fields of a header by which clusters are located.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageHeader {
    pub(super) cluster_log: u32,
    pub(super) size_bytes: u64,
    pub(super) l1_entries: u32,
    pub(super) l1_offset: u64,
    pub(super) has_extended_l2: bool,
    /// Whether the image was not closed properly, so that its reference counts may be wrong.
    /// Reading the image does not use them.
    pub(super) is_dirty: bool,
}

/// The reason why a header cannot be used.
pub(super) enum HeaderError {
    Io(io::Error),
    Refused(ImageRefusal),
    Damaged,
}

impl From<io::Error> for HeaderError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl ImageHeader {
    pub(super) fn read(file: &FileDevice) -> Result<Self, HeaderError> {
        let mut bytes = [0; HEADER_BYTES];
        let length = usize::try_from(file.length_bytes()).unwrap_or(HEADER_BYTES);
        let there = bytes.get_mut(..length.min(HEADER_BYTES)).unwrap_or_default();
        if there.len() < HEADER_BYTES_2 {
            return Err(HeaderError::Damaged);
        }
        file.read_at(there, 0)?;
        let (features, compression) = match number(&bytes, 4, 4) {
            2 => (0, 0),
            3 if length < 104 || number(&bytes, 100, 4) < 104 => return Err(HeaderError::Damaged),
            3 if number(&bytes, 100, 4) == 104 => (number(&bytes, 72, 8), 0),
            3 => (number(&bytes, 72, 8), number(&bytes, 104, 1) as u8),
            version => return Err(HeaderError::Refused(ImageRefusal::Version(version as u32))),
        };
        check_features(features, compression)?;
        if number(&bytes, 8, 8) != 0 {
            return Err(HeaderError::Refused(ImageRefusal::BackingFile(backing(file, &bytes)?)));
        }
        if number(&bytes, 32, 4) != 0 {
            return Err(HeaderError::Refused(ImageRefusal::Encrypted));
        }
        Ok(Self {
            cluster_log: number(&bytes, 20, 4) as u32,
            size_bytes: number(&bytes, 24, 8),
            l1_entries: number(&bytes, 36, 4) as u32,
            l1_offset: number(&bytes, 40, 8),
            has_extended_l2: features & EXTENDED_L2 != 0,
            is_dirty: features & DIRTY != 0,
        })
    }
}

fn check_features(features: u64, compression: u8) -> Result<(), HeaderError> {
    let unknown = features & !(DIRTY | CORRUPT | EXTERNAL_DATA | COMPRESSION | EXTENDED_L2);
    let refusal = if unknown != 0 {
        ImageRefusal::Features(unknown)
    } else if features & EXTERNAL_DATA != 0 {
        ImageRefusal::ExternalData
    } else if features & CORRUPT != 0 {
        ImageRefusal::MarkedCorrupt
    } else if features & COMPRESSION != 0 && compression != 0 {
        ImageRefusal::Compression(compression)
    } else {
        return Ok(());
    };
    Err(HeaderError::Refused(refusal))
}

/// Returns the name of the backing file. At most 1023 bytes of it are read.
fn backing(file: &FileDevice, header: &[u8]) -> io::Result<String> {
    let (start, length) = (number(header, 8, 8), number(header, 16, 4).min(1023));
    if start.saturating_add(length) > file.length_bytes() {
        return Ok("its name is past the end of the image".to_owned());
    }
    let mut name = vec![0; length as usize];
    file.read_at(&mut name, start)?;
    Ok(crate::text::printable(&String::from_utf8_lossy(&name)))
}

/// Decodes a big-endian number of up to 8 bytes at byte `at`. Missing bytes count as 0.
pub(super) fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(|rest| rest.get(..length)).unwrap_or_default();
    bytes.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}
