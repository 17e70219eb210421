//! Ours.

use std::path::Path;
use std::thread;

use ferroxfs::{Changes, Creation, NewKind, Node, Volume};

use super::{Contender, Step, folder, name};
use crate::error::BenchError;

const CREATION: Creation = Creation { mode: 0o644, uid: 0, gid: 0, umask: 0 };

#[derive(Default)]
pub(super) struct Library(Option<Volume>);

impl Library {
    fn volume(&self) -> &Volume {
        self.0.as_ref().expect("the volume is open")
    }
}

impl Contender for Library {
    fn open(&mut self, image: &Path) -> Result<(), BenchError> {
        self.0 = Some(Volume::open_writable(image).map_err(BenchError::Open)?);
        Ok(())
    }

    fn prepare(&mut self, threads: usize) -> Result<(), BenchError> {
        for thread in 0..threads {
            self.volume().create_dir(Path::new("/").join(folder(thread)))?;
        }
        Ok(())
    }

    fn perform(&mut self, step: Step, threads: usize, files: u64) -> Result<(), BenchError> {
        let volume = self.volume();
        let run = |thread: usize| -> ferroxfs::Result<()> {
            let directory = volume.lookup(Path::new("/").join(folder(thread)))?;
            perform(step, &directory, files)
        };
        let outcomes: Vec<_> = thread::scope(|scope| {
            let handles: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            handles.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        for outcome in outcomes {
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        // What lost its name was freed before its removal returned.
        volume.sync()?;
        Ok(())
    }

    fn close(&mut self) -> Result<(), BenchError> {
        self.0.take().map_or(Ok(()), Volume::close).map_err(BenchError::Volume)
    }
}

fn perform(step: Step, directory: &Node, files: u64) -> ferroxfs::Result<()> {
    if step == Step::Walk {
        let mut count = 0;
        for entry in directory.entries()? {
            count += u64::from(entry?.node()?.metadata().nlink);
        }
        assert_eq!(count, files, "files of a directory");
        return Ok(());
    }
    for number in 0..files {
        let name = name(number);
        match step {
            Step::Create => drop(directory.create(&name, &NewKind::Regular, &CREATION)?),
            Step::Change => {
                let changes = Changes { mode: Some(0o600), ..Changes::default() };
                directory.lookup(name.as_ref())?.change(&changes)?;
            }
            Step::Remove => directory.remove_file(&name)?,
            Step::Walk => {}
        }
    }
    Ok(())
}
