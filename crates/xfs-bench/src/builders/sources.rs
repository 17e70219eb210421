//! The sources of the images: an archive, directories, and a container image.
//!
//! Sources that take long to make are kept in the folder of the benchmark. A file `NAME.complete`
//! beside one says that it is whole.

mod layers;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::{Path, PathBuf};

use super::{Arguments, NOBODY};
use crate::error::BenchError;

/// The kinds of workloads, in the order of the tables.
pub(super) const KINDS: [Kind; 5] =
    [Kind::Archive, Kind::Directory, Kind::Image, Kind::Tiny, Kind::Sparse];

/// One kind of workload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Archive,
    Directory,
    Image,
    Tiny,
    Sparse,
}

impl Kind {
    /// Returns the word of the option `--only`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Directory => "directory",
            Self::Image => "image",
            Self::Tiny => "tiny",
            Self::Sparse => "sparse",
        }
    }
}

/// The source that a program reads.
pub(super) enum Source {
    Directory(PathBuf),
    /// A tar archive without compression.
    Archive(PathBuf),
    /// A container image in the layout of OCI, and its layers in order.
    Image {
        layout: PathBuf,
        layers: Vec<PathBuf>,
    },
}

/// A source with the size of the volume for it.
pub(super) struct Workload {
    pub(super) title: String,
    pub(super) source: Source,
    /// Number of names in the source, or in all layers of a container image.
    pub(super) names: u64,
    /// The size of the volume, for programs that need one.
    pub(super) volume_bytes: u64,
}

/// Files and directories, and the space of their contents.
#[derive(Clone, Copy, Default)]
pub(super) struct Extent {
    pub(super) names: u64,
    pub(super) bytes: u64,
}

const BLOCK_BYTES: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Room in a volume for the log and for metadata.
const ROOM_BYTES: u64 = 640 * MIB;
/// Room for each inode and its name. mke2fs gives each file an inode of 256 bytes and at least one
/// block.
const ROOM_PER_NAME: u64 = 2048;
const TINY_PER_DIRECTORY: u64 = 1000;
const SPARSE_BYTES: u64 = 8 << 30;
const SPARSE_STEP: u64 = 64 * MIB;

/// Makes the workloads.
pub(super) struct Sources<'a> {
    arguments: &'a Arguments,
}

impl<'a> Sources<'a> {
    pub(super) fn new(arguments: &'a Arguments) -> Self {
        Self { arguments }
    }

    /// Makes one workload, or returns the reason why it is left out.
    pub(super) fn make(&self, kind: Kind) -> Result<Result<Workload, String>, BenchError> {
        fs::create_dir_all(&self.arguments.folder)
            .map_err(BenchError::file(&self.arguments.folder))?;
        let archive = self.arguments.archive.as_deref();
        match (kind, archive) {
            (Kind::Archive | Kind::Image, None) => {
                Ok(Err("--archive names no archive of a root filesystem".to_owned()))
            }
            (Kind::Archive, Some(archive)) => {
                let extent = layers::extent_of_archive(archive)?;
                Ok(Ok(workload("archive of a root filesystem", extent, Source::Archive, archive)))
            }
            (Kind::Image, Some(archive)) => self.image(archive).map(Ok),
            (Kind::Directory, _) => self.directory("directory", &self.arguments.tree).map(Ok),
            (Kind::Tiny, _) => {
                let tree = self.tiny()?;
                self.directory("tiny files", &tree).map(Ok)
            }
            (Kind::Sparse, _) => {
                let tree = self.sparse()?;
                self.directory("one sparse file", &tree).map(Ok)
            }
        }
    }

    /// Makes a small directory in `folder`, to see whether a program needs rights.
    pub(super) fn probe(&self, folder: &Path) -> Result<Workload, BenchError> {
        let tree = folder.join("probe-source");
        fs::create_dir(&tree).map_err(BenchError::file(&tree))?;
        super::outcome::open_to_all(&tree)?;
        let file = tree.join("file");
        fs::write(&file, "a file\n").map_err(BenchError::file(&file))?;
        // mkfs.xfs opens sources in a way that only their owner may.
        for path in [&tree, &file] {
            chown(path, Some(NOBODY), Some(NOBODY)).map_err(BenchError::file(path))?;
        }
        self.directory("probe", &tree)
    }

    fn directory(&self, title: &str, tree: &Path) -> Result<Workload, BenchError> {
        let mut extent = Extent::default();
        measure_tree(tree, &mut extent)?;
        Ok(workload(title, extent, Source::Directory, tree))
    }

