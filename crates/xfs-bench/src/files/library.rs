//! Ours.

use std::path::Path;
use std::thread;

use ferroxfs::{Changes, Creation, NewKind, Node, OpenOptions, ParentPath, Volume};

use super::{Contender, Counted, Step, Work, folder};
use crate::error::BenchError;

const CREATION: Creation = Creation { mode: 0o644, uid: 0, gid: 0, umask: 0 };

#[derive(Default)]
pub(crate) struct Library {
    volume: Option<Volume>,
    parents: ParentPath,
}

impl Library {
    /// One that keeps parent pointers this way.
    pub(crate) fn with_parents(parents: ParentPath) -> Self {
        Self { volume: None, parents }
    }

    fn volume(&self) -> &Volume {
        self.volume.as_ref().expect("the volume is open")
    }
}

impl Contender for Library {
    fn open(&mut self, image: &Path) -> Result<(), BenchError> {
        let options = OpenOptions::new().parent_path(self.parents);
        self.volume = Some(options.open_writable(image).map_err(BenchError::Open)?);
        Ok(())
    }

    fn prepare(&mut self, threads: usize) -> Result<(), BenchError> {
        for thread in 0..threads {
            self.volume().create_dir(Path::new("/").join(folder(thread)))?;
        }
        Ok(())
    }

    fn perform(&mut self, step: Step, work: &Work) -> Result<(), BenchError> {
        let volume = self.volume();
        let run = |thread: usize| -> ferroxfs::Result<()> {
            let directory = volume.lookup(Path::new("/").join(folder(thread)))?;
            perform(step, &directory, work)
        };
        let outcomes: Vec<_> = thread::scope(|scope| {
            let handles: Vec<_> =
                (0..work.threads).map(|thread| scope.spawn(move || run(thread))).collect();
            handles.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        for outcome in outcomes {
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        // What lost its name was freed before its removal returned.
        volume.sync()?;
        Ok(())
    }

    fn counted(&self) -> Result<Counted, BenchError> {
        let log = self.volume().statistics()?.log;
        Ok(Counted {
            transactions: log.commits,
            log_bytes: log.written_bytes,
            volume_writes: crate::volume_writes(),
        })
    }

    fn close(&mut self) -> Result<(), BenchError> {
        self.volume.take().map_or(Ok(()), Volume::close).map_err(BenchError::Volume)
    }
}

fn perform(step: Step, directory: &Node, work: &Work) -> ferroxfs::Result<()> {
    if step == Step::Walk {
        let mut count = 0;
        for entry in directory.entries()? {
            count += u64::from(entry?.node()?.metadata().nlink);
        }
        assert_eq!(count, work.files, "files of a directory");
        return Ok(());
    }
    for number in 0..work.files {
        let name = work.name(number);
        match step {
            Step::Create => drop(directory.create(&name, &NewKind::Regular, &CREATION)?),
            Step::Link => {
                directory.link(&directory.lookup(name.as_ref())?, work.second_name(number))?;
            }
            Step::Change => {
                let changes = Changes { mode: Some(0o600), ..Changes::default() };
                directory.lookup(name.as_ref())?.change(&changes)?;
            }
            Step::Remove => {
                directory.remove_file(&name)?;
                if work.linked {
                    directory.remove_file(work.second_name(number))?;
                }
            }
            Step::Walk => {}
        }
    }
    Ok(())
}
