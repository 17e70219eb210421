//! `put`: standard input into a file.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use ferroxfs::format::inode::ExtendedFlags;
use ferroxfs::{
    AllocateMode, Changes, Creation, Error, File, FileType, Metadata, NewKind, Node, PosixError,
    RangeMode,
};

use super::Run;
use super::chmod::{changed_mode, parse_mode};
use crate::cli::{GlobalOptions, PutArguments};
use crate::console::Console;
use crate::deposit::{Deposit, Failed, Manner, write_all};
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
            match target.volume.inner().lookup(&target.path) {
                Ok(node) => return replace(&node, target),
                Err(Error::Posix(PosixError::NotFound)) => {}
                Err(error) => return Err(target.failure(error)),
            }
            let (directory, name) = target.place_to_make()?;
            let creation = Creation { mode, uid: 0, gid: 0, umask: 0 };
            let made = directory.create(&name, &NewKind::Regular, &creation);
            let file = made.and_then(|node| node.open()).map_err(|error| target.failure(error))?;
            let filled = fill(&file, target)
                .and_then(|_| file.close().map_err(|error| target.failure(error)));
            // No file rather than half of one.
            filled.inspect_err(|_| _ = directory.remove_file(&name))
        })
    }
}

/// Gives a file other contents when they are complete: where the input fails, or the volume is full, it keeps those that
/// it has. It stays the same file where the volume can exchange contents, and where it has several names.
fn replace(node: &Node, target: &Target) -> Result<(), Failure> {
    let failed = |error| target.failure(error);
    let file = node.open().map_err(failed)?;
    let root = target.volume.inner().root().map_err(failed)?;
    let (directory, name) = target.place_to_make()?;
    let creation = Creation { mode: 0o600, uid: 0, gid: 0, umask: 0 };
    // A directory that takes no more files may have some that can be written to.
    let draft = directory.create_unnamed(&creation).or_else(|_| root.create_unnamed(&creation));
    let draft = draft.map_err(failed)?;
    // Once there are extents it is too late.
    draft.change(&hints(&node.metadata(), &draft.metadata())).map_err(failed)?;
    let contents = draft.open().map_err(failed)?;
    let length = fill(&contents, target)?;
    let exchanged = match length {
        0 => file.set_len(0),
        _ => file.exchange_range(0, &contents, 0, 0),
    };
    let cannot_exchange = matches!(exchanged, Err(Error::Posix(PosixError::NotSupported)));
    let fixed = ExtendedFlags::IMMUTABLE | ExtendedFlags::APPEND;
    let is_renamed_over = node.metadata().nlink == 1
        && !directory.metadata().xflags.intersects(fixed)
        && !node.metadata().xflags.intersects(fixed);
    let replaced = match (cannot_exchange, is_renamed_over) {
        (true, true) => {
            contents.close().map_err(failed)?;
            return succeed((&directory, &name), (&draft, node), target);
        }
        (true, false) => overwrite(&file, &contents, length),
        (false, _) => exchanged,
    };
    replaced.and_then(|()| file.close()).map_err(failed)
}

/// Changes hints for the size of extents to those that a file has.
fn hints(wanted: &Metadata, present: &Metadata) -> Changes {
    let change =
        |hint: fn(&Metadata) -> u64| (hint(wanted) != hint(present)).then_some(hint(wanted));
    Changes {
        extent_size_hint_bytes: change(|metadata| metadata.extent_size_hint_bytes),
        cow_extent_size_hint_bytes: change(|metadata| metadata.cow_extent_size_hint_bytes),
        ..Changes::default()
    }
}

/// Puts a complete file in the place of another one.
fn succeed(
    (directory, name): (&Node, &OsStr),
    (draft, node): (&Node, &Node),
    target: &Target,
) -> Result<(), Failure> {
    let path = target.path.as_os_str().as_bytes();
    let mut reported = Ok(());
    let mut report = |failure| reported = Err(target.volume.whole_failure(failure));
    let mut deposit = Deposit::new(Manner::faithful(false, None), &mut report);
    match deposit.succeed((directory, name, path), draft, node.clone()) {
        Ok(()) => reported,
        Err(Failed::One(failure) | Failed::Source(failure) | Failed::All(failure)) => {
            Err(target.failure(failure))
        }
    }
}

/// Copies contents where a volume cannot exchange them. All the room that they need is there before anything is lost.
fn overwrite(file: &File, draft: &File, length: u64) -> ferroxfs::Result<()> {
    let before = file.metadata().size;
    file.change_range(0..length, RangeMode::Unshare(AllocateMode::KeepSize))
        // What it got past its end.
        .inspect_err(|_| _ = file.set_len(before))?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < length {
        let read = draft.read_at(offset, &mut buffer)?;
        if read == 0 {
            break;
        }
        write_all(file, offset, buffer.get(..read).unwrap_or_default())?;
        offset += read as u64;
    }
    file.set_len(length)
}

/// Writes standard input into an empty file, and says how much that was.
fn fill(file: &File, target: &Target) -> Result<u64, Failure> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let read = match io::stdin().read(&mut buffer) {
            Ok(0) => return Ok(offset),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(Failure::new(Exit::Failed, format!("standard input: {error}")));
            }
        };
        write_all(file, offset, buffer.get(..read).unwrap_or_default())
            .map_err(|error| target.failure(error))?;
        offset += read as u64;
    }
}
