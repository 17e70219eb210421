//! The origin of imported files: a tree of the host, an archive, a container image, or a prototype
//! file.
//!
//! Owns: the choice among them, by the arguments and the first bytes. Does **not** own: the
//! order in which the members of an archive become files ([`Unpacker`]), or how one file is written
//! ([`ImageWriter`]).

use std::fs::File;
use std::io::{self, BufReader, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use ferroxfs::Node;

use super::unpack::Unpacker;
use crate::cli::ArchiveOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::source::Source;
use crate::import::ahead::AheadSource;
use crate::import::archive::ArchiveReader;
use crate::import::census::Census;
use crate::import::container::{ContainerAddress, ContainerImage, Platform};
use crate::import::decompress::Input;
use crate::import::host::HostSource;
use crate::import::policy::Policy;
use crate::import::prototype::{PrototypeOptions, PrototypeSource};
use crate::import::writer::ImageWriter;
use crate::input::{self, Spool, SpoolReader};
use crate::terminal::names;
use crate::terminal::tally::Gauge;

/// The size of one read of an archive, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// How an archive is read from a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipeReading {
    /// The pipe is read piece by piece, during the import. The program that writes the pipe must
    /// not use the image.
    Stream,
    /// The pipe is read to its end before the image is locked. So the program that writes the pipe
    /// may read the same image.
    Whole,
}

impl PipeReading {
    fn of(self, pipe: File, name: &str) -> Result<Input, Failure> {
        match self {
            Self::Stream => Ok(Box::new(BufReader::with_capacity(CHUNK_BYTES, pipe))),
            Self::Whole => {
                let spool = Spool::read(pipe, name)?.into_reader();
                Ok(Box::new(BufReader::with_capacity(CHUNK_BYTES, spool)))
            }
        }
    }
}

/// Returns whether the source that the user names is standard input.
pub(crate) fn is_standard_input(source: &Path) -> bool {
    source == Path::new("-")
        || ContainerAddress::parse(source).is_some_and(|address| address.is_standard_input())
}

