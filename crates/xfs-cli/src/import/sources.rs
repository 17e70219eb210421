//! The sources of one run, in order, and the places in the image where their files go.
//!
//! Owns: the order, and when sources are layers. Does **not** own: reading one source
//! ([`ImportOrigin`]).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferroxfs::Node;

use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::source::{InodeSpace, Source, join};
use crate::import::census::Census;
use crate::import::host::HostSource;
use crate::import::origin::{ImportOrigin, SourceReading, is_standard_input};
use crate::import::policy::Policy;
use crate::import::unpack::make_directories;
use crate::import::writer::{ImageWriter, WriteFailure};
use crate::terminal::names;
use crate::terminal::tally::Measure;

/// The sources of one run, in the order in which they are written.
pub(crate) struct ImportSources {
    sources: Vec<PlacedSource>,
}

/// A source, and the place in the image where its files go.
enum PlacedSource {
    /// The contents of the source go into this directory of the image.
    Contents { origin: ImportOrigin, directory: Vec<u8> },
    /// The file goes to this path of the image.
    File { source: HostSource, path: Vec<u8> },
}

impl ImportSources {
    /// Opens the sources `from`, whose contents go into the top directory, and then the additions,
    /// each as `SOURCE:DEST`.
    ///
    /// # Errors
    ///
    /// A source that cannot be read, or an invalid addition.
    pub(crate) fn open(
        from: &[PathBuf],
        additions: &[OsString],
        reading: &SourceReading,
    ) -> Result<Self, Failure> {
        if from.iter().filter(|path| is_standard_input(path)).count() > 1 {
            return Err(Failure::usage("--from -: standard input is read once, not twice"));
        }
        let contents = from.iter().map(|path| {
            let origin = ImportOrigin::open(path, reading)?;
            Ok(PlacedSource::Contents { origin, directory: Vec::new() })
        });
        let additions = additions.iter().map(|text| PlacedSource::added(text, reading));
        Ok(Self { sources: contents.chain(additions).collect::<Result<_, Failure>>()? })
    }

    /// Returns the sources that consist of one source for the top directory.
    pub(crate) fn one(origin: ImportOrigin) -> Self {
        Self { sources: vec![PlacedSource::Contents { origin, directory: Vec::new() }] }
    }

    /// Returns whether there is no source.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns whether the only source is a tree of the host.
    pub(crate) fn is_tree(&self) -> bool {
        matches!(
            self.sources.as_slice(),
            [PlacedSource::Contents { origin: ImportOrigin::Tree(_), .. }]
        )
    }

    /// Returns whether a source may remove files of an earlier one.
    pub(crate) fn are_layers(&self) -> bool {
        self.sources.len() > 1
            || self.sources.iter().any(|source| match source {
                PlacedSource::Contents { origin, .. } => origin.has_layers(),
                PlacedSource::File { .. } => false,
            })
    }

    /// Returns the expected amount of work, for the progress display.
    pub(crate) fn measure(&self) -> Measure {
        let gauges = self.sources.iter().map(|source| match source {
            PlacedSource::Contents { origin, .. } => origin.gauge(),
            PlacedSource::File { .. } => None,
        });
        gauges.collect::<Option<Vec<_>>>().map_or(Measure::Unknown, Measure::Inputs)
    }

    /// Adds the files of all sources to a census.
    ///
    /// # Errors
    ///
    /// An archive that cannot be read.
    pub(crate) fn count(self, census: &mut Census, policy: &Policy) -> Result<(), Failure> {
        for source in self.sources {
            match source {
                PlacedSource::Contents { origin, directory } => {
                    let top = directory.strip_suffix(b"/").unwrap_or(&directory);
                    origin.count(top, census, policy)?;
                }
                PlacedSource::File { source, path } if !source.is_left_out() => {
                    census.add_file(&path, &source);
                }
                PlacedSource::File { .. } => {}
            }
        }
        Ok(())
    }

    /// Leaves out the images `images`, to which the command writes.
    pub(crate) fn without(self, images: &[&Path]) -> Self {
        let sources = self.sources.into_iter().map(|source| match source {
            PlacedSource::Contents { origin, directory } => {
                let origin = origin.without(images.iter().copied());
                PlacedSource::Contents { origin, directory }
            }
            PlacedSource::File { source, path } => {
                PlacedSource::File { source: source.without(images.iter().copied()), path }
            }
        });
        Self { sources: sources.collect() }
    }

