//! The names of container images on the command line: `oci:DIRECTORY`, `oci-archive:FILE` and
//! `docker-archive:FILE`, each with an optional `:REFERENCE`, as in `skopeo copy`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The form in which a container image is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerForm {
    /// A directory with the layout of the OCI.
    OciDirectory,
    /// An archive of such a directory.
    OciArchive,
    /// An archive that `docker save` has written, or a directory with its contents.
    DockerArchive,
}

/// The name of a container image on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerAddress {
    pub(crate) form: ContainerForm,
    pub(crate) path: PathBuf,
    /// The tag, name or digest of one of several images.
    pub(crate) reference: Option<String>,
}

const FORMS: [(&[u8], ContainerForm); 3] = [
    (b"oci:", ContainerForm::OciDirectory),
    (b"oci-archive:", ContainerForm::OciArchive),
    (b"docker-archive:", ContainerForm::DockerArchive),
];

impl ContainerForm {
    /// Returns whether the image is stored in a file.
    pub(super) fn is_archive(self) -> bool {
        self != Self::OciDirectory
    }
}

impl ContainerAddress {
    /// Parses the name of a source. `None` if the name is not that of a container image.
    pub(crate) fn parse(source: &Path) -> Option<Self> {
        let bytes = source.as_os_str().as_bytes();
        let (rest, form) =
            FORMS.iter().find_map(|(start, form)| Some((bytes.strip_prefix(*start)?, *form)))?;
        let whole = || Self { form, path: path(rest), reference: None };
        if path(rest).exists() {
            return Some(whole());
        }
        // The path ends at the first colon after which a file of this name exists.
        let colons = rest.iter().enumerate().filter(|(_, byte)| **byte == b':');
        let split = colons.into_iter().find_map(|(at, _)| {
            let (file, reference) = (rest.get(..at)?, rest.get(at + 1..)?);
            let is_path = file == b"-" || path(file).exists();
            let reference = std::str::from_utf8(reference).ok().filter(|text| !text.is_empty())?;
            is_path.then(|| (path(file), reference.to_owned()))
        });
        Some(match split {
            Some((path, reference)) => Self { form, path, reference: Some(reference) },
            None => whole(),
        })
    }

    /// Returns the prefix of a source that is the name of a container image, such as `oci:`. Empty
    /// for another source.
    pub(crate) fn prefix(source: &str) -> &'static str {
        let found = FORMS.iter().find(|(start, _)| source.as_bytes().starts_with(start));
        found.and_then(|(start, _)| std::str::from_utf8(start).ok()).unwrap_or_default()
    }

    /// Returns whether the image is an archive on standard input.
    pub(crate) fn is_standard_input(&self) -> bool {
        self.path == Path::new("-") && self.form.is_archive()
    }

    /// Returns the path for messages.
    pub(super) fn shown(&self) -> &[u8] {
        match self.is_standard_input() {
            true => b"standard input",
            false => self.path.as_os_str().as_bytes(),
        }
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
