//! The kernel's XFS on an image. Mounting the image again makes the kernel's caches cold.

use std::io;
use std::path::{Path, PathBuf};

use xfs_oracle::{Mount, OracleError};
use xfs_workload::{
    Cold, Counted, Digest, KernelDirectory, Performed, Work, WorkStep, WorkTarget, WorkloadError,
};

/// The root of a mounted volume, as a target of the workload.
pub(crate) struct Mounted {
    image: PathBuf,
    directory: KernelDirectory,
    mount: Option<Mount>,
}

impl Mounted {
    pub(crate) fn new(image: &Path) -> Result<Self, WorkloadError> {
        let mount = mount(image)?;
        let directory = KernelDirectory::open(mount.path())?;
        Ok(Self { image: image.to_owned(), directory, mount: Some(mount) })
    }

    fn unmount(&mut self) -> Result<(), WorkloadError> {
        self.mount.take().map_or(Ok(()), Mount::unmount).map_err(failed)
    }
}

fn mount(image: &Path) -> Result<Mount, WorkloadError> {
    Mount::new(image, None, &[]).map_err(failed)
}

fn failed(error: OracleError) -> WorkloadError {
    WorkloadError::System { what: "a mount of the kernel", source: io::Error::other(error) }
}

impl WorkTarget for Mounted {
    fn prepare(&mut self, work: &Work) -> Result<(), WorkloadError> {
        self.directory.prepare(work)
    }

    fn cool(&mut self) -> Result<Cold, WorkloadError> {
        self.unmount()?;
        let mount = mount(&self.image)?;
        self.directory.relocate(mount.path());
        self.mount = Some(mount);
        Ok(Cold::Yes)
    }

    fn perform(&mut self, step: WorkStep, work: &Work) -> Result<Performed, WorkloadError> {
        self.directory.perform(step, work)
    }

    fn counted(&self) -> Result<Counted, WorkloadError> {
        self.directory.counted()
    }

    fn digest(&mut self, work: &Work) -> Result<Digest, WorkloadError> {
        self.directory.digest(work)
    }

    /// Unmounts the volume. Its files are not removed, because the whole image is deleted later.
    fn close(&mut self) -> Result<(), WorkloadError> {
        self.unmount()
    }
}
