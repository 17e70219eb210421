//! The text that describes a VMDK image.
//!
//! ```text
//! # Disk DescriptorFile
//! parentCID=ffffffff
//! createType="twoGbMaxExtentSparse"
//! RW 4192256 SPARSE "disk-s001.vmdk"
//! RW 63 FLAT "disk-flat.vmdk" 0
//! ```
//!
//! The size of an extent and its offset in the file are in sectors. The number of extents and the
//! length of the text are bounded.

use xfs_device::printable;

use super::{SECTOR_BYTES, damaged, refused};
use crate::error::{ImageError, ImageRefusal};

/// The longest descriptor that is read, in bytes.
pub(super) const MAX_DESCRIPTOR_BYTES: u64 = 1 << 20;
/// The most extents of a disk: 8 TiB in extents of 2 GiB.
const MAX_EXTENTS: usize = 4096;
/// The value of `parentCID` in a disk that has no parent.
const NO_PARENT: &str = "ffffffff";

/// A kind of extent that is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtentKind {
    Flat,
    Sparse,
    Zero,
}

/// An extent of the disk, with the properties that the descriptor (the text) gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DescribedExtent {
    pub(super) kind: ExtentKind,
    pub(super) length_bytes: u64,
    /// The name of the extent's file; empty for an extent that is all zeros and has no file.
    pub(super) file: String,
    /// The byte of the file at which a flat extent starts.
    pub(super) offset: u64,
}

/// The extents of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) extents: Vec<DescribedExtent>,
}

impl Descriptor {
    /// Parses the text, up to its end or the first zero byte.
    ///
    /// # Errors
    ///
    /// An image with a parent or with extents of an unsupported kind is refused by name.
    pub(super) fn parse(text: &[u8]) -> Result<Self, ImageError> {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        let mut extents = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.starts_with('#') {
                continue;
            }
            if let Some(extent) = extent(line)? {
                if extents.len() >= MAX_EXTENTS {
                    return Err(damaged("descriptor: it has too many extents"));
                }
                extents.push(extent);
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim(), value.trim().trim_matches('"'));
            if key.eq_ignore_ascii_case("parentCID") && !value.eq_ignore_ascii_case(NO_PARENT) {
                return Err(refused(ImageRefusal::Differencing));
            }
            if key.eq_ignore_ascii_case("encryption.keySafe") {
                return Err(refused(ImageRefusal::Encrypted));
            }
        }
        if extents.is_empty() { Err(damaged("descriptor")) } else { Ok(Self { extents }) }
    }
}

/// Parses the line of an extent. Returns `None` for other lines.
fn extent(line: &str) -> Result<Option<DescribedExtent>, ImageError> {
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        Some("RW" | "RDONLY") => {}
        Some("NOACCESS") => {
            return Err(refused(ImageRefusal::ExtentKind("NOACCESS".to_owned())));
        }
        _ => return Ok(None),
    }
    let bad = || damaged("descriptor");
    let sectors = |word: Option<&str>| {
        let sectors: u64 = word.and_then(|word| word.parse().ok())?;
        sectors.checked_mul(SECTOR_BYTES)
    };
    let length_bytes = sectors(words.next()).ok_or_else(bad)?;
    let kind = match words.next().ok_or_else(bad)? {
        "FLAT" => ExtentKind::Flat,
        "SPARSE" => ExtentKind::Sparse,
        "ZERO" => ExtentKind::Zero,
        other => return Err(refused(ImageRefusal::ExtentKind(printable(other)))),
    };
    if kind == ExtentKind::Zero {
        let file = String::new();
        return Ok(Some(DescribedExtent { kind, length_bytes, file, offset: 0 }));
    }
    let mut parts = line.splitn(3, '"');
    let (file, rest) = (parts.nth(1).ok_or_else(bad)?, parts.next().ok_or_else(bad)?);
    let offset = match rest.split_ascii_whitespace().next() {
        Some(word) => sectors(Some(word)).ok_or_else(bad)?,
        None => 0,
    };
    Ok(Some(DescribedExtent { kind, length_bytes, file: file.to_owned(), offset }))
}

#[cfg(test)]
mod tests {
    use super::{DescribedExtent, Descriptor, ExtentKind};

    #[test]
    fn descriptor_of_a_flat_disk_is_parsed() {
        let text = b"# Disk DescriptorFile\nversion=1\nparentCID=ffffffff\n\n\
            RW 63 FLAT \"a disk-flat.vmdk\" 8\nRW 1 ZERO\n";
        let extent = |kind, length_bytes, file: &str, offset| DescribedExtent {
            kind,
            length_bytes,
            file: file.to_owned(),
            offset,
        };
        let expected = vec![
            extent(ExtentKind::Flat, 63 * 512, "a disk-flat.vmdk", 8 * 512),
            extent(ExtentKind::Zero, 512, "", 0),
        ];
        assert_eq!(Descriptor::parse(text).unwrap(), Descriptor { extents: expected });
    }

    #[test]
    fn unsupported_descriptors_are_refused_by_name() {
        for (line, named) in [
            ("parentCID=12345678\nRW 1 ZERO", "parent"),
            ("RW 1 SESPARSE \"a\"", "SESPARSE"),
            ("RW 1 VMFS \"a\"", "VMFS"),
            ("NOACCESS 1 SPARSE \"a\"", "NOACCESS"),
            ("RW 99999999999999999999 ZERO", "descriptor"),
            ("RW 18446744073709551615 ZERO", "descriptor"),
            ("RW 1 FLAT \"a", "descriptor"),
            ("", "descriptor"),
        ] {
            let error = Descriptor::parse(line.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
