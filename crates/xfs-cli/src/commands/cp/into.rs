//! Copying into an image: from the host, or from an image.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ferroxfs::{FileType, Node, PosixError};

use super::{is_in_image, only_files};
use crate::address::Address;
use crate::cli::{CpArguments, GlobalOptions};
use crate::commands::Run;
use crate::console::Console;
use crate::deposit::{Deposit, Manner};
use crate::exit::Exit;
use crate::extract::Existing;
use crate::facts::FileKind;
use crate::failure::Failure;
use crate::host::HostSource;
use crate::image::{Target, Targets, change_all};
use crate::names;
use crate::node::NodeSource;
use crate::predicate::last_component;
use crate::sandbox::Reach;
use crate::source::Source;
use crate::time::source_date_epoch;

/// Something to copy.
enum Piece {
    Host(HostSource),
    /// In an image that is read.
    Image(Targets),
    /// In the image that is written to: the place of this number.
    Same(usize),
}

struct CpInto {
    pieces: Vec<Piece>,
    /// What is copied inside the image that is written to, and last the destination.
    targets: Targets,
    is_recursive: bool,
    manner: Manner,
}

/// Opens what is copied, and the image that it goes to.
pub(super) fn open(
    sources: &[OsString],
    destination: &OsStr,
    arguments: &CpArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = Address::parse(destination, None)?.image;
    let is_recursive = arguments.archive || arguments.recursive;
    let (mut pieces, mut places) = (Vec::new(), Vec::new());
    for word in sources {
        pieces.push(if !is_in_image(word) {
            let images = std::iter::once(image.as_path()).chain(options.log_device.as_deref());
            Piece::Host(HostSource::open(Path::new(word), !is_recursive)?.without(images))
        } else if Address::parse(word, None)?.image == image {
            places.push(word.clone());
            Piece::Same(places.len() - 1)
        } else {
            Piece::Image(Targets::open(std::slice::from_ref(word), options)?)
        });
    }
    places.push(destination.to_owned());
    let manner = Manner {
        is_archive: arguments.keeps_facts(),
        is_all_root: false,
        existing: if arguments.no_clobber { Existing::Keep } else { Existing::Replace },
        latest: source_date_epoch()?,
    };
    let targets = Targets::open_for_writing(&places, options)?;
    Ok(Box::new(CpInto { pieces, targets, is_recursive, manner }))
}

impl Run for CpInto {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { pieces, targets, is_recursive, manner } = *self;
        change_all(targets, console, |targets, console| {
            let Some((destination, inside)) = targets.split_last() else { return Ok(()) };
            let place = Place::find(destination, pieces.len())?;
            for piece in pieces {
                let copied = match piece {
                    Piece::Host(source) if source.is_left_out() => {
                        console.report(&destination.volume.whole_failure(source.leaving_out()));
                        Ok(())
                    }
                    Piece::Host(source) => {
                        let path = source.path().as_os_str().as_bytes().to_vec();
                        place.put((&path, source), is_recursive, manner, console)
                    }
                    Piece::Image(targets) => {
                        let read = targets.read(console);
                        read.first().map_or(Ok(()), |from| {
                            put_node(&place, from, is_recursive, manner, console)
                        })
                    }
                    Piece::Same(number) => {
                        inside.get(number).map_or(Ok(()), |from| match place.check_other(from) {
                            Ok(()) => put_node(&place, from, is_recursive, manner, console),
                            Err(failure) => {
                                console.report(&failure);
                                Ok(())
                            }
                        })
                    }
                };
                copied?;
            }
            Ok(())
        })
    }
}

fn put_node(
    place: &Place<'_>,
    from: &Target,
    is_recursive: bool,
    manner: Manner,
    console: &mut Console,
) -> Result<(), Failure> {
    let source = from
        .node(!is_recursive)
        .and_then(|node| NodeSource::new(node).map_err(|failure| from.failure(failure)));
    match source {
        Ok(source) => {
            place.put((from.path.as_os_str().as_bytes(), source), is_recursive, manner, console)
        }
        Err(failure) => {
            console.report(&failure);
            Ok(())
        }
    }
}

/// Where copies go.
struct Place<'a> {
    target: &'a Target,
    directory: Node,
    /// The one name that a single copy gets; without it each keeps its own.
    name: Option<OsString>,
}

impl<'a> Place<'a> {
    fn find(target: &'a Target, count: usize) -> Result<Self, Failure> {
        match target.volume.inner().lookup(&target.path) {
            Ok(node) if node.file_type() == FileType::Directory => {
                Ok(Self { target, directory: node, name: None })
            }
            Ok(_) | Err(ferroxfs::Error::Posix(PosixError::NotFound)) if count == 1 => {
                let (directory, name) = target.place()?;
                Ok(Self { target, directory, name: Some(name) })
            }
            Ok(_) => Err(target.failure(PosixError::NotDirectory)),
            Err(error) => Err(target.failure(error)),
        }
    }

    /// Whether something in the same image can be copied here: it is not there already, and this place is
    /// not in it.
    fn check_other(&self, from: &Target) -> Result<(), Failure> {
        // What is not there is said where it is copied.
        let Ok(node) = from.node(false) else { return Ok(()) };
        let name = match &self.name {
            Some(name) => name.as_bytes(),
            None => last_component(from.path.as_os_str().as_bytes()),
        };
        let there = self.directory.lookup(OsStr::from_bytes(name));
        if there.is_ok_and(|there| there.number() == node.number()) {
            return Err(from.failure(Failure::new(Exit::Failed, "is what it is copied to")));
        }
        // Up to the root, and in an image that leads round in circles no further than once.
        let (mut above, mut seen) = (self.directory.clone(), HashSet::new());
        while node.file_type() == FileType::Directory && seen.insert(above.number()) {
            if above.number() == node.number() {
                let message = "a directory cannot be copied into itself";
                return Err(from.failure(Failure::new(Exit::Failed, message)));
            }
            above = above.parent().map_err(|error| self.target.failure(error))?;
        }
        Ok(())
    }

    fn put<S: Source>(
        &self,
        (path, source): (&[u8], S),
        is_recursive: bool,
        manner: Manner,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let kind = source.facts().kind();
        if kind != FileKind::Regular && !is_recursive {
            console.report(&only_files(kind).about(&names::in_message(path)));
            return Ok(());
        }
        let volume = &self.target.volume;
        let mut report = |failure: Failure| console.report(&volume.whole_failure(failure));
        let mut deposit = Deposit::new(manner, &mut report);
        let put = match (&self.name, last_component(path)) {
            (Some(name), _) => deposit.put(&self.directory, name.as_bytes(), source),
            (None, b"/" | b"." | b"..") if kind == FileKind::Directory => {
                deposit.put_contents(self.directory.clone(), source)
            }
            (None, b"") => {
                let message = "the last part of its path is no name";
                Err(Failure::new(Exit::Failed, message).about(&names::in_message(path)))
            }
            (None, name) => deposit.put(&self.directory, name, source),
        };
        put.map_err(|failure| volume.whole_failure(failure))
    }
}
