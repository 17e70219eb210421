//! The kernel's XFS, through system calls.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread;

use rustix::fs::{statvfs, syncfs};
use xfs_oracle::Mount;

use super::{Contender, Step, folder, name};
use crate::error::BenchError;

#[derive(Default)]
pub(super) struct Kernel {
    mount: Option<Mount>,
    /// Inodes in use before any file was made.
    used: u64,
}

impl Kernel {
    fn root(&self) -> &Path {
        self.mount.as_ref().expect("the volume is mounted").path()
    }

    fn used_inodes(&self) -> Result<u64, BenchError> {
        let root = self.root();
        let found = statvfs(root).map_err(|error| BenchError::file(root)(error.into()))?;
        Ok(found.f_files - found.f_ffree)
    }

    fn sync(&self) -> Result<(), BenchError> {
        let root = self.root();
        let directory = File::open(root).map_err(BenchError::file(root))?;
        syncfs(directory).map_err(|error| BenchError::file(root)(error.into()))
    }
}

impl Contender for Kernel {
    fn open(&mut self, image: &Path) -> Result<(), BenchError> {
        self.mount = Some(Mount::new(image, None, &[])?);
        Ok(())
    }

    fn prepare(&mut self, threads: usize) -> Result<(), BenchError> {
        for thread in 0..threads {
            let path = self.root().join(folder(thread));
            fs::create_dir(&path).map_err(BenchError::file(&path))?;
        }
        self.used = self.used_inodes()?;
        Ok(())
    }

    fn perform(&mut self, step: Step, threads: usize, files: u64) -> Result<(), BenchError> {
        let root = self.root();
        let run = |thread: usize| {
            let directory = root.join(folder(thread));
            perform(step, &directory, files).map_err(BenchError::file(&directory))
        };
        let outcomes: Vec<_> = thread::scope(|scope| {
            let run = &run;
            let handles: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            handles.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        for outcome in outcomes {
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        // Inodes are freed in the background.
        while step == Step::Remove && self.used_inodes()? > self.used {
            thread::yield_now();
        }
        self.sync()
    }

    fn close(&mut self) -> Result<(), BenchError> {
        match self.mount.take() {
            Some(mount) => Ok(mount.unmount()?),
            None => Ok(()),
        }
    }
}

fn perform(step: Step, directory: &Path, files: u64) -> std::io::Result<()> {
    if step == Step::Walk {
        let mut count = 0;
        for entry in fs::read_dir(directory)? {
            count += entry?.metadata()?.nlink();
        }
        assert_eq!(count, files, "files of a directory");
        return Ok(());
    }
    for number in 0..files {
        let path = directory.join(name(number));
        match step {
            Step::Create => drop(File::create(&path)?),
            Step::Change => fs::set_permissions(&path, Permissions::from_mode(0o600))?,
            Step::Remove => fs::remove_file(&path)?,
            Step::Walk => {}
        }
    }
    Ok(())
}