    /// Writes the files of all sources into the directory `top` of the image, and calls
    /// [`ImageWriter::seal`] at the end.
    ///
    /// # Errors
    ///
    /// Failures that would repeat for every further file.
    pub(crate) fn fill(self, top: &Node, writer: &mut ImageWriter<'_>) -> Result<(), Failure> {
        let are_layers = self.are_layers();
        let base = writer.base().to_vec();
        writer.label_top(top)?;
        let mut filled = Ok(());
        for (number, source) in self.sources.into_iter().enumerate() {
            writer.start_source(InodeSpace(number), None);
            if are_layers {
                filled = writer.begin_layer();
            }
            filled = filled.and_then(|()| source.fill(top, &base, writer));
            if filled.is_err() {
                break;
            }
        }
        filled.and(writer.seal())?;
        writer.report_unused();
        Ok(())
    }
}

impl PlacedSource {
    /// Opens an addition, given as `SOURCE:DEST`. The contents of a directory go into the directory
    /// DEST; another file goes to DEST, or below it if DEST ends with a slash.
    fn added(text: &OsStr, reading: &SourceReading) -> Result<Self, Failure> {
        let bytes = text.as_bytes();
        let colon = bytes.iter().rposition(|byte| *byte == b':');
        let parts = colon.and_then(|at| Some((bytes.get(..at)?, bytes.get(at + 1..)?)));
        let usage = |message: &str| {
            Failure::usage(format!("--add {}: {message}", names::in_message(bytes)))
        };
        let Some((from, to)) = parts.filter(|(from, to)| !from.is_empty() && !to.is_empty()) else {
            return Err(usage("is not SOURCE:DEST"));
        };
        if to.split(|byte| *byte == b'/').any(|part| part == b"..") {
            return Err(usage("DEST must not contain \"..\""));
        }
        let path = Path::new(OsStr::from_bytes(from));
        let source = HostSource::open(path, true)?;
        match source.facts().kind() {
            FileKind::Directory => {
                let origin = ImportOrigin::Tree(source.filtered(&reading.policy.filter));
                Ok(Self::Contents { origin, directory: to.to_vec() })
            }
            _ if to.ends_with(b"/") => {
                let name = path.file_name().ok_or_else(|| usage("SOURCE has no name"))?;
                Ok(Self::File { source, path: join(to, name.as_bytes()) })
            }
            _ => Ok(Self::File { source, path: to.to_vec() }),
        }
    }

    /// Writes the source below the directory `top`, whose path in the image is `base`.
    fn fill(self, top: &Node, base: &[u8], writer: &mut ImageWriter<'_>) -> Result<(), Failure> {
        let (above, name) = match &self {
            Self::Contents { directory, .. } => (directory.as_slice(), None),
            Self::File { path, .. } => {
                let at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
                (path.get(..at).unwrap_or_default(), path.get(at..))
            }
        };
        let (above, name) = (above.to_vec(), name.map(<[u8]>::to_vec));
        writer.start_at(base);
        let made = make_directories(top, writer, &above);
        let Some(directory) = writer.check(&above, made)? else { return Ok(()) };
        writer.start_at(&join(base, &above));
        let filled = match (self, name) {
            (Self::Contents { origin, .. }, _) => origin.fill(directory, writer),
            (Self::File { source, .. }, name) if source.is_left_out() => {
                let left_out = Err::<(), _>(WriteFailure::One(source.leaving_out()));
                writer.check(&name.unwrap_or_default(), left_out).map(drop)
            }
            (Self::File { source, .. }, name) => {
                writer.put(&directory, &name.unwrap_or_default(), source)
            }
        };
        writer.start_at(base);
        filled
    }
}

/// Returns the failure of a command that needs a source and has none. `option` is the option with
/// which a source is given.
pub(crate) fn no_source(option: &str) -> Failure {
    Failure::usage(format!("{option} needs a source of files"))
        .hint("--from, --add and -p name sources")
}
