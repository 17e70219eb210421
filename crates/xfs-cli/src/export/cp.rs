//! `cp`: copies files out of an image; [`import::cp`] copies them into one.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferroxfs::Node;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::cat;
use crate::cli::{CpArguments, GlobalOptions};
use crate::exit::Exit;
use crate::export::host::{Directory, Existing, Fidelity, HostWriter};
use crate::export::salvage::damaged::{self, DamagedCopies, DamagedDestination};
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::node::{self, NodeSource};
use crate::file::source::InodeSpace;
use crate::image::address::{Address, last_component, path_separator};
use crate::image::{ImagePath, ImagePaths};
use crate::import;
use crate::interrupt;
use crate::output::{Output, check_no_image, check_no_volume, file_at, place_in};
use crate::run::Run;
use crate::sandbox::{Reach, Rights};
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::{Measure, Work};

struct Cp {
    targets: ImagePaths,
    destination: Destination,
    /// Whether the destination ends in a slash or a dot, and so names a directory.
    is_directory: bool,
    is_recursive: bool,
    fidelity: Fidelity,
}

/// The destination of a run of `cp`, opened.
enum Destination {
    /// Standard output.
    Stdout,
    /// A pipe, a device, or a regular file that is written in place.
    Output(Output),
    /// A directory, in which the copies get the names of their sources.
    Into(Directory),
    /// One name in a directory. The contents of a copied directory go to a new directory of that
    /// name.
    Name(Directory, OsString),
}

/// Opens the images and the destination, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &CpArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let Some((destination, sources)) = arguments.words.split_last() else {
        return Err(Failure::usage("cp: the source or the destination is missing"));
    };
    if arguments.damaged {
        return open_damaged(sources, destination, arguments, options);
    }
    if options.image.is_none() && is_in_image(destination) {
        return import::cp::open(sources, destination, arguments, options);
    }
    let targets = ImagePaths::open(sources, options).map_err(|failure| match options.image {
        None => explain(failure, sources, destination),
        Some(_) => failure,
    })?;
    let is_recursive = arguments.archive || arguments.recursive;
    let existing = if arguments.no_clobber { Existing::Keep } else { Existing::Replace };
    let fidelity = Fidelity {
        is_archive: arguments.keeps_facts(),
        ignores_owner: arguments.ignore_owner,
        existing,
    };
    let copies_root = targets.has_root();
    let is_one = sources.len() == 1;
    let is_directory = ends_as_directory(destination);
    let keeps_file = !is_recursive && !arguments.keeps_facts();
    let destination = match output_at(destination, &targets, existing, keeps_file)? {
        Some(output) if is_one => Destination::Output(output),
        _ => {
            let is_made = is_recursive && copies_root;
            open_destination(destination, is_recursive, is_made, is_one)?
        }
    };
    raise_file_limit();
    interrupt::arm()?;
    Ok(Box::new(Cp { targets, destination, is_directory, is_recursive, fidelity }))
}

/// Opens a damaged image and the directory for the copies: the destination if it is a directory,
/// and otherwise the directory that is to contain the destination. Returns the command, ready to
/// run.
fn open_damaged(
    sources: &[OsString],
    destination: &OsStr,
    arguments: &CpArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let [source] = sources else {
        return Err(Failure::usage("cp: --damaged takes one source"));
    };
    if destination == "-" {
        return Err(Failure::usage("cp: --damaged does not copy to standard output"));
    }
    let address = Address::parse(source, options.image.as_deref())?;
    let fidelity = Fidelity {
        is_archive: arguments.keeps_facts(),
        ignores_owner: arguments.ignore_owner,
        existing: if arguments.no_clobber { Existing::Keep } else { Existing::Replace },
    };
    let path = Path::new(destination);
    check_no_image(path, [address.image.as_path()])?;
    check_no_volume(path)?;
    let name = match path.is_dir() || ends_as_directory(destination) {
        true => None,
        false => path.file_name().map(OsStr::to_owned),
    };
    let folder = match &name {
        Some(_) => path.parent().filter(|folder| !folder.as_os_str().is_empty()),
        None => Some(path),
    };
    let folder = folder.unwrap_or(Path::new("."));
    if name.is_none() {
        fs::create_dir_all(folder).map_err(|error| Failure::host(destination, &error))?;
    }
    raise_file_limit();
    let directory = Directory::open(folder)?;
    let is_recursive = arguments.archive || arguments.recursive;
    let copies = DamagedCopies { directory, name, is_recursive, fidelity };
    damaged::open(&address, DamagedDestination::Copies(copies), options)
}

