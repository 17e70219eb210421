//! `cp` into an image, from the host or from an image.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferroxfs::{FileType, Node, PosixError};

use crate::cli::{CpArguments, GlobalOptions};
use crate::exit::Exit;
use crate::export::cp::{is_in_image, only_files};
use crate::export::host::Existing;
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::node::NodeSource;
use crate::file::source::{InodeSpace, Source};
use crate::image::address::Address;
use crate::image::address::last_component;
use crate::image::{ImagePath, ImagePaths, change_all};
use crate::import::census::Census;
use crate::import::host::{HostSource, Numbers};
use crate::import::policy::Policy;
use crate::import::writer::{ImageWriter, WriteFailure, WriterOptions};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::{Measure, Work};
use crate::text::time::source_date_epoch;

/// A source of the copies that `cp` makes.
enum CopySource {
    Host(HostSource),
    /// Paths in an image that is only read.
    Image(ImagePaths, InodeSpace),
    /// A path in the image that is written to, by its index in `CpInto::targets`.
    Same(usize),
}

impl CopySource {
    fn host_path(&self) -> Option<PathBuf> {
        match self {
            Self::Host(source) => Some(source.path().to_owned()),
            Self::Image(..) | Self::Same(_) => None,
        }
    }
}

/// Adds to a failure for lack of space how much space the files of the host need.
fn with_need(failure: Failure, on_host: &[PathBuf], target: &ImagePath) -> Failure {
    let mut census = Census::new(target.volume.inner().superblock(), false);
    for path in on_host {
        let Ok(source) = HostSource::open(path, false) else { return failure };
        let name = path.as_os_str().as_bytes();
        census.add_file(name, &source);
        if source.facts().kind() == FileKind::Directory {
            census.add_tree(name, &source, &Policy::default());
        }
    }
    census.explain(failure)
}

/// The inode space of the host. An inode number identifies a file only within its inode space.
const HOST: InodeSpace = InodeSpace(0);
/// The inode space of the image that is written to. The spaces of images that are read have larger
/// numbers.
const SAME: InodeSpace = InodeSpace(1);

struct CpInto {
    pieces: Vec<CopySource>,
    /// Paths in the image that is written to: first those sources that are in this image, and last
    /// the destination.
    targets: ImagePaths,
    is_recursive: bool,
    writer_options: WriterOptions,
}

/// Opens the sources and the image that is written to. Returns the command, ready to run.
pub(crate) fn open(
    sources: &[OsString],
    destination: &OsStr,
    arguments: &CpArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = Address::parse(destination, None)?.image;
    let is_recursive = arguments.archive || arguments.recursive;
    let (mut pieces, mut places) = (Vec::new(), Vec::new());
    let (numbers, mut read) = (Numbers::default(), Vec::new());
    for word in sources {
        if !is_in_image(word) {
            let images = std::iter::once(image.as_path()).chain(options.other_devices());
            let source = HostSource::open_numbered(Path::new(word), !is_recursive, &numbers)?;
            pieces.push(CopySource::Host(source.without(images)));
            continue;
        }
        let from = Address::parse(word, None)?.image;
        if from == image {
            pieces.push(CopySource::Same(places.len()));
            places.push(word.clone());
            continue;
        }
        let number = read.iter().position(|other| *other == from).unwrap_or(read.len());
        read.push(from);
        let targets = ImagePaths::open(std::slice::from_ref(word), options)?;
        pieces.push(CopySource::Image(targets, InodeSpace(SAME.0 + 1 + number)));
    }
    places.push(destination.to_owned());
    let writer_options = WriterOptions {
        is_archive: arguments.keeps_facts(),
        is_all_root: false,
        existing: if arguments.no_clobber { Existing::Keep } else { Existing::Replace },
        latest: source_date_epoch()?,
    };
    let targets = ImagePaths::open_for_writing(&places, options)?;
    Ok(Box::new(CpInto { pieces, targets, is_recursive, writer_options }))
}

impl Run for CpInto {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { pieces, targets, is_recursive, writer_options } = *self;
        change_all(targets, console, |targets, console| {
            let Some((destination, inside)) = targets.split_last() else { return Ok(()) };
            let place = CopyDestination::find(destination, pieces.len(), is_recursive)?;
            let work = Work::copy("copying", "copied", Measure::Unknown);
            let tally = console.begin(if is_recursive { work } else { work.silent_if_fast() });
            let console = RefCell::new(console);
            let whole = |failure: Failure| destination.volume.whole_failure(failure);
            let mut report = |failure| console.borrow_mut().report(&whole(failure));
            // One writer for all sources, because they may have names of the same file.
            let mut writer = ImageWriter::new(writer_options, &mut report).counted_by(&tally);
            writer.name_directory(&place.directory_path());
            // The files of images are not measured, so a sum without them would be too small.
            let on_host: Option<Vec<_>> = pieces.iter().map(CopySource::host_path).collect();
            let mut copied = Ok(());
            for piece in pieces {
                let put = match piece {
                    CopySource::Host(source) => place.put_host(source, is_recursive, &mut writer),
                    CopySource::Image(targets, origin) => {
                        let read = targets.read(&mut console.borrow_mut());
                        let put = |from| place.put_node(from, origin, is_recursive, &mut writer);
                        read.first().map_or(Ok(()), put)
                    }
                    CopySource::Same(number) => inside.get(number).map_or(Ok(()), |from| {
                        place.check_other(from).map_err(WriteFailure::One)?;
                        place.put_node(from, SAME, is_recursive, &mut writer)
                    }),
                };
                match put {
                    Ok(()) => {}
                    Err(WriteFailure::One(failure) | WriteFailure::Source(failure)) => {
                        console.borrow_mut().report(&failure)
                    }
                    Err(WriteFailure::All(failure)) => {
                        copied = Err(failure);
                        break;
                    }
                }
            }
            let on_host = on_host.filter(|paths| is_recursive || paths.len() > 1);
            let copied = copied.map_err(|failure| match &on_host {
                Some(paths) if failure.is_of_room() => with_need(failure, paths, destination),
                _ => failure,
            });
            copied.and(writer.seal().map_err(whole))
        })?;
        Ok(console.conclude()?)
    }
}

