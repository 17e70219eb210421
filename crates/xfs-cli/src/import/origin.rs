//! The origin of imported files: a tree of the host, an archive, or a prototype file.
//!
//! Owns: the choice among the three, by the arguments and the first bytes. Does **not** own: the
//! order in which the members of an archive become files ([`Unpacker`]), or how one file is written
//! ([`ImageWriter`]).

use std::fs::File;
use std::io::{self, BufReader, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ferroxfs::Node;

use super::unpack::Unpacker;
use crate::cli::ArchiveOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::source::Source;
use crate::import::archive::ArchiveReader;
use crate::import::decompress::Input;
use crate::import::host::HostSource;
use crate::import::prototype::{PrototypeOptions, PrototypeSource};
use crate::import::writer::ImageWriter;
use crate::input::{self, Spool};
use crate::terminal::names;
use crate::terminal::tally::{Gauge, Measure};

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

/// The origin of imported files.
pub(crate) enum ImportOrigin {
    /// A directory of the host, whose contents are imported.
    Tree(HostSource),
    /// An archive. The gauge shows how much of the archive has been read, if its length is known.
    Archive(Box<ArchiveReader>, ArchiveOptions, Option<Gauge>),
    /// The tree that a prototype file describes.
    Prototype(PrototypeSource),
}

impl ImportOrigin {
    /// Opens the directory or the archive at `path`; `-` is an archive on standard input. `keeping`
    /// says how a pipe is read. Input that does not start like an archive is refused here, before
    /// anything is created for it.
    pub(crate) fn open(
        path: &Path,
        keeping: PipeReading,
        options: ArchiveOptions,
    ) -> Result<Self, Failure> {
        if path == Path::new("-") {
            if io::stdin().is_terminal() {
                return Err(Failure::usage("an archive cannot be read from a terminal"));
            }
            let name = "standard input";
            let failed = |error| Failure::new(Exit::Failed, format!("{name}: {error}"));
            let input = input::open().map_err(failed)?;
            // A regular file is complete.
            let is_file = input.metadata().map_err(failed)?.is_file();
            let keeping = if is_file { PipeReading::Stream } else { keeping };
            return Self::archive(keeping.of(input, name)?, None, name.as_bytes(), options);
        }
        let source = HostSource::open(path, true)?;
        match source.facts().kind() {
            FileKind::Directory => Ok(Self::Tree(source)),
            FileKind::Regular | FileKind::Fifo => {
                let name = path.as_os_str();
                let file = File::open(path).map_err(|error| Failure::host(name, &error))?;
                if source.facts().kind() == FileKind::Fifo {
                    let input = keeping.of(file, &names::in_message(name.as_bytes()))?;
                    return Self::archive(input, None, name.as_bytes(), options);
                }
                let gauge = Gauge::new(file.metadata().map_or(0, |metadata| metadata.len()));
                let input = BufReader::with_capacity(CHUNK_BYTES, gauge.follow(file));
                Self::archive(Box::new(input), Some(gauge), name.as_bytes(), options)
            }
            kind => {
                let shown = names::in_message(path.as_os_str().as_bytes());
                let message = format!("{shown}: is a {}, not a directory or archive", kind.name());
                Err(Failure::new(Exit::Failed, message))
            }
        }
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

    /// Returns the expected amount of work, for the progress display.
    pub(crate) fn measure(&self) -> Measure {
        match self {
            Self::Archive(_, _, Some(gauge)) => Measure::Input(gauge.clone()),
            Self::Archive(_, _, None) | Self::Tree(_) | Self::Prototype(_) => Measure::Unknown,
        }
    }

    /// Opens the argument of `-p` of mkfs.xfs, which is a directory or a prototype file.
    pub(crate) fn open_prototype(path: &Path, reading: PrototypeOptions) -> Result<Self, Failure> {
        match path.is_dir() {
            true => Self::open(path, PipeReading::Stream, ArchiveOptions::default()),
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

    /// Writes all files of the origin into a directory of the image.
    ///
    /// # Errors
    ///
    /// Failures that would repeat for every further file.
    pub(crate) fn fill(self, directory: Node, writer: &mut ImageWriter<'_>) -> Result<(), Failure> {
        let filled = match self {
            Self::Tree(source) => writer.put_contents(directory, source),
            Self::Prototype(source) => writer.put_contents(directory, source),
            Self::Archive(archive, options, _) => {
                writer.cross_kinds();
                Unpacker::new(directory, writer, options.keep_directory_symlink).fill(*archive)
            }
        };
        filled.and(writer.seal())
    }
}