/// Returns whether a path ends in a slash or a dot.
fn ends_as_directory(path: &OsStr) -> bool {
    path.as_bytes().ends_with(b"/") || path.as_bytes().ends_with(b"/.")
}

/// Explains a failure to open the sources. Adds a hint if the destination is an image without a
/// path. If there is one source, and neither the source nor the destination is a path in an image,
/// the new message says so.
fn explain(failure: Failure, sources: &[OsString], destination: &OsStr) -> Failure {
    let path = Path::new(destination);
    if check_no_volume(path).is_err() {
        return failure.hint(place_in(path));
    }
    let names_place = |word: &OsStr| path_separator(word.as_bytes()).is_some();
    let places = "a path in an image is written IMAGE:/path";
    match sources {
        [source] if names_place(source) || names_place(destination) => failure,
        // The hint for another image format says enough.
        [source] if failure.has_hint() && !is_unknown(source) => failure,
        [source] if !Path::new(source).exists() => failure.hint(places),
        [source] if failure.exit() == Exit::Refused => {
            let (from, to) = (source.as_bytes(), destination.as_bytes());
            let (from, to) = (names::in_message(from), names::in_message(to));
            Failure::usage(format!("cp: neither {from} nor {to} is in an image")).hint(places)
        }
        _ => failure,
    }
}

/// Returns whether a file of the host has contents of no known format, such as a text.
fn is_unknown(path: &OsStr) -> bool {
    let device =
        xfs_device::FileDevice::open(Path::new(path), xfs_device::FileOptions::read_only().live());
    device.is_ok_and(|device| {
        matches!(xfs_device::detect(&device, 0), Ok(xfs_device::Contents::Unknown))
    })
}

/// Returns whether an argument is a path in an image, and not a file of the host.
pub(crate) fn is_in_image(word: &OsStr) -> bool {
    path_separator(word.as_bytes()).is_some() && !Path::new(word).exists()
}

/// Opens a destination that is written in place: a pipe or a device, and with `keeps_file` also a
/// regular file. Returns `None` for any other destination. Fails if the destination is an image.
/// The hint is to write the destination as a path in that image.
fn output_at(
    destination: &OsStr,
    targets: &ImagePaths,
    existing: Existing,
    keeps_file: bool,
) -> Result<Option<Output>, Failure> {
    let path = Path::new(destination);
    check_no_image(path, targets.files()).map_err(|failure| failure.hint(place_in(path)))?;
    check_no_volume(path)?;
    let is_output = fs::metadata(path).is_ok_and(|found| {
        let is_kept = keeps_file || matches!(file_at(path), Ok(None));
        !found.is_dir() && (!found.is_file() || is_kept)
    });
    match existing {
        Existing::Replace if is_output => Output::open(path, targets.files()).map(Some),
        _ => Ok(None),
    }
}

fn open_destination(
    destination: &OsStr,
    is_recursive: bool,
    is_made: bool,
    is_one: bool,
) -> Result<Destination, Failure> {
    if destination == "-" {
        return Ok(Destination::Stdout);
    }
    let path = PathBuf::from(destination);
    if is_made {
        fs::create_dir_all(&path).map_err(|error| Failure::host(destination, &error))?;
    }
    if path.is_dir() {
        return Ok(Destination::Into(Directory::open(&path)?));
    }
    // A symbolic link stands for its target, as for every other output.
    let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
    let path = match is_link && !is_recursive {
        true => file_at(&path)
            .map_err(|error| Failure::host(destination, &error))?
            .ok_or_else(|| no_directory(destination))?,
        false => path,
    };
    let (Some(name), true) = (path.file_name(), is_one) else {
        return Err(no_directory(destination));
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if ends_as_directory(destination) && fs::symlink_metadata(parent.join(name)).is_ok() {
        return Err(no_directory(destination));
    }
    Ok(Destination::Name(Directory::open(parent)?, name.to_owned()))
}

fn no_directory(destination: &OsStr) -> Failure {
    let shown = names::in_message(destination.as_bytes());
    Failure::new(Exit::Failed, format!("{shown}: is not a directory"))
}

/// Raises the limit on open files, because each level of a tree keeps a directory open.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // If the limit cannot be raised, a deep tree ends in an error.
    _ = setrlimit(Resource::Nofile, raised);
}

