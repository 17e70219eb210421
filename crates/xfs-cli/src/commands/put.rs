//! `put`: standard input into a file.
//!
//! The input is read to its end before the image is opened: the command that makes it may read that image.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::format::inode::ExtendedFlags;
use ferroxfs::{
    AllocateMode, Changes, Creation, Error, File, FileType, Metadata, NewKind, Node, PosixError,
    RangeMode,
};

use super::Run;
use super::chmod::{changed_mode, parse_mode};
use crate::address::Address;
use crate::cli::{GlobalOptions, PutArguments};
use crate::console::Console;
use crate::deposit::{Deposit, Failed, Manner, write_all};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{Target, Targets, change_each};
use crate::input::{self, Spool};
use crate::interrupt;
use crate::mode::umask;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;

struct Put {
    contents: Spool,
    targets: Targets,
    mode: u16,
    takes_nothing: bool,
}

/// Reads the input, and opens the image.
pub(super) fn open(
    arguments: &PutArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let mode = parse_mode("put", &arguments.mode)?;
    let mode = changed_mode(&mode, umask(), (0o666, FileType::Regular));
    let image = Address::parse(&arguments.address, options.image.as_deref())?.image;
    let words = std::slice::from_ref(&arguments.address);
    if !image.exists() {
        // Nothing is waited for in vain.
        Targets::open_for_writing(words, options)?;
    }
    let contents = input::standard_input()?;
    let targets = Targets::open_for_writing(words, options)?;
    Ok(Box::new(Put { contents, targets, mode, takes_nothing: arguments.allow_empty }))
}

impl Run for Put {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { contents, targets, mode, takes_nothing } = *self;
        change_each(targets, console, |target| match target.volume.inner().lookup(&target.path) {
            Ok(node) => {
                if !takes_nothing {
                    check_not_emptied(&node, &contents, target)?;
                }
                replace(&node, &contents, target)
            }
            Err(Error::Posix(PosixError::NotFound)) => make(&contents, mode, target),
            Err(error) => Err(target.failure(error)),
        })
    }
}

/// Refuses to put nothing in the place of something: most often a command in front of the pipe has failed.
fn check_not_emptied(node: &Node, contents: &Spool, target: &Target) -> Result<(), Failure> {
    let size = node.metadata().size;
    if contents.length() > 0 || size == 0 || node.file_type() != FileType::Regular {
        return Ok(());
    }
    let message = format!("standard input is empty, and the file keeps its {size} bytes");
    Err(target.failure(Failure::new(Exit::Failed, message)).hint("--allow-empty empties it"))
}

/// Makes a file. One that cannot be completed is removed.
pub(super) fn make(contents: &Spool, mode: u16, target: &Target) -> Result<(), Failure> {
    let failed = |error| target.failure(error);
    let (directory, name) = target.place_to_make()?;
    let creation = Creation { mode, uid: 0, gid: 0, umask: 0 };
    let node = directory.create(&name, &NewKind::Regular, &creation).map_err(failed)?;
    let filled = node.open().map_err(Failure::from).and_then(|file| {
        fill(&file, contents)?;
        file.close().map_err(Failure::from)
    });
    filled.map_err(|failure| {
        // No file rather than half of one. The message counts its space as free.
        drop(node);
        _ = directory.remove_file(&name);
        target.failure(failure)
    })
}

/// Gives a file other contents when they are complete: where the volume is full, it keeps those that it has. It stays the
/// same file where the volume can exchange contents, and where it has several names.
pub(super) fn replace(node: &Node, input: &Spool, target: &Target) -> Result<(), Failure> {
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
    let length = match fill(&contents, input) {
        Ok(length) => length,
        Err(failure) => {
            // The message counts the space of the draft as free. Dropping the draft frees it too late.
            _ = contents.set_len(0);
            drop((contents, draft));
            return Err(target.failure(failure));
        }
    };
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

/// Writes the input into an empty file, and returns its length.
fn fill(file: &File, input: &Spool) -> Result<u64, Failure> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        interrupt::check()?;
        let read = input.read_at(offset, &mut buffer).map_err(|error| {
            Failure::new(Exit::Failed, format!("standard input: {error}")).placed()
        })?;
        if read == 0 {
            return Ok(offset);
        }
        write_all(file, offset, buffer.get(..read).unwrap_or_default())
            .map_err(|error| Failure::from(error).needing(Some(input.length())))?;
        offset += read as u64;
    }
}
