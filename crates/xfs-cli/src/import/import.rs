//! `import`: copies a tree of the host, or an archive, into an image.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use ferroxfs::{Error, FileType, Node, PosixError};

use crate::cli::{GlobalOptions, ImportArguments};
use crate::failure::Failure;
use crate::image::address::Address;
use crate::image::{ImagePath, ImagePaths, change_all};
use crate::import::census::Census;
use crate::import::container::Platform;
use crate::import::origin::{
    ImportOrigin, PipeReading, SourceReading, is_named_pipe, is_standard_input,
};
use crate::import::policy::Policy;
use crate::import::policy::id_tables::IdTables;
use crate::import::sources::ImportSources;
use crate::import::tables_of_image;
use crate::import::writer::{ImageWriter, WriterOptions};
use crate::input;
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::tally::Work;
use crate::text::time::source_date_epoch;

struct Import {
    sources: ImportSources,
    /// The name of the source, and how it is read, to measure it after a failure for lack of space.
    source: PathBuf,
    reading: SourceReading,
    policy: Rc<Policy>,
    targets: ImagePaths,
    writer_options: WriterOptions,
}

/// Opens the source, then the image for writing, and returns the command, ready to run. Input from
/// a pipe is read to its end before the image is opened.
pub(crate) fn open(
    arguments: &ImportArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = Address::parse(&arguments.address, options.image.as_deref())?.image;
    let images = std::iter::once(image.as_path()).chain(options.other_devices());
    let images: Vec<&Path> = images.collect();
    let latest = source_date_epoch()?;
    let platform = arguments.policy.platform.as_deref().map(Platform::parse).transpose()?;
    let reads_twice = arguments.policy.passwd_from_image;
    let standard_input = match reads_twice && is_standard_input(&arguments.source) {
        true => Some(Arc::new(input::standard_input()?)),
        false => None,
    };
    let mut reading = SourceReading {
        pipes: PipeReading::Whole,
        archive: arguments.archive,
        platform,
        policy: Rc::default(),
        objects: arguments.policy.composefs_objects.clone(),
        standard_input,
    };
    let open = |reading: &SourceReading| {
        Ok(ImportSources::one(ImportOrigin::open(&arguments.source, reading)?))
    };
    let tables = if reads_twice {
        if is_named_pipe(&arguments.source) {
            let message = "--passwd-from-image reads the source twice, and a pipe only once";
            return Err(Failure::usage(message).hint("write the archive to a file first"));
        }
        tables_of_image(&arguments.policy, |policy| {
            open(&SourceReading { policy: Rc::clone(policy), ..reading.clone() })
        })?
    } else {
        IdTables::of_options(&arguments.policy)?
    };
    let policy = Rc::new(Policy::parse(&arguments.policy, latest.is_some(), &tables)?);
    reading.policy = Rc::clone(&policy);
    let sources = open(&reading)?;
    let sources = sources.without(&images);
    let writer_options = WriterOptions::faithful(arguments.all_root, latest);
    let words = std::slice::from_ref(&arguments.address);
    let targets = ImagePaths::open_for_writing(words, options)?;
    let source = arguments.source.clone();
    Ok(Box::new(Import { sources, source, reading, policy, targets, writer_options }))
}

impl Run for Import {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { sources, source, reading, policy, targets, writer_options } = *self;
        change_all(targets, console, |targets, console| {
            let [target] = targets else { return Ok(()) };
            let work = Work::copy("importing", "imported", sources.measure());
            let tally = console.begin(work);
            let missing = missing(target);
            let mut report =
                |failure: Failure| console.report(&target.volume.whole_failure(failure));
            let mut writer = ImageWriter::new(writer_options, &mut report)
                .counted_by(&tally)
                .governed_by(&policy);
            writer.start_at(target.path.as_os_str().as_bytes());
            if sources.is_tree() {
                // The members of an archive have names of their own.
                writer.name_directory(target.path.as_os_str().as_bytes());
            }
            let whole = |failure| target.volume.whole_failure(failure);
            let filled = directory_at(target)
                .and_then(|directory| sources.fill(&directory, &mut writer).map_err(whole));
            let filled = filled.map_err(|failure| match failure.is_of_room() {
                true => with_need(failure, &source, &reading, target),
                false => failure,
            });
            if filled.is_err() {
                // Directories that are not empty stay.
                let volume = target.volume.inner();
                let _ = missing.into_iter().try_for_each(|path| volume.remove_dir(path));
            }
            filled
        })?;
        Ok(console.conclude()?)
    }
}

/// Adds to a failure for lack of space how much space the source needs, if it can be read again.
fn with_need(
    failure: Failure,
    source: &Path,
    reading: &SourceReading,
    target: &ImagePath,
) -> Failure {
    if is_standard_input(source) || is_named_pipe(source) {
        return failure;
    }
    let counted = ImportOrigin::open(source, reading).and_then(|origin| {
        let superblock = target.volume.inner().superblock();
        let mut census = Census::new(superblock, origin.has_layers());
        origin.without([target.volume.path()]).count(b"", &mut census, &reading.policy)?;
        Ok(census)
    });
    // The failure itself is what the user needs to know.
    match counted {
        Ok(census) => census.explain(failure),
        Err(_) => failure,
    }
}

/// Returns the directories that must be created for this path, the deepest first.
fn missing(target: &ImagePath) -> Vec<&Path> {
    let volume = target.volume.inner();
    let is_missing =
        |path: &&Path| matches!(volume.lookup(path), Err(Error::Posix(PosixError::NotFound)));
    target.path.ancestors().take_while(is_missing).collect()
}

/// Returns the directory at a path. A directory that does not exist is created.
fn directory_at(target: &ImagePath) -> Result<Node, Failure> {
    let volume = target.volume.inner();
    let found = match volume.lookup(&target.path) {
        Err(Error::Posix(PosixError::NotFound)) => {
            volume.create_dir_all(&target.path).and_then(|()| volume.lookup(&target.path))
        }
        found => found,
    };
    let node = found.map_err(|error| target.failure(error))?;
    match node.file_type() {
        FileType::Directory => Ok(node),
        _ => Err(target.failure(PosixError::NotDirectory)),
    }
}