impl Run for Cp {
    fn reach(&self) -> Reach<'_> {
        match &self.destination {
            Destination::Stdout => Reach::Nothing,
            Destination::Output(output) => output.reach(),
            Destination::Into(directory) | Destination::Name(directory, _) => {
                let rights =
                    if self.is_recursive { Rights::TreesAndDevices } else { Rights::Trees };
                Reach::Beneath(directory.as_fd(), rights)
            }
        }
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, destination, is_directory, is_recursive, fidelity } = *self;
        if console.is_json() && matches!(destination, Destination::Stdout) {
            return Err(Failure::usage(
                "cp: --json cannot be used with contents on standard output",
            ));
        }
        let targets = targets.read(console);
        let work = Work::copy("copying", "copied", measure(&targets, is_recursive));
        let work = if is_recursive { work } else { work.silent_if_fast() };
        let tally = match &destination {
            Destination::Stdout => console.begin_rows(work),
            _ => console.begin(work),
        };
        let destination = match destination {
            Destination::Output(output) => {
                let Some(target) = targets.first() else { return Ok(()) };
                output.write_contents(target, &tally)?;
                tally.add_file();
                return Ok(console.conclude()?);
            }
            other => other,
        };
        let root = match &destination {
            Destination::Stdout | Destination::Output(_) => {
                return targets.iter().try_for_each(|target| cat::copy_to(target, &tally, console));
            }
            Destination::Into(root) | Destination::Name(root, _) => root,
        };
        let console = RefCell::new(console);
        let say = |failure: &Failure| console.borrow_mut().report(failure);
        let mut report = |failure: Failure| say(&failure);
        let mut extraction = HostWriter::new(fidelity, root, &mut report, &tally);
        for target in &targets {
            let node = match target
                .node(!is_recursive)
                .and_then(|node| refuse_directory(target, &node, is_recursive).map(|()| node))
                .and_then(|node| check_name(&node, &destination, is_directory).map(|()| node))
            {
                Ok(node) => node,
                Err(failure) => {
                    say(&failure);
                    continue;
                }
            };
            extraction.start_source(origin(target, &targets), target.location());
            if let Err(failure) = copy(target, node, &destination, &mut extraction) {
                let is_last = failure.exit().is_of_signal();
                say(&failure);
                if is_last {
                    break;
                }
            }
        }
        if let Some(shortfalls) = extraction.finish() {
            // Properties that the host did not accept are counted for the whole run.
            let one = targets.first().filter(|first| {
                targets.iter().all(|other| other.volume.path() == first.volume.path())
            });
            say(&match one {
                Some(target) => target.volume.whole_failure(shortfalls),
                None => shortfalls,
            });
        }
        Ok(console.borrow_mut().conclude()?)
    }
}

/// Returns the expected amount of work, for the progress display.
fn measure(targets: &[ImagePath], is_recursive: bool) -> Measure {
    match is_recursive {
        true => Measure::of_targets(targets, Measure::of_volume),
        false => Measure::of_files(targets),
    }
}

/// Returns the inode space of `target`. All targets in one image have the same space. The number of
/// the space is the index in `targets` of the first target in the image.
fn origin(target: &ImagePath, targets: &[ImagePath]) -> InodeSpace {
    let is_same = |other: &ImagePath| other.volume.path() == target.volume.path();
    InodeSpace(targets.iter().position(is_same).unwrap_or_default())
}

fn copy(
    target: &ImagePath,
    node: Node,
    destination: &Destination,
    extraction: &mut HostWriter<'_>,
) -> Result<(), Failure> {
    let is_directory = node::kind(node.file_type()) == FileKind::Directory;
    let path = target.path.as_os_str().as_bytes();
    let source = NodeSource::new(node).map_err(|failure| target.failure(failure))?;
    match destination {
        Destination::Stdout | Destination::Output(_) => Ok(()),
        Destination::Name(_, name) => extraction.copy(source, name.as_bytes()),
        Destination::Into(_) => match last_component(path) {
            b"/" | b"." | b".." if is_directory => extraction.copy_contents(source),
            name => extraction.copy(source, name),
        },
    }
}

fn refuse_directory(target: &ImagePath, node: &Node, is_recursive: bool) -> Result<(), Failure> {
    match node::kind(node.file_type()) {
        FileKind::Regular => Ok(()),
        _ if is_recursive => Ok(()),
        kind => Err(target.failure(only_files(kind))),
    }
}

/// Fails if the file is no directory but the destination ends in a slash (`is_directory`).
fn check_name(node: &Node, destination: &Destination, is_directory: bool) -> Result<(), Failure> {
    match destination {
        Destination::Name(_, name)
            if is_directory && node::kind(node.file_type()) != FileKind::Directory =>
        {
            Err(no_directory(&Path::new(name).join("").into_os_string()))
        }
        _ => Ok(()),
    }
}

pub(crate) fn only_files(kind: FileKind) -> Failure {
    let message = format!("is a {}, and only regular files are copied", kind.name());
    Failure::new(Exit::Failed, message).hint("copy everything with -a, or trees with -r")
}
