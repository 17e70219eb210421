//! Paths in images: resolving the paths to files, and changing these files.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use ferroxfs::{File, FileType, Node, PosixError};

use super::{Image, ImageVolume, hints};
use crate::cli::options::GlobalOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::node;
use crate::file::source::SourceLocation;
use crate::image::address::Address;
use crate::image::address::last_component;
use crate::interrupt;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::Work;

/// The largest number of symbolic links that one path may lead through, as in Linux.
const MAX_LINKS: usize = 40;

/// A path inside a volume.
pub(crate) struct ImagePath {
    /// The volume that the path is in.
    pub(crate) volume: ImageVolume,
    /// The path inside the volume.
    pub(crate) path: PathBuf,
    /// The text in front of printed paths: the image and a colon if the command reads several
    /// images, and otherwise nothing.
    pub(crate) prefix: Vec<u8>,
}

impl ImagePath {
    /// Returns the inode at the path. `follows` says whether a symbolic link at the end of the path
    /// is followed.
    pub(crate) fn node(&self, follows: bool) -> Result<Node, Failure> {
        let volume = self.volume.inner();
        let found = match follows {
            true => volume.lookup(&self.path),
            false => volume.lookup_no_follow(&self.path),
        };
        found.map_err(|error| self.failure(error))
    }

    /// Looks up the path from the metadata directory, instead of the root, and returns its inode.
    pub(crate) fn metadata_node(&self) -> Result<Node, Failure> {
        let root = self.volume.inner().metadata_root();
        let names = self.path.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        let found = names.fold(root, |node, name| node?.lookup(name));
        found.map_err(|error| self.failure(error))
    }

    /// Opens the file at the path for reading. A symbolic link at the end of the path is followed.
    pub(crate) fn open(&self) -> Result<File, Failure> {
        let node = self.node(true)?;
        match node.file_type() {
            FileType::Regular | FileType::Directory => {
                node.open_read_only().map_err(|error| self.failure(error))
            }
            other => {
                let kind = node::kind(other).name();
                let message = format!("is a {kind}, and has no contents in the image");
                Err(self.failure(Failure::new(Exit::Failed, message)))
            }
        }
    }

    /// Returns the parent directory of the path, and the last name of the path. If the path ends in
    /// a slash, it must name an existing directory.
    pub(crate) fn place(&self) -> Result<(Node, OsString), Failure> {
        self.place_of(&self.path)
    }

    /// Returns the parent directory and the last name of the path of a directory, which may not
    /// exist yet.
    pub(crate) fn place_of_directory(&self) -> Result<(Node, OsString), Failure> {
        self.split(&self.path)
    }

    /// Returns the directory and the name for a new file, if the path leads to no file. A dangling
    /// symbolic link is followed: the new file becomes its target, as with open(2).
    pub(crate) fn place_to_make(&self) -> Result<(Node, OsString), Failure> {
        let mut path = self.path.clone();
        for _ in 0..=MAX_LINKS {
            let link = match self.volume.inner().lookup_no_follow(&path) {
                Ok(node) if node.file_type() == FileType::Symlink => node,
                _ => return self.place_of(&path),
            };
            let to = link.read_link().map_err(|error| self.failure(error))?;
            if to.as_bytes().ends_with(b"/") {
                return Err(self.failure(PosixError::IsDirectory));
            }
            path = path.parent().unwrap_or(Path::new("/")).join(to);
        }
        Err(self.failure(PosixError::SymlinkLoop))
    }

    fn place_of(&self, path: &Path) -> Result<(Node, OsString), Failure> {
        let (directory, name) = self.split(path)?;
        if path.as_os_str().as_bytes().ends_with(b"/") {
            let there = directory.lookup(&name).map_err(|error| self.failure(error))?;
            if there.file_type() != FileType::Directory {
                return Err(self.failure(PosixError::NotDirectory));
            }
        }
        Ok((directory, name))
    }

    fn split(&self, path: &Path) -> Result<(Node, OsString), Failure> {
        // A path of Rust drops a dot at its end.
        if last_component(path.as_os_str().as_bytes()) == b"." {
            let failure = Failure::new(Exit::Failed, "ends in a dot, which is not a name");
            return Err(self.failure(failure.hint("write the name of the directory")));
        }
        let name = path.file_name();
        let name = name.ok_or_else(|| self.failure(PosixError::InvalidArgument))?;
        let above = path.parent().unwrap_or(Path::new("/"));
        let directory = self.volume.inner().lookup(above).map_err(|error| self.failure(error))?;
        match directory.file_type() {
            FileType::Directory => Ok((directory, name.to_owned())),
            _ => Err(self.failure(PosixError::NotDirectory)),
        }
    }

    /// Converts an error about this path to a failure that names the image and the path.
    pub(crate) fn failure(&self, error: impl Into<Failure>) -> Failure {
        self.volume.failure(self.path.as_os_str().as_bytes(), error)
    }

    /// Returns the image and the path for messages about files below this path.
    pub(crate) fn location(&self) -> SourceLocation {
        let image = names::in_message(self.volume.path.as_os_str().as_bytes()).into_owned();
        SourceLocation { image, path: self.path.as_os_str().as_bytes().to_vec() }
    }