/// The destination of the copies in the image: a directory, and the new name if there is only one
/// copy.
struct CopyDestination<'a> {
    target: &'a ImagePath,
    directory: Node,
    /// The new name of the only copy; `None` if each copy keeps the name of its source.
    name: Option<OsString>,
}

impl<'a> CopyDestination<'a> {
    fn find(target: &'a ImagePath, count: usize, is_recursive: bool) -> Result<Self, Failure> {
        match target.volume.inner().lookup(&target.path) {
            Ok(node) if node.file_type() == FileType::Directory => {
                Ok(Self { target, directory: node, name: None })
            }
            Ok(_) | Err(ferroxfs::Error::Posix(PosixError::NotFound)) if count == 1 => {
                let place = if is_recursive { target.place_of_directory() } else { target.place() };
                let (directory, name) = place?;
                Ok(Self { target, directory, name: Some(name) })
            }
            Ok(_) => Err(target.failure(PosixError::NotDirectory)),
            Err(error) => Err(target.failure(error)),
        }
    }

    /// Returns the path of the directory that the copies go into.
    fn directory_path(&self) -> Vec<u8> {
        let path = match &self.name {
            Some(_) => self.target.path.parent().unwrap_or(Path::new("/")),
            None => &self.target.path,
        };
        path.as_os_str().as_bytes().to_vec()
    }

    /// Checks that the file `from` of the same image can be copied to this destination. Fails if
    /// `from` is the file at the destination, or if the destination is inside `from`.
    fn check_other(&self, from: &ImagePath) -> Result<(), Failure> {
        // A missing source is reported when it is copied.
        let Ok(node) = from.node(false) else { return Ok(()) };
        let name = match &self.name {
            Some(name) => name.as_bytes(),
            None => last_component(from.path.as_os_str().as_bytes()),
        };
        let there = self.directory.lookup(OsStr::from_bytes(name));
        if there.is_ok_and(|there| there.number() == node.number()) {
            return Err(from.failure(Failure::new(Exit::Failed, "is the destination itself")));
        }
        // Walk up to the root. In a corrupt image with a loop, stop at the first repeated
        // directory.
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

    fn put_host(
        &self,
        source: HostSource,
        is_recursive: bool,
        writer: &mut ImageWriter<'_>,
    ) -> Result<(), WriteFailure> {
        if source.is_left_out() {
            return Err(WriteFailure::One(self.target.volume.whole_failure(source.leaving_out())));
        }
        writer.start_source(HOST, None);
        let path = source.path().as_os_str().as_bytes().to_vec();
        self.put(&path, source, is_recursive, writer)
    }

    fn put_node(
        &self,
        from: &ImagePath,
        origin: InodeSpace,
        is_recursive: bool,
        writer: &mut ImageWriter<'_>,
    ) -> Result<(), WriteFailure> {
        writer.start_source(origin, Some(from.location()));
        let source = from
            .node(!is_recursive)
            .and_then(|node| NodeSource::new(node).map_err(|failure| from.failure(failure)));
        let source = source.map_err(WriteFailure::One)?;
        self.put(from.path.as_os_str().as_bytes(), source, is_recursive, writer)
    }

    fn put<S: Source>(
        &self,
        path: &[u8],
        source: S,
        is_recursive: bool,
        writer: &mut ImageWriter<'_>,
    ) -> Result<(), WriteFailure> {
        let kind = source.facts().kind();
        if kind != FileKind::Regular && !is_recursive {
            return Err(WriteFailure::One(only_files(kind).about(&names::in_message(path))));
        }
        let put = match (&self.name, last_component(path)) {
            (Some(name), _) => writer.put(&self.directory, name.as_bytes(), source),
            (None, b"/" | b"." | b"..") if kind == FileKind::Directory => {
                writer.put_contents(self.directory.clone(), source)
            }
            (None, b"") => {
                let message = "the last part of its path is not a name";
                Err(Failure::new(Exit::Failed, message).about(&names::in_message(path)))
            }
            (None, name) => writer.put(&self.directory, name, source),
        };
        put.map_err(|failure| WriteFailure::All(self.target.volume.whole_failure(failure)))
    }
}
