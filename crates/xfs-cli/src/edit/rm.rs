//! `rm`: removes files and directory trees.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::{Error, FileType, Node, PosixError};

use crate::cli::{GlobalOptions, RmArguments};
use crate::edit::walk::{TreeWalk, WalkEvent};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{ImagePath, ImagePaths, change_all};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::tally::{Tally, Work};

struct Rm {
    targets: ImagePaths,
    is_recursive: bool,
    takes_empty: bool,
    is_forced: bool,
}

/// Opens the images for writing, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &RmArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let targets = ImagePaths::open_for_writing(&arguments.addresses, options)?;
    if targets.has_root() {
        return Err(Failure::usage("rm: the root of a volume cannot be removed"));
    }
    let RmArguments { recursive: is_recursive, dir: takes_empty, force: is_forced, .. } =
        *arguments;
    Ok(Box::new(Rm { targets, is_recursive, takes_empty, is_forced }))
}

impl Run for Rm {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, is_recursive, takes_empty, is_forced } = *self;
        change_all(targets, console, |targets, console| {
            let tally = console.begin(Work::change("removing", "removed"));
            for target in targets {
                let removed = match remove(target, is_recursive, takes_empty, is_forced) {
                    Ok(Removed::Begun(tree)) => tree.remove(&tally, console),
                    Ok(Removed::Done) => {
                        tally.add_file();
                        Ok(())
                    }
                    Ok(Removed::Absent) => Ok(()),
                    Err(failure) => Err(failure),
                };
                if let Err(failure) = removed {
                    console.report(&failure);
                }
            }
            Ok(())
        })?;
        Ok(console.conclude()?)
    }
}

/// The result of a first attempt to remove a name.
enum Removed<'a> {
    Done,
    /// The name did not exist, and `-f` was given, so this is no failure.
    Absent,
    /// The name is a directory, which is still to be removed with everything below it.
    Begun(TreeRemoval<'a>),
}

/// Removes a file, or begins to remove a directory with everything below it (`is_recursive`).
/// Without `is_recursive`, a directory is removed only if it is empty and `takes_empty` is set.
fn remove(
    target: &ImagePath,
    is_recursive: bool,
    takes_empty: bool,
    is_forced: bool,
) -> Result<Removed<'_>, Failure> {
    let volume = target.volume.inner();
    let file_type = match volume.lookup_no_follow(&target.path) {
        Ok(node) => node.file_type(),
        Err(Error::Posix(PosixError::NotFound)) if is_forced => return Ok(Removed::Absent),
        Err(error) => return Err(target.failure(error)),
    };
    let (above, name) = target.place()?;
    match (file_type, is_recursive) {
        (FileType::Directory, true) => {
            // With a slash at the end, a symbolic link means a directory of another name, which
            // stays.
            match above.lookup(&name).map_err(|error| target.failure(error))? {
                node if node.file_type() == FileType::Directory => {
                    Ok(Removed::Begun(TreeRemoval { target, above, name, node }))
                }
                _ => Err(target.failure(PosixError::NotDirectory)),
            }
        }
        (FileType::Directory, false) if takes_empty => {
            above.remove_dir(name).map(|()| Removed::Done).map_err(|error| target.failure(error))
        }
        (FileType::Directory, false) => {
            let failure = Failure::new(Exit::Failed, PosixError::IsDirectory.to_string());
            Err(target.failure(failure).hint("remove directories with -r"))
        }
        _ => above.remove_file(name).map(|()| Removed::Done).map_err(|error| target.failure(error)),
    }
}

/// A directory that is to be removed with everything in it.
struct TreeRemoval<'a> {
    target: &'a ImagePath,
    above: Node,
    name: OsString,
    node: Node,
}

impl TreeRemoval<'_> {
    /// Removes everything that can be removed. Reports each file that cannot be removed. The
    /// directories above such a file also stay, without a report of their own. An error about the
    /// whole volume ends the removal.
    fn remove(self, tally: &Tally, console: &mut Console) -> Result<(), Failure> {
        let Self { target, above, name, node } = self;
        let path = target.path.as_os_str().as_bytes();
        let mut walk = TreeWalk::new(target.volume.inner(), node, path);
        // The number of enclosing directories that hold a file that stays.
        let mut kept = 0;
        while let Some(event) = walk.next() {
            let depth = walk.depth();
            let removed = match event {
                Ok(WalkEvent::File(node)) if node.file_type() == FileType::Directory => Ok(()),
                Ok(WalkEvent::File(_)) => match walk.directory() {
                    Some(directory) => directory.remove_file(walk.name()),
                    None => above.remove_file(&name),
                }
                .inspect(|()| tally.add_file()),
                Ok(WalkEvent::End) if kept > depth => {
                    kept = depth;
                    Ok(())
                }
                Ok(WalkEvent::End) => match walk.directory() {
                    Some(directory) => directory.remove_dir(walk.name()),
                    None => above.remove_dir(&name),
                }
                .inspect(|()| tally.add_directory()),
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                kept = kept.max(depth);
                let failure = target.volume.failure(walk.path(), error);
                if failure.is_of_volume() {
                    return Err(failure);
                }
                console.report(&failure);
            }
        }
        Ok(())
    }
}
