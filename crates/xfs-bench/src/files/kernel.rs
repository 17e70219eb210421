//! The kernel's XFS, through system calls.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread;

use rustix::fs::{statvfs, syncfs};
use xfs_oracle::Mount;

use super::{Contender, Counted, Step, Work, folder};
use crate::error::BenchError;

#[derive(Default)]
pub(crate) struct Kernel {
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

    fn perform(&mut self, step: Step, work: &Work) -> Result<(), BenchError> {
        let root = self.root();
        let run = |thread: usize| {
            let directory = root.join(folder(thread));
            perform(step, &directory, work).map_err(BenchError::file(&directory))
        };
        let outcomes: Vec<_> = thread::scope(|scope| {
            let run = &run;
            let handles: Vec<_> =
                (0..work.threads).map(|thread| scope.spawn(move || run(thread))).collect();
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

    /// Of this volume, from what the kernel counts of each.
    fn counted(&self) -> Result<Counted, BenchError> {
        let mounts = Path::new("/proc/self/mountinfo");
        let text = fs::read_to_string(mounts).map_err(BenchError::file(mounts))?;
        let root = self.root().to_string_lossy();
        let line = text.lines().find(|line| line.split(' ').nth(4) == Some(&*root));
        let device = line.and_then(|line| line.rsplit(' ').nth(1)).unwrap_or_default();
        let device = device.rsplit('/').next().unwrap_or_default();
        let path = Path::new("/sys/fs/xfs").join(device).join("stats/stats");
        let text = fs::read_to_string(&path).map_err(BenchError::file(&path))?;
        let number = |kind: &str, index: usize| {
            let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
            line.split(' ').nth(1 + index)?.parse::<u64>().ok()
        };
        let sum = |kind, fields: &[usize]| fields.iter().filter_map(|at| number(kind, *at)).sum();
        Ok(Counted {
            // Synchronous and asynchronous ones.
            transactions: sum("trans", &[0, 1]),
            log_bytes: number("log", 1).unwrap_or_default() * 512,
            volume_writes: None,
        })
    }

    fn close(&mut self) -> Result<(), BenchError> {
        match self.mount.take() {
            Some(mount) => Ok(mount.unmount()?),
            None => Ok(()),
        }
    }
}

fn perform(step: Step, directory: &Path, work: &Work) -> std::io::Result<()> {
    if step == Step::Walk {
        let mut count = 0;
        for entry in fs::read_dir(directory)? {
            count += entry?.metadata()?.nlink();
        }
        assert_eq!(count, work.files, "files of a directory");
        return Ok(());
    }
    for number in 0..work.files {
        let path = directory.join(work.name(number));
        match step {
            Step::Create => drop(File::create(&path)?),
            Step::Link => fs::hard_link(&path, directory.join(work.second_name(number)))?,
            Step::Change => fs::set_permissions(&path, Permissions::from_mode(0o600))?,
            Step::Remove => {
                fs::remove_file(&path)?;
                if work.linked {
                    fs::remove_file(directory.join(work.second_name(number)))?;
                }
            }
            Step::Walk => {}
        }
    }
    Ok(())
}
