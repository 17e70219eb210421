//! `ln`: adds names to files, and creates symbolic links.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ferroxfs::{CreateOptions, Error, FileType, NewKind, Node, PosixError};

use crate::cli::{GlobalOptions, LnArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::address::last_component;
use crate::image::{ImagePath, ImagePaths, change_all};
use crate::import::writer::{ImageWriter, WriteFailure, WriterOptions};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::tally::Work;

struct Ln {
    targets: ImagePaths,
    /// The text of the symbolic link; `None` for a hard link.
    says: Option<OsString>,
    is_forced: bool,
}

/// Opens the image for writing, and returns the command, ready to run.
pub(crate) fn open(
    arguments: LnArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let LnArguments { target, address, symbolic, force: is_forced } = arguments;
    let (words, says) = match symbolic {
        true => (vec![address], Some(target)),
        false => (vec![target, address], None),
    };
    let targets = ImagePaths::open_for_writing(&words, options)?;
    if targets.image_count() > 1 {
        return Err(Failure::usage("ln: all names of a file must be in one image"));
    }
    Ok(Box::new(Ln { targets, says, is_forced }))
}

impl Run for Ln {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, says, is_forced } = *self;
        console.begin(Work::change("linking", "linked")).add_file();
        change_all(targets, console, |targets, _| match (targets, &says) {
            ([new], Some(says)) => {
                let place = NewPlace::of(new, says)?;
                let creation = CreateOptions::new(0o777);
                let kind = NewKind::Symlink(says.as_bytes());
                let made = place.directory.create(&place.name, &kind, &creation).map(drop);
                place.replace(new, made, is_forced, |_| {
                    ImageWriter::put_symlink(&place.directory, &place.name, says.as_bytes())
                })
            }
            ([file, new], None) => {
                let node = file.node(false)?;
                if node.file_type() == FileType::Directory {
                    let failure =
                        Failure::new(Exit::Failed, "is a directory, which can have only one name");
                    return Err(file.failure(failure.hint("-s makes a symbolic link to it")));
                }
                let place = NewPlace::of(new, file.path.as_os_str())?;
                let linked = place.directory.link(&node, &place.name);
                place.replace(new, linked, is_forced, |writer| {
                    writer.put_link(&place.directory, place.name.as_bytes(), &node)
                })
            }
            _ => Ok(()),
        })?;
        Ok(console.conclude()?)
    }
}

/// The directory and name of the new link.
struct NewPlace {
    directory: Node,
    name: OsString,
    path: PathBuf,
}

impl NewPlace {
    /// Returns the directory and name of the new link. If `new` is a directory, the link is made in
    /// that directory, under the name of `file`.
    fn of(new: &ImagePath, file: &OsStr) -> Result<Self, Failure> {
        match new.node(true) {
            Ok(directory) if directory.file_type() == FileType::Directory => {
                let name = OsStr::from_bytes(last_component(file.as_bytes()));
                if name == "/" {
                    let failure = Failure::new(
                        Exit::Failed,
                        "is a directory, and \"/\" is not a name for the new link",
                    );
                    return Err(new.failure(failure.hint("add the new name to the directory")));
                }
                Ok(Self { directory, name: name.to_owned(), path: new.path.join(name) })
            }
            _ => {
                let (directory, name) = new.place()?;
                Ok(Self { directory, name, path: new.path.clone() })
            }
        }
    }

    /// Handles `made`, the result of creating the link. If the name of the link is taken and
    /// `is_forced` is set, calls `put`, which replaces the file of this name, and returns the
    /// result of `put`. Otherwise returns `made`.
    fn replace(
        &self,
        new: &ImagePath,
        made: Result<(), Error>,
        is_forced: bool,
        put: impl FnOnce(&mut ImageWriter<'_>) -> Result<(), WriteFailure>,
    ) -> Result<(), Failure> {
        match made {
            Err(Error::Posix(PosixError::Exists)) if is_forced => {
                let present = self.directory.lookup(&self.name);
                let present = present.map_err(|error| self.failure(new, error))?;
                if present.file_type() == FileType::Directory {
                    return Err(self.failure(new, PosixError::IsDirectory.into()));
                }
                let mut report = |_| {};
                let put =
                    put(&mut ImageWriter::new(WriterOptions::faithful(false, None), &mut report));
                put.map_err(|failed| {
                    let (WriteFailure::One(failure)
                    | WriteFailure::Source(failure)
                    | WriteFailure::All(failure)) = failed;
                    new.volume.failure(self.path.as_os_str().as_bytes(), failure)
                })
            }
            made => made.map_err(|error| self.failure(new, error)),
        }
    }

    fn failure(&self, new: &ImagePath, error: Error) -> Failure {
        new.volume.failure(self.path.as_os_str().as_bytes(), error)
    }
}
