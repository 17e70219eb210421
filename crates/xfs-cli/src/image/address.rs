//! Addresses: `IMAGE:/path` names an image and a path inside it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::names;

/// An image and a path inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The image or device.
    pub(crate) image: PathBuf,
    /// The path inside the image, from its root `/`.
    pub(crate) path: Vec<u8>,
}

impl Address {
    /// Parses an address of the command line.
    ///
    /// If `image` (the option `--image`) is given, the whole of `word` is the path. Without it,
    /// `word` is split at the first `:/`, which can follow an address such as `nbd://HOST/EXPORT`;
    /// if there is none, `word` is the image, and the path is `/`.
    pub(crate) fn parse(word: &OsStr, image: Option<&Path>) -> Result<Self, Failure> {
        if let Some(image) = image {
            return Ok(Self { image: image.to_owned(), path: absolute(word.as_bytes()) });
        }
        let bytes = word.as_bytes();
        let Some(at) = path_separator(bytes) else {
            check_no_path(word)?;
            return Ok(Self { image: PathBuf::from(word), path: b"/".to_vec() });
        };
        if Path::new(word).exists() {
            let name = names::in_message(bytes);
            return Err(Failure::usage(format!("{name}: is this a file, or a path in an image?"))
                .hint("a file of this whole name exists: use --image IMAGE PATH"));
        }
        let (image, path) = bytes.split_at(at);
        let path = path.get(1..).unwrap_or_default().to_vec();
        Ok(Self { image: PathBuf::from(OsString::from_vec(image.to_vec())), path })
    }

    /// Parses the addresses of a command. If no address is given, the only one is the root of
    /// `--image`.
    pub(crate) fn parse_all(
        words: &[OsString],
        image: Option<&Path>,
    ) -> Result<Vec<Self>, Failure> {
        match (words, image) {
            ([], Some(image)) => Ok(vec![Self { image: image.to_owned(), path: b"/".to_vec() }]),
            ([], None) => Err(Failure::usage("the image and the path are missing")
                .hint("an address is written IMAGE:/path, or --image IMAGE PATH")),
            _ => words.iter().map(|word| Self::parse(word, image)).collect(),
        }
    }
}

/// Returns the index of the first `:/` that does not belong to a scheme, as in `nbd://HOST`; `None`
/// if there is none.
pub(crate) fn path_separator(word: &[u8]) -> Option<usize> {
    let start = match xfs_image::is_address(Path::new(OsStr::from_bytes(word))) {
        true => word.windows(3).position(|part| part == b"://")? + 3,
        false => 0,
    };
    let rest = word.get(start..)?;
    rest.windows(2).position(|pair| pair == b":/").map(|at| start + at)
}

/// Fails if a word without `:/` names no image but has the form `IMAGE:path`.
fn check_no_path(word: &OsStr) -> Result<(), Failure> {
    let bytes = word.as_bytes();
    let is_file = |part: &[u8]| Path::new(OsStr::from_bytes(part)).is_file();
    let Some(at) = bytes.iter().position(|byte| *byte == b':') else { return Ok(()) };
    let (image, path) = bytes.split_at(at);
    if Path::new(word).exists() || !is_file(image) {
        return Ok(());
    }
    let path = path.get(1..).unwrap_or_default();
    let whole = [image, b":/", path].concat();
    let (name, shown) = (names::in_message(bytes), names::in_message(&whole));
    Err(Failure::new(Exit::Failed, format!("{name}: there is no such image"))
        .hint(format!("a path in an image starts with a slash: {shown}")))
}

/// Returns the path with a slash in front, so that it starts at the root of the image.
fn absolute(path: &[u8]) -> Vec<u8> {
    match path.first() {
        Some(b'/') => path.to_vec(),
        _ => [b"/", path].concat(),
    }
}

/// Returns the last component of a path; `/` for the root.
pub(crate) fn last_component(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let trimmed = path.get(..end).unwrap_or_default();
    match trimmed.iter().rposition(|&byte| byte == b'/') {
        _ if trimmed.is_empty() => path.get(..1).unwrap_or_default(),
        None => trimmed,
        Some(slash) => trimmed.get(slash + 1..).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
