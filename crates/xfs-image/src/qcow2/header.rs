//! The header of a qcow2 image, with its fields by byte offset. An image with unsupported features
//! is refused.
//!
//! ```text
//!  0 "QFI\xfb"   4 version      8 backing file: offset, 16 its length
//! 20 log2 of the cluster size
//! 24 disk size  32 encryption  36 entries of the L1 table, 40 its offset
//! 72 incompatible features     100 length of the header   104 compression of clusters
//! after the header, extensions: 4 bytes kind, 4 bytes length, contents padded to 8 bytes
//! ```

use xfs_device::{BlockDevice, Contents};

use crate::bytes::{big, part};
use crate::error::{ImageError, ImageRefusal};

/// The most bytes of a header that are read.
const HEADER_BYTES: usize = 112;
/// The length of a version 2 header in bytes.
const HEADER_BYTES_2: usize = 72;
/// The longest name of a backing file in bytes, as in qemu.
const MAX_NAME_BYTES: u64 = 1023;
/// The kind of the header extension that has the format of the backing file.
const BACKING_FORMAT: u64 = 0xe279_2aca;
/// The most bytes of header extensions that are read.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;

const DIRTY: u64 = 1 << 0;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;

/// The method with which an image compresses its clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Deflate,
    Zstd,
}

/// The backing file that the header names.
#[derive(Clone, Debug)]
pub(super) struct Backing {
    pub(super) name: String,
    /// The format of the backing file, as qemu names it. `None` if the header does not say.
    pub(super) format: Option<String>,
}

/// The fields of a header by which clusters are located.
#[derive(Clone, Debug)]
pub(super) struct ImageHeader {
    pub(super) cluster_log: u32,
    pub(super) size_bytes: u64,
    pub(super) l1_entries: u32,
    pub(super) l1_offset: u64,
    pub(super) has_extended_l2: bool,
    pub(super) compression: Compression,
    pub(super) backing: Option<Backing>,
}

fn damaged() -> ImageError {
    ImageError::damaged(Contents::Qcow2, "header")
}

const fn refused(refusal: ImageRefusal) -> ImageError {
    ImageError::refused(Contents::Qcow2, refusal)
}

impl ImageHeader {
    pub(super) fn read(file: &dyn BlockDevice) -> Result<Self, ImageError> {
        let mut bytes = [0; HEADER_BYTES];
        let length = usize::try_from(file.length_bytes()).unwrap_or(HEADER_BYTES);
        let there = bytes.get_mut(..length.min(HEADER_BYTES)).unwrap_or_default();
        if there.len() < HEADER_BYTES_2 {
            return Err(damaged());
        }
        file.read_at(there, 0)?;
        let header_bytes = big(&bytes, 100, 4);
        let (features, method, extensions) = match big(&bytes, 4, 4) {
            2 => (0, 0, HEADER_BYTES_2 as u64),
            3 if length < 104 || header_bytes < 104 => return Err(damaged()),
            3 if header_bytes == 104 => (big(&bytes, 72, 8), 0, header_bytes),
            3 => (big(&bytes, 72, 8), big(&bytes, 104, 1) as u8, header_bytes),
            version => return Err(refused(ImageRefusal::Version(version as u32))),
        };
        let compression = check_features(features, method)?;
        if big(&bytes, 32, 4) != 0 {
            return Err(refused(ImageRefusal::Encrypted));
        }
        Ok(Self {
            cluster_log: big(&bytes, 20, 4) as u32,
            size_bytes: big(&bytes, 24, 8),
            l1_entries: big(&bytes, 36, 4) as u32,
            l1_offset: big(&bytes, 40, 8),
            has_extended_l2: features & EXTENDED_L2 != 0,
            compression,
            backing: backing(file, &bytes, extensions)?,
        })
    }
}

/// Refuses unsupported features, and returns the compression of clusters. A dirty image is
/// accepted: only its reference counts may be wrong, and reading does not use them.
fn check_features(features: u64, method: u8) -> Result<Compression, ImageError> {
    let unknown = features & !(DIRTY | CORRUPT | EXTERNAL_DATA | COMPRESSION | EXTENDED_L2);
    let refusal = if unknown != 0 {
        ImageRefusal::Features(unknown)
    } else if features & EXTERNAL_DATA != 0 {
        ImageRefusal::ExternalData
    } else if features & CORRUPT != 0 {
        ImageRefusal::MarkedCorrupt
    } else {
        match (features & COMPRESSION != 0, method) {
            (false, _) | (true, 0) => return Ok(Compression::Deflate),
            (true, 1) => return Ok(Compression::Zstd),
            (true, method) => ImageRefusal::Compression(method),
        }
    };
    Err(refused(refusal))
}

/// Returns the backing file that the header names, or `None` if it names none. The extensions of
/// the header start at byte `extensions`.
fn backing(
    file: &dyn BlockDevice,
    header: &[u8],
    extensions: u64,
) -> Result<Option<Backing>, ImageError> {
    let (start, length) = (big(header, 8, 8), big(header, 16, 4));
    if start == 0 {
        return Ok(None);
    }
    let is_there = start.checked_add(length).is_some_and(|end| end <= file.length_bytes());
    if length > MAX_NAME_BYTES || !is_there {
        return Err(damaged());
    }
    let mut name = vec![0; length as usize];
    file.read_at(&mut name, start)?;
    let name = String::from_utf8_lossy(&name).into_owned();
    Ok(Some(Backing { name, format: backing_format(file, extensions, start)? }))
}

/// Returns the format of the backing file from the header extensions, which lie between the bytes
/// `start` and `end` of the file. Returns `None` if no extension contains the format.
fn backing_format(
    file: &dyn BlockDevice,
    start: u64,
    end: u64,
) -> Result<Option<String>, ImageError> {
    let length = end.saturating_sub(start).min(MAX_EXTENSION_BYTES);
    let mut bytes = vec![0; length as usize];
    file.read_at(&mut bytes, start)?;
    let mut rest = bytes.as_slice();
    while rest.len() >= 8 {
        let (kind, length) = (big(rest, 0, 4), big(rest, 4, 4) as usize);
        match kind {
            0 => break,
            BACKING_FORMAT => {
                let format = String::from_utf8_lossy(part(rest, 8, length)).into_owned();
                return Ok(Some(format));
            }
            _ => rest = rest.get(8 + length.next_multiple_of(8)..).unwrap_or_default(),
        }
    }
    Ok(None)
}
