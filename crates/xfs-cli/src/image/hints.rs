//! Hints for a path that does not exist and for a volume that is full.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ferroxfs::OpenError;
use xfs_device::{Contents, FindError};

use crate::failure::Failure;
use crate::image::address::{Address, path_separator};
use crate::image::failures::open_failure;
use crate::terminal::names;
use crate::text::size::human;

/// The characters that make a word a shell pattern.
const PATTERN: &[u8] = b"*?[";

/// Adds a hint to a failure to open the image `path`. If `path` is `IMAGE:/path`, the hint is to
/// give only the image. If `path` continues below a regular file of the host, the hint is the
/// address `IMAGE:/path`. If `path` is a pattern, the hint says that no file matches it. The
/// address of an NBD export gets no hint.
pub(super) fn at_address(failure: Failure, path: &Path) -> Failure {
    if xfs_image::is_address(path) {
        return failure;
    }
    let bytes = path.as_os_str().as_bytes();
    let image = path_separator(bytes).and_then(|at| bytes.get(..at));
    match image {
        Some(image) if !path.exists() => failure
            .hint(format!("this command takes an image without a path: {}", names::in_message(image))),
        _ => match within_a_file(path) {
            Some(address) => {
                let shown = names::in_message(&address).into_owned();
                failure.hint(format!("a path in an image is written IMAGE:/path: {shown}"))
            }
            None if is_pattern(bytes) && !path.exists() && !failure.has_hint() => failure.hint(
                "no file of the host matches; a shell expands an unquoted pattern only if a file matches",
            ),
            None => failure,
        },
    }
}

/// Converts an error of opening the image `path` to a failure, for a command that also accepts a
/// copy of the superblock. If the image holds neither a superblock nor a copy, the hint is to name
/// the start of the volume, or to use `salvage`.
pub(super) fn without_superblock(error: &OpenError, path: &Path) -> Failure {
    let failure = at_address(open_failure(path, error), path);
    let is_lost = matches!(
        error,
        OpenError::Volume(ferroxfs::Error::Corrupt(_))
            | OpenError::Find(FindError::NotXfs(Contents::Zeros | Contents::Unknown))
    );
    if !is_lost {
        return failure;
    }
    failure.hint(
        "no copy of the superblock was found either; name the start of the volume with --offset \
         BYTES, or try to rescue files with ferroxfs salvage",
    )
}

/// Returns the address `IMAGE:/path` if `path` is a path of the host that continues below a regular
/// file; `None` for any other path.
fn within_a_file(path: &Path) -> Option<Vec<u8>> {
    let image = path.ancestors().skip(1).find(|image| image.is_file())?;
    let inside = path.strip_prefix(image).ok()?;
    Some([image.as_os_str().as_bytes(), b":/", inside.as_os_str().as_bytes()].concat())
}

/// Adds the hint to write `IMAGE:/path` as one word, if the user gave the image and the path in it
/// as two words.
pub(super) fn at_colon(failure: Failure, first: Option<&Address>, address: &Address) -> Failure {
    match first {
        Some(first) if address.path == b"/" && !address.image.exists() => {
            let image = first.image.as_os_str().as_bytes();
            let path = address.image.as_os_str().as_bytes();
            let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
            let path = [slash, path].concat();
            let (image, path) = (names::in_message(image), names::in_message(&path));
            failure.hint(format!("write a path in an image after its name: {image}:{path}"))
        }
        // A file of the host may have the same name as a file in the image.
        Some(first) if address.path == b"/" && address.image.is_absolute() => {
            let image = first.image.as_os_str().as_bytes();
            let path = address.image.as_os_str().as_bytes();
            let (image, path) = (names::in_message(image), names::in_message(path));
            failure.hint(format!("write a path in an image after its name: {image}:{path}"))
        }
        _ => failure,
    }
}

/// Adds a hint that ferroxfs does not expand patterns in images, if the missing path looks like
/// one.
pub(super) fn at_missing(failure: Failure, image: &Path, path: &[u8]) -> Failure {
    if !is_pattern(path) || failure.has_hint() {
        return failure;
    }
    let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let (folder, name) = path.split_at_checked(slash).unwrap_or((path, b""));
    let is_plain = |part: &[u8]| !is_pattern(part);
    let folder = if is_plain(folder) { folder } else { b"" };
    let name = name.strip_prefix(b"/").unwrap_or(name);
    let folder: &[u8] = if folder.is_empty() { b"/" } else { folder };
    let start = [image.as_os_str().as_bytes(), b":", folder].concat();
    let start = names::in_message(&start);
    let name = names::in_message(name);
    failure.hint(format!(
        "patterns are not expanded in an image: ferroxfs find {start} -name {name} lists matching files"
    ))
}

fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| PATTERN.contains(byte))
}

/// Adds to a failure for lack of space the number of needed bytes, the number of free bytes, and a
/// hint to make space.
pub(super) fn at_room(failure: Failure, volume: &ferroxfs::Volume, needed: Option<u64>) -> Failure {
    let free = volume
        .space()
        .ok()
        .map(|space| human(space.available_blocks.saturating_mul(u64::from(space.block_size))));
    let text = match (needed.map(human), free) {
        (Some(needed), Some(free)) => format!(" ({needed} needed, {free} free)"),
        (Some(needed), None) => format!(" ({needed} needed)"),
        (None, Some(free)) => format!(" ({free} free)"),
        (None, None) => String::new(),
    };
    let failure = failure.more(&text);
    match failure.has_hint() {
        true => failure,
        false => {
            failure.hint("remove files, or enlarge the volume: ferroxfs growfs --size BYTES IMAGE")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Path, within_a_file};

    #[test]
    fn path_below_a_file_is_a_path_in_an_image() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let below = file.path().join("etc/passwd");
        let expected = format!("{}:/etc/passwd", file.path().display());
        assert_eq!(within_a_file(&below).unwrap(), expected.as_bytes());
        assert_eq!(within_a_file(file.path()), None);
        assert_eq!(within_a_file(Path::new("none/etc")), None);
    }
}