    /// Returns the path in the form in which the command prints it, with its prefix.
    pub(crate) fn shown(&self) -> Vec<u8> {
        [&self.prefix, self.path.as_os_str().as_bytes()].concat()
    }
}

/// Paths in images. The images are open, but their volumes have not been read.
pub(crate) struct ImagePaths {
    images: HashMap<PathBuf, Image>,
    /// The external log and the realtime device, if they were named.
    other_devices: Vec<PathBuf>,
    addresses: Vec<Address>,
}

impl ImagePaths {
    /// Opens the images that the arguments name, each of them once.
    pub(crate) fn open(words: &[OsString], options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_by(Image::open, words, options)
    }

    /// Opens for writing the images that the arguments name, each of them once and with an
    /// exclusive lock.
    pub(crate) fn open_for_writing(
        words: &[OsString],
        options: &GlobalOptions,
    ) -> Result<Self, Failure> {
        Self::open_by(Image::open_for_writing, words, options)
    }

    fn open_by(
        open: impl Fn(&Path, &GlobalOptions) -> Result<Image, Failure>,
        words: &[OsString],
        options: &GlobalOptions,
    ) -> Result<Self, Failure> {
        let addresses = Address::parse_all(words, options.image.as_deref())?;
        let mut images = HashMap::new();
        for address in &addresses {
            if !images.contains_key(&address.image) {
                let image = open(&address.image, options);
                let first = addresses.first().filter(|_| !images.is_empty());
                let image = image.map_err(|failure| hints::at_colon(failure, first, address))?;
                images.insert(address.image.clone(), image);
            }
        }
        let other_devices = options.other_devices().map(Path::to_owned).collect();
        Ok(Self { images, other_devices, addresses })
    }

    /// Returns the files that the command reads: the images that the arguments name, an external
    /// log and a realtime device.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.images.keys().chain(&self.other_devices).map(PathBuf::as_path)
    }

    /// Returns the number of images.
    pub(crate) fn image_count(&self) -> usize {
        self.images.len()
    }

    /// Returns whether one of the paths is the root of its image.
    pub(crate) fn has_root(&self) -> bool {
        self.addresses.iter().any(|address| address.path.iter().all(|&byte| byte == b'/'))
    }

    /// Reads the volumes and returns the paths in them. If a volume cannot be read, the failure is
    /// reported, and its paths are left out.
    pub(crate) fn read(self, console: &mut Console) -> Vec<ImagePath> {
        let mut volumes = HashMap::new();
        for (path, image) in &self.images {
            match image.volume(console) {
                Ok(volume) => _ = volumes.insert(path, volume),
                Err(failure) => console.report(&failure),
            }
        }
        let has_several = self.images.len() > 1;
        let target = |address: &Address| {
            let prefix = match has_several {
                true => {
                    let image = xfs_image::without_credentials(&address.image);
                    [image.as_os_str().as_bytes(), b":"].concat()
                }
                false => Vec::new(),
            };
            let path = PathBuf::from(OsStr::from_bytes(&address.path));
            Some(ImagePath { volume: volumes.get(&address.image)?.clone(), path, prefix })
        };
        self.addresses.iter().filter_map(target).collect()
    }
}

/// Calls `change` for each of these paths, in order, and closes the images, so that everything is
/// durable. A failure for one path is reported, and the other files are changed.
pub(crate) fn change_each(
    targets: ImagePaths,
    console: &mut Console,
    mut change: impl FnMut(&ImagePath) -> Result<(), Failure>,
) -> Result<(), Failure> {
    change_all(targets, console, |targets, console| {
        let tally = console.begin(Work::change("changing", "changed"));
        for target in targets {
            interrupt::check()?;
            match change(target) {
                Ok(()) => tally.add_file(),
                Err(failure) => console.report(&failure),
            }
        }
        Ok(())
    })?;
    Ok(console.conclude()?)
}

/// Does the same as [`change_each`], but passes all paths to `change` in one call. The images are
/// closed even if a signal stops `change`.
pub(crate) fn change_all(
    targets: ImagePaths,
    console: &mut Console,
    change: impl FnOnce(&[ImagePath], &mut Console) -> Result<(), Failure>,
) -> Result<(), Failure> {
    interrupt::arm()?;
    interrupt::watch()?;
    let targets = targets.read(console);
    let changed = change(&targets, console);
    let changed = match targets.last() {
        Some(target) => unless_stopped(changed, &target.volume),
        None => changed,
    };
    let mut volumes: Vec<ImageVolume> = Vec::new();
    for target in targets {
        // Close each image once: the other references are clones of the first.
        if !volumes.iter().any(|volume| volume.path == target.volume.path) {
            volumes.push(target.volume);
        }
    }
    volumes.into_iter().fold(changed, |done, volume| volume.close_after(done, console))
}

/// If a signal has stopped the change, returns a failure with a hint about the state of the volume.
/// Otherwise returns `changed`, the result of the change.
fn unless_stopped(changed: Result<(), Failure>, volume: &ImageVolume) -> Result<(), Failure> {
    let is_other = changed.as_ref().is_err_and(|failure| !failure.exit().is_of_signal());
    let shown = names::in_message(volume.path.as_os_str().as_bytes());
    match interrupt::stopped(&shown) {
        Some(stopped) if !is_other => {
            Err(stopped.hint("the volume is consistent, and has all files that were complete"))
        }
        _ => changed,
    }
}
