//! Files of formats that import does not read, recognised by their first bytes, with a hint for
//! each.

use super::block::{BLOCK_BYTES, is_header, is_zero};
use crate::import::decompress::Compression;

/// The number of bytes that are read to recognise a format. They include the farthest magic, that
/// of ISO 9660 at byte 32769.
pub(in crate::import) const LOOKED_AT_BYTES: usize = 32_774;

/// A known format: the offset of its magic, the magic, the name of the format, and a hint for the
/// user.
type Known = (usize, &'static [u8], &'static str, &'static str);

const BY_BSDTAR: &str = "bsdtar -cf - --format=pax @FILE | ferroxfs import - IMAGE";
const BY_XZ: &str = "xz -dc FILE | ferroxfs import - IMAGE";
const BY_IMAGE: &str = "`ferroxfs cp -a FILE:/ IMAGE:/` copies an XFS image; mount any other image and import the \
     mount point";

const KNOWN: [Known; 25] = [
    (0, b"PK\x03\x04", "a zip archive", BY_BSDTAR),
    (0, b"PK\x05\x06", "a zip archive", BY_BSDTAR),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", BY_BSDTAR),
    (0, b"Rar!\x1a\x07", "a rar archive", BY_BSDTAR),
    (0, b"\xed\xab\xee\xdb", "an rpm package", "rpm2cpio FILE | ferroxfs import - IMAGE"),
    (
        0,
        b"!<arch>\ndebian-binary",
        "a Debian package",
        "dpkg-deb --fsys-tarfile FILE | ferroxfs import - IMAGE",
    ),
    (0, b"!<arch>\n", "an ar archive", BY_BSDTAR),
    (0, b"hsqs", "a squashfs image", "sqfs2tar FILE | ferroxfs import - IMAGE"),
    (0, b"sqsh", "a squashfs image", "sqfs2tar FILE | ferroxfs import - IMAGE"),
    (0, b"xar!", "a xar archive", BY_BSDTAR),
    (0, b"MSCF", "a cab archive", BY_BSDTAR),
    (0, b"\xc7\x71", "a cpio archive in the old binary form", BY_BSDTAR),
    (0, b"\x71\xc7", "a cpio archive in the old binary form", BY_BSDTAR),
    (0, b"\x1f\x9d", "compressed by compress(1)", "gzip -dc FILE | ferroxfs import - IMAGE"),
    (0, b"\x1f\x1e", "compressed by pack(1)", "gzip -dc FILE | ferroxfs import - IMAGE"),
    (0, b"\x1f\xa0", "compressed by lzh", "gzip -dc FILE | ferroxfs import - IMAGE"),
    (0, b"LZIP", "compressed by lzip", "lzip -dc FILE | ferroxfs import - IMAGE"),
    (0, b"\x89LZO\0\r\n\x1a\n", "compressed by lzop", "lzop -dc FILE | ferroxfs import - IMAGE"),
    (0, b"LRZI", "compressed by lrzip", "lrzcat FILE | ferroxfs import - IMAGE"),
    (0, b"\x5d\0\0", "compressed in the old form of LZMA", BY_XZ),
    (0, b"XFSB", "an XFS image", BY_IMAGE),
    (0, b"QFI\xfb", "a qcow2 image", BY_IMAGE),
    (1024, b"\xe2\xe1\xf5\xe0", "an EROFS image", BY_IMAGE),
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 image", BY_IMAGE),
    (32_769, b"CD001", "an ISO 9660 image", BY_BSDTAR),
];

/// Returns whether a file that begins with zeros is something other than a tar archive: an image of
/// a known format, or a file without a tar header after the zeros. Without this check, such a file
/// would be imported as an archive without members.
pub(in crate::import) fn follows_zeros(head: &[u8]) -> bool {
    let is_known = KNOWN
        .iter()
        .any(|(offset, magic, ..)| head.get(*offset..).is_some_and(|rest| rest.starts_with(magic)));
    let first = head.chunks_exact(BLOCK_BYTES).find(|block| !is_zero(block));
    is_known || first.is_some_and(|block| !is_header(block))
}

/// Returns the error message and the hint for an input that is not a supported archive and starts
/// with the bytes `head`. `outer` is the compression that was removed to get these bytes.
pub(in crate::import) fn describe(
    head: &[u8],
    outer: Option<Compression>,
) -> (String, &'static str) {
    let inside =
        outer.map_or_else(String::new, |outer| format!(" inside of {} data", outer.name()));
    if let Some(inner) = Compression::of(head) {
        let message = format!(
            "is {} data{inside}, and only one level of compression is supported",
            inner.name()
        );
        return (
            message,
            "decompress the outer one first, and import the result from standard input (-)",
        );
    }
    let known = |(offset, magic, ..): &&Known| {
        head.get(*offset..).is_some_and(|bytes| bytes.starts_with(magic))
    };
    match KNOWN.iter().find(known) {
        Some((_, _, name, hint)) => {
            (format!("is {name}{inside}, which import does not read"), *hint)
        }
        None => {
            let message = format!("is neither a tar archive nor a cpio archive{inside}");
            (
                message,
                "import reads tar and cpio (newc, odc), also compressed by gzip, xz, zstd, bzip2 or lz4",
            )
        }
    }
}