/// Returns whether the source that the user names is a named pipe, which can be read once.
pub(crate) fn is_named_pipe(source: &Path) -> bool {
    let address = ContainerAddress::parse(source);
    let path = address.as_ref().map_or(source, |address| &address.path);
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// The origin of imported files.
pub(crate) enum ImportOrigin {
    /// A directory of the host, whose contents are imported.
    Tree(HostSource),
    /// An archive. The gauge shows how much of the archive has been read, if its length is known.
    Archive(Box<ArchiveReader>, ArchiveOptions, Option<Gauge>),
    /// A container image, whose layers are imported.
    Container(ContainerImage, ArchiveOptions),
    /// The tree that a prototype file describes.
    Prototype(PrototypeSource),
}

/// How sources are read.
#[derive(Clone)]
pub(crate) struct SourceReading {
    /// How a pipe is read.
    pub(crate) pipes: PipeReading,
    pub(crate) archive: ArchiveOptions,
    /// The platform of a container image; `None` for that of this machine.
    pub(crate) platform: Option<Platform>,
    /// The files that are copied.
    pub(crate) policy: Rc<Policy>,
    /// The directory with the objects of a dump of composefs.
    pub(crate) objects: Option<PathBuf>,
    /// Standard input, if it has been read to its end already.
    pub(crate) standard_input: Option<Arc<Spool>>,
}

impl ImportOrigin {
    /// Opens the directory, the archive or the container image at `path`; `-` is an archive on
    /// standard input. Input that does not start like an archive is refused here, before anything
    /// is created for it.
    pub(crate) fn open(path: &Path, reading: &SourceReading) -> Result<Self, Failure> {
        let &SourceReading { pipes, archive: options, ref platform, ref policy, .. } = reading;
        let objects = reading.objects.as_deref();
        if let Some(address) = ContainerAddress::parse(path) {
            let spool = reading.standard_input.as_ref();
            let image = ContainerImage::open(&address, platform.as_ref(), spool)?;
            return Ok(Self::Container(image, options));
        }
        if path == Path::new("-") {
            return Self::standard_input(reading);
        }
        let source = HostSource::open(path, true)?;
        match source.facts().kind() {
            FileKind::Directory => Ok(Self::Tree(source.filtered(&policy.filter))),
            FileKind::Regular | FileKind::Fifo => {
                let name = path.as_os_str();
                let file = File::open(path).map_err(|error| Failure::host(name, &error))?;
                if source.facts().kind() == FileKind::Fifo {
                    let input = pipes.of(file, &names::in_message(name.as_bytes()))?;
                    return Self::archive(input, None, name.as_bytes(), options)?
                        .with_objects(objects);
                }
                let gauge = Gauge::new(file.metadata().map_or(0, |metadata| metadata.len()));
                let input = BufReader::with_capacity(CHUNK_BYTES, gauge.follow(file));
                Self::archive(Box::new(input), Some(gauge), name.as_bytes(), options)?
                    .with_objects(objects)
            }
            kind => {
                let shown = names::in_message(path.as_os_str().as_bytes());
                let message = format!("{shown}: is a {}, not a directory or archive", kind.name());
                Err(Failure::new(Exit::Failed, message))
            }
        }
    }

    /// Opens the archive on standard input.
    fn standard_input(reading: &SourceReading) -> Result<Self, Failure> {
        if io::stdin().is_terminal() {
            return Err(Failure::usage("an archive cannot be read from a terminal"));
        }
        let (name, objects) = ("standard input", reading.objects.as_deref());
        if let Some(spool) = &reading.standard_input {
            let input = Box::new(SpoolReader::new(Arc::clone(spool)));
            return Self::archive(input, None, name.as_bytes(), reading.archive)?
                .with_objects(objects);
        }
        let failed = |error| Failure::new(Exit::Failed, format!("{name}: {error}"));
        let input = input::open().map_err(failed)?;
        // A regular file is complete.
        let is_file = input.metadata().map_err(failed)?.is_file();
        let pipes = if is_file { PipeReading::Stream } else { reading.pipes };
        Self::archive(pipes.of(input, name)?, None, name.as_bytes(), reading.archive)?
            .with_objects(objects)
    }

    fn archive(
        input: Input,
        gauge: Option<Gauge>,
        name: &[u8],
        options: ArchiveOptions,
    ) -> Result<Self, Failure> {
        let archive = ArchiveReader::open(input, name, options.ignore_zeros)?;
        Ok(Self::Archive(Box::new(archive), options, gauge))
    }

    /// Sets the directory with the objects of a dump of composefs.
    fn with_objects(self, path: Option<&Path>) -> Result<Self, Failure> {
        match self {
            Self::Archive(archive, options, gauge) => {
                Ok(Self::Archive(Box::new(archive.with_objects(path)?), options, gauge))
            }
            other => Ok(other),
        }
    }

    /// Returns how much of the input has been read, for the progress display. `None` if the length
    /// of the input is unknown.
    pub(crate) fn gauge(&self) -> Option<Gauge> {
        match self {
            Self::Archive(_, _, gauge) => gauge.clone(),
            Self::Container(image, _) => Some(image.gauge()),
            Self::Tree(_) | Self::Prototype(_) => None,
        }
    }

    /// Opens the argument of `-p` of mkfs.xfs, which is a directory or a prototype file.
    pub(crate) fn open_prototype(path: &Path, reading: PrototypeOptions) -> Result<Self, Failure> {
        match path.is_dir() {
            true => Ok(Self::Tree(HostSource::open(path, true)?)),
            false => Ok(Self::Prototype(PrototypeSource::open(path, reading)?)),
        }
    }

    /// Leaves out the images `images`, to which the command writes, if they are below the directory
    /// that is read.
    pub(crate) fn without<'a>(self, images: impl IntoIterator<Item = &'a Path>) -> Self {
        match self {
            Self::Tree(source) => Self::Tree(source.without(images)),
            other => other,
        }
    }

    /// Adds the files of the origin to a census. `top` is the path in the image of the directory
    /// that they go into.
    ///
    /// # Errors
    ///
    /// An archive that cannot be read.
    pub(crate) fn count(
        self,
        top: &[u8],
        census: &mut Census,
        policy: &Policy,
    ) -> Result<(), Failure> {
        match self {
            Self::Tree(source) => census.add_tree(top, &source, policy),
            Self::Prototype(source) => census.add_tree(top, &source, policy),
            Self::Archive(mut archive, ..) => {
                census.add_archive(top, &mut archive, policy, false)?;
            }
            Self::Container(image, _) => {
                for number in 0..image.layer_count() {
                    let mut layer = image.open_layer(number)?;
                    census.add_archive(top, &mut layer, policy, true)?;
                    census.end_layer();
                }
            }
        }
        census.end_layer();
        Ok(())
    }

    /// Returns whether the origin is made of layers that hide files of each other.
    pub(crate) fn has_layers(&self) -> bool {
        matches!(self, Self::Container(..))
    }

    /// Writes all files of the origin into a directory of the image. After the last origin, the
    /// caller calls [`ImageWriter::seal`].
    ///
    /// # Errors
    ///
    /// Failures that would repeat for every further file.
    pub(crate) fn fill(self, directory: Node, writer: &mut ImageWriter<'_>) -> Result<(), Failure> {
        match self {
            Self::Tree(source) => {
                let source = AheadSource::start(source, writer.holes_of_host())?;
                writer.put_contents(directory, source)
            }
            Self::Prototype(source) => writer.put_contents(directory, source),
            Self::Archive(archive, options, gauge) => {
                writer.cross_kinds();
                Unpacker::new(directory, writer, options.keep_directory_symlink)
                    .with_stream(gauge.is_none())
                    .fill(*archive)
            }
            Self::Container(image, options) => {
                for number in 0..image.layer_count() {
                    writer.begin_layer()?;
                    let layer = image.open_layer(number)?;
                    Unpacker::new(directory.clone(), writer, options.keep_directory_symlink)
                        .with_whiteouts()
                        .fill(layer)?;
                }
                Ok(())
            }
        }
    }
}
