//! What a mount tells of itself: attributes of its root that are in no namespace of XFS, are never listed and
//! cannot be set, so that nobody copies them.
//!
//! Owns: their names and values. Does **not** own: who reads them, to find the process that serves and to
//! know what may be lost if that ends.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Server;

/// The figures of the mount.
pub const FIGURES_ATTRIBUTE: &str = "ferroxfs.stats";
/// The number of the serving process, in its own PID namespace.
pub const PROCESS_ATTRIBUTE: &str = "ferroxfs.pid";
/// That namespace: its inode number, as of `/proc/self/ns/pid`. Empty where the server does not know it.
pub const NAMESPACE_ATTRIBUTE: &str = "ferroxfs.pid_namespace";
/// The file that the volume lies in: the numbers of its device and its inode, with a colon between them.
/// Empty where the server does not know it.
pub const IMAGE_ATTRIBUTE: &str = "ferroxfs.image";
/// What the server can do with the volume: `ro`, `rw`, or `down` where it was shut down on demand.
pub const ACCESS_ATTRIBUTE: &str = "ferroxfs.access";

/// Which process serves which file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Identity {
    namespace: Option<u64>,
    image: Option<(u64, u64)>,
}

impl Identity {
    /// That of this process. Looked at before workers give up the right to.
    pub(super) fn of_this_process() -> Self {
        let namespace = std::fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino());
        Self { namespace, image: None }
    }

    pub(super) fn with_image(self, image: &Path) -> Self {
        let image = std::fs::metadata(image).ok().map(|found| (found.dev(), found.ino()));
        Self { image, ..self }
    }
}

impl Server {
    /// The value of one of these attributes, if it is one.
    pub(super) fn told(&self, name: &str) -> Option<Vec<u8>> {
        let Identity { namespace, image } = self.identity;
        let value = match name {
            FIGURES_ATTRIBUTE => self.figures(),
            PROCESS_ATTRIBUTE => std::process::id().to_string(),
            NAMESPACE_ATTRIBUTE => namespace.map_or_else(String::new, |number| number.to_string()),
            IMAGE_ATTRIBUTE => {
                image.map_or_else(String::new, |(device, inode)| format!("{device}:{inode}"))
            }
            ACCESS_ATTRIBUTE if self.settings.read_only => "ro".to_owned(),
            ACCESS_ATTRIBUTE if self.shut_down.value().is_some() => "down".to_owned(),
            ACCESS_ATTRIBUTE => "rw".to_owned(),
            _ => return None,
        };
        Some(value.into_bytes())
    }
}