    fn image(&self, archive: &Path) -> Result<Workload, BenchError> {
        let layout = self.arguments.folder.join("image");
        let image = match is_complete(&layout)? {
            true => layers::read(&layout)?,
            false => {
                begin(&layout)?;
                let image = layers::make(&layout, archive)?;
                complete(&layout)?;
                image
            }
        };
        let source = |layout| Source::Image { layout, layers: image.layers.clone() };
        Ok(workload("container image of 12 layers", image.extent, source, &layout))
    }

    /// Makes the directory of many small files, with 1,000 of them in each of its directories.
    fn tiny(&self) -> Result<PathBuf, BenchError> {
        let tree = self.arguments.folder.join(format!("tiny-{}", self.arguments.files));
        if is_complete(&tree)? {
            return Ok(tree);
        }
        begin(&tree)?;
        let mut directory = tree.clone();
        for number in 0..self.arguments.files {
            let (index, place) = (number / TINY_PER_DIRECTORY, number % TINY_PER_DIRECTORY);
            if place == 0 {
                directory = tree.join(format!("d{index:05}"));
                fs::create_dir(&directory).map_err(BenchError::file(&directory))?;
            }
            let file = directory.join(format!("file-{place:03}"));
            let contents = format!("file {number}\n").repeat(1 + usize::from(number % 7 == 0) * 9);
            fs::write(&file, contents).map_err(BenchError::file(&file))?;
        }
        complete(&tree)?;
        Ok(tree)
    }

    /// Makes the directory with one file of 8 GiB, which has 4 KiB of data in each 64 MiB.
    fn sparse(&self) -> Result<PathBuf, BenchError> {
        let tree = self.arguments.folder.join("sparse");
        if is_complete(&tree)? {
            return Ok(tree);
        }
        begin(&tree)?;
        let path = tree.join("file");
        let file = fs::File::create(&path).map_err(BenchError::file(&path))?;
        file.set_len(SPARSE_BYTES).map_err(BenchError::file(&path))?;
        for step in 0..SPARSE_BYTES / SPARSE_STEP {
            let byte = u8::try_from(step % 251).unwrap_or_default() + 1;
            let piece = vec![byte; usize::try_from(BLOCK_BYTES).unwrap_or_default()];
            file.write_all_at(&piece, step * SPARSE_STEP).map_err(BenchError::file(&path))?;
        }
        complete(&tree)?;
        Ok(tree)
    }
}

fn workload(
    title: &str,
    extent: Extent,
    source: impl FnOnce(PathBuf) -> Source,
    path: &Path,
) -> Workload {
    let Extent { names, bytes } = extent;
    let volume_bytes = bytes + bytes / 8 + names * ROOM_PER_NAME + ROOM_BYTES;
    Workload {
        title: format!("{title}: {names} names, {} MB", bytes / 1_000_000),
        source: source(path.to_owned()),
        names,
        // A whole number of MiB: all programs take it.
        volume_bytes: volume_bytes.next_multiple_of(MIB),
    }
}

/// Adds the names below a directory, without its own, and the space of their contents.
fn measure_tree(directory: &Path, extent: &mut Extent) -> Result<(), BenchError> {
    let error = || BenchError::file(directory);
    for entry in fs::read_dir(directory).map_err(error())? {
        let entry = entry.map_err(error())?;
        let metadata = entry.metadata().map_err(error())?;
        extent.names += 1;
        extent.bytes += match metadata.is_file() {
            true => metadata.size().next_multiple_of(BLOCK_BYTES).min(metadata.blocks() * 512),
            false => 0,
        };
        if metadata.is_dir() {
            measure_tree(&entry.path(), extent)?;
        }
    }
    Ok(())
}

/// Returns whether an earlier run has made this source.
fn is_complete(source: &Path) -> Result<bool, BenchError> {
    let mark = source.with_extension("complete");
    mark.try_exists().map_err(BenchError::file(&mark))
}

/// Removes an incomplete source, and makes its directory.
fn begin(source: &Path) -> Result<(), BenchError> {
    crate::populate::clear(source)?;
    fs::create_dir(source).map_err(BenchError::file(source))
}

fn complete(source: &Path) -> Result<(), BenchError> {
    let mark = source.with_extension("complete");
    fs::write(&mark, "").map_err(BenchError::file(&mark))
}
