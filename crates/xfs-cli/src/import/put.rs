//! `put`: writes standard input into a file.
//!
//! The input is read to its end before the image is opened, because the program that writes the
//! input may read the same image.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{
    CreateOptions, Error, File, FileType, Metadata, NewKind, Node, PosixError, SetAttributes,
};

use crate::cli::{GlobalOptions, PutArguments};
use crate::edit::chmod::{changed_mode, parse_mode};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::address::Address;
use crate::image::{ImagePath, ImagePaths, change_each};
use crate::import::writer::{ImageWriter, ReplacedName, WriteFailure, WriterOptions, write_all};
use crate::input::{self, Spool};
use crate::interrupt;
use crate::run::Run;
use crate::terminal::console::Console;
use crate::text::mode::umask;

/// The size of one read, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

struct Put {
    contents: Spool,
    targets: ImagePaths,
    mode: u16,
    takes_nothing: bool,
}

/// Reads standard input to its end, then opens the image for writing and returns the command, ready
/// to run.
pub(crate) fn open(
    arguments: &PutArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let mode = parse_mode("put", &arguments.mode)?;
    let mode = changed_mode(&mode, umask(), 0o666, FileType::Regular);
    let image = Address::parse(&arguments.address, options.image.as_deref())?.image;
    let words = std::slice::from_ref(&arguments.address);
    if !image.exists() {
        // Fail before waiting for input.
        ImagePaths::open_for_writing(words, options)?;
    }
    let contents = input::standard_input()?;
    let targets = ImagePaths::open_for_writing(words, options)?;
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

/// Refuses to replace contents with empty input: most often the command that writes the pipe has
/// failed.
fn check_not_emptied(node: &Node, contents: &Spool, target: &ImagePath) -> Result<(), Failure> {
    let size = node.metadata().size;
    if contents.length() > 0 || size == 0 || node.file_type() != FileType::Regular {
        return Ok(());
    }
    let message = format!("standard input is empty, and the file keeps its {size} bytes");
    Err(target
        .failure(Failure::new(Exit::Failed, message))
        .hint("use --allow-empty to empty the file"))
}

/// Creates the file `target` with these contents and this mode. A file that cannot be completed is
/// removed.
pub(crate) fn make(contents: &Spool, mode: u16, target: &ImagePath) -> Result<(), Failure> {
    let failed = |error| target.failure(error);
    let (directory, name) = target.place_to_make()?;
    let creation = CreateOptions::new(mode);
    let node = directory.create(&name, &NewKind::Regular, &creation).map_err(failed)?;
    let filled = node.open().map_err(Failure::from).and_then(|file| {
        fill(&file, contents)?;
        file.close().map_err(Failure::from)
    });
    filled.map_err(|failure| {
        // No file is better than half a file. The message counts its space as free.
        drop(node);
        _ = directory.remove_file(&name);
        target.failure(failure)
    })
}

/// Replaces the contents of a file in one step, after all new contents are written. On a full
/// volume the file keeps its old contents. The file keeps its inode if the volume can exchange
/// contents, or if the file has several names.
pub(crate) fn replace(node: &Node, input: &Spool, target: &ImagePath) -> Result<(), Failure> {
    let failed = |error| target.failure(error);
    let file = node.open().map_err(failed)?;
    let root = target.volume.inner().root().map_err(failed)?;
    let (directory, name) = target.place_to_make()?;
    let creation = CreateOptions::new(0o600);
    // A directory that takes no more files may still contain writable ones.
    let staged = directory.create_unnamed(&creation).or_else(|_| root.create_unnamed(&creation));
    let staged = staged.map_err(failed)?;
    // Hints cannot be set once there are extents.
    staged.set_attributes(&hints(&node.metadata(), &staged.metadata())).map_err(failed)?;
    let contents = staged.open().map_err(failed)?;
    let length = match fill(&contents, input) {
        Ok(length) => length,
        Err(failure) => {
            // The message counts the space of the staged file as free. Dropping it would free the
            // space too late.
            _ = contents.set_len(0);
            drop((contents, staged));
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
            return succeed(&directory, &name, &staged, node, target);
        }
        (true, false) => overwrite(&file, &contents, length),
        (false, _) => exchanged,
    };
    replaced.and_then(|()| file.close()).map_err(failed)
}

/// Returns the changes with which a file gets the extent size hints in `wanted`. `present` is the
/// metadata that the file has now.
fn hints(wanted: &Metadata, present: &Metadata) -> SetAttributes {
    let change =
        |hint: fn(&Metadata) -> u64| (hint(wanted) != hint(present)).then_some(hint(wanted));
    let mut changes = SetAttributes::new();
    changes.extent_size_hint_bytes = change(|metadata| metadata.extent_size_hint_bytes);
    changes.cow_extent_size_hint_bytes = change(|metadata| metadata.cow_extent_size_hint_bytes);
    changes
}

/// Replaces the file `node` by the complete unnamed file `staged`, which gets the name of `node`.
fn succeed(
    directory: &Node,
    name: &OsStr,
    staged: &Node,
    node: &Node,
    target: &ImagePath,
) -> Result<(), Failure> {
    let path = target.path.as_os_str().as_bytes();
    let mut reported = Ok(());
    let mut report = |failure| reported = Err(target.volume.whole_failure(failure));
    let mut writer = ImageWriter::new(WriterOptions::faithful(false, None), &mut report);
    match writer.succeed(ReplacedName { directory, name, path }, staged, node.clone()) {
        Ok(()) => reported,
        Err(
            WriteFailure::One(failure) | WriteFailure::Source(failure) | WriteFailure::All(failure),
        ) => Err(target.failure(failure)),
    }
}

/// Copies the first `length` bytes of `staged` over the contents of `file`, for a volume that
/// cannot exchange contents. All space is reserved before any old contents are lost.
fn overwrite(file: &File, staged: &File, length: u64) -> ferroxfs::Result<()> {
    let before = file.metadata().size;
    file.change_range(0..length, RangeMode::Unshare(AllocateMode::KeepSize))
        // Frees the space that was reserved past the end.
        .inspect_err(|_| _ = file.set_len(before))?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < length {
        let read = staged.read_at(&mut buffer, offset)?;
        if read == 0 {
            break;
        }
        write_all(file, offset, buffer.get(..read).unwrap_or_default())?;
        offset += read as u64;
    }
    file.set_len(length)
}

/// Writes the input into an empty file, and returns its length in bytes.
fn fill(file: &File, input: &Spool) -> Result<u64, Failure> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        interrupt::check()?;
        let read = input.read_at(&mut buffer, offset).map_err(|error| {
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
