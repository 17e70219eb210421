//! Extended attributes of the root directory, with which a mount describes itself. They are in no
//! namespace of XFS, are never listed and cannot be set, so that no program copies them.
//!
//! Owns: the names and values of these attributes. Does **not** own: the programs that read them,
//! which look for the serving process and for unsaved data before they end that process.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Server;

/// Name of the attribute with the statistics of the mount.
pub const FIGURES_ATTRIBUTE: &str = "ferroxfs.stats";
/// Name of the attribute with the ID of the serving process, in its own PID namespace.
pub const PROCESS_ATTRIBUTE: &str = "ferroxfs.pid";
/// Name of the attribute with the inode number of the serving process's PID namespace, as
/// `/proc/self/ns/pid` shows it. The value is empty if the number is unknown.
pub const NAMESPACE_ATTRIBUTE: &str = "ferroxfs.pid_namespace";
/// Name of the attribute with the file that contains the volume: its device number and its inode
/// number, separated by a colon. The value is empty if the file is unknown.
pub const IMAGE_ATTRIBUTE: &str = "ferroxfs.image";
/// Name of the attribute with the server's access to the volume: `ro`, `rw`, or `down` after a
/// requested shutdown.
pub const ACCESS_ATTRIBUTE: &str = "ferroxfs.access";

/// The process that serves the mount, and the file that contains the volume.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShownOwner {
    namespace: Option<u64>,
    image: Option<(u64, u64)>,
}

impl ShownOwner {
    /// Returns the identity of this process. Must be called before workers enter their sandbox.
    pub(crate) fn of_this_process() -> Self {
        let namespace = std::fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino());
        Self { namespace, image: None }
    }

    pub(crate) fn with_image(self, image: &Path) -> Self {
        let image = std::fs::metadata(image).ok().map(|found| (found.dev(), found.ino()));
        Self { image, ..self }
    }

    /// Returns the value of the attribute `name`, if it is one of those that identify the serving
    /// process, its namespace or the image. Returns `None` for any other attribute.
    pub(crate) fn attribute(self, name: &str) -> Option<Vec<u8>> {
        let Self { namespace, image } = self;
        let value = match name {
            PROCESS_ATTRIBUTE => std::process::id().to_string(),
            NAMESPACE_ATTRIBUTE => namespace.map_or_else(String::new, |number| number.to_string()),
            IMAGE_ATTRIBUTE => {
                image.map_or_else(String::new, |(device, inode)| format!("{device}:{inode}"))
            }
            _ => return None,
        };
        Some(value.into_bytes())
    }
}

impl Server {
    /// Returns the value of the attribute `name`, with which the mount describes itself. Returns
    /// `None` for any other attribute.
    pub(super) fn own_attribute(&self, name: &str) -> Option<Vec<u8>> {
        let value = match name {
            FIGURES_ATTRIBUTE => self.figures(),
            ACCESS_ATTRIBUTE if self.settings.read_only => "ro".to_owned(),
            ACCESS_ATTRIBUTE if self.shut_down.value().is_some() => "down".to_owned(),
            ACCESS_ATTRIBUTE => "rw".to_owned(),
            name => return self.identity.attribute(name),
        };
        Some(value.into_bytes())
    }
}
