//! `put`: standard input into a file.

use std::io::{self, Read};

use ferroxfs::{Creation, Error, File, FileType, NewKind, PosixError};

use super::Run;
use super::chmod::{changed_mode, parse_mode};
use crate::cli::{GlobalOptions, PutArguments};
use crate::console::Console;
use crate::deposit::write_all;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{Target, Targets, change_each};
use crate::mode::umask;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;

struct Put {
    targets: Targets,
    mode: u16,
}

/// Opens the image.
pub(super) fn open(
    arguments: &PutArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let mode = parse_mode("put", &arguments.mode)?;
    let mode = changed_mode(&mode, umask(), (0o666, FileType::Regular));
    let words = std::slice::from_ref(&arguments.address);
    Ok(Box::new(Put { targets: Targets::open_for_writing(words, options)?, mode }))
}

impl Run for Put {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, mode } = *self;
        change_each(targets, console, |target| {
            if let Some(file) = present(target)? {
                return fill(file, target);
            }
            let (directory, name) = target.place()?;
            let creation = Creation { mode, uid: 0, gid: 0, umask: 0 };
            let made = directory.create(&name, &NewKind::Regular, &creation);
            let file = made.and_then(|node| node.open()).map_err(|error| target.failure(error))?;
            // No file rather than half of one.
            fill(file, target).inspect_err(|_| _ = directory.remove_file(&name))
        })
    }
}

/// The file that is there, empty now.
fn present(target: &Target) -> Result<Option<File>, Failure> {
    match target.volume.inner().lookup(&target.path) {
        Ok(node) => node.open().and_then(|file| file.set_len(0).map(|()| Some(file))),
        Err(Error::Posix(PosixError::NotFound)) => Ok(None),
        Err(error) => Err(error),
    }
    .map_err(|error| target.failure(error))
}

fn fill(file: File, target: &Target) -> Result<(), Failure> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let read = match io::stdin().read(&mut buffer) {
            Ok(0) => return file.close().map_err(|error| target.failure(error)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(Failure::new(Exit::Failed, format!("standard input: {error}")));
            }
        };
        write_all(&file, offset, buffer.get(..read).unwrap_or_default())
            .map_err(|error| target.failure(error))?;
        offset += read as u64;
    }
}
